// Attention for a GPU: values and gradients of models with attention, whose kernels run on the
// emulator of GPU threads, against the evaluator. No program may have a buffer of the size of the
// scores: kernels compute them where they read them. How many do so is known: one of the forward
// pass (row values and results in one sweep) and three of the backward pass (gradients of queries,
// keys and values).
//
//   suite_gpu_attention [TEXT]   the cases whose name contains TEXT; SHOW=1 prints their kernels
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/base/philox.h"
#include "ir/eval/expect.h"
#include "runtime/runtime.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/compare.h"
#include "tests/suite/common/program_interp.h"

enum { STEP = 3, MOST_FETCHED = 8, KERNELS = 4 };
static int passed, failed;

// A case. In `text`, @ stands for the element type of the inputs q, key, v and w. The outputs are y
// and the gradients by the float inputs of sum(y * y * w), which depend on y as those of models do.
typedef struct AttentionCase {
  const char *name, *type, *text;
  const char *mesh, *layout; // NULL: one processor
  int kernels;               // that compute scores; 0: scores are stored
} AttentionCase;

#define ALONE NULL, NULL, KERNELS // on one processor
#define INPUTS(q, key, w)                                                                          \
  "input q[" q "]: @\ninput key[" key "]: @\ninput v[" key "]: @\ninput w[" w "]: @\n"
#define SELF(sizes)                                                                                \
  "dim b = 2, h = 2, " sizes ", s = t\n" INPUTS("b, t, h, k", "b, s, h, k", "b, t, h, k")
#define LONG(sizes)                                                                                \
  "dim b = 1, h = 1, " sizes ", s = t\n" INPUTS("b, t, h, k", "b, s, h, k", "b, t, h, k")
#define SCORES "score = sum[k](q * key) / size(k) ^ 0.5\n"
#define WEIGHTED "y = sum[s](p * v)\noutput o[b, t, h, k] = y\nloss = sum(cast(y * y * w, f32))\n"
#define CAUSAL "seen[t, s] = index[s] <= index[t]\np = softmax[s](where(seen, score, -inf))\n"
#define WINDOW                                                                                     \
  "seen[t, s] = index[s] <= index[t]\nnear[t, s] = index[s] + 9 > index[t]\n"                      \
  "p = softmax[s](where(seen and near, score, -inf))\n"

static const AttentionCase cases[] = {
    {"plain", "f32", SELF("t = 19, k = 8") SCORES "p = softmax[s](score)\n" WEIGHTED, ALONE},
    {"causal", "f32", SELF("t = 33, k = 5") SCORES CAUSAL WEIGHTED, ALONE},
    {"window", "f32", SELF("t = 40, k = 8") SCORES WINDOW WEIGHTED, ALONE},
    {"causal", "bf16", SELF("t = 32, k = 16") SCORES CAUSAL WEIGHTED, ALONE},
    {"window", "f16", SELF("t = 33, k = 16") SCORES WINDOW WEIGHTED, ALONE},
    {"plain", "f64", SELF("t = 19, k = 8") SCORES "p = softmax[s](score)\n" WEIGHTED, NULL, NULL,
     5},
    {"rows without keys", "f32",
     LONG("t = 70, k = 8") SCORES
     "seen[t, s] = index[s] + 2 <= index[t]\np = softmax[s](where(seen, score, -inf))\n" WEIGHTED,
     ALONE},
    {"last rows without keys", "f32",
     LONG("t = 70, k = 8") SCORES
     "seen[t, s] = index[s] >= index[t] + 2\np = softmax[s](where(seen, score, -inf))\n" WEIGHTED,
     ALONE},
    {"rows without keys that are 0", "f32",
     LONG("t = 70, k = 8") SCORES
     "seen[t, s] = index[s] + 2 <= index[t]\n"
     "p = where(seen, softmax[s](where(seen, score, -inf)), 0)\n" WEIGHTED,
     NULL, NULL, 5},
    {"indices that wrap", "f32",
     LONG("t = 70, k = 8") SCORES "seen[t, s] = index[s] + 2147483640 <= index[t]\n"
                                  "p = softmax[s](where(seen, score, -inf))\n" WEIGHTED,
     ALONE},
    {"finite mask", "f32",
     SELF("t = 17, k = 8") SCORES
     "seen[t, s] = index[s] <= index[t]\np = softmax[s](where(seen, score, -1e9))\n" WEIGHTED,
     ALONE},
    {"bias", "f32",
     SELF("t = 18, k = 8") "input bias[h, t, s]\n" SCORES
                           "p = softmax[s](score + stop_gradient(bias))\n" WEIGHTED,
     ALONE},
    {"bias of keys", "f32",
     SELF("t = 18, k = 8") "input bias[h, s]\n" SCORES "p = softmax[s](score + bias)\n" WEIGHTED,
     NULL, NULL, 5},
    {"gain of a bias", "f32",
     SELF("t = 18, k = 8") "input bias[h, t, s]\ninput gain[h]\n" SCORES
                           "p = softmax[s](score + bias * gain)\n" WEIGHTED,
     NULL, NULL, 0},
    {"sums over many dims", "f32",
     "dim b = 1, h = 1, t = 18, i = 2, j = 2, k = 2, l = 2, m = 2, s = t\n" INPUTS(
         "b, t, h, i, j, k, l, m", "b, s, h, i, j, k, l, m",
         "b, t, h, i, j, k, l, m") "p = softmax[s](sum[i, j, k, l, m](q * key))\ny = sum[s](p * "
                                   "v)\n"
                                   "output o[b, t, h, i, j, k, l, m] = y\nloss = sum(y * y * w)\n",
     NULL, NULL, 0},
    {"long rows", "f32",
     "dim b = 1, h = 1, t = 18, k = 144, s = t\n" INPUTS("b, t, h, k", "b, s, h, k", "b, t, h, k")
         SCORES "p = softmax[s](score)\n" WEIGHTED,
     NULL, NULL, 0},
    {"padding", "f32",
     SELF("t = 20, k = 8") "input valid[b, s]: i32\n" SCORES
                           "p = softmax[s](where(valid == 1, score, -1e9))\n" WEIGHTED,
     ALONE},
    {"dropout", "f32",
     SELF("t = 16, k = 8") SCORES "p = dropout(softmax[s](score), rate = 0.25)\n" WEIGHTED, ALONE},
    {"dropout and mask", "bf16",
     SELF("t = 16, k = 8") SCORES
     "seen[t, s] = index[s] <= index[t]\n"
     "p = dropout(softmax[s](where(seen, score, -inf)), rate = 0.25)\n" WEIGHTED,
     ALONE},
    {"squares", "f32",
     SELF("t = 16, k = 8") SCORES "p = softmax[s](score)\ny = sum[s](p ^ 2 * v)\n"
                                  "output o[b, t, h, k] = y\nloss = sum(y * y * w)\n",
     NULL, NULL, 6},
    {"grouped queries", "f32",
     "dim b = 2, h = 2, g = 3, t = 17, k = 8, s = t\n" INPUTS("b, t, h, g, k", "b, s, h, k",
                                                              "b, t, h, g, k") SCORES CAUSAL
     "y = sum[s](p * v)\noutput o[b, t, h, g, k] = y\nloss = sum(y * y * w)\n",
     ALONE},
    {"one head of keys", "bf16",
     "dim b = 2, h = 3, t = 17, k = 16, s = t\n" INPUTS("b, t, h, k", "b, s, k", "b, t, h, k")
         SCORES CAUSAL WEIGHTED,
     ALONE},
    {"other keys", "f32",
     "dim b = 2, h = 2, t = 9, s = 23, k = 8\n" INPUTS("b, t, h, k", "b, s, h, k", "b, t, h, k")
         SCORES "p = softmax[s](score)\n" WEIGHTED,
     ALONE},
    {"other keys", "f16",
     "dim b = 2, h = 2, t = 9, s = 23, k = 8\ninput valid[b, s]: i32\n" INPUTS(
         "b, t, h, k", "b, s, h, k", "b, t, h, k") SCORES
     "p = softmax[s](where(valid == 1, score, -inf))\n" WEIGHTED,
     ALONE},
    {"many tiles", "f32", LONG("t = 150, k = 20") SCORES CAUSAL WEIGHTED, ALONE},
    {"many tiles", "bf16", LONG("t = 150, k = 20") SCORES CAUSAL WEIGHTED, ALONE},
    {"window of many tiles", "bf16", LONG("t = 200, k = 16") SCORES WINDOW WEIGHTED, ALONE},
    {"many keys", "f32",
     "dim b = 1, h = 1, t = 20, s = 700, k = 80\n" INPUTS("b, t, h, k", "b, s, h, k", "b, t, h, k")
         SCORES "p = softmax[s](score)\n" WEIGHTED,
     ALONE},
    {"wide values", "f16",
     "dim b = 1, h = 2, t = 70, s = 33, k = 40, e = 144\ninput q[b, t, h, k]: @\n"
     "input key[b, s, h, k]: @\ninput v[b, s, h, e]: @\ninput w[b, t, h, e]: @\n" SCORES
     "p = softmax[s](score)\ny = sum[s](p * v)\noutput o[b, t, h, e] = y\n"
     "loss = sum(cast(y * y * w, f32))\n",
     ALONE},
    {"split heads", "f32", SELF("t = 19, k = 8") SCORES CAUSAL WEIGHTED, "m=2", "h=m", KERNELS},
    {"split batch", "bf16", SELF("t = 17, k = 8") SCORES CAUSAL WEIGHTED, "m=2", "b=m", KERNELS},
    {"split rows", "f32", SELF("t = 19, k = 8") SCORES CAUSAL WEIGHTED, "m=2", "t=m", KERNELS},
    {"split keys", "f32", SELF("t = 19, k = 8") SCORES CAUSAL WEIGHTED, "m=2", "s=m", 6},
};

typedef struct Test {
  Arena *a;
  const AttentionCase *c;
  Diag *diag;
  Model *model;
  Compilation made;
  uint32_t nfeeds;
  EvalFeed *feed;
  char label[100];
} Test;

static bool fault(const Test *t, const char *what) {
  printf("FAIL %s: %s\n", t->label, what);
  diag_print(t->diag, stdout, false);
  return false;
}

// -- compiling ------------------------------------------------------------------------------------

// Returns the model's text with the element type in the place of each @.
static char *text_of(const Test *t) {
  char *text = arena_printf(t->a, "%s", "");
  for (const char *at = t->c->text; *at; at++)
    text = *at == '@' ? arena_printf(t->a, "%s%s", text, t->c->type)
                      : arena_printf(t->a, "%s%c", text, *at);
  return text;
}

static Ast *option(Test *t, Intern *names, const char *name, const char *text,
                   Ast *(*parse)(Arena *, Intern *, Diag *, uint32_t, const char *, size_t)) {
  if (!text) return NULL;
  uint32_t source = diag_source(t->diag, name, text, strlen(text));
  return parse(t->a, names, t->diag, source, text, strlen(text));
}

static bool build(Test *t) {
  Intern *names = intern_new(t->a);
  char *text = text_of(t);
  uint32_t source = diag_source(t->diag, t->c->name, text, strlen(text));
  Ast *ast = ast_parse(t->a, names, t->diag, source, text, strlen(text));
  ModelOptions options = {.path = t->c->name,
                          .mesh = option(t, names, "--mesh", t->c->mesh, ast_parse_mesh),
                          .layout = option(t, names, "--layout", t->c->layout, ast_parse_layout),
                          .no_layout = !t->c->layout};
  if (!diag_errors(t->diag)) t->model = model_build(t->a, names, t->diag, ast, &options);
  return t->model || fault(t, "is no model");
}

static Graph *select_outputs(Test *t) {
  const Graph *g = t->model->graph;
  const char *name[MOST_FETCHED] = {"o"};
  uint32_t n = 1;
  for (uint32_t i = 0; i < g->decl.n && n < MOST_FETCHED; i++) {
    const Decl *d = &g->decl.at[i];
    bool fixed = !strcmp(d->name, "w") || (!strcmp(d->name, "bias") && d->rank == 3);
    if (dtype_is_float(d->type) && !fixed) name[n++] = arena_printf(t->a, "grad(%s)", d->name);
  }
  Fetch fetch = {.n = n, .name = name, .training = true};
  return select_run(t->a, t->model, &fetch);
}

static bool compile(Test *t) {
  static Machine machine;
  machine = machine_default();
  PipelineOptions options = {
      .codegen = {.fuse = true,
                  .blocked_rows = 1,
                  .products = dtype_bit(TYPE_F32) | dtype_bit(TYPE_BF16) | dtype_bit(TYPE_F16),
                  .product_work = 1,
                  .gpu = true,
                  .for_ = "run"},
      .machine = &machine};
  Graph *g = select_outputs(t);
  if (!g || !pipeline_run(t->a, g, &options, NULL, t->diag, &t->made))
    return fault(t, "does not compile");
  if (!getenv("SHOW")) return true;
  const Compiled *made = t->made.compiled;
  for (uint32_t i = 0; i < made->program->nkernels; i++) puts(kernel_print(t->a, made->kernels[i]));
  return true;
}

// Returns whether so many kernels as expected compute scores. Each does so in tiles, which have no
// accumulators over several rows.
static bool has_kernels(const Test *t) {
  const Compiled *made = t->made.compiled;
  int found = 0, wanted = t->c->kernels;
  for (uint32_t i = 0; i < made->program->nkernels; i++) {
    const Kernel *k = made->kernels[i];
    found += k->ndots > 0;
    for (int s = 0; s < k->nstmts && k->ndots; s++)
      if (k->stmt[s].kind == K_ACCUM) return fault(t, "scores are summed by accumulators");
  }
  return found == wanted ||
         fault(t, arena_printf(t->a, "%d kernels compute scores, expected %d", found, wanted));
}

// Returns whether no kernel and no product stores a value with the rows and the keys.
static bool stores_no_scores(const Test *t) {
  const Fusion *f = t->made.fusion;
  for (uint32_t i = 0; i < f->ngroups; i++)
    for (uint32_t j = 0; j < f->group[i].nstored && f->group[i].kind != GROUP_SOURCE; j++) {
      const Dims *d = graph_node(f->graph, f->group[i].stored[j])->dims;
      bool rows = false, keys = false;
      for (int k = 0; k < d->n; k++) {
        const Dim *dim = dim_get(f->graph->dims, d->at[k]);
        rows |= dim_get(f->graph->dims, dim->whole)->name[0] == 't';
        keys |= dim_get(f->graph->dims, dim->whole)->name[0] == 's';
      }
      if (rows && keys) return false;
    }
  return true;
}

// -- running --------------------------------------------------------------------------------------

static void draw_feeds(Test *t) {
  const Graph *g = t->made.simplified;
  t->feed = arena_array(t->a, EvalFeed, g->decl.n + 1);
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    int64_t n = 1;
    if (!d->node) continue;
    for (int k = 0; k < d->rank; k++) n *= dim_get(g->dims, d->dims[k])->size;
    double *value = arena_array(t->a, double, n);
    Init draw = {.kind = INIT_NORMAL, .a = 0, .b = 1};
    for (int64_t k = 0; k < n; k++) {
      rng_draw(&draw, rng_key(11, d->name), 1, &k, &value[k]);
      if (!dtype_is_float(d->type)) value[k] = value[k] > -0.5;
      value[k] = dtype_round(d->type, value[k]);
    }
    t->feed[t->nfeeds++] = (EvalFeed){.decl = i + 1, .value = value, .n = n};
  }
}

static void launch(void *context, uint32_t k, int64_t grain, uint32_t n, GpuSet *set) {
  gpu_runner_run(context, k, grain, n, set);
}

static Interp *interp_begin(const Test *t, GpuRunner *r) {
  const Program *p = t->made.compiled->program;
  const Graph *g = t->made.simplified;
  Interp *in = interp_new(t->a, t->made.compiled);
  interp_launch_by(in, launch, r);
  for (int64_t rank = 0; rank < mesh_size(&p->mesh); rank++)
    for (int32_t i = -1; i < (int32_t)p->ntensors; i++) {
      int64_t bytes;
      void *at = interp_memory(in, rank, i, &bytes);
      if (at) gpu_runner_allow(r, at, (size_t)bytes);
    }
  gpu_runner_header(r)->step = STEP;
  gpu_runner_header(r)->seed = philox_seed(0);
  for (uint32_t i = 0; i < t->nfeeds; i++) {
    bool used =
        interp_write(in, TENSOR_INPUT, g->decl.at[t->feed[i].decl - 1].name, t->feed[i].value);
    (void)used; // a graph may read less than was declared
  }
  return in;
}

static bool agrees(const Test *t, Interp *in, Expect *e, uint32_t i) {
  const Output *o = &e->graph->output.at[i];
  const Tensor *want = expect_output(e, i);
  double *got = arena_array(t->a, double, want->elements + 1);
  if (!interp_read(in, TENSOR_OUTPUT, o->name, got)) return fault(t, "an output is missing");
  Compare c = compare_tensor(want, got);
  return compare_ok(&c) || fault(t, arena_printf(t->a, "%s: %s", o->name, compare_text(t->a, &c)));
}

static bool run(Test *t, GpuRunner *r) {
  draw_feeds(t);
  Interp *in = interp_begin(t, r);
  Expect *e = expect_new(t->a, t->made.simplified, t->made.lowered, t->nfeeds, t->feed);
  expect_step(e, STEP);
  const char *why = interp_run(in, STEP, 0);
  bool good = !why || fault(t, why);
  for (uint32_t i = 0; good && i < e->graph->output.n; i++) good = agrees(t, in, e, i);
  gpu_runner_forget(r);
  interp_free(in);
  return good;
}

static bool check(Test *t) {
  if (!build(t) || !compile(t)) return false;
  if (t->c->kernels && !stores_no_scores(t)) return fault(t, "scores are stored");
  if (!has_kernels(t)) return false;
  const Compiled *made = t->made.compiled;
  GpuRunner *r = gpu_runner_new(made->program, made->kernels, t->diag);
  bool good = r ? run(t, r) : fault(t, "its kernels do not compile");
  if (r) gpu_runner_free(r);
  return good;
}

// -- predicted times ------------------------------------------------------------------------------

// Returns the predicted seconds on an H100 of the kernels of an attention that compute scores. -1:
// the model is not compiled.
static double predicted(const char *name, const char *text) {
  AttentionCase c = {name, "bf16", text, NULL, NULL, KERNELS};
  Test t = {.a = arena_new(), .c = &c};
  Machine m;
  double seconds = -1;
  t.diag = diag_new(t.a);
  if (build(&t) && compile(&t) && machine_named(&m, "h100")) {
    const Program *p = t.made.compiled->program;
    Simulation *sim = simulate(t.a, t.made.compiled, &m);
    seconds = 0;
    for (uint32_t i = 0; i < p->ninstrs; i++)
      if (p->instr[i].kind == INSTR_KERNEL &&
          t.made.compiled->kernels[p->instr[i].u.kernel.kernel]->ndots)
        seconds += sim->of[i];
  }
  arena_free(t.a);
  return seconds;
}

// Checks that predictions leave out what masks discard. A causal mask discards half of the scores.
// A window of 130 of 2,048 keys discards almost all: of its 32 tiles, each row of tiles computes 3
// or 4.
static bool check_predicted(void) {
#define SIZES SELF("t = 2048, k = 64")
  double all = predicted("all", SIZES SCORES "p = softmax[s](score)\n" WEIGHTED),
         half = predicted("half", SIZES SCORES CAUSAL WEIGHTED),
         few = predicted("few", SIZES SCORES
                         "near[t, s] = index[s] <= index[t] and index[s] + 130 > index[t]\n"
                         "p = softmax[s](where(near, score, -inf))\n" WEIGHTED);
  bool good =
      all > 0 && half > 0.45 * all && half < 0.65 * all && few > 0.05 * all && few < 0.25 * all;
  if (!good) printf("FAIL predictions: all %g s, half %g s, few %g s\n", all, half, few);
  return good;
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", (int)countof(cases) + 1);
    return 0;
  }
  for (size_t i = 0; i < countof(cases); i++) {
    Test t = {.a = arena_new(), .c = &cases[i]};
    t.diag = diag_new(t.a);
    snprintf(t.label, sizeof t.label, "%s %s%s%s", t.c->name, t.c->type, t.c->mesh ? " " : "",
             t.c->layout ? t.c->layout : "");
    if (argc < 2 || strstr(t.label, argv[1])) *(check(&t) ? &passed : &failed) += 1;
    arena_free(t.a);
  }
  if (argc < 2) *(check_predicted() ? &passed : &failed) += 1;
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
