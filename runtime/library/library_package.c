// Models that come from a package: their programs are compiled already. No code of the compiler is
// needed.
#include "runtime/library/library.h"
#include "runtime/package/package_batch.h"
#include "runtime/package/package_text.h"
#include "runtime/package/package_train.h"

#include <stdlib.h>
#include <string.h>

typedef struct PackageModel {
  meshc_model base; // the first member
  Package *package;
  int threads;
  const char *directory;      // where the data of a training begins
  PackageGenerator generator; // made at the first call of meshc_generate
  PackageTraining training;   // made at the first call of meshc_train, with:
  TrainJob job;
  double *value; // by output that is shown
} PackageModel;

static PackageModel *package_of(meshc_model *m) { return (PackageModel *)(void *)m; }

// -- programs -----------------------------------------------------------------------------------

static meshc_program *bind(meshc_model *m, PackageProgram *of) {
  const PackageModel *pm = package_of(m);
  meshc_program *p = library_program_new(m, sizeof *p);
  p->program = &of->program;
  p->trains = !strcmp(of->name, "train");
  const ExecOptions options = {.threads = pm->threads,
                               .share = library_shared(m),
                               .seed = pm->package->seed,
                               .stop_request = &m->stop,
                               .must_be_finite = p->trains ? pm->package->watch : NULL};
  p->exec = package_exec(of, &options, m->diag);
  if (!p->exec) return NULL;
  library_list_program(p);
  return p;
}

// The first program of a package has all values; it is the store.
static meshc_program *store(meshc_model *m) {
  const PackageModel *pm = package_of(m);
  if (m->store) return m->store;
  meshc_program *p = bind(m, &pm->package->program[0]);
  if (!p || !package_load(pm->package, p->program, p->exec, m->diag)) return NULL;
  m->store = p;
  m->steps = pm->package->steps;
  if (p->trains) m->trainer = p->exec;
  return p;
}

static const char *const purpose_name[] = {
    [MESHC_PREDICT] = "predict", [MESHC_EVALUATE] = "evaluate", [MESHC_TRAIN] = "train"};

static bool lacks(const meshc_model *m, const char *name) {
  const Package *p = ((const PackageModel *)(const void *)m)->package;
  const char *list = "";
  for (uint32_t i = 0; i < p->nprograms; i++)
    list = arena_printf(m->arena, "%s%s%s", list, i ? ", " : "", p->program[i].name);
  diag_error(m->diag, DIAG_UNAVAILABLE, (Pos){0}, "%s has no program for %s: it has %s", p->path,
             name, list);
  return diag_hint(m->diag, "compile the model with --for %s",
                   !strcmp(name, "predict") ? "predict" : "train");
}

static bool has_output(const meshc_program *p, const char *name) {
  if (library_find(&p->tensor[MESHC_OUTPUT], name) >= 0) return true;
  const meshc_model *m = p->model;
  diag_error(m->diag, DIAG_UNKNOWN_FETCH, (Pos){0}, "the package has no output '%s'", name);
  return diag_hint(m->diag, "name it when the package is made: meshc compile --fetch %s", name);
}

static meshc_program *compile(meshc_model *m, meshc_purpose purpose, const char *const *fetch,
                              size_t n) {
  PackageProgram *of = package_program(package_of(m)->package, purpose_name[purpose]);
  if (!of) {
    (void)lacks(m, purpose_name[purpose]);
    return NULL;
  }
  meshc_program *p = store(m);
  if (!p) return NULL;
  if (p->program != &of->program || p->exec == NULL) p = bind(m, of);
  for (size_t i = 0; p && i < n; i++)
    if (!has_output(p, fetch[i])) return NULL;
  return p;
}

// -- what a package cannot do -------------------------------------------------------------------

static bool refuse(const meshc_model *m, const char *what) {
  diag_error(m->diag, DIAG_UNAVAILABLE, (Pos){0}, "a package %s", what);
  return diag_hint(m->diag, "open the model's text with libmeshc, or run steps with meshc_run");
}

static bool evaluate(meshc_model *m, const char *data, const Reporting *to) {
  (void)data, (void)to;
  return refuse(m, "makes no evaluations");
}

static char *json(meshc_model *m, const char *command, meshc_purpose purpose) {
  (void)command, (void)purpose;
  (void)refuse(m, "does not have what meshc_json says of a model");
  return NULL;
}

// -- training -----------------------------------------------------------------------------------

static void report(void *context, const TrainReport *t) {
  const Reporting *r = context;
  PackageModel *pm = package_of(r->model);
  if (t->event != TRAIN_STEP || !r->progress) return;
  for (uint32_t i = 0; i < pm->job.nshown; i++) pm->value[i] = train_shown(&pm->job, i);
  const meshc_progress p = {.step = t->step,
                            .steps = pm->job.steps,
                            .data = "train",
                            .count = pm->job.nshown,
                            .name = pm->job.shown,
                            .value = pm->value};
  if (r->progress(r->context, &p)) r->model->stop = 1;
}

static bool open_training(meshc_model *m, int64_t steps) {
  PackageModel *pm = package_of(m);
  const meshc_program *first = store(m);
  if (!first) return false;
  const PackageTrainAsk ask = {.directory = pm->directory ? pm->directory : ".",
                               .own = first->trains ? first->exec : NULL,
                               .steps = steps,
                               .threads = pm->threads,
                               .exec = {.threads = pm->threads, .seed = pm->package->seed}};
  if (!package_train_open(m->arena, pm->package, &ask, m->diag, &pm->training, &pm->job)) {
    package_train_free(&pm->training);
    return false;
  }
  pm->value = arena_array(m->arena, double, pm->job.nshown + 1);
  return true;
}

static bool train(meshc_model *m, int64_t steps, const Reporting *to) {
  PackageModel *pm = package_of(m);
  Reporting reporting = *to;
  int64_t done = 0;
  if (!pm->training.feed && !open_training(m, steps)) return false;
  if (!package_train_steps(pm->package, pm->training.feed, steps, &pm->job, m->diag)) return false;
  pm->job.before = m->steps;
  pm->job.report = report;
  pm->job.report_context = &reporting;
  pm->job.done = &done;
  int code = train_run(&pm->job, m->diag);
  m->steps += done;
  return code == 0 || code == EXIT_INTERRUPTED;
}

// -- parameters ---------------------------------------------------------------------------------

static bool load(meshc_model *m, const char *path) {
  return store(m) &&
         package_read_values(m->store->program, m->store->exec, path, &m->steps, m->diag);
}

static bool save(meshc_model *m, const char *path) {
  return store(m) &&
         package_save_values(m->store->program, m->store->exec, path, m->steps, true, m->diag);
}

// -- text ---------------------------------------------------------------------------------------

static bool text(meshc_model *m, LibraryText *out) {
  PackageModel *pm = package_of(m);
  PackageGenerator *g = &pm->generator;
  const ExecOptions options = {.threads = pm->threads, .seed = pm->package->seed};
  const meshc_program *first = pm->package->text ? store(m) : NULL;
  if (pm->package->text && !first) return false;
  const PackageTextAsk ask = {.step = first ? first->exec : NULL};
  if (!g->decoder.logits &&
      !package_generator_open(m->arena, pm->package, &options, &ask, m->diag, g)) {
    package_generator_free(g);
    return false;
  }
  *out = (LibraryText){&g->decoder, g->codec};
  return true;
}

// -- the kind -----------------------------------------------------------------------------------

static void close_model(meshc_model *m) {
  package_generator_free(&package_of(m)->generator); // first: it uses tensors of the store
  package_train_free(&package_of(m)->training);      // as well
  for (meshc_program *p = m->programs, *before; p; p = before) {
    before = p->before;
    library_program_free(p);
  }
  package_close(package_of(m)->package);
}

static bool is_stuck(const meshc_model *m) {
  for (const meshc_program *p = m->programs; p; p = p->before)
    if (exec_is_stuck(p->exec)) return true;
  return exec_is_stuck(((const PackageModel *)(const void *)m)->generator.chunk);
}

static bool hides(const meshc_model *m, const char *output) {
  const Package *p = ((const PackageModel *)(const void *)m)->package;
  for (uint32_t i = 0; i < p->nhidden; i++)
    if (!strcmp(p->hidden[i], output)) return true;
  return false;
}

static const char *dim_name(const meshc_model *m, const char *dim) {
  (void)m;
  return dim; // the package has the names that users know
}

static bool is_micro(const meshc_model *m, const char *dim) {
  return package_is_micro(((const PackageModel *)(const void *)m)->package, dim);
}

static const LibraryKind packaged = {
    .close = close_model,
    .stuck = is_stuck,
    .store = store,
    .compile = compile,
    .train = train,
    .evaluate = evaluate,
    .load = load,
    .save = save,
    .text = text,
    .json = json,
    .hides = hides,
    .dim_name = dim_name,
    .is_micro = is_micro,
};

// -- opening ------------------------------------------------------------------------------------

static bool read_options(PackageModel *m, const meshc_options *options) {
  for (size_t i = 0; options && i < options->n; i++) {
    const char *word = options->word[i];
    char *end;
    if (strncmp(word, "--data-dir=", 11) == 0) {
      m->directory = arena_text(m->base.arena, word + 11, strlen(word + 11));
      continue;
    }
    if (strncmp(word, "--threads=", 10) != 0) {
      diag_error(m->base.diag, DIAG_UNKNOWN_OPTION, (Pos){0}, "%s is no option of a package", word);
      return diag_hint(m->base.diag, "a package takes --threads=N and --data-dir=DIR");
    }
    long n = strtol(word + 10, &end, 10);
    if (*end || n < 1 || n > 4096)
      return diag_error(m->base.diag, DIAG_USAGE, (Pos){0},
                        "--threads takes a number from 1 to 4096, not '%s'", word + 10);
    m->threads = (int)n;
  }
  return true;
}

// Returns whether tensor t of a program is part of the generation of text, and none of the model.
static bool is_of_text(const PackageProgram *p, const ProgTensor *t) {
  return package_is_of_text(p) &&
         (t->kind == TENSOR_INPUT || t->kind == TENSOR_OUTPUT || tensor_is_of_text(t));
}

// Lists the tensors of the model: those of its programs, each once.
static void list_model(PackageModel *m) {
  const Package *p = m->package;
  for (int k = 0; k < KINDS; k++) {
    TensorList *list = &m->base.tensor[k];
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->nprograms; i++) most += p->program[i].program.ntensors;
    list->at = arena_array(m->base.arena, meshc_tensor, most + 1);
    for (uint32_t i = 0; i < p->nprograms; i++)
      for (uint32_t t = 0; t < p->program[i].program.ntensors; t++) {
        const ProgTensor *x = &p->program[i].program.tensor[t];
        if (x->kind != library_tensor_kind((meshc_kind)k) || library_find(list, x->name) >= 0 ||
            is_of_text(&p->program[i], x) || (k == MESHC_OUTPUT && hides(&m->base, x->name)))
          continue;
        TensorDims to =
            library_add_tensor(m->base.arena, list, (meshc_kind)k, x->name, x->type, x->rank);
        library_add_dims(&m->base, &list->at[list->n - 1], to, x);
      }
  }
}

static bool open_package(Opening *o) {
  Arena *a = arena_new();
  PackageModel *m = arena_new_of(a, PackageModel);
  m->base = (meshc_model){.kind = &packaged, .arena = a, .diag = diag_new(a)};
  static const char *const hints[] = {"--threads", "--data-dir", NULL};
  diag_program(m->base.diag, NULL, hints);
  o->model = &m->base;
  if (!read_options(m, o->options)) return false;
  m->package = o->text ? package_open_packed(a, o->path, o->text, o->bytes, m->base.diag)
                       : package_open(a, o->path, NULL, m->base.diag);
  if (!m->package) return false;
  list_model(m);
  return true;
}

meshc_model *meshc_open_package(const char *path, const meshc_options *options,
                                meshc_error **error) {
  Opening o = {.open = open_package, .path = path, .options = options};
  if (path) return library_open_model(&o, error);
  (void)library_refuse(DIAG_NO_MODEL, "the path of the package is NULL", NULL, error);
  return NULL;
}

meshc_model *meshc_open_packed(const void *bytes, size_t size, const char *name,
                               const meshc_options *options, meshc_error **error) {
  Opening o = {.open = open_package,
               .path = name ? name : "package",
               .text = bytes,
               .bytes = size,
               .options = options};
  if (bytes) return library_open_model(&o, error);
  (void)library_refuse(DIAG_NO_MODEL, "the package is at NULL", NULL, error);
  return NULL;
}
