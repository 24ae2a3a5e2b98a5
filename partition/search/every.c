// All choices of the joint search's space, where it is small enough to price them all, and those in
// which each rule has all axes.
#include <math.h>

#include "partition/search/choices_internal.h"

double joint_count(const Joint *j) {
  double all = 0, of_an_axis = (double)j->space.nsets * (1 + j->space.ndims);
  if (!j->space.complete) return (double)INFINITY;
  for (uint32_t i = 0; i < j->task->nmeshes; i++) {
    int naxes = joint_splitting(&j->task->mesh[i]).n;
    all += pow(of_an_axis, naxes) * (1 + STAGES * ((1 << naxes) - 1));
  }
  return all;
}

// What the functions that list the choices of one mesh share.
typedef struct Every {
  Joint *j;
  Arena *a; // of layouts that are tried
  const Mesh *mesh;
  Axes axes; // of the mesh, those that can split something
  TriedList *out;
} Every;

static void add(const Every *e, const Layout *l) { joint_enter(e->j, e->mesh, l, 0, e->out); }

// Returns the layout `l` whose rule with the target of `rule` has the axis, too, behind `before` of
// the axes that it has.
static Layout with_axis(const Every *e, const Layout *l, LayoutRule rule, int axis, int before) {
  Axes has = joint_axes(l, &rule);
  for (int i = 0; i <= has.n; i++)
    rule.axes.at[i] = i == before ? (uint8_t)axis : has.at[i < before ? i : i - 1];
  rule.axes.n = has.n + 1;
  return joint_with(e->j, e->a, l, &rule);
}

static void add_stages(const Every *e, const Layout *l) {
  add(e, l);
  for (int i = 0; i < STAGES; i++)
    for (unsigned set = 1; set < 1u << e->axes.n; set++) {
      LayoutRule r = {.scope = joint_stages[i]};
      for (int k = 0; k < e->axes.n; k++)
        if (set >> k & 1) r.axes.at[r.axes.n++] = e->axes.at[k];
      Layout with = joint_with(e->j, e->a, l, &r);
      add(e, &with);
    }
}

static void add_axes(const Every *e, int nth, const Layout *l);

// Gives axis number `nth` of e->axes to the n rules, at each place among the axes that a rule has
// in layout `l`, and goes on with the axes after it.
static void add_rules(const Every *e, int nth, uint32_t n, const LayoutRule *rule,
                      const Layout *l) {
  if (!n) {
    add_axes(e, nth + 1, l);
    return;
  }
  for (int before = joint_axes(l, rule).n; before >= 0; before--) {
    Layout with = with_axis(e, l, *rule, e->axes.at[nth], before);
    add_rules(e, nth, n - 1, rule + 1, &with);
  }
}

// Sets out[0..] to rules for the dims in `set` and a soft rule for dim `soft` (ndims: none),
// without axes, and returns their number.
static uint32_t rules_for(const Space *s, DimSet set, uint32_t soft, LayoutRule *out) {
  uint32_t n = 0;
  for (uint32_t d = 0; d < s->ndims; d++)
    if (set >> d & 1) out[n++] = (LayoutRule){.dim = s->dim[d]->name};
  if (soft < s->ndims) out[n++] = (LayoutRule){.dim = s->dim[soft]->name, .soft = true};
  return n;
}

// Adds all choices in which the axes before number `nth` have the dims and the soft dims that
// layout `l` gives them.
static void add_axes(const Every *e, int nth, const Layout *l) {
  const Space *s = &e->j->space;
  LayoutRule rule[MAX_DIMS + 1];
  if (nth == e->axes.n) {
    add_stages(e, l);
    return;
  }
  for (uint32_t set = 0; set < s->nsets; set++)
    for (uint32_t soft = 0; soft <= s->ndims; soft++)
      add_rules(e, nth, rules_for(s, s->set[set], soft, rule), rule, l);
}

// Adds the choices in which the rules for the dims in `set` and a soft rule for dim `soft` (ndims:
// none) have all axes of the mesh, in their order; with each stage of ZeRO.
static void add_whole(const Every *e, DimSet set, uint32_t soft) {
  LayoutRule rule[MAX_DIMS + 2];
  for (int stage = 0; stage <= STAGES; stage++) {
    Layout l = {rules_for(&e->j->space, set, soft, rule), rule};
    if (stage) rule[l.n++] = (LayoutRule){.scope = joint_stages[stage - 1]};
    for (uint32_t i = 0; i < l.n; i++) rule[i].axes = e->axes;
    add(e, &l);
  }
}

// Returns whether each dim of the set changes the cost of a step if an axis splits it.
static bool is_useful(const Joint *j, DimSet set) { return !(set & ~j->useful); }

static void add_all_whole(const Every *e) {
  const Joint *j = e->j;
  const Space *s = &j->space;
  for (uint32_t set = 0; set < s->nsets; set++)
    for (uint32_t soft = 0; is_useful(j, s->set[set]) && soft <= s->ndims; soft++)
      if (soft == s->ndims || j->useful_soft >> soft & 1) add_whole(e, s->set[set], soft);
}

double joint_whole_count(const Joint *j) {
  double sets = 0, soft = 1, meshes = 0;
  for (uint32_t set = 0; set < j->space.nsets; set++) sets += is_useful(j, j->space.set[set]);
  for (uint32_t d = 0; d < j->space.ndims; d++) soft += j->useful_soft >> d & 1;
  for (uint32_t i = 0; i < j->task->nmeshes; i++)
    meshes += joint_splitting(&j->task->mesh[i]).n > 1;
  return meshes * sets * soft * (1 + STAGES);
}

void joint_whole(Joint *j, TriedList *out) {
  Every e = {.j = j, .a = arena_new(), .out = out};
  for (uint32_t i = 0; i < j->task->nmeshes; i++) {
    e.mesh = &j->task->mesh[i];
    e.axes = joint_splitting(e.mesh);
    if (e.axes.n > 1) add_all_whole(&e);
  }
  arena_free(e.a);
}

void joint_every(Joint *j, TriedList *out) {
  Every e = {.j = j, .a = arena_new(), .out = out};
  for (uint32_t i = 0; i < j->task->nmeshes; i++) {
    e.mesh = &j->task->mesh[i];
    e.axes = joint_splitting(e.mesh);
    add_axes(&e, 0, &(Layout){0});
  }
  arena_free(e.a);
}
