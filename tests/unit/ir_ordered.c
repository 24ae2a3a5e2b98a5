// Tests ordered ops of the evaluator: known values, NaN and ties, and elements that are in doubt
// because of rounding.
#include "ir/eval/eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define NOT ((double)NAN)
#define INF ((double)INFINITY)
enum { N = 6 };

typedef struct Row {
  Op op;
  unsigned flags;
  Dtype type;
  double x[N], y[N];
} Row;

static const Tensor *run(Arena *a, const Row *row, const double *x, int64_t k, bool inexact) {
  DimTable *dims = dim_table_new(a, intern_new(a));
  Graph *g = graph_new(a, dims, &(Mesh){0}, STAGE_GRAPH);
  DimId t = dim_add(dims, "t", N, (Pos){0}), e = dim_add(dims, "e", k, (Pos){0});
  Decl decl = {.kind = DECL_INPUT, .name = "x", .type = row->type, .rank = 1, .dims = {t}};
  DeclId d = graph_decl(g, &decl);
  NodeId n = graph_decl_node(g, d);
  // the product with a number that is no power of two adds a rounding error
  if (inexact)
    n = graph_binary(g, OP_MUL, n, graph_const(g, row->type, dtype_round(row->type, 0.7)));
  Attr attr = {.ndims = 1, .dims = &t, .flags = row->flags};
  if (row->op == OP_TOP_K) attr.nto = 1, attr.to = &e;
  NodeId y = graph_add(g, row->op, 1, &n, &attr);
  EvalFeed *feed = arena_new_of(a, EvalFeed);
  *feed = (EvalFeed){d, x, N};
  return eval_at(eval_run(a, g, 1, feed, 0), y, 0);
}

static void values(void **state) {
  (void)state;
  static const Row rows[] = {
      {OP_CUMSUM, 0, TYPE_F32, {1, 2, 3, 4, 5, 6}, {1, 3, 6, 10, 15, 21}},
      {OP_CUMSUM, ORDER_EXCLUSIVE, TYPE_F32, {1, 2, 3, 4, 5, 6}, {0, 1, 3, 6, 10, 15}},
      {OP_CUMSUM, ORDER_REVERSE, TYPE_F32, {1, 2, 3, 4, 5, 6}, {21, 20, 18, 15, 11, 6}},
      {OP_CUMSUM,
       ORDER_REVERSE | ORDER_EXCLUSIVE,
       TYPE_F32,
       {1, 2, 3, 4, 5, 6},
       {20, 18, 15, 11, 6, 0}},
      {OP_CUMSUM,
       0,
       TYPE_I32,
       {0x7fffffff, 1, 0, 0, 0, 0},
       {0x7fffffff, -0x1p31, -0x1p31, -0x1p31, -0x1p31, -0x1p31}},
      {OP_CUMSUM, 0, TYPE_U8, {200, 100, 0, 0, 0, 1}, {200, 44, 44, 44, 44, 45}},
      {OP_CUMPROD, 0, TYPE_F32, {1, 2, -3, 0, 5, 6}, {1, 2, -6, 0, 0, 0}},
      {OP_CUMPROD, ORDER_EXCLUSIVE, TYPE_F32, {4, 2, -3, 0.5, 5, 6}, {1, 4, 8, -24, -12, -60}},
      {OP_CUMPROD, ORDER_REVERSE, TYPE_I32, {1, 2, -3, 1, 5, 6}, {-180, -180, -90, 30, 30, 6}},
      {OP_CUMPROD, 0, TYPE_U8, {16, 17, 1, 1, 1, 0}, {16, 16, 16, 16, 16, 0}},
      {OP_CUMMAX, 0, TYPE_F32, {1, 3, 2, NOT, 5, 3}, {1, 3, 3, NOT, NOT, NOT}},
      {OP_CUMMAX, 0, TYPE_F32, {-INF, -INF, 0, -1, INF, 3}, {-INF, -INF, 0, 0, INF, INF}},
      {OP_CUM_INDEX, 0, TYPE_F32, {1, 3, 3, NOT, NOT, 9}, {0, 1, 1, 3, 3, 3}},
      {OP_CUM_INDEX, ORDER_REVERSE, TYPE_I32, {4, 3, 3, 1, 2, 2}, {0, 2, 2, 5, 5, 5}},
      {OP_ARGSORT, 0, TYPE_F32, {2, NOT, 0, INF, -0.0, 2}, {2, 4, 0, 5, 3, 1}},
      {OP_ARGSORT, ORDER_DESCENDING, TYPE_F32, {2, NOT, 0, INF, -0.0, NOT}, {1, 5, 3, 0, 2, 4}},
      {OP_ARGSORT, 0, TYPE_I32, {3, -1, 3, 0, -1, 2}, {1, 4, 3, 5, 0, 2}},
      {OP_TOP_K, 0, TYPE_F32, {2, NOT, 0, INF, 2, 1}, {1, 3, 0, 4}},
      {OP_TOP_K, 0, TYPE_U8, {2, 255, 0, 255, 2, 1}, {1, 3, 0, 4}},
  };
  for (size_t i = 0; i < countof(rows); i++) {
    Arena *a = arena_new();
    const Tensor *y = run(a, &rows[i], rows[i].x, 4, false);
    for (int64_t k = 0; k < y->elements; k++) {
      bool same = y->value[k] == rows[i].y[k] || (isnan(y->value[k]) && isnan(rows[i].y[k]));
      if (!same || y->tainted[k] || y->bound[k] != 0)
        fail_msg("row %d at %d: %g is not %g (bound %g, tainted %d)", (int)i, (int)k, y->value[k],
                 rows[i].y[k], y->bound[k], y->tainted[k]);
    }
    arena_free(a);
  }
}

// Returns the tainted elements as a bit mask.
static unsigned doubtful(const Tensor *t) {
  unsigned bits = 0;
  for (int64_t i = 0; i < t->elements; i++) bits |= (unsigned)t->tainted[i] << i;
  return bits;
}

static void doubt(void **state) {
  (void)state;
  const double low = dtype_round(TYPE_F32, 0.9), near = low + 0x1p-24; // neighbouring f32 numbers
  static const struct {
    Op op;
    unsigned flags, bits;
  } rows[] = {
      {OP_ARGSORT, 0,
       0x06}, // 0 is first, then the two neighbours in unknown order (tainted), then 2, 3, 4
      {OP_ARGSORT, ORDER_DESCENDING, 0x18}, // the same positions from the end
      {OP_TOP_K, 0, 0x08},     // 4, 3, 2 are certain, the fourth is one of the neighbours
      {OP_CUM_INDEX, 0, 0x02}, // in doubt until 2 comes
      {OP_CUMMAX, 0, 0},       // the value is within its bound in any case
  };
  const double x[N] = {low, near, 2, 3, 0, 4};
  for (size_t i = 0; i < countof(rows); i++) {
    Arena *a = arena_new();
    Row row = {.op = rows[i].op, .flags = rows[i].flags, .type = TYPE_F32};
    assert_int_equal(doubtful(run(a, &row, x, 4, true)), rows[i].bits);
    assert_int_equal(doubtful(run(a, &row, x, 4, false)), 0);
    arena_free(a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(doubt)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
