// Windows in the evaluator: the rule computes the source position of each element of the result.
#include "ir/eval/eval_rules.h"

// Returns the position in the source that is read for output position o and tap k (one of the
// positions read for o). The result counts from `first`, the start of this processor's block of the
// source. It is -1 outside the block. o, k and `first` are positions in whole dims; `extent` is the
// length of the block.
static int64_t source_position(const EvalNode *c, int64_t o, int64_t k, int64_t start,
                               int64_t first, int64_t extent) {
  const Affine *a = &c->n->attr->affine;
  int64_t s = a->out * o + a->tap * k + a->offset + start;
  if (s % a->divisor) return -1;
  s = s / a->divisor - first;
  return s >= 0 && s < extent ? s : -1;
}

// Returns the value of elements of the result that read a position outside the source.
static Cell fill_cell(const EvalNode *c) {
  return (Cell){dtype_round(c->out->type, c->n->attr->num[0]), 0, false};
}

void eval_window(const EvalNode *c) {
  const Attr *t = c->n->attr;
  const Tensor *x = c->arg[0];
  DimId from = t->dims[0];
  int64_t step = tensor_stride(x, from), extent = x->extent[dims_index(&x->dims, from)];
  int64_t first = dim_offset(c->g->dims, c->g->mesh, from, c->r), base[2] = {0, 0};
  Cell start = c->n->nargs > 1 ? tensor_cell(c->arg[1], 0) : (Cell){0, 0, false};
  StrideWalk w = walk_over(c->out, c->out, x);
  // The new dim may be the dim that is read. Then the loop along it must not move the position in
  // the source by itself.
  for (int i = 0; i < w.rank; i++)
    if (w.dim[i] == from) w.stride[1][i] = 0;
  int at[2] = {-1, -1};
  for (int i = 0; i < t->nto; i++) {
    at[i] = walk_position(&w, t->to[i]);
    base[i] = dim_offset(c->g->dims, c->g->mesh, t->to[i], c->r);
  }
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t p[2] = {0, 0};
    for (int k = 0; k < t->nto; k++) p[k] = base[k] + w.at[at[k]];
    int64_t s = source_position(c, p[0], p[1], (int64_t)start.v, first, extent);
    Cell y = s < 0 ? fill_cell(c) : tensor_cell(x, w.at[1] + s * step);
    y.t = y.t || start.t;
    tensor_put(c->out, w.at[0], y);
  }
}
