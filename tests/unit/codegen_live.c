// Tests which blocks of products a mask leaves out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "codegen/codegen.h"

enum { ROWS = 128 };

typedef struct World {
  Arena *a;
  Mesh mesh;
  Graph *g;
  DimId t, s, k;
  NodeId q, key, v, below;
  CodegenOptions opt;
} World;

static NodeId input(World *w, const char *name, DimId x, DimId y) {
  Decl d = {.kind = DECL_INPUT, .name = name, .type = TYPE_F32, .rank = 2, .dims = {x, y}};
  return graph_decl_node(w->g, graph_decl(w->g, &d));
}

static int begin(void **state) {
  static World w;
  w = (World){.a = arena_new(),
              .opt = {.fuse = true, .products = dtype_bit(TYPE_F32), .for_ = "run"}};
  DimTable *dims = dim_table_new(w.a, intern_new(w.a));
  w.t = dim_add(dims, "t", ROWS, (Pos){0});
  w.s = dim_add(dims, "s", ROWS, (Pos){0});
  w.k = dim_add(dims, "k", 64, (Pos){0});
  w.g = graph_new(w.a, dims, &w.mesh, STAGE_COLLECT);
  w.q = input(&w, "q", w.t, w.k);
  w.key = input(&w, "key", w.s, w.k);
  w.v = input(&w, "v", w.s, w.k);
  w.below = graph_binary(w.g, OP_LE, graph_index(w.g, w.s), graph_index(w.g, w.t));
  *state = &w;
  return 0;
}

static int end(void **state) {
  arena_free(((World *)*state)->a);
  return 0;
}

static NodeId contract(World *w, NodeId x, NodeId y, DimId over) {
  return graph_add(w->g, OP_CONTRACT, 2, (NodeId[]){x, y},
                   &(Attr){.type = TYPE_F32, .ndims = 1, .dims = &over});
}

static NodeId number(World *w, double x) { return graph_const(w->g, TYPE_F32, x); }

static void output(World *w, NodeId n) {
  Output o = {.kind = OUT_VALUE, .name = "o", .value = n, .rank = graph_node(w->g, n)->dims->n};
  memcpy(o.dims, graph_node(w->g, n)->dims->at, sizeof o.dims);
  vec_push(w->a, w->g->output) = o;
}

static NodeId softmax(World *w, NodeId x) {
  const Dims keys = {.n = 1, .at = {w->s}};
  NodeId e = graph_unary(w->g, OP_EXP,
                         graph_binary(w->g, OP_SUB, x, graph_reduce(w->g, OP_MAX, x, &keys)));
  return graph_binary(w->g, OP_DIV, e, graph_reduce(w->g, OP_SUM, e, &keys));
}

// Returns product number `i` of the program of the graph.
static const Gemm *product(World *w, int i) {
  const Graph *g = live_select(w->a, w->g, &w->opt);
  Fusion *f = fuse(w->a, order_choose(w->a, g, &(StoreOptions){0}, false), NULL, &w->opt);
  const Program *p = program_build(w->a, f, &w->opt)->program;
  for (uint32_t k = 0; k < p->ninstrs; k++)
    if (p->instr[k].kind == INSTR_GEMM && i-- == 0) return &p->instr[k].u.gemm;
  fail_msg("the program has too few products");
  return NULL;
}

static NodeId scores(World *w) { return contract(w, w->q, w->key, w->k); }

static void test_causal(void **state) {
  World *w = *state;
  NodeId p = softmax(w, graph_where(w->g, w->below, scores(w), number(w, -(double)INFINITY)));
  output(w, contract(w, p, w->v, w->s));
  const Gemm *s = product(w, 0), *o = product(w, 1);
  assert_int_equal(s->npieces, 4);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(s->piece[i].from[0], 32 * i);
    assert_int_equal(s->piece[i].to[0], ROWS);
    assert_int_equal(s->piece[i].from[1], 32 * i);
    assert_int_equal(s->piece[i].to[1], 32 * (i + 1));
  }
  assert_true(gemm_has_gaps(s) && !gemm_has_gaps(o));
  assert_int_equal(o->npieces, 4);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(o->piece[i].from[0], 32 * i);
    assert_int_equal(o->piece[i].to[0], 32 * (i + 1));
    assert_int_equal(o->piece[i].from[2], 0);
    assert_int_equal(o->piece[i].to[2], 32 * (i + 1));
  }
  assert_true(fabs(gemm_share(o, ROWS, 64, ROWS) - 0.625) < 1e-9);
}

static void test_window(void **state) {
  World *w = *state;
  NodeId behind = graph_binary(w->g, OP_SUB, graph_index(w->g, w->t), graph_index(w->g, w->s));
  NodeId near = graph_binary(w->g, OP_LT, behind, graph_const(w->g, TYPE_I32, 20));
  NodeId mask = graph_binary(w->g, OP_AND, near, w->below);
  NodeId p = softmax(w, graph_where(w->g, mask, scores(w), number(w, -(double)INFINITY)));
  output(w, contract(w, p, w->v, w->s));
  const GemmPiece *last = &product(w, 1)->piece[3];
  assert_int_equal(last->from[2], 64); // 96 - 19 = 77 is in the grain from 64 on
  assert_int_equal(last->to[2], ROWS);
}

static void test_bias(void **state) {
  World *w = *state;
  NodeId bias = graph_where(w->g, w->below, number(w, 0), number(w, -(double)INFINITY));
  NodeId p = softmax(w, graph_binary(w->g, OP_ADD, scores(w), bias));
  output(w, contract(w, p, w->v, w->s));
  assert_int_equal(product(w, 0)->npieces, 4);
  assert_int_equal(product(w, 1)->npieces, 4);
}

// A number that is large but finite does not make weights 0 for certain.
static void test_finite_bias(void **state) {
  World *w = *state;
  NodeId bias = graph_where(w->g, w->below, number(w, 0), number(w, -1e9));
  NodeId p = softmax(w, graph_binary(w->g, OP_ADD, scores(w), bias));
  output(w, contract(w, p, w->v, w->s));
  assert_int_equal(product(w, 0)->npieces, 0);
  assert_int_equal(product(w, 1)->npieces, 0);
}

// Products that something else reads are computed as a whole.
static void test_scores_that_are_read(void **state) {
  World *w = *state;
  NodeId s = scores(w);
  output(w, s);
  NodeId p = softmax(w, graph_where(w->g, w->below, s, number(w, -(double)INFINITY)));
  output(w, contract(w, p, w->v, w->s));
  assert_int_equal(product(w, 0)->npieces, 0);
  assert_int_equal(product(w, 1)->npieces, 4);
}

// A product that is multiplied by weights, 0 where the mask is false, is selected by the mask. A
// mask of other weights must not select it.
static void test_select(void **state) {
  World *w = *state;
  NodeId above = graph_unary(w->g, OP_NOT, w->below);
  NodeId zero = number(w, 0), x = input(w, "x", w->t, w->s);
  output(w, graph_where(w->g, above, x, zero));
  output(w, graph_binary(w->g, OP_MUL, graph_where(w->g, w->below, x, zero), scores(w)));
  const Gemm *s = product(w, 0);
  assert_int_equal(s->npieces, 4);
  assert_int_equal(s->piece[1].from[0], 32);
  assert_int_equal(s->piece[1].to[1], 64);
}

// Rows without any key read one part of the keys, so that their result is written.
static void test_rows_without_keys(void **state) {
  World *w = *state;
  NodeId late = graph_binary(w->g, OP_LT, graph_const(w->g, TYPE_I32, 63), graph_index(w->g, w->t));
  NodeId mask = graph_binary(w->g, OP_AND, late, w->below);
  NodeId p = softmax(w, graph_where(w->g, mask, scores(w), number(w, -(double)INFINITY)));
  output(w, contract(w, p, w->v, w->s));
  const Gemm *o = product(w, 1);
  assert_int_equal(o->piece[0].from[2], 0);
  assert_int_equal(o->piece[0].to[2], 16);
}

// Adds s <= t for the indices of keys and rows after an operation with a number and a conversion.
static NodeId converted_order(World *w, Op op, double by, Dtype type) {
  NodeId n = graph_const(w->g, TYPE_I32, by),
         s = graph_cast(w->g, graph_binary(w->g, op, graph_index(w->g, w->s), n), type),
         t = graph_cast(w->g, graph_binary(w->g, op, graph_index(w->g, w->t), n), type);
  return graph_binary(w->g, OP_LE, s, t);
}

// Indices that a conversion makes equal hide no keys from one another.
static void test_saturated_indices(void **state) {
  World *w = *state;
  NodeId mask = converted_order(w, OP_MUL, 4, TYPE_U8);
  NodeId p = softmax(w, graph_where(w->g, mask, scores(w), number(w, -(double)INFINITY)));
  output(w, contract(w, p, w->v, w->s));
  // from row 64 on all numbers are 255
  assert_true(fabs(gemm_share(product(w, 1), ROWS, 64, ROWS) - 1) < 1e-9);
}

static void test_rounded_indices(void **state) {
  World *w = *state;
  NodeId mask = converted_order(w, OP_ADD, 256, TYPE_BF16);
  NodeId p = softmax(w, graph_where(w->g, mask, scores(w), number(w, -(double)INFINITY)));
  output(w, contract(w, p, w->v, w->s));
  assert_int_equal(product(w, 1)->piece[0].to[2], 48); // row 31 has 288, as key 32: 287 is rounded
}

// Indices that belong together by a quotient: 48 and 49 of them lie on both sides of a boundary.
static void test_quotients(void **state) {
  World *w = *state;
  NodeId n = number(w, 49), s = graph_cast(w->g, graph_index(w->g, w->s), TYPE_F32),
         t = graph_cast(w->g, graph_index(w->g, w->t), TYPE_F32), far = number(w, 18);
  s = graph_unary(w->g, OP_FLOOR,
                  graph_binary(w->g, OP_DIV, graph_binary(w->g, OP_ADD, s, far), n));
  t = graph_unary(w->g, OP_FLOOR,
                  graph_binary(w->g, OP_DIV, graph_binary(w->g, OP_ADD, t, far), n));
  NodeId p = softmax(w, graph_where(w->g, graph_binary(w->g, OP_LE, s, t), scores(w),
                                    number(w, -(double)INFINITY)));
  output(w, contract(w, p, w->v, w->s));
  assert_int_equal(product(w, 1)->piece[0].to[2], 80); // row 31 has 49 / 49, as keys up to 79
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_causal, begin, end),
      cmocka_unit_test_setup_teardown(test_window, begin, end),
      cmocka_unit_test_setup_teardown(test_bias, begin, end),
      cmocka_unit_test_setup_teardown(test_finite_bias, begin, end),
      cmocka_unit_test_setup_teardown(test_scores_that_are_read, begin, end),
      cmocka_unit_test_setup_teardown(test_select, begin, end),
      cmocka_unit_test_setup_teardown(test_rows_without_keys, begin, end),
      cmocka_unit_test_setup_teardown(test_saturated_indices, begin, end),
      cmocka_unit_test_setup_teardown(test_rounded_indices, begin, end),
      cmocka_unit_test_setup_teardown(test_quotients, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
