// Sends random graphs under random layouts through the whole compiler. The executor runs the
// machine code with one worker and with two, which must give the same bits; the evaluator runs the
// whole graph, and both must agree. Parameters, states and slots are compared after the step has
// committed. The bytes counted must be those predicted, and the memory of a processor must be the
// program's figure.
//
//   suite_random [seed=N]    SEEDS=n: number of graphs; FROM=n: the first; SHOW=1 prints graphs and
//                            programs that fail
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "ir/eval/expect.h"
#include "runtime/runtime.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/compare.h"
#include "tests/suite/common/layout_cases.h"

enum { STEP = 3, SEEDS = 105, LAYOUTS = 2 };

static void hand_in(Maker *m, Exec *e, const Program *p) {
  for (uint32_t i = 0; i < m->ninputs; i++) {
    const Decl *d = &m->g->decl.at[m->feed[i].decl - 1];
    if (program_tensor(p, tensor_kind(d->kind), d->name) < 0)
      continue; // a graph may read less than was declared
    int64_t size = dtype_bytes(d->type);
    char *data = arena_alloc(m->a, (size_t)(m->feed[i].n * size));
    for (int64_t k = 0; k < m->feed[i].n; k++)
      dtype_store(d->type, data + k * size, m->feed[i].value[k]);
    exec_write(e, tensor_kind(d->kind), d->name, d->type, data);
  }
}

// One output after the step: its expected value, and its bytes.
typedef struct Result {
  const char *name;
  Tensor *want;
  size_t bytes;
  void *data;
} Result;

static Result result_of(Maker *m, Exec *e, Expect *truth, uint32_t i) {
  const Output *o = &truth->graph->output.at[i];
  const Decl *d = o->kind == OUT_UPDATE ? &truth->graph->decl.at[o->target - 1] : NULL;
  Result r = {.name = o->name, .want = expect_output(truth, i)};
  r.bytes = (size_t)(r.want->elements * dtype_bytes(r.want->type));
  r.data = arena_alloc(m->a, r.bytes + 1);
  exec_read(e, d ? tensor_kind(d->kind) : TENSOR_OUTPUT, o->name, r.data);
  return r;
}

static const char *judge(Maker *m, const Result *r) {
  double *got = arena_array(m->a, double, r->want->elements + 1);
  for (int64_t k = 0; k < r->want->elements; k++)
    got[k] = dtype_load(r->want->type, (char *)r->data + k * dtype_bytes(r->want->type));
  Compare c = compare_tensor(r->want, got);
  if (c.wrong == 0) return compare_ok(&c) ? NULL : layout_vacuous;
  return arena_printf(m->a, "%s: %s", r->name, compare_text(m->a, &c));
}

// Runs the step on `threads` workers; out[] gets the results. Returns NULL, or what failed.
static const char *run_step(Maker *m, const Program *p, Expect *truth, int threads, Result *out) {
  ExecOptions opt = {.threads = threads};
  Exec *e = exec_new(p, &opt, m->diag);
  if (!e) return "the executor refuses the program";
  hand_in(m, e, p);
  bool clean = exec_step(e, STEP, true) == STEP_OK;
  for (uint32_t i = 0; i < truth->graph->output.n && clean; i++) out[i] = result_of(m, e, truth, i);
  const char *wrong = clean ? NULL : "the step fails";
  if (clean && !exec_check(e, m->diag)) {
    diag_print(m->diag, stdout, false);
    wrong = "the run is not what was predicted";
  }
  exec_free(e);
  return wrong;
}

static const char *run_code(Maker *m, const Graph *g, const Graph *lowered, const Program *p) {
  uint32_t n = g->output.n;
  Expect *truth = expect_new(m->a, g, lowered, m->ninputs, m->feed);
  expect_step(truth, STEP);
  Result *one = arena_array(m->a, Result, n + 1), *two = arena_array(m->a, Result, n + 1);
  const char *wrong = run_step(m, p, truth, 1, one), *vacuous = NULL;
  for (uint32_t i = 0; i < n && !wrong; i++) {
    wrong = judge(m, &one[i]);
    if (wrong && wrong != layout_vacuous) { // more evaluations with random errors may show that
                                            // rounding alone decides the value
      expect_more(truth, STEP);
      one[i].want = expect_output(truth, i);
      wrong = judge(m, &one[i]);
    }
    if (wrong == layout_vacuous) vacuous = wrong, wrong = NULL;
  }
  if (!wrong) wrong = run_step(m, p, truth, 2, two);
  for (uint32_t i = 0; i < n && !wrong; i++)
    if (memcmp(one[i].data, two[i].data, one[i].bytes) != 0)
      wrong = arena_printf(m->a, "%s differs between one worker and two", one[i].name);
  return wrong ? wrong : vacuous;
}

static void show(Maker *m, const Graph *g, const Compiled *c) {
  puts(graph_print(m->a, g, m->diag, NULL, NULL));
  for (uint32_t i = 0; i < c->program->nkernels; i++) puts(kernel_print(m->a, c->kernels[i]));
  puts(program_print(m->a, c->program));
}

static const char *check(Maker *m, const Graph *g, const Eval *whole) {
  static int turn;
  (void)whole;
  Machine machine = machine_default();
  CodegenOptions opt = {.fuse = suite_fuses(turn % 4 != 3),
                        .products = turn % 2 == 0 ? product_types(ALL_TYPES) : 0,
                        .product_work = 1,
                        .for_ = "train"};
  turn++;
  Graph *low = collectives_share(m->a, lower(m->a, place(m->a, g, &m->layout, &machine)));
  layout_saw(low);
  Order *order = order_choose(m->a, remat(m->a, low, 0), &(StoreOptions){0});
  Fusion *f = fuse(m->a, order, collectives_bucket(m->a, order->graph, &machine), &opt);
  Compiled *c = program_build(m->a, f, &opt);
  CodeOptions code_opt = {.opt = suite_opt(turn % 3 == 0), .cache = suite_cache()};
  Code *code = code_load(c->program, c->kernels, &code_opt, m->diag);
  if (!code) return "does not compile";
  const char *wrong = run_code(m, g, low, c->program);
  code_free(code);
  if (wrong && wrong != layout_vacuous && getenv("SHOW")) show(m, order->graph, c);
  return wrong;
}

int main(int argc, char **argv) {
  if (code_available()) return random_cases(argc, argv, SEEDS, LAYOUTS, check);
  printf("0 passed, 0 failed, %d skipped\n", SEEDS * LAYOUTS);
  return 0;
}
