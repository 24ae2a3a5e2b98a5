// The search for a layout, for the command `plan` and for `--layout auto`. Input: a loaded session.
// Output: the layouts that the search finds (partition/search), with predictions for their
// programs.
//
// The words: a choice (SearchChoice) is a mesh, a layout and its cost as the search estimates it on
// the graph. The refined choice is the cheapest one with further rules that make it faster: for the
// optimizer, and soft rules. A prediction (Foreseen) is made from the compiled program.
#ifndef FRONTEND_PLANNER_H
#define FRONTEND_PLANNER_H

#include "frontend/driver/foresee.h"

// Sets *mesh to the *n meshes to search, in the session's arena: all shapes of `processors`
// processors, or the model's mesh if `processors` is 0. Every mesh has the axes that `layout(...)`
// in the model names. Returns false after an error, which says that no mesh has them all.
MUST_USE bool planner_meshes(Session *s, int64_t processors, uint32_t *n, const Mesh **mesh);
// Fills *out, the input of the search: the graph that --for and --fetch select, and the nmeshes
// meshes on which it is to be placed. The search is to return the `keep` cheapest layouts. *out is
// in the session's arena. Returns false after an error.
MUST_USE bool planner_task(Session *s, uint32_t nmeshes, const Mesh *mesh, uint32_t keep,
                           SearchTask *out);
enum { PLANNER_KEPT = 5 }; // the number of layouts of the search that are compiled and compared

// Fills `kept` with predictions for all choices of r, at most PLANNER_KEPT, and *refined with the
// prediction for refined->choice. *use gets the prediction with the fastest program among those
// that fit the memory. If none fits, *use gets a prediction for the layout that needs least memory.
// Returns false after an error, also if that layout does not fit either.
MUST_USE bool planner_fastest(Session *s, const Selected *of, const SearchTask *t,
                              const SearchResult *r, Foreseen *refined, Foreseen *kept,
                              const Foreseen **use);
// Searches layouts and sets *out to the cheapest choices. If no searched layout fits the memory,
// *out has only the layout that needs least memory. That layout gets further rules that split the
// optimizer's tensors, gradients and parameters. Returns false after an error, which says that no
// layout fits.
MUST_USE bool planner_search(Session *s, const SearchTask *t, SearchResult **out);
// Replaces the layout of the model by the one that `plan` recommends. Returns false after an error.
MUST_USE bool planner_choose(Session *s);

#endif
