// Elementary functions: quotients, e^x, log, softplus, tanh, erf, and the arithmetic that they
// share with emit_gates.c, emit_pow.c and emit_trig.c. suite_elementwise measures the errors in
// units of the last place.
//
//   exp   x = n ln2 + r, |r| <= ln2/2: a polynomial in r, times 2^n by its bits
//   log   x = 2^k m, m in [sqrt(1/2), sqrt(2)): f32 a polynomial in m - 1, f64 the series of atanh
//
// The comment at each polynomial says which function it fits (Chebyshev). Two are from others: the
// f64 logarithm (W. J. Cody's form as in fdlibm) and the f32 erf (N. Juffa).
#include "codegen/cpu/emit_math_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <math.h>

LLVMValueRef math_fma(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  if (!e->target->fma) return add(e, mul(e, a, b), c);
  LLVMValueRef args[3] = {a, b, c};
  return emit_call(e, "llvm.fma", 3, args);
}

LLVMValueRef math_poly(Emit *e, LLVMValueRef x, int n, const double *c) {
  LLVMValueRef y = num(x, c[0]);
  for (int i = 1; i < n; i++) y = math_fma(e, y, x, num(x, c[i]));
  return y;
}

// Returns x rounded to the upper half of its binary digits (Veltkamp). x minus the result has at
// most 12 binary digits, in f64 at most 26.
static LLVMValueRef high_half(Emit *e, LLVMValueRef x) {
  LLVMValueRef c = scale(e, x, is_f32(e, x) ? 0x1p12 + 1 : 0x1p27 + 1);
  return sub(e, c, sub(e, c, x));
}

LLVMValueRef math_product_error(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef p) {
  if (e->target->fma) return math_fma(e, a, b, negate(e, p));
  LLVMValueRef ah = high_half(e, a), al = sub(e, a, ah), bh = high_half(e, b), bl = sub(e, b, bh);
  LLVMValueRef rest = add(e, sub(e, mul(e, ah, bh), p), mul(e, ah, bl));
  return add(e, add(e, rest, mul(e, al, bh)), mul(e, al, bl));
}

LLVMValueRef math_near(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  if (e->target->fma) return math_fma(e, a, b, c);
  LLVMValueRef p = mul(e, a, b);
  return add(e, add(e, p, c), math_product_error(e, a, b, p));
}

// -- quotients ----------------------------------------------------------------------------------

// Moves the builder to the place behind the instruction that computes v.
static void place_behind(Emit *e, LLVMValueRef v) {
  LLVMValueRef next = LLVMIsAInstruction(v) ? LLVMGetNextInstruction(v) : NULL;
  while (next && LLVMIsAPHINode(next)) next = LLVMGetNextInstruction(next);
  if (next)
    LLVMPositionBuilderBefore(e->b, next);
  else if (LLVMIsAInstruction(v))
    LLVMPositionBuilderAtEnd(e->b, LLVMGetInstructionParent(v));
}

// A quotient q of a and the reciprocal of d is corrected by its remainder a - q d (Markstein,
// "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). The
// reciprocal is computed once, where the divisor is. A tiny divisor is multiplied by a power of
// two, so that the reciprocal is finite. The correction is NaN where q is infinite or the divisor
// is 0 or infinite: there q is the result.
LLVMValueRef math_quotients(Emit *e, LLVMValueRef a, LLVMValueRef divisor) {
  bool f32 = is_f32(e, a);
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  place_behind(e, divisor);
  LLVMValueRef tiny = less(e, absolute(e, divisor), f32 ? 0x1p-100 : 0x1p-960);
  LLVMValueRef unit = pick(e, tiny, num(divisor, f32 ? 0x1p64 : 0x1p512), num(divisor, 1));
  LLVMValueRef d = mul(e, divisor, unit), inverse = quot(e, num(d, 1), d);
  LLVMPositionBuilderAtEnd(e->b, here);
  d = emit_splat(e, d), inverse = emit_splat(e, inverse), unit = emit_splat(e, unit);
  LLVMValueRef q = mul(e, a, inverse), rest = math_fma(e, negate(e, q), d, a);
  LLVMValueRef y = math_fma(e, rest, inverse, q);
  return mul(e, pick(e, is_nan(e, y), q, y), unit);
}

// -- exponentials -------------------------------------------------------------------------------

static LLVMTypeRef bits_type(Emit *e, LLVMValueRef x) {
  return type_like(e, is_f32(e, x) ? e->i32 : e->i64, x);
}

// Returns a number whose addition rounds a float to an integer, and leaves that integer in the low
// bits of the sum. This is 1.5 * 2^23, for f64 1.5 * 2^52. To the integer are added the bias of the
// exponent and k, so that a shift of the bits gives the float 2^(integer + k).
double math_magic(bool f32, int k) { return f32 ? 0x1.8p23 + 127 + k : 0x1.8p52 + 1023 + k; }

Nearest math_nearest(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef magic) {
  LLVMValueRef shifted = math_fma(e, a, b, magic), n = sub(e, shifted, magic);
  LLVMValueRef bits = bit_cast(e, shifted, bits_type(e, n));
  bits = left_by(e, bits, is_f32(e, n) ? 23 : 52);
  return (Nearest){n, bit_cast(e, bits, LLVMTypeOf(n))};
}

// Emits e^r - 1 as r + r^2 p(r), for |r| <= ln2/2. The polynomial p fits (e^r - 1 - r) / r^2.
static LLVMValueRef small_expm1(Emit *e, LLVMValueRef r) {
  static const double p32[] = {0.001392618358771349454, 0.00836317905272257737,
                               0.0416665546172045742, 0.1666657698969877568, 0.5};
  static const double p64[] = {2.091468696808687723e-9,
                               2.510521700472074516e-8,
                               2.755727364311029533e-7,
                               2.755725540020642443e-6,
                               0.00002480158732554774122,
                               0.0001984126987482062527,
                               0.00138888888888837483,
                               0.008333333333326135126,
                               0.04166666666666666975,
                               0.1666666666666667099,
                               0.5};
  LLVMValueRef p = is_f32(e, r) ? POLY(e, r, p32) : POLY(e, r, p64);
  return math_fma(e, mul(e, r, r), p, r);
}

// Emits x - n k ln2, where n is an integer and k a power of two. ln2 is the sum of two numbers, and
// the product of n and the first of them is exact.
static LLVMValueRef reduce_argument(Emit *e, LLVMValueRef x, LLVMValueRef n, double k) {
  bool f32 = is_f32(e, x);
  LLVMValueRef r = math_fma(e, n, num(x, k * (f32 ? -0.693359375 : -LN2_HI)), x);
  return math_fma(e, n, num(x, k * (f32 ? 2.12194440054690583e-4 : -LN2_LO)), r);
}

Power math_power(Emit *e, LLVMValueRef x, LLVMValueRef magic) {
  Nearest d = math_nearest(e, x, num(x, M_LOG2E), magic);
  return (Power){small_expm1(e, reduce_argument(e, x, d.n, 1)), d.s};
}

// Emits 2^f - 1 as f p(f), for |f| <= 1/2. The polynomial p fits (2^f - 1) / f.
LLVMValueRef math_small_exp2m1(Emit *e, LLVMValueRef f) {
  static const double p32[] = {0.0001537725329399108887, 0.00133879238273948431,
                               0.009618322364985942841,  0.05550366267561912537,
                               0.2402264922857284546,    0.6931471824645996094};
  static const double p64[] = {
      4.445524652050691704e-10, 7.072596957174970997e-9,   1.01781215195007327e-7,
      1.321544254817118686e-6,  0.00001525273370042242067, 0.0001540353044176897093,
      0.001333355814653261728,  0.009618129107606894577,   0.05550410866482123259,
      0.2402265069591009815,    0.6931471805599453112};
  return mul(e, f, is_f32(e, f) ? POLY(e, f, p32) : POLY(e, f, p64));
}

LLVMValueRef math_power_value(Emit *e, const Power *y) { return math_fma(e, y->s, y->q, y->s); }

// The number e^x as the product (1 + q) s u, where q and s are the fields of `y`. The factor u is
// 2^-64 (in f64 2^-512) if x < 0, else 2. So s is a normal number also where e^x is subnormal or
// near the largest number.
typedef struct Exponential {
  Power y;
  LLVMValueRef below; // whether x < 0
} Exponential;

int math_shift(bool f32) { return f32 ? 64 : 512; }
double math_lowest(bool f32) { return f32 ? -125 : -900; }

static Exponential exponential(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  LLVMValueRef below = less(e, x, 0), c = clamp(e, x, math_lowest(f32), f32 ? 89 : 710);
  LLVMValueRef magic =
      pick(e, below, num(x, math_magic(f32, math_shift(f32))), num(x, math_magic(f32, -1)));
  return (Exponential){math_power(e, c, magic), below};
}
// Emits y u. The factor u is a power of two: 2^-64 (in f64 2^-512) where `below` is true, else 2.
static LLVMValueRef exponential_scaled(Emit *e, LLVMValueRef y, LLVMValueRef below) {
  return mul(e, y, pick(e, below, num(y, ldexp(1, -math_shift(is_f32(e, y)))), num(y, 2)));
}

// Returns whether x fills a register of AVX-512, which has an instruction for x 2^n (scalef).
static bool has_scalef(Emit *e, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return is_vector(x) && e->target->bits == 512 &&
         LLVMGetVectorSize(t) * (is_f32(e, x) ? 4 : 8) == 64;
}

// Emits x 2^n with one rounding, for an integer n, and 0 where `some` is false. has_scalef(e, x)
// must be true.
static LLVMValueRef scalef(Emit *e, LLVMValueRef x, LLVMValueRef n, LLVMValueRef some) {
  bool f32 = is_f32(e, x);
  LLVMTypeRef lanes = LLVMIntTypeInContext(e->ctx, LLVMGetVectorSize(LLVMTypeOf(x)));
  LLVMValueRef args[5] = {
      x, n, num(x, 0), bit_cast(e, some, lanes),
      LLVMConstInt(e->i32, 4, false)}; // 4: the rounding mode of the CPU's control register
  return emit_intrinsic(
      e, f32 ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512", 0, NULL,
      5, args);
}

// Emits e^x with scalef, which replaces the two factors s and u. The result has the same bits.
// Lanes whose result is 0, such as masked scores of attention, are left out: a result that is too
// small for a normal number takes the CPU over 100 cycles.
static LLVMValueRef exp_by_scalef(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  LLVMValueRef c = clamp(e, x, math_lowest(f32), f32 ? 89 : 710);
  LLVMValueRef n = math_nearest(e, c, num(x, M_LOG2E), num(x, math_magic(f32, 0))).n;
  LLVMValueRef some = cmp(e, LLVMRealUGT, x, num(x, math_lowest(f32)));
  return scalef(e, offset(e, small_expm1(e, reduce_argument(e, c, n, 1)), 1), n, some);
}

LLVMValueRef math_exp(Emit *e, LLVMValueRef x) {
  if (has_scalef(e, x)) return exp_by_scalef(e, x);
  Exponential y = exponential(e, x);
  return exponential_scaled(e, math_power_value(e, &y.y), y.below);
}

LLVMValueRef math_expm1(Emit *e, LLVMValueRef x) {
  Exponential y = exponential(e, x);
  LLVMValueRef one = pick(e, y.below, num(x, ldexp(1, math_shift(is_f32(e, x)))), num(x, 0.5));
  LLVMValueRef z = math_fma(e, y.y.s, y.y.q, sub(e, y.y.s, one));
  return sign_of(e, exponential_scaled(e, z, y.below), x);
}

// -- logarithms ---------------------------------------------------------------------------------

LogArgument math_log_argument(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  int shift = f32 ? 23 : 52;
  LLVMTypeRef t = bits_type(e, x);
  LLVMValueRef tiny = less(e, x, f32 ? 0x1p-126 : 0x1p-1022);
  LLVMValueRef bits = bit_cast(e, pick(e, tiny, scale(e, x, f32 ? 0x1p23 : 0x1p52), x), t);
  LLVMValueRef k = int_sub(e, bits, const_int(t, f32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd));
  k = LLVMBuildAShr(e->b, k, const_int(t, shift), "");
  LLVMValueRef m = int_sub(e, bits, shift_left(e, k, const_int(t, shift)));
  k = int_sub(e, k, pick(e, tiny, const_int(t, shift), const_int(t, 0)));
  LLVMValueRef f = offset(e, bit_cast(e, m, LLVMTypeOf(x)), -1);
  return (LogArgument){LLVMBuildSIToFP(e->b, k, LLVMTypeOf(x), ""), f};
}

LLVMValueRef math_log_special(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef positive = greater(e, x, 0), finite = less(e, x, (double)INFINITY);
  LLVMValueRef other = pick(e, equal(e, x, 0), num(x, -(double)INFINITY), num(x, (double)NAN));
  return pick(e, bit_and(e, positive, finite), y, pick(e, positive, x, other));
}

// Emits log x, where x = 2^k (1 + f), from log(1 + f) = f - f^2/2 + f^3 p(f). The polynomial p fits
// (log(1 + f) - f + f^2/2) / f^3.
static LLVMValueRef log32(Emit *e, LogArgument d) {
  static const double p[] = {0.06971620541003426762, -0.11479748625389889,   0.1168542357110526424,
                             -0.1242568569282141988, 0.1424905714190214591,  -0.1666780236757913239,
                             0.2000071576352165949,  -0.2499999695762597625, 0.333333311799725756};
  LLVMValueRef f2 = mul(e, d.f, d.f);
  LLVMValueRef y = mul(e, mul(e, f2, d.f), POLY(e, d.f, p));
  y = math_fma(e, d.k, num(d.f, -2.12194440054690583e-4), y);
  y = math_fma(e, f2, num(d.f, -0.5), y);
  return math_fma(e, d.k, num(d.f, 0.693359375), add(e, d.f, y));
}

// Emits R(z), where z = s^2, of the equation log(1 + f) = 2s + s R(s^2) with s = f / (2 + f).
static LLVMValueRef log64_series(Emit *e, LLVMValueRef z) {
  static const double p[] = {1.479819860511658591e-01, 1.531383769920937332e-01,
                             1.818357216161805012e-01, 2.222219843214978396e-01,
                             2.857142874366239149e-01, 3.999999999940941908e-01,
                             6.666666666666735130e-01};
  return mul(e, z, POLY(e, z, p));
}

static LLVMValueRef log64(Emit *e, LogArgument d) {
  LLVMValueRef f = d.f, s = quot(e, f, offset(e, f, 2)), half = mul(e, scale(e, f, 0.5), f);
  LLVMValueRef r = log64_series(e, mul(e, s, s));
  LLVMValueRef low = math_fma(e, s, add(e, half, r), scale(e, d.k, LN2_LO));
  return sub(e, scale(e, d.k, LN2_HI), sub(e, sub(e, half, low), f));
}

LLVMValueRef math_log(Emit *e, LLVMValueRef x) {
  LogArgument d = math_log_argument(e, x);
  return math_log_special(e, x, is_f32(e, x) ? log32(e, d) : log64(e, d));
}

// Emits log(1 + x) as log(u) + (x - (u - 1)) / u, where u is 1 + x rounded. The quotient corrects
// the rounding of u.
LLVMValueRef math_log1p(Emit *e, LLVMValueRef x) {
  LLVMValueRef u = offset(e, x, 1), lost = quot(e, sub(e, x, offset(e, u, -1)), u);
  LLVMValueRef usable = bit_and(e, greater(e, u, 0), less(e, u, (double)INFINITY));
  LLVMValueRef y = add(e, math_log(e, u), pick(e, usable, lost, num(x, 0)));
  return pick(e, equal(e, u, 1), x, y);
}

// -- softplus, tanh, erf ------------------------------------------------------------------------

// Emits log(1 + e^x) as max(x, 0) + log(1 + y), where y = e^-|x| and log(1 + y) = y + y^2 p(y). The
// polynomial p fits (log(1 + y) / y - 1) / y over 0..1. Arithmetic on subnormal numbers is slow, so
// y is computed as z = 2^k y, a normal number. The argument of p is raised to at least 2^-80: below
// that, y p(y) is too small to change the result.
LLVMValueRef math_softplus(Emit *e, LLVMValueRef x) {
  static const double p32[] = {
      -0.003309817751869559288, 0.02016496285796165466, -0.05758864432573318481,
      0.1067270711064338684,    -0.1535063832998275757, 0.1969369649887084961,
      -0.2495824247598648071,   0.3333047628402709961,  -0.499999314546585083};
  static const double p64[] = {
      0.00002531207616978243466, -0.000291582302273315327, 0.001594912261491490115,
      -0.005540752756664800436,  0.01383399138639761616,   -0.02673743081575026161,
      0.04229312658428966657,    -0.05749626970381877337,  0.07035175449468460454,
      -0.08081029218360186948,   0.09013083186822700528,   -0.09980993872379067301,
      0.1110750119268698979,     -0.1249947879052081494,   0.1428565879437759309,
      -0.1666666248945696691,    0.1999999979079425645,    -0.249999999936578144,
      0.3333333333323469871,     -0.4999999999999945739};
  bool f32 = is_f32(e, x);
  int k = math_shift(f32);
  LLVMValueRef low = at_least(e, negate(e, absolute(e, x)), math_lowest(f32));
  Power power = math_power(e, low, num(x, math_magic(f32, k)));
  LLVMValueRef z = math_power_value(e, &power);
  LLVMValueRef y = scale(e, at_least(e, z, ldexp(1, k - 80)), ldexp(1, -k));
  LLVMValueRef p = f32 ? POLY(e, y, p32) : POLY(e, y, p64);
  LLVMValueRef positive = pick(e, greater(e, x, 0), x, num(x, 0));
  return math_fma(e, math_fma(e, z, mul(e, y, p), z), num(x, ldexp(1, -k)), positive);
}

// Emits tanh x: t / (t + 1) with the sign of x, where t = (e^(2a) - 1) / 2 and a = |x|. a is
// limited to 20, in f64 to 22, where the quotient is 1. a is split as n ln2/2 + r, with an integer
// n and r in -0.087..0.26. In general t = 2^n (1/2 + r + r^2 p(r)) - 1/2. For n = 0 this is r + r^2
// p(r), which loses no digits by cancellation. The range of r makes n = 0 for all small a.
LLVMValueRef math_tanh(Emit *e, LLVMValueRef x) {
  static const double p32[] = {0.05135809257626533508, 0.1324753016233444214, 0.3332996070384979248,
                               0.6666737198829650879, 1};
  static const double p64[] = {5.010306472559308339e-6,
                               0.0000253664660097998281,
                               0.0001411379407660499585,
                               0.0007054673991869146351,
                               0.003174602433277700864,
                               0.0126984127494513878,
                               0.0444444444476971035,
                               0.1333333333329951294,
                               0.3333333333333294049,
                               0.6666666666666672174,
                               1};
  bool f32 = is_f32(e, x);
  LLVMValueRef a = at_most(e, absolute(e, x), f32 ? 20 : 22);
  Nearest d =
      math_nearest(e, offset(e, a, -M_LN2 / 8), num(x, 2 * M_LOG2E), num(x, math_magic(f32, 0)));
  LLVMValueRef r = reduce_argument(e, a, d.n, 0.5), p = f32 ? POLY(e, r, p32) : POLY(e, r, p64);
  LLVMValueRef t = math_fma(e, d.s, math_fma(e, mul(e, r, r), p, r),
                            math_fma(e, d.s, num(x, 0.5), num(x, -0.5)));
  return sign_of(e, quot(e, t, offset(e, t, 1)), x);
}

static LLVMValueRef erf32(Emit *e, LLVMValueRef x) {
  static const double near[] = {-5.96761703e-4, 4.99119423e-3,  -2.67681349e-2,
                                1.12819925e-1,  -3.76125336e-1, 1.28379166e-1};
  static const double far[] = {-1.72853470e-5, 3.83197126e-4,  -3.88396438e-3, 2.42546219e-2,
                               -1.06777877e-1, -6.34846687e-1, -1.28717512e-1};
  LLVMValueRef t = absolute(e, x), y = math_fma(e, POLY(e, mul(e, x, x), near), x, x);
  LLVMValueRef q = clamp(e, t, 0, 4);
  LLVMValueRef tail = math_exp(e, math_fma(e, POLY(e, q, far), q, negate(e, q)));
  LLVMValueRef z = sign_of(e, sub(e, num(x, 1), tail), x);
  return pick(e, greater(e, t, 0.927734375), z, y);
}

// Emits erf x. For |x| < 1 it is x p(x^2), where the polynomial p (`near`) fits erf(sqrt z) / sqrt
// z. For larger a = |x| it is 1 - c e^(-a^2) / (a + g(a)) with the sign of x, where c = 1 /
// sqrt(pi). g is approximated by the quotient of polynomials n / d, with an error below 2^-55 for a
// in 1..6.
static LLVMValueRef erf64(Emit *e, LLVMValueRef x) {
  static const double near[] = {
      -7.795898827002142242e-10, 1.37200645467776856e-8,     -1.62084838018717059e-7,
      1.644742470331736241e-6,   -0.00001492473690741966034, 0.0001205529490483970792,
      -0.0008548325975389692081, 0.005223977607116422732,    -0.02686617064323777036,
      0.1128379167094500627,     -0.3761263890318354044,     1.128379167095512567};
  static const double n[] = {0.002490002012991678863, 0.02510647135723210203,
                             0.123464918085671817,    0.3598233036985063142,
                             0.6248895362463872479,   0.5641894342637096421};
  static const double d[] = {0.004980050254556023471,
                             0.05021105210669619721,
                             0.2519458944927925011,
                             0.7694330535903096173,
                             1.492740295547753404,
                             1.751660212895619118,
                             1};
  LLVMValueRef a = at_most(e, absolute(e, x), 6), y = mul(e, POLY(e, mul(e, x, x), near), x),
               q = POLY(e, a, d);
  LLVMValueRef bell = scale(e, math_exp(e, negate(e, mul(e, a, a))), 0.56418958354775628695);
  LLVMValueRef tail = quot(e, mul(e, bell, q), math_fma(e, a, q, POLY(e, a, n)));
  LLVMValueRef z = sign_of(e, sub(e, num(x, 1), tail), x);
  return pick(e, less(e, a, 1), y, z);
}

LLVMValueRef math_erf(Emit *e, LLVMValueRef x) { return is_f32(e, x) ? erf32(e, x) : erf64(e, x); }

#endif
