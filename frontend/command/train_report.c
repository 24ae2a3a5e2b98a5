// Prints the lines of a training: header, steps, evaluations, checkpoints, and its end. On a
// terminal a line of progress is redrawn between them. See train_report.h.
#include "frontend/command/train_report.h"
#include "frontend/driver/signals.h"
#include "ir/base/units.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { NUMBER = METRIC_NUMBER, LINE = 1024 };

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

// Writes the line of a step:
//   step 200/5000  loss 1.2345  accuracy 0.8710  12.3 ms/step  41.6k rows/s  eta 0:59
static void step_text(const TrainReporter *p, const TrainReport *r, char line[LINE]) {
  const TrainJob *j = p->job;
  char b[NUMBER];
  size_t n = 0;
  append(line, &n, "step %lld/%lld", (long long)r->step, (long long)j->steps);
  for (uint32_t i = 0; i < j->nshown; i++)
    append(line, &n, "  %s %s", j->shown[i], metric_number(train_shown(j, i), b));
  double each = (r->seconds - p->last_seconds) /
                (double)(r->step > p->last_step ? r->step - p->last_step : 1);
  Arena *a = arena_new();
  append(line, &n, "  %s/step", seconds_text(a, each));
  arena_free(a);
  if (each > 0)
    append(line, &n, "  %s %s/s", rate_text((double)j->batch / each, b),
           j->tokens ? "tok" : "rows");
  int64_t skipped = r->skipped + train_skipped_updates(j);
  if (skipped > 0) append(line, &n, "  skipped %lld", (long long)skipped);
  double mean = r->seconds / (double)(r->step - j->start);
  append(line, &n, "  eta %s", time_text(mean * (double)(j->steps - r->step), b));
}

static void print_step(TrainReporter *p, const TrainReport *r) {
  char line[LINE];
  bool due = !p->quiet && r->due;
  if (!due && !progress_due(&p->progress)) return;
  step_text(p, r, line);
  if (!due) {
    progress_draw(&p->progress, line);
    return;
  }
  progress_clear(&p->progress);
  fprintf(p->out, "%s\n", line);
  fflush(p->out);
  p->last_seconds = r->seconds;
  p->last_step = r->step;
}

// Appends a metric of an evaluation to the line: test accuracy 0.9667 (29/30)
static void metric_text(const TrainJob *j, const Metric *m, double x, int64_t rows, char *line,
                        size_t *n) {
  char b[NUMBER];
  append(line, n, "%s %s %s", j->test_name, m->name, metric_number(x, b));
  if (m->ratio) append(line, n, " (%lld/%lld)", llround(x * (double)rows), (long long)rows);
}

// Prints the metrics of an evaluation in one line; after the last step each metric in its own line.
static void print_evaluation(const TrainReporter *p, const TrainReport *r) {
  const TrainJob *j = p->job;
  char line[LINE];
  size_t n = 0;
  if (!r->metric || (p->quiet && !r->final)) return;
  if (!r->final) append(line, &n, "step %lld/%lld", (long long)r->step, (long long)j->steps);
  for (uint32_t i = 0; i < j->nmetrics; i++) {
    if (!r->final) append(line, &n, "  ");
    metric_text(j, &j->metric[i], r->metric[i], r->rows, line, &n);
    if (r->final) fprintf(p->out, "%s\n", line), n = 0;
  }
  if (!r->final) fprintf(p->out, "%s\n", line);
}

static void print_interrupted(const TrainReporter *p, const TrainReport *r) {
  long long step = r->step, done = r->step - p->job->start;
  if (!p->first) return;
  fprintf(stderr, "meshc: stopped by a signal after step %lld; ", step);
  if (p->job->saver)
    fprintf(stderr, "the same command with --resume goes on\n");
  else if (p->saves_params && p->package)
    fprintf(stderr, "the parameters are saved, and --params FILE goes on from them\n");
  else if (p->saves_params)
    fprintf(
        stderr,
        "the parameters are saved, and without --checkpoint-dir the run cannot go on from there\n");
  else
    fprintf(stderr, "%lld step%s of training %s lost: there is %s\n", done, plural(done),
            done == 1 ? "is" : "are",
            p->package ? "no --save-params" : "neither --checkpoint-dir nor --save-params");
}

static void begin(TrainReporter *p) {
  signals_note(true);
  if (!p->quiet) fprintf(p->out, "%s\n", p->header);
  if (!p->quiet && p->job->resume_path) fprintf(p->out, "goes on from %s\n", p->job->resume_path);
  p->began = clock_seconds();
  p->last_step = p->job->start;
  progress_start(&p->progress, p->first && !p->quiet, 0);
}

static void end(TrainReporter *p, const TrainReport *r) {
  const TrainJob *j = p->job;
  char b[NUMBER];
  // Keep the handlers if a signal ended the training: it may arrive again, or, if another rank got
  // it, for the first time.
  if (!exec_stop_asked(j->train)) signals_note(false);
  if (p->quiet) return;
  long long updates = train_skipped_updates(j);
  if (r->skipped > 0)
    fprintf(p->out, "%lld of %lld step%s %s skipped: the loss or a gradient was not finite\n",
            (long long)r->skipped, (long long)r->step, plural(r->step),
            r->skipped == 1 ? "was" : "were");
  if (updates > 0)
    fprintf(p->out, "%lld update%s skipped, because gradients of the scaled loss overflowed\n",
            updates, updates == 1 ? " was" : "s were");
  if (r->code == 0)
    fprintf(p->out, "%lld step%s in %s, %.1f s of it waiting for data (%.1f %% of the steps)\n",
            (long long)(r->step - j->start), plural(r->step - j->start),
            time_text(clock_seconds() - p->began, b), feed_wait_seconds(j->feed),
            r->seconds > 0 ? 100 * feed_wait_seconds(j->feed) / r->seconds : 0.0);
}

void train_report(void *reporter, const TrainReport *r) {
  TrainReporter *p = reporter;
  char b[NUMBER];
  if (r->event != TRAIN_STEP && r->event != TRAIN_EVALUATING) progress_clear(&p->progress);
  switch (r->event) {
  case TRAIN_BEGINS: begin(p); break;
  case TRAIN_STEP: print_step(p, r); return;
  case TRAIN_EVALUATING:
    progress_show(&p->progress, "%lld of %lld row%s", (long long)r->rows, (long long)r->all_rows,
                  plural(r->all_rows));
    return;
  case TRAIN_EVALUATED: print_evaluation(p, r); break;
  case TRAIN_SAVED:
    if (!p->quiet) fprintf(p->out, "checkpoint %s\n", r->path);
    break;
  case TRAIN_LOG_FAILED:
    fprintf(stderr, "meshc: warning: cannot write %s: %s; training goes on, its log does not\n",
            r->path, strerror(r->error));
    break;
  case TRAIN_STOPPED_EARLY:
    if (!p->quiet)
      fprintf(p->out, "stopped early at step %lld: %s was best at step %lld, %s\n",
              (long long)r->step, p->job->stop, (long long)r->best_step, metric_number(r->best, b));
    break;
  case TRAIN_INTERRUPTED: print_interrupted(p, r); break;
  case TRAIN_ENDS: end(p, r); break;
  }
  fflush(p->out);
}
