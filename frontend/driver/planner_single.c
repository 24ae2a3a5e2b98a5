// Tries micro-batches of single rows where nothing else fits the memory.
//
// While the programs of n micro-batches are alike, their memory is about x + y / n, and the other
// files give up where x alone does not fit. With one row a processor the program is another one:
// nothing is left of the sums over rows, so kernels add a gradient to its sum at once, and it needs
// no memory of its own. Such steps take long. Input: a result without a layout that fits. Output:
// that result, with such choices added.
#include <stdlib.h>

#include "frontend/driver/planner_micro_internal.h"

enum { LAYOUTS = 32 }; // at most, while half of the work is left

// Orders candidates by what their programs keep between steps, which no micro-batches divide.
static int by_kept(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  const SearchPrice *p = &a->choice->price, *q = &b->choice->price;
  if (p->kept != q->kept) return p->kept < q->kept ? -1 : 1;
  if (p->unlimited_peak != q->unlimited_peak) return p->unlimited_peak < q->unlimited_peak ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

// Returns the layouts to try, with their numbers of micro-batches; of equal programs one.
static CandidateList list_single(const Micro *m) {
  CandidateList all = {0}, list = {0};
  for (uint32_t i = 0; i < m->found->npriced; i++) {
    const SearchChoice *c = &m->found->priced[i];
    int64_t n = micro_rows_each(m, c);
    if (micro_is_excluded(m->task, c) && n > 1 && micro_divides(m, c, n))
      vec_push(m->s->arena, all) = (Candidate){c, i, n};
  }
  micro_sort(&all, 0);
  for (uint32_t i = 0; i < all.n; i++)
    if (micro_first_equal(m, &all, i) == i) vec_push(m->s->arena, list) = all.at[i];
  if (list.n) qsort(list.at, list.n, sizeof *list.at, by_kept);
  if (list.n > LAYOUTS) list.n = LAYOUTS;
  return list;
}

static bool try_number(Micro *m, const SearchChoice *from, int64_t n, bool again) {
  SearchChoice c;
  if (again) return micro_recompute(m, from, n, &c);
  if (!micro_price(m, from, n, (SearchHint){.as_is = true}, &c)) return false;
  micro_add(m, &c);
  return micro_fits(m, &c);
}

// Tries a layout with single rows and, if these fit, with more rows while they do.
static void try_single(Micro *m, const Candidate *x, bool again) {
  int64_t n = x->least;
  while (n > 1 && try_number(m, x->choice, n, again)) n = micro_fewer(m, x->choice, n);
}

void micro_try_single(Micro *m) {
  if (m->found->n) return;
  CandidateList list = list_single(m);
  double half = m->work / 2;
  for (int again = 0; again < 2 && !m->found->n; again++)
    for (uint32_t i = 0; i < list.n && m->work > half; i++) try_single(m, &list.at[i], again);
}
