// Elementary functions as vector IR, f32 and f64, without contraction: every kernel rounds alike
// (decision 18). Errors are measured in units of the last place by suite_elementwise.
//
// exp:   x = n ln2 + r, |r| <= ln2/2; polynomial in r; 2^n in two factors, so that subnormals come out right
// log:   x = 2^k m, m in [sqrt(1/2), sqrt(2)); f32 polynomial in m-1, f64 the series of atanh
// Coefficients are Chebyshev fits of the functions stated beside them, except those of the f64 logarithm
// (W. J. Cody's form as in fdlibm) and the f32 erf (N. Juffa).
#include "codegen/emit_arith.h"

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

// c - a b, exact where that is a number of the type and a b is near c.
static LLVMValueRef residual(Emit *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  if (e->target->fma) return math_fma(e, negate(e, a), b, c);
  LLVMValueRef p = mul(e, a, b);
  return sub(e, sub(e, c, p), math_product_error(e, a, b, p));
}

// -- exponentials ------------------------------------------------------------------------------------------------

typedef struct Reduced {
  LLVMValueRef n; // integer
  LLVMValueRef r; // in [-ln2/2, ln2/2]
} Reduced;

static LLVMTypeRef bits_type(Emit *e, LLVMValueRef x) { return type_like(e, is_f32(e, x) ? e->i32 : e->i64, x); }

// Adding 1.5 * 2^p rounds to an integer and leaves it in the low bits.
static Reduced reduce_ln2(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  double magic = f32 ? 0x1.8p23 : 0x1.8p52;
  LLVMTypeRef t = bits_type(e, x);
  LLVMValueRef shifted = math_fma(e, x, num(x, M_LOG2E), num(x, magic)), n = sub(e, shifted, num(x, magic));
  LLVMValueRef bits = LLVMBuildBitCast(e->b, shifted, t, "");
  bits = LLVMBuildSub(e->b, bits, const_int(t, f32 ? 0x4b400000 : 0x4338000000000000), "");
  LLVMValueRef r = math_fma(e, n, num(x, f32 ? -0.693359375 : -6.93147180369123816490e-01), x);
  r = math_fma(e, n, num(x, f32 ? 2.12194440054690583e-4 : -1.90821492927058770002e-10), r);
  return (Reduced){bits, r};
}

static LLVMValueRef power_of_two(Emit *e, LLVMValueRef like, LLVMValueRef n) {
  bool f32 = is_f32(e, like);
  LLVMTypeRef t = LLVMTypeOf(n);
  n = LLVMBuildAdd(e->b, n, const_int(t, f32 ? 127 : 1023), "");
  return LLVMBuildBitCast(e->b, LLVMBuildShl(e->b, n, const_int(t, f32 ? 23 : 52), ""), LLVMTypeOf(like), "");
}

// e^r - 1 = r + r^2 p(r); p fits (e^r - 1 - r) / r^2.
static LLVMValueRef small_expm1(Emit *e, LLVMValueRef r) {
  static const double p32[] = {0.001392618358771349454, 0.00836317905272257737, 0.0416665546172045742,
                               0.1666657698969877568, 0.5};
  static const double p64[] = {2.091468696808687723e-9, 2.510521700472074516e-8, 2.755727364311029533e-7,
                               2.755725540020642443e-6, 0.00002480158732554774122, 0.0001984126987482062527,
                               0.00138888888888837483, 0.008333333333326135126, 0.04166666666666666975,
                               0.1666666666666667099, 0.5};
  LLVMValueRef p = is_f32(e, r) ? POLY(e, r, p32) : POLY(e, r, p64);
  return math_fma(e, mul(e, r, r), p, r);
}

Power math_power(Emit *e, LLVMValueRef x, LLVMValueRef low) {
  Reduced d = reduce_ln2(e, x);
  if (low) d.r = add(e, d.r, low);
  LLVMValueRef half = LLVMBuildAShr(e->b, d.n, const_int(LLVMTypeOf(d.n), 1), "");
  LLVMValueRef rest = LLVMBuildSub(e->b, d.n, half, "");
  return (Power){offset(e, small_expm1(e, d.r), 1), power_of_two(e, x, half), power_of_two(e, x, rest)};
}

LLVMValueRef math_power_times(Emit *e, const Power *y, LLVMValueRef factor) {
  return mul(e, mul(e, mul(e, y->p, factor), y->half), y->rest);
}

LLVMValueRef math_exp(Emit *e, LLVMValueRef x) {
  Power y = math_power(e, is_f32(e, x) ? clamp(e, x, -104, 89) : clamp(e, x, -746, 710), NULL);
  return mul(e, mul(e, y.p, y.half), y.rest);
}

// 2 (2^(n-1) (e^r - 1) + 2^(n-1) - 1/2), where 2^n itself may overflow.
LLVMValueRef math_expm1(Emit *e, LLVMValueRef x) {
  LLVMValueRef c = is_f32(e, x) ? clamp(e, x, -30, 89) : clamp(e, x, -50, 710);
  Reduced d = reduce_ln2(e, c);
  LLVMValueRef s = power_of_two(e, x, LLVMBuildSub(e->b, d.n, const_int(LLVMTypeOf(d.n), 1), ""));
  LLVMValueRef y = math_fma(e, s, small_expm1(e, d.r), offset(e, s, -0.5));
  return pick(e, less(e, absolute(e, x), 1e-20), x, add(e, y, y));
}

// -- logarithms ----------------------------------------------------------------------------------------------------

typedef struct Split {
  LLVMValueRef k; // exponent, as a float
  LLVMValueRef f; // m - 1
} Split;

static Split split(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  int shift = f32 ? 23 : 52;
  LLVMTypeRef t = bits_type(e, x);
  LLVMValueRef tiny = less(e, x, f32 ? 0x1p-126 : 0x1p-1022);
  LLVMValueRef bits = LLVMBuildBitCast(e->b, pick(e, tiny, scale(e, x, f32 ? 0x1p23 : 0x1p52), x), t, "");
  LLVMValueRef k = LLVMBuildSub(e->b, bits, const_int(t, f32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd), "");
  k = LLVMBuildAShr(e->b, k, const_int(t, shift), "");
  LLVMValueRef m = LLVMBuildSub(e->b, bits, LLVMBuildShl(e->b, k, const_int(t, shift), ""), "");
  k = LLVMBuildSub(e->b, k, pick(e, tiny, const_int(t, shift), const_int(t, 0)), "");
  LLVMValueRef f = offset(e, LLVMBuildBitCast(e->b, m, LLVMTypeOf(x), ""), -1);
  return (Split){LLVMBuildSIToFP(e->b, k, LLVMTypeOf(x), ""), f};
}

// y where x is positive and finite; -inf at 0, inf at inf, else NaN.
static LLVMValueRef log_special(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef positive = cmp(e, LLVMRealOGT, x, num(x, 0)), finite = less(e, x, (double)INFINITY);
  LLVMValueRef other = pick(e, equal(e, x, 0), num(x, -(double)INFINITY), num(x, (double)NAN));
  return pick(e, both(e, positive, finite), y, pick(e, positive, x, other));
}

// log(1 + f) = f - f^2/2 + f^3 p(f); p fits (log(1 + f) - f + f^2/2) / f^3.
static LLVMValueRef log32(Emit *e, Split d) {
  static const double p[] = {0.06971620541003426762, -0.11479748625389889, 0.1168542357110526424,
                             -0.1242568569282141988, 0.1424905714190214591, -0.1666780236757913239,
                             0.2000071576352165949, -0.2499999695762597625, 0.333333311799725756};
  LLVMValueRef f2 = mul(e, d.f, d.f);
  LLVMValueRef y = mul(e, mul(e, f2, d.f), POLY(e, d.f, p));
  y = math_fma(e, d.k, num(d.f, -2.12194440054690583e-4), y);
  y = math_fma(e, f2, num(d.f, -0.5), y);
  return math_fma(e, d.k, num(d.f, 0.693359375), add(e, d.f, y));
}

// log(1 + f) = 2s + s R(s^2), s = f / (2 + f).
static LLVMValueRef log64_series(Emit *e, LLVMValueRef z) {
  static const double p[] = {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                             2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                             6.666666666666735130e-01};
  return mul(e, z, POLY(e, z, p));
}
static const double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;

static LLVMValueRef log64(Emit *e, Split d) {
  LLVMValueRef f = d.f, s = quot(e, f, offset(e, f, 2)), half = mul(e, scale(e, f, 0.5), f);
  LLVMValueRef r = log64_series(e, mul(e, s, s));
  LLVMValueRef low = math_fma(e, s, add(e, half, r), scale(e, d.k, ln2_lo));
  return sub(e, scale(e, d.k, ln2_hi), sub(e, sub(e, half, low), f));
}

LLVMValueRef math_log(Emit *e, LLVMValueRef x) {
  Split d = split(e, x);
  return log_special(e, x, is_f32(e, x) ? log32(e, d) : log64(e, d));
}

// log(u) + (x - (u - 1)) / u with u = 1 + x rounded: the second term is what the rounding lost.
LLVMValueRef math_log1p(Emit *e, LLVMValueRef x) {
  LLVMValueRef u = offset(e, x, 1), lost = quot(e, sub(e, x, offset(e, u, -1)), u);
  LLVMValueRef usable = both(e, cmp(e, LLVMRealOGT, u, num(u, 0)), less(e, u, (double)INFINITY));
  LLVMValueRef y = add(e, math_log(e, u), pick(e, usable, lost, num(x, 0)));
  return pick(e, equal(e, u, 1), x, y);
}

// -- sigmoid and relatives --------------------------------------------------------------------------------------------

LLVMValueRef math_sigmoid(Emit *e, LLVMValueRef x) {
  LLVMValueRef y = math_exp(e, negate(e, absolute(e, x)));
  return quot(e, pick(e, less(e, x, 0), y, num(x, 1)), offset(e, y, 1));
}

LLVMValueRef math_softplus(Emit *e, LLVMValueRef x) {
  LLVMValueRef tail = math_log1p(e, math_exp(e, negate(e, absolute(e, x))));
  return add(e, pick(e, cmp(e, LLVMRealOGT, x, num(x, 0)), x, num(x, 0)), tail);
}

// |x| < 0.55: x + x z r(z), z = x^2, r fits (tanh(x)/x - 1) / z. Beyond: 1 - 2 / (e^2|x| + 1), which reaches 1.
static LLVMValueRef tanh32(Emit *e, LLVMValueRef x) {
  static const double r[] = {-6.61022783110823055e-3, 0.02130938866443903283, -0.05390942882745953356,
                             0.1333311372902086336, -0.3333333200797697949};
  LLVMValueRef a = absolute(e, x), z = mul(e, x, x), near = math_fma(e, mul(e, a, z), POLY(e, z, r), a);
  LLVMValueRef y = math_exp(e, scale(e, clamp(e, a, 0, 40), 2));
  LLVMValueRef far = sub(e, num(x, 1), quot(e, num(x, 2), offset(e, y, 1)));
  return sign_of(e, pick(e, less(e, a, 0.55), near, far), x);
}

LLVMValueRef math_tanh(Emit *e, LLVMValueRef x) {
  if (is_f32(e, x)) return tanh32(e, x);
  LLVMValueRef a = absolute(e, x), t = math_expm1(e, scale(e, clamp(e, a, 0, 22), 2));
  return sign_of(e, quot(e, t, offset(e, t, 2)), x);
}

static LLVMValueRef erf32(Emit *e, LLVMValueRef x) {
  static const double near[] = {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
                                1.28379166e-1};
  static const double far[] = {-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1,
                               -6.34846687e-1, -1.28717512e-1};
  LLVMValueRef t = absolute(e, x), y = math_fma(e, POLY(e, mul(e, x, x), near), x, x);
  LLVMValueRef q = clamp(e, t, 0, 4);
  LLVMValueRef tail = math_exp(e, math_fma(e, POLY(e, q, far), q, negate(e, q)));
  LLVMValueRef z = sign_of(e, sub(e, num(x, 1), tail), x);
  return pick(e, cmp(e, LLVMRealOGT, t, num(t, 0.927734375)), z, y);
}

// |x| < 1: x p(x^2), p fits erf(sqrt z)/sqrt z. Beyond: 1 - exp(p(u)), u = (|x| - 3.5)/2.5, p fits log(erfc).
static LLVMValueRef erf64(Emit *e, LLVMValueRef x) {
  static const double near[] = {-7.795898827002142242e-10, 1.37200645467776856e-8, -1.62084838018717059e-7,
                                1.644742470331736241e-6, -0.00001492473690741966034, 0.0001205529490483970792,
                                -0.0008548325975389692081, 0.005223977607116422732, -0.02686617064323777036,
                                0.1128379167094500627, -0.3761263890318354044, 1.128379167095512567};
  static const double far[] = {
    -7.159677424539575196e-9, 1.801934725758386537e-8, 4.239998243092615082e-9, -3.763040107372945328e-8,
    2.00375114308128216e-8, -7.644113315668179561e-8, 3.90180391702755535e-7, -9.678311639437117813e-7,
    1.91424749726789288e-6, -3.387990651103627066e-6, 4.567482282873930294e-6, -1.491759268684242876e-6,
    -0.00001847493501334941312, 0.00009090481707720762468, -0.0003078194900515352426, 0.0008935759022167649747,
    -0.00237399728718577836, 0.005953704546707300622, -0.01438454833003405567, 0.03412841107598480302,
    -0.08165090971781220778, -6.042206592138859891, -18.16524897091297721, -14.11243740214817403};
  LLVMValueRef t = absolute(e, x), y = mul(e, POLY(e, mul(e, x, x), near), x);
  LLVMValueRef u = scale(e, offset(e, clamp(e, t, 0.9, 6), -3.5), 0.4);
  LLVMValueRef z = sign_of(e, sub(e, num(x, 1), math_exp(e, POLY(e, u, far))), x);
  return pick(e, cmp(e, LLVMRealOGE, t, num(t, 1)), z, y);
}

LLVMValueRef math_erf(Emit *e, LLVMValueRef x) { return is_f32(e, x) ? erf32(e, x) : erf64(e, x); }

// -- powers, remainders --------------------------------------------------------------------------------------------------

// 2/3 s^3 of s + s_low as high + low.
static LLVMValueRef cube_double(Emit *e, LLVMValueRef s, LLVMValueRef s_low, LLVMValueRef *low) {
  const double c = 2.0 / 3, c_low = 3.70074341541718826e-17;
  LLVMValueRef z = mul(e, s, s), t = mul(e, s, z), u = scale(e, t, c);
  LLVMValueRef z_low = math_fma(e, s, scale(e, s_low, 2), math_product_error(e, s, s, z));
  LLVMValueRef t_low = math_fma(e, s, z_low, math_fma(e, s_low, z, math_product_error(e, s, z, t)));
  *low = math_fma(e, t_low, num(t, c), math_fma(e, t, num(t, c_low), math_product_error(e, t, num(t, c), u)));
  return u;
}

// log of a positive f64 as high + low, with more than 64 bits: log m = 2s + 2/3 s^3 + s^5 p(s^2).
static void log_double(Emit *e, LLVMValueRef x, LLVMValueRef *high, LLVMValueRef *low) {
  static const double p[] = {0.1308803485092755383, 0.1326863836926682388, 0.1538624473762166661, 0.1818179554752113623,
                             0.222222223925810451,  0.2857142857079978503, 0.4000000000000088324};
  Split d = split(e, x);
  LLVMValueRef f = d.f, q = offset(e, f, 2), q_low = sub(e, f, offset(e, q, -2));
  LLVMValueRef s = quot(e, f, q), rest = residual(e, f, s, q);
  LLVMValueRef s_low = quot(e, math_fma(e, negate(e, s), q_low, rest), q), cube_low, z = mul(e, s, s);
  LLVMValueRef cube = cube_double(e, s, s_low, &cube_low);
  LLVMValueRef a = scale(e, d.k, ln2_hi), b = scale(e, s, 2), ab = add(e, a, b), h = add(e, ab, cube);
  LLVMValueRef tail = math_fma(e, mul(e, mul(e, z, z), s), POLY(e, z, p), math_fma(e, s_low, num(x, 2), cube_low));
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
  LLVMValueRef is_one = LLVMBuildOr(e->b, unit, LLVMBuildOr(e->b, equal(e, x, 1), equal(e, y, 0), ""), "");
  return pick(e, is_one, one, z);
}

// x - n y with |x - n y| < |y|, for finite x and y != 0: each round takes off 52 bits of the quotient, exactly.
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
  LLVMValueRef far = cmp(e, LLVMRealOGE, absolute(e, quot(e, scale(e, r, 0x1p-700), y)), num(r, 0x1p100));
  LLVMValueRef farther = cmp(e, LLVMRealOGE, absolute(e, quot(e, scale(e, r, 0x1p-1000), y)), num(r, 0x1p500));
  LLVMValueRef by = pick(e, far, scale(e, y, 0x1p700), y);
  by = pick(e, farther, scale(e, by, 0x1p700), by);
  LLVMValueRef q = emit_unary(e, "llvm.trunc", quot(e, r, by));
  LLVMBuildStore(e->b, pick(e, left, residual(e, r, q, by), r), cell);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, done);
  return r;
}

static LLVMValueRef unbounded(Emit *e, LLVMValueRef x) { return equal(e, absolute(e, x), (double)INFINITY); }
static LLVMValueRef either(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildOr(e->b, a, b, ""); }

// x - y floor(x/y): the exact remainder of truncation, and y more where its sign is not that of y.
static LLVMValueRef mod64(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef none = either(e, equal(e, y, 0), unbounded(e, x));
  // products of very large numbers would overflow where they are split in halves; a smaller x is its own remainder
  LLVMValueRef large = cmp(e, LLVMRealOGE, absolute(e, y), num(y, 0x1p960));
  LLVMValueRef near = cmp(e, LLVMRealOLT, absolute(e, x), absolute(e, y)), skip = either(e, none, near);
  LLVMValueRef shrink = pick(e, large, num(y, 0x1p-100), num(y, 1)), grow = pick(e, large, num(y, 0x1p100), num(y, 1));
  LLVMValueRef r = remainder64(e, pick(e, skip, num(x, 0), mul(e, x, shrink)), pick(e, skip, num(y, 1), mul(e, y, shrink)));
  r = pick(e, near, x, mul(e, r, grow));
  LLVMValueRef apart = LLVMBuildXor(e->b, less(e, r, 0), less(e, y, 0), "");
  r = pick(e, both(e, apart, cmp(e, LLVMRealONE, r, num(r, 0))), add(e, r, y), r);
  LLVMValueRef bad = either(e, none, cmp(e, LLVMRealUNO, x, y));
  return pick(e, bad, num(r, (double)NAN), r);
}

LLVMValueRef math_mod(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  return is_f32(e, x) ? narrow(e, mod64(e, widen(e, x), widen(e, y))) : mod64(e, x, y);
}

// The rounded quotient's floor, less 1 where x - q y shows that the rounding went past an integer. Both are scaled where
// halves of products would leave the range (math_product_error).
static LLVMValueRef floor_quotient64(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef q = emit_unary(e, "llvm.floor", quot(e, x, y)), large = cmp(e, LLVMRealOGE, absolute(e, y), num(y, 0x1p960));
  LLVMValueRef shrink = pick(e, large, num(y, 0x1p-100), num(y, 1));
  LLVMValueRef r = residual(e, mul(e, x, shrink), q, mul(e, y, shrink));
  LLVMValueRef past = pick(e, less(e, y, 0), cmp(e, LLVMRealOGT, r, num(r, 0)), less(e, r, 0));
  LLVMValueRef whole = cmp(e, LLVMRealOLT, absolute(e, q), num(q, 0x1p53));
  return pick(e, both(e, past, whole), offset(e, q, -1), q);
}

// floor(x / y), of |x| < |y| by the signs alone. The quotient of two f32 in f64 rounds to no integer that it is not.
LLVMValueRef math_floor_div(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef q = is_f32(e, x) ? narrow(e, emit_unary(e, "llvm.floor", quot(e, widen(e, x), widen(e, y))))
                                : floor_quotient64(e, x, y);
  LLVMValueRef near = cmp(e, LLVMRealOLT, absolute(e, x), absolute(e, y));
  near = both(e, near, cmp(e, LLVMRealONE, x, num(x, 0)));
  LLVMValueRef apart = LLVMBuildXor(e->b, less(e, x, 0), less(e, y, 0), "");
  return pick(e, near, pick(e, apart, num(x, -1), num(x, 0)), q);
}
#endif
