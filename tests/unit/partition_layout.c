// Tests the messages of layout_check with their positions, and the facts of explain about a placed
// graph.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition/explain/ledger.h"

// The text of a small model: x[b, d] w[d, h] y[b, h] = sum[d](x * w), with a layout at line 6.
static const char text[] =
    "dim b = 4, d = 6, h = 5\ninput x[b, d]\nparam w[d, h]\ny[b, h] = sum[d](x * w)\n"
    "mesh rows = 2, cols = 2\nlayout b -> rows, h -> rows\n";

typedef struct Model {
  Arena *a;
  Intern *names;
  Diag *d;
  uint32_t file;
  Mesh mesh;
  Graph *g;
  Layout layout;
  LayoutRule rule[8];
} Model;

static Pos at(const Model *m, uint32_t line, uint32_t col) {
  return (Pos){.source = m->file, .line = line, .col = col, .len = 1};
}

static void start(Model *m) {
  memset(m, 0, sizeof *m);
  m->a = arena_new();
  m->names = intern_new(m->a);
  m->d = diag_new(m->a);
  m->file = diag_source(m->d, "m.mesh", text, strlen(text));
  m->mesh.naxes = 2;
  m->mesh.axis[0] = (MeshAxis){.name = intern(m->names, "rows"), .size = 2, .pos = at(m, 5, 6)};
  m->mesh.axis[1] = (MeshAxis){.name = intern(m->names, "cols"), .size = 2, .pos = at(m, 5, 16)};
  m->layout.rule = m->rule;
  DimTable *t = dim_table_new(m->a, m->names);
  m->g = graph_new(m->a, t, &m->mesh, STAGE_GRAPH);
  DimId b = dim_add(t, "b", 4, at(m, 1, 5)), d = dim_add(t, "d", 6, at(m, 1, 12)),
        h = dim_add(t, "h", 5, at(m, 1, 19));
  dim_add(t, "unused", 3, at(m, 1, 1));
  DeclId x = graph_decl(m->g, &(Decl){.kind = DECL_INPUT,
                                      .name = intern(m->names, "x"),
                                      .rank = 2,
                                      .dims = {b, d},
                                      .pos = at(m, 2, 7)});
  DeclId w = graph_decl(m->g, &(Decl){.kind = DECL_PARAM,
                                      .name = intern(m->names, "w"),
                                      .rank = 2,
                                      .dims = {d, h},
                                      .pos = at(m, 3, 7)});
  NodeId args[2] = {graph_decl_node(m->g, x), graph_decl_node(m->g, w)};
  m->g->origin = (Origin){.pos = at(m, 4, 1), .value = intern(m->names, "y")};
  NodeId y =
      graph_add(m->g, OP_CONTRACT, 2, args, &(Attr){.type = TYPE_F32, .ndims = 1, .dims = &d});
  vec_push(m->a, m->g->output) = (Output){.kind = OUT_VALUE, .name = "y", .value = y};
  vec_push(m->a, m->g->name) = (Name){.name = m->g->origin.value, .kind = NAME_VALUE, .value = y};
}

static LayoutRule *rule(Model *m, const char *dim, int axis) {
  LayoutRule *r = &m->rule[m->layout.n++];
  *r = (LayoutRule){.dim = dim,
                    .axes = {.n = 1, .at = {(uint8_t)axis}},
                    .pos = at(m, 6, 8 + 11 * (m->layout.n - 1))};
  return r;
}

static char *said(Model *m) {
  char *out = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&out, &n);
  diag_print(m->d, f, false);
  fclose(f);
  char *copy = arena_text(m->a, out, n);
  free(out);
  return copy;
}

static void expect(Model *m, bool ok, const char *const *part) {
  bool got = layout_check(m->g, &m->layout, m->d);
  const char *all = said(m);
  if (got != ok) fail_msg("%s", all);
  for (; *part; part++)
    if (!strstr(all, *part)) fail_msg("'%s' is not in: %s", *part, all);
  arena_free(m->a);
}
#define EXPECT(m, ok, ...) expect(m, ok, (const char *const[]){__VA_ARGS__, NULL})

static void test_two_dims_on_one_axis(void **state) {
  (void)state;
  Model m;
  start(&m);
  rule(&m, "b", 0);
  rule(&m, "h", 0);
  EXPECT(&m, false, "m.mesh:6:19: error", "'rows' would split both 'b' and 'h' of y[b, h]",
         "m.mesh:4:1", "drop b -> rows or h -> rows", "[E0505]");
}

static void test_unknown_dim(void **state) {
  (void)state;
  Model m;
  start(&m);
  rule(&m, "unsed", 0);
  EXPECT(&m, false, "unknown dim 'unsed'", "did you mean unused?", "[E0503]");
}

static void test_duplicate(void **state) {
  (void)state;
  Model m;
  start(&m);
  rule(&m, "b", 0);
  rule(&m, "b", 1);
  EXPECT(&m, false, "m.mesh:6:19: error: two rules place dim 'b'", "[E0504]");
}

static void test_unknown_tensor(void **state) {
  (void)state;
  Model m;
  start(&m);
  LayoutRule *r = rule(&m, "h", 0);
  r->scope = LAYOUT_TENSOR, r->pattern = "zz.*";
  EXPECT(&m, false, "no tensor is named 'zz.*'", "[E0506]");
}

static void test_tensor_without_the_dim(void **state) {
  (void)state;
  Model m;
  start(&m);
  LayoutRule *r = rule(&m, "h", 0);
  r->scope = LAYOUT_TENSOR, r->pattern = "x";
  EXPECT(&m, false, "x has no dim 'h'", "[E0503]");
}

static void test_warnings(void **state) {
  (void)state;
  Model m;
  start(&m);
  rule(&m, "b", 0);
  EXPECT(&m, true, "no layout rule uses axis 'cols'", "[W0501]");
  start(&m);
  rule(&m, "unused", 0);
  EXPECT(&m, true, "no tensor has the dim 'unused'", "[W0502]");
}

static void test_soft_rules_give_way(void **state) {
  (void)state;
  Model m;
  start(&m);
  rule(&m, "b", 0);
  rule(&m, "h", 0)->soft = true;
  EXPECT(&m, true, "");
}

static void test_a_rule_of_a_tensor_replaces_general_ones(void **state) {
  (void)state;
  Model m;
  start(&m);
  rule(&m, "b", 0);
  rule(&m, "h", 0);
  LayoutRule *r = rule(&m, "h", 1);
  r->scope = LAYOUT_TENSOR, r->pattern = "y";
  EXPECT(&m, true, "");
}

static uint64_t asked(Model *m) {
  uint64_t hash = place_asked(place_graph(m->a, m->g), m->g, &m->layout);
  arena_free(m->a);
  return hash;
}

// A soft rule that splits nothing beside the hard ones asks for nothing: the placement is the same.
static void test_layouts_that_ask_the_same(void **state) {
  (void)state;
  Model m;
  start(&m);
  rule(&m, "b", 0);
  uint64_t hard = asked(&m);
  start(&m);
  rule(&m, "b", 0);
  rule(&m, "b", 0)->soft = true;
  assert_true(asked(&m) == hard);
  start(&m);
  rule(&m, "b", 0)->soft = true;
  assert_true(asked(&m) != hard);
  start(&m);
  rule(&m, "b", 1);
  assert_true(asked(&m) != hard);
  start(&m);
  rule(&m, "b", 0);
  rule(&m, "h", 0)->scope = LAYOUT_PARAMETERS;
  assert_true(asked(&m) != hard);
}

static void test_explain(void **state) {
  (void)state;
  Model m;
  start(&m);
  rule(&m, "d", 0);
  rule(&m, "h", 1);
  Machine machine = machine_default();
  Graph *g = graph_simplify(m.a, graph_expand(m.a, m.g));
  Placement *p = place(m.a, g, &m.layout, &machine);
  Graph *low = collectives_share(m.a, lower(m.a, p));
  Buckets *b = collectives_bucket(m.a, low, &machine);
  CollFacts *f = collectives_facts(m.a, low, b, &machine);
  LedgerSource from = {.placement = p,
                       .graph = low,
                       .buckets = b,
                       .facts = f,
                       .partition = partition_facts(g, low),
                       .machine = &machine,
                       .diag = m.d};
  Ledger *l = ledger_new(m.a, &from);
  ExplainedValues *v = explained_values(m.a, l);
  char *ledger = ledger_text(m.a, l, false), *y = explained_text(m.a, l, v, explained_find(v, "y"));
  assert_non_null(strstr(ledger, "all_reduce"));
  assert_non_null(strstr(ledger, "rows x2"));
  assert_non_null(
      strstr(ledger, "d is summed and split over rows; needed in full by the output y"));
  assert_non_null(strstr(ledger, "m.mesh:4"));
  assert_non_null(strstr(y, "h -> cols: m.mesh:6"));
  assert_non_null(strstr(y, "sum over rows, h/cols"));
  assert_non_null(strstr(y, "leaving out d -> rows (m.mesh:6) would remove it"));
  assert_int_equal(explained_find(v, "nothing"), -1);
  assert_int_equal(explained_part(m.a, l, v, "nothing"), -1);
  PartitionFacts facts = partition_facts(g, low);
  assert_int_equal(facts.flops_whole, 2 * 4 * 6 * 5);
  assert_int_equal(facts.flops, 2 * 4 * 3 * 3); // h is padded to 6
  assert_int_equal(facts.parameter_bytes, 3 * 3 * 4);
  assert_true(facts.padding > 0);
  arena_free(m.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_dims_on_one_axis),
      cmocka_unit_test(test_unknown_dim),
      cmocka_unit_test(test_duplicate),
      cmocka_unit_test(test_unknown_tensor),
      cmocka_unit_test(test_tensor_without_the_dim),
      cmocka_unit_test(test_warnings),
      cmocka_unit_test(test_soft_rules_give_way),
      cmocka_unit_test(test_a_rule_of_a_tensor_replaces_general_ones),
      cmocka_unit_test(test_layouts_that_ask_the_same),
      cmocka_unit_test(test_explain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
