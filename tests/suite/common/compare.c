// Compares numbers with values and bounds of the evaluator.
#include "tests/suite/common/compare.h"

#include <math.h>

static bool within(double got, double want, double bound) {
  if (got == want || (isnan(got) && isnan(want))) return true;
  return fabs(got - want) <= bound;
}

static void look(Compare *c, const Tensor *want, int64_t i, double got, double more, bool tainted) {
  c->n++;
  if (want->tainted[i] || tainted) {
    c->tainted++;
  } else if (!within(got, want->value[i], want->bound[i] + more) && c->wrong++ == 0) {
    c->first = i;
    c->got = got;
    c->want = want->value[i];
    c->bound = want->bound[i] + more;
  }
}

Compare compare_tensor(const Tensor *want, const double *got) {
  Compare c = {0};
  for (int64_t i = 0; i < want->elements; i++) look(&c, want, i, got[i], 0, false);
  return c;
}

Compare compare_tensors(const Tensor *want, const Tensor *got) {
  Compare c = {0};
  for (int64_t i = 0; i < want->elements && i < got->elements; i++)
    look(&c, want, i, got->value[i], got->bound[i], got->tainted[i]);
  if (want->elements != got->elements) c.wrong++;
  return c;
}

bool compare_ok(const Compare *c) { return c->wrong == 0 && c->tainted * 10 <= c->n; }

char *compare_text(Arena *a, const Compare *c) {
  if (c->wrong)
    return arena_printf(a, "%lld of %lld wrong, first at %lld: %.17g, not %.17g (bound %.3g)",
                        (long long)c->wrong, (long long)c->n, (long long)c->first, c->got, c->want,
                        c->bound);
  return arena_printf(a, "%lld of %lld tainted", (long long)c->tainted, (long long)c->n);
}
