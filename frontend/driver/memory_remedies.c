// Finds layouts with one further rule, and numbers of micro-batches, with which a step fits into
// the memory, and the cost of each by compiling it. See memory_remedies.h.
#include "frontend/driver/memory_remedies.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/driver/memory_peak.h"
#include "frontend/driver/planner.h"

enum {
  MOST_VALUES = 3,     // groups of values that are named
  MOST_LAYOUTS = 3,    // layouts that are named
  MOST_RULES = 12,     // rules that are tried at once
  MOST_ADDED = 3,      // rules that are added to a layout
  MOST_NODES = 10000,  // operations of a step for which ways are tried: each is a compile
  MOST_DIVIDED = 20000 // operations of a step with all its micro-batches, about
};

typedef struct Finder {
  Session trial; // compiles without a budget
  Selected of;
  Layout from; // the rules to which one is added
  double most;
  uint32_t n;
  MemoryWay way[MOST_RULES];
} Finder;

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
static void try_rule(Finder *w, const LayoutRule *r) {
  const Graph *g = w->of.graph;
  Arena *a = w->trial.arena;
  MemoryWay *way = &w->way[w->n];
  if (w->n == MOST_RULES || has_rule(&w->from, r)) return;
  Layout l = {w->from.n + 1, arena_array(a, LayoutRule, w->from.n + 1)};
  if (w->from.n) memcpy(l.rule, w->from.rule, w->from.n * sizeof *l.rule);
  l.rule[w->from.n] = *r;
  w->trial.diag = diag_new(a);
  *way = (MemoryWay){.at = {.choice = {.mesh = g->mesh, .layout = l}}};
  way->option = arena_printf(a, "--layout \"%s\"", layout_option(a, g->mesh, &l));
  if (layout_check(g, &l, w->trial.diag) && foresee_step(&w->trial, &w->of, &way->at)) w->n++;
}

// Tries to split, over axis k, the tensors of optimizer and parameters, and the dims of the largest
// value at the peak.
static void try_axis(Finder *w, const Compilation *c, const Timeline *t, int k) {
  static const LayoutScope scopes[] = {LAYOUT_OPTIMIZER, LAYOUT_PARAMETERS};
  const Graph *g = w->of.graph;
  Axes axes = {1, {(uint8_t)k}};
  if (g->mesh->axis[k].size < 2) return;
  for (size_t i = 0; i < countof(scopes) && c->partition.parameter_bytes; i++)
    try_rule(w, &(LayoutRule){.scope = scopes[i], .axes = axes});
  const PlanBuffer *largest = t->nalive ? t->alive[0] : NULL;
  if (!largest || !largest->node) return;
  const Dims *dims = graph_node(c->fusion->graph, largest->node)->dims;
  for (int i = 0; i < dims->n; i++) {
    const Dim *d = dim_get(c->fusion->graph->dims, dims->at[i]);
    const Dim *whole = dim_get(c->fusion->graph->dims, d->whole);
    if (!d->axes.n && whole->size >= g->mesh->axis[k].size)
      try_rule(w, &(LayoutRule){.dim = whole->name, .axes = axes});
  }
}

// -- the ways out -------------------------------------------------------------------------------

static int by_time(const void *x, const void *y) {
  const MemoryWay *a = x, *b = y;
  double s = a->at.time->seconds, t = b->at.time->seconds;
  return s != t ? (s < t ? -1 : 1) : a->at.peak < b->at.peak ? -1 : a->at.peak > b->at.peak;
}

static bool fits(const MemoryWay *way, double most) { return (double)way->at.peak <= most; }

// Drops the ways that do not fit. If none fits, *least gets the one that needs least.
static void keep_fitting(Finder *w, MemoryWay *least) {
  uint32_t kept = 0;
  *least = w->way[0];
  for (uint32_t i = 0; i < w->n; i++) {
    if (w->way[i].at.peak < least->at.peak) *least = w->way[i];
    if (fits(&w->way[i], w->most)) w->way[kept++] = w->way[i];
  }
  if (kept) qsort(w->way, kept, sizeof *w->way, by_time);
  w->n = kept;
}

// Compiles the step of a way with the limit as its budget.
static bool limit(Finder *w, const Selected *of, MemoryWay *way) {
  Session trial = w->trial;
  trial.budget = w->most;
  way->limited = true;
  return foresee_step(&trial, of, &way->at);
}

// Finds the layouts that fit with one further rule. If none does, adds rules one by one to the
// layout that needs least, and at last compiles it with the budget.
static void find_layouts(Finder *w, const Compilation *c) {
  Timeline t = memory_timeline(w->trial.arena, c);
  MemoryWay least = {.at = {.peak = program_bytes(c->compiled->program)}};
  bool found = false;
  for (int round = 0; round < MOST_ADDED && !w->n; round++) {
    MemoryWay next;
    for (int k = 0; k < c->selected->mesh->naxes; k++) try_axis(w, c, &t, k);
    if (!w->n) break;
    keep_fitting(w, &next);
    if (found && next.at.peak >= least.at.peak) break;
    least = next;
    found = true;
    w->from = least.at.choice.layout;
  }
  if (!w->n && found && limit(w, &w->of, &least)) w->way[w->n++] = least;
}

// Compiles the step with n micro-batches, without a budget. Returns whether that is possible.
static bool try_micro_batches(Finder *w, int64_t n, Session *divided, Selected *of,
                              MemoryWay *way) {
  Arena *a = w->trial.arena;
  const Graph *g = w->of.graph;
  *way = (MemoryWay){.micro_batches = n,
                     .at = {.choice = {.mesh = g->mesh, .layout = g->layout, .accumulate = n}}};
  way->option = arena_printf(a, "--set train.accumulate=%lld", (long long)n);
  return planner_accumulated(&w->trial, n, divided) && session_select(divided, of) &&
         foresee_step(divided, of, &way->at);
}

// Finds the first number of micro-batches with which the step fits without a budget: numbers that
// divide the rows, each at least 1.5 times the one before. If there is none, tries those that need
// least with the limit as their budget. Returns whether one fits.
static bool find_micro_batches(Finder *w, MemoryWay *out) {
  Session divided;
  Selected of, of_least = {0};
  MemoryWay next;
  const Graph *g = w->of.graph;
  const SearchChoice now = {.mesh = g->mesh, .layout = g->layout};
  const int64_t most = MOST_DIVIDED / graph_count(g);
  int64_t n = 1;
  out->at.peak = INT64_MAX;
  if (!planner_step_divides(&w->trial, w->of.purpose)) return false;
  while ((n = planner_next_number(&w->trial, &now, n, most)) &&
         try_micro_batches(w, n, &divided, &of, &next)) {
    if (next.at.peak >= out->at.peak) break; // parameters, which micro-batches do not divide
    *out = next;
    of_least = of;
    if (fits(out, w->most)) return true;
  }
  return of_least.graph && limit(w, &of_least, out) && fits(out, w->most);
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

const MemoryWays *memory_ways(Session *s, const Compilation *c, double most) {
  const Program *p = c->compiled->program;
  if (!c->simplified || graph_count(c->simplified) > MOST_NODES || !c->selected->mesh) return NULL;
  Finder w = {.trial = *s, .of = {c->selected, p->for_, p->over}, .most = most};
  MemoryWays *out = arena_new_of(s->arena, MemoryWays);
  MemoryWay divided;
  w.from = c->selected->layout;
  w.trial.budget = NO_BUDGET;
  w.trial.diag = diag_new(s->arena);
  *out = (MemoryWays){.most = most,
                      .seconds = predicted_seconds(s, c),
                      .unlimited = seconds_without_budget(s, c),
                      .way = arena_array(s->arena, MemoryWay, MOST_LAYOUTS + 1)};
  find_layouts(&w, c);
  for (; out->n < w.n && out->n < MOST_LAYOUTS; out->n++) out->way[out->n] = w.way[out->n];
  if (!find_micro_batches(&w, &divided)) return out;
  if (out->n && !fits(&out->way[0], most)) out->n = 0;
  out->way[out->n++] = divided;
  qsort(out->way, out->n, sizeof *out->way, by_time);
  return out;
}

// -- text -----------------------------------------------------------------------------------------

// Returns a time as text, with what it has more than `base`, a time of the same step.
static const char *time_text(Arena *a, double seconds, double base) {
  if (base <= 0) return arena_printf(a, "step %s", seconds_text(a, seconds));
  return arena_printf(a, "step %s (%s)", seconds_text(a, seconds),
                      percent_change_text(a, seconds, base));
}

const char *memory_cost(Session *s, const MemoryWays *w) {
  return w ? time_text(s->arena, w->seconds, w->unlimited) : "";
}

void memory_note_ways(Session *s, const MemoryWays *w) {
  for (uint32_t i = 0; w && i < w->n; i++) {
    const Foreseen *f = &w->way[i].at;
    bool enough = fits(&w->way[i], w->most);
    diag_note(s->diag, (Pos){0}, "%s %s %s%s, %s", w->way[i].option,
              enough ? "fits: peak" : "does not fit either: peak", bytes_text(s->arena, f->peak),
              enough && f->again ? " with values rematerialised" : "",
              time_text(s->arena, f->time->seconds, w->unlimited));
  }
}
