// Tests collective nodes: their estimated costs, sharing of equal ones, and buckets.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "collectives/collectives.h"

typedef struct Model {
  Arena *a;
  Mesh mesh;
  DimTable *dims;
  Graph *g;
  DimId b, h, b_rows, h_rows, b_both;
} Model;

static const Axes rows = {.n = 1, .at = {0}}, cols = {.n = 1, .at = {1}};

static void start(Model *m) {
  memset(m, 0, sizeof *m);
  m->a = arena_new();
  Intern *names = intern_new(m->a);
  m->mesh = (Mesh){.naxes = 2,
                   .axis = {{.name = intern(names, "rows"), .size = 2},
                            {.name = intern(names, "cols"), .size = 2}}};
  m->dims = dim_table_new(m->a, names);
  m->g = graph_new(m->a, m->dims, &m->mesh, STAGE_LOWER);
  m->b = dim_add(m->dims, "b", 8, (Pos){0});
  m->h = dim_add(m->dims, "h", 8, (Pos){0});
  m->b_rows = dim_block(m->dims, &m->mesh, m->b, rows);
  m->h_rows = dim_block(m->dims, &m->mesh, m->h, rows);
  m->b_both = dim_block(m->dims, &m->mesh, m->b, (Axes){.n = 2, .at = {0, 1}});
}

static NodeId input(Model *m, const char *name, DimId b, DimId h) {
  Decl d = {.kind = DECL_INPUT, .name = name, .rank = 2, .dims = {m->b, m->h}};
  Dims dims = {0};
  assert_true(dims_add(m->dims, &dims, b) && dims_add(m->dims, &dims, h));
  return graph_decl_node_over(m->g, graph_decl(m->g, &d), &dims);
}

static NodeId convert(Model *m, Op op, NodeId x, Axes axes, DimId from, DimId to) {
  Attr t = {.axes = axes};
  if (from) t.ndims = t.nto = 1, t.dims = &from, t.to = &to;
  if (op == OP_ALL_REDUCE || op == OP_REDUCE_SCATTER) t.monoid = MONOID_SUM;
  return graph_add(m->g, op, 1, &x, &t);
}

static void output(Model *m, const char *name, NodeId n) {
  vec_push(m->a, m->g->output) = (Output){.kind = OUT_VALUE, .name = name, .value = n};
}

static Op shared_op(Model *m) {
  char why[200];
  Graph *g = collectives_share(m->a, m->g);
  if (!graph_verify(g, why)) fail_msg("%s", why);
  return (Op)graph_node(g, g->output.at[0].value)->op;
}

static void test_wire_bytes(void **state) {
  (void)state;
  assert_int_equal(coll_wire_bytes(COLL_ALL_REDUCE, 8, 2048), 3584);
  assert_int_equal(coll_wire_bytes(COLL_ALL_GATHER, 8, 2048), 1792);
  assert_int_equal(coll_wire_bytes(COLL_REDUCE_SCATTER, 4, 4), 3);
  assert_int_equal(coll_wire_bytes(COLL_ALL_REDUCE, 3, 4), 6); // 16/3 rounded up
  assert_int_equal(coll_wire_bytes(COLL_ALL_TO_ALL, 2, 100), 50);
  assert_int_equal(coll_wire_bytes(COLL_PERMUTE, 4, 100), 100);
  assert_int_equal(coll_wire_bytes(COLL_ALL_REDUCE, 1, 100), 0);
  assert_int_equal(coll_wire_bytes(COLL_ALL_REDUCE, 2, INT64_C(1) << 61), INT64_C(1) << 61);
}

static bool close_to(double x, double y) { return x > y * (1 - 1e-9) && x < y * (1 + 1e-9); }

static void test_seconds_by_axis(void **state) {
  (void)state;
  const Mesh mesh = {.naxes = 2,
                     .axis = {{.name = "rows", .size = 2}, {.name = "cols", .size = 4}}};
  const Axes both = {.n = 2, .at = {0, 1}};
  Machine m = machine_default();
  m.latency = 1e-6, m.bandwidth = 1e10;
  // both axes have the same link: one group of eight sends 7/8 of the bytes
  assert_true(close_to(coll_seconds(&m, &mesh, COLL_ALL_GATHER, both, 8000000), 1e-6 + 7e6 / 1e10));
  assert_true(
      close_to(coll_seconds(&m, &mesh, COLL_ALL_REDUCE, both, 8000000), 2e-6 + 14e6 / 1e10));
  m.naxes = 1;
  m.axis[0] = (AxisLink){"rows", {5e-6, 1e9}};
  // over cols as before; over rows at a tenth of the bandwidth
  assert_true(close_to(coll_seconds(&m, &mesh, COLL_ALL_GATHER, cols, 8000000), 1e-6 + 6e6 / 1e10));
  assert_true(close_to(coll_seconds(&m, &mesh, COLL_ALL_GATHER, rows, 8000000), 5e-6 + 4e6 / 1e9));
  // over both: reduce_scatter over cols (6/8), a quarter of the bytes over rows, all_gather over
  // cols
  assert_true(close_to(coll_seconds(&m, &mesh, COLL_ALL_REDUCE, both, 8000000),
                       12e-6 + 2 * (6e6 / 1e10 + 1e6 / 1e9)));
  // all_to_all sends half of the bytes to the other row, and 3/4 of the rest to other columns
  assert_true(close_to(coll_seconds(&m, &mesh, COLL_ALL_TO_ALL, both, 8000000),
                       6e-6 + 4e6 / 1e9 + 3e6 / 1e10));
  assert_true(close_to(coll_seconds(&m, &mesh, COLL_PERMUTE, both, 8000000), 6e-6 + 8e6 / 1e9));
  assert_true(close_to(coll_weight(&m, &mesh, COLL_ALL_GATHER, rows, 8000000), 4e7));
  assert_true(close_to(coll_weight(&m, &mesh, COLL_ALL_GATHER, cols, 8000000), 6e6));
  // an axis without bandwidth of its own has the machine's
  m.axis[0].link.bandwidth = -1;
  assert_true(close_to(coll_seconds(&m, &mesh, COLL_ALL_GATHER, both, 8000000), 6e-6 + 7e6 / 1e10));
}

static void test_inverse_pairs_vanish(void **state) {
  (void)state;
  Model m;
  start(&m);
  NodeId x = input(&m, "x", m.b_rows, m.h),
         whole = convert(&m, OP_ALL_GATHER, x, rows, m.b_rows, m.b);
  output(&m, "y", convert(&m, OP_SLICE_OWN, whole, rows, m.b, m.b_rows));
  assert_int_equal(shared_op(&m), OP_INPUT);
  arena_free(m.a);
  start(&m);
  x = input(&m, "x", m.b_rows, m.h);
  Attr there = {.axes = rows,
                .ndims = 2,
                .nto = 2,
                .dims = (DimId[]){m.b_rows, m.h},
                .to = (DimId[]){m.b, m.h_rows}};
  Attr back = {.axes = rows,
               .ndims = 2,
               .nto = 2,
               .dims = (DimId[]){m.h_rows, m.b},
               .to = (DimId[]){m.h, m.b_rows}};
  NodeId y = graph_add(m.g, OP_ALL_TO_ALL, 1, &x, &there);
  output(&m, "y", graph_add(m.g, OP_ALL_TO_ALL, 1, &y, &back));
  assert_int_equal(shared_op(&m), OP_INPUT);
  arena_free(m.a);
}

static void test_reductions_join(void **state) {
  (void)state;
  Model m;
  start(&m);
  NodeId x = input(&m, "x", m.b, m.h), once = convert(&m, OP_ALL_REDUCE, x, cols, 0, 0);
  output(&m, "y", convert(&m, OP_ALL_REDUCE, once, rows, 0, 0));
  Graph *g = collectives_share(m.a, m.g);
  assert_int_equal(graph_count(g), 2);
  assert_int_equal(graph_node(g, 2)->attr->axes.n, 2);
  assert_int_equal(graph_node(g, 2)->attr->axes.at[0], 0);
  arena_free(m.a);
  start(&m);
  x = input(&m, "x", m.b, m.h);
  output(&m, "y",
         convert(&m, OP_SLICE_OWN, convert(&m, OP_ALL_REDUCE, x, rows, 0, 0), rows, m.b, m.b_rows));
  assert_int_equal(shared_op(&m), OP_REDUCE_SCATTER);
  arena_free(m.a);
}

static void test_independent_reductions_pack(void **state) {
  (void)state;
  Model m;
  start(&m);
  Machine machine = machine_default();
  NodeId x = input(&m, "x", m.b, m.h), y = input(&m, "y", m.b, m.h), z = input(&m, "z", m.b, m.h);
  NodeId rx = convert(&m, OP_ALL_REDUCE, x, rows, 0, 0),
         ry = convert(&m, OP_ALL_REDUCE, y, rows, 0, 0);
  NodeId after = convert(&m, OP_ALL_REDUCE, graph_binary(m.g, OP_MUL, rx, z), rows, 0, 0);
  NodeId other = convert(&m, OP_ALL_REDUCE, z, cols, 0, 0);
  m.g->origin.backward = true;
  NodeId later = convert(&m, OP_ALL_REDUCE, graph_unary(m.g, OP_NEG, z), rows, 0, 0);
  Buckets *b = collectives_bucket(m.a, m.g, &machine);
  assert_int_equal(b->n, 4);
  assert_int_equal(b->of[rx], b->of[ry]);
  assert_int_not_equal(b->of[rx], b->of[after]);
  assert_int_not_equal(b->of[rx], b->of[other]);
  assert_int_not_equal(b->of[rx], b->of[later]);
  assert_true(b->of[rx] < b->of[after]);
  CollFacts *f = collectives_facts(m.a, m.g, b, &machine);
  assert_int_equal(f->fact[b->of[rx] - 1].bytes, 2 * 64 * 4);
  assert_int_equal(f->fact[b->of[rx] - 1].wire_bytes, 2 * 64 * 4);
  arena_free(m.a);
}

// a1 -> b1 and b2 -> a2: buckets {a1, a2} and {b1, b2} would depend on each other.
static void test_buckets_close_no_circle(void **state) {
  (void)state;
  Model m;
  start(&m);
  Machine machine = machine_default();
  NodeId x = input(&m, "x", m.b, m.h), y = input(&m, "y", m.b, m.h);
  NodeId a1 = convert(&m, OP_ALL_REDUCE, x, rows, 0, 0);
  NodeId b1 = convert(&m, OP_ALL_REDUCE, graph_unary(m.g, OP_TANH, a1), cols, 0, 0);
  NodeId b2 = convert(&m, OP_ALL_REDUCE, y, cols, 0, 0);
  NodeId a2 = convert(&m, OP_ALL_REDUCE, graph_unary(m.g, OP_TANH, b2), rows, 0, 0);
  Buckets *b = collectives_bucket(m.a, m.g, &machine);
  assert_int_equal(b->n, 3);
  assert_int_equal(b->of[b1], b->of[b2]);
  assert_true(b->of[a1] < b->of[b1] && b->of[b1] < b->of[a2]);
  arena_free(m.a);
}

// Gathers of activations for the backward pass, each longer than a call of a bucket may take, must
// not wait for one another on a machine that overlaps collectives with computation.
static void test_long_gathers_leave_apart(void **state) {
  (void)state;
  Model m;
  start(&m);
  Machine overlaps = machine_default(), blocks = overlaps;
  overlaps.overlap = 1;
  overlaps.latency = 1e-12;
  m.g->origin.backward = true;
  NodeId x = input(&m, "x", m.b_rows, m.h), y = input(&m, "y", m.b_rows, m.h);
  NodeId gx = convert(&m, OP_ALL_GATHER, x, rows, m.b_rows, m.b),
         gy = convert(&m, OP_ALL_GATHER, y, rows, m.b_rows, m.b);
  Buckets *b = collectives_bucket(m.a, m.g, &overlaps);
  assert_int_not_equal(b->of[gx], b->of[gy]);
  b = collectives_bucket(m.a, m.g, &blocks);
  assert_int_equal(b->of[gx], b->of[gy]);
  arena_free(m.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wire_bytes),
      cmocka_unit_test(test_seconds_by_axis),
      cmocka_unit_test(test_inverse_pairs_vanish),
      cmocka_unit_test(test_reductions_join),
      cmocka_unit_test(test_independent_reductions_pack),
      cmocka_unit_test(test_buckets_close_no_circle),
      cmocka_unit_test(test_long_gathers_leave_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
