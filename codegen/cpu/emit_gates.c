// Gates: sigmoid, silu, gelu and gelu_tanh, and the derivatives ("slopes") of the last three.
//
//   sigmoid    s(x) = 1 / (1 + e^-x)
//   silu       x s(x)
//   gelu_tanh  x s(z), z = 2 sqrt(2/pi) (x + 0.044715 x^3)
//   gelu       x P(x), where P is the distribution function of the normal distribution;
//              P(-a) = e^(-a^2/2) E(a) for a >= 0, and tail_num describes E
//
// Powers of e are computed times 2^k or 2^-k, where k = math_shift: such a product is a normal
// number also where the gate is subnormal. The last step multiplies by 2^-k, so that the tails are
// accurate to their ends. The exponents z and a^2/2 are computed as a sum of two numbers, of which
// the second holds the rounding error of the first. If a kernel has a gate and its slope of one
// argument, LLVM's early-cse merges their common instructions.
#include "codegen/cpu/emit_math_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <math.h>

static int shift(Emit *e, LLVMValueRef x) { return math_shift(is_f32(e, x)); }
static LLVMValueRef unshift(Emit *e, LLVMValueRef x) { return scale(e, x, ldexp(1, -shift(e, x))); }

// -- x s(z) -------------------------------------------------------------------------------------

typedef struct Gate {
  LLVMValueRef y;   // 2^-k e^-z, where k is math_shift
  LLVMValueRef inv; // 2^k s(z)
} Gate;

// Returns the two fields of a Gate, y = 2^-k e^-z and inv = 2^k s(z). Here s is the sigmoid, k is
// math_shift, and p is the power 2^-k e^-z.
static Gate gate_of(Emit *e, const Power *p) {
  LLVMValueRef y = math_power_value(e, p);
  return (Gate){y, quot(e, num(y, 1), offset(e, y, ldexp(1, -shift(e, y))))};
}

// Returns the Gate of sigmoid and silu, where the argument z of the sigmoid is x itself.
static Gate logistic(Emit *e, LLVMValueRef x) {
  Power p = math_power(e, negate(e, x), num(x, math_magic(is_f32(e, x), -shift(e, x))));
  return gate_of(e, &p);
}

LLVMValueRef math_sigmoid(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  Gate g = logistic(e, clamp(e, x, math_lowest(f32), f32 ? 40 : 100));
  return unshift(e, g.inv);
}

// Returns the Gate of gelu_tanh. The argument z of its sigmoid is computed as -z log2(e) = x t.
// Here t = -(k + c x^2) with the constants k and c below. t is computed as a sum of two numbers, t
// and `low`. The constant k is a multiple of the last place of the largest t. So k + t is exact,
// and `low` holds the whole rounding error of t.
static Gate gelu_tanh_gate(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  const double k = f32 ? 0x1.26aecp+1 : 0x1.26aec21bce760p+1,
               k_low = f32 ? 2.5136698113913389e-7 : -2.977296208542741e-15;
  const double c = f32 ? 0x1.a5a7dp-4 : 0x1.a5a7cf7572a98p-4,
               c_low = f32 ? -2.016198436410503e-9 : -5.978177400718744e-18;
  LLVMValueRef q = mul(e, x, x), q_low = math_product_error(e, x, x, q),
               t = math_fma(e, q, num(x, -c), num(x, -k));
  LLVMValueRef low = math_near(e, q, num(x, -c), negate(e, offset(e, t, k)));
  low = math_fma(e, q_low, num(x, -c), add(e, low, math_fma(e, q, num(x, -c_low), num(x, -k_low))));
  Nearest d = math_nearest(e, x, t, num(x, math_magic(f32, -shift(e, x))));
  LLVMValueRef f = math_fma(e, x, low, math_near(e, x, t, negate(e, d.n)));
  Power p = {math_small_exp2m1(e, f), d.s};
  return gate_of(e, &p);
}

static LLVMValueRef gelu_tanh_factor(Emit *e, LLVMValueRef x) {
  const double linear = 1.5957691216057307118, cubic = 0.21406444881780074633;
  return mul(e, x, math_fma(e, mul(e, x, x), num(x, cubic), num(x, linear)));
}

// The constants and functions for an activation x s(z) and its derivative. s is the sigmoid; z is a
// function of x.
typedef struct Gated {
  double low32, low64;   // x s(z) is 0 for x below low32 in f32, low64 in f64
  double high32, high64; // s(z) is 1 for x above high32 in f32, high64 in f64
  Gate (*gate)(Emit *e, LLVMValueRef x);
  MathFn *factor; // returns x dz/dx; NULL if z is x
} Gated;
static const Gated silu = {-125, -900, 40, 100, logistic, NULL};
static const Gated gelu_tanh = {-11.3, -23, 6, 10, gelu_tanh_gate, gelu_tanh_factor};

// Emits x s(z), where s is the sigmoid. With `slope`, emits its derivative s (1 + w e^-z s)
// instead, where s is s(z) and w is x dz/dx.
static LLVMValueRef gated(Emit *e, LLVMValueRef x, const Gated *f, bool slope) {
  bool f32 = is_f32(e, x);
  x = at_least(e, x, f32 ? f->low32 : f->low64);
  Gate g = f->gate(e, x);
  LLVMValueRef y;
  if (slope) {
    LLVMValueRef w = f->factor ? f->factor(e, x) : x;
    y = mul(e, unshift(e, g.inv), math_fma(e, w, mul(e, g.y, g.inv), num(x, 1)));
  } else {
    y = unshift(e, mul(e, x, g.inv));
  }
  return pick(e, greater(e, x, f32 ? f->high32 : f->high64), slope ? num(x, 1) : x, y);
}

LLVMValueRef math_silu(Emit *e, LLVMValueRef x) { return gated(e, x, &silu, false); }
LLVMValueRef math_silu_slope(Emit *e, LLVMValueRef x) { return gated(e, x, &silu, true); }
LLVMValueRef math_gelu_tanh(Emit *e, LLVMValueRef x) { return gated(e, x, &gelu_tanh, false); }
LLVMValueRef math_gelu_tanh_slope(Emit *e, LLVMValueRef x) { return gated(e, x, &gelu_tanh, true); }

// -- gelu ---------------------------------------------------------------------------------------

// Emits the numerator of g(a), a quotient of polynomials tail_num / tail_den. The function g is
// defined by E(a) = c / (a + g(a)), where c = 1 / sqrt(2 pi) and E(a) = e^(a^2/2) P(-a). P is the
// distribution function of the normal distribution. The quotient fits g for a in 0..14.6, in f64
// for a in 0..38.8. For larger a, P(-a) is 0 with any g. A relative error of g is multiplied by g /
// (a + g) in E. So errors of Horner's rule, which grow with a, matter less where a is large.
static LLVMValueRef tail_num(Emit *e, LLVMValueRef a) {
  static const double n32[] = {9.886405223369365558e-7, 0.009594143368303775787,
                               0.09146413207054138184, 0.3652694821357727051,
                               0.7978845834732055664};
  static const double n64[] = {5.726822065119389563e-7,  0.0000171868568064364701,
                               0.0002535050199772516844, 0.002383733612946691092,
                               0.01566192193745755828,   0.0744773700597223115,
                               0.2570233699425814589,    0.6253654106435204696,
                               0.9877775384758383792,    0.7978845608028654057};
  return is_f32(e, a) ? POLY(e, a, n32) : POLY(e, a, n64);
}
static LLVMValueRef tail_den(Emit *e, LLVMValueRef a) {
  static const double d32[] = {0.009638675488531589508, 0.09060740470886230469,
                               0.3939326107501983643, 0.9132261872291564941, 1};
  static const double d64[] = {5.726822065580482536e-7,
                               0.00001718685679760422716,
                               0.0002546503851499427374,
                               0.00241810728720018818,
                               0.01616549727209537143,
                               0.07914168046931630007,
                               0.2868509350534259594,
                               0.7607288493644491778,
                               1.418395427595070313,
                               1.693425130007107926,
                               1};
  return is_f32(e, a) ? POLY(e, a, d32) : POLY(e, a, d64);
}

typedef struct NormalTail {
  LLVMValueRef a; // |x|, but at most 15.5 in f32, 43 in f64: P(-a) is 0 there
  LLVMValueRef y; // 2^k c e^(-a^2/2), where k is math_shift and c = 1 / sqrt(2 pi)
  LLVMValueRef h; // 2^k P(-a)
} NormalTail;

static NormalTail normal_tail(Emit *e, LLVMValueRef x) {
  bool f32 = is_f32(e, x);
  const double half = f32 ? 0x1.715476p-1 : 0x1.71547652b82fep-1,
               half_low = f32 ? 9.629814955633387e-9 : 1.0177636870465516e-17;
  LLVMValueRef a = at_most(e, absolute(e, x), f32 ? 15.5 : 43), q = mul(e, a, a),
               q_low = math_product_error(e, a, a, q);
  Nearest n = math_nearest(e, q, num(x, -half), num(x, math_magic(f32, shift(e, x))));
  LLVMValueRef f =
      math_fma(e, q, num(x, -half_low), math_near(e, q, num(x, -half), negate(e, n.n)));
  Power p = {math_small_exp2m1(e, math_fma(e, q_low, num(x, -half), f)),
             scale(e, n.s, 0.39894228040143267794)};
  LLVMValueRef y = math_power_value(e, &p), d = tail_den(e, a);
  return (NormalTail){a, y, quot(e, mul(e, y, d), math_fma(e, a, d, tail_num(e, a)))};
}

LLVMValueRef math_gelu(Emit *e, LLVMValueRef x) {
  NormalTail b = normal_tail(e, x);
  double unit = -ldexp(1, -shift(e, x));
  LLVMValueRef under = scale(e, mul(e, b.a, b.h), unit),
               over = mul(e, x, math_fma(e, b.h, num(x, unit), num(x, 1)));
  return pick(e, less(e, x, 0), under, over);
}

// Emits the derivative of gelu: P(x) + x P'(x), where P is the normal distribution function and
// P'(x) = e^(-x^2/2) / sqrt(2 pi). For |x| < 1 it is computed as 1/2 + x m(x^2), where m is a
// polynomial.
LLVMValueRef math_gelu_slope(Emit *e, LLVMValueRef x) {
  static const double m32[] = {7.292991673941803033e-6, -1.106630792949641078e-4,
                               1.152562441211055891e-3, -9.498008390918197835e-3,
                               0.05984123984865413333,  -0.265961513900552748,
                               0.7978845607379373523};
  static const double m64[] = {
      -3.973940725060805293e-12, 1.096631821598100778e-10, -2.256087202703945895e-9,
      4.091962134872693752e-8,   -6.596243337275311634e-7, 9.32356989535412023e-6,
      -1.133358748302371688e-4,  1.15434687611180518e-3,   -9.498625723838486241e-3,
      0.0598413420602146262,     -0.2659615202676217795,   0.7978845608028653559};
  NormalTail b = normal_tail(e, x);
  LLVMValueRef z = mul(e, x, x),
               near = math_fma(e, x, is_f32(e, x) ? POLY(e, z, m32) : POLY(e, z, m64), num(x, 0.5));
  LLVMValueRef low = unshift(e, math_fma(e, negate(e, b.a), b.y, b.h));
  LLVMValueRef outer = pick(e, less(e, x, 0), low, sub(e, num(x, 1), low));
  return pick(e, less(e, b.a, 1), near, outer);
}
#endif
