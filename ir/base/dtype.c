// Element types: the tables of dtype.def, type promotion, exact rounding, and loads and stores that
// convert to and from double.
//
// Narrow floats (bf16, f16) are rounded directly from double, because rounding to f32 first would
// round some values twice.
#include "ir/base/dtype.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct DtypeRow {
  const char *text;
  int64_t bytes;
  TypeClass cls;
} DtypeRow;

static const DtypeRow rows[TYPE_COUNT] = {
#define DTYPE(id, text, bytes, cls) {text, bytes, CLASS_##cls},
#include "ir/base/dtype.def"
#undef DTYPE
};

const char *dtype_text(Dtype t) { return rows[t].text; }
int64_t dtype_bytes(Dtype t) { return rows[t].bytes; }
TypeClass dtype_class(Dtype t) { return rows[t].cls; }

bool dtype_parse(const char *text, Dtype *out) {
  for (int t = 0; t < TYPE_COUNT; t++) {
    if (strcmp(rows[t].text, text) != 0) continue;
    *out = (Dtype)t;
    return true;
  }
  return false;
}

static Dtype join_floats(Dtype a, Dtype b) {
  return a == TYPE_F64 || b == TYPE_F64 ? TYPE_F64 : TYPE_F32;
}

Dtype dtype_join(Dtype a, Dtype b) {
  if (a == b) return a;
  bool fa = dtype_is_float(a), fb = dtype_is_float(b);
  if (fa && fb) return join_floats(a, b);
  if (fa) return a;
  if (fb) return b;
  if (a == TYPE_U64 || b == TYPE_U64) return TYPE_U64;
  if (a == TYPE_I64 || b == TYPE_I64) return TYPE_I64;
  return TYPE_I32;
}

bool dtype_widens(Dtype a, Dtype b) {
  enum { F32 = 1 << TYPE_F32, BF16 = 1 << TYPE_BF16, F16 = 1 << TYPE_F16, F64 = 1 << TYPE_F64 };
  enum { I32 = 1 << TYPE_I32, U8 = 1 << TYPE_U8, I64 = 1 << TYPE_I64 };
  static const int wider[TYPE_COUNT] = {
      [TYPE_BF16] = F32 | F64,
      [TYPE_F16] = F32 | F64,
      [TYPE_F32] = F64,
      [TYPE_I32] = F64 | I64,
      [TYPE_U8] = I32 | F32 | F16 | F64 | I64,
      [TYPE_BOOL] = I32 | U8 | I64 | F32 | BF16 | F16 | F64,
  };
  return a == b || wider[a] >> b & 1;
}

Dtype dtype_accumulator(Dtype t) {
  if (t == TYPE_BF16 || t == TYPE_F16) return TYPE_F32;
  if (t == TYPE_BOOL || t == TYPE_U8) return TYPE_I32;
  return t;
}

FloatFormat dtype_format(Dtype t) {
  static const FloatFormat format[TYPE_COUNT] = {[TYPE_F32] = {24, -126, (double)FLT_MAX},
                                                 [TYPE_BF16] = {8, -126, 0x1.fep127},
                                                 [TYPE_F16] = {11, -14, 65504},
                                                 [TYPE_F64] = {53, -1022, DBL_MAX}};
  return format[t].digits ? format[t] : (FloatFormat){.largest = (double)INFINITY};
}

// Returns the value of format f that is nearest to x, ties to even. Numbers below the least normal
// number have the spacing of that number.
static double round_digits(double x, FloatFormat f) {
  if (!isfinite(x) || x == 0) return x;
  int e; // |x| is a fraction in [0.5, 1) times 2^e
  frexp(x, &e);
  if (e < f.emin + 1) e = f.emin + 1;
  double y = ldexp(nearbyint(ldexp(x, f.digits - e)), e - f.digits);
  return fabs(y) > f.largest ? copysign((double)INFINITY, x) : y;
}

static double round_integer(double x, double low, double high) {
  if (isnan(x)) return 0;
  x = trunc(x);
  if (x < low) return low;
  if (x > high) return high;
  return x == 0 ? 0 : x; // never -0
}

double dtype_round(Dtype t, double x) {
  switch (t) {
  case TYPE_F32: return (double)(float)x;
  case TYPE_BF16:
  case TYPE_F16: return round_digits(x, dtype_format(t));
  case TYPE_F64: return x;
  case TYPE_I32: return round_integer(x, INT32_MIN, INT32_MAX);
  case TYPE_U8: return round_integer(x, 0, UINT8_MAX);
  case TYPE_BOOL: return x != 0;
  case TYPE_I64: return round_integer(x, -0x1p63, 0x1p63);
  case TYPE_U64: return round_integer(x, 0, 0x1p64);
  case TYPE_COUNT: break;
  }
  BUG("no element type %d", (int)t);
}

static uint16_t bf16_bits(double x) {
  float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return (uint16_t)(bits >> 16 | (isnan(x) ? 0x40 : 0));
}

static double bf16_value(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

static uint16_t f16_bits(double x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  if (isnan(x)) return sign | 0x7e00;
  if (isinf(x)) return sign | 0x7c00;
  int e;
  double m = frexp(fabs(x), &e); // |x| is m times 2^e, with 0.5 <= m < 1
  if (m == 0) return sign;
  if (e < -13) return (uint16_t)(sign | (uint16_t)ldexp(m, e + 24));
  return (uint16_t)(sign | (e + 14) << 10 | (int)((m * 2 - 1) * 1024));
}

static double f16_value(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  double x = e == 31  ? (m ? (double)NAN : (double)INFINITY)
             : e == 0 ? ldexp(m, -24)
                      : ldexp(1024 + m, e - 25);
  return h & 0x8000 ? -x : x;
}

// One element of any type, with its bytes in memory. `h` has the bits of a bf16 or f16.
typedef union AnyElement {
  float f32;
  double f64;
  uint16_t h;
  int32_t i32;
  uint8_t u8;
  int64_t i64;
  uint64_t u64;
} AnyElement;

double dtype_load(Dtype t, const void *p) {
  AnyElement v;
  memcpy(&v, p, (size_t)rows[t].bytes);
  switch (t) {
  case TYPE_F32: return (double)v.f32;
  case TYPE_BF16: return bf16_value(v.h);
  case TYPE_F16: return f16_value(v.h);
  case TYPE_F64: return v.f64;
  case TYPE_I32: return v.i32;
  case TYPE_U8: return v.u8;
  case TYPE_BOOL: return v.u8 != 0;
  case TYPE_I64: return (double)v.i64;
  case TYPE_U64: return (double)v.u64;
  case TYPE_COUNT: break;
  }
  BUG("no element type %d", (int)t);
}

void dtype_store(Dtype t, void *p, double x) {
  AnyElement v = {0};
  switch (t) {
  case TYPE_F32: v.f32 = (float)x; break;
  case TYPE_BF16: v.h = bf16_bits(x); break;
  case TYPE_F16: v.h = f16_bits(x); break;
  case TYPE_F64: v.f64 = x; break;
  case TYPE_I32: v.i32 = (int32_t)x; break;
  case TYPE_U8: v.u8 = (uint8_t)x; break;
  case TYPE_BOOL: v.u8 = x != 0; break;
  case TYPE_I64: v.i64 = x >= 0x1p63 ? INT64_MAX : (int64_t)x; break;
  case TYPE_U64: v.u64 = x >= 0x1p64 ? UINT64_MAX : (uint64_t)x; break;
  case TYPE_COUNT: BUG("no element type %d", (int)t);
  }
  memcpy(p, &v, (size_t)rows[t].bytes);
}
