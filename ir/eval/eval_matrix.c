// Operations on matrices in the evaluator, by plain loops in f64 (ir/program/matrix.h).
//
// A program computes in f64, too, perhaps with other factorisations, and rounds once. Let E be the
// bounds of the matrix A, plus what the factorisation may err by, as an error of A (backward
// error: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 9 and 10). Then
// the bound of the result is its derivative along E, with all signs positive:
//
//   solve        |A^-1| (E |x| + bound of b)
//   cholesky     |L| low(|L^-1| E |L^-T|), where low keeps the lower triangle and half the diagonal
//   determinant  the product over rows of |row| + |row of E|, minus that of |row|
//   logdet       the sum of |A^-T| E
//
// A result is tainted if E could make the matrix singular or, for cholesky, not positive definite:
// then the derivative says nothing.
#include "ir/eval/eval_rules.h"

#include <string.h>

// |A^-1| E may be at most this: beyond, second derivatives matter.
static const double SMALL = 0.25;

// One matrix, and what is known about its result. All matrices are stored by columns.
typedef struct Work {
  const EvalNode *c;
  MatrixKind kind;
  MatrixSizes s;
  int64_t rows, columns; // of the result
  double *a, *e, *b, *f; // the arguments and their bounds
  bool tainted;
  double *y, *bound; // the result
} Work;

static double *numbers(const Work *w, int64_t n) { return arena_array(w->c->arena, double, n + 1); }

// Computes an operation on a copy of a matrix and of a second argument.
static double *computed(const Work *w, MatrixKind kind, const double *a, const double *b,
                        int64_t right) {
  MatrixSizes s = {w->s.m, w->s.n, right};
  double *all = numbers(w, matrix_room(kind, &s));
  memcpy(all, a, (size_t)(s.m * s.n) * sizeof *a);
  if (right) memcpy(all + s.m * s.n, b, (size_t)(s.m * right) * sizeof *b);
  return matrix_compute(&matrix_plain, kind, w->c->n->attr.flags, &s, all);
}

// Returns |x| |y| for an x of m rows and k columns and a y of n columns. Either may be read as its
// transpose.
static double *product(const Work *w, int64_t m, int64_t k, int64_t n, const double *x, bool tx,
                       const double *y, bool ty) {
  double *z = numbers(w, m * n);
  for (int64_t j = 0; j < n; j++)
    for (int64_t p = 0; p < k; p++)
      for (int64_t i = 0; i < m; i++)
        z[i + j * m] +=
            fabs(tx ? x[p + i * k] : x[i + p * m]) * fabs(ty ? y[j + p * n] : y[p + j * k]);
  return z;
}

static double largest_row(const double *x, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += x[i + j * n];
    if (!(sum <= most)) most = sum;
  }
  return most;
}

static double *inverse(const Work *w, MatrixKind by, const double *a) {
  int64_t n = w->s.n;
  double *one = numbers(w, n * n);
  for (int64_t i = 0; i < n; i++) one[i + i * n] = 1;
  return computed(w, by, a, one, n);
}

// Adds to E the backward error of a factorisation in f64.
static void add_backward(const Work *w) {
  int64_t n = w->s.m * w->s.n;
  double most = 0, size = (double)(w->s.m > w->s.n ? w->s.m : w->s.n);
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(w->a[i]));
  for (int64_t i = 0; i < n; i++) w->e[i] += 8 * size * size * 0x1p-53 * most;
}

// -- bounds of the kinds ------------------------------------------------------------------------

static void bound_solution(Work *w) {
  int64_t n = w->s.n, right = w->s.right;
  double *by = inverse(w, w->kind, w->a);
  double most = largest_row(product(w, n, n, n, by, false, w->e, false), n);
  double *f = product(w, n, n, right, w->e, false, w->y, false);
  for (int64_t i = 0; i < n * right; i++) f[i] += w->f[i];
  double *bound = product(w, n, n, right, by, false, f, false);
  for (int64_t i = 0; i < n * right; i++) w->bound[i] = bound[i] / (1 - most);
  w->tainted = w->tainted || !(most < SMALL);
}

static void clear_other_triangle(const Work *w) {
  bool upper = w->c->n->attr.flags & MATRIX_UPPER;
  for (int64_t j = 0; j < w->s.n; j++)
    for (int64_t i = 0; i < w->s.n; i++)
      if (upper ? i > j : i < j) w->a[i + j * w->s.n] = w->e[i + j * w->s.n] = 0;
}

// No matrix within E is positive definite if A plus the largest row sum of E is not.
static bool surely_indefinite(const Work *w) {
  int64_t n = w->s.n;
  double more = 2 * largest_row(w->e, n), *a = numbers(w, n * n);
  for (int64_t i = 0; i < n * n; i++) a[i] = w->a[i] + (i % (n + 1) == 0 ? more : 0);
  return isnan(computed(w, MATRIX_CHOLESKY, a, NULL, 0)[0]);
}

static void bound_cholesky(Work *w) {
  int64_t n = w->s.n;
  if (isnan(w->y[0])) {
    w->tainted = w->tainted || !surely_indefinite(w);
    return;
  }
  double *e = numbers(w, n * n);
  for (int64_t i = 0; i < n * n; i++) e[i] = 0.5 * (w->e[i] + w->e[i / n + i % n * n]);
  double *by = inverse(w, MATRIX_TRIANGULAR_SOLVE, w->y);
  double *p = product(w, n, n, n, product(w, n, n, n, by, false, e, false), false, by, true);
  double most = largest_row(p, n);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i <= j; i++) p[i + j * n] *= i == j ? 0.5 : 0;
  double *bound = product(w, n, n, n, w->y, false, p, false);
  for (int64_t i = 0; i < n * n; i++) w->bound[i] = bound[i] / (1 - most);
  w->tainted = w->tainted || !(most < SMALL);
}

static double determinant_bound(const Work *w) {
  double with = 1, without = 1;
  int64_t n = w->s.n;
  for (int64_t i = 0; i < n; i++) {
    double row = 0, error = 0;
    for (int64_t j = 0; j < n; j++) row = hypot(row, w->a[i + j * n]);
    for (int64_t j = 0; j < n; j++) error = hypot(error, w->e[i + j * n]);
    with *= row + error;
    without *= row;
  }
  return with - without;
}

static void bound_determinant(Work *w) { w->bound[0] = determinant_bound(w); }

static void bound_logdet(Work *w) {
  int64_t n = w->s.n;
  double *by = inverse(w, MATRIX_SOLVE, w->a), sum = 0;
  double most = largest_row(product(w, n, n, n, by, false, w->e, false), n);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) sum += fabs(by[j + i * n]) * w->e[i + j * n];
  w->bound[0] = sum / (1 - most) + 0x1p-50 * (double)n * fmax(fabs(w->y[0]), 64);
  w->tainted = w->tainted || !(most < SMALL);
}

typedef void BoundRule(Work *w);
static BoundRule *const bound_rule[MATRIX_KINDS] = {
    [MATRIX_CHOLESKY] = bound_cholesky, [MATRIX_TRIANGULAR_SOLVE] = bound_solution,
    [MATRIX_SOLVE] = bound_solution,    [MATRIX_DETERMINANT] = bound_determinant,
    [MATRIX_LOGDET] = bound_logdet,
};

// -- loading and storing ------------------------------------------------------------------------

// The offsets in a tensor of the columns of a matrix.
typedef struct Columns {
  int64_t n, *at;
} Columns;

static Columns columns_along(const EvalNode *c, const Tensor *t, DimId d) {
  Columns all = {.n = t->extent[dims_index(&t->dims, d)]};
  all.at = arena_array(c->arena, int64_t, all.n + 1);
  for (int64_t j = 0; j < all.n; j++) all.at[j] = j * tensor_stride(t, d);
  return all;
}

// The columns of a second argument: its dims that the matrix lacks, but for the dim of rows. The
// result has these dims, too: `of` gets its columns.
static Columns columns_right(const EvalNode *c, Columns *of) {
  const Tensor *b = c->arg[1];
  StrideWalk w = walk_over(NULL, NULL, NULL);
  int64_t n = 1;
  for (int i = 0; i < b->dims.n; i++) {
    if (b->dims.at[i] == c->n->attr.dims[0] || dims_has(&c->arg[0]->dims, b->dims.at[i])) continue;
    walk_dim(&w, b->dims.at[i], b->extent[i]);
    n *= b->extent[i];
  }
  walk_operand(&w, b);
  walk_operand(&w, c->out);
  Columns all = {.at = arena_array(c->arena, int64_t, n + 1)};
  of->at = arena_array(c->arena, int64_t, n + 1);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    all.at[all.n] = w.at[0];
    of->at[all.n++] = w.at[1];
  }
  of->n = all.n;
  return all;
}

static void load(Work *w, const Tensor *t, int64_t from, const Columns *c, int64_t row, double *x,
                 double *bound) {
  for (int64_t j = 0; j < c->n; j++)
    for (int64_t i = 0; i < w->s.m; i++) {
      Cell cell = tensor_cell(t, from + c->at[j] + i * row);
      *x++ = cell.v;
      *bound++ = cell.b;
      w->tainted = w->tainted || cell.t;
    }
}

static void store(const Work *w, int64_t to, const Columns *c, int64_t row) {
  Tensor *out = w->c->out;
  for (int64_t k = 0; k < w->rows * w->columns; k++) {
    Cell y = cell_rounded(out->type, w->y[k], w->bound[k], w->bound[k] == 0);
    y.t = w->tainted;
    tensor_put(out, to + c->at[k / w->rows] + k % w->rows * row, cell_finish(out->type, y));
  }
}

// Returns the loop over all matrices: operands are the first argument, the result and, if there is
// one, the second argument.
static StrideWalk matrices(const EvalNode *c) {
  StrideWalk w = walk_over(NULL, NULL, NULL);
  const Tensor *a = c->arg[0];
  for (int i = 0; i < a->dims.n; i++)
    if (!dim_in(a->dims.at[i], 2, c->n->attr.dims)) walk_dim(&w, a->dims.at[i], a->extent[i]);
  walk_operand(&w, a);
  walk_operand(&w, c->out);
  if (c->n->nargs > 1) walk_operand(&w, c->arg[1]);
  return w;
}

static bool all_finite(const Work *w) {
  for (int64_t i = 0; i < w->s.m * w->s.n; i++)
    if (!isfinite(w->a[i])) return false;
  return true;
}

// Computes the matrix that is loaded. An element that is not finite gives NaN for certain.
static void compute(Work *w) {
  bool triangular = w->kind == MATRIX_TRIANGULAR_SOLVE;
  if (triangular) clear_other_triangle(w);
  w->bound = numbers(w, w->rows * w->columns);
  w->y = computed(w, w->kind, w->a, w->b, w->s.right);
  add_backward(w);
  if (triangular) clear_other_triangle(w);
  if (all_finite(w)) bound_rule[w->kind](w);
}

void eval_matrix(const EvalNode *c) {
  const Tensor *a = c->arg[0], *b = c->arg[1];
  DimId rows = c->n->attr.dims[0], columns = c->n->attr.dims[1];
  Work w = {.c = c};
  if (!op_matrix((Op)c->n->op, &w.kind)) BUG("%s is no matrix op", op_row((Op)c->n->op)->text);
  MatrixResult result = matrix_rows[w.kind].result;
  Columns of_a = columns_along(c, a, columns), of_b = {0}, of_y = {1, (int64_t[]){0}};
  if (result == MATRIX_SAME) of_y = columns_along(c, c->out, columns);
  if (result == MATRIX_SOLUTION) of_b = columns_right(c, &of_y);
  int64_t row =
      result == MATRIX_NUMBER ? 0 : tensor_stride(c->out, result == MATRIX_SAME ? rows : columns);
  w.s = (MatrixSizes){a->extent[dims_index(&a->dims, rows)], of_a.n, of_b.n};
  matrix_result(w.kind, &w.s, &w.rows, &w.columns);
  w.a = numbers(&w, w.s.m * w.s.n);
  w.e = numbers(&w, w.s.m * w.s.n);
  w.b = numbers(&w, w.s.m * w.s.right);
  w.f = numbers(&w, w.s.m * w.s.right);
  StrideWalk walk = matrices(c);
  for (bool on = walk_first(&walk); on; on = walk_next(&walk)) {
    ArenaMark mark = arena_mark(c->arena);
    w.tainted = false;
    load(&w, a, walk.at[0], &of_a, tensor_stride(a, rows), w.a, w.e);
    if (of_b.n) load(&w, b, walk.at[2], &of_b, tensor_stride(b, rows), w.b, w.f);
    compute(&w);
    store(&w, walk.at[1], &of_y, row);
    arena_reset(c->arena, mark);
  }
}
