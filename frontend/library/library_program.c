// Compiles programs for a purpose. All programs of a model share one set of parameters and states.
#include "frontend/library/library_internal.h"

CompiledProgram *library_program_of(meshc_program *p) { return (CompiledProgram *)(void *)p; }

static CompiledProgram *program_new(CompiledModel *m) {
  return library_program_of(library_program_new(&m->base, sizeof(CompiledProgram)));
}

static bool bind(CompiledModel *m, CompiledProgram *p, const char *watch) {
  p->base.program = p->made.compiled->program;
  p->base.exec = session_exec(&m->s, &p->made, library_shared(&m->base), watch);
  if (!p->base.exec) return false;
  library_list_program(&p->base);
  return true;
}

// -- the store ----------------------------------------------------------------------------------

// Selects a graph that reads every parameter and state, so that each gets the sharding that it has
// in programs that compute with it.
static const Graph *select_values(CompiledModel *m) {
  const TensorList *kept = &m->base.tensor[MESHC_PARAMETER], *states = &m->base.tensor[MESHC_STATE];
  const char **names = arena_array(m->s.arena, const char *, kept->n + states->n + 1);
  Fetch f = {.name = (const char *const *)names};
  for (uint32_t i = 0; i < kept->n; i++) names[f.n++] = kept->at[i].name;
  for (uint32_t i = 0; i < states->n; i++) names[f.n++] = states->at[i].name;
  return f.n ? select_run(m->s.arena, m->s.model, &f)
             : graph_like(m->s.arena, m->s.model->graph, STAGE_GRAD);
}

// Returns a copy of what was compiled, whose program only keeps values.
static const Compiled *without_steps(Arena *a, const Compiled *all) {
  Compiled *c = arena_copy(a, all, sizeof *all);
  c->program = program_of_values(a, all->program, false);
  return c;
}

// Lets the store keep its tensors also on the GPU of the session, if it has one: the programs of
// the model share this copy. Returns false after an error.
static bool load_on_gpu(const Session *s, CompiledProgram *p) {
  if (!s->gpu) return true;
  p->made.on_gpu = gpu_program_new(s->gpu, p->made.compiled->program, &(GpuParts){0}, s->diag);
  return p->made.on_gpu != NULL;
}

meshc_program *library_store(meshc_model *model) {
  CompiledModel *m = library_model_of(model);
  if (model->store) return model->store;
  if (!session_open_device(&m->s)) return NULL;
  CompiledProgram *p = program_new(m);
  p->graph = select_values(m);
  if (!p->graph || !session_compile(&m->s, p->graph, "run", NULL, "program", &p->made)) return NULL;
  p->made.compiled = without_steps(m->s.arena, p->made.compiled);
  if (load_on_gpu(&m->s, p) && bind(m, p, NULL)) model->store = &p->base;
  return model->store;
}

// -- compiling ----------------------------------------------------------------------------------

typedef struct Compiling {
  meshc_purpose purpose;
  Fetch fetch;
} Compiling;

static Fetch outputs_of(const CompiledModel *m) {
  const Graph *g = m->s.model->graph;
  const char **names = arena_array(m->s.arena, const char *, g->name.n + 1);
  Fetch f = {.name = (const char *const *)names};
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_OUTPUT) names[f.n++] = g->name.at[i].name;
  return f;
}

static const Graph *select_for(const CompiledModel *m, const Compiling *c) {
  const Session *s = &m->s;
  Fetch f = c->fetch;
  if (c->purpose == MESHC_TRAIN) {
    if (!training_without_sync(s, "a step of the library")) return NULL;
    if (s->model->graph->spec.ntrain) return select_train(s->arena, s->model, f.n ? &f : NULL);
    diag_error(s->diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "the model has no train block");
    return NULL;
  }
  if (!f.n) f = c->purpose == MESHC_EVALUATE ? session_evaluated(s) : outputs_of(m);
  return select_run(s->arena, s->model, f.n ? &f : NULL);
}

static const char *const purpose_text[] = {
    [MESHC_PREDICT] = "run", [MESHC_EVALUATE] = "run", [MESHC_TRAIN] = "train"};

static meshc_program *compile(CompiledModel *m, const Compiling *c) {
  if (!library_store(&m->base)) return NULL;
  CompiledProgram *p = program_new(m);
  p->base.trains = c->purpose == MESHC_TRAIN;
  p->graph = select_for(m, c);
  if (!p->graph ||
      !session_compile(&m->s, p->graph, purpose_text[c->purpose], NULL, NULL, &p->made) ||
      !bind(m, p, p->base.trains ? m->s.model->loss : NULL))
    return NULL;
  if (p->base.trains && !m->base.trainer) m->base.trainer = p->base.exec;
  return &p->base;
}

meshc_program *library_compile(meshc_model *model, meshc_purpose purpose, const char *const *fetch,
                               size_t n) {
  CompiledModel *m = library_model_of(model);
  const char **names = arena_array(m->s.arena, const char *, n + 1);
  for (size_t i = 0; i < n; i++) names[i] = intern(m->s.names, fetch[i]);
  const Compiling c = {purpose, {.n = (uint32_t)n, .name = (const char *const *)names}};
  return compile(m, &c);
}
