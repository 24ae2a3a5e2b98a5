// metrics.jsonl: the object of a step stays open until the next step, so that an evaluation after it is in it.
//
//   {"step": 99, "loss": 0.251, "accuracy": 0.91, "seconds": 1.25, "test": {"loss": 0.31, "accuracy": 0.9}}
#include "runtime/log.h"
#include "runtime/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double flush_every = 1.0; // seconds

struct Log {
  FILE *out;
  char *path;
  Events *events;
  int64_t step;
  bool open; // an object has begun
  double flushed;
};

// Offset of the first line of a step from `start` on.
static long lines_before(FILE *f, int64_t start) {
  char line[4096];
  long at = 0;
  bool begins = true;
  while (fgets(line, sizeof line, f)) {
    long long step;
    if (begins && (sscanf(line, "{\"step\": %lld", &step) != 1 || step >= start)) break;
    begins = strchr(line, '\n') != NULL;
    if (begins) at = ftell(f);
  }
  return at;
}

// A run that goes on keeps the lines of the steps that it does not repeat.
static FILE *open_lines(const char *directory, int64_t start) {
  static const char name[] = "metrics.jsonl";
  FILE *f = start > 0 ? file_stream(directory, name, false) : NULL;
  if (!f) return start > 0 && errno != ENOENT ? NULL : file_stream(directory, name, true);
  long at = lines_before(f, start);
  if (ftruncate(fileno(f), at) == 0 && fseek(f, at, SEEK_SET) == 0) return f;
  fclose(f);
  return NULL;
}

Log *log_open(const LogOptions *opt, Diag *d) {
  Log *l = mem_zeroed(1, sizeof *l);
  l->path = path_under(opt->directory, "metrics.jsonl");
  l->out = open_lines(opt->directory, opt->start);
  if (!l->out)
    diag_error(d, disk_full(errno) ? DIAG_NO_DISK : DIAG_FAILURE, (Pos){0}, "cannot write %s/metrics.jsonl: %s",
               opt->directory, strerror(errno));
  if (l->out) l->events = events_open(opt->directory, d);
  if (!l->events) {
    if (l->out) fclose(l->out);
    free(l->path);
    free(l);
    return NULL;
  }
  if (opt->graph) events_graph(l->events, opt->graph, opt->graph_bytes);
  return l;
}

static void put_number(Log *l, double x) {
  if (isfinite(x))
    fprintf(l->out, "%.9g", x);
  else
    fputs("null", l->out);
}

// What cannot be read back by half is written whole.
static void end_object(Log *l) {
  if (!l->open) return;
  fputs("}\n", l->out);
  l->open = false;
  if (clock_seconds() - l->flushed < flush_every) return;
  fflush(l->out);
  events_flush(l->events);
  l->flushed = clock_seconds();
}

void log_step(Log *l, int64_t step, double seconds, uint32_t n, const char *const *name, const double *value) {
  end_object(l);
  l->step = step;
  l->open = true;
  fprintf(l->out, "{\"step\": %lld", (long long)step);
  for (uint32_t i = 0; i < n; i++) {
    fprintf(l->out, ", \"%s\": ", name[i]);
    put_number(l, value[i]);
    events_scalar(l->events, step, name[i], value[i]);
  }
  fprintf(l->out, ", \"seconds\": %.6f", seconds);
}

void log_evaluation(Log *l, const char *data, uint32_t n, const char *const *name, const double *value) {
  char tag[512];
  if (!l->open) return;
  fprintf(l->out, ", \"%s\": {", data);
  for (uint32_t i = 0; i < n; i++) {
    fprintf(l->out, "%s\"%s\": ", i ? ", " : "", name[i]);
    put_number(l, value[i]);
    snprintf(tag, sizeof tag, "%s/%s", data, name[i]);
    events_scalar(l->events, l->step, tag, value[i]);
  }
  fputs("}", l->out);
}

void log_histogram(Log *l, int64_t step, const char *name, Dtype type, int64_t n, const void *values) {
  events_histogram(l->events, step, name, type, n, values);
}

bool log_close(Log *l, Diag *d) {
  if (!l) return true;
  end_object(l);
  bool good = !ferror(l->out);
  if (fclose(l->out) != 0) good = false;
  if (!good) diag_error(d, DIAG_NO_DISK, (Pos){0}, "cannot write %s", l->path);
  good = events_close(l->events, d) && good;
  free(l->path);
  free(l);
  return good;
}
