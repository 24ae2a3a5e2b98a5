// Every op case of the table (op x type x variant x kind of input, NaN and infinities among them) under
// layouts of its dims: the lowered graph of all processors in lockstep against the whole graph.
//
//   layouts_types [TEXT]    cases whose name contains TEXT
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "partition/partition.h"
#include "tests/suite/common/op_cases.h"

static int passed, failed, skipped;

static const Mesh meshes[] = {
    {.naxes = 1, .axis = {{.name = "rows", .size = 2}}},
    {.naxes = 1, .axis = {{.name = "rows", .size = 3}}},
    {.naxes = 2, .axis = {{.name = "rows", .size = 2}, {.name = "cols", .size = 2}}},
};

static bool same_element(const Tensor *x, const Tensor *y, int64_t i) {
  if (x->tainted[i] || y->tainted[i] || x->value[i] == y->value[i]) return true;
  if (isnan(x->value[i]) && isnan(y->value[i])) return true;
  return fabs(x->value[i] - y->value[i]) <= x->bound[i] + y->bound[i];
}

static const char *compare(Arena *a, const Eval *whole, const Eval *split) {
  for (uint32_t o = 0; o < whole->graph->output.n; o++) {
    const Output *x = &whole->graph->output.at[o], *y = &split->graph->output.at[o];
    bool agree;
    Tensor *want = eval_whole(a, whole, x->value, 0, NULL, NULL), *got = eval_whole(a, split, y->value, 0, NULL, &agree);
    if (!agree) return arena_printf(a, "%s: replicas differ", x->name);
    for (int64_t i = 0; i < want->elements; i++)
      if (!same_element(want, got, i))
        return arena_printf(a, "%s[%lld] is %.9g, whole %.9g (bounds %.3g, %.3g)", x->name, (long long)i, got->value[i],
                            want->value[i], got->bound[i], want->bound[i]);
  }
  return NULL;
}

static int dims_of(const Graph *g, DimId out[MAX_RANK]) {
  int n = 0;
  for (DimId d = 1; d <= dim_count(g->dims); d++)
    for (NodeId u = 1; u <= graph_count(g) && n < MAX_RANK; u++)
      if (dim_get(g->dims, d)->whole == d && dims_has(&graph_node(g, u)->dims, d)) {
        out[n++] = d;
        break;
      }
  return n;
}

// Dim i over axis first, dim j (if another) over axis second; on one axis j is not split.
static Layout layout_of(const Graph *g, const DimId *dims, int i, int j, LayoutRule rule[2]) {
  int last = g->mesh->naxes - 1;
  rule[0] = (LayoutRule){.dim = dim_get(g->dims, dims[i])->name, .axes = {.n = 1, .at = {0}}};
  rule[1] = (LayoutRule){.dim = dim_get(g->dims, dims[j])->name, .axes = {.n = 1, .at = {(uint8_t)last}}};
  if (i == j) rule[0].axes = last ? (Axes){.n = 2, .at = {1, 0}} : rule[0].axes;
  return (Layout){.n = i == j || !last ? 1 : 2, .rule = rule};
}

static void run_layout(Arena *a, const OpCase *c, const Graph *g, const Eval *whole, Layout layout) {
  char why[200];
  Machine machine = machine_default();
  if (!layout_check(g, &layout, diag_new(a))) return;
  Graph *low = collectives_share(a, lower(a, place(a, g, &layout, &machine)));
  const char *wrong = graph_verify(low, why) ? compare(a, whole, eval_run(a, low, c->nfeeds, c->feeds, 0)) : why;
  if (!wrong) passed++;
  else if (failed++ < 20)
    printf("FAILED %s, %s over %d axes: %s\n", c->name, layout.rule[0].dim, g->mesh->naxes, wrong);
}

static void run_case(const Mesh *mesh, int i, const char *only) {
  Arena *a = arena_new();
  OpCase c;
  if (!op_case_build(a, dim_table_new(a, intern_new(a)), mesh, i, &c)) skipped++;
  else if (!only || strstr(c.name, only)) {
    Graph *g = graph_simplify(a, graph_expand(a, c.graph));
    Eval *whole = eval_run(a, g, c.nfeeds, c.feeds, 0);
    DimId dims[MAX_RANK];
    LayoutRule rule[2];
    int n = dims_of(g, dims);
    for (int k = 0; k < n; k++) run_layout(a, &c, g, whole, layout_of(g, dims, k, k, rule));
    for (int k = 0; k < n && mesh->naxes > 1; k++)
      for (int m = 0; m < n; m++)
        if (m != k) run_layout(a, &c, g, whole, layout_of(g, dims, k, m, rule));
  }
  arena_free(a);
}

int main(int argc, char **argv) {
  for (size_t m = 0; m < countof(meshes); m++)
    for (int i = 0; i < op_case_count(); i++) run_case(&meshes[m], i, argc > 1 ? argv[1] : NULL);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}
