// Sends random graphs under random layouts through the whole compiler. The executor runs the
// machine code with one worker and with two, which must give the same bits; the evaluator runs the
// whole graph, and both must agree. Parameters, states and slots are compared after the step has
// committed. The bytes counted must be those predicted, and the memory of a processor must be the
// program's figure.
//
//   suite_random [seed=N]    SEEDS=n: number of graphs; FROM=n: the first; SHOW=1 prints graphs and
//                            programs that fail
//   suite_random every=N[+K] every N-th layout of the operations and cases of suite_layouts from
//                            the K-th on (0 to N-1; 0), and of its random graphs one in N; cases
//                            are skipped where rounding decides what is largest
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/step_values.h"

enum { STEP = 3, SEEDS = 105, LAYOUTS = 2 };

// Runs the step on `threads` workers; out[] gets the results. Returns NULL, or what failed.
static const char *run_step(Maker *m, const Program *p, Expect *truth, int threads,
                            StepValue *out) {
  ExecOptions opt = {.threads = threads};
  Exec *e = exec_new(p, &opt, m->diag);
  if (!e) return "the executor refuses the program";
  step_give(m, e, p);
  bool clean = exec_step(e, STEP, true) == STEP_OK;
  for (uint32_t i = 0; i < truth->graph->output.n && clean; i++)
    out[i] = step_value(m, e, truth, i);
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
  StepValue *one = arena_array(m->a, StepValue, n + 1), *two = arena_array(m->a, StepValue, n + 1);
  const char *wrong = run_step(m, p, truth, 1, one), *differs = NULL;
  if (!wrong) wrong = step_judge(m, truth, STEP, n, one);
  if (wrong && wrong != layout_vacuous) return wrong;
  const char *again = run_step(m, p, truth, 2, two);
  if (!again) differs = step_differs(one, two, n);
  if (differs) return arena_printf(m->a, "%s differs between one worker and two", differs);
  return again ? again : wrong;
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
                        .common_bytes = turn % 5 < 2,
                        .epilogues = turn % 3 == 1 ? ALL_EPILOGUES : 0,
                        .for_ = "train"};
  turn++;
  Graph *low = collectives_share(m->a, lower(m->a, place(m->a, g, &m->layout, &machine)));
  layout_saw(low);
  Order *order = order_choose(m->a, remat(m->a, low, 0), &(StoreOptions){0}, false);
  Fusion *f = fuse(m->a, order, collectives_bucket(m->a, order->graph, &machine), &opt);
  Compiled *c = program_build(m->a, f, &opt);
  CodeOptions code_opt = {
      .opt = suite_opt(turn % 3 == 0), .without = suite_without(), .cache = suite_cache()};
  Code *code = code_load(c->program, c->kernels, &code_opt, m->diag);
  if (!code) return "does not compile";
  const char *wrong = run_code(m, g, low, c->program);
  code_free(code);
  if (wrong && wrong != layout_vacuous && getenv("SHOW")) show(m, order->graph, c);
  return wrong;
}

// For cases with two fills: layout_skipped where both say nothing.
static const char *check_case(Maker *m, const Graph *g, const Eval *whole) {
  static int vacuous;
  const char *wrong = check(m, g, whole);
  vacuous = wrong == layout_vacuous ? vacuous + 1 : 0;
  return vacuous && vacuous % 2 == 0 ? layout_skipped : wrong;
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", SEEDS * LAYOUTS);
    return 0;
  }
  if (argc < 2 || strncmp(argv[1], "every=", 6) != 0) {
    random_has_more = true;
    return random_cases(argc, argv, SEEDS, LAYOUTS, check);
  }
  char *end;
  layout_every = strtoll(argv[1] + 6, &end, 10);
  if (layout_every < 1) layout_every = 1;
  if (*end == '+') layout_first = strtoll(end, NULL, 10) % layout_every;
  return layout_cases(argc - 1, argv + 1, check_case);
}
