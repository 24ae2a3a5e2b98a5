// Expected values of a whole model, step by step, with tolerances.
//
// Bounds by first derivatives grow from layer to layer until they are useless. Here the tolerance
// of an element is a few times the spread of runs with random errors (eval_run_perturbed), each
// with its own parameters and states from step to step. The evaluator's bound is used where it is
// smaller.
#ifndef IR_EXPECT_H
#define IR_EXPECT_H

#include "ir/eval/eval.h"

enum { EXPECT_MIN_RUNS = 5, EXPECT_MAX_RUNS = 20 }; // run 0 has no errors

typedef struct Expect {
  Arena *arena;
  const Graph *graph, *lowered; // the runs with errors are of `lowered`
  uint32_t nfeeds;
  int runs;
  EvalFeed *feed[EXPECT_MAX_RUNS];
  Eval *run[EXPECT_MAX_RUNS]; // the runs of the last step
  bool committed; // a step was committed: the bounds of one step then are not the error since the
                  // start
} Expect;

// Returns the state of an evaluation of g in `a`. `feeds` are the values before the first step, one
// for each declaration with a source node. The runs with errors evaluate `lowered`, the graph of
// one processor made from g, whose sums have another order; NULL: they evaluate g.
Expect *expect_new(Arena *a, const Graph *g, const Graph *lowered, uint32_t nfeeds,
                   const EvalFeed *feeds);
void expect_step(Expect *x, int64_t step);
// Adds runs of the first step up to EXPECT_MAX_RUNS, to find comparisons whose result rounding
// rarely changes.
void expect_more(Expect *x, int64_t step);
// Replaces, in every run, the feeds of updated declarations by their new values.
void expect_commit(Expect *x);
// Returns output i after the last step, with its axes in the order of files. Its bounds are the
// tolerances; elements where runs differ in more than rounding are tainted.
Tensor *expect_output(Expect *x, uint32_t i);

#endif
