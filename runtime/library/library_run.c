// Runs programs with the caller's buffers, and passes the other calls on to the model's kind. All
// programs of a model share one set of parameters and states.
#include "runtime/library/library.h"

#include <stdlib.h>
#include <string.h>

meshc_program *library_program_new(meshc_model *m, size_t bytes) {
  meshc_program *p = arena_alloc(m->arena, bytes);
  *p = (meshc_program){.model = m, .before = m->programs};
  m->programs = p;
  return p;
}

void library_program_free(meshc_program *p) {
  for (int k = 0; k < KINDS; k++)
    for (uint32_t i = 0; p->room[k] && i < p->tensor[k].n; i++) free(p->room[k][i]);
  exec_free(p->exec);
}

const Exec *library_shared(const meshc_model *m) {
  return m->trainer ? m->trainer : m->store ? m->store->exec : NULL;
}

// -- compiling ----------------------------------------------------------------------------------

typedef struct CompileCall {
  meshc_purpose purpose;
  const char *const *fetch;
  size_t n;
  meshc_program *program;
} CompileCall;

static bool compile_call(meshc_model *m, void *context) {
  CompileCall *c = context;
  if ((unsigned)c->purpose > MESHC_TRAIN || (c->n && !c->fetch) || c->n > 1 << 20)
    return diag_error(m->diag, DIAG_USAGE, (Pos){0}, "no such purpose, or no list of names");
  for (size_t i = 0; i < c->n; i++)
    if (!c->fetch[i])
      return diag_error(m->diag, DIAG_USAGE, (Pos){0}, "a name of a fetched value is NULL");
  c->program = m->kind->compile(m, c->purpose, c->fetch, c->n);
  return c->program != NULL;
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
  const meshc_model *m = p->model;
  diag_error(m->diag, kind == MESHC_INPUT ? DIAG_UNKNOWN_FEED : DIAG_UNKNOWN_FETCH, (Pos){0},
             "the program has no %s '%s'", kind == MESHC_INPUT ? "input" : "output",
             name ? name : "");
  const char **names = arena_array(m->arena, const char *, list->n + 1);
  for (uint32_t i = 0; i < list->n; i++) names[i] = list->at[i].name;
  return diag_nearest(m->diag, name ? name : "", names, list->n);
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
    diag_error(p->model->diag, DIAG_NOT_FED, (Pos){0}, "the input %s is needed and not given",
               inputs->at[i].name);
    return diag_hint(p->model->diag, "every input that the program reads is given at every run");
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
  const meshc_model *m = p->model;
  diag_error(m->diag, DIAG_NOT_FINITE, (Pos){0},
             "the loss or a gradient is not finite in step %lld; the update of that step was not "
             "made",
             (long long)m->steps);
  return diag_hint(m->diag, "try a lower learning rate, or look at the inputs");
}

static bool run(meshc_model *m, void *context) {
  const Step *s = context;
  meshc_program *p = s->program;
  if ((s->nin && !s->in) || (s->nout && !s->out))
    return diag_error(m->diag, DIAG_USAGE, (Pos){0}, "a list of buffers is NULL");
  for (size_t i = 0; i < s->nout; i++)
    if (library_find(&p->tensor[MESHC_OUTPUT], s->out[i].name) < 0)
      return unknown(p, MESHC_OUTPUT, s->out[i].name);
  if (!put_inputs(s)) return false;
  StepResult result = exec_step(p->exec, p->trains ? m->steps : 0, p->trains);
  if (result == STEP_NOT_FINITE) return say_not_finite(p);
  if (result != STEP_OK) {
    exec_fault(p->exec, m->diag);
    return false;
  }
  m->steps += p->trains;
  bool good = true;
  for (size_t i = 0; good && i < s->nout; i++)
    good = library_get(p, MESHC_OUTPUT, library_find(&p->tensor[MESHC_OUTPUT], s->out[i].name),
                       &s->out[i]);
  return good && exec_works(p->exec, m->diag);
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

// -- training and evaluation --------------------------------------------------------------------

typedef struct Training {
  Reporting to;
  int64_t steps;
} Training;

static bool train_call(meshc_model *m, void *context) {
  const Training *t = context;
  if (t->steps < 0)
    return diag_error(m->diag, DIAG_USAGE, (Pos){0}, "a training of %lld steps",
                      (long long)t->steps);
  m->stop = 0;
  return m->kind->train(m, t->steps, &t->to);
}

int meshc_train(meshc_model *m, int64_t steps, meshc_progress_function *progress, void *context,
                meshc_error **error) {
  Training t = {{m, progress, context}, steps};
  return library_call(m, train_call, &t, error);
}

typedef struct Evaluating {
  Reporting to;
  const char *data;
} Evaluating;

static bool evaluate_call(meshc_model *m, void *context) {
  const Evaluating *e = context;
  m->stop = 0;
  return m->kind->evaluate(m, e->data ? e->data : "test", &e->to);
}

int meshc_evaluate(meshc_model *m, const char *data, meshc_progress_function *progress,
                   void *context, meshc_error **error) {
  Evaluating e = {{m, progress, context}, data};
  return library_call(m, evaluate_call, &e, error);
}

// -- facts --------------------------------------------------------------------------------------

typedef struct Asking {
  const char *command;
  meshc_purpose purpose;
  char *text; // the result: JSON allocated by malloc
} Asking;

static bool ask_call(meshc_model *m, void *context) {
  Asking *a = context;
  a->text = m->kind->json(m, a->command, a->purpose);
  return a->text != NULL;
}

char *meshc_json(meshc_model *m, const char *command, meshc_purpose purpose, meshc_error **error) {
  Asking a = {.command = command, .purpose = purpose};
  (void)library_call(m, ask_call, &a, error);
  return a.text;
}
