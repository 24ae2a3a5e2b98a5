// Draws many random numbers at once: uniform ones by Philox, normal ones by the transform of Box
// and Muller. The loops have no branches or calls, so that compilers vectorise them.
//
// Every operation is exact or rounded once as in IEEE 754, and no multiplication is fused with an
// addition. So results have equal bits for every vector width.
#include "ir/base/philox.h"
#include "runtime/runtime_internal.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

// Vectors of 64-bit words and of doubles at any address.
typedef uint64_t Words4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef uint64_t Words8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef double Reals4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double Reals8 __attribute__((vector_size(64), aligned(8), may_alias));

// The products of the lower halves of the words of x with a number c < 2^32. Compilers do not find
// the instructions for this by themselves, nor that for the sum of three words without carries.
#define TIMES1(x, c) (((x)&0xffffffff) * (c))
#define TIMES4(x, c) ((Words4)_mm256_mul_epu32((__m256i)(x), _mm256_set1_epi64x((int64_t)(c))))
#define TIMES8(x, c) ((Words8)_mm512_mul_epu32((__m512i)(x), _mm512_set1_epi64((int64_t)(c))))
#define XOR3(x, y, z) ((x) ^ (y) ^ (z))
#define XOR8(x, y, z)                                                                              \
  ((Words8)_mm512_ternarylogic_epi64((__m512i)(x), (__m512i)(y), (__m512i)((Words8){0} + (z)),     \
                                     0x96))
// The words x < 2^53 as doubles. In two halves without an instruction for this: the bits of the
// double 2^52 + h are those of 2^52 with h as the mantissa.
#define REAL1(x) ((double)(x))
#define REAL4(x)                                                                                   \
  (((Reals4)((x) >> 21 | 0x4330000000000000u) - 0x1p52) * 0x1p21 +                                 \
   ((Reals4)(((x)&0x1fffff) | 0x4330000000000000u) - 0x1p52))
#define REAL8(x) ((Reals8)_mm512_cvtepu64_pd((__m512i)(x)))

// The rounds of Philox wait for one another: CHAINS vectors are computed at the same time.
enum { CHAINS = 4 };
#define EACH_CHAIN _Pragma("GCC unroll 8") for (int j = 0; j < CHAINS; j++)

// Defines the functions for one vector width. Words and Reals are LANES words or doubles.
//
// NAME_uniforms: two words of 32 bits give a uniform number in (0, 1). The first and the upper 21
// bits of the second form a number i. With (0, 1) divided into 2^53 equal parts, the result is the
// middle of part i. The upper halves of x hold garbage between the rounds of Philox: a product
// reads lower halves only. The words x2 and x3 of a counter are 0, so that the first round has one
// product.
#define DRAWS(name, TARGET, Words, Reals, LANES, TIMES, XOR, REAL)                                 \
  TARGET EVERYWHERE Reals name##_fraction(Words high, Words low) {                                 \
    Words i = high << 32 | (low & 0xffffffff);                                                     \
    return (REAL(i >> 11) + 0.5) * 0x1p-53;                                                        \
  }                                                                                                \
  TARGET static void name##_uniforms(uint64_t key, const int64_t *restrict index,                  \
                                     double *restrict u, double *restrict v) {                     \
    uint64_t k[PHILOX_ROUNDS][2] = {{key & 0xffffffff, key >> 32}};                                \
    for (int r = 1; r < PHILOX_ROUNDS; r++) {                                                      \
      k[r][0] = (k[r - 1][0] + PHILOX_W0) & 0xffffffff;                                            \
      k[r][1] = (k[r - 1][1] + PHILOX_W1) & 0xffffffff;                                            \
    }                                                                                              \
    for (int i = 0; i < DRAW_PIECE; i += CHAINS * LANES) {                                         \
      Words x0[CHAINS], x1[CHAINS], x2[CHAINS], x3[CHAINS];                                        \
      EACH_CHAIN {                                                                                 \
        x0[j] = *(const Words *)(const void *)(index + i + j * LANES);                             \
        x3[j] = TIMES(x0[j], PHILOX_M0);                                                           \
        x2[j] = x3[j] >> 32 ^ k[0][1];                                                             \
        x0[j] = x0[j] >> 32 ^ k[0][0];                                                             \
        x1[j] = x0[j] ^ x0[j];                                                                     \
      }                                                                                            \
      _Pragma("GCC unroll 9") for (int r = 1; r < PHILOX_ROUNDS; r++) {                            \
        EACH_CHAIN {                                                                               \
          Words a = TIMES(x0[j], PHILOX_M0), b = TIMES(x2[j], PHILOX_M1);                          \
          x0[j] = XOR(b >> 32, x1[j], k[r][0]);                                                    \
          x2[j] = XOR(a >> 32, x3[j], k[r][1]);                                                    \
          x1[j] = b;                                                                               \
          x3[j] = a;                                                                               \
        }                                                                                          \
      }                                                                                            \
      EACH_CHAIN *(Reals *)(void *)(u + i + j * LANES) = name##_fraction(x0[j], x1[j]);            \
      if (v) EACH_CHAIN *(Reals *)(void *)(v + i + j * LANES) = name##_fraction(x2[j], x3[j]);     \
    }                                                                                              \
  }                                                                                                \
  TARGET static void name##_normals(double *restrict u, const double *restrict v) {                \
    for (int i = 0; i < DRAW_PIECE; i++) u[i] = sqrt(-2 * log_of(u[i])) * cos_turns(v[i]);         \
  }                                                                                                \
  TARGET static void name##_indices(int64_t first, int64_t step, int64_t n,                        \
                                    int64_t *restrict index) {                                     \
    Words at;                                                                                      \
    int64_t i = 0;                                                                                 \
    for (int j = 0; j < LANES; j++) ((uint64_t *)(void *)&at)[j] = (uint64_t)(first + j * step);   \
    for (; i <= n - LANES; i += LANES, at += (uint64_t)(LANES * step))                             \
      *(Words *)(void *)(index + i) = at;                                                          \
    for (; i < n; i++) index[i] = first + i * step;                                                \
  }                                                                                                \
  TARGET static void name##_floats(double a, double scale, const double *restrict x,               \
                                   float *restrict out) {                                          \
    for (int i = 0; i < DRAW_PIECE; i++) out[i] = (float)(a + scale * x[i]);                       \
  }

DRAWS(plain, , uint64_t, double, 1, TIMES1, XOR3, REAL1)
#if defined(__x86_64__)
#if defined(__clang__)
#define AVX512 __attribute__((target("avx512f,avx512dq"), min_vector_width(512)))
#else
#define AVX512 __attribute__((target("avx512f,avx512dq,prefer-vector-width=512")))
#endif
DRAWS(avx2, __attribute__((target("avx2"))), Words4, Reals4, 4, TIMES4, XOR3, REAL4)
DRAWS(avx512, AVX512, Words8, Reals8, 8, TIMES8, XOR8, REAL8)
#endif

typedef struct Draws {
  void (*uniforms)(uint64_t key, const int64_t *restrict index, double *restrict u,
                   double *restrict v);
  void (*normals)(double *restrict u, const double *restrict v);
  void (*indices)(int64_t first, int64_t step, int64_t n, int64_t *restrict index);
  void (*floats)(double a, double scale, const double *restrict x, float *restrict out);
} Draws;

#define OF(name) ((Draws){name##_uniforms, name##_normals, name##_indices, name##_floats})

static Draws widest(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return OF(avx512);
  if (__builtin_cpu_supports("avx2")) return OF(avx2);
#endif
  return OF(plain);
}

void draw_uniforms(uint64_t key, const int64_t *index, double *u, double *v) {
  widest().uniforms(key, index, u, v);
}

void draw_normals(double *u, const double *v) { widest().normals(u, v); }

void rng_indices(int64_t first, int64_t step, int64_t n, int64_t *index) {
  widest().indices(first, step, n, index);
}

void draw_floats(double a, double scale, const double *x, float *out) {
  widest().floats(a, scale, x, out);
}
