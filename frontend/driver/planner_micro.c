// Tries micro-batches (`accumulate`) where the memory excludes layouts that would be faster than
// the best one, or all. Input: the result of a search with the micro-batches that the model has,
// one or more. Output: that result, with choices of more micro-batches added.
//
//   1. Candidates are the layouts whose program does not fit without recomputation and that would
//      otherwise take less time than the best choice, the fastest first.
//   2. For each the number of micro-batches is doubled, from 2, until the program fits without
//      recomputation. More micro-batches than that only take longer.
//   3. Half of that number is priced with recomputation, too: both save memory and cost time.
//
// The user's own number is kept, and micro-batches that would change what a step computes are not
// tried (frontend/step/micro_alike.c).
#include <math.h>
#include <string.h>

#include "frontend/driver/planner.h"
#include "frontend/driver/price.h"
#include "frontend/step/select_internal.h"

enum {
  CANDIDATES = 3,
  MOST_NODES = 100000, // of the graph of a step with all its micro-batches
  // Nodes of all graphs together that are compiled for prices, for each doubling of the number of
  // processors: as many as the search before compiles.
  WORK_A_DOUBLING = 18000
};
// If twice the micro-batches need more than this share of the memory, yet more do not help.
static const double HARDLY_LESS = 0.9;
// Recomputing the whole forward pass takes about a third of the time of a step.
static const double FORWARD = 1.0 / 3;

// A session of the model with `accumulate = n`, and the task of its prices.
typedef struct Divided {
  int64_t n;
  Session s;
  SearchTask task;
  double nodes; // of all samples: the work of one price
} Divided;

typedef struct Micro {
  Session *s;
  const SearchTask *task;
  SearchResult *found;
  VEC(Divided *) divided; // those that were made so far
  double work;            // nodes that may still be compiled
} Micro;

bool planner_accumulated(const Session *s, int64_t n, Session *out) {
  *out = *s;
  out->diag = diag_new(s->arena); // errors and warnings of the model have been reported
  out->options.accumulate = n;
  out->model = model_build(s->arena, s->names, out->diag, s->ast, &out->options);
  return out->model && (!train_counts_epochs(out->model) || train_resolve_epochs(out->model, 1));
}

static Divided *divided_new(const Micro *m, int64_t n) {
  Divided *d = arena_new_of(m->s->arena, Divided);
  *d = (Divided){.n = n, .task = *m->task};
  if (!planner_accumulated(m->s, n, &d->s) || !planner_prices(&d->s, &d->task)) d->n = 0;
  for (uint32_t i = 0; i < d->task.npriced; i++)
    d->nodes += (double)graph_count(d->task.priced[i].graph);
  return d;
}

// Returns the session with n micro-batches, or NULL if the model cannot be built so.
static Divided *divided(Micro *m, int64_t n) {
  for (uint32_t i = 0; i < m->divided.n; i++)
    if (m->divided.at[i]->n == n) return m->divided.at[i];
  Divided *d = divided_new(m, n);
  if (d->n) vec_push(m->s->arena, m->divided) = d;
  return d->n ? d : NULL;
}

// Returns the processors over which the layout splits the batch.
static int64_t batch_parts(const Session *s, const SearchChoice *c) {
  const Graph *g = s->model->graph;
  const char *batch = dim_get(g->dims, g->spec.data[DATA_TRAIN].over)->name;
  for (uint32_t i = 0; i < c->layout.n; i++) {
    const LayoutRule *r = &c->layout.rule[i];
    if (r->scope == LAYOUT_ALL && !r->soft && r->dim && !strcmp(r->dim, batch))
      return axes_size(c->mesh, r->axes);
  }
  return 1;
}

// Returns whether a step may have n micro-batches under the layout: they have the same number of
// rows, all processors have as many of them as of the whole batch, and the step is compiled in a
// few seconds.
static bool divides(const Micro *m, const SearchChoice *c, int64_t n) {
  const Session *s = m->s;
  const Graph *g = s->model->graph;
  const Selected *of = &((const Pricer *)m->task->pricer)->of;
  if ((double)n * graph_count(of->graph) > MOST_NODES) return false;
  int64_t rows = dim_get(g->dims, g->spec.data[DATA_TRAIN].over)->size, parts = batch_parts(s, c);
  return rows % n == 0 && (rows / n % parts == 0 || rows % parts != 0);
}

// Prices a layout with n micro-batches. hint: as for price_layout. Returns false if it cannot be
// compiled, or if no work is left for it.
static bool price(Micro *m, const SearchChoice *from, int64_t n, SearchHint hint,
                  SearchChoice *out) {
  Divided *d = divided(m, n);
  if (!d || m->work < d->nodes) return false;
  *out = *from;
  out->accumulate = n;
  bool made = price_layout(d->task.pricer, from->mesh, &from->layout, hint, &out->price);
  m->work -= d->nodes * out->price.programs;
  m->found->ndivided += made;
  return made;
}

static void add_choice(Micro *m, const SearchChoice *c) {
  SearchResult *r = m->found;
  SearchChoice *at = arena_array(m->s->arena, SearchChoice, r->n + 1);
  uint32_t n = 0, i = 0;
  if (c->price.peak > m->task->memory) {
    if (!r->n && c->price.peak < r->smallest.price.peak) r->smallest = *c;
    return;
  }
  while (i < r->n && !planner_better(m->task, c, &r->at[i])) at[n++] = r->at[i++];
  at[n++] = *c;
  while (i < r->n) at[n++] = r->at[i++];
  r->at = at;
  r->n = n < m->task->keep ? n : m->task->keep;
}

// Returns the seconds of the best choice so far.
static double best_seconds(const Micro *m) {
  return m->found->n ? m->found->at[0].price.seconds : (double)INFINITY;
}

// Tries a layout with 2, 4, 8 ... micro-batches.
static void try_layout(Micro *m, const SearchChoice *from) {
  SearchChoice before = *from, c;
  bool fits = false;
  int64_t n = 2;
  for (; !fits && divides(m, from, n); n *= 2) {
    if (!price(m, from, n, (SearchHint){.as_is = true}, &c)) break;
    fits = c.price.peak <= m->task->memory;
    if (fits) add_choice(m, &c);
    bool hopeless = n > 2 && c.price.peak > HARDLY_LESS * before.price.peak;
    if (fits || hopeless) break;
    before = c;
  }
  if (before.accumulate && before.price.seconds < best_seconds(m) &&
      price(m, from, before.accumulate, (SearchHint){.over = true}, &c))
    add_choice(m, &c);
}

// Returns the seconds that a priced choice takes without recomputation, or about that.
static double unlimited(const SearchPrice *p) {
  return p->unlimited > 0 ? p->unlimited : p->seconds / (1 + FORWARD * p->again);
}

static bool is_excluded(const SearchTask *t, const SearchChoice *c) {
  return c->price.again > 0 || c->price.peak > t->memory;
}

// Returns the priced layout that memory excludes with the least time without recomputation, among
// those that take more time than `after`; NULL if there is none that takes less than the best.
static const SearchChoice *next_candidate(const Micro *m, const SearchChoice *after) {
  const SearchResult *r = m->found;
  double most = best_seconds(m);
  const SearchChoice *best = NULL;
  for (uint32_t i = 0; i < r->npriced; i++) {
    const SearchChoice *c = &r->priced[i];
    double seconds = unlimited(&c->price);
    if (!is_excluded(m->task, c) || seconds >= most || !divides(m, c, 2)) continue;
    if (after && seconds <= unlimited(&after->price)) continue;
    if (!best || seconds < unlimited(&best->price)) best = c;
  }
  return best;
}

static bool may_divide(const Session *s, const SearchTask *t, const SearchResult *r) {
  const ModelSpec *spec = &s->model->graph->spec;
  bool any = false;
  for (uint32_t i = 0; i < r->npriced && !any; i++) any = is_excluded(t, &r->priced[i]);
  return any && spec->ntrain && !spec->train[0].accumulate && !spec->train[0].sync &&
         !strcmp(((const Pricer *)t->pricer)->of.purpose, "train") && micro_batches_alike(s->model);
}

void planner_divide(Session *s, const SearchTask *t, SearchResult *r) {
  Micro m = {.s = s, .task = t, .found = r};
  const SearchChoice *c = NULL;
  if (!may_divide(s, t, r)) return;
  for (int64_t n = mesh_size(t->mesh); n > 0; n /= 2) m.work += WORK_A_DOUBLING;
  for (int i = 0; i < CANDIDATES && (c = next_candidate(&m, c)); i++) try_layout(&m, c);
}
