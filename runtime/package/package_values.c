// Reads and writes the values of a program: parameters, states, and the state of the optimizer.
#include "runtime/package/package_batch.h"
#include "runtime/runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const char step_name[] = "optimizer.step";

static bool is_kept(const ProgTensor *t) {
  return t->kind == TENSOR_PARAM || t->kind == TENSOR_SLOT ||
         (t->kind == TENSOR_STATE && !tensor_is_of_text(t));
}

static int64_t shape_of(const ProgTensor *t, int64_t *size) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= size[i] = t->dim[t->declared[i]].whole;
  return n;
}

static bool read_tensor(const ProgTensor *t, Exec *e, const char *path, Diag *d) {
  Array x = {0};
  int64_t size[MAX_RANK];
  char got[256], want[256];
  shape_of(t, size);
  bool ok = array_read(&x, path, t->name, d, (Pos){0});
  if (ok && !sizes_fit(x.rank, x.size, t->rank, size))
    ok = diag_error(d, DIAG_DATA_SHAPE, (Pos){0}, "%s holds %s of sizes %s, the model says %s",
                    path, t->name, sizes_text(x.rank, x.size, got, sizeof got),
                    sizes_text(t->rank, size, want, sizeof want));
  ok = ok && array_fits(&x, t->type, t->name, d, (Pos){0});
  if (ok) exec_write(e, t->kind, t->name, x.type, x.data);
  array_free(&x);
  return ok;
}

static bool among(const char *const *names, const char *name) {
  for (; *names; names++)
    if (!strcmp(*names, name)) return true;
  return false;
}

static bool read_all(const Program *p, Exec *e, const char *path, const char *const *names,
                     int64_t *steps, Diag *d) {
  Array count = {0};
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    if (!is_kept(t)) continue;
    bool there = among(names, t->name);
    if (!there && t->kind == TENSOR_PARAM)
      return diag_error(d, DIAG_PARAM_MISSING, (Pos){0}, "%s holds no value for the parameter %s",
                        path, t->name);
    if (there && !read_tensor(t, e, path, d)) return false;
  }
  if (!among(names, step_name)) return true;
  bool ok = array_read(&count, path, step_name, d, (Pos){0});
  if (ok && count.elements > 0)
    *steps = (int64_t)fmin(fmax(dtype_load(count.type, count.data), 0), INT32_MAX);
  array_free(&count);
  return ok;
}

bool package_read_values(const Program *p, Exec *e, const char *path, int64_t *steps, Diag *d) {
  Arena *a = arena_new();
  const char **names;
  bool ok = array_names(a, path, &names, d, (Pos){0}) &&
            read_all(p, e, path, (const char *const *)names, steps, d);
  arena_free(a);
  return ok;
}

static bool ending_fits(const char *path, Diag *d) {
  if (text_ends(path, ".npz") || text_ends(path, ".safetensors")) return true;
  diag_error(d, DIAG_USAGE, (Pos){0},
             "values of a package are saved as .safetensors or .npz, not '%s'", path);
  return diag_hint(d, "the ending says which: %s.safetensors", path);
}

bool package_may_save(const char *path, Diag *d) {
  DiskFile f;
  if (!ending_fits(path, d)) return false;
  bool good = disk_begin(&f, path);
  if (good)
    disk_abandon(&f);
  else
    file_unwritten(path, errno, d);
  return good;
}

bool package_save_values(const Program *p, const Exec *e, const char *path, int64_t steps,
                         bool first, Diag *d) {
  if (!ending_fits(path, d)) return false;
  Arena *a = arena_new();
  NamedArray *x = arena_array(a, NamedArray, p->ntensors + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    if (!is_kept(t)) continue;
    Array *to = &x[n].array;
    *to = (Array){.type = t->type, .rank = t->rank};
    to->elements = shape_of(t, to->size);
    if (first) to->data = mem_alloc((size_t)(to->elements * dtype_bytes(t->type)) + 1);
    exec_read(e, t->kind, t->name, to->data);
    x[n++].name = t->name;
  }
  int32_t count = (int32_t)clamp64(steps, 0, INT32_MAX);
  x[n] = (NamedArray){step_name, {.type = TYPE_I32, .elements = 1, .data = &count}};
  uint32_t all = n + (steps > 0);
  bool ok = !first || (text_ends(path, ".npz") ? npz_write(path, all, x, d)
                                               : safetensors_write(path, all, x, d));
  for (uint32_t i = 0; i < n; i++) array_free(&x[i].array);
  arena_free(a);
  return ok;
}

// Returns the name of the file for a result: "grad.w.npy" for grad(w).
static const char *result_file(Arena *a, const char *folder, const char *name) {
  char *text = arena_text(a, name, strlen(name)), *to = text;
  for (const char *c = name; *c; c++)
    if (*c != ')') *to++ = *c == '(' || *c == '/' ? '.' : *c;
  *to = '\0';
  return arena_printf(a, "%s/%s.npy", folder, text);
}

bool package_may_write(const char *out, Diag *d) {
  bool known;
  struct stat info;
  const char *end = strcmp(out, "-") ? values_ending(out, &known) : out;
  if (!end || text_ends(out, ".npz") || text_ends(out, ".safetensors") ||
      (stat(out, &info) == 0 && S_ISDIR(info.st_mode)))
    return true;
  diag_error(d, DIAG_USAGE, (Pos){0}, "results are not written as '%s'", out);
  return diag_hint(d, "name a folder, for NAME.npy, or a .npz or .safetensors file");
}

bool package_write_results(const PackageBatches *b, const char *out) {
  NamedArray *x = arena_array(b->arena, NamedArray, b->nresults + 1);
  for (uint32_t i = 0; i < b->nresults; i++)
    x[i] = (NamedArray){b->result[i].name, b->result[i].array};
  if (text_ends(out, ".npz")) return npz_write(out, b->nresults, x, b->diag);
  if (text_ends(out, ".safetensors")) return safetensors_write(out, b->nresults, x, b->diag);
  if (!disk_make(AT_FDCWD, out, 0777) && errno != EEXIST)
    return diag_error(b->diag, disk_full(errno) ? DIAG_NO_DISK : DIAG_FAILURE, (Pos){0},
                      "cannot make the folder %s: %s", out, strerror(errno));
  bool ok = true;
  for (uint32_t i = 0; ok && i < b->nresults; i++)
    ok = npy_write(result_file(b->arena, out, x[i].name), &x[i].array, b->diag);
  return ok;
}
