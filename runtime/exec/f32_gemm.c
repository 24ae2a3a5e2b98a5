// Products of f32 matrices by AVX-512. In: matrices in memory. Out: their product.
//
// The result is computed in tiles of at most 9 rows and 48 columns, whose sums are in registers
// (14 rows, if the result has at most 32 or 64 columns). For a step along k a tile of 9 x 48 reads
// 12 operands for 27 multiply-adds, one of 14 x 32 reads 16 for 28. On CPUs whose clock falls with
// the power that they draw, fewer loads are faster.
//
// B is packed (copied into the order in which tiles read it) where that pays: into panels of 48
// columns, each with a row of 48 elements for each element of k. With few tiles of rows it is read
// in place: a tile then waits less for lines that another core has written than a copy would,
// because it multiplies meanwhile. The panels of a block of columns stay in the second level of
// cache while all rows of A are multiplied with them, as in Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication" (2008). A is read in place. Only if it is transposed are
// a few tiles of rows packed together: neighbours in memory are then elements of different tiles,
// and each tile for itself would fetch their lines again.
//
// While a tile is computed, lines that the next tiles need are prefetched into the second level of
// cache: of A and C, then of B and A for the next slab, block of columns, or product. Products of
// attention are short, and most of their time would pass with waiting for scores that were computed
// long ago. The last product of an instruction prefetches weights or activations for the first one
// of the next instruction (exec_coming.c).
//
// If A is transposed and has many rows while B has few columns, the operands change their roles:
// the transposed product is computed, whose operand B is then read in place, line after line, and
// each tile is transposed when it is stored. Read in place as A, every row of memory would give a
// tile 14 elements, and lines that are a power of two apart share a few places of the first cache.
//
// If threads divide the columns, C is not read and written for each slab, but once: sums wait in
// work memory until they are complete.
//
// A slab is a range of k whose sums are one chain of f32 additions. Where slabs end depends on k
// alone, so an element of C has the same bits however m and n are divided among threads.
#include "ir/program/sums.h"
#include "runtime/exec/product_internal.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)

enum {
  LANES = F32_GEMM_LANES,
  MOST_VECS = F32_GEMM_PANEL / LANES, // vectors of a row of a tile
  FEW_TILES = 16,                     // B is read in place for at most so many tiles of rows
  FEW_COLUMNS = 32,                   // A, if it is transposed, for at most so many columns
  GROUP = F32_GEMM_GROUP,             // most elements of tiles of A that are packed together
  MOST_GROUP = 64,                    // most tiles that are packed together
  TURNED_DEPTH = 192,                 // fewest elements of k if operands change their roles
  DEPTH = F32_GEMM_DEPTH,             // most elements of k in a slab
  BLOCK = F32_GEMM_BLOCK,             // most elements of a packed block of B
  // Most rows of a product whose totals are kept at a time.
  LONG_ROWS = F32_GEMM_TOTALS / (BLOCK / (SUM_LEAF * SUM_MIDDLE)),
  STRIP = 8, // steps along k for which a tile of A is packed at a time
  AHEAD = 8  // steps along k between a prefetch and the use
};

// Lines of memory that the tiles prefetch one after another: `more` rows of `width` bytes, after
// the one that ends at `end`.
typedef struct Ahead {
  const char *at, *end;
  int64_t step, more, width, stride; // in bytes. step 0: there is nothing to prefetch
} Ahead;

// A tile: c = A B or, if `add` is set, c += A B. Row r of A has element k at a[r * a_row + k *
// a_step], and column j of B at b[k * b_step + j].
typedef struct Tile {
  int64_t k, leaf; // a chain of additions has `leaf` terms. The chains are added up in c
  const float *a, *b;
  int64_t a_row, a_step, b_step;
  float *c;
  int64_t ldc;
  bool add;
  __mmask16 last; // the columns of the last vector that are stored
  Ahead *ahead;
} Tile;

typedef void TileFunction(const Tile *t);

// -- tiles ----------------------------------------------------------------------------------------

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

WIDE static inline void tile_store(float *at, bool add, __mmask16 some, __m512 sum) {
  if (add) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(some, at));
  _mm512_mask_storeu_ps(at, some, sum);
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
static TileFunction *const tile_function[MOST_VECS][F32_GEMM_ROWS] = {
    {TO_14(ENTRY_1)}, {TO_14(ENTRY_2)}, {TO_9(ENTRY_3)}};
// Most rows of a tile, for each number of vectors in a row: the sums and one row of B and two
// elements of A fit in 32 registers.
static const int most_rows[MOST_VECS] = {14, 14, 9};

// -- packing --------------------------------------------------------------------------------------

// Returns the place of row i and column j of an operand.
static int64_t operand_at(bool transposed, int64_t i, int64_t j, int64_t ld) {
  return transposed ? j * ld + i : i * ld + j;
}

static __mmask16 first_lanes(int64_t n) { return (__mmask16)((1U << within(n, LANES)) - 1); }

// A part of a product: a slab of k, a block of columns and all rows.
typedef struct Part {
  const Product *of;
  int64_t k, depth;        // the first element of the slab, and their number
  int64_t column, columns; // the first column of the block, and their number
  int64_t slab, block;     // most elements of a slab, and most columns of a block
  int64_t tiles, rows;     // tiles of rows, and the most rows of one
  int64_t group;           // tiles of A that are packed together, if A is transposed
  float *a, *b;            // where operands are packed
  double *total;           // of the rows and columns, or NULL if sums are in C
  float *kept;             // of the rows and columns until they are complete, or NULL
  bool turned;             // C is stored transposed
} Part;

// Returns the columns of the panel that begins at column j of a block with so many columns. Four
// vectors are two panels of two: tiles of one vector read more operands than they multiply.
static int panel_of(int64_t columns, int64_t j) {
  int64_t vecs = ceil_div(columns - j, LANES);
  return (vecs == MOST_VECS + 1 ? MOST_VECS - 1 : within(vecs, MOST_VECS)) * LANES;
}

// Returns the first row of tile q. All tiles have the same number of rows, or one less.
static int64_t row_of(const Part *p, int64_t q) { return p->of->m * q / p->tiles; }

// Packs B, whose rows are lines in memory.
WIDE static void pack_rows(const Part *p, const float *b) {
  int64_t ld = p->of->ldb;
  for (int64_t k = 0; k < p->depth; k++, b += ld)
    for (int64_t j = 0, panel; j < p->columns; j += panel) {
      panel = panel_of(p->columns, j);
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
  int64_t ld = p->of->ldb, panel = panel_of(p->columns, j);
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
    panel = panel_of(p->columns, j);
    for (int64_t v = 0; v < panel; v += LANES, b += LANES * p->of->ldb) pack_vector(p, b, j, v);
  }
}

static void prefetch_rows(const float *at, int64_t rows, int64_t columns, int64_t ld) {
  for (int64_t i = 0; i < rows; i++, at += ld)
    for (int64_t j = 0; j < columns; j += LANES) _mm_prefetch(at + j, _MM_HINT_T0);
}

// Packs a group of tiles of A, from tile q on. The columns of A are lines in memory. A tile gets
// STRIP steps along k at a time. Their stores go to neighbouring lines, and the rows of A that the
// tiles share stay in the first level of cache.
WIDE static void pack_group(const Part *p, int64_t q, const float *a) {
  int64_t n = clamp64(p->tiles - q, 0, p->group), size = p->rows * p->depth, from[MOST_GROUP];
  __mmask16 lanes[MOST_GROUP];
  for (int64_t i = 0; i < n; i++) {
    from[i] = row_of(p, q + i);
    lanes[i] = first_lanes(row_of(p, q + i + 1) - from[i]);
  }
  int64_t lda = p->of->lda, rows = p->rows, columns = n > 0 ? row_of(p, q + n) - from[0] : 0;
  for (int64_t k = 0, steps; k < p->depth; k += steps, a += steps * lda) {
    steps = clamp64(p->depth - k, 0, STRIP);
    prefetch_rows(a + STRIP * lda + from[0], steps, columns, lda);
    for (int64_t i = 0; i < n; i++) {
      const float *in = a + from[i];
      float *out = p->a + i * size + k * rows;
      for (int64_t s = 0; s < steps; s++, in += lda, out += rows)
        _mm512_mask_storeu_ps(out, lanes[i], _mm512_maskz_loadu_ps(lanes[i], in));
    }
  }
}

// -- the loops ------------------------------------------------------------------------------------

// Returns whether B is read in place.
static bool is_in_place(const Part *p) {
  return !p->of->tb && p->tiles <= FEW_TILES && p->columns % LANES == 0;
}

// Returns the panel of B at column 0 of the block.
static const float *right_operand(const Part *p) {
  const Product *g = p->of;
  const float *b = (const float *)g->b + operand_at(g->tb, p->k, p->column, g->ldb);
  if (is_in_place(p)) return b;
  (g->tb ? pack_columns : pack_rows)(p, b);
  return p->b;
}

// Sets t->a and its steps to tile q of A.
static void left_operand(const Part *p, int64_t q, Tile *t) {
  const Product *g = p->of;
  const float *a = (const float *)g->a + (g->ta ? p->k * g->lda : p->k);
  bool in_place = !g->ta || p->columns <= FEW_COLUMNS || p->turned;
  if (!in_place && q % p->group == 0) pack_group(p, q, a);
  t->a_row = g->ta ? 1 : g->lda;
  t->a_step = !in_place ? p->rows : g->ta ? g->lda : 1;
  t->a = in_place ? a + row_of(p, q) * t->a_row : p->a + q % p->group * p->rows * p->depth;
}

// -- what comes next ------------------------------------------------------------------------------

enum { AHEAD_STEP = 64 }; // bytes from one prefetch to the next: one line

// Sets *x to an operand's rows i.. and columns j.., `rows` and `columns` of them.
static void ahead_set(Ahead *x, const void *operand, bool transposed, int64_t ld, int64_t i,
                      int64_t rows, int64_t j, int64_t columns) {
  if (!operand || rows <= 0 || columns <= 0) return;
  const float *from = (const float *)operand + operand_at(transposed, i, j, ld);
  int64_t size = sizeof *from, lines = transposed ? columns : rows;
  *x = (Ahead){.at = (const char *)from,
               .step = AHEAD_STEP,
               .more = lines - 1,
               .width = (transposed ? rows : columns) * size,
               .stride = ld * size};
  x->end = x->at + x->width;
}

// Sets *next to the part that is computed after p: of the next slab, block of columns, or product.
// Returns false if there is none.
static bool part_after(const Part *p, Part *next) {
  *next = *p;
  next->k += p->slab;
  if (next->k >= p->of->k) next->k = 0, next->column += p->block;
  if (next->column >= p->of->n) next->column = 0, next->of = p->of->next;
  if (!next->of) return false;
  if (next->of != p->of) { // it may be divided otherwise: these sizes are about right
    next->slab = DEPTH;
    next->block = BLOCK / DEPTH;
    next->rows = most_rows[MOST_VECS - 1];
    next->group = GROUP / DEPTH / next->rows;
  }
  next->depth = clamp64(next->of->k - next->k, 0, next->slab);
  next->columns = clamp64(next->of->n - next->column, 0, next->block);
  return true;
}

// Returns how many tiles of A are read, or packed, together.
static int64_t tiles_together(const Part *p) {
  return p->of->ta && p->columns > FEW_COLUMNS && !p->turned ? p->group : 1;
}

// What the tiles of a part prefetch, in this order: the next rows of A, and of C; B of the next
// part, and its first rows of A.
typedef struct Coming {
  Ahead a, c, b, first;
} Coming;

static Ahead *ahead_now(Coming *x) {
  return x->a.step ? &x->a : x->c.step ? &x->c : x->b.step ? &x->b : &x->first;
}

// Returns what is prefetched from the beginning of part p on. Where nothing is left, tiles prefetch
// one address again and again, which is in a cache: that of p.
static Coming coming_of(const Part *p) {
  static const Ahead none = {.end = (const char *)UINTPTR_MAX};
  Coming x = {none, none, none, none};
  x.a.at = x.b.at = x.c.at = x.first.at = (const char *)p;
  Part next;
  if (!part_after(p, &next)) return x;
  const Product *g = next.of;
  ahead_set(&x.b, g->b, g->tb, g->ldb, next.k, next.depth, next.column, next.columns);
  ahead_set(&x.first, g->a, g->ta, g->lda, 0, clamp64(g->m, 0, tiles_together(&next) * next.rows),
            next.k, next.depth);
  return x;
}

// Sets what is prefetched from tile q on: the next rows of A that are read in place, or packed, and
// the rows of C of the next tile.
static void ahead_of_tile(const Part *p, int64_t q, Coming *x) {
  const Product *g = p->of;
  int64_t tiles = tiles_together(p), from = row_of(p, clamp64(q + tiles, 0, p->tiles));
  if (q % tiles == 0)
    ahead_set(&x->a, g->a, g->ta, g->lda, from, clamp64(g->m - from, 0, tiles * p->rows), p->k,
              p->depth);
  if (p->total || p->turned || p->kept || q + 1 == p->tiles) return;
  int64_t i = row_of(p, q + 1);
  ahead_set(&x->c, g->c, false, g->ldc, i, row_of(p, q + 2) - i, p->column, p->columns);
}

// Returns the distance between rows of the totals: whole vectors.
static int64_t total_row(const Part *p) { return ceil_div(p->columns, LANES) * LANES; }

// Adds a tile of sums, of `rows` rows and `vecs` vectors, to the totals.
WIDE static void add_total(const Part *p, const float *sum, int64_t i, int rows, int64_t j,
                           int vecs) {
  enum { HALF = LANES / 2 };
  for (int r = 0; r < rows; r++, sum += F32_GEMM_PANEL) {
    double *total = p->total + (i + r) * total_row(p) + j;
    for (int c = 0; c < vecs * LANES; c += HALF) {
      __m512d term = _mm512_cvtps_pd(_mm256_loadu_ps(sum + c));
      _mm512_storeu_pd(total + c, _mm512_add_pd(_mm512_loadu_pd(total + c), term));
    }
  }
}

// Stores a tile of sums transposed: row i + r is column i + r of C. Adds to C after the first slab.
WIDE static void store_turned(const Part *p, const float *sum, int64_t i, int rows, int64_t j,
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

// Stores the sums of `rows` rows from row i on, which are complete, in C.
WIDE static void store_kept(const Part *p, int64_t i, int64_t rows) {
  int64_t ld = total_row(p), ldc = p->of->ldc;
  const float *sum = p->kept + i * ld;
  float *c = (float *)p->of->c + i * ldc + p->column;
  for (; rows > 0; rows--, sum += ld, c += ldc)
    for (int64_t j = 0; j < p->columns; j += LANES)
      _mm512_mask_storeu_ps(c + j, first_lanes(p->columns - j), _mm512_loadu_ps(sum + j));
}

// Computes the rows of tile q, for all columns of the part. t->a and t->b are set.
static void tile_row(const Part *p, int64_t q, Coming *next, Tile t) {
  const Product *g = p->of;
  float sums[F32_GEMM_ROWS * F32_GEMM_PANEL];
  int64_t i = row_of(p, q), rows = row_of(p, q + 1) - i;
  bool apart = p->total || p->turned, in_place = is_in_place(p);
  if (p->total) memset(sums, 0, sizeof sums); // whole vectors are added to the totals
  for (int64_t j = 0, panel; j < p->columns; j += panel) {
    panel = panel_of(p->columns, j);
    int columns = within(p->columns - j, (int)panel), vecs = ceil_div(columns, LANES);
    t.last = first_lanes(columns - (vecs - 1) * LANES);
    t.c = apart     ? sums
          : p->kept ? p->kept + i * t.ldc + j
                    : (float *)g->c + i * g->ldc + p->column + j;
    t.b_step = in_place ? g->ldb : panel;
    t.ahead = ahead_now(next);
    tile_function[vecs - 1][rows - 1](&t);
    t.b += in_place ? panel : panel * p->depth;
    if (p->total) add_total(p, sums, i, (int)rows, j, vecs);
    if (p->turned) store_turned(p, sums, i, (int)rows, j, columns);
  }
  if (p->kept && p->k + p->depth == g->k) store_kept(p, i, rows);
}

static void multiply_part(const Part *p) {
  Coming next = coming_of(p);
  bool apart = p->total || p->turned;
  Tile t = {.k = p->depth,
            .leaf = p->total ? SUM_LEAF : p->depth,
            .ldc = apart     ? F32_GEMM_PANEL
                   : p->kept ? total_row(p)
                             : p->of->ldc,
            .add = !apart && p->k > 0,
            .b = right_operand(p)};
  for (int64_t q = 0; q < p->tiles; q++) {
    left_operand(p, q, &t);
    ahead_of_tile(p, q, &next);
    tile_row(p, q, &next, t);
  }
}

// Computes a block of columns in slabs of at most `most` elements of k.
static void multiply_block(Part *p, int64_t most) {
  int64_t k = p->of->k, slabs = ceil_div(k, most);
  p->slab = p->total ? most : ceil_div(k, slabs);
  for (p->k = 0; p->k < k; p->k += p->slab) {
    p->depth = clamp64(k - p->k, 0, p->slab);
    multiply_part(p);
  }
}

// Sets the elements of C from their totals.
static void store_totals(const Part *p) {
  for (int64_t i = 0; i < p->of->m; i++) {
    float *c = (float *)p->of->c + i * p->of->ldc + p->column;
    const double *total = p->total + i * total_row(p);
    for (int64_t j = 0; j < p->columns; j++) c[j] = (float)total[j];
  }
}

// Returns whether sums are kept apart until all slabs are added. If other threads store other
// columns of the same rows, the CPU prefetches lines that they are about to write, for each slab
// again. The room for a transposed A is free for these sums.
static bool keeps_sums(const Product *g, int64_t most) {
  return g->beside && !g->ta && g->k > most && g->m <= F32_GEMM_KEPT;
}

// Computes a product block by block. A block of B and the next one, whose lines are prefetched,
// have room in a second level of cache of 1 MiB. But if A is transposed, it is packed again for
// each block: then blocks have twice the size. `most` is as in multiply_block; total: room for the
// totals of a block, or NULL; turned: C is stored transposed.
static void multiply(const Product *g, int64_t most, double *total, bool turned, float *work) {
  int panel = panel_of(g->n, 0);
  bool kept = !total && keeps_sums(g, most);
  int64_t deepest = g->k < most ? g->k : most,
          limit = (g->ta ? BLOCK : BLOCK / 2) / deepest / panel * panel,
          room = kept ? GROUP / g->m / panel * panel : limit;
  if (room < limit) limit = room;
  int64_t blocks = ceil_div(g->n, limit), columns = ceil_div(ceil_div(g->n, blocks), panel) * panel;
  Part p = {.of = g,
            .block = columns,
            .rows = most_rows[panel / LANES - 1],
            .a = work,
            .total = total,
            .kept = kept ? work : NULL,
            .turned = turned};
  p.tiles = ceil_div(g->m, p.rows);
  p.group = clamp64(GROUP / (deepest * p.rows), 1, MOST_GROUP);
  p.b = p.a + GROUP;
  for (p.column = 0; p.column < g->n; p.column += columns) {
    p.columns = clamp64(g->n - p.column, 0, columns);
    if (total) memset(total, 0, (size_t)(g->m * total_row(&p)) * sizeof *total);
    multiply_block(&p, most);
    if (total) store_totals(&p);
  }
}

// Computes a product with a long sum: leaves, middles, and totals in f64 (ir/program/sums.h).
static void multiply_long(const Product *g, double *work) {
  for (int64_t i = 0; i < g->m; i += LONG_ROWS) {
    Product rows = *g;
    rows.m = clamp64(g->m - i, 0, LONG_ROWS);
    rows.a = (const float *)g->a + (g->ta ? i : i * g->lda);
    rows.c = (float *)g->c + i * g->ldc;
    multiply(&rows, SUM_LEAF * SUM_MIDDLE, work, false, (float *)(work + F32_GEMM_TOTALS));
  }
}

// Returns whether the operands change their roles. All of A is then read in place.
static bool is_turned(const Product *g) {
  return g->ta && !g->tb && g->n <= FEW_COLUMNS && g->m > g->n && g->m % LANES == 0 &&
         g->k >= TURNED_DEPTH;
}

// Computes the transposed product, whose left operand is B and whose right operand is A.
static void multiply_turned(const Product *g, void *work) {
  Product t = *g;
  t.a = g->b, t.lda = g->ldb, t.m = g->n;
  t.b = g->a, t.ldb = g->lda, t.n = g->m;
  multiply(&t, DEPTH, NULL, true, work);
}

void f32_gemm(const Product *g, void *work) {
  if (f32_gemm_is_long(g->k))
    multiply_long(g, work);
  else if (is_turned(g))
    multiply_turned(g, work);
  else
    multiply(g, DEPTH, NULL, false, work);
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
