// Tries micro-batches (`accumulate`) where the memory excludes layouts that would be faster than
// the best one, or all. Input: the result of a search with the micro-batches that the model has,
// one or more. Output: that result, with choices of more micro-batches added.
//
//   1. Candidates are the layouts whose program does not fit without recomputation and that would
//      otherwise take less time than the best choice, the fastest first. Under ZeRO each is tried
//      with sums of gradients in shards (gradients/all), then with whole ones, which send less and
//      need more memory.
//   2. For each the number of micro-batches is doubled until the program fits without
//      recomputation, from the first number with which a micro-batch might fit. More micro-batches
//      than that only take longer. Where no number fits so, the last one is then priced with
//      recomputation, that of the fastest candidate first.
//   3. Then candidates are refined, the fastest first: half of that number is priced with
//      recomputation, because both save memory and cost time, and half of this while it fits and
//      the step gets faster. A candidate that fits with recomputation and is the best choice so
//      far is refined at once: then fewer others may be faster.
//
// Where the space of layouts is so small that all were priced, all candidates are tried: first
// without recomputation, with 2, 4, 8 ... micro-batches, from the least number on with which they
// may fit, then with it; those first that lack least memory. While nothing fits, recomputation is
// tried after each number. A third of the work is kept for it. Layouts about as fast as the best
// one get more micro-batches than they need, too: on a CPU smaller ones may fit a cache.
//
// The user's own number is kept, and micro-batches that would change what a step computes are not
// tried (frontend/step/micro_alike.c).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/planner.h"
#include "frontend/driver/price.h"
#include "frontend/step/select_internal.h"

enum {
  CANDIDATES = 3,
  MOST_NODES = 400000, // of the graph of a step with all its micro-batches
  // Nodes of all graphs together that are compiled for prices, for each doubling of the number of
  // processors: as many as the search before compiles.
  WORK_A_DOUBLING = 18000,
  MORE_WORK = 3, // times as much where all layouts are tried, which took little work
  MOST_WORK = 6, // the same where none fits without micro-batches
  KEPT_SHARE = 3 // one part in so many of that is kept for recomputation
};
// Where sending takes less than this share of a step, whole sums of gradients are not tried; where
// micro-batches make a step longer by less, fewer are not.
static const double HARDLY = 0.01;
// Recomputing the whole forward pass takes about a third of the time of a step.
static const double FORWARD = 1.0 / 3;
// Micro-batches may make a step shorter by about so much, where their values fit a cache.
static const double GAIN = 0.05;
// Recomputation leaves at least so much of the memory of a program, and of the part that it does
// not keep between steps.
static const double LEAST_SHARE = 0.6, LEAST_UNKEPT = 0.5;

// A session of the model with `accumulate = n`, and the task of its prices.
typedef struct Divided {
  int64_t n;
  Session s;
  SearchTask task;
  double nodes; // of all samples: the work of one price
} Divided;

// A candidate and the first choice that fits, with shards of the sums of gradients.
typedef struct Tried {
  const SearchChoice *from;
  const char *key;     // see key_of
  SearchChoice shards; // `from` with shards of the sums
  SearchChoice first;  // accumulate is 0: none fits
  SearchChoice last;   // without recomputation, of those that do not fit; accumulate is 0: none
  bool recomputed, refined;
} Tried;

typedef struct Micro {
  Session *s;
  const SearchTask *task;
  SearchResult *found;
  VEC(Divided *) divided; // those that were made so far
  double work;            // nodes that may still be compiled
  double reserved;        // of these, for the prices with recomputation that come later
  VEC(Tried) tried;
} Micro;

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
  const Selected *of = &((const Pricer *)m->task->pricer)->of; // to select the graph takes long
  if (!planner_accumulated(m->s, n, &d->s) || !planner_prices(&d->s, of, &d->task)) d->n = 0;
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

// Returns the axes over which a rule, or a soft rule, of the layout splits the batch.
static Axes batch_axes(const Session *s, const SearchChoice *c, bool soft) {
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
  return axes_size(c->mesh, batch_axes(s, c, false));
}

bool planner_rows_divide(const Session *s, const SearchChoice *c, int64_t n) {
  const Graph *g = s->model->graph;
  int64_t rows = dim_get(g->dims, g->spec.data[DATA_TRAIN].over)->size, parts = batch_parts(s, c);
  return rows % n == 0 && (rows / n % parts == 0 || rows % parts != 0);
}

int64_t planner_next_number(const Session *s, const SearchChoice *c, int64_t n, int64_t most) {
  for (int64_t next = n + (n + 1) / 2; next <= most; next++)
    if (planner_rows_divide(s, c, next)) return next;
  return 0;
}

// Returns whether a step may have n micro-batches under the layout, and is then compiled in a few
// seconds.
static bool divides(const Micro *m, const SearchChoice *c, int64_t n) {
  const Selected *of = &((const Pricer *)m->task->pricer)->of;
  return (double)n * graph_count(of->graph) <= MOST_NODES && planner_rows_divide(m->s, c, n);
}

// Prices a layout with n micro-batches. hint: as for price_layout. Returns false if it cannot be
// compiled, or if no work is left for it.
static bool price(Micro *m, const SearchChoice *from, int64_t n, SearchHint hint,
                  SearchChoice *out) {
  Divided *d = divided(m, n);
  if (!d || m->work - m->reserved < d->nodes) return false;
  *out = *from;
  out->accumulate = n;
  bool made = price_layout(d->task.pricer, from->mesh, &from->layout, hint, &out->price);
  m->work -= d->nodes * (made ? search_work(&out->price) : 1);
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

// -- sums of gradients ----------------------------------------------------------------------------

// Returns the axes of the rule for all tensors of a kind, such as parameters/all=rows.
static Axes stage_axes(const Layout *l, LayoutScope scope) {
  for (uint32_t i = 0; i < l->n; i++)
    if (l->rule[i].scope == scope && !l->rule[i].dim) return l->rule[i].axes;
  return (Axes){0};
}

// Returns the layout with the rule `scope: all -> axes` in place of its own. Without axes: without
// such a rule.
static Layout with_stage(Arena *a, const Layout *l, LayoutScope scope, Axes axes) {
  Layout out = {.rule = arena_array(a, LayoutRule, l->n + 1)};
  for (uint32_t i = 0; i < l->n; i++)
    if (l->rule[i].scope != scope || l->rule[i].dim) out.rule[out.n++] = l->rule[i];
  if (axes.n) out.rule[out.n++] = (LayoutRule){.scope = scope, .axes = axes};
  return out;
}

// Returns the layout in which a processor has shards of the sums of gradients over micro-batches,
// or whole sums. Without ZeRO it is the layout itself.
static Layout with_sums(Arena *a, const Layout *l, bool sharded) {
  Axes gradients = stage_axes(l, LAYOUT_GRADIENTS), optimizer = stage_axes(l, LAYOUT_OPTIMIZER),
       parameters = stage_axes(l, LAYOUT_PARAMETERS);
  if (sharded && !gradients.n) { // the optimizer's tensors follow
    Layout out = parameters.n ? *l : with_stage(a, l, LAYOUT_OPTIMIZER, (Axes){0});
    return with_stage(a, &out, LAYOUT_GRADIENTS, parameters.n ? parameters : optimizer);
  }
  if (sharded || !gradients.n) return *l;
  Layout out = with_stage(a, l, LAYOUT_GRADIENTS, (Axes){0});
  bool follows = optimizer.n || axes_equal(parameters, gradients);
  return follows ? out : with_stage(a, &out, LAYOUT_OPTIMIZER, gradients);
}

// Returns a text that is the same for choices that differ only in their sums of gradients.
static const char *key_of(const Micro *m, const SearchChoice *c) {
  Arena *a = m->s->arena;
  Layout whole = with_sums(a, &c->layout, false);
  return arena_printf(a, "%s %s", mesh_option(a, c->mesh), layout_option(a, c->mesh, &whole));
}

// Returns the seconds that a priced choice takes without recomputation, or about that.
static double unlimited(const SearchPrice *p) {
  return p->unlimited > 0 ? p->unlimited : p->seconds / (1 + FORWARD * p->again);
}

// -- numbers of micro-batches ---------------------------------------------------------------------

// Returns the first of the numbers 2, 4, 8 ... with which a micro-batch might fit: n of them need
// at least an n-th of the memory of the whole batch.
static int64_t first_number(const Micro *m, const SearchChoice *c) {
  int64_t n = 2;
  while (c->price.unlimited_peak / (double)n > m->task->memory && divides(m, c, 2 * n)) n *= 2;
  return n;
}

static bool fits(const Micro *m, const SearchChoice *c) { return c->price.peak <= m->task->memory; }

// Tries a layout with n, 2n, 4n ... micro-batches. Returns whether it fits without recomputation
// with any number that was tried; *out gets the choice. The memory of n micro-batches is about
// x + y / n: where x alone does not fit, more of them do not help.
static bool try_numbers(Micro *m, const SearchChoice *from, int64_t n, SearchChoice *out) {
  double before = (double)INFINITY;
  for (; divides(m, from, n) && price(m, from, n, (SearchHint){.as_is = true}, out); n *= 2) {
    if (fits(m, out)) {
      add_choice(m, out);
      return true;
    }
    if (2 * out->price.peak - before > m->task->memory) break;
    before = out->price.peak;
  }
  return false;
}

// Prices a layout with n micro-batches and recomputation. Returns whether it fits.
static bool try_recomputing(Micro *m, const SearchChoice *from, int64_t n, SearchChoice *out) {
  if (!price(m, from, n, (SearchHint){.over = true}, out)) return false;
  add_choice(m, out);
  return fits(m, out);
}

// Tries a candidate with shards of the sums of gradients.
static void try_layout(Micro *m, const SearchChoice *from) {
  Tried t = {.from = from, .key = key_of(m, from), .shards = *from};
  SearchChoice c = *from;
  t.shards.layout = with_sums(m->s->arena, &from->layout, true);
  bool found = try_numbers(m, &t.shards, first_number(m, from), &c);
  *(found ? &t.first : &t.last) = c;
  vec_push(m->s->arena, m->tried) = t;
}

// Returns the candidate whose last number is to be priced with recomputation next: the fastest one
// that fits with no number. NULL: none might become faster than the best choice.
static Tried *next_to_recompute(Micro *m) {
  Tried *best = NULL;
  for (Tried *t = m->tried.at; t < m->tried.at + m->tried.n; t++) {
    double seconds = t->last.price.seconds;
    bool open = t->last.accumulate && !t->recomputed && seconds < best_seconds(m);
    if (open && (!best || seconds < best->last.price.seconds)) best = t;
  }
  return best;
}

// Returns whether steps with whole sums of gradients may take less time than this choice, whose
// sums are shards: they send less.
static bool may_send_less(const SearchChoice *c) {
  return stage_axes(&c->layout, LAYOUT_GRADIENTS).n && c->price.again <= 0 &&
         c->price.transfer > HARDLY * c->price.seconds;
}

// Tries a candidate with whole sums of gradients, and with fewer micro-batches.
static void refine(Micro *m, Tried *t) {
  SearchChoice whole = *t->from, c = t->first;
  double before = c.price.seconds;
  t->refined = true;
  whole.layout = with_sums(m->s->arena, &whole.layout, false);
  if (may_send_less(&c)) try_numbers(m, &whole, c.accumulate, &(SearchChoice){0});
  if (c.price.seconds <= (1 + HARDLY) * unlimited(&t->from->price)) return;
  for (int64_t n = c.accumulate / 2; n > 1 && try_recomputing(m, &t->shards, n, &c); n /= 2) {
    if (c.price.seconds >= before) return;
    before = c.price.seconds;
  }
}

// Returns the candidate to refine next: the fastest one that might become faster than the best
// choice. NULL: there is none.
static Tried *next_to_refine(Micro *m) {
  Tried *best = NULL;
  for (Tried *t = m->tried.at; t < m->tried.at + m->tried.n; t++) {
    bool open = t->first.accumulate && !t->refined && unlimited(&t->from->price) < best_seconds(m);
    if (open && (!best || t->first.price.seconds < best->first.price.seconds)) best = t;
  }
  return best;
}

static void recompute_last(Micro *m, Tried *t) {
  SearchChoice c;
  t->recomputed = true;
  if (!try_recomputing(m, &t->shards, t->last.accumulate, &c)) return;
  t->first = c;
  if (c.price.seconds <= best_seconds(m)) refine(m, t);
}

static bool was_tried(const Micro *m, const SearchChoice *c) {
  const char *key = key_of(m, c);
  for (uint32_t i = 0; i < m->tried.n; i++)
    if (!strcmp(m->tried.at[i].key, key)) return true;
  return false;
}

// Returns whether the layout needs too much memory without recomputation, but not for parameters
// and states alone, which micro-batches do not divide.
static bool is_excluded(const SearchTask *t, const SearchChoice *c) {
  bool over = c->price.again > 0 || fmax(c->price.peak, c->price.unlimited_peak) > t->memory;
  return over && c->price.kept <= t->memory;
}

// Returns the priced layout that memory excludes with the least time without recomputation, of
// those that were not tried; NULL if there is none that takes less than the best.
static const SearchChoice *next_candidate(const Micro *m) {
  const SearchResult *r = m->found;
  double least = best_seconds(m);
  const SearchChoice *best = NULL;
  for (uint32_t i = 0; i < r->npriced; i++) {
    const SearchChoice *c = &r->priced[i];
    double seconds = unlimited(&c->price);
    if (seconds >= least || !is_excluded(m->task, c) || !divides(m, c, 2) || was_tried(m, c))
      continue;
    best = c;
    least = seconds;
  }
  return best;
}

// -- small spaces ---------------------------------------------------------------------------------

// A choice that may be tried, its place in the order in which choices were found, and the least
// number of micro-batches with which it may fit.
typedef struct Candidate {
  const SearchChoice *choice;
  uint32_t order;
  int64_t least;
} Candidate;
typedef VEC(Candidate) CandidateList;

static uint32_t soft_rules(const SearchChoice *c) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->layout.n; i++) n += c->layout.rule[i].soft;
  return n;
}

// Orders candidates by their time without recomputation; of equal ones the simplest is first.
static int by_unlimited(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  double s = unlimited(&a->choice->price), t = unlimited(&b->choice->price);
  if (s != t) return s < t ? -1 : 1;
  uint32_t m = a->choice->layout.n, n = b->choice->layout.n;
  if (m == n) m = soft_rules(a->choice), n = soft_rules(b->choice);
  if (m == n) m = a->order, n = b->order;
  return m < n ? -1 : m > n;
}

// Sorts the candidates from number `first` on.
static void sort_candidates(CandidateList *list, uint32_t first) {
  if (list->n > first) qsort(list->at + first, list->n - first, sizeof *list->at, by_unlimited);
}

// Returns the axes over which a rule, or else a soft rule, of the layout splits the batch.
static Axes any_batch_axes(const Session *s, const SearchChoice *c) {
  Axes axes = batch_axes(s, c, false);
  return axes.n ? axes : batch_axes(s, c, true);
}

// Returns whether the programs of both are equal with other micro-batches, too, by all figures that
// are known: a batch that is split becomes too short for its axes. A soft rule that splits it as a
// rule does makes no difference.
static bool are_equal(const Micro *m, const SearchChoice *x, const SearchChoice *y) {
  const SearchPrice *p = &x->price, *q = &y->price;
  return unlimited(p) == unlimited(q) && p->sent == q->sent && p->peak == q->peak &&
         p->unlimited_peak == q->unlimited_peak && x->mesh == y->mesh &&
         x->accumulate == y->accumulate &&
         axes_equal(any_batch_axes(m->s, x), any_batch_axes(m->s, y));
}

static bool is_faster(const Micro *m, const SearchChoice *c) {
  return unlimited(&c->price) < best_seconds(m);
}

// Returns whether more micro-batches may make a choice faster than the best one.
static bool may_gain(const Micro *m, const SearchChoice *c) {
  return (1 - GAIN) * unlimited(&c->price) < best_seconds(m);
}

// Prices a choice with n micro-batches and without recomputation. Returns the choice, or NULL if it
// cannot be priced.
static const SearchChoice *price_plainly(Micro *m, const SearchChoice *from, int64_t n) {
  SearchChoice *c = arena_new_of(m->s->arena, SearchChoice);
  if (!divides(m, from, n) || !price(m, from, n, (SearchHint){.as_is = true}, c)) return NULL;
  add_choice(m, c);
  return c;
}

// Returns whether a choice may fit with recomputation if it needs `peak` bytes without.
static bool may_fit(const Micro *m, const SearchChoice *c, double peak) {
  double kept = c->price.kept;
  return fmax(LEAST_SHARE * peak, kept + LEAST_UNKEPT * (peak - kept)) <= m->task->memory;
}

// Returns the least of the numbers 2, 4, 8 ... of micro-batches with which a choice may fit, with
// recomputation or without, or 0 if there is none. What a program keeps between steps is not
// divided, the rest at most evenly.
static int64_t least_number(const Micro *m, const SearchChoice *c) {
  double kept = c->price.kept, rest = fmax(c->price.peak, c->price.unlimited_peak) - kept;
  for (int64_t n = 2; divides(m, c, n); n *= 2)
    if (may_fit(m, c, kept + rest / (double)n)) return n;
  return 0;
}

// Returns the layouts that memory excludes and that may fit with micro-batches, sorted.
static CandidateList list_excluded(const Micro *m) {
  CandidateList list = {0};
  for (uint32_t i = 0; i < m->found->npriced; i++) {
    const SearchChoice *c = &m->found->priced[i];
    int64_t least = is_excluded(m->task, c) ? least_number(m, c) : 0;
    if (least) vec_push(m->s->arena, list) = (Candidate){c, i, least};
  }
  sort_candidates(&list, 0);
  return list;
}

// Returns the number of the first choice of a sorted list whose program is equal to that of number
// i: i itself, or one before it.
static uint32_t first_equal(const Micro *m, const CandidateList *list, uint32_t i) {
  const SearchChoice *c = list->at[i].choice;
  uint32_t first = i;
  for (uint32_t k = i; k-- > 0 && unlimited(&list->at[k].choice->price) == unlimited(&c->price);)
    if (are_equal(m, list->at[k].choice, c)) first = k;
  return first;
}

// A choice that may not fit without recomputation, and what is known of it with recomputation.
typedef struct Over Over;
struct Over {
  const SearchChoice *choice;
  uint32_t from;    // number of its layout in Numbers.least
  const Over *half; // the same with half as many micro-batches; NULL: they cannot fit
  double lack;      // the memory by which choices are sorted: its own, or what is expected of twice
                    // as many micro-batches
  bool tried, fits;
};
typedef VEC(Over) OverList;

static int by_lack(const void *x, const void *y) {
  const Over *a = x, *b = y;
  const SearchPrice *p = &a->choice->price, *q = &b->choice->price;
  if (a->lack != b->lack) return a->lack < b->lack ? -1 : 1;
  if (p->seconds != q->seconds) return p->seconds < q->seconds ? -1 : 1;
  return a->from < b->from ? -1 : a->from > b->from;
}

static void sort_by_lack(OverList *list) {
  if (list->n) qsort(list->at, list->n, sizeof *list->at, by_lack);
}

// What is known of all layouts with micro-batches.
typedef struct Numbers {
  CandidateList excluded; // the layouts that are tried
  CandidateList least;    // those that were priced with their least number; sorted for each number
  uint32_t *first;        // by layout: the first one that is equal with its least number
  const Over **last;      // by layout: the largest number that was priced and does not fit, or NULL
  OverList over;          // choices that may fit with recomputation
  OverList later;         // choices that fit, or are slower than the best one
} Numbers;

// Returns the memory that a choice is expected to need with n micro-batches, without recomputation:
// x + y / n, by what it needs now and with fewer of them. Without micro-batches there are no sums
// of gradients: then this is only a guess.
static double expected_peak(const Micro *m, const Numbers *list, const Over *o, double n) {
  const SearchPrice *without = &m->found->priced[list->least.at[o->from].order].price;
  double few = o->half ? (double)o->half->choice->accumulate : 1;
  double more = (double)o->choice->accumulate;
  double y = o->half ? o->half->choice->price.peak : fmax(without->peak, without->unlimited_peak);
  double x = (more * o->choice->price.peak - few * y) / (more - few);
  return x + few * (y - x) / n;
}

static void add_over(const Micro *m, const Numbers *n, Over o, OverList *list) {
  o.lack = expected_peak(m, n, &o, 2 * (double)o.choice->accumulate);
  vec_push(m->s->arena, *list) = o;
}

// Prices a choice with twice as many micro-batches, unless still more of them cannot help. Appends
// the new choice to *next.
static void price_twice(Micro *m, const Numbers *n, const Over *o, OverList *next) {
  if (o->half && !may_fit(m, o->choice, expected_peak(m, n, o, (double)INFINITY))) return;
  const SearchChoice *c = price_plainly(m, o->choice, 2 * o->choice->accumulate);
  if (c) add_over(m, n, (Over){.choice = c, .from = o->from, .half = o}, next);
}

// Prices the layouts whose least number of micro-batches is `number` with it. Layouts that are
// equal without micro-batches may differ with them. Appends those that differ to *level.
static void price_least(Micro *m, Numbers *n, int64_t number, OverList *level) {
  uint32_t begin = n->least.n;
  for (uint32_t i = 0; i < n->excluded.n; i++) {
    const Candidate *from = &n->excluded.at[i];
    if (from->least != number || !may_gain(m, from->choice)) continue;
    const SearchChoice *c = price_plainly(m, from->choice, number);
    if (c) vec_push(m->s->arena, n->least) = (Candidate){c, from->order, number};
  }
  sort_candidates(&n->least, begin);
  for (uint32_t i = begin; i < n->least.n; i++) {
    const SearchChoice *c = n->least.at[i].choice;
    n->first[i] = first_equal(m, &n->least, i);
    if (n->first[i] == i && may_gain(m, c)) add_over(m, n, (Over){.choice = c, .from = i}, level);
  }
}

// Prices choices of one number of micro-batches that do not fit, and are faster than the best one,
// with twice as many; those first that are expected to lack least memory then. Others are left for
// later. *level gets the new choices. all: no choice is left that may still gain.
static void price_level(Micro *m, Numbers *n, OverList *level, bool all) {
  OverList next = {0};
  sort_by_lack(level);
  for (uint32_t i = 0; i < level->n; i++) {
    const Over *o = &level->at[i];
    bool fit = fits(m, o->choice), likely = all || (!fit && is_faster(m, o->choice));
    if (!fit) n->last[o->from] = o;
    if (!fit && may_fit(m, o->choice, o->choice->price.peak)) {
      vec_push(m->s->arena, n->over) = *o;
      n->over.at[n->over.n - 1].lack = o->choice->price.peak;
    }
    if (!likely)
      vec_push(m->s->arena, n->later) = *o;
    else if (may_gain(m, o->choice))
      price_twice(m, n, o, &next);
  }
  *level = next;
}

static void price_more(Micro *m, Numbers *n, OverList *level, bool all) {
  while (level->n) price_level(m, n, level, all);
}

// Prices the choices that price_more left with more micro-batches: a smaller one may fit a cache.
static void price_later(Micro *m, Numbers *n) {
  OverList level = {0};
  sort_by_lack(&n->later);
  for (uint32_t i = 0; i < n->later.n; i++)
    if (may_gain(m, n->later.at[i].choice)) price_twice(m, n, &n->later.at[i], &level);
  price_more(m, n, &level, true);
}

// Prices layouts that are equal to others with few micro-batches, but may differ from these with
// more of them: from the first number on with which those fit or take longer than the best choice.
static void price_equal(Micro *m, Numbers *n) {
  OverList level = {0};
  for (uint32_t i = 0; i < n->least.n; i++) {
    const Over *like = n->last[n->first[i]];
    while (like && !is_faster(m, like->choice)) like = like->half;
    if (n->first[i] == i || !like) continue;
    SearchChoice *c = arena_new_of(m->s->arena, SearchChoice);
    Over *o = arena_new_of(m->s->arena, Over);
    *c = *like->choice;
    c->layout = n->least.at[i].choice->layout;
    *o = (Over){.choice = c, .from = i, .half = like->half};
    price_twice(m, n, o, &level);
  }
  price_more(m, n, &level, false);
}

// Returns a choice before number i of a sorted list that has as many micro-batches and an equal
// program and was tried, or NULL.
static const Over *tried_like(const OverList *list, uint32_t i) {
  const SearchChoice *c = list->at[i].choice;
  for (uint32_t k = i; k-- > 0 && list->at[k].choice->price.peak == c->price.peak;) {
    const SearchChoice *o = list->at[k].choice;
    if (list->at[k].tried && o->accumulate == c->accumulate && o->mesh == c->mesh &&
        o->price.seconds == c->price.seconds && o->price.sent == c->price.sent)
      return &list->at[k];
  }
  return NULL;
}

// Tries choices with recomputation, those first that lack least memory. Where one does not fit, the
// same layout with a number of micro-batches that needs more memory does not either.
static void recompute_all(Micro *m, Numbers *n) {
  bool *failed = arena_array(m->s->arena, bool, n->least.n + 1);
  sort_by_lack(&n->over);
  for (uint32_t i = 0; i < n->over.n; i++) {
    Over *o = &n->over.at[i];
    if (o->tried || failed[o->from] || !is_faster(m, o->choice)) continue;
    const Over *like = tried_like(&n->over, i);
    o->fits = like ? like->fits
                   : try_recomputing(m, o->choice, o->choice->accumulate, &(SearchChoice){0});
    o->tried = true;
    failed[o->from] = !o->fits;
  }
}

// Prices all layouts with 2, 4, 8 ... micro-batches. All have a number before any has the next,
// which takes more work and more time in a step. So while nothing fits, recomputation is tried
// before more micro-batches.
static void price_numbers(Micro *m, Numbers *n) {
  OverList level = {0};
  int64_t most = 0;
  for (uint32_t i = 0; i < n->excluded.n; i++)
    if (n->excluded.at[i].least > most) most = n->excluded.at[i].least;
  for (int64_t number = 2; number <= most || level.n; number *= 2) {
    price_least(m, n, number, &level);
    price_level(m, n, &level, false);
    if (!m->found->n) recompute_all(m, n);
  }
}

// Tries all layouts that memory excludes and that may take less time than the best choice, first
// without recomputation.
static void try_all(Micro *m) {
  Numbers n = {.excluded = list_excluded(m)};
  n.first = arena_array(m->s->arena, uint32_t, n.excluded.n + 1);
  n.last = arena_array(m->s->arena, const Over *, n.excluded.n + 1);
  m->work *= m->found->n ? MORE_WORK : MOST_WORK;
  m->reserved = m->work / KEPT_SHARE;
  price_numbers(m, &n);
  price_equal(m, &n);
  price_later(m, &n);
  m->reserved = 0;
  recompute_all(m, &n);
}

bool planner_step_divides(const Session *s, const char *purpose) {
  const ModelSpec *spec = &s->model->graph->spec;
  return spec->ntrain && !spec->train[0].accumulate && !spec->train[0].sync &&
         !strcmp(purpose, "train") && micro_batches_alike(s->model);
}

bool planner_may_divide(const Session *s, const SearchTask *t) {
  return t->pricer && planner_step_divides(s, ((const Pricer *)t->pricer)->of.purpose);
}

void planner_divide(Session *s, const SearchTask *t, SearchResult *r) {
  Micro m = {.s = s, .task = t, .found = r};
  const SearchChoice *c;
  Tried *open;
  for (int64_t n = mesh_size(t->mesh); n > 0; n /= 2) m.work += WORK_A_DOUBLING;
  if (r->all) {
    try_all(&m);
    return;
  }
  while (m.tried.n < CANDIDATES && (c = next_candidate(&m))) try_layout(&m, c);
  while ((open = next_to_recompute(&m))) recompute_last(&m, open);
  while ((open = next_to_refine(&m))) refine(&m, open);
}
