// --verify --stages: finds the first pass of the compiler that changes a value.
//
// In: the selected graph of a step, and the tensors that the step begins with. Out: an error that
// names the pass, or nothing. The passes up to fusion run once more. The graph that each one makes
// is evaluated in double on the same input (ir/eval), for all processors of the mesh once it is
// lowered. Every output must be that of the selected graph, within its tolerance
// (ir/eval/expect.h). Kernels and machine code, which come after fusion, are checked by the rest of
// --verify.
#include "frontend/verify/verify.h"

#include <math.h>
#include <string.h>

#include "ir/eval/expect.h"

enum {
  LARGER = 16
}; // --stages allows models that exceed the limits of --verify by this factor (verify_small)

typedef struct Stages {
  Session *s;
  const VerifyRun *run;
  const Graph *selected;
  Tensor **want;     // results of the selected graph, indexed as its outputs
  const char *wrong; // the first pass that changes a value, or NULL
  uint32_t passes;
} Stages;

// Returns output number o of an evaluated graph, with its dims in the order of the declaration.
// *agree is false if processors have different elements of one block.
static Tensor *output_of(Arena *a, const Eval *e, uint32_t o, bool *agree) {
  const Output *x = &e->graph->output.at[o];
  const Decl *d = x->kind == OUT_UPDATE ? &e->graph->decl.at[x->target - 1] : NULL;
  return eval_full(a, e, x->value, d ? d->rank : x->rank, d ? d->dims : x->dims, agree);
}

// Returns the index of the first element at which the two tensors differ by more than the sum of
// their tolerances; -1: there is none.
static int64_t first_apart(const Tensor *want, const Tensor *got) {
  for (int64_t i = 0; i < want->elements; i++) {
    double x = want->value[i], y = got->value[i];
    if (want->tainted[i] || got->tainted[i] || x == y || (isnan(x) && isnan(y))) continue;
    if (!(fabs(x - y) <= want->bound[i] + got->bound[i])) return i;
  }
  return -1;
}

// Compares output number o after a pass with that of the selected graph. Returns false after an
// error.
static bool compare_output(Stages *t, Arena *a, const char *pass, const Eval *e, uint32_t o) {
  const Output *x = &e->graph->output.at[o];
  bool agree = true;
  Tensor *got = output_of(a, e, o, &agree);
  const Tensor *want = t->want[o];
  if (t->s->inject_pass && !strcmp(t->s->inject_pass, pass) && !o && got->elements)
    got->value[0] += 1;
  if (got->elements != want->elements) BUG("%s has other elements after %s", x->name, pass);
  int64_t at = first_apart(want, got);
  if (agree && at < 0) return true;
  Pos pos = graph_node(e->graph, x->value)->origin->pos;
  t->wrong = pass;
  if (at < 0)
    diag_error(t->s->diag, DIAG_VERIFY, pos, "after the pass '%s' replicas of %s differ", pass,
               x->name);
  else
    diag_error(
        t->s->diag, DIAG_VERIFY, pos,
        "the pass '%s' changes %s: element %lld is %.9g before it and %.9g after it, bound %.3g",
        pass, x->name, (long long)at, want->value[at], got->value[at],
        want->bound[at] + got->bound[at]);
  diag_hint(t->s->diag,
            "this is a fault of meshc: please report it with the model and the options; "
            "`meshc dump --stage` prints the graphs before and after the pass");
  return false;
}

// Evaluates the graph that a pass has made, and compares its outputs. The pipeline calls it after
// every pass (PipelineOptions.passed).
static void passed(void *watcher, const char *pass, const Graph *g) {
  Stages *t = watcher;
  if (t->wrong || g == t->selected) return;
  Arena *a = arena_new();
  EvalFeed *feed;
  uint32_t n = verify_feeds(t->run, a, g, &feed);
  const Eval *e = eval_run(a, g, n, feed, t->run->step);
  for (uint32_t o = 0; o < g->output.n && compare_output(t, a, pass, e, o); o++) {
  }
  t->passes++;
  arena_free(a);
}

static void find_wanted(Stages *t) {
  const Graph *selected = t->selected;
  Arena *a = t->run->a;
  EvalFeed *feed;
  uint32_t n = verify_feeds(t->run, a, selected, &feed);
  Expect *x = expect_new(a, selected, NULL, n, feed);
  expect_step(x, t->run->step);
  t->want = arena_array(a, Tensor *, selected->output.n + 1);
  for (uint32_t o = 0; o < selected->output.n; o++) t->want[o] = expect_output(x, o);
}

bool verify_stages(Session *s, const VerifyRun *run, const VerifyJob *job) {
  if (!option_given(s->opt, OPTION_STAGES)) return true;
  if (!verify_small(run, LARGER)) {
    diag_error(
        s->diag, DIAG_USAGE, (Pos){0},
        "--stages evaluates every element after every pass: the model is too large for that");
    diag_hint(s->diag, "make its dims smaller, with --set");
    return false;
  }
  Stages t = {.s = s, .run = run, .selected = job->graph};
  Compilation scratch;
  find_wanted(&t);
  if (!session_passes(s, run->a, job->graph, job->purpose, passed, &t, &scratch) || t.wrong)
    return false;
  if (!option_given(s->opt, OPTION_QUIET))
    fprintf(stderr, "verify: none of %u pass%s changes a value of %s\n", t.passes,
            t.passes == 1 ? "" : "es", s->opt->argument.at[0]);
  return true;
}
