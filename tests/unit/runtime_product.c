// Products of f32 matrices (runtime/exec/f32_gemm.c): values against sums in f64, bits that do not
// depend on how rows and columns are divided, and no element written outside of the result.
#include "tests/unit/product_numbers.h"

enum { PAD = 3, OUTSIDE = 12345 }; // elements after each row of C, and their value

typedef struct Matrices {
  Product g;
  float *a, *b, *c;
} Matrices;

static Matrices make(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  int64_t lda = (ta ? m : k) + 1, ldb = (tb ? k : n) + 5, ldc = n + PAD;
  Matrices x = {.a = numbers(TYPE_F32, (ta ? k : m) * lda, 0),
                .b = numbers(TYPE_F32, (tb ? n : k) * ldb, 77777)};
  x.c = malloc((size_t)(m * ldc) * sizeof *x.c);
  for (int64_t i = 0; i < m * ldc; i++) x.c[i] = OUTSIDE;
  x.g = (Product){.factors = TYPE_F32, .type = TYPE_F32, .ta = ta, .tb = tb};
  x.g.m = m, x.g.n = n, x.g.k = k;
  x.g.a = x.a, x.g.b = x.b, x.g.c = x.c;
  x.g.lda = lda, x.g.ldb = ldb, x.g.ldc = ldc;
  return x;
}

static void free_all(Matrices *x) {
  free(x->a);
  free(x->b);
  free(x->c);
}

static void check_values(const Matrices *x) {
  const Product *g = &x->g;
  check_product(g, x->a, x->b);
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = g->n; j < g->ldc; j++) assert_true(x->c[i * g->ldc + j] == OUTSIDE);
}

// Returns rows from..to-1 of the product.
static Product rows_of(const Product *g, int64_t from, int64_t to) {
  Product p = *g;
  p.a = (const float *)g->a + (g->ta ? from : from * g->lda);
  p.c = (float *)g->c + from * g->ldc;
  p.m = to - from;
  return p;
}

// Returns columns from..to-1 of the product, beside which another thread stores the others.
static Product columns_of(const Product *g, int64_t from, int64_t to) {
  Product p = *g;
  p.b = (const float *)g->b + (g->tb ? from * g->ldb : from);
  p.c = (float *)g->c + from;
  p.n = to - from;
  p.beside = true;
  return p;
}

// Computes the product in two parts and compares the bits with `whole`.
static void check_parts(const Matrices *x, Product first, Product second, const float *whole,
                        const ProductWay *way, void *work) {
  for (int64_t i = 0; i < x->g.m; i++)
    memset(x->c + i * x->g.ldc, 0x7f, (size_t)x->g.n * sizeof *x->c);
  product_run(way, &first, work);
  product_run(way, &second, work);
  assert_memory_equal(whole, x->c, (size_t)(x->g.m * x->g.ldc) * sizeof *whole);
}

// Returns the work memory of such a product, and not more: the sanitizer sees what lies beyond.
static void *work_of(int64_t m, int64_t n, int64_t k, bool ta) {
  Gemm g = {.factors = TYPE_F32, .ta = ta};
  return aligned_alloc(64, (size_t)gemm_scratch(&g, m, n, k));
}

static void check(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  const ProductWay *way = product_way(TYPE_F32, NULL);
  Matrices x = make(m, n, k, ta, tb);
  void *work = work_of(m, n, k, ta);
  // the next product is of another shape, and one of its operands must not be prefetched yet
  Product next = {.ta = tb, .tb = ta, .m = n, .n = m, .k = k, .lda = x.g.ldb, .ldb = x.g.lda};
  next.a = m % 2 ? NULL : x.g.b;
  next.b = m % 2 ? x.g.a : NULL;
  x.g.next = &next;
  product_run(way, &x.g, work);
  check_values(&x);
  size_t bytes = (size_t)(m * x.g.ldc) * sizeof *x.c;
  float *whole = malloc(bytes);
  memcpy(whole, x.c, bytes);
  int64_t row = m / 2 + 1, column = n / 2 + 1;
  if (!product_is_blas(way) && row < m)
    check_parts(&x, rows_of(&x.g, 0, row), rows_of(&x.g, row, m), whole, way, work);
  if (!product_is_blas(way) && column < n)
    check_parts(&x, columns_of(&x.g, 0, column), columns_of(&x.g, column, n), whole, way, work);
  free(whole);
  free(work);
  free_all(&x);
}

static bool is_here(void) {
  const ProductWay *way = product_way(TYPE_F32, NULL);
  return way && (!product_is_blas(way) || blas_reserve(1));
}

// The sizes lie on both sides of the limits at which operands are packed, read in place, or change
// their roles.
static void products(void **state) {
  (void)state;
  static const int64_t m[] = {1, 16, 47, 72, 73, 113}, n[] = {1, 10, 32, 33, 64, 100},
                       k[] = {1, 31, 191, 192, 385, 800};
  if (!is_here()) skip();
  for (size_t i = 0; i < countof(m); i++)
    for (size_t j = 0; j < countof(n); j++)
      for (size_t l = 0; l < countof(k); l++)
        for (int form = 0; form < 4; form++) check(m[i], n[j], k[l], form & 1, form & 2);
}

// A transposed A is packed once for several blocks of columns, if it has few rows. Half of the
// columns are one block.
static void blocks_of_columns(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, k;
  } size[] = {{9, 500, 350}, {230, 481, 384}, {113, 530, 1000}, {1030, 500, 385}};
  if (!is_here()) skip();
  for (size_t i = 0; i < countof(size); i++)
    for (int tb = 0; tb < 2; tb++) check(size[i].m, size[i].n, size[i].k, true, tb);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products),
                                     cmocka_unit_test(blocks_of_columns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
