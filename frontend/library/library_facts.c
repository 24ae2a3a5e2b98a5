// Implements meshc_json: returns the object that the commands check, explain and plan print with
// --json, made by the functions that make it for them.
#include "frontend/driver/check.h"
#include "frontend/driver/plan.h"
#include "frontend/library/library_internal.h"
#include "frontend/report/explain.h"

#include <string.h>

static json_t *check(Session *s) {
  CheckFacts facts;
  return check_compile(s, &facts) ? check_json(s, &facts) : NULL;
}

static json_t *explain(Session *s) {
  Selected of;
  Compilation c;
  if (!session_make(s, "program", &of, &c)) return NULL;
  Explain *e = explain_new(s, &c, &of, (WhatIfAsk){.depth = WHAT_IF_BEST});
  return e ? explain_json(e, collectives_json(s, c.facts), -1) : NULL;
}

static json_t *plan(Session *s) {
  PlanReport report;
  return plan_make(s, &report) ? plan_json(&report) : NULL;
}

// The commands, each with the function that returns its facts, or NULL after an error.
static const struct {
  const char *command;
  json_t *(*facts)(Session *s);
} makers[] = {{"check", check}, {"explain", explain}, {"plan", plan}};

char *library_json(meshc_model *model, const char *command, meshc_purpose purpose) {
  static const char *const purposes[] = {"run", "eval", "train"};
  CompiledModel *m = library_model_of(model);
  size_t i = 0;
  while (i < countof(makers) && (!command || strcmp(command, makers[i].command))) i++;
  if (i == countof(makers) || (unsigned)purpose >= countof(purposes)) {
    diag_error(m->s.diag, DIAG_USAGE, (Pos){0},
               "facts are those of \"check\", \"explain\" or \"plan\"");
    return NULL;
  }
  library_option(m, OPTION_FOR, purposes[purpose]);
  json_t *out = makers[i].facts(&m->s);
  library_option(m, OPTION_FOR, NULL);
  if (!out) return NULL;
  json_diagnostics(out, m->s.diag);
  char *text = json_dumps(out, JSON_INDENT(2) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
  json_decref(out);
  if (!text) mem_exhausted(0);
  return text;
}
