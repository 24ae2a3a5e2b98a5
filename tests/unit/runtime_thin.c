// Products with few rows (runtime/exec/thin_product.c): values against sums in f64, and bits that
// do not depend on which part of the columns is computed.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/mem.h"
#include "runtime/exec/thin_product.h"

static float number(uint64_t i) {
  uint64_t h = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  h ^= h >> 29;
  return (float)((double)(int64_t)(h >> 20 & 0xffffff) / 0x1p23 - 0.9);
}

// A product; a and b are its factors as f32.
typedef struct Case {
  Product g;
  float *a, *b;
  void *narrow_a, *narrow_b, *c;
  int64_t na, nb;
} Case;

// Returns n numbers, which bf16 represents.
static float *numbers(int64_t n, uint64_t seed) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = (float)dtype_round(TYPE_BF16, (double)number((uint64_t)i + seed));
  return x;
}

static void *narrowed(const float *x, int64_t n) {
  uint16_t *out = malloc((size_t)n * sizeof *out);
  for (int64_t i = 0; i < n; i++) dtype_store(TYPE_BF16, &out[i], (double)x[i]);
  return out;
}

// m rows of n elements, sums of k terms. tb: columns of B are lines of memory.
static Case make(Dtype type, int64_t m, int64_t n, int64_t k, bool tb, bool ta) {
  int64_t lda = ta ? m + 3 : k + 2, ldb = (tb ? k : n) + 5;
  Case x = {.na = (ta ? k : m) * lda, .nb = (tb ? n : k) * ldb};
  x.a = numbers(x.na, 0);
  x.b = numbers(x.nb, 77777);
  x.narrow_a = narrowed(x.a, x.na);
  x.narrow_b = narrowed(x.b, x.nb);
  x.c = malloc((size_t)(m * (n + 1)) * sizeof(float));
  x.g = (Product){.factors = type,
                  .type = TYPE_F32,
                  .ta = ta,
                  .tb = tb,
                  .m = m,
                  .n = n,
                  .k = k,
                  .a = type == TYPE_BF16 ? x.narrow_a : x.a,
                  .b = type == TYPE_BF16 ? x.narrow_b : x.b,
                  .c = x.c,
                  .lda = lda,
                  .ldb = ldb,
                  .ldc = n + 1};
  return x;
}

static void free_case(Case *x) {
  free(x->a);
  free(x->b);
  free(x->narrow_a);
  free(x->narrow_b);
  free(x->c);
}

static void check_values(const Case *x) {
  const Product *g = &x->g;
  for (int64_t r = 0; r < g->m; r++)
    for (int64_t j = 0; j < g->n; j++) {
      double want = 0, size = 0;
      for (int64_t i = 0; i < g->k; i++) {
        double term = (double)x->a[g->ta ? i * g->lda + r : r * g->lda + i] *
                      (double)x->b[g->tb ? j * g->ldb + i : i * g->ldb + j];
        want += term;
        size += fabs(term);
      }
      assert_true(fabs((double)((float *)x->c)[r * g->ldc + j] - want) <= 3e-6 * size);
    }
}

static void run(const Case *x, int members) {
  float *part = malloc((size_t)(thin_pieces(x->g.k) * x->g.m * x->g.n) * sizeof *part);
  for (int i = members; i-- > 0;)
    x->g.tb ? thin_columns(&x->g, i, members) : thin_lines(&x->g, part, i, members);
  for (int i = 0; i < members && !x->g.tb; i++) thin_sum(&x->g, part, i, members);
  free(part);
}

static void check(Dtype type, int64_t m, int64_t n, int64_t k, int form) {
  if (form == 3) return; // no thin product: the rows of A are no lines
  Case x = make(type, m, n, k, form & 1, form & 2);
  size_t bytes = (size_t)(m * (n + 1)) * sizeof(float);
  float *alone = malloc(bytes);
  memset(x.c, 0x7f, bytes);
  run(&x, 1);
  check_values(&x);
  memcpy(alone, x.c, bytes);
  for (int members = 2; members <= 5; members += 3) { // the bits do not depend on the workers
    for (int64_t i = 0; i < m; i++)
      memset((float *)x.c + i * x.g.ldc, 0, (size_t)n * sizeof(float));
    run(&x, members);
    assert_memory_equal(alone, x.c, bytes);
  }
  free(alone);
  free_case(&x);
}

static void check_type(Dtype type) {
  static const int64_t m[] = {1, 2, 3, 4}, n[] = {1, 5, 16, 33, 4100},
                       k[] = {1, 7, 8, 31, 100, 768, 3300};
  if (!thin_opens()) skip();
  for (size_t h = 0; h < countof(m); h++)
    for (size_t i = 0; i < countof(n); i++)
      for (size_t j = 0; j < countof(k); j++)
        for (int form = 0; form < 4; form++)
          if (n[i] * k[j] < 500000) check(type, m[h], n[i], k[j], form);
  for (int form = 0; form < 4; form++) check(type, 2, 40, 12800, form); // a long sum
}

static void rows_of_f32(void **state) {
  (void)state;
  check_type(TYPE_F32);
}

static void rows_of_bf16(void **state) {
  (void)state;
  check_type(TYPE_BF16);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_f32), cmocka_unit_test(rows_of_bf16)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
