// Tries micro-batches (`accumulate`) where the memory excludes layouts that would be faster than
// the best one, or all. Input: the result of a search with the micro-batches that the model has,
// one or more. Output: that result, with choices of more micro-batches added.
//
//   1. Candidates are the layouts whose program does not fit without recomputation and that would
//      otherwise take less time than the best choice: the fastest ones, and those that are fast and
//      need little memory. Under ZeRO each is tried with sums of gradients in shards
//      (gradients/all), then with whole ones, which send less and need more memory.
//   2. For each all numbers of micro-batches that divide the rows are tried until the program fits
//      without recomputation, from the first one with which a micro-batch might fit. More
//      micro-batches than that only take longer. Where no number fits so, the last one is later
//      priced with recomputation, that of the fastest candidate first.
//   3. Candidates that fit are refined, the fastest first, before any is priced with recomputation:
//      half of that number is priced with it, because both save memory and cost time, and half of
//      this while it fits and the step gets faster. A candidate that fits with recomputation and
//      is the best choice so far is refined at once: then fewer others may be faster.
//
// Where the space of layouts is so small that all were priced, all candidates are tried
// (planner_small.c). Where nothing fits, micro-batches of single rows are tried (planner_single.c).
// At last micro-batches are tried that memory does not ask for (planner_faster.c).
#include <math.h>
#include <string.h>

#include "frontend/driver/planner_micro_internal.h"

enum {
  CANDIDATES = 3,        // at least
  MORE_CANDIDATES = 128, // at most, while half of the work is left
  SINGLE_SHARE = 3, // one part in so many of the work is left for single rows, while nothing fits
  // Nodes of all graphs together that are compiled for prices, for each doubling of the number of
  // processors: as many as the search before compiles.
  WORK_A_DOUBLING = 18000
};
// Where sending takes less than this share of a step, whole sums of gradients are not tried; where
// micro-batches make a step longer by less, fewer are not.
static const double HARDLY = 0.01;

// A candidate and the first choice that fits, with shards of the sums of gradients.
typedef struct Tried {
  const SearchChoice *from;
  const char *key;     // see key_of
  SearchChoice shards; // `from` with shards of the sums
  SearchChoice first;  // accumulate is 0: none fits
  SearchChoice last;   // without recomputation, of those that do not fit; accumulate is 0: none
  bool recomputed, refined;
} Tried;
typedef VEC(Tried) TriedList;

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

// -- numbers of micro-batches ---------------------------------------------------------------------

// Returns the first number with which a micro-batch might fit: they divide what a program does not
// keep between steps, at most evenly.
static int64_t first_number(const Micro *m, const SearchChoice *c) {
  double kept = c->price.kept, rest = fmax(micro_peak(&c->price) - kept, 0);
  int64_t n = micro_more(m, c, 1), more;
  while (kept + rest / (double)n > m->task->memory && (more = micro_more(m, c, n))) n = more;
  return n;
}

// Tries a layout with n and more micro-batches. Returns whether it fits without recomputation
// with any number that was tried; *out gets the choice. The memory of n micro-batches is about
// x + y / n: where x alone does not fit, more of them do not help.
static bool try_numbers(Micro *m, const SearchChoice *from, int64_t n, SearchChoice *out) {
  int64_t few = 0;
  double before = 0; // the memory of `few` micro-batches
  for (; n && micro_price(m, from, n, (SearchHint){.as_is = true}, out);
       few = n, before = out->price.peak, n = micro_more(m, from, n)) {
    if (micro_fits(m, out)) {
      micro_add(m, out);
      return true;
    }
    double x = ((double)n * out->price.peak - (double)few * before) / (double)(n - few);
    if (few && x > m->task->memory) break;
  }
  return false;
}

// Tries a candidate with shards of the sums of gradients.
static void try_layout(Micro *m, const SearchChoice *from, TriedList *tried) {
  Tried t = {.from = from, .key = key_of(m, from), .shards = *from};
  SearchChoice c = *from;
  t.shards.layout = with_sums(m->s->arena, &from->layout, true);
  bool found = try_numbers(m, &t.shards, first_number(m, from), &c);
  *(found ? &t.first : &t.last) = c;
  vec_push(m->s->arena, *tried) = t;
}

// Returns the candidate whose last number is to be priced with recomputation next: the fastest one
// that fits with no number. NULL: none might become faster than the best choice.
static Tried *next_to_recompute(const Micro *m, const TriedList *tried) {
  Tried *best = NULL;
  for (Tried *t = tried->at; t < tried->at + tried->n; t++) {
    double seconds = t->last.price.seconds;
    bool open = t->last.accumulate && !t->recomputed && seconds < micro_best_seconds(m);
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

// Returns the largest number of micro-batches that is at most half of n, rounded up; 1: none.
static int64_t about_half(const Micro *m, const SearchChoice *c, int64_t n) {
  return micro_fewer(m, c, (n + 1) / 2 + 1);
}

// Tries a candidate with whole sums of gradients, and with fewer micro-batches.
static void refine(Micro *m, Tried *t) {
  SearchChoice whole = *t->from, c = t->first;
  double before = c.price.seconds;
  t->refined = true;
  whole.layout = with_sums(m->s->arena, &whole.layout, false);
  if (may_send_less(&c)) try_numbers(m, &whole, c.accumulate, &(SearchChoice){0});
  if (c.price.seconds <= (1 + HARDLY) * search_unlimited(&t->from->price)) return;
  for (int64_t n = about_half(m, &t->shards, c.accumulate);
       n > 1 && micro_recompute(m, &t->shards, n, &c); n = about_half(m, &t->shards, n)) {
    if (c.price.seconds >= before) return;
    before = c.price.seconds;
  }
}

// Returns the candidate to refine next: the fastest one that might become faster than the best
// choice. NULL: there is none.
static Tried *next_to_refine(const Micro *m, const TriedList *tried) {
  Tried *best = NULL;
  for (Tried *t = tried->at; t < tried->at + tried->n; t++) {
    bool open = t->first.accumulate && !t->refined &&
                search_unlimited(&t->from->price) < micro_best_seconds(m);
    if (open && (!best || t->first.price.seconds < best->first.price.seconds)) best = t;
  }
  return best;
}

// Prices the last number of a candidate with recomputation. Of single rows that saves hardly any
// memory (planner_single.c tries them): the number before it is taken.
static void recompute_last(Micro *m, Tried *t) {
  SearchChoice c;
  int64_t n = t->last.accumulate, fewer = micro_fewer(m, &t->shards, n);
  t->recomputed = true;
  if (n == micro_rows_each(m, &t->shards) && fewer > 1) n = fewer;
  if (!micro_recompute(m, &t->shards, n, &c)) return;
  t->first = c;
  if (c.price.seconds <= micro_best_seconds(m)) refine(m, t);
}

// Returns whether a choice was tried that differs from c in its sums of gradients at most, or has
// an equal program.
static bool was_tried(const Micro *m, const TriedList *tried, const SearchChoice *c) {
  const char *key = key_of(m, c);
  for (uint32_t i = 0; i < tried->n; i++)
    if (!strcmp(tried->at[i].key, key) ||
        (micro_equal(m, tried->at[i].from, c) &&
         first_number(m, tried->at[i].from) == first_number(m, c)))
      return true;
  return false;
}

// Returns the priced layouts that memory excludes and that micro-batches may divide.
static CandidateList list_excluded(const Micro *m) {
  CandidateList list = {0};
  for (uint32_t i = 0; i < m->found->npriced; i++) {
    const SearchChoice *c = &m->found->priced[i];
    if (micro_is_excluded(m->task, c) && micro_more(m, c, 1))
      vec_push(m->s->arena, list) = (Candidate){.choice = c};
  }
  return list;
}

// Takes the candidate with the least time without recomputation from the list. few: that with the
// least product of time and memory, as it needs few micro-batches, which may each take as long as
// the whole batch. NULL: none may take less time than the best choice.
static const SearchChoice *take_candidate(const Micro *m, CandidateList *list, bool few) {
  Candidate *best = NULL;
  double least = (double)INFINITY;
  for (Candidate *x = list->at; x < list->at + list->n; x++) {
    double seconds = x->choice ? search_unlimited(&x->choice->price) : (double)INFINITY;
    double order = seconds * (x->choice && few ? micro_peak(&x->choice->price) : 1);
    if (order >= least || seconds >= micro_best_seconds(m)) continue;
    best = x;
    least = order;
  }
  if (!best) return NULL;
  const SearchChoice *c = best->choice;
  best->choice = NULL;
  return c;
}

// Tries layouts that memory excludes: the fastest ones, and then in turn the fastest of the others
// and one that needs few micro-batches.
static void try_fastest(Micro *m) {
  CandidateList list = list_excluded(m);
  TriedList tried = {0};
  const SearchChoice *c;
  Tried *open;
  double half = m->work / 2;
  m->reserved = m->found->n ? 0 : m->work / SINGLE_SHARE;
  while (tried.n < (m->work > half ? MORE_CANDIDATES : CANDIDATES) &&
         (c = take_candidate(m, &list, tried.n >= CANDIDATES && tried.n % 2)))
    if (!was_tried(m, &tried, c)) try_layout(m, c, &tried);
  if (m->found->n) m->reserved = 0;
  while ((open = next_to_refine(m, &tried))) refine(m, open);
  while ((open = next_to_recompute(m, &tried))) recompute_last(m, open);
  while ((open = next_to_refine(m, &tried))) refine(m, open);
  m->reserved = 0;
}

void planner_divide(Session *s, const SearchTask *t, SearchResult *r) {
  Micro m = {.s = s, .task = t, .found = r};
  for (int64_t n = mesh_size(t->mesh); n > 0; n /= 2) m.work += WORK_A_DOUBLING;
  if (r->all)
    micro_try_all(&m);
  else
    try_fastest(&m);
  micro_try_single(&m);
  micro_try_faster(&m);
}
