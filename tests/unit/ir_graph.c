// Tests graph building: equal nodes are merged, refusals have a reason, contractions take the
// cheapest path.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "ir/graph/graph.h"

typedef struct World {
  Arena *a;
  Mesh mesh;
  Graph *g;
  DimId b, d, h, o, k;
  NodeId x, w, ids; // f32[b, d], f32[d, h], i32[b]
} World;

static NodeId input(Graph *g, const char *name, Dtype type, int rank, DimId d0, DimId d1) {
  Decl d = {
      .kind = DECL_INPUT, .name = name, .type = type, .rank = (uint8_t)rank, .dims = {d0, d1}};
  return graph_decl_node(g, graph_decl(g, &d));
}

static World *world_new(void) {
  Arena *a = arena_new();
  World *w = arena_new_of(a, World);
  w->a = a;
  w->mesh = (Mesh){.naxes = 2, .axis = {{.name = "rows", .size = 2}, {.name = "cols", .size = 2}}};
  DimTable *t = dim_table_new(a, intern_new(a));
  w->g = graph_new(a, t, &w->mesh, STAGE_GRAPH);
  w->b = dim_add(t, "b", 8, (Pos){0});
  w->d = dim_add(t, "d", 6, (Pos){0});
  w->h = dim_add(t, "h", 16, (Pos){0});
  w->o = dim_add(t, "o", 2, (Pos){0});
  w->k = dim_add(t, "k", 3, (Pos){0});
  w->x = input(w->g, "x", TYPE_F32, 2, w->b, w->d);
  w->w = input(w->g, "w", TYPE_F32, 2, w->d, w->h);
  w->ids = input(w->g, "ids", TYPE_I32, 1, w->b, 0);
  return w;
}

static Dims dims_of(int n, DimId a, DimId b) { return (Dims){.n = (uint8_t)n, .at = {a, b}}; }

static const char *text_of(World *w, NodeId n) {
  const Node *node = graph_node(w->g, n);
  return arena_printf(w->a, "%s[%s]", dtype_text((Dtype)node->type),
                      dims_text(w->a, w->g->dims, node->dims));
}

static void equal_nodes_merge(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  NodeId sum = graph_binary(g, OP_ADD, w->x, w->w);
  g->origin = (Origin){.value = "later", .backward = true};
  assert_int_equal(graph_binary(g, OP_ADD, w->w, w->x), sum);
  assert_null(graph_node(g, sum)->origin->value); // the first origin is kept
  assert_int_not_equal(graph_binary(g, OP_SUB, w->w, w->x), graph_binary(g, OP_SUB, w->x, w->w));
  assert_string_equal(text_of(w, sum), "f32[b, d, h]");

  Dims db = dims_of(2, w->d, w->b), bd = dims_of(2, w->b, w->d);
  assert_int_equal(graph_reduce(g, OP_SUM, w->x, &db), graph_reduce(g, OP_SUM, w->x, &bd));
  assert_int_equal(graph_const(g, TYPE_F32, (double)NAN), graph_const(g, TYPE_F32, -(double)NAN));
  assert_int_not_equal(graph_const(g, TYPE_F32, 0.0), graph_const(g, TYPE_F32, -0.0));
  assert_int_not_equal(graph_const(g, TYPE_F32, 1), graph_const(g, TYPE_F64, 1));
  assert_int_equal(graph_const(g, TYPE_F32, 0.1), graph_const(g, TYPE_F32, (double)0.1f));
  char why[200];
  NodeId clone = graph_try(g, OP_ADD, 2, (NodeId[]){w->x, w->w}, NULL, 1, why);
  assert_int_not_equal(clone, sum);
  assert_true(graph_verify(g, why));
  arena_free(w->a);
}

// Returns the hash of the sum of x and y, over blocks of b and d that are made in this order.
static uint64_t hash_of_blocks(bool first_b, bool split_b, bool more) {
  World *w = world_new();
  DimTable *t = w->g->dims;
  Graph *g = graph_new(w->a, t, &w->mesh, STAGE_LOWER);
  Axes rows = {1, {0}}, cols = {1, {1}};
  Decl x = {.kind = DECL_INPUT, .name = "x", .rank = 2, .dims = {w->b, w->d}};
  if (!first_b) dim_block(t, &w->mesh, w->d, cols);
  DimId b = split_b ? dim_block(t, &w->mesh, w->b, rows) : w->b;
  Dims dims = dims_of(2, b, dim_block(t, &w->mesh, w->d, cols));
  NodeId node = graph_decl_node_over(g, graph_decl(g, &x), &dims);
  NodeId twice = graph_binary(g, more ? OP_MUL : OP_ADD, node, node);
  vec_push(w->a, g->output) = (Output){.kind = OUT_VALUE, .name = "y", .value = twice};
  uint64_t hash = graph_hash(g);
  arena_free(w->a);
  return hash;
}

static void equal_graphs_have_equal_hashes(void **state) {
  (void)state;
  uint64_t hash = hash_of_blocks(true, true, false);
  assert_true(hash == hash_of_blocks(true, true, false));
  assert_true(hash == hash_of_blocks(false, true, false)); // blocks have other ids
  assert_true(hash != hash_of_blocks(true, false, false));
  assert_true(hash != hash_of_blocks(true, true, true));
}

static void many_nodes_merge(void **state) {
  (void)state;
  World *w = world_new();
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 2000; i++) assert_int_equal(graph_const(w->g, TYPE_I32, i), 4 + i);
  arena_free(w->a);
}

// A call of graph_try that is refused with a sentence that contains `why`.
typedef struct Refusal {
  Op op;
  int nargs;
  NodeId args[3];
  Attr attr;
  const char *why;
} Refusal;

static void refuse_all(World *w, size_t n, const Refusal *cases) {
  uint32_t before = graph_count(w->g);
  for (size_t i = 0; i < n; i++) {
    char why[200] = "accepted";
    const Refusal *r = &cases[i];
    NodeId made = graph_try(w->g, r->op, r->nargs, r->args, &r->attr, 0, why);
    if (made || !strstr(why, r->why)) fail_msg("case %zu: %s", i, why);
  }
  assert_int_equal(graph_count(w->g), before);
  arena_free(w->a);
}

static NodeId values_over(World *w, DimId block) {
  static const double four[4];
  return graph_add(w->g, OP_VALUES, 0, NULL,
                   &(Attr){.ndims = 1, .dims = &block, .data = four, .ndata = 4});
}

static void refused_elements_say_why(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  NodeId x = w->x, flag = graph_binary(g, OP_LT, x, w->w);
  DimId twice[] = {w->d, w->d};
  NodeId over = values_over(w, dim_block(g->dims, &w->mesh, w->b, (Axes){.n = 1, .at = {0}}));
  NodeId over2 = values_over(w, dim_block(g->dims, &w->mesh, w->b, (Axes){.n = 1, .at = {1}}));
  const Refusal cases[] = {
      {OP_ADD, 1, {x}, {0}, "takes 2 arguments"},
      {OP_ADD, 2, {x, 999}, {0}, "no node %999"},
      {OP_ADD, 2, {x, w->ids}, {0}, "f32 and i32"},
      {OP_ADD, 2, {flag, flag}, {0}, "bool"},
      {OP_ADD, 2, {over, over2}, {0}, "blocks of one dim"},
      {OP_EXP, 1, {w->ids}, {0}, "not a float"},
      {OP_DIV, 2, {w->ids, w->ids}, {0}, "not a float"},
      {OP_NOT, 1, {x}, {0}, "not bool"},
      {OP_WHERE, 3, {x, x, x}, {0}, "not bool"},
      {OP_SUM, 1, {x}, {0}, "no dim"},
      {OP_SUM, 1, {x}, {.ndims = 1, .dims = &w->h}, "no dim h"},
      {OP_SUM, 1, {x}, {.ndims = 2, .dims = twice}, "d twice"},
      {OP_SUM, 1, {x}, {.ndims = 1, .dims = &(DimId){77}}, "no dim 77"},
      {OP_LOGSUMEXP, 1, {w->ids}, {.ndims = 1, .dims = &w->b}, "not a float"},
      {OP_ARGMAX, 1, {x}, {.ndims = 2, .dims = (DimId[]){w->b, w->d}}, "2 dims and 1 new"},
      {OP_CONTRACT, 2, {x, w->w}, {.ndims = 1, .dims = &w->o}, "no argument has the dim o"},
      {OP_CONTRACT,
       2,
       {x, w->w},
       {.type = TYPE_I32, .ndims = 1, .dims = &w->d},
       "cannot be summed"},
  };
  refuse_all(w, countof(cases), cases);
}

static void refused_moves_say_why(void **state) {
  (void)state;
  World *w = world_new();
  NodeId x = w->x;
  DimId split3[] = {w->k, w->k};
  DimId block = dim_block(w->g->dims, &w->mesh, w->b, (Axes){.n = 1, .at = {0}});
  NodeId over = values_over(w, block);
  const Refusal cases[] = {
      {OP_BROADCAST, 1, {x}, {.ndims = 1, .dims = &w->b}, "has the dim b already"},
      {OP_RENAME, 1, {x}, {.ndims = 1, .dims = &w->b, .nto = 1, .to = &w->d}, "8 elements"},
      {OP_SPLIT, 1, {x}, {.ndims = 1, .dims = &w->d, .nto = 2, .to = split3}, "k twice"},
      {OP_SPLIT,
       1,
       {x},
       {.ndims = 1, .dims = &w->b, .nto = 2, .to = (DimId[]){w->k, w->o}},
       "8 elements"},
      {OP_MERGE,
       1,
       {x},
       {.ndims = 2, .dims = (DimId[]){w->b, w->d}, .nto = 1, .to = &w->h},
       "16 elements"},
      {OP_TAKE, 2, {w->w, x}, {.ndims = 1, .dims = &w->d}, "not i32"},
      {OP_INPUT, 0, {0}, {0}, "names no declaration"},
      {OP_PARAM, 0, {0}, {.decl = 1}, "not declared so"},
      {OP_VALUES,
       0,
       {0},
       {.ndims = 1, .dims = &w->k, .ndata = 2, .data = (double[2]){0}},
       "not hold"},
      {OP_ALL_REDUCE, 1, {x}, {.monoid = MONOID_SUM}, "names no axis"},
      {OP_ALL_REDUCE, 1, {x}, {.axes = {1, {0}}}, "no monoid"},
      {OP_ALL_REDUCE, 1, {x}, {.axes = {1, {2}}, .monoid = MONOID_SUM}, "no axis 2"},
      {OP_ALL_GATHER,
       1,
       {over},
       {.axes = {1, {1}}, .ndims = 1, .dims = &block, .nto = 1, .to = &w->b},
       "split further"},
      {OP_ALL_GATHER,
       1,
       {over},
       {.axes = {1, {0}}, .ndims = 1, .dims = &block, .nto = 1, .to = &w->d},
       "not a block"},
  };
  refuse_all(w, countof(cases), cases);
}

static void types_and_dims_follow(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  NodeId flag = graph_binary(g, OP_LT, w->x, graph_const(g, TYPE_F32, 0));
  Dims b = dims_of(1, w->b, 0);
  assert_string_equal(text_of(w, flag), "bool[b, d]");
  assert_string_equal(text_of(w, graph_reduce(g, OP_SUM, flag, &b)), "i32[d]");
  assert_string_equal(text_of(w, graph_reduce(g, OP_MEAN, flag, &b)), "f32[d]");
  assert_string_equal(text_of(w, graph_reduce(g, OP_ARGMAX, w->x, &b)), "i32[d]");
  assert_string_equal(text_of(w, graph_index(g, w->k)), "i32[k]");
  NodeId taken =
      graph_add(g, OP_TAKE, 2, (NodeId[]){w->w, w->ids}, &(Attr){.ndims = 1, .dims = &w->d});
  assert_string_equal(text_of(w, taken), "f32[b, h]");
  NodeId back = graph_add(g, OP_SCATTER_ADD, 2, (NodeId[]){taken, w->ids},
                          &(Attr){.ndims = 1, .dims = &w->b, .nto = 1, .to = &w->d});
  assert_string_equal(text_of(w, back), "f32[d, h]");
  NodeId split =
      graph_add(g, OP_SPLIT, 1, &w->x,
                &(Attr){.ndims = 1, .dims = &w->d, .nto = 2, .to = (DimId[]){w->o, w->k}});
  assert_string_equal(text_of(w, split), "f32[b, o, k]");
  NodeId merged =
      graph_add(g, OP_MERGE, 1, &split,
                &(Attr){.ndims = 2, .dims = (DimId[]){w->o, w->k}, .nto = 1, .to = &w->d});
  assert_string_equal(text_of(w, merged), "f32[b, d]");
  assert_int_equal(node_bytes(g, merged), 8 * 6 * 4);
  arena_free(w->a);
}

static void renames_may_swap(void **state) {
  (void)state;
  World *w = world_new();
  DimId e = dim_add(w->g->dims, "e", 8, (Pos){0});
  NodeId square = graph_add(w->g, OP_BROADCAST, 1, &w->x, &(Attr){.ndims = 1, .dims = &e});
  Attr swap = {.ndims = 2, .dims = (DimId[]){w->b, e}, .nto = 2, .to = (DimId[]){e, w->b}};
  Attr swap2 = {.ndims = 2, .dims = (DimId[]){e, w->b}, .nto = 2, .to = (DimId[]){w->b, e}};
  NodeId n = graph_add(w->g, OP_RENAME, 1, &square, &swap);
  assert_int_equal(graph_add(w->g, OP_RENAME, 1, &square, &swap2), n);
  assert_string_equal(text_of(w, n), "f32[b, d, e]");
  char why[200];
  Attr onto = {.ndims = 1, .dims = &w->b, .nto = 1, .to = &e};
  assert_int_equal(graph_try(w->g, OP_RENAME, 1, &square, &onto, 0, why), 0);
  assert_non_null(strstr(why, "e twice"));
  arena_free(w->a);
}

static void declarations_have_one_node(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  DeclId d = graph_find_decl(g, "w");
  assert_int_equal(graph_decl_node(g, d), w->w);
  assert_int_equal(graph_find_decl(g, "no"), 0);
  Dims whole = dims_of(2, w->d, w->h);
  assert_int_equal(graph_decl_node_over(g, d, &whole), w->w);

  Graph *lowered = graph_like(w->a, g, STAGE_LOWER);
  DimId hc = dim_block(g->dims, &w->mesh, w->h, (Axes){.n = 1, .at = {1}});
  Dims blocks = dims_of(2, w->d, hc);
  NodeId n = graph_decl_node_over(lowered, d, &blocks);
  assert_int_equal(lowered->decl.at[d - 1].node, n);
  assert_int_equal(graph_decl_node(lowered, d), n);
  assert_int_equal(node_elements(lowered, n), 6 * 8);
  char why[200];
  assert_true(graph_verify(lowered, why));
  lowered->stage = STAGE_SIMPLIFY;
  assert_false(graph_verify(lowered, why));
  assert_non_null(strstr(why, "h/cols"));
  arena_free(w->a);
}

static void equal_parts_are_shared(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  g->origin.value = "y";
  const Node *y = graph_node(g, graph_unary(g, OP_EXP, w->x));
  const Attr *attr = y->attr;
  const Dims *dims = y->dims;
  const Origin *origin = y->origin;
  NodeId z = graph_unary(g, OP_TANH, w->x);
  y = graph_node(g, z);
  assert_true(y->attr == attr && y->dims == dims && y->origin == origin);
  // A name that a node gets later is not that of others.
  graph_name_as(g, z, &(Origin){.value = "z"});
  assert_string_equal(graph_node(g, z)->origin->value, "y");
  graph_set_origin(g, z, &(Origin){.value = "z"});
  assert_string_equal(graph_node(g, z)->origin->value, "z");
  assert_string_equal(origin->value, "y");
  arena_free(w->a);
}

// Nodes of a graph in another arena do not read what the first graph has.
static void copies_outlive_their_graph(void **state) {
  (void)state;
  World *w = world_new();
  Arena *scratch = arena_new();
  Graph *first = graph_like(scratch, w->g, STAGE_GRAPH),
        *second = graph_like(w->a, w->g, STAGE_GRAPH);
  first->origin.value = "y";
  NodeId map[4] = {0};
  map[1] = graph_const(first, TYPE_F32, 2);
  map[2] = graph_broadcast(first, map[1], &(Dims){.n = 1, .at = {w->b}});
  for (NodeId n = 1; n <= 2; n++) map[n] = graph_copy(second, first, n, map);
  arena_free(scratch);
  assert_string_equal(text_of(&(World){.a = w->a, .g = second}, map[2]), "f32[b]");
  assert_true(graph_node(second, map[1])->attr->num[0] == 2);
  assert_int_equal(graph_node(second, map[2])->attr->dims[0], w->b);
  assert_string_equal(graph_node(second, map[2])->origin->value, "y");
  arena_free(w->a);
}

static void last_binding_of_a_name(void **state) {
  (void)state;
  World *w = world_new();
  for (uint32_t i = 1; i <= 3; i++) {
    vec_push(w->a, w->g->name) = (Name){.name = i == 2 ? "other" : "y", .value = i};
    assert_int_equal(graph_find_name(w->g, "y")->value, i == 2 ? 1 : i);
  }
  assert_null(graph_find_name(w->g, "z"));
  arena_free(w->a);
}

// -- contraction paths --------------------------------------------------------------------------

static void chain_takes_cheap_end_first(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  NodeId v = input(g, "v", TYPE_F32, 1, w->h, 0);
  Dims keep = dims_of(1, w->b, 0);
  NodeId n = graph_contract(g, 3, (NodeId[]){w->x, w->w, v}, &keep, TYPE_F32);
  const Node *last = graph_node(g, n);
  assert_int_equal(last->op, OP_CONTRACT);
  assert_string_equal(text_of(w, n), "f32[b]");
  NodeId other = last->args[0] == w->x ? last->args[1] : last->args[0];
  assert_string_equal(text_of(w, other), "f32[d]");
  arena_free(w->a);
}

// The cheapest pair is x with y; the cheapest tree begins with y and z.
static void chain_has_the_cheapest_tree(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  DimId a = dim_add(g->dims, "ca", 10, (Pos){0}), b = dim_add(g->dims, "cb", 1, (Pos){0}),
        c = dim_add(g->dims, "cc", 10, (Pos){0}), d = dim_add(g->dims, "cd", 11, (Pos){0});
  NodeId x = input(g, "cx", TYPE_F32, 2, a, b), y = input(g, "cy", TYPE_F32, 2, b, c),
         z = input(g, "cz", TYPE_F32, 2, c, d);
  Dims keep = dims_of(2, a, d);
  NodeId n = graph_contract(g, 3, (NodeId[]){x, y, z}, &keep, TYPE_F32);
  const Node *last = graph_node(g, n);
  assert_true(last->args[0] == x || last->args[1] == x);
  arena_free(w->a);
}

// sum[p, q, s](core[p, q, s] * u[i, p] * v[j, q] * z[k, s]): all orders are equally expensive.
static void equal_trees_keep_the_order_of_factors(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  DimId small[3], large[3];
  for (int i = 0; i < 3; i++) {
    small[i] = dim_add(g->dims, (const char *[]){"p", "q", "s"}[i], 2, (Pos){0});
    large[i] = dim_add(g->dims, (const char *[]){"i", "j", "l"}[i], 5, (Pos){0});
  }
  NodeId f[4] = {
      graph_decl_node(g, graph_decl(g, &(Decl){.kind = DECL_INPUT,
                                               .name = "core",
                                               .type = TYPE_F32,
                                               .rank = 3,
                                               .dims = {small[0], small[1], small[2]}}))};
  for (int i = 0; i < 3; i++)
    f[i + 1] = input(g, (const char *[]){"fu", "fv", "fz"}[i], TYPE_F32, 2, large[i], small[i]);
  Dims keep = {0};
  for (int i = 0; i < 3; i++) keep.at[keep.n++] = large[i];
  NodeId n = graph_contract(g, 4, f, &keep, TYPE_F32);
  for (int i = 3; i > 0; i--) {
    const Node *node = graph_node(g, n);
    assert_int_equal(node->op, OP_CONTRACT);
    assert_int_equal(node->args[1] == f[i] ? node->args[1] : node->args[0], f[i]);
    n = node->args[1] == f[i] ? node->args[0] : node->args[1];
  }
  assert_int_equal(n, f[0]);
  arena_free(w->a);
}

static void lonely_dims_are_summed_first(void **state) {
  (void)state;
  World *w = world_new();
  Dims keep = dims_of(1, w->b, 0);
  NodeId n = graph_contract(w->g, 2, (NodeId[]){w->x, w->w}, &keep, TYPE_F32);
  const Node *last = graph_node(w->g, n);
  assert_int_equal(last->op, OP_CONTRACT);
  assert_int_equal(graph_node(w->g, last->args[1])->op, OP_SUM);
  assert_string_equal(text_of(w, last->args[1]), "f32[d]");
  arena_free(w->a);
}

static void scale_is_multiplied_last_in_the_wide_type(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  NodeId x = graph_cast(g, w->x, TYPE_BF16), m = graph_cast(g, w->w, TYPE_BF16);
  NodeId s = input(g, "s", TYPE_BF16, 1, w->b, 0);
  Dims keep = dims_of(2, w->b, w->h);
  NodeId n = graph_contract(g, 3, (NodeId[]){s, x, m}, &keep, TYPE_F32);
  const Node *last = graph_node(g, n);
  assert_int_equal(last->op, OP_MUL);
  assert_string_equal(text_of(w, n), "f32[b, h]");
  bool contracted = false;
  for (int i = 0; i < 2; i++) {
    const Node *arg = graph_node(g, last->args[i]);
    contracted |= arg->op == OP_CONTRACT && arg->type == TYPE_F32;
  }
  assert_true(contracted);
  arena_free(w->a);
}

static void many_factors(void **state) {
  (void)state;
  World *w = world_new();
  NodeId f[100];
  for (int i = 0; i < 100; i++) f[i] = i % 2 ? w->x : w->w;
  Dims keep = dims_of(1, w->h, 0);
  NodeId n = graph_contract(w->g, 100, f, &keep, TYPE_F64);
  assert_string_equal(text_of(w, n), "f64[h]");
  char why[200];
  assert_true(graph_verify(w->g, why));
  arena_free(w->a);
}

// -- passes -------------------------------------------------------------------------------------

static void only_what_outputs_reach(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  graph_unary(g, OP_EXP, w->w); // not reachable from an output
  NodeId checked = graph_add(g, OP_BOUND, 1, &w->ids, &(Attr){.ndims = 1, .dims = &w->d});
  Dims d = dims_of(1, w->d, 0);
  NodeId y = graph_reduce(g, OP_SUM, w->x, &d);
  NodeId z = graph_binary(g, OP_MUL, y, graph_cast(g, w->ids, TYPE_F32));
  vec_push(w->a, g->output) = (Output){.kind = OUT_VALUE, .name = "z", .value = z};
  NodeId *map;
  Graph *small = graph_prune(w->a, g, STAGE_GRAD, &map);
  assert_int_equal(map[w->w], 0);
  assert_int_not_equal(map[checked], 0); // a check is kept if its argument is reachable
  assert_int_equal(small->output.at[0].value, map[z]);
  assert_int_equal(graph_count(small), 6);
  assert_int_equal(small->decl.at[1].node, 0);
  char why[200];
  assert_true(graph_verify(small, why));
  arena_free(w->a);
}

static void broken_graphs_are_found(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  char why[200];
  NodeId y = graph_unary(g, OP_EXP, w->x);
  g->node.at[y].type = TYPE_F64;
  assert_false(graph_verify(g, why));
  assert_string_equal(why, "%4 is f64, not f32");
  g->node.at[y].type = TYPE_F32;
  vec_push(w->a, g->output) = (Output){.kind = OUT_VALUE, .name = "y", .value = 9};
  assert_false(graph_verify(g, why));
  assert_non_null(strstr(why, "no node %9"));
  g->output.at[0] = (Output){.kind = OUT_UPDATE, .name = "x", .value = y, .target = 1};
  assert_false(graph_verify(g, why));
  assert_non_null(strstr(why, "input x is updated"));
  g->decl.at[0].kind = DECL_PARAM;
  assert_false(graph_verify(g, why));
  arena_free(w->a);
}

static void collectives_nest(void **state) {
  (void)state;
  World *w = world_new();
  Graph *g = w->g;
  DimId b1 = dim_block(g->dims, &w->mesh, w->b, (Axes){.n = 1, .at = {0}});
  DimId b2 = dim_block(g->dims, &w->mesh, w->b, (Axes){.n = 2, .at = {0, 1}});
  Attr own = {.axes = {1, {0}}, .ndims = 1, .dims = &w->b, .nto = 1, .to = &b1};
  NodeId half = graph_add(g, OP_SLICE_OWN, 1, &w->x, &own);
  assert_string_equal(text_of(w, half), "f32[b/rows, d]");
  Attr more = {
      .axes = {1, {1}}, .monoid = MONOID_SUM, .ndims = 1, .dims = &b1, .nto = 1, .to = &b2};
  NodeId quarter = graph_add(g, OP_REDUCE_SCATTER, 1, &half, &more);
  assert_string_equal(text_of(w, quarter), "f32[b/rows+cols, d]");
  Attr all = {.axes = {2, {0, 1}}, .ndims = 1, .dims = &b2, .nto = 1, .to = &w->b};
  assert_string_equal(text_of(w, graph_add(g, OP_ALL_GATHER, 1, &quarter, &all)), "f32[b, d]");
  DimId dc = dim_block(g->dims, &w->mesh, w->d, (Axes){.n = 1, .at = {1}});
  Attr turn = {
      .axes = {1, {1}}, .ndims = 2, .dims = (DimId[]){b2, w->d}, .nto = 2, .to = (DimId[]){b1, dc}};
  assert_string_equal(text_of(w, graph_add(g, OP_ALL_TO_ALL, 1, &quarter, &turn)),
                      "f32[b/rows, d/cols]");
  arena_free(w->a);
}

// Blocks of 5 over 4, then 2 processors have length 1, and blocks of 10 have length 2. They do not
// correspond: 10 is split at 3 first, not at 4.
static void uneven_parts_do_not_fit(void **state) {
  (void)state;
  Arena *a = arena_new();
  Mesh m = {.naxes = 2, .axis = {{.name = "p", .size = 4}, {.name = "q", .size = 2}}};
  DimTable *t = dim_table_new(a, intern_new(a));
  Graph *g = graph_new(a, t, &m, STAGE_LOWER);
  DimId n5 = dim_add(t, "five", 5, (Pos){0}), n2 = dim_add(t, "two", 2, (Pos){0}),
        n10 = dim_add(t, "ten", 10, (Pos){0});
  Axes both = {.n = 2, .at = {0, 1}};
  DimId b5 = dim_block(t, &m, n5, both), b10 = dim_block(t, &m, n10, both);
  NodeId x = graph_add(g, OP_VALUES, 0, NULL,
                       &(Attr){.ndims = 1, .dims = &b10, .ndata = 2, .data = (double[2]){0}});
  char why[200];
  Attr split = {.ndims = 1, .dims = &b10, .nto = 2, .to = (DimId[]){b5, n2}};
  assert_int_equal(graph_try(g, OP_SPLIT, 1, &x, &split, 0, why), 0);
  assert_non_null(strstr(why, "3 elements"));
  arena_free(a);
}

static void every_op_has_a_name(void **state) {
  (void)state;
  for (int i = 0; i < OP_COUNT; i++) {
    Op back;
    assert_true(op_parse(op_row((Op)i)->text, &back));
    assert_int_equal(back, i);
  }
  for (int i = 0; i < STAGE_COUNT; i++)
    assert_true(*stage_text((Stage)i) && *stage_holds((Stage)i));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_nodes_merge),
      cmocka_unit_test(equal_graphs_have_equal_hashes),
      cmocka_unit_test(many_nodes_merge),
      cmocka_unit_test(refused_elements_say_why),
      cmocka_unit_test(refused_moves_say_why),
      cmocka_unit_test(types_and_dims_follow),
      cmocka_unit_test(renames_may_swap),
      cmocka_unit_test(declarations_have_one_node),
      cmocka_unit_test(equal_parts_are_shared),
      cmocka_unit_test(copies_outlive_their_graph),
      cmocka_unit_test(last_binding_of_a_name),
      cmocka_unit_test(chain_takes_cheap_end_first),
      cmocka_unit_test(chain_has_the_cheapest_tree),
      cmocka_unit_test(equal_trees_keep_the_order_of_factors),
      cmocka_unit_test(lonely_dims_are_summed_first),
      cmocka_unit_test(scale_is_multiplied_last_in_the_wide_type),
      cmocka_unit_test(many_factors),
      cmocka_unit_test(only_what_outputs_reach),
      cmocka_unit_test(broken_graphs_are_found),
      cmocka_unit_test(collectives_nest),
      cmocka_unit_test(uneven_parts_do_not_fit),
      cmocka_unit_test(every_op_has_a_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
