// Lists the tensors of a model for the caller: names, types, dims in declared order.
#include "frontend/library/library_internal.h"

static void add_dims(const Graph *g, TensorDims to, int rank, const DimId *dims) {
  for (int i = 0; i < rank; i++) {
    to.name[i] = dim_get(g->dims, dims[i])->name;
    to.size[i] = dim_get(g->dims, dims[i])->size;
  }
}

// Lists the outputs of a model: those of a run without --fetch. A model without outputs gets an
// empty list.
static void list_outputs(CompiledModel *m) {
  DiagMark mark = diag_mark(m->s.diag);
  const Graph *g = select_run(m->s.arena, m->s.model, NULL);
  diag_rewind(m->s.diag, mark);
  if (!g) return;
  TensorList *list = &m->base.tensor[MESHC_OUTPUT];
  list->at = arena_array(m->s.arena, meshc_tensor, g->output.n + 1);
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    if (o->kind != OUT_VALUE || select_reserved(o->name)) continue;
    Dtype type = (Dtype)graph_node(g, o->value)->type;
    add_dims(g, library_add_tensor(m->s.arena, list, MESHC_OUTPUT, o->name, type, o->rank), o->rank,
             o->dims);
  }
}

void library_list_model(CompiledModel *m) {
  static const meshc_kind of[] = {
      [DECL_INPUT] = MESHC_INPUT, [DECL_PARAM] = MESHC_PARAMETER, [DECL_STATE] = MESHC_STATE};
  const Graph *g = m->s.model->graph;
  for (int k = 0; k < MESHC_OUTPUT; k++)
    m->base.tensor[k].at = arena_array(m->s.arena, meshc_tensor, g->decl.n + 1);
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    if (d->kind == DECL_SLOT) continue;
    meshc_kind kind = of[d->kind];
    add_dims(g,
             library_add_tensor(m->s.arena, &m->base.tensor[kind], kind, d->name, d->type, d->rank),
             d->rank, d->dims);
  }
  list_outputs(m);
}
