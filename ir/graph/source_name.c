// Names the operation of a node as a model writes it.
#include "ir/graph/graph.h"

// Returns whether every element of a window without a second dim is inside of its source.
static bool reads_inside(const Graph *g, const Attr *t) {
  int64_t from = dim_get(g->dims, t->dims[0])->size,
          to = t->nto ? dim_get(g->dims, t->to[0])->size : 1, first = t->affine.offset,
          last = t->affine.offset + t->affine.out * (to - 1);
  return first >= 0 && last >= 0 && first < from && last < from;
}

const char *node_source_name(const Graph *g, NodeId n) {
  const Node *x = graph_node(g, n);
  const Attr *t = x->attr;
  if (x->op == OP_PIN) return "layout";
  if (x->op == OP_AT || x->op == OP_CARRY) return "scan";
  if (x->op != OP_WINDOW && x->op != OP_WINDOW_AT) return op_row((Op)x->op)->text;
  if (t->nto == 0) return "select";
  if (t->nto > 1 || t->ndims > 1 || t->affine.divisor != 1) return "window";
  if (x->op == OP_WINDOW_AT) return "slice";
  if (dim_get(g->dims, t->dims[0])->whole == dim_get(g->dims, t->to[0])->whole)
    return t->affine.out < 0 ? "reverse" : "shift";
  return reads_inside(g, t) ? "slice" : "pad";
}
