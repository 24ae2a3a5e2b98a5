// explain: every collective with its cause and what would remove it, or where one value lives and
// why.
#include "frontend/session.h"

#include <string.h>

static void unknown_name(const Session *s, const char *name) {
  const Graph *g = s->model->graph;
  const char **names = arena_array(s->arena, const char *, g->name.n + g->decl.n + 1);
  size_t n = 0;
  for (uint32_t i = 0; i < g->name.n; i++) names[n++] = g->name.at[i].name;
  for (uint32_t i = 0; i < g->decl.n; i++) names[n++] = g->decl.at[i].name;
  diag_error(s->diag, DIAG_UNKNOWN_FETCH, (Pos){0}, "the model has no value named '%s'", name);
  diag_nearest(s->diag, name, names, n);
}

static bool fits_here(Session *s, const Program *p) {
  return (double)program_bytes(p) * (double)mesh_size(&p->mesh) < 0.5 * (double)offers_find(s->arena).memory;
}

// Times of the collectives in three steps on made-up input, where this build can make machine code and this
// machine has the memory.
static bool measure(Session *s, const Graph *g, const char *purpose, const char *over, json_t *list) {
  enum { STEPS = 3 };
  Compilation c = {0};
  int64_t bytes;
  if (!code_available()) return true;
  bool good = session_compile(s, g, purpose, over, NULL, &c);
  bool runs = good && fits_here(s, c.compiled->program);
  Exec *e = runs ? session_exec(s, &c, NULL, NULL) : NULL;
  if (runs) good = e && synthetic_feed(s, e, c.compiled->program, &bytes);
  for (int i = 0; good && runs && i < STEPS; i++)
    if (exec_step(e, i, false) != STEP_OK) {
      exec_fault(e, s->diag);
      good = false;
    }
  if (good && runs) collectives_measured(s, list, &c, e, STEPS);
  exec_free(e);
  code_free(c.code);
  return good;
}

static int print_json(const Session *s, const char *purpose, const Compilation *c, const char *name,
                      const char *text, json_t *list) {
  json_t *out = json_object();
  for (uint32_t i = 0; i < c->facts->n; i++)
    json_object_set_new(json_array_get(list, i), "predicted_seconds",
                        json_real(c->facts->fact[i].seconds));
  json_object_set_new(out, "schema", json_string("meshc.explain/1"));
  json_object_set_new(out, "model", json_string(s->opt->argument.at[0]));
  json_object_set_new(out, "for", json_string(purpose));
  if (name) json_object_set_new(out, "name", json_string(name));
  json_object_set_new(out, "collectives", list);
  json_object_set_new(out, "wire_bytes", json_integer(c->facts->wire_bytes));
  json_object_set_new(out, "text", json_string(text));
  return json_finish(out);
}

int cmd_explain(Session *s) {
  const char *purpose, *over, *name = s->opt->argument.n > 1 ? s->opt->argument.at[1] : NULL;
  Compilation c;
  if (!session_load(s)) return 0;
  const Graph *g = session_select(s, &purpose, &over);
  if (!g || !session_compile(s, g, purpose, over, "order", &c)) return 0;
  const char *text = name ? explain_value(s->arena, c.placement, c.lowered, c.facts, s->diag, name)
                          : explain_ledger(s->arena, c.placement, c.lowered, c.facts, s->diag);
  if (!text) {
    unknown_name(s, name);
    return 0;
  }
  if (option_given(s->opt, OPTION_JSON)) {
    json_t *list = collectives_json(s, c.facts);
    if (c.facts->n == 0 || measure(s, g, purpose, over, list)) return print_json(s, purpose, &c, name, text, list);
    json_decref(list);
    return 0;
  }
  fputs(text, stdout);
  return 0;
}
