// The search for a layout, from a model file: for `plan` and `--layout auto`.
#ifndef FRONTEND_PLANNER_H
#define FRONTEND_PLANNER_H

#include "frontend/driver/session.h"
#include "partition/search/search.h"

// The meshes to search: all shapes of `processors`, for one processor a mesh of size 1, without a
// number (0) the model's mesh. Axes that `layout(...)` of the model names are in each of them,
// under their names. False after an error: there is none.
MUST_USE bool planner_meshes(Session *s, int64_t processors, uint32_t *n, const Mesh **mesh);
// The task for the session's model on the meshes: what its training step (or what --for, --fetch
// ask for) costs. In the model's arena; false after an error.
MUST_USE bool planner_task(Session *s, uint32_t nmeshes, const Mesh *mesh, uint32_t keep,
                           SearchTask *out);
enum { PLANNER_KEPT = 5 }; // layouts of the search that are compiled and compared

// What the command compiles, selected once. Layouts are applied to this graph (layout_apply): the
// model is not built again for each.
typedef struct PlanGraph {
  const Graph *graph;
  const char *purpose, *over;
} PlanGraph;
// False after an error.
MUST_USE bool planner_select(Session *s, PlanGraph *out);
// A choice as a compiled program.
typedef struct Foreseen {
  int64_t peak; // bytes of a processor
  bool fits;    // in --memory, else in the machine's
  const Simulation *time;
} Foreseen;
// Compiles `of` under the choice and simulates the program: what `check` predicts under that
// layout. The search knows estimated costs only. False after an error.
MUST_USE bool planner_foresee(Session *s, const PlanGraph *of, const SearchChoice *c,
                              Foreseen *out);
// Foresees all of r, at most PLANNER_KEPT, and the refined choice. *use is the fastest of those
// that fit the memory; if none does, the smallest layout that was found. False after an error: that
// does not fit either.
MUST_USE bool planner_fastest(Session *s, const PlanGraph *of, const SearchTask *t,
                              const SearchResult *r, const SearchChoice *refined, Foreseen *kept,
                              Foreseen *of_refined, const SearchChoice **use,
                              const Foreseen **of_use);
// Searches. If no layout of dims fits the memory, adds rules for the optimizer, gradients and
// parameters to the smallest one. False after an error: no layout fits.
MUST_USE bool planner_search(Session *s, const SearchTask *t, SearchResult **out);
// Replaces the layout of the model by the one that `plan` recommends. False after an error.
MUST_USE bool planner_choose(Session *s);

#endif
