// Tests gradients: known derivatives, kinks and ties, second derivatives, and the origins of the
// new nodes. tests/suite/ops.c compares every op with finite differences.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/eval/eval.h"

typedef struct World {
  Arena *a;
  DimTable *dims;
  Graph *g;
  EvalFeed feed[8];
  uint32_t nfeeds;
} World;

static void begin(World *w) {
  static const Mesh mesh = {0};
  memset(w, 0, sizeof *w);
  w->a = arena_new();
  w->dims = dim_table_new(w->a, intern_new(w->a));
  w->g = graph_new(w->a, w->dims, &mesh, STAGE_GRAPH);
}

static DimId dim(World *w, const char *name, int64_t size) {
  return dim_add(w->dims, name, size, (Pos){0});
}

static NodeId param(World *w, const char *name, Dtype t, Dims dims, int64_t n, const double *x) {
  Decl d = {.kind = DECL_PARAM, .name = name, .type = t, .rank = dims.n};
  memcpy(d.dims, dims.at, sizeof d.dims);
  DeclId id = graph_decl(w->g, &d);
  w->feed[w->nfeeds++] = (EvalFeed){id, x, n};
  return graph_decl_node(w->g, id);
}

static NodeId sum_all(World *w, NodeId x) {
  Dims all = *graph_node(w->g, x)->dims;
  return graph_reduce(w->g, OP_SUM, x, &all);
}

static NodeId gradient(World *w, NodeId loss, NodeId by) {
  NodeId out;
  graph_gradients(w->g, loss, 1, &by, &out);
  return out;
}

static const Tensor *eval(World *w, NodeId n) {
  return eval_at(eval_run(w->a, w->g, w->nfeeds, w->feed, 0), n, 0);
}

static void expect(World *w, NodeId n, int64_t count, const double *want) {
  const Tensor *t = eval(w, n);
  assert_int_equal(t->elements, count);
  for (int64_t i = 0; i < count; i++)
    if (!(fabs(t->value[i] - want[i]) <= 1e-9))
      fail_msg("[%d] %.12g, not %.12g", (int)i, t->value[i], want[i]);
}

static void test_power(void **state) {
  (void)state;
  World w;
  begin(&w);
  const double x0 = 2;
  NodeId x = param(&w, "x", TYPE_F64, (Dims){0}, 1, &x0);
  NodeId y = graph_binary(w.g, OP_POW, x, graph_const(w.g, TYPE_F64, 3));
  NodeId d1 = gradient(&w, y, x), d2 = gradient(&w, d1, x), d3 = gradient(&w, d2, x),
         d4 = gradient(&w, d3, x);
  const NodeId all[] = {y, d1, d2, d3, d4};
  const double want[] = {8, 12, 12, 6, 0};
  for (int i = 0; i < 5; i++) expect(&w, all[i], 1, &want[i]);
  expect(&w, gradient(&w, x, x), 1, &(double){1});
  arena_free(w.a);
}

typedef struct Kink {
  Op op;
  double x[4], want[4];
} Kink;
static const Kink kinks[] = {
    {OP_RELU, {-1, 0, 2, -0.0}, {0, 0, 1, 0}},
    {OP_ABS, {-1, 0, 2, -0.0}, {-1, 0, 1, 0}},
    {OP_MAX, {3, 1, 3, 3}, {1.0 / 3, 0, 1.0 / 3, 1.0 / 3}},
    {OP_MIN, {3, 1, 3, 1}, {0, 0.5, 0, 0.5}},
    {OP_PROD, {2, 3, -1, 4}, {-12, -8, 24, -6}},
    {OP_PROD, {2, 0, -1, 4}, {0, -8, 0, 0}},
    {OP_PROD, {2, 0, 0, 4}, {0, 0, 0, 0}},
    {OP_MEAN, {2, 0, 0, 4}, {0.25, 0.25, 0.25, 0.25}},
    {OP_L2_NORM, {3, 0, 0, -4}, {0.6, 0, 0, -0.8}},
    {OP_L2_NORM, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {OP_FLOOR, {0.5, 1, 2, 3}, {0, 0, 0, 0}},
    {OP_TRUNC, {-0.5, 1, 2, 3}, {0, 0, 0, 0}},
    {OP_STOP, {0.5, 1, 2, 3}, {0, 0, 0, 0}},
};

static void test_kinks(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(kinks); i++) {
    World w;
    begin(&w);
    Dims d = {.n = 1, .at = {dim(&w, "d", 4)}};
    NodeId x = param(&w, "x", TYPE_F64, d, 4, kinks[i].x);
    bool reduces = op_row(kinks[i].op)->cls == REDUCE;
    NodeId y = reduces ? graph_reduce(w.g, kinks[i].op, x, &d)
                       : sum_all(&w, graph_unary(w.g, kinks[i].op, x));
    expect(&w, gradient(&w, y, x), 4, kinks[i].want);
    arena_free(w.a);
  }
}

static void test_maximum_ties(void **state) {
  (void)state;
  World w;
  begin(&w);
  Dims d = {.n = 1, .at = {dim(&w, "d", 3)}};
  const double a[] = {1, 2, 3}, b[] = {2, 2, 2};
  NodeId x = param(&w, "a", TYPE_F64, d, 3, a), y = param(&w, "b", TYPE_F64, d, 3, b);
  NodeId most = sum_all(&w, graph_binary(w.g, OP_MAXIMUM, x, y));
  NodeId clip = sum_all(
      &w, graph_add(w.g, OP_CLIP, 3, (NodeId[]){x, graph_const(w.g, TYPE_F64, 1), y}, NULL));
  expect(&w, gradient(&w, most, x), 3, (double[]){0, 0.5, 1});
  expect(&w, gradient(&w, most, y), 3, (double[]){1, 0.5, 0});
  expect(&w, gradient(&w, clip, x), 3, (double[]){0, 0, 0});
  expect(&w, gradient(&w, clip, y), 3, (double[]){0, 0, 1});
  arena_free(w.a);
}

// y = sum[b] relu(x w + c): the backward pass has contractions for the products, and sums over the
// dims that were broadcast.
static void test_layer(void **state) {
  (void)state;
  World w;
  begin(&w);
  DimId b = dim(&w, "b", 2), k = dim(&w, "k", 2), h = dim(&w, "h", 2);
  const double x0[] = {1, 2, 3, 4}, w0[] = {1, -1, 0.5, 1}, c0[] = {0, -1};
  NodeId x = param(&w, "x", TYPE_F64, (Dims){2, {b, k}}, 4, x0),
         m = param(&w, "w", TYPE_F64, (Dims){2, {k, h}}, 4, w0);
  NodeId c = param(&w, "c", TYPE_F64, (Dims){1, {h}}, 2, c0);
  NodeId product = graph_add(w.g, OP_CONTRACT, 2, (NodeId[]){x, m},
                             &(Attr){.type = TYPE_F64, .ndims = 1, .dims = &k});
  NodeId hidden = graph_unary(w.g, OP_RELU, graph_binary(w.g, OP_ADD, product, c));
  NodeId by[] = {x, m, c}, out[3];
  graph_gradients(w.g, sum_all(&w, hidden), 3, by, out);
  // x w + c = {2, 0} {5, 0}: the second unit is at its kink
  expect(&w, out[0], 4, (double[]){1, 0.5, 1, 0.5});
  expect(&w, out[1], 4, (double[]){4, 0, 6, 0});
  expect(&w, out[2], 2, (double[]){2, 0});
  assert_int_equal(graph_node(w.g, out[1])->op, OP_CONTRACT);
  assert_int_equal(graph_node(w.g, out[2])->op, OP_SUM);
  arena_free(w.a);
}

// The gradients of several uses are added, also in second derivatives: f = sum (x * x + exp(x)),
// f'' = 2 + exp(x).
static void test_uses(void **state) {
  (void)state;
  World w;
  begin(&w);
  Dims d = {.n = 1, .at = {dim(&w, "d", 2)}};
  const double x0[] = {0, 1};
  NodeId x = param(&w, "x", TYPE_F64, d, 2, x0);
  NodeId f = sum_all(
      &w, graph_binary(w.g, OP_ADD, graph_binary(w.g, OP_MUL, x, x), graph_unary(w.g, OP_EXP, x)));
  NodeId d1 = gradient(&w, f, x), d2 = gradient(&w, sum_all(&w, d1), x);
  expect(&w, d1, 2, (double[]){1, 2 + exp(1)});
  expect(&w, d2, 2, (double[]){3, 2 + exp(1)});
  arena_free(w.a);
}

static void test_lookup(void **state) {
  (void)state;
  World w;
  begin(&w);
  DimId v = dim(&w, "v", 3), t = dim(&w, "t", 4);
  const double table0[] = {1, 2, 3}, ids0[] = {2, 0, 2, 2};
  NodeId table = param(&w, "table", TYPE_F64, (Dims){1, {v}}, 3, table0);
  NodeId ids = param(&w, "ids", TYPE_I32, (Dims){1, {t}}, 4, ids0);
  NodeId rows = graph_add(w.g, OP_TAKE, 2, (NodeId[]){table, ids}, &(Attr){.ndims = 1, .dims = &v});
  NodeId f = sum_all(&w, graph_binary(w.g, OP_MUL, rows, rows));
  NodeId d1 = gradient(&w, f, table);
  expect(&w, d1, 3, (double[]){2, 0, 18});
  expect(&w, gradient(&w, sum_all(&w, d1), table), 3, (double[]){2, 0, 6});
  arena_free(w.a);
}

static void test_independent(void **state) {
  (void)state;
  World w;
  begin(&w);
  Dims d = {.n = 1, .at = {dim(&w, "d", 2)}};
  const double x0[] = {1, 2};
  NodeId x = param(&w, "x", TYPE_F32, d, 2, x0), y = param(&w, "y", TYPE_BF16, d, 2, x0);
  NodeId through = graph_cast(w.g, graph_cast(w.g, x, TYPE_I32), TYPE_F32),
         loss = sum_all(&w, through);
  NodeId late = graph_unary(w.g, OP_EXP, x);
  NodeId by[] = {x, y, late}, out[3];
  graph_gradients(w.g, loss, 3, by, out);
  for (int i = 0; i < 3; i++) {
    expect(&w, out[i], 2, (double[]){0, 0});
    assert_int_equal(graph_node(w.g, out[i])->type, graph_node(w.g, by[i])->type);
  }
  arena_free(w.a);
}

// A weight in f32 that is cast to bf16 for a product: its gradient is computed in f32 without
// rounding.
static void test_mixed(void **state) {
  (void)state;
  World w;
  begin(&w);
  DimId b = dim(&w, "b", 2), k = dim(&w, "k", 2), h = dim(&w, "h", 2);
  const double x0[] = {1, 2, 3, 4};
  NodeId x = param(&w, "x", TYPE_BF16, (Dims){2, {b, k}}, 4, x0),
         m = param(&w, "w", TYPE_F32, (Dims){2, {k, h}}, 4, x0);
  NodeId args[] = {x, graph_cast(w.g, m, TYPE_BF16)};
  NodeId y =
      graph_add(w.g, OP_CONTRACT, 2, args, &(Attr){.type = TYPE_BF16, .ndims = 1, .dims = &k});
  NodeId loss = sum_all(&w, graph_cast(w.g, graph_unary(w.g, OP_TANH, y), TYPE_F32));
  const Node *n = graph_node(w.g, gradient(&w, loss, m));
  assert_int_equal(n->op, OP_CONTRACT);
  assert_int_equal(n->type, TYPE_F32);
  assert_int_equal(graph_node(w.g, n->args[0])->type, TYPE_BF16);
  arena_free(w.a);
}

static void test_origin(void **state) {
  (void)state;
  World w;
  begin(&w);
  const double x0 = 2;
  NodeId x = param(&w, "x", TYPE_F32, (Dims){0}, 1, &x0);
  w.g->origin =
      (Origin){.pos = {1, 7, 3, 2}, .value = "net.hidden", .why = "model", .composite = 5};
  NodeId y = graph_unary(w.g, OP_SIN, x);
  w.g->origin = (Origin){.why = "after"};
  uint32_t before = graph_count(w.g);
  gradient(&w, y, x);
  assert_string_equal(w.g->origin.why, "after");
  assert_false(w.g->origin.backward);
  bool found = false;
  for (NodeId n = before + 1; n <= graph_count(w.g); n++) {
    const Node *node = graph_node(w.g, n);
    assert_true(node->origin->backward);
    if (node->op != OP_COS) continue;
    found = true;
    assert_string_equal(node->origin->why, "grad of net.hidden through sin");
    assert_int_equal(node->origin->composite, 5);
    assert_int_equal(node->origin->pos.line, 7);
  }
  assert_true(found);
  arena_free(w.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_power),        cmocka_unit_test(test_kinks),
      cmocka_unit_test(test_maximum_ties), cmocka_unit_test(test_layer),
      cmocka_unit_test(test_uses),         cmocka_unit_test(test_lookup),
      cmocka_unit_test(test_mixed),        cmocka_unit_test(test_independent),
      cmocka_unit_test(test_origin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
