// Tests random draws: their distribution, independence of keys, steps, seeds and neighbours; and
// that the blocks of a mesh draw the numbers of the whole tensor.
#include "ir/base/philox.h"
#include "ir/eval/eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N = 1 << 16 };

typedef struct Series {
  Op op;
  uint64_t key, seed;
  int64_t step;
} Series;

static void series_draw(const Series *s, double *out) {
  for (int64_t i = 0; i < N; i++) {
    uint32_t w[4];
    philox_words(s->key, s->seed, i, s->step, 0, w);
    out[i] = s->op == OP_RANDOM_NORMAL ? philox_normal(w, false) : philox_uniform(w, false);
  }
}

static double mean_of(const double *x) {
  double sum = 0;
  for (int i = 0; i < N; i++) sum += x[i];
  return sum / N;
}

static double covariance(const double *x, const double *y, int lag) {
  double mx = mean_of(x), my = mean_of(y), sum = 0;
  for (int i = 0; i < N; i++) sum += (x[i] - mx) * (y[(i + lag) % N] - my);
  return sum / N;
}

// Moments are within five standard deviations of their expected values.
static void moments(void **state) {
  (void)state;
  static double x[N];
  const struct {
    Op op;
    double mean, variance, fourth;
  } law[] = {{OP_RANDOM_UNIFORM, 0.5, 1.0 / 12, 1.0 / 80}, {OP_RANDOM_NORMAL, 0, 1, 3}};
  for (size_t k = 0; k < countof(law); k++)
    for (uint32_t call = 0; call < 20; call++) {
      series_draw(&(Series){law[k].op, philox_key("layer.0.attention", call), call / 5, call % 3},
                  x);
      double fourth = 0, m = mean_of(x);
      for (int i = 0; i < N; i++) fourth += pow(x[i] - m, 4) / N;
      assert_true(fabs(m - law[k].mean) < 5 * sqrt(law[k].variance / N));
      double variance = covariance(x, x, 0),
             of_variance = law[k].fourth - law[k].variance * law[k].variance;
      assert_true(fabs(variance - law[k].variance) < 5 * sqrt(of_variance / N));
      assert_true(fabs(fourth - law[k].fourth) < 0.05 * law[k].fourth);
    }
}

static void uniform_range(void **state) {
  (void)state;
  const uint32_t least[4] = {0xff, 0, 0, 0}, most[4] = {0xffffffff, 0xffffffff, 0, 0};
  assert_true(philox_uniform(least, false) == 0);
  assert_true(philox_uniform(most, false) == 1 - 0x1p-24);
  assert_true(philox_normal(most, false) == 0); // u1 = 1
  assert_true(fabs(philox_normal(least, false) - sqrt(48 * log(2))) < 1e-12);
}

// An f64 draw has 53 bits; the first of them are those of the f32 draw.
static void draws_of_f64(void **state) {
  (void)state;
  const uint32_t least[4] = {0, 0, 0x7ff, 0}, bit[4] = {0, 0, 0x800, 0},
                 most[4] = {UINT32_MAX, 0, UINT32_MAX, 0};
  assert_true(philox_uniform(least, true) == 0);
  assert_true(philox_uniform(bit, true) == 0x1p-53);
  assert_true(philox_uniform(most, true) == 1 - 0x1p-53);
  assert_true(fabs(philox_normal(least, true) - sqrt(106 * log(2))) < 1e-12);
  for (uint32_t i = 0; i < 1000; i++) {
    uint32_t w[4];
    philox_words(philox_key("w", 0), 1, i, 0, 0, w);
    double narrow = philox_uniform(w, false), wide = philox_uniform(w, true);
    assert_true(narrow <= wide && wide < narrow + 0x1p-24);
    assert_true(fabs(philox_normal(w, false) - philox_normal(w, true)) < 1e-3);
  }
}

// Draws of different calls, scopes, steps and seeds are independent, and so are neighbours.
static void independence(void **state) {
  (void)state;
  static double x[N], y[N];
  uint64_t key = philox_key("layer.0", 0);
  const Series other[] = {{OP_RANDOM_NORMAL, philox_key("layer.0", 1), 0, 0},
                          {OP_RANDOM_NORMAL, philox_key("layer.1", 0), 0, 0},
                          {OP_RANDOM_NORMAL, philox_key("", 0), 0, 0},
                          {OP_RANDOM_NORMAL, key, 1, 0},
                          {OP_RANDOM_NORMAL, key, 0, 1},
                          {OP_RANDOM_NORMAL, key, 0, 1000000}};
  series_draw(&(Series){OP_RANDOM_NORMAL, key, 0, 0}, x);
  for (int lag = 1; lag < 6; lag++) assert_true(fabs(covariance(x, x, lag)) < 5 / sqrt(N));
  for (size_t i = 0; i < countof(other); i++) {
    series_draw(&other[i], y);
    for (int lag = 0; lag < 3; lag++) assert_true(fabs(covariance(x, y, lag)) < 5 / sqrt(N));
  }
}

// -- in graphs ----------------------------------------------------------------------------------

static double at(const Tensor *t, int64_t i) { return t->value[i]; }

// A draw over [b, t, d] in uneven blocks over a mesh of 2 x 3 equals the whole draw, in any order
// of its dims. The spec determines the seed.
static void blocks(void **state) {
  (void)state;
  Arena *a = arena_new();
  Intern *names = intern_new(a);
  DimTable *dims = dim_table_new(a, names);
  Mesh mesh = {.naxes = 2,
               .axis = {{.name = intern(names, "rows"), .size = 2},
                        {.name = intern(names, "cols"), .size = 3}}};
  DimId b = dim_add(dims, "b", 5, (Pos){0}), t = dim_add(dims, "t", 3, (Pos){0}),
        d = dim_add(dims, "d", 7, (Pos){0});
  Graph *whole = graph_new(a, dims, &mesh, STAGE_GRAPH),
        *low = graph_new(a, dims, &mesh, STAGE_LOWER);
  whole->spec.seed = low->spec.seed = 3;
  DimId cut[3] = {dim_block(dims, &mesh, d, (Axes){.n = 1, .at = {1}}),
                  dim_block(dims, &mesh, b, (Axes){.n = 1, .at = {0}}), t};
  DimId all[3] = {b, t, d};
  for (Op op = OP_RANDOM_UNIFORM; op <= OP_RANDOM_NORMAL; op++) {
    Attr attr = {.ndims = 3, .dims = all, .key = 99}, block = {.ndims = 3, .dims = cut, .key = 99};
    NodeId n = graph_add(whole, op, 0, NULL, &attr), m = graph_add(low, op, 0, NULL, &block);
    bool agree;
    const Tensor *x = eval_at(eval_run(a, whole, 0, NULL, 4), n, 0);
    const Tensor *y = eval_full(a, eval_run(a, low, 0, NULL, 4), m, 3, all, &agree);
    assert_true(agree);
    for (int64_t i = 0; i < x->elements; i++) {
      uint32_t w[4];
      philox_words(99, 3, i, 4, 0, w);
      assert_true(at(x, i) == at(y, i));
      assert_true(at(x, i) ==
                  (op == OP_RANDOM_NORMAL ? philox_normal(w, false) : philox_uniform(w, false)));
    }
  }
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(moments), cmocka_unit_test(uniform_range),
                                     cmocka_unit_test(draws_of_f64), cmocka_unit_test(independence),
                                     cmocka_unit_test(blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
