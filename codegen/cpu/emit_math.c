// Elementary functions as vector IR, f32 and f64, without contraction: every kernel rounds alike
// (decision 18). Errors are measured in units of the last place by suite_elementwise.
//
// exp:   x = n ln2 + r, |r| <= ln2/2; polynomial in r; 2^n by its bits, scaled so that it is a
// normal number log:   x = 2^k m, m in [sqrt(1/2), sqrt(2)); f32 polynomial in m-1, f64 the series
// of atanh Coefficients are Chebyshev fits of the functions stated beside them, except those of the
// f64 logarithm (W. J. Cody's form as in fdlibm) and the f32 erf (N. Juffa).
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <math.h>

LLVMValueRef math_fma(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  if (!e->target->fma) return add(e, mul(e, a, b), c);
  LLVMTypeRef t = LLVMTypeOf(a);
  LLVMValueRef args[3] = {a, b, c};
  return emit_intrinsic(e, "llvm.fma", 1, &t, 3, args);
}

LLVMValueRef math_poly(Emit *e, LLVMValueRef x, int n, const double *c) {
  LLVMValueRef y = num(x, c[0]);
  for (int i = 1; i < n; i++) y = math_fma(e, y, x, num(x, c[i]));
  return y;
}

// x = high + low, low of 12 (f32) or 26 (f64, Veltkamp) digits.
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

// a b + c, exact where that is a number of the type and a b is near -c.
LLVMValueRef math_near(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  if (e->target->fma) return math_fma(e, a, b, c);
  LLVMValueRef p = mul(e, a, b);
  return add(e, add(e, p, c), math_product_error(e, a, b, p));
}

// c - a b, as math_near.
static LLVMValueRef residual(Emit *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return math_near(e, negate(e, a), b, c);
}

// -- exponentials -------------------------------------------------------------------------------

static LLVMTypeRef bits_type(Emit *e, LLVMValueRef x) {
  return type_like(e, is_f32(e, x) ? e->i32 : e->i64, x);
}

// Adding 1.5 * 2^p rounds to an integer and leaves it in the low bits, with the bias of the
// exponent.
double math_magic(bool f32, int k) { return f32 ? 0x1.8p23 + 127 + k : 0x1.8p52 + 1023 + k; }

Nearest math_nearest(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef magic) {
  LLVMValueRef shifted = math_fma(e, a, b, magic), n = sub(e, shifted, magic);
  LLVMTypeRef t = bits_type(e, n);
  LLVMValueRef bits = LLVMBuildBitCast(e->b, shifted, t, "");
  bits = LLVMBuildShl(e->b, bits, const_int(t, is_f32(e, n) ? 23 : 52), "");
  return (Nearest){n, LLVMBuildBitCast(e->b, bits, LLVMTypeOf(n), "")};
}

// e^r - 1 = r + r^2 p(r), |r| <= ln2/2; p fits (e^r - 1 - r) / r^2.
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

// x - n k ln2, k a power of two; ln2 in two numbers, the first of which makes an exact product.
static LLVMValueRef reduce_argument(Emit *e, LLVMValueRef x, LLVMValueRef n, double k) {
  bool f32 = is_f32(e, x);
  LLVMValueRef r =
      math_fma(e, n, num(x, k * (f32 ? -0.693359375 : -6.93147180369123816490e-01)), x);
  return math_fma(e, n, num(x, k * (f32 ? 2.12194440054690583e-4 : -1.90821492927058770002e-10)),
                  r);
}

Power math_power(Emit *e, LLVMValueRef x, LLVMValueRef magic) {
  Nearest d = math_nearest(e, x, num(x, M_LOG2E), magic);
  return (Power){small_expm1(e, reduce_argument(e, x, d.n, 1)), d.s};
}

// 2^f - 1 = f p(f), |f| <= 1/2; p fits (2^f - 1) / f.
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

// e^x = (1 + q) s unit. Of numbers below 0 the unit is 2^-64 or 2^-512, else 2: s is normal where
// e^x is subnormal, or near the largest number.
typedef struct Exponential {
  Power y;
  LLVMValueRef below; // x < 0
} Exponential;

static int exp_shift(bool f32) { return f32 ? 64 : 512; }

static Exponential exponential(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  LLVMValueRef below = less(e, x, 0), c = f32 ? clamp(e, x, -104, 89) : clamp(e, x, -746, 710);
  LLVMValueRef magic =
      pick(e, below, num(x, math_magic(f32, exp_shift(f32))), num(x, math_magic(f32, -1)));
  return (Exponential){math_power(e, c, magic), below};
}
static LLVMValueRef exponential_scaled(Emit *e, LLVMValueRef y, LLVMValueRef below) {
  return mul(e, y, pick(e, below, num(y, ldexp(1, -exp_shift(is_f32(e, y)))), num(y, 2)));
}

LLVMValueRef math_exp(Emit *e, LLVMValueRef x) {
  Exponential y = exponential(e, x);
  return exponential_scaled(e, math_power_value(e, &y.y), y.below);
}

LLVMValueRef math_expm1(Emit *e, LLVMValueRef x) {
  Exponential y = exponential(e, x);
  LLVMValueRef one = pick(e, y.below, num(x, ldexp(1, exp_shift(is_f32(e, x)))), num(x, 0.5));
  LLVMValueRef z = math_fma(e, y.y.s, y.y.q, sub(e, y.y.s, one));
  return sign_of(e, exponential_scaled(e, z, y.below), x);
}

// e^-a, a >= 0.
static LLVMValueRef decay(Emit *e, LLVMValueRef a) {
  bool f32 = is_f32(e, a);
  int k = exp_shift(f32);
  Power y = math_power(e, negate(e, at_most(e, a, f32 ? 104 : 746)), num(a, math_magic(f32, k)));
  return scale(e, math_power_value(e, &y), ldexp(1, -k));
}

// -- logarithms ---------------------------------------------------------------------------------

typedef struct LogArgument {
  LLVMValueRef k; // exponent, as a float
  LLVMValueRef f; // m - 1
} LogArgument;

static LogArgument log_argument(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  int shift = f32 ? 23 : 52;
  LLVMTypeRef t = bits_type(e, x);
  LLVMValueRef tiny = less(e, x, f32 ? 0x1p-126 : 0x1p-1022);
  LLVMValueRef bits =
      LLVMBuildBitCast(e->b, pick(e, tiny, scale(e, x, f32 ? 0x1p23 : 0x1p52), x), t, "");
  LLVMValueRef k =
      LLVMBuildSub(e->b, bits, const_int(t, f32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd), "");
  k = LLVMBuildAShr(e->b, k, const_int(t, shift), "");
  LLVMValueRef m = LLVMBuildSub(e->b, bits, LLVMBuildShl(e->b, k, const_int(t, shift), ""), "");
  k = LLVMBuildSub(e->b, k, pick(e, tiny, const_int(t, shift), const_int(t, 0)), "");
  LLVMValueRef f = offset(e, LLVMBuildBitCast(e->b, m, LLVMTypeOf(x), ""), -1);
  return (LogArgument){LLVMBuildSIToFP(e->b, k, LLVMTypeOf(x), ""), f};
}

// y where x is positive and finite; -inf at 0, inf at inf, else NaN.
static LLVMValueRef log_special(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef positive = cmp(e, LLVMRealOGT, x, num(x, 0)), finite = less(e, x, (double)INFINITY);
  LLVMValueRef other = pick(e, equal(e, x, 0), num(x, -(double)INFINITY), num(x, (double)NAN));
  return pick(e, both(e, positive, finite), y, pick(e, positive, x, other));
}

// log(1 + f) = f - f^2/2 + f^3 p(f); p fits (log(1 + f) - f + f^2/2) / f^3.
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

// log(1 + f) = 2s + s R(s^2), s = f / (2 + f).
static LLVMValueRef log64_series(Emit *e, LLVMValueRef z) {
  static const double p[] = {1.479819860511658591e-01, 1.531383769920937332e-01,
                             1.818357216161805012e-01, 2.222219843214978396e-01,
                             2.857142874366239149e-01, 3.999999999940941908e-01,
                             6.666666666666735130e-01};
  return mul(e, z, POLY(e, z, p));
}
static const double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;

static LLVMValueRef log64(Emit *e, LogArgument d) {
  LLVMValueRef f = d.f, s = quot(e, f, offset(e, f, 2)), half = mul(e, scale(e, f, 0.5), f);
  LLVMValueRef r = log64_series(e, mul(e, s, s));
  LLVMValueRef low = math_fma(e, s, add(e, half, r), scale(e, d.k, ln2_lo));
  return sub(e, scale(e, d.k, ln2_hi), sub(e, sub(e, half, low), f));
}

LLVMValueRef math_log(Emit *e, LLVMValueRef x) {
  LogArgument d = log_argument(e, x);
  return log_special(e, x, is_f32(e, x) ? log32(e, d) : log64(e, d));
}

// log(u) + (x - (u - 1)) / u with u = 1 + x rounded: the second term is what the rounding lost.
LLVMValueRef math_log1p(Emit *e, LLVMValueRef x) {
  LLVMValueRef u = offset(e, x, 1), lost = quot(e, sub(e, x, offset(e, u, -1)), u);
  LLVMValueRef usable = both(e, cmp(e, LLVMRealOGT, u, num(u, 0)), less(e, u, (double)INFINITY));
  LLVMValueRef y = add(e, math_log(e, u), pick(e, usable, lost, num(x, 0)));
  return pick(e, equal(e, u, 1), x, y);
}

// -- softplus, tanh, erf ------------------------------------------------------------------------

// max(x, 0) + log(1 + y), y = e^-|x|; log(1 + y) = y + y^2 p(y), p fits (log(1 + y) / y - 1) / y
// over 0..1.
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
  LLVMValueRef y = decay(e, absolute(e, x)), p = is_f32(e, x) ? POLY(e, y, p32) : POLY(e, y, p64);
  LLVMValueRef positive = pick(e, cmp(e, LLVMRealOGT, x, num(x, 0)), x, num(x, 0));
  return add(e, positive, math_fma(e, y, mul(e, y, p), y));
}

// t / (t + 1), t = (e^(2a) - 1) / 2 and a = |x|, at most 20 or 22, where the quotient is 1. a = n
// ln2/2 + r with r in -0.087..0.26, so that t = (e^(2r) - 1) / 2 = r + r^2 p(r), which is accurate
// near 0, reaches as far as t cancels elsewhere.
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
  return pick(e, cmp(e, LLVMRealOGT, t, num(t, 0.927734375)), z, y);
}

// |x| < 1: x p(x^2), p fits erf(sqrt z)/sqrt z. Beyond: 1 - c e^(-a^2) / (a + g(a)), a = |x|, c = 1
// / sqrt(pi); g = n/d fits that within 2^-55 over 1..6.
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

// -- powers, remainders -------------------------------------------------------------------------

// 2/3 s^3 of s + s_low as high + low.
static LLVMValueRef cube_double(Emit *e, LLVMValueRef s, LLVMValueRef s_low, LLVMValueRef *low) {
  const double c = 2.0 / 3, c_low = 3.70074341541718826e-17;
  LLVMValueRef z = mul(e, s, s), t = mul(e, s, z), u = scale(e, t, c);
  LLVMValueRef z_low = math_fma(e, s, scale(e, s_low, 2), math_product_error(e, s, s, z));
  LLVMValueRef t_low = math_fma(e, s, z_low, math_fma(e, s_low, z, math_product_error(e, s, z, t)));
  *low = math_fma(e, t_low, num(t, c),
                  math_fma(e, t, num(t, c_low), math_product_error(e, t, num(t, c), u)));
  return u;
}

// log of a positive f64 as high + low, with more than 64 bits: log m = 2s + 2/3 s^3 + s^5 p(s^2).
static void log_double(Emit *e, LLVMValueRef x, LLVMValueRef *high, LLVMValueRef *low) {
  static const double p[] = {0.1308803485092755383, 0.1326863836926682388, 0.1538624473762166661,
                             0.1818179554752113623, 0.222222223925810451,  0.2857142857079978503,
                             0.4000000000000088324};
  LogArgument d = log_argument(e, x);
  LLVMValueRef f = d.f, q = offset(e, f, 2), q_low = sub(e, f, offset(e, q, -2));
  LLVMValueRef s = quot(e, f, q), rest = residual(e, f, s, q);
  LLVMValueRef s_low = quot(e, math_fma(e, negate(e, s), q_low, rest), q), cube_low,
               z = mul(e, s, s);
  LLVMValueRef cube = cube_double(e, s, s_low, &cube_low);
  LLVMValueRef a = scale(e, d.k, ln2_hi), b = scale(e, s, 2), ab = add(e, a, b),
               h = add(e, ab, cube);
  LLVMValueRef tail =
      math_fma(e, mul(e, mul(e, z, z), s), POLY(e, z, p), math_fma(e, s_low, num(x, 2), cube_low));
  tail = math_fma(e, d.k, num(x, ln2_lo), tail);
  tail = add(e, tail, add(e, sub(e, b, sub(e, ab, a)), sub(e, cube, sub(e, h, ab))));
  *high = add(e, h, tail);
  *low = sub(e, tail, sub(e, *high, h));
  LLVMValueRef normal = both(e, cmp(e, LLVMRealOGT, x, num(x, 0)), less(e, x, (double)INFINITY));
  *low = pick(e, normal, *low, num(x, 0));
  *high = log_special(e, x, *high);
}

static LLVMValueRef pow64_positive(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef h, l;
  log_double(e, x, &h, &l);
  LLVMValueRef p = mul(e, y, h), tail = math_fma(e, y, l, math_product_error(e, y, h, p));
  tail = pick(e, less(e, absolute(e, p), 800), tail, num(p, 0));
  LLVMValueRef z = math_exp(e, p);
  LLVMValueRef w = math_fma(e, z, tail, z);
  // inf times a negative tail, or 0 of a subnormal, is no correction
  return pick(e, less(e, z, (double)INFINITY), w, z);
}

static LLVMValueRef pow32_positive(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  return narrow(e, math_exp(e, mul(e, widen(e, y), math_log(e, widen(e, x)))));
}

LLVMValueRef math_pow(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef a = absolute(e, x), one = num(x, 1), half = scale(e, y, 0.5);
  LLVMValueRef z = is_f32(e, x) ? pow32_positive(e, a, y) : pow64_positive(e, a, y);
  LLVMValueRef whole = cmp(e, LLVMRealOEQ, y, emit_unary(e, "llvm.floor", y));
  LLVMValueRef odd = both(e, whole, cmp(e, LLVMRealONE, half, emit_unary(e, "llvm.floor", half)));
  z = pick(e, odd, sign_of(e, z, x), z);
  LLVMValueRef negative = both(e, less(e, x, 0), cmp(e, LLVMRealOGT, x, num(x, -(double)INFINITY)));
  z = pick(e, both(e, negative, LLVMBuildNot(e->b, whole, "")), num(x, (double)NAN), z);
  LLVMValueRef unit = both(e, equal(e, a, 1), equal(e, absolute(e, y), (double)INFINITY));
  LLVMValueRef is_one =
      LLVMBuildOr(e->b, unit, LLVMBuildOr(e->b, equal(e, x, 1), equal(e, y, 0), ""), "");
  return pick(e, is_one, one, z);
}

// x - n y with |x - n y| < |y|, for finite x and y != 0: each round takes off 52 bits of the
// quotient, exactly.
static LLVMValueRef remainder64(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef cell = emit_alloca(e, LLVMTypeOf(x)), size = absolute(e, y);
  LLVMBasicBlockRef head = emit_block(e), body = emit_block(e), done = emit_block(e);
  LLVMBuildStore(e->b, x, cell);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef r = LLVMBuildLoad2(e->b, LLVMTypeOf(x), cell, "");
  LLVMValueRef left = cmp(e, LLVMRealOGE, absolute(e, r), size);
  LLVMBuildCondBr(e->b, any_lane(e, left), body, done);
  LLVMPositionBuilderAtEnd(e->b, body);
  // a multiple of y where the quotient itself would leave the range
  LLVMValueRef far =
      cmp(e, LLVMRealOGE, absolute(e, quot(e, scale(e, r, 0x1p-700), y)), num(r, 0x1p100));
  LLVMValueRef farther =
      cmp(e, LLVMRealOGE, absolute(e, quot(e, scale(e, r, 0x1p-1000), y)), num(r, 0x1p500));
  LLVMValueRef by = pick(e, far, scale(e, y, 0x1p700), y);
  by = pick(e, farther, scale(e, by, 0x1p700), by);
  LLVMValueRef q = emit_unary(e, "llvm.trunc", quot(e, r, by));
  LLVMBuildStore(e->b, pick(e, left, residual(e, r, q, by), r), cell);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, done);
  return r;
}

static LLVMValueRef unbounded(Emit *e, LLVMValueRef x) {
  return equal(e, absolute(e, x), (double)INFINITY);
}
static LLVMValueRef either(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildOr(e->b, a, b, "");
}

// x - y floor(x/y): the exact remainder of truncation, and y more where its sign is not that of y.
static LLVMValueRef mod64(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef none = either(e, equal(e, y, 0), unbounded(e, x));
  // products of very large numbers would overflow where they are split in halves; a smaller x is
  // its own remainder
  LLVMValueRef large = cmp(e, LLVMRealOGE, absolute(e, y), num(y, 0x1p960));
  LLVMValueRef near = cmp(e, LLVMRealOLT, absolute(e, x), absolute(e, y)),
               skip = either(e, none, near);
  LLVMValueRef shrink = pick(e, large, num(y, 0x1p-100), num(y, 1)),
               grow = pick(e, large, num(y, 0x1p100), num(y, 1));
  LLVMValueRef r = remainder64(e, pick(e, skip, num(x, 0), mul(e, x, shrink)),
                               pick(e, skip, num(y, 1), mul(e, y, shrink)));
  r = pick(e, near, x, mul(e, r, grow));
  LLVMValueRef apart = LLVMBuildXor(e->b, less(e, r, 0), less(e, y, 0), "");
  r = pick(e, both(e, apart, cmp(e, LLVMRealONE, r, num(r, 0))), add(e, r, y), r);
  LLVMValueRef bad = either(e, none, cmp(e, LLVMRealUNO, x, y));
  return pick(e, bad, num(r, (double)NAN), r);
}

LLVMValueRef math_mod(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  return is_f32(e, x) ? narrow(e, mod64(e, widen(e, x), widen(e, y))) : mod64(e, x, y);
}

// The rounded quotient's floor, less 1 where x - q y shows that the rounding went past an integer.
// Both are scaled where halves of products would leave the range (math_product_error).
static LLVMValueRef floor_quotient64(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef q = emit_unary(e, "llvm.floor", quot(e, x, y)),
               large = cmp(e, LLVMRealOGE, absolute(e, y), num(y, 0x1p960));
  LLVMValueRef shrink = pick(e, large, num(y, 0x1p-100), num(y, 1));
  LLVMValueRef r = residual(e, mul(e, x, shrink), q, mul(e, y, shrink));
  LLVMValueRef past = pick(e, less(e, y, 0), cmp(e, LLVMRealOGT, r, num(r, 0)), less(e, r, 0));
  LLVMValueRef whole = cmp(e, LLVMRealOLT, absolute(e, q), num(q, 0x1p53));
  return pick(e, both(e, past, whole), offset(e, q, -1), q);
}

// floor(x / y), of |x| < |y| by the signs alone. The quotient of two f32 in f64 rounds to no
// integer that it is not.
LLVMValueRef math_floor_div(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef q = is_f32(e, x)
                       ? narrow(e, emit_unary(e, "llvm.floor", quot(e, widen(e, x), widen(e, y))))
                       : floor_quotient64(e, x, y);
  LLVMValueRef near = cmp(e, LLVMRealOLT, absolute(e, x), absolute(e, y));
  near = both(e, near, cmp(e, LLVMRealONE, x, num(x, 0)));
  LLVMValueRef apart = LLVMBuildXor(e->b, less(e, x, 0), less(e, y, 0), "");
  return pick(e, near, pick(e, apart, num(x, -1), num(x, 0)), q);
}
#endif
