// Products of f32 matrices by AVX-512. In: matrices in memory. Out: their product.
//
// The result is computed in tiles of at most 9 rows and 48 columns, whose sums are in registers
// (14 rows, if the result has at most 32 or 64 columns). On CPUs whose clock falls with the power
// that they draw, few loads for a multiply-add are faster (f32_tile.c).
//
// B is packed where that pays, A if it is transposed (f32_pack.c). The panels of a block of columns
// stay in the second level of cache while all rows of A are multiplied with them, as in Goto and
// van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). A transposed A is
// packed once for each slab, if it has few rows. Otherwise a group of tiles is packed at a time,
// again for each block of columns.
//
// While a tile is computed, lines that are needed next are prefetched (f32_ahead.c).
//
// In some products the operands change their roles: the transposed product is computed, and each
// tile is transposed when it is stored. If A is transposed and has many rows while B has few
// columns, A is then read in place as B, line after line. Read in place as A, every row of memory
// would give a tile 14 elements, and lines that are a power of two apart share a few places of the
// first cache. If B is transposed and A has few rows, A is packed instead of B, which is larger.
//
// If threads divide the columns, C is not read and written for each slab, but once: sums wait in
// work memory until they are complete.
//
// A slab is a range of k whose sums are one chain of f32 additions. Where slabs end depends on k
// alone, so an element of C has the same bits however m and n are divided among threads.
#include "runtime/exec/f32_gemm_internal.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)

enum {
  // Most rows of a product whose totals are kept at a time.
  LONG_ROWS = F32_GEMM_TOTALS / (BLOCK / (SUM_LEAF * SUM_MIDDLE)),
  MOST_GROUP = 64,    // most tiles that are packed together
  TURNED_DEPTH = 192, // fewest elements of k if operands change their roles
  TURNED_MOST = 64,   // most rows of A if they change because B is transposed
  // Rows of a tile then: lines that are a power of two apart have 8 places in the first cache.
  TURNED_ROWS = 8
};

// -- parts ----------------------------------------------------------------------------------------

// Computes the rows of tile q, for all columns of the part. t->a and t->b are set.
static void tile_row(const Part *p, int64_t q, Coming *next, Tile t) {
  const Product *g = p->of;
  _Alignas(64) float sums[F32_GEMM_ROWS * F32_GEMM_PANEL];
  int64_t i = row_of(p, q), rows = row_of(p, q + 1) - i;
  bool apart = p->total || p->turned, in_place = f32_right_in_place(p);
  if (p->total) memset(sums, 0, sizeof sums); // whole vectors are added to the totals
  for (int64_t j = 0, panel; j < p->columns; j += panel) {
    panel = f32_panel(p->columns, j);
    int columns = within(p->columns - j, (int)panel), vecs = ceil_div(columns, LANES);
    t.last = first_lanes(columns - (vecs - 1) * LANES);
    t.c = apart     ? sums
          : p->kept ? p->kept + i * t.ldc + j
                    : (float *)g->c + i * g->ldc + p->column + j;
    t.b_step = in_place ? g->ldb : panel;
    t.ahead = ahead_now(next);
    f32_tile[vecs - 1][rows - 1](&t);
    t.b += in_place ? panel : panel * p->depth;
    if (p->total) f32_add_total(p, sums, i, (int)rows, j, vecs);
    if (p->turned) f32_store_turned(p, sums, i, (int)rows, j, columns);
  }
  if (p->kept && p->k + p->depth == g->k) f32_store_kept(p, i, rows);
}

static void multiply_part(const Part *p) {
  Coming next = f32_coming(p);
  bool apart = p->total || p->turned;
  Tile t = {.k = p->depth,
            .leaf = p->total ? SUM_LEAF : p->depth,
            .ldc = apart     ? F32_GEMM_PANEL
                   : p->kept ? f32_total_row(p)
                             : p->of->ldc,
            .add = !apart && p->k > 0,
            .b = f32_right(p)};
  for (int64_t q = 0; q < p->tiles; q++) {
    f32_left(p, q, &t);
    f32_ahead_of_tile(p, q, &next);
    tile_row(p, q, &next, t);
  }
}

// Sets the sizes of the part that begins at p->k and p->column.
static void part_sizes(Part *p) {
  p->depth = clamp64(p->of->k - p->k, 0, p->slab);
  p->columns = clamp64(p->of->n - p->column, 0, p->block);
}

bool f32_part_step(Part *p) {
  int64_t k = p->of->k, n = p->of->n;
  if (p->whole) { // all columns of a slab
    p->column += p->block;
    if (p->column >= n) p->column = 0, p->k += p->slab;
  } else { // all slabs of a block of columns
    p->k += p->slab;
    if (p->k >= k) p->k = 0, p->column += p->block;
  }
  part_sizes(p);
  return p->k < k && p->column < n;
}

// -- the sizes of parts ---------------------------------------------------------------------------

// Returns whether sums are kept apart until all slabs are added. If other threads store other
// columns of the same rows, the CPU prefetches lines that they are about to write, for each slab
// again. The room for a transposed A is free for these sums.
static bool keeps_sums(const Part *p) {
  const Product *g = p->of;
  return !p->total && !p->turned && g->beside && !g->ta && g->k > p->slab && g->m <= F32_GEMM_KEPT;
}

// Sets p->tiles and p->rows. Tiles with panels of so many columns have at most p->rows rows.
static void divide_rows(Part *p, int panel) {
  bool few = p->turned && !p->of->ta;
  p->rows = few ? TURNED_ROWS : f32_most_rows[panel / LANES - 1];
  p->tiles = ceil_div(p->of->m, p->rows);
}

// Sets p->block and p->whole. A block of B and the next one, whose lines are prefetched, have room
// in a second level of cache of 1 MiB. But if A is packed again for each block, blocks have twice
// the size.
static void divide_columns(Part *p, int panel, int64_t most) {
  const Product *g = p->of;
  int64_t deepest = g->k < most ? g->k : most, all = BLOCK / deepest / panel * panel,
          half = BLOCK / 2 / deepest / panel * panel;
  p->whole =
      g->ta && !p->total && !p->turned && g->n > all && p->tiles * p->rows * p->slab <= WHOLE;
  int64_t limit = g->ta && !p->whole && !p->turned ? all : half;
  if (p->kept) {
    int64_t room = GROUP / g->m / panel * panel;
    limit = room < limit ? room : limit;
  }
  p->block = ceil_div(ceil_div(g->n, ceil_div(g->n, limit)), panel) * panel;
}

// Computes a product part by part. most: most elements of k in a slab; total: room for the totals
// of a block, or NULL; turned: C is stored transposed.
static void multiply(const Product *g, int64_t most, double *total, bool turned, float *work) {
  int panel = f32_panel(g->n, 0);
  Part p = {.of = g, .total = total, .turned = turned, .a = work};
  p.slab = total ? most : ceil_div(g->k, ceil_div(g->k, most));
  if (keeps_sums(&p)) p.kept = work;
  divide_rows(&p, panel);
  divide_columns(&p, panel, most);
  int64_t tile = p.slab * p.rows, packed = p.whole ? p.tiles * tile : GROUP;
  p.group = p.whole ? p.tiles : clamp64(GROUP / tile, 1, MOST_GROUP);
  p.b = p.a + ceil_div(packed, LANES) * LANES;
  part_sizes(&p);
  do {
    size_t bytes = (size_t)(g->m * f32_total_row(&p)) * sizeof *total;
    if (total && p.k == 0) memset(total, 0, bytes);
    multiply_part(&p);
    if (total && p.k + p.depth == g->k) f32_store_totals(&p);
  } while (f32_part_step(&p));
}

// -- products -------------------------------------------------------------------------------------

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

// Returns whether the operands change their roles. The left operand is then read in place.
static bool is_turned(const Product *g) {
  if (g->ta == g->tb || g->k < TURNED_DEPTH) return false;
  if (g->ta) return g->n <= FEW_COLUMNS && g->m > g->n && g->m % LANES == 0;
  return g->m <= TURNED_MOST && g->n > g->m && g->m % LANES == 0;
}

// Computes the transposed product, whose left operand is B and whose right operand is A.
static void multiply_turned(const Product *g, void *work) {
  Product t = *g;
  t.a = g->b, t.lda = g->ldb, t.m = g->n, t.ta = !g->tb;
  t.b = g->a, t.ldb = g->lda, t.n = g->m, t.tb = !g->ta;
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
