// Finds the cost of the step without each rule, without each layout(...), and with changed layouts.
// See what_if.h.
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/planner.h"
#include "frontend/report/what_if.h"

enum {
  COMPILED_BEST = 3,      // changed layouts that are compiled at most with WHAT_IF_BEST
  COMPILED_ALL = 26,      // with WHAT_IF_ALL
  NODES_COMPILED = 60000, // with WHAT_IF_BEST: nodes of all graphs that are compiled for it, about
  PAIRED = 6,             // the moves of which pairs are estimated
  MOST_CAUSES = 64        // rules and layout(...) that can be left out together: bits of a set
};

// What the functions of this file share.
typedef struct Asker {
  Session *s;
  Session quiet; // the session with messages of its own, which are not shown
  const Selected *of;
  Selected simple; // the same, but its graph has passed stage "simplify", which no layout changes
  WhatIfs *w;
} Asker;

static Asker asker_of(Session *s, const Selected *of, const Graph *simplified, WhatIfs *w) {
  Asker k = {.s = s, .quiet = *s, .of = of, .simple = *of, .w = w};
  k.simple.graph = simplified;
  k.quiet.diag = diag_new(s->arena);
  k.quiet.trial = true;
  return k;
}

// -- comparing ----------------------------------------------------------------------------------

enum { SAME_TIME = 1000000 }; // times that differ by less than this part of them count as equal

static bool slower(const Foreseen *now, const Foreseen *step) {
  return step->time->seconds > now->time->seconds * (1 + 1.0 / SAME_TIME);
}

bool what_if_worse(const Foreseen *now, const Foreseen *step) {
  return slower(now, step) || step->peak > now->peak;
}

bool what_if_helps(const Foreseen *now, const Foreseen *step) {
  bool faster = step->time->seconds < 0.998 * now->time->seconds,
       smaller = (double)step->peak < 0.99 * (double)now->peak;
  return (faster || smaller) && !what_if_worse(now, step);
}

bool what_if_equal(const Foreseen *now, const Foreseen *step) {
  return now->calls == step->calls && now->bytes == step->bytes && now->kept == step->kept &&
         now->work.flops == step->work.flops && now->peak == step->peak && !slower(now, step) &&
         !slower(step, now);
}

// -- without a rule, without a pin --------------------------------------------------------------

// Foresees the step under the mesh and layout of f->choice. `of` is k->of or the step without some
// layout(...).
static bool foresee(Asker *k, const Selected *of, Foreseen *f) {
  Session trial = k->quiet;
  trial.simplified = of == k->of && k->simple.graph;
  return foresee_step(&trial, trial.simplified ? &k->simple : of, f);
}

// Compiles the step under the layout. Sets x->known to whether the layout is valid.
static void ask(Asker *k, const Selected *of, const Graph *model, const Layout *layout, WhatIf *x) {
  x->step.choice = (SearchChoice){.mesh = &k->s->model->mesh, .layout = *layout};
  x->known = layout_check(model, layout, k->quiet.diag) && foresee(k, of, &x->step);
}

// Returns the layout of the model without rules: bit i of `gone` for rule i.
static Layout layout_without(const Session *s, uint64_t gone) {
  const Layout *from = &s->model->layout;
  Layout out = {.rule = arena_array(s->arena, LayoutRule, from->n + 1)};
  for (uint32_t i = 0; i < from->n; i++)
    if (i >= MOST_CAUSES || !(gone >> i & 1)) out.rule[out.n++] = from->rule[i];
  return out;
}

static void ask_without_rule(Asker *k, uint32_t i) {
  Arena *a = k->s->arena;
  const Layout *from = &k->s->model->layout;
  Layout layout = {.rule = arena_array(a, LayoutRule, from->n)};
  for (uint32_t r = 0; r < from->n; r++)
    if (r != i) layout.rule[layout.n++] = from->rule[r];
  k->w->without[i] =
      (WhatIf){.kind = "without", .text = layout_rule_text(a, &k->s->model->mesh, &from->rule[i])};
  ask(k, k->of, k->s->model->graph, &layout, &k->w->without[i]);
}

static bool same_place(Pos x, Pos y) {
  return x.line == y.line && x.col == y.col && x.source == y.source;
}

static void list_pins(Asker *k) {
  const Graph *g = k->s->model->graph;
  Arena *a = k->s->arena;
  VEC(PinPlace) list = {0};
  for (NodeId n = 1; n <= graph_count(g); n++) {
    Pos pos = graph_node(g, n)->origin->pos;
    bool seen = graph_node(g, n)->op != OP_PIN;
    for (uint32_t i = 0; i < list.n; i++) seen |= same_place(list.at[i].pos, pos);
    if (!seen)
      vec_push(a, list) = (PinPlace){pos, graph_node(g, n)->attr->axes,
                                     arena_printf(a, "layout(...) at line %u", pos.line)};
  }
  k->w->pin = list.at;
  k->w->npins = list.n;
}

// Gives session s the model without n layout(...), and selects the graph of it. Returns false after
// an error.
static bool select_without(Session *s, uint32_t n, const Pos *pin, Selected *of) {
  ModelOptions options = s->options;
  options.nunpinned = n;
  options.unpinned = pin;
  s->model = model_build(s->arena, s->names, s->diag, s->ast, &options);
  return s->model && (!train_counts_epochs(s->model) || train_resolve_epochs(s->model, 1)) &&
         session_select(s, of);
}

static void ask_without_pin(Asker *k, uint32_t pin) {
  Session trial = k->quiet;
  Selected of;
  WhatIf *x = &k->w->without[k->w->nrules + pin];
  *x = (WhatIf){.kind = "without", .text = k->w->pin[pin].text};
  if (select_without(&trial, 1, &k->w->pin[pin].pos, &of))
    ask(k, &of, trial.model->graph, &k->s->model->layout, x);
}

WhatIf what_if_without_several(Session *s, const Selected *of, const WhatIfs *w, uint64_t causes) {
  Asker k = asker_of(s, of, w->simplified, NULL);
  Session trial = k.quiet;
  Selected unpinned = *of;
  WhatIf x = {.kind = "without", .text = "several"};
  Layout layout = layout_without(s, causes);
  Pos pin[MOST_CAUSES];
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->npins && w->nrules + i < MOST_CAUSES; i++)
    if (causes >> (w->nrules + i) & 1) pin[n++] = w->pin[i].pos;
  if (!n || select_without(&trial, n, pin, &unpinned))
    ask(&k, n ? &unpinned : of, trial.model->graph, &layout, &x);
  return x;
}

// -- fewer processors ---------------------------------------------------------------------------

// Compiles the step with as many processors along the axis of `b` as there are blocks. With several
// axes it is not clear which of them is to be shorter.
static void ask_fewer(Asker *k, const IdleBlocks *b, WhatIf *x) {
  Arena *a = k->s->arena;
  Mesh *mesh = arena_new_of(a, Mesh);
  Graph model = *k->s->model->graph;
  *x = (WhatIf){.kind = "fewer"};
  if (b->axes.n != 1) return;
  *mesh = k->s->model->mesh;
  mesh->axis[b->axes.at[0]].size = b->used;
  model.mesh = mesh;
  x->text = arena_printf(a, "%s = %lld", mesh->axis[b->axes.at[0]].name, (long long)b->used);
  x->step.choice = (SearchChoice){.mesh = mesh, .layout = k->s->model->layout};
  x->known =
      layout_check(&model, &k->s->model->layout, k->quiet.diag) && foresee(k, k->of, &x->step);
}

static void ask_idle(Asker *k, const Compilation *made) {
  WhatIfs *w = k->w;
  w->idle = idle_blocks(k->s->arena, made->lowered, &w->nidle);
  w->fewer = arena_array(k->s->arena, WhatIf, w->nidle + 1);
  for (uint32_t i = 0; i < w->nidle; i++) ask_fewer(k, &w->idle[i], &w->fewer[i]);
}

// -- changed layouts ----------------------------------------------------------------------------

// A changed layout with its estimated cost.
typedef struct Candidate {
  const Move *move;
  LayoutCost cost;
} Candidate;

static int by_estimate(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  if (a->cost.seconds != b->cost.seconds) return a->cost.seconds < b->cost.seconds ? -1 : 1;
  return a->move < b->move ? -1 : a->move > b->move;
}

// Returns whether two layouts have the same estimated cost in every respect: they most probably
// place all values alike.
static bool same_cost(const LayoutCost *x, const LayoutCost *y) {
  return x->seconds == y->seconds && x->flops == y->flops && x->traffic == y->traffic &&
         x->wire == y->wire && x->memory == y->memory;
}

// Sorts the candidates by estimated cost, and drops those that cost the same as the present layout
// or as the candidate before them. Returns the number of those that remain.
static uint32_t sort_candidates(uint32_t n, Candidate *c, const LayoutCost *now) {
  uint32_t kept = 0;
  if (n) qsort(c, n, sizeof *c, by_estimate);
  for (uint32_t i = 0; i < n; i++)
    if (!same_cost(&c[i].cost, kept ? &c[kept - 1].cost : now) && !same_cost(&c[i].cost, now))
      c[kept++] = c[i];
  return kept;
}

static int by_time(const void *x, const void *y) {
  const WhatIf *a = x, *b = y;
  if (a->step.time->seconds != b->step.time->seconds)
    return a->step.time->seconds < b->step.time->seconds ? -1 : 1;
  return strcmp(a->text, b->text);
}

// Compiles the step under the layout of a move, unless that has been done.
static const WhatIf *try_move(Asker *k, const Move *m) {
  WhatIf *x = &k->w->tried[k->w->ntried];
  for (uint32_t i = 0; i < k->w->ntried; i++)
    if (!strcmp(k->w->tried[i].text, m->text)) return &k->w->tried[i];
  *x = (WhatIf){.kind = move_kinds[m->kind], .text = m->text};
  ask(k, k->of, k->s->model->graph, &m->layout, x);
  k->w->ntried += x->known;
  return x->known ? x : NULL;
}

// Two moves that add a rule each, and that make the step faster only together, by estimate.
typedef struct Pair {
  const Move *x, *y;
  Move both;
  double seconds;
} Pair;

// Sets *best to the pair of the lowest cost among the first candidates, of which each alone does
// not lower the cost `now`. Returns false if there is none.
static bool find_pair(Asker *k, const SearchTask *t, uint32_t n, const Candidate *c, double now,
                      Pair *best) {
  const Model *m = k->s->model;
  const Candidate *alone[PAIRED];
  uint32_t nalone = 0;
  best->seconds = 0.998 * now;
  best->x = NULL;
  for (uint32_t i = 0; i < n && nalone < PAIRED; i++)
    if (c[i].move->kind == MOVE_ADD && c[i].cost.seconds >= 0.998 * now) alone[nalone++] = &c[i];
  for (uint32_t i = 0; i < nalone; i++)
    for (uint32_t j = 0; j < i; j++) {
      Move both;
      if (!moves_join(k->s->arena, m->graph, &m->layout, alone[j]->move, alone[i]->move, &both))
        continue;
      double seconds = search_cost(t, &m->mesh, &both.layout).seconds;
      if (seconds < best->seconds) *best = (Pair){alone[j]->move, alone[i]->move, both, seconds};
    }
  return best->x != NULL;
}

// Compiles the step with both moves of a pair. Keeps the result only if each of the moves alone
// does not help.
static void try_pair(Asker *k, const Pair *p) {
  const Foreseen *now = &k->w->now;
  const WhatIf *x = try_move(k, p->x), *y = try_move(k, p->y);
  bool alone = (x && what_if_helps(now, &x->step)) || (y && what_if_helps(now, &y->step));
  if (!alone) (void)try_move(k, &p->both);
}

// Returns the number of changed layouts to compile at most.
static uint32_t most_compiled(const Asker *k, WhatIfDepth depth) {
  uint32_t fit = NODES_COMPILED / (graph_count(k->of->graph) + 1);
  if (depth == WHAT_IF_ALL) return COMPILED_ALL;
  return fit < 1 ? 1 : fit < COMPILED_BEST ? fit : COMPILED_BEST;
}

static void try_moves(Asker *k, const SearchTask *t, WhatIfDepth depth) {
  const Model *m = k->s->model;
  Arena *a = k->s->arena;
  Moves moves = moves_list(a, m->graph, &m->layout);
  LayoutCost now = search_cost(t, &m->mesh, &m->layout);
  uint32_t n = k->w->estimated = moves.move.n, most = most_compiled(k, depth);
  Candidate *c = arena_array(a, Candidate, n + 1);
  for (uint32_t i = 0; i < n; i++)
    c[i] = (Candidate){&moves.move.at[i], search_cost(t, &m->mesh, &moves.move.at[i].layout)};
  n = sort_candidates(n, c, &now);
  k->w->tried = arena_array(a, WhatIf, most + 4);
  // Estimates are coarse: a layout that costs little more than the present one may be faster.
  for (uint32_t i = 0; i < n && i < most; i++)
    if (depth == WHAT_IF_ALL || c[i].cost.seconds < 1.02 * now.seconds)
      (void)try_move(k, c[i].move);
  Pair pair;
  if (find_pair(k, t, n, c, now.seconds, &pair)) try_pair(k, &pair);
  if (k->w->ntried) qsort(k->w->tried, k->w->ntried, sizeof *k->w->tried, by_time);
}

// -- all of them --------------------------------------------------------------------------------

WhatIfs *what_ifs(Session *s, const Selected *of, const Compilation *made, WhatIfDepth depth) {
  WhatIfs *w = arena_new_of(s->arena, WhatIfs);
  Asker k = asker_of(s, of, made->simplified, w);
  SearchTask task;
  w->simplified = made->simplified;
  if (!foresee_made(s, made, &w->now)) return NULL;
  if (mesh_size(&s->model->mesh) < 2 || option_given(s->opt, OPTION_EXACT))
    depth = depth < WHAT_IF_RULES ? depth : WHAT_IF_RULES;
  if (depth >= WHAT_IF_PINS) list_pins(&k);
  w->nrules = s->model->layout.n;
  w->without = arena_array(s->arena, WhatIf, w->nrules + w->npins + 1);
  for (uint32_t i = 0; depth >= WHAT_IF_RULES && i < w->nrules; i++) ask_without_rule(&k, i);
  for (uint32_t i = 0; i < w->npins; i++) ask_without_pin(&k, i);
  if (depth >= WHAT_IF_BEST) ask_idle(&k, made);
  if (depth >= WHAT_IF_BEST && planner_task(&k.quiet, 1, &s->model->mesh, 1, &task))
    try_moves(&k, &task, depth);
  return w;
}
