// Compares numbers with values of the evaluator: each element must be within its bound. Tainted
// elements, whose value is not determined, are left out.
#ifndef TESTS_SUITE_COMMON_COMPARE_H
#define TESTS_SUITE_COMMON_COMPARE_H

#include "ir/eval/eval.h"

typedef struct Compare {
  int64_t n, wrong, tainted;
  int64_t first; // position of the first wrong element
  double got, want, bound;
} Compare;

// Compares `got`, as many numbers as `want` has, in the same order. NaN is correct where NaN is
// wanted.
Compare compare_tensor(const Tensor *want, const double *got);
// Compares two tensors of the evaluator: elements must be within the sum of both bounds.
Compare compare_tensors(const Tensor *want, const Tensor *got);
// Returns true if nothing is wrong and at most one element in ten is tainted: more would make the
// test vacuous.
bool compare_ok(const Compare *c);
// Returns one line: the first wrong element, or that too many are tainted.
char *compare_text(Arena *a, const Compare *c);

#endif
