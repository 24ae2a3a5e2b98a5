// Tiles of products of f32: sums of rows times columns in registers.
//
// For a step along k a tile of 9 rows and 48 columns reads 12 operands for 27 multiply-adds, one of
// 14 x 32 reads 16 for 28. Meanwhile it prefetches, line after line, what other tiles need.
#include "runtime/exec/f32_gemm_internal.h"

#if defined(__x86_64__)

#define EACH_VEC(vecs, v) _Pragma("GCC unroll 3") for (int v = 0; v < (vecs); v++)
#define EACH_ROW(rows, r) _Pragma("GCC unroll 14") for (int r = 0; r < (rows); r++)

// Defines the function that computes a tile of `rows` rows and `vecs` vectors. An address of the
// CPU is a register plus 0, 1 or 2 times another one, so three rows share a pointer into A.
#define TILE_FUNCTION(rows, vecs)                                                                  \
  WIDE static void tile_##rows##_##vecs(const Tile *t) {                                           \
    enum { POINTERS = ((rows) + 2) / 3 };                                                          \
    const float *a[POINTERS], *b = t->b;                                                           \
    float *c = t->c;                                                                               \
    int64_t row = t->a_row, as = t->a_step, bs = t->b_step, ldc = t->ldc, ahead = AHEAD * bs;      \
    bool add = t->add;                                                                             \
    __mmask16 last = t->last;                                                                      \
    Ahead *next = t->ahead;                                                                        \
    const char *line = next->at, *line_end = next->end;                                            \
    int64_t line_step = next->step;                                                                \
    EACH_ROW(POINTERS, i) a[i] = t->a + 3 * i * row;                                               \
    EACH_ROW(rows, r) EACH_VEC(vecs, v) _mm_prefetch(c + r * ldc + LANES * v, _MM_HINT_T0);        \
    for (int64_t left = t->k; left > 0; left -= t->leaf, add = true) {                             \
      __m512 sum[rows][vecs];                                                                      \
      EACH_ROW(rows, r) EACH_VEC(vecs, v) sum[r][v] = _mm512_setzero_ps();                         \
      for (int64_t k = left < t->leaf ? left : t->leaf; k > 0; k--, b += bs) {                     \
        __m512 right[vecs];                                                                        \
        _mm_prefetch(line, _MM_HINT_T1);                                                           \
        line += line_step;                                                                         \
        if (line >= line_end) {                                                                    \
          line_step = next->more-- > 0 ? line_step : 0;                                            \
          line_end = line_step ? line_end + next->stride : (const char *)UINTPTR_MAX;              \
          line = line_step ? line_end - next->width : (const char *)next;                          \
        }                                                                                          \
        EACH_VEC(vecs, v) {                                                                        \
          _mm_prefetch(b + ahead + LANES * v, _MM_HINT_T0);                                        \
          right[v] = _mm512_loadu_ps(b + LANES * v);                                               \
        }                                                                                          \
        EACH_ROW(rows, r) {                                                                        \
          __m512 left_r = _mm512_set1_ps(a[r / 3][r % 3 * row]);                                   \
          EACH_VEC(vecs, v) sum[r][v] = _mm512_fmadd_ps(left_r, right[v], sum[r][v]);              \
        }                                                                                          \
        EACH_ROW(POINTERS, i) a[i] += as;                                                          \
      }                                                                                            \
      EACH_ROW(rows, r)                                                                            \
      EACH_VEC(vecs, v)                                                                            \
      tile_store(c + r * ldc + LANES * v, add, v == (vecs)-1 ? last : 0xffff, sum[r][v]);          \
    }                                                                                              \
    next->at = line, next->end = line_end, next->step = line_step;                                 \
  }

#define TO_9(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define TO_14(X) TO_9(X) X(10) X(11) X(12) X(13) X(14)
#define TILE_1(rows) TILE_FUNCTION(rows, 1)
#define TILE_2(rows) TILE_FUNCTION(rows, 2)
#define TILE_3(rows) TILE_FUNCTION(rows, 3)
TO_14(TILE_1)
TO_14(TILE_2)
TO_9(TILE_3)

#define ENTRY_1(rows) tile_##rows##_1,
#define ENTRY_2(rows) tile_##rows##_2,
#define ENTRY_3(rows) tile_##rows##_3,
TileFunction *const f32_tile[MOST_VECS][F32_GEMM_ROWS] = {
    {TO_14(ENTRY_1)}, {TO_14(ENTRY_2)}, {TO_9(ENTRY_3)}};

#endif
