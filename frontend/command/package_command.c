// Runs a package: its programs are compiled already, so that only options of a run are taken.
#include "frontend/command/package_command.h"

#include <string.h>

bool package_given(const Session *s) {
  return s->opt->argument.n > 0 && package_is(s->opt->argument.at[0]);
}

// The options of models that a package takes, too.
static const OptionId taken[] = {
    OPTION_FEED,        OPTION_FETCH,    OPTION_OUT,     OPTION_JSON,        OPTION_THREADS,
    OPTION_QUIET,       OPTION_VERBOSE,  OPTION_NP,      OPTION_COMM,        OPTION_TIMEOUT,
    OPTION_CHECK_DATA,  OPTION_LOG_RANK, OPTION_CHECK,   OPTION_PARAMS,      OPTION_STEPS,
    OPTION_SAVE_PARAMS, OPTION_FAULT,    OPTION_PROMPT,  OPTION_PROMPT_FILE, OPTION_MAX_TOKENS,
    OPTION_TEMPERATURE, OPTION_TOP_K,    OPTION_TOP_P,   OPTION_BEAMS,       OPTION_STOP,
    OPTION_SEED,        OPTION_DEVICE,   OPTION_DATA_DIR};

// Evaluations combine metrics by operations of the model.
static bool command_fits(const Session *s) {
  if (s->opt->command != COMMAND_EVAL) return true;
  diag_error(s->diag, DIAG_UNAVAILABLE, (Pos){0}, "%s is a package, which is not evaluated",
             s->opt->argument.at[0]);
  return diag_hint(s->diag, "evaluate the model: meshc eval MODEL --params FILE");
}

// Returns whether the command takes the option also with a package. --set: package_train.c.
static bool takes(const Session *s, OptionId id) {
  if (id == OPTION_SET) return s->opt->command == COMMAND_TRAIN;
  bool fits = false;
  for (size_t i = 0; i < countof(taken); i++) fits |= taken[i] == id;
  return fits && (option_row[id].commands & 1u << s->opt->command);
}

// Hints name the options that a package takes.
static void tell_options(const Session *s) {
  const char **names = arena_array(s->arena, const char *, OPTION_COUNT + 1);
  size_t n = 0;
  for (int id = 0; id < OPTION_COUNT; id++)
    if (takes(s, (OptionId)id)) names[n++] = option_name((OptionId)id);
  names[n] = NULL;
  diag_program(s->diag, "meshc", names);
}

bool package_options_fit(const Session *s) {
  tell_options(s);
  for (int id = 0; id < OPTION_COUNT; id++) {
    if (!option_given(s->opt, (OptionId)id) || takes(s, (OptionId)id)) continue;
    diag_error(s->diag, DIAG_USAGE, option_use(s->opt, (OptionId)id)->pos,
               "%s is an option of models, and %s is a package, which is compiled",
               option_name((OptionId)id), s->opt->argument.at[0]);
    return diag_hint(s->diag, "give it to meshc compile");
  }
  return true;
}

typedef struct Running {
  Session *s;
  Package *package;
  PackageProgram *program;
  Exec *exec;
  PackageBatches batches;
  int64_t steps, before; // training steps of this run, and before it
} Running;

// A package is for CPUs or for GPUs, whatever --device says.
static bool device_fits(const Session *s, const Package *p) {
  if (!session_check_device(s)) return false;
  if (!option_given(s->opt, OPTION_DEVICE) || session_for_gpu(s) == (p->gpu != NULL)) return true;
  diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_DEVICE)->pos,
             "%s is a package for %ss", p->path, p->gpu ? "GPU" : "CPU");
  return diag_hint(s->diag, "compile the model %s --device cuda", p->gpu ? "without" : "with");
}

bool package_exec_options(const Session *s, const Package *p, const Program *program,
                          ExecOptions *out) {
  int64_t threads, seed;
  if (!device_fits(s, p) ||
      !option_integer(s->opt, OPTION_THREADS, 0, 1, 4096, s->diag, &threads) ||
      !option_integer(s->opt, OPTION_SEED, (int64_t)p->seed, 0, INT64_MAX, s->diag, &seed))
    return false;
  *out = (ExecOptions){.threads = (int)threads,
                       .ranks = s->ranks,
                       .seed = (uint64_t)seed,
                       .stop_request = s->stop_request};
  // The ranks, which all have opened the package, divide the mesh among them.
  if (!s->ranks || ranks_use_mesh(s->ranks, &program->mesh)) return true;
  return diag_error(s->diag, DIAG_USAGE, (Pos){0},
                    "%d ranks cannot share the mesh of the package: %s", ranks_count(s->ranks),
                    mesh_text(s->arena, &program->mesh));
}

static bool open_program(Running *r) {
  Session *s = r->s;
  const char *name = r->steps ? "train" : "predict";
  ExecOptions options;
  r->package = package_open(s->arena, s->opt->argument.at[0], s->ranks, s->diag);
  if (!r->package) return false;
  r->program = package_program(r->package, name);
  if (!r->program) {
    diag_error(s->diag, DIAG_UNAVAILABLE, (Pos){0}, "the package %s has no program for %s",
               r->package->path, name);
    return diag_hint(s->diag, "compile the model with --for %s", name);
  }
  if (!package_exec_options(s, r->package, &r->program->program, &options)) return false;
  options.must_be_finite = r->steps ? r->package->watch : NULL;
  r->exec = package_exec(r->program, &options, s->diag);
  if (!r->exec || !package_load(r->package, &r->program->program, r->exec, s->diag)) return false;
  r->before = r->package->steps;
  const char *values = option_text(s->opt, OPTION_PARAMS);
  return !values || package_read_values(&r->program->program, r->exec, values, &r->before, s->diag);
}

static bool read_feeds(Running *r) {
  Session *s = r->s;
  uint32_t n = s->opt->use[OPTION_FEED].n;
  r->batches = (PackageBatches){.arena = s->arena,
                                .diag = s->diag,
                                .package = r->package,
                                .program = r->program,
                                .exec = r->exec,
                                .first = session_first(s),
                                .feed = arena_array(s->arena, NamedArray, n + 1)};
  for (uint32_t i = 0; i < n; i++) {
    OptionUse use = s->opt->use[OPTION_FEED].at[i];
    if (!package_feed(s->arena, r->package, r->program, use.text, use.pos,
                      &r->batches.feed[r->batches.nfeeds++], s->diag))
      return false;
  }
  return session_same_files(s, true);
}

static bool execute(Running *r) {
  Fetch f = session_fetch(r->s);
  if (!r->steps) return package_predict(&r->batches, f.n, f.name);
  return package_train(&r->batches, f.n, f.name, r->before, r->steps);
}

static bool finish(Running *r) {
  Session *s = r->s;
  const PackageBatches *b = &r->batches;
  const char *save = option_text(s->opt, OPTION_SAVE_PARAMS);
  Result *result = arena_array(s->arena, Result, b->nresults + 1);
  if (save && !package_save_values(&r->program->program, r->exec, save, r->before + r->steps,
                                   session_first(s), s->diag))
    return false;
  if (!session_first(s)) return true;
  for (uint32_t i = 0; i < b->nresults; i++) {
    const PackageResult *x = &b->result[i];
    result[i] = (Result){x->name, x->dim, x->array, x->element, x->axis, false};
  }
  if (!results_finite(s, b->nresults, result) || !results_write(s, b->nresults, result))
    return false;
  if (!option_given(s->opt, OPTION_JSON)) return true;
  json_t *out = json_object();
  json_object_set_new(
      out, "schema",
      json_string(s->opt->command == COMMAND_RUN ? "meshc.run/1" : "meshc.predict/1"));
  json_object_set_new(out, "model", json_text(s->opt->argument.at[0]));
  if (s->opt->command == COMMAND_PREDICT) json_object_set_new(out, "rows", json_integer(b->rows));
  json_object_set_new(out, "values", results_json(b->nresults, result));
  json_finish(out);
  return true;
}

static int train(Session *s) {
  Package *p = package_open(s->arena, s->opt->argument.at[0], s->ranks, s->diag);
  int code = p ? package_train_command(s, p) : 0;
  package_close(p);
  return code;
}

int package_command(Session *s) {
  Running r = {.s = s};
  if (s->opt->command == COMMAND_TRAIN)
    return package_options_fit(s) && params_check(s) && outputs_check(s) ? train(s) : 0;
  bool ok = command_fits(s) && package_options_fit(s) && results_check(s) && outputs_check(s) &&
            option_integer(s->opt, OPTION_STEPS, 0, 1, INT64_MAX, s->diag, &r.steps) &&
            open_program(&r) && read_feeds(&r) && execute(&r);
  if (ok) (void)finish(&r);
  for (uint32_t i = 0; i < r.batches.nresults; i++) array_free(&r.batches.result[i].array);
  for (uint32_t i = 0; i < r.batches.nfeeds; i++) array_free(&r.batches.feed[i].array);
  exec_free(r.exec);
  package_close(r.package);
  return 0;
}
