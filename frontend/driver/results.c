// Reads fetched values from a bound program, checks them for NaN and Inf, and prints them or writes
// them to files. The last part of run and predict.
#include "frontend/driver/session.h"

#include <errno.h>
#include <math.h>
#include <string.h>

// Returns the name of the batch dim if `name` is that name and `end`, and steps have micro-batches;
// otherwise NULL.
static const char *batch_dim(const Session *s, const char *name, const char *end) {
  const Graph *g = s->model->graph;
  const DataBlock *data = &g->spec.data[DATA_TRAIN];
  if (!data->present || !data->over || g->spec.ntrain == 0 || g->spec.train[0].accumulate < 2)
    return NULL;
  const char *over = dim_get(g->dims, data->over)->name;
  size_t n = strlen(over);
  return strncmp(name, over, n) == 0 && strcmp(name + n, end) == 0 ? over : NULL;
}

// Returns the name by which users know the dim `name`. For "b.whole", which holds the rows of all
// micro-batches of a step, it is "b", the batch dim of the data block. Any other name is unchanged.
const char *result_dim(const Session *s, const char *name) {
  const char *over = batch_dim(s, name, ".whole");
  return over ? over : name;
}

bool result_is_micro(const Session *s, const char *name) {
  return batch_dim(s, name, ".micro") != NULL;
}

bool result_read(Session *s, const Exec *e, const Program *p, TensorKind kind, const char *name,
                 Result *out) {
  int32_t index = program_tensor(p, kind, name);
  if (index < 0) BUG("the program has no tensor %s", name);
  const ProgTensor *t = &p->tensor[index];
  const char **dims = arena_array(s->arena, const char *, t->rank + 1);
  *out = (Result){
      .name = name, .dim = dims, .array = {.type = t->type, .rank = t->rank, .elements = 1}};
  for (int i = 0; i < t->rank; i++) {
    const ProgDim *dim = &t->dim[t->declared[i]];
    dims[i] = result_dim(s, dim->name);
    out->array.size[i] = dim->whole;
    out->array.elements *= dim->whole;
  }
  if (!session_first(s)) {
    exec_read(e, kind, name, NULL);
    return true;
  }
  out->array.data = mem_alloc((size_t)(out->array.elements * dtype_bytes(t->type)));
  exec_read(e, kind, name, out->array.data);
  return exec_works(e, s->diag);
}

static double element(const Array *x, int64_t i) {
  return dtype_load(x->type, (const char *)x->data + i * dtype_bytes(x->type));
}

// -- NaN and Inf --------------------------------------------------------------------------------

// Returns the index of element `flat`, its number in C order, along each dim as text: " b 3, c 0".
static const char *index_text(Session *s, const Result *r, int64_t flat) {
  const char *text = "";
  for (int i = r->array.rank; i-- > 0; flat /= r->array.size[i])
    text = arena_printf(s->arena, "%s %lld%s%s", r->dim[i], (long long)(flat % r->array.size[i]),
                        *text ? ", " : "", text);
  return text;
}

static bool result_finite(Session *s, const Result *r, bool error) {
  if (!dtype_is_float(r->array.type)) return true;
  int64_t bad = 0, first = -1;
  for (int64_t i = 0; i < r->array.elements; i++) {
    if (isfinite(element(&r->array, i))) continue;
    if (first < 0) first = i;
    bad++;
  }
  if (!bad) return true;
  const char *what = isnan(element(&r->array, first)) ? "NaN" : "Inf",
             *text = r->array.rank == 0
                         ? arena_printf(s->arena, "%s is %s", r->name, what)
                         : arena_printf(
                               s->arena,
                               "%s is not finite in %lld of %lld place%s, the first %s at [%s]",
                               r->name, (long long)bad, (long long)r->array.elements,
                               plural(r->array.elements), what, index_text(s, r, first));
  if (error)
    diag_error(s->diag, DIAG_NOT_FINITE, (Pos){0}, "%s", text);
  else
    diag_warning(s->diag, DIAG_VALUE_NOT_FINITE, (Pos){0}, "%s", text);
  return !error;
}

bool out_is_stdout(const Session *s) {
  const char *out = option_text(s->opt, OPTION_OUT);
  return out && strcmp(out, "-") == 0;
}

// Returns false after an error: --out has the ending of a file that is not written. It would become
// the name of a folder.
static bool out_is_known(const Session *s) {
  const OptionUse *use = option_use(s->opt, OPTION_OUT);
  bool written = true;
  const char *end = use ? values_ending(use->text, &written) : NULL;
  if (written || folder_writable(use->text)) return true;
  diag_error(s->diag, DIAG_USAGE, use->pos, "--out writes no %s files", end);
  return diag_hint(s->diag, "name a folder, for NAME.npy, or a .npz, .safetensors or .csv file; "
                            "--json > FILE writes JSON");
}

bool results_check(const Session *s) {
  static const char *const words[] = {"finite"};
  int word;
  if (out_is_stdout(s) && option_given(s->opt, OPTION_JSON))
    return diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_OUT)->pos,
                      "--out - and --json would both write to standard output");
  return out_is_known(s) && option_word(s->opt, OPTION_CHECK, 1, words, s->diag, &word);
}

bool results_finite(Session *s, uint32_t n, const Result *r) {
  bool good = true;
  for (uint32_t i = 0; i < n; i++)
    good &= result_finite(s, &r[i], option_given(s->opt, OPTION_CHECK));
  return good;
}

// -- writing ------------------------------------------------------------------------------------

// Returns the name of the file for a value, without the ending ".npy": "grad.w" for grad(w).
static const char *file_name(Session *s, const char *name) {
  char *text = arena_text(s->arena, name, strlen(name)), *to = text;
  for (const char *c = name; *c; c++)
    if (*c != ')') *to++ = *c == '(' ? '.' : *c;
  *to = '\0';
  return text;
}

static bool write_folder(Session *s, const char *folder, uint32_t n, const Result *r) {
  bool good = session_folder(s, folder);
  for (uint32_t i = 0; i < n && good; i++)
    good = npy_write(arena_printf(s->arena, "%s/%s.npy", folder, file_name(s, r[i].name)),
                     &r[i].array, s->diag);
  return good;
}

// Writes a single value to standard output as a .npy file, for `--out -`. If n is not 1, reports an
// error and returns false.
static bool write_stdout(Session *s, uint32_t n, const Result *r) {
  const char *names = n ? r[0].name : "none";
  for (uint32_t i = 1; i < n; i++) names = arena_printf(s->arena, "%s, %s", names, r[i].name);
  if (n == 1) {
    npy_put(stdout, &r[0].array);
    return true;
  }
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_OUT)->pos,
             "--out - writes one value as .npy, and there are %u: %s", n, names);
  return diag_hint(s->diag, "name one with --fetch, or write a file: --out results.npz");
}

bool results_write(Session *s, uint32_t n, const Result *r) {
  const char *out = option_text(s->opt, OPTION_OUT);
  if (out_is_stdout(s)) return write_stdout(s, n, r);
  if (!out) {
    if (!option_given(s->opt, OPTION_JSON))
      for (uint32_t i = 0; i < n; i++)
        array_print_named(stdout, r[i].name, r[i].dim, &r[i].array, &r[i].element, r[i].axis);
    return true;
  }
  if (text_ends(out, ".csv")) return results_write_csv(s, out, n, r);
  bool npz = text_ends(out, ".npz"), safetensors = text_ends(out, ".safetensors");
  if (!npz && !safetensors) return write_folder(s, out, n, r);
  NamedArray *named = arena_array(s->arena, NamedArray, n + 1);
  for (uint32_t i = 0; i < n; i++) named[i] = (NamedArray){.name = r[i].name, .array = r[i].array};
  return npz ? npz_write(out, n, named, s->diag) : safetensors_write(out, n, named, s->diag);
}

// Returns element i as a JSON value; NaN and Inf become null, because JSON cannot represent them.
static json_t *number_json(const Array *x, int64_t i) {
  double value = element(x, i);
  if (x->type == TYPE_BOOL) return json_boolean(value != 0);
  if (!isfinite(value)) return json_null();
  return dtype_is_float(x->type) ? json_real(value) : json_integer((json_int_t)value);
}

static json_t *names_json(const ClassNames *c) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < c->n; i++) json_array_append_new(out, json_text(c->name[i]));
  return out;
}

void result_classes_json(json_t *out, const Result *r) {
  json_t *positions = json_object();
  for (int i = 0; r->axis && i < r->array.rank; i++)
    if (r->axis[i].n && r->axis[i].n <= ARRAY_WHOLE)
      json_object_set_new(positions, r->dim[i], names_json(&r->axis[i]));
  if (json_object_size(positions)) json_object_set(out, "positions", positions);
  json_decref(positions);
  if (r->element.n) json_object_set_new(out, "classes", names_json(&r->element));
}

// An array with more than ARRAY_WHOLE elements has no "values" in its object.
json_t *results_json(uint32_t n, const Result *r) {
  json_t *out = json_object();
  for (uint32_t i = 0; i < n; i++) {
    const Array *x = &r[i].array;
    json_t *one = json_object(), *dims = json_array(), *values = json_array();
    for (int k = 0; k < x->rank; k++) json_array_append_new(dims, json_text(r[i].dim[k]));
    for (int64_t k = 0; k < x->elements && x->elements <= ARRAY_WHOLE; k++)
      json_array_append_new(values, number_json(x, k));
    json_object_set_new(one, "type", json_text(dtype_text(x->type)));
    json_object_set_new(one, "dims", dims);
    json_object_set_new(one, "shape", shape_json(x->rank, x->size));
    if (x->elements <= ARRAY_WHOLE) json_object_set(one, "values", values);
    json_decref(values);
    result_classes_json(one, &r[i]);
    json_object_set_new(out, r[i].name, one);
  }
  return out;
}
