// Operations on whole matrices (matrix.h): shapes, conventions, and the plain engine.
//
// The plain engine has unblocked loops by columns: Cholesky's algorithm and Gaussian elimination
// with partial pivoting, Householder's QR, and Jacobi's algorithms for eigenvalues and singular
// values (Golub and Van Loan, Matrix Computations, 4th ed., 3.1, 3.4, 4.2, 5.2, 8.5 and 8.6).
#include "ir/program/matrix.h"

#include <math.h>
#include <string.h>

const MatrixRow matrix_rows[MATRIX_KINDS] = {
#define MATRIX(id, text, shape, result, ...) {text, MATRIX_##shape, MATRIX_##result, __VA_ARGS__},
#include "ir/program/matrix.def"
#undef MATRIX
};

// -- shapes -------------------------------------------------------------------------------------

void matrix_result(MatrixKind kind, const MatrixSizes *s, int64_t *rows, int64_t *columns) {
  MatrixResult r = matrix_rows[kind].result;
  int64_t k = s->m < s->n ? s->m : s->n;
  const int64_t shape[][2] = {[MATRIX_SAME] = {s->m, s->n},
                              [MATRIX_SOLUTION] = {s->n, s->right},
                              [MATRIX_NUMBER] = {1, 1},
                              [MATRIX_STACK] = {matrix_stack(kind, s->m, s->n), k}};
  *rows = shape[r][0];
  *columns = shape[r][1];
}

int64_t matrix_stack(MatrixKind kind, int64_t m, int64_t n) {
  return kind == MATRIX_QR ? m + n : kind == MATRIX_EIGH ? n + 1 : m + n + 1;
}

int64_t matrix_workspace(MatrixKind kind, int64_t m, int64_t n) {
  enum { BLOCK = 64 };
  int64_t k = m < n ? m : n;
  if (kind == MATRIX_QR) return n + BLOCK * n;
  if (kind == MATRIX_EIGH) return 1 + 6 * n + 2 * n * n + 3 + 5 * n;
  return 4 * k * k + 7 * k + 2 * BLOCK * (m + n) + 8 * k;
}

// Pivots take the place of numbers of f64. The factors of a stack, with as many numbers as it, are
// computed beside it.
int64_t matrix_room(MatrixKind kind, const MatrixSizes *s) {
  int64_t rows, columns;
  matrix_result(kind, s, &rows, &columns);
  if (matrix_rows[kind].result == MATRIX_STACK)
    return s->m * s->n + 2 * rows * columns + matrix_workspace(kind, s->m, s->n);
  return s->m * s->n + s->m * s->right + s->n;
}

double matrix_flops(MatrixKind kind, double m, double n, double right) {
  static const double factor_of[MATRIX_KINDS] = {
      [MATRIX_CHOLESKY] = 1. / 3, [MATRIX_SOLVE] = 2. / 3, [MATRIX_DETERMINANT] = 2. / 3,
      [MATRIX_LOGDET] = 2. / 3,   [MATRIX_QR] = 4,         [MATRIX_EIGH] = 9,
      [MATRIX_SVD] = 20,
  };
  double factor = factor_of[kind] * m * n * fmin(m, n);
  return factor + (kind == MATRIX_SOLVE ? 2 : 1) * m * n * right;
}

double matrix_time(MatrixKind kind, double m, double n, double right) {
  const MatrixRow *r = &matrix_rows[kind];
  return r->call + (r->element + r->cube * fmin(m, n)) * m * n +
         (r->right + r->deep * n) * m * right;
}

// -- the plain engine ---------------------------------------------------------------------------

static int plain_cholesky(int n, double *a) {
  for (int j = 0; j < n; j++) {
    double *column = a + (int64_t)j * n;
    for (int64_t k = 0; k < j; k++)
      for (int64_t i = j; i < n; i++) column[i] -= a[j + k * n] * a[i + k * n];
    if (!(column[j] > 0)) return j + 1;
    double root = sqrt(column[j]);
    for (int64_t i = j; i < n; i++) column[i] /= root;
  }
  return 0;
}

static int plain_triangular(bool upper, int n, const double *a, int right, double *b) {
  for (int j = 0; j < n; j++)
    if (a[j + (int64_t)j * n] == 0) return j + 1;
  for (int64_t r = 0; r < right; r++, b += n)
    for (int64_t k = 0; k < n; k++) {
      int64_t j = upper ? n - 1 - k : k, from = upper ? 0 : j + 1, to = upper ? j : n;
      b[j] /= a[j + j * n];
      for (int64_t i = from; i < to; i++) b[i] -= a[i + j * n] * b[j];
    }
  return 0;
}

static void exchange(double *a, double *b) {
  double was = *a;
  *a = *b;
  *b = was;
}

static int plain_lu(int n, double *a, int *pivot) {
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < n; i++)
      if (fabs(a[i + k * n]) > fabs(a[best + k * n])) best = i;
    pivot[k] = (int)best + 1;
    if (a[best + k * n] == 0) return (int)k + 1;
    for (int64_t j = 0; j < n && best != k; j++) exchange(&a[k + j * n], &a[best + j * n]);
    for (int64_t i = k + 1; i < n; i++) a[i + k * n] /= a[k + k * n];
    for (int64_t j = k + 1; j < n; j++)
      for (int64_t i = k + 1; i < n; i++) a[i + j * n] -= a[i + k * n] * a[k + j * n];
  }
  return 0;
}

static void plain_lu_solve(int n, const double *a, const int *pivot, int right, double *b) {
  for (int64_t r = 0; r < right; r++, b += n) {
    for (int64_t k = 0; k < n; k++) exchange(&b[k], &b[pivot[k] - 1]);
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = j + 1; i < n; i++) b[i] -= a[i + j * n] * b[j];
    for (int64_t j = n - 1; j >= 0; j--) {
      b[j] /= a[j + j * n];
      for (int64_t i = 0; i < j; i++) b[i] -= a[i + j * n] * b[j];
    }
  }
}

// Reflects the columns from..n-1 of x, of m rows, by I - tau v v^T, where v is 0 before row k, 1 in
// row k, and is stored below.
static void reflect(int64_t m, int64_t n, int64_t from, int64_t k, const double *v, double tau,
                    double *x) {
  for (int64_t j = from; j < n; j++) {
    double *column = x + j * m, sum = column[k];
    for (int64_t i = k + 1; i < m; i++) sum += v[i] * column[i];
    column[k] -= tau * sum;
    for (int64_t i = k + 1; i < m; i++) column[i] -= tau * sum * v[i];
  }
}

static double norm(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum = hypot(sum, x[i]);
  return sum;
}

static bool plain_qr(int m, int n, double *a, double *r, double *tau) {
  for (int64_t k = 0; k < n; k++) {
    double *v = a + k * m, below = norm(v + k + 1, m - k - 1);
    double beta = -copysign(hypot(v[k], below), v[k]);
    tau[k] = below == 0 ? 0 : (beta - v[k]) / beta;
    for (int64_t i = k + 1; i < m && below != 0; i++) v[i] /= v[k] - beta;
    reflect(m, n, k + 1, k, v, tau[k], a);
    if (below != 0) v[k] = beta;
    for (int64_t i = 0; i < n; i++) r[i + k * n] = i <= k ? v[i] : 0;
  }
  for (int64_t k = n - 1; k >= 0; k--) {
    double *v = a + k * m;
    reflect(m, n, k + 1, k, v, tau[k], a);
    for (int64_t i = 0; i < k; i++) v[i] = 0;
    for (int64_t i = k + 1; i < m; i++) v[i] *= -tau[k];
    v[k] = 1 - tau[k];
  }
  return true;
}

// Replaces columns p and q of x, of m rows, by c p - s q and s p + c q.
static void rotate(int64_t m, double *x, int64_t p, int64_t q, double c, double s) {
  for (int64_t i = 0; i < m; i++) {
    double a = x[i + p * m], b = x[i + q * m];
    x[i + p * m] = c * a - s * b;
    x[i + q * m] = s * a + c * b;
  }
}

// Sets *c and *s to the rotation that makes the symmetric matrix (a, b; b, d) diagonal.
static void rotation(double a, double b, double d, double *c, double *s) {
  double tau = (d - a) / (2 * b);
  double t = copysign(1, tau) / (fabs(tau) + hypot(1, tau));
  *c = 1 / hypot(1, t);
  *s = t * *c;
}

static void exchange_columns(int64_t m, double *x, int64_t p, int64_t q) {
  for (int64_t i = 0; i < m && p != q; i++) exchange(&x[i + p * m], &x[i + q * m]);
}

enum { SWEEPS = 60 };

// Jacobi's algorithm: rotations of two dims, until all elements beside the diagonal are negligible.
static bool plain_eigh(int n, double *a, double *w, double *v) {
  int64_t m = n;
  for (int64_t i = 0; i < m * m; i++) v[i] = i % (m + 1) == 0;
  for (int64_t j = 0; j < m; j++)
    for (int64_t i = 0; i < j; i++) a[i + j * m] = a[j + i * m];
  double tiny = 0x1p-54 * norm(a, m * m);
  bool more = true;
  for (int sweep = 0; more && sweep < SWEEPS; sweep++) {
    more = false;
    for (int64_t q = 1; q < m; q++)
      for (int64_t p = 0; p < q; p++) {
        double b = a[p + q * m], c, s;
        if (fabs(b) <= tiny) continue;
        rotation(a[p + p * m], b, a[q + q * m], &c, &s);
        rotate(m, a, p, q, c, s);
        for (int64_t i = 0; i < m; i++) { // the same for rows
          double x = a[p + i * m], y = a[q + i * m];
          a[p + i * m] = c * x - s * y;
          a[q + i * m] = s * x + c * y;
        }
        a[p + q * m] = a[q + p * m] = 0;
        rotate(m, v, p, q, c, s);
        more = true;
      }
  }
  for (int64_t i = 0; i < m; i++) w[i] = a[i + i * m];
  for (int64_t i = 0; i < m; i++) {
    int64_t least = i;
    for (int64_t j = i + 1; j < m; j++)
      if (w[j] < w[least]) least = j;
    exchange(&w[i], &w[least]);
    exchange_columns(m, v, i, least);
  }
  for (int64_t i = 0; i < m * m; i++) a[i] = v[i];
  return !more;
}

// Makes column k of u, of m rows, a unit vector that is orthogonal to the columns before it.
static void complete(int64_t m, double *u, int64_t k) {
  double *column = u + k * m, size = 0;
  for (int64_t unit = 0; unit < m && size < 0.5 / sqrt((double)m); unit++) {
    for (int64_t i = 0; i < m; i++) column[i] = i == unit;
    for (int round = 0; round < 2; round++)
      for (int64_t j = 0; j < k; j++) {
        double dot = 0;
        for (int64_t i = 0; i < m; i++) dot += u[i + j * m] * column[i];
        for (int64_t i = 0; i < m; i++) column[i] -= dot * u[i + j * m];
      }
    size = norm(column, m);
  }
  for (int64_t i = 0; i < m; i++) column[i] /= size;
}

// One-sided Jacobi (Hestenes, "Inversion of matrices by biorthogonalization", 1958): rotates pairs
// of columns of u, m x n with m >= n, until all are orthogonal. v collects the rotations.
static bool orthogonalise(int64_t m, int64_t n, double *u, double *v) {
  bool more = true;
  for (int64_t i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
  for (int sweep = 0; more && sweep < SWEEPS; sweep++) {
    more = false;
    for (int64_t q = 1; q < n; q++)
      for (int64_t p = 0; p < q; p++) {
        double pp = norm(u + p * m, m), qq = norm(u + q * m, m), pq = 0, c, s;
        if (pp == 0 || qq == 0) continue;
        for (int64_t i = 0; i < m; i++) pq += u[i + p * m] / pp * (u[i + q * m] / qq);
        if (fabs(pq) <= 0x1p-50) continue;
        rotation(pp / qq, pq, qq / pp, &c, &s);
        rotate(m, u, p, q, c, s);
        rotate(n, v, p, q, c, s);
        more = true;
      }
  }
  return !more;
}

static bool tall_svd(int64_t m, int64_t n, double *u, double *s, double *v) {
  bool good = orthogonalise(m, n, u, v);
  for (int64_t k = 0; k < n; k++) s[k] = norm(u + k * m, m);
  for (int64_t k = 0; k < n; k++) {
    int64_t most = k;
    for (int64_t j = k + 1; j < n; j++)
      if (s[j] > s[most]) most = j;
    exchange(&s[k], &s[most]);
    exchange_columns(m, u, k, most);
    exchange_columns(n, v, k, most);
    for (int64_t i = 0; i < m && s[k] > 0; i++) u[i + k * m] /= s[k];
    if (s[k] == 0) complete(m, u, k);
  }
  return good;
}

static bool plain_svd(int m, int n, double *a, double *u, double *s, double *v, double *work) {
  (void)work;
  bool tall = m >= n;
  double *wide = tall ? u : v; // the factor with as many rows as the longer side
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++) wide[tall ? i + j * m : j + i * n] = a[i + j * m];
  return tall ? tall_svd(m, n, u, s, v) : tall_svd(n, m, v, s, u);
}

const MatrixEngine matrix_plain = {plain_cholesky, plain_triangular, plain_lu, plain_lu_solve,
                                   plain_qr,       plain_eigh,       plain_svd};

// -- tasks --------------------------------------------------------------------------------------

typedef struct Task {
  const MatrixEngine *e;
  unsigned flags;
  int m, n, right;
  double *a, *b, *work;
  double without; // what the result has everywhere if the rule returns a fault
} Task;

static bool is_finite(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * 0;
  return sum == 0;
}

// The matrix of a symmetric operation is the mean of the argument and its transpose, so that each
// element has a gradient.
static void symmetrise(const Task *t) {
  int64_t n = t->n;
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = j + 1; i < n; i++)
      t->a[i + j * n] = t->a[j + i * n] = 0.5 * t->a[i + j * n] + 0.5 * t->a[j + i * n];
}

// Clears the elements above the diagonal, or below it.
static void clear_triangle(const Task *t, bool above) {
  int64_t n = t->n;
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = above ? 0 : j + 1; i < (above ? j : n); i++) t->a[i + j * n] = 0;
}

static MatrixFault fault_of(MatrixCause cause, int pivot) {
  return pivot ? (MatrixFault){cause, pivot} : (MatrixFault){0};
}

static MatrixFault convergence(bool good) {
  return good ? (MatrixFault){0} : (MatrixFault){.cause = MATRIX_NOT_CONVERGED};
}

static MatrixFault task_cholesky(Task *t) {
  int bad = t->e->cholesky(t->n, t->a);
  clear_triangle(t, true);
  return fault_of(MATRIX_NOT_POSITIVE, bad);
}

static MatrixFault task_triangular_solve(Task *t) {
  return fault_of(MATRIX_SINGULAR,
                  t->e->triangular(t->flags & MATRIX_UPPER, t->n, t->a, t->right, t->b));
}

static MatrixFault task_solve(Task *t) {
  int *pivot = (int *)(void *)t->work, bad = t->e->lu(t->n, t->a, pivot);
  if (!bad) t->e->lu_solve(t->n, t->a, pivot, t->right, t->b);
  return fault_of(MATRIX_SINGULAR, bad);
}

static MatrixFault task_determinant(Task *t) {
  int *pivot = (int *)(void *)t->work;
  double y = 1;
  if (t->e->lu(t->n, t->a, pivot)) y = 0;
  for (int64_t i = 0; i < t->n && y != 0; i++)
    y *= pivot[i] - 1 == i ? t->a[i + i * t->n] : -t->a[i + i * t->n];
  t->a[0] = y;
  return (MatrixFault){0};
}

static MatrixFault task_logdet(Task *t) {
  int *pivot = (int *)(void *)t->work, bad = t->e->lu(t->n, t->a, pivot);
  if (bad) {
    t->without = -(double)INFINITY;
    return fault_of(MATRIX_SINGULAR, bad);
  }
  double y = 0;
  bool negative = false;
  for (int64_t i = 0; i < t->n; i++) {
    y += log(fabs(t->a[i + i * t->n]));
    negative ^= (pivot[i] - 1 != i) ^ (t->a[i + i * t->n] < 0);
  }
  t->a[0] = y;
  return negative ? (MatrixFault){.cause = MATRIX_NEGATIVE} : (MatrixFault){0};
}

int64_t matrix_leading(const double *x, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
  int64_t i = 0;
  while (i + 1 < n && fabs(x[i]) < MATRIX_LEADING * most) i++;
  return i;
}

// Copies `rows` x `columns` numbers, or their transpose, into the rows from `at` on of a stack of
// `all` rows.
static void stack_put(double *stack, int64_t all, int64_t at, int64_t rows, int64_t columns,
                      const double *x, bool transposed) {
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < rows; i++)
      stack[at + i + j * all] = transposed ? x[j + i * columns] : x[i + j * rows];
}

// Turns the first elements of a column of a stack if `negative`. Zeros become positive.
static void turn(double *column, int64_t rows, bool negative) {
  for (int64_t i = 0; i < rows; i++) column[i] = negative ? 0 - column[i] : column[i] + 0.0;
}

static MatrixFault task_qr(Task *t) {
  int64_t m = t->m, n = t->n, all = m + n;
  double *r = t->work;
  bool good = t->e->qr(t->m, t->n, t->a, r, r + n * n);
  stack_put(t->b, all, 0, m, n, t->a, false);
  stack_put(t->b, all, m, n, n, r, true);
  for (int64_t k = 0; k < n; k++) turn(t->b + k * all, all, t->b[m + k + k * all] < 0);
  return convergence(good);
}

static MatrixFault task_eigh(Task *t) {
  int64_t n = t->n, all = n + 1;
  double *w = t->work;
  bool good = t->e->eigh(t->n, t->a, w, w + n);
  stack_put(t->b, all, 0, n, n, t->a, false);
  stack_put(t->b, all, n, 1, n, w, false);
  for (int64_t k = 0; k < n; k++) {
    double *v = t->b + k * all;
    turn(v, n, v[matrix_leading(v, n)] < 0);
  }
  return convergence(good);
}

static MatrixFault task_svd(Task *t) {
  int64_t m = t->m, n = t->n, k = m < n ? m : n, all = m + n + 1;
  double *u = t->work, *v = u + m * k, *s = v + n * k;
  bool good = t->e->svd(t->m, t->n, t->a, u, s, v, s + k);
  stack_put(t->b, all, 0, m, k, u, false);
  stack_put(t->b, all, m, n, k, v, false);
  stack_put(t->b, all, m + n, 1, k, s, false);
  for (int64_t i = 0; i < k; i++) {
    double *column = t->b + i * all;
    turn(column, m + n, column[matrix_leading(column, m)] < 0);
  }
  return convergence(good);
}

typedef MatrixFault TaskRule(Task *t);
static TaskRule *const task_rule[MATRIX_KINDS] = {
    [MATRIX_CHOLESKY] = task_cholesky, [MATRIX_TRIANGULAR_SOLVE] = task_triangular_solve,
    [MATRIX_SOLVE] = task_solve,       [MATRIX_DETERMINANT] = task_determinant,
    [MATRIX_LOGDET] = task_logdet,     [MATRIX_QR] = task_qr,
    [MATRIX_EIGH] = task_eigh,         [MATRIX_SVD] = task_svd,
};

static void fill(double *x, int64_t n, double v) {
  for (int64_t i = 0; i < n; i++) x[i] = v;
}

// Sets the columns of b that have an element that is not finite to NaN; so are then their results.
static void blank_columns(const Task *t) {
  for (int64_t r = 0; r < t->right; r++)
    if (!is_finite(t->b + r * t->m, t->m)) fill(t->b + r * t->m, t->m, (double)NAN);
}

double *matrix_compute(const MatrixEngine *e, MatrixKind kind, unsigned flags, const MatrixSizes *s,
                       double *a, MatrixFault *why) {
  int64_t rows, columns;
  matrix_result(kind, s, &rows, &columns);
  Task t = {.e = e, .flags = flags, .m = (int)s->m, .n = (int)s->n, .right = (int)s->right};
  MatrixFault fault = {0};
  t.without = (double)NAN;
  t.a = a;
  t.b = a + s->m * s->n;
  MatrixResult result = matrix_rows[kind].result;
  t.work = t.b + (result == MATRIX_STACK ? rows * columns : s->m * s->right);
  double *y = result == MATRIX_SOLUTION || result == MATRIX_STACK ? t.b : a;
  blank_columns(&t);
  if (kind == MATRIX_CHOLESKY || kind == MATRIX_EIGH) symmetrise(&t);
  if (kind == MATRIX_TRIANGULAR_SOLVE) clear_triangle(&t, !(flags & MATRIX_UPPER));
  bool good = is_finite(a, s->m * s->n);
  if (good) fault = task_rule[kind](&t);
  if (!good || fault.cause) fill(y, rows * columns, t.without);
  if (why) *why = fault;
  return y;
}
