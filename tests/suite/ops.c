// Tests the evaluator on every op, type and variant: gradients and second derivatives against
// central differences in f64, and every graph before expansion and simplification against the same
// graph after them.
//
//   suite_ops [TEXT]   only cases whose name contains TEXT
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite/common/compare.h"
#include "tests/suite/common/op_cases.h"

typedef struct Tally {
  int passed, failed;
} Tally;

static void report(Tally *t, bool ok, const char *name, const char *what, const char *why) {
  t->passed += ok;
  t->failed += !ok;
  if (!ok) printf("FAIL %s: %s: %s\n", name, what, why ? why : "");
}

// -- before and after the passes ----------------------------------------------------------------

static void check_outputs(Tally *t, Arena *a, const OpCase *c, const Graph *after,
                          const char *pass) {
  // the passes keep the numbers of declarations, so both graphs take the same feeds
  Eval *x = eval_run(a, c->graph, c->nfeeds, c->feeds, 3),
       *y = eval_run(a, after, c->nfeeds, c->feeds, 3);
  for (uint32_t i = 0; i < after->output.n; i++) {
    const Output *o = &after->output.at[i];
    const Tensor *want = eval_at(x, c->graph->output.at[i].value, 0),
                 *got = eval_at(y, o->value, 0);
    Compare cmp = compare_tensors(want, got);
    report(t, compare_ok(&cmp), c->name, arena_printf(a, "%s after %s", o->name, pass),
           compare_text(a, &cmp));
  }
}

static void check_passes(Tally *t, Arena *a, const OpCase *c) {
  const Graph *primitive = graph_expand(a, c->graph), *simple = graph_simplify(a, primitive);
  check_outputs(t, a, c, graph_simplify(a, c->graph), "simplify");
  check_outputs(t, a, c, primitive, "expand");
  check_outputs(t, a, c, simple, "expand and simplify");
}

// -- finite differences -------------------------------------------------------------------------

// Returns a copy of g that computes `loss` alone, with its declarations.
static Graph *only(Arena *a, const Graph *g, NodeId loss, NodeId *out) {
  Graph with = *g;
  Output o = {.kind = OUT_VALUE, .name = "loss", .value = loss};
  with.output.at = &o;
  with.output.n = with.output.cap = 1;
  Graph *alone = graph_prune(a, &with, g->stage, NULL);
  *out = alone->output.at[0].value;
  return alone;
}

typedef struct Slope {
  Arena *scratch;
  const Graph *g;
  NodeId loss;
  const OpCase *c;
  EvalFeed *feeds;
  double **value; // the numbers that the feeds point to; they are changed in turn
} Slope;

static double loss_at(const Slope *s, double *x, double value) {
  double before = *x;
  *x = value;
  ArenaMark mark = arena_mark(s->scratch);
  double y = eval_at(eval_run(s->scratch, s->g, s->c->nfeeds, s->feeds, 3), s->loss, 0)->value[0];
  arena_reset(s->scratch, mark);
  *x = before;
  return y;
}

// Returns a derivative by central differences at h and h/2, extrapolated. *error estimates the
// truncation error from their difference. Where both have nothing in common the function jumps:
// *error is then infinite.
static double difference(const Slope *s, double *x, double *error) {
  bool jumps = s->c->op == OP_MOD || s->c->op == OP_FLOOR_DIV || s->c->op == OP_FLOOR;
  double h = (jumps ? 1e-6 : 1e-3) * fmax(1, fabs(*x)), slope[2], reach = 0;
  for (int k = 0; k < 2; k++, h /= 2) {
    double high = loss_at(s, x, *x + h), low = loss_at(s, x, *x - h);
    slope[k] = (high - low) / (2 * h);
    reach = fmax(fabs(high), fabs(low)) / h;
  }
  *error = fabs(slope[1] - slope[0]) / 4 + 1e-13 * reach + 1e-9;
  if (fabs(slope[1] - slope[0]) > fabs(slope[0]) / 4 + 1e-3) *error = (double)INFINITY;
  return slope[1] + (slope[1] - slope[0]) / 3;
}

static Slope slope_of(Arena *a, const OpCase *c, NodeId loss) {
  Slope s = {.scratch = arena_new(), .c = c};
  s.g = only(a, c->graph, loss, &s.loss);
  s.feeds = arena_copy(a, c->feeds, sizeof *s.feeds * c->nfeeds);
  s.value = arena_array(a, double *, c->nfeeds);
  for (uint32_t i = 0; i < c->nfeeds; i++)
    s.feeds[i].value = s.value[i] =
        arena_copy(a, c->feeds[i].value, sizeof(double) * (size_t)c->feeds[i].n);
  return s;
}

// Compares some two dozen elements of a gradient, in the order of its declaration.
static Compare compare_slopes(const Slope *s, double *x, const Tensor *g) {
  Compare cmp = {.n = 0};
  for (int64_t i = 0; i < g->elements; i += g->elements / 24 + 1) {
    double error, want = difference(s, &x[i], &error), got = g->value[i];
    cmp.n++;
    if (g->tainted[i] || isinf(error))
      cmp.tainted++;
    else if (!(fabs(got - want) <= error) && cmp.wrong++ == 0)
      cmp = (Compare){cmp.n, 1, cmp.tainted, i, got, want, error};
  }
  return cmp;
}

static void check_slopes(Tally *t, Arena *a, const OpCase *c, NodeId loss, const NodeId *grad,
                         const char *what) {
  Slope s = slope_of(a, c, loss);
  Eval *e = eval_run(a, c->graph, c->nfeeds, c->feeds, 3);
  for (int k = 0; k < c->ngrads; k++) {
    uint32_t feed = 0;
    while (s.feeds[feed].decl != c->by[k]) feed++;
    const Decl *d = &c->graph->decl.at[c->by[k] - 1];
    const Tensor *g = eval_full(a, e, grad[k], d->rank, d->dims, NULL);
    Compare cmp = compare_slopes(&s, s.value[feed], g);
    report(t, compare_ok(&cmp), c->name, arena_printf(a, "%s by %s", what, d->name),
           compare_text(a, &cmp));
  }
  arena_free(s.scratch);
}

// Checks the gradient of half the sum of squares of all gradients: it contains every second
// derivative.
static void check_second(Tally *t, Arena *a, const OpCase *c) {
  Graph *g = c->graph;
  NodeId sum = graph_const(g, TYPE_F64, 0), by[3], second[3];
  for (int k = 0; k < c->ngrads; k++) {
    Dims all = *graph_node(g, c->grad[k])->dims;
    NodeId square = graph_binary(g, OP_MUL, c->grad[k], c->grad[k]);
    sum = graph_binary(g, OP_ADD, sum, graph_reduce(g, OP_SUM, square, &all));
    by[k] = g->decl.at[c->by[k] - 1].node;
  }
  graph_gradients(g, sum, c->ngrads, by, second);
  check_slopes(t, a, c, sum, second, "second derivative");
}

static void check_case(Tally *t, Arena *a, const OpCase *c) {
  check_passes(t, a, c);
  bool smooth = c->inputs == INPUTS_SMOOTH || (c->inputs == INPUTS_TIES && c->op == OP_PROD);
  if (c->type != TYPE_F64 || c->ngrads == 0 || !smooth || c->op == OP_STOP || c->op == OP_CAST)
    return;
  if (graph_node(c->graph, c->loss)->type != TYPE_F64) return;
  check_slopes(t, a, c, c->loss, c->grad, "gradient");
  check_second(t, a, c);
}

int main(int argc, char **argv) {
  Arena *perm = arena_new(), *a = arena_new();
  DimTable *dims = dim_table_new(perm, intern_new(perm));
  Mesh mesh = {0};
  Tally t = {0};
  bool seen[OP_COUNT][TYPE_COUNT] = {0};
  for (int i = 0; i < op_case_count(); i++) {
    OpCase c;
    ArenaMark mark = arena_mark(a);
    if (!op_case_build(a, dims, &mesh, i, &c))
      report(&t, false, c.name, "inference", "the op refuses its arguments");
    else if (argc < 2 || strstr(c.name, argv[1]))
      check_case(&t, a, &c), seen[c.op][c.type] = true;
    arena_reset(a, mark);
  }
  const char *missing = argc < 2 ? op_cases_missing(a, seen) : NULL;
  report(&t, !missing, "the op table", "no case of", missing);
  arena_free(a);
  arena_free(perm);
  printf("%d passed, %d failed, 0 skipped\n", t.passed, t.failed);
  return t.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
