// Products of matrices: how workers divide them, the pieces of k that they add up, and the work
// memory that they need.
#include "ir/program/program.h"
#include "ir/program/sums.h"

enum {
  GEMM_GRAIN = 16, // columns of a share, or rows of a transposed A, are a multiple of so many
  GEMM_UNEVEN = 8, // rounding to GEMM_GRAIN makes a share of rows longer by at most 1 / so much
  GEMM_FEW = 96,   // fewest columns of a share, unless C has fewer rows than columns
  GEMM_SHARE = 16, // fewest rows of a share if C could be divided by columns
  GEMM_SHARE_PACKED = 64, // the same if each worker packs all of B, because it is transposed
  GEMM_WIDE = 2048,       // columns of a share with which workers seldom meet in a row of C
  GEMM_WIDE_PACKED = 1024,
  GEMM_SHORT = 96,          // rows of a share of a transposed A that are too few for all of B
  GEMM_SHORT_COLUMNS = 128, // fewest columns of a share then
  GEMM_KEPT_COLUMNS = 4 * F32_GEMM_PANEL // fewest columns of a share whose sums are kept apart
};

// Returns whether workers that divide columns keep their sums apart until they are complete
// (runtime/exec/f32_gemm.c), so that they meet in a row of C once. Each packs its part of B only.
// And if B is a parameter, as in the gradient of its product, all workers would have copies of all
// of it: the optimizer's update, which follows, would wait for each line until the others give up
// theirs.
static bool keeps_sums(const Gemm *g, int64_t m, int64_t columns) {
  return g->factors == TYPE_F32 && g->tb && !g->ta && m <= F32_GEMM_KEPT &&
         columns >= GEMM_KEPT_COLUMNS;
}

// If workers divide rows, each reads all of B. But kernels divide rows, too: a worker then finds
// its rows of A in its own cache, and leaves those of C there. If they divide columns, a row of C
// has parts of several workers. The CPU prefetches beyond the end of a part, takes away lines that
// another worker is about to write, and a product can take half as long again. This is rare if the
// parts are long.
//
// With few rows of a transposed A, as in gradients of weights, a worker that read all of B would
// multiply each line of B with few rows: the lines, which a kernel has just stored, come too late.
static bool divides_columns(const Gemm *g, int64_t m, int64_t n, int64_t workers) {
  int64_t rows = m / workers, columns = n / workers;
  if (columns >= (g->tb ? GEMM_WIDE_PACKED : GEMM_WIDE) && n > (g->ta ? m : 2 * m)) return true;
  if (keeps_sums(g, m, columns)) return true;
  if (g->ta && n > m && rows <= GEMM_SHORT && columns >= GEMM_SHORT_COLUMNS) return true;
  if (rows >= (g->tb ? GEMM_SHARE_PACKED : GEMM_SHARE)) return false;
  return n > m || (!g->ta && columns >= GEMM_FEW);
}

GemmDivision gemm_division(const Gemm *g, int64_t m, int64_t n, int64_t batches, int64_t workers) {
  if (batches >= 2 * workers) return (GemmDivision){GEMM_BY_BATCH, ceil_div(batches, workers)};
  bool columns = divides_columns(g, m, n, workers);
  int64_t unit = columns || g->ta ? GEMM_GRAIN : 1, each = ceil_div(columns ? n : m, workers);
  int64_t whole = ceil_div(each, unit) * unit;
  bool longer = !columns && (whole - each) * GEMM_UNEVEN > each; // 65 rows are 33 and 32
  return (GemmDivision){columns ? GEMM_BY_COLUMNS : GEMM_BY_ROWS, longer ? each : whole};
}

double gemm_share(const Gemm *g, int64_t m, int64_t n, int64_t k) {
  int64_t whole[3] = {m, n, k};
  double done = 0;
  for (int32_t i = 0; i < g->npieces; i++) {
    double part = 1;
    for (int d = 0; d < 3; d++) {
      int64_t to = g->piece[i].to[d] < whole[d] ? g->piece[i].to[d] : whole[d];
      part *= to > g->piece[i].from[d] ? (double)(to - g->piece[i].from[d]) / (double)whole[d] : 0;
    }
    done += part;
  }
  return !g->npieces ? 1 : g->by_step ? done / g->npieces : done;
}

bool gemm_has_gaps(const Gemm *g) {
  for (int32_t i = 1; i < g->npieces; i++)
    if (g->piece[i].from[2] != g->piece[0].from[2] || g->piece[i].to[2] != g->piece[0].to[2])
      return false;
  return g->npieces > 0;
}

// Returns the elements of a transposed A that are packed together: of all rows if B has more than
// one block of columns, and of a group of tiles otherwise.
static int64_t packed_rows(int64_t m, int64_t n, int64_t depth) {
  if (depth * n <= F32_GEMM_BLOCK) return F32_GEMM_GROUP;
  int64_t rows = clamp64(m, 0, F32_GEMM_WHOLE) + F32_GEMM_ROWS; // the last tile has as many as all
  int64_t elements = ceil_div(rows * depth, F32_GEMM_LANES) * F32_GEMM_LANES;
  return clamp64(elements, F32_GEMM_GROUP, F32_GEMM_WHOLE);
}

int64_t gemm_scratch(const Gemm *g, int64_t m, int64_t n, int64_t k) {
  if (g->factors == TYPE_BF16) return BF16_GEMM_SCRATCH;
  if (g->factors != TYPE_F32) return 0;
  int64_t columns = ceil_div(clamp64(n, 1, F32_GEMM_BLOCK), F32_GEMM_PANEL) * F32_GEMM_PANEL,
          depth = clamp64(k, 1, F32_GEMM_DEPTH), b = clamp64(depth * columns, 1, F32_GEMM_BLOCK),
          a = g->ta ? packed_rows(m, columns, depth) : F32_GEMM_GROUP,
          totals = f32_gemm_is_long(k) ? F32_GEMM_TOTALS * dtype_bytes(TYPE_F64) : 0,
          bytes = (a + b) * dtype_bytes(TYPE_F32) + totals;
  return ceil_div(bytes, MEMORY_ALIGN) * MEMORY_ALIGN;
}

bool gemm_is_thin(const Gemm *g) {
  bool fixed = g->m.slot < 0 && g->n.slot < 0 && g->k.slot < 0;
  bool types = g->factors == TYPE_F32 || g->factors == TYPE_BF16;
  bool lines = !g->tb || !g->ta || (g->lda == 1 && g->m.base == 1); // those of A, if B needs them
  return fixed && types && lines && !g->nbatch && !g->npieces && !g->epilogue &&
         product_is_thin(g->m.base, g->n.base, g->k.base);
}

// The pieces of a product with few lines: where they begin, in parts of 32 of k. The last pieces,
// which workers take when they have nothing else, are small: no worker waits long for another.
static const int8_t thin_begin[] = {0, 4, 8, 12, 16, 19, 22, 24, 26, 27, 28, 29, 30, 31};

static int64_t thin_longest(int64_t k) { // a piece is one chain of additions
  return f32_gemm_is_long(k) ? SUM_LEAF : SUM_LEAF_LIBRARY;
}

static bool thin_is_short(int64_t k) { return ceil_div(k, 8) <= thin_longest(k); }

int64_t thin_pieces(int64_t k) {
  int64_t few = (int64_t)countof(thin_begin), pieces = ceil_div(k, thin_longest(k));
  return thin_is_short(k) || pieces < few ? few : pieces;
}

int64_t thin_line(int64_t k, int64_t i) {
  int64_t pieces = thin_pieces(k), each = ceil_div(k, pieces);
  if (i >= pieces) return k;
  return thin_is_short(k) ? k * thin_begin[i] / 32 : clamp64(i * each, 0, k);
}

int64_t thin_bytes(const Gemm *g) {
  if (g->tb) return 0;
  return thin_pieces(g->k.base) * g->m.base * g->n.base * dtype_bytes(TYPE_F32);
}
