// Runs the products of matrices (GEMMs) of a program: divides them among the workers (threads) of a
// processor. In: a bound GEMM. Out: its result in memory.
#include "runtime/exec/exec_internal.h"
#include "runtime/exec/product_internal.h"

void share_of(int64_t n, int64_t unit, int member, int members, int64_t *lo, int64_t *hi) {
  int64_t each = ceil_div(ceil_div(n, members), unit) * unit;
  *lo = clamp64(each * member, 0, n);
  *hi = clamp64(*lo + each, 0, n);
}

GemmPlace gemm_place(const BoundGemm *b, int64_t batch) {
  GemmPlace at = {0};
  for (int i = b->what->nbatch - 1; i >= 0; i--) {
    int64_t step = batch % b->count[i];
    batch /= b->count[i];
    at.a += step * b->what->batch[i].a;
    at.b += step * b->what->batch[i].b;
    at.c += step * b->what->batch[i].c;
  }
  return at;
}

// Returns part p of GEMM number `batch` of a batch.
static Product part_of(const BoundGemm *b, int64_t batch, const GemmPiece *p) {
  const Gemm *w = b->what;
  int64_t m0 = p->from[0], n0 = p->from[1], k0 = p->from[2], bytes = dtype_bytes(w->factors);
  GemmPlace at = gemm_place(b, batch);
  at.a += w->ta ? k0 * w->lda + m0 : m0 * w->lda + k0;
  at.b += w->tb ? n0 * w->ldb + k0 : k0 * w->ldb + n0;
  at.c += m0 * w->ldc + n0;
  return (Product){.factors = w->factors,
                   .type = w->type,
                   .ta = w->ta,
                   .tb = w->tb,
                   .m = p->to[0] - m0,
                   .n = p->to[1] - n0,
                   .k = p->to[2] - k0,
                   .a = b->a + at.a * bytes,
                   .lda = w->lda,
                   .b = b->b + at.b * bytes,
                   .ldb = w->ldb,
                   .c = b->c + at.c * dtype_bytes(w->type),
                   .ldc = w->ldc};
}

// Computes the product *held that a worker has put off (m = 0: there is none), and puts off `next`,
// if it is not NULL. So each product is computed when the next one is known, whose operands it
// prefetches.
static void run_held(const BoundGemm *b, Product *held, const Product *next, void *scratch) {
  held->next = next;
  product_run(b->way, held, scratch);
  if (next) *held = *next;
}

GemmPiece gemm_piece(const BoundGemm *b, int64_t i) {
  GemmPiece p = b->what->piece[i];
  int64_t whole[3] = {b->m, b->n, b->k};
  for (int d = 0; d < 3; d++) {
    p.from[d] = clamp64(p.from[d], 0, whole[d]);
    p.to[d] = clamp64(p.to[d], p.from[d], whole[d]);
  }
  return p;
}

// A worker's share of a batch of GEMMs: part p of GEMMs lo..hi-1.
typedef struct GemmShare {
  int64_t lo, hi;
  GemmPiece p;
  bool beside; // other workers store columns of the same rows
} GemmShare;

static bool is_empty(const GemmShare *s) {
  return s->lo >= s->hi || s->p.from[0] == s->p.to[0] || s->p.from[1] == s->p.to[1];
}

// Returns the share of a worker of part `all` of each GEMM of the batch.
static GemmShare gemm_share_of(const BoundGemm *b, const GemmPiece *all, int member, int members) {
  GemmShare s = {.hi = b->batches, .p = *all};
  int64_t m = all->to[0] - all->from[0], n = all->to[1] - all->from[1];
  GemmDivision d = gemm_division(b->what, m, n, b->batches, members);
  if (d.by == GEMM_BY_BATCH) {
    s.lo = clamp64(d.each * member, 0, b->batches), s.hi = clamp64(s.lo + d.each, s.lo, b->batches);
    return s;
  }
  int side = d.by == GEMM_BY_COLUMNS;
  s.p.from[side] = clamp64(all->from[side] + d.each * member, all->from[side], all->to[side]);
  s.p.to[side] = clamp64(s.p.from[side] + d.each, s.p.from[side], all->to[side]);
  s.beside = d.by == GEMM_BY_COLUMNS && members > 1;
  return s;
}

// Sets *coming to the first product of a worker's share of the GEMM that follows b, with the
// operands that can be prefetched already. If that GEMM has pieces, piece 0 is taken as if the
// workers divided it. Returns coming, or NULL if nothing can be prefetched.
static const Product *coming_of(const BoundGemm *b, int member, int members, Product *coming) {
  const BoundGemm *next = b->next;
  if (!next || next->batches == 0) return NULL;
  GemmPiece all = {.to = {next->m, next->n, next->k}};
  if (next->what->npieces) all = gemm_piece(next, 0);
  GemmShare s = gemm_share_of(next, &all, member, members);
  if (is_empty(&s) || next->k == 0) return NULL;
  *coming = part_of(next, s.lo, &s.p);
  if (!b->next_a) coming->a = NULL;
  if (!b->next_b) coming->b = NULL;
  return coming;
}

static double piece_work(const GemmPiece *p) {
  return gemm_flops((double)(p->to[0] - p->from[0]), (double)(p->to[1] - p->from[1]),
                    (double)(p->to[2] - p->from[2]), 1);
}

// Runs the pieces of a worker: those whose middle lies in its share of the work. They run in the
// order in which they grow: while one is computed, most of the next one can be prefetched.
static void run_pieces(const BoundGemm *b, void *scratch, int member, int members) {
  int32_t last = b->what->npieces - 1;
  GemmPiece first = gemm_piece(b, 0), end = gemm_piece(b, last);
  bool falling = piece_work(&first) > piece_work(&end);
  Product held = {.m = 0}, coming;
  double all = 0, done = 0;
  for (int32_t i = 0; i <= last; i++) {
    GemmPiece p = gemm_piece(b, i);
    all += piece_work(&p) * (double)b->batches;
  }
  for (int64_t batch = 0; batch < b->batches; batch++)
    for (int32_t i = 0; i <= last; i++) {
      GemmPiece p = gemm_piece(b, falling ? last - i : i);
      double work = piece_work(&p), middle = done + work / 2;
      done += work;
      if (middle < all / members * member || middle >= all / members * (member + 1) || work <= 0)
        continue;
      Product next = part_of(b, batch, &p);
      run_held(b, &held, &next, scratch);
    }
  run_held(b, &held, coming_of(b, member, members, &coming), scratch);
}

// Runs the share of a worker of part `all` of each GEMM of the batch.
static void run_panels(const BoundGemm *b, const GemmPiece *all, void *scratch, int member,
                       int members) {
  GemmShare s = gemm_share_of(b, all, member, members);
  if (is_empty(&s)) return;
  Product held = {.m = 0}, coming;
  for (int64_t i = s.lo; i < s.hi; i++) {
    Product next = part_of(b, i, &s.p);
    next.beside = s.beside;
    run_held(b, &held, &next, scratch);
  }
  run_held(b, &held, coming_of(b, member, members, &coming), scratch);
  for (int64_t i = s.lo; i < s.hi && b->what->epilogue; i++) gemm_finish(b, i, &s.p);
}

static BoundGemm moved_gemm(const BoundGemm *at_base, const LoopSteps *steps) {
  BoundGemm moved = *at_base;
  const Gemm *w = moved.what;
  moved.a += ref_moved(w->a, steps->depth, steps->at);
  moved.b += ref_moved(w->b, steps->depth, steps->at);
  moved.c += ref_moved(w->c, steps->depth, steps->at);
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (moved.extra[i]) moved.extra[i] += ref_moved(*gemm_extra(w, i), steps->depth, steps->at);
  return moved;
}

Product thin_gemm(const BoundGemm *at_base, const LoopSteps *steps) {
  BoundGemm moved = moved_gemm(at_base, steps);
  const GemmPiece all = {.to = {moved.m, moved.n, moved.k}};
  Product g = part_of(&moved, 0, &all);
  if (g.tb && g.ta) g.ta = false, g.lda = g.k; // one row, whose elements are neighbours
  return g;
}

void run_gemm(const BoundGemm *at_base, void *scratch, int member, int members,
              const LoopSteps *steps) {
  BoundGemm moved = moved_gemm(at_base, steps);
  const Gemm *w = moved.what;
  GemmPiece all = {.to = {moved.m, moved.n, moved.k}};
  if (w->by_step) all = gemm_piece(&moved, steps->at[w->by_step - 1]);
  if (w->npieces && !w->by_step)
    run_pieces(&moved, scratch, member, members);
  else
    run_panels(&moved, &all, scratch, member, members);
}
