// sin and cos of f32 and f64: x = n pi/2 + r + tail in f64, then a polynomial over [-pi/4, pi/4].
//
// For |x| up to 2^20, n pi/2 is subtracted in two exact steps (Cody and Waite, "Software manual for
// the elementary functions", 1980). Larger arguments are reduced as by Payne and Hanek ("Radian
// reduction for trigonometric functions", 1983): x is multiplied by pieces of 2/pi of 24 bits each.
// Each product is exact and is taken modulo 4 at once: only a part of a turn remains. This loop is
// in a block that runs only if some lane needs it.
#include "codegen/cpu/emit_math_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <math.h>

enum { PIECES = 50 };
// 2/pi in pieces of 24 bits, highest first
static const uint32_t two_over_pi[PIECES] = {
    0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041, 0xfe5163,
    0xabdebb, 0xc561b7, 0x246e3a, 0x424dd2, 0xe00649, 0x2eea09, 0xd1921c, 0xfe1deb, 0x1cb129,
    0xa73ee8, 0x8235f5, 0x2ebb44, 0x84e99c, 0x7026b4, 0x5f7e41, 0x3991d6, 0x398353, 0x39f49c,
    0x845f8b, 0xbdf928, 0x3b1ff8, 0x97ffde, 0x05980f, 0xef2f11, 0x8b5a0a, 0x6d1f6d, 0x367ecf,
    0x27cb09, 0xb74f46, 0x3f669e, 0x5fea2d, 0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7, 0x8a5292,
    0xea6bfb, 0x5fb11f, 0x8d5d08, 0x560330, 0x46fc7b,
};
// The 24-bit pieces of 2/pi are stored times 2^SHIFT, because the last pieces would be subnormal in
// f64. x is multiplied by 2^-SHIFT in turn.
enum { SHIFT = 200 };

typedef struct Angle {
  LLVMValueRef n;    // the number n of quarter turns, an i64 of which only the low bits are right
  LLVMValueRef r;    // the rest r of x, an f64 in [-pi/4, pi/4]
  LLVMValueRef tail; // the rounding error of r, an f64
} Angle;

// Emits the integer nearest to x. Returns it as f64, and in *n as i64, of which only the low bits
// are right.
static LLVMValueRef nearest(Emit *e, LLVMValueRef x, LLVMValueRef *n) {
  LLVMTypeRef t = type_like(e, e->i64, x);
  LLVMValueRef shifted = add(e, x, num(x, 0x1.8p52));
  *n = bit_cast(e, shifted, t);
  return sub(e, shifted, num(x, 0x1.8p52));
}

static Angle reduce_small(Emit *e, LLVMValueRef x) {
  Angle a;
  LLVMValueRef n = nearest(e, scale(e, x, M_2_PI), &a.n);
  LLVMValueRef first = sub(e, x, scale(e, n, 1.57079632673412561417e+00));
  LLVMValueRef w = scale(e, n, 6.07710050630396597660e-11), second = sub(e, first, w);
  LLVMValueRef low = sub(e, sub(e, first, second), w);
  low = sub(e, low, scale(e, n, 2.02226624879595063154e-21));
  a.r = add(e, second, low);
  a.tail = add(e, sub(e, second, a.r), low);
  return a;
}

static LLVMValueRef pieces_table(Emit *e) {
  LLVMValueRef at = LLVMGetNamedGlobal(e->module, "two_over_pi");
  if (at) return at;
  LLVMValueRef all[PIECES];
  for (int i = 0; i < PIECES; i++)
    all[i] = LLVMConstReal(e->f64, ldexp((double)two_over_pi[i], SHIFT - 24 * (i + 1)));
  LLVMTypeRef t = LLVMArrayType2(e->f64, PIECES);
  at = LLVMAddGlobal(e->module, t, "two_over_pi");
  LLVMSetInitializer(at, LLVMConstArray2(e->f64, all, PIECES));
  LLVMSetGlobalConstant(at, true);
  LLVMSetLinkage(at, LLVMPrivateLinkage);
  return at;
}

// Emits the addition of p, modulo 4, to the sum *high + *low; `high` and `low` are addresses. *low
// collects the rounding errors (Knuth's two-sum).
static void add_turns(Emit *e, LLVMValueRef high, LLVMValueRef low, LLVMValueRef p) {
  LLVMTypeRef t = LLVMTypeOf(p);
  LLVMValueRef turns = emit_unary(e, "llvm.roundeven", scale(e, p, 0.25));
  p = sub(e, p, scale(e, turns, 4));
  LLVMValueRef h = emit_read(e, t, high), sum = add(e, h, p), part = sub(e, sum, h);
  LLVMValueRef error = add(e, sub(e, h, sub(e, sum, part)), sub(e, p, part));
  LLVMBuildStore(e->b, sum, high);
  LLVMBuildStore(e->b, add(e, emit_read(e, t, low), error), low);
}

static Angle reduce_large(Emit *e, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef high = emit_alloca(e, t), low = emit_alloca(e, t), y = scale(e, x, ldexp(1, -SHIFT));
  LLVMBuildStore(e->b, num(x, 0), high);
  LLVMBuildStore(e->b, num(x, 0), low);
  EmitLoop l = loop_to(e, PIECES);
  LLVMValueRef at = emit_at(e, e->f64, pieces_table(e), l.var);
  LLVMValueRef piece = splat_like(e, emit_read(e, e->f64, at), x);
  LLVMValueRef p = mul(e, y, piece);
  add_turns(e, high, low, p);
  add_turns(e, high, low, math_product_error(e, y, piece, p));
  loop_end(e, &l);
  Angle a;
  LLVMValueRef h = emit_read(e, t, high), n = nearest(e, h, &a.n);
  LLVMValueRef whole = sub(e, h, n), rest = emit_read(e, t, low);
  LLVMValueRef f = add(e, whole, rest);
  rest = sub(e, rest, sub(e, f, whole));
  a.r = scale(e, f, M_PI_2);
  a.tail = math_product_error(e, f, num(x, M_PI_2), a.r);
  a.tail = add(e, a.tail, add(e, scale(e, rest, M_PI_2), scale(e, f, 6.123233995736766036e-17)));
  return a;
}

// Reduces x to an Angle: all lanes by reduce_small. If there are lanes with a large argument, these
// take the result of reduce_large.
static Angle reduce(Emit *e, LLVMValueRef x) {
  LLVMBuilderRef b = e->b;
  Angle a = reduce_small(e, x);
  LLVMTypeRef f = LLVMTypeOf(x), t = LLVMTypeOf(a.n);
  LLVMValueRef n = emit_alloca(e, t), r = emit_alloca(e, f), tail = emit_alloca(e, f);
  LLVMBuildStore(b, a.n, n);
  LLVMBuildStore(b, a.r, r);
  LLVMBuildStore(b, a.tail, tail);
  // lanes without an element may hold anything, such as infinity
  LLVMValueRef large = used_lanes(e, greater(e, absolute(e, x), 0x1p20));
  LLVMBasicBlockRef rare = if_begin(e, any_lane(e, large));
  Angle big = reduce_large(e, x);
  LLVMBuildStore(b, pick(e, large, big.n, a.n), n);
  LLVMBuildStore(b, pick(e, large, big.r, a.r), r);
  LLVMBuildStore(b, pick(e, large, big.tail, a.tail), tail);
  if_end(e, rare);
  return (Angle){emit_read(e, t, n), emit_read(e, f, r), emit_read(e, f, tail)};
}

// -- polynomials: sin r = r + r z p(z), cos r = 1 - z/2 + z^2 q(z), z = r^2 ---------------------

static const double sin32[] = {2.724931405469880475e-6, -0.0001984008201276553655,
                               0.008333331865959414043, -0.1666666666383276448};
static const double cos32[] = {-2.730044861948835488e-7, 0.0000248005964356219968,
                               -0.001388888766471361966, 0.04166666666430240589};
static const double sin64[] = {1.591784852480826101e-10, -2.505112794401418758e-8,
                               2.755731608381635861e-6,  -0.0001984126983672241776,
                               0.008333333333330924562,  -0.166666666666666646};
static const double cos64[] = {-1.138245677806130585e-11, 2.08761438279931325e-9,
                               -2.755731726000883816e-7,  0.00002480158729874306929,
                               -0.001388888888888738227,  0.04166666666666666537};

// Emit sin(r + tail) and cos(r + tail) for |r| <= pi/4. tail is NULL for f32.
static LLVMValueRef sin_small(Emit *e, LLVMValueRef r, LLVMValueRef tail) {
  LLVMValueRef z = mul(e, r, r), p = tail ? POLY(e, z, sin64) : POLY(e, z, sin32);
  LLVMValueRef y = mul(e, mul(e, r, z), p);
  if (tail) y = add(e, y, mul(e, tail, math_fma(e, z, num(z, -0.5), num(z, 1))));
  return add(e, r, y);
}

static LLVMValueRef cos_small(Emit *e, LLVMValueRef r, LLVMValueRef tail) {
  LLVMValueRef z = mul(e, r, r),
               q = mul(e, mul(e, z, z), tail ? POLY(e, z, cos64) : POLY(e, z, cos32));
  LLVMValueRef half = scale(e, z, 0.5), w = sub(e, num(z, 1), half);
  LLVMValueRef lost = sub(e, sub(e, num(z, 1), w), half);
  if (tail) q = sub(e, q, mul(e, r, tail));
  return add(e, w, add(e, lost, q));
}

static LLVMValueRef bit(Emit *e, LLVMValueRef n, int64_t mask) {
  return not_zero(e, keep_bits(e, n, mask));
}

// Emits sin(x + quarter * pi/2): sin for quarter 0, cos for quarter 1.
static LLVMValueRef wave(Emit *e, LLVMValueRef x, int quarter) {
  bool f32 = is_f32(e, x);
  Angle a = reduce(e, f32 ? widen(e, x) : x);
  LLVMValueRef r = f32 ? narrow(e, a.r) : a.r, tail = f32 ? NULL : a.tail;
  LLVMValueRef n = int_add(e, a.n, int_like(a.n, quarter));
  LLVMValueRef y = pick(e, bit(e, n, 1), cos_small(e, r, tail), sin_small(e, r, tail));
  y = pick(e, bit(e, n, 2), negate(e, y), y);
  if (quarter) return y;
  return pick(e, less(e, absolute(e, x), 1e-12), x, y); // here sin x = x; keeps -0
}

LLVMValueRef math_sin(Emit *e, LLVMValueRef x) { return wave(e, x, 0); }
LLVMValueRef math_cos(Emit *e, LLVMValueRef x) { return wave(e, x, 1); }
#endif
