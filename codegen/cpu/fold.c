// Decides where the accumulators of a kernel are folded, so that no chain of f32 additions is long
// (ir/program/sums.h). In: a kernel and its plan. Out: a Fold for each statement.
//
// Values are added to a leaf. A fold adds the leaf to the next level of the accumulator, and sets
// the leaf to the identity. The next level is an f32, the middle, or for a K_ACCUM with many
// results an f64. The number of additions to a leaf is the product of the rounds of the loops in
// which one accumulator is used. Going outwards, the first loop at which this product exceeds
// SUM_LEAF runs in blocks of Fold.step rounds, with a fold after each block. If no loop exceeds it
// but all units do, there is a fold after Fold.step units, the rounds of the outer loops.
//
//   sum over n = 1e7 of x[n, c]             a unit: leaf[c] += x[n, c]; a fold after 64 units
//   sum over k = 4096 of a[m, k] * b[k, n]  blocks of 64 rounds of k: leaf += a b; then a fold
//
// A joined loop runs over several dims as one (KLoop.part). It is folded at the elements at which
// the separate loops of its dims would be. So kernels with and without joined loops compute the
// same bits:
//
//   inner(b:3, y*x:99 = 11*9)   folds after 7 rounds of y, 63 elements, and after the last 36
//   inner(b*y*x:297 = 3*11*9)   step 63, period 99: three times folds after 63 and 36 elements
#include "codegen/cpu/emit_internal.h"
#include "ir/program/sums.h"

// A reduction (statement s) and the facts that decide where its accumulator is folded, that is
// added to the next level.
typedef struct Chain {
  const Kernel *k;
  const CpuPlan *p;
  const KStmt *s;
  int64_t leaf; // upper limit of the additions to a leaf between two folds
  bool row; // whether s is a K_ACCUM with many results, which are in the partial row of the chunk
} Chain;

static bool moves(const Chain *c, int l) {
  return c->s->kind == K_ACCUM && l >= c->k->nouter && c->k->ptr[c->s->index].stride[l] != 0;
}

// Returns how many values are added to one accumulator during all rounds of loop l.
static int64_t rounds(const Chain *c, int l) {
  const CpuPlan *p = c->p;
  int i = l - c->k->nouter;
  if (moves(c, l)) return 1;
  if (p->slab_step && i < p->slab_loop) return 1;
  if (p->slab_step && i == p->slab_loop) return p->slab_step;
  if (l != c->k->vector) return loop_rounds(c->k, l);
  // In the vector loop, a full tile adds once to each accumulator of a row of the tile. The
  // elements that are left over are added to the first of these, one vector after the other.
  int64_t size = loop_rounds(c->k, l), tile = (int64_t)p->lanes * p->vecs;
  return size / tile * (c->row ? p->vecs : 1) + ceil_div(size % tile, p->lanes);
}

// Decides whether to fold (add the accumulator's leaf to the next level) at `place`, a loop of n
// rounds that each make `each` additions. It folds if all rounds make too many additions for a
// leaf, and no loop inside folds yet. Returns the additions to the leaf since the last fold, at the
// end of the loop.
static int64_t fold_at(const Chain *c, int place, int64_t each, int64_t n, Fold *out) {
  if (out->place != FOLD_NEVER || size_times(each, n) <= c->leaf) return size_times(each, n);
  out->place = place;
  out->step = each < c->leaf ? c->leaf / each : 1;
  return 0;
}

// Decides whether a sum is folded (its leaf added to the next level) in inner loop l. In a loop
// over several dims, decides this for each dim. Returns how many values the leaf has taken since
// its last fold, at the end of the loop.
static int64_t fold_loop(const Chain *c, int l, int64_t each, Fold *out) {
  const KLoop *loop = &c->k->loop[l];
  int place = FOLD_LOOP + l - c->k->nouter;
  bool sliced = c->p->slab_step && l - c->k->nouter <= c->p->slab_loop;
  if (!loop->nparts || sliced || moves(c, l)) return fold_at(c, place, each, rounds(c, l), out);
  int64_t size = 1; // elements of the joined loop in one round of this dim
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

// Returns the additions to an accumulator of a K_REDUCE in one phase, a pass over the inner loops.
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
    if (!stmt_folds(c.s) || (p->product.on && c.s->kind == K_REDUCE)) continue;
    c.row = c.s->kind == K_ACCUM && accum_elements(k, s) > 1;
    if (c.row && !kernel_accum_wide(k, s)) continue;
    Fold f = {.place = FOLD_NEVER, .wide = c.s->kind == K_ACCUM || chain_length(&c) > SUM_SHORT};
    c.leaf = f.wide ? SUM_LEAF : SUM_LEAF_SHORT;
    fold_find(&c, &f);
    fold[s] = f;
  }
  return fold;
}
