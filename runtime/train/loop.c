// Training and evaluation: feeds steps, prints what users watch, stops with a reason.
#include "runtime/train/loop.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/exec/trace.h"
#include "runtime/train/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_FROM = 3, TRACE_TO = 8 }; // steps of a run that are traced: when it is warm
enum { LINES_A_RUN = 10, NUMBER = METRIC_NUMBER, LINE = 1024, MAX_SHOWN = 256 };

// -- what is printed ----------------------------------------------------------------------------

typedef struct TrainRun {
  const TrainJob *job;
  int64_t step, log_every; // steps done; steps a line
  double began, last_time;
  int64_t last_step;
  Progress progress;
  double logged;   // time of training when the last step was logged
  int64_t skipped; // steps that changed nothing
  double best;     // of the metric that evaluations are compared by, and the step of it
  int64_t best_step;
  int64_t worse;     // evaluations since
  int64_t evaluated; // step of the last evaluation
  bool better;       // it was the best so far
  bool stopped;
  int64_t saved;     // step of the last checkpoint, -1: none
  const void **data; // of the batch
} TrainRun;

const char *metric_number(double x, char out[METRIC_NUMBER]) {
  double a = fabs(x);
  if (isnan(x)) return "nan"; // whatever its sign
  snprintf(out, METRIC_NUMBER, a != 0 && (a < 1e-3 || a >= 1e6) ? "%.3e" : "%.4f", x);
  return out;
}

static const char *rate_text(double x, char out[NUMBER]) {
  static const char *const unit[] = {"", "k", "M", "G", "T"};
  size_t i = 0;
  while (x >= 1000 && i + 1 < countof(unit)) x /= 1000, i++;
  snprintf(out, NUMBER, x < 10 || i ? "%.1f%s" : "%.0f%s", x, unit[i]);
  return out;
}

static const char *time_text(double seconds, char out[NUMBER]) {
  long long s = seconds < 0 ? 0 : (long long)(seconds + 0.5);
  if (s >= 3600)
    snprintf(out, NUMBER, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(out, NUMBER, "%lld:%02lld", s / 60, s % 60);
  return out;
}

static void append(char *line, size_t *n, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void append(char *line, size_t *n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int more = vsnprintf(line + *n, LINE - *n, fmt, ap);
  va_end(ap);
  *n = more < 0 || *n + (size_t)more >= LINE ? LINE - 1 : *n + (size_t)more;
}

// Steps that were not finite, and updates that a scaled loss left out.
static int64_t all_skipped(const TrainRun *r) {
  return r->skipped + (r->job->skipped ? (int64_t)exec_scalar(r->job->train, r->job->skipped) : 0);
}

// step 200/5000  loss 1.2345  accuracy 0.8710  12.3 ms/step  41.6k rows/s  eta 0:59
static void progress_text(const TrainRun *r, double now, char line[LINE]) {
  const TrainJob *j = r->job;
  char b[NUMBER];
  size_t n = 0;
  append(line, &n, "step %lld/%lld", (long long)r->step, (long long)j->steps);
  for (uint32_t i = 0; i < j->nshown; i++)
    append(line, &n, "  %s %s", j->shown[i], metric_number(exec_scalar(j->train, j->shown[i]), b));
  double each =
      (now - r->last_time) / (double)(r->step > r->last_step ? r->step - r->last_step : 1);
  append(line, &n, each < 1e-3 ? "  %.3f ms/step" : "  %.1f ms/step", 1e3 * each);
  if (each > 0)
    append(line, &n, "  %s %s/s", rate_text((double)j->batch / each, b),
           j->unit ? j->unit : "rows");
  if (all_skipped(r) > 0) append(line, &n, "  skipped %lld", (long long)all_skipped(r));
  double mean = (now - r->began) / (double)(r->step - j->start);
  append(line, &n, "  eta %s", time_text(mean * (double)(j->steps - r->step), b));
}

static void show_step(TrainRun *r) {
  const TrainJob *j = r->job;
  char line[LINE];
  double now = clock_seconds();
  bool due = !j->quiet && (r->step % r->log_every == 0 || r->step == j->steps);
  if (!due && !progress_due(&r->progress)) return;
  progress_text(r, now, line);
  if (!due) {
    progress_draw(&r->progress, line);
    return;
  }
  progress_clear(&r->progress);
  fprintf(j->out, "%s\n", line);
  fflush(j->out);
  r->last_time = now;
  r->last_step = r->step;
}

// test accuracy 0.9667 (29/30)
static void metric_text(const TrainJob *j, const Metric *m, double x, int64_t rows, char *line,
                        size_t *n) {
  char b[NUMBER];
  append(line, n, "%s %s %s", j->test_name, m->name, metric_number(x, b));
  if (m->ratio) append(line, n, " (%lld/%lld)", llround(x * (double)rows), (long long)rows);
}

// Compares an evaluation by the metric that may stop the run, else by the loss, which is the first.
static void watch_metric(TrainRun *r, const double *x) {
  const TrainJob *j = r->job;
  uint32_t i = 0;
  while (j->stop && i < j->nmetrics && strcmp(j->metric[i].name, j->stop) != 0) i++;
  if (i == j->nmetrics) return;
  bool least = !j->stop || j->stop_minimise;
  r->better = r->best_step == 0 || (least ? x[i] < r->best : x[i] > r->best);
  r->worse = r->better ? 0 : r->worse + 1;
  r->stopped = j->stop && r->worse >= j->patience;
  if (!r->better) return;
  r->best = x[i];
  r->best_step = r->step;
}

static void show_stopped(TrainRun *r) {
  const TrainJob *j = r->job;
  char b[NUMBER];
  if (j->quiet) return;
  fprintf(j->out, "stopped early at step %lld: %s was best at step %lld, %s\n", (long long)r->step,
          j->stop, (long long)r->best_step, metric_number(r->best, b));
}

static void log_metrics(const TrainJob *j, const double *x) {
  const char *name[MAX_SHOWN];
  uint32_t n = j->nmetrics < MAX_SHOWN ? j->nmetrics : MAX_SHOWN;
  for (uint32_t i = 0; i < n; i++) name[i] = j->metric[i].name;
  log_evaluation(j->log, j->test_name, n, name, x);
}

// Evaluates; at the end of training every metric has a line of its own.
static int evaluate(TrainRun *r, bool last, Diag *d) {
  const TrainJob *j = r->job;
  double began = clock_seconds();
  double *x = mem_zeroed(j->nmetrics + 1u, sizeof *x);
  int64_t rows;
  bool again =
      r->evaluated == r->step && r->step > 0; // the last one of a run that ended with an evaluation
  int code =
      eval_metrics(j->eval, j->last, j->test, j->nmetrics, j->metric, x, &rows, &r->progress, d);
  progress_clear(&r->progress);
  char line[LINE];
  size_t n = 0;
  if (code == 0 && !last)
    append(line, &n, "step %lld/%lld", (long long)r->step, (long long)j->steps);
  for (uint32_t i = 0; code == 0 && i < j->nmetrics; i++) {
    if (!last) append(line, &n, "  ");
    metric_text(j, &j->metric[i], x[i], rows, line, &n);
    if (last) fprintf(j->out, "%s\n", line);
    if (last) n = 0;
  }
  if (code == 0 && !last && !j->quiet) fprintf(j->out, "%s\n", line);
  r->better = false;
  if (code == 0 && !again) watch_metric(r, x);
  if (code == 0) r->evaluated = r->step;
  if (code == 0 && !again && j->log) log_metrics(j, x);
  fflush(j->out);
  free(x);
  double spent = clock_seconds() - began; // is no training time
  r->last_time += spent;
  r->began += spent;
  return code;
}

// -- training -----------------------------------------------------------------------------------

// Of the run: the program's counter goes by the updates that were made.
static int64_t step_number(const TrainRun *r) { return r->job->before + r->step - r->skipped; }

static int say_not_finite(const TrainRun *r, Diag *d) {
  const TrainJob *j = r->job;
  char b[NUMBER];
  const char *name = NULL;
  for (uint32_t i = j->nshown; i-- > 0;)
    if (!isfinite(exec_scalar(j->train, j->shown[i]))) name = j->shown[i];
  const char *what = name ? name : "a gradient",
             *is = name ? metric_number(exec_scalar(j->train, name), b) : "not finite";
  diag_error(d, DIAG_NOT_FINITE, (Pos){0},
             "%s is %s in step %lld; the update of that step was not made", what, is,
             (long long)r->step);
  if (j->locate) j->locate(j->locating, step_number(r), r->data, d);
  if (j->locate)
    diag_hint(d, "on_nonfinite = skip leaves out such steps; else change the model there, or try a "
                 "lower learning rate");
  else
    diag_hint(d, "--check finite names the operation where it begins, on_nonfinite = skip leaves "
                 "out such steps; else try a lower learning rate");
  return diag_exit(d);
}

// The next batch; an epoch's end is passed over.
static int next_batch(const TrainJob *j, const void **data, Diag *d) {
  int64_t rows = feed_next(j->feed, data);
  if (rows == 0) rows = feed_next(j->feed, data);
  if (rows > 0) return 0;
  feed_fault(j->feed, d);
  return diag_exit(d);
}

// -- what the log gets --------------------------------------------------------------------------

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

// A figure of the run, unless the model has a metric of that name.
static void add_figure(Logged *l, const TrainJob *j, const char *name, double value) {
  if (!is_shown(j, name)) add_logged(l, name, value);
}

static void log_shown(TrainRun *r) {
  const TrainJob *j = r->job;
  Logged l = {0};
  double now = clock_seconds() - r->began;
  if (!j->log) return;
  for (uint32_t i = 0; i < j->nshown; i++)
    add_logged(&l, j->shown[i], exec_scalar(j->train, j->shown[i]));
  for (uint32_t i = 0; i < j->nlogged; i++)
    add_figure(&l, j, j->logged_as[i], exec_scalar(j->train, j->logged[i]));
  bool tokens = j->units && !strcmp(j->units, "tokens");
  add_figure(&l, j, tokens ? "tokens_per_second" : "rows_per_second",
             now > r->logged ? (double)j->batch / (now - r->logged) : 0);
  add_figure(&l, j, "memory", (double)exec_bytes(j->train));
  if (j->skip || j->skipped) add_figure(&l, j, "skipped", (double)all_skipped(r));
  r->logged = now;
  log_step(j->log, r->step, now, l.n, l.name, l.value);
}

// A full disk is told when it is met; the run ends with its exit code when all steps are done.
static void tell_log_fault(TrainRun *r) {
  int error;
  const char *path = r->job->log ? log_fault(r->job->log, &error) : NULL;
  if (!path) return;
  progress_clear(&r->progress);
  fprintf(stderr, "meshc: warning: cannot write %s: %s; training goes on, its log does not\n", path,
          strerror(error));
}

static void log_tensors(const TrainRun *r, const Exec *e, TensorKind kind) {
  const Program *p = e->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->dim[k].whole;
    void *whole = t->kind == kind && t->rank > 0 && dtype_is_float(t->type)
                      ? mem_alloc((size_t)(n * dtype_bytes(t->type)))
                      : NULL;
    if (!whole) continue;
    exec_read(e, kind, t->name, whole);
    log_histogram(r->job->log, r->step, t->name, t->type, n, whole);
    free(whole);
  }
}

static bool histograms_due(const TrainRun *r) {
  return r->job->log && r->job->gradients &&
         ((r->step + 1) % r->log_every == 0 || r->step + 1 == r->job->steps);
}

// Of the parameters that a step begins with and of their gradients, which a program of their own
// computes, so that what is watched changes no bit of what is trained.
static void log_histograms(const TrainRun *r) {
  const TrainJob *j = r->job;
  give_batch(j->gradients, j->feed, r->data);
  if (exec_step(j->gradients, step_number(r), false) != STEP_OK)
    return; // the step itself will say why
  log_tensors(r, j->gradients, TENSOR_OUTPUT);
  log_tensors(r, j->train, TENSOR_PARAM);
}

static int train_step(TrainRun *r, const void **data, Diag *d) {
  const TrainJob *j = r->job;
  int code = next_batch(j, data, d);
  if (code != 0) return code;
  give_batch(j->train, j->feed, data);
  bool histograms = histograms_due(r);
  r->data = data;
  if (histograms) log_histograms(r);
  int64_t done = r->step - j->start;
  if (j->trace) exec_trace(j->train, done >= TRACE_FROM && done < TRACE_TO ? j->trace : NULL);
  StepResult result = exec_step(j->train, step_number(r), true);
  if (result == STEP_NOT_FINITE && !j->skip) return say_not_finite(r, d);
  if (result != STEP_OK && result != STEP_NOT_FINITE) {
    exec_fault(j->train, d);
    return diag_exit(d);
  }
  r->skipped += result == STEP_NOT_FINITE;
  log_shown(r);
  tell_log_fault(r);
  r->step++;
  return 0;
}

// -- checkpoints --------------------------------------------------------------------------------

static void show_saved(TrainRun *r, const char *path) {
  if (!path || r->job->quiet) return;
  progress_clear(&r->progress);
  fprintf(r->job->out, "checkpoint %s\n", path);
  fflush(r->job->out);
}

// Looks, or waits, for the checkpoint under way.
static int poll_saver(TrainRun *r, bool wait, Diag *d) {
  const char *path;
  if (!r->job->saver) return 0;
  if (!saver_poll(r->job->saver, wait, &path, d)) return diag_exit(d);
  show_saved(r, path);
  return 0;
}

static int save(TrainRun *r, bool best, Diag *d) {
  const TrainJob *j = r->job;
  TrainPosition n = {.step = r->step,
                     .before = j->before,
                     .seed = j->seed,
                     .evaluated = r->evaluated,
                     .best_step = r->best_step,
                     .best = r->best,
                     .worse = r->worse,
                     .skipped = r->skipped};
  if (!j->saver || (r->saved == r->step && !best)) return 0;
  int code = poll_saver(r, true, d);
  if (code != 0) return code;
  feed_position(j->feed, &n.epoch, &n.row);
  r->saved = r->step;
  if (j->log) log_sync(j->log);
  tell_log_fault(r);
  return saver_start(j->saver, &n, best, d) ? 0 : diag_exit(d);
}

static int end_by_signal(TrainRun *r, Diag *d) {
  int code = save(r, false, d);
  if (code == 0) code = poll_saver(r, true, d);
  if (code != 0) return code;
  progress_clear(&r->progress);
  if (r->job->ranks && ranks_rank(r->job->ranks) > 0) return EXIT_INTERRUPTED;
  long long step = r->step, done = r->step - r->job->start;
  fprintf(stderr, "meshc: stopped by a signal after step %lld; ", step);
  if (r->job->saver)
    fprintf(stderr, "the same command with --resume goes on\n");
  else if (r->job->keeps)
    fprintf(
        stderr,
        "the parameters are saved, and without --checkpoint-dir the run cannot go on from there\n");
  else
    fprintf(
        stderr,
        "%lld step%s of training %s lost: there is neither --checkpoint-dir nor --save-params\n",
        done, done == 1 ? "" : "s", done == 1 ? "is" : "are");
  return EXIT_INTERRUPTED;
}

// -- the steps ----------------------------------------------------------------------------------

static bool evaluation_due(const TrainRun *r) {
  const TrainJob *j = r->job;
  return j->eval && j->test && j->evaluate > 0 && r->step > 0 && r->step % j->evaluate == 0 &&
         r->step < j->steps && r->evaluated < r->step;
}

// What is to be done between steps, in an order that a run which goes on from a checkpoint repeats.
static int between_steps(TrainRun *r, Diag *d) {
  const TrainJob *j = r->job;
  int code = 0;
  if (evaluation_due(r) && (code = evaluate(r, false, d)) == 0 && r->better)
    code = save(r, true, d);
  if (code == 0 && j->checkpoint > 0 && r->step > j->start && r->step % j->checkpoint == 0)
    code = save(r, false, d);
  return code == 0 ? poll_saver(r, false, d) : code;
}

static int run_steps(TrainRun *r, const void **data, Diag *d) {
  const TrainJob *j = r->job;
  int code = between_steps(r, d); // an evaluation that a signal kept from being done
  while (code == 0 && r->step < j->steps && !r->stopped) {
    if (exec_stop_asked(j->train)) return end_by_signal(r, d);
    if ((code = train_step(r, data, d)) != 0) break;
    show_step(r);
    code = between_steps(r, d);
  }
  if (code == 0 && r->stopped) show_stopped(r);
  r->better = false;
  if (code == 0 && j->eval && j->test) code = evaluate(r, true, d);
  if (code == 0) code = save(r, r->better, d);
  if (code == EXIT_INTERRUPTED) return end_by_signal(r, d);
  int saved = poll_saver(r, true, d);
  return code == 0 ? saved : code;
}

// Where an earlier run stood.
static void go_on(TrainRun *r, const TrainPosition *n) {
  if (!n) return;
  r->step = r->last_step = r->saved = n->step;
  r->best = n->best;
  r->best_step = n->best_step;
  r->worse = n->worse;
  r->evaluated = n->evaluated;
  r->skipped = n->skipped;
  r->stopped = r->job->stop && r->worse >= r->job->patience;
}

// 3 of 100 steps were skipped: their loss or a gradient was not finite
static void show_skipped(const TrainRun *r) {
  const TrainJob *j = r->job;
  long long updates = all_skipped(r) - r->skipped;
  if (r->skipped > 0)
    fprintf(j->out, "%lld of %lld steps were skipped: the loss or a gradient was not finite\n",
            (long long)r->skipped, (long long)r->step);
  if (updates > 0)
    fprintf(j->out, "%lld update%s skipped, because gradients of the scaled loss overflowed\n",
            updates, updates == 1 ? " was" : "s were");
  fflush(j->out);
}

int train_run(const TrainJob *job, Diag *d) {
  const FeedInput *input;
  TrainRun r = {.job = job,
                .log_every =
                    job->log_every > 0 ? job->log_every : ceil_div(job->steps, LINES_A_RUN),
                .saved = -1};
  go_on(&r, job->resume);
  exec_restrict_feed(job->train, job->feed);
  if (r.log_every < 1) r.log_every = 1;
  const void **data = mem_zeroed(feed_inputs(job->feed, &input) + 1u, sizeof *data);
  stop_watch(true);
  if (job->header && !job->quiet) fprintf(job->out, "%s\n", job->header);
  fflush(job->out);
  double start = clock_seconds();
  r.began = r.last_time = start;
  progress_start(&r.progress, job->terminal && !job->quiet, 0);
  int code = run_steps(&r, data, d);
  // A rank that ends because another one was asked may be asked only now: the signal must still
  // find its handler.
  if (!exec_stop_asked(job->train) || stop_signal()) stop_watch(false);
  progress_clear(&r.progress);
  if (job->done) *job->done = step_number(&r) - job->before;
  char b[NUMBER];
  if (!job->quiet) show_skipped(&r);
  if (code == 0 && !job->quiet)
    fprintf(job->out, "%lld steps in %s, %.1f s of it waiting for data\n",
            (long long)(r.step - job->start), time_text(clock_seconds() - start, b),
            feed_wait_seconds(job->feed));
  free(data);
  return code;
}
