// Returns the facts of a compile as JSON: the same object that `meshc check --json` or `meshc
// explain --json` prints. Implements meshc_json.
#include "frontend/driver/check.h"
#include "frontend/library/library_internal.h"
#include "frontend/report/explain.h"

#include <stdlib.h>
#include <string.h>

typedef struct Asking {
  const char *command;
  meshc_purpose purpose;
  char *text; // from malloc
} Asking;

static json_t *facts(meshc_model *m, const Asking *a) {
  Session *s = &m->s;
  Selected of;
  Compilation c;
  if (!strcmp(a->command, "check")) {
    CheckFacts check;
    return check_compile(s, &check) ? check_json(s, &check) : NULL;
  }
  if (!session_make(s, "program", &of, &c)) return NULL;
  return explain_json(explain_new(s, &c, of.purpose), collectives_json(s, c.facts), -1);
}

static bool ask(meshc_model *m, void *context) {
  static const char *const purposes[] = {"run", "eval", "train"};
  Asking *a = context;
  if (!a->command || (strcmp(a->command, "check") != 0 && strcmp(a->command, "explain") != 0) ||
      (unsigned)a->purpose >= countof(purposes))
    return diag_error(m->s.diag, DIAG_USAGE, (Pos){0},
                      "facts are those of \"check\" or \"explain\"");
  library_option(m, OPTION_FOR, purposes[a->purpose]);
  json_t *out = facts(m, a);
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
