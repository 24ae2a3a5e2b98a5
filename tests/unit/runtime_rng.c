// Tests random numbers: published vectors of Philox, moments of the draws, permutations.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "ir/base/philox.h"
#include "runtime/runtime.h"

// Vectors of the Random123 distribution (kat_vectors, philox4x32 10).
static void philox_vectors(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], out[4];
  } known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < countof(known); i++) {
    uint32_t out[4];
    philox4x32(known[i].counter, known[i].key, out);
    for (int j = 0; j < 4; j++) assert_int_equal(out[j], known[i].out[j]);
  }
}

typedef struct Moments {
  double mean, variance, least, most;
} Moments;
enum { DRAWS = 200000 };

static Moments moments(InitKind kind, double a, double b) {
  Init init = {.kind = kind, .a = a, .b = b};
  int64_t *index = malloc(sizeof *index * DRAWS);
  double *x = malloc(sizeof *x * DRAWS), sum = 0, squares = 0;
  for (int64_t i = 0; i < DRAWS; i++) index[i] = i;
  rng_draw(&init, rng_key(7, "w"), DRAWS, index, x);
  Moments m = {0, 0, x[0], x[0]};
  for (int64_t i = 0; i < DRAWS; i++) {
    sum += x[i];
    m.least = fmin(m.least, x[i]);
    m.most = fmax(m.most, x[i]);
  }
  m.mean = sum / DRAWS;
  for (int64_t i = 0; i < DRAWS; i++) squares += (x[i] - m.mean) * (x[i] - m.mean);
  m.variance = squares / DRAWS;
  free(index);
  free(x);
  return m;
}

static void near(double got, double want, double tolerance) {
  if (!(fabs(got - want) <= tolerance)) fail_msg("%g is not %g within %g", got, want, tolerance);
}

static void draws_have_their_moments(void **state) {
  (void)state;
  Moments m = moments(INIT_UNIFORM, -1, 3);
  near(m.mean, 1, 0.01);
  near(m.variance, 16.0 / 12, 0.02);
  assert_true(m.least > -1 && m.most < 3);
  m = moments(INIT_NORMAL, 2, 0.5);
  near(m.mean, 2, 0.005);
  near(m.variance, 0.25, 0.005);
  m = moments(INIT_TRUNCATED_NORMAL, 1, 2);
  near(m.mean, 1, 0.02);
  near(m.variance, 4 * 0.7737413, 0.05); // a standard normal truncated at two
  assert_true(m.least >= -3 && m.most <= 5);
}

static void draws_depend_on_index_and_key_only(void **state) {
  (void)state;
  Init init = {.kind = INIT_NORMAL, .b = 1};
  int64_t all[8] = {0, 1, 2, 3, 4, 5, 6, 7}, some[3] = {6, 0, 3};
  double x[8], y[3], z[3];
  rng_draw(&init, rng_key(1, "w"), 8, all, x);
  rng_draw(&init, rng_key(1, "w"), 3, some, y);
  rng_draw(&init, rng_key(1, "v"), 3, some, z);
  for (int i = 0; i < 3; i++) {
    assert_true(y[i] == x[some[i]]);
    assert_true(z[i] != y[i]);
  }
  assert_true(rng_key(1, "w") != rng_key(2, "w"));
}

// The numbers of rng_draw_floats are those of rng_draw, rounded, however many are drawn.
static void floats_are_drawn_alike(void **state) {
  (void)state;
  enum { N = 1000 };
  static const InitKind kinds[] = {INIT_NORMAL, INIT_TRUNCATED_NORMAL, INIT_UNIFORM};
  for (size_t k = 0; k < countof(kinds); k++) {
    Init init = {.kind = kinds[k], .a = 0.25, .b = 3};
    int64_t index[N];
    double x[N];
    float y[N + 1];
    rng_indices(5, 3, N, index);
    for (int i = 0; i < N; i++) assert_true(index[i] == 5 + 3 * i);
    rng_draw(&init, rng_key(1, "w"), N, index, x);
    for (int64_t n = N; n > 0; n /= 3) {
      y[n] = -1;
      rng_draw_floats(&init, rng_key(1, "w"), n, index, y);
      for (int64_t i = 0; i < n; i++) assert_true(y[i] == (float)x[i]);
      assert_true(y[n] == -1);
    }
  }
}

// Box-Muller with the functions of the C library, from the uniforms of the same block.
static double plain_normal(uint64_t key, int64_t i) {
  uint32_t counter[4] = {(uint32_t)i, (uint32_t)((uint64_t)i >> 32), 0, 0}, x[4];
  uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
  double u[2];
  philox4x32(counter, k, x);
  for (int j = 0; j < 2; j++)
    u[j] = ((double)(((uint64_t)x[2 * j] << 32 | x[2 * j + 1]) >> 11) + 0.5) * 0x1p-53;
  return sqrt(-2 * log(u[0])) * cos(6.283185307179586477 * u[1]);
}

static void normals_are_those_of_their_block(void **state) {
  (void)state;
  enum { N = 20011 };
  static int64_t index[N];
  static double x[N], y[N];
  Init init = {.kind = INIT_NORMAL, .a = 0, .b = 1};
  uint64_t key = rng_key(3, "w");
  for (int64_t i = 0; i < N; i++) index[i] = i % 2 ? i : (i << 33) + i;
  rng_draw(&init, key, N, index, x);
  for (int64_t i = 0; i < N; i++) near(x[i], plain_normal(key, index[i]), 1e-14);
  for (int64_t i = 0, n = 1; i < N; i += n, n = n % 37 + 1)
    rng_draw(&init, key, n < N - i ? n : N - i, index + i, y + i);
  for (int64_t i = 0; i < N; i++)
    assert_true(x[i] == y[i]); // the numbers do not depend on how many are drawn at once
}

static void permutations_are_permutations(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097};
  for (size_t s = 0; s < countof(sizes); s++) {
    int64_t n = sizes[s], moved = 0;
    char *seen = calloc((size_t)n, 1);
    int64_t *all = calloc((size_t)n, sizeof *all), one;
    rng_permute(99, n, 0, n, all);
    for (int64_t i = 0; i < n; i++) {
      int64_t p = all[i];
      assert_true(p >= 0 && p < n && !seen[p]);
      seen[p] = 1;
      moved += p != i;
      rng_permute(99, n, i, 1, &one);
      assert_true(one == p);
    }
    if (n >= 100) assert_true(moved > n * 9 / 10);
    free(all);
    free(seen);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_vectors),
      cmocka_unit_test(draws_have_their_moments),
      cmocka_unit_test(draws_depend_on_index_and_key_only),
      cmocka_unit_test(floats_are_drawn_alike),
      cmocka_unit_test(normals_are_those_of_their_block),
      cmocka_unit_test(permutations_are_permutations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
