// Plans the packed computation of a product (kernel_product in codegen/fuse/kernel.h): the register
// tile, the slabs of the summed loops, and the way in which each factor is packed.
//
// A slab is one chain of f32 additions for each result; a longer chain would be less exact
// (ir/program/sums.h). The sums of slabs are added in f32 or, if there are many, in f64. Where
// slabs end depends only on the summed loops.
#include "codegen/cpu/emit_internal.h"
#include "ir/program/sums.h"

enum {
  DEPTH = 384,       // most summed elements of a slab, unless one innermost loop is longer
  SLABS_NARROW = 32, // more slabs than this are added in f64
  LONG_LOOP = 8,     // a shorter loop is not worth its lanes
  TRANSPOSED_STMTS = 8
};

static LoopSet loop_bit(int l) { return (LoopSet)1 << l; }

// Marks in `needed` the statement `root` and all statements that it depends on.
void needed_stmts(const Kernel *k, int root, bool *needed) {
  needed[root] = true;
  for (int i = root; i >= 0; i--)
    for (int j = 0; j < 3 && needed[i]; j++)
      if (k->stmt[i].arg[j] != NO_STMT) needed[k->stmt[i].arg[j]] = true;
}

// Returns whether each load of factor `root` reads neighbours, or one element, along loop l.
static bool smooth(const Kernel *k, const CpuPlan *p, int root, int l) {
  bool needed[UINT8_MAX] = {false};
  needed_stmts(k, root, needed);
  for (int i = 0; i <= root; i++) {
    const KStmt *s = &k->stmt[i];
    if (!needed[i] || (s->kind != K_LOAD && s->kind != K_LOAD_AT)) continue;
    int64_t stride = k->ptr[s->index].stride[l];
    if (stride != 0 && stride != 1) return false;
    if (s->kind == K_LOAD_AT && p->dep[s->arg[0]] & loop_bit(l)) return false;
  }
  return true;
}

static int factor_stmts(const Kernel *k, int root) {
  bool needed[UINT8_MAX] = {false};
  int n = 0;
  needed_stmts(k, root, needed);
  for (int i = 0; i <= root; i++)
    n += needed[i] && k->stmt[i].level == LEVEL_INNER ? op_row(k->stmt[i].op)->cost + 1 : 0;
  return n;
}

static void choose_ways(const Kernel *k, CpuPlan *p) {
  ProductPlan *x = &p->product;
  int last = k->nouter + k->ninner - 1;
  bool deep = loop_rounds(k, last) >= LONG_LOOP, wide = loop_rounds(k, k->rows) >= LONG_LOOP;
  x->left_lanes = deep && smooth(k, p, x->form.left, last)      ? last
                  : wide && smooth(k, p, x->form.left, k->rows) ? k->rows
                  : deep                                        ? last
                                                                : k->rows;
  x->left_by_rows = x->left_lanes == k->rows;
  if (x->left_by_rows) x->form.span = k->rows;
  x->right_lanes = k->vector;
  if (smooth(k, p, x->form.right, k->vector) || factor_stmts(k, x->form.right) > TRANSPOSED_STMTS)
    return;
  for (int l = last; l >= k->nouter + p->slab_loop; l--)
    if (loop_rounds(k, l) >= LONG_LOOP && smooth(k, p, x->form.right, l)) {
      x->right_lanes = l;
      return;
    }
}

// Chooses slab_loop and slab_step so that a slab has at most DEPTH elements, and slabs of one loop
// are equally long.
static void choose_depth(const Kernel *k, CpuPlan *p) {
  int i = k->ninner - 1;
  int64_t inside = 1;
  while (i > 0 && size_times(inside, loop_rounds(k, k->nouter + i)) <= DEPTH)
    inside *= loop_rounds(k, k->nouter + i--);
  int64_t size = loop_rounds(k, k->nouter + i);
  int64_t most = DEPTH / inside, parts = ceil_div(size, most);
  p->slab_loop = i;
  p->slab_step = ceil_div(size, parts);
  p->product.depth = p->slab_step * inside;
  for (int l = 0; l < i; l++) parts = size_times(parts, loop_rounds(k, k->nouter + l));
  p->slab_wide = parts > SLABS_NARROW;
  bool known = true;
  for (int l = k->nouter; l < k->nouter + k->ninner; l++) known &= k->loop[l].slot < 0;
  p->product.whole = known && parts == 1;
}

// Estimates the cycles that one summed element takes in a tile of r rows by v vectors: two
// multiply-adds or two loads a cycle, the latency of an accumulator, and the vectors that come from
// the second level of cache.
static double round_cycles(int r, int v) {
  double adds = r * v * 0.5, loads = (r + v) * 0.5, most = adds > loads ? adds : loads;
  return (most > 4 ? most : 4) + 0.5 + 0.25 * v;
}

static double height_cycles(int64_t rows, int r, int v) {
  int tail = (int)(rows % r);
  return (double)(rows / r) * round_cycles(r, v) + (tail ? round_cycles(tail, v) : 0);
}

// Chooses the register tile for blocks of `rows` rows and `vectors` vectors.
static void choose_product_tile(const EmitTarget *t, int64_t rows, int64_t vectors, CpuPlan *p) {
  int registers = t->bits == 512 ? 31 : 15;
  double best = -1;
  for (int v = 1; v <= TILE_VECS && v <= vectors; v++)
    for (int r = 1; r <= TILE_ROWS && r <= rows && r * v + v <= registers; r++) {
      int tail = (int)(vectors % v);
      double cycles = (double)(vectors / v) * height_cycles(rows, r, v) +
                      (tail ? height_cycles(rows, r, tail) : 0);
      if (best >= 0 && cycles >= best * 0.995) continue;
      best = cycles;
      p->rows = r;
      p->vecs = v;
    }
}

void product_plan(const Kernel *k, const EmitTarget *t, CpuPlan *p) {
  ProductPlan *x = &p->product;
  if (!kernel_product(k, &x->form)) return;
  x->on = true;
  choose_depth(k, p);
  int64_t rows = product_rows(k, &x->form);
  choose_ways(k, p);
  if (x->form.span == k->rows && rows > loop_rounds(k, k->rows)) rows = loop_rounds(k, k->rows);
  p->run = rows;
  choose_product_tile(t, rows, ceil_div(k->block, p->lanes), p);
  x->rows_left = (int)(rows % p->rows);
  int64_t wide = (int64_t)p->lanes * p->vecs, columns = loop_rounds(k, k->vector);
  int64_t left = columns % k->block % wide;
  if (columns >= k->block && k->block % wide > left) left = k->block % wide;
  x->vecs_left = k->loop[k->vector].slot >= 0 ? p->vecs : (int)ceil_div(left, p->lanes);
  p->scratch_row = ceil_div(k->block, wide) * wide;
}
