// Compiles whole models, runs them on several meshes under several layouts, and compares them with
// the evaluator: every output, the loss, the gradient of every float input and parameter, and after
// training steps every parameter and slot. The tolerance comes from evaluations with random
// rounding errors (ir/eval/expect.h).
//
// The suite finds tests/models/*.mesh by itself. Comment lines in a model say what to do:
//   # run                              one processor
//   # run rows=2,cols=2 b=rows,h=cols
//   # train 2 rows=2 b=rows            two training steps
//   # feed label 0..10                 range of an integer input, 0..2 otherwise
//   # blocks 4                         attention is computed in blocks of at most 4 rows
//   # zero error 1e-4                  output `error` is 0, or at most so much: the model compares its
//                                      values with a closed form, or with another way to compute them
// Every run is made twice: with GEMMs by the library on one worker, and by generated kernels on
// two. The bytes that the communicator counts must be those that `check` predicts; a step that
// skips one side of a `cond` may send fewer. Parameters must have the same initial values on every
// mesh.
//
//   suite_models [FILE ...]            SHOW=1 prints the error of each output
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/eval/expect.h"
#include "runtime/runtime.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/compare.h"

enum { MAX_FETCH = 256, SEED = 7 };
static int passed, failed, skipped;

// The expected value of one output, the same on every mesh.
typedef struct Want {
  TensorKind kind;
  const char *name;
  Tensor *tensor;
} Want;

typedef struct Given {
  const char *name;
  DeclKind kind;
  Dtype type;
  int64_t n;
  double *value;
} Given;

// What all runs of a model share. The first run that compiles computes it.
typedef struct Truth {
  Arena *arena; // NULL: not computed yet
  int64_t steps;
  VEC(Given) given;
  VEC(Want) want;
} Truth;

typedef struct Run {
  Arena *arena;
  Diag *diag;
  const char *path, *text;
  size_t size;
  const char *mesh, *layout; // NULL: none
  int64_t steps;             // training steps; 0: one run without training
  bool products;
  int threads;
  Model *model;
  Compilation made;
  Exec *exec;
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
                          .no_layout = !r->layout,
                          .seed = SEED};
  if (diag_errors(r->diag)) return false;
  r->model = model_build(r->arena, names, r->diag, ast, &options);
  return r->model != NULL;
}

// Selects every output, loss and metric, and the gradients by all float inputs and parameters.
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

// Returns the number of "# blocks ROWS", or 0 if the model does not have such a line.
static int64_t block_rows(const Run *r) {
  long rows = 0;
  const char *at = strstr(r->text, "# blocks ");
  if (at) sscanf(at, "# blocks %ld", &rows);
  return rows;
}

// Returns whether attention became loops, if the model says so. Rows that are split over processors
// make no loops.
static bool is_blocked(const Run *r) {
  bool split = r->layout && strstr(r->layout, "t=");
  return !block_rows(r) || split || r->made.order->graph->region.n > 0;
}

static bool run_compile(Run *r) {
  Graph *g = r->steps ? select_train(r->arena, r->model, NULL) : run_select(r);
  if (!g) return false;
  static Machine machine;
  machine = machine_default();
  // Generated GEMMs at the lowest optimization level, library GEMMs at the users' level: both
  // levels are covered.
  PipelineOptions options = {.codegen = {.fuse = suite_fuses(true),
                                         .products = r->products ? product_types(ALL_TYPES) : 0,
                                         .blocked_rows = block_rows(r),
                                         .for_ = r->steps ? "train" : "run"},
                             .code = {.opt = suite_opt(r->products ? 2 : 0),
                                      .without = suite_without(),
                                      .cache = suite_cache()},
                             .machine = &machine,
                             .machine_code = true};
  if (!pipeline_run(r->arena, g, &options, NULL, r->diag, &r->made) || !is_blocked(r)) return false;
  ExecOptions exec = {.threads = r->threads, .seed = SEED};
  r->exec = exec_new(r->made.compiled->program, &exec, r->diag);
  return r->exec != NULL;
}

// -- numbers ------------------------------------------------------------------------------------

// Reads the range of "# feed NAME low..high".
static void feed_range(const Run *r, const char *name, long *low, long *high) {
  *low = 0, *high = 2;
  const char *at = strstr(r->text, arena_printf(r->arena, "# feed %s ", name));
  if (at) sscanf(at + strlen("# feed ") + strlen(name), "%ld..%ld", low, high);
}

static void draw_input(const Run *r, const Given *x) {
  long low, high;
  feed_range(r, x->name, &low, &high);
  uint64_t key = rng_key(11, x->name);
  Init draw = {.kind = INIT_NORMAL, .a = 0, .b = 1};
  for (int64_t k = 0; k < x->n; k++) {
    double *v = &x->value[k];
    rng_draw(&draw, key, 1, &k, v);
    if (!dtype_is_float(x->type)) *v = (double)(low + (long)(fabs(*v) * 1000) % (high - low));
    *v = dtype_round(x->type, *v);
  }
}

// Reads the whole of a parameter, state or slot from the executor.
static void read_whole(Run *r, TensorKind kind, const char *name, Dtype type, int64_t n,
                       double *out) {
  int64_t size = dtype_bytes(type);
  char *data = arena_alloc(r->arena, (size_t)(n * size) + 1);
  exec_read(r->exec, kind, name, data);
  for (int64_t k = 0; k < n; k++) out[k] = dtype_load(type, data + k * size);
}

static bool is_used(const Run *r, const Given *x) {
  return program_tensor(r->made.compiled->program, tensor_kind(x->kind), x->name) >= 0;
}

static Given given_new(Run *r, Truth *t, const Graph *g, const Decl *d) {
  Given x = {
      .name = arena_printf(t->arena, "%s", d->name), .kind = d->kind, .type = d->type, .n = 1};
  for (int k = 0; k < d->rank; k++) x.n *= dim_get(g->dims, d->dims[k])->size;
  x.value = arena_array(t->arena, double, x.n);
  if (d->kind == DECL_INPUT)
    draw_input(r, &x);
  else if (is_used(r, &x))
    read_whole(r, tensor_kind(x.kind), x.name, x.type, x.n, x.value);
  return x;
}

static void want_output(Truth *t, Expect *e, uint32_t i) {
  const Output *o = &e->graph->output.at[i];
  TensorKind kind = tensor_kind_of_output(e->graph, o);
  vec_push(t->arena, t->want) =
      (Want){kind, arena_printf(t->arena, "%s", o->name), expect_output(e, i)};
}

// Computes the expected values: the evaluator runs on drawn inputs, and on parameters as the
// executor drew them.
static void truth_make(Truth *t, Run *r) {
  const Graph *g = r->made.simplified;
  *t = (Truth){.arena = arena_new(), .steps = r->steps};
  VEC(EvalFeed) feed = {0};
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    if (!d->node) continue;
    Given x = given_new(r, t, g, d);
    vec_push(t->arena, t->given) = x;
    vec_push(t->arena, feed) = (EvalFeed){.decl = i + 1, .value = x.value, .n = x.n};
  }
  Expect *e = expect_new(t->arena, g, NULL, feed.n, feed.at);
  for (int64_t step = 0; step == 0 || step < r->steps; step++) {
    if (step > 0) expect_commit(e);
    expect_step(e, step);
  }
  for (uint32_t i = 0; i < g->output.n; i++) want_output(t, e, i);
}

// Feeds the inputs. Returns false when a parameter's initial value differs from the one on the
// first mesh.
static bool run_feed(Run *r, const Truth *t) {
  for (uint32_t i = 0; i < t->given.n; i++) {
    const Given *x = &t->given.at[i];
    if (!is_used(r, x)) continue;
    int64_t size = dtype_bytes(x->type);
    char *data = arena_alloc(r->arena, (size_t)(x->n * size) + 1);
    double *start = arena_array(r->arena, double, x->n);
    for (int64_t k = 0; k < x->n; k++) dtype_store(x->type, data + k * size, x->value[k]);
    if (x->kind == DECL_INPUT)
      exec_write(r->exec, TENSOR_INPUT, x->name, x->type, data);
    else
      read_whole(r, tensor_kind(x->kind), x->name, x->type, x->n, start);
    if (x->kind != DECL_INPUT && memcmp(start, x->value, (size_t)x->n * sizeof *start) != 0) {
      fault(r, arena_printf(r->arena, "%s starts otherwise than on the first mesh", x->name));
      return false;
    }
  }
  return true;
}

// -- comparing ----------------------------------------------------------------------------------

static double mean_square(int64_t n, const double *x) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) sum += isfinite(x[k]) ? x[k] * x[k] : 0;
  return n ? sum / (double)n : 0;
}

// Prints the largest part of its tolerance that an element used.
static void show(const Run *r, const Want *w, const double *got) {
  double worst = 0;
  const Tensor *t = w->tensor;
  for (int64_t k = 0; k < t->elements; k++) {
    double off = fabs(got[k] - t->value[k]);
    if (off > 0 && t->bound[k] > 0) worst = fmax(worst, off / t->bound[k]);
  }
  printf("%s: %s: rms %.3g, tolerance %.3g, used %.3f\n", r->label, w->name,
         sqrt(mean_square(t->elements, t->value)), sqrt(mean_square(t->elements, t->bound)), worst);
}

// Returns whether each element of an output is as near to 0 as the line "# zero NAME MOST" says.
static bool is_zero(Run *r, const Want *w, const double *got) {
  double most = HUGE_VAL, worst = 0;
  const char *at = strstr(r->text, arena_printf(r->arena, "# zero %s ", w->name));
  if (!at) return true;
  sscanf(at + strlen("# zero ") + strlen(w->name), "%lf", &most);
  for (int64_t k = 0; k < w->tensor->elements; k++)
    worst = got[k] == got[k] ? fmax(worst, fabs(got[k])) : HUGE_VAL;
  if (worst > most) fault(r, arena_printf(r->arena, "%s is %g, not 0", w->name, worst));
  return worst <= most;
}

static bool output_agrees(Run *r, const Want *w) {
  const Tensor *t = w->tensor;
  double *got = arena_array(r->arena, double, t->elements + 1);
  read_whole(r, w->kind, w->name, t->type, t->elements, got);
  Compare c = compare_tensor(t, got);
  if (!compare_ok(&c))
    fault(r, arena_printf(r->arena, "%s: %s", w->name, compare_text(r->arena, &c)));
  if (getenv("SHOW")) show(r, w, got);
  return is_zero(r, w, got) && compare_ok(&c);
}

static bool counted_as_predicted(Run *r) {
  const CommCount *c = exec_counts(r->exec);
  int64_t counted = 0, predicted = r->made.facts->wire_bytes * (r->steps ? r->steps : 1);
  for (int k = 0; k < COLL_COUNT; k++) counted += c->wire_bytes[k];
  if (!exec_check(r->exec, r->diag)) {
    fault(r, "the run is not what was predicted");
    return false;
  }
  bool skips = program_may_skip(r->made.compiled->program);
  if (counted == predicted || (skips && counted < predicted)) return true;
  fault(r, arena_printf(r->arena, "counted %lld wire bytes, predicted %lld", (long long)counted,
                        (long long)predicted));
  return false;
}

static bool run_steps(Run *r) {
  for (int64_t step = 0; step == 0 || step < r->steps; step++)
    if (exec_step(r->exec, step, r->steps > 0) != STEP_OK) {
      exec_fault(r->exec, r->diag);
      fault(r, "a step failed");
      return false;
    }
  return true;
}

static bool run_check(Run *r, Truth *t) {
  if (!t->arena || t->steps != r->steps) {
    if (t->arena) arena_free(t->arena);
    truth_make(t, r);
  }
  if (!run_feed(r, t) || !run_steps(r)) return false;
  bool good = counted_as_predicted(r);
  for (uint32_t i = 0; i < t->want.n; i++) good = output_agrees(r, &t->want.at[i]) && good;
  return good;
}

static void run_one(Run *r, Truth *t) {
  char what[30] = "";
  if (r->steps) snprintf(what, sizeof what, " train %lld", (long long)r->steps);
  snprintf(r->label, sizeof r->label, "%s%s [%s %s]%s %d workers", r->path, what,
           r->mesh ? r->mesh : "-", r->layout ? r->layout : "none",
           r->products ? " products" : " kernels", r->threads);
  r->arena = arena_new();
  r->diag = diag_new(r->arena);
  bool good = run_build(r) && run_compile(r);
  if (!good) fault(r, "does not compile");
  good = good && run_check(r, t);
  *(good ? &passed : &failed) += 1;
  if (r->exec) exec_free(r->exec);
  if (r->made.code) code_free(r->made.code);
  arena_free(r->arena);
}

// Reads "# run MESH LAYOUT" or "# train N MESH LAYOUT". Returns false for any other line.
static bool line_read(const char *line, int64_t *steps, char mesh[100], char layout[200]) {
  long n = 0;
  *mesh = *layout = 0;
  bool run = !strncmp(line, "# run", 5) && sscanf(line, "# run %99s %199s", mesh, layout) < 3;
  bool train = !run && sscanf(line, "# train %ld %99s %199s", &n, mesh, layout) >= 1;
  *steps = n;
  return run || train;
}

static void file_runs(const char *path) {
  FILE *f = fopen(path, "rb");
  static char text[1 << 20];
  if (!f) {
    printf("FAIL %s cannot be read\n", path);
    failed++;
    return;
  }
  size_t n = fread(text, 1, sizeof text - 1, f);
  text[n] = 0;
  fclose(f);
  bool have = product_way(TYPE_F32, NULL);
  Truth truth = {0};
  int before = passed + failed + skipped;
  for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
    char mesh[100], layout[200], line[320];
    int64_t steps;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    for (int variant = 0; line_read(line, &steps, mesh, layout) && variant < 2; variant++) {
      skipped += variant == 0 && !have;
      Run r = {.path = path,
               .text = text,
               .size = n,
               .mesh = *mesh ? mesh : NULL,
               .layout = *layout ? layout : NULL,
               .steps = steps,
               .products = variant == 0,
               .threads = 1 + variant};
      if (variant == 1 || have) run_one(&r, &truth);
    }
  }
  if (truth.arena) arena_free(truth.arena);
  if (passed + failed + skipped > before) return;
  printf("FAIL %s: no line says what to run\n", path);
  failed++;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

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
    if (strstr(e->d_name, ".mesh"))
      vec_push(a, path) = arena_printf(a, "tests/models/%s", e->d_name);
  if (d) closedir(d);
  if (path.n) qsort(path.at, path.n, sizeof *path.at, by_name);
  for (uint32_t i = 0; i < path.n; i++)
    if (suite_takes()) file_runs(path.at[i]);
  arena_free(a);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}
