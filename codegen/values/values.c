// Strides of values, memory of views, valid extents of dims: values_internal.h explains them.
#include "codegen/values/values_internal.h"

#include <string.h>

int64_t order_stride(const Graph *g, const DimList *order, DimId d) {
  int64_t stride = 1;
  for (int i = order->n - 1; i >= 0; i--) {
    if (order->at[i] == d) return stride;
    stride *= dim_get(g->dims, order->at[i])->size;
  }
  return 0;
}

DimId order_last(const Graph *g, const DimList *order) {
  int i = order->n - 1;
  while (i > 0 && dim_get(g->dims, order->at[i])->size == 1) i--;
  return order->n ? order->at[i] : 0;
}

NodeId view_of(const Graph *g, NodeId n) {
  return graph_node(g, n)->args[graph_node(g, n)->op == OP_FINAL];
}

NodeId memory_root(const Graph *g, NodeId n) {
  while (op_is_view(graph_node(g, n)->op)) n = view_of(g, n);
  return n;
}

NodeId memory_writer(const Graph *g, NodeId n) {
  for (;; n = view_of(g, n)) {
    Op op = graph_node(g, n)->op;
    if (op == OP_FINAL || op == OP_COLLECT) return graph_node(g, n)->args[0];
    if (!op_is_view(op)) return n;
  }
}

static DimId full_dim(const Graph *g, DimId d) { return dim_get(g->dims, d)->whole; }

// Follows n, a rename, merge or split of dims. If an old dim of n depends on the rows of the last
// batch, records in `rows` which new dim does.
static void rows_through(const Graph *g, Rows *rows, const Node *n) {
  const Attr *at = n->attr;
  if (n->op == OP_RENAME)
    for (int i = 0; i < at->ndims; i++)
      if (rows->at[full_dim(g, at->dims[i])]) rows->at[full_dim(g, at->to[i])] = true;
  if ((n->op == OP_MERGE || n->op == OP_SPLIT) && rows->at[full_dim(g, at->dims[0])])
    rows->at[full_dim(g, at->to[0])] = true;
}

Rows rows_find(Arena *a, const Graph *g, const char *over) {
  Rows rows = {.over = over ? dim_find(g->dims, over) : 0};
  rows.at = arena_array(a, bool, dim_count(g->dims) + 1);
  if (!rows.over) return rows;
  rows.at[rows.over] = true;
  for (NodeId n = 1; n <= graph_count(g); n++) rows_through(g, &rows, graph_node(g, n));
  return rows;
}

bool extent_slot(const Graph *g, const Rows *rows, DimId d, Slot *out) {
  const Dim *dim = dim_get(g->dims, d);
  bool varies = rows->at[dim->whole];
  if (dim->live) {
    *out = (Slot){.kind = SLOT_EXTENT, .dim = dim->name, .whole = dim->size, .live = dim->live};
    out->by = dim_get(g->dims, dim->by)->name;
    out->steps = dim_get(g->dims, dim->by)->size;
    return true;
  }
  if (!varies && !dim_uneven(g->dims, g->mesh, d)) return false;
  *out = slot_of_dim(g->dims, d, SLOT_EXTENT);
  if (varies && dim->whole != rows->over) out->batch = dim_get(g->dims, rows->over)->size;
  return true;
}

bool offset_slot(const Graph *g, DimId d, Slot *out) {
  if (dim_get(g->dims, d)->whole == d) return false;
  *out = slot_of_dim(g->dims, d, SLOT_OFFSET);
  return true;
}

bool extent_list(const Graph *g, const Rows *rows, const DimList *list, int64_t *base, bool *uneven,
                 Slot *slot) {
  *base = 1;
  *uneven = false;
  for (int i = 0; i < list->n; i++) {
    Slot s;
    bool varies = extent_slot(g, rows, list->at[i], &s);
    if (varies && i > 0) return false;
    if (varies) {
      *uneven = true;
      *slot = s;
    } else {
      *base *= dim_get(g->dims, list->at[i])->size;
    }
  }
  return true;
}
