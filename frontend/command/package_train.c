// The command train on a package: trains on the files that the model's data block names.
#include "runtime/package/package_train.h"
#include "frontend/command/package_command.h"
#include "frontend/command/train_report.h"

#include <stdlib.h>
#include <string.h>

// Of --set only the number of steps is no matter of the compile.
static bool read_steps(const Session *s, int64_t *steps) {
  static const char name[] = "train.steps=";
  for (uint32_t i = 0; i < s->opt->use[OPTION_SET].n; i++) {
    const OptionUse *use = &s->opt->use[OPTION_SET].at[i];
    const char *number = use->text + sizeof name - 1;
    char *end = NULL;
    bool fits = strncmp(use->text, name, sizeof name - 1) == 0;
    if (fits) *steps = strtoll(number, &end, 10); // more than fit: INT64_MAX
    if (fits && *number && !*end && *steps > 0) continue;
    diag_error(s->diag, DIAG_USAGE, use->pos, "a package takes --set train.steps=N, not '%s'",
               use->text);
    return diag_hint(s->diag, "give other settings to meshc compile");
  }
  return true;
}

static const char *header(const Session *s, const Package *p, const PackageTraining *t) {
  return arena_printf(s->arena, "%s: %s compiled for %s, mesh %s, %s a processor", p->path,
                      p->model, p->build, mesh_text(s->arena, &t->program->mesh),
                      bytes_text(s->arena, exec_bytes(t->exec)));
}

static int run(Session *s, const Package *p, const PackageTraining *t, TrainJob *job) {
  const char *save = option_text(s->opt, OPTION_SAVE_PARAMS);
  TrainReporter reporter = {.job = job,
                            .out = session_output(s),
                            .header = header(s, p, t),
                            .quiet = option_given(s->opt, OPTION_QUIET),
                            .first = session_first(s),
                            .saves_params = save != NULL,
                            .package = true};
  job->report = train_report, job->report_context = &reporter;
  return package_train_run(t, job, save, session_first(s), s->diag);
}

int package_train_command(Session *s, const Package *p) {
  PackageTrainAsk ask = {.directory = option_text(s->opt, OPTION_DATA_DIR),
                         .values = option_text(s->opt, OPTION_PARAMS),
                         .save = option_text(s->opt, OPTION_SAVE_PARAMS)};
  PackageTraining t = {0};
  TrainJob job;
  int code = 0;
  if (!ask.directory) ask.directory = ".";
  bool ok =
      read_steps(s, &ask.steps) && package_exec_options(s, p, &p->program[0].program, &ask.exec);
  ask.threads = ask.exec.threads;
  ok =
      ok && package_train_open(s->arena, p, &ask, s->diag, &t, &job) && session_same_files(s, true);
  if (ok) code = run(s, p, &t, &job);
  package_train_free(&t);
  return code;
}
