// Powers and remainders of floats: pow, mod, floor_div.
//
//   pow   f32 is computed in f64; f64 by a logarithm of more than 64 bits
//   mod   exact: multiples of the divisor are subtracted, 52 bits of the quotient at a time
#include "codegen/cpu/emit_math_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <math.h>

// -- powers -------------------------------------------------------------------------------------

// Emits c - a b. Without fused multiply-add it is exact if c - a b is a number of the type and a b
// is between c/2 and 2c.
static LLVMValueRef residual(Emit *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return math_near(e, negate(e, a), b, c);
}

// Emits 2/3 (s + s_low)^3 as a sum of two numbers. Returns the larger one; *low is the smaller one.
static LLVMValueRef cube_double(Emit *e, LLVMValueRef s, LLVMValueRef s_low, LLVMValueRef *low) {
  const double c = 2.0 / 3, c_low = 3.70074341541718826e-17;
  LLVMValueRef z = mul(e, s, s), t = mul(e, s, z), u = scale(e, t, c);
  LLVMValueRef z_low = math_fma(e, s, scale(e, s_low, 2), math_product_error(e, s, s, z));
  LLVMValueRef t_low = math_fma(e, s, z_low, math_fma(e, s_low, z, math_product_error(e, s, z, t)));
  *low = math_fma(e, t_low, num(t, c),
                  math_fma(e, t, num(t, c_low), math_product_error(e, t, num(t, c), u)));
  return u;
}

// Emits log x of an f64 as the sum *high + *low, which has more than 64 bits. x = 2^k (1 + f), and
// log(1 + f) = 2s + 2/3 s^3 + s^5 p(s^2), where s = f / (2 + f).
static void log_double(Emit *e, LLVMValueRef x, LLVMValueRef *high, LLVMValueRef *low) {
  static const double p[] = {0.1308803485092755383, 0.1326863836926682388, 0.1538624473762166661,
                             0.1818179554752113623, 0.222222223925810451,  0.2857142857079978503,
                             0.4000000000000088324};
  LogArgument d = math_log_argument(e, x);
  LLVMValueRef f = d.f, q = offset(e, f, 2), q_low = sub(e, f, offset(e, q, -2));
  LLVMValueRef s = quot(e, f, q), rest = residual(e, f, s, q);
  LLVMValueRef s_low = quot(e, math_fma(e, negate(e, s), q_low, rest), q), cube_low,
               z = mul(e, s, s);
  LLVMValueRef cube = cube_double(e, s, s_low, &cube_low);
  LLVMValueRef a = scale(e, d.k, LN2_HI), b = scale(e, s, 2), ab = add(e, a, b),
               h = add(e, ab, cube);
  LLVMValueRef tail =
      math_fma(e, mul(e, mul(e, z, z), s), POLY(e, z, p), math_fma(e, s_low, num(x, 2), cube_low));
  tail = math_fma(e, d.k, num(x, LN2_LO), tail);
  tail = add(e, tail, add(e, sub(e, b, sub(e, ab, a)), sub(e, cube, sub(e, h, ab))));
  *high = add(e, h, tail);
  *low = sub(e, tail, sub(e, *high, h));
  LLVMValueRef normal = bit_and(e, greater(e, x, 0), less(e, x, (double)INFINITY));
  *low = pick(e, normal, *low, num(x, 0));
  *high = math_log_special(e, x, *high);
}

// Emits |x|^y = e^(y log |x|). The product of y and the logarithm is a sum of two numbers, p and
// tail.
static LLVMValueRef pow64_positive(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef h, l;
  log_double(e, x, &h, &l);
  LLVMValueRef p = mul(e, y, h), tail = math_fma(e, y, l, math_product_error(e, y, h, p));
  tail = pick(e, less(e, absolute(e, p), 800), tail, num(p, 0));
  LLVMValueRef z = math_exp(e, p);
  LLVMValueRef w = math_fma(e, z, tail, z);
  // if z is infinite, the product z tail may be -inf or NaN
  return pick(e, less(e, z, (double)INFINITY), w, z);
}

static LLVMValueRef pow32_positive(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  return narrow(e, math_exp(e, mul(e, widen(e, y), math_log(e, widen(e, x)))));
}

LLVMValueRef math_pow(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef a = absolute(e, x), one = num(x, 1), half = scale(e, y, 0.5);
  LLVMValueRef z = is_f32(e, x) ? pow32_positive(e, a, y) : pow64_positive(e, a, y);
  LLVMValueRef integer = cmp(e, LLVMRealOEQ, y, emit_unary(e, "llvm.floor", y));
  LLVMValueRef odd =
      bit_and(e, integer, cmp(e, LLVMRealONE, half, emit_unary(e, "llvm.floor", half)));
  z = pick(e, odd, sign_of(e, z, x), z);
  LLVMValueRef negative = bit_and(e, less(e, x, 0), greater(e, x, -(double)INFINITY));
  z = pick(e, bit_and(e, negative, bit_not(e, integer)), num(x, (double)NAN), z);
  LLVMValueRef unit = bit_and(e, equal(e, a, 1), equal(e, absolute(e, y), (double)INFINITY));
  LLVMValueRef is_one = bit_or(e, unit, bit_or(e, equal(e, x, 1), equal(e, y, 0)));
  return pick(e, is_one, one, z);
}

// -- remainders ---------------------------------------------------------------------------------

// Emits the remainder x - n y, where n is an integer and |x - n y| < |y|, for finite x and y != 0.
// Each round of the emitted loop subtracts the exact product of y and the upper bits of the
// quotient that is left, at least 52.
static LLVMValueRef remainder64(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef cell = emit_alloca(e, LLVMTypeOf(x)), size = absolute(e, y);
  LLVMBasicBlockRef head = emit_block(e), body = emit_block(e), done = emit_block(e);
  LLVMBuildStore(e->b, x, cell);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef r = emit_read(e, LLVMTypeOf(x), cell);
  LLVMValueRef left = cmp(e, LLVMRealOGE, absolute(e, r), size);
  LLVMBuildCondBr(e->b, any_lane(e, left), body, done);
  LLVMPositionBuilderAtEnd(e->b, body);
  // if r / y would overflow, a multiple of 2^700 y or of 2^1400 y is subtracted
  LLVMValueRef large =
      cmp(e, LLVMRealOGE, absolute(e, quot(e, scale(e, r, 0x1p-700), y)), num(r, 0x1p100));
  LLVMValueRef huge =
      cmp(e, LLVMRealOGE, absolute(e, quot(e, scale(e, r, 0x1p-1000), y)), num(r, 0x1p500));
  LLVMValueRef by = pick(e, large, scale(e, y, 0x1p700), y);
  by = pick(e, huge, scale(e, by, 0x1p700), by);
  LLVMValueRef q = emit_unary(e, "llvm.trunc", quot(e, r, by));
  LLVMBuildStore(e->b, pick(e, left, residual(e, r, q, by), r), cell);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, done);
  return r;
}

static LLVMValueRef unbounded(Emit *e, LLVMValueRef x) {
  return equal(e, absolute(e, x), (double)INFINITY);
}

// Emits x - y floor(x / y). The remainder of the truncated quotient is exact. If its sign differs
// from that of y, y is added.
static LLVMValueRef mod64(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef none = bit_or(e, equal(e, y, 0), unbounded(e, x));
  // a large y is scaled down, because math_product_error would overflow
  LLVMValueRef large = cmp(e, LLVMRealOGE, absolute(e, y), num(y, 0x1p960));
  LLVMValueRef near = cmp(e, LLVMRealOLT, absolute(e, x), absolute(e, y)),
               skip = bit_or(e, none, near);
  LLVMValueRef shrink = pick(e, large, num(y, 0x1p-100), num(y, 1)),
               grow = pick(e, large, num(y, 0x1p100), num(y, 1));
  LLVMValueRef r = remainder64(e, pick(e, skip, num(x, 0), mul(e, x, shrink)),
                               pick(e, skip, num(y, 1), mul(e, y, shrink)));
  r = pick(e, near, x, mul(e, r, grow));
  LLVMValueRef signs_differ = bit_xor(e, less(e, r, 0), less(e, y, 0));
  r = pick(e, bit_and(e, signs_differ, cmp(e, LLVMRealONE, r, num(r, 0))), add(e, r, y), r);
  LLVMValueRef bad = bit_or(e, none, cmp(e, LLVMRealUNO, x, y));
  return pick(e, bad, num(r, (double)NAN), r);
}

LLVMValueRef math_mod(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  return is_f32(e, x) ? narrow(e, mod64(e, widen(e, x), widen(e, y))) : mod64(e, x, y);
}

// Emits floor(x / y) of f64. The rounded quotient may have been rounded up to an integer q that is
// above x / y; the sign of x - q y shows this, and then the result is q - 1. Large x and y are
// scaled down, because math_product_error would overflow.
static LLVMValueRef floor_quotient64(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef q = emit_unary(e, "llvm.floor", quot(e, x, y)),
               large = cmp(e, LLVMRealOGE, absolute(e, y), num(y, 0x1p960));
  LLVMValueRef shrink = pick(e, large, num(y, 0x1p-100), num(y, 1));
  LLVMValueRef r = residual(e, mul(e, x, shrink), q, mul(e, y, shrink));
  LLVMValueRef past = pick(e, less(e, y, 0), greater(e, r, 0), less(e, r, 0));
  LLVMValueRef exact = cmp(e, LLVMRealOLT, absolute(e, q), num(q, 0x1p53));
  return pick(e, bit_and(e, past, exact), offset(e, q, -1), q);
}

// Emits floor(x / y). If |x| < |y| and x is not 0, that is -1 or 0 by the signs of x and y. The
// quotient of two f32 is computed in f64, where it is never rounded up to an integer.
LLVMValueRef math_floor_div(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef q = is_f32(e, x)
                       ? narrow(e, emit_unary(e, "llvm.floor", quot(e, widen(e, x), widen(e, y))))
                       : floor_quotient64(e, x, y);
  LLVMValueRef near = cmp(e, LLVMRealOLT, absolute(e, x), absolute(e, y));
  near = bit_and(e, near, cmp(e, LLVMRealONE, x, num(x, 0)));
  LLVMValueRef signs_differ = bit_xor(e, less(e, x, 0), less(e, y, 0));
  return pick(e, near, pick(e, signs_differ, num(x, -1), num(x, 0)), q);
}
#endif
