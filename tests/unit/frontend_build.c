// Tests the way from text to graph: names and scopes, types, values, selection, gradients and
// updates with known numbers, and every error case of tests/cases/errors.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/eval/eval.h"
#include "runtime/runtime.h"

static Arena *arena;
static Diag *diag;

static int setup(void **state) {
  (void)state;
  arena = arena_new();
  return 0;
}
static int teardown(void **state) {
  (void)state;
  arena_free(arena);
  return 0;
}

static Model *build_with(const char *text, ModelOptions *opt) {
  Intern *names = intern_new(arena);
  diag = diag_new(arena);
  uint32_t source = diag_source(diag, "model.mesh", text, strlen(text));
  const Ast *t = ast_parse(arena, names, diag, source, text, strlen(text));
  opt->path = "model.mesh";
  for (uint32_t i = 0; i < opt->nsettings; i++) {
    const char *value = (const char *)opt->data_dir; // text of the only setting, until it is parsed
    opt->setting[i].value = ast_parse_expression(arena, names, diag, source, value, strlen(value));
    opt->data_dir = NULL;
  }
  return diag_errors(diag) ? NULL : model_build(arena, names, diag, t, opt);
}

static Model *build(const char *text) {
  ModelOptions opt = {0};
  Model *m = build_with(text, &opt);
  if (!m) diag_print(diag, stderr, false);
  assert_non_null(m);
  return m;
}

static bool has_name(const Model *m, const char *name) {
  return graph_find_name(m->graph, name) != NULL;
}

static const Node *node_of(const Model *m, const char *name) {
  const Name *n = graph_find_name(m->graph, name);
  assert_non_null(n);
  return graph_node(m->graph, n->value);
}

// Evaluates output `name` of g. Declarations are fed with a fixed pattern, or with the numbers of
// `set`.
typedef struct Given {
  const char *name;
  const double *value;
} Given;

static double pattern(int64_t i, size_t salt) {
  return sin(0.7 * (double)(i + 1) + 1.3 * (double)salt) * 0.8;
}

static const Tensor *value_of(const Graph *g, const char *name, size_t ngiven, const Given *given,
                              int64_t step) {
  EvalFeed feed[64];
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    int64_t count = 1;
    for (int k = 0; k < d->rank; k++) count *= dim_get(g->dims, d->dims[k])->size;
    double *x = arena_array(arena, double, count);
    for (int64_t k = 0; k < count; k++) {
      x[k] = d->kind == DECL_SLOT  ? 0
             : d->type == TYPE_I32 ? (double)(k % 2)
                                   : pattern(k, strlen(d->name));
      for (size_t j = 0; j < ngiven; j++)
        if (!strcmp(given[j].name, d->name)) x[k] = given[j].value[k];
    }
    if (d->node) feed[n++] = (EvalFeed){i + 1, x, count};
  }
  const Eval *e = eval_run(arena, g, n, feed, step);
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    bool agree;
    if (!strcmp(o->name, name)) return eval_full(arena, e, o->value, o->rank, o->dims, &agree);
  }
  fail_msg("no output %s", name);
  return NULL;
}

static double scalar_of(const char *text, const char *name) {
  const char *const fetch[] = {name};
  Model *m = build(text);
  Graph *g = select_run(arena, m, &(Fetch){.n = 1, .name = fetch});
  assert_non_null(g);
  return value_of(g, name, 0, NULL, 0)->value[0];
}

static bool near(double x, double y) { return fabs(x - y) <= 1e-6 * fmax(1, fabs(y)); }

// -- names --------------------------------------------------------------------------------------

static const char dense[] =
    "fn dense[in, out](x) {\n  param kernel[in, out] ~ glorot(in, out)\n  param bias[out]\n"
    "  return sum[in](x * kernel) + bias\n}\n";

static void test_scopes(void **state) {
  (void)state;
  Model *m = build(
      arena_printf(arena,
                   "dim b = 3, d = 4, h = 5, depth = 2\ninput x[b, d]\n%s"
                   "fn block(x) {\n  y = relu(dense[d, d](x))\n  return y + x\n}\n"
                   "a = dense[d, h](x)\nc = dense[d, h](x)\nq = dense[d, h](x, name = \"head\")\n"
                   "r = dense[d, h](x, share = \"head\")\n"
                   "for layer in 0..depth { x = block(x) }\nlast = x\n",
                   dense));
  static const char *const names[] = {"dense.kernel",    "dense_1.bias",
                                      "head.kernel",     "layer.1.block.dense.kernel",
                                      "layer.0.block.y", "layer.1.x"};
  for (size_t i = 0; i < countof(names); i++) assert_true(has_name(m, names[i]));
  assert_false(has_name(m, "head_1.kernel"));
  assert_false(has_name(m, "layer"));
  assert_ptr_equal(node_of(m, "q"), node_of(m, "r"));
  assert_ptr_equal(node_of(m, "x"), node_of(m, "layer.1.x"));
  DimId out = dim_find(m->graph->dims, "layer.0.block.dense.out");
  assert_true(out && dim_get(m->graph->dims, out)->follows == dim_find(m->graph->dims, "d"));
}

static void test_shadowing(void **state) {
  (void)state;
  Model *m = build("dim b = 2\ninput x[b]\nx = x * 2\nx = x + 1\ny = x\n");
  assert_int_equal(node_of(m, "x")->op, OP_ADD);
  assert_ptr_equal(node_of(m, "x"), node_of(m, "y"));
  assert_int_equal(graph_find_decl(m->graph, "x"), 1);
}

static void test_origin(void **state) {
  (void)state;
  Model *m = build("dim b = 2, c = 3\ninput x[b, c]\n\np = softmax[c](x)\nq = softmax[c](x * 2)\n");
  const Node *p = node_of(m, "p"), *q = node_of(m, "q");
  assert_int_equal(p->origin->pos.line, 4);
  assert_int_equal(p->origin->pos.col, 5);
  assert_string_equal(p->origin->value, "p");
  assert_true(p->origin->composite && q->origin->composite &&
              p->origin->composite != q->origin->composite);
}

static void test_results_and_defaults(void **state) {
  (void)state;
  const char *text =
      "fn two(x, k = 3) { return x + k, x * k }\nfn third(x) = 1 / x\ninput x\n"
      "p, q = two(2)\nr, s = two(2, k = 10)\ny = p + 100 * q + third(4) + 0 * x\nz = r * s\n";
  assert_true(near(scalar_of(text, "y"), 605.25));
  assert_true(near(scalar_of(text, "z"), 240));
}

static void test_names_of_calls(void **state) {
  (void)state;
  Model *m = build(
      "dim b = 2, t = 3\ninput x[b, t]\nfn att(x) {\n  dim s = t\n  p = rename[t -> s](x)\n  "
      "return sum[s](p)\n}\n"
      "fn plain(x) {\n  y = x * 3\n  return y\n}\na = att(x)\nc = att(x)\ny = x\nz = plain(x)\n");
  assert_true(has_name(m, "att.p") && has_name(m, "att_1.p"));
  assert_true(dim_find(m->graph->dims, "att.s") && dim_find(m->graph->dims, "att_1.s"));
  assert_ptr_equal(node_of(m, "y"), node_of(m, "x")); // not the y of function plain
}

// -- types --------------------------------------------------------------------------------------

static void test_types(void **state) {
  (void)state;
  static const struct {
    const char *expression;
    Dtype type;
  } rows[] = {
      {"x * 2", TYPE_F32},
      {"i * 2", TYPE_I32},
      {"i * 2.0", TYPE_F32},
      {"i / 2", TYPE_F32},
      {"flag + 1", TYPE_I32},
      {"flag * x", TYPE_F32},
      {"u + u", TYPE_I32},
      {"h * 0.5", TYPE_BF16},
      {"h * g", TYPE_F32},
      {"h + d", TYPE_F64},
      {"i * h", TYPE_BF16},
      {"sum(flag)", TYPE_I32},
      {"mean(flag)", TYPE_F32},
      {"x > 1", TYPE_BOOL},
      {"where(flag, 1, 0)", TYPE_I32},
      {"where(flag, x, -1e9)", TYPE_F32},
      {"i % 2", TYPE_I32},
      {"sqrt(i)", TYPE_F32},
      {"argmax(x)", TYPE_I32},
      {"cast(x, u8)", TYPE_U8},
      {"flag == flag", TYPE_BOOL},
      {"u == 3", TYPE_BOOL},
      {"max(i)", TYPE_I32},
      {"i ^ 2", TYPE_I32},
      {"1 / size(b)", TYPE_F32},
      {"index[b]", TYPE_I32},
      {"values[b](1, 2)", TYPE_I32},
      {"values[b](1, 2.5)", TYPE_F32},
      {"sum(i * flag)", TYPE_I32},
      {"sum(h * x)", TYPE_F32},
      {"sum(i * 0.5)", TYPE_F32},
      {"step", TYPE_I32},
  };
  for (size_t i = 0; i < countof(rows); i++) {
    const char *text =
        arena_printf(arena,
                     "dim b = 2\ninput x[b]\ninput i[b]: i32\ninput flag[b]: bool\ninput u[b]: u8\n"
                     "input h[b]: bf16\ninput g[b]: f16\ninput d[b]: f64\ny = %s\n",
                     rows[i].expression);
    if (node_of(build(text), "y")->type != rows[i].type)
      fail_msg("%s is %s", rows[i].expression, dtype_text((Dtype)node_of(build(text), "y")->type));
  }
}

// -- values -------------------------------------------------------------------------------------

static void test_values(void **state) {
  (void)state;
  const struct {
    const char *expression;
    double value;
  } rows[] = {
      {"1 / size(c) + 7 % 3", 1.25},
      {"-2 ^ 2", -4},
      {"2 ^ 3 ^ 2", 512},
      {"sum(index[c])", 6},
      {"sum[c](index[c] * index[c]) / 2", 7},
      {"sum(index[c] * index[c] * 0.5 / size(c))", 1.75},
      {"sum(-square(index[c]))", -14},
      {"sum(index[c] / (index[c] + 1))", 0.5 + 2.0 / 3 + 0.75},
      {"sum(index[c] * index[e])", 18},
      {"sum(index[c] + index[e])", 30},
      {"variance(index[c])", 1.25},
      {"max(index[c]) - min(index[c])", 3},
      {"prod(index[c] + 1)", 24},
      {"logsumexp(0 * index[c])", 1.3862943611198906},
      {"l2_norm(values[c](3, 0, 0, -4))", 5},
      {"trunc(-1.5) + trunc(1.5) + trunc(-2.75)", -2},
      {"relu(-3) + sign(-2.5) + silu(0) + size(c)", 3},
      {"sum(softmax[c](index[c] * 300))", 1},
      {"max(where(index[c] > 1, 5, index[c]))", 5},
      {"sum(one_hot[c](2) * index[c])", 2},
      {"take[c](values[c](5, 6, 7, 8), 2)", 7},
      {"sum(take[c](values[c](5, 6, 7, 8), index[e]))", 18},
      {"elu(-1) + leaky_relu(-100)", -1.6321205588285577},
      {"gelu(1)", 0.8413447460685429},
      {"gelu_tanh(1)", 0.8411919906082768},
      {"silu(2)", 1.7615941559557649},
      {"clip(7, -1, 1) + floor_div(-7, 2) + minimum(3, 2)", -1},
      {"cross_entropy[c](index[c], 3)", 0.4401896985611953},
      {"cross_entropy[c](index[c], 3, label_smoothing = 0.1)", 0.5901896985611953},
      {"cross_entropy[c](index[c], 3, ignore = 3)", 0},
      {"cross_entropy[c](index[c], 3, z_loss = 0.5)",
       0.4401896985611953 + 0.5 * 3.4401896985611953 * 3.4401896985611953},
      {"cross_entropy[c](index[c], values[c](0, 0, 0.5, 0.5))", 0.9401896985611953},
      {"sigmoid_cross_entropy(0, 1)", 0.6931471805599453},
      {"sum(layer_norm[c](index[c]) * index[c])", 5 / sqrt(1.25 + 1e-5)},
      {"sum(rms_norm[c](index[c]))", 6 / sqrt(3.5 + 1e-6)},
      {"sum(l2_normalize[c](index[c]))", 6 / sqrt(14.0)},
      {"sum(merge[c, e -> m](index[c] * 3 + index[e]) == index[m])", 12},
      {"sum(split[m -> c, e](index[m]) == index[c] * 3 + index[e])", 12},
      {"sum(rename[c -> f](index[c]) * index[f])", 14},
      {"argmax(values[c](1, 9, 9, 2)) + argmin(values[c](4, 4, 1, 1))", 3},
      {"cast(any(index[c] == 3) and not all(index[c] == 3), i32)", 1},
      {"sum(values[c, e](1))", 12},
      {"gradient(gradient(sum(p ^ 3) * 0.5, p), p) - 3 * p", 0},
  };
  for (size_t i = 0; i < countof(rows); i++) {
    const char *text = arena_printf(
        arena, "dim c = 4, e = 3, m = c * e, f = 4\nparam p = 2\ny = %s\n", rows[i].expression);
    double y = scalar_of(text, "y");
    if (!near(y, rows[i].value))
      fail_msg("%s = %.17g, expected %.17g", rows[i].expression, y, rows[i].value);
  }
}

static void test_contractions_store_no_product(void **state) {
  (void)state;
  Model *m = build("dim b = 6, d = 5, h = 4\ninput x[b, d]\nparam w[d, h]\nparam v[h]\ny = sum[d, "
                   "h](x * w * 2 * v / size(d))\n");
  const char *const fetch[] = {"y"};
  Graph *g = select_run(arena, m, &(Fetch){.n = 1, .name = fetch});
  for (NodeId i = 1; i <= graph_count(g); i++) assert_true(node_elements(g, i) <= 30);
  Graph *squares = select_run(arena, build("dim b = 6\ninput x[b]\ny = sum(x * x)\n"),
                              &(Fetch){.n = 1, .name = fetch});
  assert_int_equal(graph_node(squares, squares->output.at[0].value)->op, OP_CONTRACT);
}

static void test_initial_values(void **state) {
  (void)state;
  Model *m = build("dim d = 2, h = 3\nconst scale = 0.5\nparam w[h, d] = index[d] * scale + "
                   "index[h] * 10\nparam v[d, h] ~ he(d)\n"
                   "param u[d, h] ~ glorot(d -> h)\nparam c[d] = 1 / size(h)\nparam f[d] = "
                   "file(\"w{h2}.npy\", \"k\")\n"
                   "const h2 = 7\nparam o[d, h] ~ orthogonal(d -> h), trainable = false\n");
  const Decl *d = m->graph->decl.at;
  assert_int_equal(d[0].init.kind, INIT_DATA);
  assert_true(near(d[0].init.data[3], 10.5) && near(d[0].init.data[4], 20));
  assert_true(near(d[1].init.b, 1));
  assert_true(near(d[2].init.b, sqrt(6.0 / 5)) && near(d[2].init.a, -sqrt(6.0 / 5)));
  assert_true(d[3].init.kind == INIT_CONSTANT && near(d[3].init.a, 1.0 / 3));
  assert_string_equal(d[4].init.path, "w7.npy");
  assert_true(d[5].init.kind == INIT_ORTHOGONAL && d[5].init.split == 1 && d[5].frozen);
}

// -- gradients and updates ----------------------------------------------------------------------

static const char net[] =
    "dim b = 3, d = 4, h = 5, c = 2\ninput x[b, d]: f64\ninput label[b]: i32\n"
    "param w[d, h]: f64\nparam bias[h]: f64\nparam v[h, c]: f64\n"
    "hidden = tanh(sum[d](x * w) + bias)\nlogits = sum[h](hidden * v)\n"
    "loss = mean(cross_entropy[c](logits, label)) + 0.1 * sum(layer_norm[h](hidden) * hidden)\n";

static void check_gradient(const Model *m, const char *name, int64_t count) {
  const char *const fetch[] = {"loss", arena_printf(arena, "grad(%s)", name)};
  Graph *g = select_run(arena, m, &(Fetch){.n = 2, .name = fetch});
  const Tensor *grad = value_of(g, fetch[1], 0, NULL, 0);
  assert_int_equal(grad->elements, count);
  for (int64_t i = 0; i < count; i++) {
    double *w = arena_array(arena, double, count), e = 1e-5, loss[2];
    for (int side = 0; side < 2; side++) {
      for (int64_t k = 0; k < count; k++)
        w[k] = pattern(k, strlen(name)) + (k == i ? (side ? e : -e) : 0);
      loss[side] = value_of(g, "loss", 1, &(Given){name, w}, 0)->value[0];
    }
    double slope = (loss[1] - loss[0]) / (2 * e);
    if (fabs(slope - grad->value[i]) > 1e-6)
      fail_msg("grad(%s)[%d]: %g, slope %g", name, (int)i, grad->value[i], slope);
  }
}

static void test_gradients(void **state) {
  (void)state;
  Model *m = build(net);
  check_gradient(m, "w", 20);
  check_gradient(m, "bias", 5);
  check_gradient(m, "v", 10);
  check_gradient(m, "x", 12);
}

// Runs one and two steps with one scalar parameter p = 2 whose gradient is 3.
static void run_steps(const char *optimizer, int steps, double *p, const char *slot,
                      double *slot_value) {
  Model *m = build(
      arena_printf(arena, "param p\nloss = 3 * p\ntrain loss { optimizer = %s }\n", optimizer));
  Graph *g = select_train(arena, m, NULL);
  assert_non_null(g);
  double slot_now = 0;
  for (int step = 0; step < steps; step++) {
    Given given[] = {{"p", (double[]){*p}}, {slot, (double[]){slot_now}}};
    double next = value_of(g, "p", 2, given, step)->value[0];
    slot_now = *slot ? value_of(g, slot, 2, given, step)->value[0] : 0;
    *p = next;
  }
  *slot_value = slot_now;
}

static void test_optimizers(void **state) {
  (void)state;
  const struct {
    const char *text, *slot;
    int steps;
    double p, slot_value;
  } rows[] = {
      {"sgd(lr = 0.1)", "", 2, 1.4, 0},
      {"sgd(lr = 0.1, weight_decay = 0.5)", "", 1, 1.6, 0},
      {"sgd(lr = 0.1, momentum = 0.5)", "optimizer.p.v", 2, 2 - 0.3 - 0.45, 4.5},
      {"sgd(lr = 0.1, momentum = 0.5, nesterov = true)", "optimizer.p.v", 1, 2 - 0.45, 3},
      {"adam(lr = 0.1)", "optimizer.p.m", 1, 1.9, 0.3},
      {"adam(lr = 0.1), clip_value = 1", "optimizer.p.m", 1, 1.9, 0.1},
      {"adam(lr = 0.1), clip_norm = 1.5", "optimizer.p.m", 1, 1.9, 0.15},
      {"adamw(lr = 0.1, weight_decay = 0.1)", "optimizer.p.v", 1, 1.98 - 0.1, 0.009},
      {"adamw(lr = 0.1, weight_decay = 0.1, no_decay = \"p*\")", "optimizer.p.v", 1, 1.9, 0.009},
      {"adagrad(lr = 0.1)", "optimizer.p.v", 2, 2 - 0.1 - 0.3 / 4.242640687119285, 18},
      {"rmsprop(lr = 0.1, rho = 0.75)", "optimizer.p.v", 1, 1.8, 2.25},
      {"rmsprop(lr = 0.1, rho = 0.75, decay = 1)", "", 1, 1.8, 0},
      {"lion(lr = 0.1)", "optimizer.p.m", 2, 1.8, 0.0597},
      {"lamb(lr = 0.1, weight_decay = 0)", "optimizer.p.v", 1, 1.8, 0.009},
      {"adadelta(eps = 1)", "optimizer.p.u", 1, 2 - 3 / 1.378404875209022, 0.9 / 1.9},
      {"nadam(lr = 0.1, beta1 = 0.5)", "optimizer.p.m", 1, 1.8866618774523671, 1.5},
      {"radam(lr = 0.1)", "optimizer.p.m", 1, 1.7, 0.3},
      {"sgd(lr = 0.1), schedule = linear(total = 2)", "", 2, 2 - 0.3 - 0.15, 0},
      {"sgd(lr = 0.1), schedule = cosine(total = 2)", "", 2, 2 - 0.3 - 0.15, 0},
      {"sgd(lr = 0.1), schedule = constant(warmup = 2)", "", 1, 2 - 0.15, 0},
      {"sgd(lr = 0.1), schedule = step(every = 1, factor = 0.1)", "", 2, 2 - 0.3 - 0.03, 0},
      {"sgd(lr = 0.1), schedule = exponential(rate = 0.25, every = 2)", "", 2, 2 - 0.3 - 0.15, 0},
      {"sgd(lr = 0.1), schedule = piecewise(1: 1, 5: 0.1)", "", 2, 2 - 0.3 - 0.03, 0},
      {"sgd(lr = 0.1), schedule = inverse_sqrt(scale = 1)", "", 3,
       2 - 0.6 - 0.3 / 1.4142135623730951, 0},
  };
  for (size_t i = 0; i < countof(rows); i++) {
    double p = 2, slot;
    run_steps(rows[i].text, rows[i].steps, &p, rows[i].slot, &slot);
    bool good = near(p, rows[i].p) && (!*rows[i].slot || near(slot, rows[i].slot_value));
    if (!good)
      fail_msg("%s: p = %.9g, slot %.9g; expected %.9g, %.9g", rows[i].text, p, slot, rows[i].p,
               rows[i].slot_value);
  }
}

static void test_train_outputs(void **state) {
  (void)state;
  Model *m = build("dim b = 2\ninput x[b]\nparam w[b]\nparam fixed[b], trainable = false\nstate m "
                   "= 0\nupdate m = m + 1\n"
                   "y = where(training, x * w, x) * fixed\nloss = sum(y)\nmetric top = "
                   "max(y)\ntrain loss { optimizer = sgd(lr = 1) }\n");
  Graph *g = select_train(arena, m, NULL);
  int updates = 0;
  for (uint32_t i = 0; i < g->output.n; i++) updates += g->output.at[i].kind == OUT_UPDATE;
  assert_int_equal(updates, 2); // w and m; fixed parameters are not updated
  const char *const fetch[] = {"w", "grad(y)"};
  g = select_train(arena, m, &(Fetch){.n = 2, .name = fetch});
  double one[] = {1, 1}, x[] = {3, 5};
  Given given[] = {{"w", one}, {"x", x}, {"fixed", one}};
  assert_true(near(value_of(g, "w", 3, given, 0)->value[1], -4)); // the value after the step
  assert_true(near(value_of(g, "grad(y)", 3, given, 0)->value[1], 1));
}

// -- selection ----------------------------------------------------------------------------------

static void test_select_run(void **state) {
  (void)state;
  Model *m = build(
      "dim h = 3, b = 2\ninput x[b, h]\ninput never[b]\nparam w[h]\ny[h, b] = x * w\nz = y * 2\n"
      "other = never * 2\nscore = sum(where(training, never, 0)) + sum(y)\n");
  const char *const fetch[] = {"y", "z", "score", "grad(y)"};
  Graph *g = select_run(arena, m, &(Fetch){.n = 4, .name = fetch, .loss = "score"});
  assert_non_null(g);
  assert_int_equal(g->decl.at[graph_find_decl(g, "never") - 1].node, 0);
  assert_int_equal(g->output.at[0].dims[0], dim_find(g->dims, "h"));
  assert_int_equal(g->output.at[1].dims[0],
                   dim_find(g->dims, "h")); // order of dims: h was declared first
  assert_int_equal(g->output.at[3].dims[0], dim_find(g->dims, "h"));
  const char *const wrong[] = {"yy"};
  assert_null(select_run(arena, m, &(Fetch){.n = 1, .name = wrong}));
  assert_int_equal(diag_exit(diag), 2);
}

static double combined(const EvalMetric *e, const Graph *g, int64_t batches, const double *rows,
                       int64_t batch) {
  double part[8];
  EvalFeed feed[10];
  uint32_t n = 0;
  for (uint32_t p = 0; p < e->nparts; p++) {
    double sum = 0, best = 0;
    for (int64_t i = 0; i < batches; i++) {
      double v = value_of(g, e->output[p], 1, &(Given){"x", rows + i * batch}, 0)->value[0];
      sum += v;
      best = i == 0 || v > best ? v : best;
    }
    part[p] = e->how[p] == PART_SUM ? sum : e->how[p] == PART_MAX ? best : sum / (double)batches;
  }
  double all = (double)(batches * batch);
  for (uint32_t i = 0; i < e->finish->decl.n; i++) {
    const char *name = e->finish->decl.at[i].name;
    feed[n++] = (EvalFeed){i + 1, !strcmp(name, "rows") ? &all : &part[atoi(name + 5)], 1};
  }
  const Eval *v = eval_run(arena, e->finish, n, feed, 0);
  return eval_at(v, e->finish->output.at[0].value, 0)->value[0];
}

static void test_select_eval(void **state) {
  (void)state;
  static const char text[] = "dim b = %d\ninput x[b]\nloss = exp(mean(square(x))) "
                             "+ 0.5 * sum(values[b](%s) * 0)\nmetric hits = mean(x > 0)\n"
                             "metric top = max(x) - sum(x) / 10\nmetric ratio = sum(x * x) / "
                             "sum(abs(x))\nmetric some = cast(any(x > 0.7), f32)\n"
                             "data test over b { x = npy(\"x.npy\") }\n";
  double rows[] = {0.5, -1, 0.25, 2, 0.1, -0.3};
  uint32_t n, whole_n;
  EvalMetric *e, *whole_e;
  Graph *g = select_eval(arena, build(arena_printf(arena, text, 2, "0, 0")), &n, &e);
  Model *whole = build(arena_printf(arena, text, 6, "0, 0, 0, 0, 0, 0"));
  Graph *all = select_eval(arena, whole, &whole_n, &whole_e);
  assert_int_equal(n, 5);
  assert_int_equal(diag_errors(diag), 0);
  for (uint32_t i = 0; i < n; i++) {
    double a = combined(&e[i], g, 3, rows, 2), b = combined(&whole_e[i], all, 1, rows, 6);
    if (!near(a, b)) fail_msg("%s: %g in batches, %g whole", e[i].name, a, b);
  }
  assert_true(e[1].ratio && !e[0].ratio && !e[2].ratio);
  FILE *out = tmpfile();
  diag_print(diag, out, false);
  assert_int_equal(ftell(out), 0); // no warning: metrics of batches combine exactly
  fclose(out);
}

// -- options ------------------------------------------------------------------------------------

static Model *build_set(const char *text, const char *path, const char *value) {
  Setting set = {.path = path};
  ModelOptions opt = {.nsettings = 1, .setting = &set, .data_dir = value};
  return build_with(text, &opt);
}

static void test_settings(void **state) {
  (void)state;
  static const char text[] = "dim b = 4, c = 2 * b\nconst rate = 0.1\ninput x[b]\nloss = mean(x)\n"
                             "data train over b { x = npy(\"x.npy\") }\ntrain loss { optimizer = "
                             "adam(lr = rate), steps = 5 }\n";
  Model *m = build_set(text, "b", "7");
  assert_int_equal(dim_get(m->graph->dims, dim_find(m->graph->dims, "c"))->size, 14);
  assert_true(near(build_set(text, "rate", "0.5")->graph->spec.train->optimizer.lr, 0.5));
  assert_true(near(build_set(text, "train.optimizer.lr", "2")->graph->spec.train->optimizer.lr, 2));
  assert_int_equal(
      build_set(text, "train.optimizer", "sgd(lr = 1)")->graph->spec.train->optimizer.kind,
      OPTIMIZER_SGD);
  assert_int_equal(build_set(text, "train.steps", "9")->graph->spec.train->steps, 9);
  m = build_set(text, "data.train.x", "csv(\"f.csv\", column = 2, rows = 3..8)");
  const DataSource *s = &m->graph->spec.data[DATA_TRAIN].field[0].source;
  assert_true(s->kind == SOURCE_CSV && s->first == 2 && s->row_first == 3 && s->row_last == 8);
  assert_null(build_set(text, "batch", "7"));
  assert_int_equal(diag_exit(diag), 2);
}

static void test_size_is_no_limit(void **state) {
  (void)state;
  enum { TERMS = 20000 };
  char *text = arena_alloc(arena, TERMS * 8 + 200), *p = text;
  p += sprintf(p, "dim b = 4\ninput x[b]\ny = x");
  for (int i = 1; i < TERMS; i++) p += sprintf(p, " + x");
  p += sprintf(p, "\nz = sum(x");
  for (int i = 1; i < 2000; i++) p += sprintf(p, " * x");
  sprintf(p, ")\n");
  assert_int_equal(node_of(build(text), "y")->op, OP_ADD);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_scopes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_shadowing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_origin, setup, teardown),
      cmocka_unit_test_setup_teardown(test_results_and_defaults, setup, teardown),
      cmocka_unit_test_setup_teardown(test_names_of_calls, setup, teardown),
      cmocka_unit_test_setup_teardown(test_types, setup, teardown),
      cmocka_unit_test_setup_teardown(test_values, setup, teardown),
      cmocka_unit_test_setup_teardown(test_contractions_store_no_product, setup, teardown),
      cmocka_unit_test_setup_teardown(test_initial_values, setup, teardown),
      cmocka_unit_test_setup_teardown(test_gradients, setup, teardown),
      cmocka_unit_test_setup_teardown(test_optimizers, setup, teardown),
      cmocka_unit_test_setup_teardown(test_train_outputs, setup, teardown),
      cmocka_unit_test_setup_teardown(test_select_run, setup, teardown),
      cmocka_unit_test_setup_teardown(test_select_eval, setup, teardown),
      cmocka_unit_test_setup_teardown(test_settings, setup, teardown),
      cmocka_unit_test_setup_teardown(test_size_is_no_limit, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
