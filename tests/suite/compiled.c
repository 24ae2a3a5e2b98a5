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

#include "frontend/frontend.h"
#include "runtime/runtime.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/compare.h"
#include "tests/suite/common/op_cases.h"

static int passed, failed, skipped;

static Graph *through_passes(Arena *a, const Graph *g, const Machine *machine) {
  static const Layout none;
  const Graph *simple = graph_simplify(a, graph_expand(a, g));
  return collectives_share(a, lower(a, place(a, simple, &none, machine)));
}

static void feed_all(Exec *e, const Program *p, const OpCase *c, Arena *a) {
  static const TensorKind kinds[] = {TENSOR_INPUT, TENSOR_PARAM, TENSOR_STATE, TENSOR_SLOT};
  for (uint32_t i = 0; i < c->nfeeds; i++) {
    const Decl *d = &c->graph->decl.at[c->feeds[i].decl - 1];
    if (program_tensor(p, kinds[d->kind], d->name) < 0) continue;
    int64_t n = c->feeds[i].n, size = dtype_bytes(d->type);
    char *data = arena_alloc(a, (size_t)(n * size));
    for (int64_t k = 0; k < n; k++) dtype_store(d->type, data + k * size, c->feeds[i].value[k]);
    exec_write(e, kinds[d->kind], d->name, d->type, data);
  }
}

static bool compare_output(Exec *e, const Output *o, const Eval *truth, Arena *a,
                           const char *label) {
  const Tensor *want = eval_full(a, truth, o->value, o->rank, o->dims, NULL);
  int64_t size = dtype_bytes(want->type);
  char *data = arena_alloc(a, (size_t)(want->elements * size + 1));
  double *got = arena_array(a, double, want->elements + 1);
  exec_read(e, TENSOR_OUTPUT, o->name, data);
  for (int64_t k = 0; k < want->elements; k++) got[k] = dtype_load(want->type, data + k * size);
  Compare cmp = compare_tensor(want, got);
  if (!compare_ok(&cmp)) printf("FAIL %s: %s: %s\n", label, o->name, compare_text(a, &cmp));
  return compare_ok(&cmp);
}

static void case_run(Arena *a, const OpCase *c, bool fused, int threads) {
  Diag *d = diag_new(a);
  Machine machine = machine_default();
  Graph *g = through_passes(a, c->graph, &machine);
  CodegenOptions opt = {.fuse = suite_fuses(fused), .for_ = "run"};
  Order *order = order_choose(a, g, &(StoreOptions){0});
  Compiled *made =
      program_build(a, fuse(a, order, collectives_bucket(a, order->graph, &machine), &opt), &opt);
  CodeOptions code_opt = {.opt = suite_opt(1), .cache = suite_cache()};
  Code *code = code_load(made->program, made->kernels, &code_opt, d);
  ExecOptions exec_opt = {.threads = threads};
  Exec *e = code ? exec_new(made->program, &exec_opt, d) : NULL;
  char *label = arena_printf(a, "%s%s %d", c->name, fused ? "" : " unfused", threads);
  bool good = e != NULL;
  if (good) {
    feed_all(e, made->program, c, a);
    const Eval *truth = eval_run(a, c->graph, c->nfeeds, c->feeds, 3);
    StepResult result = exec_step(e, 3, false);
    // an id out of range ends the step: there are no values to compare
    if (truth->out_of_range != (result == STEP_BAD_INDEX)) {
      printf("FAIL %s: step result %d, evaluator %s\n", label, (int)result,
             truth->out_of_range ? "out of range" : "clean");
      good = false;
    }
    for (uint32_t i = 0; result == STEP_OK && i < c->graph->output.n; i++)
      good = compare_output(e, &c->graph->output.at[i], truth, a, label) && good;
    if (!exec_check(e, d)) {
      printf("FAIL %s: the run is not what was predicted\n", label);
      diag_print(d, stdout, false);
      good = false;
    }
  } else {
    printf("FAIL %s: does not compile\n", label);
    diag_print(d, stdout, false);
  }
  *(good ? &passed : &failed) += 1;
  if (e) exec_free(e);
  if (code) code_free(code);
}

static bool seen[OP_COUNT][TYPE_COUNT];

// Returns true for the first case of each op and type.
static bool is_first(const OpCase *c) {
  bool first = !seen[c->op][c->type];
  seen[c->op][c->type] = true;
  return first;
}

static void check_table(Arena *a) {
  const char *missing = op_cases_missing(a, seen);
  if (missing) printf("FAIL no case of %s\n", missing);
  *(missing ? &failed : &passed) += 1;
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
    if (!op_case_build(a, dims, &one, i, &c)) {
      printf("FAIL %s: the op refuses its arguments\n", c.name);
      failed++;
      continue;
    }
    if (argc > 1 && !strstr(c.name, argv[1])) continue;
    case_run(a, &c, true, 1 + i % 2);
    if (is_first(&c)) case_run(a, &c, false, 1);
    arena_reset(a, mark);
  }
  if (argc < 2) check_table(a);
  arena_free(a);
  arena_free(perm);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}
