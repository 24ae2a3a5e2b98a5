// The commands train and eval: open the programs that the model's blocks describe
// (frontend/driver/training.h) and run them in the loops of runtime/train.
#include "frontend/command/package_command.h"
#include "frontend/command/train_report.h"
#include "frontend/driver/training.h"
#include "frontend/driver/unfused.h"
#include "frontend/report/log_directory.h"
#include "frontend/verify/verify.h"
#include "runtime/train/loop.h"

#include <math.h>

// -- --verify -----------------------------------------------------------------------------------

// Verifies the separate program of p for the last batch; f reads its data. Returns false after an
// error.
static bool verify_last(Session *s, ProgramRun *p, Feed *f, Verified *out) {
  VerifyJob job = {.graph = p->last.graph,
                   .made = &p->last.made,
                   .exec = p->last.exec,
                   .purpose = "eval",
                   .rows = -1};
  if (!feed_seek(f, 0, feed_rows(f) - p->last.rows, s->diag) ||
      !verify_batch(s, p->last.exec, f, &job.rows))
    return false;
  job.rows = -1;
  exec_rows(p->last.exec, -1);
  return verify_more(s, &job, out);
}

// With --verify, verifies one step of p on the first batch and, if a separate program runs it, on
// the last batch. A second feed reads both batches, so that p->feed keeps its position. Returns
// false after an error.
static bool verify_run(Session *s, ProgramRun *p, BlockKind block, int64_t step, Verified *out) {
  VerifyJob job = {.graph = p->graph,
                   .made = &p->made,
                   .exec = p->exec,
                   .purpose = block == DATA_TRAIN ? "train" : "eval",
                   .rows = -1,
                   .step = step,
                   .commit = block == DATA_TRAIN};
  if (!option_given(s->opt, OPTION_VERIFY)) return true;
  Feed *f = data_open(s, p->graph, block, block != DATA_TRAIN);
  bool good = f != NULL;
  if (good && (!p->last.exec || feed_rows(f) > p->last.rows))
    good = verify_batch(s, p->exec, f, &job.rows) && verify_step(s, &job, out);
  good = good && (!p->last.exec || verify_last(s, p, f, out));
  feed_close(f);
  return good;
}

// -- where a step stops being finite ------------------------------------------------------------

// What `locate` needs to run a failed step of a training again.
typedef struct Locating {
  Session *s;
  const ProgramRun *train;
  const TrainJob *job;
} Locating;

// Runs a failed step again with one kernel for each operation and notes the first value that is not
// finite. The persistent tensors are those before the step: a step that fails does not change them.
static void locate(void *context, int64_t step, const void **data, Diag *d) {
  Locating *l = context;
  Unfused u;
  NotFinite found = {0};
  if (unfused_open(l->s, l->train->graph, "train", l->train->exec, &u)) {
    give_batch(u.exec, l->job->feed, data);
    if (exec_find_not_finite(u.exec, step, &found) && found.found)
      unfused_note(l->s, &found, d);
    else
      diag_note(d, (Pos){0},
                "run again with one kernel an operation, every value of the step is finite");
  }
  unfused_free(&u);
}

static const char *header(Session *s, const ProgramRun *p) {
  return arena_printf(
      s->arena, "%s: %lld parameter%s, mesh %s, %s, predicted %s a step, %s a processor",
      s->opt->argument.at[0], (long long)parameter_count(s->model->graph),
      plural(parameter_count(s->model->graph)), mesh_text(s->arena, &s->model->mesh),
      device_text(s, p->exec), seconds_text(s->arena, predicted_seconds(s, training_step(p))),
      bytes_text(s->arena,
                 exec_bytes(p->exec) + (p->stale.n ? exec_bytes(p->stale.worker[0]) : 0)));
}

// With --verbose, says what the replicas of this process have sent and received. A run whose bytes
// are not the predicted ones has ended with an error.
static void say_updates(Session *s, const StaleJob *j) {
  if (option_given(s->opt, OPTION_VERBOSE) && session_first(s))
    fprintf(stderr, "meshc: %lld update%s: %s of gradients sent, %s of parameters received\n",
            (long long)j->updates, plural(j->updates), bytes_text(s->arena, j->pushed),
            bytes_text(s->arena, j->pulled));
}

// Reads the checkpoint and opens the log, and checks that all ranks read the same files and, where
// asked to, that the program computes what the model says. Returns false after an error.
static bool prepare(Session *s, ProgramRun *train_with, TrainJob *job, LogDirectory *log,
                    Verified *verified) {
  return checkpoints_begin(s, job) && log_directory_begin(s, training_step(train_with), job, log) &&
         session_same_files(s, true) &&
         verify_run(s, train_with, DATA_TRAIN, job->before + job->start, verified);
}

// Checks that all programs have done what was predicted. Returns false after an error.
static bool check_programs(const TrainJob *job, Diag *d) {
  return exec_check(job->train, d) && (!job->eval || exec_check(job->eval, d)) &&
         (!job->last || exec_check(job->last, d)) && (!job->sync || exec_check(job->sync, d));
}

static int train(Session *s, ProgramRun *train_with, ProgramRun *test_with) {
  TrainJob job;
  Verified verified = {0};
  LogDirectory log = {0};
  int64_t done = 0;
  if (!training_open(s, NULL, train_with, test_with, &job)) return 0;
  const Program *p = train_with->made.compiled->program;
  TrainReporter reporter = {.job = &job,
                            .out = session_output(s),
                            .header = header(s, train_with),
                            .quiet = option_given(s->opt, OPTION_QUIET),
                            .first = session_first(s),
                            .saves_params = option_given(s->opt, OPTION_SAVE_PARAMS)};
  job.report = train_report, job.report_context = &reporter, job.ahead = true;
  job.done = &done;
  Locating locating = {s, train_with, &job};
  if (option_given(s->opt, OPTION_CHECK)) job.locate = locate, job.locating = &locating;
  bool ready = prepare(s, train_with, &job, &log, &verified);
  int code = ready ? train_run(&job, s->diag) : 0;
  ready = ready && check_programs(&job, s->diag);
  if (ready && code == 0 && job.stale) say_updates(s, job.stale);
  saver_free(job.saver);
  // After a signal the parameters are saved only if no checkpoint has them. The parameters are
  // saved also if the log could not be written.
  bool save = ready && (code == 0 || (code == EXIT_INTERRUPTED && !job.saver));
  if (save && !params_save(s, train_with->exec, p, job.before + done))
    code = 0; // main takes the exit code from the error in s->diag
  return log_directory_end(s, &log) ? code : 0;
}

int cmd_train(Session *s) {
  if (package_given(s)) return package_command(s);
  ProgramRun train_with = {0}, test_with = {0};
  if (!results_check(s) || !params_check(s) || !checkpoints_check(s) || !log_directory_check(s) ||
      !session_load(s))
    return 0;
  if (!s->model->graph->spec.ntrain) {
    diag_error(s->diag, DIAG_NO_TRAIN_BLOCK, (Pos){0}, "%s has no train block",
               s->opt->argument.at[0]);
    return 0;
  }
  int code = train(s, &train_with, &test_with);
  program_run_free(&test_with); // first: its program uses the tensors of the training program
  program_run_free(&train_with);
  return code;
}

// -- evaluation ---------------------------------------------------------------------------------

static void print_metrics(const Session *s, BlockKind block, const ProgramRun *p,
                          const double *value, int64_t rows, const Verified *verified) {
  if (option_given(s->opt, OPTION_JSON)) {
    json_t *out = json_object(), *metrics = json_object();
    for (uint32_t i = 0; i < p->nmetrics; i++)
      json_object_set_new(metrics, p->metric[i].name,
                          isfinite(value[i]) ? json_real(value[i]) : json_null());
    verified_json(out, verified);
    json_object_set_new(out, "schema", json_string("meshc.eval/1"));
    json_object_set_new(out, "model", json_text(s->opt->argument.at[0]));
    json_object_set_new(out, "data", json_text(block_text(block)));
    json_object_set_new(out, "rows", json_integer(rows));
    json_object_set_new(out, "metrics", metrics);
    json_finish(out);
    return;
  }
  for (uint32_t i = 0; i < p->nmetrics; i++) {
    char text[METRIC_NUMBER];
    printf("%s %s %s", block_text(block), p->metric[i].name, metric_number(value[i], text));
    if (p->metric[i].ratio) printf(" (%.0f/%lld)", round(value[i] * (double)rows), (long long)rows);
    printf("\n");
  }
}

static void warn_not_finite(Session *s, const ProgramRun *p, const double *value) {
  char text[METRIC_NUMBER];
  for (uint32_t i = 0; i < p->nmetrics; i++)
    if (!isfinite(value[i]))
      diag_warning(s->diag, DIAG_VALUE_NOT_FINITE, (Pos){0}, "%s is %s", p->metric[i].name,
                   metric_number(value[i], text));
}

static void show_rows(void *progress, int64_t done, int64_t all) {
  progress_show(progress, "%lld of %lld row%s", (long long)done, (long long)all, plural(all));
}

static int evaluate(Session *s, BlockKind block, ProgramRun *p) {
  int64_t rows, before;
  Verified verified = {0};
  if (!evaluation_open(s, block, NULL, p) ||
      !values_load(s, p->exec, p->made.compiled->program, false, &before))
    return 0;
  double *value = arena_array(s->arena, double, p->nmetrics + 1);
  Progress progress;
  if (!session_same_files(s, true) || !verify_run(s, p, block, 0, &verified)) return 0;
  progress_start(&progress, session_remarks(s), PROGRESS_AFTER);
  const EvalProgress shown = {show_rows, &progress};
  int code = eval_metrics(p->exec, p->last.exec, p->feed, p->nmetrics, p->metric, value, &rows,
                          &shown, s->diag);
  progress_clear(&progress);
  bool good = code == 0 && exec_check(p->exec, s->diag) &&
              (!p->last.exec || exec_check(p->last.exec, s->diag));
  if (good) warn_not_finite(s, p, value);
  if (good) print_metrics(s, block, p, value, rows, &verified);
  return code;
}

int cmd_eval(Session *s) {
  if (package_given(s)) return package_command(s);
  BlockKind block;
  ProgramRun p = {0};
  const char *wanted = option_text(s->opt, OPTION_DATA);
  if (!values_check(s) || !session_load(s) || !data_choose(s, wanted ? wanted : "test", &block))
    return 0;
  int code = evaluate(s, block, &p);
  program_run_free(&p);
  return code;
}
