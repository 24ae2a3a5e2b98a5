// Ordered operations along a split dim: local work, one small all_gather, local work.
//
//   cumsum   gathers one total of each block; each block adds the totals of the blocks before it;
//            cumprod and cummax likewise
//   top_k    gathers the k largest of each block, and takes the k largest of these
//
// Candidates of top_k travel as keys (value, inverted global index): equal values are ranked by
// index without a second comparison, and the padding of a short block (key 0) is below all of them.
#include <math.h>

#include "partition/lower/lower_internal.h"

// Returns a dim of `size` elements that is not split, named after `block`, `what` and the size.
// Adds the dim if the graph has none of this name.
static DimId own_dim(Graph *g, DimId block, const char *what, int64_t size) {
  const char *name =
      arena_printf(g->arena, "%s/%s%lld", dim_get(g->dims, block)->name, what, (long long)size);
  return dim_local(g->dims, name, size);
}

// Gathers x over `axes`: dim `piece` of x, a block dim, becomes the full dim `all`. `why` is the
// reason text of the all_gather.
static NodeId gather(Graph *g, NodeId x, DimId piece, DimId all, Axes axes, const char *why) {
  Attr attr = {.ndims = 1, .dims = &piece, .nto = 1, .to = &all, .axes = axes};
  const char *before = g->origin.why;
  g->origin.why = why;
  NodeId out = graph_add(g, OP_ALL_GATHER, 1, &x, &attr);
  g->origin.why = before;
  return out;
}

static const char *why_split(Graph *g, DimId block, const char *what) {
  const Dim *d = dim_get(g->dims, block);
  return arena_printf(g->arena, "%s is split over %s; %s", dim_get(g->dims, d->whole)->name,
                      axes_text(g->arena, g->mesh, d->axes), what);
}

// -- cumsum, cumprod, cummax --------------------------------------------------------------------

// Returns the type in which a cumsum over type t adds. Narrow numbers are added in a wider type, so
// that the result is rounded only once.
static Dtype wide_type(Dtype t) { return t == TYPE_U8 ? TYPE_I32 : dtype_accumulator(t); }

// Returns x, of the type wide_type(t), in type t. A cast to u8 saturates, but a running sum or
// product of u8 wraps around: its value is the low 8 bits.
static NodeId narrowed(Graph *g, NodeId x, Dtype t) {
  if (t == TYPE_U8) x = graph_binary(g, OP_BIT_AND, x, graph_const(g, TYPE_I32, UINT8_MAX));
  return graph_cast(g, x, t);
}

static Op reduction(Monoid m) {
  return m == MONOID_SUM ? OP_SUM : m == MONOID_PROD ? OP_PROD : OP_MAX;
}

NodeId lower_cumulated(Graph *g, Op op, NodeId x, const Attr *attr) {
  Monoid m = op_row(op)->monoid;
  Dtype narrow = (Dtype)graph_node(g, x)->type,
        type = monoid_idempotent(m) ? narrow : wide_type(narrow);
  DimId d = attr->dims[0];
  Axes axes = dim_get(g->dims, d)->axes;
  DimId parts = own_dim(g, d, "parts", axes_size(g->mesh, axes)),
        part = dim_block(g->dims, g->mesh, parts, axes);
  Dims along = {.n = 1, .at = {d}}, one = {.n = 1, .at = {part}}, all = {.n = 1, .at = {parts}};
  x = graph_cast(g, x, type);
  NodeId local = graph_add(g, op, 1, &x, attr);
  NodeId total = graph_reduce(g, reduction(m), x, &along);
  Dims to = *graph_node(g, total)->dims;
  if (!dims_add(g->dims, &to, part)) BUG("totals have too many dims");
  total = graph_broadcast(g, total, &to);
  total = gather(g, total, part, parts, axes,
                 why_split(g, d, "each block needs what those before it add up to"));
  NodeId own = graph_reduce(g, OP_MIN, graph_index(g, part), &one), other = graph_index(g, parts);
  bool reverse = attr->flags & ORDER_REVERSE;
  NodeId before = graph_binary(g, OP_LT, reverse ? own : other, reverse ? other : own);
  NodeId none = graph_const(g, type, monoid_identity(m, type));
  NodeId prefix = graph_reduce(g, reduction(m), graph_where(g, before, total, none), &all);
  NodeId y = graph_binary(g, monoid_op(m, type), local, prefix);
  return type == narrow ? y : narrowed(g, y, narrow);
}

// -- top_k --------------------------------------------------------------------------------------

// If some processor's block of d is short, returns x padded with zeros to full blocks of a new dim
// *out. Else returns x.
static NodeId fill_block(Graph *g, NodeId x, DimId d, DimId *out) {
  if (!dim_uneven(g->dims, g->mesh, d)) return x;
  const Dim *dim = dim_get(g->dims, d);
  DimId padded = own_dim(g, d, "full", dim->size * axes_size(g->mesh, dim->axes));
  *out = dim_block(g->dims, g->mesh, padded, dim->axes);
  NodeId start = graph_binary(g, OP_SUB, block_start(g, d), block_start(g, *out));
  Attr attr = {.ndims = 1, .dims = &d, .nto = 1, .to = out, .affine = {.out = 1, .divisor = 1}};
  return graph_add(g, OP_WINDOW_AT, 2, (NodeId[]){x, start}, &attr);
}

// Returns the k largest elements of x along dim d, as dim `to`, whose size is k.
static NodeId largest(Graph *g, NodeId x, DimId d, DimId to) {
  Attr top = {.ndims = 1, .dims = &d, .nto = 1, .to = &to}, take = {.ndims = 1, .dims = &d};
  NodeId best = graph_add(g, OP_TOP_K, 1, &x, &top);
  return graph_add(g, OP_TAKE, 2, (NodeId[]){x, best}, &take);
}

NodeId lower_top_k(Graph *g, NodeId x, const Attr *attr) {
  DimId d = attr->dims[0], full = d;
  Axes axes = dim_get(g->dims, d)->axes;
  int64_t k = dim_get(g->dims, attr->to[0])->size, block = dim_get(g->dims, d)->size;
  int64_t each = k < block ? k : block;
  DimId all = own_dim(g, d, "best", each * axes_size(g->mesh, axes)),
        own = dim_block(g->dims, g->mesh, all, axes);
  NodeId key = fill_block(g, graph_binary(g, OP_ARG_KEY, x, graph_index(g, d)), d, &full);
  key = gather(g, largest(g, key, full, own), own, all, axes,
               why_split(g, d, "the largest of each block are compared"));
  return graph_unary(g, OP_KEY_INDEX, largest(g, key, all, attr->to[0]));
}

// Returns the first index of the block, as the minimum of all its indices. The reduction ignores
// padding.
NodeId block_start(Graph *g, DimId d) {
  Dims over = {.n = 1, .at = {d}};
  return graph_reduce(g, OP_MIN, graph_index(g, d), &over);
}
