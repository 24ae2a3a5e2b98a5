// Expected values of whole models, with tolerances from runs with random errors.
#include "tests/suite/common/expect.h"

#include <math.h>
#include <string.h>

// Real errors are drawn once, like each of a few random ones: the largest of those may be small by chance, hence
// the share of the whole tensor.
static const double SAFETY = 3;

Expect *expect_new(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds) {
  Expect *x = arena_new_of(a, Expect);
  *x = (Expect){.arena = a, .graph = g, .nfeeds = nfeeds};
  for (int k = 0; k < EXPECT_RUNS; k++) x->feed[k] = arena_copy(a, feeds, nfeeds * sizeof *feeds);
  return x;
}

void expect_step(Expect *x, int64_t step) {
  x->run[0] = eval_run(x->arena, x->graph, x->nfeeds, x->feed[0], step);
  for (int k = 1; k < EXPECT_RUNS; k++)
    x->run[k] = eval_run_perturbed(x->arena, x->graph, x->nfeeds, x->feed[k], step, (uint64_t)(step * 64 + k));
}

void expect_commit(Expect *x) {
  for (uint32_t i = 0; i < x->graph->output.n; i++) {
    const Output *o = &x->graph->output.at[i];
    if (o->kind != OUT_UPDATE) continue;
    const Decl *d = &x->graph->decl.at[o->target - 1];
    for (uint32_t f = 0; f < x->nfeeds; f++)
      for (int k = 0; k < EXPECT_RUNS && x->feed[k][f].decl == o->target; k++)
        x->feed[k][f].value = eval_whole(x->arena, x->run[k], o->value, d->rank, d->dims, NULL)->value;
  }
  x->committed = true;
}

// Root of the mean square of what rounding did to finite elements.
static double typical_error(const Tensor *want, Tensor *const *other) {
  double sum = 0;
  int64_t n = 0;
  for (int k = 1; k < EXPECT_RUNS; k++)
    for (int64_t i = 0; i < want->elements; i++) {
      double d = other[k]->value[i] - want->value[i];
      if (isfinite(d)) sum += d * d, n++;
    }
  return n ? sqrt(sum / (double)n) : 0;
}

// Largest error of element i; *known is false where the runs differ in kind.
static double largest_error(const Tensor *want, Tensor *const *other, int64_t i, bool *known) {
  double largest = 0;
  for (int k = 1; k < EXPECT_RUNS; k++) {
    double v = want->value[i], y = other[k]->value[i];
    *known = *known && !other[k]->tainted[i] && isnan(v) == isnan(y) && isinf(v) == isinf(y);
    if (dtype_is_float(want->type)) largest = fmax(largest, isfinite(v) ? fabs(y - v) : 0);
    else *known = *known && v == y;
  }
  return largest;
}

Tensor *expect_tensor(Expect *x, NodeId n, int rank, const DimId *order) {
  Tensor *t[EXPECT_RUNS];
  for (int k = 0; k < EXPECT_RUNS; k++) t[k] = eval_whole(x->arena, x->run[k], n, rank, order, NULL);
  double typical = typical_error(t[0], t);
  for (int64_t i = 0; i < t[0]->elements; i++) {
    bool known = true, bounded = !x->committed && !t[0]->tainted[i];
    double tolerance = SAFETY * (largest_error(t[0], t, i, &known) + typical);
    if (bounded) tolerance = fmin(tolerance, 2 * t[0]->bound[i]);
    t[0]->tainted[i] = !known;
    t[0]->bound[i] = tolerance;
  }
  return t[0];
}
