// Cases of the kernel suites: their memory, running a kernel as code and interpreted, comparing the
// results.
#include "tests/suite/common/kernel_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "ir/base/philox.h"
#include "tests/suite/common/code.h"

static Case *cases;
static int ncases, capacity;

static bool flt(Dtype t) { return dtype_is_float(t); }

// -- memory -------------------------------------------------------------------------------------

uint64_t case_seed = 88172645463325252;
uint64_t case_random(void) {
  case_seed ^= case_seed << 13;
  case_seed ^= case_seed >> 7;
  return case_seed ^= case_seed << 17;
}
int case_below(int n) { return (int)(case_random() % (uint64_t)n); }
static double unit(void) { return (double)(case_random() >> 11) * 0x1p-53; }

static double number(int data) {
  static const double special[] = {(double)NAN,
                                   (double)INFINITY,
                                   -(double)INFINITY,
                                   0,
                                   -0.0,
                                   1,
                                   -1,
                                   2.5,
                                   -2.5,
                                   0.5,
                                   1e9,
                                   -1e9,
                                   3e38,
                                   1e-40,
                                   255.5};
  if (data == DATA_POSITIVE) return unit() * 4 + 0.1;
  if (data == DATA_SPECIAL)
    return case_below(3) ? special[case_below((int)countof(special))] : unit() * 20 - 10;
  if (data == DATA_SMALL) return case_below(5) - 2;
  return unit() * 8 - 4;
}

static int64_t whole(int data, Dtype t) {
  if (t == TYPE_BOOL) return case_below(2);
  if (data == DATA_INDEX) return case_below(12);
  if (data == DATA_SMALL) return t == TYPE_U8 ? case_below(4) : case_below(7) - 3;
  if (t == TYPE_U8) return case_below(256);
  static const int64_t edge[] = {0, 1, -1, INT32_MIN, INT32_MAX, 2, -2, 7, -7, 100};
  if (data == DATA_SPECIAL || data == DATA_WILD)
    return case_below(2) ? edge[case_below((int)countof(edge))] : (int32_t)case_random();
  return case_below(201) - 100;
}

static int64_t elements(const Case *c, int p) {
  const KPtr *kp = &c->ptr[p];
  if (c->size[p]) return c->size[p];
  int64_t n = 1 + kp->offset;
  for (int i = 0; i < kp->nbases; i++) n += c->slot[kp->base[i].slot] * kp->base[i].stride;
  for (int l = 0; l < c->k.nouter + c->k.ninner; l++) n += kp->stride[l] * (c->k.loop[l].size - 1);
  for (int i = 0; i < c->k.nstmts; i++)
    if ((c->stmt[i].kind == K_LOAD_AT || c->stmt[i].kind == K_SCATTER) && c->stmt[i].index == p)
      n += 12 * c->stmt[i].step;
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

// -- running and comparing ----------------------------------------------------------------------

// Returns a relative difference that neighbouring numbers of the type do not exceed: sums that
// differ in their last bits may be rounded to either of two neighbours.
static double roundoff(Dtype t) {
  return t == TYPE_F64    ? 0x1p-50
         : t == TYPE_BF16 ? 0x1.02p-7
         : t == TYPE_F16  ? 0x1.02p-10
                          : 0x1p-21;
}

static bool close_enough(const Case *c, Dtype t, const char *a, const char *b) {
  if (!flt(t)) return memcmp(a, b, (size_t)dtype_bytes(t)) == 0;
  double x = dtype_load(t, a), y = dtype_load(t, b), scale = fabs(y);
  if (x == y || (isnan(x) && isnan(y))) return true;
  double least = t == TYPE_F16 ? 0x1p-24 : t == TYPE_F64 ? 0x1p-1074 : 0x1p-133;
  return fabs(x - y) <= roundoff(t) * scale + c->tol * (scale + 1) + least;
}

int64_t case_units(const Case *c) {
  int64_t n = 1;
  for (int l = 0; l < c->k.nouter; l++) {
    int64_t x = c->k.loop[l].slot < 0 ? c->k.loop[l].size : c->slot[c->k.loop[l].slot];
    n *= l == c->k.vector ? ceil_div(x, c->k.block) : x;
  }
  return n;
}

// Runs a case as machine code; the context is the array of ProgKernels.
static void run_code(CaseRun *r) {
  const Case *c = r->c;
  const ProgKernel *pk = (const ProgKernel *)r->context + r->i;
  int64_t n = case_units(c), grain = ceil_div(n, c->chunks),
          chunks = n == 0 ? 0 : ceil_div(n, grain);
  char *partial = aligned_alloc(64, (size_t)(pk->partial_bytes * (chunks + 1) + 64));
  void *ptr[MAX_P];
  for (int p = 0; p < c->k.nptr; p++) ptr[p] = r->mem[p];
  KernelCall call = {.ptr = ptr,
                     .slot = c->slot,
                     .num = c->num,
                     .partial = partial,
                     .status = &r->status,
                     .step = INTERP_STEP,
                     .seed = philox_seed(INTERP_SEED)};
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
    printf("  %s: p%d[%lld] is %.9g, not %.9g\n", c->name, p, (long long)i,
           dtype_load(t, got + i * w), dtype_load(t, want + i * w));
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
  printf("  %s: status %u, %lld at %lld\n", c->name, s->code, (long long)s->value,
         (long long)s->position);
  return false;
}

static size_t bytes_of(const Case *c, int p) {
  return (size_t)(elements(c, p) * dtype_bytes(c->ptr[p].type)) + 2 * GUARD;
}

// Sets to[] to copies of the memory of all pointers, which lie between guards.
static void copy_memory(const Case *c, char *const *from, char **to) {
  for (int p = 0; p < c->k.nptr; p++) {
    size_t bytes = bytes_of(c, p);
    to[p] = aligned_alloc(64, (bytes + 63) / 64 * 64); // for streamed stores
    memcpy(to[p], from[p] - GUARD, bytes);
    to[p] += GUARD;
  }
}

static void free_memory(const Case *c, char *const *mem) {
  for (int p = 0; p < c->k.nptr; p++) free(mem[p] - GUARD);
}

static void interpret(const Case *c, char *const *mem, KernelRun *r) {
  r->slot = c->slot;
  r->num = c->num;
  r->k = &c->k;
  r->mem = mem;
  kernel_interpret(r);
}

bool case_check(int i, int nways, CaseWay *way) {
  const Case *c = &cases[i];
  char *before[MAX_P], *want[MAX_P], *got[MAX_P];
  int64_t n[MAX_P];
  for (int p = 0; p < c->k.nptr; p++) {
    n[p] = elements(c, p);
    before[p] = (char *)calloc(bytes_of(c, p), 1) + GUARD;
    fill(c, p, before[p], n[p]);
  }
  KernelRun *r = calloc(1, sizeof *r);
  copy_memory(c, before, want);
  interpret(c, want, r);
  bool all = true;
  for (int k = 0; k < nways; k++) {
    copy_memory(c, before, got);
    CaseRun code = {.c = c, .i = i, .mem = got, .elements = n, .context = way[k].context};
    way[k].run(&code);
    way[k].good = same_status(c, r, &code.status);
    for (int p = 0; p < c->k.nptr && way[k].good; p++)
      way[k].good = same_memory(c, p, got[p], want[p], n[p]);
    all = all && way[k].good;
    free_memory(c, got);
  }
  free_memory(c, want);
  free_memory(c, before);
  free(r);
  return all;
}

// -- making kernels -----------------------------------------------------------------------------

Case *case_new(const char *fmt, ...) {
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

// Adds a loop of `size`; its extent is in a slot when valid < size.
void case_loop(Case *c, bool outer, int64_t size, int64_t valid) {
  int at = c->k.nouter + c->k.ninner;
  int16_t slot = -1;
  if (valid != size) {
    slot = (int16_t)c->k.nslots++;
    c->slot[slot] = valid;
  }
  c->k.loop[at] = (KLoop){.name = "l", .size = size, .slot = slot};
  if (outer)
    c->k.nouter++;
  else
    c->k.ninner++;
}

int case_pointer(Case *c, Dtype t, bool written, int n, const int64_t *stride) {
  KPtr *p = &c->ptr[c->k.nptr];
  *p = (KPtr){.type = t, .written = written};
  for (int l = 0; l < n; l++) p->stride[l] = stride[l];
  return c->k.nptr++;
}

int case_walk(Case *c, int64_t offset, int n, const int64_t *stride) {
  KPtr *p = &c->walk[c->k.nwalks];
  *p = (KPtr){.type = TYPE_I64, .offset = offset};
  for (int l = 0; l < n; l++) p->stride[l] = stride[l];
  return c->k.nwalks++;
}

int case_stmt(Case *c, KKind kind, Op op, Dtype t, KLevel level, int phase, int a, int b, int d,
              int index) {
  c->stmt[c->k.nstmts] = (KStmt){.kind = kind,
                                 .op = op,
                                 .type = t,
                                 .level = level,
                                 .phase = (uint8_t)phase,
                                 .arg = {a, b, d},
                                 .index = index,
                                 .slot = -1};
  return c->k.nstmts++;
}
int case_load(Case *c, int p, KLevel level, int phase) {
  return case_stmt(c, K_LOAD, OP_ADD, c->ptr[p].type, level, phase, NO_STMT, NO_STMT, NO_STMT, p);
}
int case_op1(Case *c, Op op, Dtype t, KLevel level, int phase, int a) {
  return case_stmt(c, K_OP, op, t, level, phase, a, NO_STMT, NO_STMT, -1);
}
int case_load_as(Case *c, int p, Dtype t, int phase) {
  int x = case_load(c, p, LEVEL_INNER, phase);
  return c->ptr[p].type == t ? x : case_op1(c, OP_CAST, t, LEVEL_INNER, phase, x);
}
int case_op2(Case *c, Op op, Dtype t, KLevel level, int phase, int a, int b) {
  return case_stmt(c, K_OP, op, t, level, phase, a, b, NO_STMT, -1);
}
int case_reduce(Case *c, Op op, Dtype t, int phase, int a) {
  return case_stmt(c, K_REDUCE, op, t, LEVEL_INNER, phase, a, NO_STMT, NO_STMT, -1);
}
void case_store(Case *c, int p, KLevel level, int phase, int a) {
  case_stmt(c, K_STORE, OP_ADD, c->ptr[p].type, level, phase, a, NO_STMT, NO_STMT, p);
}
void case_accum(Case *c, Op op, Dtype t, int p, KLevel level, int phase, int a) {
  case_stmt(c, K_ACCUM, op, t, level, phase, a, NO_STMT, NO_STMT, p);
}

// -- all ----------------------------------------------------------------------------------------

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

Program *cases_program(Arena *a, Kernel ***kernels) {
  Program *p = arena_array(a, Program, 1);
  p->nkernels = (uint32_t)ncases;
  p->kernel = arena_array(a, ProgKernel, ncases);
  *kernels = arena_array(a, Kernel *, ncases);
  for (int i = 0; i < ncases; i++) {
    (*kernels)[i] = &cases[i].k;
    p->kernel[i] = (ProgKernel){.name = arena_printf(a, "k%d", i),
                                .partial_bytes = kernel_partial_bytes(&cases[i].k)};
  }
  return p;
}

enum { WIDTHS = 3 };
static const int widths[WIDTHS] = {512, 256, 128};

// Compiles all cases for vectors of `width` bits. Returns NULL after printing an error. The code is
// called by way->run.
static Code *compile(Arena *a, int width, CaseWay *way) {
  Diag *d = diag_new(a);
  Kernel **kernels;
  Program *p = cases_program(a, &kernels);
  double start = seconds();
  Code *code = code_load(
      p, kernels,
      &(CodeOptions){
          .width = width, .opt = suite_opt(2), .without = suite_without(), .cache = suite_cache()},
      d);
  printf("%d bit: %d kernels compiled, %.2f ms each\n", width, ncases,
         1e3 * (seconds() - start) / ncases);
  if (!code) diag_print(d, stdout, false);
  *way = (CaseWay){.run = run_code, .context = p->kernel};
  return code;
}

static bool verify_all(void) {
  bool ok = true;
  for (int i = 0; i < ncases; i++) {
    char why[200];
    cases[i].k.ptr = cases[i].ptr;
    cases[i].k.walk = cases[i].walk;
    cases[i].k.stmt = cases[i].stmt;
    if (kernel_verify(&cases[i].k, why)) continue;
    printf("case %s is no kernel: %s\n", cases[i].name, why);
    ok = false;
  }
  return ok;
}

int cases_all(Case **out) {
  *out = cases;
  return verify_all() ? ncases : -1;
}

int cases_run(int argc, char **argv) {
  int passed = 0, failed = 0, only = argc > 1 ? atoi(argv[1]) : 0;
  if (!verify_all()) return 1;
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", 3 * ncases);
    return 0;
  }
  Arena *a = arena_new();
  CaseWay way[WIDTHS];
  Code *code[WIDTHS];
  int width[WIDTHS], n = 0;
  for (int w = 0; w < WIDTHS; w++) {
    if (only && only != widths[w]) continue;
    width[n] = widths[w];
    if ((code[n] = compile(a, widths[w], &way[n])))
      n++;
    else
      failed += ncases;
  }
  for (int i = 0; i < ncases && n > 0; i++) {
    (void)case_check(i, n, way);
    for (int w = 0; w < n; w++) {
      if (!way[w].good)
        printf("FAIL %d bit: %s\n%s", width[w], cases[i].name, kernel_print(a, &cases[i].k));
      *(way[w].good ? &passed : &failed) += 1;
    }
  }
  for (int w = 0; w < n; w++) code_free(code[w]);
  arena_free(a);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
