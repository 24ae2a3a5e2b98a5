// Which values mix the rows of a batch: their elements depend on other rows than their own.
//
//   n = merge[b, t -> n](x)       n runs over rows as b does
//   s[b, o] = sum[d](x * rename[b -> o](x))      every row meets every other: mixed
//   mean[b](x), cumsum[b](x)      mixed too, and so is whatever reads one of them
#include "frontend/select.h"

static void rows_through(const Node *n, bool *dim) {
  const Attr *at = &n->attr;
  for (int i = 0; n->op == OP_RENAME && i < at->ndims; i++) dim[at->to[i]] |= dim[at->dims[i]];
  if (n->op == OP_MERGE || n->op == OP_SPLIT) dim[at->to[0]] |= dim[at->dims[0]];
}

static int count_rows(const bool *dim, const Dims *dims) {
  int count = 0;
  for (int i = 0; i < dims->n; i++) count += dim[dims->at[i]];
  return count;
}

// Whether element i of the result along a dim of rows is made of several of the argument.
static bool along_rows(const Node *n, const bool *dim) {
  OpClass cls = op_row((Op)n->op)->cls;
  return (cls == ORDERED || cls == WINDOW || cls == GATHER) && n->attr.ndims > 0 && dim[n->attr.dims[0]];
}

RowFacts rows_mark(Arena *a, const Graph *g, DimId over) {
  uint32_t count = graph_count(g);
  bool *dim = arena_array(a, bool, dim_count(g->dims) + 1), *batch = arena_array(a, bool, count + 1),
       *mixed = arena_array(a, bool, count + 1);
  dim[over] = true;
  for (NodeId i = 1; i <= count; i++) {
    const Node *n = graph_node(g, i);
    rows_through(n, dim);
    int rows = count_rows(dim, &n->dims);
    batch[i] = rows > 0;
    for (int k = 0; k < n->nargs; k++) {
      batch[i] |= batch[n->args[k]];
      mixed[i] |= mixed[n->args[k]];
    }
    // a scan has no dims: those of its carries are in its arguments
    bool lost = batch[i] && !rows && n->op != OP_SCAN;
    mixed[i] |= lost || rows > 1 || along_rows(n, dim);
  }
  return (RowFacts){dim, batch, mixed};
}

bool rows_in(const RowFacts *r, const Dims *dims) { return count_rows(r->dim, dims) > 0; }
