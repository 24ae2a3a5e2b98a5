// Products with one row (runtime/exec/f32_row.c): values against sums in f64, and bits that do not
// depend on which part of the row is computed.
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

static float number(uint64_t i) {
  uint64_t h = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  h ^= h >> 29;
  return (float)((double)(int64_t)(h >> 20 & 0xffffff) / 0x1p23 - 0.9);
}

typedef struct Row {
  Product g;
  float *a, *b, *c;
} Row;

// A row of n elements, sums of k terms. tb: columns of B are lines of memory.
static Row make(int64_t n, int64_t k, bool tb, bool ta) {
  int64_t lda = ta ? 3 : k, ldb = (tb ? k : n) + 5;
  Row r = {.a = malloc((size_t)(ta ? k * lda : k) * sizeof(float)),
           .b = malloc((size_t)((tb ? n : k) * ldb) * sizeof(float)),
           .c = malloc((size_t)n * sizeof(float))};
  for (int64_t i = 0; i < (ta ? k * lda : k); i++) r.a[i] = number((uint64_t)i);
  for (int64_t i = 0; i < (tb ? n : k) * ldb; i++) r.b[i] = number((uint64_t)i + 77777);
  r.g = (Product){.factors = TYPE_F32,
                  .type = TYPE_F32,
                  .ta = ta,
                  .tb = tb,
                  .m = 1,
                  .n = n,
                  .k = k,
                  .a = r.a,
                  .b = r.b,
                  .c = r.c,
                  .lda = lda,
                  .ldb = ldb,
                  .ldc = n,
                  .single = true};
  return r;
}

static void free_row(Row *r) {
  free(r->a);
  free(r->b);
  free(r->c);
}

static void check(int64_t n, int64_t k, bool tb, bool ta, void *work) {
  Row r = make(n, k, tb, ta);
  const ProductWay *way = product_way(TYPE_F32, NULL);
  memset(r.c, 0x7f, (size_t)n * sizeof *r.c);
  product_run(way, &r.g, work);
  for (int64_t j = 0; j < n; j++) {
    double want = 0, size = 0;
    for (int64_t i = 0; i < k; i++) {
      double term =
          (double)r.a[ta ? i * r.g.lda : i] * (double)r.b[tb ? j * r.g.ldb + i : i * r.g.ldb + j];
      want += term;
      size += fabs(term);
    }
    assert_true(fabs((double)r.c[j] - want) <= 3e-6 * size);
  }
  if (!product_is_blas(way) && n > 20) { // the same bits in two parts
    float *whole = malloc((size_t)n * sizeof *whole);
    memcpy(whole, r.c, (size_t)n * sizeof *whole);
    Product first = r.g, second = r.g;
    first.n = 16;
    second.n = n - 16;
    second.b = r.b + (tb ? 16 * r.g.ldb : 16);
    second.c = r.c + 16;
    memset(r.c, 0, (size_t)n * sizeof *r.c);
    product_run(way, &second, work);
    product_run(way, &first, work);
    assert_memory_equal(whole, r.c, (size_t)n * sizeof *whole);
    free(whole);
  }
  free_row(&r);
}

static void rows(void **state) {
  (void)state;
  static const int64_t n[] = {1, 5, 16, 33, 1024, 1025, 2100},
                       k[] = {1, 7, 8, 31, 32, 100, 768, 1025, 5000};
  const ProductWay *way = product_way(TYPE_F32, NULL);
  if (!way) skip();
  if (product_is_blas(way) && !blas_reserve(1)) skip();
  int64_t scratch = gemm_scratch(TYPE_F32, n[countof(n) - 1], k[countof(k) - 1]);
  void *work = aligned_alloc(64, (size_t)(scratch + 63) / 64 * 64);
  for (size_t i = 0; i < countof(n); i++)
    for (size_t j = 0; j < countof(k); j++)
      for (int form = 0; form < 4; form++) check(n[i], k[j], form & 1, form & 2, work);
  free(work);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
