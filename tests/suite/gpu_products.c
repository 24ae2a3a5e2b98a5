// Products of matrices on a GPU (runtime/gpu/gpu_product.c) by the stand-ins for the driver and for
// cuBLASLt, against a plain triple loop: all types and transposes, rows further apart than they are
// long, batches of all kinds, pieces, places that move with loops, long sums, sums without terms.
// Elements that a product does not write must stay as they were. Each product also runs from a
// captured graph.
//
//   gpu_products [NAME]    only the cases whose name has NAME in it
#include <stdio.h>
#include <string.h>

#include "tests/suite/common/product_test.h"

// -- cases ----------------------------------------------------------------------------------------

typedef struct Loop {
  int64_t count, a, b, c;
} Loop;
typedef struct Case {
  const char *name;
  int64_t m, n, k;
  bool ta, tb;
  int64_t lda, ldb, ldc; // 0: rows follow one another
  Loop loop[3];          // batch loops, outermost first; count 0 ends the list
  bool none;             // the first loop has no steps
  int npieces;
  GemmPiece piece[4];
  int32_t by_step;
  int64_t step;     // of the loop around the product
  int64_t moved[3]; // elements by which A, B and C move in each step of that loop
  int64_t shift;    // elements of A, B and C before the matrices: addresses that are not aligned
  GemmAct act;      // the epilogue
  bool adds, biased, keeps, in_place; // `keeps`: the argument of `act` is stored
  bool narrow;                        // only for results of bf16
  bool tf32;                          // only for f32
} Case;

static const Case cases[] = {
    {"one element", 1, 1, 1, .ta = false},
    {"odd sizes", 5, 7, 3, .ta = false},
    {"blocks", 64, 48, 32, .ta = false},
    {"A transposed", 33, 17, 9, .ta = true},
    {"B transposed", 33, 17, 9, .tb = true},
    {"both transposed", 33, 17, 9, .ta = true, .tb = true},
    {"one row", 1, 33, 17, .ta = false},
    {"one row, B transposed", 1, 33, 17, .tb = true},
    {"one row of a wide matrix", 1, 33, 17, .lda = 40, .ldb = 50, .ldc = 60},
    {"one column", 33, 1, 17, .ta = false},
    {"one column, A transposed", 33, 1, 17, .ta = true},
    {"one term", 33, 17, 1, .ta = false},
    {"one term, both transposed", 33, 17, 1, .ta = true, .tb = true},
    {"rows apart", 6, 5, 4, .lda = 9, .ldb = 11, .ldc = 13},
    {"rows apart, transposed", 6, 5, 4, .ta = true, .tb = true, .lda = 9, .ldb = 11, .ldc = 13},
    {"no alignment", 16, 16, 16, .shift = 1},
    {"no alignment, rows apart", 16, 16, 16, .lda = 17, .ldb = 19, .ldc = 21, .shift = 3},
    {"no rows", 0, 8, 8, .ta = false},
    {"no columns", 8, 0, 8, .ta = false},
    {"no terms", 8, 6, 0, .ldc = 9},
    {"no terms, batches", 8, 6, 0, .loop = {{3, 0, 0, 64}}},
    {"batches", 8, 6, 4, .loop = {{5, 32, 24, 48}}},
    {"batches that share B", 8, 6, 4, .loop = {{5, 32, 0, 48}}},
    {"batches that share A", 8, 6, 4, .loop = {{5, 0, 24, 48}}},
    {"batches apart", 8, 6, 4, .loop = {{5, 35, 29, 61}}},
    {"batches within rows", 8, 6, 4, .lda = 12, .ldb = 18, .ldc = 18, .loop = {{3, 4, 6, 6}}},
    {"heads", 16, 16, 8, .tb = true, .lda = 24, .ldb = 24, .ldc = 16,
     .loop = {{2, 384, 384, 768}, {3, 8, 8, 256}}},
    {"two loops that nest", 8, 6, 4, .loop = {{2, 96, 72, 144}, {3, 32, 24, 48}}},
    {"two loops that do not nest", 8, 6, 4, .loop = {{2, 100, 72, 150}, {3, 32, 24, 48}}},
    {"two loops that nest in B and C", 8, 6, 4, .loop = {{2, 100, 72, 144}, {3, 32, 24, 48}}},
    {"two loops that nest in A and C", 8, 6, 4, .loop = {{2, 96, 80, 144}, {3, 32, 24, 48}}},
    {"two loops that nest in A and B", 8, 6, 4, .loop = {{2, 96, 72, 150}, {3, 32, 24, 48}}},
    {"the inner loop shares B", 8, 6, 4, .loop = {{2, 96, 24, 144}, {3, 32, 0, 48}}},
    {"the outer loop is the longer one", 8, 6, 4, .loop = {{5, 100, 80, 150}, {3, 32, 24, 48}}},
    {"three loops, two of which nest", 4, 4, 4,
     .loop = {{2, 200, 100, 300}, {3, 32, 32, 32}, {2, 16, 16, 16}}},
    {"a loop of one step", 8, 6, 4, .loop = {{1, 7, 7, 7}, {3, 32, 24, 48}}},
    {"no batches", 8, 6, 4, .loop = {{2, 32, 24, 48}}, .none = true},
    {"long sums", 3, 3, 40000, .tb = true},
    {"long sums, A transposed", 4, 3, 16385, .ta = true},
    {"pieces with gaps", 12, 12, 5, .npieces = 3,
     .piece = {{{0, 0, 0}, {4, 4, 5}}, {{4, 0, 0}, {8, 8, 5}}, {{8, 0, 0}, {12, 12, 5}}}},
    {"pieces with other terms", 12, 6, 12, .npieces = 3,
     .piece = {{{0, 0, 0}, {4, 6, 4}}, {{4, 0, 0}, {8, 6, 8}}, {{8, 0, 0}, {12, 6, 12}}}},
    {"pieces, both transposed", 12, 6, 12, .ta = true, .tb = true, .npieces = 2,
     .piece = {{{0, 0, 0}, {5, 6, 7}}, {{5, 0, 3}, {12, 6, 12}}}},
    {"pieces, batches", 8, 8, 4, .loop = {{2, 40, 40, 70}}, .npieces = 2,
     .piece = {{{0, 0, 0}, {4, 4, 4}}, {{4, 0, 0}, {8, 8, 4}}}},
    {"a piece without terms", 8, 8, 8, .npieces = 2,
     .piece = {{{0, 0, 8}, {4, 8, 8}}, {{4, 0, 0}, {8, 8, 8}}}},
    {"pieces that reach into padding", 7, 6, 5, .npieces = 2,
     .piece = {{{0, 0, 0}, {4, 8, 4}}, {{4, 0, 0}, {8, 8, 8}}}},
    {"a piece for each step", 8, 8, 8, .npieces = 3, .by_step = 1, .step = 1,
     .piece = {{{0, 0, 0}, {8, 2, 8}}, {{0, 2, 0}, {8, 5, 8}}, {{0, 5, 0}, {8, 8, 8}}}},
    {"places that move", 8, 6, 4, .step = 3, .moved = {40, 30, 50}},
    {"tf32", 9, 7, 5, .tf32 = true}, // the numbers have few bits: nothing is rounded
    {"addend", 9, 7, 5, .adds = true},
    {"addend in place", 9, 7, 5, .adds = true, .in_place = true},
    {"addend, rows apart, no alignment", 9, 7, 5, .ldc = 11, .adds = true, .shift = 3},
    {"addend, batches", 8, 6, 4, .loop = {{2, 100, 72, 150}, {3, 32, 24, 48}}, .adds = true},
    {"addend, long sums", 3, 5, 40000, .tb = true, .adds = true},
    {"addend in place, long sums", 3, 5, 40000, .tb = true, .adds = true, .in_place = true},
    {"addend, places that move", 8, 6, 4, .step = 3, .moved = {40, 30, 50}, .adds = true},
    {"bias", 9, 7, 5, .biased = true},
    {"bias, transposed, rows apart", 9, 7, 5, .ta = true, .tb = true, .ldc = 11, .biased = true},
    {"bias, no alignment", 9, 7, 5, .biased = true, .shift = 1},
    {"bias, long sums", 5, 3, 40000, .biased = true},
    {"bias and addend", 9, 7, 5, .adds = true, .biased = true},
    {"bias and addend in place, long sums", 9, 7, 33000, .adds = true, .biased = true,
     .in_place = true},
    {"gelu", 9, 16, 5, .act = GEMM_GELU, .narrow = true},
    {"gelu of a biased sum", 9, 16, 5, .act = GEMM_GELU, .biased = true, .narrow = true},
    {"gelu, argument kept", 9, 16, 5, .act = GEMM_GELU, .keeps = true, .narrow = true},
    {"gelu of a biased sum, argument kept, rows apart", 9, 16, 5, .ldc = 24, .act = GEMM_GELU,
     .biased = true, .keeps = true, .narrow = true},
    {"gradient of gelu", 9, 16, 5, .act = GEMM_GELU_SLOPE, .narrow = true},
    {"gradient of gelu, transposed, moving", 9, 16, 5, .tb = true, .step = 2,
     .moved = {50, 90, 160}, .act = GEMM_GELU_SLOPE, .narrow = true},
};

typedef struct Types {
  Dtype factors, type;
} Types;
static const Types types[] = {
    {TYPE_F32, TYPE_F32}, {TYPE_F64, TYPE_F64}, {TYPE_BF16, TYPE_BF16}, {TYPE_BF16, TYPE_F32}};

// Makes the product of a case.
static void describe(const Case *x, Types t, Gemm *g, GemmEpilogue *e, BoundGemm *b,
                     int64_t stride[3][LOOP_DEPTH]) {
  memset(stride, 0, 3 * LOOP_DEPTH * sizeof(int64_t));
  *g = (Gemm){.factors = t.factors,
              .type = t.type,
              .tf32 = x->tf32,
              .ta = x->ta,
              .tb = x->tb,
              .lda = x->lda  ? x->lda
                     : x->ta ? x->m
                             : x->k,
              .ldb = x->ldb  ? x->ldb
                     : x->tb ? x->k
                             : x->n,
              .ldc = x->ldc ? x->ldc : x->n,
              .npieces = x->npieces,
              .by_step = x->by_step,
              .piece = x->piece};
  Ref *const ref[3] = {&g->a, &g->b, &g->c};
  for (int i = 0; i < 3; i++) {
    stride[i][0] = x->moved[i] * dtype_bytes(i == 2 ? t.type : t.factors);
    ref[i]->stride = stride[i];
  }
  *e = (GemmEpilogue){
      .act = x->act,
      .has = {x->adds, x->biased, x->keeps || x->act == GEMM_GELU_SLOPE},
      .extra = {g->c, {-1, 0, NULL, 0}, g->c},
  };
  g->epilogue = x->act || x->adds || x->biased ? e : NULL;
  *b = (BoundGemm){.what = g, .m = x->m, .n = x->n, .k = x->k, .batches = 1};
  for (int i = 0; i < 3 && x->loop[i].count; i++) {
    g->batch[i].a = x->loop[i].a;
    g->batch[i].b = x->loop[i].b;
    g->batch[i].c = x->loop[i].c;
    b->count[i] = i == 0 && x->none ? 0 : x->loop[i].count;
    b->batches *= b->count[i];
    g->nbatch++;
  }
  static char place;
  b->c = &place;
  if (x->in_place) b->extra[GEMM_ADDEND] = &place;
}

// -------------------------------------------------------------------------------------------------

static int passed, failed;

static void run(ProductTest *test, const Case *x, Types t, bool captured) {
  Gemm g;
  GemmEpilogue e;
  BoundGemm b;
  int64_t stride[3][LOOP_DEPTH];
  const LoopSteps steps = {.depth = 1, .at = {x->step}};
  if ((x->narrow && t.type != TYPE_BF16) || (x->tf32 && t.factors != TYPE_F32) ||
      (captured && x->in_place))
    return;
  describe(x, t, &g, &e, &b, stride);
  if (gemm_library(&g) < 0) return;
  const char *wrong = product_test(test, &b, &steps, x->shift, captured);
  if (wrong)
    failed++;
  else
    passed++;
  if (wrong)
    printf("FAIL %s, %s to %s%s: %s\n", x->name, dtype_text(t.factors), dtype_text(t.type),
           captured ? ", captured" : "", wrong);
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : "";
  ProductTest *test = product_test_new();
  if (!test) return printf("0 passed, 1 failed, 0 skipped\n"), 1;
  for (size_t i = 0; i < countof(cases); i++)
    for (size_t t = 0; t < countof(types) && strstr(cases[i].name, only); t++)
      for (int captured = 0; captured < 2; captured++) run(test, &cases[i], types[t], captured);
  product_test_free(test);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
