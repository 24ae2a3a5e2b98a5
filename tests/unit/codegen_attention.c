// Tests attention in blocks of rows: which graphs become loops, and how their memory grows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "codegen/codegen.h"

typedef struct World {
  Arena *a;
  Mesh mesh;
  Graph *g;
  DimId b, h, t, s, k;
  NodeId q, key, v;
  CodegenOptions opt;
} World;

static DimId dim(DimTable *dims, const char *name, int64_t size) {
  return dim_add(dims, name, size, (Pos){0});
}

static NodeId input(World *w, const char *name, int n, const DimId *dims) {
  Decl d = {.kind = DECL_INPUT, .name = name, .type = TYPE_F32, .rank = (uint8_t)n};
  memcpy(d.dims, dims, (size_t)n * sizeof *dims);
  return graph_decl_node(w->g, graph_decl(w->g, &d));
}

static void begin(World *w, int64_t rows, int64_t keys) {
  *w = (World){.a = arena_new(),
               .opt = {.fuse = true, .products = dtype_bit(TYPE_F32), .for_ = "run"}};
  DimTable *dims = dim_table_new(w->a, intern_new(w->a));
  w->b = dim(dims, "b", 2);
  w->h = dim(dims, "h", 4);
  w->t = dim(dims, "t", rows);
  w->s = dim(dims, "s", keys);
  w->k = dim(dims, "k", 64);
  w->g = graph_new(w->a, dims, &w->mesh, STAGE_COLLECT);
  w->q = input(w, "q", 4, (DimId[]){w->b, w->t, w->h, w->k});
  w->key = input(w, "key", 4, (DimId[]){w->b, w->s, w->h, w->k});
  w->v = input(w, "v", 4, (DimId[]){w->b, w->s, w->h, w->k});
}

static void output(World *w, const char *name, NodeId n) {
  Output o = {.kind = OUT_VALUE, .name = name, .value = n, .rank = graph_node(w->g, n)->dims->n};
  memcpy(o.dims, graph_node(w->g, n)->dims->at, sizeof o.dims);
  vec_push(w->a, w->g->output) = o;
}

static NodeId contract(World *w, NodeId x, NodeId y, DimId over) {
  return graph_add(w->g, OP_CONTRACT, 2, (NodeId[]){x, y},
                   &(Attr){.type = TYPE_F32, .ndims = 1, .dims = &over});
}

static NodeId softmax(World *w, NodeId x) {
  const Dims keys = {.n = 1, .at = {w->s}};
  NodeId e = graph_unary(w->g, OP_EXP,
                         graph_binary(w->g, OP_SUB, x, graph_reduce(w->g, OP_MAX, x, &keys)));
  return graph_binary(w->g, OP_DIV, e, graph_reduce(w->g, OP_SUM, e, &keys));
}

// Adds the attention to the graph. Returns its weights.
static NodeId attend(World *w) {
  NodeId p = softmax(w, contract(w, w->q, w->key, w->k));
  output(w, "o", contract(w, p, w->v, w->s));
  return p;
}

static const Graph *blocked(World *w) {
  const Graph *g = attention_blocked(w->a, w->g, &w->opt);
  char why[200];
  if (!graph_verify(g, why)) fail_msg("%s", why);
  return g;
}

static int64_t activations(World *w, const Graph *g) {
  Fusion *f = fuse(w->a, order_choose(w->a, g, &(StoreOptions){0}, false), NULL, &w->opt);
  return program_build(w->a, f, &w->opt)->activation_bytes;
}

// The most bytes that a node outside all loops has.
static int64_t largest(const Graph *g) {
  int64_t most = 0;
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (!graph_node(g, n)->region && node_bytes(g, n) > most) most = node_bytes(g, n);
  return most;
}

static void test_memory_is_linear(void **state) {
  (void)state;
  int64_t before = 0, before_stored = 0;
  for (int64_t rows = 1024; rows <= 4096; rows *= 2) {
    World w;
    begin(&w, rows, rows);
    attend(&w);
    int64_t bytes = activations(&w, blocked(&w)), stored = activations(&w, w.g);
    if (before && bytes > 2 * before + before / 4)
      fail_msg("%lld rows need %lld bytes, half of them %lld", (long long)rows, (long long)bytes,
               (long long)before);
    assert_true(!before || stored > 3 * before_stored);
    assert_true(rows < 4096 || stored > 4 * bytes);
    before = bytes;
    before_stored = stored;
    arena_free(w.a);
  }
}

static void test_loops(void **state) {
  (void)state;
  World w;
  begin(&w, 1024, 1100);
  attend(&w);
  const Graph *g = blocked(&w);
  assert_int_equal(g->region.n, 2);
  const Dim *batch = dim_get(g->dims, region_get(g, 1)->t);
  const Dim *blocks = dim_get(g->dims, region_get(g, 2)->t);
  assert_int_equal(batch->size, 8); // b and h
  assert_int_equal(blocks->size, 8);
  assert_true(batch->local && blocks->local);
  assert_true(largest(g) <= 4 * 2 * 4 * 1100 * 64);
  assert_int_equal(dim_count(dim_table_whole(w.a, g->dims)), 5);
  arena_free(w.a);
}

// With a causal mask a block needs the keys up to its last row only.
static void test_masked_keys(void **state) {
  (void)state;
  World w;
  begin(&w, 1024, 1024);
  w.opt.blocked_rows = 64;
  NodeId mask = graph_binary(w.g, OP_LE, graph_index(w.g, w.s), graph_index(w.g, w.t));
  NodeId none = graph_const(w.g, TYPE_F32, (double)-INFINITY);
  NodeId p = softmax(&w, graph_where(w.g, mask, contract(&w, w.q, w.key, w.k), none));
  output(&w, "o", contract(&w, p, w.v, w.s));
  const Graph *g = blocked(&w);
  const Dim *live = NULL;
  for (DimId d = 1; d <= dim_count(g->dims); d++)
    if (dim_get(g->dims, d)->live) live = dim_get(g->dims, d);
  assert_non_null(live);
  assert_int_equal(live->size, 1024);
  for (int64_t i = 0; i < dim_get(g->dims, live->by)->size; i++)
    assert_int_equal(live->live[i], 64 * (i + 1));
  Fusion *f = fuse(w.a, order_choose(w.a, g, &(StoreOptions){0}, false), NULL, &w.opt);
  const Program *made = program_build(w.a, f, &w.opt)->program;
  int32_t slot = -1;
  for (uint32_t i = 0; i < made->ninstrs && slot < 0; i++)
    slot = program_live_slot(made, &made->instr[i]);
  assert_true(slot >= 0);
  assert_int_equal(program_slot_in(made, slot, 0, -1, 3), 256);
  assert_int_equal(program_slot(made, slot, 0, -1), 544);
  arena_free(w.a);
}

static void test_small_scores_stay(void **state) {
  (void)state;
  World w;
  begin(&w, 128, 128);
  attend(&w);
  assert_ptr_equal(blocked(&w), w.g);
  w.opt.blocked_rows = 32;
  assert_int_equal(blocked(&w)->region.n, 2);
  arena_free(w.a);
}

static void test_scores_that_are_output_stay(void **state) {
  (void)state;
  World w;
  begin(&w, 1024, 1100);
  output(&w, "p", attend(&w));
  const Graph *g = blocked(&w);
  assert_int_equal(g->region.n, 0);
  bool said = false;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const char *why = graph_node(g, n)->origin->why;
    said |= why && strstr(why, "its scores are an output");
  }
  assert_true(said);
  arena_free(w.a);
}

static void test_rows_without_divisor_stay(void **state) {
  (void)state;
  World w;
  begin(&w, 1031, 1031);
  attend(&w);
  assert_int_equal(blocked(&w)->region.n, 0);
  arena_free(w.a);
}

static void test_classifier_is_no_attention(void **state) {
  (void)state;
  World w;
  begin(&w, 1024, 4096);
  DimId dims[] = {w.s, w.k};
  Decl d = {.kind = DECL_PARAM, .name = "head", .type = TYPE_F32, .rank = 2};
  memcpy(d.dims, dims, sizeof dims);
  NodeId head = graph_decl_node(w.g, graph_decl(w.g, &d));
  NodeId p = softmax(&w, contract(&w, w.q, head, w.k));
  output(&w, "o", contract(&w, p, head, w.s));
  assert_int_equal(blocked(&w)->region.n, 0);
  arena_free(w.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_is_linear),
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_masked_keys),
      cmocka_unit_test(test_small_scores_stay),
      cmocka_unit_test(test_scores_that_are_output_stay),
      cmocka_unit_test(test_rows_without_divisor_stay),
      cmocka_unit_test(test_classifier_is_no_attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
