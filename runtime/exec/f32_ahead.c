// What the tiles of a product of f32 prefetch into the second level of cache: lines that the next
// tiles need, of A and C, then B and A of the next slab, block of columns, or product.
//
// Products of attention are short, and most of their time would pass with waiting for scores that
// were computed long ago. The last product of an instruction prefetches weights or activations for
// the first one of the next instruction (exec_coming.c).
#include "runtime/exec/f32_gemm_internal.h"

#if defined(__x86_64__)

enum { LINE = 64 }; // bytes from one prefetch to the next

// Sets *x to an operand's rows i.. and columns j.., `rows` and `columns` of them.
static void ahead_set(Ahead *x, const void *operand, bool transposed, int64_t ld, int64_t i,
                      int64_t rows, int64_t j, int64_t columns) {
  if (!operand || rows <= 0 || columns <= 0) return;
  const float *from = (const float *)operand + operand_at(transposed, i, j, ld);
  int64_t size = sizeof *from, lines = transposed ? columns : rows;
  *x = (Ahead){.at = (const char *)from,
               .step = LINE,
               .more = lines - 1,
               .width = (transposed ? rows : columns) * size,
               .stride = ld * size};
  x->end = x->at + x->width;
}

// Sets *x to the lines of tile q of A, where all tiles of a slab are packed at once.
static void ahead_packed(const Part *p, int64_t q, Ahead *x) {
  int64_t size = p->rows * p->depth;
  if (q < p->tiles) ahead_set(x, p->a, false, size, q, 1, 0, size);
}

// Sets *next to the part that is computed after p: of the next slab, block of columns, or product.
// Returns false if there is none.
static bool part_after(const Part *p, Part *next) {
  *next = *p;
  if (f32_part_step(next)) return true;
  const Product *g = next->of = p->of->next;
  if (!g) return false;
  next->k = next->column = 0;
  next->depth = clamp64(g->k, 0, DEPTH); // it may be divided otherwise: these sizes are about right
  next->columns = clamp64(g->n, 0, BLOCK / DEPTH);
  next->rows = f32_most_rows[MOST_VECS - 1];
  next->group = GROUP / DEPTH / next->rows;
  next->whole = false;
  return true;
}

// Returns how many tiles of A are read, or packed, together.
static int64_t tiles_together(const Part *p) { return f32_left_in_place(p) ? 1 : p->group; }

Coming f32_coming(const Part *p) {
  static const Ahead none = {.end = (const char *)UINTPTR_MAX};
  Coming x = {none, none, none, none};
  // Where nothing is left, tiles prefetch one address again and again, which is in a cache.
  x.a.at = x.b.at = x.c.at = x.first.at = (const char *)p;
  Part next;
  if (!part_after(p, &next)) return x;
  const Product *g = next.of;
  ahead_set(&x.b, g->b, g->tb, g->ldb, next.k, next.depth, next.column, next.columns);
  if (!next.whole)
    ahead_set(&x.first, g->a, g->ta, g->lda, 0, clamp64(g->m, 0, tiles_together(&next) * next.rows),
              next.k, next.depth);
  else if (next.column > 0)
    ahead_packed(&next, 0, &x.first);
  return x;
}

void f32_ahead_of_tile(const Part *p, int64_t q, Coming *x) {
  const Product *g = p->of;
  int64_t tiles = tiles_together(p), from = row_of(p, clamp64(q + tiles, 0, p->tiles));
  if (p->whole)
    ahead_packed(p, q + 1, &x->a);
  else if (q % tiles == 0)
    ahead_set(&x->a, g->a, g->ta, g->lda, from, clamp64(g->m - from, 0, tiles * p->rows), p->k,
              p->depth);
  if (p->total || p->turned || p->kept || q + 1 == p->tiles) return;
  int64_t i = row_of(p, q + 1);
  ahead_set(&x->c, g->c, false, g->ldc, i, row_of(p, q + 2) - i, p->column, p->columns);
}

#endif
