// Computes samples of a kernel's results with an interpreter. Values are cells of the evaluator: a
// value, a bound on what a correct program may differ by, and a taint, true if the value has no
// definite bound.
//
// To sample an element, the interpreter evaluates the statements that the element needs, at its
// loop counters. A reduction evaluates its argument at all counters of the inner loops. The value
// of a statement is cached while the counters that it depends on do not change.
#include "codegen/fuse/kernel_sample.h"

#include <math.h>
#include <string.h>

#include "ir/base/philox.h"
#include "ir/eval/eval_rules.h"
#include "ir/program/sums.h"

enum {
  EACH = 6,  // number of samples of each result of a kernel
  TRIES = 12 // number of elements tried for them: an element with a taint is no sample
};
// Upper limit of the statements that are evaluated to compute one element of a sample.
static const double MOST_WORK = 300000;

typedef struct Sampler {
  Arena *a;
  const Kernel *k;
  const KernelCall *call;
  int64_t at[MAX_LOOPS]; // the loop counters
  Cell *value;           // by statement: its cached value
  uint64_t *stamp;       // by statement: the time at which its value was computed
  uint64_t clock;        // current time: number of evaluations and changes of counters so far
  uint64_t unit;         // time of the last change of the counter of an outer loop
  uint64_t inner;        // time of the last change of any counter
  uint64_t draws;        // state of the random generator for positions
} Sampler;

static Cell value_of(Sampler *s, int stmt);

static bool is_float(Dtype t) { return dtype_is_float(t); }
// Returns the type in which a register holds a value of type t: f32 for bf16 and f16, otherwise t.
static Dtype in_register(Dtype t) { return t == TYPE_BF16 || t == TYPE_F16 ? TYPE_F32 : t; }
static int loops(const Kernel *k) { return k->nouter + k->ninner; }

static int64_t extent(const Sampler *s, int l) {
  const KLoop *loop = &s->k->loop[l];
  return loop->slot < 0 ? loop->size : s->call->slot[loop->slot];
}

// -- reading memory ----------------------------------------------------------------------------

static int64_t walked(const Sampler *s, const KPtr *p) {
  int64_t i = p->offset;
  for (int b = 0; b < p->nbases; b++) i += s->call->slot[p->base[b].slot] * p->base[b].stride;
  for (int l = 0; l < loops(s->k); l++) i += p->stride[l] * s->at[l];
  return i;
}

static const char *address(const Sampler *s, int p, int64_t more) {
  const KPtr *kp = &s->k->ptr[p];
  return (const char *)s->call->ptr[p] + (walked(s, kp) + more) * dtype_bytes(kp->type);
}

// Reads the number of type t at address `at` and returns it as a double. A u64 joins a value and
// its index, so that argmax compares both at once. Its bits are copied into the double unchanged,
// as the evaluator does.
static double number_at(Dtype t, const char *at) {
  double x;
  if (t != TYPE_U64) return dtype_load(t, at);
  memcpy(&x, at, sizeof x);
  return x;
}

static Cell loaded(const Sampler *s, int p, int64_t more) {
  return (Cell){number_at(s->k->ptr[p].type, address(s, p, more)), 0, false};
}

// -- conversions of types ----------------------------------------------------------------------

// Returns argument x of an operation, converted from type `from` to type `to`, in which the
// operation computes. The conversion does not saturate: only casts and stores do.
static Cell coerced(Cell x, Dtype from, Dtype to) {
  from = in_register(from), to = in_register(to);
  if (from == to) return x;
  if (is_float(from) && is_float(to))
    return to == TYPE_F64 ? x : cell_rounded(to, x.v, x.b, x.b == 0);
  if (to == TYPE_BOOL) return (Cell){x.v != 0, 0, x.t};
  if (is_float(to))
    return (Cell){x.v, dtype_round(to, x.v) == x.v ? 0 : unit_roundoff(to) * fabs(x.v), x.t};
  return (Cell){is_float(from) ? dtype_round(to, x.v) : int_wrap(to, (int64_t)x.v), 0, x.t};
}

// Returns value x converted from type `from` to type `to`, the type in which memory holds the
// value.
static Cell stored(Cell x, Dtype from, Dtype to) {
  bool t = x.t;
  x = coerced(x, from, to);
  if (is_float(to) && in_register(to) != to) x = cell_rounded(to, x.v, x.b, x.b == 0);
  // a key whose value has a bound gets a taint: the bound says nothing about its bits
  x.t = x.t || t || (to == TYPE_U64 && x.b > 0);
  return to == TYPE_U64 ? x : cell_finish(to, x);
}

// -- operations --------------------------------------------------------------------------------

static Cell argument(Sampler *s, const KStmt *x, int i, Dtype want) {
  return coerced(value_of(s, x->arg[i]), s->k->stmt[x->arg[i]].type, want);
}

static Cell applied(const KStmt *x, Op op, const Dtype *type, const Cell *arg, int n) {
  Node node = {.op = (uint8_t)op,
               .type = (uint8_t)(op == OP_CAST ? x->type : in_register(x->type)),
               .nargs = (uint8_t)n};
  return eval_scalar(NULL, &node, type, arg);
}

static Cell drawn(Sampler *s, const KStmt *x) {
  const double *half = &s->call->num[x->index];
  uint64_t key = ((uint64_t)half[0] | (uint64_t)half[1] << 32) ^ s->call->seed,
           at = (uint64_t)value_of(s, x->arg[0]).v;
  uint32_t w[4];
  philox4x32((const uint32_t[4]){(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)s->call->step,
                                 (uint32_t)s->call->repeat},
             (const uint32_t[2]){(uint32_t)key, (uint32_t)(key >> 32)}, w);
  bool f64 = x->type == TYPE_F64;
  if (x->op == OP_RANDOM_UNIFORM) return (Cell){philox_uniform(w, f64), 0, false};
  return (Cell){philox_normal(w, f64),
                (f64 ? PHILOX_NORMAL_ERROR64 : PHILOX_NORMAL_ERROR) * philox_radius(w, f64), false};
}

static Cell operation(Sampler *s, const KStmt *x) {
  Cell arg[3];
  Dtype type[3] = {x->type, x->type, x->type};
  int n = op_row(x->op)->nargs;
  switch ((int)x->op) {
  case OP_INDEX:
    return (Cell){(double)(s->at[x->index] + (x->slot >= 0 ? s->call->slot[x->slot] : 0)), 0,
                  false};
  case OP_STEP: return (Cell){(double)s->call->step, 0, false};
  case OP_RANDOM_UNIFORM:
  case OP_RANDOM_NORMAL: return drawn(s, x);
  case OP_TO_PARTIAL:
    return s->call->slot[x->slot] == 0 ? argument(s, x, 0, x->type) : (Cell){0, 0, false};
  }
  for (int i = 0; i < n; i++) {
    bool own = op_row(x->op)->flags & OWN_TYPES && !(x->op == OP_WHERE && i > 0);
    type[i] = own ? s->k->stmt[x->arg[i]].type : x->type;
    arg[i] = argument(s, x, i, type[i]);
  }
  if (x->op == OP_BOUND) return (Cell){fmin(fmax(arg[0].v, 0), (double)x->step - 1), 0, arg[0].t};
  Cell y = applied(x, x->op, type, arg, n);
  return stmt_rounds(x) ? applied(x, OP_CAST, (const Dtype[]){TYPE_F32}, &y, 1) : y;
}

// -- reductions over loops ---------------------------------------------------------------------

static Monoid monoid_of(const KStmt *x) { return op_row(x->op)->monoid; }

typedef struct Total {
  const KStmt *x;
  Sum sum;
  Cell cell;
} Total;

static void total_add(Total *t, Cell c) {
  Dtype type[2] = {t->x->type, t->x->type};
  if (monoid_of(t->x) == MONOID_SUM) {
    sum_add(&t->sum, c, t->x->type);
    return;
  }
  if (t->sum.n == 0) {
    t->cell = c;
  } else if (t->x->type == TYPE_U64) {
    t->cell = cell_extreme(TYPE_U64, monoid_of(t->x) == MONOID_MAX, t->cell, c);
  } else {
    t->cell =
        applied(t->x, monoid_op(monoid_of(t->x), t->x->type), type, (const Cell[2]){t->cell, c}, 2);
  }
  t->sum.n++;
}

static Cell total_end(const Total *t) {
  if (monoid_of(t->x) == MONOID_SUM)
    return sum_cell(in_register(t->x->type), in_register(t->x->type), &t->sum, NO_GRANULE,
                    SUM_ROUNDINGS);
  if (t->sum.n > 0) return t->cell;
  return (Cell){monoid_identity(monoid_of(t->x), t->x->type), 0, false};
}

static void counters_moved(Sampler *s, bool outer) {
  s->inner = ++s->clock;
  if (outer) s->unit = s->clock;
}

// Advances the counters of the loops in set `free` (bit l is loop l) to the next iteration, the
// last loop fastest. Returns false after the last iteration, with these counters set to 0.
static bool count_up(Sampler *s, uint32_t free) {
  for (int l = loops(s->k) - 1; l >= 0; l--) {
    if (!(free >> l & 1)) continue;
    if (++s->at[l] < extent(s, l)) {
      counters_moved(s, l < s->k->nouter);
      return true;
    }
    s->at[l] = 0;
    counters_moved(s, l < s->k->nouter);
  }
  return false;
}

static uint32_t inner_loops(const Kernel *k) {
  return ((UINT32_C(1) << loops(k)) - 1) & ~((UINT32_C(1) << k->nouter) - 1);
}

// Sets the counters of the loops in set `free` (bit l is loop l) to 0. Returns the product of the
// numbers of iterations of these loops.
static double rounds(Sampler *s, uint32_t free) {
  double n = 1;
  for (int l = 0; l < loops(s->k); l++) {
    if (!(free >> l & 1)) continue;
    s->at[l] = 0;
    n *= (double)extent(s, l);
    counters_moved(s, l < s->k->nouter);
  }
  return n;
}

static Cell reduced(Sampler *s, const KStmt *x) {
  int64_t saved[MAX_LOOPS];
  Total t = {.x = x};
  memcpy(saved, s->at, sizeof saved);
  if (rounds(s, inner_loops(s->k)) > 0) do
      total_add(&t, argument(s, x, 0, x->type));
    while (count_up(s, inner_loops(s->k)));
  memcpy(s->at, saved, sizeof saved);
  counters_moved(s, false);
  return total_end(&t);
}

// -- values of statements ----------------------------------------------------------------------

// Returns whether statement x has a condition, the bool arg[1], that is false at the present loop
// counters.
static bool guarded_off(Sampler *s, const KStmt *x) {
  return x->arg[1] != NO_STMT && value_of(s, x->arg[1]).v == 0;
}
// Returns c, with a taint if one of the two integer or bool arguments of x has one: rounding may
// decide which element x is.
static Cell at_arguments(Sampler *s, const KStmt *x, Cell c) {
  for (int i = 0; i < 2; i++) c.t |= x->arg[i] != NO_STMT && value_of(s, x->arg[i]).t;
  return c;
}
static int64_t integer_of(Sampler *s, int stmt) {
  return stmt == NO_STMT ? 0 : (int64_t)value_of(s, stmt).v;
}

static Cell computed(Sampler *s, const KStmt *x) {
  Cell none = {0, 0, false};
  switch (x->kind) {
  case K_NUM: return (Cell){dtype_round(x->type, s->call->num[x->index]), 0, false};
  case K_LOAD: return guarded_off(s, x) ? none : loaded(s, x->index, 0);
  case K_LOAD_AT:
    if (!guarded_off(s, x)) none = loaded(s, x->index, integer_of(s, x->arg[0]) * x->step);
    return at_arguments(s, x, none);
  case K_POSITION:
    return at_arguments(
        s, x,
        (Cell){(double)(walked(s, &s->k->walk[x->index]) + integer_of(s, x->arg[0]) * x->step +
                        integer_of(s, x->arg[1])),
               0, false});
  case K_QUOTIENT:
    return at_arguments(s, x, (Cell){(double)(integer_of(s, x->arg[0]) / x->step), 0, false});
  case K_INSIDE: {
    int64_t i = integer_of(s, x->arg[0]), limit = x->slot >= 0 ? s->call->slot[x->slot] : x->step;
    return at_arguments(s, x, (Cell){i >= 0 && i < limit && !guarded_off(s, x), 0, false});
  }
  case K_OP: return operation(s, x);
  case K_REDUCE: return reduced(s, x);
  case K_DOT: // in kernels for GPUs only, of which no results are sampled
  case K_ACCUM:
  case K_STORE:
  case K_SCATTER: break;
  }
  BUG("a statement of kind %d is no argument", (int)x->kind);
}

static Cell value_of(Sampler *s, int stmt) {
  const KStmt *x = &s->k->stmt[stmt];
  bool inner = x->level == LEVEL_INNER && x->kind != K_REDUCE;
  uint64_t since = inner ? s->inner : x->level == LEVEL_PROLOGUE ? 1 : s->unit;
  if (s->stamp[stmt] >= since) return s->value[stmt];
  Cell c = computed(s, x);
  s->value[stmt] = c;
  s->stamp[stmt] = ++s->clock;
  return c;
}

// -- samples of results ------------------------------------------------------------------------

// Returns how many statements are evaluated for one element of a result that combines values over
// the loops in set `free` (bit l is loop l).
static double work_of(Sampler *s, uint32_t free) {
  double n = s->k->nstmts, inner = 1, times = 1;
  bool reduces = false;
  for (int i = 0; i < s->k->nstmts; i++) reduces |= s->k->stmt[i].kind == K_REDUCE;
  for (int l = 0; l < loops(s->k); l++) {
    if (l >= s->k->nouter) inner *= (double)extent(s, l);
    if (free >> l & 1) times *= (double)extent(s, l);
  }
  return n * times * (reduces ? 1 + inner : 1);
}

// Sets the counters of all loops: in try 0 to the first iteration, in try 1 to the last, later to a
// random one. Returns false if a loop has no iterations, else true.
static bool place(Sampler *s, int try) {
  for (int l = 0; l < loops(s->k); l++) {
    int64_t n = extent(s, l);
    if (n <= 0) return false;
    s->draws = s->draws * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    s->at[l] = try == 0 ? 0 : try == 1 ? n - 1 : (int64_t)((s->draws >> 33) % (uint64_t)n);
  }
  counters_moved(s, true);
  return true;
}

static uint32_t summed_over(const Kernel *k, const KStmt *x) {
  uint32_t free = (UINT32_C(1) << k->nouter) - 1;
  for (int l = k->nouter; l < loops(k) && x->level == LEVEL_INNER; l++)
    if (!k->ptr[x->index].stride[l]) free |= UINT32_C(1) << l;
  return free;
}

// Returns the value that the element at address `at` must have after the kernel. It combines all
// values that statement x, an ACCUM or SCATTER, puts into the element. A SCATTER adds them to the
// value that the element has before the kernel.
static Cell gathered(Sampler *s, const KStmt *x, uint32_t free, const char *at) {
  Total t = {.x = x};
  bool scatter = x->kind == K_SCATTER, vague = false;
  if (scatter) total_add(&t, (Cell){number_at(s->k->ptr[x->index].type, at), 0, false});
  if (rounds(s, free) > 0) do {
      vague |= scatter && value_of(s, x->arg[1]).t;
      if (!scatter || address(s, x->index, integer_of(s, x->arg[1]) * x->step) == at)
        total_add(&t, argument(s, x, 0, x->type));
    } while (count_up(s, free));
  Cell c = total_end(&t);
  c.t |= vague;
  return c;
}

// Returns the error bound of the gradient of a weight in a kernel of images (Kernel.images).
// Winograd's algorithm adds the terms of all taps and cancels those of the other taps. So the
// rounding errors are relative to the absolute values of all of them.
static double taps_bound(Sampler *s, const KStmt *x, uint32_t free) {
  int ky = s->k->nouter + 2, kx = ky + 1;
  int64_t at[2] = {s->at[ky], s->at[kx]};
  double sum = 0;
  for (s->at[ky] = 0; s->at[ky] < extent(s, ky); s->at[ky]++)
    for (s->at[kx] = 0; s->at[kx] < extent(s, kx); s->at[kx]++) {
      counters_moved(s, true);
      Total t = {.x = x};
      if (rounds(s, free) > 0) do
          total_add(&t, argument(s, x, 0, x->type));
        while (count_up(s, free));
      sum += t.sum.abs;
    }
  s->at[ky] = at[0], s->at[kx] = at[1];
  counters_moved(s, true);
  return sum * SUM_ROUNDINGS * unit_roundoff(TYPE_F32);
}

static bool sample_one(Sampler *s, int stmt, uint32_t free, KernelElement *out) {
  const KStmt *x = &s->k->stmt[stmt];
  Dtype type = s->k->ptr[x->index].type;
  *out = (KernelElement){.stmt = stmt, .type = type};
  out->at = address(s, x->index, x->kind == K_SCATTER ? integer_of(s, x->arg[1]) * x->step : 0);
  memcpy(out->counter, s->at, sizeof out->counter);
  Cell c = x->kind == K_STORE ? value_of(s, x->arg[0]) : gathered(s, x, free, out->at);
  c = stored(c, x->kind == K_STORE ? s->k->stmt[x->arg[0]].type : x->type, type);
  out->want = c.v;
  out->bound = x->kind == K_ACCUM && s->k->images ? c.b + taps_bound(s, x, free) : c.b;
  return !c.t;
}

static void sample_result(Sampler *s, int stmt, KernelSample *out) {
  const KStmt *x = &s->k->stmt[stmt];
  const Kernel *k = s->k;
  uint32_t free = x->kind == K_ACCUM     ? summed_over(k, x)
                  : x->kind == K_SCATTER ? (UINT32_C(1) << loops(k)) - 1
                                         : 0;
  double each = work_of(s, free), work = 0;
  uint32_t before = out->n;
  if (x->kind == K_ACCUM && k->images) each *= 10; // the terms of all nine taps are evaluated, too
  for (int i = 0; i < TRIES && out->n < before + EACH && work + each <= MOST_WORK && place(s, i);
       i++, work += each)
    out->n += sample_one(s, stmt, free, &out->element[out->n]);
  out->left_out += out->n == before;
}

KernelSample *kernel_sample(Arena *a, const Kernel *k, const KernelCall *call) {
  Sampler s = {.a = a, .k = k, .call = call, .clock = 1, .unit = 1, .inner = 1};
  KernelSample *out = arena_new_of(a, KernelSample);
  *out = (KernelSample){.kernel = k,
                        .element = arena_array(a, KernelElement, (size_t)k->nstmts * EACH + 1)};
  s.value = arena_array(a, Cell, (size_t)k->nstmts + 1);
  s.stamp = arena_array(a, uint64_t, (size_t)k->nstmts + 1);
  for (int i = 0; i < k->nstmts; i++) {
    KKind kind = k->stmt[i].kind;
    if (kind == K_STORE || kind == K_ACCUM || kind == K_SCATTER) sample_result(&s, i, out);
  }
  return out;
}

const KernelElement *kernel_sample_wrong(const KernelSample *s, double *got, double *used) {
  for (uint32_t i = 0; i < s->n; i++) {
    const KernelElement *e = &s->element[i];
    *got = number_at(e->type, e->at);
    bool keys = e->type == TYPE_U64,
         same = keys ? !memcmp(got, &e->want, sizeof *got) : *got == e->want;
    if (same || (isnan(*got) && isnan(e->want))) continue;
    double off = fabs(*got - e->want);
    if (keys || !(off <= e->bound)) return e;
    *used = fmax(*used, off / e->bound);
  }
  return NULL;
}
