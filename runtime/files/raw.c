// Elements as files store them, and their conversion to element types of meshc. A conversion fails
// if an element would lose its value, except that floats may be rounded.
#include "runtime/runtime_internal.h"

#include <math.h>
#include <string.h>

Raw raw_of(Dtype t) {
  static const Raw raw[TYPE_COUNT] = {
      [TYPE_F32] = {'f', 4, false},  [TYPE_BF16] = {'b', 2, false}, [TYPE_F16] = {'f', 2, false},
      [TYPE_F64] = {'f', 8, false},  [TYPE_I32] = {'i', 4, false},  [TYPE_U8] = {'u', 1, false},
      [TYPE_BOOL] = {'?', 1, false}, [TYPE_I64] = {'i', 8, false},  [TYPE_U64] = {'u', 8, false},
  };
  return raw[t];
}

Dtype raw_type(Raw r) {
  if (r.kind == 'f') return r.bytes == 8 ? TYPE_F64 : r.bytes == 4 ? TYPE_F32 : TYPE_F16;
  if (r.kind == 'b') return TYPE_BF16;
  if (r.kind == '?') return TYPE_BOOL;
  if (r.kind == 'u')
    return r.bytes == 8 ? TYPE_U64 : r.bytes == 4 ? TYPE_I64 : r.bytes == 2 ? TYPE_I32 : TYPE_U8;
  return r.bytes == 8 ? TYPE_I64 : TYPE_I32;
}

static const RawNames names[] = {
    {{'f', 4, false}, "f32", "F32"},   {{'f', 2, false}, "f16", "F16"},
    {{'b', 2, false}, "bf16", "BF16"}, {{'f', 8, false}, "f64", "F64"},
    {{'i', 8, false}, "i64", "I64"},   {{'i', 4, false}, "i32", "I32"},
    {{'i', 2, false}, "i16", "I16"},   {{'i', 1, false}, "i8", "I8"},
    {{'u', 8, false}, "u64", "U64"},   {{'u', 4, false}, "u32", "U32"},
    {{'u', 2, false}, "u16", "U16"},   {{'u', 1, false}, "u8", "U8"},
    {{'?', 1, false}, "bool", "BOOL"},
};

const RawNames *raw_names(Raw r) {
  for (size_t i = 0; i < countof(names); i++)
    if (names[i].raw.kind == r.kind && names[i].raw.bytes == r.bytes) return &names[i];
  BUG("no element of %d bytes of kind %c", r.bytes, r.kind);
}

const RawNames *raw_of_safetensors(const char *name) {
  for (size_t i = 0; i < countof(names); i++)
    if (strcmp(names[i].safetensors, name) == 0) return &names[i];
  return NULL;
}

// Returns the bits of the element at p, extended by zeros to 64 bits.
static uint64_t bits_at(Raw r, const unsigned char *p) {
  uint64_t x = 0;
  for (int i = 0; i < r.bytes; i++) x = x << 8 | p[r.big ? i : r.bytes - 1 - i];
  return x;
}

static int64_t signed_bits(Raw r, uint64_t x) {
  int shift = 64 - 8 * r.bytes;
  return (int64_t)(x << shift) >> shift;
}

static double float_bits(Raw r, uint64_t x) {
  union {
    uint16_t h;
    uint32_t w;
    uint64_t d;
    float f;
    double g;
  } u;
  if (r.bytes == 8) {
    u.d = x;
    return u.g;
  }
  if (r.bytes == 4) {
    u.w = (uint32_t)x;
    return (double)u.f;
  }
  u.h = (uint16_t)x;
  return dtype_load(r.kind == 'b' ? TYPE_BF16 : TYPE_F16, &u.h);
}

double raw_value(Raw r, const void *p) {
  uint64_t x = bits_at(r, p);
  if (r.kind == 'f' || r.kind == 'b') return float_bits(r, x);
  if (r.kind == 'i') return (double)signed_bits(r, x);
  return r.kind == '?' ? x != 0 : (double)x;
}

// Stores x in type `to`. Returns false if its value would be lost. With `integral`, x was an
// integer in the file, so a float must represent it exactly.
static bool store_value(double x, bool integral, Dtype to, char *dst) {
  double y = dtype_round(to, x);
  bool kept;
  if (to == TYPE_BOOL)
    kept = x == 0 || x == 1;
  else if (dtype_is_float(to) && !integral)
    kept = isnan(x) || isinf(y) == isinf(x);
  else
    kept = y == x;
  if (kept) dtype_store(to, dst, y);
  return kept;
}

// Stores a 64-bit integer beyond 2^53 (is_wide) in type `to`. It is not converted to a double,
// which would round it. Returns false if its value would be lost.
static bool store_wide(Raw r, uint64_t x, Dtype to, char *dst) {
  bool negative = r.kind == 'i' && (int64_t)x < 0;
  if ((to == TYPE_I64 && (r.kind == 'i' || x <= INT64_MAX)) || (to == TYPE_U64 && !negative)) {
    memcpy(dst, &x, sizeof x);
    return true;
  }
  if (!dtype_is_float(to)) return false;
  double y = negative ? (double)(int64_t)x : (double)x;
  bool exact = negative ? y >= -0x1p63 && (int64_t)y == (int64_t)x : y < 0x1p64 && (uint64_t)y == x;
  return exact && store_value(y, true, to, dst);
}

static bool is_wide(Raw r, uint64_t x) {
  if (r.bytes != 8 || (r.kind != 'i' && r.kind != 'u')) return false;
  int64_t s = (int64_t)x;
  return r.kind == 'u' ? x > (uint64_t)1 << 53 : s > (int64_t)1 << 53 || s < -((int64_t)1 << 53);
}

static bool same_bytes(Raw r, Dtype to) {
  Raw t = raw_of(to);
  return r.kind == t.kind && r.bytes == t.bytes && (!r.big || r.bytes == 1) && r.kind != '?';
}

// -- fast conversions ---------------------------------------------------------------------------

// Converts bytes, such as those of images, to f32. They are multiplied by `scale` in double and
// rounded once. Runs of a constant length are what compilers make vectors of.
enum { RUN = 64 };
#define BYTES_TO_F32(name, TARGET)                                                                 \
  TARGET static void name(const unsigned char *src, int64_t n, double scale, char *dst) {          \
    float x[RUN];                                                                                  \
    for (; n >= RUN; n -= RUN, src += RUN, dst += sizeof x) {                                      \
      for (int i = 0; i < RUN; i++) x[i] = (float)(src[i] * scale);                                \
      memcpy(dst, x, sizeof x);                                                                    \
    }                                                                                              \
    for (int64_t i = 0; i < n; i++) x[i] = (float)(src[i] * scale);                                \
    memcpy(dst, x, (size_t)n * sizeof *x);                                                         \
  }
BYTES_TO_F32(bytes_to_f32, )
#if defined(__x86_64__)
BYTES_TO_F32(bytes_to_f32_avx2, __attribute__((target("avx2"))))
BYTES_TO_F32(bytes_to_f32_avx512, __attribute__((target("avx512f,avx512bw,avx512vl"))))
#endif

typedef void BytesToF32(const unsigned char *src, int64_t n, double scale, char *dst);
static BytesToF32 *widest_bytes(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return bytes_to_f32_avx512;
  if (__builtin_cpu_supports("avx2")) return bytes_to_f32_avx2;
#endif
  return bytes_to_f32;
}

// Defines a function that converts n elements of C type `from` to `to`. `lost` is true for an
// element x whose value y has not. The function returns false if it was true for one; the caller
// then looks for it element by element.
#define CONVERT(name, from, to, lost)                                                              \
  static bool name(const unsigned char *src, int64_t n, char *dst) {                               \
    int bad = 0;                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                              \
      from x;                                                                                      \
      memcpy(&x, src + i * (int64_t)sizeof x, sizeof x);                                           \
      to y = (to)x;                                                                                \
      memcpy(dst + i * (int64_t)sizeof y, &y, sizeof y);                                           \
      bad |= lost;                                                                                 \
    }                                                                                              \
    return !bad;                                                                                   \
  }
CONVERT(u8_to_i32, uint8_t, int32_t, 0)
CONVERT(u16_to_i32, uint16_t, int32_t, 0)
CONVERT(u32_to_i32, uint32_t, int32_t, y < 0)
CONVERT(i64_to_i32, int64_t, int32_t, y != x)
CONVERT(u16_to_f32, uint16_t, float, 0)
CONVERT(f64_to_f32, double, float, isinf(y) && !isinf(x))

// The conversions of data sets: ids and labels in the types that files usually have.
static const struct {
  Raw from;
  Dtype to;
  bool (*convert)(const unsigned char *src, int64_t n, char *dst);
} conversions[] = {
    {{'u', 1, false}, TYPE_I32, u8_to_i32},  {{'u', 2, false}, TYPE_I32, u16_to_i32},
    {{'u', 4, false}, TYPE_I32, u32_to_i32}, {{'i', 8, false}, TYPE_I32, i64_to_i32},
    {{'u', 2, false}, TYPE_F32, u16_to_f32}, {{'f', 8, false}, TYPE_F32, f64_to_f32}};

// Converts n elements if there is a fast conversion. Returns false if there is none, or if a value
// would be lost.
static bool convert_fast(Raw r, const unsigned char *src, int64_t n, double scale, Dtype to,
                         char *dst) {
  if (r.kind == 'u' && r.bytes == 1 && to == TYPE_F32) {
    widest_bytes()(src, n, scale, dst);
    return true;
  }
  if (scale != 1 || (r.big && r.bytes > 1)) return false;
  if (same_bytes(r, to)) {
    memcpy(dst, src, (size_t)(n * r.bytes));
    return true;
  }
  for (size_t i = 0; i < countof(conversions); i++)
    if (conversions[i].from.kind == r.kind && conversions[i].from.bytes == r.bytes &&
        conversions[i].to == to)
      return conversions[i].convert(src, n, dst);
  return false;
}

bool raw_convert(Raw r, const void *src, int64_t n, double scale, Dtype to, void *dst,
                 int64_t *bad) {
  const unsigned char *p = src;
  char *q = dst;
  bool plain = scale == 1; // values are stored without arithmetic
  if (convert_fast(r, p, n, scale, to, q)) return true;
  bool integral = plain && r.kind != 'f' && r.kind != 'b';
  for (int64_t i = 0; i < n; i++, p += r.bytes, q += dtype_bytes(to)) {
    uint64_t x = bits_at(r, p);
    bool kept = plain && is_wide(r, x) ? store_wide(r, x, to, q)
                                       : store_value(raw_value(r, p) * scale, integral, to, q);
    if (kept) continue;
    *bad = i;
    return false;
  }
  return true;
}

bool raw_from_doubles(const double *src, int64_t n, Dtype to, void *dst, int64_t *bad) {
  return raw_convert(raw_of(TYPE_F64), src, n, 1, to, dst, bad);
}
