// Chooses by estimate which changed layouts are compiled: the questions of the what-ifs about
// layouts that differ from the present one in a rule or two. See what_if_internal.h.
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/planner.h"
#include "frontend/report/what_if_internal.h"

enum {
  COMPILED_BEST = 3,      // changed layouts that are compiled at most with WHAT_IF_BEST
  COMPILED_ALL = 26,      // with WHAT_IF_ALL
  NODES_COMPILED = 60000, // with WHAT_IF_BEST: nodes of all graphs that are compiled for it, about
  PAIRED = 6,             // the moves of which pairs are estimated
  OF_PAIR = 3             // questions about a pair
};

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

// -- pairs --------------------------------------------------------------------------------------

// Sets *best to the pair of the lowest cost among the first candidates, of which each alone does
// not lower the cost `now`. Returns false if there is none.
static bool find_pair(const MovesJob *m, const Graph *g, uint32_t n, const Candidate *c, double now,
                      Pair *best) {
  const Model *model = m->k->s->model;
  const Candidate *alone[PAIRED];
  uint32_t nalone = 0;
  *best = (Pair){.seconds = 0.998 * now};
  for (uint32_t i = 0; i < n && nalone < PAIRED; i++)
    if (c[i].move->kind == MOVE_ADD && c[i].cost.seconds >= 0.998 * now) alone[nalone++] = &c[i];
  for (uint32_t i = 0; i < nalone; i++)
    for (uint32_t j = 0; j < i; j++) {
      Move both;
      if (!moves_join(m->arena, g, &model->layout, alone[j]->move, alone[i]->move, &both)) continue;
      double seconds = search_cost(&m->task, &model->mesh, &both.layout).seconds;
      if (seconds < best->seconds)
        *best = (Pair){.x = alone[j]->move, .y = alone[i]->move, .both = both, .seconds = seconds};
    }
  return best->x != NULL;
}

// -- asking -------------------------------------------------------------------------------------

// Returns the question about the layout of a move. It is not asked yet, unless it has been before.
static Question *question_of(MovesJob *m, const Move *move) {
  for (uint32_t i = 0; i < m->n; i++)
    if (!strcmp(m->question[i].x->text, move->text)) return &m->question[i];
  Question *q = &m->question[m->n++];
  q->mesh = &m->k->s->model->mesh;
  q->layout = move->layout;
  *q->x = (WhatIf){.kind = move_kinds[move->kind], .text = move->text};
  return q;
}

// Prepares the questions about a pair. Those about its moves may be among the others.
static void prepare_pair(MovesJob *m, Pair *p) {
  p->alone[0] = question_of(m, p->x);
  p->alone[1] = question_of(m, p->y);
  p->alone[0]->pair = p->alone[1]->pair = p;
  uint32_t before = m->n;
  p->together = question_of(m, &p->both);
  if (m->n == before) p->together = NULL; // it is asked in any case
  atomic_init(&p->left, 2);
}

static void ask_best(void *mover) {
  MovesJob *m = mover;
  const Model *model = m->k->s->model;
  Arena *a = m->arena;
  Graph g = graph_with_dims(a, model->graph, dim_table_whole(a, model->graph->dims));
  Moves moves = moves_list(a, &g, &model->layout);
  LayoutCost now = search_cost(&m->task, &model->mesh, &model->layout);
  uint32_t n = m->k->w->estimated = moves.move.n;
  Candidate *c = arena_array(a, Candidate, n + 1);
  for (uint32_t i = 0; i < n; i++)
    c[i] = (Candidate){&moves.move.at[i],
                       search_cost(&m->task, &model->mesh, &moves.move.at[i].layout)};
  n = sort_candidates(n, c, &now);
  // Estimates are coarse: a layout that costs little more than the present one may be faster.
  for (uint32_t i = 0; i < n && i < m->most; i++)
    if (m->depth == WHAT_IF_ALL || c[i].cost.seconds < 1.02 * now.seconds)
      (void)question_of(m, c[i].move);
  Pair *p = arena_new_of(a, Pair);
  if (find_pair(m, &g, n, c, now.seconds, p)) prepare_pair(m, p);
  for (uint32_t i = 0; i < m->n; i++)
    if (&m->question[i] != p->together) what_if_ask(&m->question[i]);
}

// Returns the number of changed layouts to compile at most.
static uint32_t most_compiled(const Asker *k, WhatIfDepth depth) {
  uint32_t fit = NODES_COMPILED / (graph_count(k->of->graph) + 1);
  if (depth == WHAT_IF_ALL) return COMPILED_ALL;
  return fit < 1 ? 1 : fit < COMPILED_BEST ? fit : COMPILED_BEST;
}

MovesJob *what_if_moves(Asker *k, WhatIfDepth depth) {
  Arena *a = k->s->arena;
  MovesJob *m = arena_new_of(a, MovesJob);
  *m = (MovesJob){.k = k, .quiet = *k->s, .depth = depth, .most = most_compiled(k, depth)};
  m->quiet.diag = diag_new(a);
  m->quiet.trial = true;
  if (!planner_task(&m->quiet, 1, &k->s->model->mesh, 1, &m->task)) return NULL;
  m->arena = what_if_arena(k);
  m->question = arena_array(a, Question, m->most + OF_PAIR);
  for (uint32_t i = 0; i < m->most + OF_PAIR; i++)
    m->question[i] = (Question){.k = k, .arena = what_if_arena(k), .x = arena_new_of(a, WhatIf)};
  m->job = (Job){.work = ask_best, .context = m};
  jobs_add(k->jobs, &m->job);
  return m;
}

static int by_time(const void *x, const void *y) {
  const WhatIf *a = x, *b = y;
  if (a->step.time->seconds != b->step.time->seconds)
    return a->step.time->seconds < b->step.time->seconds ? -1 : 1;
  return strcmp(a->text, b->text);
}

void what_if_tried(Asker *k, const MovesJob *m) {
  WhatIfs *w = k->w;
  w->tried = arena_array(k->s->arena, WhatIf, m->n + 1);
  for (uint32_t i = 0; i < m->n; i++)
    if (m->question[i].x->known) w->tried[w->ntried++] = *m->question[i].x;
  if (w->ntried) qsort(w->tried, w->ntried, sizeof *w->tried, by_time);
}
