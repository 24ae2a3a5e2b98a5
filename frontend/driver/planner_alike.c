// Chooses which layouts are tried with micro-batches: those that may become faster than the best
// choice, the fastest first, and of layouts with equal programs the simplest.
#include <stdlib.h>

#include "frontend/driver/planner_micro_internal.h"

// Layouts are tried with micro-batches if they would be the best with so much less time. Where the
// values of a micro-batch fit a cache, most steps gain less; some gain more.
static const double GAIN = 0.2;

static uint32_t soft_rules(const SearchChoice *c) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->layout.n; i++) n += c->layout.rule[i].soft;
  return n;
}

// Orders candidates by their time without recomputation; of equal ones the simplest is first.
static int by_unlimited(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  double s = search_unlimited(&a->choice->price), t = search_unlimited(&b->choice->price);
  if (s != t) return s < t ? -1 : 1;
  uint32_t m = a->choice->layout.n, n = b->choice->layout.n;
  if (m == n) m = soft_rules(a->choice), n = soft_rules(b->choice);
  if (m == n) m = a->order, n = b->order;
  return m < n ? -1 : m > n;
}

void micro_sort(CandidateList *list, uint32_t first) {
  if (list->n > first) qsort(list->at + first, list->n - first, sizeof *list->at, by_unlimited);
}

// Returns the number of processors over which rules and soft rules of the layout split the batch.
static int64_t all_batch_parts(const Session *s, const SearchChoice *c) {
  Axes axes = micro_batch_axes(s, c, false), soft = micro_batch_axes(s, c, true);
  for (int i = 0; i < soft.n; i++)
    if (!axes_has(axes, soft.at[i])) axes.at[axes.n++] = soft.at[i];
  return axes_size(c->mesh, axes);
}

bool micro_equal(const Micro *m, const SearchChoice *x, const SearchChoice *y) {
  const SearchPrice *p = &x->price, *q = &y->price;
  return search_unlimited(p) == search_unlimited(q) && p->sent == q->sent && p->peak == q->peak &&
         p->unlimited_peak == q->unlimited_peak && x->mesh == y->mesh &&
         x->accumulate == y->accumulate && all_batch_parts(m->s, x) == all_batch_parts(m->s, y);
}

uint32_t micro_first_equal(const Micro *m, const CandidateList *list, uint32_t i) {
  const SearchChoice *c = list->at[i].choice;
  uint32_t first = i;
  for (uint32_t k = i;
       k-- > 0 && search_unlimited(&list->at[k].choice->price) == search_unlimited(&c->price);)
    if (micro_equal(m, list->at[k].choice, c)) first = k;
  return first;
}

bool micro_may_gain(const Micro *m, const SearchChoice *c) {
  return (1 - GAIN) * search_unlimited(&c->price) < micro_best_seconds(m);
}
