// Runs a program of a package on any number of rows: in batches of the size for which it was
// compiled, of which the last may be shorter.
#include "runtime/package/package_batch.h"
#include "runtime/runtime_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const ProgTensor *find_tensor(const Program *p, TensorKind kind, const char *name) {
  int32_t i = program_tensor(p, kind, name);
  return i < 0 ? NULL : &p->tensor[i];
}

// Returns the axis of the tensor that runs over the rows of a batch, or -1.
static int rows_axis(const Program *p, const ProgTensor *t) {
  for (int i = 0; p->over && i < t->rank; i++)
    if (!strcmp(t->dim[t->declared[i]].name, p->over)) return i;
  return -1;
}

static int64_t batch_of(const Program *p) {
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    int axis = rows_axis(p, t);
    if (axis >= 0) return t->dim[t->declared[axis]].whole;
  }
  return 1;
}

// -- inputs -------------------------------------------------------------------------------------

static bool unknown_input(Arena *a, const Program *p, const char *name, Pos at, Diag *d) {
  const char **names = arena_array(a, const char *, p->ntensors + 1);
  size_t n = 0;
  for (uint32_t i = 0; i < p->ntensors; i++)
    if (p->tensor[i].kind == TENSOR_INPUT) names[n++] = p->tensor[i].name;
  diag_error(d, DIAG_UNKNOWN_FEED, at, "the package has no input '%s'", name);
  if (n) diag_one_of(d, names, n);
  return diag_nearest(d, name, names, n);
}

// Sets the sizes of an input as users know them: micro-batches follow one another in its rows.
// Returns its rank; *rows gets the axis of the rows of a batch, or -1.
static int input_sizes(const Package *p, const Program *of, const ProgTensor *t, int64_t *size,
                       const char **name, int *rows) {
  int rank = 0, axis = rows_axis(of, t);
  int64_t parts = 1;
  *rows = -1;
  for (int i = 0; i < t->rank; i++) {
    const ProgDim *dim = &t->dim[t->declared[i]];
    if (package_is_micro(p, dim->name)) {
      parts = dim->whole;
      continue;
    }
    if (i == axis) *rows = rank;
    name[rank] = dim->name;
    size[rank++] = dim->whole * parts;
    parts = 1;
  }
  return rank;
}

// Splits or merges axes of x behind the first into those of the input, if the order of the elements
// allows it. `rows` is the axis of the rows, or -1.
static void fit_axes(Array *x, int rank, const int64_t *size, int rows) {
  if (!rank || !x->rank || rows > 0 || (rows < 0 && x->size[0] != size[0]) ||
      !sizes_fit(x->rank - 1, x->size + 1, rank - 1, size + 1))
    return;
  x->rank = rank;
  memcpy(x->size + 1, size + 1, sizeof *size * (size_t)(rank - 1));
}

// Checks the shape of an array for an input; axes of a row may be split or merged.
static bool check_sizes(const Package *p, const Program *of, const ProgTensor *t, Array *x, Pos at,
                        Diag *d) {
  int64_t size[MAX_RANK];
  const char *name[MAX_RANK];
  int rows, rank = input_sizes(p, of, t, size, name, &rows);
  fit_axes(x, rank, size, rows);
  if (x->rank != rank)
    return diag_error(d, DIAG_DATA_SHAPE, at, "the input %s has %d dim%s, the array has %d",
                      t->name, rank, plural(rank), x->rank);
  for (int i = 0; i < rank; i++) {
    if (x->size[i] == size[i] || (i == rows && x->size[i] > 0)) continue;
    return diag_error(d, DIAG_DATA_SHAPE, at,
                      "the input %s has %lld element%s along %s (axis %d), the array has %lld",
                      t->name, (long long)size[i], plural(size[i]), name[i], i,
                      (long long)x->size[i]);
  }
  return true;
}

// Returns the path of the text "FILE.npz:KEY" and sets *key, which is NULL for a path without key.
static const char *split_key(Arena *a, const char *text, const char **key) {
  static const char *const ends[] = {".npz:", ".safetensors:"};
  *key = NULL;
  for (size_t i = 0; i < countof(ends); i++) {
    const char *at = strstr(text, ends[i]);
    if (!at) continue;
    *key = at + strlen(ends[i]);
    return arena_text(a, text, (size_t)(*key - text) - 1);
  }
  return text;
}

// Returns false if no number of the type is `value`.
static bool number_array(Array *x, double value, Dtype type) {
  *x = (Array){.type = dtype_is_float(type) ? TYPE_F64 : type, .elements = 1};
  x->data = mem_alloc(sizeof value);
  dtype_store(x->type, x->data, dtype_round(x->type, value));
  return dtype_load(x->type, x->data) == value || x->type == TYPE_F64;
}

bool package_feed(Arena *a, const Package *package, const PackageProgram *p, const char *text,
                  Pos at, NamedArray *out, Diag *d) {
  const char *equals = strchr(text, '='), *key, *path;
  char *end;
  *out = (NamedArray){0};
  if (!equals || equals == text)
    return diag_error(d, DIAG_USAGE, at, "an input is given as NAME=FILE, not '%s'", text);
  out->name = arena_text(a, text, (size_t)(equals - text));
  const ProgTensor *t = find_tensor(&p->program, TENSOR_INPUT, out->name);
  if (!t) return unknown_input(a, &p->program, out->name, at, d);
  double value = strtod(equals + 1, &end);
  bool number = equals[1] && !*end;
  path = split_key(a, equals + 1, &key);
  if (number && !number_array(&out->array, value, t->type))
    return diag_error(d, DIAG_DATA_VALUE, at, "%s cannot be %s: it is of type %s", out->name,
                      equals + 1, dtype_text(t->type));
  if (!number && !array_read(&out->array, path, key, d, at))
    return access(path, F_OK) == 0 && diag_hint(d, "a compiled model reads arrays (.npy, .npz, "
                                                   ".safetensors), not CSV files and images");
  return check_sizes(package, &p->program, t, &out->array, at, d) &&
         array_convert(&out->array, t->type, t->name, d, at);
}

static bool all_fed(const PackageBatches *b) {
  const Program *p = &b->program->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    bool fed = p->tensor[i].kind != TENSOR_INPUT;
    for (uint32_t k = 0; k < b->nfeeds; k++) fed |= !strcmp(b->feed[k].name, p->tensor[i].name);
    if (fed) continue;
    diag_error(b->diag, DIAG_NOT_FED, (Pos){0}, "the input %s is needed and not fed",
               p->tensor[i].name);
    return diag_hint(b->diag, "feed it: --feed %s=%s", p->tensor[i].name,
                     p->tensor[i].rank ? "FILE.npy" : "NUMBER");
  }
  return true;
}

// Sets *rows to the number of rows of the inputs, or to that of one batch if none runs over rows.
static bool count_rows(const PackageBatches *b, int64_t *rows) {
  const Program *p = &b->program->program;
  const char *first = NULL;
  int64_t batch = batch_of(p);
  *rows = batch;
  for (uint32_t i = 0; i < b->nfeeds; i++) {
    const NamedArray *x = &b->feed[i];
    int axis = rows_axis(p, find_tensor(p, TENSOR_INPUT, x->name));
    if (axis < 0) continue;
    if (first && x->array.size[axis] != *rows)
      return diag_error(b->diag, DIAG_DATA_SHAPE, (Pos){0}, "%s has %lld row%s, %s has %lld",
                        x->name, (long long)x->array.size[axis], plural(x->array.size[axis]), first,
                        (long long)*rows);
    first = x->name;
    *rows = x->array.size[axis];
  }
  if (*rows % batch == 0 || b->program->any_rows) return true;
  diag_error(b->diag, DIAG_DATA_SHAPE, (Pos){0},
             "%lld row%s are no whole batches of %lld, and the model mixes the rows of a batch",
             (long long)*rows, plural(*rows), (long long)batch);
  return diag_hint(b->diag, "compile the model with another batch: --set %s=1", p->over);
}

// -- batches ------------------------------------------------------------------------------------

static void write_batch(const PackageBatches *b, int64_t all, int64_t first, int64_t rows) {
  const Program *p = &b->program->program;
  for (uint32_t i = 0; i < b->nfeeds; i++) {
    const Array *x = &b->feed[i].array;
    int axis = rows_axis(p, find_tensor(p, TENSOR_INPUT, b->feed[i].name));
    if (axis <= 0) { // the rows of the batch follow one another
      int64_t skip = axis < 0 ? 0 : x->elements / all * first * dtype_bytes(x->type);
      exec_write(b->exec, TENSOR_INPUT, b->feed[i].name, x->type, (const char *)x->data + skip);
      continue;
    }
    char *part = mem_alloc((size_t)(x->elements / all * rows * dtype_bytes(x->type)) + 1);
    array_copy_rows(x, axis, (ArrayRows){part, rows, 0}, (ArrayRows){x->data, all, first}, rows);
    exec_write(b->exec, TENSOR_INPUT, b->feed[i].name, x->type, part);
    free(part);
  }
}

static void read_batch(const PackageBatches *b, int64_t all, int64_t first, int64_t rows) {
  const Program *p = &b->program->program;
  for (uint32_t i = 0; i < b->nresults; i++) {
    PackageResult *r = &b->result[i];
    int axis = rows_axis(p, find_tensor(p, TENSOR_OUTPUT, r->name));
    if (!b->first) {
      exec_read(b->exec, TENSOR_OUTPUT, r->name, NULL);
    } else if (axis < 0 || rows == all) {
      exec_read(b->exec, TENSOR_OUTPUT, r->name, r->array.data);
    } else {
      char *part =
          mem_alloc((size_t)(r->array.elements / all * rows * dtype_bytes(r->array.type)) + 1);
      exec_read(b->exec, TENSOR_OUTPUT, r->name, part);
      array_copy_rows(&r->array, axis, (ArrayRows){r->array.data, all, first},
                      (ArrayRows){part, rows, 0}, rows);
      free(part);
    }
  }
}

// -- results ------------------------------------------------------------------------------------

static bool is_hidden(const Package *p, const char *name) {
  for (uint32_t i = 0; i < p->nhidden; i++)
    if (!strcmp(p->hidden[i], name)) return true;
  return false;
}

// Sets the names of the classes that elements or positions of the result stand for.
static void name_classes(const PackageBatches *b, PackageResult *r) {
  r->axis = arena_array(b->arena, ClassNames, r->array.rank + 1);
  for (uint32_t i = 0; i < b->program->nclasses; i++) {
    const PackageClasses *c = &b->program->classes[i];
    if (strcmp(c->output, r->name) != 0) continue;
    r->element = c->element;
    for (int k = 0; k < r->array.rank; k++)
      for (uint32_t d = 0; d < c->ndims; d++)
        if (!strcmp(c->dim[d], r->dim[k]) && c->axis[d].n == r->array.size[k])
          r->axis[k] = c->axis[d];
  }
}

static bool add_result(PackageBatches *b, const ProgTensor *t, int64_t rows) {
  const Program *p = &b->program->program;
  const char **dims = arena_array(b->arena, const char *, t->rank + 1);
  PackageResult *r = &b->result[b->nresults++];
  int axis = rows_axis(p, t);
  *r = (PackageResult){
      .name = t->name, .dim = dims, .array = {.type = t->type, .rank = t->rank, .elements = 1}};
  for (int i = 0; i < t->rank; i++) {
    dims[i] = t->dim[t->declared[i]].name;
    r->array.size[i] = i == axis ? rows : t->dim[t->declared[i]].whole;
    r->array.elements *= r->array.size[i];
  }
  name_classes(b, r);
  if (b->first) r->array.data = mem_alloc((size_t)(r->array.elements * dtype_bytes(t->type)) + 1);
  if (axis >= 0 || rows <= batch_of(p)) return true;
  diag_error(b->diag, DIAG_USAGE, (Pos){0},
             "%s does not run over %s, and there are several batches", t->name, p->over);
  return diag_hint(b->diag, "feed at most %lld rows, or fetch other outputs",
                   (long long)batch_of(p));
}

static bool wants(uint32_t n, const char *const *fetch, const char *name) {
  bool found = n == 0;
  for (uint32_t i = 0; i < n; i++) found |= !strcmp(fetch[i], name);
  return found;
}

static bool open_results(PackageBatches *b, uint32_t n, const char *const *fetch, int64_t rows) {
  const Program *p = &b->program->program;
  b->result = arena_array(b->arena, PackageResult, p->ntensors + 1);
  b->nresults = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (find_tensor(p, TENSOR_OUTPUT, fetch[i])) continue;
    diag_error(b->diag, DIAG_UNKNOWN_FETCH, (Pos){0}, "the package has no output '%s'", fetch[i]);
    return diag_hint(b->diag, "name it when the package is made: meshc compile --fetch %s",
                     fetch[i]);
  }
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    if (t->kind != TENSOR_OUTPUT || is_hidden(b->package, t->name) || !wants(n, fetch, t->name))
      continue;
    if (!add_result(b, t, rows)) return false;
  }
  return true;
}

bool package_predict(PackageBatches *b, uint32_t n, const char *const *fetch) {
  int64_t rows, batch = batch_of(&b->program->program);
  if (!all_fed(b) || !count_rows(b, &rows) || !open_results(b, n, fetch, rows)) return false;
  for (int64_t first = 0; first < rows; first += batch) {
    int64_t now = rows - first < batch ? rows - first : batch;
    exec_rows(b->exec, now < batch ? now : -1);
    write_batch(b, rows, first, now);
    if (exec_step(b->exec, 0, false) != STEP_OK) {
      exec_fault(b->exec, b->diag);
      return false;
    }
    read_batch(b, rows, first, now);
  }
  b->rows = rows;
  return exec_works(b->exec, b->diag) && exec_check(b->exec, b->diag);
}

bool package_train(PackageBatches *b, uint32_t n, const char *const *fetch, int64_t before,
                   int64_t steps) {
  int64_t rows;
  if (!all_fed(b) || !count_rows(b, &rows) || !open_results(b, n, fetch, rows)) return false;
  write_batch(b, rows, 0, rows);
  for (int64_t i = 0; i < steps; i++) {
    StepResult result = exec_step(b->exec, before + i, true);
    if (result == STEP_NOT_FINITE)
      return diag_error(b->diag, DIAG_NOT_FINITE, (Pos){0},
                        "the loss or a gradient is not finite in step %lld",
                        (long long)(before + i));
    if (result == STEP_OK) continue;
    exec_fault(b->exec, b->diag);
    return false;
  }
  read_batch(b, rows, 0, rows);
  return exec_works(b->exec, b->diag) && exec_check(b->exec, b->diag);
}
