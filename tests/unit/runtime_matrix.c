// Tests operations on matrices: known results, both engines against each other and against their
// definitions on random matrices, strides, and matrices that have no result.
#include "runtime/exec/matrix_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 70, ROOM = 12 * MOST * MOST };

static double random_number(void) {
  static uint64_t state = 0x9e3779b97f4a7c15u;
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (double)((state * 2685821657736338717u) >> 40) * 0x1p-23 - 1;
}

static void draw(double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = random_number();
}

static double element(const double *x, int64_t rows, int64_t i, int64_t j) {
  return x[i + j * rows];
}

static const double *run(const MatrixEngine *e, MatrixKind kind, unsigned flags, MatrixSizes s,
                         const double *a, const double *b) {
  static double room[ROOM];
  assert_true(matrix_room(kind, &s) <= ROOM);
  memset(room, 0xff, sizeof room);
  memcpy(room, a, (size_t)(s.m * s.n) * sizeof *a);
  if (s.right) memcpy(room + s.m * s.n, b, (size_t)(s.m * s.right) * sizeof *b);
  return matrix_compute(e, kind, flags, &s, room, NULL);
}

static void close_to(double got, double want, const char *what, int64_t n) {
  if (!(fabs(got - want) <= 1e-9 * (1 + fabs(want))))
    fail_msg("%s of %lld: %.15g is not %.15g", what, (long long)n, got, want);
}

// Numbers from textbooks: the Cholesky factor of integers, and a system with its determinant.
static void known(void **state) {
  (void)state;
  const double a[] = {4, 12, -16, 12, 37, -43, -16, -43, 98};
  const double l[] = {2, 6, -8, 0, 1, 5, 0, 0, 3};
  const double s[] = {2, 4, -2, 1, -6, 7, 1, 0, 2}; // columns (2 4 -2), (1 -6 7), (1 0 2)
  const double b[] = {5, -2, 9};                    // the solution is (1, 1, 2)
  const MatrixEngine *engine[] = {&matrix_plain, matrix_engine()};
  for (int e = 0; e < 2; e++) {
    const double *y = run(engine[e], MATRIX_CHOLESKY, 0, (MatrixSizes){3, 3, 0}, a, NULL);
    for (int i = 0; i < 9; i++) close_to(y[i], l[i], "cholesky", i);
    y = run(engine[e], MATRIX_SOLVE, 0, (MatrixSizes){3, 3, 1}, s, b);
    close_to(y[0], 1, "solve", 3);
    close_to(y[1], 1, "solve", 3);
    close_to(y[2], 2, "solve", 3);
    y = run(engine[e], MATRIX_DETERMINANT, 0, (MatrixSizes){3, 3, 0}, s, NULL);
    close_to(y[0], -16, "determinant", 3);
    y = run(engine[e], MATRIX_LOGDET, 0, (MatrixSizes){3, 3, 0}, a, NULL);
    close_to(y[0], log(36), "logdet", 3);
    assert_true(isnan(run(engine[e], MATRIX_LOGDET, 0, (MatrixSizes){3, 3, 0}, s, NULL)[0]));
  }
}

static void check_solution(const MatrixEngine *e, MatrixKind kind, unsigned flags, int64_t n,
                           int64_t right) {
  static double a[MOST * MOST], b[MOST * MOST];
  draw(a, n * n);
  draw(b, n * right);
  for (int64_t i = 0; i < n; i++) a[i + i * n] += 3 * sqrt((double)n);
  const double *x = run(e, kind, flags, (MatrixSizes){n, n, right}, a, b);
  for (int64_t r = 0; r < right; r++)
    for (int64_t i = 0; i < n; i++) {
      double sum = 0;
      for (int64_t j = 0; j < n; j++) {
        bool read = kind == MATRIX_SOLVE || (flags & MATRIX_UPPER ? j >= i : j <= i);
        if (read) sum += element(a, n, i, j) * element(x, n, j, r);
      }
      close_to(sum, element(b, n, i, r), matrix_rows[kind].text, n);
    }
}

static void check_cholesky(const MatrixEngine *e, int64_t n) {
  static double a[MOST * MOST];
  draw(a, n * n);
  for (int64_t i = 0; i < n; i++) a[i + i * n] += 3 * sqrt((double)n);
  const double *l = run(e, MATRIX_CHOLESKY, 0, (MatrixSizes){n, n, 0}, a, NULL);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t k = 0; k < n; k++) sum += element(l, n, i, k) * element(l, n, j, k);
      close_to(sum, (element(a, n, i, j) + element(a, n, j, i)) / 2, "cholesky", n);
      if (j > i) assert_true(element(l, n, i, j) == 0);
    }
}

static void definitions(void **state) {
  (void)state;
  const MatrixEngine *engine[] = {&matrix_plain, matrix_engine()};
  const int64_t sizes[] = {1, 2, 3, 5, 8, 17, 33, 64, MOST};
  for (int e = 0; e < 2; e++)
    for (size_t i = 0; i < countof(sizes); i++) {
      int64_t n = sizes[i];
      check_cholesky(engine[e], n);
      check_solution(engine[e], MATRIX_SOLVE, 0, n, 1 + n % 4);
      check_solution(engine[e], MATRIX_TRIANGULAR_SOLVE, 0, n, 1 + n % 4);
      check_solution(engine[e], MATRIX_TRIANGULAR_SOLVE, MATRIX_UPPER, n, n);
    }
}

// Checks that the first `rows` rows of the columns of a stack are orthonormal.
static void check_orthonormal(const double *stack, int64_t all, int64_t rows, int64_t columns) {
  for (int64_t p = 0; p < columns; p++)
    for (int64_t q = 0; q <= p; q++) {
      double dot = 0;
      for (int64_t i = 0; i < rows; i++) dot += stack[i + p * all] * stack[i + q * all];
      close_to(dot, p == q, "orthonormal vectors", rows);
    }
}

// Checks that a[i, j] is the sum over k of left[i, k] middle[k] right[j, k], all in the stack y.
static void check_factors(const MatrixEngine *e, MatrixKind kind, int64_t m, int64_t n, double *a) {
  int64_t k = m < n ? m : n, all = matrix_stack(kind, m, n);
  const double *y = run(e, kind, 0, (MatrixSizes){m, n, 0}, a, NULL);
  int64_t right = kind == MATRIX_EIGH ? 0 : m, middle = kind == MATRIX_QR ? -1 : all - 1;
  check_orthonormal(y, all, m, k);
  if (kind == MATRIX_SVD) check_orthonormal(y + m, all, n, k);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0, want = a[i + j * m];
      if (kind == MATRIX_EIGH) want = (want + a[j + i * m]) / 2;
      for (int64_t l = 0; l < k; l++)
        sum += y[i + l * all] * (middle < 0 ? 1 : y[middle + l * all]) * y[right + j + l * all];
      close_to(sum, want, matrix_rows[kind].text, m);
    }
  for (int64_t l = 0; l < k; l++) {
    const double *column = y + l * all;
    if (kind == MATRIX_QR) assert_true(column[m + l] >= 0);
    if (kind != MATRIX_QR) assert_true(column[matrix_leading(column, m)] > 0);
    for (int64_t j = 0; kind == MATRIX_QR && j < l; j++) assert_true(column[m + j] == 0);
    if (l == 0 || middle < 0) continue;
    double before = column[middle - all], now = column[middle];
    assert_true(kind == MATRIX_EIGH ? before <= now : before >= now && now >= 0);
  }
}

static void factorisations(void **state) {
  (void)state;
  static double a[MOST * MOST], other[ROOM];
  const MatrixEngine *engine[] = {&matrix_plain, matrix_engine()};
  const int64_t sizes[][2] = {{1, 1}, {2, 2}, {3, 2}, {5, 5}, {9, 4}, {33, 32}, {MOST / 2, 7}};
  for (int e = 0; e < 2; e++)
    for (size_t i = 0; i < countof(sizes); i++) {
      int64_t m = sizes[i][0], n = sizes[i][1];
      draw(a, m * m);
      check_factors(engine[e], MATRIX_QR, m, n, a);
      check_factors(engine[e], MATRIX_EIGH, m, m, a);
      check_factors(engine[e], MATRIX_SVD, m, n, a);
      check_factors(engine[e], MATRIX_SVD, n, m, a);
      for (int64_t k = 0; k < m; k++) a[k] = a[k + (n - 1) * m] = 0; // of lower rank
      check_factors(engine[e], MATRIX_SVD, m, n, a);
      check_factors(engine[e], MATRIX_QR, m, n, a);
    }
  // both engines have the same signs
  for (MatrixKind kind = MATRIX_QR; kind <= MATRIX_SVD; kind++) {
    MatrixSizes s = {6, kind == MATRIX_EIGH ? 6 : 4, 0};
    int64_t rows, columns;
    draw(a, 36);
    matrix_result(kind, &s, &rows, &columns);
    memcpy(other, run(&matrix_plain, kind, 0, s, a, NULL), (size_t)(rows * columns) * sizeof *a);
    const double *y = run(matrix_engine(), kind, 0, s, a, NULL);
    for (int64_t i = 0; i < rows * columns; i++)
      close_to(y[i], other[i], matrix_rows[kind].text, 6);
  }
}

// Values and vectors of the second difference on 3 points, and singular values by hand.
static void known_factors(void **state) {
  (void)state;
  const double a[] = {2, -1, 0, -1, 2, -1, 0, -1, 2}, tall[] = {3, 4, 0, 0, 0, 2};
  const MatrixEngine *engine[] = {&matrix_plain, matrix_engine()};
  const double root = sqrt(2);
  for (int e = 0; e < 2; e++) {
    const double *y = run(engine[e], MATRIX_EIGH, 0, (MatrixSizes){3, 3, 0}, a, NULL);
    const double want[] = {0.5,       root / 2, 0.5, 2 - root,  root / 2, 0,
                           -root / 2, 2,        0.5, -root / 2, 0.5,      2 + root};
    for (int i = 0; i < 12; i++) close_to(y[i], want[i], "eigh", i);
    y = run(engine[e], MATRIX_SVD, 0, (MatrixSizes){3, 2, 0}, tall, NULL);
    const double svd[] = {0.6, 0.8, 0, 1, 0, 5, 0, 0, 1, 0, 1, 2};
    for (int i = 0; i < 12; i++) close_to(y[i], svd[i], "svd", i);
    y = run(engine[e], MATRIX_QR, 0, (MatrixSizes){3, 2, 0}, tall, NULL);
    const double qr[] = {0.6, 0.8, 0, 5, 0, 0, 0, 1, 0, 2};
    for (int i = 0; i < 10; i++) close_to(y[i], qr[i], "qr", i);
  }
}

static void determinants(void **state) {
  (void)state;
  static double a[MOST * MOST];
  const int64_t sizes[] = {1, 2, 3, 4, 7, 20};
  for (size_t i = 0; i < countof(sizes); i++) {
    int64_t n = sizes[i];
    MatrixSizes s = {n, n, 0};
    for (int round = 0; round < 20; round++) {
      draw(a, n * n);
      double plain = run(&matrix_plain, MATRIX_DETERMINANT, 0, s, a, NULL)[0];
      close_to(run(matrix_engine(), MATRIX_DETERMINANT, 0, s, a, NULL)[0], plain, "determinant", n);
      double log_of = run(matrix_engine(), MATRIX_LOGDET, 0, s, a, NULL)[0];
      if (plain > 0)
        close_to(exp(log_of), plain, "logdet", n);
      else
        assert_true(isnan(log_of));
    }
  }
}

// What a matrix gives that has no factorisation, or an element that is not finite.
static void refused(void **state) {
  (void)state;
  const double negative[] = {1, 2, 2, 1}, singular[] = {1, 0, 0, 0}, zero[4] = {0};
  const double b[] = {1, 2, (double)NAN, 3}, bad[] = {1, (double)INFINITY, 0, 1};
  const MatrixEngine *engine[] = {&matrix_plain, matrix_engine()};
  for (int e = 0; e < 2; e++) {
    MatrixSizes one = {2, 2, 0}, two = {2, 2, 2};
    const double *y = run(engine[e], MATRIX_CHOLESKY, 0, one, negative, NULL);
    for (int i = 0; i < 4; i++) assert_true(isnan(y[i]));
    assert_true(isnan(run(engine[e], MATRIX_SOLVE, 0, two, singular, b)[0]));
    assert_true(isnan(run(engine[e], MATRIX_TRIANGULAR_SOLVE, 0, two, singular, b)[0]));
    assert_true(run(engine[e], MATRIX_DETERMINANT, 0, one, zero, NULL)[0] == 0);
    assert_true(run(engine[e], MATRIX_LOGDET, 0, one, zero, NULL)[0] == -(double)INFINITY);
    assert_true(isnan(run(engine[e], MATRIX_DETERMINANT, 0, one, bad, NULL)[0]));
    // only the second column of b has a NaN; the triangle that is not read may have anything
    const double lower[] = {2, 4, (double)NAN, 1};
    y = run(engine[e], MATRIX_TRIANGULAR_SOLVE, 0, two, lower, b);
    close_to(y[0], 0.5, "triangular_solve", 2);
    close_to(y[1], 0, "triangular_solve", 2);
    assert_true(isnan(y[2]) && isnan(y[3]));
  }
}

static MatrixFault fault(const MatrixEngine *e, MatrixKind kind, int64_t n, const double *a) {
  static double room[ROOM];
  MatrixFault why = {MATRIX_NOT_CONVERGED, -1};
  MatrixSizes s = {n, n, kind == MATRIX_SOLVE || kind == MATRIX_TRIANGULAR_SOLVE};
  memset(room, 0, sizeof room);
  memcpy(room, a, (size_t)(n * n) * sizeof *a);
  matrix_compute(e, kind, 0, &s, room, &why);
  return why;
}

// Why a matrix has no result: pivots by hand. Both engines agree.
static void causes(void **state) {
  (void)state;
  const double indefinite[] = {4, 2, 2, 2, 1, 1, 2, 1, 5}; // the second pivot is 1 - 2 * 2 / 4 = 0
  const double zero_row[] = {1, 2, 0, 3, 4, 0, 5, 6, 0};   // the last pivot of three
  const double triangle[] = {1, 1, 1, 0, 0, 1, 0, 0, 1};   // the diagonal is 1 0 1
  const double swapped[] = {0, 1, 1, 0};                   // its determinant is -1
  const MatrixEngine *engine[] = {&matrix_plain, matrix_engine()};
  for (int e = 0; e < 2; e++) {
    const struct {
      MatrixKind kind;
      int64_t n;
      const double *a;
      MatrixFault want;
    } row[] = {{MATRIX_CHOLESKY, 3, indefinite, {MATRIX_NOT_POSITIVE, 2}},
               {MATRIX_SOLVE, 3, zero_row, {MATRIX_SINGULAR, 3}},
               {MATRIX_LOGDET, 3, zero_row, {MATRIX_SINGULAR, 3}},
               {MATRIX_DETERMINANT, 3, zero_row, {MATRIX_HAS_RESULT, 0}},
               {MATRIX_TRIANGULAR_SOLVE, 3, triangle, {MATRIX_SINGULAR, 2}},
               {MATRIX_LOGDET, 2, swapped, {MATRIX_NEGATIVE, 0}},
               {MATRIX_SOLVE, 2, swapped, {MATRIX_HAS_RESULT, 0}},
               {MATRIX_EIGH, 3, indefinite, {MATRIX_HAS_RESULT, 0}}};
    for (size_t i = 0; i < countof(row); i++) {
      MatrixFault got = fault(engine[e], row[i].kind, row[i].n, row[i].a);
      assert_int_equal(got.cause, row[i].want.cause);
      assert_int_equal(got.pivot, row[i].want.pivot);
    }
  }
}

// Matrices of f32 inside larger arrays: a[i, b, j], right sides b[b, r, i], results y[r, j, b].
static void strides(void **state) {
  (void)state;
  enum { N = 4, B = 3, R = 2 };
  float a[N * B * N], right[B * R * N], y[R * N * B];
  double scratch[N * N + N * R + N];
  for (int i = 0; i < N * B * N; i++) a[i] = (float)random_number();
  for (int i = 0; i < N; i++)
    for (int k = 0; k < B; k++) a[(i * B + k) * N + i] += 5;
  for (int i = 0; i < B * R * N; i++) right[i] = (float)random_number();
  MatrixCall w = {.kind = MATRIX_SOLVE,
                  .type = TYPE_F32,
                  .m = N,
                  .n = N,
                  .a_row = B * N,
                  .a_column = 1,
                  .b_row = 1,
                  .dst_row = B,
                  .nbatch = 1,
                  .nright = 1};
  w.batch[0].a = N;
  w.batch[0].b = R * N;
  w.batch[0].dst = 1;
  w.right[0].b = N;
  w.right[0].dst = N * B;
  BoundMatrix b = {.what = &w,
                   .engine = matrix_engine(),
                   .a = (const char *)a,
                   .b = (const char *)right,
                   .dst = (char *)y,
                   .matrices = B,
                   .right = R,
                   .count = {B},
                   .right_count = {R}};
  matrix_run(&b, 0, 1, scratch);
  matrix_run(&b, 1, B, scratch);
  for (int k = 0; k < B; k++)
    for (int r = 0; r < R; r++)
      for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++)
          sum += (double)a[(i * B + k) * N + j] * (double)y[(r * N + j) * B + k];
        assert_true(fabs(sum - (double)right[(k * R + r) * N + i]) < 1e-5);
      }
  // element 5 of the result is of matrix 2: y[r = 0, j = 1, k = 2]
  for (int j = 0; j < N; j++) a[(1 * B + 2) * N + j] = 2 * a[(0 * B + 2) * N + j];
  for (int i = 0; i < N; i++) a[(i * B + 2) * N + 0] = 0;
  assert_int_equal(matrix_why(&b, 5, scratch).cause, MATRIX_SINGULAR);
  assert_int_equal(matrix_why(&b, 5, scratch).pivot, 1);
  assert_int_equal(matrix_why(&b, 4, scratch).cause, MATRIX_HAS_RESULT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known),          cmocka_unit_test(definitions),
      cmocka_unit_test(factorisations), cmocka_unit_test(known_factors),
      cmocka_unit_test(determinants),   cmocka_unit_test(refused),
      cmocka_unit_test(causes),         cmocka_unit_test(strides)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
