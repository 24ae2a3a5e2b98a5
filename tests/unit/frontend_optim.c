// Tests optimisers and schedules over many steps, in double. The expected values come from
// recurrences in this file, written from the formulas of PyTorch's documentation (torch.optim) and,
// for Adafactor, Lion and LAMB, of their papers.
//
// The model is a bowl: loss = sum(curve * (w - goal)^2) / 2, so that its gradient is curve (w -
// goal).
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

enum { N = 4, STEPS = 12, WIDE = 130 * 128 };

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

// -- the steps of a model -----------------------------------------------------------------------

typedef struct Steps {
  Graph *g;
  double **value; // of declaration i + 1
  int64_t *n;
} Steps;

static Model *build(const char *text) {
  Intern *names = intern_new(arena);
  diag = diag_new(arena);
  uint32_t source = diag_source(diag, "model.mesh", text, strlen(text));
  const Ast *t = ast_parse(arena, names, diag, source, text, strlen(text));
  Model *m = diag_errors(diag)
                 ? NULL
                 : model_build(arena, names, diag, t, &(ModelOptions){.path = "model.mesh"});
  if (!m) diag_print(diag, stderr, false);
  assert_non_null(m);
  return m;
}

static double start(int64_t i) { return 1 + 0.5 * sin(0.7 * (double)i); }
static double curve(int64_t i) { return 0.3 + 0.2 * (double)(i % 5); }
static double goal(int64_t i) { return cos((double)i); }

static void fill(const Decl *d, int64_t n, double *x) {
  for (int64_t i = 0; i < n; i++)
    x[i] = !strcmp(d->name, "curve")  ? curve(i)
           : !strcmp(d->name, "goal") ? goal(i)
           : d->kind == DECL_PARAM    ? start(i)
                                      : d->init.a;
}

static Steps steps_from(Graph *g) {
  Steps s = {.g = g};
  assert_non_null(s.g);
  s.value = arena_array(arena, double *, s.g->decl.n + 1);
  s.n = arena_array(arena, int64_t, s.g->decl.n + 1);
  for (uint32_t i = 0; i < s.g->decl.n; i++) {
    const Decl *d = &s.g->decl.at[i];
    s.n[i] = 1;
    for (int k = 0; k < d->rank; k++) s.n[i] *= dim_get(s.g->dims, d->dims[k])->size;
    s.value[i] = arena_array(arena, double, s.n[i]);
    fill(d, s.n[i], s.value[i]);
  }
  return s;
}

static Steps steps_of(const char *text) {
  return steps_from(select_train(arena, build(text), NULL));
}

static const Eval *evaluated(Arena *a, const Steps *s, int64_t t) {
  EvalFeed *feed = arena_array(a, EvalFeed, s->g->decl.n + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->g->decl.n; i++)
    if (s->g->decl.at[i].node) feed[n++] = (EvalFeed){i + 1, s->value[i], s->n[i]};
  return eval_run(a, s->g, n, feed, t);
}

static void step(Steps *s, int64_t t) {
  Arena *a = arena_new();
  const Eval *e = evaluated(a, s, t);
  for (uint32_t i = 0; i < s->g->output.n; i++) {
    const Output *o = &s->g->output.at[i];
    if (o->kind != OUT_UPDATE) continue;
    const Decl *d = &s->g->decl.at[o->target - 1];
    bool agree;
    const Tensor *x = eval_full(a, e, o->value, d->rank, d->dims, &agree);
    memcpy(s->value[o->target - 1], x->value, sizeof(double) * (size_t)x->elements);
  }
  arena_free(a);
}

static double *value_of(const Steps *s, const char *name) {
  DeclId d = graph_find_decl(s->g, name);
  if (!d) fail_msg("no %s", name);
  return s->value[d - 1];
}

// -- recurrences --------------------------------------------------------------------------------

typedef struct Own {
  double w[N], m[N], v[N];
} Own;
// Computes one step of all elements with gradients g and learning rate lr; t counts from 1.
typedef void Recurrence(Own *o, const double *g, double lr, int t);

static void own_momentum(Own *o, const double *g, double lr, int t) {
  for (int i = 0; i < N; i++) {
    o->m[i] = t == 1 ? g[i] : 0.9 * o->m[i] + g[i];
    o->w[i] -= lr * o->m[i];
  }
}
static void own_nesterov(Own *o, const double *g, double lr, int t) {
  for (int i = 0; i < N; i++) {
    double d = g[i] + 0.1 * o->w[i];
    o->m[i] = t == 1 ? d : 0.9 * o->m[i] + d;
    o->w[i] -= lr * (d + 0.9 * o->m[i]);
  }
}
static void own_adamw(Own *o, const double *g, double lr, int t) {
  for (int i = 0; i < N; i++) {
    o->w[i] *= 1 - lr * 0.1;
    o->m[i] = 0.8 * o->m[i] + 0.2 * g[i];
    o->v[i] = 0.95 * o->v[i] + 0.05 * g[i] * g[i];
    double mean = o->m[i] / (1 - pow(0.8, t)), square = o->v[i] / (1 - pow(0.95, t));
    o->w[i] -= lr * mean / (sqrt(square) + 1e-6);
  }
}
static void own_adam(Own *o, const double *g, double lr, int t) {
  for (int i = 0; i < N; i++) {
    o->m[i] = 0.9 * o->m[i] + 0.1 * g[i];
    o->v[i] = 0.999 * o->v[i] + 0.001 * g[i] * g[i];
    double mean = o->m[i] / (1 - pow(0.9, t)), square = o->v[i] / (1 - pow(0.999, t));
    o->w[i] -= lr * mean / (sqrt(square) + 1e-8);
  }
}
static void own_adagrad(Own *o, const double *g, double lr, int t) {
  (void)t;
  for (int i = 0; i < N; i++) {
    o->v[i] += g[i] * g[i];
    o->w[i] -= lr * g[i] / (sqrt(o->v[i]) + 1e-10);
  }
}
static void own_rmsprop(Own *o, const double *g, double lr, int t) {
  for (int i = 0; i < N; i++) {
    o->v[i] = 0.9 * o->v[i] + 0.1 * g[i] * g[i];
    o->m[i] = 0.5 * o->m[i] + g[i] / (sqrt(o->v[i]) + 1e-8);
    o->w[i] -= lr / (1 + 0.1 * (t - 1)) * o->m[i];
  }
}
static void own_lion(Own *o, const double *g, double lr, int t) {
  (void)t;
  for (int i = 0; i < N; i++) {
    double ahead = 0.9 * o->m[i] + 0.1 * g[i];
    o->w[i] -= lr * ((ahead > 0) - (ahead < 0) + 0.3 * o->w[i]);
    o->m[i] = 0.99 * o->m[i] + 0.01 * g[i];
  }
}
static double rms(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
  return sqrt(sum / (double)n);
}
static void own_adafactor(Own *o, const double *g, double lr, int t) {
  double u[N], beta = 1 - pow(t, -0.8);
  for (int i = 0; i < N; i++) {
    o->v[i] = beta * o->v[i] + (1 - beta) * (g[i] * g[i] + 1e-30);
    u[i] = g[i] / sqrt(o->v[i]);
  }
  double rate = lr * fmax(1e-3, rms(o->w, N)) / fmax(1, rms(u, N));
  for (int i = 0; i < N; i++) o->w[i] -= rate * u[i];
}

static double norm(const double *x, int64_t n) { return rms(x, n) * sqrt((double)n); }
static void own_lamb(Own *o, const double *g, double lr, int t) {
  double r[N];
  for (int i = 0; i < N; i++) {
    o->m[i] = 0.8 * o->m[i] + 0.2 * g[i];
    o->v[i] = 0.95 * o->v[i] + 0.05 * g[i] * g[i];
    double mean = o->m[i] / (1 - pow(0.8, t)), square = o->v[i] / (1 - pow(0.95, t));
    r[i] = mean / (sqrt(square) + 1e-6) + 0.1 * o->w[i];
  }
  double ratio = norm(o->w, N) / norm(r, N);
  for (int i = 0; i < N; i++) o->w[i] -= lr * ratio * r[i];
}
static void own_adadelta(Own *o, const double *g, double lr, int t) {
  (void)t;
  for (int i = 0; i < N; i++) { // m has the average of the squared steps
    double d = g[i] + 0.2 * o->w[i];
    o->v[i] = 0.7 * o->v[i] + 0.3 * d * d;
    double step = sqrt(o->m[i] + 1e-3) / sqrt(o->v[i] + 1e-3) * d;
    o->m[i] = 0.7 * o->m[i] + 0.3 * step * step;
    o->w[i] -= lr * step;
  }
}
static double nadam_momentum(int t) { return 0.9 * (1 - 0.5 * pow(0.96, t * 0.3)); }
static void own_nadam(Own *o, const double *g, double lr, int t) {
  double product = 1, next = nadam_momentum(t + 1);
  for (int k = 1; k <= t; k++) product *= nadam_momentum(k);
  for (int i = 0; i < N; i++) {
    double d = g[i] + 0.1 * o->w[i];
    o->m[i] = 0.9 * o->m[i] + 0.1 * d;
    o->v[i] = 0.95 * o->v[i] + 0.05 * d * d;
    double root = sqrt(o->v[i] / (1 - pow(0.95, t))) + 1e-8;
    o->w[i] -= lr * (1 - nadam_momentum(t)) / (1 - product) * d / root;
    o->w[i] -= lr * next / (1 - product * next) * o->m[i] / root;
  }
}
static void own_radam(Own *o, const double *g, double lr, int t) {
  double limit = 2 / (1 - 0.999) - 1, power = pow(0.999, t);
  double length = limit - 2 * t * power / (1 - power);
  for (int i = 0; i < N; i++) {
    double d = g[i] + 0.1 * o->w[i];
    o->m[i] = 0.9 * o->m[i] + 0.1 * d;
    o->v[i] = 0.999 * o->v[i] + 0.001 * d * d;
    double mean = o->m[i] / (1 - pow(0.9, t)), by = 1;
    if (length > 5)
      by = sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)) *
           sqrt(1 - power) / (sqrt(o->v[i]) + 1e-8);
    o->w[i] -= lr * mean * by;
  }
}
// With beta2 = 0.5 the length is at most 3: there is never a second moment.
static void own_radam_short(Own *o, const double *g, double lr, int t) {
  for (int i = 0; i < N; i++) {
    o->m[i] = 0.9 * o->m[i] + 0.1 * g[i];
    o->w[i] -= lr * o->m[i] / (1 - pow(0.9, t));
  }
}

// -- schedules ----------------------------------------------------------------------------------

static const double pi = 3.14159265358979323846;

static double constant(double t) { return (void)t, 1; }
static double cosine(double t) {
  if (t < 3) return (t + 1) / 3;
  double u = fmin(1, (t - 3) / 6);
  return 0.1 + 0.9 * 0.5 * (1 + cos(pi * u));
}
static double linear(double t) { return 1 - 0.75 * fmin(1, t / 8); }
static double linear_warm(double t) { return t < 2 ? (t + 1) / 2 : 1 - fmin(1, (t - 2) / 7); }
static double inverse_sqrt(double t) { return sqrt(3 / fmax(t, 3)); }
static double exponential(double t) { return pow(0.5, t / 4); }
static double stairs(double t) { return t < 2 ? (t + 1) / 2 : pow(0.3, floor(t / 5)); }
static double pieces(double t) { return t < 3 ? 1 : t < 7 ? 0.5 : 0.2; }

// PyTorch's OneCycleLR with total_steps = 10, pct_start = 0.4, div_factor = 25 and
// final_div_factor = 40: the phases end at steps 3 and 9.
static double one_cycle(double t) {
  double up = t / 3, down = (t - 3) / 6;
  if (t <= 3) return 1 + (0.04 - 1) / 2 * (1 + cos(pi * up));
  if (t <= 9) return 0.001 + (1 - 0.001) / 2 * (1 + cos(pi * down));
  return 0.001;
}
// Cycles of 3, 6 and 12 steps, after a warmup of 1.
static double restarts(double t) {
  double u = t - 1 < 3 ? (t - 1) / 3 : t - 1 < 9 ? (t - 4) / 6 : (t - 10) / 12;
  return t < 1 ? 1 : 0.2 + 0.8 / 2 * (1 + cos(pi * u));
}
static double restarts_even(double t) { return 0.5 * (1 + cos(pi * fmod(t, 4) / 4)); }
static double stable_decay(double t) {
  if (t < 2) return (t + 1) / 2;
  return t < 6 ? 1 : 1 - 0.75 * fmin(1, (t - 6) / 4);
}

static double gradient(const double *w, int i) { return curve(i) * (w[i] - goal(i)); }

static const struct {
  const char *optimizer, *more;
  Recurrence *own;
  double (*factor)(double);
} rows[] = {
    {"sgd(lr = 0.05, momentum = 0.9)", "", own_momentum, constant},
    {"sgd(lr = 0.05, momentum = 0.9, nesterov = true, weight_decay = 0.1)", "", own_nesterov,
     constant},
    {"adam(lr = 0.05)", "", own_adam, constant},
    {"adamw(lr = 0.05, beta1 = 0.8, beta2 = 0.95, eps = 1e-6, weight_decay = 0.1)",
     ", schedule = cosine(warmup = 3, total = 9, final = 0.1)", own_adamw, cosine},
    {"adagrad(lr = 0.05)", "", own_adagrad, constant},
    {"rmsprop(lr = 0.05, rho = 0.9, momentum = 0.5, decay = 0.1)", "", own_rmsprop, constant},
    {"lion(lr = 0.05, weight_decay = 0.3)", "", own_lion, constant},
    {"adafactor(lr = 0.05)", "", own_adafactor, constant},
    {"adam(lr = 0.05)", ", schedule = linear(total = 8, final = 0.25)", own_adam, linear},
    {"adam(lr = 0.05)", ", schedule = linear(total = 9, warmup = 2)", own_adam, linear_warm},
    {"adam(lr = 0.05)", ", schedule = inverse_sqrt(scale = 3)", own_adam, inverse_sqrt},
    {"adam(lr = 0.05)", ", schedule = exponential(rate = 0.5, every = 4)", own_adam, exponential},
    {"adam(lr = 0.05)", ", schedule = step(every = 5, factor = 0.3, warmup = 2)", own_adam, stairs},
    {"adam(lr = 0.05)", ", schedule = piecewise(3: 1, 7: 0.5, 9: 0.2)", own_adam, pieces},
    {"lamb(lr = 0.05, beta1 = 0.8, beta2 = 0.95, weight_decay = 0.1)", "", own_lamb, constant},
    {"adadelta(lr = 0.05, rho = 0.7, eps = 1e-3, weight_decay = 0.2)", "", own_adadelta, constant},
    {"nadam(lr = 0.05, beta2 = 0.95, weight_decay = 0.1, momentum_decay = 0.3)", "", own_nadam,
     constant},
    {"radam(lr = 0.05, weight_decay = 0.1)", "", own_radam, constant},
    {"radam(lr = 0.05, beta2 = 0.5)", "", own_radam_short, constant},
    {"adam(lr = 0.05)",
     ", schedule = one_cycle(total = 10, rise = 0.4, start = 0.04, final = 0.001)", own_adam,
     one_cycle},
    {"adam(lr = 0.05)",
     ", schedule = cosine_restarts(every = 3, grow = 2, final = 0.2, warmup = 1)", own_adam,
     restarts},
    {"adam(lr = 0.05)", ", schedule = cosine_restarts(every = 4)", own_adam, restarts_even},
    {"adam(lr = 0.05)", ", schedule = wsd(total = 10, decay = 4, final = 0.25, warmup = 2)",
     own_adam, stable_decay},
};

static bool near(double a, double b, double tolerance) {
  return fabs(a - b) <= tolerance * (1 + fabs(b));
}

static void test_recurrences(void **state) {
  (void)state;
  for (size_t r = 0; r < countof(rows); r++) {
    Steps s = steps_of(
        arena_printf(arena,
                     "dim n = %d\ninput curve[n]: f64\ninput goal[n]: f64\nparam w[n]: f64\n"
                     "train sum(curve * square(w - goal)) / 2 { optimizer = %s%s }\n",
                     N, rows[r].optimizer, rows[r].more));
    Own o = {0};
    for (int i = 0; i < N; i++) o.w[i] = start(i);
    for (int t = 0; t < STEPS; t++) {
      double g[N];
      for (int i = 0; i < N; i++) g[i] = gradient(o.w, i);
      rows[r].own(&o, g, 0.05 * rows[r].factor(t), t + 1);
      step(&s, t);
    }
    const double *w = value_of(&s, "w");
    for (int i = 0; i < N; i++)
      if (!near(w[i], o.w[i], 1e-12))
        fail_msg("%s%s: w[%d] is %.17g, not %.17g", rows[r].optimizer, rows[r].more, i, w[i],
                 o.w[i]);
  }
}

// With two dims of at least 128, the second moments are kept as rows and columns instead of a
// matrix.
static void test_factored(void **state) {
  (void)state;
  enum { R = 130, C = 128 };
  Steps s =
      steps_of("dim c = 128, r = 130, k = 1\ninput curve[r, k, c]: f64\n"
               "input goal[r, k, c]: f64\nparam w[r, k, c]: f64\n"
               "train sum(curve * square(w - goal)) / 2 { optimizer = adafactor(lr = 0.1) }\n");
  double *w = arena_array(arena, double, WIDE), *u = arena_array(arena, double, WIDE);
  double row[R] = {0}, col[C] = {0};
  for (int i = 0; i < WIDE; i++) w[i] = start(i);
  for (int t = 1; t <= 3; t++) {
    double beta = 1 - pow(t, -0.8), mean = 0, sum_r[R] = {0}, sum_c[C] = {0};
    for (int i = 0; i < WIDE; i++) {
      double g = gradient(w, i);
      sum_r[i / C] += (g * g + 1e-30) / C;
      sum_c[i % C] += (g * g + 1e-30) / R;
    }
    for (int i = 0; i < R; i++) row[i] = beta * row[i] + (1 - beta) * sum_r[i], mean += row[i] / R;
    for (int i = 0; i < C; i++) col[i] = beta * col[i] + (1 - beta) * sum_c[i];
    for (int i = 0; i < WIDE; i++) u[i] = gradient(w, i) / sqrt(row[i / C] * col[i % C] / mean);
    double rate = 0.1 * fmax(1e-3, rms(w, WIDE)) / fmax(1, rms(u, WIDE));
    for (int i = 0; i < WIDE; i++) w[i] -= rate * u[i];
    step(&s, t - 1);
  }
  const double *got = value_of(&s, "w"), *got_row = value_of(&s, "optimizer.w.r");
  for (int i = 0; i < WIDE; i++)
    if (!near(got[i], w[i], 1e-11)) fail_msg("w[%d] is %.17g, not %.17g", i, got[i], w[i]);
  for (int i = 0; i < R; i++) assert_true(near(got_row[i], row[i], 1e-11));
  assert_int_equal(graph_find_decl(s.g, "optimizer.w.v"), 0);
}

// One update of muon for `count` matrices, as torch.optim.Muon computes it, in double: with more
// rows than columns it works on the transposed matrix. Element (r, c) of matrix k of w is at
// k * each + r * row + c * col.
typedef struct Matrices {
  int count, rows, cols;
  int64_t each, row, col;
} Matrices;
enum { SIDE = 6 };

static void newton_schulz(double x[SIDE][SIDE], int height, int width) {
  double a[SIDE][SIDE], b[SIDE][SIDE], y[SIDE][SIDE], sum = 0;
  for (int r = 0; r < height; r++)
    for (int c = 0; c < width; c++) sum += x[r][c] * x[r][c];
  for (int r = 0; r < height; r++)
    for (int c = 0; c < width; c++) x[r][c] /= fmax(sqrt(sum), 1e-7);
  for (int k = 0; k < 5; k++) {
    memset(a, 0, sizeof a);
    memset(y, 0, sizeof y);
    for (int r = 0; r < height; r++)
      for (int s = 0; s < height; s++)
        for (int c = 0; c < width; c++) a[r][s] += x[r][c] * x[s][c];
    for (int r = 0; r < height; r++)
      for (int s = 0; s < height; s++) {
        b[r][s] = -4.775 * a[r][s];
        for (int q = 0; q < height; q++) b[r][s] += 2.0315 * a[r][q] * a[q][s];
      }
    for (int r = 0; r < height; r++)
      for (int c = 0; c < width; c++) {
        y[r][c] = 3.4445 * x[r][c];
        for (int s = 0; s < height; s++) y[r][c] += b[r][s] * x[s][c];
      }
    memcpy(x, y, sizeof y);
  }
}

static void own_muon(const Matrices *m, double *w, double *buffer, const double *g) {
  bool tall = m->rows > m->cols;
  for (int k = 0; k < m->count; k++) {
    double x[SIDE][SIDE] = {0};
    for (int r = 0; r < m->rows; r++)
      for (int c = 0; c < m->cols; c++) {
        int64_t i = k * m->each + r * m->row + c * m->col;
        buffer[i] += 0.05 * (g[i] - buffer[i]);
        *(tall ? &x[c][r] : &x[r][c]) = g[i] + 0.95 * (buffer[i] - g[i]);
      }
    newton_schulz(x, tall ? m->cols : m->rows, tall ? m->rows : m->cols);
    for (int r = 0; r < m->rows; r++)
      for (int c = 0; c < m->cols; c++) {
        int64_t i = k * m->each + r * m->row + c * m->col;
        w[i] = w[i] * (1 - 0.05 * 0.1) -
               0.05 * sqrt(fmax(1, (double)m->rows / m->cols)) * (tall ? x[c][r] : x[r][c]);
      }
  }
}

// rows: the outputs, in PyTorch the first dim of a weight; here they are the last dim by default.
static void test_muon(void **state) {
  (void)state;
  const struct {
    const char *sizes, *dims, *arguments;
    Matrices m;
  } cases[] = {
      {"i = 3, o = 5", "i, o", "", {1, 5, 3, 0, 1, 5}},
      {"i = 4, o = 2", "i, o", "", {1, 2, 4, 0, 1, 2}},
      {"o = 5, i = 3", "o, i", ", out = \"o\"", {1, 5, 3, 0, 3, 1}},
      {"l = 2, i = 3, o = 4", "l, i, o", ", each = \"l\"", {2, 4, 3, 12, 1, 4}},
      {"i = 5, h = 2, k = 3", "i, h, k", ", out = \"h, k\"", {1, 6, 5, 0, 1, 6}},
      {"a = 2, c = 3, o = 4", "a, c, o", ", out = \"o\"", {1, 4, 6, 0, 1, 4}},
  };
  for (size_t k = 0; k < countof(cases); k++) {
    const Matrices *m = &cases[k].m;
    Steps s = steps_of(arena_printf(
        arena,
        "dim %s\ninput curve[%s]: f64\ninput goal[%s]: f64\nparam w[%s]: f64\n"
        "train sum(curve * square(w - goal)) / 2 { optimizer = muon(lr = 0.05%s) }\n",
        cases[k].sizes, cases[k].dims, cases[k].dims, cases[k].dims, cases[k].arguments));
    double w[36], buffer[36] = {0}, g[36];
    int n = m->count * m->rows * m->cols;
    for (int i = 0; i < n; i++) w[i] = start(i);
    for (int t = 0; t < STEPS; t++) {
      for (int i = 0; i < n; i++) g[i] = gradient(w, i);
      own_muon(m, w, buffer, g);
      step(&s, t);
    }
    for (int i = 0; i < n; i++)
      if (!near(value_of(&s, "w")[i], w[i], 1e-10))
        fail_msg("[%s]%s: w[%d] is %.17g, not %.17g", cases[k].dims, cases[k].arguments, i,
                 value_of(&s, "w")[i], w[i]);
  }
}

// A parameter of zeros has no norm: lamb then takes the step of Adam.
static void test_lamb_of_zeros(void **state) {
  (void)state;
  Steps s = steps_of("dim n = 4\ninput goal[n]: f64\nparam w[n]: f64\n"
                     "train sum(w * goal) { optimizer = lamb(lr = 0.1, eps = 1e-12) }\n");
  for (int i = 0; i < N; i++) value_of(&s, "w")[i] = 0;
  step(&s, 0);
  for (int i = 0; i < N; i++)
    assert_true(near(value_of(&s, "w")[i], goal(i) > 0 ? -0.1 : 0.1, 1e-9));
}

// The factor falls after more than `patience` evaluations that are not better by the threshold, as
// in PyTorch's ReduceLROnPlateau, and not below `final`. A step without an evaluation changes
// nothing.
static void test_plateau(void **state) {
  (void)state;
  static const struct {
    double seen, factor; // 0: no evaluation before the step
  } turns[] = {{0, 1},      {5, 1},   {4, 1},   {3.99, 1}, {0, 1},    {4.2, 0.5},
               {3.98, 0.5}, {3, 0.5}, {3, 0.5}, {0, 0.5},  {3, 0.25}, {9, 0.25},
               {9, 0.2},    {9, 0.2}, {9, 0.2}, {2, 0.2}};
  for (int most = 0; most < 2; most++) {
    double w = start(0);
    Steps s = steps_of(arena_printf(
        arena,
        "param w: f64\nmetric q = w\ntrain w { optimizer = sgd(lr = 1), schedule = plateau(q, "
        "factor = 0.5, patience = 1, threshold = 0.01, final = 0.2, best = %s) }\n",
        most ? "max" : "min"));
    for (size_t t = 0; t < countof(turns); t++) {
      *value_of(&s, "optimizer.plateau.fresh") = turns[t].seen != 0;
      *value_of(&s, "optimizer.plateau.value") = most ? 1 / turns[t].seen : turns[t].seen;
      w -= turns[t].factor;
      step(&s, (int64_t)t);
      if (!near(*value_of(&s, "w"), w, 1e-6))
        fail_msg("%s, step %zu: w is %g, not %g", most ? "max" : "min", t, *value_of(&s, "w"), w);
    }
  }
}

// -- several parameters -------------------------------------------------------------------------

// The first pattern that matches a parameter decides. Without a match the options of the block
// apply.
static void test_groups(void **state) {
  (void)state;
  Steps s = steps_of("fn layer() {\n  param w: f64\n  param bias: f64\n  return w + bias\n}\n"
                     "param p: f64\ny = layer(name = \"head\") + layer(name = \"body\")\n"
                     "train y + p { optimizer = sgd(lr = 1), frozen = \"body.bias\", groups = (\n"
                     "  \"head.bias\": sgd(lr = 2), \"head.*\": sgd(lr = 3)) }\n");
  double first = start(0);
  step(&s, 0);
  assert_true(near(*value_of(&s, "head.bias"), first - 2, 1e-12));
  assert_true(near(*value_of(&s, "head.w"), first - 3, 1e-12));
  assert_true(near(*value_of(&s, "body.w"), first - 1, 1e-12));
  assert_true(near(*value_of(&s, "body.bias"), first, 1e-12));
  assert_true(near(*value_of(&s, "p"), first - 1, 1e-12));
}

// The norm of clipping is over all parameters that the block trains, and no others.
static void test_clip_norm(void **state) {
  (void)state;
  Steps s = steps_of("param p: f64\nparam q: f64\nparam r: f64\n"
                     "train 3 * p + 4 * q + 12 * r { optimizer = sgd(lr = 1), clip_norm = 1, "
                     "parameters = \"p, q\" }\n");
  double first = start(0);
  step(&s, 0);
  assert_true(near(*value_of(&s, "p"), first - 0.6, 1e-7)); // the norm is summed in f32
  assert_true(near(*value_of(&s, "q"), first - 0.8, 1e-7));
  assert_true(*value_of(&s, "r") == first);
}

// -- several blocks -----------------------------------------------------------------------------

// The second block uses the values that the first block made. It does not train the first block's
// parameters.
static void test_blocks(void **state) {
  (void)state;
  Steps s = steps_of("param p: f64\nparam q: f64\nstate seen: f64 = 7\nupdate seen = p\n"
                     "first = p * p\nsecond = p * q\n"
                     "train first { parameters = \"p\", optimizer = sgd(lr = 0.25), repeat = 2 }\n"
                     "train second { parameters = \"q\", optimizer = sgd(lr = 1) }\n");
  *value_of(&s, "p") = *value_of(&s, "q") = 1;
  step(&s, 0);
  assert_true(near(*value_of(&s, "p"), 0.25, 1e-12)); // 1, then 0.5, then 0.25
  assert_true(near(*value_of(&s, "q"), 0.75, 1e-12)); // its gradient is the new value of p
  assert_true(near(*value_of(&s, "seen"), 1, 1e-12)); // the value at the start of the step
}

// A block that repeats counts its own updates: 6 updates in 3 steps equal Adam's first 6 updates.
static void test_repeat_counts(void **state) {
  (void)state;
  static const char text[] =
      "dim n = 4\ninput curve[n]: f64\ninput goal[n]: f64\nparam w[n]: f64\n"
      "train sum(curve * square(w - goal)) / 2 { optimizer = %s, repeat = %d }\n";
  const char *const optimizers[] = {"adam(lr = 0.1)", "adafactor(lr = 0.1)"};
  for (size_t k = 0; k < countof(optimizers); k++) {
    Steps twice = steps_of(arena_printf(arena, text, optimizers[k], 2));
    Steps once = steps_of(arena_printf(arena, text, optimizers[k], 1));
    for (int t = 0; t < 3; t++) step(&twice, t);
    for (int t = 0; t < 6; t++) step(&once, t);
    for (int i = 0; i < N; i++)
      assert_true(near(value_of(&twice, "w")[i], value_of(&once, "w")[i], 1e-12));
  }
}

// Two blocks that train the same parameter have separate slots.
static void test_slots(void **state) {
  (void)state;
  Steps s = steps_of("param p: f64\nl = p * p\nk = 3 * p\n"
                     "train l { optimizer = sgd(lr = 0.1, momentum = 0.9) }\n"
                     "train k { optimizer = sgd(lr = 0.1, momentum = 0.5) }\n");
  *value_of(&s, "p") = 1;
  step(&s, 0);
  assert_true(near(*value_of(&s, "optimizer.p.v"), 2, 1e-12));
  assert_true(near(*value_of(&s, "optimizer.p.v_1"), 3, 1e-12));
  assert_true(near(*value_of(&s, "p"), 1 - 0.2 - 0.3, 1e-12));
}

// -- replicas -----------------------------------------------------------------------------------

enum { REPLICAS = 2 };

// Runs the graph that joins the replicas of s, with the tensors of s.
static void join(Steps *s, const Graph *sync, SyncWay way) {
  Steps both = *s;
  both.g = (Graph *)(uintptr_t)sync;
  step(&both, way);
}

// A replica trains as a model of its own on its part of the batch, and all parameters become their
// mean when the replicas join. The slots stay, or are averaged as well.
static void test_replicas(void **state) {
  (void)state;
  static const char text[] =
      "dim b = %d, n = 4, m = 2\ninput goal[b, n, m]: f64\nparam w[n, m]: f64\n"
      "data train over b { goal = synthetic(normal) }\n"
      "train mean[b](sum[n, m](square(square(w) - goal))) { optimizer = %s%s }\n";
  static const struct {
    const char *optimizer, *slot, *other; // the slots
  } cases[] = {{"sgd(lr = 0.02, momentum = 0.9), clip_norm = 0.5", "v", "v"},
               {"adam(lr = 0.05)", "m", "v"},
               {"lamb(lr = 0.05)", "m", "v"},
               {"adafactor(lr = 0.05)", "v", "v"},
               {"muon(lr = 0.05)", "m", "m"}};
  for (size_t k = 0; k < 2 * countof(cases); k++) {
    bool averaged = k >= countof(cases);
    const char *optimizer = cases[k % countof(cases)].optimizer,
               *names[] = {"w",
                           arena_printf(arena, "optimizer.w.%s", cases[k % countof(cases)].slot),
                           arena_printf(arena, "optimizer.w.%s", cases[k % countof(cases)].other)};
    const char *sync = averaged ? ", sync = every(3, replicas = 2, slots = average)"
                                : ", sync = every(3, "
                                  "replicas = 2)";
    Steps all = steps_of(arena_printf(arena, text, 6, optimizer, sync));
    const Graph *joins = select_sync(arena, all.g);
    Steps own[REPLICAS];
    for (int r = 0; r < REPLICAS; r++)
      own[r] = steps_of(arena_printf(arena, text, 3, optimizer, ""));
    for (int i = 0; i < 48; i++) {
      double x = 1 + sin(0.3 * i);
      value_of(&all, "goal")[i] = value_of(&own[i / 24], "goal")[i % 24] = x;
    }
    join(&all, joins, SYNC_SPREAD);
    for (int t = 0; t < 7; t++) {
      step(&all, t);
      for (int r = 0; r < REPLICAS; r++) step(&own[r], t);
      if (t == 4) { // shows the mean and changes no replica
        join(&all, joins, SYNC_SHOW);
        for (int i = 0; i < 8; i++) {
          double got = value_of(&all, "w")[i],
                 want = (value_of(&own[0], "w")[i] + value_of(&own[1], "w")[i]) / 2;
          if (!near(got, want, 1e-6))
            fail_msg("%s%s: w[%d] is %.9g, not %.9g", optimizer, sync, i, got, want);
        }
      }
      if (t % 3 != 2) continue;
      join(&all, joins, SYNC_AVERAGE);
      for (int j = 0; j < (averaged ? 3 : 1); j++)
        for (int i = 0; i < 8; i++) {
          double *a = &value_of(&own[0], names[j])[i], *b = &value_of(&own[1], names[j])[i];
          *a = *b = (*a + *b) / 2;
        }
    }
    for (int i = 0; i < 16; i++) {
      double got = value_of(&all, "replica.w")[i], want = value_of(&own[i / 8], "w")[i % 8];
      if (!near(got, want, 1e-6))
        fail_msg("%s%s: replica.w[%d] is %.9g, not %.9g", optimizer, sync, i, got, want);
    }
  }
}

// -- asynchronous updates -----------------------------------------------------------------------

// Computes a step of a replica, and makes the update of the server from what it pushes.
static void push(const Steps *replica, Steps *server, int64_t t) {
  Arena *a = arena_new();
  const Eval *e = evaluated(a, replica, t);
  for (uint32_t i = 0; i < replica->g->output.n; i++) {
    const Output *o = &replica->g->output.at[i];
    bool agree;
    if (!select_reserved(o->name)) continue;
    const Tensor *x = eval_full(a, e, o->value, o->rank, o->dims, &agree);
    memcpy(value_of(server, o->name), x->value, sizeof(double) * (size_t)x->elements);
  }
  step(server, t);
  arena_free(a);
}

// A server makes the same updates from the gradients of two replicas in turn as a model that trains
// on the rows of one replica after the other. Schedules count steps of replicas, the bias
// correction of adam counts updates. A state moves by half of the change of a replica.
static void test_server(void **state) {
  (void)state;
  static const char text[] =
      "dim b = %d, n = 4, m = 2\ninput goal[b, n, m]: f64\nparam w[n, m]: f64\n"
      "state seen[n]: f64 = 0\ndata train over b { goal = synthetic(normal) }\n"
      "update seen = 0.5 * seen + mean[b, m](goal)\n"
      "train mean[b](sum[n, m](square(square(w) - goal))) { optimizer = %s%s }\n";
  static const struct {
    const char *optimizer, *slot;
    bool counts_steps;
  } cases[] = {{"sgd(lr = 0.02, momentum = 0.9), clip_norm = 0.5, clip_value = 0.2, "
                "schedule = step(every = 2, factor = 0.5)",
                "optimizer.w.v", true},
               {"adam(lr = 0.05)", "optimizer.w.m", false}};
  for (size_t k = 0; k < countof(cases); k++) {
    const char *optimizer = cases[k].optimizer;
    Model *m = build(arena_printf(arena, text, 6, optimizer, ", sync = stale(3, replicas = 2)"));
    Steps replica = steps_from(select_train(arena, m, NULL)),
          server = steps_from(select_server(arena, m)),
          own = steps_of(arena_printf(arena, text, 3, optimizer, ""));
    double seen[4] = {0};
    for (int64_t t = 0; t < 5; t++)
      for (int r = 0; r < REPLICAS; r++) {
        for (int i = 0; i < 24; i++)
          value_of(&own, "goal")[i] = value_of(&replica, "goal")[i] = 1 + sin(0.3 * (24 * r + i));
        memcpy(value_of(&replica, "w"), value_of(&server, "w"), 8 * sizeof(double));
        memcpy(value_of(&replica, "seen"), seen, sizeof seen);
        memset(value_of(&own, "seen"), 0, sizeof seen);
        push(&replica, &server, REPLICAS * t + r);
        step(&own, cases[k].counts_steps ? t : REPLICAS * t + r);
        for (int i = 0; i < 4; i++) {
          seen[i] += (value_of(&own, "seen")[i] - 0.5 * seen[i]) / REPLICAS;
          assert_true(near(value_of(&server, "seen")[i], seen[i], 1e-12));
        }
      }
    const char *names[] = {"w", cases[k].slot};
    for (int j = 0; j < 2; j++)
      for (int i = 0; i < 8; i++)
        assert_true(near(value_of(&server, names[j])[i], value_of(&own, names[j])[i], 1e-12));
  }
}

// -- averages and scales ------------------------------------------------------------------------

static void test_average(void **state) {
  (void)state;
  Steps s = steps_of("param p: f64\nl = p * 2\n"
                     "train l { optimizer = sgd(lr = 0.5), average = 0.75 }\n");
  double p = *value_of(&s, "p"), average = 0;
  for (int t = 0; t < 4; t++) {
    p -= 1;
    average = t == 0 ? p : 0.75 * average + 0.25 * p;
    step(&s, t);
  }
  assert_true(near(*value_of(&s, "average.p"), average, 1e-12));
}

// The largest f16 is 65504: the first scale, 65536, overflows in the product with the loss. The
// scale does not change gradients, and doubles after 2,000 clean steps.
static void test_loss_scale(void **state) {
  (void)state;
  Steps s = steps_of("dim n = 4\ninput goal[n]\nparam w[n]\nl = sum[n](w * goal)\n"
                     "train l { optimizer = sgd(lr = 1), precision = f16 }\n");
  step(&s, 0);
  for (int i = 0; i < N; i++) assert_true(near(value_of(&s, "w")[i], start(i), 1e-6));
  assert_true(*value_of(&s, "optimizer.loss_scale") == 32768);
  *value_of(&s, "optimizer.loss_scale.clean") = 1998;
  step(&s, 1);
  for (int i = 0; i < N; i++) assert_true(near(value_of(&s, "w")[i], start(i) - goal(i), 1e-3));
  assert_true(*value_of(&s, "optimizer.loss_scale") == 32768);
  step(&s, 2);
  assert_true(*value_of(&s, "optimizer.loss_scale") == 65536);
  assert_true(*value_of(&s, "optimizer.loss_scale.clean") == 0);
}

// A skipped update does not count: the next update is the first of Adam, of the schedule and of the
// average.
static void test_skipped_update(void **state) {
  (void)state;
  Steps s = steps_of("dim n = 4\ninput goal[n]\nparam w[n]\nl = sum[n](w * goal)\n"
                     "train l { optimizer = adam(lr = 0.1), schedule = linear(total = 10), average "
                     "= 0.75, precision = f16 }\n");
  step(&s, 0);
  assert_true(*value_of(&s, "optimizer.loss_scale.skipped") == 1);
  for (int i = 0; i < N; i++) assert_true(near(value_of(&s, "average.w")[i], start(i), 1e-6));
  step(&s, 1);
  assert_true(*value_of(&s, "optimizer.loss_scale.skipped") == 1);
  for (int i = 0; i < N; i++) {
    double w = start(i) - (goal(i) > 0 ? 0.1 : -0.1);
    assert_true(near(value_of(&s, "w")[i], w, 1e-3));
    assert_true(near(value_of(&s, "average.w")[i], value_of(&s, "w")[i], 1e-6));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_recurrences, setup, teardown),
      cmocka_unit_test_setup_teardown(test_factored, setup, teardown),
      cmocka_unit_test_setup_teardown(test_muon, setup, teardown),
      cmocka_unit_test_setup_teardown(test_lamb_of_zeros, setup, teardown),
      cmocka_unit_test_setup_teardown(test_plateau, setup, teardown),
      cmocka_unit_test_setup_teardown(test_groups, setup, teardown),
      cmocka_unit_test_setup_teardown(test_clip_norm, setup, teardown),
      cmocka_unit_test_setup_teardown(test_blocks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_repeat_counts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_slots, setup, teardown),
      cmocka_unit_test_setup_teardown(test_replicas, setup, teardown),
      cmocka_unit_test_setup_teardown(test_server, setup, teardown),
      cmocka_unit_test_setup_teardown(test_average, setup, teardown),
      cmocka_unit_test_setup_teardown(test_loss_scale, setup, teardown),
      cmocka_unit_test_setup_teardown(test_skipped_update, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
