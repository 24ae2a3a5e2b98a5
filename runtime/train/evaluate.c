// Evaluation: runs a program on every batch of a data set, combines the reductions that it outputs
// over all batches, in double, and computes the metrics from them (Metric in runtime.h).
#include "runtime/exec/exec_internal.h"
#include "runtime/train/loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Returns log(exp(a) + exp(b)) without overflow.
static double log_add(double a, double b) {
  double larger = a > b || isnan(a) ? a : b, smaller = a > b || isnan(a) ? b : a;
  return isinf(larger) ? larger : larger + log1p(exp(smaller - larger));
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

void give_batch(Exec *e, Feed *f, const void **data) {
  const FeedInput *input;
  uint32_t n = feed_inputs(f, &input);
  for (uint32_t i = 0; i < n; i++)
    exec_write(e, TENSOR_INPUT, input[i].name, input[i].type, data[i]);
}

// Returns the index of the input of this name, or `n`.
static uint32_t input_of(const FeedInput *input, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n && name; i++)
    if (!strcmp(input[i].name, name)) return i;
  return n;
}

void step_fault(const Exec *e, const Feed *f, int64_t since, Diag *d) {
  replica_fault(e, f, since, 0, 1, d);
}

void replica_fault(const Exec *e, const Feed *f, int64_t since, int64_t replica, int64_t replicas,
                   Diag *d) {
  const FeedInput *input;
  char place[1024];
  FaultRow r;
  exec_fault(e, d);
  uint32_t n = f ? feed_inputs(f, &input) : 0;
  const char *over = n ? input[0].dim[input[0].over] : NULL;
  if (!over) return;
  // A program of its own runs an incomplete batch.
  int64_t part = feed_batch(f) / replicas, given = since ? part : feed_given(f);
  if (!exec_fault_row(e, over, part, &r) && !exec_fault_row(e, over, given, &r)) return;
  r.row += replica * part;
  // An index that is computed from inputs is of their rows, which belong together.
  uint32_t which = input_of(input, n, r.value);
  char of[48] = "";
  if (replicas > 1) snprintf(of, sizeof of, ", of replica %lld,", (long long)replica);
  if (feed_row_place(f, which < n ? which : 0, since, r.row, place, sizeof place))
    diag_note(d, (Pos){0}, "row %lld of the batch%s is %s", (long long)r.row, of, place);
  if (which < n && r.dim && r.index >= r.size)
    diag_hint(d, "the size of %s is %lld; with --set %s=%lld there is a place for %lld", r.dim,
              (long long)r.size, r.dim, (long long)r.index + 1, (long long)r.index);
}

// Adds the error of a step that did not end with STEP_OK to d. Returns the exit code.
static int report_step_fault(const Exec *e, const Feed *f, StepResult r, Diag *d) {
  if (r == STEP_NOT_FINITE)
    diag_error(d, DIAG_NOT_FINITE, (Pos){0}, "the watched value is not finite");
  else
    step_fault(e, f, 0, d);
  return diag_exit(d);
}

static int64_t part_elements(const MetricPart *p) { return p->elements > 0 ? p->elements : 1; }

// The values of the parts of all metrics, combined over the batches so far. A part is a reduction
// over the batch dim that a metric contains.
typedef struct Parts {
  uint32_t n;
  const Metric *metric;
  int64_t elements, largest;
  double *sum;
  void *read; // buffer for the elements of one output
} Parts;

static void parts_open(Parts *p, uint32_t n, const Metric *metric) {
  *p = (Parts){.n = n, .metric = metric};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < metric[i].nparts; k++) {
      int64_t elements = part_elements(&metric[i].part[k]);
      p->elements += elements;
      if (elements > p->largest) p->largest = elements;
    }
  p->sum = mem_zeroed((size_t)p->elements + 1u, sizeof *p->sum);
  p->read = mem_zeroed((size_t)p->largest + 1u, sizeof(double)); // double is the widest type
  double *to = p->sum;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < metric[i].nparts; k++)
      for (int64_t e = 0; e < part_elements(&metric[i].part[k]); e++)
        *to++ = empty_part(metric[i].part[k].how);
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

// Runs all batches of an epoch on `full`. If `last` is not NULL, an incomplete batch runs on `last`
// instead. Returns an exit code.
static int eval_batches(Exec *full, Exec *last, Feed *f, Parts *parts, const void **data,
                        int64_t *rows, const EvalProgress *progress, Diag *d) {
  int64_t got;
  *rows = 0;
  while ((got = feed_next(f, data)) > 0) {
    bool incomplete = got < feed_batch(f);
    Exec *e = incomplete && last ? last : full;
    if (exec_stop_asked(full)) return EXIT_INTERRUPTED; // the caller writes a checkpoint and ends
    exec_rows(e, incomplete && !last ? got : -1);
    give_batch(e, f, data);
    StepResult r = exec_step(e, 0, false);
    if (r != STEP_OK) return report_step_fault(e, f, r, d);
    parts_add(parts, e, got);
    *rows += got;
    if (progress) progress->rows(progress->context, *rows, feed_rows(f));
  }
  if (got < 0) {
    feed_fault(f, d);
    return diag_exit(d);
  }
  return 0;
}

int eval_metrics(Exec *e, Exec *last, Feed *f, uint32_t n, const Metric *metric, double *out,
                 int64_t *rows, const EvalProgress *progress, Diag *d) {
  const FeedInput *input;
  Parts parts;
  const void **data = mem_zeroed(feed_inputs(f, &input) + 1u, sizeof *data);
  parts_open(&parts, n, metric);
  exec_restrict_feed(e, last, f);
  int code = eval_batches(e, last, f, &parts, data, rows, progress, d);
  exec_rows(e, -1);
  if (code == 0) parts_finish(&parts, *rows, out);
  free(data);
  parts_close(&parts);
  return code;
}
