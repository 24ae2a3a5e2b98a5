// The facts that `meshc plan` reports about a model: the best layouts, their predicted times and
// memory, and the layout to use. The command and the library (frontend/library) share it. Input: a
// loaded session. Output: a PlanReport, and the JSON object made from it. planner.h has the search
// and its words (choice, price).
#ifndef FRONTEND_PLAN_H
#define FRONTEND_PLAN_H

#include "frontend/driver/planner.h"

// How many further rules are reported at most for each of two aims: less time, and less memory.
enum { PLAN_RULES = 4 };

// What one further rule changes.
typedef struct PlanRule {
  const LayoutRule *rule;
  double seconds, sent, peak; // of the layout with the rule, less those of the layout without it
} PlanRule;

typedef struct PlanReport {
  Session *s;
  SearchTask task;
  SearchResult *found;     // the best layouts, the best first
  SearchChoice own;        // the layout of the model file or of --layout; own.mesh is NULL if it is
                           // for another number of processors
  const SearchChoice *use; // the best of `found` and `own`
  const SearchChoice *smaller;   // a priced layout that needs less memory and takes at most 5 %
                                 // longer than `use`, or NULL
  PlanRule rule[2 * PLAN_RULES]; // rules that `use` could have, too: the fastest, then those that
                                 // need least memory
  uint32_t nrules;
  double products; // seconds of the products of a step alone, divided evenly among all processors
  double seconds;  // duration of the search
} PlanReport;

// Searches the layouts of --processors, or of the model's mesh, and fills *out, whose parts are in
// the session's arena. Returns false after an error.
MUST_USE bool plan_make(Session *s, PlanReport *out);
// Returns the object that `plan --json` prints. The caller owns it.
json_t *plan_json(const PlanReport *r);
// Returns the line that says how many layouts of how many were priced, and what that proves about
// the layout to use.
const char *plan_searched_text(const PlanReport *r);
// Returns a rule of r->rule in the syntax of --layout.
const char *plan_rule_text(const PlanReport *r, const PlanRule *rule);

#endif
