// The training loop: gives batches to steps, evaluates, saves checkpoints, and decides when to
// stop.
//
// It prints nothing and handles no signal. It reports events to TrainJob.report, and it stops when
// the caller has set a flag (ExecOptions.stop_request).
#include "runtime/train/loop.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/exec/trace.h"
#include "runtime/train/log.h"
#include "runtime/train/stale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_FROM = 3, TRACE_TO = 8 }; // first and last step that is traced; the first are slower
enum { LINES_A_RUN = 10, MAX_SHOWN = 256 };

typedef struct TrainRun {
  const TrainJob *job;
  TrainPosition at;  // number of steps done, best evaluation, ...; save() sets epoch, row and seed
  int64_t log_every; // number of steps between two lines
  double began;      // clock (seconds) at the start of training, plus the seconds of evaluations
  double logged;     // seconds of training when the last step was logged
  int64_t logged_at; // number of steps done then
  bool better;       // the last evaluation was the best so far
  bool stopped;      // training is to stop early (TrainJob.stop)
  int64_t saved;     // step of the last checkpoint; -1: there is none
  int64_t shown;     // step whose parameters of replicas the model has (TrainJob.sync); -1: none
  const void **data; // by input: address of its elements in the current batch
  int under_way;     // steps that are started and not finished (exec_start)
  bool no_data;      // the feed has failed; it says why when all steps under way are finished
  Stale *stale;      // runs the steps, if updates are asynchronous (TrainJob.stale); else NULL
} TrainRun;

// -- reporting events to the caller -------------------------------------------------------------

static void report(const TrainRun *r, TrainReport what) {
  const TrainJob *j = r->job;
  if (!j->report) return;
  what.step = r->at.step;
  what.skipped = r->at.skipped;
  what.seconds = clock_seconds() - r->began;
  j->report(j->report_context, &what);
}

static bool line_due(const TrainRun *r, int64_t step) {
  return step % r->log_every == 0 || step == r->job->steps;
}

const char *metric_number(double x, char out[METRIC_NUMBER]) {
  double a = fabs(x);
  if (isnan(x)) return "nan"; // printf would write "-nan" for some
  snprintf(out, METRIC_NUMBER, a != 0 && (a < 1e-3 || a >= 1e6) ? "%.3e" : "%.4f", x);
  return out;
}

double train_shown(const TrainJob *job, uint32_t i) {
  return job->stale ? job->stale->shown[i] : exec_scalar(job->train, job->shown[i]);
}

int64_t train_skipped_updates(const TrainJob *job) {
  return job->skipped ? (int64_t)exec_scalar(job->train, job->skipped) : 0;
}

// -- replicas -----------------------------------------------------------------------------------

static bool sync_due(const TrainRun *r, int64_t step) {
  const TrainJob *j = r->job;
  return j->sync && step > j->start && step % j->sync_every == 0 && r->shown != step;
}

// Runs TrainJob.sync. Returns an exit code.
static int join_replicas(TrainRun *r, SyncWay way, Diag *d) {
  const TrainJob *j = r->job;
  if (!j->sync || r->shown == r->at.step) return 0;
  r->shown = r->at.step;
  if (exec_step(j->sync, way, true) == STEP_OK) return 0;
  exec_fault(j->sync, d);
  return diag_exit(d);
}

// -- evaluation ---------------------------------------------------------------------------------

// If a new evaluation with the metrics x is better than the best one so far, makes it the best.
// Sets r->stopped if too many evaluations were worse than the best. Evaluations are compared by the
// metric TrainJob.stop or, if that is NULL, by the loss, the first metric.
static void compare_with_best(TrainRun *r, const double *x) {
  const TrainJob *j = r->job;
  uint32_t i = 0;
  while (j->stop && i < j->nmetrics && strcmp(j->metric[i].name, j->stop) != 0) i++;
  if (i == j->nmetrics) return;
  bool minimise = !j->stop || j->stop_minimise;
  r->better = r->at.best_step == 0 || (minimise ? x[i] < r->at.best : x[i] > r->at.best);
  r->at.worse = r->better ? 0 : r->at.worse + 1;
  r->stopped = j->stop && r->at.worse >= j->patience;
  if (!r->better) return;
  r->at.best = x[i];
  r->at.best_step = r->at.step;
}

static void tell_hearers(const TrainJob *j, const double *x) {
  static const float one = 1;
  for (uint32_t i = 0; i < j->nhearers; i++)
    for (uint32_t k = 0; k < j->nmetrics; k++) {
      const Hearer *h = &j->hearer[i];
      float value = (float)x[k];
      if (strcmp(j->metric[k].name, h->metric) != 0) continue;
      exec_write(j->train, TENSOR_STATE, h->value, TYPE_F32, &value);
      exec_write(j->train, TENSOR_STATE, h->fresh, TYPE_F32, &one);
    }
}

static void log_metrics(const TrainJob *j, const double *x) {
  const char *name[MAX_SHOWN];
  uint32_t n = j->nmetrics < MAX_SHOWN ? j->nmetrics : MAX_SHOWN;
  for (uint32_t i = 0; i < n; i++) name[i] = j->metric[i].name;
  log_evaluation(j->log, j->test_name, n, name, x);
}

static void report_rows(void *run, int64_t rows, int64_t all) {
  report(run, (TrainReport){.event = TRAIN_EVALUATING, .rows = rows, .all_rows = all});
}

// Evaluates all metrics on TrainJob.test, reports and logs them, and updates the best evaluation.
// `final` is true for the evaluation after the last step. The time of evaluations does not count as
// training time. Returns an exit code.
static int evaluate(TrainRun *r, bool final, Diag *d) {
  const TrainJob *j = r->job;
  double began = clock_seconds();
  double *x = mem_zeroed(j->nmetrics + 1u, sizeof *x);
  int64_t rows = 0;
  // true: there was an evaluation after this step already. Then the result is reported, but neither
  // compared with the best one nor logged a second time
  bool repeated = r->at.evaluated == r->at.step && r->at.step > 0;
  const EvalProgress progress = {report_rows, r};
  int code = join_replicas(r, SYNC_SHOW, d);
  if (code == 0)
    code = eval_metrics(j->eval, j->last, j->test, j->nmetrics, j->metric, x, &rows, &progress, d);
  report(r, (TrainReport){.event = TRAIN_EVALUATED,
                          .metric = code == 0 ? x : NULL,
                          .rows = rows,
                          .final = final});
  r->better = false;
  if (code == 0) r->at.evaluated = r->at.step;
  if (code == 0 && !repeated) compare_with_best(r, x);
  if (code == 0 && !repeated) tell_hearers(j, x);
  if (code == 0 && !repeated && j->log) log_metrics(j, x);
  free(x);
  r->began += clock_seconds() - began;
  return code;
}

// -- training -----------------------------------------------------------------------------------

// Returns the step counter for the next step of the program. It counts updates, not skipped steps.
static int64_t step_number(const TrainRun *r) {
  return r->job->before + r->at.step + r->under_way - r->at.skipped;
}

static int say_not_finite(const TrainRun *r, Diag *d) {
  const TrainJob *j = r->job;
  char b[METRIC_NUMBER];
  const char *name = NULL;
  for (uint32_t i = j->nshown; i-- > 0;)
    if (!isfinite(exec_scalar(j->train, j->shown[i]))) name = j->shown[i];
  const char *what = name ? name : "a gradient",
             *is = name ? metric_number(exec_scalar(j->train, name), b) : "not finite";
  diag_error(d, DIAG_NOT_FINITE, (Pos){0},
             "%s is %s in step %lld; the update of that step was not made", what, is,
             (long long)r->at.step);
  if (j->locate) j->locate(j->locating, step_number(r), r->data, d);
  if (j->locate)
    diag_hint(d, "on_nonfinite = skip leaves out such steps; else change the model there, or try a "
                 "lower learning rate");
  else
    diag_hint(d, "--check finite names the operation where it begins, on_nonfinite = skip leaves "
                 "out such steps; else try a lower learning rate");
  return diag_exit(d);
}

// Sets data[i] to the address of input i of the next batch. After the last batch of an epoch the
// next epoch begins. Returns false after an error of the feed, which later calls return again.
static bool next_batch(const TrainJob *j, const void **data) {
  int64_t rows = feed_next(j->feed, data);
  if (rows == 0) rows = feed_next(j->feed, data);
  return rows > 0;
}

// -- writing the log ----------------------------------------------------------------------------

typedef struct Logged {
  uint32_t n;
  const char *name[MAX_SHOWN];
  double value[MAX_SHOWN];
} Logged;

static void add_logged(Logged *l, const char *name, double value) {
  if (l->n == MAX_SHOWN) return;
  l->name[l->n] = name;
  l->value[l->n++] = value;
}

static bool is_shown(const TrainJob *j, const char *name) {
  for (uint32_t i = 0; i < j->nshown; i++)
    if (!strcmp(j->shown[i], name)) return true;
  return false;
}

// Adds a number about the run, such as its memory, to the values of a step, unless the model has a
// metric of that name.
static void add_figure(Logged *l, const TrainJob *j, const char *name, double value) {
  if (!is_shown(j, name)) add_logged(l, name, value);
}

static void log_shown(TrainRun *r) {
  const TrainJob *j = r->job;
  Logged l = {0};
  double now = clock_seconds() - r->began;
  double rows = (double)(j->batch * (r->stale ? r->at.step - r->logged_at : 1));
  if (!j->log) return;
  for (uint32_t i = 0; i < j->nshown; i++) add_logged(&l, j->shown[i], train_shown(j, i));
  for (uint32_t i = 0; i < j->nlogged; i++)
    add_figure(&l, j, j->logged_as[i], exec_scalar(j->train, j->logged[i]));
  add_figure(&l, j, j->tokens ? "tokens_per_second" : "rows_per_second",
             now > r->logged ? rows / (now - r->logged) : 0);
  add_figure(&l, j, "memory", (double)exec_bytes(j->train));
  if (j->skip || j->skipped)
    add_figure(&l, j, "skipped", (double)(r->at.skipped + train_skipped_updates(j)));
  r->logged = now;
  r->logged_at = r->at.step;
  log_step(j->log, r->at.step, now, l.n, l.name, l.value);
}

// Reports the first failed write of each file of the log. Training continues, and log_close returns
// an error at the end.
static void report_log_failure(const TrainRun *r) {
  int error;
  const char *path = r->job->log ? log_fault(r->job->log, &error) : NULL;
  if (path) report(r, (TrainReport){.event = TRAIN_LOG_FAILED, .path = path, .error = error});
}

static void log_tensors(const TrainRun *r, const Exec *e, TensorKind kind) {
  const Program *p = e->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->dim[k].whole;
    void *full = t->kind == kind && t->rank > 0 && dtype_is_float(t->type)
                     ? mem_alloc((size_t)(n * dtype_bytes(t->type)))
                     : NULL;
    if (!full) continue;
    exec_read(e, kind, t->name, full);
    log_histogram(r->job->log, r->at.step, t->name, t->type, n, full);
    free(full);
  }
}

// Returns whether histograms are logged before step number `step`, counted from 0.
static bool histograms_due(const TrainRun *r, int64_t step) {
  return r->job->log && r->job->gradients && line_due(r, step + 1);
}

// Logs histograms of the parameters before a step and of their gradients. A separate program
// (TrainJob.gradients) computes the gradients, so that logging changes no bit of the training.
static void log_histograms(const TrainRun *r) {
  const TrainJob *j = r->job;
  give_batch(j->gradients, j->feed, r->data);
  if (exec_step(j->gradients, step_number(r), false) != STEP_OK)
    return; // the next training step fails too, and reports the error
  log_tensors(r, j->gradients, TENSOR_OUTPUT);
  log_tensors(r, j->train, TENSOR_PARAM);
}

// -- steps under way ----------------------------------------------------------------------------

// Returns whether an evaluation or a checkpoint is due after `step` steps, or an evaluation that an
// earlier run did not come to.
static bool evaluation_due(const TrainRun *r, int64_t step) {
  const TrainJob *j = r->job;
  return j->eval && j->test && j->evaluate > 0 && step > 0 && step % j->evaluate == 0 &&
         step < j->steps && r->at.evaluated < step;
}
static bool checkpoint_due(const TrainRun *r, int64_t step) {
  const TrainJob *j = r->job;
  return j->checkpoint > 0 && step > j->start && step % j->checkpoint == 0;
}

// Returns how many steps may be under way. A step that is to be looked at is finished before the
// next one is started, and so is one after which training goes on though it was not committed.
static int most_under_way(const TrainJob *j) {
  return j->ahead && !j->skip && !j->locate && !j->trace ? exec_ahead(j->train) : 1;
}

// Returns whether the step behind those under way can be started: nothing is to be done before it
// that needs these finished.
static bool may_start(const TrainRun *r) {
  const TrainJob *j = r->job;
  int64_t next = r->at.step + r->under_way;
  if (r->no_data || next >= j->steps) return false;
  if (r->under_way == 0) return true;
  return r->under_way < most_under_way(j) && !exec_stop_asked(j->train) &&
         !histograms_due(r, next) && !evaluation_due(r, next) && !checkpoint_due(r, next) &&
         !sync_due(r, next);
}

static void start_step(TrainRun *r, const void **data) {
  const TrainJob *j = r->job;
  int64_t done = r->at.step + r->under_way - j->start;
  if (!next_batch(j, data)) {
    r->no_data = true;
    return;
  }
  give_batch(j->train, j->feed, data);
  r->data = data;
  if (histograms_due(r, r->at.step + r->under_way)) log_histograms(r);
  if (j->trace) exec_trace(j->train, done >= TRACE_FROM && done < TRACE_TO ? j->trace : NULL);
  exec_start(j->train, step_number(r), true);
  r->under_way++;
}

static int finish_step(TrainRun *r, Diag *d) {
  const TrainJob *j = r->job;
  StepResult result = exec_finish(j->train);
  r->under_way--;
  if (result == STEP_NOT_FINITE && !j->skip) {
    r->under_way = 0;
    return say_not_finite(r, d);
  }
  if (result != STEP_OK && result != STEP_NOT_FINITE) {
    step_fault(j->train, j->feed, r->under_way, d);
    r->under_way = 0;
    return diag_exit(d);
  }
  r->at.skipped += result == STEP_NOT_FINITE;
  log_shown(r);
  report_log_failure(r);
  r->at.step++;
  return 0;
}

// Runs the steps up to the next one after which there is something to do between steps. Returns an
// exit code.
static int stale_steps(TrainRun *r, Diag *d) {
  const TrainJob *j = r->job;
  const int64_t every[] = {r->log_every, j->eval && j->test ? j->evaluate : 0, j->checkpoint};
  int64_t to = j->steps;
  for (size_t i = 0; i < countof(every); i++) {
    int64_t next = every[i] > 0 ? (r->at.step / every[i] + 1) * every[i] : to;
    if (next < to) to = next;
  }
  int code = stale_run(r->stale, r->at.step, to, &r->at.step, d);
  if (code != 0) return code;
  log_shown(r);
  report_log_failure(r);
  return 0;
}

// Starts as many steps as may be under way, and finishes the first one. Returns an exit code.
static int train_step(TrainRun *r, const void **data, Diag *d) {
  if (r->stale) return stale_steps(r, d);
  while (may_start(r)) start_step(r, data);
  if (r->under_way > 0) return finish_step(r, d);
  feed_fault(r->job->feed, d);
  return diag_exit(d);
}

// -- saving checkpoints -------------------------------------------------------------------------

// Reports a checkpoint that has become complete since the last call. With `wait`, first waits for
// the one that is being written. Returns an exit code.
static int poll_saver(TrainRun *r, bool wait, Diag *d) {
  const char *path;
  if (!r->job->saver) return 0;
  if (!saver_poll(r->job->saver, wait, &path, d)) return diag_exit(d);
  if (path) report(r, (TrainReport){.event = TRAIN_SAVED, .path = path});
  return 0;
}

static int save(TrainRun *r, bool best, Diag *d) {
  const TrainJob *j = r->job;
  TrainPosition n = r->at;
  if (!j->saver || (r->saved == r->at.step && !best)) return 0;
  int code = poll_saver(r, true, d);
  if (code == 0) code = join_replicas(r, SYNC_SHOW, d);
  if (code != 0) return code;
  n.before = j->before;
  n.seed = j->seed;
  feed_position(j->feed, &n.epoch, &n.row);
  r->saved = r->at.step;
  if (j->log) log_sync(j->log);
  report_log_failure(r);
  return saver_start(j->saver, &n, best, d) ? 0 : diag_exit(d);
}

// Ends a run after a request to stop: saves a checkpoint and returns the exit code of the run.
static int interrupt(TrainRun *r, Diag *d) {
  int code = save(r, false, d);
  if (code == 0) code = poll_saver(r, true, d);
  if (code != 0) return code;
  report(r, (TrainReport){.event = TRAIN_INTERRUPTED});
  return EXIT_INTERRUPTED;
}

// -- running the steps --------------------------------------------------------------------------

// Averages replicas, and does the evaluation and the checkpoints that are due after a step. The
// loop also calls this function before its first step: an earlier run may have been stopped before
// its evaluation. Returns an exit code.
static int between_steps(TrainRun *r, Diag *d) {
  int code = sync_due(r, r->at.step) ? join_replicas(r, SYNC_AVERAGE, d) : 0;
  if (code == 0 && evaluation_due(r, r->at.step) && (code = evaluate(r, false, d)) == 0 &&
      r->better)
    code = save(r, true, d);
  if (code == 0 && checkpoint_due(r, r->at.step)) code = save(r, false, d);
  return code == 0 ? poll_saver(r, false, d) : code;
}

static int run_steps(TrainRun *r, const void **data, Diag *d) {
  const TrainJob *j = r->job;
  int code =
      between_steps(r, d); // an earlier run may have been stopped before an evaluation was done
  while (code == 0 && r->at.step < j->steps && !r->stopped) {
    if (r->under_way == 0 && exec_stop_asked(j->train)) return interrupt(r, d);
    if ((code = train_step(r, data, d)) != 0) break;
    report(r, (TrainReport){.event = TRAIN_STEP, .due = line_due(r, r->at.step)});
    code = between_steps(r, d);
  }
  if (code == 0 && r->stopped)
    report(r, (TrainReport){
                  .event = TRAIN_STOPPED_EARLY, .best_step = r->at.best_step, .best = r->at.best});
  r->better = false;
  if (code == 0 && j->eval && j->test) code = evaluate(r, true, d);
  if (code == 0) code = save(r, r->better, d);
  if (code == EXIT_INTERRUPTED) return interrupt(r, d);
  int saved = poll_saver(r, true, d);
  return code == 0 ? saved : code;
}

// Sets the state of the training loop to the position n of an earlier run. If n is NULL, does
// nothing.
static void resume(TrainRun *r, const TrainPosition *n) {
  if (!n) return;
  r->at = *n;
  r->logged_at = n->step;
  r->saved = r->shown = n->step;
  r->stopped = r->job->stop && r->at.worse >= r->job->patience;
}

void train_count_units(TrainJob *job) {
  const FeedInput *input;
  uint32_t n = feed_inputs(job->feed, &input);
  job->batch = feed_batch(job->feed);
  for (uint32_t i = 0; i < n && !job->tokens; i++) {
    SourceKind kind = input[i].source->kind;
    job->tokens = kind == SOURCE_TOKENS || kind == SOURCE_TEXT;
    for (int k = 0; job->tokens && k < input[i].rank; k++)
      if (k != input[i].over) job->batch *= input[i].size[k];
  }
}

int train_run(const TrainJob *job, Diag *d) {
  const FeedInput *input;
  TrainRun r = {.job = job,
                .log_every =
                    job->log_every > 0 ? job->log_every : ceil_div(job->steps, LINES_A_RUN),
                .saved = -1,
                .shown = -1};
  resume(&r, job->resume);
  exec_restrict_feed(job->train, NULL, job->feed);
  if (r.log_every < 1) r.log_every = 1;
  const void **data = mem_zeroed(feed_inputs(job->feed, &input) + 1u, sizeof *data);
  report(&r, (TrainReport){.event = TRAIN_BEGINS});
  r.began = clock_seconds();
  int code = 0;
  if (job->stale && !(r.stale = stale_open(job, d))) code = diag_exit(d);
  if (code == 0) code = run_steps(&r, data, d);
  if (code == 0 || code == EXIT_INTERRUPTED) {
    int shown = join_replicas(&r, SYNC_SHOW, d); // for --save-params
    code = shown ? shown : code;
  }
  if (code == 0 && r.stale && !stale_check(r.stale, d)) code = diag_exit(d);
  stale_close(r.stale);
  if (job->done) *job->done = step_number(&r) - job->before;
  report(&r, (TrainReport){.event = TRAIN_ENDS, .code = code});
  free(data);
  return code;
}
