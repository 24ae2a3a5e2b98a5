// Type and dims of a node from its arguments and attributes: shared by graph.c, which adds nodes,
// and invariants.c, which proves them.
#ifndef IR_INFER_H
#define IR_INFER_H

#include "ir/graph/graph.h"

// Checks op, arguments and attributes, which may come from anywhere. False with one sentence in
// why[0..200).
MUST_USE bool infer(const Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr,
                    Dtype *type, Dims *dims, char *why);

#endif
