// How long a collective between GPUs may go on beside what comes after it: up to the first
// instruction that accesses its memory.
//
// Two instructions access the same memory if they have a buffer of the work arena, or bytes of two
// buffers, in common, or a persistent tensor. It does not matter whether they read or write: in
// most collectives operand and result are one.
#include "codegen/codegen.h"

// Memory: bytes first..end - 1 of a persistent tensor, or of the arena with tensor -1.
typedef struct Area {
  int32_t tensor;
  int64_t first, end;
} Area;

typedef struct Areas {
  VEC(Area) list;
} Areas;

typedef struct Joining {
  Arena *a;
  const Compiled *c;
  struct MessagePart *const *messages;
  uint32_t instr; // the instruction whose references are visited
  Areas *of;      // by instruction: what it accesses
} Joining;

// Returns the memory of the buffers that contain byte `at` of the arena and are in use at the
// current instruction: from the first of their bytes to the last. Without such a buffer it is the
// whole arena, so that nothing is missed.
static Area buffer_around(const Joining *j, int64_t at) {
  Area out = {-1, INT64_MAX, 0};
  for (uint32_t i = 0; i < j->c->nbuffers; i++) {
    const PlanBuffer *b = &j->c->buffer[i];
    bool inside = at >= b->offset && at < b->offset + (b->bytes > 0 ? b->bytes : 1);
    if (!inside || j->instr < b->first || j->instr > b->last) continue;
    if (b->offset < out.first) out.first = b->offset;
    if (b->offset + b->bytes > out.end) out.end = b->offset + b->bytes;
  }
  return out.end ? out : (Area){-1, 0, INT64_MAX};
}

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

uint32_t *gpu_joins(Arena *a, const Compiled *c, struct MessagePart *const *messages) {
  const Program *p = c->program;
  uint32_t *out = arena_array(a, uint32_t, p->ninstrs + 1);
  Joining j = {.a = a, .c = c, .messages = messages, .of = arena_array(a, Areas, p->ninstrs + 1)};
  for (; j.instr < p->ninstrs; j.instr++) {
    Instr *in = &p->instr[j.instr];
    instr_refs(in, in->kind == INSTR_KERNEL ? p->kernel[in->u.kernel.kernel].nptr : 0, take_ref,
               &j);
  }
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (messages[i]) out[i] = join_of(&j, i);
  return out;
}
