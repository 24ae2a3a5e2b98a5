// Computes expected values of whole models, with tolerances from runs with random errors.
#include "ir/eval/expect.h"

#include <math.h>
#include <string.h>

// The tolerance of an element is SAFETY times the sum of two numbers: the largest of the few random
// errors at this element, and the typical error of the tensor. The typical error is needed because
// the largest of a few errors can be small by chance (expect_output).
static const double SAFETY = 3;

Expect *expect_new(Arena *a, const Graph *g, const Graph *lowered, uint32_t nfeeds,
                   const EvalFeed *feeds) {
  Expect *x = arena_new_of(a, Expect);
  *x = (Expect){.arena = a,
                .graph = g,
                .lowered = lowered ? lowered : g,
                .nfeeds = nfeeds,
                .runs = EXPECT_MIN_RUNS};
  for (int k = 0; k < EXPECT_MAX_RUNS; k++)
    x->feed[k] = arena_copy(a, feeds, nfeeds * sizeof *feeds);
  return x;
}

// Run 1 rounds as programs do; the others show how large errors can be. Every other of the
// additional runs evaluates the whole graph: a few runs of one graph can all miss an error that
// rounding makes in either.
static void run_perturbed(Expect *x, int k, int64_t step) {
  const Graph *g = k >= EXPECT_MIN_RUNS && k % 2 ? x->graph : x->lowered;
  x->run[k] = eval_run_perturbed(x->arena, g, x->nfeeds, x->feed[k], step,
                                 (uint64_t)(step * 64 + k), k == 1);
}

void expect_step(Expect *x, int64_t step) {
  x->run[0] = eval_run(x->arena, x->graph, x->nfeeds, x->feed[0], step);
  for (int k = 1; k < x->runs; k++) run_perturbed(x, k, step);
}

void expect_more(Expect *x, int64_t step) {
  for (; x->runs < EXPECT_MAX_RUNS; x->runs++) run_perturbed(x, x->runs, step);
}

// Returns output i of run k, with its axes in the order that files have.
static Tensor *run_output(Expect *x, int k, uint32_t i) {
  const Output *o = &x->graph->output.at[i];
  const Decl *d = o->kind == OUT_UPDATE ? &x->graph->decl.at[o->target - 1] : NULL;
  NodeId n = x->run[k]->graph->output.at[i].value;
  return eval_full(x->arena, x->run[k], n, d ? d->rank : o->rank, d ? d->dims : o->dims, NULL);
}

void expect_commit(Expect *x) {
  for (uint32_t i = 0; i < x->graph->output.n; i++) {
    const Output *o = &x->graph->output.at[i];
    for (uint32_t f = 0; f < x->nfeeds && o->kind == OUT_UPDATE; f++)
      for (int k = 0; k < x->runs && x->feed[k][f].decl == o->target; k++)
        x->feed[k][f].value = run_output(x, k, i)->value;
  }
  x->committed = true;
}

// Returns the root mean square of the differences between the other runs and `want`, over all
// elements where they are finite.
static double typical_error(int runs, const Tensor *want, Tensor *const *other) {
  double sum = 0;
  int64_t n = 0;
  for (int k = 1; k < runs; k++)
    for (int64_t i = 0; i < want->elements; i++) {
      double d = other[k]->value[i] - want->value[i];
      if (isfinite(d)) sum += d * d, n++;
    }
  return n ? sqrt(sum / (double)n) : 0;
}

// Returns the largest difference between a run and `want` at element i. Sets *known to false if the
// runs differ by more than rounding. An element is then tainted (uncertain), NaN or infinite in
// only one of them, or a different integer.
static double largest_error(int runs, const Tensor *want, Tensor *const *other, int64_t i,
                            bool *known) {
  double largest = 0;
  for (int k = 1; k < runs; k++) {
    double v = want->value[i], y = other[k]->value[i];
    *known = *known && !other[k]->tainted[i] && isnan(v) == isnan(y) && isinf(v) == isinf(y);
    if (dtype_is_float(want->type))
      largest = fmax(largest, isfinite(v) ? fabs(y - v) : 0);
    else
      *known = *known && v == y;
  }
  return largest;
}

static double largest_value(const Tensor *t) {
  double largest = 0;
  for (int64_t k = 0; k < t->elements; k++)
    if (isfinite(t->value[k])) largest = fmax(largest, fabs(t->value[k]));
  return largest;
}

// Returns true if a tolerance is about as large as the largest value of the tensor, so that a
// comparison would test nothing. Small tolerances are always useful: small values are rounding
// errors of a zero, which must stay small.
static bool uninformative(double tolerance, double largest) {
  return tolerance > 1e-3 && tolerance > largest / 4;
}

Tensor *expect_output(Expect *x, uint32_t i) {
  Tensor *t[EXPECT_MAX_RUNS] = {run_output(x, 0, i)};
  for (int k = 1; k < x->runs; k++) t[k] = run_output(x, k, i);
  double typical = typical_error(x->runs, t[0], t), largest = largest_value(t[0]);
  for (int64_t k = 0; k < t[0]->elements; k++) {
    bool known = true, sure = !t[0]->tainted[k],
         bounded = sure && !x->committed && x->lowered == x->graph;
    double tolerance = SAFETY * (largest_error(x->runs, t[0], t, k, &known) + typical);
    if (bounded) tolerance = fmin(tolerance, 2 * t[0]->bound[k]);
    // The element is tainted, but all runs agree. A comparison that another program decides
    // differently changes the value only a little.
    if (!sure && dtype_is_float(t[0]->type)) tolerance += 1e-6 * largest;
    t[0]->tainted[k] = !known || uninformative(tolerance, largest);
    t[0]->bound[k] = tolerance;
  }
  return t[0];
}
