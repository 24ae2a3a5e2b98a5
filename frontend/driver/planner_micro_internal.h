// What the files that try micro-batches (`accumulate`) share.
//
//   planner_micro.c    layouts that memory excludes, the fastest first
//   planner_small.c    all of them, where the space of layouts is small
//   planner_single.c   micro-batches of single rows, where nothing else fits
//   planner_faster.c   layouts that may be faster because smaller parts fit a cache
//   planner_divided.c  prices with micro-batches, within a limit of work
//   planner_alike.c    which layouts are tried, and whose programs are equal
#ifndef FRONTEND_PLANNER_MICRO_H
#define FRONTEND_PLANNER_MICRO_H

#include "frontend/driver/planner.h"
#include "frontend/driver/price.h"

typedef struct Divided Divided; // the model with a number of micro-batches

typedef struct Micro {
  Session *s;
  const SearchTask *task;
  SearchResult *found;
  VEC(Divided *) divided; // those that were made so far
  double work;            // nodes that may still be compiled
  double reserved;        // of these, for prices that come later
} Micro;

// A choice that may be tried, its place in the order in which choices were found, and the least
// number of micro-batches with which it may fit.
typedef struct Candidate {
  const SearchChoice *choice;
  uint32_t order;
  int64_t least;
} Candidate;
typedef VEC(Candidate) CandidateList;

// -- planner_divided.c
// Returns the axes over which a rule, or a soft rule, of the layout splits the batch.
Axes micro_batch_axes(const Session *s, const SearchChoice *c, bool soft);
// Returns the least number of micro-batches above n into which a step may be divided under the
// layout; 0: there is none.
int64_t micro_more(const Micro *m, const SearchChoice *c, int64_t n);
// Returns whether a step may have n micro-batches under the layout, and is then compiled in a few
// seconds.
bool micro_divides(const Micro *m, const SearchChoice *c, int64_t n);
// Returns the number of micro-batches with which a processor has one row of each.
int64_t micro_rows_each(const Micro *m, const SearchChoice *c);
// Returns the largest number of micro-batches below n into which a step may be divided under the
// layout; 1 if there is none.
int64_t micro_fewer(const Micro *m, const SearchChoice *c, int64_t n);
// Prices a layout with n micro-batches. hint: as for price_layout. Returns false, and leaves *out
// as it is, if it cannot be compiled, or if no work is left for it.
bool micro_price(Micro *m, const SearchChoice *from, int64_t n, SearchHint hint, SearchChoice *out);
// Prices a layout with n micro-batches and recomputation. Returns whether it fits.
bool micro_recompute(Micro *m, const SearchChoice *from, int64_t n, SearchChoice *out);
// Adds a choice to the result of the search, if it fits and is one of the best.
void micro_add(Micro *m, const SearchChoice *c);
bool micro_fits(const Micro *m, const SearchChoice *c);
// Returns the seconds of the best choice so far.
double micro_best_seconds(const Micro *m);
// Returns the memory of a priced choice without recomputation; where that is not known, what it
// needs with recomputation, which is less.
double micro_peak(const SearchPrice *p);
// Returns whether the layout needs too much memory without recomputation, but not for parameters
// and states alone, which micro-batches do not divide.
bool micro_is_excluded(const SearchTask *t, const SearchChoice *c);

// -- planner_small.c
// Tries all layouts that memory excludes and that may take less time than the best choice.
void micro_try_all(Micro *m);

// -- planner_single.c
// If nothing fits, tries micro-batches of single rows.
void micro_try_single(Micro *m);

// -- planner_faster.c
// Tries layouts with micro-batches that may make them faster than the best choice.
void micro_try_faster(Micro *m);

// -- planner_alike.c
// Returns whether more micro-batches may make a choice faster than the best one.
bool micro_may_gain(const Micro *m, const SearchChoice *c);
// Sorts the candidates from number `first` on by their time without recomputation.
void micro_sort(CandidateList *list, uint32_t first);
// Returns whether the programs of both are equal with other micro-batches, too, by all figures that
// are known: a batch that is split becomes too short for as many processors. A soft rule that
// splits it as a rule does makes no difference.
bool micro_equal(const Micro *m, const SearchChoice *x, const SearchChoice *y);
// Returns the number of the first choice of a sorted list whose program is equal to that of number
// i: i itself, or one before it.
uint32_t micro_first_equal(const Micro *m, const CandidateList *list, uint32_t i);

#endif
