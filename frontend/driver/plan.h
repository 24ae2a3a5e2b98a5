// The facts that `meshc plan` reports about a model: the cheapest layouts, their estimated costs
// and predicted times, and the layout to use. The command and the library (frontend/library) share
// it. Input: a loaded session. Output: a PlanReport, and the JSON object made from it. planner.h
// has the search and its words (choice, refined, predicted).
#ifndef FRONTEND_PLAN_H
#define FRONTEND_PLAN_H

#include "frontend/driver/planner.h"

// How many further rules are reported at most for each of two aims: less time, and less memory.
enum { PLAN_RULES = 4 };

typedef struct PlanReport {
  Session *s;
  SearchTask task;
  Selected graph;
  SearchResult *found;
  Foreseen kept[PLANNER_KEPT]; // predictions for the choices of `found`
  // The layout of the model file or of --layout; own.choice.mesh is NULL if it is for another
  // number of processors.
  Foreseen own;
  Foreseen refined;    // the best choice of `found` with rules that make it faster
  Foreseen small;      // the refined choice with rules that save memory
  const Foreseen *use; // the prediction with the fastest program, of `kept`, `refined` and `own`
  // For each rule that can be added: the best choice of `found` with that rule.
  SearchRules rules;
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
// Returns the rule that the choice c (an entry of r->gain) adds to the best layout, in the syntax
// of --layout.
const char *plan_rule_text(const PlanReport *r, const SearchChoice *c);

#endif
