// Strided loops over tensors whose dims are matched by name.
#include "ir/eval/eval_rules.h"

#include <string.h>

int64_t tensor_stride(const Tensor *t, DimId d) {
  int64_t stride = 1;
  for (int i = t->dims.n - 1; i >= 0; i--) {
    if (t->dims.at[i] == d) return stride;
    stride *= t->extent[i];
  }
  return 0;
}

// Allocates the elements of a tensor whose number of elements is set. Allocates one more than
// needed, so that copies of an empty block have a valid address.
void tensor_alloc(Arena *a, Tensor *t) {
  t->value = arena_array(a, double, t->elements + 1);
  t->bound = arena_array(a, double, t->elements + 1);
  t->tainted = arena_array(a, uint8_t, t->elements + 1);
}

void tensor_shape(Arena *a, const Graph *g, const Node *n, int64_t r, Tensor *out) {
  *out = (Tensor){.type = (Dtype)n->type, .dims = *n->dims, .elements = 1};
  for (int i = 0; i < n->dims->n; i++) {
    const Dim *d = dim_get(g->dims, n->dims->at[i]);
    int64_t rows = dim_get(g->dims, d->whole)->size;
    out->extent[i] = dim_valid(g->dims, g->mesh, n->dims->at[i], r, rows);
    if (!size_mul(out->elements, out->extent[i], &out->elements)) BUG("tensor too large");
  }
  tensor_alloc(a, out);
}

void walk_dim(StrideWalk *w, DimId d, int64_t extent) {
  for (int i = 0; i < w->rank; i++)
    if (w->dim[i] == d) return;
  if (w->rank == WALK_RANK) BUG("walk over more than %d dims", WALK_RANK);
  w->dim[w->rank] = d;
  w->extent[w->rank++] = extent;
}

void walk_dims(StrideWalk *w, const Tensor *t) {
  for (int i = 0; i < t->dims.n; i++) walk_dim(w, t->dims.at[i], t->extent[i]);
}

int walk_operand(StrideWalk *w, const Tensor *t) {
  int64_t *stride = w->stride[w->operands];
  for (int i = 0; i < w->rank; i++) stride[i] = tensor_stride(t, w->dim[i]);
  return w->operands++;
}

int64_t walk_whole(StrideWalk *w, const Graph *g, int64_t r, int rank, const DimId *order) {
  int64_t *stride = w->stride[w->operands++], step = 1, first = 0;
  for (int i = rank - 1; i >= 0; i--) {
    for (int k = 0; k < w->rank; k++) {
      if (dim_get(g->dims, w->dim[k])->whole != order[i]) continue;
      stride[k] = step;
      first += step * dim_offset(g->dims, g->mesh, w->dim[k], r);
    }
    step *= dim_get(g->dims, order[i])->size;
  }
  return first;
}

StrideWalk walk_over(const Tensor *over, const Tensor *first, const Tensor *second) {
  StrideWalk w = {0};
  if (over) walk_dims(&w, over);
  if (first) walk_operand(&w, first);
  if (second) walk_operand(&w, second);
  return w;
}

int walk_position(StrideWalk *w, DimId d) {
  int64_t *stride = w->stride[w->operands];
  for (int i = 0; i < w->rank; i++) stride[i] = w->dim[i] == d;
  return w->operands++;
}

bool walk_first(StrideWalk *w) {
  for (int i = 0; i < w->rank; i++) {
    if (w->extent[i] == 0) return false;
    w->count[i] = 0;
  }
  for (int k = 0; k < w->operands; k++) w->at[k] = 0;
  return true;
}

bool walk_next(StrideWalk *w) {
  for (int i = w->rank - 1; i >= 0; i--) {
    bool carry = ++w->count[i] == w->extent[i];
    int64_t move = carry ? 1 - w->extent[i] : 1;
    for (int k = 0; k < w->operands; k++) w->at[k] += move * w->stride[k][i];
    if (!carry) return true;
    w->count[i] = 0;
  }
  return false;
}

void walk_copy(StrideWalk *w, Tensor *to, int64_t to_first, const Tensor *from,
               int64_t from_first) {
  for (bool on = walk_first(w); on; on = walk_next(w))
    tensor_put(to, to_first + w->at[0], tensor_cell(from, from_first + w->at[1]));
}
