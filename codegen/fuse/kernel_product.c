// Finds out whether a kernel is a product: whether its phase 0 is one sum of products of two
// factors, of which one varies along the rows and the other along the vector loop. Chooses how such
// a kernel is split into blocks of rows and columns.
//
// A chunk of a product computes a block of results. It packs (copies into order) the parts of both
// factors that the block needs (codegen/cpu/emit_product.c). A factor is packed once for each block
// of rows or columns, so large blocks cost least. Several blocks are needed to keep all cores busy.
#include "codegen/fuse/kernel.h"

enum {
  LEAST_WORK = 1 << 20, // multiplications of the smallest kernel that is computed as a product
  LEAST_ROWS = 8,
  LEAST_COLUMNS = 16,
  LEAST_DEPTH = 16,
  MOST_PANEL = 64,       // most columns of a panel that is read as it is
  MOST_ROWS = 512,       // most rows of a block
  MOST_COLUMNS = 512,    // most columns of a block
  BLOCK_BYTES = 1 << 19, // most bytes of the results of a block
  COLUMNS_GRAIN = 64,    // the columns of a block are a multiple of this number, if there are more
  FEW_BLOCKS = 4,        // a product has at least so many blocks, if each has BLOCK_WORK
  MANY_BLOCKS = 16,
  BLOCK_WORK = 1 << 19, // least multiplications of a block
  LARGE_BLOCK_WORK = 1 << 28
};

bool stmt_has_effect(const Kernel *k, const KStmt *s) {
  if (s->kind == K_LOAD || s->kind == K_LOAD_AT) return k->ptr[s->index].written;
  if (s->kind == K_OP) return s->op == OP_BOUND;
  return s->kind == K_REDUCE || s->kind == K_ACCUM || s->kind == K_STORE || s->kind == K_SCATTER;
}

int kernel_lone_sum(const Kernel *k) {
  int sum = NO_STMT;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    bool sums = s->kind == K_REDUCE && s->op == OP_SUM && s->phase == 0 && s->type != TYPE_BOOL;
    if (sums && sum != NO_STMT) return NO_STMT;
    if (sums) sum = i;
    if (!sums && (s->level == LEVEL_INNER || s->phase == 0) && stmt_has_effect(k, s))
      return NO_STMT;
    if (s->level == LEVEL_INNER && s->phase > 0) return NO_STMT;
  }
  return sum;
}

static int64_t rounds_of(const Kernel *k, int from, int to) {
  int64_t n = 1;
  for (int l = from; l < to; l++) n = size_times(n, loop_rounds(k, l));
  return n;
}

static bool has_loop(LoopSet set, int l) { return set >> l & 1; }

// Returns whether a statement uses the value of statement `id`, other than statement `user`.
static bool has_other_user(const Kernel *k, int id, int user) {
  for (int i = 0; i < k->nstmts; i++)
    for (int j = 0; j < 3; j++)
      if (i != user && k->stmt[i].arg[j] == id) return true;
  return false;
}

// Returns whether a load of the kernel is that of a window: its guard or its position is computed,
// or it moves equally far along an outer and an inner loop. Convolutions run in slabs of their own.
static bool has_window(const Kernel *k) {
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if (s->kind == K_POSITION || s->kind == K_INSIDE || s->kind == K_LOAD_AT) return true;
    for (int o = 0; s->kind == K_LOAD && o < k->nouter; o++)
      for (int l = k->nouter; l < k->nouter + k->ninner; l++)
        if (k->ptr[s->index].stride[o] && k->ptr[s->index].stride[o] == k->ptr[s->index].stride[l])
          return true;
  }
  return false;
}

static bool large_enough(const Kernel *k) {
  int64_t rows = loop_rounds(k, k->rows), columns = loop_rounds(k, k->vector);
  int64_t depth = rounds_of(k, k->nouter, k->nouter + k->ninner);
  return rows >= LEAST_ROWS && columns >= LEAST_COLUMNS && depth >= LEAST_DEPTH &&
         size_times(rounds_of(k, 0, k->nouter), depth) >= LEAST_WORK;
}

// Returns whether statement `id` loads elements that lie in memory one after the other, in the
// order in which a register tile reads them: a row of columns for each round of the inner loops.
// Such a factor, for example weights in panels (codegen/order/loop_panels.c), need not be packed.
static bool is_panel(const Kernel *k, int id) {
  const KStmt *s = &k->stmt[id];
  if (s->kind != K_LOAD || s->arg[1] != NO_STMT) return false;
  const KPtr *p = &k->ptr[s->index];
  int64_t dense = loop_rounds(k, k->vector);
  for (int l = k->nouter + k->ninner - 1; l >= k->nouter; l--) {
    if (p->stride[l] != dense) return false;
    dense = size_times(dense, loop_rounds(k, l));
  }
  return p->stride[k->vector] == 1;
}

bool kernel_product(const Kernel *k, ProductForm *out) {
  if (k->rows < 0 || !k->ninner || k->vector != k->nouter - 1 || k->rows != k->nouter - 2)
    return false;
  if (!large_enough(k) || k->images || has_window(k)) return false;
  int sum = kernel_lone_sum(k);
  if (sum == NO_STMT) return false;
  int times = k->stmt[sum].arg[0];
  const KStmt *m = &k->stmt[times];
  if (m->kind != K_OP || m->op != OP_MUL || m->type != k->stmt[sum].type) return false;
  if ((m->type != TYPE_F32 && m->type != TYPE_F64) || has_other_user(k, times, sum)) return false;
  LoopSet of[UINT8_MAX];
  if (k->nstmts > UINT8_MAX) return false;
  for (int i = 0; i < k->nstmts; i++) of[i] = stmt_loops(k, of, &k->stmt[i]);
  int a = m->arg[0], b = m->arg[1];
  if (has_loop(of[a], k->vector)) a = m->arg[1], b = m->arg[0];
  *out = (ProductForm){.sum = sum, .left = a, .right = b, .span = k->rows};
  if (has_loop(of[a], k->vector) || !has_loop(of[b], k->vector) || has_loop(of[b], k->rows) ||
      !has_loop(of[a], k->rows))
    return false;
  if (k->stmt[a].type != m->type || k->stmt[b].type != m->type) return false;
  if (loop_rounds(k, k->vector) <= MOST_PANEL && is_panel(k, b)) return false;
  while (out->span > 0 && !has_loop(of[b], out->span - 1)) out->span--;
  return true;
}

static int64_t rows_of(const Kernel *k, const ProductForm *f) {
  return rounds_of(k, f->span, k->vector);
}

// Returns the least divisor d of n for which n / d is at most `most`, or 0 if it exceeds 64.
static int64_t even_parts(int64_t n, int64_t most) {
  for (int64_t d = ceil_div(n, most); d <= 64 && d <= n; d++)
    if (n % d == 0) return d;
  return 0;
}

// A block of a product: its rows and columns.
typedef struct Block {
  int64_t rows, columns;
} Block;

static int64_t columns_within(int64_t all, int64_t most) {
  if (all <= most) return all;
  return ceil_div(ceil_div(all, ceil_div(all, most)), COLUMNS_GRAIN) * COLUMNS_GRAIN;
}

static int64_t rows_within(int64_t all, int64_t most) {
  int64_t parts = even_parts(all, most);
  return parts ? all / parts : most;
}

static Block block_of(const Kernel *k, const ProductForm *f) {
  int64_t rows = rows_of(k, f), columns = loop_rounds(k, k->vector),
          others = rounds_of(k, 0, f->span), bytes = dtype_bytes(k->stmt[f->sum].type);
  int64_t depth = rounds_of(k, k->nouter, k->nouter + k->ninner),
          work = size_times(size_times(rows, columns), size_times(others, depth));
  int64_t want = clamp64(work / LARGE_BLOCK_WORK, FEW_BLOCKS, MANY_BLOCKS);
  if (work / want < BLOCK_WORK) want = work / BLOCK_WORK;
  Block b = {rows_within(rows, MOST_ROWS), columns_within(columns, MOST_COLUMNS)};
  for (;;) {
    int64_t blocks = others * ceil_div(rows, b.rows) * ceil_div(columns, b.columns);
    bool fits = b.rows * b.columns * bytes <= BLOCK_BYTES;
    if (fits && blocks >= want) return b;
    int64_t fewer_rows = rows_within(rows, b.rows / 2),
            fewer_columns = columns_within(columns, b.columns / 2);
    bool can_rows = b.rows >= 2 * LEAST_ROWS && fewer_rows < b.rows && fewer_rows >= LEAST_ROWS,
         can_columns = b.columns >= 2 * COLUMNS_GRAIN && fewer_columns < b.columns;
    if (can_rows && (!can_columns || b.rows >= b.columns))
      b.rows = fewer_rows;
    else if (can_columns)
      b.columns = fewer_columns;
    else
      return b;
  }
}

int64_t product_columns(const Kernel *k, const ProductForm *f) { return block_of(k, f).columns; }
int64_t product_rows(const Kernel *k, const ProductForm *f) { return block_of(k, f).rows; }
