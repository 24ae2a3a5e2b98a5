// Leaves sums of gradients to the updates that read them.
//
// Processors that share a parameter divide its update (divide_updates.c), which is all that reads
// the sum of their gradients. The kernel of the update can read their gradients itself, so that
// their sum is never stored:
//
//   at once    all_reduce: g = g0 + g1                 update: w[part] = f(w[part], g[part])
//   deferred   all_reduce: nothing for these gradients update: w[part] = f(w[part], g0[part] + g1[part])
//
// A launch takes over the sums if each of its sets reads one result of an all_reduce in place, by
// the same pointer of the kernel, and nothing else reads that result. The launch then gets a kernel
// of its own. The order of additions is that of the collective.
//
// Input: the instructions after updates_divide. Output: CollPart.deferred, KernelSet.sum.
#include "codegen/program/program_internal.h"

#include <string.h>

enum { MOST_BLOCKS = 8 }; // most blocks that a kernel sums

// By buffer: the part of an all_reduce of which it is the result, and the number of operands of
// kernels that read it.
typedef struct Result {
  const Collective *of;
  CollPart *part;
  uint32_t readers;
} Result;

static int64_t blocks_of(const Builder *b, const Collective *c) {
  return axes_size(b->g->mesh, c->axes);
}

// Returns whether part p of collective c may be deferred, if one set alone reads its result.
static bool is_deferrable(const Builder *b, const Collective *c, const CollPart *p) {
  if (!p->once || c->monoid != MONOID_SUM || p->src.tensor >= 0 || p->src.stride) return false;
  bool exact = c->type == TYPE_F32 || c->type == TYPE_F64; // a sum of others rounds only at the end
  const PlanBuffer *src = &b->buffer.at[p->src.offset], *dst = &b->buffer.at[p->dst.offset];
  return exact && !src->part && !dst->part && blocks_of(b, c) <= MOST_BLOCKS &&
         plan_owner(b, p->src.offset) == plan_owner(b, p->dst.offset);
}

static Result *find_results(Builder *b) {
  Result *result = arena_array(b->a, Result, b->buffer.n + 1);
  for (uint32_t i = 0; i < b->instr.n; i++) {
    Instr *in = &b->instr.at[i];
    for (uint32_t p = 0; in->kind == INSTR_COLLECTIVE && p < in->u.collective.nparts; p++) {
      CollPart *part = &in->u.collective.part[p];
      if (is_deferrable(b, &in->u.collective, part))
        result[part->dst.offset] = (Result){&in->u.collective, part, 0};
    }
    for (uint32_t s = 0; in->kind == INSTR_KERNEL && s < in->u.kernel.nsets; s++)
      for (int p = 0; p < b->kernel.at[in->u.kernel.kernel].nptr; p++) {
        Ref r = in->u.kernel.set[s].ptr[p];
        if (r.tensor < 0) result[r.offset].readers++;
      }
  }
  return result;
}

// Returns the pointer by which the first set of a launch reads a result that can be deferred, -1 if
// there is none.
static int find_pointer(const Result *result, const Kernel *k, const KernelSet *s) {
  for (int p = 0; p < k->nptr; p++)
    if (s->ptr[p].tensor < 0 && result[s->ptr[p].offset].of) return p;
  return -1;
}

static bool only_loaded(const Kernel *k, int ptr) {
  for (int i = 0; i < k->nstmts; i++) {
    KKind kind = k->stmt[i].kind;
    bool other = kind == K_LOAD_AT || kind == K_STORE || kind == K_SCATTER || kind == K_ACCUM;
    if (other && k->stmt[i].index == ptr) return false;
  }
  return true;
}

// Returns whether all sets of a launch read such a result through pointer `ptr`, the sum of as many
// blocks each.
static bool takes_sums(const Builder *b, const Result *result, const KernelLaunch *l, int ptr) {
  int64_t blocks = 0;
  for (uint32_t s = 0; s < l->nsets; s++) {
    Ref r = l->set[s].ptr[ptr];
    const Result *x = r.tensor < 0 ? &result[r.offset] : NULL;
    if (!x || !x->of || x->readers != 1 || r.stride || !l->set[s].divided) return false;
    if (blocks && blocks_of(b, x->of) != blocks) return false;
    blocks = blocks_of(b, x->of);
  }
  return only_loaded(b->kernels.at[l->kernel], ptr);
}

// Appends to `out` a load of the block of another processor, and its addition to statement `sum`.
// `load`: the load of the block of the first one. Returns the number of the addition.
static int32_t add_block(Kernel *out, const KStmt *load, int32_t sum, int32_t ptr) {
  out->stmt[out->nstmts] = *load;
  out->stmt[out->nstmts++].index = ptr;
  KStmt add = *load;
  add.kind = K_OP;
  add.op = OP_ADD;
  add.arg[0] = sum;
  add.arg[1] = out->nstmts - 1;
  add.arg[2] = NO_STMT;
  add.index = -1;
  out->stmt[out->nstmts] = add;
  return out->nstmts++;
}

// Returns a copy of kernel k that adds the elements of `blocks` blocks where k loads an element
// through pointer `ptr`. The additional pointers follow those of k.
static Kernel *summing_kernel(Arena *a, const Kernel *k, int ptr, int64_t blocks) {
  Kernel *out = arena_copy(a, k, sizeof *k);
  int32_t *at = arena_array(a, int32_t, k->nstmts + 1u); // by statement of k: its value in `out`
  out->ptr = arena_array(a, KPtr, k->nptr + (size_t)blocks);
  memcpy(out->ptr, k->ptr, k->nptr * sizeof *k->ptr);
  for (int64_t i = 1; i < blocks; i++) out->ptr[out->nptr++] = k->ptr[ptr];
  out->stmt = arena_array(a, KStmt, (size_t)k->nstmts * 2 * (size_t)blocks);
  out->nstmts = 0;
  for (int i = 0; i < k->nstmts; i++) {
    KStmt s = k->stmt[i];
    for (int j = 0; j < 3; j++)
      if (s.arg[j] != NO_STMT) s.arg[j] = at[s.arg[j]];
    out->stmt[out->nstmts] = s;
    at[i] = out->nstmts++;
    for (int64_t n = 1; s.kind == K_LOAD && s.index == ptr && n < blocks; n++)
      at[i] = add_block(out, &s, at[i], k->nptr + (int32_t)n - 1);
  }
  return out;
}

static void take_sum(Builder *b, const Result *x, KernelSet *set, int ptr, int nptr) {
  int64_t more = blocks_of(b, x->of) - 1, bytes = dtype_bytes(x->of->type);
  Ref *refs = arena_array(b->a, Ref, (size_t)(nptr + more) + 1);
  memcpy(refs, set->ptr, (size_t)nptr * sizeof *refs);
  for (int64_t i = 0; i < more; i++) refs[nptr + i] = set->ptr[ptr];
  for (int d = 0; d < x->part->rank; d++) bytes *= x->part->src_block[d];
  SetSum *sum = arena_new_of(b->a, SetSum);
  *sum = (SetSum){.axes = x->of->axes, .own = ptr, .others = nptr, .bytes = bytes};
  set->ptr = refs;
  set->sum = sum;
  x->part->deferred = true;
}

static void defer(Builder *b, const Result *result, KernelLaunch *l) {
  Kernel *k = b->kernels.at[l->kernel];
  int ptr = l->nsets ? find_pointer(result, k, &l->set[0]) : -1;
  if (ptr < 0 || !takes_sums(b, result, l, ptr)) return;
  int64_t blocks = blocks_of(b, result[l->set[0].ptr[ptr].offset].of);
  l->kernel = kernel_share(b, summing_kernel(b->a, k, ptr, blocks));
  for (uint32_t s = 0; s < l->nsets; s++)
    take_sum(b, &result[l->set[s].ptr[ptr].offset], &l->set[s], ptr, k->nptr);
}

void sums_defer(Builder *b) {
  uint32_t before = b->kernel.n;
  Result *result = find_results(b);
  for (uint32_t i = 0; i < b->instr.n; i++)
    if (b->instr.at[i].kind == INSTR_KERNEL) defer(b, result, &b->instr.at[i].u.kernel);
  if (b->kernel.n > before) kernels_drop_unused(b);
}
