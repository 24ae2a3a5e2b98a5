// Executes kernels one element at a time. The kernel suites compare machine code with it.
#include "tests/suite/common/kernel_interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/philox.h"

static bool flt(Dtype t) { return dtype_is_float(t); }

Value value_read(Dtype t, const char *p) {
  Value v = {0, 0};
  if (flt(t))
    v.f = dtype_load(t, p);
  else if (dtype_bytes(t) == 8)
    memcpy(&v.i, p, 8);
  else
    v.i = (int64_t)dtype_load(t, p);
  return v;
}

void value_write(Dtype t, char *p, Value v) {
  if (flt(t))
    dtype_store(t, p, dtype_round(t, v.f));
  else if (dtype_bytes(t) == 8)
    memcpy(p, &v.i, 8);
  else
    dtype_store(t, p, (double)v.i);
}

static int64_t wrapped(Dtype t, int64_t x) {
  if (t == TYPE_I32) return (int32_t)(uint32_t)(uint64_t)x;
  if (t == TYPE_U8) return (uint8_t)(uint64_t)x;
  return t == TYPE_BOOL ? x != 0 : x;
}

static Value converted(Value v, Dtype from, Dtype to) {
  if (from == to) return v;
  double x = flt(from) ? v.f : from == TYPE_U64 ? (double)(uint64_t)v.i : (double)v.i;
  if (flt(to)) return (Value){dtype_round(to, x), 0};
  if (to == TYPE_I64 && x >= 0x1p63) return (Value){0, INT64_MAX};
  if (flt(from) || to == TYPE_BOOL) return (Value){0, (int64_t)dtype_round(to, x)};
  if (to == TYPE_U8) return (Value){0, clamp64(v.i, 0, 255)};
  if (to == TYPE_I32) return (Value){0, clamp64(v.i, INT32_MIN, INT32_MAX)};
  return v;
}

static int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static double floor_mod(double x, double y) {
  double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t int_pow(int64_t x, int64_t n) {
  if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0;
  uint64_t y = 1, p = (uint64_t)x;
  for (; n > 0; n >>= 1, p *= p)
    if (n & 1) y *= p;
  return (int64_t)y;
}

static uint64_t key_of(Value x, Dtype t, int64_t index) {
  uint32_t high = (uint32_t)(int32_t)x.i ^ 0x80000000U;
  if (flt(t)) {
    float f = (float)x.f + 0.0F;
    memcpy(&high, &f, 4);
    high = isnan(f) ? UINT32_MAX : high & 0x80000000U ? ~high : high | 0x80000000U;
  }
  return (uint64_t)high << 32 | (uint32_t) ~(uint32_t)(int32_t)index;
}

static double extreme(double a, double b, bool max) {
  return isnan(a) || isnan(b) ? (double)NAN : max ? fmax(a, b) : fmin(a, b);
}

static double normal(double x) { return 0.5 * erfc(-M_SQRT1_2 * x); }
static double logistic(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double tanh_inner(double x) { return 1.5957691216057308 * x * (1 + 0.044715 * x * x); }

// Returns x times a gate, or the derivative of that, with the correct limits at infinities.
static double gate_op(Op op, double a) {
  double x = isnan(a) ? a : fmin(fmax(a, -1000), 1000), z = tanh_inner(x),
         dz = 1.5957691216057308 * (1 + 0.134145 * x * x);
  switch ((int)op) {
  case OP_SILU: return a > 0 ? a * logistic(a) : x * logistic(x);
  case OP_SILU_SLOPE: return logistic(x) * (1 + x * logistic(-x));
  case OP_GELU: return a > 0 ? a * normal(a) : x * normal(x);
  case OP_GELU_SLOPE: return normal(x) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
  case OP_GELU_TANH: return a > 0 ? a * logistic(tanh_inner(a)) : x * logistic(z);
  case OP_GELU_TANH_SLOPE: return logistic(z) * (1 + x * dz * logistic(-z));
  }
  BUG("no float op %s", op_row(op)->text);
}

// Computes one op. Arguments are already converted to type `t` where the op computes in its own
// type.
static double float_op(Op op, double a, double b, double c) {
  switch ((int)op) {
  case OP_NEG: return -a;
  case OP_EXP: return exp(a);
  case OP_LOG: return log(a);
  case OP_LOG1P: return log1p(a);
  case OP_EXPM1: return expm1(a);
  case OP_SQRT: return sqrt(a);
  case OP_RSQRT: return 1 / sqrt(a);
  case OP_ABS: return fabs(a);
  case OP_SIGN: return isnan(a) ? a : (double)(a > 0) - (double)(a < 0);
  case OP_FLOOR: return floor(a);
  case OP_CEIL: return ceil(a);
  case OP_TRUNC: return trunc(a);
  case OP_ROUND: return nearbyint(a);
  case OP_SIN: return sin(a);
  case OP_COS: return cos(a);
  case OP_TANH: return tanh(a);
  case OP_SIGMOID: return logistic(a);
  case OP_RELU: return a < 0 ? 0 : a;
  case OP_ERF: return erf(a);
  case OP_SOFTPLUS: return isnan(a) ? a : fmax(a, 0) + log1p(exp(-fabs(a)));
  case OP_RECIPROCAL: return 1 / a;
  case OP_ADD:
  case OP_SUM: return a + b;
  case OP_SUB: return a - b;
  case OP_MUL:
  case OP_PROD: return a * b;
  case OP_DIV: return a / b;
  case OP_MOD: return floor_mod(a, b);
  case OP_FLOOR_DIV: return floor(a / b);
  case OP_POW: return pow(a, b);
  case OP_MAXIMUM:
  case OP_MAX: return extreme(a, b, true);
  case OP_MINIMUM:
  case OP_MIN: return extreme(a, b, false);
  case OP_CLIP: return extreme(extreme(a, b, true), c, false);
  }
  return gate_op(op, a);
}

static bool above(Dtype t, int64_t a, int64_t b) {
  return t == TYPE_U64 ? (uint64_t)a > (uint64_t)b : a > b;
}

static int64_t int_op(Op op, Dtype t, int64_t a, int64_t b, int64_t c) {
  switch ((int)op) {
  case OP_NEG: return (int64_t)(0 - (uint64_t)a);
  case OP_ABS: return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
  case OP_SIGN: return (a > 0) - (a < 0);
  case OP_RELU: return a < 0 ? 0 : a;
  case OP_ADD:
  case OP_SUM: return (int64_t)((uint64_t)a + (uint64_t)b);
  case OP_SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
  case OP_MUL:
  case OP_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
  case OP_MOD: return b == 0 ? 0 : b == -1 ? 0 : a - floor_div(a, b) * b;
  case OP_FLOOR_DIV: return floor_div(a, b);
  case OP_POW: return int_pow(a, b);
  case OP_MAXIMUM:
  case OP_MAX: return above(t, a, b) ? a : b;
  case OP_MINIMUM:
  case OP_MIN: return above(t, b, a) ? a : b;
  case OP_CLIP: a = a < b ? b : a; return a > c ? c : a;
  case OP_NOT: return !a;
  case OP_BIT_AND: return a & b;
  case OP_BIT_OR: return a | b;
  case OP_BIT_XOR: return a ^ b;
  case OP_SHIFT_LEFT: return b < 0 || b > 31 ? 0 : (int64_t)((uint64_t)a << b);
  case OP_SHIFT_RIGHT: return b < 0 || b > 31 ? -(a < 0) : floor_div(a, (int64_t)1 << b);
  case OP_AND:
  case OP_ALL: return a && b;
  case OP_OR:
  case OP_ANY: return a || b;
  }
  BUG("no integer op %s", op_row(op)->text);
}

static Value apply(Op op, Dtype t, const Value *x) {
  if (flt(t)) return (Value){float_op(op, x[0].f, x[1].f, x[2].f), 0};
  return (Value){0, wrapped(t, int_op(op, t, x[0].i, x[1].i, x[2].i))};
}

static Value compare(Op op, Dtype t, Value a, Value b) {
  bool less = flt(t) ? a.f < b.f : above(t, b.i, a.i), same = flt(t) ? a.f == b.f : a.i == b.i;
  bool y = op == OP_EQ ? same : op == OP_NE ? !same : op == OP_LT ? less : less || same;
  return (Value){0, y};
}

static int64_t extent(const KernelRun *r, int l) {
  const KLoop *kl = &r->k->loop[l];
  return kl->slot < 0 ? kl->size : r->slot[kl->slot];
}

static int64_t walked(const KernelRun *r, const KPtr *p) {
  int64_t i = p->offset;
  for (int b = 0; b < p->nbases; b++) i += r->slot[p->base[b].slot] * p->base[b].stride;
  for (int l = 0; l < r->k->nouter + r->k->ninner + r->k->ndots; l++) i += p->stride[l] * r->at[l];
  return i;
}

static char *address(const KernelRun *r, int p, int64_t more) {
  const KPtr *kp = &r->k->ptr[p];
  return r->mem[p] + (walked(r, kp) + more) * dtype_bytes(kp->type);
}

static bool guarded_off(const KernelRun *r, const KStmt *s) {
  return s->arg[1] != NO_STMT && !r->value[s->arg[1]].i;
}

static Value position(const KernelRun *r, const KStmt *s) {
  int64_t i = walked(r, &r->k->walk[s->index]);
  if (s->arg[0] != NO_STMT) i += r->value[s->arg[0]].i * s->step;
  return (Value){0, s->arg[1] != NO_STMT ? i + r->value[s->arg[1]].i : i};
}

static Value inside(const KernelRun *r, const KStmt *s) {
  int64_t x = r->value[s->arg[0]].i, limit = s->slot >= 0 ? r->slot[s->slot] : s->step;
  return (Value){0, x >= 0 && x < limit && !guarded_off(r, s)};
}

static Value draw(const KernelRun *r, const KStmt *s) {
  uint32_t w[4];
  uint64_t key = (uint64_t)r->num[s->index] | (uint64_t)r->num[s->index + 1] << 32;
  philox_words(key, INTERP_SEED, r->value[s->arg[0]].i, INTERP_STEP, 0, w);
  return (Value){s->op == OP_RANDOM_UNIFORM ? philox_uniform(w, s->type == TYPE_F64)
                                            : philox_normal(w, s->type == TYPE_F64),
                 0};
}

static Value arg(const KernelRun *r, const KStmt *s, int i, Dtype want) {
  if (s->arg[i] == NO_STMT) return (Value){0, 0};
  Dtype from = r->k->stmt[s->arg[i]].type;
  // a float is not rounded when it becomes an argument
  return flt(from) && flt(want) ? r->value[s->arg[i]] : converted(r->value[s->arg[i]], from, want);
}

static Value identity(Op op, Dtype t) {
  Value v = {0, 0};
  if (op == OP_PROD || op == OP_ALL) v = (Value){1, 1};
  if (op == OP_MAX)
    v = (Value){-(double)INFINITY, t == TYPE_I32 ? INT32_MIN : t == TYPE_I64 ? INT64_MIN : 0};
  if (op == OP_MIN)
    v = (Value){(double)INFINITY, t == TYPE_I32    ? INT32_MAX
                                  : t == TYPE_I64  ? INT64_MAX
                                  : t == TYPE_U8   ? 255
                                  : t == TYPE_BOOL ? 1
                                                   : -1};
  return v;
}

static Value bound(KernelRun *r, const KStmt *s) {
  Value x = arg(r, s, 0, s->type);
  int n = s->level == LEVEL_PROLOGUE ? 0
          : s->level == LEVEL_OUTER  ? r->k->nouter
                                     : r->k->nouter + r->k->ninner;
  int64_t pos = 0;
  for (int l = 0; l < n; l++) pos = pos * r->k->loop[l].size + r->at[l];
  if (x.i >= 0 && x.i < s->step) return x;
  if (r->nfound < (int)countof(r->found)) {
    r->found[r->nfound][0] = x.i;
    r->found[r->nfound++][1] = pos;
  }
  return (Value){0, clamp64(x.i, 0, s->step - 1)};
}

static Value run_op(KernelRun *r, const KStmt *s) {
  Dtype a = s->arg[0] == NO_STMT ? TYPE_I32 : r->k->stmt[s->arg[0]].type;
  Value x[3] = {{0, 0}};
  switch ((int)s->op) {
  case OP_INDEX: return (Value){0, r->at[s->index] + (s->slot >= 0 ? r->slot[s->slot] : 0)};
  case OP_STEP: return (Value){0, INTERP_STEP};
  case OP_BOUND: return bound(r, s);
  case OP_TO_PARTIAL: return r->slot[s->slot] == 0 ? r->value[s->arg[0]] : (Value){0, 0};
  case OP_RANDOM_UNIFORM:
  case OP_RANDOM_NORMAL: return draw(r, s);
  case OP_CAST: return converted(r->value[s->arg[0]], a, s->type);
  case OP_WHERE: return arg(r, s, 0, TYPE_BOOL).i ? arg(r, s, 1, s->type) : arg(r, s, 2, s->type);
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE: return compare(s->op, a, r->value[s->arg[0]], r->value[s->arg[1]]);
  case OP_ARG_KEY:
    return (Value){0, (int64_t)key_of(r->value[s->arg[0]], a, r->value[s->arg[1]].i)};
  case OP_KEY_INDEX: return (Value){0, (int32_t) ~(uint32_t)(uint64_t)r->value[s->arg[0]].i};
  }
  for (int i = 0; i < 3; i++) x[i] = arg(r, s, i, s->type);
  Value y = apply(s->op, s->type, x);
  return stmt_rounds(s) ? (Value){dtype_round(s->type, y.f), 0} : y;
}

static int64_t row_place(const KernelRun *r, const KStmt *s) {
  int64_t at = 0;
  for (int l = r->k->nouter; l < r->k->nouter + r->k->ninner; l++)
    if (r->k->ptr[s->index].stride[l]) at = at * r->k->loop[l].size + r->at[l];
  return at;
}

static bool count_up(KernelRun *r, int first, int n);

// Returns the sum of a K_DOT over the dot loops along which its pointers move.
static Value dot(KernelRun *r, const KStmt *s) {
  const Kernel *k = r->k;
  const KPtr *a = &k->ptr[s->index], *b = &k->ptr[s->other];
  int first = k->nouter + k->ninner;
  Value sum = {0, 0};
  do {
    bool once = true; // the counters of the other loops are 0
    for (int l = first; l < first + k->ndots; l++)
      once = once && (a->stride[l] || b->stride[l] || r->at[l] == 0);
    if (once)
      sum.f += value_read(a->type, address(r, s->index, 0)).f *
               value_read(b->type, address(r, s->other, 0)).f;
  } while (count_up(r, first, k->ndots));
  return sum;
}

static void run_stmt(KernelRun *r, int id) {
  const KStmt *s = &r->k->stmt[id];
  Value *v = &r->value[id], pair[3] = {{0, 0}};
  Dtype t = s->kind == K_NUM ? s->type : s->kind == K_OP ? s->type : TYPE_COUNT;
  if (s->index >= 0 && t == TYPE_COUNT && s->kind != K_REDUCE && s->kind != K_POSITION)
    t = r->k->ptr[s->index].type;
  switch (s->kind) {
  case K_NUM: *v = converted((Value){r->num[s->index], 0}, TYPE_F64, s->type); return;
  case K_LOAD: *v = guarded_off(r, s) ? pair[0] : value_read(t, address(r, s->index, 0)); return;
  case K_LOAD_AT:
    *v = guarded_off(r, s) ? pair[0]
                           : value_read(t, address(r, s->index, r->value[s->arg[0]].i * s->step));
    return;
  case K_DOT: *v = dot(r, s); return;
  case K_POSITION: *v = position(r, s); return;
  case K_QUOTIENT: *v = (Value){0, r->value[s->arg[0]].i / s->step}; return;
  case K_INSIDE: *v = inside(r, s); return;
  case K_OP: *v = run_op(r, s); return;
  case K_STORE: value_write(t, address(r, s->index, 0), arg(r, s, 0, t)); return;
  case K_REDUCE:
    pair[0] = *v, pair[1] = arg(r, s, 0, s->type);
    *v = apply(s->op, s->type, pair);
    return;
  case K_ACCUM:
    v = &r->accum[id][row_place(r, s)];
    pair[0] = *v, pair[1] = arg(r, s, 0, s->type);
    *v = apply(s->op, s->type, pair);
    return;
  case K_SCATTER: {
    char *p = address(r, s->index, r->value[s->arg[1]].i * s->step);
    pair[0] = value_read(t, p), pair[1] = arg(r, s, 0, t);
    value_write(t, p, apply(s->op, t, pair));
    return;
  }
  }
}

static void run_level(KernelRun *r, KLevel level, int phase) {
  for (int i = 0; i < r->k->nstmts; i++)
    if (r->k->stmt[i].level == level && r->k->stmt[i].phase == phase) run_stmt(r, i);
}

// Advances loops first..first+n to the next iteration. Returns false after the last one.
static bool count_up(KernelRun *r, int first, int n) {
  for (int l = first + n - 1; l >= first; l--) {
    if (++r->at[l] < extent(r, l)) return true;
    r->at[l] = 0;
  }
  return false;
}

static void run_phase(KernelRun *r, int phase) {
  const Kernel *k = r->k;
  run_level(r, LEVEL_OUTER, phase);
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].kind == K_REDUCE && k->stmt[i].phase == phase)
      r->value[i] = identity(k->stmt[i].op, k->stmt[i].type);
  for (int l = k->nouter; l < k->nouter + k->ninner; l++) {
    r->at[l] = 0;
    if (extent(r, l) == 0) return;
  }
  do run_level(r, LEVEL_INNER, phase);
  while (count_up(r, k->nouter, k->ninner));
}

static void store_accums(KernelRun *r) {
  for (int i = 0; i < r->k->nstmts; i++) {
    const KStmt *s = &r->k->stmt[i];
    if (s->kind != K_ACCUM) continue;
    memset(r->at, 0, sizeof r->at);
    bool some = true;
    for (int l = r->k->nouter; l < r->k->nouter + r->k->ninner; l++)
      if (r->k->ptr[s->index].stride[l] && extent(r, l) == 0) some = false;
    while (some) {
      Dtype t = r->k->ptr[s->index].type;
      Value v = r->accum[i][row_place(r, s)];
      value_write(t, address(r, s->index, 0),
                  flt(t) && flt(s->type) ? v : converted(v, s->type, t));
      int l = r->k->nouter + r->k->ninner - 1;
      for (; l >= r->k->nouter; l--) {
        if (!r->k->ptr[s->index].stride[l]) continue;
        if (++r->at[l] < extent(r, l)) break;
        r->at[l] = 0;
      }
      some = l >= r->k->nouter;
    }
  }
}

void kernel_interpret(KernelRun *r) {
  const Kernel *k = r->k;
  for (int i = 0; i < k->nstmts; i++) {
    if (k->stmt[i].kind != K_ACCUM) continue;
    int64_t n = 1;
    for (int l = k->nouter; l < k->nouter + k->ninner; l++)
      if (k->ptr[k->stmt[i].index].stride[l]) n *= k->loop[l].size;
    r->accum[i] = malloc((size_t)n * sizeof(Value));
    for (int64_t j = 0; j < n; j++) r->accum[i][j] = identity(k->stmt[i].op, k->stmt[i].type);
  }
  run_level(r, LEVEL_PROLOGUE, 0);
  bool some = true;
  for (int l = 0; l < k->nouter; l++) some = some && extent(r, l) > 0;
  while (some) {
    for (int ph = 0; ph < k->nphases; ph++) run_phase(r, ph);
    some = count_up(r, 0, k->nouter);
  }
  store_accums(r);
  for (int i = 0; i < k->nstmts; i++) free(r->accum[i]);
}
