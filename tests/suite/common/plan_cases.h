// Models and machines for which it is known what a practitioner would write: the cases of
// suite_search_cases. Each has layouts written by hand, with which the layout that `plan` finds is
// compared, and a sentence that says why an expert agrees with the result.
#ifndef SUITE_PLAN_CASES_H
#define SUITE_PLAN_CASES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct HandLayout {
  const char *what;   // the name of the layout among practitioners
  const char *layout; // text of --layout
  const char *mesh;   // text of --mesh; NULL: PlanCase.mesh
  int accumulate;     // micro-batches; 0: the whole batch at once
} HandLayout;

enum { MAX_HAND_LAYOUTS = 10 };

typedef struct PlanCase {
  const char *name, *title;
  const char *model; // the model file and its options, separated by blanks
  const char *where; // --processors or --mesh, and --machine, separated by blanks
  const char *mesh;  // mesh of layouts that name none
  bool daily;        // also without the argument `all`
  uint32_t priced;   // the search may price at most so many layouts
  int seconds;       // and take so much processor time
  const char *whole; // dims that no rule is to split, each between commas (",k,half,"), or NULL
  HandLayout hand[MAX_HAND_LAYOUTS + 1]; // ends with a row without `what`
  const char *why;
} PlanCase;

extern const PlanCase plan_cases[];
extern const uint32_t nplan_cases;

#endif
