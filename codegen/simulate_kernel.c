// How much a kernel does and touches: its statements times the rounds of their loops.
#include "codegen/simulate_rules.h"

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

// -- bytes -------------------------------------------------------------------------------------------------

static bool is_indirect(const Kernel *k, int ptr, double *times, const double *extent) {
  int loops = k->nouter + k->ninner;
  *times = 0;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if ((s->kind != K_LOAD_AT && s->kind != K_SCATTER) || s->index != ptr) continue;
    double of_statement = s->level == LEVEL_PROLOGUE ? 1 : rounds(extent, 0, s->level == LEVEL_OUTER ? k->nouter : loops);
    *times += s->kind == K_SCATTER ? 2 * of_statement : of_statement;
  }
  return *times > 0;
}

Reached kernel_reach(const Kernel *k, int ptr, const double *extent) {
  const KPtr *p = &k->ptr[ptr];
  double elements = 1, last = 0, times, bytes = (double)dtype_bytes(p->type);
  if (is_indirect(k, ptr, &times, extent)) return (Reached){.bytes = times * bytes, .indirect = true};
  for (int i = 0; i < k->nouter + k->ninner; i++) {
    if (!p->stride[i]) continue;
    if (extent[i] < 1) return (Reached){0};
    elements *= extent[i];
    last += (extent[i] - 1) * (double)(p->stride[i] < 0 ? -p->stride[i] : p->stride[i]);
  }
  if (elements > last + 1) elements = last + 1; // places of a window overlap
  return (Reached){.span = (int64_t)(last + 1) * dtype_bytes(p->type), .bytes = elements * bytes};
}

static int64_t buffer_room(const Compiled *c, int64_t offset) {
  int64_t room = 0;
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *b = &c->buffer[i];
    if (b->offset <= offset && offset < b->offset + b->bytes && b->offset + b->bytes - offset > room)
      room = b->offset + b->bytes - offset;
  }
  return room ? room : c->program->arena_bytes - offset;
}

int64_t sim_room(const Sim *s, Ref r) {
  int64_t at = sim_place(s, r);
  return r.tensor < 0 ? buffer_room(s->c, at) : s->p->tensor[r.tensor].bytes - at;
}

// -- operations --------------------------------------------------------------------------------------------

// Of what takes longer than an addition: about as many.
static const struct { Op op; double simple; } dear[] = {
    {OP_EXP, 12},    {OP_LOG, 14},    {OP_LOG1P, 16},  {OP_EXPM1, 14},     {OP_SQRT, 6},        {OP_RSQRT, 8},
    {OP_SIN, 16},    {OP_COS, 16},    {OP_TANH, 16},   {OP_SIGMOID, 14},   {OP_ERF, 20},        {OP_SOFTPLUS, 26},
    {OP_RECIPROCAL, 4}, {OP_DIV, 4},  {OP_POW, 40},    {OP_MOD, 12},       {OP_FLOOR_DIV, 8},   {OP_BOUND, 4},
    {OP_RANDOM_UNIFORM, 60}, {OP_RANDOM_NORMAL, 100}, {OP_ARG_KEY, 4},
};

static double op_cost(Op op) {
  for (size_t i = 0; i < countof(dear); i++)
    if (dear[i].op == op) return dear[i].simple;
  return 1;
}

// Elements one by one where they do not stand side by side along the vector loop.
static double load_cost(const Kernel *k, int ptr) {
  int64_t stride = k->vector >= 0 ? k->ptr[ptr].stride[k->vector] : 0;
  return stride == 0 || stride == 1 ? 0.5 : LANES;
}

static double stmt_cost(const Kernel *k, const KStmt *s) {
  switch (s->kind) {
  case K_NUM: return 0;
  case K_LOAD: return load_cost(k, s->index);
  case K_STORE: return 2 * load_cost(k, s->index);
  case K_LOAD_AT: return LANES;
  case K_SCATTER: return 2 * LANES;
  case K_POSITION: return 1;
  case K_QUOTIENT: return 12;
  case K_INSIDE: return 2;
  case K_REDUCE: return 1;
  case K_ACCUM: return 3;
  case K_OP: return op_cost(s->op);
  }
  BUG("a statement of kind %d", (int)s->kind);
}

static double type_cost(Dtype t) { return dtype_bytes(t) > 4 ? 2 : 1; }

// Vectors in the rounds of a level, the vector loop in whole ones; without one each element is a vector.
static double vectors(const Kernel *k, const double *extent, int loops) {
  double n = rounds(extent, 0, loops);
  if (k->vector < 0 || k->vector >= loops || extent[k->vector] < 1) return n;
  return n / extent[k->vector] * (double)ceil_div((int64_t)extent[k->vector], LANES);
}

double kernel_operations(const Kernel *k, const double *extent) {
  enum { A_ROUND = 6 }; // vector operations around an inner loop: its counters, and the sum over a vector
  double outer = vectors(k, extent, k->nouter), inner = vectors(k, extent, k->nouter + k->ninner), all = 0;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    double times = s->level == LEVEL_INNER ? inner : s->level == LEVEL_OUTER ? outer : 1;
    all += times * stmt_cost(k, s) * type_cost(s->type);
  }
  if (k->ninner) all += A_ROUND * outer * k->nphases;
  return all * LANES;
}
