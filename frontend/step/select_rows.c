// Finds the values that mix the rows of a batch: an element of one row depends on other rows.
//
//   n = merge[b, t -> n](x)                      n runs over rows, as b does
//   s[b, o] = sum[d](x * rename[b -> o](x))      combines every row with every other: mixed
//   mean[b](x), cumsum[b](x)                     mixed, and so is every value that reads one
//
// Also rewrites means over rows so that they count the valid rows.
#include "frontend/step/select_internal.h"

static void rows_through(const Node *n, bool *dim) {
  const Attr *at = n->attr;
  for (int i = 0; n->op == OP_RENAME && i < at->ndims; i++) dim[at->to[i]] |= dim[at->dims[i]];
  if (n->op == OP_MERGE || n->op == OP_SPLIT) dim[at->to[0]] |= dim[at->dims[0]];
}

static int count_rows(const bool *dim, const Dims *dims) {
  int count = 0;
  for (int i = 0; i < dims->n; i++) count += dim[dims->at[i]];
  return count;
}

// Returns true if node n reads its argument at other positions along a dim of rows: an element of
// the result is computed from other rows or from several rows. dim is RowFacts.dim.
static bool along_rows(const Node *n, const bool *dim) {
  OpClass cls = op_row((Op)n->op)->cls;
  if (cls == MATRIX) return dim[n->attr->dims[0]] || dim[n->attr->dims[1]];
  return (cls == ORDERED || cls == WINDOW || cls == GATHER) && n->attr->ndims > 0 &&
         dim[n->attr->dims[0]];
}

RowFacts rows_mark(Arena *a, const Graph *g, DimId over) {
  uint32_t count = graph_count(g);
  bool *dim = arena_array(a, bool, dim_count(g->dims) + 1),
       *batch = arena_array(a, bool, count + 1), *mixed = arena_array(a, bool, count + 1);
  dim[over] = true;
  for (NodeId i = 1; i <= count; i++) {
    const Node *n = graph_node(g, i);
    rows_through(n, dim);
    int rows = count_rows(dim, n->dims);
    batch[i] = rows > 0;
    for (int k = 0; k < n->nargs; k++) {
      batch[i] |= batch[n->args[k]];
      mixed[i] |= mixed[n->args[k]];
    }
    // A SCAN node has no dims, although it does not reduce the rows: its arguments, the carries,
    // have the dims.
    bool lost = batch[i] && !rows && n->op != OP_SCAN;
    mixed[i] |= lost || rows > 1 || along_rows(n, dim);
  }
  return (RowFacts){dim, batch, mixed};
}

bool rows_in(const RowFacts *r, const Dims *dims) { return count_rows(r->dim, dims) > 0; }

int rows_reduced(const RowFacts *r, const Node *n) {
  int count = 0;
  OpClass cls = op_row((Op)n->op)->cls;
  for (int i = 0; i < n->attr->ndims && (cls == REDUCE || cls == CONTRACT); i++)
    count += r->dim[n->attr->dims[i]];
  return count;
}

// Returns a node with the number of valid elements that reduction n combines into one, in type
// `type`.
static NodeId count_reduced(Graph *g, const RowFacts *r, const Node *n, Dtype type) {
  NodeId count = 0;
  for (int i = 0; i < n->attr->ndims; i++) {
    DimId d = n->attr->dims[i];
    NodeId size = r->dim[d] ? graph_cast(g, rows_count(g, d), type)
                            : graph_const(g, type, (double)dim_get(g->dims, d)->size);
    count = count ? graph_binary(g, OP_MUL, count, size) : size;
  }
  return count;
}

static NodeId counted_mean(Graph *g, const RowFacts *r, const Node *n, NodeId x) {
  Dims over = {0};
  for (int i = 0; i < n->attr->ndims; i++)
    if (!dims_add(g->dims, &over, n->attr->dims[i])) BUG("reduction over too many dims");
  Dtype wide = dtype_accumulator((Dtype)n->type);
  g->origin = *n->origin;
  NodeId sum = graph_reduce(g, OP_SUM, graph_cast(g, x, wide), &over);
  return graph_cast(g, graph_binary(g, OP_DIV, sum, count_reduced(g, r, n, wide)), (Dtype)n->type);
}

Graph *rows_count_means(Arena *a, const Graph *from, const RowFacts *r) {
  Graph *g = graph_like(a, from, STAGE_GRAD);
  NodeId *map = arena_array(a, NodeId, graph_count(from) + 1);
  for (NodeId i = 1; i <= graph_count(from); i++) {
    Node n = *graph_node(from, i);
    bool mean = n.op == OP_MEAN && rows_reduced(r, &n);
    map[i] = mean ? counted_mean(g, r, &n, map[n.args[0]]) : graph_copy(g, from, i, map);
  }
  graph_copy_outputs(g, from, map);
  return graph_prune_in_place(a, g, STAGE_GRAD);
}
