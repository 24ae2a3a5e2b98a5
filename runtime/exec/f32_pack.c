// Operands of products of f32: packed (copied into the order in which tiles read them), or in
// place.
//
// B is packed into panels of 48 columns, each with a row of 48 elements for each element of k. With
// few tiles of rows it is read in place: a tile then waits less for lines that another core has
// written than a copy would, because it multiplies meanwhile. Rows of B that are whole pages apart
// share a few places of the first cache: they are packed sooner.
//
// A is read in place. Only if it is transposed are tiles of rows packed together: neighbours in
// memory are then elements of different tiles, and each tile for itself would fetch their lines
// again.
#include "runtime/exec/f32_gemm_internal.h"

#if defined(__x86_64__)

enum {
  STRIP = 8,      // steps along k for which a tile of A is packed at a time
  AHEAD_ROW = 64, // elements in a row of A between a prefetch and the use
};

// -- the right operand ----------------------------------------------------------------------------

// Packs B, whose rows are lines in memory.
WIDE static void pack_rows(const Part *p, const float *b) {
  int64_t ld = p->of->ldb;
  for (int64_t k = 0; k < p->depth; k++, b += ld)
    for (int64_t j = 0, panel; j < p->columns; j += panel) {
      panel = f32_panel(p->columns, j);
      float *out = p->b + j * p->depth + k * panel;
      for (int64_t v = 0; v < panel; v += LANES) {
        _mm_prefetch(b + AHEAD * ld + j + v, _MM_HINT_T0);
        _mm512_storeu_ps(out + v,
                         _mm512_maskz_loadu_ps(first_lanes(p->columns - j - v), b + j + v));
      }
    }
}

// Packs vector v of a panel of B, which begins at column j. The columns of B are lines in memory.
WIDE static void pack_vector(const Part *p, const float *b, int64_t j, int64_t v) {
  int64_t ld = p->of->ldb, panel = f32_panel(p->columns, j);
  float *out = p->b + j * p->depth + v;
  int n = within(p->columns - j - v, LANES);
  for (int64_t k = 0; k < p->depth; k += LANES) {
    __m512i part[LANES];
    __mmask16 here = first_lanes(p->depth - k);
    for (int i = 0; i < LANES; i++)
      part[i] = i < n ? _mm512_maskz_loadu_epi32(here, b + i * ld + k) : _mm512_setzero_si512();
    transpose_wide(part);
    for (int i = 0; i < LANES && k + i < p->depth; i++)
      _mm512_storeu_si512(out + (k + i) * panel, part[i]);
  }
}

static void pack_columns(const Part *p, const float *b) {
  for (int64_t j = 0, panel; j < p->columns; j += panel) {
    panel = f32_panel(p->columns, j);
    for (int64_t v = 0; v < panel; v += LANES, b += LANES * p->of->ldb) pack_vector(p, b, j, v);
  }
}

bool f32_right_in_place(const Part *p) {
  int64_t few = p->of->ldb % PAGE ? MORE_TILES : FEW_TILES;
  return !p->of->tb && p->tiles <= few && p->columns % LANES == 0;
}

const float *f32_right(const Part *p) {
  const Product *g = p->of;
  const float *b = (const float *)g->b + operand_at(g->tb, p->k, p->column, g->ldb);
  if (f32_right_in_place(p)) return b;
  (g->tb ? pack_columns : pack_rows)(p, b);
  return p->b;
}

// -- the left operand -----------------------------------------------------------------------------

// Packs n tiles of A, from tile q on. The columns of A are lines in memory. A tile gets STRIP steps
// along k at a time. Their stores go to neighbouring lines, and the rows of A that the tiles share
// stay in the first level of cache.
WIDE static void pack_tiles(const Part *p, int64_t q, int64_t n, const float *a) {
  int64_t lda = p->of->lda, rows = p->rows, size = rows * p->depth, begin = row_of(p, q);
  for (int64_t k = 0, steps; k < p->depth; k += steps, a += steps * lda) {
    steps = clamp64(p->depth - k, 0, STRIP);
    float *to = p->a + k * rows;
    for (int64_t i = 1, from = begin, end; i <= n; i++, from = end, to += size) {
      end = row_of(p, q + i);
      __mmask16 lanes = first_lanes(end - from);
      const float *in = a + from;
      float *out = to;
      for (int64_t s = 0; s < steps; s++, in += lda, out += rows) {
        _mm_prefetch(in + AHEAD_ROW, _MM_HINT_T0);
        _mm512_mask_storeu_ps(out, lanes, _mm512_maskz_loadu_ps(lanes, in));
      }
    }
  }
}

bool f32_left_in_place(const Part *p) {
  return !p->of->ta || p->turned || (p->columns <= FEW_COLUMNS && !p->whole);
}

void f32_left(const Part *p, int64_t q, Tile *t) {
  const Product *g = p->of;
  const float *a = (const float *)g->a + (g->ta ? p->k * g->lda : p->k);
  t->a_row = g->ta ? 1 : g->lda;
  if (f32_left_in_place(p)) {
    t->a_step = g->ta ? g->lda : 1;
    t->a = a + row_of(p, q) * t->a_row;
    return;
  }
  bool packed = p->whole && p->column > 0; // for the first block of columns
  if (q % p->group == 0 && !packed) pack_tiles(p, q, clamp64(p->tiles - q, 0, p->group), a);
  t->a_step = p->rows;
  t->a = p->a + q % p->group * p->rows * p->depth;
}

#endif
