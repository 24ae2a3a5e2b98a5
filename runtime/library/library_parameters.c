// Reads and writes parameters and states: one by one with buffers of the caller, or all with files
// and checkpoints.
#include "runtime/library/library.h"

// -- one parameter ------------------------------------------------------------------------------

typedef struct Access {
  const meshc_array *array;
  bool writes;
} Access;

static bool find(const meshc_program *p, const char *name, meshc_kind *kind, int64_t *i) {
  for (*kind = MESHC_PARAMETER; *kind <= MESHC_STATE; *kind = (meshc_kind)(*kind + 1)) {
    *i = library_find(&p->tensor[*kind], name);
    if (*i >= 0) return true;
  }
  return diag_error(p->model->diag, DIAG_PARAM_UNKNOWN, (Pos){0},
                    "the model has no parameter or state '%s'", name ? name : "");
}

static bool reach(meshc_model *m, void *context) {
  const Access *a = context;
  meshc_kind kind;
  int64_t i;
  if (!a->array) return diag_error(m->diag, DIAG_USAGE, (Pos){0}, "the buffer is NULL");
  meshc_program *p = m->kind->store(m);
  if (!p || !find(p, a->array->name, &kind, &i)) return false;
  if (a->writes) return library_put(p, kind, i, a->array);
  return library_get(p, kind, i, a->array) && exec_works(p->exec, m->diag);
}

int meshc_read(meshc_model *m, const meshc_array *out, meshc_error **error) {
  Access a = {out, false};
  bool broken = m && m->broken;
  // A call that fails does not change the values of the store, so they can still be read.
  if (broken && m->store && !m->kind->stuck(m)) m->broken = false;
  int code = library_call(m, reach, &a, error);
  if (broken) m->broken = true;
  return code;
}

int meshc_write(meshc_model *m, const meshc_array *in, meshc_error **error) {
  Access a = {in, true};
  return library_call(m, reach, &a, error);
}

// -- files --------------------------------------------------------------------------------------

static bool load_call(meshc_model *m, void *path) { return m->kind->load(m, path); }
static bool save_call(meshc_model *m, void *path) { return m->kind->save(m, path); }

int meshc_load(meshc_model *m, const char *path, meshc_error **error) {
  if (!path) return library_refuse(DIAG_USAGE, "the path is NULL", NULL, error);
  return library_call(m, load_call, (void *)(uintptr_t)path, error);
}

int meshc_save(meshc_model *m, const char *path, meshc_error **error) {
  if (!path) return library_refuse(DIAG_USAGE, "the path is NULL", NULL, error);
  return library_call(m, save_call, (void *)(uintptr_t)path, error);
}
