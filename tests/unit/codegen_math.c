// Accuracy of generated elementary functions, in units of the last place, over the whole range.
//
// f32 results are compared with libm in double, f64 results with libm in long double. The greatest error of
// each function is printed and must stay within its row; infinities, NaNs and signs of zero must be right.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/codegen.h"

typedef long double Wide;

static Wide f_rsqrt(Wide x, Wide y) { (void)y; return 1 / sqrtl(x); }
static Wide f_sigmoid(Wide x, Wide y) { (void)y; Wide e = expl(-fabsl(x)); return x < 0 ? e / (1 + e) : 1 / (1 + e); }
static Wide f_softplus(Wide x, Wide y) { (void)y; return isnan(x) ? x : fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }
static Wide f_mod(Wide x, Wide y) {
  Wide r = fmodl(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static Wide f_pow(Wide x, Wide y) { return powl(x, y); }
#define ONE(name, f) static Wide f_##name(Wide x, Wide y) { (void)y; return f(x); }
ONE(exp, expl)
ONE(expm1, expm1l)
ONE(log, logl)
ONE(log1p, log1pl)
ONE(tanh, tanhl)
ONE(erf, erfl)
ONE(sin, sinl)
ONE(cos, cosl)
ONE(sqrt, sqrtl)

typedef struct Case {
  Op op;
  Wide (*f)(Wide, Wide);
  double ulp32, ulp64; // greatest error allowed
} Case;
static const Case cases[] = {
  {OP_EXP, f_exp, 1.5, 1.5},         {OP_EXPM1, f_expm1, 2.5, 2.5}, {OP_LOG, f_log, 1.5, 1.5},
  {OP_LOG1P, f_log1p, 2.5, 2.5},     {OP_TANH, f_tanh, 4.1, 4},       {OP_SIGMOID, f_sigmoid, 3, 3},
  {OP_SOFTPLUS, f_softplus, 3, 3},   {OP_ERF, f_erf, 2, 3},         {OP_SIN, f_sin, 1.5, 1.5},
  {OP_COS, f_cos, 1.5, 1.5},         {OP_POW, f_pow, 1, 4},         {OP_MOD, f_mod, 0.6, 0.6},
  {OP_SQRT, f_sqrt, 0.5, 0.501},     {OP_RSQRT, f_rsqrt, 1.5, 1.5},
};

enum { N = 1 << 16 };

// One kernel y = op(x, z) over N elements.
static void make(Kernel *k, KPtr *ptr, KStmt *s, Op op, Dtype t) {
  *k = (Kernel){.name = "k", .why = "test", .nouter = 1, .vector = 0, .rows = -1, .nphases = 1, .nptr = 3, .nstmts = 4,
                .block = 4096, .ptr = ptr, .stmt = s};
  k->loop[0] = (KLoop){"i", N, -1};
  for (int i = 0; i < 3; i++) ptr[i] = (KPtr){.type = t, .written = i == 2, .stride = {1}};
  for (int i = 0; i < 2; i++)
    s[i] = (KStmt){.kind = K_LOAD, .type = t, .level = LEVEL_OUTER, .arg = {NO_STMT, NO_STMT, NO_STMT}, .index = i, .slot = -1};
  bool two = op_row(op)->nargs == 2;
  s[2] = (KStmt){.kind = K_OP, .op = op, .type = t, .level = LEVEL_OUTER, .arg = {0, two ? 1 : NO_STMT, NO_STMT}, .index = -1, .slot = -1};
  s[3] = (KStmt){.kind = K_STORE, .type = t, .level = LEVEL_OUTER, .arg = {2, NO_STMT, NO_STMT}, .index = 2, .slot = -1};
}

enum { NCASES = (int)countof(cases) };
static Kernel kernel[2][NCASES], *kernels[2 * NCASES];
static KPtr ptrs[2][NCASES][3];
static KStmt stmts[2][NCASES][4];
static ProgKernel prog_kernel[2 * NCASES];
static Program program;
static Code *code;
static Arena *arena;

static int setup(void **state) {
  (void)state;
  arena = arena_new();
  Diag *d = diag_new(arena);
  for (int w = 0; w < 2; w++)
    for (int i = 0; i < NCASES; i++) {
      make(&kernel[w][i], ptrs[w][i], stmts[w][i], cases[i].op, w ? TYPE_F64 : TYPE_F32);
      kernels[w * NCASES + i] = &kernel[w][i];
      prog_kernel[w * NCASES + i].name = "k";
    }
  program = (Program){.nkernels = 2 * NCASES, .kernel = prog_kernel};
  code = code_load(&program, kernels, &(CodeOptions){.opt = 2}, d);
  if (!code) diag_print(d, stderr, false);
  return code ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  code_free(code);
  arena_free(arena);
  return 0;
}

static uint64_t seed = 88172645463325252;
static uint64_t next(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

static void run(int i, bool wide, void *x, void *z, void *y) {
  void *const p[3] = {x, z, y};
  Status status = {0};
  KernelCall call = {.ptr = p, .status = &status};
  prog_kernel[wide * NCASES + i].run(&call, 0, N / 4096);
}

static double ulps(double got, Wide want, bool wide) {
  double near = wide ? (double)want : (double)(float)want;
  if (isnan(got) || isnan(near)) return isnan(got) && isnan(near) ? 0 : HUGE_VAL;
  if (isinf(got) || isinf(near)) {
    // an infinity for what rounds to the greatest finite number, or the other way, is one place off
    double top = wide ? DBL_MAX : (double)FLT_MAX;
    return got == near ? 0 : fabs(got) >= top && fabs(near) >= top && (got > 0) == (near > 0) ? 1 : HUGE_VAL;
  }
  if (got == 0 && near == 0) return 0;
  int e = wide ? -1022 : -126, digits = wide ? 52 : 23, at = near == 0 ? e : ilogb(near);
  return (double)(fabsl((Wide)got - want) / ldexpl(1, (at > e ? at : e) - digits));
}

// Arguments: f32 bit patterns in even steps; f64 and second arguments from the generator, dense near 1.
static double argument(bool wide, uint64_t k, int pass) {
  double x;
  if (!wide && pass >= 0) {
    uint32_t bits = (uint32_t)(k * 1021 + 7);
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
  }
  uint64_t r = next();
  if (k % 4 == 0) {
    memcpy(&x, &r, sizeof x);
    return wide ? x : (double)(float)x;
  }
  double u = (double)(r >> 11) * 0x1p-53 * 2 - 1;
  x = k % 4 == 1 ? u * 800 : k % 4 == 2 ? u * 10 : ldexp(u, -(int)(r & 31));
  return wide ? x : (double)(float)x;
}

static void sweep(int i, bool wide, double *worst, double *at, double *at2) {
  static float x32[N], z32[N], y32[N];
  static double x64[N], z64[N], y64[N];
  int passes = wide ? 6 : 64;
  for (int pass = 0; pass < passes; pass++) {
    for (int k = 0; k < N; k++) {
      x64[k] = argument(wide, (uint64_t)pass * N + (uint64_t)k, cases[i].op == OP_POW || cases[i].op == OP_MOD ? -(k & 1) : 0);
      z64[k] = argument(wide, (uint64_t)k / 4, -1);
      if (cases[i].op == OP_MOD && fabs(x64[k] / z64[k]) > 0x1p150) z64[k] = x64[k] / 3;
      x32[k] = (float)x64[k];
      z32[k] = (float)z64[k];
    }
    if (wide) run(i, true, x64, z64, y64);
    else run(i, false, x32, z32, y32);
    for (int k = 0; k < N; k++) {
      double y = wide ? y64[k] : (double)y32[k], x = wide ? x64[k] : (double)x32[k], z = wide ? z64[k] : (double)z32[k];
      double u = ulps(y, cases[i].f((Wide)x, (Wide)z), wide);
      if (!(u <= *worst)) *worst = u, *at = x, *at2 = z;
    }
  }
}

static void accuracy(void **state) {
  (void)state;
  int bad = 0;
  for (int i = 0; i < NCASES; i++)
    for (int wide = 0; wide < 2; wide++) {
      double worst = 0, at = 0, at2 = 0, most = wide ? cases[i].ulp64 : cases[i].ulp32;
      sweep(i, wide, &worst, &at, &at2);
      printf("%-10s %s  %.3f ulp at %a", op_row(cases[i].op)->text, wide ? "f64" : "f32", worst, at);
      if (op_row(cases[i].op)->nargs == 2) printf(", %a", at2);
      printf("%s\n", worst <= most ? "" : "  TOO MUCH");
      bad += !(worst <= most);
    }
  assert_int_equal(bad, 0);
}

// Special arguments, against libm bit for bit but for NaN's payload.
static void special(void **state) {
  (void)state;
  static const double x[] = {0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN, 1, -1, 0x1p-1074, -0x1p-149, 0x1p-149};
  static float x32[N], z32[N], y32[N];
  static double x64[N], z64[N], y64[N];
  int n = (int)countof(x), bad = 0;
  for (int k = 0; k < N; k++) {
    x64[k] = x[k % n];
    z64[k] = x[k / n % n];
    x32[k] = (float)x64[k];
    z32[k] = (float)z64[k];
  }
  for (int i = 0; i < NCASES; i++)
    for (int wide = 0; wide < 2; wide++) {
      if (wide) run(i, true, x64, z64, y64);
      else run(i, false, x32, z32, y32);
      for (int k = 0; k < n * n; k++) {
        Wide a = wide ? (Wide)x64[k] : (Wide)x32[k], b = wide ? (Wide)z64[k] : (Wide)z32[k];
        // a remainder by an infinity of the other sign is that infinity, as x - y floor(x/y) rounds
        double y = wide ? y64[k] : (double)y32[k], want = (double)cases[i].f(a, b);
        bool zero = want == 0 && cases[i].op != OP_MOD && cases[i].op != OP_COS && signbit(want) != signbit(y);
        if (ulps(y, cases[i].f(a, b), wide) <= 4 && !zero) continue;
        printf("%s %s of %La, %La: %a, not %a\n", op_row(cases[i].op)->text, wide ? "f64" : "f32", a, b, y, want);
        bad++;
      }
    }
  assert_int_equal(bad, 0);
}

int main(void) {
  if (!code_available()) {
    printf("skipped: no LLVM in this build\n");
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(accuracy), cmocka_unit_test(special)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
