// Where sums of products of f32 go when tiles do not add them to C themselves: to totals in f64, to
// C transposed, or to work memory until they are complete.
#include "runtime/exec/f32_gemm_internal.h"

#if defined(__x86_64__)

WIDE void f32_add_total(const Part *p, const float *sum, int64_t i, int rows, int64_t j, int vecs) {
  enum { HALF = LANES / 2 };
  for (int r = 0; r < rows; r++, sum += F32_GEMM_PANEL) {
    double *total = p->total + (i + r) * f32_total_row(p) + j;
    for (int c = 0; c < vecs * LANES; c += HALF) {
      __m512d term = _mm512_cvtps_pd(_mm256_loadu_ps(sum + c));
      _mm512_storeu_pd(total + c, _mm512_add_pd(_mm512_loadu_pd(total + c), term));
    }
  }
}

WIDE void f32_store_turned(const Part *p, const float *sum, int64_t i, int rows, int64_t j,
                           int columns) {
  __mmask16 lanes = first_lanes(rows);
  float *c = (float *)p->of->c + (p->column + j) * p->of->ldc + i;
  for (int at = 0; at < columns; at += LANES) {
    __m512i v[LANES];
    for (int r = 0; r < LANES; r++)
      v[r] = r < rows ? _mm512_loadu_si512(sum + r * F32_GEMM_PANEL + at) : _mm512_setzero_si512();
    transpose_wide(v);
    for (int l = 0; l < LANES && at + l < columns; l++, c += p->of->ldc)
      tile_store(c, p->k > 0, lanes, _mm512_castsi512_ps(v[l]));
  }
}

WIDE void f32_store_kept(const Part *p, int64_t i, int64_t rows) {
  int64_t ld = f32_total_row(p), ldc = p->of->ldc;
  const float *sum = p->kept + i * ld;
  float *c = (float *)p->of->c + i * ldc + p->column;
  for (; rows > 0; rows--, sum += ld, c += ldc)
    for (int64_t j = 0; j < p->columns; j += LANES)
      _mm512_mask_storeu_ps(c + j, first_lanes(p->columns - j), _mm512_loadu_ps(sum + j));
}

void f32_store_totals(const Part *p) {
  for (int64_t i = 0; i < p->of->m; i++) {
    float *c = (float *)p->of->c + i * p->of->ldc + p->column;
    const double *total = p->total + i * f32_total_row(p);
    for (int64_t j = 0; j < p->columns; j++) c[j] = (float)total[j];
  }
}

#endif
