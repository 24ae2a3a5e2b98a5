// State and helpers of the simplification rules. simplify.c visits the nodes; the rules are in
// simplify_point.c, simplify_dims.c, simplify_window.c and simplify_region.c.
#ifndef IR_SIMPLIFY_H
#define IR_SIMPLIFY_H

#include "ir/graph/graph.h"

// A node that is about to be added to g. Its arguments are already simplified.
typedef struct Simplify {
  Graph *g;
  const Node *n; // the node of the old graph, for its operation, attributes, type and dims
  NodeId x[4];   // its arguments, in g
  bool once;     // no other node of the old graph uses argument 0
} Simplify;

// Returns an equal value in g with the same type, and with the same dims or fewer (the caller
// broadcasts it). Returns 0 if no rule applies.
typedef NodeId SimplifyRule(Simplify *s);
SimplifyRule simplify_point; // any pointwise op
SimplifyRule simplify_reduce;
SimplifyRule simplify_contract;
SimplifyRule simplify_move;
SimplifyRule simplify_region;
SimplifyRule simplify_window;
// Parts of simplify_point and simplify_reduce for windows (simplify_through.c): a pointwise op of a
// window, and a sum over d of where(index[d] == i, x, 0).
SimplifyRule simplify_over_window;
SimplifyRule simplify_sum_of_choice;

static inline const Node *simple_arg(const Simplify *s, int i) { return graph_node(s->g, s->x[i]); }
// Adds a node to g. A value with fewer dims is broadcast to the dims of the node.
NodeId simple_add(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr);
// Returns x without its broadcast, if it is one.
NodeId simple_stripped(const Graph *g, NodeId x);
// Returns true if x is one number, broadcast or not; *out gets it.
bool simple_const(const Graph *g, NodeId x, double *out);

#endif
