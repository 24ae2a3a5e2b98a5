// What the files of products of f32 share (f32_gemm.c has the idea): tiles, the part of a product
// that is computed at a time, and what is prefetched meanwhile.
#ifndef RUNTIME_EXEC_F32_GEMM_INTERNAL_H
#define RUNTIME_EXEC_F32_GEMM_INTERNAL_H

#include "ir/program/sums.h"
#include "runtime/exec/product_internal.h"

#if defined(__x86_64__)

enum {
  LANES = F32_GEMM_LANES,
  MOST_VECS = F32_GEMM_PANEL / LANES, // vectors of a row of a tile
  MORE_TILES = 32,                    // B is read in place for at most so many tiles of rows
  FEW_TILES = 16,                     // the same if its rows are whole pages apart
  PAGE = 1024,                        // elements of a page
  FEW_COLUMNS = 32,                   // A, if it is transposed, for at most so many columns
  GROUP = F32_GEMM_GROUP,             // most elements of tiles of A that are packed together
  WHOLE = F32_GEMM_WHOLE,             // the same if all of A is packed for each slab
  DEPTH = F32_GEMM_DEPTH,             // most elements of k in a slab
  BLOCK = F32_GEMM_BLOCK,             // most elements of a packed block of B
  AHEAD = 8                           // steps along k between a prefetch and the use
};

// -- tiles ----------------------------------------------------------------------------------------

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
// The function for so many vectors in a row, and rows, each less 1.
extern TileFunction *const f32_tile[MOST_VECS][F32_GEMM_ROWS];
// Most rows of a tile, for each number of vectors in a row: the sums and one row of B and two
// elements of A fit in 32 registers.
static const int f32_most_rows[MOST_VECS] = {14, 14, 9};

// Stores the sums that the mask `some` names, or adds them to what is there.
WIDE static inline void tile_store(float *at, bool add, __mmask16 some, __m512 sum) {
  if (add) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(some, at));
  _mm512_mask_storeu_ps(at, some, sum);
}

static inline __mmask16 first_lanes(int64_t n) { return (__mmask16)((1U << within(n, LANES)) - 1); }

// -- parts ----------------------------------------------------------------------------------------

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
  bool whole;              // all tiles of A are packed, for all blocks of columns of a slab
} Part;

// Moves on to the part that is computed after p. Returns false if p is the last one.
bool f32_part_step(Part *p);

// Returns the columns of the panel that begins at column j of a block with so many columns. Four
// vectors are two panels of two: tiles of one vector read more operands than they multiply.
static inline int f32_panel(int64_t columns, int64_t j) {
  int64_t vecs = ceil_div(columns - j, LANES);
  return (vecs == MOST_VECS + 1 ? MOST_VECS - 1 : within(vecs, MOST_VECS)) * LANES;
}

// Returns the first row of tile q. All tiles have the same number of rows, or one less.
static inline int64_t row_of(const Part *p, int64_t q) { return p->of->m * q / p->tiles; }

// Returns the place of row i and column j of an operand.
static inline int64_t operand_at(bool transposed, int64_t i, int64_t j, int64_t ld) {
  return transposed ? j * ld + i : i * ld + j;
}

// -- operands (f32_pack.c) ------------------------------------------------------------------------

// Returns whether B is read in place, and whether A is.
bool f32_right_in_place(const Part *p);
bool f32_left_in_place(const Part *p);
// Returns the panel of B at column 0 of the block.
const float *f32_right(const Part *p);
// Sets t->a and its steps to tile q of A.
void f32_left(const Part *p, int64_t q, Tile *t);

// -- results (f32_store.c) ------------------------------------------------------------------------

// Returns the distance between rows of the totals, or of sums that are kept: whole vectors.
static inline int64_t f32_total_row(const Part *p) { return ceil_div(p->columns, LANES) * LANES; }
// Adds a tile of sums, of `rows` rows and `vecs` vectors, to the totals.
void f32_add_total(const Part *p, const float *sum, int64_t i, int rows, int64_t j, int vecs);
// Sets the elements of C from their totals.
void f32_store_totals(const Part *p);
// Stores a tile of sums transposed: row i + r is column i + r of C. Adds to C after the first slab.
void f32_store_turned(const Part *p, const float *sum, int64_t i, int rows, int64_t j, int columns);
// Stores the sums of `rows` rows from row i on, which are complete, in C.
void f32_store_kept(const Part *p, int64_t i, int64_t rows);

// -- what comes next (f32_ahead.c) ----------------------------------------------------------------

// What the tiles of a part prefetch, in this order: the next rows of A, and of C; B of the next
// part, and its first rows of A.
typedef struct Coming {
  Ahead a, c, b, first;
} Coming;

static inline Ahead *ahead_now(Coming *x) {
  return x->a.step ? &x->a : x->c.step ? &x->c : x->b.step ? &x->b : &x->first;
}
// Returns what is prefetched from the beginning of part p on.
Coming f32_coming(const Part *p);
// Sets what is prefetched from tile q on: the next rows of A that are read in place, or packed, and
// the rows of C of the next tile.
void f32_ahead_of_tile(const Part *p, int64_t q, Coming *x);

#endif
#endif
