// Machine code of hand-made kernels against a plain interpreter of kernels, at every vector width.
//
// The interpreter is common/kernel_interp.c. Cases:
// every pointwise op on every type it takes (both positions of the vector loop and scalar code; lengths
// that leave tails; extents known and from slots), reductions, accumulators over several chunks, gathers
// and scatters, narrow floats, register tiles, the status word, and random kernels.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "ir/philox.h"
#include "tests/suite/common/kernel_interp.h"

enum { MAX_P = 8, MAX_S = MAX_INTERP_STMTS, MAX_SLOT = 8, MAX_NUM = 8, GUARD = 64, RANK_LIMIT = 3 };

typedef struct Case {
  char name[96];
  Kernel k;
  KPtr ptr[MAX_P];
  KStmt stmt[MAX_S];
  int64_t slot[MAX_SLOT];
  double num[MAX_NUM];
  double tol;        // relative, on top of what the type rounds
  int data;          // how to fill memory, see fill()
  int chunks;        // how many to cut the units into
} Case;

static Case *cases;
static int ncases, capacity;

static bool flt(Dtype t) { return dtype_is_float(t); }

// -- memory -----------------------------------------------------------------------------------------------------

static uint64_t seed = 88172645463325252;
static uint64_t next(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}
static int below(int n) { return (int)(next() % (uint64_t)n); }
static double unit(void) { return (double)(next() >> 11) * 0x1p-53; }

enum { DATA_REAL, DATA_POSITIVE, DATA_SPECIAL, DATA_SMALL, DATA_WILD, DATA_INDEX };

static double number(int data) {
  static const double special[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0, -0.0, 1, -1, 2.5, -2.5, 0.5, 1e9, -1e9, 3e38, 1e-40, 255.5};
  if (data == DATA_POSITIVE) return unit() * 4 + 0.1;
  if (data == DATA_SPECIAL) return below(3) ? special[below((int)countof(special))] : unit() * 20 - 10;
  if (data == DATA_SMALL) return below(5) - 2;
  return unit() * 8 - 4;
}

static int64_t whole(int data, Dtype t) {
  if (t == TYPE_BOOL) return below(2);
  if (data == DATA_INDEX) return below(12);
  if (data == DATA_SMALL) return t == TYPE_U8 ? below(4) : below(7) - 3;
  if (t == TYPE_U8) return below(256);
  static const int64_t edge[] = {0, 1, -1, INT32_MIN, INT32_MAX, 2, -2, 7, -7, 100};
  if (data == DATA_SPECIAL || data == DATA_WILD) return below(2) ? edge[below((int)countof(edge))] : (int32_t)next();
  return below(201) - 100;
}

static int64_t elements(const Case *c, int p) {
  const KPtr *kp = &c->ptr[p];
  int64_t n = 1 + kp->offset;
  for (int i = 0; i < kp->nbases; i++) n += c->slot[kp->base[i].slot] * kp->base[i].stride;
  for (int l = 0; l < c->k.nouter + c->k.ninner; l++) n += kp->stride[l] * (c->k.loop[l].size - 1);
  for (int i = 0; i < c->k.nstmts; i++)
    if ((c->stmt[i].kind == K_LOAD_AT || c->stmt[i].kind == K_SCATTER) && c->stmt[i].index == p) n += 12 * c->stmt[i].step;
  return n;
}

static void fill(const Case *c, int p, char *at, int64_t n) {
  Dtype t = c->ptr[p].type;
  for (int64_t i = 0; i < n; i++) {
    char *x = at + i * dtype_bytes(t);
    Value v = {flt(t) ? number(c->data) : 0, flt(t) ? 0 : whole(c->data, t)};
    value_write(t, x, v);
  }
}

// -- running and comparing ------------------------------------------------------------------------------------------

static double roundoff(Dtype t) {
  return t == TYPE_F64 ? 0x1p-50 : t == TYPE_BF16 ? 0x1.02p-8 : t == TYPE_F16 ? 0x1.02p-10 : 0x1p-21;
}

static bool close_enough(const Case *c, Dtype t, const char *a, const char *b) {
  if (!flt(t)) return memcmp(a, b, (size_t)dtype_bytes(t)) == 0;
  double x = dtype_load(t, a), y = dtype_load(t, b), scale = fabs(y);
  if (x == y || (isnan(x) && isnan(y))) return true;
  double least = t == TYPE_F16 ? 0x1p-24 : t == TYPE_F64 ? 0x1p-1074 : 0x1p-133;
  return fabs(x - y) <= roundoff(t) * scale + c->tol * (scale + 1) + least;
}

static int64_t units(const Case *c) {
  int64_t n = 1;
  for (int l = 0; l < c->k.nouter; l++) {
    int64_t x = c->k.loop[l].slot < 0 ? c->k.loop[l].size : c->slot[c->k.loop[l].slot];
    n *= l == c->k.vector ? ceil_div(x, c->k.block) : x;
  }
  return n;
}

static void run_code(const Case *c, const ProgKernel *pk, char *const *mem, Status *status) {
  int64_t n = units(c), grain = ceil_div(n, c->chunks), chunks = n == 0 ? 0 : ceil_div(n, grain);
  char *partial = aligned_alloc(64, (size_t)(pk->partial_bytes * (chunks + 1) + 64));
  void *ptr[MAX_P];
  for (int p = 0; p < c->k.nptr; p++) ptr[p] = mem[p];
  KernelCall call = {.ptr = ptr, .slot = c->slot, .num = c->num, .partial = partial, .status = status, .step = INTERP_STEP, .seed = philox_seed(INTERP_SEED)};
  for (int64_t i = 0; i < chunks; i++) {
    call.partial = partial + i * pk->partial_bytes;
    int64_t hi = (i + 1) * grain;
    pk->run(&call, i * grain, hi < n ? hi : n);
  }
  call.partial = partial;
  if (pk->combine) pk->combine(&call, chunks);
  free(partial);
}

static bool same_memory(const Case *c, int p, const char *got, const char *want, int64_t n) {
  Dtype t = c->ptr[p].type;
  int64_t w = dtype_bytes(t);
  if (memcmp(got - GUARD, want - GUARD, GUARD) || memcmp(got + n * w, want + n * w, GUARD)) {
    printf("  %s: writes outside of p%d\n", c->name, p);
    return false;
  }
  for (int64_t i = 0; i < n; i++) {
    if (close_enough(c, t, got + i * w, want + i * w)) continue;
    printf("  %s: p%d[%lld] is %.9g, not %.9g\n", c->name, p, (long long)i, dtype_load(t, got + i * w), dtype_load(t, want + i * w));
    return false;
  }
  return true;
}

static bool same_status(const Case *c, const KernelRun *r, const Status *s) {
  if ((s->code != 0) != (r->nfound > 0)) {
    printf("  %s: status code %u, %d values out of range\n", c->name, s->code, r->nfound);
    return false;
  }
  if (s->code == 0) return true;
  for (int i = 0; i < r->nfound; i++)
    if (s->code == 5 && s->value == r->found[i][0] && s->position == r->found[i][1]) return true;
  printf("  %s: status %u, %lld at %lld\n", c->name, s->code, (long long)s->value, (long long)s->position);
  return false;
}

static bool check(const Case *c, const ProgKernel *pk) {
  char *want[MAX_P], *got[MAX_P];
  int64_t n[MAX_P];
  for (int p = 0; p < c->k.nptr; p++) {
    n[p] = elements(c, p);
    size_t bytes = (size_t)(n[p] * dtype_bytes(c->ptr[p].type)) + 2 * GUARD;
    want[p] = calloc(bytes, 1);
    got[p] = malloc(bytes);
    want[p] += GUARD;
    fill(c, p, want[p], n[p]);
    memcpy(got[p], want[p] - GUARD, bytes);
    got[p] += GUARD;
  }
  KernelRun *r = calloc(1, sizeof *r);
  r->slot = c->slot;
  r->num = c->num;
  r->k = &c->k;
  r->mem = want;
  kernel_interpret(r);
  Status status = {0};
  run_code(c, pk, got, &status);
  bool ok = same_status(c, r, &status);
  for (int p = 0; p < c->k.nptr; p++) {
    ok = ok && same_memory(c, p, got[p], want[p], n[p]);
    free(want[p] - GUARD);
    free(got[p] - GUARD);
  }
  free(r);
  return ok;
}

// -- making kernels ---------------------------------------------------------------------------------------------------

static Case *new_case(const char *fmt, ...) PRINTF_LIKE(1, 2);
static Case *new_case(const char *fmt, ...) {
  if (ncases == capacity) {
    capacity = capacity ? 2 * capacity : 256;
    cases = realloc(cases, (size_t)capacity * sizeof *cases);
  }
  Case *c = &cases[ncases++];
  memset(c, 0, sizeof *c);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(c->name, sizeof c->name, fmt, ap);
  va_end(ap);
  c->k = (Kernel){.name = "k", .why = "test", .vector = -1, .rows = -1, .nphases = 1, .block = 1};
  c->chunks = 3;
  return c;
}

// A loop of `size`, its extent in a slot when valid < size.
static void loop(Case *c, bool outer, int64_t size, int64_t valid) {
  int at = c->k.nouter + c->k.ninner;
  int16_t slot = -1;
  if (valid != size) {
    slot = (int16_t)c->k.nslots++;
    c->slot[slot] = valid;
  }
  c->k.loop[at] = (KLoop){"l", size, slot};
  if (outer) c->k.nouter++;
  else c->k.ninner++;
}

static int pointer(Case *c, Dtype t, bool written, int n, const int64_t *stride) {
  KPtr *p = &c->ptr[c->k.nptr];
  *p = (KPtr){.type = t, .written = written};
  for (int l = 0; l < n; l++) p->stride[l] = stride[l];
  return c->k.nptr++;
}
#define STRIDES(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

static int stmt(Case *c, KKind kind, Op op, Dtype t, KLevel level, int phase, int a, int b, int d, int index) {
  c->stmt[c->k.nstmts] = (KStmt){.kind = kind, .op = op, .type = t, .level = level, .phase = (uint8_t)phase,
                                 .arg = {a, b, d}, .index = index, .slot = -1};
  return c->k.nstmts++;
}
static int load(Case *c, int p, KLevel level, int phase) {
  return stmt(c, K_LOAD, OP_ADD, c->ptr[p].type, level, phase, NO_STMT, NO_STMT, NO_STMT, p);
}
static int op1(Case *c, Op op, Dtype t, KLevel level, int phase, int a) {
  return stmt(c, K_OP, op, t, level, phase, a, NO_STMT, NO_STMT, -1);
}
static int op2(Case *c, Op op, Dtype t, KLevel level, int phase, int a, int b) {
  return stmt(c, K_OP, op, t, level, phase, a, b, NO_STMT, -1);
}
static int reduce(Case *c, Op op, Dtype t, int phase, int a) {
  return stmt(c, K_REDUCE, op, t, LEVEL_INNER, phase, a, NO_STMT, NO_STMT, -1);
}
static void store(Case *c, int p, KLevel level, int phase, int a) {
  stmt(c, K_STORE, OP_ADD, c->ptr[p].type, level, phase, a, NO_STMT, NO_STMT, p);
}
static void accum(Case *c, Op op, Dtype t, int p, KLevel level, int phase, int a) {
  stmt(c, K_ACCUM, op, t, level, phase, a, NO_STMT, NO_STMT, p);
}

// -- pointwise ops ------------------------------------------------------------------------------------------------------

// Where the vector loop stands: scalar code, last inner loop, last outer loop.
enum { AT_NONE, AT_INNER, AT_OUTER, PLACES };
static const char *const place_name[] = {"scalar", "inner", "outer"};

static KLevel pointwise_loops(Case *c, int place, int64_t n, int64_t valid) {
  loop(c, true, 3, 3);
  loop(c, place == AT_OUTER, n, valid);
  c->k.vector = place == AT_NONE ? -1 : 1;
  c->k.block = 256;
  return place == AT_OUTER ? LEVEL_OUTER : LEVEL_INNER;
}

typedef struct OpTypes {
  Op op;
  const char *types; // f: floats, i: i32, l: i64, u: u8, b: bool
  int data;
  double tol;
} OpTypes;

static const OpTypes pointwise[] = {
  {OP_NEG, "fil", DATA_SPECIAL, 0}, {OP_EXP, "f", DATA_REAL, 0}, {OP_LOG, "f", DATA_POSITIVE, 0},
  {OP_LOG1P, "f", DATA_POSITIVE, 0}, {OP_EXPM1, "f", DATA_REAL, 0}, {OP_SQRT, "f", DATA_POSITIVE, 0},
  {OP_RSQRT, "f", DATA_POSITIVE, 0}, {OP_ABS, "fil", DATA_SPECIAL, 0}, {OP_SIGN, "fil", DATA_SPECIAL, 0},
  {OP_FLOOR, "f", DATA_SPECIAL, 0}, {OP_CEIL, "f", DATA_SPECIAL, 0}, {OP_ROUND, "f", DATA_SPECIAL, 0},
  {OP_SIN, "f", DATA_SPECIAL, 0}, {OP_COS, "f", DATA_SPECIAL, 0}, {OP_TANH, "f", DATA_SPECIAL, 0},
  {OP_SIGMOID, "f", DATA_SPECIAL, 0}, {OP_RELU, "filu", DATA_SPECIAL, 0}, {OP_ERF, "f", DATA_SPECIAL, 0},
  {OP_SOFTPLUS, "f", DATA_SPECIAL, 0}, {OP_RECIPROCAL, "f", DATA_SPECIAL, 0}, {OP_NOT, "b", DATA_REAL, 0},
  {OP_ADD, "filu", DATA_WILD, 1e-7}, {OP_SUB, "filu", DATA_WILD, 1e-7}, {OP_MUL, "filu", DATA_WILD, 0},
  {OP_DIV, "f", DATA_POSITIVE, 0}, {OP_MOD, "fil", DATA_WILD, 0}, {OP_FLOOR_DIV, "fil", DATA_WILD, 0},
  {OP_POW, "f", DATA_POSITIVE, 0}, {OP_POW, "il", DATA_SMALL, 0}, {OP_MAXIMUM, "filub", DATA_SPECIAL, 0},
  {OP_MINIMUM, "filub", DATA_SPECIAL, 0}, {OP_EQ, "filub", DATA_SPECIAL, 0}, {OP_NE, "filub", DATA_SPECIAL, 0},
  {OP_LT, "filub", DATA_SPECIAL, 0}, {OP_LE, "filub", DATA_SPECIAL, 0}, {OP_AND, "b", DATA_REAL, 0},
  {OP_OR, "b", DATA_REAL, 0}, {OP_CLIP, "filu", DATA_SPECIAL, 0}, {OP_ARG_KEY, "fiub", DATA_SPECIAL, 0},
};

static bool letter_has(const char *letters, Dtype t) {
  char want = flt(t) ? 'f' : t == TYPE_I32 ? 'i' : t == TYPE_I64 ? 'l' : t == TYPE_U8 ? 'u' : t == TYPE_BOOL ? 'b' : 'x';
  return strchr(letters, want) != NULL;
}

static const int64_t lengths[][2] = {{1, 1}, {7, 7}, {16, 16}, {33, 33}, {1000, 1000}, {1000, 0}, {1000, 613}, {40, 17}};

static void pointwise_case(const OpTypes *o, Dtype t, int place, const int64_t *n) {
  Case *c = new_case("%s %s %s %lld/%lld", op_row(o->op)->text, dtype_text(t), place_name[place], (long long)n[1], (long long)n[0]);
  KLevel level = pointwise_loops(c, place, n[0], n[1]);
  bool compares = o->op == OP_EQ || o->op == OP_NE || o->op == OP_LT || o->op == OP_LE, key = o->op == OP_ARG_KEY;
  Dtype out = compares ? TYPE_BOOL : key ? TYPE_U64 : t;
  int nargs = op_row(o->op)->nargs, a[3] = {NO_STMT, NO_STMT, NO_STMT};
  for (int i = 0; i < nargs; i++)
    a[i] = load(c, pointer(c, key && i ? TYPE_I32 : t, false, STRIDES(n[0], 1)), level, 0);
  int y = stmt(c, K_OP, o->op, out, level, 0, a[0], a[1], a[2], -1);
  store(c, pointer(c, out, true, STRIDES(n[0], 1)), level, 0, y);
  c->data = o->data;
  c->tol = flt(t) ? o->tol : 0;
}

static void add_pointwise(void) {
  for (size_t i = 0; i < countof(pointwise); i++)
    for (int t = 0; t < TYPE_COUNT; t++) {
      if (!letter_has(pointwise[i].types, (Dtype)t) || (pointwise[i].op == OP_ARG_KEY && t == TYPE_F64)) continue;
      // every length in one position, a few in the others: code differs by position, tails by length
      for (size_t n = 0; n < countof(lengths); n++)
        for (int place = 0; place < PLACES; place++)
          if (place == AT_INNER ? (t == TYPE_F32 || n == 3 || n == 6) : n == 3) pointwise_case(&pointwise[i], (Dtype)t, place, lengths[n]);
    }
}

static void add_casts(void) {
  for (int from = 0; from < TYPE_COUNT; from++)
    for (int to = 0; to < TYPE_COUNT; to++) {
      if (from == to || from == TYPE_U64 || to == TYPE_U64) continue;
      Case *c = new_case("cast %s %s", dtype_text((Dtype)from), dtype_text((Dtype)to));
      KLevel level = pointwise_loops(c, from % 2 ? AT_OUTER : AT_INNER, 200, 200);
      int a = load(c, pointer(c, (Dtype)from, false, STRIDES(200, 1)), level, 0);
      store(c, pointer(c, (Dtype)to, true, STRIDES(200, 1)), level, 0, op1(c, OP_CAST, (Dtype)to, level, 0, a));
      c->data = from == TYPE_F64 && (to == TYPE_BF16 || to == TYPE_F16) ? DATA_REAL : DATA_SPECIAL;
    }
}

static void add_selections(void) {
  for (int t = 0; t < TYPE_COUNT; t++)
    for (int place = 0; place < PLACES; place++) {
      Case *c = new_case("where %s %s", dtype_text((Dtype)t), place_name[place]);
      KLevel level = pointwise_loops(c, place, 50, 41);
      int p = load(c, pointer(c, TYPE_BOOL, false, STRIDES(50, 1)), level, 0);
      int a = load(c, pointer(c, (Dtype)t, false, STRIDES(1, 3)), level, 0);
      int b = load(c, pointer(c, (Dtype)t, false, STRIDES(50, 0)), level, 0);
      int y = stmt(c, K_OP, OP_WHERE, (Dtype)t, level, 0, p, a, b, -1);
      store(c, pointer(c, (Dtype)t, true, STRIDES(1, 4)), level, 0, y);
      c->data = DATA_SPECIAL;
    }
}

static void add_counters(void) {
  for (int place = 0; place < PLACES; place++) {
    Case *c = new_case("index, step, num, own_term %s", place_name[place]);
    KLevel level = pointwise_loops(c, place, 50, 41);
    c->slot[c->k.nslots] = 1000;
    int i = stmt(c, K_OP, OP_INDEX, TYPE_I32, level, 0, NO_STMT, NO_STMT, NO_STMT, 1);
    c->stmt[i].slot = c->k.nslots++;
    int j = stmt(c, K_OP, OP_INDEX, TYPE_I32, level, 0, NO_STMT, NO_STMT, NO_STMT, 0);
    int s = op2(c, OP_ADD, TYPE_I32, level, 0, i, op2(c, OP_MUL, TYPE_I32, level, 0, j, i));
    int step = stmt(c, K_OP, OP_STEP, TYPE_I32, LEVEL_PROLOGUE, 0, NO_STMT, NO_STMT, NO_STMT, -1);
    s = op2(c, OP_ADD, TYPE_I32, level, 0, s, step);
    int f = op1(c, OP_CAST, TYPE_F32, level, 0, s);
    int num = stmt(c, K_NUM, OP_ADD, TYPE_F32, LEVEL_PROLOGUE, 0, NO_STMT, NO_STMT, NO_STMT, 0);
    c->k.nnum = 1;
    c->num[0] = 0.25;
    int own[2];
    for (int q = 0; q < 2; q++) {
      own[q] = op1(c, OP_OWN_TERM, TYPE_F32, level, 0, f);
      c->slot[c->k.nslots] = q;
      c->stmt[own[q]].slot = c->k.nslots++;
    }
    int y = op2(c, OP_SUB, TYPE_F32, level, 0, op2(c, OP_MUL, TYPE_F32, level, 0, own[0], num), own[1]);
    store(c, pointer(c, TYPE_F32, true, STRIDES(50, 1)), level, 0, y);
  }
}

static void add_key_index(void) {
  for (int place = 0; place < PLACES; place++) {
    Case *c = new_case("argmax %s", place_name[place]);
    loop(c, true, 5, 5);
    loop(c, place == AT_OUTER, 37, 37);
    if (place == AT_OUTER) loop(c, false, 21, 19);
    c->k.vector = place == AT_NONE ? -1 : 1;
    c->k.block = 16;
    int in = place == AT_OUTER ? 2 : 1;
    int x = load(c, place == AT_OUTER ? pointer(c, TYPE_F32, false, STRIDES(37 * 21, 1, 37)) : pointer(c, TYPE_F32, false, STRIDES(37, 1)), LEVEL_INNER, 0);
    int i = stmt(c, K_OP, OP_INDEX, TYPE_I32, LEVEL_INNER, 0, NO_STMT, NO_STMT, NO_STMT, in);
    int best = reduce(c, OP_MAX, TYPE_U64, 0, op2(c, OP_ARG_KEY, TYPE_U64, LEVEL_INNER, 0, x, i));
    c->k.nphases = 2;
    int y = op1(c, OP_KEY_INDEX, TYPE_I32, LEVEL_OUTER, 1, best);
    store(c, place == AT_OUTER ? pointer(c, TYPE_I32, true, STRIDES(37, 1)) : pointer(c, TYPE_I32, true, STRIDES(1)), LEVEL_OUTER, 1, y);
    c->data = DATA_SPECIAL;
  }
}

// -- reductions, accumulators -------------------------------------------------------------------------------------------

static const struct { Op op; const char *types; } reductions[] = {
  {OP_SUM, "fil"}, {OP_MAX, "filub"}, {OP_MIN, "filub"}, {OP_PROD, "fil"}, {OP_ANY, "b"}, {OP_ALL, "b"},
};

// outer (3, n) with inner m, or outer 3 with inner (m, n): the vector loop is n.
static void reduce_case(Op op, Dtype t, int place, int64_t m, int64_t n, int64_t valid) {
  Case *c = new_case("%s %s %s %lldx%lld/%lld", op_row(op)->text, dtype_text(t), place_name[place], (long long)m, (long long)valid, (long long)n);
  loop(c, true, 3, 3);
  if (place == AT_OUTER) loop(c, true, n, valid);
  loop(c, false, m, m);
  if (place != AT_OUTER) loop(c, false, n, valid);
  c->k.vector = place == AT_NONE ? -1 : place == AT_OUTER ? 1 : 2;
  c->k.block = 64;
  int64_t s[3] = {m * n, place == AT_OUTER ? 1 : n, place == AT_OUTER ? n : 1};
  Dtype acc = t == TYPE_BF16 || t == TYPE_F16 ? TYPE_F32 : t;
  int r = reduce(c, op, acc, 0, load(c, pointer(c, t, false, 3, s), LEVEL_INNER, 0));
  c->k.nphases = 2;
  int out = place == AT_OUTER ? pointer(c, acc, true, STRIDES(n, 1)) : pointer(c, acc, true, STRIDES(1));
  store(c, out, LEVEL_OUTER, 1, r);
  c->data = op == OP_PROD ? DATA_POSITIVE : op == OP_SUM ? DATA_REAL : DATA_SPECIAL;
  if (op == OP_PROD && !flt(t)) c->data = DATA_SMALL;
  c->tol = flt(t) && (op == OP_SUM || op == OP_PROD) ? 1e-4 : 0;
}

static void accum_case(Op op, Dtype t, int place, bool moves, KLevel level) {
  Case *c = new_case("accum %s %s %s%s level %d", op_row(op)->text, dtype_text(t), place_name[place], moves ? " row" : "", (int)level);
  const int64_t n = 45, m = 6;
  loop(c, true, 7, 7);
  if (place == AT_OUTER) loop(c, true, n, 39);
  loop(c, false, m, m);
  if (place != AT_OUTER) loop(c, false, n, 39);
  c->k.vector = place == AT_NONE ? -1 : place == AT_OUTER ? 1 : 2;
  c->k.block = 20;
  int64_t s[3] = {m * n, place == AT_OUTER ? 1 : n, place == AT_OUTER ? n : 1};
  int64_t in_row[3] = {0, place == AT_OUTER ? 0 : 2 * n, place == AT_OUTER ? 3 : 2}, none[3] = {0};
  int64_t last[3] = {0, 0, 1};
  Dtype acc = t == TYPE_BF16 || t == TYPE_F16 ? TYPE_F32 : t;
  int x = load(c, pointer(c, t, false, 3, s), LEVEL_INNER, 0);
  if (level == LEVEL_OUTER) {
    c->k.nphases = 2;
    x = reduce(c, op, acc, 0, x);
  }
  accum(c, op, acc, pointer(c, acc, true, 3, moves ? in_row : none), level, level == LEVEL_OUTER, x);
  if (moves && place == AT_INNER) accum(c, op, acc, pointer(c, acc, true, 3, last), level, 0, x);
  c->data = op == OP_PROD ? DATA_POSITIVE : op == OP_SUM ? DATA_REAL : DATA_SPECIAL;
  if (op == OP_PROD && !flt(t)) c->data = DATA_SMALL;
  if (op == OP_PROD && flt(t)) c->data = DATA_SMALL;
  c->tol = flt(t) && op == OP_SUM ? 1e-4 : 0;
}

static void add_reductions(void) {
  for (size_t i = 0; i < countof(reductions); i++)
    for (int t = 0; t < TYPE_COUNT; t++)
      for (int place = 0; place < PLACES; place++) {
        if (!letter_has(reductions[i].types, (Dtype)t) && !(t == TYPE_U64 && reductions[i].op == OP_MAX)) continue;
        Op op = reductions[i].op;
        reduce_case(op, (Dtype)t, place, 3, op == OP_PROD ? 9 : 77, op == OP_PROD ? 9 : 77);
        if (t == TYPE_F32) reduce_case(op, TYPE_F32, place, 2, 300, 0);
        if (t == TYPE_F32 && op != OP_PROD) reduce_case(op, TYPE_F32, place, 1, 1000, 999);
        if (t == TYPE_U64) continue;
        accum_case(op, (Dtype)t, place, false, LEVEL_INNER);
        accum_case(op, (Dtype)t, place, true, LEVEL_INNER);
        accum_case(op, (Dtype)t, place, false, LEVEL_OUTER);
      }
}

// softmax of rows in three phases, with the logarithm of the sum accumulated
static void add_softmax(void) {
  for (int64_t n = 5; n < 400; n = n * 2 + 3) {
    Case *c = new_case("softmax %lld", (long long)n);
    loop(c, true, 9, 8);
    loop(c, false, n, n);
    c->k.vector = 1;
    c->k.nphases = 3;
    int in = pointer(c, TYPE_F32, false, STRIDES(n, 1)), out = pointer(c, TYPE_F32, true, STRIDES(n, 1));
    int m = reduce(c, OP_MAX, TYPE_F32, 0, load(c, in, LEVEL_INNER, 0));
    int e1 = op1(c, OP_EXP, TYPE_F32, LEVEL_INNER, 1, op2(c, OP_SUB, TYPE_F32, LEVEL_INNER, 1, load(c, in, LEVEL_INNER, 1), m));
    int s = reduce(c, OP_SUM, TYPE_F32, 1, e1);
    int e2 = op1(c, OP_EXP, TYPE_F32, LEVEL_INNER, 2, op2(c, OP_SUB, TYPE_F32, LEVEL_INNER, 2, load(c, in, LEVEL_INNER, 2), m));
    store(c, out, LEVEL_INNER, 2, op2(c, OP_DIV, TYPE_F32, LEVEL_INNER, 2, e2, s));
    int l = op2(c, OP_ADD, TYPE_F32, LEVEL_OUTER, 2, op1(c, OP_LOG, TYPE_F32, LEVEL_OUTER, 2, s), m);
    accum(c, OP_SUM, TYPE_F32, pointer(c, TYPE_F32, true, STRIDES(0, 0)), LEVEL_OUTER, 2, l);
    c->tol = 1e-5;
  }
}

// -- contractions in register tiles ---------------------------------------------------------------------------------------

// C[m, n] = relu(sum_k A[m, k] B[k, n] + bias[n]); turned: B[n, k], the vector loop is k.
static void tile_case(Dtype t, int64_t m, int64_t mv, int64_t n, int64_t nv, int64_t k, bool turned, int chunks) {
  Case *c = new_case("tile %s %lld/%lldx%lld/%lldx%lld%s", dtype_text(t), (long long)mv, (long long)m, (long long)nv, (long long)n, (long long)k, turned ? " turned" : "");
  Dtype acc = t == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  loop(c, true, m, mv);
  loop(c, true, n, nv);
  loop(c, false, k, k);
  c->k.vector = turned ? 2 : 1;
  c->k.block = 64;
  c->k.rows = 0;
  c->k.nphases = 2;
  int a = load(c, pointer(c, t, false, STRIDES(k, 0, 1)), LEVEL_INNER, 0);
  int b = load(c, turned ? pointer(c, t, false, STRIDES(0, k, 1)) : pointer(c, t, false, STRIDES(0, 1, n)), LEVEL_INNER, 0);
  int s = reduce(c, OP_SUM, acc, 0, op2(c, OP_MUL, acc, LEVEL_INNER, 0, a, b));
  int y = op2(c, OP_ADD, acc, LEVEL_OUTER, 1, s, load(c, pointer(c, t, false, STRIDES(0, 1, 0)), LEVEL_OUTER, 1));
  store(c, pointer(c, t, true, STRIDES(n, 1, 0)), LEVEL_OUTER, 1, op1(c, OP_RELU, acc, LEVEL_OUTER, 1, y));
  int64_t none[3] = {0};
  accum(c, OP_MAX, acc, pointer(c, acc, true, 3, none), LEVEL_OUTER, 1, y);
  c->chunks = chunks;
  c->tol = 1e-4;
}

static void add_tiles(void) {
  for (int chunks = 1; chunks < 4; chunks += 2) {
    tile_case(TYPE_F32, 32, 32, 100, 100, 20, false, chunks);
    tile_case(TYPE_F32, 29, 27, 150, 131, 33, false, chunks);
    tile_case(TYPE_F32, 13, 13, 20, 18, 70, true, chunks);
    tile_case(TYPE_F64, 10, 10, 70, 70, 15, false, chunks);
    tile_case(TYPE_BF16, 12, 12, 65, 65, 15, false, chunks);
    tile_case(TYPE_F32, 3, 3, 10, 10, 64, false, chunks);
    tile_case(TYPE_F32, 16, 0, 40, 40, 8, false, chunks);
  }
}

// -- gathers, scatters, checks ----------------------------------------------------------------------------------------------

static void gather_case(Dtype t, int place, bool scatter, bool uniform) {
  Case *c = new_case("%s %s %s%s", scatter ? "scatter" : "gather", dtype_text(t), place_name[place], uniform ? " uniform" : "");
  const int64_t n = 45, m = 5;
  loop(c, true, m, m);
  if (place == AT_OUTER) loop(c, true, n, 39);
  loop(c, false, 4, 4);
  if (place != AT_OUTER) loop(c, false, n, 39);
  c->k.vector = place == AT_NONE ? -1 : place == AT_OUTER ? 1 : 2;
  c->k.block = 20;
  int v = place == AT_OUTER ? 1 : 2, in = 3 - v;
  int64_t id[3] = {0}, x[3] = {0}, table[3] = {0};
  id[0] = uniform ? 1 : n;
  if (!uniform) id[v] = 1;
  x[0] = 4 * n, x[v] = 1, x[in] = n;
  table[in] = uniform ? n : 1;
  if (uniform) table[v] = 1;
  KLevel level = uniform || place == AT_OUTER ? LEVEL_OUTER : LEVEL_INNER;
  int i = load(c, pointer(c, TYPE_I32, false, 3, id), level, 0);
  int64_t step = uniform ? 4 * n : 4;
  if (scatter) {
    int y = load(c, pointer(c, t, false, 3, x), LEVEL_INNER, 0);
    stmt(c, K_SCATTER, OP_ADD, t, LEVEL_INNER, 0, y, i, NO_STMT, pointer(c, t, true, 3, table));
    c->stmt[c->k.nstmts - 1].step = step;
  } else {
    int y = stmt(c, K_LOAD_AT, OP_ADD, t, LEVEL_INNER, 0, i, NO_STMT, NO_STMT, pointer(c, t, false, 3, table));
    c->stmt[y].step = step;
    store(c, pointer(c, t, true, 3, x), LEVEL_INNER, 0, y);
  }
  c->data = DATA_INDEX;
  c->tol = flt(t) && scatter ? 1e-4 : 0;
}

static void add_gathers(void) {
  static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_I32, TYPE_I64};
  for (size_t t = 0; t < countof(types); t++)
    for (int place = 0; place < PLACES; place++)
      for (int kind = 0; kind < 4; kind++)
        if (types[t] != TYPE_BF16 || kind < 2) gather_case(types[t], place, kind & 2, kind & 1);
}

static void add_checks(void) {
  for (int place = 0; place < PLACES; place++)
    for (int limit = 5; limit <= 12; limit += 7) {
      Case *c = new_case("bound %s %d", place_name[place], limit);
      KLevel level = pointwise_loops(c, place, 50, 41);
      int x = load(c, pointer(c, TYPE_I32, false, STRIDES(50, 1)), level, 0);
      int y = stmt(c, K_OP, OP_BOUND, TYPE_I32, level, 0, x, NO_STMT, NO_STMT, 0);
      c->stmt[y].step = limit;
      c->k.nnum = 1;
      c->num[0] = 5;
      store(c, pointer(c, TYPE_I32, true, STRIDES(50, 1)), level, 0, y);
      c->data = DATA_INDEX;
    }
}

static void add_bases(void) {
  Case *c = new_case("base slots");
  loop(c, true, 4, 4);
  loop(c, false, 30, 30);
  c->k.vector = 1;
  c->slot[0] = 3;
  c->k.nslots = 1;
  int p = pointer(c, TYPE_F32, false, STRIDES(30, 1)), q = pointer(c, TYPE_F32, true, STRIDES(60, 2));
  c->ptr[p].nbases = c->ptr[q].nbases = 1;
  c->ptr[p].base[0] = (KBase){0, 7};
  c->ptr[q].base[0] = (KBase){0, 11};
  store(c, q, LEVEL_INNER, 0, load(c, p, LEVEL_INNER, 0));
}

// No outer loop at all: one unit.
static void add_no_outer(void) {
  Case *c = new_case("no outer loop");
  loop(c, false, 130, 129);
  c->k.vector = 0;
  c->k.nphases = 2;
  int s = reduce(c, OP_SUM, TYPE_F64, 0, load(c, pointer(c, TYPE_F64, false, STRIDES(1)), LEVEL_INNER, 0));
  store(c, pointer(c, TYPE_F64, true, STRIDES(0)), LEVEL_OUTER, 1, s);
  c->tol = 1e-12;
  c->chunks = 1;
}

// -- random kernels -----------------------------------------------------------------------------------------------------------

static int64_t random_size(void) {
  static const int64_t sizes[] = {1, 2, 3, 5, 8, 13, 17, 40};
  return sizes[below((int)countof(sizes))];
}

static void random_loops(Case *c) {
  int nouter = below(3) + (below(4) != 0), ninner = below(3);
  if (nouter > RANK_LIMIT) nouter = RANK_LIMIT;
  if (nouter + ninner == 0) nouter = 1;
  for (int i = 0; i < nouter + ninner; i++) {
    int64_t n = random_size();
    loop(c, i < nouter, n, below(3) ? n : below((int)n + 1));
  }
  int kind = below(3);
  if (kind == 1 && ninner) c->k.vector = (int8_t)(nouter + ninner - 1);
  if (kind == 2 && nouter) c->k.vector = (int8_t)(nouter - 1);
  c->k.block = random_size();
  if (below(3) == 0 && nouter > 0 && c->k.vector != 0) c->k.rows = (int8_t)below(c->k.vector == nouter - 1 ? nouter - 1 : nouter);
  if (c->k.rows == c->k.vector) c->k.rows = -1;
  c->k.nphases = (uint8_t)(1 + below(3));
  c->chunks = 1 + below(4);
}

// A pointer that moves along some of loops 0..n, dense over those in an order that is now and then turned;
// all: along every one.
static int random_pointer(Case *c, Dtype t, bool written, int n, bool all) {
  int64_t s[MAX_LOOPS] = {0}, at = 1;
  bool turned = below(4) == 0;
  for (int i = 0; i < n; i++) {
    int l = turned ? i : n - 1 - i;
    if (!all && below(3) == 0) continue;
    s[l] = at;
    at *= c->k.loop[l].size;
  }
  return pointer(c, t, written, n, s);
}

// A statement that statements of this level and phase may use, or NO_STMT.
static int random_value(const Case *c, KLevel level, int phase) {
  for (int tries = 0; tries < 20 && c->k.nstmts; tries++) {
    int i = below(c->k.nstmts);
    const KStmt *s = &c->stmt[i];
    if (s->type != TYPE_F32 || s->kind == K_STORE || s->kind == K_ACCUM || s->kind == K_SCATTER) continue;
    if (s->kind == K_REDUCE ? s->phase < phase
                            : s->level == LEVEL_OUTER ? s->phase <= phase : level == LEVEL_INNER && s->phase == phase)
      return i;
  }
  return NO_STMT;
}

static void random_stmts(Case *c, KLevel level, int phase) {
  static const Op ops[] = {OP_ADD, OP_SUB, OP_MAXIMUM, OP_MINIMUM, OP_MUL};
  int n = level == LEVEL_OUTER ? c->k.nouter : c->k.nouter + c->k.ninner;
  for (int i = 1 + below(4); i > 0 && c->k.nstmts < MAX_S - 6; i--) {
    int a = random_value(c, level, phase), b = random_value(c, level, phase);
    if (a == NO_STMT || below(3) == 0) {
      if (c->k.nptr < MAX_P - 4) load(c, random_pointer(c, TYPE_F32, false, n, false), level, phase);
    } else {
      op2(c, ops[below((int)countof(ops))], TYPE_F32, level, phase, a, b == NO_STMT ? a : b);
    }
  }
  int v = random_value(c, level, phase);
  if (v == NO_STMT) return;
  if (level == LEVEL_INNER && below(2)) reduce(c, below(2) ? OP_SUM : OP_MAX, TYPE_F32, phase, v);
  if (below(3) == 0 && c->k.nptr < MAX_P - 1) {
    int64_t s[MAX_LOOPS] = {0}, at = 1;
    for (int l = n - 1; l >= c->k.nouter; l--)
      if (below(2)) s[l] = at, at *= c->k.loop[l].size;
    accum(c, below(2) ? OP_SUM : OP_MIN, TYPE_F32, pointer(c, TYPE_F32, true, n, s), level, phase, v);
  }
  if ((below(2) || phase == c->k.nphases - 1) && c->k.nptr < MAX_P)
    store(c, random_pointer(c, TYPE_F32, true, n, true), level, phase, v);
}

static void add_random(int n) {
  for (int i = 0; i < n; i++) {
    Case *c = new_case("random %d", i);
    random_loops(c);
    for (int phase = 0; phase < c->k.nphases; phase++) {
      random_stmts(c, LEVEL_OUTER, phase);
      if (c->k.ninner) random_stmts(c, LEVEL_INNER, phase);
    }
    c->data = DATA_SMALL;
    c->tol = 1e-5;
  }
}

// -- all ---------------------------------------------------------------------------------------------------------------------

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_width(int width, int *passed, int *failed) {
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  Program p = {.nkernels = (uint32_t)ncases, .kernel = arena_array(a, ProgKernel, ncases)};
  Kernel **kernels = arena_array(a, Kernel *, ncases);
  for (int i = 0; i < ncases; i++) {
    kernels[i] = &cases[i].k;
    p.kernel[i] = (ProgKernel){.name = "k", .partial_bytes = kernel_partial_bytes(&cases[i].k)};
  }
  double start = seconds();
  Code *code = code_load(&p, kernels, &(CodeOptions){.width = width, .opt = 2}, d);
  printf("%d bit: %d kernels compiled, %.2f ms each\n", width, ncases, 1e3 * (seconds() - start) / ncases);
  if (!code) {
    diag_print(d, stdout, false);
    *failed += ncases;
  } else {
    for (int i = 0; i < ncases; i++) {
      bool ok = check(&cases[i], &p.kernel[i]);
      if (!ok) printf("FAIL %d bit: %s\n%s", width, cases[i].name, kernel_print(a, &cases[i].k));
      *(ok ? passed : failed) += 1;
    }
  }
  code_free(code);
  arena_free(a);
}

static bool verify_all(void) {
  bool ok = true;
  for (int i = 0; i < ncases; i++) {
    char why[200];
    cases[i].k.ptr = cases[i].ptr;
    cases[i].k.stmt = cases[i].stmt;
    if (kernel_verify(&cases[i].k, why)) continue;
    printf("case %s is no kernel: %s\n", cases[i].name, why);
    ok = false;
  }
  return ok;
}

int main(int argc, char **argv) {
  int passed = 0, failed = 0, only = argc > 1 ? atoi(argv[1]) : 0;
  if (argc > 2) seed = strtoull(argv[2], NULL, 0);
  add_pointwise();
  add_casts();
  add_selections();
  add_counters();
  add_key_index();
  add_reductions();
  add_softmax();
  add_tiles();
  add_gathers();
  add_checks();
  add_bases();
  add_no_outer();
  add_random(argc > 2 ? 1000 : 150);
  if (!verify_all()) return 1;
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", 3 * ncases);
    return 0;
  }
  static const int widths[] = {512, 256, 128};
  for (size_t i = 0; i < countof(widths); i++)
    if (!only || only == widths[i]) run_width(widths[i], &passed, &failed);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
