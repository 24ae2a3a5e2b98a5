// Computes by how much two correct runs of a step may differ, for each element. In: the step on one
// processor (VerifyRun). Out: an expected value and a tolerance for each element.
//
// For a small model, both come from the evaluator: values in double, and tolerances from runs with
// random rounding errors (ir/eval/expect.h). For a larger model they come from the program for one
// processor. It runs again with random relative errors in inputs, parameters, states and slots, and
// in the terms of its sums (verify_perturb.c). Their size is
//
//   delta = the largest of   4 u            over the types of all values
//                            (4 + sqrt n) u over all sums of n terms, u of the type of the sum
//
// (u: unit roundoff). Adding n terms in another order has the effect of errors of that size in the
// terms (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2:
// backward errors). The tolerance of an element is
//
//   3 (its largest difference in the runs + root mean square difference over the tensor)
//     + delta * largest element
//
// A decision (relu, argmax, a comparison) may depend on rounding. The perturbed runs have larger
// errors, so they decide it both ways. Elements that then differ in kind (NaN, infinity, another
// integer) are not compared.
#include "frontend/verify/verify.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/base/philox.h"
#include "ir/eval/expect.h"

enum { SAMPLES = 4, MOST_SAMPLES = 32, EVAL_ELEMENTS = 1000000 };
static const double EVAL_WORK = 3e7, SAFETY = 3;

struct VerifyBound {
  const VerifyRun *run;
  double *const *whole;
  Expect *expect; // the evaluator's results; NULL: samples give the bounds
  int samples;
  double delta;
  double **want, **tolerance; // [i][k]: expected number and tolerance of element k of value i
  uint8_t **open;             // [i][k]: 1 if element k of value i is not compared
  double **spread;            // [i][k]: largest difference of element k over the samples
  double *squares;    // [i]: sum of the squared differences of value i over elements and samples
  VerifyGiven *given; // the tensors that a sample begins with
  double **got;       // [i][k]: element k of value i after a sample
};

// -- how large the model is ---------------------------------------------------------------------

static double delta_of(const Graph *g) {
  double delta = 0;
  for (NodeId n = 1; n <= graph_count(g); n++) delta = fmax(delta, verify_delta(g, n));
  return delta;
}

bool verify_small(const VerifyRun *r, double most) {
  const Graph *g = r->graph;
  double elements = 0, work = 0;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    double own = (double)node_elements(g, n),
           times = (double)region_times(g, graph_node(g, n)->region);
    elements += own;
    work += own * verify_terms(g, n) * times;
  }
  return r->rows < 0 && elements <= most * EVAL_ELEMENTS && work <= most * EVAL_WORK;
}

// -- the evaluator ------------------------------------------------------------------------------

static double *numbers_of(Arena *a, Dtype type, int64_t n, const char *data) {
  double *x = arena_array(a, double, n + 1);
  for (int64_t k = 0; data && k < n; k++) x[k] = dtype_load(type, data + k * dtype_bytes(type));
  return x;
}

static EvalFeed feed_of(const VerifyRun *r, Arena *a, const Graph *g, DeclId id) {
  const Decl *d = &g->decl.at[id - 1];
  for (uint32_t i = 0; i < r->ngiven; i++) {
    const VerifyGiven *x = &r->given[i];
    if (x->kind == tensor_kind(d->kind) && !strcmp(x->name, d->name))
      return (EvalFeed){id, numbers_of(a, x->type, x->n, x->data), x->n};
  }
  // No node of the program reads this tensor, so its values do not matter.
  int64_t n = 1;
  for (int k = 0; k < d->rank; k++) n *= dim_get(r->graph->dims, d->dims[k])->size;
  return (EvalFeed){id, numbers_of(a, d->type, n, NULL), n};
}

uint32_t verify_feeds(const VerifyRun *r, Arena *a, const Graph *g, EvalFeed **out) {
  VEC(EvalFeed) feed = {0};
  for (DeclId d = 1; d <= g->decl.n; d++)
    if (g->decl.at[d - 1].node) vec_push(a, feed) = feed_of(r, a, g, d);
  *out = feed.at;
  return feed.n;
}

static uint32_t output_of(const Graph *g, const VerifyValue *v) {
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    TensorKind kind = tensor_kind_of_output(g, o);
    if (kind == v->kind && !strcmp(o->name, v->name)) return i;
  }
  BUG("%s is no output", v->name);
}

static void expect_start(VerifyBound *b) {
  const VerifyRun *r = b->run;
  EvalFeed *feed;
  uint32_t n = verify_feeds(r, r->a, r->graph, &feed);
  b->expect = expect_new(r->a, r->graph, NULL, n, feed);
  expect_step(b->expect, r->step);
}

static void take_expected(VerifyBound *b) {
  for (uint32_t i = 0; i < b->run->nvalues; i++) {
    Tensor *t = expect_output(b->expect, output_of(b->run->graph, &b->run->value[i]));
    if (t->elements != b->run->value[i].n)
      BUG("%s has other elements in the evaluator", b->run->value[i].name);
    b->want[i] = t->value;
    b->tolerance[i] = t->bound;
    b->open[i] = t->tainted;
  }
}

// -- samples: the program with random errors ----------------------------------------------------

// Returns the relative error of element k of a given tensor: positive or negative, with a size from
// delta / 2 to delta. `word` is a random draw (words_of) that elements 4i to 4i + 3 share, one word
// for each.
static double error_of(const VerifyBound *b, const uint32_t word[4], int64_t k) {
  uint32_t w = word[k % 4];
  double size = 0.5 + 0.5 * (double)(w >> 1) * 0x1p-31;
  return w & 1 ? b->delta * size : -b->delta * size;
}

static void words_of(uint64_t stream, int64_t k, uint32_t word[4]) {
  uint64_t at = (uint64_t)k / 4;
  philox4x32((const uint32_t[4]){(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)stream,
                                 (uint32_t)(stream >> 32)},
             (const uint32_t[2]){0x76657269u, 0x66790000u}, word);
}

static void perturb(const VerifyBound *b, uint64_t stream, const VerifyGiven *from, char *to) {
  int64_t bytes = dtype_bytes(from->type);
  uint32_t word[4];
  for (int64_t k = 0; k < from->n; k++) {
    if (k % 4 == 0) words_of(stream, k, word);
    double off = dtype_load(from->type, from->data + k * bytes) * (1 + error_of(b, word, k));
    dtype_store(from->type, to + k * bytes, dtype_round(from->type, off));
  }
}

// Fills b->given with the tensors of the next sample, which have random errors, and returns it.
static const VerifyGiven *perturbed(const VerifyBound *b) {
  const VerifyRun *r = b->run;
  double golden = 0.6180339887498949 * (b->samples + 1);
  dtype_store(TYPE_F32, b->given[r->ngiven].data, dtype_round(TYPE_F32, golden - floor(golden)));
  for (uint32_t i = 0; i < r->ngiven; i++)
    if (dtype_is_float(r->given[i].type))
      perturb(b, ((uint64_t)b->samples << 32) + i, &r->given[i], b->given[i].data);
  return b->given;
}

static void samples_start(VerifyBound *b) {
  const VerifyRun *r = b->run;
  b->got = verify_numbers(r);
  b->given = arena_array(r->a, VerifyGiven, r->ngiven + 1);
  for (uint32_t i = 0; i < r->ngiven; i++) {
    VerifyGiven *x = &b->given[i];
    *x = r->given[i];
    if (dtype_is_float(x->type))
      x->data = arena_alloc(r->a, (size_t)(x->n * dtype_bytes(x->type)) + 1);
  }
  b->given[r->ngiven] = (VerifyGiven){.name = verify_sample,
                                      .kind = TENSOR_INPUT,
                                      .type = TYPE_F32,
                                      .n = 1,
                                      .data = arena_alloc(r->a, 4)};
}

static void note_sample(VerifyBound *b, double *const *got) {
  for (uint32_t i = 0; i < b->run->nvalues; i++) {
    bool whole_numbers = !dtype_is_float(b->run->value[i].type);
    for (int64_t k = 0; k < b->run->value[i].n; k++) {
      double x = b->whole[i][k], y = got[i][k], d = fabs(y - x);
      bool same_kind = isnan(x) == isnan(y) && isinf(x) == isinf(y);
      if (!same_kind || (whole_numbers && x != y)) b->open[i][k] = 1;
      if (!isfinite(d)) continue;
      if (d > b->spread[i][k]) b->spread[i][k] = d;
      b->squares[i] += d * d;
    }
  }
  b->samples++;
}

static double largest_of(const double *x, int64_t n) {
  double largest = 0;
  for (int64_t k = 0; k < n; k++)
    if (isfinite(x[k])) largest = fmax(largest, fabs(x[k]));
  return largest;
}

static void set_tolerances(VerifyBound *b) {
  for (uint32_t i = 0; i < b->run->nvalues; i++) {
    const VerifyValue *v = &b->run->value[i];
    double typical = v->n ? sqrt(b->squares[i] / (double)v->n / b->samples) : 0,
           largest = largest_of(b->whole[i], v->n);
    for (int64_t k = 0; k < v->n; k++)
      b->tolerance[i][k] =
          dtype_is_float(v->type) ? SAFETY * (b->spread[i][k] + typical) + b->delta * largest : 0;
  }
}

static void sample_until(VerifyBound *b, int n) {
  const VerifyRun *r = b->run;
  while (b->samples < n) {
    // A run with random errors may fail, for example by an id out of range. It is then ignored.
    if (verify_run_step(r, r->ngiven + 1, perturbed(b), b->got))
      note_sample(b, b->got);
    else
      b->samples++;
  }
  set_tolerances(b);
}

// -- bounds, from the evaluator or from samples -------------------------------------------------

VerifyBound *verify_bound(const VerifyRun *r, double *const *whole) {
  VerifyBound *b = arena_new_of(r->a, VerifyBound);
  *b = (VerifyBound){.run = r, .whole = whole, .delta = delta_of(r->graph)};
  b->want = arena_array(r->a, double *, r->nvalues + 1);
  b->tolerance = arena_array(r->a, double *, r->nvalues + 1);
  b->open = arena_array(r->a, uint8_t *, r->nvalues + 1);
  if (verify_small(r, 1)) {
    expect_start(b);
    take_expected(b);
    return b;
  }
  b->spread = arena_array(r->a, double *, r->nvalues + 1);
  b->squares = arena_array(r->a, double, r->nvalues + 1);
  for (uint32_t i = 0; i < r->nvalues; i++) {
    b->want[i] = whole[i];
    b->tolerance[i] = arena_array(r->a, double, r->value[i].n + 1);
    b->spread[i] = arena_array(r->a, double, r->value[i].n + 1);
    b->open[i] = arena_array(r->a, uint8_t, r->value[i].n + 1);
  }
  samples_start(b);
  sample_until(b, SAMPLES);
  return b;
}

bool verify_widen(VerifyBound *b) {
  if (b->expect) {
    if (b->expect->runs == EXPECT_MAX_RUNS) return false;
    expect_more(b->expect, b->run->step);
    take_expected(b);
    return true;
  }
  if (b->samples == MOST_SAMPLES) return false;
  sample_until(b, MOST_SAMPLES);
  return true;
}

bool verify_evaluated(const VerifyBound *b) { return b->expect != NULL; }

double verify_want(const VerifyBound *b, uint32_t i, int64_t element, double *bound) {
  *bound = b->tolerance[i][element];
  return b->want[i][element];
}

double verify_compare(const VerifyBound *b, uint32_t i, const double *got, int64_t *wrong,
                      bool *vague) {
  int64_t n = b->run->value[i].n, open = 0;
  double worst = 0;
  *wrong = -1;
  for (int64_t k = 0; k < n; k++) {
    double x = b->want[i][k], y = got[k], off = fabs(y - x), bound = b->tolerance[i][k];
    open += b->open[i][k];
    if (b->open[i][k] || x == y || (isnan(x) && isnan(y))) continue;
    if (off <= bound)
      worst = fmax(worst, off / bound);
    else if (*wrong < 0)
      *wrong = k;
  }
  *vague = 2 * open > n;
  return worst;
}
