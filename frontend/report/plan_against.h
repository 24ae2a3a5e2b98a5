// What differs between a plan and one that was saved (`plan --against`): the model, the machine,
// the memory, meshc; the prices of the same layouts then and now, and how much of each difference
// comes from which change; the layout to use then and now, and the change that made another one
// better. Input: a PlanReport and a SavedPlan. Output: a PlanAgainst; text; JSON.
#ifndef FRONTEND_PLAN_AGAINST_H
#define FRONTEND_PLAN_AGAINST_H

#include "frontend/driver/plan_then.h"

// One thing on which a plan depends, and which is not as it was.
typedef struct PlanChange {
  const char *kind; // "dim", "line", "import", "option", "machine", "memory", "meshc", "space"
  const char *name; // of the dim, the option or the figure; "line 7"; or ""
  const char *then, *now; // NULL: there was, or is, nothing of that name
} PlanChange;

// The causes of a difference of prices, in the order in which they are taken into account.
typedef enum PlanCause { CAUSE_MESHC, CAUSE_MACHINE, CAUSE_MEMORY, CAUSE_MODEL, CAUSES } PlanCause;

// The prices of one layout.
typedef struct PlanPriced {
  SavedChoice layout;
  bool was, is; // `then` and `now` are known: the layout was saved with its price, and is valid now
  SearchPrice then, now;
  bool divided;            // by_cause is known: each of the changes alone can be priced
  double by_cause[CAUSES]; // seconds that each cause adds; they add up to now - then
} PlanPriced;

typedef struct PlanAgainst {
  Arena *a;
  const char *path; // of the saved plan
  bool all;         // print all changes (-v)
  SavedPlan then, now;
  VEC(PlanChange) change;
  VEC(PlanPriced) priced; // the layout to use of then first, then that of now if it is another one
  bool same_layout;
  VEC(const char *) why; // sentences: what made another layout the one to use
} PlanAgainst;

// Compares the plan with `then`, which plan_file_read filled. The result is in the session's arena.
PlanAgainst *plan_against(const PlanReport *r, const SavedPlan *then);
void plan_against_print(const PlanAgainst *p);
// Returns the comparison as a new JSON object.
json_t *plan_against_json(const PlanAgainst *p);

#endif
