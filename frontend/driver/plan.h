// The facts that `meshc plan` reports about a model: the cheapest layouts, their estimated costs
// and predicted times, and the layout to use. The command and the library (frontend/library) share
// it. Input: a loaded session. Output: a PlanReport, and the JSON object made from it. planner.h
// has the search and its words (choice, refined, predicted).
#ifndef FRONTEND_PLAN_H
#define FRONTEND_PLAN_H

#include "frontend/driver/planner.h"

enum { PLAN_RULES = 4 }; // further rules that are reported at most: the fastest, and the smallest

typedef struct PlanReport {
  Session *s;
  SearchTask task;
  Selected graph;
  SearchResult *found;
  Foreseen kept[PLANNER_KEPT]; // the choices of `found`
  // The layout of the model file or of --layout; own.choice.mesh is NULL if it is for another
  // number of processors.
  Foreseen own;
  Foreseen refined;    // the best choice of `found` with rules that make it faster
  Foreseen small;      // the refined choice with rules that save memory
  const Foreseen *use; // the one with the fastest program among `kept` and `refined`
  SearchRules rules;   // the best choice of `found` with one more rule, for each possible rule
  // The entries of `rules` that are printed: the fastest, then those that need least memory.
  SearchChoice *gain[2 * PLAN_RULES];
  uint32_t ngains;
  double seconds; // duration of the search
} PlanReport;

// Searches the layouts of --processors, or of the model's mesh, and fills *out, whose parts are in
// the session's arena. Returns false after an error.
MUST_USE bool plan_make(Session *s, PlanReport *out);
// Returns the object that `plan --json` prints. The caller owns it.
json_t *plan_json(const PlanReport *r);
// Returns the rule that c has more than the best choice, as --layout takes it.
const char *plan_rule_text(const PlanReport *r, const SearchChoice *c);

#endif
