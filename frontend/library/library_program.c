// Compiles programs for a purpose and runs them with the caller's buffers. All programs of a model
// share one set of parameters and states.
#include "frontend/library/library_internal.h"

#include <stdlib.h>
#include <string.h>

void library_program_free(meshc_program *p) {
  for (int k = 0; k < KINDS; k++)
    for (uint32_t i = 0; p->room[k] && i < p->tensor[k].n; i++) free(p->room[k][i]);
  exec_free(p->exec);
  compilation_free(&p->made);
}

bool library_stuck(const meshc_model *m) {
  bool stuck = exec_is_stuck(m->train.exec) || exec_is_stuck(m->test.exec) ||
               exec_is_stuck(m->eval.exec) || exec_is_stuck(m->eval.last.exec) ||
               exec_is_stuck(m->test.last.exec);
  for (const meshc_program *p = m->programs; p; p = p->before) stuck |= exec_is_stuck(p->exec);
  return stuck;
}

const Exec *library_shared(const meshc_model *m) {
  return m->trainer ? m->trainer : m->store ? m->store->exec : NULL;
}

// Returns a new program. It is added to the model's list at once, so that meshc_close frees it even
// if its compile fails.
static meshc_program *program_new(meshc_model *m) {
  meshc_program *p = arena_new_of(m->s.arena, meshc_program);
  *p = (meshc_program){.model = m, .before = m->programs};
  m->programs = p;
  return p;
}

static bool bind(meshc_program *p, const char *watch) {
  p->exec = session_exec(&p->model->s, &p->made, library_shared(p->model), watch);
  if (!p->exec) return false;
  library_list_program(p);
  return true;
}

// -- the store ----------------------------------------------------------------------------------

// Selects a graph that reads every parameter and state, so that each gets the sharding that it has
// in programs that compute with it.
static const Graph *select_values(meshc_model *m) {
  const TensorList *kept = &m->tensor[MESHC_PARAMETER], *states = &m->tensor[MESHC_STATE];
  const char **names = arena_array(m->s.arena, const char *, kept->n + states->n + 1);
  Fetch f = {.name = (const char *const *)names};
  for (uint32_t i = 0; i < kept->n; i++) names[f.n++] = kept->at[i].name;
  for (uint32_t i = 0; i < states->n; i++) names[f.n++] = states->at[i].name;
  return f.n ? select_run(m->s.arena, m->s.model, &f)
             : graph_like(m->s.arena, m->s.model->graph, STAGE_GRAD);
}

// Returns a copy of the program that has its parameters and states, and no instructions, kernels or
// other tensors.
static const Compiled *without_steps(Arena *a, const Compiled *all) {
  Compiled *c = arena_copy(a, all, sizeof *all);
  Program *p = arena_copy(a, all->program, sizeof *p);
  p->tensor = arena_array(a, ProgTensor, p->ntensors + 1);
  p->ntensors = p->ninstrs = p->nkernels = p->nchecks = 0;
  p->arena_bytes = 0;
  for (uint32_t i = 0; i < all->program->ntensors; i++) {
    const ProgTensor *t = &all->program->tensor[i];
    if (t->kind != TENSOR_PARAM && t->kind != TENSOR_STATE) continue;
    p->tensor[p->ntensors] = *t;
    p->tensor[p->ntensors].at.tensor = (int32_t)p->ntensors;
    p->ntensors++;
  }
  c->program = p;
  return c;
}

// Lets the store keep its tensors also on the GPU of the session, if it has one: the programs of
// the model share this copy. Returns false after an error.
static bool load_on_gpu(meshc_program *p) {
  const Session *s = &p->model->s;
  if (!s->gpu) return true;
  p->made.on_gpu = gpu_program_new(s->gpu, p->made.compiled->program, &(GpuParts){0}, s->diag);
  return p->made.on_gpu != NULL;
}

meshc_program *library_store(meshc_model *m) {
  if (m->store) return m->store;
  if (!session_open_device(&m->s)) return NULL;
  meshc_program *p = program_new(m);
  p->graph = select_values(m);
  if (!p->graph || !session_compile(&m->s, p->graph, "run", NULL, "program", &p->made)) return NULL;
  p->made.compiled = without_steps(m->s.arena, p->made.compiled);
  if (load_on_gpu(p) && bind(p, NULL)) m->store = p;
  return m->store;
}

// -- compiling ----------------------------------------------------------------------------------

typedef struct Compiling {
  meshc_purpose purpose;
  Fetch fetch;
} Compiling;

static Fetch outputs_of(const meshc_model *m) {
  const Graph *g = m->s.model->graph;
  const char **names = arena_array(m->s.arena, const char *, g->name.n + 1);
  Fetch f = {.name = (const char *const *)names};
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_OUTPUT) names[f.n++] = g->name.at[i].name;
  return f;
}

static const Graph *select_for(const meshc_model *m, const Compiling *c) {
  const Session *s = &m->s;
  Fetch f = c->fetch;
  if (c->purpose == MESHC_TRAIN) {
    if (s->model->graph->spec.ntrain) return select_train(s->arena, s->model, f.n ? &f : NULL);
    diag_error(s->diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "the model has no train block");
    return NULL;
  }
  if (!f.n) f = c->purpose == MESHC_EVALUATE ? session_evaluated(s) : outputs_of(m);
  return select_run(s->arena, s->model, f.n ? &f : NULL);
}

static const char *const purpose_text[] = {
    [MESHC_PREDICT] = "run", [MESHC_EVALUATE] = "run", [MESHC_TRAIN] = "train"};

static meshc_program *compile(meshc_model *m, const Compiling *c) {
  if (!library_store(m)) return NULL;
  meshc_program *p = program_new(m);
  p->trains = c->purpose == MESHC_TRAIN;
  p->graph = select_for(m, c);
  if (!p->graph ||
      !session_compile(&m->s, p->graph, purpose_text[c->purpose], NULL, NULL, &p->made) ||
      !bind(p, p->trains ? m->s.model->loss : NULL))
    return NULL;
  if (p->trains && !m->trainer) m->trainer = p->exec;
  return p;
}

meshc_program *library_compile(meshc_model *m, meshc_purpose purpose) {
  const Compiling c = {.purpose = purpose};
  return compile(m, &c);
}

static bool read_fetch(meshc_model *m, const char *const *fetch, size_t n, Fetch *out) {
  const char **names = arena_array(m->s.arena, const char *, n + 1);
  for (size_t i = 0; i < n; i++) {
    if (!fetch[i])
      return diag_error(m->s.diag, DIAG_USAGE, (Pos){0}, "a name of a fetched value is NULL");
    names[i] = intern(m->s.names, fetch[i]);
  }
  *out = (Fetch){.n = (uint32_t)n, .name = (const char *const *)names};
  return true;
}

typedef struct CompileCall {
  meshc_purpose purpose;
  const char *const *fetch;
  size_t n;
  meshc_program *program;
} CompileCall;

static bool compile_call(meshc_model *m, void *context) {
  CompileCall *call = context;
  Compiling c = {.purpose = call->purpose};
  if ((unsigned)c.purpose > MESHC_TRAIN || (call->n && !call->fetch) || call->n > 1 << 20)
    return diag_error(m->s.diag, DIAG_USAGE, (Pos){0}, "no such purpose, or no list of names");
  call->program = read_fetch(m, call->fetch, call->n, &c.fetch) ? compile(m, &c) : NULL;
  return call->program != NULL;
}

meshc_program *meshc_compile(meshc_model *m, meshc_purpose purpose, const char *const *fetch,
                             size_t nfetch, meshc_error **error) {
  CompileCall c = {.purpose = purpose, .fetch = fetch, .n = nfetch};
  return library_call(m, compile_call, &c, error) == 0 ? c.program : NULL;
}

// -- running ------------------------------------------------------------------------------------

typedef struct Step {
  meshc_program *program;
  const meshc_array *in, *out;
  size_t nin, nout;
} Step;

static bool unknown(const meshc_program *p, meshc_kind kind, const char *name) {
  const TensorList *list = &p->tensor[kind];
  Session *s = &p->model->s;
  diag_error(s->diag, kind == MESHC_INPUT ? DIAG_UNKNOWN_FEED : DIAG_UNKNOWN_FETCH, (Pos){0},
             "the program has no %s '%s'", kind == MESHC_INPUT ? "input" : "output",
             name ? name : "");
  const char **names = arena_array(s->arena, const char *, list->n + 1);
  for (uint32_t i = 0; i < list->n; i++) names[i] = list->at[i].name;
  return diag_nearest(s->diag, name ? name : "", names, list->n);
}

static bool is_given(const Step *s, const char *name) {
  for (size_t i = 0; i < s->nin; i++)
    if (s->in[i].name && strcmp(s->in[i].name, name) == 0) return true;
  return false;
}

static bool put_inputs(const Step *s) {
  meshc_program *p = s->program;
  const TensorList *inputs = &p->tensor[MESHC_INPUT];
  for (uint32_t i = 0; i < inputs->n; i++) {
    if (is_given(s, inputs->at[i].name)) continue;
    diag_error(p->model->s.diag, DIAG_NOT_FED, (Pos){0}, "the input %s is needed and not given",
               inputs->at[i].name);
    return diag_hint(p->model->s.diag, "every input that the program reads is given at every run");
  }
  for (size_t i = 0; i < s->nin; i++) {
    int64_t k = library_find(inputs, s->in[i].name);
    bool unread = k < 0 && library_find(&p->model->tensor[MESHC_INPUT], s->in[i].name) >= 0;
    if (k < 0 && !unread) return unknown(p, MESHC_INPUT, s->in[i].name);
    if (k >= 0 && !library_put(p, MESHC_INPUT, k, &s->in[i])) return false;
  }
  return true;
}

static bool say_not_finite(const meshc_program *p) {
  Session *s = &p->model->s;
  diag_error(s->diag, DIAG_NOT_FINITE, (Pos){0},
             "the loss or a gradient is not finite in step %lld; the update of that step was not "
             "made",
             (long long)p->model->steps);
  return diag_hint(s->diag, "try a lower learning rate, or look at the inputs");
}

static bool run(meshc_model *m, void *context) {
  const Step *s = context;
  meshc_program *p = s->program;
  if ((s->nin && !s->in) || (s->nout && !s->out))
    return diag_error(m->s.diag, DIAG_USAGE, (Pos){0}, "a list of buffers is NULL");
  for (size_t i = 0; i < s->nout; i++)
    if (library_find(&p->tensor[MESHC_OUTPUT], s->out[i].name) < 0)
      return unknown(p, MESHC_OUTPUT, s->out[i].name);
  if (!put_inputs(s)) return false;
  StepResult result = exec_step(p->exec, p->trains ? m->steps : 0, p->trains);
  if (result == STEP_NOT_FINITE) return say_not_finite(p);
  if (result != STEP_OK) {
    exec_fault(p->exec, m->s.diag);
    return false;
  }
  m->steps += p->trains;
  bool good = true;
  for (size_t i = 0; good && i < s->nout; i++)
    good = library_get(p, MESHC_OUTPUT, library_find(&p->tensor[MESHC_OUTPUT], s->out[i].name),
                       &s->out[i]);
  return good && exec_works(p->exec, m->s.diag);
}

int meshc_run(meshc_program *p, const meshc_array *in, size_t nin, const meshc_array *out,
              size_t nout, meshc_error **error) {
  Step s = {p, in, out, nin, nout};
  return library_call(p ? p->model : NULL, run, &s, error);
}

void *meshc_data(meshc_program *p, meshc_kind kind, const char *name) {
  if (!p || p->model->broken || (unsigned)kind >= KINDS) return NULL;
  int64_t i = library_find(&p->tensor[kind], name);
  return i < 0 ? NULL : exec_direct(p->exec, library_tensor_kind(kind), name);
}

int64_t meshc_steps(const meshc_model *m) { return m ? m->steps : 0; }
