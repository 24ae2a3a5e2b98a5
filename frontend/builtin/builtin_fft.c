// Builds Fourier transforms of products of matrices. The real and the imaginary
// parts of complex numbers are a dim of two elements, c below.
//
//   fft[t, c -> f](x)     X_f = sum of x_t exp(-2 pi i f t / n);   ifft:
//   exp(+...), divided by n rfft[t -> f, c](x)    of real numbers: only f = 0
//   to n / 2, the others are conjugates irfft[f, c -> t](x)   its inverse
//
// A transform of length n = r m is done in stages (Cooley and Tukey, "An
// algorithm for the machine calculation of complex Fourier series", 1965). With
// t = a m + b and f = k + r l:
//
//   X[k + r l] = sum over b of exp(-2 pi i b l / m) exp(-2 pi i b k / n)
//                              sum over a of exp(-2 pi i a k / r) x[a m + b]
//
// The inner sum is one product with a constant matrix over (a, c) and (k, c);
// the outer sum, after the factors in the middle, the next stage. Radices r are
// small, so that a stage is a small matrix product, which runs at the rate of
// products of matrices. Gradients, layouts and GPUs need nothing of their own.
//
// A length with a large prime factor is a convolution of a length that is a
// power of two (Bluestein, "A linear filtering approach to the computation of
// discrete Fourier transform", 1970): with h_j = exp(pi i j^2 / n), X_f is
// conj(h_f) times the convolution of x_t conj(h_t) with h.
#include <math.h>
#include <string.h>

#include "frontend/builtin/builtin_internal.h"

enum {
  RADIX = 32,  // a length has so many stages that radices are about this or less
  PRIME = 256, // a length with a larger prime factor is computed by convolution
  STAGES = 16,
  PRIMES = 64
};
static const double PI = 3.14159265358979323846;

// One transform along dim t, in a product of stages.
typedef struct Fourier {
  Build *b;
  Dtype type;
  DimId t, c, twin; // twin: a second dim of two elements
  int64_t n;
  double sign, scale; // of the exponent; a factor of the result
  bool real_in, real_out;
  int stages;
  int64_t radix[STAGES];
  DimId in[STAGES], out[STAGES];
} Fourier;

// -- constants and complex products --------------------------------------------------------------

static NodeId constant(const Fourier *f, int ndims, const DimId *dims, const double *data) {
  Attr attr = {.type = f->type, .ndims = (uint8_t)ndims, .dims = dims, .ndata = 1};
  for (int i = 0; i < ndims; i++) attr.ndata *= dim_get(f->b->g->dims, dims[i])->size;
  double *rounded = arena_array(f->b->g->arena, double, attr.ndata);
  for (int64_t i = 0; i < attr.ndata; i++) rounded[i] = dtype_round(f->type, data[i]);
  attr.data = rounded;
  NodeId n = graph_add(f->b->g, OP_VALUES, 0, NULL, &attr);
  if (f->type == TYPE_F32) values_exact(f->b, n, data);
  return n;
}

static double *numbers(const Fourier *f, int64_t n) {
  return arena_array(f->b->g->arena, double, n + 1);
}

static NodeId rename_dim(const Fourier *f, NodeId x, DimId from, DimId to) {
  if (from == to) return x;
  Attr attr = {.ndims = 1, .dims = &from, .nto = 1, .to = &to};
  return graph_add(f->b->g, OP_RENAME, 1, &x, &attr);
}

// Returns x along dim `from` at positions out * o + offset of dim `to`, and
// zeros outside of x.
static NodeId window(const Fourier *f, NodeId x, DimId from, DimId to, int64_t out,
                     int64_t offset) {
  Attr attr = {.ndims = 1, .dims = &from, .nto = 1, .to = &to, .affine = {out, 0, offset, 1}};
  return graph_add(f->b->g, OP_WINDOW, 1, &x, &attr);
}

// Returns the complex numbers x times the constants re + i im over the given
// dims.
static NodeId times(const Fourier *f, NodeId x, int ndims, const DimId *dims, const double *re,
                    const double *im) {
  Graph *g = f->b->g;
  double *sign = numbers(f, 2);
  sign[0] = -1, sign[1] = 1;
  NodeId other = window(f, x, f->c, f->c, -1, 1);
  NodeId turned =
      graph_binary(g, OP_MUL, constant(f, 1, &f->c, sign), constant(f, ndims, dims, im));
  return graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, x, constant(f, ndims, dims, re)),
                      graph_binary(g, OP_MUL, other, turned));
}

// Sets *re and *im to exp(sign 2 pi i k / n), exactly for a multiple of a quarter turn.
static void unit(double sign, int64_t k, int64_t n, double *re, double *im) {
  static const double quarter[] = {1, 0, -1, 0, 1};
  k %= n;
  bool exact = 4 * k % n == 0;
  double angle = sign * 2 * PI * (double)k / (double)n;
  *re = exact ? quarter[4 * k / n] : cos(angle);
  *im = exact ? 0 - sign * quarter[4 * k / n + 1] : sin(angle);
}

// -- stages --------------------------------------------------------------------------------------

// Sets f->stages and f->radix: the prime factors of n, the largest first, are
// distributed over stages whose radices are about equal. Returns false if a
// prime factor is too large.
static bool radices(Fourier *f) {
  int64_t prime[PRIMES], rest = f->n;
  int n = 0;
  for (int64_t p = 2; p * p <= rest; p++)
    while (rest % p == 0) prime[n++] = p, rest /= p;
  if (rest > 1 || n == 0) prime[n++] = rest;
  f->stages = 1;
  while (pow(RADIX, f->stages) < (double)f->n && f->stages < n && f->stages < STAGES) f->stages++;
  for (int s = 0; s < f->stages; s++) f->radix[s] = 1;
  while (n > 0) {
    int least = 0;
    for (int s = 1; s < f->stages; s++)
      if (f->radix[s] < f->radix[least]) least = s;
    if (prime[--n] > PRIME) return false;
    f->radix[least] *= prime[n];
  }
  return true;
}

// Sums over the digit of stage s: multiplies by the matrix of the transform of
// length radix[s].
static NodeId stage(const Fourier *f, NodeId x, int s) {
  int64_t r = f->radix[s];
  int from = s == 0 && f->real_in ? 1 : 2, to = s == f->stages - 1 && f->real_out ? 1 : 2;
  double *data = numbers(f, r * from * r * to), *at = data, scale = s == 0 ? f->scale : 1;
  for (int64_t a = 0; a < r; a++)
    for (int p = 0; p < from; p++)
      for (int64_t k = 0; k < r; k++)
        for (int q = 0; q < to; q++) {
          double re, im;
          unit(f->sign, a * k, r, &re, &im);
          *at++ = scale * (p == q ? re : q ? im : -im);
        }
  DimId dims[4] = {f->in[s]};
  int n = 1;
  if (from == 2) dims[n++] = f->c;
  dims[n++] = f->out[s];
  if (to == 2) dims[n++] = f->twin;
  NodeId factors[2] = {x, constant(f, n, dims, data)};
  Attr attr = {.type = f->type, .ndims = (uint8_t)from, .dims = dims};
  x = graph_add(f->b->g, OP_CONTRACT, 2, factors, &attr);
  return to == 2 ? rename_dim(f, x, f->twin, f->c) : x;
}

// Multiplies by the factors between stage s and the next one.
static NodeId turn(const Fourier *f, NodeId x, int s) {
  DimId dims[STAGES] = {f->out[s]};
  int n = 1;
  int64_t rest = 1;
  for (int i = s + 1; i < f->stages; i++) dims[n++] = f->in[i], rest *= f->radix[i];
  int64_t length = f->radix[s] * rest;
  double *re = numbers(f, length), *im = numbers(f, length);
  for (int64_t k = 0; k < f->radix[s]; k++)
    for (int64_t b = 0; b < rest; b++)
      unit(f->sign, k * b, length, &re[k * rest + b], &im[k * rest + b]);
  return times(f, x, n, dims, re, im);
}

// Returns the transform of x, along dim `to`. The length of f->t must have
// radices.
static NodeId staged(Fourier *f, NodeId x, DimId to) {
  Build *b = f->b;
  DimId back[STAGES];
  for (int s = 0; s < f->stages; s++) {
    const char *mark = arena_printf(b->a, "digit%d", s), *out = arena_printf(b->a, "wave%d", s);
    f->in[s] = f->stages == 1 ? f->t : dim_derived(b->g->dims, f->t, mark, f->radix[s]);
    f->out[s] = dim_derived(b->g->dims, f->t, out, f->radix[s]);
    back[f->stages - 1 - s] = f->out[s];
  }
  Attr split = {.ndims = 1, .dims = &f->t, .nto = (uint8_t)f->stages, .to = f->in};
  if (f->stages > 1) x = graph_add(b->g, OP_SPLIT, 1, &x, &split);
  for (int s = 0; s < f->stages; s++) {
    x = stage(f, x, s);
    if (s + 1 < f->stages) x = turn(f, x, s);
  }
  Attr merge = {.ndims = (uint8_t)f->stages, .dims = back, .nto = 1, .to = &to};
  return f->stages > 1 ? graph_add(b->g, OP_MERGE, 1, &x, &merge) : rename_dim(f, x, f->out[0], to);
}

// -- transforms by convolution -------------------------------------------------------------------

// Transforms n complex numbers in place, where n is a power of two: the even
// and the odd ones by themselves. `work` has room for n numbers.
static void transform(int64_t n, double *re, double *im, double *work) {
  if (n == 1) return;
  int64_t half = n / 2;
  double *part[2] = {re, im};
  for (int p = 0; p < 2; p++) {
    for (int64_t i = 0; i < n; i++) work[i % 2 * half + i / 2] = part[p][i];
    memcpy(part[p], work, (size_t)n * sizeof *work);
  }
  transform(half, re, im, work);
  transform(half, re + half, im + half, work);
  for (int64_t i = 0; i < half; i++) {
    double angle = -2 * PI * (double)i / (double)n, c = cos(angle), s = sin(angle);
    double x = re[half + i] * c - im[half + i] * s, y = re[half + i] * s + im[half + i] * c;
    re[half + i] = re[i] - x, im[half + i] = im[i] - y;
    re[i] += x, im[i] += y;
  }
}

// Sets re and im to scale exp(sign pi i j^2 / n) for j = 0 to n - 1.
static void chirp(const Fourier *f, double sign, double scale, double *re, double *im) {
  for (int64_t j = 0; j < f->n; j++) {
    double angle = sign * PI * (double)(j * j % (2 * f->n)) / (double)f->n;
    re[j] = scale * cos(angle);
    im[j] = scale * sin(angle);
  }
}

static NodeId chirped(const Fourier *f, NodeId x, DimId d, double scale) {
  double *re = numbers(f, f->n), *im = numbers(f, f->n);
  chirp(f, f->sign, scale, re, im);
  return times(f, x, 1, &d, re, im);
}

static NodeId of_power(const Fourier *f, NodeId x, DimId from, DimId to, double sign) {
  Fourier p = *f;
  p.t = from;
  p.n = dim_get(f->b->g->dims, from)->size;
  p.sign = sign;
  p.scale = 1;
  p.real_in = p.real_out = false;
  if (!radices(&p)) BUG("a power of two has no radices");
  return staged(&p, x, to);
}

// Returns the transform of the complex numbers x, along dim `to`.
static NodeId convolved(const Fourier *f, NodeId x, DimId to) {
  DimTable *t = f->b->g->dims;
  int64_t m = 1;
  while (m < 2 * f->n - 1) m *= 2;
  DimId wide = dim_derived(t, f->t, "padded", m), wave = dim_derived(t, f->t, "waves", m);
  double *re = numbers(f, m), *im = numbers(f, m);
  chirp(f, -f->sign, 1 / (double)m, re, im);
  for (int64_t j = 1; j < f->n; j++) re[m - j] = re[j], im[m - j] = im[j];
  transform(m, re, im, numbers(f, m));
  x = window(f, chirped(f, x, f->t, 1), f->t, wide, 1, 0);
  x = times(f, of_power(f, x, wide, wave, -1), 1, &wave, re, im);
  x = of_power(f, x, wave, wide, 1);
  return chirped(f, window(f, x, wide, to, 1, 0), to, f->scale);
}

// -- the functions -------------------------------------------------------------------------------

static NodeId complex_of(const Fourier *f, NodeId x) {
  double *one = numbers(f, 2);
  one[0] = 1;
  return graph_binary(f->b->g, OP_MUL, x, constant(f, 1, &f->c, one));
}

static NodeId real_of(const Fourier *f, NodeId x) {
  Attr attr = {.ndims = 1, .dims = &f->c, .affine = {.divisor = 1}};
  return graph_add(f->b->g, OP_WINDOW, 1, &x, &attr);
}

static NodeId transformed(Fourier *f, NodeId x, DimId to) {
  f->n = dim_get(f->b->g->dims, f->t)->size;
  f->twin = dim_twin(f->b->g->dims, f->c, "other");
  if (radices(f)) return staged(f, x, to);
  x = convolved(f, f->real_in ? complex_of(f, x) : x, to);
  return f->real_out ? real_of(f, x) : x;
}

// Checks that dim `at` of the brackets, that of real and imaginary parts, has
// two elements.
static bool two_parts(Build *b, const Call *c, uint32_t at) {
  return call_size(b, c, at) == 2 ||
         diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[at].pos,
                    "real and imaginary parts are a dim of 2 elements, but "
                    "'%s' has %lld",
                    c->ast->dims[at].name, (long long)call_size(b, c, at));
}

// Checks that dims i and k of the brackets are two.
static bool apart(Build *b, const Call *c, uint32_t i, uint32_t k) {
  Dims seen = {0};
  return call_add(b, c, i, &seen) && call_add(b, c, k, &seen);
}

// Checks that dim `at` of the brackets has n elements.
static bool has_length(Build *b, const Call *c, uint32_t at, uint32_t of, int64_t n) {
  if (call_size(b, c, at) == n) return true;
  diag_error(b->d, DIAG_SIZE_MISMATCH, c->ast->dims[at].pos,
             "%s with %lld elements of '%s' needs %lld of '%s', which has %lld", c->row->name,
             (long long)call_size(b, c, of), c->ast->dims[of].name, (long long)n,
             c->ast->dims[at].name, (long long)call_size(b, c, at));
  return diag_hint(b->d, "dim %s = %lld", c->ast->dims[at].name, (long long)n);
}

// Returns the operand in the type in which f computes.
static NodeId operand(Fourier *f, const Call *c, Dtype *type) {
  *type = build_join(f->b, FLOATING, 1, c->arg);
  f->type = dtype_accumulator(*type);
  return graph_cast(f->b->g, build_node(f->b, c->arg[0], *type), f->type);
}

// Checks that x has the dim c of real and imaginary parts.
static bool has_parts(Build *b, const Call *c, const Value *x) {
  return call_has(b, c, 1, x) ||
         diag_hint(b->d,
                   "%s takes complex numbers: '%s' has their real and imaginary parts; of real "
                   "numbers: %s",
                   c->row->name, c->ast->dims[1].name, builtin_form("rfft"));
}

// fft and ifft, which differ in sign and scale.
Value builtin_fft(Build *b, const Call *c) {
  const Value *x = &c->arg[0];
  bool inverse = c->row->name[0] == 'i';
  Fourier f = {.b = b, .t = c->dim[0], .c = c->dim[1], .sign = inverse ? 1 : -1};
  Dtype type;
  if (!call_map(b, c, 2, 1) || !call_has(b, c, 0, x) || !has_parts(b, c, x) || !apart(b, c, 0, 1) ||
      !call_new(b, c, 2, x, 0) || !two_parts(b, c, 1) ||
      !has_length(b, c, 2, 0, call_size(b, c, 0)))
    return value_poison;
  Origin before = group_begin(b, c->pos);
  NodeId from = operand(&f, c, &type);
  f.scale = inverse ? 1 / (double)call_size(b, c, 0) : 1;
  NodeId y = graph_cast(b->g, transformed(&f, from, c->dim[2]), type);
  group_end(b, before);
  return value_tensor(y);
}

Value builtin_rfft(Build *b, const Call *c) {
  const Value *x = &c->arg[0];
  Fourier f = {.b = b, .t = c->dim[0], .c = c->dim[2], .sign = -1, .scale = 1, .real_in = true};
  Dtype type;
  if (!call_map(b, c, 1, 2) || !call_has(b, c, 0, x) || !call_new(b, c, 1, x, 0) ||
      !call_new(b, c, 2, x, 0) || !apart(b, c, 1, 2) || !two_parts(b, c, 2) ||
      !has_length(b, c, 1, 0, call_size(b, c, 0) / 2 + 1))
    return value_poison;
  Origin before = group_begin(b, c->pos);
  NodeId from = operand(&f, c, &type);
  DimId all = dim_twin(b->g->dims, c->dim[0], "spectrum");
  NodeId y = window(&f, transformed(&f, from, all), all, c->dim[1], 1, 0);
  y = graph_cast(b->g, y, type);
  group_end(b, before);
  return value_tensor(y);
}

// The real part of the inverse of the given half of the spectrum, in which all
// but the first number and, for an even length, the last one count twice: for
// their conjugates.
Value builtin_irfft(Build *b, const Call *c) {
  const Value *x = &c->arg[0];
  Fourier f = {.b = b, .c = c->dim[1], .sign = 1, .real_out = true};
  Dtype type;
  if (!call_map(b, c, 2, 1) || !call_has(b, c, 0, x) || !call_has(b, c, 1, x) ||
      !apart(b, c, 0, 1) || !call_new(b, c, 2, x, 0) || !two_parts(b, c, 1) ||
      !has_length(b, c, 0, 2, call_size(b, c, 2) / 2 + 1))
    return value_poison;
  Origin before = group_begin(b, c->pos);
  NodeId from = operand(&f, c, &type);
  int64_t half = call_size(b, c, 0), n = call_size(b, c, 2);
  double *twice = numbers(&f, half);
  for (int64_t k = 0; k < half; k++) twice[k] = k == 0 || 2 * k == n ? 1 : 2;
  from = graph_binary(b->g, OP_MUL, from, constant(&f, 1, c->dim, twice));
  f.t = dim_twin(b->g->dims, c->dim[2], "spectrum");
  f.scale = 1 / (double)n;
  NodeId y = transformed(&f, window(&f, from, c->dim[0], f.t, 1, 0), c->dim[2]);
  y = graph_cast(b->g, y, type);
  group_end(b, before);
  return value_tensor(y);
}
