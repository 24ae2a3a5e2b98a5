// Compares code for a GPU with the evaluator for operations, types, variants and kinds of input
// (common/op_cases.h): values and gradients. The kernels of each program run on the emulator of GPU
// threads, all else by the interpreter of programs (common/program_interp.h).
//
//   suite_gpu_ops [TEXT | all]   the first case of each op, type and kind of input, and each
//                                SAMPLE-th other one; cases whose name contains TEXT; all cases
#include <stdio.h>
#include <string.h>

#include "ir/base/philox.h"
#include "tests/suite/common/op_run.h"
#include "tests/suite/common/program_interp.h"

enum { SAMPLE = 16, STEP = 3 };

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

static void write_feed(void *in, TensorKind kind, const Decl *d, const EvalFeed *feed) {
  bool used = interp_write(in, kind, d->name, feed->value);
  (void)used; // a graph may read less than was declared
}

static bool read_output(void *in, const Output *o, const Tensor *want, double *got) {
  (void)want;
  return interp_read(in, TENSOR_OUTPUT, o->name, got);
}

static bool run(Arena *a, const OpCase *c, const Compiled *made, GpuRunner *r) {
  Interp *in = interp_new(a, made);
  OpRunner runner = {in, write_feed, read_output};
  Status status;
  interp_launch_by(in, launch, r);
  allow_memory(r, in, made->program);
  gpu_runner_header(r)->step = STEP;
  gpu_runner_header(r)->seed = philox_seed(0);
  op_run_feed(&runner, c);
  const Eval *truth = eval_run(a, c->graph, c->nfeeds, c->feeds, STEP);
  const char *why = interp_run(in, STEP, 0);
  bool good = !why && truth->out_of_range == interp_status(in, &status);
  if (!good) printf("FAIL %s: %s\n", c->name, why ? why : "the status differs");
  if (good && !truth->out_of_range) good = op_run_compare(a, &runner, c, truth, c->name);
  gpu_runner_forget(r);
  interp_free(in);
  return good;
}

// Returns whether case number i is one of those that are run.
static bool wanted(const OpCase *c, int i, const char *only) {
  static bool seen[OP_COUNT][TYPE_COUNT][INPUTS_KINDS];
  bool *known = &seen[c->op][c->type][c->inputs], first = !*known;
  *known = true;
  if (only) return !strcmp(only, "all") || strstr(c->name, only);
  return first || i % SAMPLE == 0;
}

static void take_case(Arena *a, const OpCase *c, int i, const char *only) {
  if (!wanted(c, i, only)) return;
  Diag *d = diag_new(a);
  const Compiled *made = op_run_compile(a, c->graph, true);
  GpuRunner *r = gpu_runner_new(made->program, made->kernels, d);
  if (!r) diag_print(d, stdout, false);
  op_run_count(r && run(a, c, made, r));
  if (r) gpu_runner_free(r);
}

int main(int argc, char **argv) {
  if (!code_available()) return op_run_skip();
  op_run_cases(take_case, argc > 1 ? argv[1] : NULL);
  return op_run_end();
}
