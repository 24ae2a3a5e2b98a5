// Improves the result of the search by rules that are not in its space: rules for parameters,
// gradients and optimizer, and soft rules. Also lists the meshes of a number of processors.
#include <math.h>
#include <string.h>

#include "partition/search/space_internal.h"

bool search_cheaper(const SearchChoice *a, const SearchChoice *b) {
  if (a->cost.seconds != b->cost.seconds) return a->cost.seconds < b->cost.seconds;
  if (a->cost.memory != b->cost.memory) return a->cost.memory < b->cost.memory;
  return a->layout.n < b->layout.n;
}

// -- rules beyond dims --------------------------------------------------------------------------

static bool gains(const SearchTask *t, const LayoutCost *now, const LayoutCost *then,
                  SearchAim aim) {
  switch (aim) {
  case SEARCH_FASTER: return now->memory <= t->memory && now->seconds < 0.98 * then->seconds;
  case SEARCH_SMALLER:
    return now->memory < 0.99 * then->memory && now->seconds <= 1.05 * then->seconds;
  case SEARCH_SMALLEST: return now->memory < 0.99 * then->memory;
  }
  BUG("no aim %d", (int)aim);
}

static bool better(const SearchChoice *a, const SearchChoice *b, SearchAim aim) {
  return aim == SEARCH_FASTER ? search_cheaper(a, b) : a->cost.memory < b->cost.memory;
}

static bool has_target(const Layout *l, const LayoutRule *r) {
  for (uint32_t i = 0; i < l->n; i++) {
    const LayoutRule *x = &l->rule[i];
    if (x->scope == r->scope && x->soft == r->soft &&
        (x->dim == r->dim || (x->dim && r->dim && !strcmp(x->dim, r->dim))))
      return true;
  }
  return false;
}

static void try_rule(Arena *a, const SearchTask *t, const SearchChoice *from, const LayoutRule *r,
                     SearchRules *out) {
  if (has_target(&from->layout, r)) return;
  SearchChoice c = {.mesh = from->mesh, .layout = {from->layout.n + 1, NULL}};
  c.layout.rule = arena_array(a, LayoutRule, c.layout.n);
  memcpy(c.layout.rule, from->layout.rule, from->layout.n * sizeof *c.layout.rule);
  c.layout.rule[from->layout.n] = *r;
  c.cost = search_cost(t, c.mesh, &c.layout);
  vec_push(a, out->rule) = c;
}

static void try_axes(Arena *a, const SearchTask *t, const Space *s, const SearchChoice *from,
                     Axes axes, SearchRules *out) {
  static const LayoutScope scopes[] = {LAYOUT_OPTIMIZER, LAYOUT_GRADIENTS, LAYOUT_PARAMETERS};
  for (size_t i = 0; i < countof(scopes); i++) {
    LayoutRule all = {.scope = scopes[i], .axes = axes};
    try_rule(a, t, from, &all, out);
  }
  for (uint32_t d = 0; d < s->ndims; d++) {
    LayoutRule soft = {.dim = s->dim[d]->name, .soft = true, .axes = axes};
    if (s->dim[d]->size >= axes_size(from->mesh, axes)) try_rule(a, t, from, &soft, out);
  }
}

SearchRules search_rules(Arena *a, const SearchTask *t, const SearchChoice *from) {
  Space s;
  SearchRules out = {0};
  space_dims(&s, a, t);
  Axes all = {0};
  for (int k = 0; k < from->mesh->naxes; k++) {
    all.at[all.n++] = (uint8_t)k;
    try_axes(a, t, &s, from, (Axes){1, {(uint8_t)k}}, &out);
  }
  if (all.n > 1) try_axes(a, t, &s, from, all, &out);
  return out;
}

SearchChoice search_refine(Arena *a, const SearchTask *t, const SearchChoice *from,
                           SearchRules *rules, SearchAim aim) {
  SearchChoice now = *from;
  for (;;) {
    if (!rules->rule.n) *rules = search_rules(a, t, &now);
    SearchChoice best = now;
    for (uint32_t i = 0; i < rules->rule.n; i++) {
      const SearchChoice *c = &rules->rule.at[i];
      if (gains(t, &c->cost, &now.cost, aim) && better(c, &best, aim)) best = *c;
    }
    if (best.layout.n == now.layout.n) return now;
    now = best;
    *rules = (SearchRules){0};
  }
}

// -- layouts that fit only with further rules ----------------------------------------------------

enum { MENDED = 2 }; // the number of layouts to which search_fitting adds rules

// Adds to `from`, which needs too much memory, the rule with which it fits and takes least time.
// Returns false if it fits with none.
static bool make_fit(Arena *a, const SearchTask *t, const SearchChoice *from, SearchChoice *out) {
  SearchRules rules = search_rules(a, t, from);
  *out = *from;
  for (uint32_t i = 0; i < rules.rule.n; i++) {
    const SearchChoice *c = &rules.rule.at[i];
    if (c->cost.memory <= t->memory && (out->cost.memory > t->memory || search_cheaper(c, out)))
      *out = *c;
  }
  return out->cost.memory <= t->memory;
}

// Inserts a choice into the result, which keeps at most `most` choices, the cheapest first.
static void insert_choice(SearchResult *r, uint32_t most, const SearchChoice *c) {
  if (r->n == most && !search_cheaper(c, &r->at[r->n - 1])) return;
  uint32_t i = r->n < most ? r->n++ : r->n - 1;
  for (; i > 0 && search_cheaper(c, &r->at[i - 1]); i--) r->at[i] = r->at[i - 1];
  r->at[i] = *c;
  r->beyond |= i == 0;
}

SearchResult *search_fitting(Arena *a, const SearchTask *t) {
  SearchTask any = *t;
  any.memory = (double)INFINITY;
  SearchResult *all = search_layouts(a, &any);
  uint32_t over[MENDED], n = 0;
  for (uint32_t i = 0; i < all->n && n < MENDED; i++)
    if (all->at[i].cost.memory > t->memory) over[n++] = i;
  if (!n) return all;
  SearchResult *fitting = search_layouts(a, t);
  if (!fitting->n) fitting->proven = fitting->ranked = false;
  for (uint32_t i = 0; i < n; i++) {
    SearchChoice c;
    if (make_fit(a, t, &all->at[over[i]], &c)) insert_choice(fitting, t->keep, &c);
  }
  return fitting;
}

// -- shapes of meshes ---------------------------------------------------------------------------

uint32_t search_meshes(Arena *a, int64_t processors, const char *const names[3], bool unlike,
                       const Mesh **out) {
  VEC(Mesh) list = {0};
  for (int64_t x = 2; x <= processors; x++) {
    if (processors % x) continue;
    for (int64_t y = 1; y <= processors / x; y++) {
      int64_t z = processors / x / y;
      if (processors / x % y || (y == 1 && z > 1) || (!unlike && (y > x || z > y))) continue;
      Mesh m = {.axis = {{.name = names[0], .size = x},
                         {.name = names[1], .size = y},
                         {.name = names[2], .size = z}}};
      m.naxes = (uint8_t)(1 + (y > 1) + (z > 1));
      vec_push(a, list) = m;
    }
  }
  *out = list.at;
  return list.n;
}
