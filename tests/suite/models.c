// Whole models, compiled and run on several meshes under several layouts, against the evaluator: every
// output, the loss and the gradient of every float input and parameter, within the computed bound.
//
// tests/models/*.mesh are found by themselves. Comment lines say what to do:
//   # run                       one processor
//   # run rows=2,cols=2 b=rows,h=cols
//   # feed label 0..10          numbers of an integer input, 0..2 otherwise
// Every run is made with products by the library and by generated kernels, on 1 and on 2 workers, and
// the bytes that the communicator counts must be those that `check` predicts.
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/eval.h"
#include "runtime/runtime.h"

enum { MAX_FEEDS = 256, MAX_FETCH = 256 };
static int passed, failed, skipped;

typedef struct Run {
  Arena *arena;
  Diag *diag;
  const char *path, *text;
  size_t size;
  const char *mesh, *layout; // NULL: none
  bool products;
  int threads;
  Model *model;
  Compilation made;
  Exec *exec;
  uint32_t nfeeds;
  EvalFeed feed[MAX_FEEDS];
  char label[300];
} Run;

static void fault(Run *r, const char *what) {
  printf("FAIL %s: %s\n", r->label, what);
  diag_print(r->diag, stdout, false);
}

static Ast *option_ast(Run *r, Intern *names, const char *option, const char *text,
                       Ast *(*parse)(Arena *, Intern *, Diag *, uint32_t, const char *, size_t)) {
  if (!text) return NULL;
  uint32_t source = diag_source(r->diag, option, text, strlen(text));
  return parse(r->arena, names, r->diag, source, text, strlen(text));
}

static bool run_build(Run *r) {
  Intern *names = intern_new(r->arena);
  uint32_t source = diag_source(r->diag, r->path, r->text, r->size);
  Ast *ast = ast_parse(r->arena, names, r->diag, source, r->text, r->size);
  ModelOptions options = {.path = r->path,
                          .mesh = option_ast(r, names, "--mesh", r->mesh, ast_parse_mesh),
                          .layout = option_ast(r, names, "--layout", r->layout, ast_parse_layout),
                          .no_layout = !r->layout};
  if (diag_errors(r->diag)) return false;
  r->model = model_build(r->arena, names, r->diag, ast, &options);
  return r->model != NULL;
}

// Every output, loss and metric, and the gradients of all that is float and comes from outside.
static Graph *run_select(Run *r) {
  const Graph *g = r->model->graph;
  const char *name[MAX_FETCH];
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->name.n && n < MAX_FETCH; i++) {
    const Name *x = &g->name.at[i];
    if (x->kind == NAME_OUTPUT || x->kind == NAME_METRIC) name[n++] = x->name;
  }
  if (r->model->loss) {
    name[n++] = r->model->loss;
    for (uint32_t i = 0; i < g->decl.n && n < MAX_FETCH; i++) {
      const Decl *d = &g->decl.at[i];
      if (dtype_is_float(d->type) && d->node && d->kind <= DECL_PARAM)
        name[n++] = arena_printf(r->arena, "grad(%s)", d->name);
    }
  }
  Fetch fetch = {.n = n, .name = name};
  return select_run(r->arena, r->model, &fetch);
}

static bool run_compile(Run *r) {
  Graph *g = run_select(r);
  if (!g) return false;
  static Machine machine;
  machine = machine_default();
  PipelineOptions options = {.codegen = {.fuse = true, .products = r->products, .for_ = "run"},
                             .code = {.opt = 2}, .machine = &machine, .machine_code = true};
  if (!pipeline_run(r->arena, g, &options, NULL, r->diag, &r->made)) return false;
  ExecOptions exec = {.threads = r->threads, .seed = 7};
  r->exec = exec_new(r->made.compiled->program, &exec, r->diag);
  return r->exec && exec_initialise(r->exec, r->diag);
}

// The bounds of "# feed NAME low..high".
static void feed_range(const Run *r, const char *name, long *low, long *high) {
  *low = 0, *high = 2;
  const char *at = strstr(r->text, arena_printf(r->arena, "# feed %s ", name));
  if (at) sscanf(at + strlen("# feed ") + strlen(name), "%ld..%ld", low, high);
}

// Made-up numbers for inputs; for parameters what the executor drew.
static bool run_feed(Run *r) {
  const Graph *g = r->made.simplified;
  const Program *p = r->made.compiled->program;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    if (!d->node || r->nfeeds == MAX_FEEDS) continue;
    int64_t n = 1;
    for (int k = 0; k < d->rank; k++) n *= dim_get(g->dims, d->dims[k])->size;
    double *value = arena_array(r->arena, double, n);
    char *data = arena_alloc(r->arena, (size_t)(n * dtype_bytes(d->type)));
    static const TensorKind kinds[] = {TENSOR_INPUT, TENSOR_PARAM, TENSOR_STATE, TENSOR_SLOT};
    TensorKind kind = kinds[d->kind];
    if (kind == TENSOR_INPUT) {
      long low, high;
      feed_range(r, d->name, &low, &high);
      uint64_t key = rng_key(11, d->name);
      Init draw = {.kind = INIT_NORMAL, .a = 0, .b = 1};
      for (int64_t k = 0; k < n; k++) {
        rng_draw(&draw, key, 1, &k, &value[k]);
        if (!dtype_is_float(d->type)) value[k] = (double)(low + (long)(fabs(value[k]) * 1000) % (high - low));
        value[k] = dtype_round(d->type, value[k]);
        dtype_store(d->type, data + k * dtype_bytes(d->type), value[k]);
      }
      if (program_tensor(p, kind, d->name) >= 0) exec_write(r->exec, kind, d->name, d->type, data);
    } else if (program_tensor(p, kind, d->name) >= 0) {
      exec_read(r->exec, kind, d->name, data);
      for (int64_t k = 0; k < n; k++) value[k] = dtype_load(d->type, data + k * dtype_bytes(d->type));
    }
    r->feed[r->nfeeds++] = (EvalFeed){.decl = i + 1, .value = value, .n = n};
  }
  return true;
}

// The first node of which more than one element in ten may be anything, with its arguments' bounds.
static const char *first_doubt(Run *r, const Eval *truth) {
  for (NodeId n = 1; n <= graph_count(truth->graph); n++) {
    const Tensor *t = eval_at(truth, n, 0);
    int64_t tainted = 0;
    for (int64_t k = 0; k < t->elements; k++) tainted += t->tainted[k];
    if (tainted * 10 <= t->elements) continue;
    return arena_printf(r->arena, "%s", graph_node_text(r->arena, truth->graph, r->diag, n));
  }
  return "nothing";
}

// Output `o` of the run against the evaluator's tensor; true if all untainted elements are in bounds.
static bool output_agrees(Run *r, const Output *o, const Eval *truth) {
  bool replicas;
  const Tensor *t = eval_whole(r->arena, truth, o->value, o->rank, o->dims, &replicas);
  char *data = arena_alloc(r->arena, (size_t)(t->elements * dtype_bytes(t->type)) + 1);
  exec_read(r->exec, TENSOR_OUTPUT, o->name, data);
  int64_t bad = 0, tainted = 0, first = -1;
  for (int64_t k = 0; k < t->elements; k++) {
    double got = dtype_load(t->type, data + k * dtype_bytes(t->type)), want = t->value[k];
    if (t->tainted[k]) {
      tainted++;
    } else if (!(got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 2 * t->bound[k])) {
      if (!bad++) first = k;
    }
  }
  char what[300];
  if (bad) {
    snprintf(what, sizeof what, "%s: %lld of %lld off, first at %lld: got %.9g, expected %.9g +- %.3g", o->name,
             (long long)bad, (long long)t->elements, (long long)first,
             dtype_load(t->type, data + first * dtype_bytes(t->type)), t->value[first], t->bound[first]);
    fault(r, what);
  } else if (tainted * 10 > t->elements && t->elements > 1) {
    snprintf(what, sizeof what, "%s: vacuous, %lld of %lld tainted, from %s", o->name, (long long)tainted,
             (long long)t->elements, first_doubt(r, truth));
    fault(r, what);
    bad = 1;
  }
  return !bad;
}

static bool counted_as_predicted(Run *r) {
  const CommCount *c = exec_counts(r->exec);
  int64_t counted = 0;
  for (int k = 0; k < COLL_COUNT; k++) counted += c->wire_bytes[k];
  if (counted == r->made.facts->wire_bytes) return true;
  char what[120];
  snprintf(what, sizeof what, "counted %lld wire bytes, predicted %lld", (long long)counted, (long long)r->made.facts->wire_bytes);
  fault(r, what);
  return false;
}

static void run_one(Run *r) {
  snprintf(r->label, sizeof r->label, "%s [%s %s]%s %d workers", r->path, r->mesh ? r->mesh : "-",
           r->layout ? r->layout : "none", r->products ? " products" : " kernels", r->threads);
  r->arena = arena_new();
  r->diag = diag_new(r->arena);
  bool good = run_build(r) && run_compile(r) && run_feed(r);
  if (!good) {
    fault(r, "does not compile");
  } else {
    const Eval *truth = eval_run(r->arena, r->made.simplified, r->nfeeds, r->feed, 0);
    good = exec_step(r->exec, 0, false) == STEP_OK;
    if (!good) fault(r, "the step failed");
    for (uint32_t i = 0; good && i < r->made.simplified->output.n; i++)
      good = output_agrees(r, &r->made.simplified->output.at[i], truth);
    good = good && counted_as_predicted(r);
  }
  *(good ? &passed : &failed) += 1;
  if (r->exec) exec_free(r->exec);
  if (r->made.code) code_free(r->made.code);
  arena_free(r->arena);
}

static void file_runs(const char *path) {
  FILE *f = fopen(path, "rb");
  static char text[1 << 20];
  if (!f) return;
  size_t n = fread(text, 1, sizeof text - 1, f);
  text[n] = 0;
  fclose(f);
  const char *blas;
  bool have = blas_open(&blas);
  for (const char *at = strstr(text, "# run"); at; at = strstr(at + 1, "# run")) {
    char mesh[100] = "", layout[200] = "", line[300];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    sscanf(line, "# run %99s %199s", mesh, layout);
    for (int variant = 0; variant < 2; variant++) {
      if (variant == 0 && !have) {
        skipped++;
        continue;
      }
      Run r = {.path = path, .text = text, .size = n, .mesh = *mesh ? mesh : NULL, .layout = *layout ? layout : NULL,
               .products = variant == 0, .threads = 1 + variant};
      run_one(&r);
    }
  }
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, 1 skipped\n");
    return 0;
  }
  Arena *a = arena_new();
  VEC(char *) path = {0};
  for (int i = 1; i < argc; i++) vec_push(a, path) = argv[i];
  DIR *d = argc > 1 ? NULL : opendir("tests/models");
  for (struct dirent *e; d && (e = readdir(d));)
    if (strstr(e->d_name, ".mesh")) vec_push(a, path) = arena_printf(a, "tests/models/%s", e->d_name);
  if (d) closedir(d);
  if (path.n) qsort(path.at, path.n, sizeof *path.at, by_name);
  for (uint32_t i = 0; i < path.n; i++) file_runs(path.at[i]);
  arena_free(a);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}
