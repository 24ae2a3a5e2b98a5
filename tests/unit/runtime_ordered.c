// Tests ordered instructions against a naive reference: every kind and type, random shapes and
// strides, with NaN, both zeros and ties among the elements; rows divided among workers; a program
// with such an instruction.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "runtime/exec/ordered_internal.h"
#include "runtime/runtime.h"

enum { ROOM = 1 << 16 };
static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_F16, TYPE_I32, TYPE_U8, TYPE_I64};

static uint64_t seed = 88172645463325252u;
static uint64_t next(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}
static int64_t below(int64_t n) { return (int64_t)(next() % (uint64_t)n); }

// Draws a small integer with many ties, a real number, or a number that may be NaN, infinite or -0.
static double number(Dtype t, int data) {
  static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0, -0.0, 1, -1, 2};
  double x = data == 0 ? (double)(below(7) - 3) : (double)below(2000001) / 1000 - 1000;
  if (!dtype_is_float(t)) return dtype_round(t, t == TYPE_U8 ? fabs(x) : x * (data ? 1e6 : 1));
  if (data == 2) return below(3) ? odd[below((int64_t)countof(odd))] : dtype_round(t, x);
  return dtype_round(t, x);
}

// -- the reference ------------------------------------------------------------------------------

static double wrap(Dtype t, double x) {
  if (t == TYPE_I32) return (double)(int32_t)(uint32_t)(uint64_t)(int64_t)x;
  return t == TYPE_U8 ? (double)(uint8_t)(uint64_t)(int64_t)x : x;
}

static void naive_sum(const Ordered *w, int64_t n, const double *x, double *y) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) {
    int64_t i = w->flags & ORDER_REVERSE ? n - 1 - k : k;
    double before = sum;
    sum = dtype_is_float(w->type) ? sum + x[i]
                                  : wrap(w->type, sum + x[i]); // floats are summed in f64
    y[i] = dtype_is_float(w->type) ? dtype_round(w->type, w->flags & ORDER_EXCLUSIVE ? before : sum)
           : w->flags & ORDER_EXCLUSIVE ? before
                                        : sum;
  }
}

static void naive_product(const Ordered *w, int64_t n, const double *x, double *y) {
  bool real = dtype_is_float(w->type), exclusive = w->flags & ORDER_EXCLUSIVE;
  double product = 1;
  uint64_t bits = 1; // of an integer, modulo 2^64
  for (int64_t k = 0; k < n; k++) {
    int64_t i = w->flags & ORDER_REVERSE ? n - 1 - k : k;
    double old = product;
    uint64_t old_bits = bits;
    product *= x[i];
    if (!real) bits *= (uint64_t)(int64_t)x[i];
    int64_t put = (int64_t)(exclusive ? old_bits : bits);
    y[i] = real                  ? dtype_round(w->type, exclusive ? old : product)
           : w->type == TYPE_I32 ? (double)(int32_t)put
           : w->type == TYPE_U8  ? (double)(uint8_t)put
                                 : (double)put;
  }
}

static void naive_max(const Ordered *w, int64_t n, const double *x, double *y, bool place) {
  int64_t best = -1;
  for (int64_t k = 0; k < n; k++) {
    int64_t i = w->flags & ORDER_REVERSE ? n - 1 - k : k;
    if (best < 0 || (!isnan(x[best]) && (isnan(x[i]) || x[i] > x[best]))) best = i;
    y[i] = place ? (double)best : x[best];
  }
}

// Returns true if element i is ordered before j.
static bool before(const double *x, bool descending, int64_t i, int64_t j) {
  bool less = x[i] < x[j] || (isnan(x[j]) && !isnan(x[i])),
       more = x[j] < x[i] || (isnan(x[i]) && !isnan(x[j]));
  if (less || more) return descending ? more : less;
  return i < j;
}

static void naive_sort(const Ordered *w, int64_t n, const double *x, double *y) {
  bool top = w->kind == ORDERED_TOP_K;
  for (int64_t i = 0; i < n; i++) {
    int64_t rank = 0;
    for (int64_t j = 0; j < n; j++) rank += before(x, top || w->flags & ORDER_DESCENDING, j, i);
    if (!top || rank < w->k) y[rank] = (double)i;
  }
  for (int64_t i = n; top && i < w->k; i++) y[i] = 0;
}

static void naive(const Ordered *w, int64_t n, const double *x, double *y) {
  switch (w->kind) {
  case ORDERED_CUMSUM: naive_sum(w, n, x, y); break;
  case ORDERED_CUMPROD: naive_product(w, n, x, y); break;
  case ORDERED_CUMMAX: naive_max(w, n, x, y, false); break;
  case ORDERED_CUM_INDEX: naive_max(w, n, x, y, true); break;
  case ORDERED_ARGSORT:
  case ORDERED_TOP_K: naive_sort(w, n, x, y); break;
  }
}

// -- random cases -------------------------------------------------------------------------------

// A case: dims in a random memory order with gaps, one of them ordered, the others rows.
typedef struct Case {
  Ordered w;
  BoundOrdered b;
  int64_t m; // elements of the result along the dim
} Case;

static void random_case(Case *c, OrderedKind kind, Dtype t) {
  static const int64_t lengths[] = {1, 2, 5, 17, 31, 33, 70, 300, 0};
  *c = (Case){.w = {.kind = kind, .type = t}};
  int64_t n = lengths[below((int64_t)countof(lengths))];
  if (kind <= ORDERED_CUMMAX + 1) c->w.flags = below(2) ? ORDER_REVERSE : 0;
  if (kind <= ORDERED_CUMPROD && below(2)) c->w.flags |= ORDER_EXCLUSIVE;
  if (kind == ORDERED_ARGSORT && below(2)) c->w.flags = ORDER_DESCENDING;
  c->w.k = kind == ORDERED_TOP_K ? 1 + below(n < 2 ? 2 : n) : 0;
  c->m = kind == ORDERED_TOP_K ? c->w.k : n;
  c->w.nrows = (uint8_t)below(4);
  int place =
      (int)below(c->w.nrows + 1); // loops from slow to fast, the ordered dim before row `place`
  int64_t src = 1 + below(2), dst = 1 + below(2);
  c->b = (BoundOrdered){.n = n, .rows = 1};
  for (int i = c->w.nrows; i >= 0; i--) {
    if (i == place) {
      c->w.src_step = src, c->w.dst_step = dst;
      src *= n ? n : 1, dst *= c->m ? c->m : 1;
    }
    if (i == 0) break;
    int64_t count = 1 + below(i == c->w.nrows ? 90 : 4);
    c->w.row[i - 1].src = src, c->w.row[i - 1].dst = dst;
    c->b.count[i - 1] = count;
    c->b.rows *= count;
    src *= count, dst *= count;
  }
}

static int64_t offset(const Case *c, int64_t row, bool src) {
  int64_t at = 0;
  for (int i = c->w.nrows - 1; i >= 0; i--) {
    int64_t k = row % c->b.count[i];
    at += k * (src ? c->w.row[i].src : c->w.row[i].dst);
    row /= c->b.count[i];
  }
  return at;
}

static void check_row(const Case *c, Dtype out, const char *src, const char *dst, int64_t row) {
  double x[300], want[302];
  int64_t s = offset(c, row, true), d = offset(c, row, false);
  for (int64_t i = 0; i < c->b.n; i++)
    x[i] = dtype_load(c->w.type, src + (s + i * c->w.src_step) * dtype_bytes(c->w.type));
  naive(&c->w, c->b.n, x, want);
  for (int64_t i = 0; i < c->m; i++) {
    double got = dtype_load(out, dst + (d + i * c->w.dst_step) * dtype_bytes(out));
    if (got == want[i] || (isnan(got) && isnan(want[i]))) continue;
    fail_msg("kind %d type %s n %lld row %lld at %lld: %g is not %g", (int)c->w.kind,
             dtype_text(c->w.type), (long long)c->b.n, (long long)row, (long long)i, got, want[i]);
  }
}

static void check_case(OrderedKind kind, Dtype t, int data, char *src, char *dst, char *scratch) {
  Case c;
  do random_case(&c, kind, t);
  while (c.b.rows * (c.b.n + c.m + 1) * 4 * 8 > ROOM * 8);
  c.b.what = &c.w;
  c.b.src = src;
  c.b.dst = dst;
  for (int64_t i = 0; i < ROOM; i++) dtype_store(t, src + i * dtype_bytes(t), number(t, data));
  int64_t cut = below(c.b.rows + 1), unit = ordered_unit(&c.b);
  cut = cut / unit * unit;
  ordered_run(&c.b, cut, c.b.rows, scratch);
  ordered_run(&c.b, 0, cut, scratch);
  Dtype out = kind <= ORDERED_CUMMAX ? t : TYPE_I32;
  for (int64_t row = 0; row < c.b.rows && (c.b.n > 0 || kind == ORDERED_TOP_K); row++)
    if (c.b.n > 0) check_row(&c, out, src, dst, row);
}

static void random_strides(void **state) {
  (void)state;
  char *src = malloc((size_t)ROOM * 8), *dst = malloc((size_t)ROOM * 8);
  char *scratch = malloc(2 * 300 * ORDERED_ENTRY);
  for (int kind = ORDERED_CUMSUM; kind <= ORDERED_TOP_K; kind++)
    for (size_t t = 0; t < countof(types); t++)
      for (int data = 0; data < 3; data++)
        for (int i = 0; i < 25; i++)
          check_case((OrderedKind)kind, types[t], data, src, dst, scratch);
  free(src);
  free(dst);
  free(scratch);
}

// The sorted indices of many elements are a permutation and in order.
static void long_rows(void **state) {
  (void)state;
  enum { N = 200000 };
  double *x = malloc(sizeof *x * N);
  int32_t *at = malloc(sizeof *at * N);
  Ordered w = {.kind = ORDERED_ARGSORT, .type = TYPE_F64, .src_step = 1, .dst_step = 1};
  BoundOrdered b = {.what = &w, .src = (char *)x, .dst = (char *)at, .n = N, .rows = 1};
  void *scratch = malloc((size_t)2 * N * ORDERED_ENTRY);
  for (int i = 0; i < N; i++) x[i] = i % 3 ? number(TYPE_F64, 1) : (double)(i % 100);
  ordered_run(&b, 0, 1, scratch);
  for (int i = 1; i < N; i++) assert_true(before(x, false, at[i - 1], at[i]));
  free(x);
  free(at);
  free(scratch);
}

// -- a program ----------------------------------------------------------------------------------

// A program y[b, t] = argsort over t of x[b, t], whose rows are divided among `threads` workers.
static void sort_program(int threads) {
  enum { B = 40, T = 1000 };
  Mesh mesh = {0};
  ProgTensor tensor[2] = {{.kind = TENSOR_INPUT,
                           .name = "x",
                           .type = TYPE_F32,
                           .rank = 2,
                           .bytes = B * T * 4,
                           .at = {.tensor = -1},
                           .of = -1},
                          {.kind = TENSOR_OUTPUT,
                           .name = "y",
                           .type = TYPE_I32,
                           .rank = 2,
                           .bytes = B * T * 4,
                           .at = {.tensor = -1, .offset = B * T * 4},
                           .of = -1}};
  for (int i = 0; i < 2; i++) {
    tensor[i].dim[0] = (ProgDim){"b", B, B, {0}, -1};
    tensor[i].dim[1] = (ProgDim){"t", T, T, {0}, -1};
    tensor[i].declared[1] = 1;
  }
  Instr in = {.kind = INSTR_ORDERED};
  in.u.ordered = (Ordered){.kind = ORDERED_ARGSORT,
                           .type = TYPE_F32,
                           .n = {T, -1},
                           .src_step = 1,
                           .dst_step = 1,
                           .nrows = 1,
                           .src = tensor[0].at,
                           .dst = tensor[1].at};
  in.u.ordered.row[0].count = (Size){B, -1};
  in.u.ordered.row[0].src = in.u.ordered.row[0].dst = T;
  Program p = {.model = "sort",
               .for_ = "run",
               .mesh = mesh,
               .arena_bytes = 2 * B * T * 4,
               .ntensors = 2,
               .tensor = tensor,
               .ninstrs = 1,
               .instr = &in};
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  Exec *e = exec_new(&p, &(ExecOptions){.threads = threads}, d);
  assert_non_null(e);
  float *x = arena_array(a, float, B *T);
  int32_t *y = arena_array(a, int32_t, B * T);
  for (int i = 0; i < B * T; i++) x[i] = (float)below(500);
  exec_write(e, TENSOR_INPUT, "x", TYPE_F32, x);
  assert_int_equal(exec_step(e, 0, true), STEP_OK);
  exec_read(e, TENSOR_OUTPUT, "y", y);
  for (int b = 0; b < B; b++)
    for (int t = 1; t < T; t++) {
      int32_t i = y[b * T + t - 1], j = y[b * T + t];
      float u = x[b * T + i], v = x[b * T + j];
      assert_true(u < v || (u == v && i < j));
    }
  exec_free(e);
  arena_free(a);
}

static void programs(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) sort_program(threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_strides), cmocka_unit_test(long_rows),
                                     cmocka_unit_test(programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
