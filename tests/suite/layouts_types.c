// Runs every op case of the table (op, type, variant, kind of input; NaN and infinities among them)
// under layouts of its dims, on meshes of 1, 2, 3, 4, 2 x 2 and 2 x 4. The lowered graph of all
// processors in lockstep must agree with the whole graph. The suite fails when an op did not run,
// replicated and split, on every mesh and with every type that it takes.
//
//   layouts_types [TEXT]    only cases whose name contains TEXT
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "partition/partition.h"
#include "tests/suite/common/op_cases.h"

static int passed, failed;

static const Mesh meshes[] = {
    {.naxes = 1, .axis = {{.name = "rows", .size = 1}}},
    {.naxes = 1, .axis = {{.name = "rows", .size = 2}}},
    {.naxes = 1, .axis = {{.name = "rows", .size = 3}}},
    {.naxes = 1, .axis = {{.name = "rows", .size = 4}}},
    {.naxes = 2, .axis = {{.name = "rows", .size = 2}, {.name = "cols", .size = 2}}},
    {.naxes = 2, .axis = {{.name = "rows", .size = 2}, {.name = "cols", .size = 4}}},
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
    Tensor *want = eval_full(a, whole, x->value, 0, NULL, NULL),
           *got = eval_full(a, split, y->value, 0, NULL, &agree);
    if (!agree) return arena_printf(a, "%s: replicas differ", x->name);
    for (int64_t i = 0; i < want->elements; i++)
      if (!same_element(want, got, i))
        return arena_printf(a, "%s[%lld] is %.9g, whole %.9g (bounds %.3g, %.3g)", x->name,
                            (long long)i, got->value[i], want->value[i], got->bound[i],
                            want->bound[i]);
  }
  return NULL;
}

static int dims_of(const Graph *g, DimId out[MAX_RANK]) {
  int n = 0;
  for (DimId d = 1; d <= dim_count(g->dims); d++)
    for (NodeId u = 1; u <= graph_count(g) && n < MAX_RANK; u++)
      if (dim_get(g->dims, d)->whole == d && dims_has(graph_node(g, u)->dims, d)) {
        out[n++] = d;
        break;
      }
  return n;
}

// Returns a layout: dim i over axis `first`, and another dim j over axis `second`. On one axis j is
// not split.
static Layout layout_of(const Graph *g, const DimId *dims, int i, int j, LayoutRule rule[2]) {
  int last = g->mesh->naxes - 1;
  rule[0] = (LayoutRule){.dim = dim_get(g->dims, dims[i])->name, .axes = {.n = 1, .at = {0}}};
  rule[1] =
      (LayoutRule){.dim = dim_get(g->dims, dims[j])->name, .axes = {.n = 1, .at = {(uint8_t)last}}};
  if (i == j) rule[0].axes = last ? (Axes){.n = 2, .at = {1, 0}} : rule[0].axes;
  return (Layout){.n = i == j || !last ? 1 : 2, .rule = rule};
}

enum { MESHES = countof(meshes) };
// By mesh, op and type: a layout that splits nothing was seen; a layout that splits a dim was seen.
static bool seen_whole[MESHES][OP_COUNT][TYPE_COUNT], seen_cut[MESHES][OP_COUNT][TYPE_COUNT];

// Runs a case under one layout. Returns false if the layout is refused.
static bool run_layout(Arena *a, const OpCase *c, const Graph *g, const Eval *whole,
                       Layout layout) {
  char why[200];
  Machine machine = machine_default();
  if (!layout_check(g, &layout, diag_new(a))) return false;
  Graph *low = collectives_share(a, lower(a, place(a, g, &layout, &machine)));
  const char *wrong =
      graph_verify(low, why) ? compare(a, whole, eval_run(a, low, c->nfeeds, c->feeds, 0)) : why;
  if (!wrong)
    passed++;
  else if (failed++ < 20)
    printf("FAILED %s, %s over %d axes: %s\n", c->name, layout.n ? layout.rule[0].dim : "nothing",
           g->mesh->naxes, wrong);
  return true;
}

static void run_layouts(Arena *a, const OpCase *c, const Graph *g, size_t mesh) {
  const Eval *whole = eval_run(a, g, c->nfeeds, c->feeds, 0);
  DimId dims[MAX_RANK];
  LayoutRule rule[2];
  bool *cut = &seen_cut[mesh][c->op][c->type];
  int n = dims_of(g, dims);
  seen_whole[mesh][c->op][c->type] |= run_layout(a, c, g, whole, (Layout){0});
  for (int k = 0; k < n; k++) *cut |= run_layout(a, c, g, whole, layout_of(g, dims, k, k, rule));
  for (int k = 0; k < n && g->mesh->naxes > 1; k++)
    for (int m = 0; m < n; m++)
      if (m != k) *cut |= run_layout(a, c, g, whole, layout_of(g, dims, k, m, rule));
}

static void run_case(size_t mesh, int i, const char *only) {
  Arena *a = arena_new();
  OpCase c;
  if (!op_case_build(a, dim_table_new(a, intern_new(a)), &meshes[mesh], i, &c)) {
    printf("FAILED %s: the op refuses its arguments\n", c.name);
    failed++;
  } else if (!only || strstr(c.name, only)) {
    run_layouts(a, &c, graph_simplify(a, graph_expand(a, c.graph)), mesh);
  }
  arena_free(a);
}

// Reports every op and type that no layout of a mesh had. Constants and the step have no dims to
// split.
static void check_table(Arena *a) {
  for (size_t m = 0; m < MESHES; m++) {
    for (size_t t = 0; t < TYPE_COUNT; t++)
      seen_cut[m][OP_CONST][t] = seen_cut[m][OP_STEP][t] = true;
    const char *whole = op_cases_missing(a, seen_whole[m]), *cut = op_cases_missing(a, seen_cut[m]);
    if (whole) printf("FAILED mesh %d: none whole of %s\n", (int)m, whole);
    if (cut) printf("FAILED mesh %d: none cut of %s\n", (int)m, cut);
    failed += (whole != NULL) + (cut != NULL);
  }
}

int main(int argc, char **argv) {
  Arena *a = arena_new();
  for (size_t m = 0; m < MESHES; m++)
    for (int i = 0; i < op_case_count(); i++) run_case(m, i, argc > 1 ? argv[1] : NULL);
  if (argc < 2) check_table(a);
  arena_free(a);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
