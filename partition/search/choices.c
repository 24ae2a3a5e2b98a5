// The table of the choices that the joint search has come to.
#include <string.h>

#include "ir/base/hash.h"
#include "partition/search/choices_internal.h"

enum {
  // Work for each doubling of the number of processors, in nodes that are compiled: about 25
  // microseconds each.
  WORK_A_DOUBLING = 18000,
  QUICK = 300 // a search whose work suffices for so many prices takes a second or two
};

// -- layouts --------------------------------------------------------------------------------------

static bool same_text(const char *x, const char *y) {
  return x == y || (x && y && strcmp(x, y) == 0);
}

static bool same_target(const LayoutRule *x, const LayoutRule *y) {
  return x->scope == y->scope && x->soft == y->soft && same_text(x->dim, y->dim) &&
         same_text(x->pattern, y->pattern);
}

Axes joint_axes(const Layout *l, const LayoutRule *rule) {
  for (uint32_t i = 0; i < l->n; i++)
    if (same_target(&l->rule[i], rule)) return l->rule[i].axes;
  return (Axes){0};
}

static uint32_t dim_number(const Space *s, const char *name) {
  uint32_t d = 0;
  while (d < s->ndims && !same_text(s->dim[d]->name, name)) d++;
  return d;
}

// Returns a number by which rules are sorted: dims, soft rules, kinds of tensors, patterns.
static uint32_t place_of(const Space *s, const LayoutRule *r) {
  static const uint32_t scope[] = {[LAYOUT_ALL] = 0,
                                   [LAYOUT_PARAMETERS] = 2,
                                   [LAYOUT_GRADIENTS] = 3,
                                   [LAYOUT_OPTIMIZER] = 4,
                                   [LAYOUT_TENSOR] = 5};
  return (scope[r->scope] + r->soft) * (MAX_DIMS + 2) + dim_number(s, r->dim);
}

static void insert_rule(const Space *s, Layout *l, const LayoutRule *r) {
  uint32_t i = l->n++;
  for (; i > 0 && place_of(s, &l->rule[i - 1]) > place_of(s, r); i--) l->rule[i] = l->rule[i - 1];
  l->rule[i] = *r;
}

static Axes without(Axes of, Axes taken) {
  Axes left = {0};
  for (int i = 0; i < of.n; i++)
    if (!axes_has(taken, of.at[i])) left.at[left.n++] = of.at[i];
  return left;
}

static bool clashes(const Space *s, const LayoutRule *x, const LayoutRule *y) {
  if (x->scope != LAYOUT_ALL || y->scope != LAYOUT_ALL || x->soft || y->soft) return false;
  uint32_t i = dim_number(s, x->dim), k = dim_number(s, y->dim);
  return i < s->ndims && k < s->ndims && s->clash[i] >> k & 1;
}

Layout joint_with(const Joint *j, Arena *a, const Layout *from, const LayoutRule *rule) {
  Layout out = {.rule = arena_array(a, LayoutRule, from->n + 1)};
  for (uint32_t i = 0; i < from->n; i++) {
    LayoutRule r = from->rule[i];
    if (same_target(&r, rule)) continue;
    if (clashes(&j->space, &r, rule)) r.axes = without(r.axes, rule->axes);
    if (r.axes.n || r.none) insert_rule(&j->space, &out, &r);
  }
  if (rule->axes.n) insert_rule(&j->space, &out, rule);
  return out;
}

static const char *key_of(const Joint *j, Arena *a, const Mesh *mesh, const Layout *l) {
  Layout sorted = {.rule = arena_array(a, LayoutRule, l->n + 1)};
  for (uint32_t i = 0; i < l->n; i++) insert_rule(&j->space, &sorted, &l->rule[i]);
  return arena_printf(a, "%s %s", mesh_option(a, mesh), layout_option(a, mesh, &sorted));
}

static bool is_allowed(const Joint *j, Arena *a, const Mesh *mesh, const Layout *l) {
  for (uint32_t i = 0; i < l->n; i++) {
    uint32_t d = dim_number(&j->space, l->rule[i].dim);
    if (d < j->space.ndims && axes_size(mesh, l->rule[i].axes) > j->space.dim[d]->size)
      return false;
  }
  Graph g = layout_apply(a, j->task->model, mesh, l);
  return layout_check(&g, l, diag_new(a));
}

Axes joint_splitting(const Mesh *m) {
  Axes out = {0};
  for (int k = 0; k < m->naxes; k++)
    if (m->axis[k].size > 1) out.at[out.n++] = (uint8_t)k;
  return out;
}

// -- the table ------------------------------------------------------------------------------------

void joint_new(Joint *j, Arena *a, const SearchTask *t, SearchResult *r) {
  *j = (Joint){.task = t, .a = a, .result = r};
  space_dims(&j->space, a, t);
  space_sets(&j->space);
  j->slot = arena_array(a, Tried *, JOINT_SLOTS);
  j->alike = arena_array(a, Tried *, JOINT_SLOTS);
  for (uint32_t i = 0; i < t->npriced; i++) j->nodes += (double)graph_count(t->priced[i].graph);
  for (int64_t n = mesh_size(t->mesh); n > 0; n /= 2) j->work += WORK_A_DOUBLING;
  j->quick = j->work >= QUICK * j->nodes;
  joint_useful(j);
}

const LayoutScope joint_stages[STAGES] = {LAYOUT_OPTIMIZER, LAYOUT_GRADIENTS, LAYOUT_PARAMETERS};

void joint_enter(Joint *j, const Mesh *mesh, const Layout *layout, uint8_t family, TriedList *out) {
  Arena *scratch = arena_new();
  const char *key = key_of(j, scratch, mesh, layout);
  uint32_t at = (uint32_t)(fnv_text(key) >> 40) % JOINT_SLOTS;
  while (j->slot[at] && strcmp(j->slot[at]->key, key)) at = (at + 1) % JOINT_SLOTS;
  if (!j->slot[at] && j->all.n < JOINT_MOST && is_allowed(j, scratch, mesh, layout)) {
    Tried *c = j->slot[at] = arena_new_of(j->a, Tried);
    *c = (Tried){.key = arena_text(j->a, key, strlen(key)), .family = family};
    c->choice = (SearchChoice){.mesh = mesh, .layout.n = layout->n};
    if (layout->n)
      c->choice.layout.rule = arena_copy(j->a, layout->rule, layout->n * sizeof *layout->rule);
    vec_push(j->a, j->all) = c;
    vec_push(j->a, *out) = c;
  }
  arena_free(scratch);
}
