// Compiles and trains models for suites (trained.h).
#include "tests/suite/common/trained.h"

#include <string.h>

#include "tests/suite/common/code.h"

enum { SEED = 7, STEPS = 2 };

static Ast *option(Trained *t, Intern *names, const char *name, const char *text,
                   Ast *(*parse)(Arena *, Intern *, Diag *, uint32_t, const char *, size_t)) {
  return text ? parse(t->a, names, t->diag, diag_source(t->diag, name, text, strlen(text)), text,
                      strlen(text))
              : NULL;
}

bool trained_compile(Trained *t, const TrainedModel *c, int64_t memory) {
  Intern *names = intern_new(t->a);
  Ast *ast =
      ast_parse(t->a, names, t->diag, diag_source(t->diag, c->name, c->text, strlen(c->text)),
                c->text, strlen(c->text));
  ModelOptions opt = {.path = c->name,
                      .mesh = option(t, names, "--mesh", c->mesh, ast_parse_mesh),
                      .layout = option(t, names, "--layout", c->layout, ast_parse_layout),
                      .no_layout = !c->layout,
                      .seed = SEED};
  Model *m = diag_errors(t->diag) ? NULL : model_build(t->a, names, t->diag, ast, &opt);
  Graph *g = m && layout_check(m->graph, &m->layout, t->diag) ? select_train(t->a, m, NULL) : NULL;
  static Machine machine;
  machine = machine_default();
  PipelineOptions how = {
      .codegen = {.fuse = suite_fuses(true),
                  .products = c->library ? product_types(ALL_TYPES) : 0,
                  .product_work = c->library,
                  .epilogues = c->library ? ALL_EPILOGUES : 0,
                  .for_ = "train"},
      .code = {.opt = suite_opt(0), .without = suite_without(), .cache = suite_cache()},
      .machine = &machine,
      .memory = memory,
      .machine_code = true};
  return g && pipeline_run(t->a, g, &how, NULL, t->diag, &t->made);
}

// The rows follow one another in an input, so the data does not depend on how a batch is divided.
static void write_inputs(Trained *t, int64_t classes) {
  const Program *p = t->made.compiled->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *x = &p->tensor[i];
    if (x->kind != TENSOR_INPUT) continue;
    int64_t n = 1, size = dtype_bytes(x->type);
    for (int k = 0; k < x->rank; k++) n *= x->dim[k].whole;
    char *data = arena_alloc(t->a, (size_t)(n * size));
    for (int64_t k = 0; k < n; k++)
      dtype_store(x->type, data + k * size,
                  dtype_is_float(x->type) ? (double)(k * 37 % 19) / 9 - 1 : (double)(k % classes));
    exec_write(t->exec, TENSOR_INPUT, x->name, x->type, data);
  }
}

bool trained_run(Trained *t, int64_t classes) {
  ExecOptions opt = {.threads = 2, .seed = SEED};
  t->exec = exec_new(t->made.compiled->program, &opt, t->diag);
  if (!t->exec) return false;
  write_inputs(t, classes);
  for (int64_t step = 0; step < STEPS; step++)
    if (exec_step(t->exec, step, true) != STEP_OK) return false;
  return true;
}

void *trained_read(Trained *t, const ProgTensor *x, size_t *bytes) {
  *bytes = (size_t)dtype_bytes(x->type);
  for (int k = 0; k < x->rank; k++) *bytes *= (size_t)x->dim[k].whole;
  void *data = arena_alloc(t->a, *bytes + 1);
  exec_read(t->exec, x->kind, x->name, data);
  return data;
}
