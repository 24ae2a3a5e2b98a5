// What the tests of products share: numbers of factors, and a product against sums in f64.
#ifndef TESTS_UNIT_PRODUCT_NUMBERS_H
#define TESTS_UNIT_PRODUCT_NUMBERS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/mem.h"
#include "runtime/runtime.h"

// Returns number i of a sequence, from -0.9 to 1.1.
static inline float number(uint64_t i) {
  uint64_t h = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  h ^= h >> 29;
  return (float)((double)(int64_t)(h >> 20 & 0xffffff) / 0x1p23 - 0.9);
}

// Returns n of these numbers, rounded to a type.
static inline float *numbers(Dtype type, int64_t n, uint64_t first) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = (float)dtype_round(type, (double)number(first + (uint64_t)i));
  return x;
}

// Checks the elements of C against sums in f64 of the factors a and b, which are those of g as f32.
static inline void check_product(const Product *g, const float *a, const float *b) {
  const float *c = g->c;
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      double want = 0, size = 0;
      for (int64_t k = 0; k < g->k; k++) {
        double term = (double)a[g->ta ? k * g->lda + i : i * g->lda + k] *
                      (double)b[g->tb ? j * g->ldb + k : k * g->ldb + j];
        want += term;
        size += fabs(term);
      }
      assert_true(fabs((double)c[i * g->ldc + j] - want) <= 3e-6 * size);
    }
}

#endif
