// Operations on whole matrices (matrix.h): shapes, conventions, and the plain engine.
//
// The plain engine has unblocked loops by columns: Cholesky's algorithm and Gaussian elimination
// with partial pivoting (Golub and Van Loan, Matrix Computations, 4th ed., 3.1, 3.4 and 4.2).
#include "ir/program/matrix.h"

#include <math.h>
#include <string.h>

const MatrixRow matrix_rows[MATRIX_KINDS] = {
#define MATRIX(id, text, shape, result) {text, MATRIX_##shape, MATRIX_##result},
#include "ir/program/matrix.def"
#undef MATRIX
};

// -- shapes -------------------------------------------------------------------------------------

void matrix_result(MatrixKind kind, const MatrixSizes *s, int64_t *rows, int64_t *columns) {
  MatrixResult r = matrix_rows[kind].result;
  *rows = r == MATRIX_NUMBER ? 1 : r == MATRIX_SOLUTION ? s->n : s->m;
  *columns = r == MATRIX_NUMBER ? 1 : r == MATRIX_SOLUTION ? s->right : s->n;
}

// Pivots take the place of numbers of f64.
int64_t matrix_room(MatrixKind kind, const MatrixSizes *s) {
  (void)kind;
  return s->m * s->n + s->m * s->right + s->n;
}

double matrix_flops(MatrixKind kind, double m, double n, double right) {
  double factor = kind == MATRIX_TRIANGULAR_SOLVE ? 0
                  : kind == MATRIX_CHOLESKY       ? m * n * n / 3
                                                  : 2 * m * n * n / 3;
  return factor + (kind == MATRIX_SOLVE ? 2 : 1) * m * n * right;
}

// -- the plain engine ---------------------------------------------------------------------------

static bool plain_cholesky(int n, double *a) {
  for (int64_t j = 0; j < n; j++) {
    double *column = a + j * n;
    for (int64_t k = 0; k < j; k++)
      for (int64_t i = j; i < n; i++) column[i] -= a[j + k * n] * a[i + k * n];
    if (!(column[j] > 0)) return false;
    double root = sqrt(column[j]);
    for (int64_t i = j; i < n; i++) column[i] /= root;
  }
  return true;
}

static bool plain_triangular(bool upper, int n, const double *a, int right, double *b) {
  for (int64_t j = 0; j < n; j++)
    if (a[j + j * n] == 0) return false;
  for (int64_t r = 0; r < right; r++, b += n)
    for (int64_t k = 0; k < n; k++) {
      int64_t j = upper ? n - 1 - k : k, from = upper ? 0 : j + 1, to = upper ? j : n;
      b[j] /= a[j + j * n];
      for (int64_t i = from; i < to; i++) b[i] -= a[i + j * n] * b[j];
    }
  return true;
}

static void exchange(double *a, double *b) {
  double was = *a;
  *a = *b;
  *b = was;
}

static bool plain_lu(int n, double *a, int *pivot) {
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < n; i++)
      if (fabs(a[i + k * n]) > fabs(a[best + k * n])) best = i;
    pivot[k] = (int)best + 1;
    if (a[best + k * n] == 0) return false;
    for (int64_t j = 0; j < n && best != k; j++) exchange(&a[k + j * n], &a[best + j * n]);
    for (int64_t i = k + 1; i < n; i++) a[i + k * n] /= a[k + k * n];
    for (int64_t j = k + 1; j < n; j++)
      for (int64_t i = k + 1; i < n; i++) a[i + j * n] -= a[i + k * n] * a[k + j * n];
  }
  return true;
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

const MatrixEngine matrix_plain = {plain_cholesky, plain_triangular, plain_lu, plain_lu_solve};

// -- tasks --------------------------------------------------------------------------------------

typedef struct Task {
  const MatrixEngine *e;
  unsigned flags;
  int m, n, right;
  double *a, *b, *work;
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

static bool task_cholesky(const Task *t) {
  if (!t->e->cholesky(t->n, t->a)) return false;
  clear_triangle(t, true);
  return true;
}

static bool task_triangular_solve(const Task *t) {
  return t->e->triangular(t->flags & MATRIX_UPPER, t->n, t->a, t->right, t->b);
}

static bool task_solve(const Task *t) {
  int *pivot = (int *)(void *)t->work;
  if (!t->e->lu(t->n, t->a, pivot)) return false;
  t->e->lu_solve(t->n, t->a, pivot, t->right, t->b);
  return true;
}

static bool task_determinant(const Task *t) {
  int *pivot = (int *)(void *)t->work;
  double y = 1;
  if (!t->e->lu(t->n, t->a, pivot)) y = 0;
  for (int64_t i = 0; i < t->n && y != 0; i++)
    y *= pivot[i] - 1 == i ? t->a[i + i * t->n] : -t->a[i + i * t->n];
  t->a[0] = y;
  return true;
}

static bool task_logdet(const Task *t) {
  int *pivot = (int *)(void *)t->work;
  if (!t->e->lu(t->n, t->a, pivot)) {
    t->a[0] = -(double)INFINITY;
    return true;
  }
  double y = 0;
  bool negative = false;
  for (int64_t i = 0; i < t->n; i++) {
    y += log(fabs(t->a[i + i * t->n]));
    negative ^= (pivot[i] - 1 != i) ^ (t->a[i + i * t->n] < 0);
  }
  t->a[0] = y;
  return !negative;
}

typedef bool TaskRule(const Task *t);
static TaskRule *const task_rule[MATRIX_KINDS] = {
    [MATRIX_CHOLESKY] = task_cholesky, [MATRIX_TRIANGULAR_SOLVE] = task_triangular_solve,
    [MATRIX_SOLVE] = task_solve,       [MATRIX_DETERMINANT] = task_determinant,
    [MATRIX_LOGDET] = task_logdet,
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
                       double *a) {
  int64_t rows, columns;
  matrix_result(kind, s, &rows, &columns);
  Task t = {.e = e, .flags = flags, .m = (int)s->m, .n = (int)s->n, .right = (int)s->right};
  t.a = a;
  t.b = a + s->m * s->n;
  t.work = t.b + s->m * s->right;
  double *y = matrix_rows[kind].result == MATRIX_SOLUTION ? t.b : a;
  blank_columns(&t);
  if (kind == MATRIX_CHOLESKY) symmetrise(&t);
  if (kind == MATRIX_TRIANGULAR_SOLVE) clear_triangle(&t, !(flags & MATRIX_UPPER));
  if (!is_finite(a, s->m * s->n) || !task_rule[kind](&t)) fill(y, rows * columns, (double)NAN);
  return y;
}
