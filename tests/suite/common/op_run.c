// What suites share that compile the cases of op_cases.h and compare them with the evaluator.
#include "tests/suite/common/op_run.h"

#include <stdio.h>

#include "frontend/frontend.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/compare.h"

static int passed, failed;

void op_run_count(bool good) { *(good ? &passed : &failed) += 1; }

int op_run_end(void) {
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}

int op_run_skip(void) {
  printf("0 passed, 0 failed, %d skipped\n", op_case_count());
  return 0;
}

void op_run_cases(OpTake *take, const char *only) {
  static const Mesh one;
  Arena *perm = arena_new(), *a = arena_new();
  DimTable *dims = dim_table_new(perm, intern_new(perm));
  for (int i = 0; i < op_case_count(); i++) {
    if (!suite_takes()) continue;
    ArenaMark mark = arena_mark(a);
    OpCase c;
    if (op_case_build(a, dims, &one, i, &c)) {
      take(a, &c, i, only);
    } else {
      printf("FAIL %s: the op refuses its arguments\n", c.name);
      op_run_count(false);
    }
    arena_reset(a, mark);
  }
  arena_free(a);
  arena_free(perm);
}

Compiled *op_run_compile(Arena *a, const Graph *graph, bool fused) {
  static const Layout none;
  Machine machine = machine_default();
  CodegenOptions opt = {.fuse = fused, .for_ = "run"};
  const Graph *simple = graph_simplify(a, graph_expand(a, graph));
  Graph *g = collectives_share(a, lower(a, place(a, simple, &none, &machine)));
  Order *order = order_choose(a, g, &(StoreOptions){0}, false);
  return program_build(a, fuse(a, order, collectives_bucket(a, order->graph, &machine), &opt),
                       &opt);
}

void op_run_feed(const OpRunner *r, const OpCase *c) {
  static const TensorKind kinds[] = {TENSOR_INPUT, TENSOR_PARAM, TENSOR_STATE, TENSOR_SLOT};
  for (uint32_t i = 0; i < c->nfeeds; i++) {
    const Decl *d = &c->graph->decl.at[c->feeds[i].decl - 1];
    r->write(r->context, kinds[d->kind], d, &c->feeds[i]);
  }
}

static bool compare_output(Arena *a, const OpRunner *r, const Output *o, const Eval *truth,
                           const char *label) {
  const Tensor *want = eval_full(a, truth, o->value, o->rank, o->dims, NULL);
  double *got = arena_array(a, double, want->elements + 1);
  if (!r->read(r->context, o, want, got)) {
    printf("FAIL %s: the program has no output %s\n", label, o->name);
    return false;
  }
  Compare cmp = compare_tensor(want, got);
  if (!compare_ok(&cmp)) printf("FAIL %s: %s: %s\n", label, o->name, compare_text(a, &cmp));
  return compare_ok(&cmp);
}

bool op_run_compare(Arena *a, const OpRunner *r, const OpCase *c, const Eval *truth,
                    const char *label) {
  bool good = true;
  for (uint32_t i = 0; i < c->graph->output.n; i++)
    good = compare_output(a, r, &c->graph->output.at[i], truth, label) && good;
  return good;
}
