// How much a kernel does and touches: its statements times the rounds of their loops.
#include "codegen/simulate/simulate_internal.h"

void sim_extents(const Sim *s, const Kernel *k, const KernelSet *set, double extent[MAX_LOOPS]) {
  for (int i = 0; i < k->nouter + k->ninner; i++) {
    const KLoop *l = &k->loop[i];
    int32_t slot = l->slot >= 0 ? set->slot[l->slot] : -1;
    extent[i] = slot >= 0 ? (double)program_slot(s->p, slot, 0, -1) : (double)l->size;
  }
}

static double rounds(const double *extent, int lo, int hi) {
  double n = 1;
  for (int i = lo; i < hi; i++) n *= extent[i];
  return n;
}

// -- bytes --------------------------------------------------------------------------------------

static bool is_indirect(const Kernel *k, int ptr, double *times, const double *extent) {
  int loops = k->nouter + k->ninner;
  *times = 0;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if ((s->kind != K_LOAD_AT && s->kind != K_SCATTER) || s->index != ptr) continue;
    double of_statement = s->level == LEVEL_PROLOGUE
                              ? 1
                              : rounds(extent, 0, s->level == LEVEL_OUTER ? k->nouter : loops);
    *times += s->kind == K_SCATTER ? 2 * of_statement : of_statement;
  }
  return *times > 0;
}

PointerSpan kernel_pointer_span(const Kernel *k, int ptr, const double *extent) {
  const KPtr *p = &k->ptr[ptr];
  double elements = 1, last = 0, times, bytes = (double)dtype_bytes(p->type);
  if (is_indirect(k, ptr, &times, extent))
    return (PointerSpan){.bytes = times * bytes, .indirect = true};
  for (int i = 0; i < k->nouter + k->ninner; i++) {
    if (!p->stride[i]) continue;
    if (extent[i] < 1) return (PointerSpan){0};
    elements *= extent[i];
    last += (extent[i] - 1) * (double)(p->stride[i] < 0 ? -p->stride[i] : p->stride[i]);
  }
  if (elements > last + 1) elements = last + 1; // places of a window overlap
  return (PointerSpan){.span = (int64_t)(last + 1) * dtype_bytes(p->type),
                       .bytes = elements * bytes};
}

static int64_t buffer_room(const Compiled *c, int64_t offset) {
  int64_t room = 0;
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *b = &c->buffer[i];
    if (b->offset <= offset && offset < b->offset + b->bytes &&
        b->offset + b->bytes - offset > room)
      room = b->offset + b->bytes - offset;
  }
  return room ? room : c->program->arena_bytes - offset;
}

int64_t sim_bytes_from(const Sim *s, Ref r) {
  int64_t at = sim_offset(s, r);
  return r.tensor < 0 ? buffer_room(s->c, at) : s->p->tensor[r.tensor].bytes - at;
}

// -- operations ---------------------------------------------------------------------------------

typedef uint32_t Loops; // bits
_Static_assert(MAX_LOOPS <= 32, "loops fit a set");

static Loops moved_along(const KPtr *p, int loops) {
  Loops out = 0;
  for (int i = 0; i < loops; i++)
    if (p->stride[i]) out |= (Loops)1 << i;
  return out;
}

// The loops in each of whose rounds a statement has another value: compilers take it out of the
// others.
static Loops loops_of(const Kernel *k, const KStmt *s, const Loops *of) {
  int loops = k->nouter + k->ninner;
  Loops out = 0;
  for (int i = 0; i < 3; i++)
    if (s->arg[i] != NO_STMT) out |= of[s->arg[i]];
  switch (s->kind) {
  case K_NUM: return 0;
  case K_LOAD:
  case K_LOAD_AT:
  case K_STORE:
  case K_SCATTER: return out | moved_along(&k->ptr[s->index], loops);
  case K_POSITION: return out | moved_along(&k->walk[s->index], loops);
  case K_ACCUM:
  case K_REDUCE: return ((Loops)1 << (s->level == LEVEL_INNER ? loops : k->nouter)) - 1;
  case K_QUOTIENT:
  case K_INSIDE: return out;
  case K_OP: return s->op == OP_INDEX ? out | (Loops)1 << s->index : out;
  }
  BUG("a statement of kind %d", (int)s->kind);
}

// What a sum over inner loops is worth to those behind it.
static Loops loops_behind(const Kernel *k, const KStmt *s, Loops own) {
  return s->kind == K_REDUCE ? own & (((Loops)1 << k->nouter) - 1) : own;
}

static bool along_vector(const Kernel *k, Loops of) {
  return k->vector >= 0 && (of >> k->vector & 1);
}

// Elements one by one where they do not stand side by side along the vector loop.
static double access_cost(const Kernel *k, const KStmt *s, const Loops *of) {
  int64_t stride = k->vector >= 0 ? k->ptr[s->index].stride[k->vector] : 0;
  int32_t place = s->kind == K_LOAD_AT ? s->arg[0] : s->kind == K_SCATTER ? s->arg[1] : NO_STMT;
  bool together = (stride == 0 || stride == 1) && (place == NO_STMT || !along_vector(k, of[place]));
  double cost = together ? 0.5 : LANES;
  return s->kind == K_STORE     ? 2 * cost
         : s->kind == K_SCATTER ? 4 * cost
         : s->kind == K_LOAD_AT ? cost + 0.5
                                : cost;
}

static double stmt_cost(const Kernel *k, const KStmt *s, const Loops *of) {
  switch (s->kind) {
  case K_NUM: return 0;
  case K_LOAD:
  case K_STORE:
  case K_LOAD_AT:
  case K_SCATTER: return access_cost(k, s, of);
  case K_POSITION: return 1;
  case K_QUOTIENT: return 3; // by a constant
  case K_INSIDE: return 2;
  case K_REDUCE: return 1;
  case K_ACCUM: return 3;
  case K_OP: return op_row(s->op)->cost;
  }
  BUG("a statement of kind %d", (int)s->kind);
}

static double type_cost(Dtype t) { return dtype_bytes(t) > 4 ? 2 : 1; }

// Vectors (or single elements) that a statement of these loops computes: those around its innermost
// one go round too. The rounds of a register tile share what is the same in all of them.
static double vectors(const Kernel *k, const double *extent, Loops of) {
  double n = 1;
  int deepest = -1;
  for (int i = 0; i < k->nouter + k->ninner; i++)
    if (of >> i & 1) deepest = i;
  for (int i = 0; i <= deepest; i++)
    n *= i == k->vector ? (double)ceil_div((int64_t)extent[i], LANES) : extent[i];
  bool shared = k->rows >= 0 && k->rows < deepest && !(of >> k->rows & 1);
  return shared ? n / clamp64((int64_t)extent[k->rows], 1, TILE) : n;
}

// A product that is only summed is one instruction with the addition.
static bool is_fused(const Kernel *k, int stmt) {
  bool summed = false;
  for (int i = stmt + 1; i < k->nstmts && k->stmt[stmt].kind == K_OP && k->stmt[stmt].op == OP_MUL;
       i++)
    for (int a = 0; a < 3; a++) {
      if (k->stmt[i].arg[a] != stmt) continue;
      if (k->stmt[i].kind != K_REDUCE || k->stmt[i].op != OP_SUM) return false;
      summed = true;
    }
  return summed;
}

// A vector loop of less than a vector is all masks.
static bool has_parts(const Kernel *k, const double *extent) {
  return k->vector >= 0 && extent[k->vector] < LANES;
}

static bool is_access(const KStmt *s) { return s->kind == K_LOAD || s->kind == K_STORE; }

double kernel_operations(Arena *scratch, const Kernel *k, const double *extent) {
  enum {
    A_ROUND = 6,
    ACROSS = 10
  }; // vector operations around an inner loop, and within one vector
  ArenaMark mark = arena_mark(scratch);
  Loops *of = arena_array(scratch, Loops, k->nstmts + 1), outer = ((Loops)1 << k->nouter) - 1;
  double all = 0, apart = has_parts(k, extent) ? PART : 0; // every access to a part of a vector
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    Loops own = loops_of(k, s, of);
    of[i] = loops_behind(k, s, own);
    if (is_fused(k, i)) continue;
    double each = stmt_cost(k, s, of) + (is_access(s) && along_vector(k, own) ? apart : 0);
    if (s->kind == K_REDUCE && along_vector(k, own & ~outer))
      all += ACROSS * vectors(k, extent, outer);
    all += vectors(k, extent, own) * (along_vector(k, own) ? each * type_cost(s->type) : each / 2);
  }
  if (k->ninner) all += A_ROUND * vectors(k, extent, outer) * k->nphases;
  arena_reset(scratch, mark);
  return all * LANES;
}

int64_t sim_offset(const Sim *s, Ref r) { return r.offset + ref_moved(r, s->depth, s->at); }
