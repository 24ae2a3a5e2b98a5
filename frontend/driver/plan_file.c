// Writes and reads saved plans. See plan_file.h. Numbers have all their digits, so that the prices
// of a plan that is read are equal to those that were written.
#include "frontend/driver/plan_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/syntax/ast.h"
#include "ir/base/hash.h"

static const char SCHEMA[] = "meshc.saved_plan/1";
// Returns the length of the name in the schema, up to its number.
static size_t schema_name(void) { return strcspn(SCHEMA, "/") + 1; }

// -- writing ------------------------------------------------------------------------------------

// The options that do not change a plan, or that a saved plan keeps as figures.
static bool is_kept_apart(OptionId id) {
  static const OptionId apart[] = {OPTION_JSON,    OPTION_PLAN_SAVE, OPTION_PLAN_AGAINST,
                                   OPTION_QUIET,   OPTION_VERBOSE,   OPTION_NO_CACHE,
                                   OPTION_MACHINE, OPTION_MEMORY,    OPTION_DATA_DIR};
  for (size_t i = 0; i < countof(apart); i++)
    if (apart[i] == id) return true;
  return false;
}

static json_t *options_json(const Options *o) {
  json_t *list = json_array();
  for (int id = 0; id < OPTION_COUNT; id++)
    for (uint32_t i = 0; i < o->use[id].n && !is_kept_apart((OptionId)id); i++)
      json_array_append_new(list, json_pack("{s:s, s:o}", "name", option_name((OptionId)id), "text",
                                            json_text(o->use[id].at[i].text)));
  return list;
}

static json_t *dims_json(const Graph *g) {
  json_t *out = json_object();
  for (DimId d = 1; d <= dim_count(g->dims); d++)
    if (dim_get(g->dims, d)->whole == d && !dim_get(g->dims, d)->local)
      json_object_set_new(out, dim_get(g->dims, d)->name, json_integer(dim_get(g->dims, d)->size));
  return out;
}

const char *plan_digest(const Session *s) {
  Diag *d = diag_new(s->arena);
  const Ast *whole = imports_resolve(s->arena, s->names, d, s->ast, s->opt->argument.at[0]);
  return arena_printf(s->arena, "%016llx",
                      (unsigned long long)fnv_text(ast_print(s->arena, whole ? whole : s->ast)));
}

static const char *machine_name_of(const Session *s) {
  const char *given = option_text(s->opt, OPTION_MACHINE);
  return given ? given : s->machine_name ? s->machine_name : "built in";
}

json_t *plan_saved_json(const PlanReport *r) {
  const Session *s = r->s;
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string(SCHEMA));
  json_object_set_new(out, "meshc", json_string(MESHC_VERSION));
  json_object_set_new(out, "model", json_text(s->opt->argument.at[0]));
  json_object_set_new(out, "digest", json_string(plan_digest(s)));
  json_object_set_new(out, "options", options_json(s->opt));
  json_object_set_new(out, "dims", dims_json(s->model->graph));
  json_object_set_new(out, "parameters", json_integer(parameter_count(s->model->graph)));
  json_object_set_new(out, "machine_name", json_text(machine_name_of(s)));
  json_object_set_new(out, "machine", json_string(machine_print(s->arena, &s->machine)));
  json_object_set_new(out, "states_memory", json_boolean(s->machine.states_memory));
  json_object_set_new(out, "memory", json_real(r->task.memory));
  json_object_set_new(out, "plan", plan_json(r));
  json_object_set_new(out, "text", json_text(s->text));
  return out;
}

bool plan_file_write(const PlanReport *r) {
  const OptionUse *use = option_use(r->s->opt, OPTION_PLAN_SAVE);
  if (!use) return true;
  json_t *contents = plan_saved_json(r);
  char *text = json_dumps(contents, JSON_INDENT(2) | JSON_ENSURE_ASCII);
  bool good = session_write(r->s, use->text, text, text ? strlen(text) : 0, false, use->pos);
  free(text);
  json_decref(contents);
  return good;
}

// -- reading ------------------------------------------------------------------------------------

static Pos place_in(const Session *s, const char *path, int line) {
  return (Pos){.source = diag_source(s->diag, path, NULL, 0),
               .line = (uint32_t)(line > 0 ? line : 0)};
}

static bool no_plan(const Session *s, const char *path, int line, const char *why) {
  diag_error(s->diag, DIAG_FILE_MALFORMED, place_in(s, path, line), "this is no saved plan: %s",
             why);
  return diag_hint(s->diag, "write one with: meshc plan %s --save FILE", s->opt->argument.at[0]);
}

// Returns a text of the JSON value in the session's arena.
static const char *kept(const Session *s, const char *text) {
  return arena_text(s->arena, text, strlen(text));
}

// Returns the mesh as --mesh takes it: "rows=2,cols=4".
static const char *mesh_of(const Session *s, json_t *sizes) {
  const char *out = "", *axis;
  json_t *size;
  json_object_foreach(sizes, axis, size) {
    out = arena_printf(s->arena, "%s%s%s=%lld", out, *out ? "," : "", axis,
                       (long long)json_integer_value(size));
  }
  return out;
}

static bool read_choice(const Session *s, json_t *from, SavedChoice *out, json_error_t *error) {
  json_t *mesh;
  const char *layout;
  json_int_t sent, peak, accumulate = 0;
  int whole;
  SearchPrice *p = &out->price;
  *out = (SavedChoice){0};
  if (json_unpack_ex(from, error, 0, "{s:o, s:s, s?I, s:F, s:F, s:F, s:F, s:I, s:I, s:b}", "mesh",
                     &mesh, "layout", &layout, "accumulate", &accumulate, "seconds", &p->seconds,
                     "product_seconds", &p->products, "kernel_seconds", &p->kernels,
                     "transfer_seconds", &p->transfer, "wire_bytes", &sent, "peak", &peak, "whole",
                     &whole) != 0)
    return false;
  out->accumulate = accumulate;
  p->sent = (double)sent;
  p->peak = (double)peak;
  p->whole = whole;
  out->mesh = mesh_of(s, mesh);
  out->layout = kept(s, layout);
  return true;
}

static bool read_choices(const Session *s, json_t *plan, SavedPlan *out, json_error_t *error) {
  json_t *list, *use, *one;
  size_t i;
  if (json_unpack_ex(plan, error, 0, "{s:o, s:o}", "layouts", &list, "use", &use) != 0 ||
      !read_choice(s, use, &out->use, error))
    return false;
  out->choice = arena_array(s->arena, SavedChoice, json_array_size(list) + 1);
  json_array_foreach(list, i, one) {
    if (!read_choice(s, one, &out->choice[out->nchoices++], error)) return false;
  }
  return true;
}

static bool read_options(const Session *s, json_t *list, SavedPlan *out, json_error_t *error) {
  json_t *one;
  size_t i;
  out->option = arena_array(s->arena, SavedName, json_array_size(list) + 1);
  json_array_foreach(list, i, one) {
    const char *name, *text;
    if (json_unpack_ex(one, error, 0, "{s:s, s:s}", "name", &name, "text", &text) != 0)
      return false;
    out->option[out->noptions++] = (SavedName){kept(s, name), kept(s, text)};
  }
  return true;
}

static void read_dims(const Session *s, json_t *sizes, SavedPlan *out) {
  const char *name;
  json_t *size;
  out->dim = arena_array(s->arena, SavedName, json_object_size(sizes) + 1);
  json_object_foreach(sizes, name, size) {
    out->dim[out->ndims++] = (SavedName){
        kept(s, name), arena_printf(s->arena, "%lld", (long long)json_integer_value(size))};
  }
}

// Returns whether the contents have the schema of saved plans. Reports an error if not.
static bool has_schema(const Session *s, const char *path, const json_t *contents) {
  const char *schema = json_string_value(json_object_get(contents, "schema"));
  if (!schema) return no_plan(s, path, 0, "it has no key \"schema\"");
  if (strncmp(schema, SCHEMA, schema_name()) != 0)
    return no_plan(s, path, 0, arena_printf(s->arena, "its schema is %s, not %s", schema, SCHEMA));
  if (!strcmp(schema, SCHEMA)) return true;
  diag_error(s->diag, DIAG_FILE_MALFORMED, place_in(s, path, 0),
             "the plan is of schema %s; this version of meshc reads %s", schema, SCHEMA);
  return diag_hint(s->diag, "save the plan again with this version");
}

bool plan_saved_read(const Session *s, const char *path, const json_t *contents, SavedPlan *out) {
  json_error_t error;
  json_t *options, *dims, *plan;
  json_int_t parameters;
  int states;
  *out = (SavedPlan){0};
  if (!has_schema(s, path, contents)) return false;
  bool good =
      json_unpack_ex((json_t *)(uintptr_t)contents, &error, 0,
                     "{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:b, s:F}", "meshc",
                     &out->version, "model", &out->model, "digest", &out->digest, "text",
                     &out->text, "machine_name", &out->machine_name, "machine", &out->machine,
                     "options", &options, "dims", &dims, "plan", &plan, "parameters", &parameters,
                     "states_memory", &states, "memory", &out->memory) == 0 &&
      read_options(s, options, out, &error) && read_choices(s, plan, out, &error);
  if (!good) return no_plan(s, path, 0, kept(s, error.text));
  const char **text[] = {&out->version, &out->model,        &out->digest,
                         &out->text,    &out->machine_name, &out->machine};
  for (size_t i = 0; i < countof(text); i++) *text[i] = kept(s, *text[i]);
  out->parameters = parameters;
  out->states_memory = states;
  read_dims(s, dims, out);
  return true;
}

// Returns the JSON object in the file `path`, or NULL after an error.
static json_t *parse_file(const Session *s, const char *path) {
  json_error_t error;
  size_t n;
  const char *text = file_text(s->arena, path, &n);
  if (!text) {
    diag_error(s->diag, DIAG_FILE_MISSING, place_in(s, path, 0), "cannot read the saved plan: %s",
               strerror(errno));
    return NULL;
  }
  json_t *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  if (!out) no_plan(s, path, error.line, kept(s, error.text));
  return out;
}

bool plan_file_read(const Session *s, SavedPlan *out) {
  const char *path = option_text(s->opt, OPTION_PLAN_AGAINST);
  json_t *contents = parse_file(s, path);
  bool good = contents && plan_saved_read(s, path, contents, out);
  json_decref(contents);
  return good;
}

// Returns whether `path` may be written: it is new or empty, a device or a pipe, or begins as a
// saved plan does. A path that cannot be read is not ours.
static bool may_write(const char *path) {
  char start[96] = "", *ours;
  struct stat info;
  if (stat(path, &info) != 0) return errno == ENOENT;
  if (!S_ISREG(info.st_mode) || info.st_size == 0) return !S_ISDIR(info.st_mode);
  FILE *f = mem_fopen(path, "re");
  if (f) start[fread(start, 1, sizeof start - 1, f)] = '\0';
  if (f) fclose(f);
  ours = strstr(start, "\"schema\": \"");
  return ours && strncmp(ours + strlen("\"schema\": \""), SCHEMA, schema_name()) == 0;
}

bool plan_file_check(const Session *s) {
  const OptionUse *use = option_use(s->opt, OPTION_PLAN_SAVE);
  if (!use) return true;
  if (!folder_writable(path_folder(s->arena, use->text)))
    return session_cannot_write(s, use->text, use->pos);
  if (may_write(use->text)) return true;
  diag_error(s->diag, DIAG_FAILURE, use->pos, "%s exists and is no saved plan: it is left as it is",
             use->text);
  return diag_hint(s->diag, "give another file, or remove this one");
}
