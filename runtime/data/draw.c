// Draws many random numbers at once: uniform ones by Philox, normal ones by the transform of Box
// and Muller. The loops have no branches or calls, so that compilers vectorise them.
//
// Every operation is exact or rounded once as in IEEE 754, and no multiplication is fused with an
// addition. So results have equal bits for every vector width.
#include "runtime/runtime_internal.h"

#include <math.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define EVERYWHERE static inline __attribute__((always_inline))

// Returns x < 2^52 as a double. The bits of the double 2^52 + x are those of 2^52 with x as the
// mantissa, so subtracting 2^52 gives x exactly.
EVERYWHERE double from_integer(uint64_t x) {
  uint64_t bits = x | 0x4330000000000000u;
  double d;
  memcpy(&d, &bits, sizeof d);
  return d - 0x1p52;
}

// Returns a uniform random number in (0, 1) from two random 32-bit words. `high` and the upper 21
// bits of `low` form a number i. With (0, 1) divided into 2^53 equal parts, the result is the
// middle of part i.
EVERYWHERE double from_words(uint64_t high, uint64_t low) {
  return (from_integer(high) * 0x1p21 + from_integer(low >> 11) + 0.5) * 0x1p-53;
}

// Returns the natural logarithm of a positive normal number, as fdlibm does (Sun Microsystems,
// 1993). Here x = 2^k m with m in [sqrt(1/2), sqrt(2)), and f = m - 1. Then log(m) = f - f^2/2 + s
// (f^2/2 + R(s^2)) with s = f / (2 + f).
EVERYWHERE double log_of(double x) {
  static const double c[] = {6.666666666666735130e-01, 3.999999999940941908e-01,
                             2.857142874366239149e-01, 2.222219843214978396e-01,
                             1.818357216161805012e-01, 1.531383769920937332e-01,
                             1.479819860511658591e-01};
  const uint64_t one = 0x3ff0000000000000u, root_half = 0x3fe6a09e00000000u;
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits += one - root_half;
  double k = from_integer(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffu) + root_half;
  double m;
  memcpy(&m, &bits, sizeof m);
  double f = m - 1, half = 0.5 * f * f, s = f / (2 + f), z = s * s;
  double r = z * (c[0] + z * (c[1] + z * (c[2] + z * (c[3] + z * (c[4] + z * (c[5] + z * c[6]))))));
  return s * (half + r) + k * 1.90821492927058770002e-10 - half + f +
         k * 6.93147180369123816490e-01;
}

// Returns cos(2 pi x) for 0 <= x <= 1. It equals sin(t) with t = 2 pi (|x - 1/2| - 1/4), and
// |t| <= pi / 2. The sine is computed by its Taylor series.
EVERYWHERE double cos_turns(double x) {
  double t = 6.283185307179586477 * (fabs(x - 0.5) - 0.25), y = t * t;
  double sum = 1 / 51090942171709440000.0; // the coefficient 1/21!
  sum = sum * y - 1 / 121645100408832000.0;
  sum = sum * y + 1 / 355687428096000.0;
  sum = sum * y - 1 / 1307674368000.0;
  sum = sum * y + 1 / 6227020800.0;
  sum = sum * y - 1 / 39916800.0;
  sum = sum * y + 1 / 362880.0;
  sum = sum * y - 1 / 5040.0;
  sum = sum * y + 1 / 120.0;
  sum = sum * y - 1 / 6.0;
  return t + t * (y * sum);
}

#define DRAWS(name, TARGET)                                                                        \
  TARGET static void name##_uniforms(uint64_t key, int64_t n, const int64_t *restrict index,       \
                                     double *restrict u, double *restrict v) {                     \
    for (int64_t i = 0; i < n; i++) {                                                              \
      uint64_t x[4] = {(uint64_t)index[i] & 0xffffffff, (uint64_t)index[i] >> 32, 0, 0};           \
      uint64_t k0 = key & 0xffffffff, k1 = key >> 32;                                              \
      for (int round = 0; round < 10; round++) {                                                   \
        uint64_t a = 0xD2511F53u * x[0], b = 0xCD9E8D57u * x[2];                                   \
        x[0] = b >> 32 ^ x[1] ^ k0;                                                                \
        x[1] = b & 0xffffffff;                                                                     \
        x[2] = a >> 32 ^ x[3] ^ k1;                                                                \
        x[3] = a & 0xffffffff;                                                                     \
        k0 = (k0 + 0x9E3779B9u) & 0xffffffff;                                                      \
        k1 = (k1 + 0xBB67AE85u) & 0xffffffff;                                                      \
      }                                                                                            \
      u[i] = from_words(x[0], x[1]);                                                               \
      v[i] = from_words(x[2], x[3]);                                                               \
    }                                                                                              \
  }                                                                                                \
  TARGET static void name##_normals(int64_t n, double *restrict u, const double *restrict v) {     \
    for (int64_t i = 0; i < n; i++) u[i] = sqrt(-2 * log_of(u[i])) * cos_turns(v[i]);              \
  }

DRAWS(plain, )
#if defined(__x86_64__)
#if defined(__clang__)
#define AVX512 __attribute__((target("avx512f,avx512dq"), min_vector_width(512)))
#else
#define AVX512 __attribute__((target("avx512f,avx512dq,prefer-vector-width=512")))
#endif
DRAWS(avx2, __attribute__((target("avx2"))))
DRAWS(avx512, AVX512)
#endif

typedef struct Draws {
  void (*uniforms)(uint64_t key, int64_t n, const int64_t *restrict index, double *restrict u,
                   double *restrict v);
  void (*normals)(int64_t n, double *restrict u, const double *restrict v);
} Draws;

static Draws widest(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return (Draws){avx512_uniforms, avx512_normals};
  if (__builtin_cpu_supports("avx2")) return (Draws){avx2_uniforms, avx2_normals};
#endif
  return (Draws){plain_uniforms, plain_normals};
}

void draw_uniforms(uint64_t key, int64_t n, const int64_t *index, double *u, double *v) {
  widest().uniforms(key, n, index, u, v);
}

void draw_normals(int64_t n, double *u, const double *v) { widest().normals(n, u, v); }
