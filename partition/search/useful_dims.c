// Finds the dims that are worth a rule: those whose split over two processors changes the estimated
// work or memory of one. Input: the space of the joint search. Output: Joint.useful, useful_soft.
#include <string.h>

#include "partition/search/choices_internal.h"
#include "partition/search/estimates_internal.h"

static bool changes(const LayoutCost *x, const LayoutCost *y) {
  return x->flops != y->flops || x->traffic != y->traffic || x->memory != y->memory;
}

// Returns whether the dim is in a declaration or a contraction. Splits of others, such as the
// halves that rotary positions turn, hardly divide any work.
static bool is_substantial(const SearchTask *t, const Dim *dim) {
  const Graph *g = t->model;
  bool found = false;
  for (uint32_t i = 0; i < g->decl.n; i++)
    for (int k = 0; k < g->decl.at[i].rank; k++)
      found |= dim_get(g->dims, g->decl.at[i].dims[k]) == dim;
  for (uint32_t i = 0; i < t->nsamples && !found; i++)
    for (NodeId n = 1; n <= graph_count(t->sample[i].graph) && !found; n++) {
      const Node *x = graph_node(t->sample[i].graph, n);
      const DimTable *dims = t->sample[i].graph->dims;
      for (int k = 0; k < x->dims->n && x->op == OP_CONTRACT; k++)
        found |= !strcmp(dim_get(dims, x->dims->at[k])->name, dim->name);
      for (int k = 0; k < x->attr->ndims && x->op == OP_CONTRACT; k++)
        found |= !strcmp(dim_get(dims, x->attr->dims[k])->name, dim->name);
    }
  return found;
}

// A rule that splits one dim, with its estimate.
typedef struct Split {
  DimSet dim;
  LayoutRule rule;
  Layout layout;
} Split;

enum { KINDS = 2 }; // a rule for the dim, and a soft rule

// Sets of[0] to the layout without rules, and the others to all rules for one dim, which are in
// split[1..]. Returns their number.
static uint32_t list_splits(const Joint *j, const Mesh *two, Split *split, Estimate *of) {
  uint32_t n = 1;
  of[0] = (Estimate){.mesh = two, .layout = &split[0].layout};
  for (uint32_t d = 0; d < j->space.ndims; d++) {
    int kinds = is_substantial(j->task, j->space.dim[d]) ? KINDS : 0;
    for (int soft = 0; soft < kinds; soft++, n++) {
      Split *x = &split[n];
      x->dim = (DimSet)1 << d;
      x->rule = (LayoutRule){.dim = j->space.dim[d]->name, .soft = soft, .axes = {1, {0}}};
      x->layout = (Layout){1, &x->rule};
      of[n] = (Estimate){.mesh = two, .layout = &x->layout};
    }
  }
  return n;
}

void joint_useful(Joint *j) {
  const Mesh two = {.naxes = 1, .axis = {{.name = "axis", .size = 2}}};
  Arena *a = arena_new();
  Split *split = arena_array(a, Split, KINDS * j->space.ndims + 1);
  Estimate *of = arena_array(a, Estimate, KINDS * j->space.ndims + 1);
  uint32_t n = list_splits(j, &two, split, of);
  estimate_all(j->task, n, of);
  for (uint32_t i = 1; i < n; i++)
    if (changes(&of[i].cost, &of[0].cost))
      *(split[i].rule.soft ? &j->useful_soft : &j->useful) |= split[i].dim;
  arena_free(a);
}
