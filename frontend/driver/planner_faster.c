// Tries micro-batches that memory does not ask for. On CPUs a step may take less time if the values
// of a micro-batch fit a cache. Candidates are the layouts that fit the memory without
// micro-batches and take little more time than the best choice; of a space of layouts that is not
// small, the best one alone. Input: the result of a search. Output: that result, with choices added
// that are better than all before them.
#include <math.h>
#include <stdlib.h>

#include "frontend/driver/planner_micro_internal.h"

// Micro-batches make a step shorter by at most about so much, where their values fit a cache.
static const double GAIN = 0.15;
// A choice must take so much less time to be worth its micro-batches.
static const double WORTH = 1e-3;

static uint32_t soft_rules(const SearchChoice *c) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->layout.n; i++) n += c->layout.rule[i].soft;
  return n;
}

// Orders candidates by their time without recomputation; of equal ones the simplest is first.
static int by_unlimited(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  double s = micro_unlimited(&a->choice->price), t = micro_unlimited(&b->choice->price);
  if (s != t) return s < t ? -1 : 1;
  uint32_t m = a->choice->layout.n, n = b->choice->layout.n;
  if (m == n) m = soft_rules(a->choice), n = soft_rules(b->choice);
  if (m == n) m = a->order, n = b->order;
  return m < n ? -1 : m > n;
}

void micro_sort(CandidateList *list, uint32_t first) {
  if (list->n > first) qsort(list->at + first, list->n - first, sizeof *list->at, by_unlimited);
}

// Returns the axes over which a rule, or else a soft rule, of the layout splits the batch.
static Axes any_batch_axes(const Session *s, const SearchChoice *c) {
  Axes axes = micro_batch_axes(s, c, false);
  return axes.n ? axes : micro_batch_axes(s, c, true);
}

// Returns whether the programs of both are equal with other micro-batches, too, by all figures that
// are known: a batch that is split becomes too short for its axes. A soft rule that splits it as a
// rule does makes no difference.
static bool are_equal(const Micro *m, const SearchChoice *x, const SearchChoice *y) {
  const SearchPrice *p = &x->price, *q = &y->price;
  return micro_unlimited(p) == micro_unlimited(q) && p->sent == q->sent && p->peak == q->peak &&
         p->unlimited_peak == q->unlimited_peak && x->mesh == y->mesh &&
         x->accumulate == y->accumulate &&
         axes_equal(any_batch_axes(m->s, x), any_batch_axes(m->s, y));
}

uint32_t micro_first_equal(const Micro *m, const CandidateList *list, uint32_t i) {
  const SearchChoice *c = list->at[i].choice;
  uint32_t first = i;
  for (uint32_t k = i;
       k-- > 0 && micro_unlimited(&list->at[k].choice->price) == micro_unlimited(&c->price);)
    if (are_equal(m, list->at[k].choice, c)) first = k;
  return first;
}

bool micro_may_gain(const Micro *m, const SearchChoice *c) {
  return (1 - GAIN) * micro_unlimited(&c->price) < micro_best_seconds(m);
}

// Returns whether a choice with micro-batches takes less time than the best choice, or is simpler
// than a best choice that has some, too.
static bool is_better(const Micro *m, const SearchChoice *c) {
  const SearchChoice *best = m->found->at;
  return !m->found->n || c->price.seconds < (1 - WORTH) * best->price.seconds ||
         (best->accumulate && planner_better(m->task, c, best));
}

// Prices a layout with n micro-batches, if its whole program will be compiled.
static bool price_parts(Micro *m, const SearchChoice *from, int64_t n, SearchChoice *out) {
  *out = *from;
  out->accumulate = n;
  return micro_divides(m, from, n) && !planner_is_long(planner_selected(m->task), out) &&
         micro_price(m, from, n, (SearchHint){.as_is = true}, out);
}

// Tries a layout with 2, 4, 8 ... micro-batches, while these may take less time than the best
// choice. Where only a part of a batch fits a cache, the first numbers gain nothing.
static void try_faster(Micro *m, const SearchChoice *from) {
  SearchChoice c = *from;
  for (int64_t n = 2; micro_may_gain(m, &c) && price_parts(m, from, n, &c); n *= 2)
    if (is_better(m, &c)) micro_add(m, &c);
}

// Returns the layouts that fit without micro-batches and recomputation, sorted.
static CandidateList list_fitting(const Micro *m) {
  CandidateList list = {0};
  for (uint32_t i = 0; i < m->found->npriced; i++) {
    const SearchChoice *c = &m->found->priced[i];
    if (micro_fits(m, c) && c->price.again <= 0 && micro_may_gain(m, c))
      vec_push(m->s->arena, list) = (Candidate){c, i, 1};
  }
  micro_sort(&list, 0);
  return list;
}

void micro_try_faster(Micro *m) {
  const Machine *machine = m->task->machine;
  if (machine->gpu || (!machine->l2 && !machine->l3)) return;
  CandidateList list = list_fitting(m);
  uint32_t n = m->found->all ? list.n : list.n > 0;
  for (uint32_t i = 0; i < n; i++)
    if (micro_first_equal(m, &list, i) == i) try_faster(m, list.at[i].choice);
}
