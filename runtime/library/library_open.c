// Opens and closes models of either kind.
#include "runtime/library/library.h"

#include <stdlib.h>

static void open_guarded(void *opening) {
  Opening *o = opening;
  o->good = o->open(o);
}

meshc_model *library_open_model(Opening *o, meshc_error **error) {
  Failure why;
  if (error) *error = NULL;
  if (!guard_run(open_guarded, o, &why)) {
    (void)library_failed(&why, error);
    return NULL;
  }
  meshc_model *m = o->model;
  if (!o->good && error) *error = library_errors(m->diag, 0, false);
  if (o->good && diag_count(m->diag)) m->warnings = library_errors(m->diag, 0, true);
  if (o->good) return m;
  m->kind->close(m);
  arena_free(m->arena);
  return NULL;
}

void meshc_close(meshc_model *m) {
  if (!m) return;
  meshc_error_free(m->warnings);
  // after a step that failed halfway threads may still use the memory of the model
  if (m->kind->stuck(m)) return;
  m->kind->close(m);
  arena_free(m->arena);
}

void meshc_free(char *text) { free(text); }
