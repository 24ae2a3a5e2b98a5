// Makes the texts of small random models (random_model.h). A layer maps x over its dims, of which
// the last (m->last) is that of features, to the next x.
#include "tests/suite/common/random_model.h"

#include <stdbool.h>

#include "ir/base/base.h"

typedef struct Model {
  Arena *a;
  uint64_t state;    // of the random numbers
  const char *dims;  // declarations
  const char *body;  // statements
  const char *rows;  // the dims of x but for the last: "b" or "b, t"
  const char *last;  // the dim of features
  int ndims, layers; // counted for names
  bool sequence;     // x has the dim t
  bool ids;          // the input are ids of rows of a table
} Model;

// Returns the next number below n (SplitMix64).
static uint32_t draw(Model *m, uint32_t n) {
  uint64_t z = m->state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

static void say(Model *m, const char *text) { m->body = arena_printf(m->a, "%s%s", m->body, text); }

// Declares a new dim and returns its name.
static const char *new_dim(Model *m, const char *name) {
  static const int sizes[] = {4, 6, 8, 12, 64, 96, 256, 512, 1024, 2048};
  const char *unique = m->ndims ? arena_printf(m->a, "%s%d", name, m->ndims) : name;
  m->dims = arena_printf(m->a, "%sdim %s = %d\n", m->dims, unique, sizes[draw(m, countof(sizes))]);
  m->ndims++;
  return unique;
}

static const char *activation(Model *m) {
  static const char *const names[] = {"relu", "tanh", "gelu", "silu"};
  return names[draw(m, countof(names))];
}

static void linear(Model *m) {
  const char *from = m->last, *to = new_dim(m, "h");
  int n = ++m->layers;
  say(m, arena_printf(m->a, "param w%d[%s, %s] ~ glorot(%s, %s)\nparam c%d[%s]\n", n, from, to,
                      from, to, n, to));
  say(m, arena_printf(m->a, "x = %s(sum[%s](x * w%d) + c%d)\n", activation(m), from, n, n));
  m->last = to;
}

static void residual(Model *m) {
  const char *d = m->last, *h = new_dim(m, "h");
  int n = ++m->layers;
  say(m, arena_printf(m->a, "param u%d[%s, %s] ~ he(%s)\nparam v%d[%s, %s] ~ glorot(%s, %s)\n", n,
                      d, h, d, n, h, d, h, d));
  say(m, arena_printf(m->a, "x = x + sum[%s](%s(sum[%s](%s[%s](x) * u%d)) * v%d)\n", h,
                      activation(m), d, draw(m, 2) ? "layer_norm" : "rms_norm", d, n, n));
}

static void gate(Model *m) {
  const char *d = m->last;
  int n = ++m->layers;
  say(m, arena_printf(m->a, "param g%d[%s] = 1\nx = x * g%d * softmax[%s](x)\n", n, d, n, d));
}

static void experts(Model *m) {
  const char *d = m->last, *e = new_dim(m, "e");
  int n = ++m->layers;
  say(m, arena_printf(m->a,
                      "param r%d[%s, %s] ~ normal(std = 0.1)\nparam q%d[%s, %s] ~ glorot(%s, %s)\n",
                      n, d, e, n, e, d, e, d));
  say(m,
      arena_printf(m->a, "x = x + sum[%s](softmax[%s](sum[%s](x * r%d)) * q%d)\n", e, e, d, n, n));
}

static void attention(Model *m) {
  const char *d = m->last;
  int n = ++m->layers;
  if (!m->sequence) {
    residual(m);
    return;
  }
  say(m, arena_printf(m->a, "param k%d[%s] ~ normal(std = 1)\ny = rename[t -> s](x)\n", n, d));
  say(m, arena_printf(m->a, "x = x + sum[s](softmax[s](sum[%s](x * k%d * y)) * y)\n", d, n));
}

static void inputs(Model *m) {
  static const int batch[] = {4, 8, 16, 32, 64, 256, 1024, 4096};
  m->dims = arena_printf(m->a, "dim b = %d\n", batch[draw(m, countof(batch))]);
  m->sequence = draw(m, 3) == 0;
  m->rows = m->sequence ? "b, t" : "b";
  if (m->sequence) m->dims = arena_printf(m->a, "%sdim t = 16, s = t\n", m->dims);
  m->last = new_dim(m, "d");
  if (draw(m, 3)) {
    say(m, arena_printf(m->a, "input x[%s, %s]\n", m->rows, m->last));
    return;
  }
  const char *v = new_dim(m, "v");
  m->ids = true;
  say(m, arena_printf(m->a, "input ids[%s]: i32\nparam table[%s, %s] ~ normal(std = 0.5)\n",
                      m->rows, v, m->last));
  say(m, arena_printf(m->a, "x = take[%s](table, ids)\n", v));
}

static void ending(Model *m) {
  static const char *const optimizers[] = {"sgd(lr = 0.1)", "adam(lr = 0.01)",
                                           "sgd(lr = 0.1, momentum = 0.9)",
                                           "adam(lr = 0.01), clip_norm = 1"};
  bool classes = draw(m, 2);
  if (m->sequence && draw(m, 2)) {
    say(m, "x = mean[t](x)\n");
    m->rows = "b";
  }
  if (classes)
    say(m,
        arena_printf(m->a, "input label[%s]: i32\nloss = mean[%s](cross_entropy[%s](x, label))\n",
                     m->rows, m->rows, m->last));
  else
    say(m, arena_printf(m->a, "input target[%s, %s]\nloss = mean(square(x - target))\n", m->rows,
                        m->last));
  say(m,
      arena_printf(m->a, "data train over b { %s, %s }\n",
                   m->ids ? "ids = synthetic(integers(0, 2))" : "x = synthetic(normal)",
                   classes ? "label = synthetic(integers(0, 2))" : "target = synthetic(normal)"));
  say(m, arena_printf(m->a, "train loss { optimizer = %s, steps = 2 }\n",
                      optimizers[draw(m, countof(optimizers))]));
}

const char *random_model(Arena *a, uint64_t seed) {
  static void (*const layers[])(Model *) = {linear, residual, gate, experts, attention};
  Model m = {.a = a, .state = seed * 1000003, .dims = "", .body = ""};
  inputs(&m);
  for (uint32_t n = 1 + draw(&m, 2); n > 0; n--) layers[draw(&m, countof(layers))](&m);
  if (m.layers < 2 && m.ndims < 3) linear(&m);
  ending(&m);
  return arena_printf(a, "%s%s", m.dims, m.body);
}
