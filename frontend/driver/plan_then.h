// Prices layouts as they would be with parts of a saved plan: with its model and the machine of
// now, say. So `plan --against` finds which change made another layout the best one. Input: saved
// plans (plan_file.h), also one made from the plan of now. Output: SearchPrices, equal to those
// that `check` and `plan` print for a program.
#ifndef FRONTEND_PLAN_THEN_H
#define FRONTEND_PLAN_THEN_H

#include "frontend/driver/plan_file.h"

// The parts of a saved plan on which prices depend, beside the version of meshc.
typedef enum PlanPart { PART_MODEL, PART_MACHINE, PART_MEMORY, PLAN_PARTS } PlanPart;

// Where each part comes from: a set of bits 1 << PlanPart. A bit that is set takes the part from
// `now`, others from `then`.
typedef struct PlanSides {
  const SavedPlan *then, *now;
} PlanSides;

typedef struct PlanPricing {
  Session *s; // of the plan of now; its parameters such as the folder of the model are used
  PlanSides sides;
} PlanPricing;

// Sets *out to the price of a layout of either plan, with the parts `from`. Returns false if that
// cannot be priced: the model cannot be built, or does not take the layout.
MUST_USE bool plan_price(const PlanPricing *p, uint32_t from, const SavedChoice *layout,
                         SearchPrice *out);

#endif
