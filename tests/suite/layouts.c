// Compares lowered graphs with whole graphs: every operation under every layout, and random graphs
// under random layouts. The evaluator runs the lowered graph of all processors in lockstep, and the
// whole graph; values must agree within the bounds that it computes. Inputs that are small integers
// have bound 0 wherever sums are exact, so that outputs must be equal bit for bit (a note on
// standard error tells for how many outputs).
//
//   layouts [CASE | seed=N]    one case by name, or one random graph; SEEDS=n: that many; SHOW=1
//                              prints graphs that fail
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"
#include "tests/suite/common/layout_cases.h"

static bool same_element(const Tensor *x, const Tensor *y, int64_t i) {
  if (x->tainted[i] || y->tainted[i] || x->value[i] == y->value[i]) return true;
  if (isnan(x->value[i]) && isnan(y->value[i])) return true;
  return fabs(x->value[i] - y->value[i]) <= x->bound[i] + y->bound[i];
}

static int64_t exact; // number of outputs that had to be equal bit for bit

static bool is_exact(const Tensor *x, const Tensor *y) {
  for (int64_t i = 0; i < x->elements; i++)
    if (x->bound[i] != 0 || y->bound[i] != 0 || x->tainted[i] || y->tainted[i]) return false;
  return true;
}

static const char *compare(Maker *m, const Eval *whole, const Eval *split) {
  int64_t elements = 0, tainted = 0;
  for (uint32_t o = 0; o < whole->graph->output.n; o++) {
    const Output *a = &whole->graph->output.at[o], *b = &split->graph->output.at[o];
    bool agree;
    Tensor *x = eval_full(m->a, whole, a->value, 0, NULL, NULL);
    Tensor *y = eval_full(m->a, split, b->value, 0, NULL, &agree);
    if (!agree) return arena_printf(m->a, "%s: replicas differ", a->name);
    if (!dims_equal(&x->dims, &y->dims)) return arena_printf(m->a, "%s: other dims", a->name);
    elements += x->elements;
    exact += is_exact(x, y);
    for (int64_t i = 0; i < x->elements; i++) tainted += x->tainted[i];
    for (int64_t i = 0; i < x->elements; i++)
      if (!same_element(x, y, i))
        return arena_printf(m->a, "%s[%lld] is %.9g, whole %.9g (bounds %.3g, %.3g)", a->name,
                            (long long)i, y->value[i], x->value[i], y->bound[i], x->bound[i]);
  }
  return tainted * 10 > elements ? layout_vacuous : NULL;
}

// Checks that the buckets of a lowered graph can run in their order.
static const char *check_buckets(Maker *m, const Graph *g, const Machine *machine) {
  Buckets *b = collectives_bucket(m->a, g, machine);
  uint32_t *level =
      arena_array(m->a, uint32_t, graph_count(g) + 1); // 1 + the last bucket that a node waits for
  for (bool more = true; more;) {
    more = false;
    for (NodeId n = 1; n <= graph_count(g); n++) {
      uint32_t wait = b->of[n];
      for (int i = 0; i < graph_node(g, n)->nargs; i++) {
        NodeId arg = graph_node(g, n)->args[i];
        if (b->of[n] && level[arg] >= b->of[n]) return "a bucket waits for a later one";
        if (level[arg] > wait) wait = level[arg];
      }
      if (wait != level[n]) level[n] = wait, more = true;
    }
  }
  return NULL;
}

// Checks that rematerialised values, random draws among them, are equal bit for bit.
static const char *check_remat(Maker *m, const Graph *shared, const Eval *split) {
  char why[200];
  const Graph *again = remat(m->a, shared, 0);
  if (again == shared) return NULL;
  if (!graph_verify(again, why)) return arena_printf(m->a, "remat: %s", why);
  const Eval *e = eval_run(m->a, again, m->ninputs, m->feed, 3);
  for (uint32_t o = 0; o < shared->output.n; o++)
    for (int64_t r = 0; r < split->processors; r++) {
      const Tensor *x = eval_at(split, shared->output.at[o].value, r),
                   *y = eval_at(e, again->output.at[o].value, r);
      if (x->elements != y->elements ||
          memcmp(x->value, y->value, sizeof *x->value * (size_t)x->elements) != 0)
        return arena_printf(m->a, "remat changes %s", shared->output.at[o].name);
    }
  return NULL;
}

enum { REMAT_EVERY = 8 }; // of so many layouts one is evaluated with everything rematerialised

// Checks the graph in which as much as possible is rematerialised, loops included. Sums may be in
// another order then.
static const char *check_all_remat(Maker *m, const Graph *shared, const Eval *whole) {
  static int turn;
  char why[200];
  const Graph *again = remat(m->a, shared, remat_levels(m->a, shared));
  if (again == shared) return NULL;
  if (!graph_verify(again, why)) return arena_printf(m->a, "remat of everything: %s", why);
  if (turn++ % REMAT_EVERY) return NULL;
  const char *wrong = compare(m, whole, eval_run(m->a, again, m->ninputs, m->feed, 3));
  if (!wrong || wrong == layout_vacuous) return NULL;
  return arena_printf(m->a, "remat of everything: %s", wrong);
}

// Checks one layout of the simplified graph g. Returns NULL when the lowered graph agrees with the
// whole one.
static const char *run_layout(Maker *m, const Graph *g, const Eval *whole) {
  char why[200];
  Machine machine = machine_default();
  Placement *p = place(m->a, g, &m->layout, &machine);
  layout_saw_states(p);
  Graph *low = lower(m->a, p);
  if (!graph_verify(low, why)) return arena_printf(m->a, "lower: %s", why);
  Graph *shared = collectives_share(m->a, low);
  if (!graph_verify(shared, why)) return arena_printf(m->a, "share: %s", why);
  layout_saw(shared);
  const char *again, *wrong = check_buckets(m, shared, &machine);
  if (wrong) return wrong;
  const Eval *split = eval_run(m->a, shared, m->ninputs, m->feed, 3);
  wrong = compare(m, whole, split);
  if (wrong && wrong != layout_vacuous) return wrong;
  if ((again = check_remat(m, shared, split)) || (again = check_all_remat(m, shared, whole)))
    return again;
  return wrong;
}

int main(int argc, char **argv) {
  int code = layout_cases(argc, argv, run_layout);
  fprintf(stderr, "%lld outputs compared to the last bit\n", (long long)exact);
  return code;
}
