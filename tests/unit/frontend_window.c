// Tests built-ins that move elements: values against written-out numbers and plain loops, before
// and after simplification; gradients and second derivatives against differences; computed
// positions out of range.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/eval/eval.h"

static Arena *arena;

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

// -- models -------------------------------------------------------------------------------------

static Graph *graph_of(const char *text, int n, const char *const *fetch) {
  Intern *names = intern_new(arena);
  Diag *diag = diag_new(arena);
  uint32_t source = diag_source(diag, "model.mesh", text, strlen(text));
  ModelOptions opt = {.path = "model.mesh"};
  const Ast *t = ast_parse(arena, names, diag, source, text, strlen(text));
  Model *m = diag_errors(diag) ? NULL : model_build(arena, names, diag, t, &opt);
  if (!m) diag_print(diag, stderr, false);
  assert_non_null(m);
  Graph *g = select_run(arena, m, &(Fetch){.n = (uint32_t)n, .name = fetch});
  assert_non_null(g);
  return g;
}

static const Graph *simplified(const Graph *g) {
  const Graph *y = graph_simplify(arena, graph_expand(arena, g));
  char why[200];
  if (!graph_verify(y, why)) fail_msg("%s", why);
  return y;
}

typedef struct Feeds {
  uint32_t n;
  EvalFeed at[8];
  double *value[8];
} Feeds;

// Returns distinct numbers for all declarations; integers are small.
static Feeds feeds_of(const Graph *g) {
  Feeds f = {0};
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    int64_t n = 1;
    for (int k = 0; k < d->rank; k++) n *= dim_get(g->dims, d->dims[k])->size;
    double *x = arena_array(arena, double, n);
    for (int64_t k = 0; k < n; k++)
      x[k] = dtype_is_float(d->type) ? sin(1.7 * (double)(k + 1) + (double)i) : (double)(k % 3);
    f.value[f.n] = x;
    f.at[f.n++] = (EvalFeed){i + 1, x, n};
  }
  return f;
}

// Evaluates an output, with its dims in the order of declaration `like`; 0: in its own order.
static const Tensor *output_like(const Graph *g, const Feeds *f, const char *name, DeclId like,
                                 bool *outside) {
  EvalFeed used[8];
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n; i++)
    if (g->decl.at[f->at[i].decl - 1].node) used[n++] = f->at[i];
  const Eval *e = eval_run(arena, g, n, used, 0);
  bool agree;
  if (outside) *outside = e->out_of_range;
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    if (strcmp(o->name, name)) continue;
    const Decl *d = like ? &g->decl.at[like - 1] : NULL;
    return eval_full(arena, e, o->value, d ? d->rank : o->rank, d ? d->dims : o->dims, &agree);
  }
  fail_msg("no output %s", name);
  return NULL;
}

static const Tensor *output_of(const Graph *g, const Feeds *f, const char *name, bool *outside) {
  return output_like(g, f, name, 0, outside);
}

// -- values -------------------------------------------------------------------------------------

typedef struct Known {
  const char *text; // binds y, with explicit dims
  int n;
  double y[24];
} Known;

#define LEAST ((double)INT32_MIN)
// clang-format off
static const Known known[] = {
    // slice
    {"dim t = 6, s = 3\ny[s] = slice[t -> s](index[t])", 3, {0, 1, 2}},
    {"dim t = 6, s = 3\ny[s] = slice[t -> s](index[t], start = 3)", 3, {3, 4, 5}},
    {"dim t = 6, s = 3\ny[s] = slice[t -> s](index[t], start = 1, step = 2)", 3, {1, 3, 5}},
    {"dim t = 6, s = 3\ny[s] = slice[t -> s](index[t], 5, step = -2)", 3, {5, 3, 1}},
    {"dim t = 6, s = 3\nk = cast(sum(values[s](1, 0, 1)), i32)\ny[s] = slice[t -> s](index[t] * 10, start = k)", 3, {20, 30, 40}},
    {"dim t = 6, s = 3\nk = cast(sum(values[s](1, 0, 3)), i32)\ny[s] = slice[t -> s](index[t], start = k, step = -2)", 3, {4, 2, 0}},
    {"dim t = 3\ny[t] = slice[t -> t](index[t], start = 2, step = -1)", 3, {2, 1, 0}},
    // pad, shift, reverse
    {"dim t = 3, s = 6\ny[s] = pad[t -> s](index[t] + 1)", 6, {0, 1, 2, 3, 0, 0}},
    {"dim t = 3, s = 6\ny[s] = pad[t -> s](index[t] + 1, before = 3, value = 7)", 6, {7, 7, 7, 1, 2, 3}},
    {"dim t = 3, s = 4\ny[s] = pad[t -> s](index[t], before = 0, value = 0.5)", 4, {0, 1, 2, 0.5}},
    {"dim t = 3, s = 4\ny[s] = pad[t -> s](index[t] < 2, before = 0)", 4, {1, 1, 0, 0}},
    {"dim t = 3, s = 4\ny[s] = pad[t -> s](index[t] < 2, before = 0, value = 1)", 4, {1, 1, 0, 1}},
    {"dim t = 4\ny[t] = shift[t](index[t] + 1)", 4, {0, 1, 2, 3}},
    {"dim t = 4\ny[t] = shift[t](index[t] + 1, by = -2, fill = 9)", 4, {3, 4, 9, 9}},
    {"dim t = 4\ny[t] = shift[t](index[t] + 1, by = 7)", 4, {0, 0, 0, 0}},
    {"dim t = 4\ny[t] = reverse[t](index[t])", 4, {3, 2, 1, 0}},
    // select, put
    {"dim t = 4\ny = select[t](index[t] * 10, 3)", 1, {30}},
    {"dim t = 4\ny = select[t](index[t] * 10, -3)", 1, {10}},
    {"dim t = 4\nk = max(index[t]) - 5\ny = select[t](index[t] * 10, k)", 1, {20}},
    {"dim t = 4, s = 2\ny[t, s] = put[t](index[t] * 10 + index[s], 2, index[s] - 5)", 8, {0, 1, 10, 11, -5, -4, 30, 31}},
    {"dim t = 4\ny[t] = put[t](index[t], -1, 8)", 4, {0, 1, 2, 8}},
    {"dim t = 4\ny[t] = put[t](index[t], min(index[t]) + 1, 0.5)", 4, {0, 0.5, 2, 3}},
    // concat, stack
    {"dim a = 2, b = 3, c = 5\ny[c] = concat[a, b -> c](index[a], index[b] + 10)", 5, {0, 1, 10, 11, 12}},
    {"dim a = 2, c = 6\ny[c] = concat[a, a, a -> c](index[a], 5 * index[a], -index[a])", 6, {0, 1, 0, 5, 0, -1}},
    {"dim a = 1, b = 2, c = 3, d = 2\ny[d, c] = concat[a, b -> c](index[a] + 7, index[b] + index[d] * 10)", 6, {7, 0, 1, 7, 10, 11}},
    {"dim a = 1, b = 2, c = 3\ny[c] = concat[a, b -> c](index[a], index[b] * 0.5)", 3, {0, 0, 0.5}},
    {"dim n = 3, t = 2\ny[n, t] = stack[-> n](index[t], 5, index[t] - 9)", 6, {0, 1, 5, 5, -9, -8}},
    {"dim n = 1, t = 2\ny[n, t] = stack[-> n](index[t])", 2, {0, 1}},
    // window
    {"dim t = 5, o = 3, k = 3\ny[o, k] = window[t -> o, k](index[t] + 1)", 9, {1, 2, 3, 2, 3, 4, 3, 4, 5}},
    {"dim t = 5, o = 2, k = 2\ny[o, k] = window[t -> o, k](index[t] + 1, stride = 2, dilation = 2)", 4, {1, 3, 3, 5}},
    {"dim t = 5, k = 3\ny[t, k] = window[t -> t, k](index[t] + 1, pad = same)", 15, {0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 0}},
    {"dim t = 5, o = 3, k = 2\ny[o, k] = window[t -> o, k](index[t] + 1, stride = 2, pad = same)", 6, {1, 2, 3, 4, 5, 0}},
    {"dim t = 4, k = 3\ny[t, k] = window[t -> t, k](index[t] + 1, pad = causal)", 12, {0, 0, 1, 0, 1, 2, 1, 2, 3, 2, 3, 4}},
    {"dim t = 3, o = 5, k = 2\ny[o, k] = window[t -> o, k](index[t] + 1, pad = (2, 1), value = -1)", 10, {-1, -1, -1, 1, 1, 2, 2, 3, 3, -1}},
    {"dim t = 4, k = 3\ny[t] = max[k](window[t -> t, k](-1 - index[t], pad = same))", 4, {-1, -1, -2, -3}},
    {"dim t = 4, k = 3\ny[t] = max[k](window[t -> t, k](-1.5 - index[t], pad = causal))", 4, {-1.5, -1.5, -1.5, -2.5}},
    {"dim t = 4, k = 3\ny[t] = max[k](window[t -> t, k](-1 - index[t], pad = same, value = 0))", 4, {0, -1, -2, 0}},
    {"dim t = 4, k = 3\nw = window[t -> t, k](-1 - index[t], pad = same)\ny[t] = max[k](w)", 4, {0, -1, -2, 0}},
    {"dim t = 2, s = 2, k = 2, j = 2\ny[t, s] = max[k, j](window[s -> s, j](window[t -> t, k](-1 - index[t] - index[s], pad = causal), pad = causal))", 4, {-1, -1, -1, -1}},
    {"dim t = 2, k = 2, o = 4\ny[o] = max[k](window[t -> o, k](index[t], pad = (3, 0)))", 4, {LEAST, LEAST, 0, 1}},
    // fold
    {"dim t = 5, o = 3, k = 3\ny[t] = fold[o, k -> t](window[t -> o, k](index[t] + 1))", 5, {1, 4, 9, 8, 5}},
    {"dim t = 3, k = 3, u = 7\ny[u] = fold[t, k -> u]((index[t] + 1) * (index[k] + 0 * index[t] + 1), stride = 2)", 7, {1, 2, 5, 4, 9, 6, 9}},
    {"dim t = 3, k = 3, u = 6\ny[u] = fold[t, k -> u]((index[t] + 1) * (index[k] + 0 * index[t] + 1), stride = 2, pad = same)", 6, {1, 2, 5, 4, 9, 6}},
    {"dim t = 4, k = 3\ny[t] = fold[t, k -> t](index[t] + 0 * (index[t] + index[k]) < 9, pad = causal)", 4, {3, 3, 2, 1}},
    // lookups
    {"dim s = 4, v = 3\ny[v] = scatter_add[-> v](index[s] + 1, values[s](2, 0, 2, 0))", 3, {6, 0, 4}},
    {"dim s = 4, v = 3\ny[v] = scatter_add[-> v](1, values[s](2, 0, 2, 0))", 3, {2, 0, 2}},
    {"dim b = 2, s = 2, v = 3\ny[b, v] = scatter_add[s -> v](1 + index[s] + 10 * index[b], values[b, s](2, 0, 1, 1))", 6, {2, 0, 1, 0, 23, 0}},
    {"dim b = 2, s = 2, v = 3\ny[b, s] = take[v](index[v] + 10 * index[b], values[b, s](2, 0, 1, 1))", 4, {2, 0, 11, 11}},
    {"dim s = 2, v = 3\ny[s, v] = one_hot[v](values[s](2, 5))", 6, {0, 0, 1, 0, 0, 0}},
};
// clang-format on

static void expect_values(const Known *k, const Graph *g, const char *when) {
  bool outside;
  Feeds none = {0};
  const Tensor *y = output_of(g, &none, "y", &outside);
  assert_false(outside);
  if (y->elements != k->n) fail_msg("%s\n%s: %d elements", k->text, when, (int)y->elements);
  for (int i = 0; i < k->n; i++)
    if (!(y->value[i] == k->y[i]))
      fail_msg("%s\n%s: element %d is %g, not %g", k->text, when, i, y->value[i], k->y[i]);
}

static void test_values(void **state) {
  (void)state;
  const char *const fetch[] = {"y"};
  for (size_t i = 0; i < countof(known); i++) {
    Graph *g = graph_of(known[i].text, 1, fetch);
    expect_values(&known[i], g, "as built");
    expect_values(&known[i], simplified(g), "simplified");
  }
}

// Integers of every type are exact; the fill has the type of the values.
static void test_types(void **state) {
  (void)state;
  static const char *const type[] = {"f32", "bf16", "f16", "f64", "i32", "u8", "bool"};
  const char *const fetch[] = {"y"};
  for (size_t i = 0; i < countof(type); i++) {
    const char *text =
        arena_printf(arena,
                     "dim t = 4, o = 2, k = 3, s = 6\nx = cast(index[t] > 1, %s)\n"
                     "w = window[t -> o, k](x, stride = 2, pad = same)\n"
                     "y[s] = concat[o, t -> s](select[k](w, 1), reverse[t](shift[t](x)))",
                     type[i]);
    Graph *g = graph_of(text, 1, fetch);
    Dtype t;
    assert_true(dtype_parse(type[i], &t));
    assert_int_equal(graph_node(g, g->output.at[0].value)->type, t);
    const Known want = {text, 6, {0, 1, 1, 0, 0, 0}};
    expect_values(&want, g, "as built");
    expect_values(&want, simplified(g), "simplified");
  }
}

// -- positions computed at run time -------------------------------------------------------------

static void expect_outside(const char *text, bool want) {
  const char *const fetch[] = {"y"};
  Graph *g = graph_of(text, 1, fetch);
  const Graph *each[] = {g, simplified(g)};
  for (int i = 0; i < 2; i++) {
    bool outside;
    Feeds none = {0};
    output_of(each[i], &none, "y", &outside);
    if (outside != want) fail_msg("%s\noutside: %d", text, outside);
  }
}

static void test_outside(void **state) {
  (void)state;
  static const char head[] = "dim t = 4, s = 2, v = 3, n = 5\nn = max(index[n])\n";
  static const struct {
    const char *y;
    bool outside;
  } rows[] = {
      {"y = select[t](index[t], n - 1)", false},
      {"y = select[t](index[t], n)", true},
      {"y = select[t](index[t], -n)", false},
      {"y = select[t](index[t], -n - 1)", true},
      {"y = slice[t -> s](index[t], start = n - 2)", false},
      {"y = slice[t -> s](index[t], start = n - 1)", true},
      {"y = slice[t -> s](index[t], start = n - 5)", true},
      {"y = slice[t -> s](index[t], start = n - 1, step = -3)", false},
      {"y = slice[t -> s](index[t], start = n - 2, step = -3)", true},
      {"y = put[t](index[t], n, 0)", true},
      {"y = put[t](index[t], n - 1, 0)", false},
      {"y = scatter_add[-> v](1, index[t])", true},
      {"y = scatter_add[-> v](1, index[s])", false},
  };
  for (size_t i = 0; i < countof(rows); i++)
    expect_outside(arena_printf(arena, "%s%s", head, rows[i].y), rows[i].outside);
}

// -- convolutions against loops -----------------------------------------------------------------

// A grouped convolution in two dims: img[b, g, c, y, x], w[g, c, f, ky, kx].
typedef struct Conv {
  int64_t b, g, c, f, n, k, o, stride, dilation, before;
} Conv;

static double conv_at(const Conv *p, const double *img, const double *w, const int64_t *at) {
  double sum = 0;
  for (int64_t c = 0; c < p->c; c++)
    for (int64_t ky = 0; ky < p->k; ky++)
      for (int64_t kx = 0; kx < p->k; kx++) {
        int64_t y = at[3] * p->stride + ky * p->dilation - p->before;
        int64_t x = at[4] * p->stride + kx * p->dilation - p->before;
        if (y < 0 || x < 0 || y >= p->n || x >= p->n) continue;
        sum += img[(((at[0] * p->g + at[1]) * p->c + c) * p->n + y) * p->n + x] *
               w[(((at[1] * p->c + c) * p->f + at[2]) * p->k + ky) * p->k + kx];
      }
  return sum;
}

static void expect_conv(const Conv *p, const Tensor *y, const Feeds *f) {
  int64_t i = 0;
  int64_t at[5];
  for (at[0] = 0; at[0] < p->b; at[0]++)
    for (at[1] = 0; at[1] < p->g; at[1]++)
      for (at[2] = 0; at[2] < p->f; at[2]++)
        for (at[3] = 0; at[3] < p->o; at[3]++)
          for (at[4] = 0; at[4] < p->o; at[4]++, i++) {
            double want = conv_at(p, f->value[0], f->value[1], at);
            if (fabs(y->value[i] - want) > 1e-9)
              fail_msg("element %d: %g, not %g", (int)i, y->value[i], want);
          }
  assert_int_equal(i, y->elements);
}

static void test_convolutions(void **state) {
  (void)state;
  static const Conv conv[] = {
      {2, 1, 2, 3, 7, 3, 5, 1, 1, 0}, {1, 2, 2, 2, 7, 3, 4, 2, 1, 1},
      {1, 3, 1, 2, 6, 3, 6, 1, 1, 1}, {1, 1, 2, 2, 9, 3, 5, 1, 2, 0},
      {2, 1, 2, 3, 4, 1, 4, 1, 1, 0}, {1, 1, 1, 1, 7, 2, 3, 3, 2, 2},
  };
  const char *const fetch[] = {"y"};
  for (size_t i = 0; i < countof(conv); i++) {
    const Conv *p = &conv[i];
    int64_t after = (p->o - 1) * p->stride + (p->k - 1) * p->dilation + 1 - p->n - p->before;
    const char *how =
        arena_printf(arena, "stride = %d, dilation = %d, pad = (%d, %d)", (int)p->stride,
                     (int)p->dilation, (int)p->before, (int)(after < 0 ? 0 : after));
    Graph *g =
        graph_of(arena_printf(arena,
                              "dim b = %d, g = %d, c = %d, f = %d, y = %d, x = y, ky = %d, kx = "
                              "ky, oy = %d, ox = oy\n"
                              "input img[b, g, c, y, x]: f64\ninput w[g, c, f, ky, kx]: f64\n"
                              "y[b, g, f, oy, ox] = sum[ky, kx, c](window[x -> ox, kx](window[y -> "
                              "oy, ky](img, %s), %s) * w)",
                              (int)p->b, (int)p->g, (int)p->c, (int)p->f, (int)p->n, (int)p->k,
                              (int)p->o, how, how),
                 1, fetch);
    Feeds f = feeds_of(g);
    expect_conv(p, output_of(g, &f, "y", NULL), &f);
    expect_conv(p, output_of(simplified(g), &f, "y", NULL), &f);
  }
}

// -- gradients ----------------------------------------------------------------------------------

// Each model binds `loss`, a function of inputs x and w (f64).
// clang-format off
static const char *const losses[] = {
    // convolutions: padded and strided, grouped, depthwise, dilated, causal, of one tap, in one and three dims
    "dim b = 2, c = 2, f = 2, y = 5, x = 4, oy = 3, ox = 2, ky = 3, kx = 3\ninput x[b, c, y, x]: f64\ninput w[ky, kx, c, f]: f64\n"
    "loss = sum(square(sum[ky, kx, c](window[x -> ox, kx](window[y -> oy, ky](x, stride = 2, pad = same), stride = 2, pad = same) * w)))",
    "dim g = 2, c = 2, f = 2, t = 6, o = 4, k = 3\ninput x[g, c, t]: f64\ninput w[g, c, f, k]: f64\n"
    "loss = sum(square(sum[k, c](window[t -> o, k](x) * w)))",
    "dim c = 3, t = 6, o = 3, k = 3\ninput x[c, t]: f64\ninput w[c, k]: f64\n"
    "loss = sum(square(sum[k](window[t -> o, k](x, stride = 2, pad = same) * w)))",
    "dim c = 2, f = 3, t = 6, k = 3\ninput x[c, t]: f64\ninput w[c, k, f]: f64\n"
    "loss = sum(tanh(sum[k, c](window[t -> t, k](x, pad = causal, dilation = 2) * w)))",
    "dim c = 2, f = 3, t = 4, k = 1\ninput x[c, t]: f64\ninput w[c, k, f]: f64\n"
    "loss = sum(square(sum[k, c](window[t -> t, k](x) * w)))",
    "dim z = 3, y = 3, x = 3, a = 2, oy = 2, ox = 2, kz = 2, ky = 2, kx = 2\ninput x[z, y, x]: f64\ninput w[kz, ky, kx]: f64\n"
    "loss = sum(square(sum[kz, ky, kx](window[x -> ox, kx](window[y -> oy, ky](window[z -> a, kz](x))) * w)))",
    // two in a row, and one of a sum
    "dim c = 2, f = 2, t = 7, o = 5, p = 3, k = 3, j = 3\ninput x[c, t]: f64\ninput w[c, k, f]: f64\n"
    "h = sum[k, c](window[t -> o, k](x) * w)\nloss = sum(square(sum[j](window[o -> p, j](h))))",
    // transposed
    "dim c = 2, f = 2, t = 4, u = 9, k = 3\ninput x[c, t]: f64\ninput w[c, k, f]: f64\n"
    "loss = sum(square(fold[t, k -> u](sum[c](x * w), stride = 2)))",
    "dim c = 2, f = 2, y = 2, x = 3, y2 = 4, x2 = 6, ky = 3, kx = 3\ninput x[c, y, x]: f64\ninput w[c, ky, kx, f]: f64\n"
    "loss = sum(square(fold[x, kx -> x2](fold[y, ky -> y2](sum[c](x * w), stride = 2, pad = same), stride = 2, pad = same)))",
    // pooling
    "dim y = 5, x = 4, oy = 3, ox = 2, ky = 3, kx = 3\ninput x[y, x]: f64\ninput w[oy, ox]: f64\n"
    "loss = sum(w * max[ky, kx](window[x -> ox, kx](window[y -> oy, ky](x, stride = 2, pad = same), stride = 2, pad = same)))",
    "dim t = 6, o = 3, k = 2\ninput x[t]: f64\ninput w[o]: f64\nloss = sum(w * min[k](window[t -> o, k](x, stride = 2)))",
    "dim y = 5, x = 4, oy = 3, ox = 2, ky = 3, kx = 3\ninput x[y, x]: f64\ninput w[oy, ox]: f64\n"
    "loss = sum(w * square(mean[ky, kx](window[x -> ox, kx](window[y -> oy, ky](x, stride = 2, pad = same), stride = 2, pad = same))))",
    // a function of the patches; attention to neighbours
    "dim t = 6, k = 3\ninput x[t]: f64\ninput w[k]: f64\nloss = sum(square(sum[k](exp(window[t -> t, k](x, pad = same)) * w)))",
    "dim t = 5, d = 2, k = 3\ninput x[t, d]: f64\ninput w[t, d]: f64\ns = sum[d](w * window[t -> t, k](x, pad = causal))\n"
    "loss = sum(square(sum[k](softmax[k](s) * window[t -> t, k](x, pad = causal))))",
    // parts, shifts and permutations
    "dim t = 6, s = 3, u = 8\ninput x[t]: f64\ninput w[s]: f64\nloss = sum(w * square(slice[t -> s](x, start = 5, step = -2))) + sum(square(pad[t -> u](x, before = 1, value = 2)))",
    "dim t = 6\ninput x[t]: f64\ninput w[t]: f64\nloss = sum(w * square(shift[t](x, by = 2, fill = 1) + reverse[t](x * w)))",
    "dim t = 6, s = 3, n = 3\ninput x[t]: f64\ninput w[s]: f64\nk = max(index[n])\n"
    "loss = sum(w * square(slice[t -> s](x, start = k))) + select[t](square(x), k + 1) + select[t](x * x, -1) + select[t](x, -k)",
    "dim t = 4, d = 2, n = 3\ninput x[t, d]: f64\ninput w[d]: f64\nk = max(index[n])\n"
    "loss = sum(square(put[t](x, k, square(w)))) + sum(index[t] * square(put[t](x, 0, w)))",
    "dim a = 2, c = 3, t = 5, s = 3, b = 2\ninput x[b, a]: f64\ninput w[c]: f64\ny = concat[a, c -> t](x, w)\n"
    "loss = sum(square(y) * index[t]) + sum(square(slice[t -> s](y, start = 1)))",
    "dim n = 3, t = 2\ninput x[t]: f64\ninput w[t]: f64\ny = stack[-> n](x, w * x, square(w))\n"
    "loss = sum(square(y) * index[n]) + sum(square(select[n](y, 0)))",
    "dim s = 4, v = 3, d = 2\ninput x[s, d]: f64\ninput w[v, d]: f64\nloss = sum(w * square(scatter_add[-> v](x, values[s](2, 0, 2, 1))))",
    "dim b = 2, s = 3, v = 3\ninput x[b, s]: f64\ninput w[b, v]: f64\n"
    "loss = sum(w * square(scatter_add[s -> v](x, values[b, s](2, 0, 2, 1, 1, 0)))) + sum(x * square(take[v](w, values[b, s](1, 0, 2, 1, 1, 1))))",
};
// clang-format on

static double loss_at(const Graph *g, const Feeds *f, const char *name) {
  ArenaMark mark = arena_mark(arena);
  double y = output_of(g, f, name, NULL)->value[0];
  arena_reset(arena, mark);
  return y;
}

static void expect_slopes(const char *text, const Graph *g, Feeds *f, const char *loss, int feed,
                          const char *grad) {
  const Tensor *got = output_like(g, f, grad, f->at[feed].decl, NULL);
  assert_int_equal(got->elements, f->at[feed].n);
  for (int64_t i = 0; i < got->elements; i++) {
    double *x = &f->value[feed][i], before = *x, h = 1e-4;
    *x = before + h;
    double high = loss_at(g, f, loss);
    *x = before - h;
    double want = (high - loss_at(g, f, loss)) / (2 * h);
    *x = before;
    if (fabs(got->value[i] - want) > 1e-5 * fmax(1, fabs(want)))
      fail_msg("%s\n%s, element %d: %.9g, not %.9g", text, grad, (int)i, got->value[i], want);
  }
}

static void test_gradients(void **state) {
  (void)state;
  static const char *const fetch[] = {"loss", "dx", "dw", "second", "ddx", "ddw"};
  for (size_t i = 0; i < countof(losses); i++) {
    const char *text = arena_printf(arena,
                                    "%s\ndx = gradient(loss, x)\ndw = gradient(loss, w)\nsecond = "
                                    "sum(square(dx)) + sum(square(dw)) + sum(dx * x)\n"
                                    "ddx = gradient(second, x)\nddw = gradient(second, w)\n",
                                    losses[i]);
    Graph *g = graph_of(text, 6, fetch);
    const Graph *each[] = {g, simplified(g)};
    for (int k = 0; k < 2; k++) {
      Feeds f = feeds_of(g);
      expect_slopes(text, each[k], &f, "loss", 0, "dx");
      expect_slopes(text, each[k], &f, "loss", 1, "dw");
      expect_slopes(text, each[k], &f, "second", 0, "ddx");
      expect_slopes(text, each[k], &f, "second", 1, "ddw");
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),    cmocka_unit_test(test_types),
      cmocka_unit_test(test_outside),   cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_gradients),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
