// Training and evaluation: feeds steps, prints what users watch, stops with a reason.
#include "runtime/internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_A_RUN = 10, NUMBER = 32, LINE = 1024 };

// -- evaluation
// -------------------------------------------------------------------------------------------

// log(exp(a) + exp(b))
static double log_add(double a, double b) {
  double most = a > b || isnan(a) ? a : b, least = a > b || isnan(a) ? b : a;
  return isinf(most) ? most : most + log1p(exp(least - most));
}

static double combine_part(int how, double sum, double x, int64_t rows) {
  switch (how) {
  case PART_SUM: return sum + x;
  case PART_MAX: return isnan(x) || x > sum ? x : sum;
  case PART_MIN: return isnan(x) || x < sum ? x : sum;
  case PART_PROD: return sum * x;
  case PART_ROW_MEAN: return sum + x * (double)rows;
  case PART_LOGSUMEXP: return log_add(sum, x);
  }
  BUG("no way %d to combine a part", how);
}

static double empty_part(int how) {
  static const double empty[] = {[PART_SUM] = 0,
                                 [PART_MAX] = -(double)INFINITY,
                                 [PART_MIN] = (double)INFINITY,
                                 [PART_PROD] = 1,
                                 [PART_ROW_MEAN] = 0,
                                 [PART_LOGSUMEXP] = -(double)INFINITY};
  return empty[how];
}

static void give_batch(Exec *e, Feed *f, const void **data) {
  const FeedInput *input;
  uint32_t n = feed_inputs(f, &input);
  for (uint32_t i = 0; i < n; i++)
    exec_write(e, TENSOR_INPUT, input[i].name, input[i].type, data[i]);
}

static int say_fault(const Exec *e, StepResult r, Diag *d) {
  if (r == STEP_NOT_FINITE)
    diag_error(d, DIAG_NOT_FINITE, (Pos){0}, "the watched value is not finite");
  else
    exec_fault(e, d);
  return diag_exit(d);
}

static int64_t part_elements(const MetricPart *p) { return p->elements > 0 ? p->elements : 1; }

// The parts of all metrics, one after another; rows of a batch, or of all.
typedef struct Parts {
  uint32_t n;
  const Metric *metric;
  int64_t elements, largest;
  double *sum;
  void *read; // one part as the program gives it
} Parts;

static bool parts_open(Parts *p, uint32_t n, const Metric *metric) {
  *p = (Parts){.n = n, .metric = metric};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < metric[i].nparts; k++) {
      int64_t elements = part_elements(&metric[i].part[k]);
      p->elements += elements;
      if (elements > p->largest) p->largest = elements;
    }
  p->sum = calloc((size_t)p->elements + 1u, sizeof *p->sum);
  p->read = calloc((size_t)p->largest + 1u, sizeof(double)); // the widest type
  double *to = p->sum;
  for (uint32_t i = 0; p->sum && i < n; i++)
    for (uint32_t k = 0; k < metric[i].nparts; k++)
      for (int64_t e = 0; e < part_elements(&metric[i].part[k]); e++)
        *to++ = empty_part(metric[i].part[k].how);
  return p->sum && p->read;
}

static void parts_close(Parts *p) {
  free(p->sum);
  free(p->read);
}

static void part_add(const Exec *e, const MetricPart *part, void *read, int64_t rows, double *sum) {
  if (part->elements <= 0) {
    *sum = combine_part(part->how, *sum, exec_scalar(e, part->output), rows);
    return;
  }
  exec_read(e, TENSOR_OUTPUT, part->output, read);
  for (int64_t i = 0; i < part->elements; i++) {
    double x = dtype_load(part->type, (const char *)read + i * dtype_bytes(part->type));
    sum[i] = combine_part(part->how, sum[i], x, rows);
  }
}

static void parts_add(Parts *p, const Exec *e, int64_t rows) {
  double *sum = p->sum;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t k = 0; k < p->metric[i].nparts; k++) {
      part_add(e, &p->metric[i].part[k], p->read, rows, sum);
      sum += part_elements(&p->metric[i].part[k]);
    }
}

static void parts_finish(Parts *p, int64_t rows, double *out) {
  double *sum = p->sum;
  for (uint32_t i = 0; i < p->n; i++) {
    const double *first = sum;
    for (uint32_t k = 0; k < p->metric[i].nparts; k++)
      for (int64_t e = part_elements(&p->metric[i].part[k]); e > 0; e--, sum++)
        if (p->metric[i].part[k].how == PART_ROW_MEAN) *sum /= (double)rows;
    out[i] = p->metric[i].finish(p->metric[i].context, first, rows);
  }
}

// Runs all batches of an epoch.
static int eval_batches(Exec *e, Feed *f, Parts *parts, const void **data, int64_t *rows, Diag *d) {
  int64_t got;
  *rows = 0;
  while ((got = feed_next(f, data)) > 0) {
    exec_rows(e, got < feed_batch(f) ? got : -1);
    give_batch(e, f, data);
    StepResult r = exec_step(e, 0, false);
    if (r != STEP_OK) return say_fault(e, r, d);
    parts_add(parts, e, got);
    *rows += got;
  }
  if (got < 0) {
    feed_fault(f, d);
    return diag_exit(d);
  }
  return 0;
}

int eval_metrics(Exec *e, Feed *f, uint32_t n, const Metric *metric, double *out, int64_t *rows,
                 Diag *d) {
  const FeedInput *input;
  Parts parts;
  const void **data = calloc(feed_inputs(f, &input) + 1u, sizeof *data);
  if (!parts_open(&parts, n, metric) || !data) BUG("no memory to evaluate");
  int code = eval_batches(e, f, &parts, data, rows, d);
  exec_rows(e, -1);
  if (code == 0) parts_finish(&parts, *rows, out);
  free(data);
  parts_close(&parts);
  return code;
}

// -- what is printed
// ----------------------------------------------------------------------------------------

typedef struct Run {
  const TrainJob *job;
  int64_t step, log; // steps done; steps a line
  double began, last_time;
  int64_t last_step;
  double drawn;   // time of the last progress line
  bool line_open; // a progress line stands on the terminal
  FILE *curve;
  double best;       // of the metric that may stop the run, and the step of it
  int64_t best_step;
  int64_t worse;     // evaluations since
  bool stopped;
} Run;

// "0.8714", "1.235e-05": four digits, for reading.
static const char *number_text(double x, char out[NUMBER]) {
  double a = fabs(x);
  snprintf(out, NUMBER, a != 0 && (a < 1e-3 || a >= 1e6) ? "%.3e" : "%.4f", x);
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

// step 200/5000  loss 1.2345  accuracy 0.8710  12.3 ms/step  41.6k rows/s  eta 0:59
static void progress_text(const Run *r, double now, char line[LINE]) {
  const TrainJob *j = r->job;
  char b[NUMBER];
  size_t n = 0;
  append(line, &n, "step %lld/%lld", (long long)r->step, (long long)j->steps);
  for (uint32_t i = 0; i < j->nshown; i++)
    append(line, &n, "  %s %s", j->shown[i], number_text(exec_scalar(j->train, j->shown[i]), b));
  double each =
      (now - r->last_time) / (double)(r->step > r->last_step ? r->step - r->last_step : 1);
  append(line, &n, each < 1e-3 ? "  %.3f ms/step" : "  %.1f ms/step", 1e3 * each);
  if (each > 0) append(line, &n, "  %s rows/s", rate_text((double)j->batch / each, b));
  double mean = (now - r->began) / (double)r->step;
  append(line, &n, "  eta %s", time_text(mean * (double)(j->steps - r->step), b));
}

static void clear_progress(Run *r) {
  if (r->line_open) fputs("\r\033[K", stderr);
  r->line_open = false;
}

static void show_step(Run *r) {
  const TrainJob *j = r->job;
  char line[LINE];
  double now = clock_seconds();
  bool due = !j->quiet && (r->step % r->log == 0 || r->step == j->steps);
  bool redraw = j->terminal && !j->quiet && now - r->drawn >= 0.1;
  if (!due && !redraw) return;
  progress_text(r, now, line);
  clear_progress(r);
  if (due) {
    fprintf(j->out, "%s\n", line);
    fflush(j->out);
    r->last_time = now;
    r->last_step = r->step;
  } else {
    fputs(line, stderr);
    r->line_open = true;
  }
  r->drawn = now;
}

// test accuracy 0.9667 (29/30)
static void metric_text(const TrainJob *j, const Metric *m, double x, int64_t rows, char *line,
                        size_t *n) {
  char b[NUMBER];
  append(line, n, "%s %s %s", j->test_name, m->name, number_text(x, b));
  if (m->ratio) append(line, n, " (%lld/%lld)", llround(x * (double)rows), (long long)rows);
}

// Keeps the best value of the metric that may stop the run.
static void watch_metric(Run *r, const double *x) {
  const TrainJob *j = r->job;
  uint32_t i = 0;
  while (i < j->nmetrics && strcmp(j->metric[i].name, j->stop) != 0) i++;
  if (i == j->nmetrics) return;
  bool better = r->best_step == 0 || (j->stop_least ? x[i] < r->best : x[i] > r->best);
  r->worse = better ? 0 : r->worse + 1;
  r->stopped = r->worse >= j->patience;
  if (!better) return;
  r->best = x[i];
  r->best_step = r->step;
}

static void show_stopped(Run *r) {
  const TrainJob *j = r->job;
  char b[NUMBER];
  if (j->quiet) return;
  fprintf(j->out, "stopped early at step %lld: %s was best at step %lld, %s\n", (long long)r->step,
          j->stop, (long long)r->best_step, number_text(r->best, b));
}

// Evaluates; at the end of training every metric has a line of its own.
static int evaluate(Run *r, bool last, Diag *d) {
  const TrainJob *j = r->job;
  double began = clock_seconds();
  double *x = calloc(j->nmetrics + 1u, sizeof *x);
  int64_t rows;
  if (!x) BUG("no memory to evaluate");
  int code = eval_metrics(j->eval, j->test, j->nmetrics, j->metric, x, &rows, d);
  clear_progress(r);
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
  if (code == 0 && !last && j->stop) watch_metric(r, x);
  fflush(j->out);
  free(x);
  double spent = clock_seconds() - began; // is no training time
  r->last_time += spent;
  r->began += spent;
  return code;
}

// -- training
// -----------------------------------------------------------------------------------------------

static int say_not_finite(const Run *r, Diag *d) {
  const TrainJob *j = r->job;
  const char *name = j->nshown ? j->shown[0] : "loss";
  for (uint32_t i = j->nshown; i-- > 0;)
    if (!isfinite(exec_scalar(j->train, j->shown[i]))) name = j->shown[i];
  diag_error(d, DIAG_NOT_FINITE, (Pos){0},
             "%s is %g in step %lld; the update of that step was not made", name,
             j->nshown ? exec_scalar(j->train, name) : (double)NAN, (long long)r->step);
  diag_hint(d, "try a lower learning rate, or look for log or / of zero");
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

// {"step": 0, "loss": 1.25, "accuracy": 0.5}
static void put_curve(const Run *r) {
  const TrainJob *j = r->job;
  if (!r->curve) return;
  fprintf(r->curve, "{\"step\": %lld", (long long)r->step);
  for (uint32_t i = 0; i < j->nshown; i++) {
    double value = exec_scalar(j->train, j->shown[i]);
    if (isfinite(value))
      fprintf(r->curve, ", \"%s\": %.9g", j->shown[i], value);
    else
      fprintf(r->curve, ", \"%s\": null", j->shown[i]);
  }
  fprintf(r->curve, "}\n");
}

static int train_step(Run *r, const void **data, Diag *d) {
  const TrainJob *j = r->job;
  int code = next_batch(j, data, d);
  if (code != 0) return code;
  give_batch(j->train, j->feed, data);
  StepResult result = exec_step(j->train, r->step, true);
  if (result == STEP_NOT_FINITE) return say_not_finite(r, d);
  if (result != STEP_OK) {
    exec_fault(j->train, d);
    return diag_exit(d);
  }
  put_curve(r);
  r->step++;
  return 0;
}

static int run_steps(Run *r, const void **data, Diag *d) {
  const TrainJob *j = r->job;
  bool evaluates = j->eval && j->test;
  while (r->step < j->steps && !r->stopped) {
    int code = train_step(r, data, d);
    if (code != 0) return code;
    show_step(r);
    if (evaluates && j->evaluate > 0 && r->step % j->evaluate == 0 && r->step < j->steps)
      if ((code = evaluate(r, false, d)) != 0) return code;
  }
  if (r->stopped) show_stopped(r);
  return evaluates ? evaluate(r, true, d) : 0;
}

static bool close_curve(Run *r, Diag *d) {
  bool bad = ferror(r->curve);
  bool ok = fclose(r->curve) == 0 && !bad;
  if (!ok) diag_error(d, DIAG_NO_DISK, (Pos){0}, "cannot write %s", r->job->curve);
  return ok;
}

int train_run(const TrainJob *job, Diag *d) {
  const FeedInput *input;
  Run r = {.job = job, .log = job->log > 0 ? job->log : ceil_div(job->steps, LINES_A_RUN)};
  if (r.log < 1) r.log = 1;
  const void **data = calloc(feed_inputs(job->feed, &input) + 1u, sizeof *data);
  if (!data) BUG("no memory to train");
  if (job->curve && !(r.curve = fopen(job->curve, "we"))) {
    diag_error(d, DIAG_FAILURE, (Pos){0}, "cannot write %s", job->curve);
    free(data);
    return diag_exit(d);
  }
  if (job->header && !job->quiet) fprintf(job->out, "%s\n", job->header);
  double start = clock_seconds();
  r.began = r.last_time = r.drawn = start;
  int code = run_steps(&r, data, d);
  clear_progress(&r);
  if (job->done) *job->done = r.step;
  char b[NUMBER];
  if (code == 0 && !job->quiet)
    fprintf(job->out, "%lld steps in %s, %.1f s of it waiting for data\n", (long long)r.step,
            time_text(clock_seconds() - start, b), feed_wait_seconds(job->feed));
  if (r.curve && !close_curve(&r, d) && code == 0) code = diag_exit(d);
  free(data);
  return code;
}
