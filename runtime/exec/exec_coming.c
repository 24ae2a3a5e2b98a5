// Finds for each product of matrices (GEMM) the next one, so that it can prefetch operands of that
// one: a product computes much and reads little, so memory has time.
//
//    51 product dw = x transposed by dy     prefetches w, which nobody has read for long
//    52 product dx = dy by w transposed     prefetches x, but not dz, which 53 computes
//    53 kernel  dz = ...
//    54 product dv = x transposed by dz
#include "runtime/exec/exec_internal.h"

// The bytes of an operand in memory, from its first element on.
typedef struct Extent {
  const Ref *at;
  int64_t bytes;
} Extent;

// Returns the extent of A (`left`) or B of a GEMM, which has so many lines of `width` elements.
static Extent extent_of(const Ref *at, const BoundGemm *b, int64_t lines, int64_t width, int64_t ld,
                        bool left) {
  int64_t last = (lines - 1) * ld + width;
  for (int i = 0; i < b->what->nbatch; i++)
    last += (b->what->batch[i].count.base - 1) * (left ? b->what->batch[i].a : b->what->batch[i].b);
  return (Extent){at, last * dtype_bytes(b->what->factors)};
}

typedef struct Search {
  Extent operand;
  bool found;
} Search;

static void compare(void *search, Ref *r) {
  Search *s = search;
  const Ref *at = s->operand.at;
  int64_t distance = r->offset - at->offset;
  s->found |= r->tensor == at->tensor && distance >= 0 && distance < s->operand.bytes;
}

// Returns whether one of the instructions from..to-1 uses memory of the operand. Then it may write
// it, or the operand is in a cache.
static bool is_used(const Program *p, uint32_t from, uint32_t to, Extent operand) {
  Search s = {.operand = operand};
  for (uint32_t i = from; i < to && !s.found; i++) {
    Instr *in = &p->instr[i];
    int nptr = in->kind == INSTR_KERNEL ? p->kernel[in->u.kernel.kernel].nptr : 0;
    instr_refs(in, nptr, compare, &s);
  }
  return s.found;
}

// Sets the fields `next` of product i, which product `next` follows.
static void set_next(const Program *p, Context *c, uint32_t i, uint32_t next) {
  BoundGemm *b = &c->instr[i].u.gemm;
  const BoundGemm *n = &c->instr[next].u.gemm;
  const Gemm *w = n->what;
  int64_t rows = w->m.base, columns = w->n.base, k = w->k.base;
  Extent x = extent_of(&w->a, n, w->ta ? k : rows, w->ta ? rows : k, w->lda, true),
         y = extent_of(&w->b, n, w->tb ? columns : k, w->tb ? k : columns, w->ldb, false);
  b->next_a = !is_used(p, i, next, x);
  b->next_b = !is_used(p, i, next, y);
  b->next = b->next_a || b->next_b ? n : NULL;
}

void exec_bind_coming(const Program *p, Context *c) {
  int64_t last = -1; // the product before instruction i, if only kernels are between them
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const BoundInstr *b = &c->instr[i];
    if (b->kind == INSTR_KERNEL) continue;
    bool plain = b->kind == INSTR_GEMM && !b->in_step && !b->u.gemm.thin;
    if (plain && last >= 0 && c->instr[last].u.gemm.way == b->u.gemm.way)
      set_next(p, c, (uint32_t)last, i);
    last = plain ? (int64_t)i : -1;
  }
}
