// How long a collective between GPUs may go on beside what comes after it: up to the first
// instruction that accesses its memory.
//
// Two instructions access the same memory if they have a buffer of the work arena, or bytes of two
// buffers, in common, or a persistent tensor. It does not matter whether they read or write: in
// most collectives operand and result are one.
#include "codegen/codegen.h"

#include <stdlib.h>
#include <string.h>

// Memory: bytes first..end - 1 of a persistent tensor, or of the arena with tensor -1.
typedef struct Area {
  int32_t tensor;
  int64_t first, end;
} Area;

typedef struct Areas {
  VEC(Area) list;
} Areas;

// A buffer that is in use at the current instruction.
typedef struct InUse {
  const PlanBuffer *buffer;
  int64_t reach; // the largest end of this buffer and of those before it in the list
} InUse;

typedef struct Joining {
  Arena *a;
  const Compiled *c;
  struct MessagePart *const *messages;
  uint32_t instr; // the instruction whose references are visited
  Areas *of;      // by instruction: what it accesses
  // the buffers by first and by last instruction of their live ranges, and how many of each list
  // have begun or ended to be in use
  const PlanBuffer **begin, **end;
  uint32_t nbegun, nended;
  uint32_t n; // buffers in use, ordered by offset
  InUse *use;
} Joining;

// -- buffers in use -----------------------------------------------------------------------------

static int by_first(const void *x, const void *y) {
  uint32_t a = (*(const PlanBuffer *const *)x)->first, b = (*(const PlanBuffer *const *)y)->first;
  return (a > b) - (a < b);
}

static int by_last(const void *x, const void *y) {
  uint32_t a = (*(const PlanBuffer *const *)x)->last, b = (*(const PlanBuffer *const *)y)->last;
  return (a > b) - (a < b);
}

static const PlanBuffer **buffers_by(const Joining *j, int (*order)(const void *, const void *)) {
  uint32_t n = j->c->nbuffers;
  const PlanBuffer **out = arena_array(j->a, const PlanBuffer *, n + 1);
  for (uint32_t i = 0; i < n; i++) out[i] = &j->c->buffer[i];
  qsort(out, n, sizeof *out, order);
  return out;
}

// Returns the first byte behind a buffer. An empty one counts as one byte.
static int64_t end_of(const PlanBuffer *b) { return b->offset + (b->bytes > 0 ? b->bytes : 1); }

// Returns how many buffers in use begin at byte `at` or before.
static uint32_t begun_at(const Joining *j, int64_t at) {
  uint32_t lo = 0, hi = j->n;
  while (lo < hi) {
    uint32_t middle = (lo + hi) / 2;
    if (j->use[middle].buffer->offset <= at)
      lo = middle + 1;
    else
      hi = middle;
  }
  return lo;
}

// Computes InUse.reach from index i on, up to the first one behind `least` that does not change.
static void mend_reach(Joining *j, uint32_t i, uint32_t least) {
  for (; i < j->n; i++) {
    int64_t reach = end_of(j->use[i].buffer);
    if (i > 0 && j->use[i - 1].reach > reach) reach = j->use[i - 1].reach;
    if (i > least && j->use[i].reach == reach) return;
    j->use[i].reach = reach;
  }
}

static void begin_use(Joining *j, const PlanBuffer *b) {
  uint32_t i = begun_at(j, b->offset);
  memmove(j->use + i + 1, j->use + i, (j->n++ - i) * sizeof *j->use);
  j->use[i].buffer = b;
  mend_reach(j, i, i);
}

static void end_use(Joining *j, const PlanBuffer *b) {
  uint32_t i = begun_at(j, b->offset);
  while (i > 0 && j->use[i - 1].buffer != b) i--;
  if (i == 0) return; // it was never in use
  memmove(j->use + i - 1, j->use + i, (j->n-- - i) * sizeof *j->use);
  mend_reach(j, i - 1, i - 1);
}

// Goes on to instruction i: the list has the buffers that are in use there.
static void go_to(Joining *j, uint32_t i) {
  uint32_t n = j->c->nbuffers;
  j->instr = i;
  for (; j->nbegun < n && j->begin[j->nbegun]->first <= i; j->nbegun++)
    if (j->begin[j->nbegun]->last >= i) begin_use(j, j->begin[j->nbegun]);
  for (; j->nended < n && j->end[j->nended]->last < i; j->nended++) end_use(j, j->end[j->nended]);
}

// Returns the memory of the buffers that contain byte `at` of the arena and are in use at the
// current instruction: from the first of their bytes to the last. Without such a buffer it is the
// whole arena, so that nothing is missed.
static Area buffer_around(const Joining *j, int64_t at) {
  Area out = {-1, INT64_MAX, 0};
  for (uint32_t i = begun_at(j, at); i > 0 && j->use[i - 1].reach > at; i--) {
    const PlanBuffer *b = j->use[i - 1].buffer;
    if (at >= end_of(b)) continue;
    if (b->offset < out.first) out.first = b->offset;
    if (b->offset + b->bytes > out.end) out.end = b->offset + b->bytes;
  }
  return out.end ? out : (Area){-1, 0, INT64_MAX};
}

// -- what instructions access -------------------------------------------------------------------

// Adds what a reference points to to the memory of the current instruction.
static void take_ref(void *context, Ref *r) {
  Joining *j = context;
  Ref at = *r;
  while (at.tensor >= 0) { // a tensor may be a view of another one, or of the arena
    const Ref *of = &j->c->program->tensor[at.tensor].at;
    if (of->tensor == at.tensor) break;
    at = (Ref){.tensor = of->tensor, .offset = of->offset + at.offset};
  }
  vec_push(j->a, j->of[j->instr].list) =
      at.tensor < 0 ? buffer_around(j, at.offset) : (Area){at.tensor, 0, INT64_MAX};
}

static bool meet(const Areas *x, const Areas *y) {
  for (uint32_t i = 0; i < x->list.n; i++)
    for (uint32_t k = 0; k < y->list.n; k++) {
      const Area *a = &x->list.at[i], *b = &y->list.at[k];
      if (a->tensor == b->tensor && a->first < b->end && b->first < a->end) return true;
    }
  return false;
}

static bool bounds_loop(InstrKind k) {
  return k == INSTR_LOOP || k == INSTR_END || k == INSTR_COMMIT;
}

// Returns the first instruction that has to wait for collective i. Loops and the commit wait for
// all collectives. Other collectives between GPUs need not wait: they are in the same stream.
static uint32_t join_of(const Joining *j, uint32_t i) {
  const Program *p = j->c->program;
  uint32_t n = i + 1;
  for (; n < p->ninstrs && !bounds_loop(p->instr[n].kind); n++)
    if (!j->messages[n] && meet(&j->of[i], &j->of[n])) break;
  return n;
}

uint32_t *gpu_overlap(Arena *a, const Compiled *c, struct MessagePart *const *messages) {
  const Program *p = c->program;
  uint32_t *out = arena_array(a, uint32_t, p->ninstrs + 1);
  Joining j = {.a = a, .c = c, .messages = messages, .of = arena_array(a, Areas, p->ninstrs + 1)};
  j.begin = buffers_by(&j, by_first);
  j.end = buffers_by(&j, by_last);
  j.use = arena_array(a, InUse, c->nbuffers + 1);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    Instr *in = &p->instr[i];
    go_to(&j, i);
    instr_refs(in, in->kind == INSTR_KERNEL ? p->kernel[in->u.kernel.kernel].nptr : 0, take_ref,
               &j);
  }
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (messages[i]) out[i] = join_of(&j, i);
  return out;
}
