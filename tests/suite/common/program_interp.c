// A reference interpreter of Programs.
//
// Each chunk starts from fresh accumulators, chunks are combined in order, and the units of one
// launch run in order. An update in place that reads what an earlier unit wrote gives a wrong
// number.
#include "tests/suite/common/program_interp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/local/comm.h"
#include "ir/base/philox.h"
#include "ir/eval/eval_rules.h"
#include "runtime/exec/matrix_internal.h"

struct Interp {
  Arena *a;
  const Compiled *c;
  const Program *p;
  int64_t processors, rows, step;
  char **memory;  // arena of each processor, with a guard zone after it
  char ***tensor; // tensor[r][t]: block of a persistent tensor
  int64_t *slot;  // slot[s * processors + r]
  Comm *comm;
  uint64_t sequence;
  Status status;
  int depth; // number of loops around the current instruction
  int64_t at[LOOP_DEPTH];
  InterpLaunch *launch; // what runs kernels; NULL: the interpreter
  void *context;        // its argument
  Graph fake;           // an argument of eval_scalar, which does not use it
  char why[300];
};

static void *poison(int64_t bytes) {
  void *p = malloc((size_t)(bytes > 0 ? bytes : 1));
  if (!p) abort();
  memset(p, 0xff, (size_t)(bytes > 0 ? bytes : 1));
  return p;
}

// Reads one element. Keys of argmax are bits, not numbers.
static double load(Dtype t, const char *p) {
  double x;
  if (t != TYPE_U64) return dtype_load(t, p);
  memcpy(&x, p, sizeof x);
  return x;
}
static void store(Dtype t, char *p, double x) {
  if (t == TYPE_U64)
    memcpy(p, &x, sizeof x);
  else
    dtype_store(t, p, dtype_round(t, x));
}

Interp *interp_new(Arena *a, const Compiled *c) {
  Interp *in = arena_new_of(a, Interp);
  const Program *p = c->program;
  in->a = a;
  in->c = c;
  in->p = p;
  in->processors = mesh_size(&p->mesh);
  in->memory = arena_array(a, char *, in->processors);
  in->tensor = arena_array(a, char **, in->processors);
  in->slot = arena_array(a, int64_t, (int64_t)p->nslots * in->processors + 1);
  in->comm = comm_local(&p->mesh, 1);
  for (int64_t r = 0; r < in->processors; r++) {
    in->memory[r] = poison(p->arena_bytes);
    in->tensor[r] = arena_array(a, char *, p->ntensors + 1);
    for (uint32_t t = 0; t < p->ntensors; t++)
      if (p->tensor[t].at.tensor == (int32_t)t) in->tensor[r][t] = poison(p->tensor[t].bytes);
  }
  return in;
}

void interp_free(Interp *in) {
  for (int64_t r = 0; r < in->processors; r++) {
    free(in->memory[r]);
    for (uint32_t t = 0; t < in->p->ntensors; t++) free(in->tensor[r][t]);
  }
  comm_free(in->comm);
}

static char *address(const Interp *in, int64_t r, Ref ref) {
  int64_t offset = ref.offset + ref_moved(ref, in->depth, in->at);
  return ref.tensor >= 0 ? in->tensor[r][ref.tensor] + offset : in->memory[r] + offset;
}
static int64_t slot(const Interp *in, int32_t s, int64_t r) {
  return in->slot[(int64_t)s * in->processors + r];
}
static int64_t size(const Interp *in, Size s, int64_t r) {
  return s.slot < 0 ? s.base : s.base * slot(in, s.slot, r);
}

static void bind_slots(Interp *in) {
  for (uint32_t s = 0; s < in->p->nslots; s++)
    for (int64_t r = 0; r < in->processors; r++)
      in->slot[(int64_t)s * in->processors + r] = program_slot(in->p, (int32_t)s, r, in->rows);
}

// -- whole tensors ------------------------------------------------------------------------------

static void block_of(const Mesh *m, const ProgDim *d, int64_t r, int64_t *offset, int64_t *valid) {
  int64_t length = d->whole;
  *offset = 0;
  *valid = d->whole;
  for (int i = 0; i < d->axes.n; i++) {
    length = ceil_div(length, m->axis[d->axes.at[i]].size);
    int64_t from = mesh_coord(m, r, d->axes.at[i]) * length;
    *offset += from;
    *valid = clamp64(*valid - from, 0, length);
  }
}

// Calls back for every valid element of processor r's block, with its position in the block and in
// the whole tensor.
static void each(Interp *in, const ProgTensor *t, int64_t r, double *whole, bool write) {
  int64_t offset[MAX_RANK], valid[MAX_RANK], stride[MAX_RANK], at[MAX_RANK] = {0},
                                                               whole_stride[MAX_RANK], n = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    block_of(&in->p->mesh, &t->dim[i], r, &offset[i], &valid[i]);
    stride[i] = i == t->rank - 1 ? 1 : stride[i + 1] * t->dim[i + 1].block;
    n *= valid[i];
  }
  int64_t s = 1;
  for (int k = t->rank - 1; k >= 0; k--) {
    whole_stride[t->declared[k]] = s;
    s *= t->dim[t->declared[k]].whole;
  }
  char *base = address(in, r, t->at);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = 0, to = 0;
    for (int k = 0; k < t->rank; k++) {
      from += (offset[k] + at[k]) * whole_stride[k];
      to += at[k] * stride[k];
    }
    if (write)
      store(t->type, base + to * dtype_bytes(t->type), whole[from]);
    else
      whole[from] = load(t->type, base + to * dtype_bytes(t->type));
    for (int k = t->rank - 1; k >= 0 && ++at[k] == valid[k]; k--) at[k] = 0;
  }
}

static bool whole_tensor(Interp *in, TensorKind kind, const char *name, double *whole, bool write) {
  int32_t t = program_tensor(in->p, kind, name);
  if (t < 0) return false;
  for (int64_t r = 0; r < in->processors; r++) each(in, &in->p->tensor[t], r, whole, write);
  return true;
}
bool interp_write(Interp *in, TensorKind kind, const char *name, const double *whole) {
  int32_t t = program_tensor(in->p, kind, name);
  int64_t n = 1;
  for (int i = 0; t >= 0 && i < in->p->tensor[t].rank; i++) n *= in->p->tensor[t].dim[i].whole;
  return whole_tensor(in, kind, name, arena_copy(in->a, whole, (size_t)n * sizeof *whole), true);
}
bool interp_read(Interp *in, TensorKind kind, const char *name, double *whole) {
  return whole_tensor(in, kind, name, whole, false);
}

static void constants(Interp *in) {
  for (uint32_t i = 0; i < in->p->ntensors; i++) {
    const ProgTensor *t = &in->p->tensor[i];
    if (t->kind != TENSOR_CONSTANT) continue;
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->dim[k].whole;
    double *data = arena_copy(in->a, t->data, (size_t)n * sizeof *data);
    for (int64_t r = 0; r < in->processors; r++) each(in, t, r, data, true);
  }
}

// -- kernels ------------------------------------------------------------------------------------

typedef struct Run {
  Interp *in;
  const Kernel *k;
  const KernelSet *set;
  int64_t r, extent[MAX_LOOPS], at[MAX_LOOPS];
  double *value;    // current value of each statement
  double *acc;      // current value of each reduction
  double **partial; // of each accumulator: elements by address along inner loops
  int64_t *partial_n;
} Run;

static double neutral(Op op, Dtype t) {
  switch (op) {
  case OP_SUM:
  case OP_ANY: return 0;
  case OP_PROD:
  case OP_ALL: return 1;
  case OP_MAX:
  case OP_MIN: {
    if (t == TYPE_U64) return key_double(op == OP_MAX ? 0 : UINT64_MAX);
    return monoid_identity(op == OP_MAX ? MONOID_MAX : MONOID_MIN, t);
  }
  default: BUG("no neutral element of %s", op_row(op)->text);
  }
}

static double combine(Op op, Dtype t, double x, double y) {
  switch (op) {
  case OP_SUM: return dtype_is_float(t) ? x + y : int_wrap(t, (int64_t)x + (int64_t)y);
  case OP_PROD:
    return dtype_is_float(t) ? x * y
                             : int_wrap(t, (int64_t)((uint64_t)(int64_t)x * (uint64_t)(int64_t)y));
  case OP_ANY: return x != 0 || y != 0;
  case OP_ALL: return x != 0 && y != 0;
  case OP_MAX:
  case OP_MIN:
    if (t == TYPE_U64) return (key_bits(x) > key_bits(y)) == (op == OP_MAX) ? x : y;
    if (isnan(x) || isnan(y)) return (double)NAN;
    return (x > y) == (op == OP_MAX) ? x : y;
  default: BUG("no combination %s", op_row(op)->text);
  }
}

static int loops(const Kernel *k) { return k->nouter + k->ninner; }

static int64_t walked(const Run *u, const KPtr *p) {
  int64_t e = p->offset;
  for (int i = 0; i < loops(u->k) + u->k->ndots; i++) e += p->stride[i] * u->at[i];
  for (int i = 0; i < p->nbases; i++)
    e += p->base[i].stride * slot(u->in, u->set->slot[p->base[i].slot], u->r);
  return e;
}

static char *element_of(const Run *u, int ptr, int64_t more) {
  const KPtr *p = &u->k->ptr[ptr];
  return address(u->in, u->r, u->set->ptr[ptr]) + (walked(u, p) + more) * dtype_bytes(p->type);
}

static char *element(const Run *u, const KStmt *s, int64_t more) {
  return element_of(u, s->index, more);
}

static double bound(Run *u, const KStmt *s) {
  double x = u->value[s->arg[0]];
  if (x >= 0 && x < (double)s->step) return x;
  if (!u->in->status.code) {
    int64_t position = 0;
    int n = s->level == LEVEL_INNER ? loops(u->k) : s->level == LEVEL_OUTER ? u->k->nouter : 0;
    for (int i = 0; i < n; i++) position = position * u->k->loop[i].size + u->at[i];
    u->in->status = (Status){(uint32_t)u->set->num[s->index], (int64_t)x, position};
  }
  return x < 0 ? 0 : (double)(s->step - 1);
}

static double drawn(const Run *u, const KStmt *s) {
  uint32_t w[4];
  uint64_t key = (uint64_t)u->set->num[s->index] | (uint64_t)u->set->num[s->index + 1] << 32;
  philox_words(key, 0, (int64_t)u->value[s->arg[0]], u->in->step, 0, w);
  return s->op == OP_RANDOM_UNIFORM ? philox_uniform(w, s->type == TYPE_F64)
                                    : philox_normal(w, s->type == TYPE_F64);
}

static double operation(Run *u, const KStmt *s) {
  Cell x[3];
  Dtype type[3] = {TYPE_F32};
  if (s->op == OP_STEP) return (double)u->in->step;
  if (s->op == OP_INDEX)
    return (double)(u->at[s->index] +
                    (s->slot >= 0 ? slot(u->in, u->set->slot[s->slot], u->r) : 0));
  if (s->op == OP_BOUND) return bound(u, s);
  if (s->op == OP_TO_PARTIAL)
    return slot(u->in, u->set->slot[s->slot], u->r) == 0 ? u->value[s->arg[0]] : 0;
  if (op_is_draw((Op)s->op)) return drawn(u, s);
  int n = op_row(s->op)->nargs;
  for (int i = 0; i < n; i++) {
    x[i] = (Cell){u->value[s->arg[i]], 0, false};
    type[i] = u->k->stmt[s->arg[i]].type;
  }
  Node node = {.op = (uint16_t)s->op, .type = (uint8_t)s->type, .nargs = (uint8_t)n};
  double y = eval_scalar(&u->in->fake, &node, type, x).v;
  bool rounds = s->op == OP_CAST ? s->type != TYPE_U64 : stmt_rounds(s);
  return rounds ? dtype_round(s->type, y) : y;
}

// Returns the position of the current inner iteration in an accumulator's row.
static int64_t row_place(const Run *u, const KPtr *p) {
  int64_t at = 0;
  for (int i = u->k->nouter; i < loops(u->k); i++)
    if (p->stride[i]) at = at * u->k->loop[i].size + u->at[i];
  return at;
}

static bool guarded_off(const Run *u, const KStmt *s) {
  return s->arg[1] != NO_STMT && u->value[s->arg[1]] == 0;
}

static double position(const Run *u, const KStmt *s) {
  double x = (double)walked(u, &u->k->walk[s->index]);
  if (s->arg[0] != NO_STMT) x += u->value[s->arg[0]] * (double)s->step;
  return s->arg[1] != NO_STMT ? x + u->value[s->arg[1]] : x;
}

static bool inside(const Run *u, const KStmt *s) {
  int64_t limit = s->slot >= 0 ? slot(u->in, u->set->slot[s->slot], u->r) : s->step;
  double x = u->value[s->arg[0]];
  return x >= 0 && x < (double)limit && !guarded_off(u, s);
}

// Returns the sum of a K_DOT over the dot loops along which its pointers move.
static double dot(Run *u, const KStmt *s) {
  const Kernel *k = u->k;
  const KPtr *a = &k->ptr[s->index], *b = &k->ptr[s->other];
  double sum = 0;
  int64_t rounds = 1, first = loops(k);
  for (int64_t l = first; l < first + k->ndots; l++)
    if (a->stride[l] || b->stride[l]) rounds *= u->extent[l];
  for (int64_t i = 0; i < rounds; i++) {
    int64_t rest = i;
    for (int64_t l = first; l < first + k->ndots; l++) {
      bool moves = a->stride[l] || b->stride[l];
      u->at[l] = moves ? rest % u->extent[l] : 0;
      if (moves) rest /= u->extent[l];
    }
    sum += load(a->type, element_of(u, s->index, 0)) * load(b->type, element_of(u, s->other, 0));
  }
  return sum;
}

static void execute(Run *u, int i) {
  const KStmt *s = &u->k->stmt[i];
  switch (s->kind) {
  case K_NUM: u->value[i] = dtype_round(s->type, u->set->num[s->index]); break;
  case K_LOAD: u->value[i] = guarded_off(u, s) ? 0 : load(s->type, element(u, s, 0)); break;
  case K_LOAD_AT:
    u->value[i] = guarded_off(u, s)
                      ? 0
                      : load(s->type, element(u, s, (int64_t)u->value[s->arg[0]] * s->step));
    break;
  case K_DOT: u->value[i] = dot(u, s); break;
  case K_POSITION: u->value[i] = position(u, s); break;
  case K_QUOTIENT: u->value[i] = (double)((int64_t)u->value[s->arg[0]] / s->step); break;
  case K_INSIDE: u->value[i] = inside(u, s); break;
  case K_OP: u->value[i] = operation(u, s); break;
  case K_REDUCE: u->acc[i] = combine(s->op, s->type, u->acc[i], u->value[s->arg[0]]); break;
  case K_ACCUM: {
    double *x = &u->partial[i][row_place(u, &u->k->ptr[s->index])];
    *x = combine(s->op, s->type, *x, u->value[s->arg[0]]);
    break;
  }
  case K_STORE: store(s->type, element(u, s, 0), u->value[s->arg[0]]); break;
  case K_SCATTER: {
    char *to = element(u, s, (int64_t)u->value[s->arg[1]] * s->step);
    store(s->type, to, combine(s->op, s->type, load(s->type, to), u->value[s->arg[0]]));
    break;
  }
  }
}

static void statements(Run *u, KLevel level, int phase) {
  for (int i = 0; i < u->k->nstmts; i++)
    if (u->k->stmt[i].level == level && u->k->stmt[i].phase == phase) execute(u, i);
}

static void inner(Run *u, int phase) {
  int64_t n = 1;
  for (int i = u->k->nouter; i < loops(u->k); i++) {
    n *= u->extent[i];
    u->at[i] = 0;
  }
  for (int i = 0; i < u->k->nstmts; i++) {
    const KStmt *s = &u->k->stmt[i];
    if (s->kind == K_REDUCE && s->phase == phase) u->acc[i] = neutral(s->op, s->type);
  }
  for (int64_t c = 0; c < n; c++) {
    statements(u, LEVEL_INNER, phase);
    for (int i = loops(u->k) - 1; i >= u->k->nouter && ++u->at[i] == u->extent[i]; i--)
      u->at[i] = 0;
  }
  for (int i = 0; i < u->k->nstmts; i++)
    if (u->k->stmt[i].kind == K_REDUCE && u->k->stmt[i].phase == phase) u->value[i] = u->acc[i];
}

static bool outer_vector(const Kernel *k) { return k->vector >= 0 && k->vector < k->nouter; }

static int64_t unit_count(const Run *u) {
  int64_t n = 1;
  for (int i = 0; i < u->k->nouter; i++)
    n *= i == u->k->vector ? ceil_div(u->extent[i], u->k->block) : u->extent[i];
  return n;
}

static void unit(Run *u, int64_t number) {
  const Kernel *k = u->k;
  int64_t first = 0, last = 1;
  for (int i = k->nouter - 1; i >= 0; i--) {
    int64_t n = i == k->vector ? ceil_div(u->extent[i], k->block) : u->extent[i];
    u->at[i] = number % n;
    number /= n;
  }
  if (outer_vector(k)) {
    first = u->at[k->vector] * k->block;
    last = first + k->block < u->extent[k->vector] ? first + k->block : u->extent[k->vector];
  }
  for (int64_t v = first; v < last; v++) {
    if (outer_vector(k)) u->at[k->vector] = v;
    for (int ph = 0; ph < k->nphases; ph++) {
      statements(u, LEVEL_OUTER, ph);
      inner(u, ph);
    }
  }
}

static void rows_reset(Run *u, double **rows) {
  for (int i = 0; i < u->k->nstmts; i++)
    for (int64_t j = 0; rows[i] && j < u->partial_n[i]; j++)
      rows[i][j] = neutral(u->k->stmt[i].op, u->k->stmt[i].type);
}

static void write_row(Run *u, int i, const double *row) {
  const KStmt *s = &u->k->stmt[i];
  const KPtr *p = &u->k->ptr[s->index];
  int64_t n = 1;
  for (int l = 0; l < loops(u->k); l++) u->at[l] = 0;
  for (int l = u->k->nouter; l < loops(u->k); l++) n *= p->stride[l] ? u->extent[l] : 1;
  for (int64_t c = 0; c < n; c++) {
    store(p->type, element(u, s, 0), row[row_place(u, p)]);
    for (int l = loops(u->k) - 1; l >= u->k->nouter; l--) {
      if (!p->stride[l]) continue;
      if (++u->at[l] < u->extent[l]) break;
      u->at[l] = 0;
    }
  }
}

static void run_set(Run *u, const KernelLaunch *l, Arena *scratch) {
  const Kernel *k = u->k;
  double **total = arena_array(scratch, double *, k->nstmts + 1);
  u->value = arena_array(scratch, double, k->nstmts + 1);
  u->acc = arena_array(scratch, double, k->nstmts + 1);
  u->partial = arena_array(scratch, double *, k->nstmts + 1);
  u->partial_n = arena_array(scratch, int64_t, k->nstmts + 1);
  for (int i = 0; i < loops(k) + k->ndots; i++)
    u->extent[i] =
        k->loop[i].slot < 0 ? k->loop[i].size : slot(u->in, u->set->slot[k->loop[i].slot], u->r);
  for (int i = 0; i < k->nstmts; i++) {
    if (k->stmt[i].kind != K_ACCUM) continue;
    int64_t n = 1;
    for (int j = k->nouter; j < loops(k); j++)
      n *= k->ptr[k->stmt[i].index].stride[j] ? k->loop[j].size : 1;
    u->partial_n[i] = n;
    u->partial[i] = arena_array(scratch, double, n);
    total[i] = arena_array(scratch, double, n);
  }
  rows_reset(u, total);
  int64_t units = size(u->in, u->set->units, u->r);
  if (units != unit_count(u))
    snprintf(u->in->why, sizeof u->in->why, "kernel %s has %lld units, its set says %lld", k->name,
             (long long)unit_count(u), (long long)units);
  for (int64_t lo = 0; lo < units; lo += l->grain) {
    rows_reset(u, u->partial);
    statements(u, LEVEL_PROLOGUE, 0);
    for (int64_t n = lo; n < units && n < lo + l->grain; n++) unit(u, n);
    for (int i = 0; i < k->nstmts; i++)
      for (int64_t j = 0; total[i] && j < u->partial_n[i]; j++)
        total[i][j] = combine(k->stmt[i].op, k->stmt[i].type, total[i][j], u->partial[i][j]);
  }
  for (int i = 0; i < k->nstmts; i++)
    if (total[i]) write_row(u, i, total[i]);
}

static void run_elsewhere(Interp *in, const KernelLaunch *l, int64_t r, Arena *scratch) {
  const Kernel *k = in->c->kernels[l->kernel];
  GpuSet *set = arena_array(scratch, GpuSet, l->nsets);
  for (uint32_t s = 0; s < l->nsets; s++) {
    const KernelSet *from = &l->set[s];
    void **ptr = arena_array(scratch, void *, k->nptr + 1);
    int64_t *slots = arena_array(scratch, int64_t, k->nslots + 1);
    for (int i = 0; i < k->nptr; i++) ptr[i] = address(in, r, from->ptr[i]);
    for (int i = 0; i < k->nslots; i++) slots[i] = slot(in, from->slot[i], r);
    set[s] =
        (GpuSet){.ptr = ptr, .slot = slots, .num = from->num, .units = size(in, from->units, r)};
  }
  in->launch(in->context, l->kernel, l->grain, l->nsets, set);
  for (uint32_t s = 0; s < l->nsets; s++)
    if (!in->status.code) in->status = set[s].status;
}

void interp_launch_by(Interp *in, InterpLaunch *launch, void *context) {
  in->launch = launch;
  in->context = context;
}

void *interp_memory(const Interp *in, int64_t r, int32_t t, int64_t *bytes) {
  *bytes = t < 0 ? in->p->arena_bytes : in->p->tensor[t].bytes;
  return t < 0 ? in->memory[r] : in->tensor[r][t];
}

static void run_kernel(Interp *in, const KernelLaunch *l, int64_t r) {
  Arena *scratch = arena_new();
  if (in->launch) {
    run_elsewhere(in, l, r, scratch);
    arena_free(scratch);
    return;
  }
  for (uint32_t s = 0; s < l->nsets; s++) {
    Run u = {.in = in, .k = in->c->kernels[l->kernel], .set = &l->set[s], .r = r};
    run_set(&u, l, scratch);
  }
  arena_free(scratch);
}

// -- products and collectives -------------------------------------------------------------------

// Applies the epilogue of a product to a sum that belongs to element `at` of C, in column `column`.
static double finish_element(Interp *in, const Gemm *p, int64_t r, int64_t at, int64_t column,
                             double sum) {
  char *place[GEMM_EXTRAS] = {0};
  double x[GEMM_EXTRAS] = {0};
  if (!p->epilogue) return sum;
  for (int i = 0; i < GEMM_EXTRAS; i++) {
    if (!gemm_extra(p, i)) continue;
    place[i] =
        address(in, r, *gemm_extra(p, i)) + dtype_bytes(p->type) * (i == GEMM_BIAS ? column : at);
    if (!gemm_writes_extra(p, i)) x[i] = load(p->type, place[i]);
  }
  double v = sum + x[GEMM_ADDEND] + x[GEMM_BIAS];
  if (gemm_writes_extra(p, GEMM_AUX)) store(p->type, place[GEMM_AUX], v);
  return gemm_act(p->epilogue->act, v, x[GEMM_AUX]);
}

static void run_gemm(Interp *in, const Gemm *p, int64_t r) {
  int64_t m = size(in, p->m, r), n = size(in, p->n, r), k = size(in, p->k, r), batches = 1,
          at[MAX_RANK] = {0};
  int64_t count[MAX_RANK], bytes = dtype_bytes(p->factors), to = dtype_bytes(p->type);
  if (p->lda < 1 || p->ldb < 1 || p->ldc < n || p->lda < (p->ta ? m : k) ||
      p->ldb < (p->tb ? k : n))
    snprintf(in->why, sizeof in->why, "a leading dimension is shorter than its row");
  for (int i = 0; i < p->nbatch; i++) batches *= count[i] = size(in, p->batch[i].count, r);
  for (int64_t b = 0; b < batches; b++) {
    int64_t a0 = 0, b0 = 0, c0 = 0;
    for (int i = 0; i < p->nbatch; i++) {
      a0 += at[i] * p->batch[i].a;
      b0 += at[i] * p->batch[i].b;
      c0 += at[i] * p->batch[i].c;
    }
    char *pa = address(in, r, p->a), *pb = address(in, r, p->b), *pc = address(in, r, p->c);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t x = 0; x < k; x++)
          sum += load(p->factors, pa + bytes * (a0 + (p->ta ? x * p->lda + i : i * p->lda + x))) *
                 load(p->factors, pb + bytes * (b0 + (p->tb ? j * p->ldb + x : x * p->ldb + j)));
        store(p->type, pc + to * (c0 + i * p->ldc + j),
              finish_element(in, p, r, c0 + i * p->ldc + j, j, sum));
      }
    for (int i = p->nbatch - 1; i >= 0 && ++at[i] == count[i]; i--) at[i] = 0;
  }
}

static void run_collective(Interp *in, const Collective *c) {
  Arena *scratch = arena_new();
  CommMember *member = arena_array(scratch, CommMember, in->processors);
  for (int64_t r = 0; r < in->processors; r++) {
    void **src = arena_array(scratch, void *, c->nparts),
         **dst = arena_array(scratch, void *, c->nparts);
    int64_t *sv = arena_array(scratch, int64_t, c->nparts * MAX_RANK),
            *dv = arena_array(scratch, int64_t, c->nparts * MAX_RANK);
    for (uint32_t p = 0; p < c->nparts; p++) {
      src[p] = address(in, r, c->part[p].src);
      dst[p] = address(in, r, c->part[p].dst);
      for (int i = 0; i < c->part[p].rank; i++) {
        sv[p * MAX_RANK + (uint32_t)i] = size(in, c->part[p].src_valid[i], r);
        dv[p * MAX_RANK + (uint32_t)i] = size(in, c->part[p].dst_valid[i], r);
      }
    }
    member[r] =
        (CommMember){.processor = r, .src = src, .dst = dst, .src_valid = sv, .dst_valid = dv};
  }
  CommCall call = {
      .what = c, .sequence = in->sequence++, .members = in->processors, .member = member};
  if (!comm_run(in->comm, &call, 0, 1)) snprintf(in->why, sizeof in->why, "a collective failed");
  arena_free(scratch);
}

// -- ordered work -------------------------------------------------------------------------------

// Returns true if x is ordered before y. NaN is the largest number; keys are ordered by their bits.
static bool goes_before(Dtype t, double x, double y, bool descending) {
  if (t == TYPE_U64) return descending ? key_bits(x) > key_bits(y) : key_bits(x) < key_bits(y);
  if (isnan(x) || isnan(y)) return descending ? isnan(x) && !isnan(y) : !isnan(x) && isnan(y);
  return descending ? x > y : x < y;
}

// Returns how many of x[0..n) are ordered before element i; of equal elements, earlier ones are.
static int64_t rank_of(Dtype t, const double *x, int64_t n, int64_t i, bool descending) {
  int64_t rank = 0;
  for (int64_t j = 0; j < n; j++)
    rank += goes_before(t, x[j], x[i], descending) ||
            (j < i && !goes_before(t, x[i], x[j], descending));
  return rank;
}

static void running(const Ordered *o, const double *x, int64_t n, double *y) {
  bool reverse = o->flags & ORDER_REVERSE, before = o->flags & ORDER_EXCLUSIVE;
  bool product = o->kind == ORDERED_CUMPROD;
  double sum = product, most = 0;
  int64_t best = -1;
  for (int64_t k = 0; k < n; k++) {
    int64_t i = reverse ? n - 1 - k : k;
    double old = sum;
    sum = combine(product ? OP_PROD : OP_SUM, o->type, sum, x[i]);
    if (best < 0 || x[i] > most || (isnan(x[i]) && !isnan(most))) most = x[i], best = i;
    y[i] = o->kind < ORDERED_CUMMAX    ? (before ? old : sum)
           : o->kind == ORDERED_CUMMAX ? most
                                       : (double)best;
  }
}

static int64_t ranked(const Ordered *o, const double *x, int64_t n, double *y) {
  bool top = o->kind == ORDERED_TOP_K;
  for (int64_t i = 0; top && i < o->k; i++) y[i] = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t rank = rank_of(o->type, x, n, i, top || (o->flags & ORDER_DESCENDING));
    if (!top || rank < o->k) y[rank] = (double)i;
  }
  return top ? o->k : n;
}

static void run_ordered(Interp *in, const Ordered *o, int64_t r) {
  int64_t n = size(in, o->n, r), at[MAX_RANK] = {0}, rows = 1;
  double *x = arena_array(in->a, double, n + 1), *y = arena_array(in->a, double, n + o->k + 1);
  bool values = o->kind <= ORDERED_CUMMAX;
  Dtype to = values ? o->type : TYPE_I32;
  for (int i = 0; i < o->nrows; i++) rows *= size(in, o->row[i].count, r);
  for (int64_t row = 0; row < rows; row++) {
    int64_t src = 0, dst = 0, m = n;
    for (int i = 0; i < o->nrows; i++) src += at[i] * o->row[i].src, dst += at[i] * o->row[i].dst;
    const char *from = address(in, r, o->src) + src * dtype_bytes(o->type);
    char *into = address(in, r, o->dst) + dst * dtype_bytes(to);
    for (int64_t i = 0; i < n; i++)
      x[i] = load(o->type, from + i * o->src_step * dtype_bytes(o->type));
    if (o->kind == ORDERED_ARGSORT || o->kind == ORDERED_TOP_K)
      m = ranked(o, x, n, y);
    else
      running(o, x, n, y);
    for (int64_t i = 0; i < m; i++) store(to, into + i * o->dst_step * dtype_bytes(to), y[i]);
    for (int i = o->nrows - 1; i >= 0 && ++at[i] == size(in, o->row[i].count, r); i--) at[i] = 0;
  }
}

// Matrices are computed as by the runtime, but with the plain engine.
static void run_matrices(Interp *in, const MatrixCall *m, int64_t r) {
  BoundMatrix b = {.what = m, .engine = &matrix_plain, .matrices = 1, .right = 1};
  for (int i = 0; i < m->nbatch; i++) b.matrices *= b.count[i] = size(in, m->batch[i].count, r);
  for (int i = 0; i < m->nright; i++) b.right *= b.right_count[i] = size(in, m->right[i].count, r);
  if (matrix_rows[m->kind].result != MATRIX_SOLUTION) b.right = 0;
  b.a = address(in, r, m->a);
  b.b = address(in, r, m->b);
  b.dst = address(in, r, m->dst);
  matrix_run(&b, 0, b.matrices, arena_alloc(in->a, (size_t)program_scratch(in->p)));
}

static void run_instr(Interp *in, const Instr *i, int64_t r) {
  switch (i->kind) {
  case INSTR_KERNEL: run_kernel(in, &i->u.kernel, r); break;
  case INSTR_GEMM: run_gemm(in, &i->u.gemm, r); break;
  case INSTR_ORDERED: run_ordered(in, &i->u.ordered, r); break;
  case INSTR_MATRIX: run_matrices(in, &i->u.matrix, r); break;
  case INSTR_FILL: memset(address(in, r, i->u.fill.dst), 0, (size_t)i->u.fill.bytes); break;
  case INSTR_COPY:
    memmove(address(in, r, i->u.copy.dst), address(in, r, i->u.copy.src), (size_t)i->u.copy.bytes);
    break;
  case INSTR_COLLECTIVE:
  case INSTR_COMMIT:
  case INSTR_LOOP:
  case INSTR_END: break;
  }
}

// Returns the instruction that follows mark i of a loop.
static uint32_t pass_loop(Interp *in, uint32_t i) {
  const Instr *mark = &in->p->instr[i];
  uint32_t begin = mark->kind == INSTR_LOOP ? i : mark->u.end.begin;
  const Instr *loop = &in->p->instr[begin];
  int64_t count = size(in, loop->u.loop.count, 0),
          *at = &in->at[in->depth - (mark->kind == INSTR_END)];
  if (mark->kind == INSTR_LOOP) {
    *at = loop->u.loop.reverse ? count - 1 : 0;
    in->depth++;
  } else {
    *at += loop->u.loop.reverse ? -1 : 1;
  }
  if (*at >= 0 && *at < count) return begin + 1;
  in->depth--;
  return loop->u.loop.end + 1;
}

const char *interp_run(Interp *in, int64_t step, int64_t rows) {
  in->step = step;
  in->rows = rows;
  in->status = (Status){0};
  in->why[0] = 0;
  bind_slots(in);
  constants(in);
  in->depth = 0;
  for (uint32_t i = 0; i < in->p->ninstrs && !in->why[0];) {
    const Instr *instr = &in->p->instr[i];
    if (instr->kind == INSTR_LOOP || instr->kind == INSTR_END) {
      i = pass_loop(in, i);
      continue;
    }
    if (instr->kind == INSTR_COLLECTIVE) run_collective(in, &instr->u.collective);
    for (int64_t r = 0; r < in->processors; r++) run_instr(in, instr, r);
    i++;
  }
  return in->why[0] ? in->why : NULL;
}

bool interp_status(const Interp *in, Status *out) {
  *out = in->status;
  return in->status.code != 0;
}
