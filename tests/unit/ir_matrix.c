// Tests operations on matrices in the evaluator: known values, bounds that cover what rounding can
// do, and taint where a matrix could be singular.
#include "ir/eval/eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { N = 3 };

typedef struct Case {
  Arena *a;
  Graph *g;
  DimId i, j, r;
  EvalFeed feed[2];
  uint32_t nfeeds;
} Case;

static Case case_new(void) {
  Arena *a = arena_new();
  DimTable *dims = dim_table_new(a, intern_new(a));
  Case c = {.a = a, .g = graph_new(a, dims, &(Mesh){0}, STAGE_GRAPH)};
  c.i = dim_add(dims, "i", N, (Pos){0});
  c.j = dim_add(dims, "j", N, (Pos){0});
  c.r = dim_add(dims, "r", 1, (Pos){0});
  return c;
}

static NodeId input(Case *c, Dtype type, DimId first, DimId second, const double *x) {
  Decl d = {.kind = DECL_INPUT, .name = "x", .type = type, .rank = 2, .dims = {first, second}};
  d.name = arena_printf(c->a, "x%u", c->nfeeds);
  DeclId id = graph_decl(c->g, &d);
  int64_t n = N * (int64_t)dim_get(c->g->dims, second)->size;
  c->feed[c->nfeeds++] = (EvalFeed){id, x, n};
  return graph_decl_node(c->g, id);
}

static const Tensor *result(Case *c, Op op, NodeId a, NodeId b) {
  Attr attr = {.ndims = 2, .dims = (DimId[]){c->i, c->j}};
  MatrixKind kind;
  DimId to[2];
  if (op_matrix(op, &kind) && matrix_rows[kind].result == MATRIX_STACK) {
    to[0] = dim_derived(c->g->dims, c->i, op_row(op)->text, matrix_stack(kind, N, N));
    to[1] = dim_twin(c->g->dims, c->i, "k");
    attr.nto = 2;
    attr.to = to;
  }
  NodeId y = graph_add(c->g, op, b ? 2 : 1, (NodeId[]){a, b}, &attr);
  return eval_at(eval_run(c->a, c->g, c->nfeeds, c->feed, 0), y, 0);
}

static void near(const Tensor *y, int64_t at, double want) {
  if (!(fabs(y->value[at] - want) <= 1e-12 * fabs(want) + y->bound[at]) || y->tainted[at])
    fail_msg("%lld: %.17g (bound %g) is not %.17g", (long long)at, y->value[at], y->bound[at],
             want);
}

static const double positive[N * N] = {4, 12, -16, 12, 37, -43, -16, -43, 98};
static const double negative[N * N] = {1, 2, 0, 2, 1, 0, 0, 0, 1};
static const double singular[N * N] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

static void values(void **state) {
  (void)state;
  const double l[N * N] = {2, 0, 0, 6, 1, 0, -8, 5, 3}, b[N] = {4, 12, -16};
  const Dtype types[] = {TYPE_F32, TYPE_F64};
  for (int t = 0; t < 2; t++) {
    Case c = case_new();
    NodeId a = input(&c, types[t], c.i, c.j, positive), x = input(&c, types[t], c.i, c.r, b);
    const Tensor *y = result(&c, OP_CHOLESKY, a, 0);
    for (int k = 0; k < N * N; k++) near(y, k, l[k]);
    assert_true(y->bound[1] == 0 && y->bound[0] > 0 && y->bound[0] < (t ? 1e-11 : 1e-5));
    y = result(&c, OP_SOLVE, a, x);
    for (int k = 0; k < N; k++) near(y, k, k == 0);
    near(result(&c, OP_DETERMINANT, a, 0), 0, 36);
    near(result(&c, OP_LOGDET, a, 0), 0, log(36));
    arena_free(c.a);
  }
}

// The matrix is a product that is rounded to f32. Its neighbours within the bound of that rounding
// must have results within the bounds of the result.
static void bounds(void **state) {
  (void)state;
  const Op ops[] = {OP_CHOLESKY, OP_SOLVE, OP_TRIANGULAR_SOLVE, OP_DETERMINANT, OP_LOGDET, OP_QR,
                    OP_EIGH,     OP_SVD};
  const double b[N] = {1, -2, 0.5}, factor = dtype_round(TYPE_F32, 1.1);
  for (int k = 0; k < N * N * (int)countof(ops); k++) {
    Op op = ops[k / (N * N)];
    double moved[N * N];
    for (int i = 0; i < N * N; i++) moved[i] = positive[i] * factor;
    moved[k % (N * N)] *= 1 + (k % 2 ? 1 : -1) * 0x1p-24;
    Case c = case_new(), d = case_new();
    NodeId x = input(&c, TYPE_F32, c.i, c.r, b), a = input(&c, TYPE_F32, c.i, c.j, positive);
    a = graph_binary(c.g, OP_MUL, a, graph_const(c.g, TYPE_F32, factor));
    const Tensor *y = result(&c, op, a, op_row(op)->nargs > 1 ? x : 0);
    x = input(&d, TYPE_F64, d.i, d.r, b);
    a = input(&d, TYPE_F64, d.i, d.j, moved);
    const Tensor *z = result(&d, op, a, op_row(op)->nargs > 1 ? x : 0);
    for (int64_t e = 0; e < y->elements; e++) {
      assert_false(y->tainted[e]);
      assert_true(fabs(y->value[e] - z->value[e]) <= y->bound[e] + z->bound[e]);
    }
    arena_free(c.a);
    arena_free(d.a);
  }
}

static void refused(void **state) {
  (void)state;
  Case c = case_new();
  const Tensor *y = result(&c, OP_CHOLESKY, input(&c, TYPE_F32, c.i, c.j, negative), 0);
  for (int k = 0; k < N * N; k++) assert_true(isnan(y->value[k]) && !y->tainted[k]);
  arena_free(c.a);
  c = case_new();
  NodeId a = input(&c, TYPE_F32, c.i, c.j, singular), b = input(&c, TYPE_F32, c.i, c.r, singular);
  assert_true(result(&c, OP_SOLVE, a, b)->tainted[0]);
  assert_true(result(&c, OP_LOGDET, a, 0)->tainted[0]);
  y = result(&c, OP_DETERMINANT, a, 0);
  assert_true(fabs(y->value[0]) <= y->bound[0] && !y->tainted[0] && y->bound[0] < 1e-9);
  arena_free(c.a);
}

// No factorisation is faster than a product of as many flops, and each column costs something.
static void times(void **state) {
  (void)state;
  for (int k = 0; k < MATRIX_KINDS; k++)
    for (double n = 1; n <= 512; n *= 2) {
      MatrixKind kind = (MatrixKind)k;
      assert_true(matrix_time(kind, n, n, 0) > matrix_flops(kind, n, n, 0));
      bool solves = matrix_rows[kind].result == MATRIX_SOLUTION;
      double column = matrix_time(kind, n, n, 2) - matrix_time(kind, n, n, 1);
      assert_true(solves == (column > 0));
      assert_true(!solves || column >= matrix_flops(kind, n, n, 2) - matrix_flops(kind, n, n, 1));
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(times), cmocka_unit_test(values),
                                     cmocka_unit_test(bounds), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
