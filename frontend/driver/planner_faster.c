// Tries micro-batches that memory does not ask for. On CPUs a step may take less time if the values
// of a micro-batch fit a cache. Candidates are the layouts that take little more time than the best
// choice:
//
//   where all layouts were priced   those that fit without micro-batches; planner_small.c has tried
//                                   the others
//   else                            also those that do not fit so; while this takes little work
//
// Input: the result of a search. Output: that result, with choices added that are better than all
// before them.
#include "frontend/driver/planner_micro_internal.h"

// Of a space that is not small, layouts are tried until this part of the work is used up.
static const double PART = 0.25;

// Returns whether a choice with micro-batches takes less time than the best choice by more than
// prices that are alike differ, or is simpler than a best choice that has some, too.
static bool is_better(const Micro *m, const SearchChoice *c) {
  const SearchChoice *best = m->found->at;
  return !m->found->n || c->price.seconds < (1 - SEARCH_ALIKE) * best->price.seconds ||
         (best->accumulate && planner_better(m->task, c, best));
}

// Prices a layout with n micro-batches, if its whole program will be compiled.
static bool price_parts(Micro *m, const SearchChoice *from, int64_t n, SearchChoice *out) {
  *out = *from;
  out->accumulate = n;
  out->price.again = 0;
  return micro_divides(m, from, n) && !planner_is_long(planner_selected(m->task), out) &&
         micro_price(m, from, n, (SearchHint){.as_is = true}, out);
}

// Tries a layout with more and more micro-batches, while these may take less time than the best
// choice. Where only a part of a batch fits a cache, the first numbers gain nothing.
static void try_faster(Micro *m, const SearchChoice *from) {
  SearchChoice c = *from;
  for (int64_t n = micro_more(m, from, 1);
       n && micro_may_gain(m, &c) && price_parts(m, from, n, &c); n = micro_more(m, from, n))
    if (micro_fits(m, &c) && is_better(m, &c)) micro_add(m, &c);
}

// Returns the candidates, sorted.
static CandidateList list_candidates(const Micro *m) {
  CandidateList list = {0};
  for (uint32_t i = 0; i < m->found->npriced; i++) {
    const SearchChoice *c = &m->found->priced[i];
    bool fits = micro_fits(m, c) && c->price.again <= 0;
    bool excluded = !m->found->all && micro_is_excluded(m->task, c);
    if ((fits || excluded) && micro_may_gain(m, c))
      vec_push(m->s->arena, list) = (Candidate){c, i, 1};
  }
  micro_sort(&list, 0);
  return list;
}

void micro_try_faster(Micro *m) {
  const Machine *machine = m->task->machine;
  if (machine->gpu || (!machine->l2 && !machine->l3)) return;
  CandidateList list = list_candidates(m);
  double left = m->found->all ? 0 : (1 - PART) * m->work;
  for (uint32_t i = 0; i < list.n && (!i || m->work > left); i++)
    if (micro_first_equal(m, &list, i) == i) try_faster(m, list.at[i].choice);
}
