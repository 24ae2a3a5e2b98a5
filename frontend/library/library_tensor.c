// Lists the tensors of a model and of a program for the caller: names, types, dims in declared
// order.
#include "frontend/library/library_internal.h"

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

typedef struct TensorDims {
  const char **name;
  int64_t *size;
} TensorDims;

static TensorDims add_tensor(Arena *a, TensorList *list, meshc_kind kind, const char *name,
                             Dtype type, int rank) {
  TensorDims d = {arena_array(a, const char *, rank + 1), arena_array(a, int64_t, rank + 1)};
  list->at[list->n++] =
      (meshc_tensor){name, kind, library_type(type), rank, (const char *const *)d.name, d.size};
  return d;
}

static void add_dims(const Graph *g, TensorDims to, int rank, const DimId *dims) {
  for (int i = 0; i < rank; i++) {
    to.name[i] = dim_get(g->dims, dims[i])->name;
    to.size[i] = dim_get(g->dims, dims[i])->size;
  }
}

// Lists the outputs of a model: those of a run without --fetch. A model without outputs gets an
// empty list.
static void list_outputs(meshc_model *m) {
  DiagMark mark = diag_mark(m->s.diag);
  const Graph *g = select_run(m->s.arena, m->s.model, NULL);
  diag_rewind(m->s.diag, mark);
  if (!g) return;
  TensorList *list = &m->tensor[MESHC_OUTPUT];
  list->at = arena_array(m->s.arena, meshc_tensor, g->output.n + 1);
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    if (o->kind != OUT_VALUE || select_reserved(o->name)) continue;
    Dtype type = (Dtype)graph_node(g, o->value)->type;
    add_dims(g, add_tensor(m->s.arena, list, MESHC_OUTPUT, o->name, type, o->rank), o->rank,
             o->dims);
  }
}

void library_list_model(meshc_model *m) {
  static const meshc_kind of[] = {
      [DECL_INPUT] = MESHC_INPUT, [DECL_PARAM] = MESHC_PARAMETER, [DECL_STATE] = MESHC_STATE};
  const Graph *g = m->s.model->graph;
  for (int k = 0; k < MESHC_OUTPUT; k++)
    m->tensor[k].at = arena_array(m->s.arena, meshc_tensor, g->decl.n + 1);
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    if (d->kind == DECL_SLOT) continue;
    meshc_kind kind = of[d->kind];
    add_dims(g, add_tensor(m->s.arena, &m->tensor[kind], kind, d->name, d->type, d->rank), d->rank,
             d->dims);
  }
  list_outputs(m);
}

// Adds the dims of tensor t of a program. The micro-batches of a step follow one another in the
// rows of an input, so the caller sees one dim of all rows.
static void add_program_dims(Session *s, meshc_tensor *tensor, TensorDims to, const ProgTensor *t) {
  int64_t parts = 1;
  tensor->rank = 0;
  for (int d = 0; d < t->rank; d++) {
    const ProgDim *dim = &t->dim[t->declared[d]];
    if (result_is_micro(s, dim->name)) {
      parts = dim->whole;
      continue;
    }
    to.name[tensor->rank] = result_dim(s, dim->name);
    to.size[tensor->rank++] = dim->whole * parts;
    parts = 1;
  }
}

void library_list_program(meshc_program *p) {
  Session *s = &p->model->s;
  const Program *made = p->made.compiled->program;
  for (int k = 0; k < KINDS; k++) {
    TensorList *list = &p->tensor[k];
    list->at = arena_array(s->arena, meshc_tensor, made->ntensors + 1);
    for (uint32_t i = 0; i < made->ntensors; i++) {
      const ProgTensor *t = &made->tensor[i];
      if (t->kind != library_tensor_kind((meshc_kind)k) ||
          (k == MESHC_OUTPUT && select_reserved(t->name)))
        continue;
      TensorDims to = add_tensor(s->arena, list, (meshc_kind)k, t->name, t->type, t->rank);
      add_program_dims(s, &list->at[list->n - 1], to, t);
    }
    p->room[k] = arena_array(s->arena, void *, list->n + 1);
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
