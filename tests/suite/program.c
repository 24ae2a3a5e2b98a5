// Tests code generation without machine code. Every operation and random graphs, under many
// layouts, become Programs (order, fusion, kernels, schedule, memory plan). A reference interpreter
// runs each Program on all processors, and the evaluator runs the whole graph; both must agree.
// Cases run in turn with and without fusion, and with and without library GEMMs.
//
//   program [CASE | seed=N]    SEEDS=n, SHOW=1 as in layouts
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codegen/codegen.h"
#include "tests/suite/common/layout_cases.h"
#include "tests/suite/common/program_interp.h"

static int turn;

static void show(Maker *m, const Graph *g, const Fusion *f, const Compiled *c) {
  if (!getenv("SHOW")) return;
  puts(graph_print(m->a, g, m->diag, NULL, NULL));
  puts(fusion_print(m->a, f, NULL));
  for (uint32_t i = 0; i < c->program->nkernels; i++) puts(kernel_print(m->a, c->kernels[i]));
  puts(program_print(m->a, c->program));
  puts(plan_print(m->a, c));
}

static TensorKind tensor_of(DeclKind k) {
  switch (k) {
  case DECL_INPUT: return TENSOR_INPUT;
  case DECL_PARAM: return TENSOR_PARAM;
  case DECL_STATE: return TENSOR_STATE;
  case DECL_SLOT: return TENSOR_SLOT;
  }
  return TENSOR_INPUT;
}

static void feed(Maker *m, Interp *in) {
  for (uint32_t i = 0; i < m->ninputs; i++) {
    const Decl *d = &m->g->decl.at[m->feed[i].decl - 1];
    bool used = interp_write(in, tensor_of(d->kind), d->name, m->feed[i].value);
    (void)used; // a graph may read less than was declared
  }
}

// Returns true if element i is within the sum of two bounds: of the whole graph, and of the split
// graph, which rounds at other places.
static bool right(const Tensor *want, const Tensor *split, int64_t i, double got) {
  double v = want->value[i];
  if (want->tainted[i] || split->tainted[i] || v == got || (isnan(v) && isnan(got))) return true;
  return fabs(v - got) <= want->bound[i] + split->bound[i];
}

static const char *compare(Maker *m, Interp *in, const Eval *whole, const Eval *split) {
  int64_t elements = 0, tainted = 0;
  for (uint32_t o = 0; o < whole->graph->output.n; o++) {
    const Output *out = &whole->graph->output.at[o];
    const Decl *d = out->kind == OUT_UPDATE ? &whole->graph->decl.at[out->target - 1] : NULL;
    int rank = d ? d->rank : out->rank;
    bool agree;
    Tensor *want = eval_full(m->a, whole, out->value, rank, d ? d->dims : out->dims, NULL);
    Tensor *half = eval_full(m->a, split, split->graph->output.at[o].value, rank,
                             d ? d->dims : out->dims, &agree);
    double *got = arena_array(m->a, double, want->elements + 1);
    if (!interp_read(in, d ? tensor_of(d->kind) : TENSOR_OUTPUT, out->name, got))
      return arena_printf(m->a, "%s is not in the directory", out->name);
    elements += want->elements;
    for (int64_t i = 0; i < want->elements; i++) {
      tainted += want->tainted[i];
      if (!right(want, half, i, got[i]))
        return arena_printf(m->a, "%s[%lld] is %.9g, wanted %.9g (bounds %.3g, %.3g)", out->name,
                            (long long)i, got[i], want->value[i], want->bound[i], half->bound[i]);
    }
  }
  return tainted * 10 > elements ? layout_vacuous : NULL;
}

static const char *run_program(Maker *m, const Graph *g, const Eval *whole) {
  char why[200];
  Machine machine = machine_default();
  CodegenOptions opt = {.fuse = turn % 4 != 3,
                        .products = turn % 2 == 0 ? ALL_TYPES : 0,
                        .product_work = 1,
                        .epilogues = turn % 3 == 1 ? ALL_EPILOGUES : 0,
                        .for_ = "train"};
  turn++;
  Graph *low = collectives_share(m->a, lower(m->a, place(m->a, g, &m->layout, &machine)));
  layout_saw(low);
  Order *order = order_choose(m->a, remat(m->a, low, 0), &(StoreOptions){0}, false);
  if (!graph_verify(order->graph, why)) return arena_printf(m->a, "order: %s", why);
  Fusion *f = fuse(m->a, order, collectives_bucket(m->a, order->graph, &machine), &opt);
  Compiled *c = program_build(m->a, f, &opt);
  Interp *in = interp_new(m->a, c);
  feed(m, in);
  const char *wrong = interp_run(in, 3, -1);
  if (!wrong) wrong = compare(m, in, whole, eval_run(m->a, low, m->ninputs, m->feed, 3));
  if (wrong && wrong != layout_vacuous) show(m, order->graph, f, c);
  interp_free(in);
  return wrong;
}

int main(int argc, char **argv) { return layout_cases(argc, argv, run_program); }
