// References in long double. Where an exponential magnifies the rounding error of its argument, the
// argument is the sum of two numbers.
#include "tests/suite/common/elementary.h"

#include <float.h>
#include <math.h>

#define ONE(name, expression)                                                                      \
  static Wide f_##name(Wide x, Wide z) {                                                           \
    (void)x, (void)z;                                                                              \
    return expression;                                                                             \
  }
#define TWO(name, expression)                                                                      \
  static Wide f_##name(Wide x, Wide z) {                                                           \
    (void)x, (void)z;                                                                              \
    return expression;                                                                             \
  }

// -- gates --------------------------------------------------------------------------------------

// Correction that is added to a constant if long double has 64 digits.
#define LACKS(x) (LDBL_MANT_DIG == 64 ? (x) : 0)
static const Wide root_2_pi = 2.506628274631000502415765284811045253L,
                  root_half = 0.7071067811865475244008443621048490393L,
                  root_half_low = LACKS(1.89503255889326e-20L);

// e^-(h + l)
static Wide decay(Wide h, Wide l) { return expl(-h) * (1 - l); }

// e^(-k a^2), k a power of two
static Wide bell(Wide a, Wide k) {
  Wide h = a * a;
  return isinf(h) ? 0 : decay(k * h, k * fmal(a, a, -h));
}

// Returns half of erfc(a / sqrt 2), for a >= 0.
static Wide lower_tail(Wide a) {
  Wide z = a * root_half, low = fmal(a, root_half, -z) + a * root_half_low;
  if (isinf(a)) return 0;
  return 0.5L * (erfcl(z) - low * 1.128379167095512573896158903121545172L * bell(z, 1));
}

static Wide sigmoid(Wide x) {
  Wide y = expl(-fabsl(x));
  return x < 0 ? y / (1 + y) : isnan(x) ? x : 1 / (1 + y);
}

// Returns z = 2 sqrt(2/pi) (a + 0.044715 a^3) as the sum of the result and *low, for a >= 0.
static Wide tanh_inner(Wide a, Wide *low) {
  const Wide k = 1.595769121605730711759784239737527472L, k_low = LACKS(5.35117775572048e-20L),
             c = 0.07135481627260024877633875227986354L, c_low = LACKS(-8.75006214400898e-22L);
  Wide h = a * a, t = c * h, s = k + t, lost = t - (s - k), z = a * s;
  if (k < t) lost = k - (s - t);
  lost += fmal(c, h, -t) + c * fmal(a, a, -h) + c_low * h + k_low;
  *low = isinf(z) ? 0 : fmal(a, s, -z) + a * lost;
  return z;
}

// Gates: x s(z), and the derivative s (1 + w s(-z)) with w = x dz/dx. z = high + low is computed
// from |x|.
static Wide gated(Wide x, Wide z, Wide low) {
  Wide y = isinf(z) ? 0 : decay(z, low), s = 1 / (1 + y);
  if (isnan(x)) return x;
  return x < 0 ? (y == 0 ? -0.0L : x * y * s) : x * s;
}
static Wide gated_slope(Wide x, Wide z, Wide low, Wide w) {
  Wide y = isinf(z) ? 0 : decay(z, low), s = 1 / (1 + y);
  if (isnan(x)) return x;
  if (y == 0) return x < 0 ? 0 : 1;
  return x < 0 ? y * s * (1 - w * s) : s + w * y * s * s;
}

static Wide gelu_tanh(Wide x) {
  Wide low, z = tanh_inner(fabsl(x), &low);
  return gated(x, z, low);
}
static Wide gelu_tanh_slope(Wide x) {
  Wide a = fabsl(x), low, z = tanh_inner(a, &low);
  return gated_slope(x, z, low,
                     a * 1.595769121605730711759784239737527472L * (1 + 0.134145L * a * a));
}
static Wide gelu(Wide x) {
  Wide h = lower_tail(fabsl(x));
  return isnan(x) ? x : x < 0 ? (h == 0 ? -0.0L : x * h) : x * (1 - h);
}
static Wide gelu_slope(Wide x) {
  Wide a = fabsl(x), y = bell(a, 0.5L), low = y == 0 ? 0 : lower_tail(a) - a * y / root_2_pi;
  return isnan(x) ? x : x < 0 ? low : 1 - low;
}

// -- others -------------------------------------------------------------------------------------

static Wide sign(Wide x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static Wide softplus(Wide x) { return isnan(x) ? x : fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }
static Wide extreme(Wide x, Wide z, bool max) {
  return isnan(x) ? x : isnan(z) ? z : max ? (x > z ? x : z) : x < z ? x : z;
}
static Wide floor_mod(Wide x, Wide z) {
  Wide r = fmodl(x, z);
  return r != 0 && (r < 0) != (z < 0) ? r + z : r;
}
// Returns floor(x / z) of numbers with 53 digits.
static Wide floor_quotient(Wide x, Wide z) {
  Wide q = floorl(x / z), r = isinf(z) || isinf(x) || z == 0 ? 0 : fmodl(x, z);
  if (isinf(z) && isfinite(x)) return x != 0 && (x < 0) != (z < 0) ? -1 : q;
  if (fabsl(q) >= 0x1p63L || isinf(q) || isnan(q)) return q;
  // x = n z + r exactly: the quotient rounds to n, or to n - 1 where r has the other sign
  return roundl((x - r) / z) - (r != 0 && (r < 0) != (z < 0) ? 1 : 0);
}
// Returns x's share of the gradient of an extreme: all where x wins, half where both are equal.
static Wide share(Wide x, Wide z, bool max) { return x == z ? 0.5L : (x > z) == max ? 1 : 0; }
static Wide inside(Wide low, Wide x, Wide high) { return low < x && x < high ? 1 : 0; }

ONE(exp, expl(x))
ONE(expm1, expm1l(x))
ONE(log, logl(x))
ONE(log1p, log1pl(x))
ONE(sqrt, sqrtl(x))
ONE(rsqrt, 1 / sqrtl(x))
ONE(square, x *x)
ONE(abs, fabsl(x))
ONE(sign, sign(x))
ONE(floor, floorl(x))
ONE(ceil, ceill(x))
ONE(trunc, truncl(x))
ONE(round, rintl(x))
ONE(sin, sinl(x))
ONE(cos, cosl(x))
ONE(tanh, tanhl(x))
ONE(sigmoid, sigmoid(x))
ONE(relu, x < 0 ? 0 : x)
ONE(leaky_relu, x > 0 || isnan(x) ? x : x * 0.25L)
ONE(elu, x > 0 || isnan(x) ? x : expm1l(x))
ONE(gelu, gelu(x))
ONE(gelu_tanh, gelu_tanh(x))
ONE(silu, gated(x, fabsl(x), 0))
ONE(softplus, softplus(x))
ONE(erf, erfl(x))
ONE(reciprocal, 1 / x)
ONE(neg, -x)
TWO(minimum, extreme(x, z, false))
TWO(maximum, extreme(x, z, true))
TWO(pow, powl(x, z))
TWO(floor_div, floor_quotient(x, z))
TWO(clip, extreme(extreme(x, z, true), 1, false))
TWO(where, z > 0 ? x : z)
TWO(add, x + z)
TWO(sub, x - z)
TWO(mul, x *z)
TWO(div, x / z)
TWO(mod, floor_mod(x, z))
TWO(eq, x == z)
TWO(ne, x != z)
TWO(lt, x < z)
TWO(le, x <= z)
TWO(and, x > 0 && z > 0)
TWO(or, x > 0 || z > 0)
ONE(not, !(x > 0))
ONE(isnan, isnan(x) != 0)
ONE(isinf, isinf(x) != 0)
ONE(isfinite, isfinite(x) != 0)

// -- derivatives --------------------------------------------------------------------------------

ONE(one, 1)
ONE(minus_one, -1)
ONE(log_d, 1 / x)
ONE(log1p_d, 1 / (1 + x))
ONE(sqrt_d, 0.5L / sqrtl(x))
ONE(rsqrt_d, -0.5L / sqrtl(x) / sqrtl(x) / sqrtl(x))
ONE(square_d, 2 * x)
ONE(sin_d, cosl(x))
ONE(cos_d, -sinl(x))
ONE(tanh_d, 1 / (coshl(x) * coshl(x)))
ONE(sigmoid_d, sigmoid(x) * sigmoid(-x))
ONE(relu_d, x > 0 ? 1 : 0)
ONE(leaky_relu_d, x > 0 ? 1 : 0.25L)
ONE(elu_d, x > 0 ? 1 : expl(x))
ONE(gelu_d, gelu_slope(x))
ONE(gelu_tanh_d, gelu_tanh_slope(x))
ONE(silu_d, gated_slope(x, fabsl(x), 0, fabsl(x)))
ONE(softplus_d, sigmoid(x))
ONE(erf_d, isnan(x) ? x : 1.128379167095512573896158903121545172L * bell(x, 1))
ONE(reciprocal_d, -1 / (x * x))
TWO(minimum_dx, share(x, z, false))
TWO(minimum_dz, share(z, x, false))
TWO(maximum_dx, share(x, z, true))
TWO(maximum_dz, share(z, x, true))
TWO(pow_dx, z == 0 ? 0 : z * powl(x, z - 1))
TWO(pow_dz, x == 0 ? powl(x, z) * 0 : powl(x, z) * logl(x))
TWO(clip_dx, inside(z, x, 1))
TWO(clip_dz, x < z && z < 1 ? 1 : 0)
TWO(where_dx, z > 0 ? 1 : 0)
TWO(where_dz, z > 0 ? 0 : 1)
TWO(mul_dx, z)
TWO(mul_dz, x)
TWO(div_dx, 1 / z)
TWO(div_dz, -(1 / z) * (x / z))
TWO(mod_dz, -floor_quotient(x, z))

// -- the table ----------------------------------------------------------------------------------

// Bounds in f32 and in f64. ULP: units in the last place. SCALED: units in the last place of the
// result or of `scale`, the larger. MOVED: adds the effect of a change of the arguments.
#define ULP(n, m)                                                                                  \
  {                                                                                                \
    {n, 0, 0}, { m, 0, 0 }                                                                         \
  }
#define SCALED(n, m, scale)                                                                        \
  {                                                                                                \
    {n, scale, 0}, { m, scale, 0 }                                                                 \
  }
#define MOVED(n, m, arg)                                                                           \
  {                                                                                                \
    {n, 0, arg}, { m, 0, arg }                                                                     \
  }
#define EXACT ULP(0.5, 0.5)
#define UNARY(name, dx, value, slope)                                                              \
  {#name, #name "(x)", false, false, false, f_##name, dx, NULL, value, slope},
#define KINKED(name, text, dx, value, slope)                                                       \
  {#name, text, false, true, false, f_##name, dx, NULL, value, slope},
#define BINARY(name, text, dx, dz, value, slope)                                                   \
  {#name, text, true, false, false, f_##name, dx, dz, value, slope},
#define BRANCHED(name, text, dx, dz, value, slope)                                                 \
  {#name, text, true, true, false, f_##name, dx, dz, value, slope},
#define TRUTH(name, text) {#name, text, true, false, true, f_##name, NULL, NULL, EXACT, EXACT},

// Derivatives computed from the value y where 1 - y cancels (tanh, sigmoid), and derivatives that
// cross zero, have bounds in units of the last place of `scale`.
// clang-format off
const Elementary elementary[] = {
    UNARY(exp, f_exp, ULP(1.1, 1), ULP(1.1, 1))
    UNARY(expm1, f_exp, ULP(2, 2), ULP(1.1, 1))
    UNARY(log, f_log_d, ULP(1, 1), ULP(0.5, 0.501))
    UNARY(log1p, f_log1p_d, ULP(2, 2), ULP(2, 2))
    UNARY(sqrt, f_sqrt_d, ULP(0.5, 0.501), ULP(2, 2))
    UNARY(rsqrt, f_rsqrt_d, ULP(2, 2), ULP(5.5, 5.5))
    UNARY(square, f_square_d, ULP(0.5, 0.501), EXACT)
    KINKED(abs, "abs(x)", f_sign, EXACT, EXACT)
    KINKED(sign, "sign(x)", NULL, EXACT, EXACT)
    KINKED(floor, "floor(x)", NULL, EXACT, EXACT)
    KINKED(ceil, "ceil(x)", NULL, EXACT, EXACT)
    KINKED(trunc, "trunc(x)", NULL, EXACT, EXACT)
    KINKED(round, "round(x)", NULL, EXACT, EXACT)
    UNARY(sin, f_sin_d, ULP(2, 2), ULP(2, 2))
    UNARY(cos, f_cos_d, ULP(2, 2), ULP(2, 2))
    UNARY(tanh, f_tanh_d, ULP(2.4, 3), SCALED(2, 2, 1))
    UNARY(sigmoid, f_sigmoid_d, ULP(2.2, 3), SCALED(2, 2, 1))
    KINKED(relu, "relu(x)", f_relu_d, EXACT, EXACT)
    KINKED(leaky_relu, "leaky_relu(x, slope = 0.25)", f_leaky_relu_d, EXACT, EXACT)
    KINKED(elu, "elu(x)", f_elu_d, ULP(2, 2), ULP(2, 2))
    UNARY(gelu, f_gelu_d, ULP(4.2, 4.6), SCALED(5, 7, 0.125))
    UNARY(gelu_tanh, f_gelu_tanh_d, ULP(3, 3), SCALED(4.5, 4.5, 0.125))
    UNARY(silu, f_silu_d, ULP(3.2, 3.2), SCALED(3.2, 3.2, 0.125))
    UNARY(softplus, f_softplus_d, ULP(2, 2.1), ULP(2.2, 3))
    UNARY(erf, f_erf_d, ULP(2, 3), MOVED(2, 2, 1))
    UNARY(reciprocal, f_reciprocal_d, ULP(0.5, 0.501), ULP(2, 2))
    KINKED(neg, "-x", f_minus_one, EXACT, EXACT)
    BRANCHED(minimum, "minimum(x, z)", f_minimum_dx, f_minimum_dz, EXACT, EXACT)
    BRANCHED(maximum, "maximum(x, z)", f_maximum_dx, f_maximum_dz, EXACT, EXACT)
    BINARY(pow, "pow(x, z)", f_pow_dx, f_pow_dz, ULP(1, 2), MOVED(3, 4, 1))
    BRANCHED(floor_div, "floor_div(x, z)", NULL, NULL, ULP(0.5, 0.501), EXACT)
    BRANCHED(clip, "clip(x, z, 1)", f_clip_dx, f_clip_dz, EXACT, EXACT)
    BRANCHED(where, "where(z > 0, x, z)", f_where_dx, f_where_dz, EXACT, EXACT)
    BRANCHED(add, "x + z", f_one, f_one, ULP(0.5, 0.501), EXACT)
    BRANCHED(sub, "x - z", f_one, f_minus_one, ULP(0.5, 0.501), EXACT)
    BRANCHED(mul, "x * z", f_mul_dx, f_mul_dz, ULP(0.5, 0.501), EXACT)
    BRANCHED(div, "x / z", f_div_dx, f_div_dz, ULP(0.5, 0.501), ULP(2, 2))
    BRANCHED(mod, "x % z", f_one, f_mod_dz, ULP(0.5, 0.501), ULP(0.5, 0.501))
    TRUTH(eq, "x == z")
    TRUTH(ne, "x != z")
    TRUTH(lt, "x < z")
    TRUTH(le, "x <= z")
    TRUTH(and, "(x > 0) and (z > 0)")
    TRUTH(or, "(x > 0) or (z > 0)")
    TRUTH(not, "not (x > 0)")
    TRUTH(isnan, "isnan(x)")
    TRUTH(isinf, "isinf(x)")
    TRUTH(isfinite, "isfinite(x)")
};
// clang-format on
const int elementary_count = (int)countof(elementary);

// -- measuring ----------------------------------------------------------------------------------

typedef struct Format {
  int digits, least; // number of digits of the significand; exponent of the least normal number
  double max;
} Format;

static Format format_of(Dtype t) {
  switch ((int)t) {
  case TYPE_F32: return (Format){24, -126, (double)FLT_MAX};
  case TYPE_BF16: return (Format){8, -126, 0x1.fep127};
  case TYPE_F16: return (Format){11, -14, 65504};
  default: return (Format){53, -1022, DBL_MAX};
  }
}

static Wide unit_of(const Format *f, Wide x) {
  int at = x == 0 || fabsl(x) < 0x1p-1070L ? f->least : ilogbl(x);
  return ldexpl(1, (at > f->least ? at : f->least) - f->digits + 1);
}

Wide wide_round(Dtype t, Wide x) {
  Format f = format_of(t);
  if (x == 0 || !isfinite(x)) return x;
  Wide unit = unit_of(&f, x), y = rintl(x / unit) * unit;
  return fabsl(y) > (Wide)f.max ? copysignl(HUGE_VALL, x) : copysignl(y, x);
}

bool wide_normal(Dtype t, Wide x) {
  Format f = format_of(t);
  return x == 0 || (fabsl(x) >= ldexpl(1, f.least) && isfinite((double)wide_round(t, x)));
}

double wide_ulps(Dtype t, double got, Wide want, double scale) {
  Format f = format_of(t);
  Wide near = wide_round(t, want);
  if (isnan(got) || isnan(near)) return isnan(got) && isnan(near) ? 0 : HUGE_VAL;
  if (isinf(got) || isinf(near)) {
    bool same = (got > 0) == (near > 0) && fabs(got) >= f.max && fabsl(near) >= (Wide)f.max;
    return (Wide)got == near ? 0 : same ? 1 : HUGE_VAL;
  }
  Wide unit = unit_of(&f, fabsl(want) > (Wide)scale ? near : (Wide)scale);
  return (double)(fabsl((Wide)got - want) / unit);
}

// Returns how far f moves when an argument moves by a unit in its last place.
static Wide moved(Function *f, Dtype t, Wide x, Wide z, Wide want) {
  Format form = format_of(t);
  Wide dx = unit_of(&form, x), dz = unit_of(&form, z), far = 0;
  const Wide by[4][2] = {{dx, 0}, {-dx, 0}, {0, dz}, {0, -dz}};
  for (int i = 0; i < 4; i++) {
    Wide d = fabsl(f(x + by[i][0], z + by[i][1]) - want);
    if (isfinite(d) && d > far) far = d;
  }
  return far;
}

double elementary_error(Function *f, const Bound *b, Dtype t, Wide x, Wide z, double got) {
  Wide want = f(x, z);
  double u = wide_ulps(t, got, want, b->scale);
  if (u <= b->ulp || b->arg == 0 || !isfinite(u)) return u / b->ulp;
  Format form = format_of(t);
  Wide more = (Wide)b->arg * moved(f, t, x, z, want) / unit_of(&form, wide_round(t, want));
  return u / (double)((Wide)b->ulp + more);
}
