// Random numbers: initial values by global element index.
//
// Element i of a draw uses the Philox block with counter (i, 0): two uniforms of 53 bits. So any
// processor draws any element without drawing the others (docs/decisions.md, 25).
#include "ir/base/hash.h"
#include "ir/base/philox.h"
#include "runtime/runtime_internal.h"

#include <math.h>
#include <string.h>

uint64_t rng_key(uint64_t seed, const char *name) {
  return philox_mix(fnv_text(name) ^ philox_mix(seed + 0x9e3779b97f4a7c15u));
}

static double polynomial(const double *c, int n, double x) {
  double y = c[n - 1];
  for (int i = n - 2; i >= 0; i--) y = y * x + c[i];
  return y;
}

// Returns the quantile of the standard normal distribution at probability p: algorithm AS 241,
// PPND16 (Wichura, Applied Statistics 37, 1988), relative accuracy about 1e-16.
static double normal_quantile(double p) {
  static const double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                             1.9715909503065514427e+3, 1.3731693765509461125e+4,
                             4.5921953931549871457e+4, 6.7265770927008700853e+4,
                             3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static const double b[] = {1.0,
                             4.2313330701600911252e+1,
                             6.8718700749205790830e+2,
                             5.3941960214247511077e+3,
                             2.1213794301586595867e+4,
                             3.9307895800092710610e+4,
                             2.8729085735721942674e+4,
                             5.2264952788528545610e+3};
  static const double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                             5.76949722146069140550e0,  3.64784832476320460504e0,
                             1.27045825245236838258e0,  2.41780725177450611770e-1,
                             2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static const double d[] = {1.0,
                             2.05319162663775882187e0,
                             1.67638483018380384940e0,
                             6.89767334985100004550e-1,
                             1.48103976427480074590e-1,
                             1.51986665636164571966e-2,
                             5.47593808499534494600e-4,
                             1.05075007164441684324e-9};
  static const double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                             1.78482653991729133580e0,  2.96560571828504891230e-1,
                             2.65321895265761230930e-2, 1.24266094738807843860e-3,
                             2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static const double f[] = {1.0,
                             5.99832206555887937690e-1,
                             1.36929880922735805310e-1,
                             1.48753612908506148525e-2,
                             7.86869131145613259100e-4,
                             1.84631831751005468180e-5,
                             1.42151175831644588870e-7,
                             2.04426310338993978564e-15};
  double q = p - 0.5;
  if (fabs(q) <= 0.425) {
    double r = 0.180625 - q * q;
    return q * polynomial(a, 8, r) / polynomial(b, 8, r);
  }
  double r = sqrt(-log(q < 0 ? p : 1 - p));
  double x = r <= 5 ? polynomial(c, 8, r - 1.6) / polynomial(d, 8, r - 1.6)
                    : polynomial(e, 8, r - 5) / polynomial(f, 8, r - 5);
  return q < 0 ? -x : x;
}

static double truncated_quantile(double p) {
  const double low = 0.02275013194817920720; // the probability that a normal draw is below -2
  double x = normal_quantile(low + (1 - 2 * low) * p);
  return x < -2 ? -2 : x > 2 ? 2 : x;
}

// Draws DRAW_PIECE numbers of a standard distribution: uniform on (0, 1), normal, or a normal
// distribution truncated to (-2, 2).
static void draw_piece(InitKind kind, uint64_t key, const int64_t *index, double *out) {
  double v[DRAW_PIECE];
  bool normal = kind != INIT_TRUNCATED_NORMAL && kind != INIT_UNIFORM;
  draw_uniforms(key, index, out, normal ? v : NULL);
  if (kind == INIT_TRUNCATED_NORMAL)
    for (int i = 0; i < DRAW_PIECE; i++) out[i] = truncated_quantile(out[i]);
  if (normal) draw_normals(out, v);
}

static double scale_of(const Init *init) {
  return init->kind == INIT_UNIFORM ? init->b - init->a : init->b;
}

// Returns where the indices of m elements lie, padded to DRAW_PIECE in `padded` if m is less.
static const int64_t *whole_piece(const int64_t *index, int64_t m, int64_t padded[DRAW_PIECE]) {
  if (m >= DRAW_PIECE) return index;
  memset(padded, 0, sizeof *padded * DRAW_PIECE);
  memcpy(padded, index, sizeof *index * (size_t)m);
  return padded;
}

void rng_draw_floats(const Init *init, uint64_t key, int64_t n, const int64_t *index, float *out) {
  for (int64_t lo = 0; lo < n; lo += DRAW_PIECE) {
    int64_t padded[DRAW_PIECE];
    double x[DRAW_PIECE];
    float y[DRAW_PIECE];
    bool whole = n - lo >= DRAW_PIECE;
    draw_piece(init->kind, key, whole_piece(index + lo, n - lo, padded), x);
    draw_floats(init->a, scale_of(init), x, whole ? out + lo : y);
    if (!whole) memcpy(out + lo, y, sizeof *y * (size_t)(n - lo));
  }
}

void rng_draw(const Init *init, uint64_t key, int64_t n, const int64_t *index, double *out) {
  double scale = scale_of(init);
  for (int64_t lo = 0; lo < n; lo += DRAW_PIECE) {
    int64_t m = n - lo < DRAW_PIECE ? n - lo : DRAW_PIECE, padded[DRAW_PIECE];
    double x[DRAW_PIECE];
    draw_piece(init->kind, key, whole_piece(index + lo, m, padded), x);
    for (int i = 0; i < DRAW_PIECE; i++) x[i] = init->a + scale * x[i];
    memcpy(out + lo, x, sizeof *x * (size_t)m);
  }
}
