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
//   qr           with C = |Q^T| E |R^-1| and W its part below the diagonal, plus the transpose:
//                E |R^-1| + |Q| (C + W) of Q, and (C + W) |R| of R
//   eigh, svd    the norm of E of values; of vectors see bound_eigh
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
  return matrix_compute(&matrix_plain, kind, w->c->n->attr->flags, &s, all, NULL);
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
  bool upper = w->c->n->attr->flags & MATRIX_UPPER;
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

// Returns the Frobenius norm of E.
static double size_of_error(const Work *w) {
  double sum = 0;
  for (int64_t i = 0; i < w->s.m * w->s.n; i++) sum = hypot(sum, w->e[i]);
  return sum;
}

// Returns a copy of `rows` rows of a stack, from row `from` on.
static double *stack_part(const Work *w, const double *stack, int64_t from, int64_t rows) {
  double *x = numbers(w, rows * w->columns);
  for (int64_t j = 0; j < w->columns; j++)
    for (int64_t i = 0; i < rows; i++) x[i + j * rows] = stack[from + i + j * w->rows];
  return x;
}

// Stores the bounds x, with `rows` rows, from row `from` of the stack on.
static void put_bound(Work *w, int64_t from, int64_t rows, const double *x) {
  for (int64_t j = 0; j < w->columns; j++)
    for (int64_t i = 0; i < rows; i++) w->bound[from + i + j * w->rows] = x[i + j * rows];
}

static double *sum_of(const Work *w, int64_t n, const double *x, const double *y, double scale) {
  double *z = numbers(w, n);
  for (int64_t i = 0; i < n; i++) z[i] = scale * (x[i] + y[i]);
  return z;
}

static void bound_qr(Work *w) {
  int64_t m = w->s.m, n = w->s.n;
  double *q = stack_part(w, w->y, 0, m), *rt = stack_part(w, w->y, m, n), *r = numbers(w, n * n);
  double *one = numbers(w, n * n), *turn = numbers(w, n * n);
  for (int64_t i = 0; i < n * n; i++) r[i] = rt[i / n + i % n * n], one[i] = i % (n + 1) == 0;
  if (matrix_plain.triangular(true, (int)n, r, (int)n, one)) w->tainted = true;
  double *t = product(w, m, n, n, w->e, false, one, false);
  double *c = product(w, n, m, n, q, true, t, false);
  double most = largest_row(c, n), scale = 1 / (1 - 2 * most);
  w->tainted = w->tainted || !(most < SMALL);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < n; i++)
      turn[i + j * n] = i == j ? 0 : i > j ? c[i + j * n] : c[j + i * n];
  double *both = sum_of(w, n * n, c, turn, 1);
  put_bound(w, 0, m, sum_of(w, m * n, t, product(w, m, n, n, q, false, both, false), scale));
  double *dr = product(w, n, n, n, r, true, both, true); // transposed, as R is in the stack
  for (int64_t i = 0; i < n * n; i++) dr[i] = i % n < i / n ? 0 : scale * dr[i];
  put_bound(w, m, n, dr);
}

// Gives the vector in column k of the stack, and its bounds, no certainty: infinite bounds.
static void doubt(Work *w, int64_t k, int64_t rows) {
  for (int64_t i = 0; i < rows; i++) w->bound[i + k * w->rows] = INF;
}

// The sign of a vector is in doubt if another element could be the leading one.
static void doubt_sign(Work *w, int64_t k, int64_t rows, int64_t signed_rows) {
  const double *v = w->y + k * w->rows, *b = w->bound + k * w->rows;
  double most = 0, error = 0;
  for (int64_t i = 0; i < rows; i++) most = fmax(most, fabs(v[i])), error = fmax(error, b[i]);
  int64_t leading = matrix_leading(v, rows);
  bool doubtful = false;
  for (int64_t i = 0; i <= leading; i++)
    doubtful |= fabs(fabs(v[i]) - MATRIX_LEADING * most) <= b[i] + MATRIX_LEADING * error;
  if (doubtful) doubt(w, k, signed_rows);
}

// Along E, vector l mixes into vector k in the ratio of (v_l^T E v_k) to the distance of their
// values. The values move by at most |E|.
static void bound_eigh(Work *w) {
  int64_t n = w->s.n;
  double *e = numbers(w, n * n), size = size_of_error(w), *v = stack_part(w, w->y, 0, n);
  for (int64_t i = 0; i < n * n; i++) e[i] = 0.5 * (w->e[i] + w->e[i / n + i % n * n]);
  double *g = product(w, n, n, n, product(w, n, n, n, v, true, e, false), false, v, false);
  double *mix = numbers(w, n * n);
  for (int64_t k = 0; k < n; k++)
    for (int64_t l = 0; l < n; l++) {
      double gap = fabs(w->y[n + k * w->rows] - w->y[n + l * w->rows]);
      if (l != k) mix[l + k * n] = gap > 4 * size ? 2 * g[l + k * n] / gap : INF;
    }
  put_bound(w, 0, n, product(w, n, n, n, v, false, mix, false));
  for (int64_t k = 0; k < n; k++) {
    w->bound[n + k * w->rows] = size;
    doubt_sign(w, k, n, n);
  }
}

// The ratio in which singular vectors l mix into vectors k along E: those of u, or those of v.
static double svd_mix(double s_k, double s_l, double kl, double lk, double size) {
  double gap = fabs(s_k - s_l);
  return gap > 4 * size ? 2 * (s_k * lk + s_l * kl) / (gap * (s_k + s_l)) : INF;
}

static void bound_svd(Work *w) {
  int64_t m = w->s.m, n = w->s.n, k = w->columns;
  double size = size_of_error(w), *u = stack_part(w, w->y, 0, m), *v = stack_part(w, w->y, m, n),
         *s = stack_part(w, w->y, m + n, 1);
  double *ev = product(w, m, n, k, w->e, false, v, false),
         *eu = product(w, n, m, k, w->e, true, u, false);
  double *p = product(w, k, m, k, u, true, ev, false);
  double *of_u = numbers(w, k * k), *of_v = numbers(w, k * k);
  for (int64_t j = 0; j < k; j++)
    for (int64_t l = 0; l < k; l++)
      if (l != j) {
        of_u[l + j * k] = svd_mix(s[j], s[l], p[j + l * k], p[l + j * k], size);
        of_v[l + j * k] = svd_mix(s[j], s[l], p[l + j * k], p[j + l * k], size);
      }
  double *du = product(w, m, k, k, u, false, of_u, false),
         *dv = product(w, n, k, k, v, false, of_v, false);
  double *out_u = product(w, m, k, k, u, false, p, false),
         *out_v = product(w, n, k, k, v, false, p, true);
  for (int64_t i = 0; i < m * k && m > k; i++) du[i] += 2 * (ev[i] + out_u[i]) / s[i / m];
  for (int64_t i = 0; i < n * k && n > k; i++) dv[i] += 2 * (eu[i] + out_v[i]) / s[i / n];
  put_bound(w, 0, m, du);
  put_bound(w, m, n, dv);
  for (int64_t j = 0; j < k; j++) {
    w->bound[m + n + j * w->rows] = size;
    doubt_sign(w, j, m, m + n);
    if (!(s[j] > 4 * size)) doubt(w, j, m + n);
  }
}

typedef void BoundRule(Work *w);
static BoundRule *const bound_rule[MATRIX_KINDS] = {
    [MATRIX_CHOLESKY] = bound_cholesky, [MATRIX_TRIANGULAR_SOLVE] = bound_solution,
    [MATRIX_SOLVE] = bound_solution,    [MATRIX_DETERMINANT] = bound_determinant,
    [MATRIX_LOGDET] = bound_logdet,     [MATRIX_QR] = bound_qr,
    [MATRIX_EIGH] = bound_eigh,         [MATRIX_SVD] = bound_svd,
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
    if (b->dims.at[i] == c->n->attr->dims[0] || dims_has(&c->arg[0]->dims, b->dims.at[i])) continue;
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
    if (!dim_in(a->dims.at[i], 2, c->n->attr->dims)) walk_dim(&w, a->dims.at[i], a->extent[i]);
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
  DimId rows = c->n->attr->dims[0], columns = c->n->attr->dims[1];
  Work w = {.c = c};
  if (!op_matrix((Op)c->n->op, &w.kind)) BUG("%s is no matrix op", op_row((Op)c->n->op)->text);
  MatrixResult result = matrix_rows[w.kind].result;
  Columns of_a = columns_along(c, a, columns), of_b = {0}, of_y = {1, (int64_t[]){0}};
  if (result == MATRIX_SAME) of_y = columns_along(c, c->out, columns);
  if (result == MATRIX_STACK) of_y = columns_along(c, c->out, c->n->attr->to[1]);
  if (result == MATRIX_SOLUTION) of_b = columns_right(c, &of_y);
  const DimId row_dim[] = {[MATRIX_SAME] = rows,
                           [MATRIX_SOLUTION] = columns,
                           [MATRIX_NUMBER] = rows,
                           [MATRIX_STACK] = result == MATRIX_STACK ? c->n->attr->to[0] : 0};
  int64_t row = result == MATRIX_NUMBER ? 0 : tensor_stride(c->out, row_dim[result]);
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
