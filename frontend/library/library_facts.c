// Implements meshc_json: returns the object that the commands check, explain and plan print with
// --json, made by the functions that make it for them.
#include "frontend/driver/check.h"
#include "frontend/driver/plan.h"
#include "frontend/library/library_internal.h"
#include "frontend/report/explain.h"

#include <stdlib.h>
#include <string.h>

typedef struct Asking {
  const char *command;
  meshc_purpose purpose;
  char *text; // the result: JSON allocated by malloc
} Asking;

static json_t *check(Session *s) {
  CheckFacts facts;
  return check_compile(s, &facts) ? check_json(s, &facts) : NULL;
}

static json_t *explain(Session *s) {
  Selected of;
  Compilation c;
  if (!session_make(s, "program", &of, &c)) return NULL;
  Explain *e = explain_new(s, &c, &of, WHAT_IF_BEST);
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

static bool ask(meshc_model *m, void *context) {
  static const char *const purposes[] = {"run", "eval", "train"};
  Asking *a = context;
  size_t i = 0;
  while (i < countof(makers) && (!a->command || strcmp(a->command, makers[i].command))) i++;
  if (i == countof(makers) || (unsigned)a->purpose >= countof(purposes))
    return diag_error(m->s.diag, DIAG_USAGE, (Pos){0},
                      "facts are those of \"check\", \"explain\" or \"plan\"");
  library_option(m, OPTION_FOR, purposes[a->purpose]);
  json_t *out = makers[i].facts(&m->s);
  library_option(m, OPTION_FOR, NULL);
  if (!out) return false;
  json_diagnostics(out, m->s.diag);
  a->text = json_dumps(out, JSON_INDENT(2) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
  json_decref(out);
  if (!a->text) mem_exhausted(0);
  return true;
}

char *meshc_json(meshc_model *m, const char *command, meshc_purpose purpose, meshc_error **error) {
  Asking a = {.command = command, .purpose = purpose};
  (void)library_call(m, ask, &a, error);
  return a.text;
}

void meshc_free(char *text) { free(text); }

void library_option(meshc_model *m, OptionId id, const char *text) {
  if (!text) {
    m->options.use[id].n--;
    return;
  }
  uint32_t n = (uint32_t)strlen(text);
  OptionUse use = {.text = text};
  use.pos = (Pos){.source = diag_source(m->s.diag, option_name(id), text, n)};
  vec_push(m->s.arena, m->options.use[id]) = use;
}
