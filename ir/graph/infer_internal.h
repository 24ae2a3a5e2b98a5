// Infers type and dims of a node from its arguments and attributes. graph.c calls it to add nodes,
// invariants.c to check them.
#ifndef IR_INFER_H
#define IR_INFER_H

#include "ir/graph/graph.h"

// Sets *type and *dims of the result. Arguments and attributes may be invalid in any way: then
// returns false, with one sentence in why[0..200).
MUST_USE bool infer(const Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr,
                    Dtype *type, Dims *dims, char *why);

#endif
