// Compares code for a GPU with the evaluator for operations, types, variants and kinds of input
// (common/op_cases.h): values and gradients. The kernels of each program run on the emulator of GPU
// threads, all else by the interpreter of programs (common/program_interp.h).
//
//   suite_gpu_ops [TEXT | all]   the first case of each op, type and kind of input, and each
//                                SAMPLE-th other one; cases whose name contains TEXT; all cases
#include <stdio.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/base/philox.h"
#include "tests/suite/common/compare.h"
#include "tests/suite/common/op_cases.h"
#include "tests/suite/common/program_interp.h"

enum { SAMPLE = 16, STEP = 3 };
static int passed, failed;

static Compiled *compile(Arena *a, const Graph *graph) {
  static const Layout none;
  Machine machine = machine_default();
  const Graph *simple = graph_simplify(a, graph_expand(a, graph));
  Graph *g = collectives_share(a, lower(a, place(a, simple, &none, &machine)));
  CodegenOptions opt = {.fuse = true, .for_ = "run"};
  Order *order = order_choose(a, g, &(StoreOptions){0});
  return program_build(a, fuse(a, order, collectives_bucket(a, order->graph, &machine), &opt),
                       &opt);
}

static void launch(void *context, uint32_t k, int64_t grain, uint32_t n, GpuSet *set) {
  gpu_runner_run(context, k, grain, n, set);
}

static void allow_memory(GpuRunner *r, const Interp *in, const Program *p) {
  for (int32_t t = -1; t < (int32_t)p->ntensors; t++) {
    int64_t bytes;
    void *at = interp_memory(in, 0, t, &bytes);
    if (at) gpu_runner_allow(r, at, (size_t)bytes);
  }
}

static void feed_all(Interp *in, const OpCase *c) {
  static const TensorKind kinds[] = {TENSOR_INPUT, TENSOR_PARAM, TENSOR_STATE, TENSOR_SLOT};
  for (uint32_t i = 0; i < c->nfeeds; i++) {
    const Decl *d = &c->graph->decl.at[c->feeds[i].decl - 1];
    bool used = interp_write(in, kinds[d->kind], d->name, c->feeds[i].value);
    (void)used; // a graph may read less than was declared
  }
}

static bool compare_output(Interp *in, const Output *o, const Eval *truth, Arena *a,
                           const char *label) {
  const Tensor *want = eval_full(a, truth, o->value, o->rank, o->dims, NULL);
  double *got = arena_array(a, double, want->elements + 1);
  if (!interp_read(in, TENSOR_OUTPUT, o->name, got)) return false;
  Compare cmp = compare_tensor(want, got);
  if (!compare_ok(&cmp)) printf("FAIL %s: %s: %s\n", label, o->name, compare_text(a, &cmp));
  return compare_ok(&cmp);
}

static bool run(Arena *a, const OpCase *c, const Compiled *made, GpuRunner *r) {
  Interp *in = interp_new(a, made);
  Status status;
  interp_launch_by(in, launch, r);
  allow_memory(r, in, made->program);
  gpu_runner_header(r)->step = STEP;
  gpu_runner_header(r)->seed = philox_seed(0);
  feed_all(in, c);
  const Eval *truth = eval_run(a, c->graph, c->nfeeds, c->feeds, STEP);
  const char *why = interp_run(in, STEP, 0);
  bool good = !why && truth->out_of_range == interp_status(in, &status);
  if (!good) printf("FAIL %s: %s\n", c->name, why ? why : "the status differs");
  for (uint32_t i = 0; good && !truth->out_of_range && i < c->graph->output.n; i++)
    good = compare_output(in, &c->graph->output.at[i], truth, a, c->name);
  gpu_runner_forget(r);
  interp_free(in);
  return good;
}

static void run_case(Arena *a, const OpCase *c) {
  Diag *d = diag_new(a);
  const Compiled *made = compile(a, c->graph);
  GpuRunner *r = gpu_runner_new(made->program, made->kernels, d);
  bool good = r && run(a, c, made, r);
  if (!r) diag_print(d, stdout, false);
  *(good ? &passed : &failed) += 1;
  if (r) gpu_runner_free(r);
}

// Returns whether case number i is one of those that are run.
static bool wanted(const OpCase *c, int i, const char *only) {
  static bool seen[OP_COUNT][TYPE_COUNT][INPUTS_KINDS];
  bool *known = &seen[c->op][c->type][c->inputs], first = !*known;
  *known = true;
  if (only) return !strcmp(only, "all") || strstr(c->name, only);
  return first || i % SAMPLE == 0;
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", op_case_count());
    return 0;
  }
  Arena *perm = arena_new(), *a = arena_new();
  static const Mesh one;
  DimTable *dims = dim_table_new(perm, intern_new(perm));
  for (int i = 0; i < op_case_count(); i++) {
    ArenaMark mark = arena_mark(a);
    OpCase c;
    if (op_case_build(a, dims, &one, i, &c) && wanted(&c, i, argc > 1 ? argv[1] : NULL))
      run_case(a, &c);
    arena_reset(a, mark);
  }
  arena_free(a);
  arena_free(perm);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
