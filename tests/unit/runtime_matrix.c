// Tests operations on matrices: known results, both engines against each other and against their
// definitions on random matrices, strides, and matrices that have no result.
#include "runtime/exec/matrix_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 70, ROOM = 4 * MOST * MOST };

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
  return matrix_compute(e, kind, flags, &s, room);
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
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known), cmocka_unit_test(definitions),
                                     cmocka_unit_test(determinants), cmocka_unit_test(refused),
                                     cmocka_unit_test(strides)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
