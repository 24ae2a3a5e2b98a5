// Finds layouts with one further rule under which a step fits into the memory, and the cost of each
// by compiling it. See memory_remedies.h.
#include "frontend/driver/memory_remedies.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/driver/foresee.h"
#include "frontend/driver/memory_peak.h"

enum {
  MOST_VALUES = 3,   // groups of values that are named
  MOST_WAYS = 3,     // layouts that are named
  MOST_RULES = 12,   // rules that are tried at once
  MOST_ADDED = 3,    // rules that are added to a layout
  MOST_NODES = 10000 // operations of a step for which layouts are tried: each is a compile
};

// A step with one further rule.
typedef struct Way {
  Foreseen at;
  bool budget; // it fits with rematerialised values only
} Way;

typedef struct Ways {
  Session trial; // compiles without a budget
  Selected of;
  Layout from; // the rules to which one is added
  double most;
  uint32_t n;
  Way way[MOST_RULES];
} Ways;

void memory_note_values(Session *s, const Compilation *c) {
  Timeline t = memory_timeline(s->arena, c);
  if (!t.ngroups || !t.group[0].bytes) return;
  diag_note(s->diag, (Pos){0},
            "at the peak, instruction %u of %u, the work arena has %s; beside it %s", t.peak, t.n,
            bytes_text(s->arena, t.live[t.peak]), bytes_text(s->arena, t.persistent));
  for (uint32_t i = 0; i < t.ngroups && i < MOST_VALUES; i++)
    diag_note(s->diag, (Pos){0}, "%s", peak_group_text(s->arena, &t.group[i]));
}

// -- rules that may help ------------------------------------------------------------------------

static bool has_rule(const Layout *l, const LayoutRule *r) {
  for (uint32_t i = 0; i < l->n; i++)
    if (l->rule[i].scope == r->scope && l->rule[i].dim == r->dim) return true;
  return false;
}

// Compiles the step with the rules of w->from and rule r. Keeps the result if the rule is valid.
static void try_rule(Ways *w, const LayoutRule *r) {
  const Graph *g = w->of.graph;
  Arena *a = w->trial.arena;
  Way *way = &w->way[w->n];
  if (w->n == MOST_RULES || has_rule(&w->from, r)) return;
  Layout l = {w->from.n + 1, arena_array(a, LayoutRule, w->from.n + 1)};
  if (w->from.n) memcpy(l.rule, w->from.rule, w->from.n * sizeof *l.rule);
  l.rule[w->from.n] = *r;
  w->trial.diag = diag_new(a);
  *way = (Way){.at = {.choice = {.mesh = g->mesh, .layout = l}}};
  if (layout_check(g, &l, w->trial.diag) && foresee_step(&w->trial, &w->of, &way->at)) w->n++;
}

// Tries to split, over axis k, the tensors of optimizer and parameters, and the dims of the largest
// value at the peak.
static void try_axis(Ways *w, const Compilation *c, const Timeline *t, int k) {
  static const LayoutScope scopes[] = {LAYOUT_OPTIMIZER, LAYOUT_PARAMETERS};
  const Graph *g = w->of.graph;
  Axes axes = {1, {(uint8_t)k}};
  if (g->mesh->axis[k].size < 2) return;
  for (size_t i = 0; i < countof(scopes) && c->partition.parameter_bytes; i++)
    try_rule(w, &(LayoutRule){.scope = scopes[i], .axes = axes});
  const PlanBuffer *largest = t->nalive ? t->alive[0] : NULL;
  if (!largest || !largest->node) return;
  const Dims *dims = &graph_node(c->fusion->graph, largest->node)->dims;
  for (int i = 0; i < dims->n; i++) {
    const Dim *d = dim_get(c->fusion->graph->dims, dims->at[i]);
    const Dim *whole = dim_get(c->fusion->graph->dims, d->whole);
    if (!d->axes.n && whole->size >= g->mesh->axis[k].size)
      try_rule(w, &(LayoutRule){.dim = whole->name, .axes = axes});
  }
}

// -- the ways out -------------------------------------------------------------------------------

static int by_time(const void *x, const void *y) {
  const Way *a = x, *b = y;
  double s = a->at.time->seconds, t = b->at.time->seconds;
  return s != t ? (s < t ? -1 : 1) : a->at.peak < b->at.peak ? -1 : a->at.peak > b->at.peak;
}

// Drops the ways that do not fit. If none fits, *least gets the one that needs least.
static void keep_fitting(Ways *w, Way *least) {
  uint32_t kept = 0;
  *least = w->way[0];
  for (uint32_t i = 0; i < w->n; i++) {
    if (w->way[i].at.peak < least->at.peak) *least = w->way[i];
    if ((double)w->way[i].at.peak <= w->most) w->way[kept++] = w->way[i];
  }
  if (kept) qsort(w->way, kept, sizeof *w->way, by_time);
  w->n = kept;
}

// Finds the ways that fit with one further rule. If none does, adds rules one by one to the layout
// that needs least, and at last compiles it with the budget.
static void find_ways(Ways *w, const Compilation *c) {
  Timeline t = memory_timeline(w->trial.arena, c);
  Way least = {.at = {.peak = program_bytes(c->compiled->program)}};
  bool found = false;
  for (int round = 0; round < MOST_ADDED && !w->n; round++) {
    Way next;
    for (int k = 0; k < c->selected->mesh->naxes; k++) try_axis(w, c, &t, k);
    if (!w->n) break;
    keep_fitting(w, &next);
    if (found && next.at.peak >= least.at.peak) break;
    least = next;
    found = true;
    w->from = least.at.choice.layout;
  }
  if (w->n || !found) return;
  w->trial.budget = w->most;
  least.budget = true;
  if (foresee_step(&w->trial, &w->of, &least.at)) w->way[w->n++] = least;
}

static double seconds_without_budget(Session *s, const Compilation *c) {
  const Program *p = c->compiled->program;
  Session trial = *s;
  Selected of = {c->selected, p->for_, p->over};
  Foreseen f = {.choice = {.mesh = of.graph->mesh, .layout = of.graph->layout}};
  trial.budget = NO_BUDGET;
  trial.diag = diag_new(s->arena);
  return foresee_step(&trial, &of, &f) ? f.time->seconds : 0;
}

// Returns a time as text, with what it has more than `base`, a time of the same step.
static const char *time_text(Arena *a, double seconds, double base) {
  if (base <= 0) return arena_printf(a, "step %s", seconds_text(a, seconds));
  return arena_printf(a, "step %s (%s)", seconds_text(a, seconds),
                      percent_change_text(a, seconds, base));
}

const char *memory_cost(Session *s, const Compilation *c) {
  if (!c->simplified || graph_count(c->simplified) > MOST_NODES) return "";
  return time_text(s->arena, predicted_seconds(s, c), seconds_without_budget(s, c));
}

static void note_way(Session *s, const Ways *w, const Way *way, double base) {
  const Foreseen *f = &way->at;
  bool fits = (double)f->peak <= w->most;
  diag_note(s->diag, (Pos){0}, "--layout \"%s\" %s %s%s, %s",
            layout_option(s->arena, f->choice.mesh, &f->choice.layout),
            fits ? "fits: peak" : "does not fit either: peak", bytes_text(s->arena, f->peak),
            way->budget && fits && f->again ? " with values rematerialised" : "",
            time_text(s->arena, f->time->seconds, base));
}

void memory_note_layouts(Session *s, const Compilation *c, double most) {
  const Program *p = c->compiled->program;
  if (!c->simplified || graph_count(c->simplified) > MOST_NODES || !c->selected->mesh) return;
  Ways w = {.trial = *s, .of = {c->selected, p->for_, p->over}, .most = most};
  w.from = c->selected->layout;
  w.trial.budget = NO_BUDGET;
  find_ways(&w, c);
  double base = w.n ? seconds_without_budget(s, c) : 0;
  for (uint32_t i = 0; i < w.n && i < MOST_WAYS; i++) note_way(s, &w, &w.way[i], base);
}
