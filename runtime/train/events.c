// Writes TensorBoard's event file. A record consists of a length, the masked checksum of the
// length, an Event message and its masked checksum. Field numbers of messages are those of
// TensorFlow's summary.proto, event.proto and histogram.proto.
#include "runtime/runtime_internal.h"
#include "runtime/train/log.h"
#include "runtime/train/proto.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_GRAPH, EVENT_SUMMARY };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_HISTOGRAM = 5 };
enum {
  HISTOGRAM_MIN = 1,
  HISTOGRAM_MAX,
  HISTOGRAM_NUM,
  HISTOGRAM_SUM,
  HISTOGRAM_SQUARES,
  HISTOGRAM_LIMIT,
  HISTOGRAM_COUNT
};
enum { BUCKETS = 30 };

struct Events {
  FILE *out;
  char *path;
  int error; // errno of the first write that failed; 0: none has failed
};

static double wall_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t masked(const void *bytes, size_t n) {
  uint32_t x = crc32c(0, bytes, n);
  return (x >> 15 | x << 17) + UINT32_C(0xa282ead8);
}

static void put_little(unsigned char *out, uint64_t x, int n) {
  for (int i = 0; i < n; i++) out[i] = (unsigned char)(x >> (8 * i));
}

static void put_record(Events *e, Proto *event) {
  unsigned char head[12], tail[4];
  put_little(head, event->n, 8);
  put_little(head + 8, masked(head, 8), 4);
  put_little(tail, masked(event->at, event->n), 4);
  errno = 0;
  bool good = e->error || (fwrite(head, 1, sizeof head, e->out) == sizeof head &&
                           fwrite(event->at, 1, event->n, e->out) == event->n &&
                           fwrite(tail, 1, sizeof tail, e->out) == sizeof tail);
  if (!good) e->error = errno ? errno : EIO;
  proto_free(event);
}

static Proto new_event(int64_t step) {
  Proto event = {0};
  proto_double(&event, EVENT_TIME, wall_time());
  if (step >= 0) proto_integer(&event, EVENT_STEP, (uint64_t)step);
  return event;
}

// Opens a new event file, with a name that TensorBoard accepts:
// events.out.tfevents.SECONDS.HOST.PROCESS.
Events *events_open(const char *directory, Diag *d) {
  char host[128] = "localhost", name[256];
  Events *e = mem_zeroed(1, sizeof *e);
  gethostname(host, sizeof host - 1);
  snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld", (long long)wall_time(), host,
           (long)getpid());
  e->path = path_under(directory, name);
  e->out = file_stream(directory, name, true);
  if (!e->out) {
    file_unwritten(e->path, errno, d);
    free(e->path);
    free(e);
    return NULL;
  }
  Proto first = new_event(-1);
  proto_text(&first, EVENT_VERSION, "brain.Event:2");
  put_record(e, &first);
  return e;
}

void events_graph(Events *e, const void *graph, size_t n) {
  Proto event = new_event(-1);
  proto_bytes(&event, EVENT_GRAPH, graph, n);
  put_record(e, &event);
}

static void put_value(Events *e, int64_t step, Proto *value) {
  Proto event = new_event(step), summary = {0};
  proto_message(&summary, SUMMARY_VALUE, value);
  proto_message(&event, EVENT_SUMMARY, &summary);
  proto_free(&summary);
  proto_free(value);
  put_record(e, &event);
}

void events_scalar(Events *e, int64_t step, const char *tag, double x) {
  Proto value = {0};
  proto_text(&value, VALUE_TAG, tag);
  proto_float(&value, VALUE_SIMPLE, (float)x);
  put_value(e, step, &value);
}

// -- histograms: BUCKETS of equal width between the smallest and the largest finite value --------

typedef struct Histogram {
  double min, max, sum, squares, count[BUCKETS];
  int64_t n;
} Histogram;

static double value_at(Dtype type, const void *values, int64_t i) {
  return dtype_load(type, (const char *)values + i * dtype_bytes(type));
}

static Histogram count_values(Dtype type, int64_t n, const void *values) {
  Histogram h = {.min = (double)INFINITY, .max = -(double)INFINITY};
  for (int64_t i = 0; i < n; i++) {
    double x = value_at(type, values, i);
    if (!isfinite(x)) continue;
    h.min = fmin(h.min, x);
    h.max = fmax(h.max, x);
    h.sum += x;
    h.squares += x * x;
    h.n++;
  }
  double width = (h.max - h.min) / BUCKETS;
  for (int64_t i = 0; i < n && h.n; i++) {
    double x = value_at(type, values, i);
    if (isfinite(x))
      h.count[width > 0 ? (int)clamp64((int64_t)((x - h.min) / width), 0, BUCKETS - 1) : 0]++;
  }
  return h;
}

static double limit_of(const Histogram *h, int i) {
  return i == BUCKETS - 1 ? h->max : h->min + (h->max - h->min) / BUCKETS * (i + 1);
}

static void put_packed(Proto *p, int field, const double *x) {
  unsigned char bytes[8 * BUCKETS];
  for (int i = 0; i < BUCKETS; i++) {
    uint64_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    put_little(bytes + 8 * i, bits, 8);
  }
  proto_bytes(p, field, bytes, sizeof bytes);
}

void events_histogram(Events *e, int64_t step, const char *tag, Dtype type, int64_t n,
                      const void *values) {
  Histogram h = count_values(type, n, values);
  Proto value = {0}, inner = {0};
  double limit[BUCKETS];
  if (h.n == 0) return;
  for (int i = 0; i < BUCKETS; i++) limit[i] = limit_of(&h, i);
  proto_double(&inner, HISTOGRAM_MIN, h.min);
  proto_double(&inner, HISTOGRAM_MAX, h.max);
  proto_double(&inner, HISTOGRAM_NUM, (double)h.n);
  proto_double(&inner, HISTOGRAM_SUM, h.sum);
  proto_double(&inner, HISTOGRAM_SQUARES, h.squares);
  put_packed(&inner, HISTOGRAM_LIMIT, limit);
  put_packed(&inner, HISTOGRAM_COUNT, h.count);
  proto_text(&value, VALUE_TAG, tag);
  proto_message(&value, VALUE_HISTOGRAM, &inner);
  proto_free(&inner);
  put_value(e, step, &value);
}

void events_flush(Events *e, bool sync) {
  if (e->error) return;
  if (fflush(e->out) != 0 || (sync && fdatasync(fileno(e->out)) != 0)) e->error = errno;
}

int events_error(const Events *e) { return e->error; }
const char *events_path(const Events *e) { return e->path; }

bool events_close(Events *e, Diag *d) {
  if (!e) return true;
  int error = e->error;
  if (fclose(e->out) != 0 && !error) error = errno;
  if (error) file_unwritten(e->path, error, d);
  free(e->path);
  free(e);
  return error == 0;
}
