// What a whole model should give, step by step, and within what.
//
// Bounds by first derivatives multiply from layer to layer until they say nothing. Here the
// tolerance of an element is a few times what rounding really does to it: the spread of runs with
// random errors (eval_run_perturbed), each of which carries its own parameters and states from step
// to step. Where the evaluator's bound is smaller, that holds.
#ifndef IR_EXPECT_H
#define IR_EXPECT_H

#include "ir/eval/eval.h"

enum { EXPECT_MIN_RUNS = 5, EXPECT_MAX_RUNS = 20 }; // the first without errors

typedef struct Expect {
  Arena *arena;
  const Graph *graph, *lowered; // the runs with errors are of `lowered`
  uint32_t nfeeds;
  int runs;
  EvalFeed *feed[EXPECT_MAX_RUNS];
  Eval *run[EXPECT_MAX_RUNS]; // of the last step
  bool committed;             // feeds have changed since the start: bounds of one step do not count
} Expect;

// feeds: values of all decls with a node before the first step. lowered: the graph of one processor
// made from g, whose sums are ordered otherwise; NULL: g itself.
Expect *expect_new(Arena *a, const Graph *g, const Graph *lowered, uint32_t nfeeds,
                   const EvalFeed *feeds);
void expect_step(Expect *x, int64_t step);
// More runs with errors of the first step, to EXPECT_MAX_RUNS: a decision that few of them turn is
// found.
void expect_more(Expect *x, int64_t step);
// Targets of updates take their new values.
void expect_commit(Expect *x);
// Output i after the last step, in the order of axes in files: values, tolerances as bounds, and
// tainted where the runs differ in more than rounding.
Tensor *expect_output(Expect *x, uint32_t i);

#endif
