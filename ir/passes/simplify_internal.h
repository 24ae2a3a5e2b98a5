// State and helpers of the simplification rules. simplify.c visits the nodes; the rules are in
// simplify_point.c, simplify_dims.c, simplify_window.c and simplify_region.c.
#ifndef IR_SIMPLIFY_H
#define IR_SIMPLIFY_H

#include "ir/graph/graph.h"

// A node that is about to be added to g. Its arguments are simplified already.
typedef struct Simplify {
  Graph *g;
  const Node *n; // the node of the old graph, which gives operation, attributes, type and dims
  NodeId x[4];   // the arguments of the node, in g
  bool once;     // no other node of the old graph uses argument 0
} Simplify;

// The type of a simplification rule for the node that s describes. A rule returns a node of s->g
// with an equal value and the same type. The result may lack dims of the node; the caller
// broadcasts it. The rule returns 0 if it does not apply.
typedef NodeId SimplifyRule(Simplify *s);
SimplifyRule simplify_point; // for all pointwise ops
SimplifyRule simplify_reduce;
SimplifyRule simplify_contract;
SimplifyRule simplify_move;
SimplifyRule simplify_region;
SimplifyRule simplify_window;
// simplify_over_window and simplify_sum_of_choice are rules for windows, which simplify_point and
// simplify_reduce call (simplify_through.c). simplify_over_window handles a pointwise op of a
// window, simplify_sum_of_choice a sum over d of where(index[d] == i, x, 0).
SimplifyRule simplify_over_window;
SimplifyRule simplify_sum_of_choice;

static inline const Node *simple_arg(const Simplify *s, int i) { return graph_node(s->g, s->x[i]); }
// Adds a simplified node to g. If the result of a rule lacks dims of the node, it is broadcast to
// them.
NodeId simple_add(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr);
// Returns the argument of x if x is a broadcast, else x.
NodeId simple_stripped(const Graph *g, NodeId x);
// Returns true if x is a constant or a broadcast constant; *out gets its value.
bool simple_const(const Graph *g, NodeId x, double *out);

#endif
