// Numbers in the evaluator: unit roundoffs, rounding bounds, exact sums, and the keys of argmax.
//
// A bound of zero means that every correct program computes exactly this value. It stays zero where
// nothing rounds: selections, moves, integers, and sums of small integers in any order. Tests of
// such values compare bit for bit.
#include "ir/eval/eval_rules.h"

#include <math.h>
#include <string.h>

double unit_roundoff(Dtype t) {
  int p = dtype_format(t).digits;
  return p == 0 ? 0 : ldexp(1, p == 53 ? -52 : -p);
}

double least_normal(Dtype t) {
  FloatFormat f = dtype_format(t);
  return f.digits == 0 ? 0 : ldexp(1, f.emin);
}

double least_subnormal(Dtype t) {
  FloatFormat f = dtype_format(t);
  return f.digits == 0 ? 0 : ldexp(1, f.emin - f.digits + 1);
}

double largest_finite(Dtype t) { return dtype_format(t).largest; }

Cell cell_finish(Dtype t, Cell c) {
  double max = dtype_format(t).largest;
  if (isnan(c.v)) return (Cell){c.v, 0, c.t};
  if (!(c.b < INF)) return (Cell){c.v, 0, true};
  if (isinf(c.v)) return (Cell){c.v, 0, c.t};
  if (fabs(c.v) + c.b <= max) return c;
  // A program computes f16 in f32. A value that it does not store in f16 can exceed the range of
  // f16 without becoming infinite.
  c.t = c.t || t == TYPE_F16 || fabs(c.v) - c.b <= max * (1 + unit_roundoff(t));
  if (fabs(c.v) > max) return (Cell){copysign(INF, c.v), 0, c.t};
  return c;
}

Cell cell_rounded(Dtype t, double v, double b, bool exact) {
  if ((exact && b == 0 && dtype_round(t, v) == v) || !isfinite(v)) return (Cell){v, b, false};
  return (Cell){v, b + unit_roundoff(t) * fabs(v) + least_subnormal(t), false};
}

double int_wrap(Dtype t, int64_t x) {
  switch (t) {
  case TYPE_I32: return (double)(int32_t)(uint32_t)(uint64_t)x;
  case TYPE_U8: return (double)(uint8_t)(uint64_t)x;
  case TYPE_BOOL: return x != 0;
  case TYPE_U64: return (double)(uint64_t)x;
  case TYPE_I64:
  case TYPE_F32:
  case TYPE_BF16:
  case TYPE_F16:
  case TYPE_F64: return (double)x;
  case TYPE_COUNT: break;
  }
  BUG("no such type %d", (int)t);
}

// -- sums ---------------------------------------------------------------------------------------

double sum_roundings(Dtype acc, int64_t n, int most) {
  return (double)(acc == TYPE_F32 && n > most ? most : n) + 4;
}

void sum_add(Sum *s, Cell x, Dtype t) {
  s->v = dtype_is_float(t) ? s->v + x.v
                           : (double)(int64_t)((uint64_t)(int64_t)s->v + (uint64_t)(int64_t)x.v);
  s->abs += fabs(x.v);
  s->b += x.b;
  s->n++;
  s->t = s->t || x.t;
}

Cell sum_cell(Dtype acc, Dtype t, const Sum *s, int granule, int most) {
  if (!dtype_is_float(t)) return (Cell){int_wrap(t, (int64_t)s->v), 0, s->t};
  FloatFormat f = dtype_format(acc);
  bool exact = granule > NO_GRANULE && s->b == 0 && granule >= f.emin - f.digits + 1 &&
               s->abs <= ldexp(1, f.digits + granule);
  double b = s->b;
  if (!exact && isfinite(s->v))
    b += sum_roundings(acc, s->n, most) * unit_roundoff(acc) * s->abs +
         (double)s->n * least_subnormal(acc);
  Cell c = acc == t ? (Cell){s->v, b, false} : cell_rounded(t, s->v, b, exact);
  // Partial sums can overflow although all terms are finite.
  c.t = s->t || (isfinite(s->v) && s->abs > f.largest);
  return cell_finish(t, c);
}

// Returns the exponent of the lowest bit that is set in x. x must be finite and not 0.
static int lowest_bit(double x) {
  int e;
  double m = frexp(x, &e);
  int64_t digits = (int64_t)ldexp(fabs(m), 53);
  return e - 53 + __builtin_ctzll((unsigned long long)digits);
}

int tensor_granule(const Tensor *t) {
  int g = 100000;
  for (int64_t i = 0; i < t->elements; i++) {
    if (t->bound[i] != 0 || !isfinite(t->value[i])) return NO_GRANULE;
    if (t->value[i] == 0) continue;
    int low = lowest_bit(t->value[i]);
    if (low < g) g = low;
  }
  return g == 100000 ? 0 : g;
}

// -- keys ---------------------------------------------------------------------------------------

uint64_t key_bits(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

double key_double(uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static uint32_t ordered_float(double x) {
  if (isnan(x)) return UINT32_MAX;
  float f = (float)x + 0.0F; // + 0 makes -0 and 0 the same key
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}

uint64_t key_make(Dtype x_type, double x, int32_t index) {
  uint32_t high = dtype_is_float(x_type) ? ordered_float(x) : (uint32_t)(int32_t)x ^ 0x80000000U;
  return (uint64_t)high << 32 | (uint32_t) ~(uint32_t)index;
}

double key_value(double key, bool is_float) {
  uint32_t high = (uint32_t)(key_bits(key) >> 32);
  if (!is_float) return (double)(int32_t)(high ^ 0x80000000U);
  if (high == UINT32_MAX) return (double)NAN;
  uint32_t bits = high & 0x80000000U ? high & 0x7fffffffU : ~high;
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

int32_t key_index(double key) { return (int32_t) ~(uint32_t)key_bits(key); }
