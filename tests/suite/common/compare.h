// Numbers against the evaluator: each element within its bound, tainted ones left out.
#ifndef TESTS_SUITE_COMMON_COMPARE_H
#define TESTS_SUITE_COMMON_COMPARE_H

#include "ir/eval/eval.h"

typedef struct Compare {
  int64_t n, wrong, tainted;
  int64_t first; // position of the first wrong element
  double got, want, bound;
} Compare;

// got: as many numbers as want has, in the same order. NaN is right where NaN is wanted.
Compare compare_tensor(const Tensor *want, const double *got);
// The same for two tensors of the evaluator: within the sum of both bounds.
Compare compare_tensors(const Tensor *want, const Tensor *got);
// Nothing wrong, and at most one element in ten tainted (else the test is vacuous).
bool compare_ok(const Compare *c);
// One line: what is wrong, or that too much is tainted.
char *compare_text(Arena *a, const Compare *c);

#endif
