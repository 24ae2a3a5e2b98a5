// Tests the evaluator: known values, ties and NaN; error bounds that hold for float code; elements
// whose value rounding decides; collectives of all processors in lockstep.
#include "ir/eval/eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define INF ((double)INFINITY)
#define NOT ((double)NAN)

typedef struct World {
  Arena *a;
  DimTable *dims;
  Mesh mesh;
  Graph *g;
  EvalFeed feed[8];
  uint32_t nfeeds;
} World;

static void begin(World *w, Stage stage, int naxes, const int64_t *axis) {
  static const char *const names[] = {"rows", "cols", "deep"};
  memset(w, 0, sizeof *w);
  w->a = arena_new();
  Intern *text = intern_new(w->a);
  w->dims = dim_table_new(w->a, text);
  w->mesh.naxes = (uint8_t)naxes;
  for (int i = 0; i < naxes; i++)
    w->mesh.axis[i] = (MeshAxis){.name = intern(text, names[i]), .size = axis[i]};
  w->g = graph_new(w->a, w->dims, &w->mesh, stage);
}

static void end(World *w) { arena_free(w->a); }

static DeclId input(World *w, const char *name, Dtype t, int rank, const DimId *d, int64_t n,
                    const double *x) {
  Decl decl = {.kind = DECL_INPUT, .name = name, .type = t, .rank = (uint8_t)rank};
  for (int i = 0; i < rank; i++) decl.dims[i] = d[i];
  DeclId id = graph_decl(w->g, &decl);
  w->feed[w->nfeeds++] = (EvalFeed){id, x, n};
  return id;
}

static NodeId vector(World *w, const char *name, Dtype t, DimId d, int64_t n, const double *x) {
  return graph_decl_node(w->g, input(w, name, t, 1, &d, n, x));
}

static Eval *run(World *w) { return eval_run(w->a, w->g, w->nfeeds, w->feed, 0); }

static NodeId reduce1(World *w, Op op, NodeId x, DimId d) {
  return graph_reduce(w->g, op, x, &(Dims){.n = 1, .at = {d}});
}

static double value(World *w, NodeId n, int64_t i) { return eval_at(run(w), n, 0)->value[i]; }
static double bound(World *w, NodeId n) { return eval_at(run(w), n, 0)->bound[0]; }
static bool doubtful(World *w, NodeId n) { return eval_at(run(w), n, 0)->tainted[0]; }

// -- values -------------------------------------------------------------------------------------

static void test_softmax(void **state) {
  (void)state;
  World w;
  begin(&w, STAGE_GRAPH, 0, NULL);
  DimId c = dim_add(w.dims, "c", 3, (Pos){0});
  const double x[] = {1000, 1001, 1002};
  NodeId v = vector(&w, "x", TYPE_F32, c, 3, x);
  NodeId p =
      graph_unary(w.g, OP_EXP, graph_binary(w.g, OP_SUB, v, reduce1(&w, OP_LOGSUMEXP, v, c)));
  assert_float_equal(value(&w, p, 0), 0.09003057317038046, 1e-12);
  assert_float_equal(value(&w, p, 2), 0.66524095577482183, 1e-12);
  assert_float_equal(value(&w, reduce1(&w, OP_SUM, p, c), 0), 1, 1e-12);
  end(&w);
}

typedef struct Extreme {
  Dtype type;
  double x[4], max, min;
  int argmax, argmin;
} Extreme;

static const Extreme extremes[] = {
    {TYPE_F32, {1, 3, 3, 1}, 3, 1, 1, 0},
    {TYPE_F64, {1, 3, 3, 1}, 3, 1, 1, 0},
    {TYPE_BF16, {2, -3, -3, 2}, 2, -3, 0, 1},
    {TYPE_F32, {1, NOT, 3, NOT}, NOT, NOT, 1, 1},
    {TYPE_F64, {1, NOT, 3, NOT}, NOT, NOT, 1, 1},
    {TYPE_F16, {INF, 1, NOT, -INF}, NOT, NOT, 2, 2},
    {TYPE_F32, {-INF, -INF, -INF, -INF}, -INF, -INF, 0, 0},
    {TYPE_F32, {-0.0, 0.0, -0.0, 0.0}, 0, 0, 0, 0},
    {TYPE_F64, {-0.0, 0.0, -0.0, 0.0}, 0, 0, 0, 0},
    {TYPE_F32, {-0x1p99, -2, 0x1p-140, 0}, 0x1p-140, -0x1p99, 2, 0},
    {TYPE_I32, {INT32_MIN, 5, INT32_MAX, INT32_MIN}, INT32_MAX, INT32_MIN, 2, 0},
    {TYPE_U8, {7, 255, 0, 0}, 255, 0, 1, 2},
    {TYPE_BOOL, {0, 1, 1, 0}, 1, 0, 1, 0},
};

static void same(double got, double want) {
  if (!isnan(want) || !isnan(got)) assert_true(got == want);
}

// Values are the same before and after expansion writes argmax as a maximum of keys.
static void test_extremes(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(extremes); i++) {
    const Extreme *e = &extremes[i];
    World w;
    begin(&w, STAGE_GRAPH, 0, NULL);
    DimId d = dim_add(w.dims, "d", 4, (Pos){0});
    NodeId x = vector(&w, "x", e->type, d, 4, e->x);
    const Op op[] = {OP_MAX, OP_MIN, OP_ARGMAX, OP_ARGMIN};
    const double want[] = {e->max, e->min, e->argmax, e->argmin};
    for (int k = 0; k < 4; k++)
      vec_push(w.a, w.g->output) = (Output){.name = "y", .value = reduce1(&w, op[k], x, d)};
    const Graph *stage[] = {w.g, graph_expand(w.a, w.g),
                            graph_simplify(w.a, graph_expand(w.a, w.g))};
    for (size_t s = 0; s < countof(stage); s++) {
      Eval *v = eval_run(w.a, stage[s], w.nfeeds, w.feed, 0);
      for (int k = 0; k < 4; k++) {
        const Tensor *y = eval_at(v, stage[s]->output.at[k].value, 0);
        same(y->value[0], want[k]);
        assert_false(y->tainted[0]);
      }
    }
    end(&w);
  }
}

typedef struct Scalar {
  Op op;
  Dtype type;
  double a, b, want;
} Scalar;

static const Scalar scalars[] = {
    {OP_ADD, TYPE_I32, INT32_MAX, 1, INT32_MIN},
    {OP_MUL, TYPE_I32, 123456789, 987654321, -67153019},
    {OP_ADD, TYPE_U8, 250, 10, 4},
    {OP_MOD, TYPE_I32, -7, 3, 2},
    {OP_MOD, TYPE_I32, 7, -3, -2},
    {OP_MOD, TYPE_F32, -7.5, 2, 0.5},
    {OP_FLOOR_DIV, TYPE_I32, -7, 2, -4},
    {OP_FLOOR_DIV, TYPE_I32, INT32_MIN, -1, INT32_MIN},
    {OP_FLOOR_DIV, TYPE_F32, -7.5, 2, -4},
    {OP_POW, TYPE_I32, -3, 3, -27},
    {OP_POW, TYPE_F32, NOT, 0, 1},
    {OP_MAXIMUM, TYPE_F32, NOT, 1, NOT},
    {OP_MAXIMUM, TYPE_F32, 1, NOT, NOT},
    {OP_MINIMUM, TYPE_F32, INF, -2, -2},
    {OP_DIV, TYPE_F32, 1, 0, INF},
    {OP_DIV, TYPE_F32, 0, 0, NOT},
    {OP_EQ, TYPE_F32, NOT, NOT, 0},
    {OP_NE, TYPE_F32, NOT, NOT, 1},
    {OP_LE, TYPE_F32, -0.0, 0, 1},
};

static void test_scalars(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(scalars); i++) {
    const Scalar *s = &scalars[i];
    World w;
    begin(&w, STAGE_GRAPH, 0, NULL);
    NodeId a = graph_decl_node(w.g, input(&w, "a", s->type, 0, NULL, 1, &s->a));
    NodeId b = graph_decl_node(w.g, input(&w, "b", s->type, 0, NULL, 1, &s->b));
    NodeId y = graph_binary(w.g, s->op, a, b);
    same(value(&w, y, 0), s->want);
    assert_false(doubtful(&w, y));
    assert_float_equal(bound(&w, y), 0, 1e-6);
    end(&w);
  }
}

static void test_casts(void **state) {
  (void)state;
  World w;
  begin(&w, STAGE_GRAPH, 0, NULL);
  DimId d = dim_add(w.dims, "d", 5, (Pos){0});
  const double x[] = {-1.9, 3e9, NOT, 257.7, 0};
  NodeId v = vector(&w, "x", TYPE_F32, d, 5, x);
  const double i32[] = {-1, INT32_MAX, 0, 257, 0}, u8[] = {0, 255, 0, 255, 0};
  for (int k = 0; k < 5; k++) {
    same(value(&w, graph_cast(w.g, v, TYPE_I32), k), i32[k]);
    same(value(&w, graph_cast(w.g, v, TYPE_U8), k), u8[k]);
  }
  end(&w);
}

// -- elements in doubt --------------------------------------------------------------------------

static void test_taint(void **state) {
  (void)state;
  World w;
  begin(&w, STAGE_GRAPH, 0, NULL);
  Graph *g = w.g;
  const double third = 1.0 / 3, one = 1;
  NodeId a = graph_decl_node(g, input(&w, "a", TYPE_F32, 0, NULL, 1, &third));
  NodeId b = graph_decl_node(g, input(&w, "b", TYPE_F32, 0, NULL, 1, &one));
  NodeId sum = graph_binary(g, OP_ADD, graph_binary(g, OP_ADD, a, a), a); // close to 1
  NodeId near = graph_binary(g, OP_LT, sum, b), sure = graph_binary(g, OP_LT, a, b);
  assert_true(doubtful(&w, near));
  assert_false(doubtful(&w, sure));
  assert_false(doubtful(&w, graph_binary(g, OP_EQ, b, b)));
  assert_true(doubtful(&w, graph_unary(g, OP_FLOOR, sum)));
  assert_false(doubtful(&w, graph_unary(g, OP_FLOOR, b)));
  assert_true(doubtful(&w, graph_where(g, near, a, b)));
  assert_false(doubtful(&w, graph_where(g, near, b, b)));
  assert_false(doubtful(
      &w, graph_binary(g, OP_AND, near,
                       graph_binary(g, OP_LT, b, a)))); // the second argument is false in any case
  assert_true(doubtful(&w, graph_binary(g, OP_OR, near, graph_binary(g, OP_LT, b, a))));
  assert_true(doubtful(&w, graph_unary(g, OP_SIGN, graph_binary(g, OP_SUB, sum, b))));
  end(&w);
}

static void test_argmax_doubt(void **state) {
  (void)state;
  World w;
  begin(&w, STAGE_GRAPH, 0, NULL);
  DimId d = dim_add(w.dims, "d", 3, (Pos){0});
  const double x[] = {0.1, 0.2, 0.3}, y[] = {0.2, 0.1, 0.5};
  NodeId a = vector(&w, "x", TYPE_F32, d, 3, x), b = vector(&w, "y", TYPE_F32, d, 3, y);
  NodeId tie = graph_binary(w.g, OP_MUL, a,
                            b); // the first two are equal up to rounding; the third is the largest
  vec_push(w.a, w.g->output) = (Output){.name = "max", .value = reduce1(&w, OP_ARGMAX, tie, d)};
  vec_push(w.a, w.g->output) = (Output){.name = "min", .value = reduce1(&w, OP_ARGMIN, tie, d)};
  const Graph *stage[] = {w.g, graph_expand(w.a, w.g)};
  for (int s = 0; s < 2; s++) {
    Eval *e = eval_run(w.a, stage[s], w.nfeeds, w.feed, 0);
    assert_false(eval_at(e, stage[s]->output.at[0].value, 0)->tainted[0]);
    assert_true(eval_at(e, stage[s]->output.at[1].value, 0)->tainted[0]);
  }
  end(&w);
}

static void test_exact_sums(void **state) {
  (void)state;
  World w;
  begin(&w, STAGE_GRAPH, 0, NULL);
  DimId d = dim_add(w.dims, "d", 4, (Pos){0});
  const double x[] = {1, -2, 3, 0.5}, y[] = {0.1, 2, 3, 4};
  NodeId a = vector(&w, "x", TYPE_F32, d, 4, x), b = vector(&w, "y", TYPE_F32, d, 4, y);
  Attr over = {.type = TYPE_F32, .ndims = 1, .dims = &d};
  NodeId aa = graph_add(w.g, OP_CONTRACT, 2, (NodeId[]){a, a}, &over);
  NodeId ab = graph_add(w.g, OP_CONTRACT, 2, (NodeId[]){a, b}, &over);
  assert_true(value(&w, aa, 0) == 14.25);
  assert_true(bound(&w, aa) == 0);
  assert_true(bound(&w, ab) > 0);
  assert_true(bound(&w, reduce1(&w, OP_SUM, a, d)) == 0);
  end(&w);
}

static void test_range(void **state) {
  (void)state;
  World w;
  begin(&w, STAGE_GRAPH, 0, NULL);
  DimId d = dim_add(w.dims, "d", 3, (Pos){0}), v = dim_add(w.dims, "v", 4, (Pos){0});
  const double ids[] = {0, 3, 4};
  NodeId x = vector(&w, "ids", TYPE_I32, d, 3, ids);
  NodeId y = graph_add(w.g, OP_BOUND, 1, &x, &(Attr){.ndims = 1, .dims = &v});
  Eval *e = run(&w);
  assert_true(e->out_of_range);
  assert_int_equal(e->out_of_range_node, y);
  assert_true(eval_at(e, y, 0)->value[2] == 3);
  end(&w);
}

// -- bounds: results of plain float code are inside ---------------------------------------------

enum { ROWS = 3, COLUMNS = 40, CELLS = ROWS * COLUMNS, STEPS = 24 };

typedef struct Naive {
  float at[CELLS]; // over a, b; constant along dims that the node lacks
} Naive;

static const Op naive_ops[] = {OP_ADD, OP_SUB,  OP_MUL,      OP_DIV, OP_MAXIMUM,
                               OP_EXP, OP_TANH, OP_SIGMOID,  OP_SIN, OP_RELU,
                               OP_SUM, OP_MAX,  OP_CONTRACT, OP_LOG, OP_SQRT};

static float naive_scalar(Op op, float x, float y) {
  switch ((int)op) {
  case OP_ADD: return x + y;
  case OP_SUB: return x - y;
  case OP_MUL: return x * y;
  case OP_DIV: return x / y;
  case OP_MAXIMUM: return x > y || x != x ? x : y;
  case OP_EXP: return expf(x);
  case OP_TANH: return tanhf(x);
  case OP_SIGMOID: return 1 / (1 + expf(-x));
  case OP_SIN: return sinf(x);
  case OP_RELU: return x < 0 ? 0 : x;
  case OP_LOG: return logf(x);
  case OP_SQRT: return sqrtf(x);
  }
  abort();
}

static void naive_rows(Op op, const Naive *x, const Naive *y, Naive *out) {
  for (int i = 0; i < ROWS; i++) {
    float sum = op == OP_MAX ? x->at[i * COLUMNS] : 0;
    for (int k = 0; k < COLUMNS; k++) {
      float v = x->at[i * COLUMNS + k];
      if (op == OP_SUM)
        sum += v;
      else if (op == OP_CONTRACT)
        sum += v * y->at[i * COLUMNS + k];
      else
        sum = v > sum || v != v ? v : sum;
    }
    for (int k = 0; k < COLUMNS; k++) out->at[i * COLUMNS + k] = sum;
  }
}

static void check_bounds(const Eval *e, NodeId n, const Naive *x, int64_t *looked) {
  const Tensor *t = eval_at(e, n, 0);
  for (int i = 0; i < CELLS; i++) {
    int64_t at = t->dims.n == 2 ? i : i / COLUMNS;
    double got = (double)x->at[i], want = t->value[at];
    if (t->tainted[at]) continue;
    ++*looked;
    if (!(got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= t->bound[at]))
      fail_msg("node %u %s [%d]: %.9g, not %.17g within %.3g", n,
               op_row((Op)graph_node(e->graph, n)->op)->text, i, got, want, t->bound[at]);
  }
}

static void test_bounds(void **state) {
  (void)state;
  int64_t looked = 0;
  for (unsigned seed = 1; seed <= 60; seed++) {
    World w;
    begin(&w, STAGE_GRAPH, 0, NULL);
    srand(seed);
    DimId d[] = {dim_add(w.dims, "a", ROWS, (Pos){0}), dim_add(w.dims, "b", COLUMNS, (Pos){0})};
    NodeId node[STEPS + 2];
    Naive *x = arena_array(w.a, Naive, STEPS + 2);
    double feed[2][CELLS];
    for (int k = 0; k < 2; k++) {
      for (int i = 0; i < CELLS; i++)
        feed[k][i] = (double)(x[k].at[i] = (float)rand() / (float)RAND_MAX * 4 - 1);
      node[k] = graph_decl_node(w.g, input(&w, k ? "y" : "x", TYPE_F32, 2, d, CELLS, feed[k]));
    }
    for (int s = 2; s < STEPS + 2; s++) {
      Op op = naive_ops[rand() % (int)countof(naive_ops)];
      int p = rand() % s, q = rand() % s;
      Dims over = {.n = 1, .at = {d[1]}};
      bool rows = op == OP_SUM || op == OP_MAX || op == OP_CONTRACT;
      bool two = dims_has(graph_node(w.g, node[p])->dims, d[1]) &&
                 dims_has(graph_node(w.g, node[q])->dims, d[1]);
      if (rows && !two) op = OP_ADD, rows = false;
      Attr attr = {.type = TYPE_F32, .ndims = rows, .dims = over.at};
      node[s] = graph_add(w.g, op, op_row(op)->nargs, (NodeId[]){node[p], node[q]}, &attr);
      if (rows) naive_rows(op, &x[p], &x[q], &x[s]);
      for (int i = 0; i < CELLS && !rows; i++)
        x[s].at[i] = naive_scalar(op, x[p].at[i], x[q].at[i]);
    }
    Eval *e = run(&w);
    for (int s = 2; s < STEPS + 2; s++) check_bounds(e, node[s], &x[s], &looked);
    end(&w);
  }
  assert_true(looked > 60 * STEPS * CELLS / 2);
}

// -- lockstep -----------------------------------------------------------------------------------

typedef struct Shape {
  int naxes;
  int64_t axis[2];
} Shape;
static const Shape shapes[] = {{1, {1, 0}}, {1, {2, 0}}, {1, {3, 0}}, {2, {2, 2}}, {2, {3, 2}}};

enum { A = 5, B = 7 };

// Checks that node n, put together from all processors, equals the whole input.
static void expect_input(World *w, const Eval *e, NodeId n, const DimId *d, const double *x) {
  bool agree = false;
  const Tensor *t = eval_full(w->a, e, n, 2, d, &agree);
  assert_true(agree);
  for (int i = 0; i < A * B; i++) assert_true(t->value[i] == x[i]);
}

typedef struct Mover {
  World w;
  DimId d[2], block[2]; // dims of the whole, and of blocks over all axes
  Axes all;
  double x[A * B];
  DeclId decl;
} Mover;

static void begin_mover(Mover *m, const Shape *s) {
  begin(&m->w, STAGE_LOWER, s->naxes, s->axis);
  m->d[0] = dim_add(m->w.dims, "a", A, (Pos){0});
  m->d[1] = dim_add(m->w.dims, "b", B, (Pos){0});
  m->all = (Axes){.n = (uint8_t)s->naxes, .at = {0, 1}};
  for (int i = 0; i < 2; i++) m->block[i] = dim_block(m->w.dims, &m->w.mesh, m->d[i], m->all);
  for (int i = 0; i < A * B; i++) m->x[i] = i * i % 23 - 11;
  m->decl = input(&m->w, "x", TYPE_F32, 2, m->d, A * B, m->x);
}

static NodeId source(Mover *m, DimId a, DimId b) {
  return graph_decl_node_over(m->w.g, m->decl, &(Dims){.n = 2, .at = {a, b}});
}

static NodeId move(Mover *m, Op op, NodeId x, int n, const DimId *from, const DimId *to,
                   Axes axes) {
  Attr attr = {.ndims = (uint8_t)n,
               .nto = (uint8_t)n,
               .dims = from,
               .to = to,
               .axes = axes,
               .monoid = MONOID_SUM};
  return graph_add(m->w.g, op, 1, &x, &attr);
}

static void test_moves(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(shapes); i++) {
    Mover m;
    begin_mover(&m, &shapes[i]);
    NodeId cut = source(&m, m.block[0], m.d[1]);
    NodeId gathered = move(&m, OP_ALL_GATHER, cut, 1, &m.block[0], &m.d[0], m.all);
    NodeId own = move(&m, OP_SLICE_OWN, gathered, 1, &m.d[1], &m.block[1], m.all);
    DimId from[] = {m.block[0], m.d[1]}, to[] = {m.d[0], m.block[1]};
    NodeId turned = move(&m, OP_ALL_TO_ALL, cut, 2, from, to, m.all);
    Axes first = {.n = 1, .at = {0}};
    DimId coarse = dim_block(m.w.dims, &m.w.mesh, m.d[0], first);
    NodeId permuted = move(&m, OP_PERMUTE, cut, 1, &m.block[0], &coarse, m.all);
    Eval *e = run(&m.w);
    NodeId all[] = {cut, gathered, own, turned, permuted};
    for (size_t k = 0; k < countof(all); k++) expect_input(&m.w, e, all[k], m.d, m.x);
    end(&m.w);
  }
}

static void test_nested_gather(void **state) {
  (void)state;
  for (size_t i = 3; i < countof(shapes); i++) {
    Mover m;
    begin_mover(&m, &shapes[i]);
    Axes inner = {.n = 1, .at = {1}}, outer = {.n = 1, .at = {0}};
    DimId half = dim_block(m.w.dims, &m.w.mesh, m.d[1], outer);
    NodeId cut = source(&m, m.d[0], m.block[1]);
    NodeId once = move(&m, OP_ALL_GATHER, cut, 1, &m.block[1], &half, inner);
    NodeId twice = move(&m, OP_ALL_GATHER, once, 1, &half, &m.d[1], outer);
    NodeId back = move(&m, OP_SLICE_OWN, once, 1, &half, &m.block[1], inner);
    Eval *e = run(&m.w);
    NodeId all[] = {cut, once, twice, back};
    for (size_t k = 0; k < countof(all); k++) expect_input(&m.w, e, all[k], m.d, m.x);
    end(&m.w);
  }
}

// Sums over a split dim are partial. all_reduce, or reduce_scatter and all_gather, make them
// complete.
static void test_reductions(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(shapes); i++) {
    Mover m;
    begin_mover(&m, &shapes[i]);
    World *w = &m.w;
    NodeId cut = source(&m, m.block[0], m.d[1]);
    NodeId partial = reduce1(w, OP_SUM, cut, m.block[0]),
           most = reduce1(w, OP_MAX, cut, m.block[0]);
    Attr sum = {.axes = m.all, .monoid = MONOID_SUM}, max = {.axes = m.all, .monoid = MONOID_MAX};
    NodeId total = graph_add(w->g, OP_ALL_REDUCE, 1, &partial, &sum);
    NodeId largest = graph_add(w->g, OP_ALL_REDUCE, 1, &most, &max);
    NodeId scattered = move(&m, OP_REDUCE_SCATTER, partial, 1, &m.d[1], &m.block[1], m.all);
    NodeId again = move(&m, OP_ALL_GATHER, scattered, 1, &m.block[1], &m.d[1], m.all);
    NodeId one = graph_add(w->g, OP_TO_PARTIAL, 1, &total, &sum);
    NodeId same_again = graph_add(w->g, OP_ALL_REDUCE, 1, &one, &sum);
    NodeId sums[] = {total, scattered, again, same_again};
    Eval *e = run(w);
    for (int b = 0; b < B; b++) {
      double want = 0, top = -INF;
      for (int a = 0; a < A; a++) {
        want += m.x[a * B + b];
        top = fmax(top, m.x[a * B + b]);
      }
      for (size_t k = 0; k < countof(sums); k++) {
        const Tensor *t = eval_full(w->a, e, sums[k], 0, NULL, NULL);
        assert_true(t->value[b] == want && t->bound[b] == 0);
      }
      assert_true(eval_full(w->a, e, largest, 0, NULL, NULL)->value[b] == top);
    }
    end(w);
  }
}

// argmax over a split dim: the maximum of keys over all processors is the first of equal elements,
// on every processor.
static void test_argmax_split(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(shapes); i++) {
    Mover m;
    begin_mover(&m, &shapes[i]);
    World *w = &m.w;
    for (int k = 0; k < A * B; k++) m.x[k] = k % B == 2 ? NOT : (k / B) % 2;
    NodeId cut = source(&m, m.block[0], m.d[1]);
    NodeId key = graph_binary(w->g, OP_ARG_KEY, cut, graph_index(w->g, m.block[0]));
    NodeId best = reduce1(w, OP_MAX, key, m.block[0]);
    best = graph_add(w->g, OP_ALL_REDUCE, 1, &best, &(Attr){.axes = m.all, .monoid = MONOID_MAX});
    NodeId which = graph_unary(w->g, OP_KEY_INDEX, best);
    bool agree;
    const Tensor *t = eval_full(w->a, run(w), which, 0, NULL, &agree);
    assert_true(agree);
    for (int b = 0; b < B; b++) assert_true(t->value[b] == (b == 2 ? 0 : 1) && !t->tainted[b]);
    end(w);
  }
}

static void test_replicas(void **state) {
  (void)state;
  Mover m;
  begin_mover(&m, &shapes[1]);
  World *w = &m.w;
  NodeId cut = source(&m, m.block[0], m.d[1]), partial = reduce1(w, OP_SUM, cut, m.block[0]);
  bool agree = true;
  eval_full(w->a, run(w), partial, 0, NULL, &agree); // partial sums differ between processors
  assert_false(agree);
  NodeId position = graph_index(w->g, m.block[0]);
  const Tensor *index = eval_full(w->a, run(w), position, 0, NULL, &agree);
  assert_true(agree);
  for (int i = 0; i < A; i++) assert_true(index->value[i] == i);
  end(w);
}

// Products whose result depends on the order of factors: 1e30 * 1e30 * 1e-30 may overflow, 0 * inf
// may be NaN.
static void test_unknown_products(void **state) {
  (void)state;
  World w;
  begin(&w, STAGE_GRAPH, 0, NULL);
  DimId c = dim_add(w.dims, "c", 3, (Pos){0});
  const struct {
    double x[3], y;
    bool unknown;
  } rows[] = {{{1e30, 1e30, 1e-30}, 1e30, true}, {{1e30, 1e30, 0}, 0, true},
              {{1e-30, 1e-30, INF}, INF, true},  {{1e30, 1e30, 2}, INF, false},
              {{1e30, 2, 0}, 0, false},          {{1e-3, 2, INF}, INF, false},
              {{0, INF, 1e30}, NOT, false},      {{1e-3, 7, 1e3}, 7, false}};
  for (size_t i = 0; i < countof(rows); i++) {
    char name[8] = {'x', (char)('0' + i)};
    NodeId p =
        reduce1(&w, OP_PROD, vector(&w, arena_text(w.a, name, 2), TYPE_F32, c, 3, rows[i].x), c);
    if (isnan(rows[i].y))
      assert_true(isnan(value(&w, p, 0)));
    else
      assert_true(value(&w, p, 0) == rows[i].y || fabs(value(&w, p, 0) / rows[i].y - 1) < 1e-6);
    assert_int_equal(doubtful(&w, p), rows[i].unknown);
  }
  end(&w);
}

// Random errors stay within the bound of one operation, are zero where nothing rounds, and are a
// single rounding for a cast; in a run that rounds, for every operation in bf16.
static void test_perturbed(void **state) {
  (void)state;
  World w;
  begin(&w, STAGE_GRAPH, 0, NULL);
  DimId c = dim_add(w.dims, "c", 3, (Pos){0});
  const double x[] = {1, 2, 3};
  NodeId v = vector(&w, "x", TYPE_F32, c, 3, x);
  NodeId sum = reduce1(&w, OP_SUM, v, c), third = graph_binary(w.g, OP_DIV, v, sum);
  NodeId narrow = graph_cast(w.g, graph_const(w.g, TYPE_F32, 0.1), TYPE_BF16);
  NodeId square = graph_binary(w.g, OP_MUL, narrow, narrow);
  NodeId best = reduce1(&w, OP_ARGMAX, third, c);
  const Eval *plain = run(&w);
  bool moved = false;
  for (uint64_t seed = 1; seed < 5; seed++) {
    Eval *e = eval_run_perturbed(w.a, w.g, w.nfeeds, w.feed, 0, seed, false);
    double off = fabs(eval_at(e, third, 0)->value[0] - eval_at(plain, third, 0)->value[0]);
    assert_true(off <= eval_at(plain, third, 0)->bound[0]);
    moved = moved || off > 0;
    assert_true(eval_at(e, sum, 0)->value[0] == 6 && eval_at(e, best, 0)->value[0] == 2);
    assert_true(eval_at(e, narrow, 0)->value[0] == dtype_round(TYPE_BF16, (double)0.1F));
    e = eval_run_perturbed(w.a, w.g, w.nfeeds, w.feed, 0, seed, true);
    assert_true(eval_at(e, square, 0)->value[0] == 0x1.48p-7); // of 0x1.4852p-7
  }
  assert_true(moved);
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unknown_products),
      cmocka_unit_test(test_perturbed),
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_casts),
      cmocka_unit_test(test_taint),
      cmocka_unit_test(test_argmax_doubt),
      cmocka_unit_test(test_exact_sums),
      cmocka_unit_test(test_range),
      cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_moves),
      cmocka_unit_test(test_nested_gather),
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_argmax_split),
      cmocka_unit_test(test_replicas),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
