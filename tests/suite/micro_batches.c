// Trains models with their batch in micro-batches (`accumulate`) and whole. After two steps all
// parameters, states and slots must be the same, up to rounding, on several meshes. Programs:
//   memory   a step of n micro-batches needs the memory of the activations of one, beside the sums
//            of the gradients, which are whole on each processor until they are summed over the mesh
//   library  the same where a library computes products and adds to their sums
//   budget   with the least memory that recomputation reaches, results are the same; a step with
//            micro-batches needs less than the whole one, but for these sums
//
//   suite_micro_batches [NAME]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite/common/code.h"
#include "tests/suite/common/trained.h"

enum { CLASSES = 7 }; // of labels
static int passed, failed;

typedef struct Case {
  const char *name, *mesh, *layout, *text;
} Case;

#define DEEP                                                                                       \
  "dim b = 64, d = 16, h = 64, depth = 8\n"                                                        \
  "input x[b, d]\ninput target[b, d]\n"                                                            \
  "fn block(x) {\n"                                                                                \
  "  param wi[d, h] ~ he(d)\n  param wo[h, d] ~ glorot(h, d)\n  param shift[d]\n"                  \
  "  a = gelu(sum[d](layer_norm[d](x) * wi))\n"                                                    \
  "  return x + sum[h](dropout(a, rate = 0.1) * wo) + shift\n}\n"                                  \
  "for layer in 0..depth { x = block(x) }\n"                                                       \
  "loss = mean(square(x - target))\n"                                                              \
  "data train over b { x = synthetic(normal), target = synthetic(normal) }\n"                      \
  "train loss { optimizer = adam(lr = 0.01), clip_norm = 1, steps = 2"
#define ATTENTION                                                                                  \
  "dim b = 16, t = 12, s = t, heads = 2, k = 8, d = heads * k, ff = 32, vocab = 7\n"               \
  "input ids[b, t]: i32\nparam table[vocab, d] ~ normal(std = 0.5)\n"                              \
  "fn block(x) {\n"                                                                                \
  "  param wq[d, heads, k] ~ normal(std = 0.2)\n  param wv[d, heads, k] ~ normal(std = 0.2)\n"     \
  "  param wo[heads, k, d] ~ normal(std = 0.2)\n  param wi[d, ff] ~ he(d)\n  param wd[ff, d] ~ "   \
  "he(ff)\n"                                                                                       \
  "  q = sum[d](rms_norm[d](x) * wq)\n  v = rename[t -> s](sum[d](x * wv))\n"                      \
  "  causal[t, s] = index[s] <= index[t]\n"                                                        \
  "  p = softmax[s](where(causal, sum[k](q * rename[t -> s](q)), -1e9))\n"                         \
  "  x = x + sum[heads, k](sum[s](p * v) * wo)\n"                                                  \
  "  return x + sum[ff](silu(sum[d](x * wi)) * wd)\n}\n"                                           \
  "x = take[vocab](table, ids)\n"                                                                  \
  "for layer in 0..6 { x = block(x) }\n"                                                           \
  "loss = mean[b, t](cross_entropy[vocab](sum[d](x * table), ids))\n"                              \
  "data train over b { ids = synthetic(integers(0, 7)) }\n"                                        \
  "train loss { optimizer = sgd(lr = 0.1), steps = 2"
#define LSTM                                                                                       \
  "dim b = 16, t = 24, d = 8, k = 16, j = k, gate = 4, vocab = 7\n"                                \
  "input ids[b, t]: i32\nparam table[vocab, d] ~ normal(std = 0.5)\n"                              \
  "param w[d, gate, k] ~ glorot(d -> gate, k)\nparam u[j, gate, k] ~ orthogonal(j -> gate, k)\n"   \
  "param bias[gate, k]\nparam head[k, vocab] ~ glorot(k, vocab)\n"                                 \
  "x = take[vocab](table, ids)\n"                                                                  \
  "scan t (h[b, k] = 0, c[b, k] = 0) {\n"                                                          \
  "  z = sum[d](x * w) + sum[j](rename[k -> j](h) * u) + bias\n"                                   \
  "  c = sigmoid(select[gate](z, 0) + 1) * c + sigmoid(select[gate](z, 1)) * "                     \
  "tanh(select[gate](z, 2))\n"                                                                     \
  "  h = sigmoid(select[gate](z, 3)) * tanh(c)\n  yield h as hs\n}\n"                              \
  "loss = mean[b, t](cross_entropy[vocab](sum[k](hs * head), ids))\n"                              \
  "data train over b { ids = synthetic(integers(0, 7)) }\n"                                        \
  "train loss { optimizer = adam(lr = 0.01), steps = 2"

static const Case cases[] = {
    {"deep", NULL, NULL, DEEP},
    {"deep", "rows=2,cols=2", "b=rows,h=cols", DEEP},
    {"deep", "rows=4", "b=rows,parameters/all=rows", DEEP},
    {"deep", "rows=4", "b=rows,parameters/all=rows,gradients/all=rows", DEEP},
    {"attention", NULL, NULL, ATTENTION},
    {"attention", "rows=2,cols=2", "b=rows,heads=cols,ff=cols,vocab=cols,soft/t=cols", ATTENTION},
    {"attention", "rows=2,cols=2", "b=rows,heads=cols,gradients/all=rows", ATTENTION},
    {"lstm", NULL, NULL, LSTM},
    {"lstm", "rows=2,cols=2", "b=rows,k=cols", LSTM},
    {"lstm", "rows=4", "b=rows,gradients/all=rows", LSTM},
};
static const int numbers[] = {2, 4, 8}; // of micro-batches

// How a case is compiled. LITTLE: with the least memory that recomputation reaches, which a budget
// of one byte asks for.
typedef enum Way { PLAIN, LIBRARY, LITTLE, WAYS } Way;
static const char *const way_text[WAYS] = {"", ", products by the library", ", little memory"};

// Compiles a case with n micro-batches.
static bool compile(Trained *t, const Case *c, int n, Way way) {
  TrainedModel m = {c->name, arena_printf(t->a, "%s, accumulate = %d }\n", c->text, n), c->mesh,
                    c->layout, way == LIBRARY};
  return trained_compile(t, &m, way == LITTLE);
}

// Returns whether values differ at most by rounding, relative to the largest of their tensor. Adam
// divides by the root of a mean square: an update may differ by as much as the gradient does. With
// other widths of vectors and orders of sums, differences of up to 1.3e-4 were seen.
static bool near(Dtype type, const void *want, const void *got, int64_t n) {
  int64_t size = dtype_bytes(type);
  double most = 0, apart = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = dtype_load(type, (const char *)want + i * size),
           y = dtype_load(type, (const char *)got + i * size);
    most = fmax(most, fabs(x));
    apart = fmax(apart, fabs(x - y));
  }
  return apart <= 3e-4 * most;
}

static const char *compare(Trained *parts, Trained *whole) {
  const Program *p = whole->made.compiled->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *x = &p->tensor[i];
    size_t n, m;
    if (x->kind == TENSOR_INPUT || x->kind == TENSOR_CONSTANT) continue;
    void *want = trained_read(whole, x, &n), *got = trained_read(parts, x, &m);
    if (n != m || !near(x->type, want, got, (int64_t)n / dtype_bytes(x->type)))
      return arena_printf(parts->a, "%s differs", x->name);
  }
  return NULL;
}

static int64_t arena_of(const Trained *t) { return t->made.compiled->program->arena_bytes; }

// Returns the bytes of all gradients on one processor before they are summed over the mesh.
static int64_t gradient_bytes(const Trained *t) {
  const Program *p = t->made.compiled->program;
  int64_t bytes = 0;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    int64_t n = (int64_t)sizeof(float);
    for (int k = 0; k < p->tensor[i].rank; k++) n *= p->tensor[i].dim[k].whole;
    if (p->tensor[i].kind == TENSOR_PARAM) bytes += n;
  }
  return bytes;
}

// The memory of the activations of one micro-batch, and twice that of the gradients, for the sum of
// the earlier ones and the gradient that is added to it. What little memory leaves of the
// activations does not shrink with the rows.
static const char *check_memory(const Trained *parts, const Trained *whole, int n, bool little) {
  int64_t most = arena_of(whole) * 11 / 10 / (little ? 1 : n) + 2 * gradient_bytes(whole);
  if (getenv("SHOW"))
    printf("  %d: %lld of %lld bytes, gradients %lld\n", n, (long long)arena_of(parts),
           (long long)arena_of(whole), (long long)gradient_bytes(whole));
  return suite_varied() || arena_of(parts) <= most
             ? NULL
             : arena_printf(parts->a, "takes %lld bytes, whole %lld", (long long)arena_of(parts),
                            (long long)arena_of(whole));
}

static const char *run_case(const Case *c, int n, Way way, Trained *parts, Trained *whole) {
  if (!compile(parts, c, n, way) || !compile(whole, c, 1, way)) return "is refused";
  const char *wrong = check_memory(parts, whole, n, way == LITTLE);
  if (wrong) return wrong;
  return trained_run(parts, CLASSES) && trained_run(whole, CLASSES) ? compare(parts, whole)
                                                                    : "training fails";
}

static void test_case(const Case *c, int n, Way way) {
  Trained t[2];
  for (int i = 0; i < 2; i++) {
    Arena *a = arena_new();
    t[i] = (Trained){.a = a, .diag = diag_new(a)};
  }
  const char *wrong = run_case(c, n, way, &t[0], &t[1]);
  passed += !wrong;
  failed += wrong != NULL;
  if (wrong)
    printf("FAIL %s on %s, %d micro-batches%s: %s\n", c->name, c->mesh ? c->mesh : "one processor",
           n, way_text[way], wrong);
  for (int i = 0; i < 2; i++) {
    if (wrong) diag_print(t[i].diag, stdout, false);
    if (t[i].exec) exec_free(t[i].exec);
    if (t[i].made.code) code_free(t[i].made.code);
    arena_free(t[i].a);
  }
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n",
           (int)(countof(cases) * (countof(numbers) + WAYS - 1)));
    return 0;
  }
  for (size_t i = 0; i < countof(cases); i++) {
    if (argc > 1 && strcmp(cases[i].name, argv[1]) != 0) continue;
    for (size_t k = 0; k < countof(numbers); k++)
      if (suite_takes()) test_case(&cases[i], numbers[k], PLAIN);
    if (suite_takes()) test_case(&cases[i], 4, LIBRARY);
    if (suite_takes()) test_case(&cases[i], 4, LITTLE);
  }
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
