// Compares models with `checkpoint`, and models under memory budgets, with the same models without.
// After two training steps every parameter, state and slot must be the same, on several meshes, all
// values must be placed alike and have the same order of dims, and the work arena must be smaller
// where the table demands it. Where the body of a loop is rematerialised, gradients of parameters
// are added step by step instead of by one GEMM: they are the same except for rounding.
//
// Long sums are folded at positions that depend only on the summed dims (codegen/cpu/fold.c), so
// that a rematerialised value has the same bits in any kernel. Under budgets, values share kernels
// in other ways, so that rounding may differ.
//
//   suite_remat [NAME]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition/sharding/sharding_internal.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/trained.h"

enum { CLASSES = 3 }; // of labels
static int passed, failed;

// A case. `smaller`: limit of the work arena with checkpoints, in percent of the arena without. In
// the model's text every "@(" becomes a checkpoint of what follows, and "%" the option of a loop.
typedef struct Recompute {
  const char *name, *mesh, *layout, *text;
  int smaller;
  bool steps; // the body of a loop is rematerialised, gradients may differ by rounding
  int least;  // not 0: limit in percent of the memory when a budget is not met
} Recompute;

#define DEEP                                                                                       \
  "dim b = 64, d = 16, h = 64, depth = 12\n"                                                       \
  "input x[b, d]\ninput target[b, d]\n"                                                            \
  "fn block(x) {\n"                                                                                \
  "  param wi[d, h] ~ he(d)\n  param wo[h, d] ~ glorot(h, d)\n  param shift[d]\n"                  \
  "  a = gelu(sum[d](layer_norm[d](x) * wi))\n"                                                    \
  "  return x + sum[h](dropout(a, rate = 0.1) * wo) + shift\n}\n"                                  \
  "for layer in 0..depth (checkpoint = %) { x = block(x) }\n"                                      \
  "loss = mean(square(x - target))\n"                                                              \
  "train loss { optimizer = adam(lr = 0.01), steps = 2 }\n"
#define ATTENTION                                                                                  \
  "dim b = 2, t = 12, s = t, heads = 2, k = 8, d = heads * k, ff = 32, vocab = 7\n"                \
  "input ids[b, t]: i32\nparam table[vocab, d] ~ normal(std = 0.5)\n"                              \
  "fn block(x) {\n"                                                                                \
  "  param wq[d, heads, k] ~ normal(std = 0.2)\n  param wv[d, heads, k] ~ normal(std = 0.2)\n"     \
  "  param wo[heads, k, d] ~ normal(std = 0.2)\n  param wi[d, ff] ~ he(d)\n  param wd[ff, d] ~ "   \
  "he(ff)\n"                                                                                       \
  "  q = sum[d](rms_norm[d](x) * wq)\n  v = rename[t -> s](sum[d](x * wv))\n"                      \
  "  causal[t, s] = index[s] <= index[t]\n"                                                        \
  "  p = softmax[s](where(causal, sum[k](q * rename[t -> s](q)), -1e9))\n"                         \
  "  x = @(x + sum[heads, k](sum[s](p * v) * wo))\n"                                               \
  "  return x + sum[ff](silu(sum[d](x * wi)) * wd)\n}\n"                                           \
  "x = take[vocab](table, ids)\n"                                                                  \
  "for layer in 0..6 (checkpoint = %) { x = block(x) }\n"                                          \
  "loss = mean[b, t](cross_entropy[vocab](sum[d](x * table), ids))\n"                              \
  "train loss { optimizer = sgd(lr = 0.1), clip_norm = 1, steps = 2 }\n"
#define PICTURES(height, width)                                                                    \
  "dim b = 3, y = " height ", x = " width ", c = 4, c2 = c, ky = 3, kx = 3, classes = 3\n"         \
  "input img[b, y, x, c]\ninput label[b]: i32\n"                                                   \
  "fn block(a) {\n"                                                                                \
  "  param w[ky, kx, c, c2] ~ he(ky, kx, c)\n"                                                     \
  "  a = sum[ky, kx, c](window[x -> x, kx](window[y -> y, ky](a, pad = same), pad = same) * w)\n"  \
  "  return @(relu(batch_norm[b, y, x](rename[c2 -> c](a))))\n}\n"                                 \
  "for i in 0..5 { img = img + block(img) }\n"                                                     \
  "param head[c, classes] ~ glorot(c, classes)\n"                                                  \
  "loss = mean[b](cross_entropy[classes](sum[c](mean[y, x](img) * head), label))\n"                \
  "train loss { optimizer = sgd(lr = 0.1, momentum = 0.9), steps = 2 }\n"
#define LOOPS                                                                                      \
  "dim b = 4, t = 6, d = 5, k = 5, j = k\n"                                                        \
  "input x[b, t, d]\ninput target[b, t]\n"                                                         \
  "fn layer(x) {\n"                                                                                \
  "  param w[d, k] ~ glorot(d, k)\n  param u[j, k] ~ orthogonal(j -> k)\n"                         \
  "  scan t (s[b, k] = 0) {\n"                                                                     \
  "    s = tanh(sum[d](x * w) + sum[j](rename[k -> j](s) * u) + 0.1 * random_normal[b, k](std = "  \
  "1))\n"                                                                                          \
  "    yield s as ss\n  }\n"                                                                       \
  "  return rename[k -> d](ss) + 0.1 * sort[t](@(tanh(x)))\n}\n"                                   \
  "for i in 0..4 (checkpoint = %) { x = layer(x) }\n"                                              \
  "y = mean[d](cumsum[t](x))\nloss = mean[b, t](square(y - target))\n"                             \
  "loss = loss + 1e-3 * sum[b, t, d](square(gradient(loss, x)))\n"                                 \
  "train loss { optimizer = adam(lr = 0.01), accumulate = 2, steps = 2 }\n"                        \
  "data train over b { x = synthetic(normal), target = synthetic(normal) }\n"

#define LSTM(end)                                                                                  \
  "dim b = 8, t = 24, d = 8, k = 16, j = k, gate = 4, vocab = 7\n"                                 \
  "input ids[b, t]: i32\nparam table[vocab, d] ~ normal(std = 0.5)\n"                              \
  "param w[d, gate, k] ~ glorot(d -> gate, k)\nparam u[j, gate, k] ~ orthogonal(j -> gate, k)\n"   \
  "param bias[gate, k]\nparam head[k, vocab] ~ glorot(k, vocab)\n"                                 \
  "x = take[vocab](table, ids)\n"                                                                  \
  "scan t (h[b, k] = 0, c[b, k] = 0) {\n"                                                          \
  "  z = sum[d](x * w) + sum[j](rename[k -> j](h) * u) + bias\n"                                   \
  "  c = sigmoid(select[gate](z, 0) + 1) * c + sigmoid(select[gate](z, 1)) * "                     \
  "tanh(select[gate](z, 2))\n"                                                                     \
  "  h = @(sigmoid(select[gate](z, 3)) * tanh(c))\n  yield h as hs\n}\n"                           \
  "loss = mean[b, t](cross_entropy[vocab](sum[k](hs * head), ids))\n"                              \
  "train loss { optimizer = adam(lr = 0.01), clip_norm = 1, steps = 2" end " }\n"                  \
  "data train over b { ids = synthetic(integers(0, 7)) }\n"
#define GRU                                                                                        \
  "dim b = 8, t = 20, d = 16, k = d, j = d\ninput x[b, t, d]\ninput target[b, t]\n"                \
  "fn cell(x) {\n"                                                                                 \
  "  param wz[d, k] ~ glorot(d, k)\n  param wr[d, k] ~ glorot(d, k)\n  param wn[d, k] ~ "          \
  "glorot(d, k)\n"                                                                                 \
  "  param uz[j, k] ~ orthogonal(j -> k)\n  param ur[j, k] ~ orthogonal(j -> k)\n  param un[j, "   \
  "k] ~ orthogonal(j -> k)\n"                                                                      \
  "  scan t (h[b, k] = 0) {\n"                                                                     \
  "    g = rename[k -> j](h)\n"                                                                    \
  "    z = sigmoid(sum[d](x * wz) + sum[j](g * uz))\n"                                             \
  "    r = sigmoid(sum[d](x * wr) + sum[j](g * ur))\n"                                             \
  "    n = tanh(sum[d](x * wn) + sum[j](rename[k -> j](r * h) * un))\n"                            \
  "    h = @((1 - z) * n + z * h)\n    yield h as hs\n  }\n"                                       \
  "  return rename[k -> d](hs)\n}\n"                                                               \
  "for i in 0..2 { x = x + cell(layer_norm[d](x)) }\n"                                             \
  "loss = mean[b, t](square(mean[d](x) - target))\n"                                               \
  "train loss { optimizer = sgd(lr = 0.1, momentum = 0.9), steps = 2 }\n"
#define LAYERS                                                                                     \
  "dim b = 2, t = 12, s = t, heads = 2, k = 8, d = heads * k, ff = 32, vocab = 7, layers = 6\n"    \
  "input ids[b, t]: i32\nparam table[vocab, d] ~ normal(std = 0.5)\n"                              \
  "param wq[layers, d, heads, k] ~ normal(std = 0.2)\nparam wk[layers, d, heads, k] ~ normal(std " \
  "= 0.2)\n"                                                                                       \
  "param wv[layers, d, heads, k] ~ normal(std = 0.2)\nparam wo[layers, heads, k, d] ~ normal(std " \
  "= 0.2)\n"                                                                                       \
  "param wi[layers, d, ff] ~ normal(std = 0.2)\nparam wd[layers, ff, d] ~ normal(std = 0.2)\n"     \
  "causal[t, s] = index[s] <= index[t]\n"                                                          \
  "scan layers (x[b, t, d] = take[vocab](table, ids)) {\n"                                         \
  "  n = rms_norm[d](x)\n  v = rename[t -> s](sum[d](n * wv))\n"                                   \
  "  p = softmax[s](where(causal, sum[k](sum[d](n * wq) * rename[t -> s](sum[d](n * wk))), "       \
  "-1e9))\n"                                                                                       \
  "  x = @(x + sum[heads, k](sum[s](p * v) * wo))\n"                                               \
  "  x = x + sum[ff](gelu(sum[d](rms_norm[d](x) * wi)) * wd)\n}\n"                                 \
  "loss = mean[b, t](cross_entropy[vocab](sum[d](x * table), ids))\n"                              \
  "train loss { optimizer = sgd(lr = 0.1), steps = 2 }\n"
#define NESTED                                                                                     \
  "dim b = 4, t = 6, u = 5, d = 8, e = d\ninput x[b, t, u, d]\n"                                   \
  "param w[d, e] ~ glorot(d, e)\nparam v[d, e] ~ glorot(d, e)\n"                                   \
  "scan t (s[b, d] = 0) {\n"                                                                       \
  "  scan u (r[b, d] = s) { r = tanh(rename[e -> d](sum[d](r * w)) + sigmoid(x) * s)\n yield r "   \
  "as rs }\n"                                                                                      \
  "  s = @(sin(s + rename[e -> d](sum[d](r * v))) * mean[u](exp(rs)))\n"                           \
  "  yield s as all\n}\n"                                                                          \
  "loss = mean(square(all))\ntrain loss { optimizer = sgd(lr = 0.1), steps = 2 }\n"

// Budgets in percent of what the program without checkpoints needs. The last one cannot be met: the
// compiler then takes the least memory that it can.
static const int budgets[] = {90, 70, 50, 30, 1};

#define STEPWISE(scan, body)                                                                       \
  "dim b = 8, t = 24, d = 12, h = 48, e = d\n"                                                     \
  "input x[b, t, d]\ninput target[b, d]\n"                                                         \
  "param w[d, h] ~ glorot(d, h)\nparam v[h, e] ~ glorot(h, e)\nparam u[d] = 1\n"                   \
  "scan t (s[b, d] = 0" scan ") {\n"                                                               \
  "  a = " body "(s + x)\n"                                                                        \
  "  for i in 0..3 { a = a + rename[e -> d](sum[h](dropout(tanh(sum[d](a * w)), rate = 0.1) * "    \
  "v)) }\n"                                                                                        \
  "  a = " body "(tanh(a * u))\n  s = 0.5 * s + a\n"                                               \
  "  yield mean[d](a) as means\n}\n"                                                               \
  "loss = mean(square(s - target)) + mean(means)\n"                                                \
  "train loss { optimizer = sgd(lr = 0.1, momentum = 0.9), steps = 2 }\n"

static const Recompute cases[] = {
    {"deep", NULL, NULL, DEEP, 40, false, 0},
    {"deep", "rows=2", "b=rows", DEEP, 60, false, 0},
    {"deep", "cols=3", "h=cols", DEEP, 50, false, 0},
    {"deep", "rows=2,cols=2", "b=rows,h=cols", DEEP, 60, false, 0},
    {"deep", "cols=2", "h=cols,soft/b=cols", DEEP, 50, false, 0},
    {"attention", NULL, NULL, ATTENTION, 75, false, 0},
    {"attention", "rows=2,cols=2", "b=rows,heads=cols,ff=cols,vocab=cols", ATTENTION, 85, false, 0},
    {"attention", "rows=2", "t=rows", ATTENTION, 100, false, 0},
    {"pictures", NULL, NULL, PICTURES("8", "6"), 100, false, 0},
    {"pictures", NULL, NULL, PICTURES("11", "9"), 100, false,
     0}, // tests folds within joined loops (codegen/cpu/fold.c)
    {"pictures", "rows=2", "y=rows", PICTURES("8", "6"), 100, false, 0},
    {"pictures", "rows=3", "b=rows", PICTURES("8", "6"), 100, false, 0},
    {"deep", "rows=4", "b=rows,parameters/all=rows", DEEP, 100, false, 0},
    {"attention", "rows=2,cols=2", "b=rows,heads=cols,ff=cols,vocab=cols,soft/t=cols", ATTENTION,
     100, false, 0},
    {"attention", "rows=2,cols=2", "b=rows,heads=cols,ff=cols,vocab=cols,parameters/all=rows",
     ATTENTION, 100, false, 0},
    {"loops", NULL, NULL, LOOPS, 100, false, 0},
    {"loops", "rows=2,cols=2", "b=rows,j=cols", LOOPS, 100, false, 0},
    {"loops", "rows=2", "t=rows", LOOPS, 100, false, 0},
    {"body", NULL, NULL, STEPWISE("", "@"), 45, true, 0},
    {"body", "rows=2,cols=2", "b=rows,h=cols", STEPWISE("", "@"), 45, true, 0},
    {"body", "rows=2", "d=rows", STEPWISE("", "@"), 45, true, 0},
    {"scan", NULL, NULL, STEPWISE(", checkpoint = %", ""), 45, true, 0},
    {"scan", "rows=2,cols=2", "b=rows,h=cols", STEPWISE(", checkpoint = %", ""), 45, true, 0},
    {"lstm", NULL, NULL, LSTM(""), 100, true, 50},
    {"lstm", "rows=2", "b=rows", LSTM(""), 100, true, 60},
    {"lstm", "rows=2,cols=2", "b=rows,k=cols", LSTM(""), 100, true, 65},
    // of two rows in a micro-batch little more than gradients and products is left
    {"lstm", "rows=2,cols=2", "b=rows,k=cols", LSTM(", accumulate = 2"), 105, true, 85},
    {"gru", NULL, NULL, GRU, 100, true, 55},
    {"gru", "rows=2", "b=rows", GRU, 100, true, 65},
    {"gru", "rows=2,cols=2", "b=rows,j=cols", GRU, 100, true, 80},
    {"layers", NULL, NULL, LAYERS, 100, true, 65},
    {"layers", "rows=2", "t=rows", LAYERS, 100, true, 80},
    {"layers", "rows=2,cols=2", "b=rows,heads=cols,ff=cols,vocab=cols", LAYERS, 100, true, 80},
    {"nested", NULL, NULL, NESTED, 100, true, 90},
    {"nested", "rows=2,cols=2", "b=rows,e=cols", NESTED, 100, true, 100},
};

static char *text_of(Arena *a, const char *text, bool on) {
  VEC(char) out = {0};
  for (const char *p = text; *p; p++) {
    const char *word = *p == '@'   ? on ? "checkpoint" : ""
                       : *p == '%' ? on ? "true" : "false"
                                   : NULL;
    for (; word && *word; word++) vec_push(a, out) = *word;
    if (*p != '@' && *p != '%') vec_push(a, out) = *p;
  }
  vec_push(a, out) = 0;
  return out.at;
}

static bool compile(Trained *t, const Recompute *c, bool on, int64_t memory) {
  TrainedModel m = {
      .name = c->name, .text = text_of(t->a, c->text, on), .mesh = c->mesh, .layout = c->layout};
  return trained_compile(t, &m, memory);
}

// Returns true if values differ at most by rounding, relative to the largest element of their
// tensor.
static bool near(Dtype type, const void *want, const void *got, size_t bytes) {
  size_t size = (size_t)dtype_bytes(type), n = bytes / size;
  double most = 0, apart = 0;
  for (size_t i = 0; i < n; i++) {
    double x = dtype_load(type, (const char *)want + i * size),
           y = dtype_load(type, (const char *)got + i * size);
    most = fmax(most, fabs(x));
    apart = fmax(apart, fabs(x - y));
  }
  return apart <= 1.5e-5 * most; // without fusion, vectors of 128 bits: 1.12e-5
}

static const char *compare(Trained *with, Trained *without, bool exact) {
  const Program *p = without->made.compiled->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *x = &p->tensor[i];
    if (x->kind == TENSOR_INPUT || x->kind == TENSOR_CONSTANT) continue;
    size_t n, m;
    void *want = trained_read(without, x, &n), *got = trained_read(with, x, &m);
    if (n != m || (exact ? memcmp(want, got, n) != 0 : !near(x->type, want, got, n)))
      return arena_printf(with->a, "%s differs", x->name);
  }
  return NULL;
}

// Returns the next node of a graph with orders after n that is no copy of memory and computes no
// value again; 0: there is none.
static NodeId next_first(const Graph *g, NodeId n) {
  for (n++; n <= graph_count(g); n++)
    if (!graph_node(g, n)->instance) return n;
  return 0;
}

// Compares the orders of the values of both programs. Values that one of them rematerialises are
// compared where they are computed first.
static const char *compare_orders(Trained *with, Trained *without) {
  const Order *x = with->made.order, *y = without->made.order;
  NodeId n = 0, m = 0;
  if (fabs(x->asked - y->asked) > 1e-6 * y->asked)
    return arena_printf(with->a, "has orders as asked for of %g s, not of %g s", x->asked,
                        y->asked);
  while ((n = next_first(x->graph, n)) && (m = next_first(y->graph, m))) {
    const char *text = order_note(x, n);
    const char *got = text ? arena_printf(with->a, "%s", text) : "", *want = order_note(y, m);
    if (graph_node(x->graph, n)->op != graph_node(y->graph, m)->op)
      return arena_printf(with->a, "has other nodes from %%%u and %%%u on", n, m);
    if (strcmp(got, want ? want : "") != 0)
      return arena_printf(with->a, "has %%%u in order %s, not in order %s", n, got, want);
  }
  return NULL;
}

// Returns the first node behind n that is no mark of `checkpoint`, 0: there is none.
static NodeId next_value(const Graph *g, NodeId n) {
  while (n++ < graph_count(g))
    if (graph_node(g, n)->op != OP_CHECKPOINT) return n;
  return 0;
}

// Returns an error unless all values are placed alike with and without checkpoints.
static const char *compare_placements(const Trained *with, const Trained *without) {
  const Placement *x = with->made.placement, *y = without->made.placement;
  const Graph *g = with->made.simplified, *h = without->made.simplified;
  for (NodeId n = next_value(g, 0), k = next_value(h, 0); n || k;
       n = next_value(g, n), k = next_value(h, k)) {
    if (!n || !k || graph_node(g, n)->op != graph_node(h, k)->op) return "has other values";
    if (!sharding_equal(x->computed[n], y->computed[k]) ||
        !sharding_equal(x->settled[n], y->settled[k]))
      return arena_printf(with->a, "places %s of line %u otherwise",
                          op_row((Op)graph_node(g, n)->op)->text,
                          graph_node(g, n)->origin->pos.line);
  }
  return NULL;
}

static const char *run(const Recompute *c, Trained *with, Trained *without) {
  if (!compile(with, c, true, 0) || !compile(without, c, false, 0)) return "is refused";
  const Graph *g = with->made.collected;
  if (!c->steps && remat(with->a, g, 0) == g && c->smaller < 100) return "has no checkpoint";
  const char *placed = c->steps ? NULL : compare_placements(with, without);
  if (placed) return placed;
  if (!trained_run(with, CLASSES) || !trained_run(without, CLASSES)) return "training fails";
  const char *wrong = c->steps ? NULL : compare_orders(with, without);
  if (!wrong) wrong = compare(with, without, !c->steps && !suite_varied());
  int64_t more = without->made.compiled->program->arena_bytes,
          less = with->made.compiled->program->arena_bytes;
  if (getenv("SHOW"))
    printf("%s %s: %lld of %lld bytes, %lld%%\n", c->name, c->mesh ? c->mesh : "", (long long)less,
           (long long)more, (long long)(100 * less / more));
  if (!wrong && !suite_varied() && less * 100 > more * c->smaller)
    return arena_printf(with->a, "takes %lld bytes, without checkpoints %lld", (long long)less,
                        (long long)more);
  return wrong;
}

// Trains with a budget of `percent` of the memory that the program without checkpoints needs.
static const char *run_within(const Recompute *c, int percent, Trained *with, Trained *without) {
  if (!compile(without, c, false, 0)) return "is refused";
  int64_t needed = program_bytes(without->made.compiled->program), budget = needed * percent / 100;
  if (!compile(with, c, false, budget)) return "is refused within the budget";
  int64_t bytes = program_bytes(with->made.compiled->program);
  if (getenv("SHOW"))
    printf("%s %s: %lld of %lld bytes, level %d of %d\n", c->name, c->mesh ? c->mesh : "",
           (long long)bytes, (long long)needed, with->made.again, with->made.levels);
  if (bytes > budget && bytes > needed) return "needs more than without a budget";
  if (c->least && bytes > budget && bytes * 100 > needed * c->least)
    return arena_printf(with->a, "needs at least %lld bytes, without a budget %lld",
                        (long long)bytes, (long long)needed);
  if (!trained_run(with, CLASSES) || !trained_run(without, CLASSES)) return "training fails";
  const Compilation *made = &with->made;
  bool alike =
      !made->collected->region.n && !made->plain && made->again <= made->levels - REMAT_TAIL;
  const char *wrong = alike ? compare_orders(with, without) : NULL;
  return wrong ? wrong : compare(with, without, false);
}

// Runs a case under a budget of `percent`; 0: with checkpoints instead of a budget.
static void run_case(const Recompute *c, int percent) {
  Trained t[2];
  for (int i = 0; i < 2; i++) {
    Arena *a = arena_new();
    t[i] = (Trained){.a = a, .diag = diag_new(a)};
  }
  const char *wrong = percent ? run_within(c, percent, &t[0], &t[1]) : run(c, &t[0], &t[1]);
  passed += !wrong;
  failed += wrong != NULL;
  if (wrong)
    printf("FAIL %s on %s, %d%%: %s\n", c->name, c->mesh ? c->mesh : "one processor", percent,
           wrong);
  for (int i = 0; i < 2; i++) {
    if (wrong) diag_print(t[i].diag, stdout, false);
    if (t[i].exec) exec_free(t[i].exec);
    if (t[i].made.code) code_free(t[i].made.code);
    arena_free(t[i].a);
  }
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", (int)(countof(cases) * (1 + countof(budgets))));
    return 0;
  }
  for (size_t i = 0; i < countof(cases); i++)
    if (argc < 2 || !strcmp(cases[i].name, argv[1])) {
      if (suite_takes()) run_case(&cases[i], 0);
      for (size_t k = 0; k < countof(budgets); k++)
        if (suite_takes()) run_case(&cases[i], budgets[k]);
    }
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
