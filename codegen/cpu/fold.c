// Decides where the accumulators of a kernel are folded, so that no chain of f32 additions is long
// (ir/program/sums.h). In: a kernel and its plan. Out: a Fold for each statement.
//
// The chain of an accumulator is as long as the product of the extents of the loops that it does
// not move along. The innermost loop at which this product exceeds the length of a leaf runs in
// blocks of Fold.step rounds; after each block the leaf is added to the next level and set to 0. If
// the chain only gets too long over units, it is folded after every Fold.step units.
//
//   sum over n = 1e7 of x[n, c], rows of c:   unit n: row[c] += x    after 64 units: wide[c] += row[c], row = 0
//   sum over k = 4096 of a[m, k] * b[k, n]:   k in blocks of 64: tile += ..    then middle += tile, tile = 0
//
// A joined loop is folded where the loops of its dims would be, so that kernels with and without
// joined loops compute the same bits (Fold.period):
//
//   inner(b:3, y*x:99 = 11*9)     blocks of 7 rounds of y, 63 elements; 36 are left
//   inner(b*y*x:297 = 3*11*9)     the same in each 99 elements: step 63, period 99
#include "codegen/cpu/emit_internal.h"
#include "ir/program/sums.h"

// -- one accumulator ----------------------------------------------------------------------------

typedef struct Chain {
  const Kernel *k;
  const CpuPlan *p;
  const KStmt *s;
  int64_t leaf;
  bool row; // in memory: a row of accumulators
} Chain;

static bool moves(const Chain *c, int l) {
  return c->s->kind == K_ACCUM && l >= c->k->nouter && c->k->ptr[c->s->index].stride[l] != 0;
}

// Additions to one accumulator during all rounds of loop l.
static int64_t rounds(const Chain *c, int l) {
  const CpuPlan *p = c->p;
  int i = l - c->k->nouter;
  if (moves(c, l)) return 1;
  if (p->slab_step && i < p->slab_loop) return 1;
  if (p->slab_step && i == p->slab_loop) return p->slab_step;
  if (l != c->k->vector) return loop_rounds(c->k, l);
  // a whole tile adds once to each accumulator, the rest one vector at a time to the first
  int64_t size = loop_rounds(c->k, l), tile = (int64_t)p->lanes * p->vecs;
  return size / tile * (c->row ? p->vecs : 1) + ceil_div(size % tile, p->lanes);
}

// Decides whether to fold at `place`, where n rounds add `each` times: if that is more than a leaf
// and the accumulator is not folded farther in. Returns the additions since the last fold.
static int64_t fold_at(const Chain *c, int place, int64_t each, int64_t n, Fold *out) {
  if (out->place != FOLD_NEVER || size_times(each, n) <= c->leaf) return size_times(each, n);
  out->place = place;
  out->step = each < c->leaf ? c->leaf / each : 1;
  return 0;
}

// The same for inner loop l, dim by dim if it is a joined loop.
static int64_t fold_loop(const Chain *c, int l, int64_t each, Fold *out) {
  const KLoop *loop = &c->k->loop[l];
  int place = FOLD_LOOP + l - c->k->nouter;
  bool sliced = c->p->slab_step && l - c->k->nouter <= c->p->slab_loop;
  if (!loop->nparts || sliced || moves(c, l)) return fold_at(c, place, each, rounds(c, l), out);
  int64_t size = 1; // elements of the loop in one round of the part
  for (int i = loop->nparts - 1; i >= 0; i--) {
    bool before = out->place != FOLD_NEVER;
    each = fold_at(c, place, each, loop->part[i], out);
    int64_t joined = size * loop->part[i];
    if (out->place != FOLD_NEVER && !before) {
      out->step *= size;
      out->period = i > 0 && joined % out->step ? joined : 0;
    }
    size = joined;
  }
  return each;
}

// Additions to an accumulator of a REDUCE in one phase.
static int64_t chain_length(const Chain *c) {
  int64_t n = 1;
  for (int l = c->k->nouter; l < c->k->nouter + c->k->ninner; l++) n = size_times(n, rounds(c, l));
  return n;
}

static void fold_find(const Chain *c, Fold *out) {
  const Kernel *k = c->k;
  bool accumulates = c->s->kind == K_ACCUM, inner = !accumulates || c->s->level == LEVEL_INNER;
  int64_t each = accumulates ? c->p->rows : 1;
  for (int l = k->nouter + k->ninner - 1; l >= k->nouter && inner; l--)
    each = fold_loop(c, l, each, out);
  if (!accumulates) return;
  int64_t tiles = 1;
  if (c->p->vec_outer)
    tiles = ceil_div(k->block, (int64_t)c->p->lanes * c->p->vecs) * (c->row ? c->p->vecs : 1);
  each = fold_at(c, FOLD_VECTOR, each, tiles, out);
  fold_at(c, FOLD_UNIT, each, kernel_units(k), out);
}

Fold *fold_plan(Arena *a, const Kernel *k, const CpuPlan *p) {
  Fold *fold = arena_array(a, Fold, k->nstmts + 1);
  for (int s = 0; s < k->nstmts; s++) {
    Chain c = {.k = k, .p = p, .s = &k->stmt[s]};
    if (!stmt_folds(c.s)) continue;
    c.row = c.s->kind == K_ACCUM && accum_elements(k, s) > 1;
    if (c.row && !kernel_accum_wide(k, s)) continue;
    Fold f = {.place = FOLD_NEVER, .wide = c.s->kind == K_ACCUM || chain_length(&c) > SUM_SHORT};
    c.leaf = f.wide ? SUM_LEAF : SUM_LEAF_SHORT;
    fold_find(&c, &f);
    fold[s] = f;
  }
  return fold;
}
