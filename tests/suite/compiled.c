// Compares machine code with the evaluator for every op, type, variant and kind of input
// (common/op_cases.h): values and gradients. Each case runs with fusion, alternately on one worker
// and on two. The first variant of each op and type also runs without fusion, one kernel per node.
//
// Cases that differ only in their numbers have equal kernels. The test command gives all suites one
// compile cache, so that such kernels are compiled once.
//
//   suite_compiled [TEXT]   only cases whose name contains TEXT
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/op_run.h"

enum { STEP = 3 };
static bool seen[OP_COUNT][TYPE_COUNT];

// What runs a case, and the arena for its values.
typedef struct Running {
  Arena *a;
  const Program *program;
  Exec *exec;
} Running;

static void write_feed(void *context, TensorKind kind, const Decl *d, const EvalFeed *feed) {
  Running *r = context;
  if (program_tensor(r->program, kind, d->name) < 0) return;
  int64_t size = dtype_bytes(d->type);
  char *data = arena_alloc(r->a, (size_t)(feed->n * size));
  for (int64_t k = 0; k < feed->n; k++) dtype_store(d->type, data + k * size, feed->value[k]);
  exec_write(r->exec, kind, d->name, d->type, data);
}

static bool read_output(void *context, const Output *o, const Tensor *want, double *got) {
  Running *r = context;
  int64_t size = dtype_bytes(want->type);
  char *data = arena_alloc(r->a, (size_t)(want->elements * size + 1));
  exec_read(r->exec, TENSOR_OUTPUT, o->name, data);
  for (int64_t k = 0; k < want->elements; k++) got[k] = dtype_load(want->type, data + k * size);
  return true;
}

// Runs one step and compares its outputs. An id out of range ends the step: there are no values to
// compare.
static bool step_is_right(Running *r, const OpCase *c, const char *label) {
  OpRunner runner = {r, write_feed, read_output};
  op_run_feed(&runner, c);
  const Eval *truth = eval_run(r->a, c->graph, c->nfeeds, c->feeds, STEP);
  StepResult result = exec_step(r->exec, STEP, false);
  bool good = truth->out_of_range == (result == STEP_BAD_INDEX);
  if (!good)
    printf("FAIL %s: step result %d, evaluator %s\n", label, (int)result,
           truth->out_of_range ? "out of range" : "clean");
  return (result != STEP_OK || op_run_compare(r->a, &runner, c, truth, label)) && good;
}

static bool is_as_predicted(Exec *e, const char *label, Diag *d) {
  if (exec_check(e, d)) return true;
  printf("FAIL %s: the run is not what was predicted\n", label);
  diag_print(d, stdout, false);
  return false;
}

static void run_case(Arena *a, const OpCase *c, bool fused, int threads) {
  Diag *d = diag_new(a);
  Compiled *made = op_run_compile(a, c->graph, suite_fuses(fused));
  CodeOptions code_opt = {.opt = suite_opt(1), .without = suite_without(), .cache = suite_cache()};
  Code *code = code_load(made->program, made->kernels, &code_opt, d);
  ExecOptions exec_opt = {.threads = threads};
  Exec *e = code ? exec_new(made->program, &exec_opt, d) : NULL;
  char *label = arena_printf(a, "%s%s %d", c->name, fused ? "" : " unfused", threads);
  if (e) {
    bool good = step_is_right(&(Running){a, made->program, e}, c, label);
    op_run_count(is_as_predicted(e, label, d) && good);
    exec_free(e);
  } else {
    printf("FAIL %s: does not compile\n", label);
    diag_print(d, stdout, false);
    op_run_count(false);
  }
  if (code) code_free(code);
}

static void take_case(Arena *a, const OpCase *c, int i, const char *only) {
  if (only && !strstr(c->name, only)) return;
  bool first = !seen[c->op][c->type];
  seen[c->op][c->type] = true;
  run_case(a, c, true, 1 + i % 2);
  if (first) run_case(a, c, false, 1);
}

static void check_table(void) {
  Arena *a = arena_new();
  const char *missing = op_cases_missing(a, seen);
  if (missing) printf("FAIL no case of %s\n", missing);
  op_run_count(!missing);
  arena_free(a);
}

int main(int argc, char **argv) {
  if (!code_available()) return op_run_skip();
  op_run_cases(take_case, argc > 1 ? argv[1] : NULL);
  if (argc < 2 && !suite_partial()) check_table();
  return op_run_end();
}
