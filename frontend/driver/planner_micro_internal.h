// What the files that try micro-batches (`accumulate`) share.
//
//   planner_micro.c    layouts that memory excludes, the fastest first
//   planner_small.c    all of them, where the space of layouts is small
//   planner_divided.c  prices with micro-batches, within a limit of work
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
  double reserved;        // of these, for the prices with recomputation that come later
} Micro;

// -- planner_divided.c
// Returns the axes over which a rule, or a soft rule, of the layout splits the batch.
Axes micro_batch_axes(const Session *s, const SearchChoice *c, bool soft);
// Returns whether a step may have n micro-batches under the layout, and is then compiled in a few
// seconds.
bool micro_divides(const Micro *m, const SearchChoice *c, int64_t n);
// Prices a layout with n micro-batches. hint: as for price_layout. Returns false if it cannot be
// compiled, or if no work is left for it.
bool micro_price(Micro *m, const SearchChoice *from, int64_t n, SearchHint hint, SearchChoice *out);
// Prices a layout with n micro-batches and recomputation. Returns whether it fits.
bool micro_recompute(Micro *m, const SearchChoice *from, int64_t n, SearchChoice *out);
// Adds a choice to the result of the search, if it fits and is one of the best.
void micro_add(Micro *m, const SearchChoice *c);
bool micro_fits(const Micro *m, const SearchChoice *c);
// Returns the seconds of the best choice so far.
double micro_best_seconds(const Micro *m);
// Returns the seconds that a priced choice takes without recomputation, or about that.
double micro_unlimited(const SearchPrice *p);
// Returns whether the layout needs too much memory without recomputation, but not for parameters
// and states alone, which micro-batches do not divide.
bool micro_is_excluded(const SearchTask *t, const SearchChoice *c);

// -- planner_small.c
// Tries all layouts that memory excludes and that may take less time than the best choice.
void micro_try_all(Micro *m);

#endif
