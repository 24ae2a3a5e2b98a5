// Collectives in the evaluator: computes the result on one processor from the operands of all
// processors of its group along the axes.
//
// all_gather, all_to_all, permute, halo and slice_own share one function: it copies each element of
// the new block from a processor of the group that holds it. An element that no processor holds
// becomes NaN, so that tests notice it.
#include "ir/eval/eval_rules.h"
#include "ir/program/sums.h"

#include <math.h>

static const Tensor *peer_operand(const EvalNode *c, int64_t peer) {
  return eval_at(c->run->e, c->n->args[0], peer);
}

// The box of elements that are both in this processor's result and in the operand of another
// processor. `out` and `from` are the indices of its first element in the result and in the
// operand.
typedef struct CommonBox {
  StrideWalk w;
  int64_t out, from;
  bool empty;
} CommonBox;

static DimId dim_before(const EvalNode *c, DimId d) {
  for (int i = 0; i < c->n->attr->nto; i++)
    if (c->n->attr->to[i] == d) return c->n->attr->dims[i];
  return d;
}

static CommonBox common_box(const EvalNode *c, const Tensor *from, int64_t peer) {
  const Graph *g = c->g;
  CommonBox b = {.w = walk_over(NULL, NULL, NULL)};
  for (int i = 0; i < c->out->dims.n; i++) {
    DimId d = c->out->dims.at[i], before = dim_before(c, d);
    int64_t first = dim_offset(g->dims, g->mesh, d, c->r);
    int64_t theirs = dim_offset(g->dims, g->mesh, before, peer);
    int64_t low = first > theirs ? first : theirs, end = first + c->out->extent[i];
    int64_t their_end = theirs + from->extent[dims_index(&from->dims, before)];
    if (their_end < end) end = their_end;
    if (end <= low) b.empty = true;
    walk_dim(&b.w, d, end > low ? end - low : 0);
    b.w.stride[0][i] = tensor_stride(c->out, d);
    b.w.stride[1][i] = tensor_stride(from, before);
    b.out += (low - first) * b.w.stride[0][i];
    b.from += (low - theirs) * b.w.stride[1][i];
  }
  b.w.operands = 2;
  return b;
}

static void copy_box(const EvalNode *c, int64_t peer, uint8_t *filled) {
  const Tensor *from = peer_operand(c, peer);
  CommonBox b = common_box(c, from, peer);
  if (b.empty) return;
  for (bool on = walk_first(&b.w); on; on = walk_next(&b.w)) {
    int64_t at = b.out + b.w.at[0];
    if (filled[at]) continue;
    tensor_put(c->out, at, tensor_cell(from, b.from + b.w.at[1]));
    filled[at] = 1;
  }
}

static void reblock(const EvalNode *c, Axes axes) {
  uint8_t *filled = arena_array(c->arena, uint8_t, c->out->elements + 1);
  int64_t group = axes_size(c->g->mesh, axes);
  copy_box(c, c->r, filled);
  for (int64_t k = 0; k < group; k++) copy_box(c, axes_peer(c->g->mesh, axes, c->r, k), filled);
  for (int64_t i = 0; i < c->out->elements; i++)
    if (!filled[i]) c->out->value[i] = (double)NAN;
}

void eval_all_gather(const EvalNode *c) { reblock(c, c->n->attr->axes); }
void eval_all_to_all(const EvalNode *c) { reblock(c, c->n->attr->axes); }
void eval_slice_own(const EvalNode *c) { reblock(c, (Axes){0}); }

// Copies the elements of the result from the operands of all processors of the group. The group is
// along the axes of the collective, and along all other axes that split its dims before or after
// it.
void eval_permute(const EvalNode *c) {
  Axes axes = c->n->attr->axes;
  for (int i = 0; i < 2 * c->n->attr->ndims; i++) {
    DimId d = i % 2 ? c->n->attr->to[i / 2] : c->n->attr->dims[i / 2];
    Axes split = dim_get(c->g->dims, d)->axes;
    for (int k = 0; k < split.n; k++)
      if (!axes_has(axes, split.at[k])) axes.at[axes.n++] = split.at[k];
  }
  reblock(c, axes);
}

void eval_halo(const EvalNode *c) { eval_permute(c); }

// -- reductions ---------------------------------------------------------------------------------

// Combines x[0..n), the values of one element on the n processors of a group, as a collective does.
// A sum is accumulated in the type of the node, because partial sums are sent in this type.
// `granule` is NO_GRANULE, or all values are exact multiples of 2^granule.
static Cell combine(const EvalNode *c, const Cell *x, int64_t n, int granule) {
  Dtype t = c->out->type;
  Monoid m = c->n->attr->monoid;
  if (m == MONOID_SUM) {
    Sum s = {0};
    for (int64_t k = 0; k < n; k++) sum_add(&s, x[k], t);
    return sum_cell(t, t, &s, granule, SUM_ROUNDINGS);
  }
  Cell y = x[0];
  for (int64_t k = 1; k < n; k++) {
    if (m == MONOID_MAX || m == MONOID_MIN) {
      y = cell_extreme(t, m == MONOID_MAX, y, x[k]);
      continue;
    }
    double p = y.v * x[k].v;
    double b = fabs(y.v) * x[k].b + fabs(x[k].v) * y.b + y.b * x[k].b;
    Cell z = cell_rounded(t, p, b, fma(y.v, x[k].v, -p) == 0);
    if (!dtype_is_float(t)) z = (Cell){int_wrap(t, (int64_t)p), 0, false};
    y = (Cell){z.v, z.b, y.t || x[k].t};
  }
  return t == TYPE_U64 ? y : cell_finish(t, y);
}

// Combines the operands of the processors of the group, element by element.
static void reduce_over(const EvalNode *c) {
  Axes axes = c->n->attr->axes;
  int64_t n = axes_size(c->g->mesh, axes), elements = c->out->elements;
  Cell *x = arena_array(c->arena, Cell, elements * n + 1);
  int granule = 100000;
  for (int64_t k = 0; k < n; k++) {
    int64_t peer = axes_peer(c->g->mesh, axes, c->r, k);
    const Tensor *from = peer_operand(c, peer);
    int g = tensor_granule(from);
    if (g < granule) granule = g;
    CommonBox b = common_box(c, from, peer);
    for (int64_t i = 0; i < elements; i++) x[i * n + k].v = (double)NAN;
    if (b.empty) continue;
    for (bool on = walk_first(&b.w); on; on = walk_next(&b.w))
      x[(b.out + b.w.at[0]) * n + k] = tensor_cell(from, b.from + b.w.at[1]);
  }
  for (int64_t i = 0; i < elements; i++) tensor_put(c->out, i, combine(c, &x[i * n], n, granule));
}

void eval_all_reduce(const EvalNode *c) { reduce_over(c); }
void eval_reduce_scatter(const EvalNode *c) { reduce_over(c); }

void eval_to_partial(const EvalNode *c) {
  Axes axes = c->n->attr->axes;
  if (axes_rank(c->g->mesh, axes, c->r) != 0) return; // the result stays 0 on this processor
  for (int64_t i = 0; i < c->out->elements; i++) tensor_put(c->out, i, tensor_cell(c->arg[0], i));
}
