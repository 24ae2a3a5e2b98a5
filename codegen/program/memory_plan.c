// Plans the memory of a program: finds the live ranges of buffers, lets results take over memory of
// operands in place, and chooses an offset for each buffer in one arena.
//
// Offsets: the largest buffer first, each in the smallest gap that is free during its live range
// (greedy by size: Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
// 2020).
#include "codegen/program/program_internal.h"
#include "ir/base/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

// Returns where an offset of packed buffers is in the arena: each 16 MiB before it adds 16 KiB.
// Buffers of 2^n bytes, one after another, would begin at addresses that differ in a few high bits
// only: a sum over three of 256 MiB, read side by side, then takes 1.35 times as long. Equal low
// bits probably choose the same banks of the memory. No gain is known on GPUs (shared_cache is 0).
static int64_t spread(const Builder *b, int64_t offset) {
  enum { EACH = 16 << 20, BY = 16 << 10 };
  return b->opt->shared_cache > 0 ? offset + offset / EACH * BY : offset;
}

// -- live ranges -------------------------------------------------------------------------------

typedef void RefVisitor(Builder *b, Ref *r, uint32_t instr);

// The context of visit_ref: `visit` is called for each reference of instruction number `instr`.
typedef struct RefVisit {
  Builder *b;
  RefVisitor *visit;
  uint32_t instr;
} RefVisit;

static void visit_ref(void *context, Ref *r) {
  const RefVisit *v = context;
  v->visit(v->b, r, v->instr);
}

static void visit_instr(Builder *b, RefVisitor *visit, uint32_t i) {
  Instr *in = &b->instr.at[i];
  int nptr = in->kind == INSTR_KERNEL ? b->kernel.at[in->u.kernel.kernel].nptr : 0;
  instr_refs(in, nptr, visit_ref, &(RefVisit){b, visit, i});
}

static void visit_refs(Builder *b, RefVisitor *visit) {
  for (uint32_t i = 0; i < b->instr.n; i++) visit_instr(b, visit, i);
}

static void note_use(Builder *b, Ref *r, uint32_t i) {
  if (r->tensor >= 0) return;
  PlanBuffer *p = &b->buffer.at[plan_owner(b, r->offset)];
  if (p->first > i) p->first = i;
  if (p->last < i) p->last = i;
}

void plan_note_uses(Builder *b, uint32_t i) { visit_instr(b, note_use, i); }

// Extends the live ranges of input buffers back to the start of the program, and those of output
// buffers to the end of the program.
static void extend_to_ends(Builder *b) {
  uint32_t end = b->instr.n;
  for (uint32_t i = 0; i < b->buffer.n; i++) {
    PlanBuffer *p = &b->buffer.at[i];
    if (p->first == UINT32_MAX) p->first = 0;
    if (p->kept) p->last = end;
  }
  for (uint32_t i = 0; i < b->tensor.n; i++)
    if (b->tensor.at[i].kind == TENSOR_INPUT) b->buffer.at[b->tensor.at[i].at.offset].first = 0;
}

// The buffers whose live ranges begin or end at an instruction: at[i] is the first of a list.
// Entries of ranges that begin or end elsewhere by now stay.
typedef struct RangeEnd {
  uint32_t buffer, next; // next: index into `entry`, 0: none
} RangeEnd;
typedef struct RangeEnds {
  Arena *a;
  uint32_t *at;        // by instruction, and behind the last: index into `entry`, 0: none
  VEC(RangeEnd) entry; // entry 0 is unused
} RangeEnds;

static void ends_add(RangeEnds *r, uint32_t at, uint32_t buffer) {
  uint32_t next = r->at[at];
  r->at[at] = r->entry.n;
  vec_push(r->a, r->entry) = (RangeEnd){buffer, next};
}

// Extends the live range of a buffer over the loop of instruction l if it must be.
static void extend_over(Builder *b, RangeEnds *r, uint32_t l, uint32_t buffer) {
  PlanBuffer *p = &b->buffer.at[buffer];
  uint32_t end = b->instr.at[l].u.loop.end;
  if (p->last < l || p->first > end) return;
  bool before = p->first<l, after = p->last> end, rows = b->instr.at[l].u.loop.rows > 0;
  if ((before || rows) && !after && p->last != end) {
    p->last = end;
    ends_add(r, end, buffer);
  }
  if ((after || rows) && !before && p->first != l) {
    p->first = l;
    ends_add(r, l, buffer);
  }
}

// Extends live ranges that cross a loop boundary to the whole loop, because every iteration needs
// the buffer:
//     w written | loop ... read w ... end |            w is live until the loop's end
//     loop ... write s ... end | read s                s is live from the loop's start
// In a loop with rows this holds for all buffers of the loop: its workers run apart, so that one
// may need a buffer of an early instruction while another one runs a later instruction. Inner loops
// are visited first: extending a range over an inner loop may make it cross an outer one. Only
// ranges that begin or end in the loop can change.
static void extend_over_loops(Builder *b) {
  Arena *scratch = arena_new();
  RangeEnds r = {.a = scratch, .at = arena_array(scratch, uint32_t, b->instr.n + 1)};
  vec_push(scratch, r.entry) = (RangeEnd){0};
  for (uint32_t i = 0; i < b->buffer.n; i++) {
    ends_add(&r, b->buffer.at[i].first, i);
    ends_add(&r, b->buffer.at[i].last, i);
  }
  for (uint32_t l = b->instr.n; l-- > 0;)
    if (b->instr.at[l].kind == INSTR_LOOP)
      for (uint32_t i = l; i <= b->instr.at[l].u.loop.end; i++)
        for (uint32_t e = r.at[i]; e; e = r.entry.at[e].next)
          extend_over(b, &r, l, r.entry.at[e].buffer);
  arena_free(scratch);
}

// -- reuse in place ----------------------------------------------------------------------------

uint32_t plan_owner(const Builder *b, int64_t buffer) {
  uint32_t at = (uint32_t)buffer;
  while (b->buffer.at[at].same) at = b->buffer.at[at].same - 1;
  return at;
}

// Returns whether buffer dst can take over the memory of buffer src. It can if instruction i is the
// last use of src and the first use of dst, and both buffers have equal sizes.
static bool can_take_over(const Builder *b, Ref src, Ref dst, uint32_t i) {
  if (src.tensor >= 0 || dst.tensor >= 0 || b->buffer.at[src.offset].part) return false;
  const PlanBuffer *from = &b->buffer.at[plan_owner(b, src.offset)],
                   *to = &b->buffer.at[dst.offset];
  return !to->same && plan_owner(b, src.offset) != (uint32_t)dst.offset && !from->kept &&
         from->last == i && to->first == i && from->bytes == to->bytes;
}

static void take_over(Builder *b, Ref src, Ref dst) {
  uint32_t from = plan_owner(b, src.offset);
  b->buffer.at[dst.offset].same = from + 1;
  b->buffer.at[from].last = b->buffer.at[dst.offset].last;
  b->buffer.at[from].kept |= b->buffer.at[dst.offset].kept;
}

bool plan_overlays(const Builder *b, const Kernel *k, const KernelSet *s, int load, int store) {
  uint32_t buffer = plan_owner(b, s->ptr[load].offset);
  for (int p = 0; p < k->nptr; p++)
    if (p != load && s->ptr[p].tensor < 0 && plan_owner(b, s->ptr[p].offset) == buffer)
      return false;
  return pointers_overlay(k, load, store);
}

static void kernel_in_place(Builder *b, Instr *in, uint32_t i) {
  const Kernel *k = b->kernels.at[in->u.kernel.kernel];
  if (in->u.kernel.nsets != 1) return;
  const KernelSet *s = &in->u.kernel.set[0];
  for (int store = 0; store < k->nptr; store++)
    for (int load = 0; load < k->nptr && k->ptr[store].written; load++)
      if (!k->ptr[load].written && can_take_over(b, s->ptr[load], s->ptr[store], i) &&
          plan_overlays(b, k, s, load, store)) {
        take_over(b, s->ptr[load], s->ptr[store]);
        break;
      }
}

// Lets C take over the memory of the addend, which nothing else of the product may read.
static void product_in_place(Builder *b, const Gemm *g, uint32_t i) {
  const Ref *addend = gemm_extra(g, GEMM_ADDEND), *bias = gemm_extra(g, GEMM_BIAS);
  if (!addend || addend->tensor >= 0) return;
  const Ref other[] = {g->a, g->b, bias ? *bias : g->a};
  for (size_t k = 0; k < countof(other); k++)
    if (other[k].tensor < 0 && plan_owner(b, other[k].offset) == plan_owner(b, addend->offset))
      return;
  if (can_take_over(b, *addend, g->c, i)) take_over(b, *addend, g->c);
}

// Lets results of an all-reduce take over the memory of their operands. An operand that several
// parts read stays. `readers` has a 0 for each buffer; it is used to count these parts.
static void all_reduce_in_place(Builder *b, const Collective *c, uint32_t i, uint32_t *readers) {
  for (uint32_t p = 0; p < c->nparts; p++)
    if (c->part[p].src.tensor < 0) readers[plan_owner(b, c->part[p].src.offset)]++;
  for (uint32_t p = 0; p < c->nparts; p++) {
    const CollPart *part = &c->part[p];
    if (part->src.tensor < 0 && readers[plan_owner(b, part->src.offset)] == 1 &&
        can_take_over(b, part->src, part->dst, i))
      take_over(b, part->src, part->dst);
  }
  for (uint32_t p = 0; p < c->nparts; p++)
    if (c->part[p].src.tensor < 0) readers[plan_owner(b, c->part[p].src.offset)] = 0;
}

static void reuse_in_place(Builder *b) {
  Arena *scratch = arena_new();
  uint32_t *readers = arena_array(scratch, uint32_t, b->buffer.n + 1);
  for (uint32_t i = 0; i < b->instr.n; i++) {
    Instr *in = &b->instr.at[i];
    if (in->kind == INSTR_KERNEL) kernel_in_place(b, in, i);
    if (in->kind == INSTR_GEMM && b->opt->gpu) product_in_place(b, &in->u.gemm, i);
    if (in->kind == INSTR_COLLECTIVE && in->u.collective.kind == COLL_ALL_REDUCE)
      all_reduce_in_place(b, &in->u.collective, i, readers);
  }
  arena_free(scratch);
}

// -- buffers that asynchronous collectives send ------------------------------------------------

// Extends the live range of each buffer that a collective sends, because an asynchronous transfer
// may still read the buffer. The range then ends at the next collective, at the commit, or at the
// end of the loop's iteration.
static void extend_sent_buffers(Builder *b) {
  uint32_t next = b->instr.n;
  for (uint32_t i = b->instr.n; i-- > 0;) {
    const Instr *in = &b->instr.at[i];
    if (in->kind == INSTR_COLLECTIVE)
      for (uint32_t p = 0; p < in->u.collective.nparts; p++) {
        if (in->u.collective.part[p].src.tensor >= 0) continue;
        PlanBuffer *sent = &b->buffer.at[plan_owner(b, in->u.collective.part[p].src.offset)];
        if (sent->last < next) sent->last = next;
      }
    if (in->kind == INSTR_COLLECTIVE || in->kind == INSTR_COMMIT || in->kind == INSTR_END) next = i;
  }
}

// -- offsets in the arena ----------------------------------------------------------------------

typedef struct SizedBuffer {
  int64_t bytes;
  uint32_t buffer;
} SizedBuffer;

static int by_size(const void *x, const void *y) {
  const SizedBuffer *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

// Spreads the packed offsets of the n buffers in `span`, and the size of the arena (spread).
static void spread_buffers(Builder *b, const SizedBuffer *span, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    int64_t *offset = &b->buffer.at[span[i].buffer].offset;
    *offset = spread(b, *offset);
  }
  b->p->arena_bytes = spread(b, b->p->arena_bytes);
}

// Chooses offsets, the largest buffer first (head of this file), and sets the size of the arena.
static void place_buffers(Builder *b) {
  Arena *scratch = arena_new();
  MemoryGaps *gaps = gaps_new(scratch, b->instr.n + 1);
  SizedBuffer *span = arena_array(scratch, SizedBuffer, b->buffer.n + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->buffer.n; i++)
    if (!b->buffer.at[i].same) span[n++] = (SizedBuffer){b->buffer.at[i].bytes, i};
  qsort(span, n, sizeof *span, by_size);
  for (uint32_t i = 0; i < n; i++) {
    PlanBuffer *p = &b->buffer.at[span[i].buffer];
    int64_t bytes = ceil_div(p->bytes, ALIGN) * ALIGN;
    p->offset = gaps_smallest(gaps, p->first, p->last, bytes);
    int64_t end = p->offset + bytes;
    if (end > b->p->arena_bytes) b->p->arena_bytes = end;
    gaps_take(gaps, p->first, p->last, p->offset, end);
  }
  spread_buffers(b, span, n);
  arena_free(scratch);
  for (uint32_t i = 0; i < b->buffer.n; i++) {
    PlanBuffer *p = &b->buffer.at[i], *owner = &b->buffer.at[plan_owner(b, i)];
    p->offset = owner->offset + p->shift;
    if (!p->part) continue;
    p->first = owner->first;
    p->last = owner->last;
  }
}

static void resolve_offset(Builder *b, Ref *r, uint32_t i) {
  (void)i;
  if (r->tensor >= 0) return;
  r->common = b->buffer.at[r->offset].common;
  r->offset = b->buffer.at[r->offset].offset;
}

int64_t plan_live(const Builder *b) {
  int64_t *change = arena_array(b->a, int64_t, b->instr.n + 3), live = 0, most = 0;
  for (uint32_t i = 0; i < b->buffer.n; i++) {
    const PlanBuffer *p = &b->buffer.at[i];
    if (p->same) continue;
    change[p->first] += p->bytes;
    change[p->last + 1] -= p->bytes;
  }
  for (uint32_t i = 0; i < b->instr.n + 2; i++) {
    live += change[i];
    if (live > most) most = live;
  }
  return most;
}

void plan_memory(Builder *b) {
  visit_refs(b, note_use);
  extend_to_ends(b);
  extend_over_loops(b);
  Common *common = common_begin(b);
  reuse_in_place(b);
  plan_streams(b);
  updates_divide(b);
  sums_defer(b);
  if (b->opt->overlap) extend_sent_buffers(b);
  place_buffers(b);
  common_find(common);
  visit_refs(b, resolve_offset);
  for (uint32_t i = 0; i < b->tensor.n; i++)
    if (b->tensor.at[i].at.tensor < 0) resolve_offset(b, &b->tensor.at[i].at, 0);
}

char *plan_print(Arena *a, const Compiled *c) {
  TextStream s;
  stream_begin(&s);
  FILE *out = s.file;
  fprintf(out, "arena %lld bytes, lower bound %lld bytes, %u buffer%s, %u instruction%s\n",
          (long long)c->activation_bytes, (long long)c->live_bytes, c->nbuffers,
          plural(c->nbuffers), c->program->ninstrs, plural(c->program->ninstrs));
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *p = &c->buffer[i];
    fprintf(out, "  [%lld, %lld) %lld bytes, instructions %u to %u: %s", (long long)p->offset,
            (long long)(p->offset + p->bytes), (long long)p->bytes, p->first, p->last, p->value);
    if (p->same)
      fprintf(out, " (%s %s)", p->part ? "part of" : "in place of", c->buffer[p->same - 1].value);
    fprintf(out, "%s%s\n", p->kept ? " (kept)" : "", p->common ? " (common)" : "");
  }
  return stream_end(&s, a);
}
