// silu, gelu and gelu_tanh, x times a gate that goes from 0 to 1, and their derivatives.
//
//   silu       x s(x)                      s(z) = 1 / (1 + e^-z)
//   gelu_tanh  x s(z), z = 2 sqrt(2/pi) (x + 0.044715 x^3)
//   gelu       x P(x), P the normal distribution, P(-a) = e^(-a^2/2) E(a)
//
// With a = |x| all of them need one power e^-z with z >= 0. Factors join the power before it becomes subnormal, and z
// keeps what its rounding lost, so that the tails are right to their ends. Beyond `limit` the power is 0 and a is taken
// to be `limit`: infinities give the limits of the functions.
#include "codegen/emit_arith.h"

#ifdef MESHC_HAVE_LLVM

// x = high + low, two numbers of type t
static LLVMValueRef two_sum(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *error) {
  LLVMValueRef sum = add(e, a, b), part = sub(e, sum, a);
  *error = add(e, sub(e, a, sub(e, sum, part)), sub(e, b, part));
  return sum;
}

// -- x s(z) --------------------------------------------------------------------------------------------------------

typedef struct Gate {
  LLVMValueRef a;    // |x|, at most the limit
  LLVMValueRef below; // x < 0
  LLVMValueRef w;    // a dz/da
  Power y;           // e^-z
  LLVMValueRef s;    // 1 / (1 + y)
} Gate;

static Gate gate_of(Emit *e, LLVMValueRef x, LLVMValueRef a, LLVMValueRef z, LLVMValueRef low, LLVMValueRef w) {
  Gate g = {.a = a, .below = less(e, x, 0), .w = w, .y = math_power(e, negate(e, z), low ? negate(e, low) : NULL)};
  LLVMValueRef one = num(x, 1);
  g.s = quot(e, one, add(e, math_power_times(e, &g.y, one), one));
  return g;
}

// x s for x >= 0, -a y s below.
static LLVMValueRef gated(Emit *e, LLVMValueRef x, const Gate *g) {
  LLVMValueRef under = math_power_times(e, &g->y, negate(e, mul(e, g->a, g->s)));
  return pick(e, g->below, under, mul(e, x, g->s));
}

// s (1 + w y s) for x >= 0, y s (1 - w s) below.
static LLVMValueRef gated_slope(Emit *e, const Gate *g) {
  LLVMValueRef ws = mul(e, g->w, g->s), one = num(g->s, 1);
  LLVMValueRef under = math_power_times(e, &g->y, mul(e, g->s, sub(e, one, ws)));
  return pick(e, g->below, under, math_fma(e, g->s, math_power_times(e, &g->y, ws), g->s));
}

static Gate silu_gate(Emit *e, LLVMValueRef x) {
  LLVMValueRef a = clamp(e, absolute(e, x), 0, is_f32(e, x) ? 120 : 800);
  return gate_of(e, x, a, a, NULL, a);
}

LLVMValueRef math_silu(Emit *e, LLVMValueRef x) {
  Gate g = silu_gate(e, x);
  return gated(e, x, &g);
}
LLVMValueRef math_silu_slope(Emit *e, LLVMValueRef x) {
  Gate g = silu_gate(e, x);
  return gated_slope(e, &g);
}

// z = a (k + c a^2) with an error term; k and c as two numbers each.
static Gate gelu_tanh_gate(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  const double k = 1.5957691216057308, k_low = -9.9693088091109203e-17, c = 0.07135481627260025, c_low = -6.175149918e-19;
  const double k_high = f32 ? (double)(float)k : k, c_high = f32 ? (double)(float)c : c;
  const double k_rest = f32 ? k - k_high : k_low, c_rest = f32 ? c - c_high : c_low;
  LLVMValueRef a = clamp(e, absolute(e, x), 0, f32 ? 12 : 24), square = mul(e, a, a), lost;
  LLVMValueRef t = scale(e, square, c_high), t_low = math_product_error(e, num(x, c_high), square, t);
  t_low = math_fma(e, num(x, c_high), math_product_error(e, a, a, square), t_low);
  t_low = math_fma(e, num(x, c_rest), square, t_low);
  LLVMValueRef p = two_sum(e, num(x, k_high), t, &lost), p_low = add(e, lost, offset(e, t_low, k_rest)), z = mul(e, a, p);
  LLVMValueRef low = math_fma(e, a, p_low, math_product_error(e, a, p, z));
  return gate_of(e, x, a, z, low, math_fma(e, scale(e, a, 2), t, z));
}

LLVMValueRef math_gelu_tanh(Emit *e, LLVMValueRef x) {
  Gate g = gelu_tanh_gate(e, x);
  return gated(e, x, &g);
}
LLVMValueRef math_gelu_tanh_slope(Emit *e, LLVMValueRef x) {
  Gate g = gelu_tanh_gate(e, x);
  return gated_slope(e, &g);
}

// -- gelu ----------------------------------------------------------------------------------------------------------

// E(a) = p(q) / (1 + 1.25 a), q = (a - m) / (a + m); p fits that over 0..15 with m = 4, in f64 over 0..40 with m = 5.
static LLVMValueRef scaled_tail(Emit *e, LLVMValueRef a) {
  static const double p32[] = {-9.418948032195370181e-5, -6.807585953153212657e-5, 9.075317439535924673e-4,
                               -5.378539692553047405e-4, -6.379355148634819663e-3, 0.02454816982364140628,
                               -0.0479634119442612072,   0.0536768123177012571,    -0.0135952746394823636,
                               -0.07827990239848982887,  0.5664638477481205846};
  static const double p64[] = {
    -3.397308195395898499e-10, 9.394235706083991691e-11, 5.512727915424781024e-9,  2.821858920438492123e-9,
    -4.057384557938093329e-8,  -2.838234615162842293e-8, 2.562667956121600892e-7,  1.392614321594378695e-7,
    -1.696271766089886628e-6,  8.142823418813407569e-8,  1.164293628126352374e-5,  -1.403138638273254193e-5,
    -6.725002428043873944e-5,  2.430245751130317636e-4,  -2.382966632489232946e-5, -2.149978116175063259e-3,
    8.747211917731881088e-3,   -0.02121086189092061297,  0.03652467917695901362,   -0.04496514177891097313,
    0.03272390979755436366,    9.770757560953297526e-3,  -0.07857596347650816584,  0.5576649610687956443};
  double m = is_f32(e, a) ? 4 : 5;
  LLVMValueRef q = quot(e, offset(e, a, -m), offset(e, a, m));
  LLVMValueRef p = is_f32(e, a) ? POLY(e, q, p32) : POLY(e, q, p64);
  return quot(e, p, math_fma(e, a, num(a, 1.25), num(a, 1)));
}

typedef struct Bell {
  LLVMValueRef a, below, tail; // |x|, at most the limit; x < 0; E(a)
  Power y;                     // e^(-a^2/2)
} Bell;

static Bell bell_of(Emit *e, LLVMValueRef x) {
  LLVMValueRef a = clamp(e, absolute(e, x), 0, is_f32(e, x) ? 15 : 40), square = mul(e, a, a);
  LLVMValueRef low = scale(e, math_product_error(e, a, a, square), -0.5);
  return (Bell){a, less(e, x, 0), scaled_tail(e, a), math_power(e, scale(e, square, -0.5), low)};
}

// |x| < 1: P(x) = 1/2 + x n(x^2), P(x) + x P'(x) = 1/2 + x m(x^2).
static LLVMValueRef near_zero(Emit *e, LLVMValueRef x, int n32, const double *p32, int n64, const double *p64) {
  LLVMValueRef z = mul(e, x, x), p = is_f32(e, x) ? math_poly(e, z, n32, p32) : math_poly(e, z, n64, p64);
  return math_fma(e, x, p, num(x, 0.5));
}

LLVMValueRef math_gelu(Emit *e, LLVMValueRef x) {
  static const double n32[] = {-7.660538171382089888e-6, 1.13502296192861412e-4, -1.186343988801988742e-3,
                               9.973328481256170609e-3,  -0.06649036056718690052, 0.3989422801308406168};
  static const double n64[] = {-1.687823163189687595e-13, 5.003033458919368046e-12, -1.12850021440596672e-10,
                               2.273377017346831676e-9,   -4.122657837266452987e-8, 6.659693114915888102e-7,
                               -9.444656248413156008e-6,  1.154346876142108671e-4,  -1.18732821548025312e-3,
                               9.973557010035806178e-3,   -0.0664903800669054461,   0.3989422804014326779};
  Bell b = bell_of(e, x);
  LLVMValueRef under = math_power_times(e, &b.y, negate(e, mul(e, b.a, b.tail)));
  LLVMValueRef over = mul(e, x, sub(e, num(x, 1), math_power_times(e, &b.y, b.tail)));
  LLVMValueRef near = near_zero(e, x, (int)countof(n32), n32, (int)countof(n64), n64);
  return pick(e, less(e, b.a, 1), mul(e, x, near), pick(e, b.below, under, over));
}

// P(x) + x P'(x), P'(x) = e^(-x^2/2) / sqrt(2 pi)
LLVMValueRef math_gelu_slope(Emit *e, LLVMValueRef x) {
  static const double m32[] = {7.292991673941803033e-6,  -1.106630792949641078e-4, 1.152562441211055891e-3,
                               -9.498008390918197835e-3, 0.05984123984865413333,   -0.265961513900552748,
                               0.7978845607379373523};
  static const double m64[] = {-3.973940725060805293e-12, 1.096631821598100778e-10, -2.256087202703945895e-9,
                               4.091962134872693752e-8,   -6.596243337275311634e-7, 9.32356989535412023e-6,
                               -1.133358748302371688e-4,  1.15434687611180518e-3,   -9.498625723838486241e-3,
                               0.0598413420602146262,     -0.2659615202676217795,   0.7978845608028653559};
  Bell b = bell_of(e, x);
  LLVMValueRef low = math_power_times(e, &b.y, math_fma(e, b.a, num(x, -0.39894228040143267794), b.tail));
  LLVMValueRef near = near_zero(e, x, (int)countof(m32), m32, (int)countof(m64), m64);
  return pick(e, less(e, b.a, 1), near, pick(e, b.below, low, sub(e, num(x, 1), low)));
}
#endif
