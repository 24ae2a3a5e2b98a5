// Compares a parameter file with the model, for `check --params`: each parameter and state with the
// array that would be loaded into it. Output: a table as text or JSON.
#include "frontend/driver/params_internal.h"

#include <string.h>

static const char *const fit_text[] = {[FIT_EQUAL] = "equal",
                                       [FIT_REGROUPED] = "regrouped",
                                       [FIT_DIFFERS] = "differs",
                                       [FIT_MISSING] = "missing",
                                       [FIT_EXTRA] = "extra"};

bool params_of_optimizer(const char *name) {
  return strncmp(name, "optimizer.", 10) == 0 || strncmp(name, "average.", 8) == 0;
}

static const ArrayInfo *held_as(const ArrayList *list, const char *name) {
  for (uint32_t i = 0; i < list->n; i++)
    if (strcmp(list->at[i].name, name) == 0) return &list->at[i];
  return NULL;
}

static void declared_size(const Session *s, const Decl *d, int64_t *size) {
  for (int i = 0; i < d->rank; i++) size[i] = dim_get(s->model->graph->dims, d->dims[i])->size;
}

static ParamFit fit_of(const Session *s, const Decl *d, const ArrayInfo *x) {
  int64_t size[MAX_RANK];
  declared_size(s, d, size);
  if (!x) return FIT_MISSING;
  if (x->rank == d->rank && memcmp(size, x->size, sizeof *size * (size_t)d->rank) == 0)
    return x->usable ? FIT_EQUAL : FIT_DIFFERS;
  return x->usable && sizes_fit(x->rank, x->size, d->rank, size) ? FIT_REGROUPED : FIT_DIFFERS;
}

static const char *shape_of(const Session *s, const char *type, int rank, const int64_t *size) {
  char text[MAX_RANK * 22];
  return arena_printf(s->arena, "%s %s", type, sizes_text(rank, size, text, sizeof text));
}

static const char *declared_text(const Session *s, const ParamRow *r) {
  int64_t size[MAX_RANK];
  if (!r->decl) return "";
  declared_size(s, r->decl, size);
  return shape_of(s, dtype_text(r->decl->type), r->decl->rank, size);
}

static const char *held_text(const Session *s, const ParamRow *r) {
  return r->held ? shape_of(s, r->held->type, r->held->rank, r->held->size) : "";
}

// Reports an error if loading the file would refuse the array or parameter of table row r. With
// `partial` (--params-partial) missing and extra arrays are not refused.
static void say(const Session *s, const ParamTable *t, const ParamRow *r, Pos pos, bool partial) {
  bool needed = r->fit == FIT_MISSING && r->decl->kind == DECL_PARAM;
  if (r->fit == FIT_DIFFERS)
    diag_error(s->diag, DIAG_DATA_SHAPE, pos, "%s holds %s for %s, the model declares %s", t->path,
               held_text(s, r), r->decl->name, declared_text(s, r));
  else if (needed && !partial)
    diag_error(s->diag, DIAG_PARAM_MISSING, pos, "%s holds no value for the parameter %s", t->path,
               r->decl->name);
  else if (r->fit == FIT_EXTRA && !partial)
    diag_error(s->diag, DIAG_PARAM_UNKNOWN, pos,
               "the model has no parameter or state '%s', which %s holds", r->name, t->path);
  else
    return;
  if (r->decl) diag_note(s->diag, r->decl->pos, "declared here");
}

static void add_declared(Session *s, const ArrayList *list, const ParamMap *map, ParamTable *t) {
  const Graph *g = s->model->graph;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    if (d->kind != DECL_PARAM && d->kind != DECL_STATE) continue;
    const char *name = params_name(s, map, d->name);
    const ArrayInfo *held = held_as(list, name);
    t->row[t->n++] = (ParamRow){d, name, held, fit_of(s, d, held)};
  }
}

static void add_others(const ArrayList *list, ParamTable *t) {
  uint32_t declared = t->n;
  for (uint32_t i = 0; i < list->n; i++) {
    bool known = params_of_optimizer(list->at[i].name);
    t->slots += known;
    known |= params_of_data(list->at[i].name);
    for (uint32_t k = 0; k < declared && !known; k++) known = t->row[k].held == &list->at[i];
    if (!known) t->row[t->n++] = (ParamRow){NULL, list->at[i].name, &list->at[i], FIT_EXTRA};
  }
}

bool params_table(Session *s, ParamTable *out) {
  const OptionUse *use = option_use(s->opt, OPTION_PARAMS);
  ArrayList list;
  ParamMap map;
  *out = (ParamTable){0};
  if (!use) return true;
  out->path = use->text;
  if (!params_map(s, &map) || !array_list(s->arena, use->text, &list, s->diag, use->pos))
    return false;
  out->row = arena_array(s->arena, ParamRow, s->model->graph->decl.n + list.n + 1);
  add_declared(s, &list, &map, out);
  add_others(&list, out);
  for (uint32_t i = 0; i < out->n; i++)
    say(s, out, &out->row[i], use->pos, option_given(s->opt, OPTION_PARAMS_PARTIAL));
  return true;
}

// -- output -------------------------------------------------------------------------------------

// Returns the remark that the printed table has after the shapes of row r, or "".
static const char *remark(const ParamRow *r) {
  static const char *const text[] = {[FIT_EQUAL] = "",
                                     [FIT_REGROUPED] = "split or merged",
                                     [FIT_DIFFERS] = "does not fit",
                                     [FIT_MISSING] = "missing",
                                     [FIT_EXTRA] = "the model lacks it"};
  if (r->fit == FIT_MISSING && r->decl->kind == DECL_STATE) return "keeps its initial value";
  return text[r->fit];
}

static int widest(int width, const char *text) {
  int n = (int)strlen(text);
  return n > width ? n : width;
}

void params_table_print(const Session *s, const ParamTable *t) {
  int w[3] = {5, 8, 4};
  printf("%s beside the model\n", text_shown(s->arena, t->path));
  for (uint32_t i = 0; i < t->n; i++) {
    w[0] = widest(w[0], t->row[i].decl ? t->row[i].decl->name : "-");
    w[1] = widest(w[1], declared_text(s, &t->row[i]));
    w[2] = widest(w[2], t->row[i].held ? text_shown(s->arena, t->row[i].name) : "-");
  }
  for (uint32_t i = 0; i < t->n; i++) {
    const ParamRow *r = &t->row[i];
    const char *said = remark(r);
    printf("  %-*s  %-*s  %-*s  %s%s%s\n", w[0], r->decl ? r->decl->name : "-", w[1],
           declared_text(s, r), w[2], r->held ? text_shown(s->arena, r->name) : "-",
           held_text(s, r), *said && r->held ? ": " : "", said);
  }
  if (t->slots) printf("  %u array%s of optimizer state\n", t->slots, plural(t->slots));
}

static json_t *row_json(const Session *s, const ParamRow *r) {
  json_t *out = json_object();
  int64_t size[MAX_RANK];
  if (r->decl) {
    declared_size(s, r->decl, size);
    json_object_set_new(out, "name", json_text(r->decl->name));
    json_object_set_new(out, "kind", json_text(r->decl->kind == DECL_PARAM ? "param" : "state"));
    json_object_set_new(out, "type", json_text(dtype_text(r->decl->type)));
    json_object_set_new(out, "shape", shape_json(r->decl->rank, size));
  }
  json_object_set_new(out, "file_name", json_text(r->name));
  if (r->held) {
    json_object_set_new(out, "file_type", json_text(r->held->type));
    json_object_set_new(out, "file_shape", shape_json(r->held->rank, r->held->size));
  }
  json_object_set_new(out, "fit", json_text(fit_text[r->fit]));
  return out;
}

json_t *params_table_json(const Session *s, const ParamTable *t) {
  json_t *out = json_object(), *rows = json_array();
  for (uint32_t i = 0; i < t->n; i++) json_array_append_new(rows, row_json(s, &t->row[i]));
  json_object_set_new(out, "file", json_text(t->path));
  json_object_set_new(out, "rows", rows);
  json_object_set_new(out, "optimizer_arrays", json_integer(t->slots));
  return out;
}
