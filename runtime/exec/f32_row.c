// Products of f32 matrices with one row, c = a B, by AVX-512. Each element of B is read once, so
// the product takes as long as reading B from memory. B is read along its lines:
//
//   rows are lines      c[0..n) += a[k] B[k][0..n), eight rows at a time, c in the first level cache
//   columns are lines   c[j] = sum of a[k] B[j][k], four columns at a time
//
// Chains of additions are as in ir/program/sums.h: long sums are added up in f64. Where a chain
// ends depends on k alone, so the bits of an element do not depend on which part of C a worker
// computes.
#include "runtime/exec/f32_row.h"
#include "ir/program/sums.h"
#include "runtime/exec/product_internal.h"

#include <string.h>

#if defined(__x86_64__)

enum {
  LANES = F32_GEMM_LANES,
  ROWS = 8,                               // rows of B that are added at a time
  COLUMNS = 4,                            // columns of B that are summed at a time
  CHUNK = 1024,                           // elements of c that are computed together
  CHAINS = 2,                             // of a column: sums of LANES elements each
  SLAB = SUM_LEAF * SUM_MIDDLE,           // terms of an element of c that are added up in f32
  COLUMN_SLAB = SUM_LEAF * CHAINS * LANES // the same for a column
};

static inline __mmask16 lanes_of(int64_t n) {
  return n >= LANES ? 0xffff : (__mmask16)((1U << n) - 1);
}

// c[0..n) += a[0] B[0] + ... + a[rows - 1] B[rows - 1], rows <= ROWS. The next rows are prefetched.
WIDE static void add_rows(const float *a, int64_t step, const float *b, int64_t ld, int rows,
                          int64_t n, float *c) {
  __m512 x[ROWS];
  for (int r = 0; r < ROWS; r++) x[r] = _mm512_set1_ps(r < rows ? a[r * step] : 0);
  for (int64_t j = 0; j < n; j += LANES) {
    __mmask16 some = lanes_of(n - j);
    __m512 sum = _mm512_setzero_ps();
    if (rows == ROWS) {
      _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) {
        _mm_prefetch(b + (ROWS + r) * ld + j, _MM_HINT_T0);
        sum = _mm512_fmadd_ps(x[r], _mm512_maskz_loadu_ps(some, b + r * ld + j), sum);
      }
    } else {
      for (int r = 0; r < rows; r++)
        sum = _mm512_fmadd_ps(x[r], _mm512_maskz_loadu_ps(some, b + r * ld + j), sum);
    }
    _mm512_mask_storeu_ps(c + j, some, _mm512_add_ps(_mm512_maskz_loadu_ps(some, c + j), sum));
  }
}

// Computes columns j .. j + n - 1, n <= CHUNK.
static void row_chunk(const Product *g, int64_t j, int64_t n) {
  float part[CHUNK];
  double total[CHUNK] = {0};
  bool is_long = f32_gemm_is_long(g->k);
  int64_t step = g->ta ? g->lda : 1, slab = is_long ? SLAB : g->k;
  float *c = (float *)g->c + j;
  for (int64_t from = 0; from < g->k; from += slab) {
    int64_t end = from + slab < g->k ? from + slab : g->k;
    memset(part, 0, (size_t)n * sizeof *part);
    for (int64_t k = from; k < end; k += ROWS)
      add_rows((const float *)g->a + k * step, step, (const float *)g->b + k * g->ldb + j, g->ldb,
               end - k < ROWS ? (int)(end - k) : ROWS, n, part);
    for (int64_t i = 0; i < n && is_long; i++) total[i] += (double)part[i];
  }
  for (int64_t i = 0; i < n; i++) c[i] = is_long ? (float)total[i] : part[i];
}

// Adds a[0..k) times `columns` columns of B, which are lines of memory, to total.
WIDE static void add_columns(const float *a, const float *b, int64_t ld, int columns, int64_t k,
                             double *total) {
  __m512 sum[COLUMNS][CHAINS];
  for (int r = 0; r < COLUMNS; r++)
    for (int h = 0; h < CHAINS; h++) sum[r][h] = _mm512_setzero_ps();
  for (int64_t i = 0; i < k; i += CHAINS * LANES)
    _Pragma("GCC unroll 2") for (int h = 0; h < CHAINS; h++) {
      __mmask16 some = i + h * LANES < k ? lanes_of(k - i - h * LANES) : 0;
      __m512 x = _mm512_maskz_loadu_ps(some, a + i + h * LANES);
      _Pragma("GCC unroll 4") for (int r = 0; r < COLUMNS; r++) {
        const float *at = b + (r < columns ? r : 0) * ld + i + h * LANES;
        sum[r][h] = _mm512_fmadd_ps(x, _mm512_maskz_loadu_ps(some, at), sum[r][h]);
      }
    }
  for (int r = 0; r < columns; r++)
    total[r] += (double)_mm512_reduce_add_ps(_mm512_add_ps(sum[r][0], sum[r][1]));
}

static void row_of_columns(const Product *g) {
  const float *a = g->a, *b = g->b;
  for (int64_t j = 0; j < g->n; j += COLUMNS) {
    double total[COLUMNS] = {0};
    int columns = g->n - j < COLUMNS ? (int)(g->n - j) : COLUMNS;
    for (int64_t k = 0; k < g->k; k += COLUMN_SLAB)
      add_columns(a + k, b + j * g->ldb + k, g->ldb, columns,
                  g->k - k < COLUMN_SLAB ? g->k - k : COLUMN_SLAB, total);
    for (int r = 0; r < columns; r++) ((float *)g->c)[j + r] = (float)total[r];
  }
}

void f32_row(const Product *g) {
  bool lines = !g->ta || g->lda == 1; // a is one line of memory
  if (g->tb && lines) {
    row_of_columns(g);
    return;
  }
  for (int64_t j = 0; j < g->n; j += CHUNK) row_chunk(g, j, g->n - j < CHUNK ? g->n - j : CHUNK);
}

#else

void f32_row(const Product *g) {
  (void)g;
  BUG("f32_row on a CPU without AVX-512");
}

#endif
