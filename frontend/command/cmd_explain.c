// The command explain: prints every collective with its cause and the change that would remove it,
// or the sharding of one value and the reasons for it; as text, JSON, dot or HTML. With a code such
// as E0505 it prints the meaning of that message.
#include "frontend/driver/check.h"
#include "frontend/report/compare.h"
#include "frontend/report/explain.h"
#include "frontend/report/step_facts.h"

#include <stdlib.h>
#include <string.h>

// Checks that --kernels goes with the other options. Returns false after an error.
static bool kernels_form(const Session *s, Form form) {
  Pos pos = option_use(s->opt, OPTION_KERNELS)->pos;
  if (option_given(s->opt, OPTION_AGAINST))
    return diag_error(s->diag, DIAG_USAGE, pos, "--kernels and --against cannot be combined");
  if (form == FORM_TEXT || form == FORM_JSON) return true;
  diag_error(s->diag, DIAG_USAGE, pos, "--kernels has the forms text and json");
  return diag_hint(s->diag, "leave it out: the page lists the kernels in any case");
}

static bool read_form(const Session *s, Form *out) {
  Form form;
  const OptionUse *use = option_use(s->opt, OPTION_FORMAT);
  if (!option_form(s->opt, s->diag, &form)) return false;
  *out = option_given(s->opt, OPTION_JSON) ? FORM_JSON : form;
  if (use && *out != form)
    return diag_error(s->diag, DIAG_USAGE, use->pos, "--json and --format %s cannot be combined",
                      use->text);
  if (option_given(s->opt, OPTION_MEASURED) && *out != FORM_JSON) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "--measure adds times to the JSON");
    return diag_hint(s->diag, "add --json");
  }
  if (option_given(s->opt, OPTION_KERNELS) && !kernels_form(s, *out)) return false;
  if (option_given(s->opt, OPTION_AGAINST) && *out != FORM_TEXT && *out != FORM_JSON)
    return diag_error(s->diag, DIAG_USAGE, use->pos, "a comparison has no form %s: leave out %s",
                      use->text, "--against");
  if (s->opt->argument.n < 2 || *out == FORM_TEXT || *out == FORM_JSON) return true;
  return diag_error(s->diag, DIAG_USAGE, use->pos, "one value has no form %s: leave out %s",
                    use->text, s->opt->argument.at[1]);
}

// -- a name -------------------------------------------------------------------------------------

static void unknown_name(const Session *s, const char *name) {
  const Graph *g = s->model->graph;
  const char **names = arena_array(s->arena, const char *, g->name.n + g->decl.n + 1);
  size_t n = 0;
  for (uint32_t i = 0; i < g->name.n; i++) names[n++] = g->name.at[i].name;
  for (uint32_t i = 0; i < g->decl.n; i++) names[n++] = g->decl.at[i].name;
  diag_error(s->diag, DIAG_UNKNOWN_FETCH, (Pos){0}, "the model has no value named '%s'", name);
  diag_nearest(s->diag, name, names, n);
}

// Finds a value that the ledger lists under another name than `name`: after `y = x` two names have
// one value, listed under one of them. Returns its index in e->values, or -1.
static int find_same(const Explain *e, const char *name) {
  const Graph *g = e->session->model->graph;
  const Name *n = graph_find_name(g, name);
  int found = -1;
  for (uint32_t i = 0; n && found < 0 && i < g->name.n; i++) {
    const char *other = g->name.at[i].name;
    // Skip names of declarations: after `x = f(x)` the ledger lists the declared input as x, not
    // the value f(x).
    DeclId d = graph_find_decl(g, other);
    if (g->name.at[i].value == n->value && (!d || graph_node(g, n->value)->attr->decl == d))
      found = explained_find(e->values, other);
  }
  return found;
}

// Keeps a name with stars in e->pattern. Returns false after an error: no value has such a name.
static bool find_pattern(Explain *e, const char *pattern) {
  e->pattern = pattern;
  for (uint32_t i = 0; i < e->values->n; i++)
    if (name_matches(pattern, e->values->at[i].name)) return true;
  unknown_name(e->session, pattern);
  return false;
}

// Sets *out to the index of the value `name` in e->values, or to -1 if `name` is NULL or has stars
// (find_pattern). Returns false after an error.
static bool find_value(Explain *e, const char *name, int *out) {
  const Session *s = e->session;
  *out = -1;
  if (!name) return true;
  if (strchr(name, '*')) return find_pattern(e, name);
  *out = explained_find(e->values, name);
  if (*out < 0) *out = find_same(e, name);
  if (*out < 0) *out = explained_part(s->arena, e->ledger, e->values, name);
  if (*out >= 0) return true;
  if (graph_find_name(s->model->graph, name) || graph_find_decl(s->model->graph, name)) {
    diag_error(s->diag, DIAG_UNKNOWN_FETCH, (Pos){0},
               "'%s' is not a value of its own for %s: nothing asks for it, or it equals another "
               "value or a constant",
               name, e->purpose);
    diag_hint(s->diag, "--fetch %s asks for it", name);
  } else {
    unknown_name(s, name);
  }
  return false;
}

// -- measured times -----------------------------------------------------------------------------

// Checks that all processors of the mesh fit into the memory of this machine, because this process
// runs them all. Returns false after an error.
static bool fits_here(Session *s, const Program *p) {
  double all = (double)program_bytes(p) * (double)mesh_size(&p->mesh),
         most = 0.5 * (double)memory_free_bytes();
  if (all < most) return true;
  diag_error(s->diag, DIAG_NO_MEMORY, (Pos){0},
             "--measure runs all processors here: they need %s, half of the memory is %s",
             bytes_text(s->arena, (int64_t)all), bytes_text(s->arena, (int64_t)most));
  return diag_hint(s->diag, "leave out --measure, or make the model smaller with --set");
}

// Runs three steps on generated input and adds the measured times of the collectives to `list`, for
// --measure. Computed ids can be out of range for generated input; then the step ends early, and no
// times are added. Returns false after an error.
static bool measure(Session *s, const Selected *of, json_t *list) {
  enum { STEPS = 3 };
  Compilation c = {0};
  if (!session_compile(s, of->graph, of->purpose, of->over, NULL, &c)) return false;
  bool good = fits_here(s, c.compiled->program);
  Exec *e = good ? session_exec(s, &c, NULL, NULL) : NULL;
  good = e != NULL;
  if (e) synthetic_feed(e, c.compiled->program);
  bool runs = good;
  for (int i = 0; runs && i < STEPS; i++) runs = exec_step(e, i, false) == STEP_OK;
  if (runs) collectives_measured(s, list, &c, e, STEPS);
  exec_free(e);
  compilation_free(&c);
  return good;
}

// -- output -------------------------------------------------------------------------------------

static bool print_json(FILE *f, const Explain *e, int value, json_t *list) {
  json_t *out = explain_json(e, list, value);
  if (option_given(e->session->opt, OPTION_KERNELS))
    json_object_set_new(out, "instructions",
                        step_facts_json(step_facts(e->session, e->made, e->step, NULL, 1)));
  if (f == stdout) return json_finish(out) == 0; // json_end prints it
  json_diagnostics(out, e->session->diag);
  bool good =
      json_dumpf(out, f, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', f) != EOF;
  json_decref(out);
  return good;
}

static bool print_form(FILE *f, const Explain *e, Form form, int value, json_t *list) {
  Arena *a = e->session->arena;
  bool all = option_given(e->session->opt, OPTION_VERBOSE);
  if (form == FORM_JSON) return print_json(f, e, value, list);
  if (form == FORM_DOT) explain_dot(f, e);
  if (form == FORM_HTML) explain_page(f, e);
  if (form == FORM_TEXT && e->pattern)
    fputs(e->against ? compare_pattern_text(a, e->against, e->pattern)
                     : explained_pattern_text(a, e->ledger, e->values, e->pattern),
          f);
  else if (form == FORM_TEXT && e->against)
    fputs(value < 0 ? compare_text(a, e->against, all) : compare_value_text(a, e->against, value),
          f);
  else if (form == FORM_TEXT)
    fputs(value < 0 ? ledger_text(a, e->ledger, all)
                    : explained_text(a, e->ledger, e->values, value),
          f);
  if (form == FORM_TEXT && value < 0 && e->sync) fprintf(f, "sync: %s\n", e->sync);
  return !ferror(f);
}

// Writes the result to --out or to standard output.
static void write_form(const Explain *e, Form form, int value, json_t *list) {
  const Session *s = e->session;
  const OptionUse *use = out_is_stdout(s) ? NULL : option_use(s->opt, OPTION_OUT);
  char *text = NULL;
  size_t n = 0;
  FILE *f = use ? mem_stream(&text, &n) : stdout;
  bool good = print_form(f, e, form, value, list);
  if (use) mem_stream_close(f);
  if (use)
    (void)!session_write(s, use->text, good ? text : NULL, n, false, use->pos);
  else if (!good)
    (void)session_cannot_write(s, "standard output", (Pos){0});
  free(text);
}

// Prints the instructions of the step, for --kernels. With a NAME, which may have stars, only those
// that compute such a value.
static int explain_kernels(Session *s, const Compilation *c, const char *name) {
  const StepFacts *f = step_facts(s, c, session_simulate(s, c), NULL, 1);
  const char *text = step_facts_text(f, name, option_given(s->opt, OPTION_VERBOSE));
  const OptionUse *use = out_is_stdout(s) ? NULL : option_use(s->opt, OPTION_OUT);
  if (!text)
    unknown_name(s, name);
  else if (use)
    (void)!session_write(s, use->text, text, strlen(text), false, use->pos);
  else
    fputs(text, stdout);
  return 0;
}

// -- codes --------------------------------------------------------------------------------------

static void print_code(DiagId id) {
  bool command = diag_example(id)[0] == '$';
  printf("%s: %s, exit code %d\n%s\n", diag_code(id), diag_exit_code(id) ? "error" : "warning",
         diag_exit_code(id), diag_meaning(id));
  if (diag_default_hint(id)) printf("hint: %s\n", diag_default_hint(id));
  printf("example%s\n", command ? "" : ", a model of which meshc check says it");
  for (const char *line = diag_example(id); *line; line += strcspn(line, "\n") + 1)
    printf("  %.*s\n", (int)strcspn(line, "\n"), line);
}

static int code_json(DiagId id) {
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string("meshc.code/1"));
  json_object_set_new(out, "code", json_string(diag_code(id)));
  json_object_set_new(out, "severity", json_string(diag_exit_code(id) ? "error" : "warning"));
  json_object_set_new(out, "exit_code", json_integer(diag_exit_code(id)));
  json_object_set_new(out, "meaning", json_text(diag_meaning(id)));
  json_object_set_new(out, "hint",
                      diag_default_hint(id) ? json_text(diag_default_hint(id)) : json_null());
  json_object_set_new(out, "example", json_text(diag_example(id)));
  return json_finish(out);
}

// Prints the meaning of a message by its code, for `explain E0505`.
static int explain_code(const Session *s, const char *code) {
  DiagId id = diag_of_code(code);
  if (id < DIAG_COUNT && option_given(s->opt, OPTION_JSON)) return code_json(id);
  if (id < DIAG_COUNT) {
    print_code(id);
    return 0;
  }
  diag_error(s->diag, DIAG_USAGE, (Pos){0}, "no message of meshc has the code %s", code);
  diag_hint(s->diag, "messages end in their code, such as [E0505] or [W0501]");
  return 0;
}

int cmd_explain(Session *s) {
  if (s->opt->argument.n == 1 && diag_is_code(s->opt->argument.at[0]))
    return explain_code(s, s->opt->argument.at[0]);
  const char *name = s->opt->argument.n > 1 ? s->opt->argument.at[1] : NULL;
  Selected of;
  Compilation c;
  Form form;
  int value;
  explain_two_machines(s);
  if (!read_form(s, &form) || !session_load(s) || !session_make(s, "program", &of, &c)) return 0;
  if (option_given(s->opt, OPTION_KERNELS) && form == FORM_TEXT)
    return explain_kernels(s, &c, name);
  bool against = option_given(s->opt, OPTION_AGAINST);
  WhatIfDepth depth = form == FORM_DOT                       ? WHAT_IF_NONE
                      : against                              ? WHAT_IF_RULES
                      : name                                 ? WHAT_IF_PINS
                      : option_given(s->opt, OPTION_VERBOSE) ? WHAT_IF_ALL
                                                             : WHAT_IF_BEST;
  SyncFacts sync;
  bool budget = !against && !name && form != FORM_DOT; // the others do not show it
  Explain *e = explain_new(s, &c, &of, (WhatIfAsk){depth, budget});
  if (!e || !find_value(e, name, &value) || !sync_compile(s, &of, &sync)) return 0;
  if (sync.replicas) e->sync = sync_text(s, &sync);
  if (against && !explain_against(s, e)) return 0;
  json_t *list = form == FORM_JSON ? collectives_json(s, c.facts) : NULL;
  if (option_given(s->opt, OPTION_MEASURED) && c.facts->n && !measure(s, &of, list))
    json_decref(list);
  else
    write_form(e, form, value, list);
  return 0;
}
