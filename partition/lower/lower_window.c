// Lowers windows along split dims: adds the halo that a block of the result reads beyond the block
// of the source.
//
//   %3 = window(%2) {dims = [y], to = [oy, ky], affine = [1, 1, -1, 1]}      y/rows, oy/rows
// becomes
//   %3 = halo(%2) {dims = [y/rows], to = [y/oy/rows*1+ky*1-1], axes = [rows]}
//   %4 = window(%3) {dims = [y/oy/rows*1+ky*1-1], to = [oy/rows, ky], affine = [1, 1, -1, 1]}
//
// A halo or a gather commutes with windows along other dims. It is put before them, on their
// source, because the result of a window repeats elements and is larger.
#include "partition/lower/lower_internal.h"

// Returns whether on every processor the block of dim `have` contains all elements of dim
// `footprint`, the interval that a window reads.
static bool holds_all(const Graph *g, DimId have, DimId footprint) {
  Axes axes = dim_get(g->dims, have)->axes;
  int64_t whole = dim_get(g->dims, dim_get(g->dims, have)->whole)->size;
  axes_join(&axes, dim_get(g->dims, footprint)->axes);
  for (int64_t k = 0; k < axes_size(g->mesh, axes); k++) {
    int64_t r = axes_peer(g->mesh, axes, 0, k),
            n = dim_valid(g->dims, g->mesh, footprint, r, whole);
    int64_t first = dim_offset(g->dims, g->mesh, have, r),
            lo = dim_offset(g->dims, g->mesh, footprint, r);
    if (n && (lo < first || lo + n > first + dim_valid(g->dims, g->mesh, have, r, whole)))
      return false;
  }
  return true;
}

static bool all_pass(const Node *n, const Attr *attr) {
  for (int i = 0; i < attr->ndims; i++)
    if (!window_passes_dim(n, attr->dims[i])) return false;
  return true;
}

enum { MAX_BELOW = 8 };

NodeId lower_below(Graph *g, Op op, NodeId x, const Attr *attr) {
  NodeId above[MAX_BELOW];
  int n = 0;
  while (n < MAX_BELOW && all_pass(graph_node(g, x), attr)) {
    NodeId below = graph_node(g, x)->args[0];
    if (op != OP_HALO && node_elements(g, below) > node_elements(g, x)) break;
    above[n++] = x;
    x = below;
  }
  Origin own = g->origin;
  if (n) {
    const Origin *o = graph_node(g, x)->origin;
    g->origin.value = o->value, g->origin.gradient_of = o->gradient_of, g->origin.pos = o->pos;
  }
  x = graph_add(g, op, 1, &x, attr);
  while (n-- > 0) {
    g->origin = *graph_node(g, above[n])->origin;
    Attr window = *graph_node(g, above[n])->attr;
    x = graph_add(g, OP_WINDOW, 1, &x, &window);
  }
  g->origin = own;
  return x;
}

static NodeId add_halo(Graph *g, NodeId x, DimId have, DimId footprint, const Origin *origin) {
  Axes axes = dim_get(g->dims, have)->axes;
  axes_join(&axes, dim_get(g->dims, footprint)->axes);
  Attr attr = {.ndims = 1, .dims = &have, .nto = 1, .to = &footprint, .axes = axes_sorted(axes)};
  Origin own = g->origin;
  g->origin = *origin;
  x = lower_below(g, OP_HALO, x, &attr);
  g->origin = own;
  return x;
}

NodeId lower_window(Graph *g, int nargs, NodeId *args, Attr *attr, const Origin *halo) {
  DimId have = attr->dims[0];
  const Dim *d = dim_get(g->dims, have);
  Op op = nargs > 1 ? OP_WINDOW_AT : OP_WINDOW;
  if (op == OP_WINDOW_AT || !attr->nto || !d->axes.n) return graph_add(g, op, nargs, args, attr);
  DimId footprint = dim_footprint(g->dims, g->mesh, d->whole, attr->to[0],
                                  attr->nto > 1 ? attr->to[1] : 0, attr->affine);
  if (!holds_all(g, have, footprint)) {
    args[0] = add_halo(g, args[0], have, footprint, halo);
    attr->dims = &footprint;
  }
  return graph_add(g, op, nargs, args, attr);
}
