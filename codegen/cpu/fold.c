// Decides where the accumulators of a kernel are folded, so that no chain of f32 additions is long
// (ir/program/sums.h). In: a kernel and its plan. Out: a Fold for each statement.
//
// Values are added to a leaf. A fold adds the leaf to the next level of the accumulator and sets it
// to the identity: to the middle or, for a K_ACCUM with many elements, to an f64. The chain of
// additions to a leaf is as long as the product of the rounds of the loops that do not move the
// accumulator. The innermost loop at which this product exceeds SUM_LEAF runs in blocks of
// Fold.step rounds, each followed by a fold. If the product exceeds it only over units, Fold.step
// units are followed by one.
//
//   sum over n = 1e7 of x[n, c]             a unit: leaf[c] += x[n, c]; a fold after 64 units
//   sum over k = 4096 of a[m, k] * b[k, n]  blocks of 64 rounds of k: leaf += a b; then a fold
//
// A joined loop runs over several dims as one (KLoop.part). It is folded at the elements at which
// the loops of its dims would be, so that kernels with and without joined loops compute the same
// bits:
//
//   inner(b:3, y*x:99 = 11*9)   folds after 7 rounds of y, 63 elements, and after the last 36
//   inner(b*y*x:297 = 3*11*9)   step 63, period 99: three times folds after 63 and 36 elements
#include "codegen/cpu/emit_internal.h"
#include "ir/program/sums.h"

// What decides the folds of statement s.
typedef struct Chain {
  const Kernel *k;
  const CpuPlan *p;
  const KStmt *s;
  int64_t leaf; // upper limit of the additions to a leaf
  bool row;     // a K_ACCUM with many elements, which are in the partial row
} Chain;

static bool moves(const Chain *c, int l) {
  return c->s->kind == K_ACCUM && l >= c->k->nouter && c->k->ptr[c->s->index].stride[l] != 0;
}

// Returns the additions to one accumulator during all rounds of loop l.
static int64_t rounds(const Chain *c, int l) {
  const CpuPlan *p = c->p;
  int i = l - c->k->nouter;
  if (moves(c, l)) return 1;
  if (p->slab_step && i < p->slab_loop) return 1;
  if (p->slab_step && i == p->slab_loop) return p->slab_step;
  if (l != c->k->vector) return loop_rounds(c->k, l);
  // a whole tile adds once to each of its accumulators; the rest adds to the first, vector by
  // vector
  int64_t size = loop_rounds(c->k, l), tile = (int64_t)p->lanes * p->vecs;
  return size / tile * (c->row ? p->vecs : 1) + ceil_div(size % tile, p->lanes);
}

// Decides whether to fold at `place`, where each of n rounds adds `each` times: if the additions
// are too many for a leaf, and the fold has no place yet in a loop inside. Returns the additions to
// the leaf since the last fold.
static int64_t fold_at(const Chain *c, int place, int64_t each, int64_t n, Fold *out) {
  if (out->place != FOLD_NEVER || size_times(each, n) <= c->leaf) return size_times(each, n);
  out->place = place;
  out->step = each < c->leaf ? c->leaf / each : 1;
  return 0;
}

// Decides whether to fold in inner loop l: as fold_at, for a joined loop in each of its dims.
static int64_t fold_loop(const Chain *c, int l, int64_t each, Fold *out) {
  const KLoop *loop = &c->k->loop[l];
  int place = FOLD_LOOP + l - c->k->nouter;
  bool sliced = c->p->slab_step && l - c->k->nouter <= c->p->slab_loop;
  if (!loop->nparts || sliced || moves(c, l)) return fold_at(c, place, each, rounds(c, l), out);
  int64_t size = 1; // rounds of the joined loop in one round of this dim
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

// Returns the additions to an accumulator of a K_REDUCE in one phase.
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
