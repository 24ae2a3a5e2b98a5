// The search for a layout, for the command `plan` and for `--layout auto`. Input: a loaded session.
// Output: the layouts that the search finds (partition/search), with predictions for their
// programs.
//
// The words: a choice (SearchChoice) is a mesh, a layout and its price. The price is the predicted
// time and memory of a step, from programs of short models (price.h) or from the program of the
// whole model.
#ifndef FRONTEND_PLANNER_H
#define FRONTEND_PLANNER_H

#include "frontend/driver/foresee.h"

// -- planner_meshes.c
// Sets *mesh to the *n meshes to search, in the session's arena: all shapes of `processors`
// processors, or the model's mesh if `processors` is 0. Every mesh has the axes that `layout(...)`
// in the model names. Returns false after an error, which says that no mesh has them all.
MUST_USE bool planner_meshes(Session *s, int64_t processors, uint32_t *n, const Mesh **mesh);
// -- planner_samples.c
// Fills *out, the input of the search: the graph that --for and --fetch select, and the nmeshes
// meshes on which it is to be placed. The search is to return the `keep` cheapest layouts. *out is
// in the session's arena. Returns false after an error.
MUST_USE bool planner_task(Session *s, uint32_t nmeshes, const Mesh *mesh, uint32_t keep,
                           SearchTask *out);
// Adds to a task of planner_task what its prices are computed from (price.h). of: what the programs
// are for; NULL: what session_select says. Returns false after an error.
MUST_USE bool planner_prices(Session *s, const Selected *of, SearchTask *out);
// Returns what the programs of a task of planner_prices are for.
const Selected *planner_selected(const SearchTask *t);
// -- planner.c
enum { PLANNER_KEPT = 5 }; // the number of layouts of the search that are shown
// Searches layouts and, where memory excludes some, micro-batches. Sets *out to the best choices.
// Returns false after an error, which says that no layout fits and names the smallest.
MUST_USE bool planner_search(Session *s, const SearchTask *t, SearchResult **out);
// Replaces the layout of the model, and the number of its micro-batches, by those that `plan`
// recommends for its mesh. Returns false after an error.
MUST_USE bool planner_choose(Session *s);
// -- planner_micro.c
// Adds to *r, the result of a search, the choices with micro-batches.
void planner_divide(Session *s, const SearchTask *t, SearchResult *r);
// -- planner_divided.c
// Adds a choice that another search has found to the best choices of *r, if it is one of them.
void planner_add(Session *s, const SearchTask *t, SearchResult *r, const SearchChoice *c);
// Returns whether micro-batches may be tried for a step of this purpose: it is a training step
// without micro-batches that computes the same with them.
bool planner_step_divides(const Session *s, const char *purpose);
// Returns the same for the step of a search.
bool planner_may_divide(const Session *s, const SearchTask *t);
// Returns whether n micro-batches have the same number of rows, and all processors have as many
// rows of them as of the whole batch.
bool planner_rows_divide(const Session *s, const SearchChoice *c, int64_t n);
// Returns the least such number of at least 1.5 n and at most `most`, or 0 if there is none.
int64_t planner_next_number(const Session *s, const SearchChoice *c, int64_t n, int64_t most);
// Sets *out to the session s with its model built with n micro-batches. Returns false if it cannot
// be built; that is no error.
MUST_USE bool planner_accumulated(const Session *s, int64_t n, Session *out);
// Builds the model of s anew with n micro-batches. Its epochs are not counted yet. Returns false if
// it cannot be built.
MUST_USE bool planner_take_accumulated(Session *s, int64_t n);
// -- planner_whole.c
// Sets the price of a choice to that of its whole program, which `check` predicts. Returns false
// after an error.
MUST_USE bool planner_confirm(Session *s, const Selected *of, SearchChoice *c);
// Returns whether the whole program of a choice is compiled for its prediction: one of many
// micro-batches would take long. of: the graph without these micro-batches.
bool planner_compiles(const Selected *of, const SearchChoice *c);
// Returns whether the step of a choice has so many micro-batches, and so many nodes, that its whole
// program is compiled only where programs with few of them do not say what it takes.
bool planner_is_long(const Selected *of, const SearchChoice *c);
// Confirms choices of r, at least until the best one is confirmed if it compiles (above), and sorts
// them: the first is the layout to use. Returns false after an error, also if no layout fits the
// memory.
MUST_USE bool planner_compare(Session *s, const Selected *of, const SearchTask *t, SearchResult *r);
// Returns whether the price of x is better: it fits the memory, and takes less time. Of choices
// that do not fit the one that needs less memory is better.
bool planner_better(const SearchTask *t, const SearchChoice *x, const SearchChoice *y);

#endif
