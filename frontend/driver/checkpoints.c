// Loads and prepares checkpoints as the command line says: --checkpoint of run, eval and predict;
// --checkpoint-dir, --resume and --keep of train. The files are read and written by
// runtime/train/checkpoint.h. The options are checked before compiling; the values are loaded after
// it, before the first step.
#include "frontend/driver/session.h"

#include <string.h>

// -- loading the values of a run ----------------------------------------------------------------

bool values_check(const Session *s) {
  static const char *const words[] = {"on", "off"};
  int word;
  if (!option_word(s->opt, OPTION_AVERAGE, countof(words), words, s->diag, &word)) return false;
  const OptionUse *checkpoint = option_use(s->opt, OPTION_CHECKPOINT);
  if (!checkpoint || !option_given(s->opt, OPTION_PARAMS)) return true;
  return diag_error(s->diag, DIAG_USAGE, checkpoint->pos,
                    "values come either from --checkpoint or from --params, not from both");
}

// Returns the option that names a checkpoint: --checkpoint, or --params with the folder of a
// checkpoint. Returns NULL if no option names one, or if --map or --params-partial is given: they
// apply to parameter files only.
static const OptionUse *checkpoint_named(const Session *s) {
  const OptionUse *use = option_use(s->opt, OPTION_PARAMS);
  if (option_given(s->opt, OPTION_CHECKPOINT)) return option_use(s->opt, OPTION_CHECKPOINT);
  bool renamed = option_given(s->opt, OPTION_MAP) || option_given(s->opt, OPTION_PARAMS_PARTIAL);
  return use && !renamed && checkpoint_exists(use->text) ? use : NULL;
}

static bool is_drawn(const ProgTensor *t) {
  return t->kind == TENSOR_PARAM &&
         (t->init.kind == INIT_NORMAL || t->init.kind == INIT_TRUNCATED_NORMAL ||
          t->init.kind == INIT_UNIFORM || t->init.kind == INIT_ORTHOGONAL);
}

// Says that the results come from random parameters, of commands that use trained ones.
static void note_drawn(const Session *s, const Program *p) {
  static const CommandId uses[] = {COMMAND_EVAL, COMMAND_PREDICT, COMMAND_GENERATE,
                                   COMMAND_COMPILE};
  bool trained = false;
  uint32_t n = 0;
  for (size_t i = 0; i < countof(uses); i++) trained |= s->opt->command == uses[i];
  for (uint32_t i = 0; i < p->ntensors; i++) n += is_drawn(&p->tensor[i]);
  if (!trained || !n || option_given(s->opt, OPTION_PARAMS) || !session_remarks(s)) return;
  fprintf(
      stderr,
      "meshc: warning: %u parameter%s %s the initial random values; give trained ones: --params "
      "FILE or --checkpoint DIR\n",
      n, plural(n), n == 1 ? "has" : "have");
}

bool values_load(Session *s, Exec *e, const Program *p, bool slots, int64_t *step) {
  const OptionUse *use = checkpoint_named(s);
  if (!use && !slots) note_drawn(s, p);
  if (!use) return params_load(s, e, p, slots, step);
  const Checkpoint *c = checkpoint_open(s->arena, use->text, s->diag, use->pos);
  bool average = values_take_averages(s, p);
  if (!c || !checkpoint_load(c, e, slots, average, s->diag, use->pos)) return false;
  *step = slots ? c->note.step + c->note.before : 0;
  if (option_given(s->opt, OPTION_VERBOSE) && session_first(s))
    fprintf(stderr, "meshc: %s, %lld step%s of training\n", c->path, (long long)c->note.step,
            plural(c->note.step));
  return true;
}

// -- checkpoints of a training ------------------------------------------------------------------

bool checkpoints_check(const Session *s) {
  static const OptionId of_folder[] = {OPTION_RESUME, OPTION_KEEP};
  int64_t keep;
  for (size_t i = 0; i < countof(of_folder); i++)
    if (option_given(s->opt, of_folder[i]) && !option_given(s->opt, OPTION_CHECKPOINT_DIR))
      return diag_error(s->diag, DIAG_USAGE, option_use(s->opt, of_folder[i])->pos,
                        "%s needs --checkpoint-dir DIR", option_name(of_folder[i]));
  return option_integer(s->opt, OPTION_KEEP, 0, 1, INT32_MAX, s->diag, &keep);
}

static bool seed_fits(Session *s, const Checkpoint *c) {
  uint64_t seed = s->model->graph->spec.seed;
  if (c->note.seed == seed) return true;
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_RESUME)->pos,
             "%s was trained with --seed %llu, not %llu", c->path, (unsigned long long)c->note.seed,
             (unsigned long long)seed);
  return diag_hint(s->diag, "say --seed %llu", (unsigned long long)c->note.seed);
}

// Returns whether the user gave the option as --resume=N and not as --resume. The option --resume
// without N has no text and so no position.
static bool names_step(const OptionUse *resume) { return resume->pos.line > 0; }

// Returns the folder of the checkpoint of step N, for --resume=N. Returns NULL after an error.
static const char *find_step(Session *s, const char *folder, const OptionUse *use) {
  int64_t step;
  if (!option_integer(s->opt, OPTION_RESUME, 0, 0, INT64_MAX, s->diag, &step)) return NULL;
  const char *found = checkpoint_of_step(s->arena, folder, step);
  if (found) return found;
  diag_error(s->diag, DIAG_USAGE, use->pos, "%s holds no complete checkpoint of step %lld", folder,
             (long long)step);
  const char *steps = checkpoint_steps_text(s->arena, folder);
  if (steps) diag_hint(s->diag, "it holds those of: %s", steps);
  return NULL;
}

// Opens the checkpoint from which training continues: the newest, or that of step N with
// --resume=N. Returns NULL with *found false if the folder has no checkpoint, which is not an
// error. Returns NULL with *found true after an error.
static const Checkpoint *open_resumed(Session *s, const char *folder, bool *found) {
  const OptionUse *use = option_use(s->opt, OPTION_RESUME);
  *found = names_step(use) || checkpoint_exists(folder);
  if (!*found) return NULL;
  const char *path = names_step(use) ? find_step(s, folder, use) : folder;
  return path ? checkpoint_open(s->arena, path, s->diag,
                                option_use(s->opt, OPTION_CHECKPOINT_DIR)->pos)
              : NULL;
}

// Continues training from a checkpoint in the folder. Loads the tensors, moves the data feed to the
// first batch after the checkpoint, and sets the numbers of steps done in *job. If the folder has
// no checkpoint, training starts from the beginning. Returns false after an error.
static bool go_on(Session *s, const char *folder, TrainJob *job) {
  Pos at = option_use(s->opt, OPTION_CHECKPOINT_DIR)->pos;
  bool found;
  const Checkpoint *c = open_resumed(s, folder, &found);
  if (!found) {
    if (session_remarks(s))
      fprintf(stderr, "meshc: %s holds no checkpoint: training begins anew\n", folder);
    return true;
  }
  if (!c || !seed_fits(s, c) || !checkpoint_load(c, job->train, true, false, s->diag, at) ||
      !feed_seek(job->feed, c->note.epoch, c->note.row, s->diag))
    return false;
  if (names_step(option_use(s->opt, OPTION_RESUME)) &&
      !saver_rewind(job->saver, c->note.step, c->note.best_step, s->diag))
    return false;
  // Print the warnings now, before a long training: checkpoints may have been skipped because they
  // are damaged, or moved away.
  if (session_first(s)) diag_print(s->diag, stderr, false);
  job->resume = &c->note;
  job->start = c->note.step;
  job->before = c->note.before;
  job->resume_path = c->path;
  return true;
}

bool checkpoint_given(Session *s, const Checkpoint **c) {
  const OptionUse *use = checkpoint_named(s);
  const char *folder = option_text(s->opt, OPTION_CHECKPOINT_DIR);
  bool found = use != NULL;
  if (use)
    *c = checkpoint_open(s->arena, use->text, s->diag, use->pos);
  else if (folder && option_given(s->opt, OPTION_RESUME))
    *c = open_resumed(s, folder, &found);
  return found;
}

static bool refuse_mixture(Session *s, const char *folder) {
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_CHECKPOINT_DIR)->pos,
             "%s holds checkpoints of another run", folder);
  return diag_hint(
      s->diag,
      "say --resume to go on from the newest, --resume=N from step N, or name another folder");
}

bool checkpoints_begin(Session *s, TrainJob *job) {
  const char *folder = option_text(s->opt, OPTION_CHECKPOINT_DIR);
  if (!folder) return true;
  SaverOptions options = {.directory = folder,
                          .model = s->opt->argument.at[0],
                          .nfacts = s->facts.n,
                          .facts = s->facts.at};
  if (!session_folder(s, folder) ||
      !option_integer(s->opt, OPTION_KEEP, 0, 1, INT32_MAX, s->diag, &options.keep))
    return false;
  bool resume = option_given(s->opt, OPTION_RESUME);
  if (!resume && checkpoint_exists(folder)) return refuse_mixture(s, folder);
  job->seed = s->model->graph->spec.seed;
  job->checkpoint = s->model->graph->spec.train[0].checkpoint;
  job->saver = saver_open(&options, job->train, s->diag);
  return job->saver && (!resume || go_on(s, folder, job));
}
