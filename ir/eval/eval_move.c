// Moves and lookups in the evaluator. A move copies all elements to other positions and does not
// change their values.
#include "ir/eval/eval_rules.h"
#include "ir/program/sums.h"

#include <math.h>

// Fills the result with the elements of argument 0. stride[i] is the distance in the argument, in
// elements, of neighbours along dim i of the result.
static void copy_strided(const EvalNode *c, const int64_t *stride) {
  StrideWalk w = walk_over(c->out, c->out, NULL);
  for (int i = 0; i < w.rank; i++) w.stride[1][i] = stride[i];
  w.operands = 2;
  walk_copy(&w, c->out, 0, c->arg[0], 0);
}

static void same_strides(const EvalNode *c, int64_t *stride) {
  for (int i = 0; i < c->out->dims.n; i++) stride[i] = tensor_stride(c->arg[0], c->out->dims.at[i]);
}

void eval_broadcast(const EvalNode *c) {
  int64_t stride[MAX_RANK];
  same_strides(c, stride);
  copy_strided(c, stride);
}

void eval_pin(const EvalNode *c) { eval_broadcast(c); }

void eval_rename(const EvalNode *c) {
  int64_t stride[MAX_RANK];
  same_strides(c, stride);
  for (int i = 0; i < c->n->attr->nto; i++)
    stride[dims_index(&c->out->dims, c->n->attr->to[i])] =
        tensor_stride(c->arg[0], c->n->attr->dims[i]);
  copy_strided(c, stride);
}

static void check_parts(const EvalNode *c, int64_t parts, int64_t one) {
  if (c->arg[0]->elements > 0 && parts != one)
    BUG("%lld elements are not blocks of %lld", (long long)one, (long long)parts);
}

void eval_split(const EvalNode *c) {
  const Attr *t = c->n->attr;
  int64_t stride[MAX_RANK], step = tensor_stride(c->arg[0], t->dims[0]), parts = 1;
  same_strides(c, stride);
  for (int i = t->nto - 1; i >= 0; i--) {
    int at = dims_index(&c->out->dims, t->to[i]);
    stride[at] = step * parts;
    parts *= c->out->extent[at];
  }
  check_parts(c, parts, c->arg[0]->extent[dims_index(&c->arg[0]->dims, t->dims[0])]);
  copy_strided(c, stride);
}

// Merges dims: the inverse of a split. The loop is over the dims of the argument, and the strides
// of the merged dims are those of the result.
void eval_merge(const EvalNode *c) {
  const Attr *t = c->n->attr;
  StrideWalk w = walk_over(c->arg[0], c->out, c->arg[0]);
  int64_t step = tensor_stride(c->out, t->to[0]), parts = 1;
  for (int i = t->ndims - 1; i >= 0; i--) {
    int at = dims_index(&c->arg[0]->dims, t->dims[i]);
    w.stride[0][at] = step * parts;
    parts *= c->arg[0]->extent[at];
  }
  check_parts(c, parts, c->out->extent[dims_index(&c->out->dims, t->to[0])]);
  walk_copy(&w, c->out, 0, c->arg[0], 0);
}

// -- lookups ------------------------------------------------------------------------------------

// Copies the rows of a table that the ids select. bound_index keeps ids in range. Without it, an id
// out of range reads the nearest row, or gives 0 if the table is empty.
void eval_take(const EvalNode *c) {
  const Tensor *table = c->arg[0], *ids = c->arg[1];
  DimId d = c->n->attr->dims[0];
  int64_t step = tensor_stride(table, d), rows = table->extent[dims_index(&table->dims, d)];
  StrideWalk w = walk_over(c->out, c->out, table);
  walk_operand(&w, ids);
  // The ids may also have the dim that is looked up. Then the loop along this dim must not move the
  // position in the table.
  for (int i = 0; i < w.rank; i++)
    if (w.dim[i] == d) w.stride[1][i] = 0;
  for (bool on = walk_first(&w); on && rows > 0; on = walk_next(&w)) {
    Cell id = tensor_cell(ids, w.at[2]);
    int64_t row = clamp64((int64_t)id.v, 0, rows - 1);
    Cell x = tensor_cell(table, w.at[1] + row * step);
    x.t = x.t || id.t;
    tensor_put(c->out, w.at[0], x);
  }
}

// A loop over the terms of a scatter. at[0] is the element of the result at row 0.
static StrideWalk terms_of(const EvalNode *c) {
  const Tensor *x = c->arg[0], *ids = c->arg[1];
  StrideWalk w = walk_over(x, NULL, NULL);
  walk_dims(&w, ids);
  walk_operand(&w, c->out);
  walk_operand(&w, x);
  walk_operand(&w, ids);
  // The new dim may be one of the dims that are summed. Then the loop along this dim must not move
  // the position in the result.
  for (int i = 0; i < w.rank; i++)
    if (w.dim[i] == c->n->attr->to[0]) w.stride[0][i] = 0;
  return w;
}

// Adds the current term to the sum at the position that its id selects, or joins it with the
// maximum there; drops ids out of range. A tainted (uncertain) id taints all elements along the new
// dim, because it could select any of them. The larger of two keys is certain only if both are
// known, so with `again` a second pass compares each key with the largest.
static void put_term(const EvalNode *c, const StrideWalk *w, Sum *sum, bool again) {
  Dtype t = c->out->type;
  DimId to = c->n->attr->to[0];
  int64_t step = tensor_stride(c->out, to), rows = c->out->extent[dims_index(&c->out->dims, to)];
  Cell id = tensor_cell(c->arg[1], w->at[2]), v = tensor_cell(c->arg[0], w->at[1]);
  int64_t at = w->at[0], row = (int64_t)id.v;
  for (int64_t k = 0; k < rows && id.t; k++)
    sum[at + k * step].t = true, c->out->tainted[at + k * step] = true;
  v.t = v.t || id.t;
  if (row < 0 || row >= rows) return;
  at += row * step;
  Cell y = tensor_cell(c->out, at);
  bool known = t == TYPE_U64 && key_bits(y.v) == key_bits(v.v) && !v.t;
  if (c->n->attr->monoid != MONOID_MAX)
    sum_add(&sum[at], v, t);
  else if (t != TYPE_U64 || again)
    tensor_put(c->out, at, known ? y : cell_extreme(t, true, y, v));
  else if (key_bits(v.v) > key_bits(y.v))
    tensor_put(c->out, at, (Cell){v.v, v.b, v.t || y.t});
}

void eval_scatter(const EvalNode *c) {
  Sum *sum = arena_array(c->arena, Sum, c->out->elements + 1);
  StrideWalk w = terms_of(c);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) put_term(c, &w, sum, false);
  for (bool on = c->out->type == TYPE_U64 && walk_first(&w); on; on = walk_next(&w))
    put_term(c, &w, sum, true);
  if (c->n->attr->monoid != MONOID_MAX) sum_store(c, sum, tensor_granule(c->arg[0]));
}
