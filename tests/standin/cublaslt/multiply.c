// Computes products of matrices for the stand-in of cuBLASLt (multiply.h).
#include "tests/standin/cublaslt/multiply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/dtype.h"
#include "tests/standin/fail.h"

static Dtype dtype_of(CublasType type) {
  switch (type) {
  case CUBLAS_F32: return TYPE_F32;
  case CUBLAS_F64: return TYPE_F64;
  case CUBLAS_F16: return TYPE_F16;
  case CUBLAS_BF16: return TYPE_BF16;
  }
  standin_fail("cuBLASLt: elements of type %d", (int)type);
}

size_t element_bytes(CublasType type) { return (size_t)dtype_bytes(dtype_of(type)); }

// -- checks ---------------------------------------------------------------------------------------

// Whether the library multiplies factors of these types with these sums.
static bool types_fit(const Multiplication *m) {
  CublasType factors = m->matrix[0].type, result = m->matrix[3].type;
  if (m->matrix[1].type != factors || m->matrix[2].type != result) return false;
  if (m->tf32 && factors != CUBLAS_F32) return false;
  if (m->wide) return factors == CUBLAS_F64 && result == CUBLAS_F64;
  return factors == CUBLAS_F32
             ? result == CUBLAS_F32
             : factors != CUBLAS_F64 && (result == factors || result == CUBLAS_F32);
}

// Whether the matrices of all batches are apart: one after the other, or each in columns of its own
// between those of the others.
static bool apart(const Matrix *m) {
  int64_t all = (m->columns - 1) * m->distance + m->rows;
  return m->batches == 1 || m->stride >= all ||
         (m->stride >= m->rows && (m->batches - 1) * m->stride + m->rows <= m->distance);
}

static bool equal(const Matrix *x, const Matrix *y) {
  return x->rows == y->rows && x->columns == y->columns && x->distance == y->distance &&
         x->stride == y->stride;
}

bool has_bias(const Multiplication *m) {
  return m->epilogue == CUBLASLT_BIAS || m->epilogue == CUBLASLT_GELU_BIAS ||
         m->epilogue == CUBLASLT_GELU_AUX_BIAS;
}

bool has_aux(const Multiplication *m) {
  return m->epilogue == CUBLASLT_GELU_AUX || m->epilogue == CUBLASLT_GELU_AUX_BIAS ||
         m->epilogue == CUBLASLT_DGELU;
}

static const char *epilogue_fault(const Multiplication *m) {
  if (m->epilogue == CUBLASLT_DEFAULT) return NULL;
  if (m->wide) return "sums of f64 with an epilogue";
  if (m->matrix[3].batches > 1) return "an epilogue with several batches";
  if (has_bias(m) && !m->bias) return "a bias without an address";
  if (!has_aux(m)) return NULL;
  if (!m->aux) return "an auxiliary matrix without an address";
  return m->aux_distance % 8 || m->aux_distance < m->matrix[3].rows
             ? "the columns of the auxiliary matrix are too near, or not multiples of 8 apart"
             : NULL;
}

const char *multiplication_fault(const Multiplication *m) {
  const Matrix *a = &m->matrix[0], *b = &m->matrix[1], *d = &m->matrix[3];
  bool ta = m->transpose[0] == CUBLAS_TRANSPOSED, tb = m->transpose[1] == CUBLAS_TRANSPOSED;
  if (!types_fit(m)) return "the types of the matrices and of the sums do not fit";
  if ((ta ? a->columns : a->rows) != d->rows) return "A and D differ in their rows";
  if ((tb ? b->rows : b->columns) != d->columns) return "B and D differ in their columns";
  if ((ta ? a->rows : a->columns) != (tb ? b->columns : b->rows))
    return "the columns of A are not the rows of B";
  if (!equal(&m->matrix[2], d)) return "C and D are not stored alike";
  for (int i = 0; i < 4; i++)
    if (m->matrix[i].batches != a->batches) return "the numbers of batches differ";
  if (!apart(d)) return "the results of several batches may overlap";
  return epilogue_fault(m);
}

// -- the product ----------------------------------------------------------------------------------

static double load(const Matrix *m, const void *at, int64_t batch, int64_t row, int64_t column) {
  Dtype t = dtype_of(m->type);
  int64_t i = batch * m->stride + column * m->distance + row;
  return dtype_load(t, (const char *)at + i * dtype_bytes(t));
}

// Rounds to nearest, as tensor cores do with factors of f32.
static double to_tf32(double x) {
  int exponent;
  double fraction = frexp(x, &exponent);
  return isfinite(x) ? ldexp(nearbyint(ldexp(fraction, 11)), exponent - 11) : x;
}

// Copies op(X) of a batch to `out`, by rows if `by_rows`, else by columns.
static void unpack(const Matrix *m, const void *at, int64_t batch, bool by_rows, bool tf32,
                   double *out) {
  for (int64_t c = 0; c < m->columns; c++)
    for (int64_t r = 0; r < m->rows; r++) {
      double x = load(m, at, batch, r, c);
      out[by_rows ? r * m->columns + c : c * m->rows + r] = tf32 ? to_tf32(x) : x;
    }
}

static double dot(const double *x, const double *y, int64_t n) {
  double part[4] = {0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) part[k] += x[i + k] * y[i + k];
  for (; i < n; i++) part[0] += x[i] * y[i];
  return (part[0] + part[1]) + (part[2] + part[3]);
}

static double gelu(double x) {
  return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x) {
  double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

// Applies the epilogue to the sum `x` for row i and column j of D.
static double finish(const Multiplication *m, int64_t i, int64_t j, double x) {
  Dtype t = dtype_of(m->matrix[3].type);
  int64_t bytes = dtype_bytes(t);
  char *aux = m->aux ? (char *)m->aux + (j * m->aux_distance + i) * bytes : NULL;
  if (has_bias(m)) x += dtype_load(t, (const char *)m->bias + i * bytes);
  switch (m->epilogue) {
  case CUBLASLT_GELU_AUX:
  case CUBLASLT_GELU_AUX_BIAS: dtype_store(t, aux, dtype_round(t, x)); return gelu(x);
  case CUBLASLT_GELU:
  case CUBLASLT_GELU_BIAS: return gelu(x);
  case CUBLASLT_DGELU: return x * gelu_slope(dtype_load(t, aux));
  case CUBLASLT_DEFAULT:
  case CUBLASLT_BIAS: break;
  }
  return x;
}

// a: op(A) by rows; b: op(B) by columns, k elements each.
static void multiply_batch(const Multiplication *m, int64_t batch, const double *a, const double *b,
                           int64_t k) {
  const Matrix *c = &m->matrix[2], *d = &m->matrix[3];
  Dtype t = dtype_of(d->type);
  for (int64_t j = 0; j < d->columns; j++)
    for (int64_t i = 0; i < d->rows; i++) {
      double value = m->alpha * dot(a + i * k, b + j * k, k);
      if (m->beta != 0) value += m->beta * load(c, m->c, batch, i, j);
      value = finish(m, i, j, value);
      int64_t at = batch * d->stride + j * d->distance + i;
      dtype_store(t, (char *)m->d + at * dtype_bytes(t), dtype_round(t, value));
    }
}

void multiply(const Multiplication *m) {
  const Matrix *a = &m->matrix[0], *b = &m->matrix[1];
  bool ta = m->transpose[0] == CUBLAS_TRANSPOSED, tb = m->transpose[1] == CUBLAS_TRANSPOSED;
  double *left = malloc((size_t)(a->rows * a->columns) * sizeof *left),
         *right = malloc((size_t)(b->rows * b->columns) * sizeof *right);
  if (!left || !right) standin_fail("cuBLASLt: out of memory");
  for (int64_t i = 0; i < a->batches; i++) {
    // A transposed matrix that is stored by columns has op(X) by rows.
    unpack(a, m->a, i, !ta, m->tf32, left);
    unpack(b, m->b, i, tb, m->tf32, right);
    multiply_batch(m, i, left, right, ta ? a->rows : a->columns);
  }
  free(left);
  free(right);
}
