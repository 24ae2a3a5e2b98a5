// Builds a model with micro-batches (`accumulate`), and prices its layouts. The user's own number
// is kept, and micro-batches that would change what a step computes are not tried
// (frontend/step/micro_alike.c).
#include <math.h>
#include <string.h>

#include "frontend/driver/planner_micro_internal.h"
#include "frontend/step/select_internal.h"

enum { MOST_NODES = 400000 }; // of the graph of a step with all its micro-batches

// A session of the model with `accumulate = n`, and the task of its prices.
struct Divided {
  int64_t n;
  Session s;
  SearchTask task;
  double nodes; // of all samples: the work of one price
};

bool planner_accumulated(const Session *s, int64_t n, Session *out) {
  *out = *s;
  out->diag = diag_new(s->arena); // errors and warnings of the model have been reported
  out->options.accumulate = n;
  out->model = model_build(s->arena, s->names, out->diag, s->ast, &out->options);
  return out->model && (!train_counts_epochs(out->model) || train_resolve_epochs(out->model, 1));
}

bool planner_take_accumulated(Session *s, int64_t n) {
  DiagMark mark = diag_mark(s->diag);
  s->options.accumulate = n;
  s->model = model_build(s->arena, s->names, s->diag, s->ast, &s->options);
  diag_rewind(s->diag, mark); // warnings of the model have been reported
  return s->model != NULL;
}

static Divided *divided_new(const Micro *m, int64_t n) {
  Divided *d = arena_new_of(m->s->arena, Divided);
  *d = (Divided){.n = n, .task = *m->task};
  const Selected *of = planner_selected(m->task); // to select the graph takes long
  if (!planner_accumulated(m->s, n, &d->s) || !planner_prices(&d->s, of, &d->task))
    d->nodes = (double)INFINITY; // no work suffices for it
  for (uint32_t i = 0; i < d->task.npriced; i++)
    d->nodes += (double)graph_count(d->task.priced[i].graph);
  return d;
}

// Returns the session with n micro-batches. Its `nodes` are infinite if the model cannot be built
// so.
static Divided *divided(Micro *m, int64_t n) {
  for (uint32_t i = 0; i < m->divided.n; i++)
    if (m->divided.at[i]->n == n) return m->divided.at[i];
  return vec_push(m->s->arena, m->divided) = divided_new(m, n);
}

Axes micro_batch_axes(const Session *s, const SearchChoice *c, bool soft) {
  const Graph *g = s->model->graph;
  const char *batch = dim_get(g->dims, g->spec.data[DATA_TRAIN].over)->name;
  for (uint32_t i = 0; i < c->layout.n; i++) {
    const LayoutRule *r = &c->layout.rule[i];
    if (r->scope == LAYOUT_ALL && r->soft == soft && r->dim && !strcmp(r->dim, batch))
      return r->axes;
  }
  return (Axes){0};
}

// Returns the processors over which the layout splits the batch.
static int64_t batch_parts(const Session *s, const SearchChoice *c) {
  return axes_size(c->mesh, micro_batch_axes(s, c, false));
}

static int64_t batch_rows(const Session *s) {
  const Graph *g = s->model->graph;
  return dim_get(g->dims, g->spec.data[DATA_TRAIN].over)->size;
}

bool planner_rows_divide(const Session *s, const SearchChoice *c, int64_t n) {
  int64_t rows = batch_rows(s), parts = batch_parts(s, c);
  return rows % n == 0 && (rows / n % parts == 0 || rows % parts != 0);
}

int64_t planner_next_number(const Session *s, const SearchChoice *c, int64_t n, int64_t most) {
  for (int64_t next = n + (n + 1) / 2; next <= most; next++)
    if (planner_rows_divide(s, c, next)) return next;
  return 0;
}

int64_t micro_rows_each(const Micro *m, const SearchChoice *c) {
  int64_t rows = batch_rows(m->s), parts = batch_parts(m->s, c);
  return rows % parts ? rows : rows / parts;
}

bool micro_divides(const Micro *m, const SearchChoice *c, int64_t n) {
  return (double)n * graph_count(planner_selected(m->task)->graph) <= MOST_NODES &&
         planner_rows_divide(m->s, c, n);
}

int64_t micro_fewer(const Micro *m, const SearchChoice *c, int64_t n) {
  do n--;
  while (n > 1 && !micro_divides(m, c, n));
  return n;
}

bool micro_price(Micro *m, const SearchChoice *from, int64_t n, SearchHint hint,
                 SearchChoice *out) {
  Divided *d = divided(m, n);
  SearchChoice c = *from;
  if (m->work - m->reserved < d->nodes) return false;
  c.accumulate = n;
  bool made = price_layout(d->task.pricer, from->mesh, &from->layout, hint, &c.price);
  m->work -= d->nodes * (made ? search_work(&c.price) : 1);
  m->found->ndivided += made;
  if (made) *out = c;
  return made;
}

int64_t micro_more(const Micro *m, const SearchChoice *c, int64_t n) {
  int64_t most = MOST_NODES / graph_count(planner_selected(m->task)->graph);
  int64_t rows = batch_rows(m->s);
  if (rows < most) most = rows;
  for (n++; n <= most; n++)
    if (planner_rows_divide(m->s, c, n)) return n;
  return 0;
}

void micro_add(Micro *m, const SearchChoice *c) {
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

void planner_add(Session *s, const SearchTask *t, SearchResult *r, const SearchChoice *c) {
  Micro m = {.s = s, .task = t, .found = r};
  micro_add(&m, c);
}

double micro_best_seconds(const Micro *m) {
  return m->found->n ? m->found->at[0].price.seconds : (double)INFINITY;
}

bool micro_fits(const Micro *m, const SearchChoice *c) { return c->price.peak <= m->task->memory; }

bool micro_recompute(Micro *m, const SearchChoice *from, int64_t n, SearchChoice *out) {
  if (!micro_price(m, from, n, (SearchHint){.over = true}, out)) return false;
  micro_add(m, out);
  return micro_fits(m, out);
}

double micro_peak(const SearchPrice *p) { return fmax(p->peak, p->unlimited_peak); }

bool micro_is_excluded(const SearchTask *t, const SearchChoice *c) {
  bool over = c->price.again > 0 || micro_peak(&c->price) > t->memory;
  return over && c->price.kept <= t->memory;
}

bool planner_step_divides(const Session *s, const char *purpose) {
  const ModelSpec *spec = &s->model->graph->spec;
  return spec->ntrain && !spec->train[0].accumulate && !spec->train[0].sync &&
         !strcmp(purpose, "train") && micro_batches_alike(s->model);
}

bool planner_may_divide(const Session *s, const SearchTask *t) {
  return t->pricer && planner_step_divides(s, planner_selected(t)->purpose);
}
