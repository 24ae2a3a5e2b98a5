// Expected values of a whole model, step by step, with tolerances.
//
// Bounds by first derivatives grow from layer to layer and become useless. Here the tolerance of an
// element is a few times the spread of runs with random errors (eval_run_perturbed). Each run keeps
// its own parameters and states from step to step. The evaluator's bound is used where it is
// smaller.
#ifndef IR_EXPECT_H
#define IR_EXPECT_H

#include "ir/eval/eval.h"

enum { EXPECT_MIN_RUNS = 5, EXPECT_MAX_RUNS = 20 }; // run 0 has no random errors

typedef struct Expect {
  Arena *arena;
  const Graph *graph, *lowered; // run 0 evaluates `graph`, the runs with random errors `lowered`,
                                // of those that expect_more adds every other one `graph`
  uint32_t nfeeds;
  int runs;
  EvalFeed *feed[EXPECT_MAX_RUNS];
  Eval *run[EXPECT_MAX_RUNS]; // the runs of the last step
  // Whether a step was committed. The bounds of run 0 are then unusable: they cover one step, not
  // the error since the first step.
  bool committed;
} Expect;

// Returns the state of an evaluation of g, allocated in `a`. `feeds` are the values before the
// first step, one for each declaration with a source node. The runs with random errors evaluate
// `lowered`, a graph of one processor made from g, whose sums have another order. If `lowered` is
// NULL they evaluate g.
Expect *expect_new(Arena *a, const Graph *g, const Graph *lowered, uint32_t nfeeds,
                   const EvalFeed *feeds);
void expect_step(Expect *x, int64_t step);
// Adds runs of the first step until there are EXPECT_MAX_RUNS. More runs find comparisons whose
// result rounding changes only rarely.
void expect_more(Expect *x, int64_t step);
// Replaces, in every run, the feeds of updated declarations by their new values. Call it between
// two steps.
void expect_commit(Expect *x);
// Returns output i after the last step, with its axes in the order that files have. Its error
// bounds are the tolerances. Elements where runs differ by more than rounding are tainted
// (uncertain).
Tensor *expect_output(Expect *x, uint32_t i);

#endif
