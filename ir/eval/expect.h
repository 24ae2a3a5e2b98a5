// Expected values of a whole model, step by step, with tolerances.
//
// Bounds by first derivatives grow from layer to layer until they are useless. Here the tolerance
// of an element is a few times the spread of runs with random errors (eval_run_perturbed), each
// with its own parameters and states from step to step. The evaluator's bound is used where it is
// smaller.
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

// feeds: the values, before the first step, of all declarations with a source node. lowered: the
// graph of one processor made from g, whose sums have another order; NULL: g itself. The result and
// its runs are in `a`.
Expect *expect_new(Arena *a, const Graph *g, const Graph *lowered, uint32_t nfeeds,
                   const EvalFeed *feeds);
void expect_step(Expect *x, int64_t step);
// Adds runs with errors of the first step, up to EXPECT_MAX_RUNS, to find decisions that rounding
// rarely changes.
void expect_more(Expect *x, int64_t step);
// Gives the targets of updates their new values, in every run.
void expect_commit(Expect *x);
// Output i after the last step, dims in the order of files. Its bounds are the tolerances; elements
// where runs differ in more than rounding are tainted.
Tensor *expect_output(Expect *x, uint32_t i);

#endif
