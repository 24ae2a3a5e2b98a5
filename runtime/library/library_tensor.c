// Lists the tensors of a program for the caller: names, types, dims in declared order.
#include "runtime/library/library.h"

#include <string.h>

static const Dtype dtype_of[] = {
    [MESHC_F32] = TYPE_F32,   [MESHC_F64] = TYPE_F64, [MESHC_BF16] = TYPE_BF16,
    [MESHC_F16] = TYPE_F16,   [MESHC_I32] = TYPE_I32, [MESHC_U8] = TYPE_U8,
    [MESHC_BOOL] = TYPE_BOOL, [MESHC_I64] = TYPE_I64,
};

bool library_dtype(meshc_type type, Dtype *out) {
  if ((unsigned)type >= countof(dtype_of)) return false;
  *out = dtype_of[type];
  return true;
}

meshc_type library_type(Dtype t) {
  unsigned i = 0;
  while (i + 1 < countof(dtype_of) && dtype_of[i] != t) i++;
  return (meshc_type)i;
}

size_t meshc_type_size(meshc_type type) {
  Dtype t;
  return library_dtype(type, &t) ? (size_t)dtype_bytes(t) : 0;
}

TensorKind library_tensor_kind(meshc_kind kind) {
  static const TensorKind of[KINDS] = {[MESHC_INPUT] = TENSOR_INPUT,
                                       [MESHC_PARAMETER] = TENSOR_PARAM,
                                       [MESHC_STATE] = TENSOR_STATE,
                                       [MESHC_OUTPUT] = TENSOR_OUTPUT};
  return of[kind];
}

// -- lists --------------------------------------------------------------------------------------

TensorDims library_add_tensor(Arena *a, TensorList *list, meshc_kind kind, const char *name,
                              Dtype type, int rank) {
  TensorDims d = {arena_array(a, const char *, rank + 1), arena_array(a, int64_t, rank + 1)};
  list->at[list->n++] =
      (meshc_tensor){name, kind, library_type(type), rank, (const char *const *)d.name, d.size};
  return d;
}

void library_add_dims(const meshc_model *m, meshc_tensor *tensor, TensorDims to,
                      const ProgTensor *t) {
  int64_t parts = 1;
  tensor->rank = 0;
  for (int d = 0; d < t->rank; d++) {
    const ProgDim *dim = &t->dim[t->declared[d]];
    if (m->kind->is_micro(m, dim->name)) {
      parts = dim->whole;
      continue;
    }
    to.name[tensor->rank] = m->kind->dim_name(m, dim->name);
    to.size[tensor->rank++] = dim->whole * parts;
    parts = 1;
  }
}

void library_list_program(meshc_program *p) {
  meshc_model *m = p->model;
  const Program *made = p->program;
  for (int k = 0; k < KINDS; k++) {
    TensorList *list = &p->tensor[k];
    list->at = arena_array(m->arena, meshc_tensor, made->ntensors + 1);
    for (uint32_t i = 0; i < made->ntensors; i++) {
      const ProgTensor *t = &made->tensor[i];
      if (t->kind != library_tensor_kind((meshc_kind)k) ||
          (k == MESHC_OUTPUT && m->kind->hides(m, t->name)))
        continue;
      TensorDims to = library_add_tensor(m->arena, list, (meshc_kind)k, t->name, t->type, t->rank);
      library_add_dims(m, &list->at[list->n - 1], to, t);
    }
    p->room[k] = arena_array(m->arena, void *, list->n + 1);
  }
}

int64_t library_find(const TensorList *list, const char *name) {
  for (uint32_t i = 0; name && i < list->n; i++)
    if (strcmp(list->at[i].name, name) == 0) return i;
  return -1;
}

static const meshc_tensor *tensor_at(const TensorList *list, meshc_kind kind, size_t i) {
  return (unsigned)kind < KINDS && i < list[kind].n ? &list[kind].at[i] : NULL;
}

size_t meshc_tensor_count(const meshc_model *m, meshc_kind kind) {
  return m && (unsigned)kind < KINDS ? m->tensor[kind].n : 0;
}
const meshc_tensor *meshc_tensor_at(const meshc_model *m, meshc_kind kind, size_t i) {
  return m ? tensor_at(m->tensor, kind, i) : NULL;
}
size_t meshc_program_tensor_count(const meshc_program *p, meshc_kind kind) {
  return p && (unsigned)kind < KINDS ? p->tensor[kind].n : 0;
}
const meshc_tensor *meshc_program_tensor_at(const meshc_program *p, meshc_kind kind, size_t i) {
  return p ? tensor_at(p->tensor, kind, i) : NULL;
}
