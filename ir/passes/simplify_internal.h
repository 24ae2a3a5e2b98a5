// What the rules of simplification share (simplify.c walks; rules in simplify_point.c,
// simplify_dims.c).
#ifndef IR_SIMPLIFY_H
#define IR_SIMPLIFY_H

#include "ir/graph/graph.h"

// A node about to be added to g: its arguments are simple already.
typedef struct Simplify {
  Graph *g;
  const Node *n; // of the old graph: op, attributes, type, dims
  NodeId x[4];   // arguments in g
  bool once;     // nobody else uses the first argument
} Simplify;

// An equal value in g with the same type and dims, or with fewer dims (to be broadcast); 0: no rule
// applies.
typedef NodeId SimplifyRule(Simplify *s);
SimplifyRule simplify_point; // any pointwise op
SimplifyRule simplify_reduce;
SimplifyRule simplify_contract;
SimplifyRule simplify_move;
SimplifyRule simplify_region;
SimplifyRule simplify_window;
// Parts of the rules above that are about windows (simplify_window.c): a pointwise op of one, and
// the sum of a choice by position.
SimplifyRule simplify_over_window;
SimplifyRule simplify_sum_of_choice;

static inline const Node *simple_arg(const Simplify *s, int i) { return graph_node(s->g, s->x[i]); }
// A new node of g as its rule gives it, with all dims of the node.
NodeId simple_add(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr);
// x without its broadcast, if it is one.
NodeId simple_stripped(const Graph *g, NodeId x);
// Whether x is one number, broadcast or not.
bool simple_const(const Graph *g, NodeId x, double *out);

#endif
