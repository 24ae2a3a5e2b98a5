// Tests that collectives and bytes of small models match the closed forms of a good partitioner.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition/explain/ledger.h"

typedef struct Model {
  Arena *a;
  Intern *names;
  Mesh mesh;
  DimTable *dims;
  Graph *g;
  Layout layout;
  LayoutRule rule[16];
} Model;

typedef struct AxisSize {
  const char *name;
  int64_t size;
} AxisSize;

static void start(Model *m, int n, const AxisSize *axis) {
  memset(m, 0, sizeof *m);
  m->a = arena_new();
  m->names = intern_new(m->a);
  m->layout.rule = m->rule;
  for (int i = 0; i < n; i++)
    m->mesh.axis[m->mesh.naxes++] =
        (MeshAxis){.name = intern(m->names, axis[i].name), .size = axis[i].size};
  m->dims = dim_table_new(m->a, m->names);
  m->g = graph_new(m->a, m->dims, &m->mesh, STAGE_GRAPH);
}

static DimId dim(Model *m, const char *name, int64_t size) {
  return dim_add(m->dims, name, size, (Pos){0});
}

// Adds a layout rule; `dim` NULL: for all dims.
static LayoutRule *rule(Model *m, LayoutScope scope, const char *pattern, const char *d,
                        const char *axis) {
  LayoutRule *r = &m->rule[m->layout.n++];
  *r = (LayoutRule){.scope = scope, .pattern = pattern, .dim = d};
  if (axis)
    r->axes = (Axes){.n = 1, .at = {(uint8_t)mesh_axis(&m->mesh, intern(m->names, axis))}};
  else
    r->none = true;
  return r;
}

static DeclId declare(Model *m, DeclKind kind, const char *name, int rank, const DimId *d) {
  Decl x = {.kind = kind, .name = intern(m->names, name), .type = TYPE_F32, .rank = (uint8_t)rank};
  memcpy(x.dims, d, sizeof(DimId) * (size_t)rank);
  return graph_decl(m->g, &x);
}

static NodeId tensor(Model *m, DeclKind kind, const char *name, int rank, const DimId *d) {
  m->g->origin = (Origin){.value = name};
  return graph_decl_node(m->g, declare(m, kind, name, rank, d));
}

static NodeId product(Model *m, const char *value, NodeId x, NodeId y, int n, const DimId *summed) {
  m->g->origin = (Origin){.value = value};
  Attr t = {.type = TYPE_F32, .ndims = (uint8_t)n, .dims = summed};
  return graph_add(m->g, OP_CONTRACT, 2, (NodeId[]){x, y}, &t);
}

static NodeId unary(Model *m, const char *value, Op op, NodeId x) {
  m->g->origin = (Origin){.value = value};
  return graph_unary(m->g, op, x);
}

static NodeId sum_all(Model *m, const char *value, NodeId x) {
  m->g->origin = (Origin){.value = value};
  Dims over = *graph_node(m->g, x)->dims;
  return graph_reduce(m->g, OP_SUM, x, &over);
}

static void output(Model *m, const char *name, NodeId n) {
  vec_push(m->a, m->g->output) = (Output){.kind = OUT_VALUE, .name = name, .value = n};
}

static void update(Model *m, DeclId target, NodeId n) {
  vec_push(m->a, m->g->output) = (Output){
      .kind = OUT_UPDATE, .name = m->g->decl.at[target - 1].name, .value = n, .target = target};
}

static CollFacts *compile(Model *m, Graph **lowered) {
  char why[200];
  static Machine machine;
  machine = machine_default();
  Graph *g = graph_simplify(m->a, graph_expand(m->a, m->g));
  Placement *p = place(m->a, g, &m->layout, &machine);
  Graph *low = lower(m->a, p);
  if (!graph_verify(low, why)) fail_msg("lower: %s", why);
  low = collectives_share(m->a, low);
  if (!graph_verify(low, why)) fail_msg("share: %s", why);
  Buckets *b = collectives_bucket(m->a, low, &machine);
  CollFacts *f = collectives_facts(m->a, low, b, &machine);
  if (getenv("SHOW")) {
    Diag *d = diag_new(m->a);
    puts(graph_print(m->a, g, d, placement_note, p));
    puts(graph_print(m->a, low, d, NULL, NULL));
    LedgerSource from = {.placement = p,
                         .graph = low,
                         .buckets = b,
                         .facts = f,
                         .partition = partition_facts(g, low),
                         .machine = &machine,
                         .diag = d};
    puts(ledger_text(m->a, ledger_new(m->a, &from), true));
  }
  if (lowered) *lowered = low;
  return f;
}

static int count(const CollFacts *f, CollKind kind) {
  int n = 0;
  for (uint32_t i = 0; i < f->n; i++) n += f->fact[i].kind == kind;
  return n;
}

// -- Y = relu(X W) V ----------------------------------------------------------------------------

typedef struct Mlp {
  DimId b, d, h, o;
  NodeId x, w, v, y, loss;
} Mlp;

static Mlp mlp(Model *m, int64_t b, int64_t d, int64_t h, int64_t o) {
  Mlp p = {dim(m, "b", b), dim(m, "d", d), dim(m, "h", h), dim(m, "o", o), 0, 0, 0, 0, 0};
  p.x = tensor(m, DECL_INPUT, "x", 2, (DimId[]){p.b, p.d});
  p.w = tensor(m, DECL_PARAM, "w", 2, (DimId[]){p.d, p.h});
  p.v = tensor(m, DECL_PARAM, "v", 2, (DimId[]){p.h, p.o});
  NodeId hidden = unary(m, "hidden", OP_RELU, product(m, "hidden", p.x, p.w, 1, &p.d));
  p.y = product(m, "y", hidden, p.v, 1, &p.h);
  p.loss = sum_all(m, "loss", graph_binary(m->g, OP_MUL, p.y, p.y));
  return p;
}

static void gradients(Model *m, const Mlp *p, bool dx) {
  NodeId by[3] = {p->w, p->v, p->x}, out[3];
  graph_gradients(m->g, p->loss, dx ? 3 : 2, by, out);
  output(m, "grad(w)", out[0]);
  output(m, "grad(v)", out[1]);
  if (dx) output(m, "grad(x)", out[2]);
}

static void mlp_bytes(int naxes, const AxisSize *axis, const char *batch, const char *hidden,
                      bool dx, bool loss, int64_t want, int calls) {
  Model m;
  start(&m, naxes, axis);
  if (batch) rule(&m, LAYOUT_ALL, NULL, "b", batch);
  if (hidden) rule(&m, LAYOUT_ALL, NULL, "h", hidden);
  Mlp p = mlp(&m, 16, 8, 32, 8);
  gradients(&m, &p, dx);
  if (loss) output(&m, "loss", p.loss);
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(f->wire_bytes, want);
  assert_int_equal(f->n, calls);
  assert_int_equal(count(f, COLL_ALL_REDUCE), calls);
  arena_free(m.a);
}

static const AxisSize eight[] = {{"p", 8}}, two_four[] = {{"p1", 2}, {"p2", 4}};

static void test_mlp_batch(void **state) {
  (void)state;
  mlp_bytes(1, eight, "p", NULL, false, false, 3584, 1);
  mlp_bytes(1, eight, "p", NULL, true, false, 3584, 1);
  mlp_bytes(1, eight, "p", NULL, false, true, 3584 + 7, 2); // the loss is a collective of its own
}

static void test_mlp_hidden(void **state) {
  (void)state;
  mlp_bytes(1, eight, NULL, "p", true, false, 1792, 2);
  mlp_bytes(1, eight, NULL, "p", false, false, 896, 1);
}

static void test_mlp_both(void **state) {
  (void)state;
  mlp_bytes(2, two_four, "p1", "p2", true, false, 1280, 3);
  mlp_bytes(2, two_four, "p1", "p2", false, false, 896, 2);
}

// -- layouts of the optimizer -------------------------------------------------------------------

// m = 0.9 m + grad; w = w - 0.1 m for both parameters.
static void momentum(Model *m, const Mlp *p) {
  NodeId by[2] = {p->w, p->v}, grad[2];
  DimId dims[2][2] = {{p->d, p->h}, {p->h, p->o}};
  const char *name[2] = {"optimizer.w.m", "optimizer.v.m"};
  graph_gradients(m->g, p->loss, 2, by, grad);
  for (int i = 0; i < 2; i++) {
    DeclId param = graph_node(m->g, by[i])->attr->decl,
           slot = declare(m, DECL_SLOT, name[i], 2, dims[i]);
    m->g->decl.at[slot - 1].of = param;
    m->g->origin = (Origin){.backward = true};
    NodeId old = graph_decl_node(m->g, slot);
    NodeId next = graph_binary(
        m->g, OP_ADD, graph_binary(m->g, OP_MUL, old, graph_const(m->g, TYPE_F32, 0.9)), grad[i]);
    update(m, slot, next);
    update(m, param,
           graph_binary(m->g, OP_SUB, by[i],
                        graph_binary(m->g, OP_MUL, next, graph_const(m->g, TYPE_F32, 0.1))));
  }
}

// As momentum, with the gradients scaled to a global norm of at most 1.
static void clipped(Model *m, const Mlp *p) {
  NodeId by[2] = {p->w, p->v}, grad[2], norm = 0;
  DimId dims[2][2] = {{p->d, p->h}, {p->h, p->o}};
  const char *name[2] = {"optimizer.w.m", "optimizer.v.m"};
  graph_gradients(m->g, p->loss, 2, by, grad);
  m->g->origin = (Origin){.backward = true};
  for (int i = 0; i < 2; i++) {
    NodeId square = graph_reduce(m->g, OP_SUM, graph_binary(m->g, OP_MUL, grad[i], grad[i]),
                                 graph_node(m->g, grad[i])->dims);
    norm = norm ? graph_binary(m->g, OP_ADD, norm, square) : square;
  }
  NodeId one = graph_const(m->g, TYPE_F32, 1);
  NodeId scale = graph_binary(
      m->g, OP_DIV, one, graph_binary(m->g, OP_MAXIMUM, graph_unary(m->g, OP_SQRT, norm), one));
  for (int i = 0; i < 2; i++) {
    DeclId param = graph_node(m->g, by[i])->attr->decl,
           slot = declare(m, DECL_SLOT, name[i], 2, dims[i]);
    m->g->decl.at[slot - 1].of = param;
    NodeId next = graph_binary(m->g, OP_ADD, graph_decl_node(m->g, slot),
                               graph_binary(m->g, OP_MUL, grad[i], scale));
    update(m, slot, next);
    update(m, param, graph_binary(m->g, OP_SUB, by[i], next));
  }
}

// The norm adds one all_reduce of a scalar.
static void test_zero_1_clipped(void **state) {
  (void)state;
  Model m;
  start(&m, 1, eight);
  rule(&m, LAYOUT_ALL, NULL, "b", "p");
  rule(&m, LAYOUT_OPTIMIZER, NULL, NULL, "p");
  Mlp p = mlp(&m, 16, 8, 32, 8);
  clipped(&m, &p);
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(count(f, COLL_REDUCE_SCATTER), 1);
  assert_int_equal(count(f, COLL_ALL_GATHER), 1);
  assert_int_equal(count(f, COLL_ALL_REDUCE), 1);
  assert_int_equal(f->wire_bytes, 3584 + 7);
  arena_free(m.a);
}

static void test_clipped_over_hidden(void **state) {
  (void)state;
  Model m;
  start(&m, 2, two_four);
  rule(&m, LAYOUT_ALL, NULL, "b", "p1");
  rule(&m, LAYOUT_ALL, NULL, "h", "p2");
  Mlp p = mlp(&m, 16, 8, 32, 8);
  clipped(&m, &p);
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(f->n, 3); // y, the gradients, the norm
  assert_int_equal(f->wire_bytes, 896 + 6);
  arena_free(m.a);
}

static void test_zero_1(void **state) {
  (void)state;
  Model m;
  start(&m, 1, eight);
  rule(&m, LAYOUT_ALL, NULL, "b", "p");
  rule(&m, LAYOUT_OPTIMIZER, NULL, NULL, "p");
  Mlp p = mlp(&m, 16, 8, 32, 8);
  momentum(&m, &p);
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(count(f, COLL_REDUCE_SCATTER), 1);
  assert_int_equal(count(f, COLL_ALL_GATHER), 1);
  assert_int_equal(f->n, 2);
  assert_int_equal(f->wire_bytes, 3584);
  arena_free(m.a);
}

static void test_zero_3(void **state) {
  (void)state;
  Model m;
  start(&m, 1, eight);
  rule(&m, LAYOUT_ALL, NULL, "b", "p");
  rule(&m, LAYOUT_PARAMETERS, NULL, NULL, "p");
  Mlp p = mlp(&m, 16, 8, 32, 8);
  momentum(&m, &p);
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(count(f, COLL_REDUCE_SCATTER), 1);
  assert_int_equal(count(f, COLL_ALL_REDUCE), 0);
  assert_true(count(f, COLL_ALL_GATHER) >= 1);
  assert_int_equal(f->wire_bytes, 3584);
  arena_free(m.a);
}

// -- a feed-forward layer, f split over cols ----------------------------------------------------

// loss = sum(square(x + relu(norm(x) w1) w2)) with the norm over d, and gradients by all
// parameters.
static CollFacts *layer(Model *m, bool sequence) {
  start(m, 1, (AxisSize[]){{"cols", 4}});
  DimId b = dim(m, "b", 2), t = dim(m, "t", 16), d = dim(m, "d", 8), f = dim(m, "f", 32);
  rule(m, LAYOUT_ALL, NULL, "f", "cols");
  if (sequence) rule(m, LAYOUT_ALL, NULL, "t", "cols")->soft = true;
  NodeId x = tensor(m, DECL_INPUT, "x", 3, (DimId[]){b, t, d}),
         gain = tensor(m, DECL_PARAM, "gain", 1, &d);
  NodeId w1 = tensor(m, DECL_PARAM, "w1", 2, (DimId[]){d, f}),
         w2 = tensor(m, DECL_PARAM, "w2", 2, (DimId[]){f, d});
  m->g->origin = (Origin){.value = "norm"};
  NodeId square =
      graph_reduce(m->g, OP_MEAN, graph_binary(m->g, OP_MUL, x, x), &(Dims){.n = 1, .at = {d}});
  NodeId r = graph_unary(m->g, OP_RSQRT,
                         graph_binary(m->g, OP_ADD, square, graph_const(m->g, TYPE_F32, 1e-6)));
  NodeId norm = graph_binary(m->g, OP_MUL, graph_binary(m->g, OP_MUL, x, r), gain);
  NodeId hidden = unary(m, "hidden", OP_RELU, product(m, "hidden", norm, w1, 1, &d));
  m->g->origin = (Origin){.value = "y"};
  NodeId y = graph_binary(m->g, OP_ADD, product(m, "y", hidden, w2, 1, &f), x);
  NodeId by[4] = {x, gain, w1, w2}, out[4];
  m->g->origin = (Origin){.value = "loss"};
  graph_gradients(m->g, sum_all(m, "loss", graph_binary(m->g, OP_MUL, y, y)), 4, by, out);
  static const char *const name[] = {"grad(x)", "grad(gain)", "grad(w1)", "grad(w2)"};
  for (int i = 0; i < 4; i++) output(m, name[i], out[i]);
  return compile(m, NULL);
}

enum { LAYER_BYTES = 2 * 16 * 8 * 4 };

static void test_megatron(void **state) {
  (void)state;
  Model m;
  CollFacts *f = layer(&m, false);
  assert_int_equal(f->n, 2);
  assert_int_equal(count(f, COLL_ALL_REDUCE), 2);
  assert_int_equal(f->wire_bytes, 2 * (2 * 3 * LAYER_BYTES / 4));
  arena_free(m.a);
}

// The same bytes, as reduce_scatter and all_gather, and one all_reduce for the gain's gradient.
static void test_sequence_parallel(void **state) {
  (void)state;
  Model m;
  CollFacts *f = layer(&m, true);
  assert_int_equal(count(f, COLL_ALL_GATHER), 2);
  assert_int_equal(count(f, COLL_REDUCE_SCATTER), 2);
  assert_int_equal(count(f, COLL_ALL_REDUCE), 1);
  assert_int_equal(f->wire_bytes, 4 * (3 * LAYER_BYTES / 4) + 2 * 3 * 8 * 4 / 4);
  arena_free(m.a);
}

// -- where partial sums are reduced -------------------------------------------------------------

// The sum of three products is reduced once, and the bias is added once.
static void test_one_reduction_after_adds(void **state) {
  (void)state;
  Model m;
  start(&m, 1, (AxisSize[]){{"cols", 4}});
  DimId b = dim(&m, "b", 8), h = dim(&m, "h", 8), o = dim(&m, "o", 8);
  rule(&m, LAYOUT_ALL, NULL, "h", "cols");
  NodeId sum = tensor(&m, DECL_PARAM, "bias", 1, &o);
  for (int i = 0; i < 3; i++) {
    static const char *const xs[] = {"x0", "x1", "x2"}, *const ws[] = {"w0", "w1", "w2"};
    NodeId x = tensor(&m, DECL_INPUT, xs[i], 2, (DimId[]){b, h}),
           w = tensor(&m, DECL_PARAM, ws[i], 2, (DimId[]){h, o});
    sum = graph_binary(m.g, OP_ADD, sum, product(&m, "y", x, w, 1, &h));
  }
  output(&m, "y", unary(&m, "y", OP_TANH, sum));
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(f->n, 1);
  assert_int_equal(f->wire_bytes, 2 * 3 * (8 * 8 * 4) / 4);
  arena_free(m.a);
}

// A partial sum that shrinks before it is read is reduced after the last reduction of its size.
static void test_reduction_after_shrinking(void **state) {
  (void)state;
  Model m;
  start(&m, 1, (AxisSize[]){{"cols", 4}});
  DimId b = dim(&m, "b", 8), h = dim(&m, "h", 8), o = dim(&m, "o", 8);
  rule(&m, LAYOUT_ALL, NULL, "h", "cols");
  NodeId x = tensor(&m, DECL_INPUT, "x", 2, (DimId[]){b, h}),
         w = tensor(&m, DECL_PARAM, "w", 2, (DimId[]){h, o});
  output(&m, "s", unary(&m, "s", OP_TANH, sum_all(&m, "s", product(&m, "y", x, w, 1, &h))));
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(f->n, 1);
  assert_int_equal(f->fact[0].bytes, 4);
  arena_free(m.a);
}

// Softmax statistics over a split dim take all_reduces of the batch size, a maximum and a sum, and
// no all_gather.
static void test_softmax_over_split_dim(void **state) {
  (void)state;
  Model m;
  start(&m, 1, (AxisSize[]){{"cols", 4}});
  DimId b = dim(&m, "b", 8), c = dim(&m, "c", 100);
  rule(&m, LAYOUT_ALL, NULL, "c", "cols");
  NodeId x = tensor(&m, DECL_INPUT, "x", 2, (DimId[]){b, c});
  Dims over = {.n = 1, .at = {c}};
  NodeId e =
      graph_unary(m.g, OP_EXP, graph_binary(m.g, OP_SUB, x, graph_reduce(m.g, OP_MAX, x, &over)));
  output(&m, "p", graph_binary(m.g, OP_DIV, e, graph_reduce(m.g, OP_SUM, e, &over)));
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(count(f, COLL_ALL_REDUCE), 2);
  assert_int_equal(f->n, 2);
  assert_int_equal(f->wire_bytes, 2 * (2 * 3 * (8 * 4) / 4));
  arena_free(m.a);
}

// Returns the collectives of an embedding of 8 ids whose table has `rows` rows, split over v.
static CollFacts *split_lookup(Model *m, int64_t rows) {
  start(m, 1, (AxisSize[]){{"cols", 4}});
  DimId b = dim(m, "b", 8), v = dim(m, "v", rows), d = dim(m, "d", 4);
  rule(m, LAYOUT_ALL, NULL, "v", "cols");
  NodeId table = tensor(m, DECL_PARAM, "table", 2, (DimId[]){v, d});
  Decl ids = {.kind = DECL_INPUT,
              .name = intern(m->names, "ids"),
              .type = TYPE_I32,
              .rank = 1,
              .dims = {b}};
  NodeId n = graph_decl_node(m->g, graph_decl(m->g, &ids));
  NodeId x = graph_add(m->g, OP_TAKE, 2, (NodeId[]){table, n}, &(Attr){.ndims = 1, .dims = &v});
  output(m, "x", x);
  return compile(m, NULL);
}

// One all_reduce adds the rows that were found. A table of fewer rows than twice the ids is
// gathered: the all_reduce would send more.
static void test_split_lookup(void **state) {
  (void)state;
  Model m;
  CollFacts *f = split_lookup(&m, 40);
  assert_int_equal(count(f, COLL_ALL_REDUCE), 1);
  assert_int_equal(f->n, 1);
  assert_int_equal(f->wire_bytes, 2 * 3 * (8 * 4 * 4) / 4);
  arena_free(m.a);
  f = split_lookup(&m, 12);
  assert_int_equal(count(f, COLL_ALL_GATHER), 1);
  assert_int_equal(f->n, 1);
  assert_int_equal(f->wire_bytes, 3 * (12 * 4 * 4) / 4);
  arena_free(m.a);
}

// From [y, -, x] to [-, (x, y), -] on 4 x 2. Each processor keeps one of the eight parts of its
// block and sends the others directly to their owners. Two all_to_all would send 2,560 bytes.
static void test_redistribution(void **state) {
  (void)state;
  Model m;
  start(&m, 2, (AxisSize[]){{"x", 4}, {"y", 2}});
  DimId i = dim(&m, "i", 16), j = dim(&m, "j", 16), k = dim(&m, "k", 16);
  rule(&m, LAYOUT_TENSOR, "t", "i", "y");
  rule(&m, LAYOUT_TENSOR, "t", "k", "x");
  rule(&m, LAYOUT_TENSOR, "u", "i", NULL);
  rule(&m, LAYOUT_TENSOR, "u", "k", NULL);
  LayoutRule *r = rule(&m, LAYOUT_TENSOR, "u", "j", "x");
  r->axes = (Axes){.n = 2, .at = {0, 1}};
  NodeId t = tensor(&m, DECL_INPUT, "t", 3, (DimId[]){i, j, k});
  output(&m, "u", unary(&m, "u", OP_TANH, t));
  CollFacts *f = compile(&m, NULL);
  assert_int_equal(count(f, COLL_PERMUTE), 1);
  assert_int_equal(f->n, 1);
  assert_int_equal(f->wire_bytes, 2048 * 7 / 8);
  arena_free(m.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mlp_batch),
      cmocka_unit_test(test_mlp_hidden),
      cmocka_unit_test(test_mlp_both),
      cmocka_unit_test(test_zero_1),
      cmocka_unit_test(test_zero_1_clipped),
      cmocka_unit_test(test_clipped_over_hidden),
      cmocka_unit_test(test_zero_3),
      cmocka_unit_test(test_megatron),
      cmocka_unit_test(test_sequence_parallel),
      cmocka_unit_test(test_one_reduction_after_adds),
      cmocka_unit_test(test_reduction_after_shrinking),
      cmocka_unit_test(test_softmax_over_split_dim),
      cmocka_unit_test(test_split_lookup),
      cmocka_unit_test(test_redistribution),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
