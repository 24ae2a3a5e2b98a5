// Writes metrics.jsonl. The object of a step stays open until the next step, so that it can take an
// evaluation after that step:
//
//   {"step": 99, "loss": 0.251, "accuracy": 0.91, "seconds": 1.25,
//    "test": {"loss": 0.31, "accuracy": 0.9}}
#include "runtime/train/log.h"
#include "runtime/runtime_internal.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double flush_every = 1.0; // seconds between two flushes of the file
static const char end_text[] = "}\n";
enum { END_BYTES = sizeof end_text - 1 };

struct Log {
  FILE *out;
  char *path;
  Events *events;
  int64_t step;
  bool open; // an object has begun and has not ended
  double flushed;
  int error; // errno of the first write that failed, or 0: nothing is written from then on
  bool told;
};

// Returns the offset in file f of the first line of step `start` or a later step. Without such a
// line, returns the length of the file.
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

// Opens the log, a file with one JSON object for each step. A resumed run keeps the lines of the
// steps before `start`. It reopens the last object, because an evaluation after that step may
// follow.
static FILE *open_lines(const char *directory, int64_t start, bool *open) {
  static const char name[] = "metrics.jsonl";
  FILE *f = start > 0 ? file_stream(directory, name, false) : NULL;
  *open = false;
  if (!f) return start > 0 && errno != ENOENT ? NULL : file_stream(directory, name, true);
  long at = lines_before(f, start);
  if (ftruncate(fileno(f), at) == 0 && fseek(f, at, SEEK_SET) == 0) {
    *open = at >= END_BYTES && fseek(f, -END_BYTES, SEEK_CUR) == 0;
    return f;
  }
  fclose(f);
  return NULL;
}

Log *log_open(const LogOptions *opt, Diag *d) {
  Log *l = mem_zeroed(1, sizeof *l);
  l->path = path_under(opt->directory, "metrics.jsonl");
  l->out = open_lines(opt->directory, opt->start, &l->open);
  if (l->open) l->step = opt->start - 1;
  if (!l->out) file_unwritten(l->path, errno, d);
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

// Writes formatted text, or nothing after a write has failed. l->error keeps the errno of the first
// failure.
static void put(Log *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(Log *l, const char *fmt, ...) {
  va_list ap;
  if (l->error) return;
  va_start(ap, fmt);
  if (vfprintf(l->out, fmt, ap) < 0) l->error = errno;
  va_end(ap);
}

static void put_number(Log *l, double x) {
  if (isfinite(x))
    put(l, "%.9g", x);
  else
    put(l, "null");
}

static void flush_all(Log *l, bool sync) {
  if (fflush(l->out) != 0 || (sync && fdatasync(fileno(l->out)) != 0)) l->error = errno;
  events_flush(l->events, sync);
  l->flushed = clock_seconds();
}

// Ends the JSON object of a step. The file is flushed between objects, because half an object
// cannot be read back.
static void end_object(Log *l) {
  if (!l->open) return;
  put(l, "%s", end_text);
  l->open = false;
  if (!l->error && clock_seconds() - l->flushed >= flush_every) flush_all(l, false);
}

// If the JSON object of a step is open, its end is written too, so that the file can be read. The
// next text overwrites that end.
void log_sync(Log *l) {
  bool open = l->open;
  if (l->error) return;
  end_object(l);
  if (!l->error) flush_all(l, true);
  l->open = open && !l->error && fseek(l->out, -END_BYTES, SEEK_CUR) == 0;
}

const char *log_fault(Log *l, int *error) {
  *error = l->error ? l->error : events_error(l->events);
  if (!*error || l->told) return NULL;
  l->told = true;
  return l->error ? l->path : events_path(l->events);
}

void log_step(Log *l, int64_t step, double seconds, uint32_t n, const char *const *name,
              const double *value) {
  end_object(l);
  if (l->error) return;
  l->step = step;
  l->open = true;
  put(l, "{\"step\": %lld", (long long)step);
  for (uint32_t i = 0; i < n; i++) {
    put(l, ", \"%s\": ", name[i]);
    put_number(l, value[i]);
    events_scalar(l->events, step, name[i], value[i]);
  }
  put(l, ", \"seconds\": %.6f", seconds);
}

void log_evaluation(Log *l, const char *data, uint32_t n, const char *const *name,
                    const double *value) {
  char tag[512];
  if (!l->open || l->error) return;
  put(l, ", \"%s\": {", data);
  for (uint32_t i = 0; i < n; i++) {
    put(l, "%s\"%s\": ", i ? ", " : "", name[i]);
    put_number(l, value[i]);
    snprintf(tag, sizeof tag, "%s/%s", data, name[i]);
    events_scalar(l->events, l->step, tag, value[i]);
  }
  put(l, "}");
}

void log_histogram(Log *l, int64_t step, const char *name, Dtype type, int64_t n,
                   const void *values) {
  if (!l->error) events_histogram(l->events, step, name, type, n, values);
}

bool log_close(Log *l, Diag *d) {
  if (!l) return true;
  if (!l->error) end_object(l);
  int error = l->error;
  if (fclose(l->out) != 0 && !error) error = errno;
  if (error) file_unwritten(l->path, error, d);
  bool good = events_close(l->events, d) && !error;
  free(l->path);
  free(l);
  return good;
}
