// Tests fusion on small hand-made graphs: groups, kernels, order and memory plan.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/codegen.h"
#include "codegen/order/order_class_internal.h"

typedef struct World {
  Arena *a;
  Mesh mesh;
  Graph *g;
  DimId b, t, d, h, c;
  CodegenOptions opt;
  const Order *order;
  const Fusion *f;
  Compiled *compiled;
} World;

static void begin(World *w) {
  *w = (World){.a = arena_new(),
               .opt = {.fuse = true, .products = dtype_bit(TYPE_F32), .for_ = "train"}};
  DimTable *dims = dim_table_new(w->a, intern_new(w->a));
  const struct {
    DimId *d;
    const char *name;
    int64_t size;
  } all[] = {
      {&w->b, "b", 64}, {&w->t, "t", 32}, {&w->d, "d", 48}, {&w->h, "h", 40}, {&w->c, "c", 10}};
  for (size_t i = 0; i < countof(all); i++)
    *all[i].d = dim_add(dims, all[i].name, all[i].size, (Pos){0});
  w->g = graph_new(w->a, dims, &w->mesh, STAGE_LOWER);
}

static NodeId decl(World *w, DeclKind kind, const char *name, Dtype type, int n,
                   const DimId *dims) {
  Decl d = {.kind = kind, .name = name, .type = type, .rank = (uint8_t)n};
  memcpy(d.dims, dims, (size_t)n * sizeof *dims);
  return graph_decl_node(w->g, graph_decl(w->g, &d));
}
#define TENSOR(w, kind, name, ...)                                                                 \
  decl(w, kind, name, TYPE_F32, (int)(sizeof((DimId[]){__VA_ARGS__}) / sizeof(DimId)),             \
       (DimId[]){__VA_ARGS__})
#define INPUT(w, name, ...) TENSOR(w, DECL_INPUT, name, __VA_ARGS__)

static NodeId two(World *w, Op op, NodeId x, NodeId y) { return graph_binary(w->g, op, x, y); }
static NodeId over(World *w, Op op, NodeId x, DimId d) {
  return graph_reduce(w->g, op, x, &(Dims){.n = 1, .at = {d}});
}
static NodeId number(World *w, double x) { return graph_const(w->g, TYPE_F32, x); }

static void output(World *w, const char *name, NodeId n) {
  Output o = {.kind = OUT_VALUE, .name = name, .value = n, .rank = graph_node(w->g, n)->dims->n};
  memcpy(o.dims, graph_node(w->g, n)->dims->at, sizeof o.dims);
  vec_push(w->a, w->g->output) = o;
}
static void update(World *w, NodeId source, NodeId n) {
  DeclId d = graph_node(w->g, source)->attr->decl;
  vec_push(w->a, w->g->output) =
      (Output){.kind = OUT_UPDATE, .name = w->g->decl.at[d - 1].name, .value = n, .target = d};
}

static void compile(World *w) {
  w->order = order_choose(w->a, w->g, &(StoreOptions){0}, false);
  w->f = fuse(w->a, w->order, NULL, &w->opt);
  w->compiled = program_build(w->a, w->f, &w->opt);
  for (uint32_t i = 0; i < w->compiled->program->nkernels; i++) {
    char why[200];
    if (!kernel_verify(w->compiled->kernels[i], why)) fail_msg("%s", why);
  }
}

static int groups(const World *w, GroupKind kind) {
  int n = 0;
  for (uint32_t i = 0; i < w->f->ngroups; i++) n += w->f->group[i].kind == kind;
  return n;
}
static const Group *kernel_group(const World *w) {
  for (uint32_t i = 0; i < w->f->ngroups; i++)
    if (w->f->group[i].kind == GROUP_KERNEL) return &w->f->group[i];
  return NULL;
}
static int instrs(const World *w, InstrKind kind) {
  int n = 0;
  for (uint32_t i = 0; i < w->compiled->program->ninstrs; i++)
    n += w->compiled->program->instr[i].kind == kind;
  return n;
}

// -- kernels ------------------------------------------------------------------------------------

static void sum_of_chain(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = INPUT(&w, "x", w.b, w.d), y = INPUT(&w, "y", w.b, w.d), z = INPUT(&w, "z", w.b, w.d);
  NodeId v = two(&w, OP_ADD, x, two(&w, OP_MUL, y, z));
  output(&w, "s", graph_reduce(w.g, OP_SUM, v, &(Dims){.n = 2, .at = {w.b, w.d}}));
  compile(&w);
  assert_int_equal(groups(&w, GROUP_KERNEL), 1);
  assert_int_equal(kernel_group(&w)->nstored, 1);
  assert_int_equal(kernel_group(&w)->store_bytes, 4);
  const Kernel *k = w.compiled->kernels[0];
  assert_int_equal(k->nouter, 1); // outer loops joined
  assert_int_equal(k->loop[0].size, 64 * 48);
  assert_int_equal(k->ninner, 0);
  assert_true(kernel_partial_bytes(k) > 0);
  arena_free(w.a);
}

static NodeId softmax(World *w, NodeId x, DimId c) {
  NodeId e = graph_unary(w->g, OP_EXP, two(w, OP_SUB, x, over(w, OP_MAX, x, c)));
  return two(w, OP_DIV, e, over(w, OP_SUM, e, c));
}

static void softmax_is_one_kernel(void **state) {
  (void)state;
  World w;
  begin(&w);
  output(&w, "p", softmax(&w, INPUT(&w, "x", w.b, w.c), w.c));
  compile(&w);
  assert_int_equal(groups(&w, GROUP_KERNEL), 1);
  const Kernel *k = w.compiled->kernels[0];
  assert_int_equal(k->nouter, 1);
  assert_int_equal(k->ninner, 1);
  assert_int_equal(k->nphases, 3);
  assert_int_equal(k->vector, 0); // a row is shorter than a vector
  arena_free(w.a);
}

static void layer_norm_is_one_kernel(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = INPUT(&w, "x", w.b, w.t, w.d), gain = TENSOR(&w, DECL_PARAM, "gain", w.d);
  NodeId n = number(&w, 1.0 / 48), m = two(&w, OP_MUL, over(&w, OP_SUM, x, w.d), n),
         u = two(&w, OP_SUB, x, m);
  NodeId var = two(&w, OP_MUL, over(&w, OP_SUM, two(&w, OP_MUL, u, u), w.d), n);
  NodeId r = graph_unary(w.g, OP_RSQRT, two(&w, OP_ADD, var, number(&w, 1e-5)));
  output(&w, "y", two(&w, OP_MUL, two(&w, OP_MUL, u, r), gain));
  compile(&w);
  assert_int_equal(groups(&w, GROUP_KERNEL), 1);
  assert_int_equal(w.compiled->kernels[0]->nouter, 1); // outer loops b and t joined
  arena_free(w.a);
}

static void cross_entropy_and_gradient_are_one_kernel(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = INPUT(&w, "x", w.b, w.c), label = decl(&w, DECL_INPUT, "label", TYPE_I32, 1, &w.b);
  NodeId hot = two(&w, OP_EQ, label, graph_index(w.g, w.c)), zero = number(&w, 0);
  NodeId m = over(&w, OP_MAX, x, w.c), e = graph_unary(w.g, OP_EXP, two(&w, OP_SUB, x, m));
  NodeId lse = two(&w, OP_ADD, m, graph_unary(w.g, OP_LOG, over(&w, OP_SUM, e, w.c)));
  NodeId loss = two(&w, OP_SUB, lse, over(&w, OP_SUM, graph_where(w.g, hot, x, zero), w.c));
  NodeId p = graph_unary(w.g, OP_EXP, two(&w, OP_SUB, x, lse));
  NodeId g =
      two(&w, OP_MUL, two(&w, OP_SUB, p, graph_cast(w.g, hot, TYPE_F32)), number(&w, 1.0 / 64));
  output(&w, "loss", over(&w, OP_SUM, loss, w.b));
  output(&w, "g", g);
  output(&w, "gb", over(&w, OP_SUM, g, w.b));
  compile(&w);
  assert_int_equal(groups(&w, GROUP_KERNEL), 1);
  arena_free(w.a);
}

static void update_of_all_is_one_launch(void **state) {
  (void)state;
  World w;
  begin(&w);
  const DimId shape[3][2] = {{w.d, w.h}, {w.h, w.c}, {w.t, w.d}};
  static const char *const names[3][3] = {
      {"p0", "m0", "g0"}, {"p1", "m1", "g1"}, {"p2", "m2", "g2"}};
  for (int i = 0; i < 3; i++) {
    NodeId p = decl(&w, DECL_PARAM, names[i][0], TYPE_F32, 2, shape[i]);
    NodeId m = decl(&w, DECL_STATE, names[i][1], TYPE_F32, 2, shape[i]);
    NodeId g = decl(&w, DECL_INPUT, names[i][2], TYPE_F32, 2, shape[i]);
    NodeId m2 = two(&w, OP_ADD, two(&w, OP_MUL, m, number(&w, 0.9)), g);
    update(&w, m, m2);
    update(&w, p, two(&w, OP_SUB, p, two(&w, OP_MUL, m2, number(&w, 0.1))));
  }
  compile(&w);
  assert_int_equal(instrs(&w, INSTR_KERNEL), 1);
  assert_int_equal(instrs(&w, INSTR_COPY), 0);
  assert_int_equal(w.compiled->program->ninstrs, 2);
  assert_int_equal(w.compiled->program->instr[0].kind, INSTR_COMMIT);
  assert_int_equal(w.compiled->program->instr[1].u.kernel.nsets, 3);
  assert_int_equal(w.compiled->kernels[0]->loop[0].size, 0);
  arena_free(w.a);
}

// Two states take each other's value: one of the new values must wait in a buffer.
static void exchanged_states_need_a_copy(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = TENSOR(&w, DECL_STATE, "x", w.b, w.d), y = TENSOR(&w, DECL_STATE, "y", w.b, w.d);
  update(&w, x, graph_unary(w.g, OP_NEG, y));
  update(&w, y, graph_unary(w.g, OP_ABS, x));
  w.opt.fuse = false;
  compile(&w);
  assert_true(instrs(&w, INSTR_COPY) >= 1);
  arena_free(w.a);
}

static void equal_layers_share_kernels(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = INPUT(&w, "x", w.b, w.c);
  static const char *const names[] = {"s0", "s1", "s2"};
  for (int i = 0; i < 3; i++) {
    x = softmax(&w, two(&w, OP_MUL, x, number(&w, i + 2)), w.c);
    output(&w, names[i], x);
  }
  w.opt.fuse = true;
  compile(&w);
  assert_true(w.compiled->program->nkernels <= 3);
  arena_free(w.a);
}

// -- products and order -------------------------------------------------------------------------

static NodeId contract(World *w, NodeId x, NodeId y, DimId d) {
  return graph_add(w->g, OP_CONTRACT, 2, (NodeId[]){x, y},
                   &(Attr){.type = TYPE_F32, .ndims = 1, .dims = &d});
}

static const Gemm *product(const World *w) {
  for (uint32_t i = 0; i < w->compiled->program->ninstrs; i++)
    if (w->compiled->program->instr[i].kind == INSTR_GEMM)
      return &w->compiled->program->instr[i].u.gemm;
  return NULL;
}

static void product_of_three_dims(void **state) {
  (void)state;
  World w;
  begin(&w);
  output(&w, "y",
         contract(&w, INPUT(&w, "x", w.b, w.t, w.d), TENSOR(&w, DECL_PARAM, "w", w.d, w.h), w.d));
  compile(&w);
  const Gemm *p = product(&w);
  assert_non_null(p);
  assert_int_equal(p->m.base, 64 * 32);
  assert_int_equal(p->n.base, 40);
  assert_int_equal(p->k.base, 48);
  assert_int_equal(p->nbatch, 0);
  assert_false(p->ta || p->tb);
  assert_int_equal(p->lda, 48);
  assert_int_equal(p->ldc, 40);
  assert_int_equal(w.compiled->program->flops, 2LL * 64 * 32 * 40 * 48);
  arena_free(w.a);
}

static void small_products_are_generated(void **state) {
  (void)state;
  World w;
  begin(&w);
  output(&w, "y", contract(&w, INPUT(&w, "x", w.b, w.c), INPUT(&w, "w", w.c, w.h), w.c));
  compile(&w);
  assert_null(product(&w));
  const Kernel *k = w.compiled->kernels[0];
  assert_int_equal(k->vector, k->nouter - 1);
  assert_true(k->rows >= 0);
  arena_free(w.a);
}

// x[b, k] w[h, k]: both arguments are contiguous along k. The vectorised loop runs over h if k is
// short, else over k.
static void short_sums_have_vectors_of_results(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    World w;
    begin(&w);
    DimId k = i ? w.d : w.c;
    output(&w, "y", contract(&w, INPUT(&w, "x", w.b, k), INPUT(&w, "w", w.h, k), k));
    w.opt.products = 0;
    compile(&w);
    const Kernel *kernel = w.compiled->kernels[0];
    assert_string_equal(kernel->loop[kernel->vector].name, i ? "d" : "h");
    assert_string_equal(kernel->loop[kernel->rows].name, i ? "h" : "b");
    arena_free(w.a);
  }
}

// The result has dim b last, which both arguments have: no load along b serves several results.
static void vectors_along_dims_of_both_arguments_are_sums(void **state) {
  (void)state;
  World w;
  begin(&w);
  DimId i = dim_add(w.g->dims, "i", 4, (Pos){0}), j = dim_add(w.g->dims, "j", 2, (Pos){0});
  NodeId y = contract(&w, INPUT(&w, "x", w.b, i, w.c), INPUT(&w, "y", w.b, j, w.c), w.c);
  Output o = {.kind = OUT_VALUE, .name = "y", .value = y, .rank = 3, .dims = {i, j, w.b}};
  vec_push(w.a, w.g->output) = o;
  w.opt.products = 0;
  compile(&w);
  const Kernel *k = w.compiled->kernels[0];
  assert_string_equal(k->loop[k->vector].name, "c");
  arena_free(w.a);
}

// A maximum over ten elements is computed for many rows at a time: dim c does not come last.
static void short_rows_are_not_contiguous(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId y = contract(&w, INPUT(&w, "x", w.b, w.t, w.d), INPUT(&w, "w", w.d, w.h, w.c), w.d);
  output(&w, "y", over(&w, OP_MAX, y, w.c));
  compile(&w);
  for (NodeId n = 1; n <= graph_count(w.order->graph); n++) {
    const DimList *list = &w.order->at[n];
    if (graph_node(w.order->graph, n)->op == OP_CONTRACT)
      assert_int_not_equal(list->at[list->n - 1], w.c);
  }
  arena_free(w.a);
}

// Where the ids change from element to element, each element of a vector is in another row.
static void rows_of_tables_are_read_along(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId table = TENSOR(&w, DECL_PARAM, "table", w.h, w.c);
  NodeId ids = graph_cast(w.g, INPUT(&w, "ids", w.b), TYPE_I32);
  NodeId rows =
      graph_add(w.g, OP_TAKE, 2, (NodeId[]){table, ids}, &(Attr){.ndims = 1, .dims = &w.h});
  NodeId sums = graph_add(w.g, OP_SCATTER_ADD, 2, (NodeId[]){rows, ids},
                          &(Attr){.ndims = 1, .dims = &w.b, .nto = 1, .to = &w.h});
  DimList held = {2, {w.h, w.c}}, along = {2, {w.b, w.c}}, across = {2, {w.c, w.b}};
  const DimList *read[3] = {&held}, *added[3] = {&along}, *added_across[3] = {&across};
  OrderFacts cpu = {.vectors = true}, gpu = {.vectors = false};
  assert_true(order_cost(w.g, &cpu, rows, read, &across) >
              2 * order_cost(w.g, &cpu, rows, read, &along));
  assert_true(order_cost(w.g, &cpu, sums, added_across, &held) >
              2 * order_cost(w.g, &cpu, sums, added, &held));
  assert_true(order_cost(w.g, &gpu, rows, read, &across) <
              order_cost(w.g, &cpu, rows, read, &across));
  arena_free(w.a);
}

// Where no argument is contiguous along the last dim of the result, vectors run along the summed
// dim, and lanes are joined for each result.
static void joined_lanes_of_one_argument_cost(void **state) {
  (void)state;
  World w;
  begin(&w);
  DimId i = dim_add(w.g->dims, "i", 6, (Pos){0}), j = dim_add(w.g->dims, "j", 4, (Pos){0});
  NodeId y = contract(&w, INPUT(&w, "v", i, j), INPUT(&w, "x", w.b, i), i);
  DimList summed_last = {2, {j, i}}, rows_last = {2, {i, w.b}}, result = {2, {w.b, j}},
          turned = {2, {j, w.b}};
  const DimList *arg[3] = {&summed_last, &rows_last};
  OrderFacts cpu = {.vectors = true};
  assert_true(order_cost(w.g, &cpu, y, arg, &result) > 20 * order_cost(w.g, &cpu, y, arg, &turned));
  arena_free(w.a);
}

// Dims of one element may be anywhere: rows of y[b, d, one] and x[b, one, d] are the same memory.
static void dims_of_one_element_change_nothing(void **state) {
  (void)state;
  World w;
  begin(&w);
  DimId one = dim_add(w.g->dims, "one", 1, (Pos){0});
  output(&w, "max", over(&w, OP_MAX, INPUT(&w, "x", w.b, w.d, one), w.d));
  compile(&w);
  const Kernel *k = w.compiled->kernels[0];
  assert_string_equal(k->loop[k->vector].name, "d");
  arena_free(w.a);
  begin(&w);
  one = dim_add(w.g->dims, "one", 1, (Pos){0});
  NodeId arg[] = {INPUT(&w, "x", w.b, one, w.d), INPUT(&w, "y", w.d, one, w.h)};
  Attr sum = {.type = TYPE_F32, .ndims = 2, .dims = (DimId[]){w.d, one}};
  output(&w, "sum", graph_add(w.g, OP_CONTRACT, 2, arg, &sum));
  compile(&w);
  assert_non_null(product(&w));
  assert_int_equal(groups(&w, GROUP_KERNEL), 0);
  arena_free(w.a);
}

static void merges_move_nothing_where_dims_are_adjacent(void **state) {
  (void)state;
  World w;
  begin(&w);
  DimId bt = dim_add(w.g->dims, "bt", 64 * 32, (Pos){0});
  NodeId x = INPUT(&w, "x", w.b, w.t, w.d), y = INPUT(&w, "y", w.t, w.b, w.d);
  Attr at = {.ndims = 2, .dims = (DimId[]){w.b, w.t}, .nto = 1, .to = &bt};
  output(&w, "mx", graph_unary(w.g, OP_NEG, graph_add(w.g, OP_MERGE, 1, &x, &at)));
  output(&w, "my", graph_unary(w.g, OP_NEG, graph_add(w.g, OP_MERGE, 1, &y, &at)));
  compile(&w);
  int copies = 0;
  for (NodeId n = 1; n <= graph_count(w.order->graph); n++)
    copies += graph_node(w.order->graph, n)->op == OP_BROADCAST;
  assert_int_equal(copies, 1);
  assert_int_equal(groups(&w, GROUP_ALIAS), 2);
  arena_free(w.a);
}

// -- plan, texts --------------------------------------------------------------------------------

static void chains_run_in_place(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = INPUT(&w, "x", w.b, w.d);
  for (int i = 0; i < 4; i++) x = graph_unary(w.g, OP_TANH, x);
  output(&w, "y", x);
  w.opt.fuse = false;
  compile(&w);
  assert_int_equal(instrs(&w, INSTR_KERNEL), 4);
  assert_int_equal(w.compiled->activation_bytes,
                   2 * 64 * 48 * 4); // x stays live; the other values share one buffer
  assert_int_equal(w.compiled->activation_bytes, w.compiled->live_bytes);
  assert_non_null(strstr(plan_print(w.a, w.compiled), "in place of"));
  arena_free(w.a);
}

// Returns how many pointers of all kernels are streamed.
static int streamed(const World *w) {
  int n = 0;
  for (uint32_t i = 0; i < w->compiled->program->nkernels; i++)
    for (int p = 0; p < w->compiled->kernels[i]->nptr; p++)
      n += w->compiled->kernels[i]->ptr[p].streamed;
  return n;
}

// Compiles tanh(tanh(x)) over x[b, d] without fusion. The second kernel runs in place.
static void two_kernels(World *w, DimId d, int64_t shared_cache) {
  NodeId x = INPUT(w, "x", w->b, d);
  output(w, "y", graph_unary(w->g, OP_TANH, graph_unary(w->g, OP_TANH, x)));
  w->opt.fuse = false;
  w->opt.shared_cache = shared_cache;
  compile(w);
}

// A kernel that reads x and writes a value of the same size.
static void large_values_are_streamed(void **state) {
  (void)state;
  World w;
  begin(&w);
  two_kernels(&w, w.d, 2 * 64 * 48 * 4 - 1);
  assert_int_equal(w.compiled->program->nkernels, 2); // equal but for the streamed pointer
  assert_int_equal(streamed(&w), 1);
  arena_free(w.a);
  begin(&w);
  two_kernels(&w, w.d, 2 * 64 * 48 * 4);
  assert_int_equal(w.compiled->program->nkernels, 1);
  assert_int_equal(streamed(&w), 0);
  arena_free(w.a);
}

// Rows of 10 f32 do not begin at cache lines.
static void unaligned_rows_are_not_streamed(void **state) {
  (void)state;
  World w;
  begin(&w);
  NodeId x = INPUT(&w, "x", w.b, w.c), s = over(&w, OP_SUM, x, w.c);
  output(&w, "y", two(&w, OP_MUL, x, s));
  w.opt.shared_cache = 1;
  compile(&w);
  assert_int_equal(streamed(&w), 0);
  arena_free(w.a);
}

static void identity_leaves_names_out(void **state) {
  (void)state;
  World w;
  begin(&w);
  output(&w, "y", graph_unary(w.g, OP_TANH, INPUT(&w, "x", w.b, w.d)));
  compile(&w);
  Kernel k = *w.compiled->kernels[0];
  char *text = kernel_identity(w.a, &k);
  k.name = "other";
  k.why = "no reason";
  k.loop[0].name = "elsewhere";
  assert_string_equal(text, kernel_identity(w.a, &k));
  assert_non_null(strstr(kernel_print(w.a, &k), "elsewhere"));
  assert_string_equal(text, w.compiled->program->kernel[0].text);
  k.loop[0].size++;
  assert_string_not_equal(text, kernel_identity(w.a, &k));
  assert_non_null(strstr(fusion_print(w.a, w.f, NULL), "kernel outer(b, d)"));
  arena_free(w.a);
}

static void verify_finds_broken_kernels(void **state) {
  (void)state;
  World w;
  char why[200];
  begin(&w);
  output(&w, "p", softmax(&w, INPUT(&w, "x", w.b, w.c), w.c));
  compile(&w);
  const Kernel *good = w.compiled->kernels[0];
  for (int i = 0; i < good->nstmts; i++) {
    Kernel k = *good;
    k.stmt = arena_copy(w.a, good->stmt, good->nstmts * sizeof *good->stmt);
    if (k.stmt[i].arg[0] == NO_STMT) continue;
    k.stmt[i].arg[0] = i;
    assert_false(kernel_verify(&k, why));
    assert_non_null(strstr(why, "no earlier"));
  }
  Kernel k = *good;
  k.vector = 0;
  k.block = 0;
  assert_false(kernel_verify(&k, why));
  arena_free(w.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sum_of_chain),
      cmocka_unit_test(softmax_is_one_kernel),
      cmocka_unit_test(layer_norm_is_one_kernel),
      cmocka_unit_test(cross_entropy_and_gradient_are_one_kernel),
      cmocka_unit_test(update_of_all_is_one_launch),
      cmocka_unit_test(exchanged_states_need_a_copy),
      cmocka_unit_test(equal_layers_share_kernels),
      cmocka_unit_test(product_of_three_dims),
      cmocka_unit_test(small_products_are_generated),
      cmocka_unit_test(short_sums_have_vectors_of_results),
      cmocka_unit_test(vectors_along_dims_of_both_arguments_are_sums),
      cmocka_unit_test(short_rows_are_not_contiguous),
      cmocka_unit_test(rows_of_tables_are_read_along),
      cmocka_unit_test(joined_lanes_of_one_argument_cost),
      cmocka_unit_test(dims_of_one_element_change_nothing),
      cmocka_unit_test(merges_move_nothing_where_dims_are_adjacent),
      cmocka_unit_test(chains_run_in_place),
      cmocka_unit_test(large_values_are_streamed),
      cmocka_unit_test(unaligned_rows_are_not_streamed),
      cmocka_unit_test(identity_leaves_names_out),
      cmocka_unit_test(verify_finds_broken_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
