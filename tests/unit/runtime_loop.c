// Tests the training loop: a hand-made program fits a line on two processors and evaluates it over
// an incomplete batch. Checks the reported events, and how NaN and bad data stop the loop.
//
//   loss = mean over b of (w x - t)^2,  w -= lr * dloss/dw;  b over rows
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/log.h"

enum {
  B = 8,
  AT_X = 0,
  AT_T = 64,
  AT_SUMS = 128,
  AT_LOSS = 192,
  AT_HITS = 256,
  AT_PARTIAL = 320,
  ARENA = 1024
};
enum { SLOT_B };

// sums[0] = sum (w x - t)^2, sums[1] = sum 2 (w x - t) x, sums[2] = rows whose error is below 0.5
static void errors_run(const KernelCall *c, int64_t lo, int64_t hi) {
  const float *x = c->ptr[0], *t = c->ptr[1], *w = c->ptr[2];
  float *s = (float *)(void *)c->partial;
  s[0] = s[1] = s[2] = 0;
  for (int64_t i = lo; i < hi; i++) {
    float e = w[0] * x[i] - t[i];
    s[0] += e * e;
    s[1] += 2 * e * x[i];
    s[2] += fabsf(e) < 0.5f ? 1.0f : 0.0f;
    if (x[i] < 0 && c->status->code == 0) *c->status = (Status){1, (int64_t)x[i], i};
  }
}
static void errors_combine(const KernelCall *c, int64_t n) {
  float *out = c->ptr[3];
  out[0] = out[1] = out[2] = 0;
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < 3; k++) out[k] += ((float *)(void *)(c->partial + 64 * i))[k];
}
static void finish_run(const KernelCall *c, int64_t lo, int64_t hi) {
  (void)lo, (void)hi;
  const float *s = c->ptr[0];
  *(float *)c->ptr[1] = s[0] / B;
  *(float *)c->ptr[2] = s[2] / B;
}
static void update_run(const KernelCall *c, int64_t lo, int64_t hi) {
  (void)lo, (void)hi;
  const float *s = c->ptr[0];
  float *w = c->ptr[1];
  w[0] -= (float)c->num[0] * s[1] / B;
}

typedef struct Built {
  Program p;
  Slot slot[1];
  ProgTensor tensor[8];
  ProgKernel kernel[3];
  Instr instr[6];
  KernelSet set[3];
  Ref refs[3][4];
  int32_t slots[1];
  double num[1];
  CollPart part[1];
  Check check[1];
} Built;

static const Axes over_rows = {1, {0}};
static const ProgDim dim_b = {"b", B, B / 2, {1, {0}}, SLOT_B};
static const Ref at_x = {-1, AT_X, NULL, 0}, at_target = {-1, AT_T, NULL, 0},
                 at_w = {2, 0, NULL, 0}, at_sums = {-1, AT_SUMS, NULL, 0},
                 at_loss = {-1, AT_LOSS, NULL, 0}, at_hits = {-1, AT_HITS, NULL, 0};

static void build_tensors(Built *t) {
  const struct {
    TensorKind kind;
    const char *name;
    Ref at;
  } row[] = {{TENSOR_INPUT, "x", at_x},
             {TENSOR_INPUT, "t", at_target},
             {TENSOR_PARAM, "w", at_w},
             {TENSOR_OUTPUT, "loss", at_loss},
             {TENSOR_OUTPUT, "hits", at_hits},
             {TENSOR_OUTPUT, "squares", at_sums},
             {TENSOR_OUTPUT, "count", {-1, AT_SUMS + 8, NULL, 0}}};
  for (size_t i = 0; i < countof(row); i++) {
    t->tensor[i] = (ProgTensor){
        .kind = row[i].kind, .name = row[i].name, .type = TYPE_F32, .bytes = 4, .at = row[i].at};
    if (row[i].kind != TENSOR_INPUT) continue;
    t->tensor[i].rank = 1;
    t->tensor[i].dim[0] = dim_b;
    t->tensor[i].bytes = 16;
  }
}

// Builds the three kernels and their launches, which are instructions 0, 2 and 4.
static void build_kernels(Built *t, double lr) {
  t->kernel[0] = (ProgKernel){.name = "errors",
                              .nptr = 4,
                              .partial_bytes = 64,
                              .run = errors_run,
                              .combine = errors_combine};
  t->kernel[1] = (ProgKernel){.name = "finish", .nptr = 3, .run = finish_run};
  t->kernel[2] = (ProgKernel){.name = "update", .nptr = 2, .nnum = 1, .run = update_run};
  memcpy(t->refs[0], (Ref[]){at_x, at_target, at_w, at_sums}, sizeof t->refs[0]);
  memcpy(t->refs[1], (Ref[]){at_sums, at_loss, at_hits}, sizeof(Ref[3]));
  memcpy(t->refs[2], (Ref[]){at_sums, at_w}, sizeof(Ref[2]));
  t->num[0] = lr;
  for (int k = 0; k < 3; k++) {
    t->set[k] = (KernelSet){.ptr = t->refs[k],
                            .slot = t->slots,
                            .units = k ? (Size){1, -1} : (Size){1, SLOT_B},
                            .num = t->num};
    t->instr[k * 2] = (Instr){.kind = INSTR_KERNEL,
                              .u.kernel = {.kernel = (uint32_t)k,
                                           .nsets = 1,
                                           .set = &t->set[k],
                                           .grain = 2,
                                           .partial = {-1, AT_PARTIAL, NULL, 0},
                                           .chunks = 2}};
  }
}

// Builds the all_reduce of the sums, instruction 1.
static void build_collective(Built *t) {
  t->part[0] = (CollPart){.src = at_sums,
                          .dst = at_sums,
                          .rank = 1,
                          .src_block = {3},
                          .dst_block = {3},
                          .src_valid = {{3, -1}},
                          .dst_valid = {{3, -1}},
                          .gathered = -1,
                          .split = -1};
  t->instr[1] = (Instr){.kind = INSTR_COLLECTIVE,
                        .u.collective = {.kind = COLL_ALL_REDUCE,
                                         .axes = over_rows,
                                         .type = TYPE_F32,
                                         .monoid = 1,
                                         .nparts = 1,
                                         .part = t->part,
                                         .bytes = 12,
                                         .wire_bytes = 12}};
}

static void build(Built *t, bool train, double lr) {
  *t = (Built){0};
  t->slot[0] = (Slot){.kind = SLOT_EXTENT, .dim = "b", .whole = B, .axes = over_rows};
  t->check[0] = (Check){.value = "x", .dim = "ids", .size = 10, .rank = 1, .loop = {dim_b}};
  build_tensors(t);
  build_kernels(t, lr);
  build_collective(t);
  t->instr[3] = (Instr){.kind = INSTR_COMMIT};
  t->p = (Program){.model = "line",
                   .for_ = train ? "train" : "eval",
                   .over = "b",
                   .arena_bytes = ARENA,
                   .nslots = 1,
                   .ntensors = 7,
                   .nkernels = 3,
                   .ninstrs = train ? 5u : 3u,
                   .nchecks = 1,
                   .slot = t->slot,
                   .tensor = t->tensor,
                   .kernel = t->kernel,
                   .instr = t->instr,
                   .check = t->check,
                   .mesh = {.naxes = 1, .axis = {{.name = "rows", .size = 2}}}};
}

// -- a job --------------------------------------------------------------------------------------

typedef struct Bench {
  Built train, eval;
  Exec *etrain, *eeval;
  Feed *feed, *test;
  Arena *arena;
  Diag *diag;
  FeedInput input[2];
  DataSource source[2];
  char *text;
  size_t length;
  FILE *out;
  char directory[32];
  int64_t stop_at; // request to stop after this step
} Bench;

static volatile sig_atomic_t stop_request;

static double mean_of(const void *context, const double *part, int64_t rows) {
  (void)context;
  return part[0] / (double)rows;
}

// Opens data of 21 rows t = 3 x, where x of row 13 is `odd`.
static void open_bench(Bench *b, double lr, const char *odd) {
  *b = (Bench){.arena = arena_new(), .directory = "/tmp/meshc_loop_XXXXXX"};
  b->diag = diag_new(b->arena);
  assert_non_null(mkdtemp(b->directory));
  FILE *f = fopen(arena_printf(b->arena, "%s/d.csv", b->directory), "w");
  for (int i = 0; i < 21; i++) {
    if (i == 13 && odd)
      fprintf(f, "%s,1\n", odd);
    else
      fprintf(f, "%g,%g\n", 0.1 * i, 0.3 * i);
  }
  fclose(f);
  for (int i = 0; i < 2; i++) {
    b->source[i] = (DataSource){
        .kind = SOURCE_CSV, .path = "d.csv", .first = i, .last = i + 1, .header = -1, .scale = 1};
    b->input[i] = (FeedInput){
        .name = i ? "t" : "x", .type = TYPE_F32, .rank = 1, .size = {B}, .source = &b->source[i]};
  }
  build(&b->train, true, lr);
  build(&b->eval, false, 0);
  b->etrain = exec_new(
      &b->train.p,
      &(ExecOptions){.threads = 2, .must_be_finite = "loss", .stop_request = &stop_request},
      b->diag);
  assert_non_null(b->etrain);
  b->eeval = exec_new(&b->eval.p, &(ExecOptions){.share = b->etrain}, b->diag);
  assert_non_null(b->eeval);
  b->feed = feed_open(2, b->input, B, true, 1, false, b->directory, b->diag);
  b->test = feed_open(2, b->input, B, false, 1, true, b->directory, b->diag);
  b->out = open_memstream(&b->text, &b->length);
}

static void close_bench(Bench *b) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", b->directory);
  assert_int_equal(system(command), 0);
  feed_close(b->feed);
  feed_close(b->test);
  exec_free(b->eeval);
  exec_free(b->etrain);
  fclose(b->out);
  free(b->text);
  arena_free(b->arena);
}

// Prints one line for each event.
static void tell(void *bench, const TrainReport *r) {
  const Bench *b = bench;
  if (r->event == TRAIN_BEGINS) fprintf(b->out, "begins at %lld\n", (long long)r->step);
  if (r->event == TRAIN_STEP && r->due)
    fprintf(b->out, "step %lld loss %g\n", (long long)r->step, exec_scalar(b->etrain, "loss"));
  if (r->event == TRAIN_EVALUATING && r->rows == r->all_rows) fprintf(b->out, "all rows\n");
  if (r->event == TRAIN_EVALUATED && r->metric)
    fprintf(b->out, "%s at %lld: accuracy %g of %lld rows\n", r->final ? "final" : "evaluated",
            (long long)r->step, r->metric[1], (long long)r->rows);
  if (r->event == TRAIN_INTERRUPTED) fprintf(b->out, "interrupted at %lld\n", (long long)r->step);
  if (r->event == TRAIN_ENDS) fprintf(b->out, "ends with %d\n", r->code);
  if (r->event == TRAIN_STEP && r->step == b->stop_at) stop_request = 1;
}

static int run(Bench *b, int64_t steps, bool curve) {
  MetricPart squares = {.output = "squares", .how = PART_SUM},
             hits = {.output = "count", .how = PART_SUM};
  Metric metric[2] = {{"loss", 1, &squares, mean_of, NULL, false},
                      {"accuracy", 1, &hits, mean_of, NULL, true}};
  static const char *const shown[] = {"loss", "hits"};
  TrainJob job = {.train = b->etrain,
                  .eval = b->eeval,
                  .feed = b->feed,
                  .test = b->test,
                  .test_name = "test",
                  .nmetrics = 2,
                  .metric = metric,
                  .nshown = 2,
                  .shown = shown,
                  .steps = steps,
                  .log_every = 0,
                  .evaluate = 20,
                  .batch = B,
                  .report = tell,
                  .report_context = b};
  LogOptions log = {.directory = b->directory};
  if (curve) job.log = log_open(&log, b->diag);
  int code = train_run(&job, b->diag);
  assert_true(log_close(job.log, b->diag));
  fflush(b->out);
  return code;
}

static void expect_text(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
}
static void expect_error(Bench *b, const char *part) {
  char *text;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  diag_print(b->diag, f, false);
  fclose(f);
  expect_text(text, part);
  free(text);
}

static void a_line_is_fitted(void **state) {
  (void)state;
  Bench b;
  open_bench(&b, 0.2, NULL);
  const char *curve = arena_printf(b.arena, "%s/metrics.jsonl", b.directory);
  assert_int_equal(run(&b, 60, true), 0);
  float w;
  exec_read(b.etrain, TENSOR_PARAM, "w", &w);
  assert_true(fabsf(w - 3) < 1e-3f);
  expect_text(b.text, "begins at 0\nstep 6 loss ");
  expect_text(b.text, "\nstep 60 loss ");
  expect_text(b.text, "\nall rows\nevaluated at 20: accuracy ");
  expect_text(b.text, "\nfinal at 60: accuracy 1 of 21 rows\nends with 0\n");
  int lines = 0;
  FILE *f = fopen(curve, "r");
  for (int c; (c = fgetc(f)) != EOF;) lines += c == '\n';
  fclose(f);
  assert_int_equal(lines, 60);
  close_bench(&b);
}

// A request to stop ends the run after the current step.
static void a_stop_request_ends_the_run(void **state) {
  (void)state;
  Bench b;
  open_bench(&b, 0.2, NULL);
  b.stop_at = 7;
  assert_int_equal(run(&b, 60, false), 75);
  expect_text(b.text, "\ninterrupted at 7\nends with 75\n");
  stop_request = 0;
  close_bench(&b);
}

// 21 rows in batches of 8: the sums of the last batch count its 5 rows.
static void evaluation_counts_every_row(void **state) {
  (void)state;
  Bench b;
  open_bench(&b, 0.2, NULL);
  MetricPart squares = {.output = "squares", .how = PART_SUM},
             mean = {.output = "count", .how = PART_ROW_MEAN},
             most = {.output = "squares", .how = PART_MAX};
  Metric metric[3] = {{"loss", 1, &squares, mean_of, NULL, false},
                      {"m", 1, &mean, mean_of, NULL, false},
                      {"most", 1, &most, mean_of, NULL, false}};
  double out[3], want = 0;
  int64_t rows;
  for (int pass = 0; pass < 2; pass++) { // w is 0: the error of row i is 0.3 i
    assert_int_equal(eval_metrics(b.eeval, NULL, b.test, 3, metric, out, &rows, NULL, b.diag), 0);
    assert_int_equal(rows, 21);
    want = 0;
    for (int i = 0; i < 21; i++) want += 0.09 * i * i;
    assert_true(fabs(out[0] - want / 21) < 1e-5);
    assert_true(fabs(out[1] - (2.0 * 8 / 21) / 21) < 1e-9); // rows 0 and 1 in the first batch of 8
    double last = 0;
    for (int i = 16; i < 21; i++) last += 0.09 * i * i;
    assert_true(fabs(out[2] * 21 - last) < 1e-3);
  }
  close_bench(&b);
}

static void a_loss_that_is_not_finite_stops(void **state) {
  (void)state;
  Bench b;
  open_bench(&b, 1e30, NULL);
  assert_int_equal(run(&b, 60, false), 4);
  expect_error(&b, "the update of that step was not made");
  float w;
  exec_read(b.etrain, TENSOR_PARAM, "w", &w);
  assert_true(isfinite(w));
  close_bench(&b);
}

static void bad_data_stops(void **state) {
  (void)state;
  Bench b;
  open_bench(&b, 0.1, "-1");
  assert_int_equal(run(&b, 60, false), 5);
  expect_error(&b, "is -1, outside 0..9 of dim ids");
  close_bench(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_line_is_fitted),
      cmocka_unit_test(a_stop_request_ends_the_run),
      cmocka_unit_test(evaluation_counts_every_row),
      cmocka_unit_test(a_loss_that_is_not_finite_stops),
      cmocka_unit_test(bad_data_stops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
