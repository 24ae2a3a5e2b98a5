// Products with few rows (runtime/exec/thin_product.c): values against sums in f64, and bits that
// do not depend on which part of the columns is computed.
#include "runtime/exec/thin_product.h"
#include "tests/unit/product_numbers.h"

// A product; a and b are its factors as f32.
typedef struct Case {
  Product g;
  float *a, *b;
  void *narrow_a, *narrow_b, *c;
  int64_t na, nb;
} Case;

static void *narrowed(const float *x, int64_t n) {
  uint16_t *out = malloc((size_t)n * sizeof *out);
  for (int64_t i = 0; i < n; i++) dtype_store(TYPE_BF16, &out[i], (double)x[i]);
  return out;
}

// m rows of n elements, sums of k terms. tb: columns of B are lines of memory.
static Case make(Dtype type, int64_t m, int64_t n, int64_t k, bool tb, bool ta) {
  int64_t lda = ta ? m + 3 : k + 2, ldb = (tb ? k : n) + 5;
  Case x = {.na = (ta ? k : m) * lda, .nb = (tb ? n : k) * ldb};
  x.a = numbers(TYPE_BF16, x.na, 0);
  x.b = numbers(TYPE_BF16, x.nb, 77777);
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

static void run(const Case *x, int members) {
  float *part = malloc((size_t)(thin_pieces(x->g.k) * x->g.m * x->g.n) * sizeof *part);
  ThinTurn turn = {0};
  for (int i = members; i-- > 0;)
    x->g.tb ? thin_columns(&x->g, &turn, i, members) : thin_lines(&x->g, part, &turn, i, members);
  assert_int_equal(turn.next, 0);
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
  check_product(&x.g, x.a, x.b);
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
  for (int form = 0; form < 4; form++) check(type, 1, 33, 70000, form); // a column is long, too
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
