// A fuzzer of graph text. Inputs are the dumps of all stages of this repository's models, with
// tokens and bytes dropped, doubled, exchanged and mixed. Each is read back and goes through the
// passes that follow its stage. A text may be refused. An accepted graph must hold the invariants
// of its stage, and its printed text must read back.
//
//   suite_fuzz_graph [count=N] [first=N] [seed=S]     input i of seed S is always the same; SHOW=1
//                                                     prints inputs that fail
#include <stdio.h>
#include <string.h>

#include "frontend/frontend.h"
#include "tests/suite/common/fuzz.h"

enum { COUNT = 4000, MAX_GRAPHS = 512, LARGEST = 1 << 15 };
static const FuzzText *graph[MAX_GRAPHS];
static uint32_t ngraphs;

static void graph_keep(Arena *perm, const Graph *g, const Diag *d) {
  Arena *a = arena_new();
  const char *text = graph_print(a, g, d, NULL, NULL);
  size_t n = strlen(text);
  if (n < LARGEST && ngraphs < MAX_GRAPHS) {
    FuzzText *t = arena_alloc(perm, sizeof *t);
    t->n = 0;
    fuzz_put(t, text, n);
    graph[ngraphs++] = t;
  }
  arena_free(a);
}

// Adds the graphs of one model: for a run, for a training step, and after each pass.
static void graphs_of(Arena *perm, const FuzzText *text) {
  Arena *a = arena_new();
  Intern *names = intern_new(a);
  Diag *d = diag_new(a);
  Ast *ast =
      ast_parse(a, names, d, diag_source(d, "fuzz.mesh", text->at, text->n), text->at, text->n);
  ModelOptions opt = {.path = "fuzz.mesh"};
  Model *m = diag_errors(d) ? NULL : model_build(a, names, d, ast, &opt);
  Graph *g = !m                      ? NULL
             : m->graph->spec.ntrain ? select_train(a, m, NULL)
                                     : select_run(a, m, &(Fetch){0});
  Machine machine = machine_default();
  PipelineOptions how = {.machine = &machine, .codegen = {.fuse = true}};
  Compilation c;
  if (g && layout_check(g, &g->layout, d) && pipeline_run(a, g, &how, "order", d, &c)) {
    graph_keep(perm, g, d);
    graph_keep(perm, c.simplified, d);
    graph_keep(perm, c.lowered, d);
    graph_keep(perm, c.collected, d);
  }
  arena_free(a);
}

static const char *graphs_make(void) {
  static Arena *perm; // lives as long as the program
  perm = arena_new();
  const FuzzText *model;
  uint32_t n = fuzz_models(&model);
  for (uint32_t i = 0; i < n; i++) graphs_of(perm, &model[i]);
  return ngraphs ? NULL : "there are no graphs to begin with";
}

static void input_make(FuzzText *t) {
  if (!ngraphs) return;
  const FuzzText *other = graph[fuzz_below(ngraphs)];
  *t = *graph[fuzz_below(ngraphs)];
  for (uint32_t k = 1 + fuzz_below(4); k && t->n; k--) {
    if (fuzz_below(8))
      fuzz_tokens(t, other);
    else
      fuzz_bytes(t);
  }
}

static const Graph *text_read(Arena *a, const char *text, size_t n, Diag **d) {
  *d = diag_new(a);
  return graph_read(a, intern_new(a), *d, diag_source(*d, "fuzz.graph", text, n), text, n);
}

static bool input_run(const FuzzText *t, uint64_t number) {
  Arena *a = arena_new();
  Diag *d, *again;
  const Graph *g = text_read(a, t->at, t->n, &d);
  char why[200];
  if (g && !graph_verify(g, why)) BUG("accepted, but %s", why);
  if (!g && !diag_errors(d)) BUG("refused without a word");
  if (g) {
    const char *text = graph_print(a, g, d, NULL, NULL);
    const Graph *twin = text_read(a, text, strlen(text), &again);
    if (!twin) diag_print(again, stdout, false);
    if (!twin || strcmp(text, graph_print(a, twin, again, NULL, NULL)) != 0)
      BUG("its print does not read back");
    Machine machine = machine_default();
    PipelineOptions how = {
        .machine = &machine,
        .codegen = {.fuse = number % 4 != 0, .products = number % 2 ? ALL_TYPES : 0}};
    Compilation c;
    if (layout_check(g, &g->layout, d) && !pipeline_run(a, g, &how, "program", d, &c))
      BUG("an accepted graph is refused");
  }
  arena_free(a);
  return g != NULL;
}

int main(int argc, char **argv) {
  static const Fuzzer fuzzer = {
      .count = COUNT, .fault = graphs_make, .make = input_make, .run = input_run};
  return fuzz_run(argc, argv, &fuzzer);
}
