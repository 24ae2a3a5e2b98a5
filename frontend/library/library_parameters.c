// Reads and writes parameters, states and the state of the optimizer: files and checkpoints.
#include "frontend/library/library_internal.h"

// Sets *exec and *program to the program whose tensors a file contains: one with the optimizer
// state if there is one, else the store. Returns false after an error.
static bool holder(CompiledModel *m, Exec **exec, const Program **program) {
  if (m->base.trainer && m->base.trainer == m->train.exec) {
    *exec = m->train.exec;
    *program = m->train.made.compiled->program;
    return true;
  }
  meshc_program *p = library_store(&m->base);
  for (meshc_program *q = m->base.programs; m->base.trainer && q; q = q->before)
    if (q->exec == m->base.trainer) p = q;
  if (!p) return false;
  *exec = p->exec;
  *program = p->program;
  return true;
}

// Compiles a training program if no program holds the optimizer state, which files and checkpoints
// may contain. Returns false after an error.
static bool make_trainer(CompiledModel *m) {
  if (m->base.trainer || !m->s.model->graph->spec.ntrain) return true;
  return library_compile(&m->base, MESHC_TRAIN, NULL, 0) != NULL;
}

bool library_load(meshc_model *model, const char *path) {
  CompiledModel *m = library_model_of(model);
  Exec *e;
  const Program *p;
  int64_t steps = 0;
  if (!make_trainer(m) || !holder(m, &e, &p)) return false;
  library_option(m, OPTION_PARAMS, path);
  bool good = values_load(&m->s, e, p, m->base.trainer != NULL, &steps);
  library_option(m, OPTION_PARAMS, NULL);
  if (good) model->steps = steps;
  return good;
}

static bool save_file(CompiledModel *m, Exec *e, const Program *p, const char *path) {
  library_option(m, OPTION_SAVE_PARAMS, path);
  bool good = params_check(&m->s) && params_save(&m->s, e, p, m->base.steps);
  library_option(m, OPTION_SAVE_PARAMS, NULL);
  return good;
}

static bool save_checkpoint(CompiledModel *m, Exec *e, const char *path) {
  Session *s = &m->s;
  const char *written;
  const SaverOptions options = {.directory = path, .model = s->opt->argument.at[0]};
  const TrainPosition note = {
      .step = m->base.steps, .seed = s->model->graph->spec.seed, .epoch = m->epoch, .row = m->row};
  if (!session_folder(s, path)) return false;
  m->saver = saver_open(&options, e, s->diag);
  bool good = m->saver && saver_start(m->saver, &note, false, s->diag) &&
              saver_poll(m->saver, true, &written, s->diag);
  saver_free(m->saver);
  m->saver = NULL;
  return good;
}

bool library_save(meshc_model *model, const char *path) {
  CompiledModel *m = library_model_of(model);
  Exec *e;
  const Program *p;
  bool file = text_ends(path, ".npz") || text_ends(path, ".safetensors");
  if (!file && !make_trainer(m)) return false; // a checkpoint has the optimizer's state
  if (!holder(m, &e, &p)) return false;
  return file ? save_file(m, e, p, path) : save_checkpoint(m, e, path);
}
