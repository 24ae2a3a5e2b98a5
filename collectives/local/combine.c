// Combines elements of several sources into one: sum, maximum, minimum or product, in the order of
// the sources, so that the result does not depend on which worker computes it.
#include <string.h>

#include "collectives/local/transfer.h"

// A reduction combines BLOCK elements at a time. It adds its sources (the blocks of the processors)
// in groups of GROUP, and then adds the sums of the groups. So the rounding error of n sources
// grows with n/16 + 16 instead of n.
enum { BLOCK = 256, GROUP = 16 };

static float from_bf16(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
static uint16_t to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (f != f) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static float from_f16(uint16_t h) { return (float)dtype_load(TYPE_F16, &h); }
static uint16_t to_f16(float f) {
  uint16_t h;
  dtype_store(TYPE_F16, &h, dtype_round(TYPE_F16, (double)f));
  return h;
}

#define SAME(x) (x)
#define NONZERO(x) ((uint8_t)((x) != 0))
#define MAX_OF(a, b) ((b) > (a) || (b) != (b) ? (b) : (a)) // NaN if one of them is
#define MIN_OF(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

// Executes `body` for each i from 0 to n-1, the elements of a block of at most BLOCK elements. A
// full block has a constant trip count, which compilers vectorise.
#define EACH(n, body)                                                                              \
  if ((n) == BLOCK)                                                                                \
    for (int64_t i = 0; i < BLOCK; i++) body;                                                      \
  else                                                                                             \
    for (int64_t i = 0; i < (n); i++) body
// Defines the function `name`, which combines the elements of several sources. Elements have type T
// and are accumulated in type A. Integer sums and products wrap in the unsigned type W.
#define COMBINER(name, TARGET, T, A, W, LOAD, STORE)                                               \
  TARGET static void name##_fold(A *restrict acc, const T *restrict x, int64_t n, Monoid monoid) { \
    switch (monoid) {                                                                              \
    case MONOID_NONE: EACH(n, acc[i] = LOAD(x[i])); break;                                         \
    case MONOID_SUM: EACH(n, acc[i] = (A)((W)acc[i] + (W)LOAD(x[i]))); break;                      \
    case MONOID_MAX: EACH(n, acc[i] = MAX_OF(acc[i], LOAD(x[i]))); break;                          \
    case MONOID_MIN: EACH(n, acc[i] = MIN_OF(acc[i], LOAD(x[i]))); break;                          \
    case MONOID_PROD: EACH(n, acc[i] = (A)((W)acc[i] * (W)LOAD(x[i]))); break;                     \
    }                                                                                              \
  }                                                                                                \
  TARGET static void name##_join(A *restrict acc, const A *restrict x, int64_t n, Monoid monoid) { \
    switch (monoid) {                                                                              \
    case MONOID_NONE: break;                                                                       \
    case MONOID_SUM: EACH(n, acc[i] = (A)((W)acc[i] + (W)x[i])); break;                            \
    case MONOID_MAX: EACH(n, acc[i] = MAX_OF(acc[i], x[i])); break;                                \
    case MONOID_MIN: EACH(n, acc[i] = MIN_OF(acc[i], x[i])); break;                                \
    case MONOID_PROD: EACH(n, acc[i] = (A)((W)acc[i] * (W)x[i])); break;                           \
    }                                                                                              \
  }                                                                                                \
  TARGET static void name(const Transfer *t, int64_t from, int64_t to, int64_t total,              \
                          Monoid monoid) {                                                         \
    A acc[BLOCK], part[BLOCK];                                                                     \
    for (int64_t at = 0; at < total; at += BLOCK) {                                                \
      int64_t n = total - at < BLOCK ? total - at : BLOCK;                                         \
      for (int64_t s = 0; s < t->nsrc; s++) {                                                      \
        const T *x = (const T *)(const void *)t->src[s] + from + at;                               \
        if (s < GROUP)                                                                             \
          name##_fold(acc, x, n, s ? monoid : MONOID_NONE);                                        \
        else                                                                                       \
          name##_fold(part, x, n, s % GROUP ? monoid : MONOID_NONE);                               \
        if (s >= GROUP && (s % GROUP == GROUP - 1 || s + 1 == t->nsrc))                            \
          name##_join(acc, part, n, monoid);                                                       \
      }                                                                                            \
      for (int64_t d = 0; d < t->ndst; d++) {                                                      \
        T *restrict y = (T *)(void *)t->dst[d] + to + at;                                          \
        EACH(n, y[i] = STORE(acc[i]));                                                             \
      }                                                                                            \
    }                                                                                              \
  }
COMBINER(combine_f32, , float, float, float, SAME, SAME)
COMBINER(combine_bf16, , uint16_t, float, float, from_bf16, to_bf16)
COMBINER(combine_f16, , uint16_t, float, float, from_f16, to_f16)
COMBINER(combine_f64, , double, double, double, SAME, SAME)
COMBINER(combine_i32, , int32_t, int32_t, uint32_t, SAME, SAME)
COMBINER(combine_u8, , uint8_t, uint8_t, uint32_t, SAME, SAME)
COMBINER(combine_bool, , uint8_t, int32_t, uint32_t, NONZERO, NONZERO)
COMBINER(combine_i64, , int64_t, int64_t, uint64_t, SAME, SAME)
COMBINER(combine_u64, , uint64_t, uint64_t, uint64_t, SAME, SAME)

// The versions of combine_f32 with the wider vectors AVX2 and AVX-512. Most reductions are sums of
// f32, and these versions double their speed on CPUs that have the vectors.
#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
#if defined(__clang__)
#define AVX512 __attribute__((target("avx512f"), min_vector_width(512)))
#else
#define AVX512 __attribute__((target("avx512f,prefer-vector-width=512")))
#endif
COMBINER(combine_f32_avx2, AVX2, float, float, float, SAME, SAME)
COMBINER(combine_f32_avx512, AVX512, float, float, float, SAME, SAME)
static Combine *widest_f32(void) {
  if (__builtin_cpu_supports("avx512f")) return combine_f32_avx512;
  return __builtin_cpu_supports("avx2") ? combine_f32_avx2 : combine_f32;
}
#else
static Combine *widest_f32(void) { return combine_f32; }
#endif

Combine *combine_of(Dtype type) {
  static Combine *const combiners[TYPE_COUNT] = {
      [TYPE_F32] = combine_f32,   [TYPE_BF16] = combine_bf16, [TYPE_F16] = combine_f16,
      [TYPE_F64] = combine_f64,   [TYPE_I32] = combine_i32,   [TYPE_U8] = combine_u8,
      [TYPE_BOOL] = combine_bool, [TYPE_I64] = combine_i64,   [TYPE_U64] = combine_u64,
  };
  return type == TYPE_F32 ? widest_f32() : combiners[type];
}
