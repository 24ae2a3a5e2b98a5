// Products of f32 matrices by AVX-512. In: matrices in memory. Out: their product.
//
// The result is computed in tiles of at most 14 rows and 32 columns, whose sums are in registers.
// The operands are packed (copied into the order in which a tile reads them), where that pays:
//
//   A   a tile of rows: 16 elements, of which at most 14 are used, for each element of k
//   B   panels of 32 columns, each with a row of 32 elements for each element of k
//
// The packed panels of B stay in the second level of cache while all tiles of A are multiplied with
// them, as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
// Here a tile of A, not a panel of B, is kept in the first level: a step along k then reads 128
// bytes from the second level for 28 multiply-adds, and A is packed once for all columns of a
// block.
//
// A slab is a range of k whose sums are one chain of f32 additions. Where slabs end depends on k
// alone, so an element of C has the same bits however m and n are divided among threads.
#include "ir/program/sums.h"
#include "runtime/exec/product_internal.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)

enum {
  TILE_ROWS = 14,
  LANES = F32_GEMM_LINE,
  PANEL = F32_GEMM_PANEL,     // columns of a panel: two vectors
  FEW_TILES = 4,              // B is read in place for at most so many tiles of rows
  FEW_COLUMNS = 4 * PANEL,    // A, if it is transposed, for at most so many columns
  DEPTH = F32_GEMM_DEPTH,     // most elements of k in a slab
  COLUMNS = F32_GEMM_COLUMNS, // most columns of a block
  SLABS = 32,                 // most slabs of a product whose sums are added in f32
};

// A tile: c = A B or, if `add` is set, c += A B. Row r of A has element k at a[k * a_step + r], and
// column j of B at b[k * b_step + j].
typedef struct Tile {
  int64_t k;
  const float *a, *b;
  int64_t a_step, b_step;
  float *c;
  int64_t ldc;
  bool add;
  __mmask16 last; // the columns of the last vector that are stored
} Tile;

typedef void TileFunction(const Tile *t);

// -- tiles ----------------------------------------------------------------------------------------

// Defines the function that computes a tile of `rows` rows and `vecs` vectors.
#define TILE_FUNCTION(rows, vecs)                                                                  \
  WIDE static void tile_##rows##_##vecs(const Tile *t) {                                           \
    __m512 sum[rows][vecs];                                                                        \
    const float *a = t->a, *b = t->b;                                                              \
    float *c = t->c;                                                                               \
    int64_t ldc = t->ldc;                                                                          \
    bool add = t->add;                                                                             \
    __mmask16 last = t->last;                                                                      \
    _Pragma("GCC unroll 16") for (int r = 0; r < (rows); r++)                                      \
        _Pragma("GCC unroll 2") for (int v = 0; v < (vecs); v++) {                                 \
      sum[r][v] = _mm512_setzero_ps();                                                             \
      _mm_prefetch((const char *)(c + r * ldc + LANES * v), _MM_HINT_T0);                          \
    }                                                                                              \
    for (int64_t k = t->k, as = t->a_step, bs = t->b_step; k > 0; k--, a += as, b += bs) {         \
      __m512 right[vecs];                                                                          \
      _Pragma("GCC unroll 2") for (int v = 0; v < (vecs); v++) right[v] =                          \
          _mm512_loadu_ps(b + LANES * v);                                                          \
      _Pragma("GCC unroll 16") for (int r = 0; r < (rows); r++) {                                  \
        __m512 left = _mm512_set1_ps(a[r]);                                                        \
        _Pragma("GCC unroll 2") for (int v = 0; v < (vecs); v++) sum[r][v] =                       \
            _mm512_fmadd_ps(left, right[v], sum[r][v]);                                            \
      }                                                                                            \
    }                                                                                              \
    _Pragma("GCC unroll 16") for (int r = 0; r < (rows); r++)                                      \
        _Pragma("GCC unroll 2") for (int v = 0; v < (vecs); v++)                                   \
            tile_store(c + r * ldc + LANES * v, add, v == (vecs)-1 ? last : 0xffff, sum[r][v]);    \
  }

WIDE static inline void tile_store(float *at, bool add, __mmask16 some, __m512 sum) {
  if (add) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(some, at));
  _mm512_mask_storeu_ps(at, some, sum);
}

#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define TILE_FUNCTIONS(rows) TILE_FUNCTION(rows, 1) TILE_FUNCTION(rows, 2)
#define TILE_ENTRY(rows) {tile_##rows##_1, tile_##rows##_2},
EACH_ROWS(TILE_FUNCTIONS)
static TileFunction *const tile_function[TILE_ROWS][2] = {EACH_ROWS(TILE_ENTRY)};

// -- packing --------------------------------------------------------------------------------------

static __mmask16 first_lanes(int64_t n) { return (__mmask16)((1U << within(n, LANES)) - 1); }

// Packs n lines, at most 16, of k neighbours each: element (o, p), at x[o * ld + p], goes to
// out[p * step + o].
WIDE static void pack_across(const float *x, int64_t ld, int n, int64_t k, int64_t step,
                             float *out) {
  for (int64_t p = 0; p < k; p += LANES) {
    __m512i v[LANES];
    __mmask16 here = first_lanes(k - p);
    for (int i = 0; i < LANES; i++)
      v[i] = i < n ? _mm512_maskz_loadu_epi32(here, x + i * ld + p) : _mm512_setzero_si512();
    transpose_wide(v);
    for (int i = 0; i < LANES && p + i < k; i++)
      _mm512_mask_storeu_epi32(out + (p + i) * step, first_lanes(n), v[i]);
  }
}

// Packs k lines of n neighbours each: element (p, o), at x[p * ld + o], goes to panel o / width of
// `out`, which has k lines of `width` elements. The lanes of the last vector that do not exist are
// zeros.
WIDE static inline void pack_along(const float *x, int64_t ld, int64_t n, int64_t k, int width,
                                   float *out) {
  int64_t full = n / LANES * LANES;
  for (int64_t p = 0; p < k; p++, x += ld, out += width) {
    for (int64_t o = 0; o < full; o += LANES)
      _mm512_storeu_ps(out + o / width * width * k + o % width, _mm512_loadu_ps(x + o));
    if (full < n)
      _mm512_storeu_ps(out + full / width * width * k + full % width,
                       _mm512_maskz_loadu_ps(first_lanes(n - full), x + full));
  }
}

// -- the loops ------------------------------------------------------------------------------------

// A part of a product: a slab of k and a block of columns.
typedef struct Part {
  const Product *of;
  int64_t k, depth;        // the first element of the slab, and their number
  int64_t column, columns; // the first column of the block, and their number
  int64_t tiles;           // of rows
  float *a, *b;            // where operands are packed
} Part;

// Sets t->b and t->b_step to the first panel of B.
WIDE static void right_operand(const Part *p, Tile *t) {
  const Product *g = p->of;
  const float *b =
      (const float *)g->b + (g->tb ? p->column * g->ldb + p->k : p->k * g->ldb + p->column);
  bool in_place = !g->tb && p->tiles <= FEW_TILES && p->columns % LANES == 0;
  t->b = in_place ? b : p->b;
  t->b_step = in_place ? g->ldb : PANEL;
  if (in_place) return;
  if (!g->tb) pack_along(b, g->ldb, p->columns, p->depth, PANEL, p->b);
  for (int64_t j = 0; g->tb && j < p->columns; j += LANES)
    pack_across(b + j * g->ldb, g->ldb, within(p->columns - j, LANES), p->depth, PANEL,
                p->b + j / PANEL * PANEL * p->depth + j % PANEL);
}

// Sets t->a and t->a_step to `rows` rows of A from row i on.
WIDE static void left_operand(const Part *p, int64_t i, int rows, Tile *t) {
  const Product *g = p->of;
  const float *a = (const float *)g->a + (g->ta ? p->k * g->lda + i : i * g->lda + p->k);
  bool in_place = g->ta && p->columns <= FEW_COLUMNS;
  t->a = in_place ? a : p->a;
  t->a_step = in_place ? g->lda : LANES;
  if (in_place) return;
  if (g->ta)
    pack_along(a, g->lda, rows, p->depth, LANES, p->a);
  else
    pack_across(a, g->lda, rows, p->depth, LANES, p->a);
}

// Computes the part. All tiles have the same number of rows, or one less.
static void part(const Part *p) {
  const Product *g = p->of;
  Tile t = {.k = p->depth, .ldc = g->ldc, .add = p->k > 0};
  right_operand(p, &t);
  int64_t panel = t.b == p->b ? PANEL * p->depth : PANEL;
  const float *first = t.b;
  for (int64_t q = 0; q < p->tiles; q++) {
    int64_t i = g->m * q / p->tiles, rows = g->m * (q + 1) / p->tiles - i;
    left_operand(p, i, (int)rows, &t);
    t.c = (float *)g->c + i * g->ldc + p->column;
    t.b = first;
    for (int64_t j = 0; j < p->columns; j += PANEL, t.c += PANEL, t.b += panel) {
      int columns = within(p->columns - j, PANEL), vecs = columns > LANES ? 2 : 1;
      t.last = first_lanes(columns - (vecs - 1) * LANES);
      tile_function[rows - 1][vecs - 1](&t);
    }
  }
}

// Computes a product in slabs of at most `most` elements of k.
static void multiply(const Product *g, int64_t most, void *work) {
  int64_t slabs = ceil_div(g->k, most), depth = ceil_div(g->k, slabs),
          blocks = ceil_div(g->n, COLUMNS),
          columns = ceil_div(ceil_div(g->n, blocks), PANEL) * PANEL;
  Part p = {.of = g, .tiles = ceil_div(g->m, TILE_ROWS), .a = work};
  p.b = p.a + LANES * depth;
  for (p.column = 0; p.column < g->n; p.column += columns) {
    p.columns = clamp64(g->n - p.column, 0, columns);
    for (p.k = 0; p.k < g->k; p.k += depth) {
      p.depth = clamp64(g->k - p.k, 0, depth);
      part(&p);
    }
  }
}

static void multiply_leaves(const Product *g, void *work) { multiply(g, SUM_LEAF, work); }

// Long sums follow ir/program/sums.h: leaves, middles, and totals in f64.
void f32_gemm(const Product *g, void *work) {
  if (g->k <= SLABS * DEPTH)
    multiply(g, DEPTH, work);
  else
    product_by_pieces(g, SUM_LEAF * SUM_MIDDLE, multiply_leaves, work);
}

#else

void f32_gemm(const Product *g, void *work) {
  (void)g, (void)work;
  BUG("f32_gemm on a CPU without AVX-512");
}

#endif

bool f32_gemm_open(const char **name) {
  const char *choice = getenv("MESHC_F32");
  bool found = cpu_is_wide() && !(choice && strcmp(choice, "none") == 0);
  if (name) *name = found ? "AVX-512" : "none";
  return found;
}
