// Reads and writes parameters and states: one by one with buffers of the caller, or all with files
// and checkpoints.
#include "frontend/library/library_internal.h"

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
  return diag_error(p->model->s.diag, DIAG_PARAM_UNKNOWN, (Pos){0},
                    "the model has no parameter or state '%s'", name ? name : "");
}

static bool reach(meshc_model *m, void *context) {
  const Access *a = context;
  meshc_kind kind;
  int64_t i;
  if (!a->array) return diag_error(m->s.diag, DIAG_USAGE, (Pos){0}, "the buffer is NULL");
  meshc_program *p = library_store(m);
  if (!p || !find(p, a->array->name, &kind, &i)) return false;
  if (a->writes) return library_put(p, kind, i, a->array);
  return library_get(p, kind, i, a->array) && exec_works(p->exec, m->s.diag);
}

int meshc_read(meshc_model *m, const meshc_array *out, meshc_error **error) {
  Access a = {out, false};
  bool broken = m && m->broken;
  // A call that fails does not change the values of the store, so they can still be read.
  if (broken && m->store && !library_stuck(m)) m->broken = false;
  int code = library_call(m, reach, &a, error);
  if (broken) m->broken = true;
  return code;
}

int meshc_write(meshc_model *m, const meshc_array *in, meshc_error **error) {
  Access a = {in, true};
  return library_call(m, reach, &a, error);
}

// -- files --------------------------------------------------------------------------------------

// Sets *exec and *program to the program whose tensors a file contains: one with the optimizer
// state if there is one, else the store. Returns false after an error.
static bool holder(meshc_model *m, Exec **exec, const Program **program) {
  if (m->trainer && m->trainer == m->train.exec) {
    *exec = m->train.exec;
    *program = m->train.made.compiled->program;
    return true;
  }
  meshc_program *p = library_store(m);
  for (meshc_program *q = m->programs; m->trainer && q; q = q->before)
    if (q->exec == m->trainer) p = q;
  if (!p) return false;
  *exec = p->exec;
  *program = p->made.compiled->program;
  return true;
}

// Compiles a training program if no program holds the optimizer state, which files and checkpoints
// may contain. Returns false after an error.
static bool make_trainer(meshc_model *m) {
  if (m->trainer || !m->s.model->graph->spec.ntrain) return true;
  return library_compile(m, MESHC_TRAIN) != NULL;
}

static bool load(meshc_model *m, void *path) {
  Exec *e;
  const Program *p;
  int64_t steps = 0;
  if (!make_trainer(m) || !holder(m, &e, &p)) return false;
  library_option(m, OPTION_PARAMS, path);
  bool good = values_load(&m->s, e, p, m->trainer != NULL, &steps);
  library_option(m, OPTION_PARAMS, NULL);
  if (good) m->steps = steps;
  return good;
}

int meshc_load(meshc_model *m, const char *path, meshc_error **error) {
  if (!path) return library_refuse(DIAG_USAGE, "the path is NULL", NULL, error);
  return library_call(m, load, (void *)(uintptr_t)path, error);
}

static bool save_file(meshc_model *m, Exec *e, const Program *p, const char *path) {
  library_option(m, OPTION_SAVE_PARAMS, path);
  bool good = params_check(&m->s) && params_save(&m->s, e, p, m->steps);
  library_option(m, OPTION_SAVE_PARAMS, NULL);
  return good;
}

static bool save_checkpoint(meshc_model *m, Exec *e, const char *path) {
  Session *s = &m->s;
  const char *written;
  const SaverOptions options = {.directory = path, .model = s->opt->argument.at[0]};
  const TrainPosition note = {
      .step = m->steps, .seed = s->model->graph->spec.seed, .epoch = m->epoch, .row = m->row};
  if (!session_folder(s, path)) return false;
  m->saver = saver_open(&options, e, s->diag);
  bool good = m->saver && saver_start(m->saver, &note, false, s->diag) &&
              saver_poll(m->saver, true, &written, s->diag);
  saver_free(m->saver);
  m->saver = NULL;
  return good;
}

static bool save(meshc_model *m, void *context) {
  const char *path = context;
  Exec *e;
  const Program *p;
  bool file = text_ends(path, ".npz") || text_ends(path, ".safetensors");
  if (!file && !make_trainer(m)) return false; // a checkpoint has the optimizer's state
  if (!holder(m, &e, &p)) return false;
  return file ? save_file(m, e, p, path) : save_checkpoint(m, e, path);
}

int meshc_save(meshc_model *m, const char *path, meshc_error **error) {
  if (!path) return library_refuse(DIAG_USAGE, "the path is NULL", NULL, error);
  return library_call(m, save, (void *)(uintptr_t)path, error);
}
