// Searches a layout for a model, for `plan` and `--layout auto`.
// Input: a session with a built model. Output: layouts in order of estimated cost, and their
// predicted time and memory as compiled programs. The search itself is partition/search.
#ifndef FRONTEND_PLANNER_H
#define FRONTEND_PLANNER_H

#include "frontend/driver/session.h"
#include "partition/search/search.h"

// Sets *mesh to the *n meshes to search, in the session's arena: all shapes of `processors`
// processors, or the model's mesh if `processors` is 0. Every mesh has the axes that the model's
// `layout(...)` pins name. Returns false after an error if there is no such mesh.
MUST_USE bool planner_meshes(Session *s, int64_t processors, uint32_t *n, const Mesh **mesh);
// Makes the search task for the session's model on these meshes, in the session's arena. Its cost
// is that of the training step, or of what --for and --fetch ask for. `keep` layouts are kept.
// Returns false after an error.
MUST_USE bool planner_task(Session *s, uint32_t nmeshes, const Mesh *mesh, uint32_t keep,
                           SearchTask *out);
enum { PLANNER_KEPT = 5 }; // layouts that the search keeps and that are compared as programs

// Prediction for one layout, from its compiled program.
typedef struct Foreseen {
  int64_t peak;
  bool fits; // the peak fits into --memory, else into the machine's memory
  const Simulation *time;
} Foreseen;
// Builds the model again under the choice, compiles and simulates it. The prediction equals that of
// `check` under this layout; the search's estimated cost is computed from the graph alone. Returns
// false after an error.
MUST_USE bool planner_foresee(Session *s, const SearchChoice *c, Foreseen *out);
// Predicts all layouts of r (at most PLANNER_KEPT) into kept[] and the refined one into
// *of_refined. Sets *use to the fastest that fits the memory; if none fits, to the layout of least
// memory. *of_use is its prediction. Returns false after an error, also if that layout does not fit
// either.
MUST_USE bool planner_fastest(Session *s, const SearchTask *t, const SearchResult *r,
                              const SearchChoice *refined, Foreseen *kept, Foreseen *of_refined,
                              const SearchChoice **use, const Foreseen **of_use);
// Runs the search of *t and shows progress. If no layout made of rules `dim -> axis` fits the
// memory, adds rules that save memory, such as ZeRO. Returns false after an error if still none
// fits.
MUST_USE bool planner_search(Session *s, const SearchTask *t, SearchResult **out);
// Replaces the model's layout by the one that `plan` recommends. Returns false after an error.
MUST_USE bool planner_choose(Session *s);

#endif
