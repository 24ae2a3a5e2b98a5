// Tests loops: evaluation, gradients against finite differences (forward, reversed, nested,
// rematerialised, second order), hoisting, what loops collect, dead carries, and the text of graphs
// with loops.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/eval/eval.h"

enum { T = 4, K = 3, S = 2 };
typedef struct World {
  Arena *a;
  Graph *g;
  DimId t, k, j, s; // k is as long as j
  EvalFeed feed[8];
  double data[8][64];
  uint32_t nfeeds;
} World;

static void begin(World *w) {
  static const Mesh mesh = {0};
  memset(w, 0, sizeof *w);
  w->a = arena_new();
  DimTable *dims = dim_table_new(w->a, intern_new(w->a));
  w->g = graph_new(w->a, dims, &mesh, STAGE_GRAPH);
  w->t = dim_add(dims, "t", T, (Pos){0});
  w->k = dim_add(dims, "k", K, (Pos){0});
  w->j = dim_add(dims, "j", K, (Pos){0});
  w->s = dim_add(dims, "s", S, (Pos){0});
}

// Returns an f64 parameter whose numbers are distinct from all others.
static NodeId param(World *w, const char *name, int rank, const DimId *dims) {
  Decl d = {.kind = DECL_PARAM, .name = name, .type = TYPE_F64, .rank = (uint8_t)rank};
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dim_get(w->g->dims, d.dims[i] = dims[i])->size;
  double *x = w->data[w->nfeeds];
  for (int64_t i = 0; i < n; i++) x[i] = sin(1.7 * (double)(i + 1) + 3.1 * w->nfeeds) * 0.8;
  DeclId id = graph_decl(w->g, &d);
  w->feed[w->nfeeds++] = (EvalFeed){id, x, n};
  return graph_decl_node(w->g, id);
}

static NodeId at(World *w, RegionId r, NodeId x) {
  DimId t = region_get(w->g, r)->t;
  return graph_add(w->g, OP_AT, 1, &x, &(Attr){.ndims = 1, .dims = &t, .region = r});
}

static NodeId carry(World *w, RegionId r, uint32_t number, NodeId start) {
  return graph_add(w->g, OP_CARRY, 1, &start, &(Attr){.region = r, .carry = number});
}

static NodeId scan(World *w, RegionId r, int n, const NodeId *next) {
  return graph_add(w->g, OP_SCAN, n, next, &(Attr){.region = r});
}

static NodeId final(World *w, NodeId loop, NodeId x) {
  return graph_add(w->g, OP_FINAL, 2, (NodeId[]){loop, x}, NULL);
}

static NodeId collect(World *w, NodeId loop, NodeId x) {
  DimId t = region_get(w->g, graph_node(w->g, loop)->attr->region)->t;
  return graph_add(w->g, OP_COLLECT, 2, (NodeId[]){loop, x}, &(Attr){.ndims = 1, .dims = &t});
}

static NodeId sum_all(World *w, NodeId x) {
  Dims all = *graph_node(w->g, x)->dims;
  return graph_reduce(w->g, OP_SUM, x, &all);
}

static NodeId square_sum(World *w, NodeId x) {
  return sum_all(w, graph_binary(w->g, OP_MUL, x, x));
}

// Returns the sum over k of x[k] u[j, k], renamed to a value over k.
static NodeId times(World *w, NodeId x, NodeId u) {
  NodeId y = graph_add(w->g, OP_CONTRACT, 2, (NodeId[]){x, u},
                       &(Attr){.type = TYPE_F64, .ndims = 1, .dims = &w->k});
  return graph_add(w->g, OP_RENAME, 1, &y,
                   &(Attr){.ndims = 1, .dims = &w->j, .nto = 1, .to = &w->k});
}

static double value(World *w, NodeId n, int64_t i) {
  char why[200];
  if (!graph_verify(w->g, why)) fail_msg("%s", why);
  return eval_at(eval_run(w->a, w->g, w->nfeeds, w->feed, 0), n, 0)->value[i];
}

// Compares the gradient of `loss` by every parameter with central differences: on the graph itself,
// after simplification and after hoisting.
static void check_gradient(World *w, NodeId loss) {
  NodeId by[8] = {0}, d[8];
  uint32_t n = w->nfeeds;
  for (uint32_t i = 0; i < n; i++) by[i] = graph_decl_node(w->g, w->feed[i].decl);
  graph_gradients(w->g, loss, (int)n, by, d);
  for (uint32_t i = 0; i < n; i++) {
    Output o = {.kind = OUT_VALUE, .name = "d", .value = d[i]};
    vec_push(w->a, w->g->output) = o;
  }
  const Graph *stages[4] = {w->g, graph_prune(w->a, w->g, STAGE_GRAD, NULL)};
  stages[2] = graph_simplify(w->a, stages[1]);
  stages[3] = graph_simplify(w->a, graph_hoist(w->a, stages[1]));
  for (int s = 0; s < 4; s++) {
    graph_check(stages[s], "test");
    const Eval *e = eval_run(w->a, stages[s], n, w->feed, 0);
    for (uint32_t i = 0; i < n; i++)
      for (int64_t k = 0; k < w->feed[i].n; k++) {
        double *x = &w->data[i][k], old = *x, h = 1e-5;
        *x = old + h;
        double up = value(w, loss, 0);
        *x = old - h;
        double down = value(w, loss, 0);
        *x = old;
        double want = (up - down) / (2 * h),
               got =
                   eval_at(e, stages[s]->output.at[stages[s]->output.n - n + i].value, 0)->value[k];
        if (fabs(want - got) > 1e-7 * (1 + fabs(want)))
          fail_msg("stage %d, parameter %u[%d]: %.12g is not %.12g", s, i, (int)k, got, want);
      }
  }
}

// h' = tanh(sum[k](h u) + x_t) * c', c' = c + h. The loss has the mean of all h and the last c.
static NodeId recurrence(World *w, bool reverse, bool recompute) {
  NodeId x = param(w, "x", 2, (DimId[]){w->t, w->k}), u = param(w, "u", 2, (DimId[]){w->k, w->j}),
         h0 = param(w, "h0", 1, &w->k), c0 = param(w, "c0", 1, &w->k);
  RegionId r = graph_region(w->g, &(Region){.t = w->t, .reverse = reverse, .recompute = recompute});
  NodeId h = carry(w, r, 0, h0), c = carry(w, r, 1, c0);
  NodeId sum = graph_binary(w->g, OP_ADD, times(w, h, u), at(w, r, x));
  NodeId c1 = graph_binary(w->g, OP_ADD, c, h);
  NodeId h1 = graph_binary(w->g, OP_MUL, graph_unary(w->g, OP_TANH, sum), c1);
  NodeId y = times(w, h1, u); // the carry does not depend on it
  NodeId loop = scan(w, r, 2, (NodeId[]){h1, c1});
  NodeId ys = collect(w, loop, y), hs = collect(w, loop, h1);
  NodeId parts = graph_binary(w->g, OP_ADD, square_sum(w, ys), sum_all(w, hs));
  return graph_binary(w->g, OP_ADD, parts, square_sum(w, final(w, loop, c)));
}

static void values(void **state) {
  (void)state;
  for (int reverse = 0; reverse < 2; reverse++) {
    World w;
    begin(&w);
    NodeId x = param(&w, "x", 1, &w.t), h0 = param(&w, "h0", 0, NULL);
    RegionId r = graph_region(w.g, &(Region){.t = w.t, .reverse = reverse});
    NodeId a = carry(&w, r, 0, h0), b = carry(&w, r, 1, h0);
    NodeId next = graph_binary(w.g, OP_ADD, graph_binary(w.g, OP_MUL, a, b), at(&w, r, x));
    NodeId loop = scan(&w, r, 2, (NodeId[]){next, a}); // b is the a of the previous step
    NodeId all = collect(&w, loop, b), last = final(&w, loop, a);
    double pa = w.data[1][0], pb = pa, seen[T];
    for (int i = 0; i < T; i++) {
      int t = reverse ? T - 1 - i : i;
      seen[t] = pb;
      double n = pa * pb + w.data[0][t];
      pb = pa;
      pa = n;
    }
    for (int t = 0; t < T; t++) assert_float_equal(value(&w, all, t), seen[t], 1e-15);
    assert_float_equal(value(&w, last, 0), pa, 1e-15);
    arena_free(w.a);
  }
}

static void gradients(void **state) {
  (void)state;
  for (int form = 0; form < 4; form++) {
    World w;
    begin(&w);
    check_gradient(&w, recurrence(&w, form & 1, form & 2));
    arena_free(w.a);
  }
}

// The loss is the sum of squares of a gradient.
static void second_order(void **state) {
  (void)state;
  for (int form = 0; form < 4; form++) {
    World w;
    begin(&w);
    NodeId loss = recurrence(&w, form & 1, form & 2), by[2], d[2];
    for (uint32_t i = 0; i < 2; i++) by[i] = graph_decl_node(w.g, w.feed[i].decl);
    graph_gradients(w.g, loss, 2, by, d);
    check_gradient(&w, graph_binary(w.g, OP_ADD, square_sum(&w, d[0]), square_sum(&w, d[1])));
    arena_free(w.a);
  }
}

// An inner loop over s whose carry starts from the outer carry. It reads x[t, s] at both positions.
static NodeId nested(World *w, bool outer_again, bool inner_again) {
  NodeId x = param(w, "x", 3, (DimId[]){w->t, w->s, w->k}),
         u = param(w, "u", 2, (DimId[]){w->k, w->j}), h0 = param(w, "h0", 1, &w->k);
  RegionId r = graph_region(w->g, &(Region){.t = w->t, .recompute = outer_again});
  RegionId q = graph_region(
      w->g, &(Region){.parent = r, .t = w->s, .reverse = true, .recompute = inner_again});
  NodeId h = carry(w, r, 0, h0), inner = carry(w, q, 0, h);
  NodeId sum = graph_binary(w->g, OP_ADD, times(w, inner, u), at(w, q, at(w, r, x)));
  NodeId next =
      graph_binary(w->g, OP_MUL, graph_unary(w->g, OP_TANH, sum), graph_unary(w->g, OP_EXP, h));
  NodeId loop = scan(w, q, 1, &next);
  NodeId seen = collect(w, loop, next), last = final(w, loop, inner);
  NodeId total = graph_reduce(w->g, OP_SUM, graph_binary(w->g, OP_MUL, seen, seen),
                              &(Dims){.n = 1, .at = {w->s}});
  NodeId h1 = graph_binary(w->g, OP_ADD, last, graph_binary(w->g, OP_MUL, h, total));
  NodeId outer = scan(w, r, 1, &h1);
  return graph_binary(w->g, OP_ADD, square_sum(w, final(w, outer, h)),
                      sum_all(w, collect(w, outer, total)));
}

static void nested_gradients(void **state) {
  (void)state;
  for (int form = 0; form < 4; form++) {
    World w;
    begin(&w);
    check_gradient(&w, nested(&w, form & 1, form & 2));
    arena_free(w.a);
  }
}

static void nested_second_order(void **state) {
  (void)state;
  for (int form = 0; form < 4; form++) {
    World w;
    begin(&w);
    NodeId loss = nested(&w, form & 1, form & 2), by = graph_decl_node(w.g, w.feed[1].decl), d;
    graph_gradients(w.g, loss, 1, &by, &d);
    check_gradient(&w, square_sum(&w, d));
    arena_free(w.a);
  }
}

// Gradients inside a loop body, by a carry and by a value that has the loop's dim: one step of
// gradient descent for each t.
static void inside(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = param(&w, "x", 2, (DimId[]){w.t, w.k}), h0 = param(&w, "h0", 1, &w.k);
  RegionId r = graph_region(w.g, &(Region){.t = w.t});
  NodeId h = carry(&w, r, 0, h0), xt = at(&w, r, x), by[3] = {h, x, h0}, d[3];
  NodeId loss = sum_all(&w, graph_binary(w.g, OP_MUL, graph_binary(w.g, OP_MUL, h, h), xt));
  graph_gradients(w.g, loss, 3, by, d);
  NodeId of_x =
      graph_reduce(w.g, OP_SUM, d[1], &(Dims){.n = 1, .at = {w.t}}); // h^2, at the current t
  NodeId step = graph_binary(w.g, OP_MUL, graph_binary(w.g, OP_MUL, d[0], of_x),
                             graph_const(w.g, TYPE_F64, 0.1));
  NodeId next = graph_binary(w.g, OP_SUB, h, step);
  next = graph_binary(w.g, OP_ADD, next, d[2]); // zero: within a step, h0 does not reach the carry
  NodeId last = final(&w, scan(&w, r, 1, &next), h);
  double v = w.data[1][0];
  for (int t = 0; t < T; t++) v -= 0.1 * 2 * v * w.data[0][t * K] * v * v;
  assert_float_equal(value(&w, last, 0), v, 1e-12);
  check_gradient(&w, square_sum(&w, last));
  arena_free(w.a);
}

static uint32_t count_in(const Graph *g, Op op, bool loops) {
  uint32_t n = 0;
  for (NodeId i = 1; i <= graph_count(g); i++)
    n += graph_node(g, i)->op == op && (graph_node(g, i)->region != 0) == loops;
  return n;
}

// Two products of h and u remain in the loop and in its reverse; all others are hoisted.
static void hoisted(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = param(&w, "x", 2, (DimId[]){w.t, w.k}), u = param(&w, "u", 2, (DimId[]){w.k, w.j}),
         v = param(&w, "v", 2, (DimId[]){w.k, w.j}), h0 = param(&w, "h0", 1, &w.k),
         by[3] = {u, v, x};
  RegionId r = graph_region(w.g, &(Region){.t = w.t});
  NodeId h = carry(&w, r, 0, h0);
  NodeId sum = graph_binary(w.g, OP_ADD, times(&w, h, u), times(&w, at(&w, r, x), v));
  NodeId next = graph_unary(w.g, OP_TANH, sum);
  NodeId loss = square_sum(&w, times(&w, final(&w, scan(&w, r, 1, &next), h), v));
  NodeId d[3];
  graph_gradients(w.g, loss, 3, by, d);
  for (int i = 0; i < 3; i++) {
    Output o = {.kind = OUT_VALUE, .name = "d", .value = d[i]};
    vec_push(w.a, w.g->output) = o;
  }
  const Graph *g = graph_simplify(w.a, graph_hoist(w.a, graph_prune(w.a, w.g, STAGE_GRAD, NULL)));
  assert_int_equal(count_in(g, OP_CONTRACT, true), 2);
  assert_int_equal(count_in(g, OP_SCAN, false), 2);
  arena_free(w.a);
}

// A loop that is rematerialised collects the argument of products that leave it, not the two values
// from which the argument follows: their own sums over all steps become carries.
static void collected_once(void **state) {
  (void)state;
  enum { PRODUCTS = 3 };
  World w;
  begin(&w);
  NodeId x = param(&w, "x", 2, (DimId[]){w.t, w.k}), h0 = param(&w, "h0", 1, &w.k);
  RegionId r = graph_region(w.g, &(Region){.t = w.t, .recompute = true});
  NodeId h = carry(&w, r, 0, h0), seen[2 + PRODUCTS];
  seen[0] = graph_unary(w.g, OP_TANH, graph_binary(w.g, OP_ADD, h, at(&w, r, x)));
  seen[1] = graph_unary(w.g, OP_EXP, h);
  NodeId next = graph_binary(w.g, OP_MUL, seen[0], seen[1]),
         read = graph_binary(w.g, OP_SUB, seen[0], seen[1]);
  for (int i = 0; i < PRODUCTS; i++) {
    NodeId factor = param(&w, (const char *[]){"a", "b", "c"}[i], 1, &w.t);
    seen[2 + i] = graph_add(w.g, OP_CONTRACT, 2, (NodeId[]){at(&w, r, factor), read},
                            &(Attr){.type = TYPE_F64});
  }
  NodeId loop = scan(&w, r, 1, &next);
  for (int i = 0; i < 2 + PRODUCTS; i++) {
    NodeId sum = graph_reduce(w.g, OP_SUM, collect(&w, loop, seen[i]), &(Dims){1, {w.t}});
    vec_push(w.a, w.g->output) = (Output){.kind = OUT_VALUE, .name = "sum", .value = sum};
  }
  const Graph *g = graph_hoist(w.a, graph_prune(w.a, w.g, STAGE_GRAD, NULL));
  graph_check(g, "test");
  assert_int_equal(count_in(g, OP_CONTRACT, true), 0);
  assert_int_equal(count_in(g, OP_COLLECT, false), 1);
  const Eval *e = eval_run(w.a, g, w.nfeeds, w.feed, 0);
  for (uint32_t i = 0; i < 2 + PRODUCTS; i++)
    assert_float_equal(eval_at(e, g->output.at[i].value, 0)->value[0],
                       value(&w, w.g->output.at[i].value, 0), 1e-12);
  arena_free(w.a);
}

// A carry that is read only by itself is removed; the others keep their order.
static void dead_carries(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = param(&w, "x", 1, &w.t), h0 = param(&w, "h0", 0, NULL);
  RegionId r = graph_region(w.g, &(Region){.t = w.t});
  NodeId a = carry(&w, r, 0, h0), b = carry(&w, r, 1, h0), c = carry(&w, r, 2, h0);
  NodeId next[3] = {graph_binary(w.g, OP_MUL, a, a), graph_binary(w.g, OP_ADD, b, at(&w, r, x)),
                    graph_binary(w.g, OP_ADD, c, b)};
  NodeId last = final(&w, scan(&w, r, 3, next), c);
  Output o = {.kind = OUT_VALUE, .name = "c", .value = last};
  vec_push(w.a, w.g->output) = o;
  const Graph *g = graph_prune(w.a, w.g, STAGE_GRAD, NULL);
  graph_check(g, "test");
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (graph_node(g, n)->op == OP_SCAN) assert_int_equal(graph_node(g, n)->nargs, 2);
  double want = value(&w, last, 0);
  assert_float_equal(
      eval_at(eval_run(w.a, g, w.nfeeds, w.feed, 0), g->output.at[0].value, 0)->value[0], want, 0);
  arena_free(w.a);
}

// Each loop of a graph has an id of its own, however many there are.
static void many_loops(void **state) {
  (void)state;
  enum { LOOPS = 65540 };
  World w;
  begin(&w);
  NodeId x = param(&w, "x", 1, &w.t), y = x;
  for (uint32_t i = 1; i <= LOOPS; i++) {
    RegionId r = graph_region(w.g, &(Region){.t = w.t});
    assert_int_equal(r, i);
    NodeId own = at(&w, r, y);
    assert_int_equal(graph_node(w.g, own)->region, i);
    y = collect(&w, scan(&w, r, 0, NULL), own);
  }
  char why[200];
  assert_true(graph_verify(w.g, why));
  arena_free(w.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values),
      cmocka_unit_test(gradients),
      cmocka_unit_test(second_order),
      cmocka_unit_test(nested_gradients),
      cmocka_unit_test(nested_second_order),
      cmocka_unit_test(inside),
      cmocka_unit_test(hoisted),
      cmocka_unit_test(collected_once),
      cmocka_unit_test(dead_carries),
      cmocka_unit_test(many_loops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
