// Compares the functions of ordered operations on a GPU (codegen/gpu/gpu_ordered.c) with the
// executor's (runtime/exec/ordered.c), on the emulator of GPU threads: every kind and type, random
// shapes and strides, NaN, both zeros and ties among the elements, several operand sets in a
// launch. All results must have equal bits, but for sums of floats, whose order of additions
// differs: these are in the error bound of f64 sums; and products, likewise.
//
//   suite_gpu_ordered [seed]   one case
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/program/gpu_ordered.h"
#include "ir/program/ordered_flags.h"
#include "runtime/exec/ordered_internal.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/emulated.h"

enum { CASES = 1500, SETS = 3, ROOM = 1 << 18, SCRATCH = 1 << 19, KINDS = ORDERED_TOP_K + 1 };
static const Dtype types[] = {TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_F16,
                              TYPE_I32, TYPE_U8,  TYPE_I64,  TYPE_U64};

static uint64_t seed;
static uint64_t next(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}
static int64_t below(int64_t n) { return (int64_t)(next() % (uint64_t)n); }

// Memory that the functions may access.
static struct { char sources[SETS][ROOM], results[SETS][ROOM], scratch[SETS * SCRATCH]; } device;
static char expected[ROOM];
static EmulatedImage *image;

// -- cases --------------------------------------------------------------------------------------

// An ordered operation on tensors whose dims are in a random order in memory. The ordered dim is
// one of them, the others are rows.
typedef struct Case {
  Ordered w;
  int64_t n, rows, count[MAX_RANK], src_elements, dst_elements;
} Case;

static int64_t results_of_row(const Case *c) { return c->w.kind == ORDERED_TOP_K ? c->w.k : c->n; }

static Dtype result_type(const Case *c) {
  return c->w.kind <= ORDERED_CUMMAX ? c->w.type : TYPE_I32;
}

// Sets strides: loops from slow to fast, the ordered dim before row number `place`.
static void set_strides(Case *c, int place) {
  int64_t src = 1 + below(2), dst = 1 + below(2);
  for (int i = c->w.nrows; i >= 0; i--) {
    if (i == place) {
      c->w.src_step = src, c->w.dst_step = dst;
      src *= c->n ? c->n : 1, dst *= results_of_row(c) ? results_of_row(c) : 1;
    }
    if (i == 0) break;
    c->w.row[i - 1].src = src, c->w.row[i - 1].dst = dst;
    src *= c->count[i - 1], dst *= c->count[i - 1];
  }
  c->src_elements = src;
  c->dst_elements = dst;
}

static void random_shape(Case *c) {
  static const int64_t lengths[] = {1, 2, 5, 17, 33, 63, 64, 65, 100, 129, 300, 1000, 0};
  c->n = lengths[below((int64_t)countof(lengths))];
  c->w.k = c->w.kind == ORDERED_TOP_K ? 1 + below(c->n < 3 ? 4 : c->n) : 0;
  c->w.nrows = (uint8_t)below(4);
  int64_t room = 2000 / (c->n + c->w.k + 1) + 1;
  c->rows = 1;
  for (int i = 0; i < c->w.nrows; i++) {
    c->count[i] = 1 + below(room < 9 ? room : 9);
    room = room > c->count[i] ? room / c->count[i] : 1;
    c->rows *= c->count[i];
  }
}

// Sets a shape for which a launch takes another way: many rows that are neighbours in memory have a
// thread each; of many rows that are longer than a run, a block sorts several.
static void many_rows(Case *c) {
  bool sorts = c->w.kind == ORDERED_ARGSORT || c->w.kind == ORDERED_TOP_K;
  c->n = sorts ? ORDERED_RUN + 1 : 3;
  c->rows = c->count[0] = sorts ? 300 : 5000;
  c->w.nrows = 1;
  c->w.type = TYPE_F32;
  c->w.k = c->w.kind == ORDERED_TOP_K ? 3 : 0;
  set_strides(c, sorts ? 1 : 0);
}

static Case random_case(void) {
  Case c = {.w = {.kind = (OrderedKind)below(KINDS), .type = types[below(countof(types))]}};
  if (c.w.kind <= ORDERED_CUM_INDEX && below(2)) c.w.flags |= ORDER_REVERSE;
  if (c.w.kind <= ORDERED_CUMPROD && below(2)) c.w.flags |= ORDER_EXCLUSIVE;
  if (c.w.kind == ORDERED_ARGSORT && below(2)) c.w.flags |= ORDER_DESCENDING;
  if (!below(60)) {
    many_rows(&c);
    return c;
  }
  random_shape(&c);
  set_strides(&c, (int)below(c.w.nrows + 1));
  return c;
}

// Draws a small integer with many ties, a real number, or a number that may be NaN, infinite or -0.
static double number(Dtype t, int64_t data) {
  static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0, -0.0, 1, -1, 2};
  double x = data == 0 ? (double)(below(7) - 3) : (double)below(2000001) / 1000 - 1000;
  bool is_unsigned = t == TYPE_U8 || t == TYPE_U64;
  if (!dtype_is_float(t)) return dtype_round(t, is_unsigned ? fabs(x) : x * (data ? 1e6 : 1));
  if (data == 2) return below(3) ? odd[below(countof(odd))] : dtype_round(t, x);
  return dtype_round(t, x);
}

// -- running and comparing ----------------------------------------------------------------------

static void launch(const Case *c) {
  OrderedSizes s = {&c->w, c->n, c->rows, c->count};
  OrderedLaunch l = gpu_ordered_launch(&s);
  GpuEntry entry = gpu_ordered_entry(&c->w);
  size_t bytes = (size_t)gpu_record_bytes(ORDERED_POINTERS, ORDERED_SLOTS, 0);
  char *table = mem_zeroed(SETS, bytes);
  if (l.scratch > SCRATCH) BUG("scratch of %lld bytes", (long long)l.scratch);
  for (int i = 0; i < SETS; i++)
    gpu_ordered_record(&s, (uintptr_t)device.sources[i], (uintptr_t)device.results[i],
                       (uintptr_t)device.scratch + (uint64_t)(i * l.scratch), i * l.blocks,
                       table + (size_t)i * bytes);
  emulated_launch(image, entry.run, table, SETS, 0, &(GpuHeader){.go = 1},
                  (EmulatedGrid){SETS * l.blocks, 1, entry.threads, entry.shared});
  free(table);
}

// Returns whether results x and y of element type t may both be correct. `sum` is the sum of the
// absolute values of the row.
static bool close_enough(const Case *c, Dtype t, double x, double y, double sum) {
  if (x == y || (isnan(x) && isnan(y))) return true;
  if (c->w.kind > ORDERED_CUMPROD || !dtype_is_float(t)) return false;
  if (c->w.kind == ORDERED_CUMPROD) sum = fmin(fabs(x), fabs(y));
  // each way rounds n times to f64, and the result once to its type
  double last = ldexp(fabs(x) > fabs(y) ? fabs(x) : fabs(y), 1 - dtype_format(t).digits);
  return fabs(x - y) <= last + (double)c->n * 0x1p-52 * sum;
}

static double sum_of(const Case *c, const char *src) {
  double sum = 0, x;
  for (int64_t i = 0; i < c->src_elements; i++) {
    x = dtype_load(c->w.type, src + i * dtype_bytes(c->w.type));
    sum += isfinite(x) ? fabs(x) : 0;
  }
  return sum;
}

static bool compare(const Case *c, int set) {
  Dtype t = result_type(c);
  double sum = sum_of(c, device.sources[set]);
  for (int64_t i = 0; i < c->dst_elements; i++) {
    const char *got = device.results[set] + i * dtype_bytes(t),
               *want = expected + i * dtype_bytes(t);
    if (memcmp(got, want, (size_t)dtype_bytes(t)) == 0) continue;
    double x = dtype_load(t, got), y = dtype_load(t, want);
    if (dtype_is_float(t) && close_enough(c, t, x, y, sum)) continue;
    printf("  set %d, element %lld is %g, not %g\n", set, (long long)i, x, y);
    return false;
  }
  return true;
}

static bool run_case(const Case *c) {
  if (c->src_elements * dtype_bytes(c->w.type) > ROOM ||
      c->dst_elements * dtype_bytes(result_type(c)) > ROOM)
    BUG("a case is too large");
  for (int i = 0; i < SETS; i++) {
    int64_t data = below(3), bytes = dtype_bytes(c->w.type);
    bool product = c->w.kind == ORDERED_CUMPROD && dtype_is_float(c->w.type) && data == 1;
    for (int64_t k = 0; k < c->src_elements; k++) {
      double x = number(c->w.type, data);
      if (product) x = dtype_round(c->w.type, 1 + x / 2048); // no product is out of range
      dtype_store(c->w.type, device.sources[i] + k * bytes, x);
    }
    memset(device.results[i], 0x55, ROOM);
  }
  launch(c);
  bool good = true;
  for (int i = 0; i < SETS && good; i++) {
    BoundOrdered b = {
        .what = &c->w, .src = device.sources[i], .dst = expected, .n = c->n, .rows = c->rows};
    memcpy(b.count, c->count, sizeof b.count);
    memset(expected, 0x55, ROOM);
    ordered_run(&b, 0, c->rows, device.scratch);
    good = compare(c, i);
  }
  return good;
}

// Returns a program with every kind of operation on every type.
static Program *all_operations(Arena *a) {
  Program *p = arena_new_of(a, Program);
  *p = (Program){.for_ = "run"};
  p->instr = arena_array(a, Instr, KINDS * countof(types));
  for (int k = 0; k < KINDS; k++)
    for (size_t t = 0; t < countof(types); t++)
      p->instr[p->ninstrs++] =
          (Instr){.kind = INSTR_ORDERED, .u.ordered = {.kind = (OrderedKind)k, .type = types[t]}};
  return p;
}

static void run_all(uint64_t only, int *passed, int *failed) {
  for (uint64_t i = only ? only : 1; i <= (only ? only : CASES); i++) {
    seed = i * 0x9e3779b97f4a7c15u;
    for (int k = 0; k < 10; k++) (void)next();
    Case c = random_case();
    bool good = run_case(&c);
    if (!good)
      printf("FAIL %llu: %s, %lld rows of %lld, flags %u, k %lld\n", (unsigned long long)i,
             gpu_ordered_name(c.w.kind, c.w.type), (long long)c.rows, (long long)c.n, c.w.flags,
             (long long)c.w.k);
    *(good ? passed : failed) += 1;
  }
}

int main(int argc, char **argv) {
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", CASES);
    return 0;
  }
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  GpuCodeOptions opt = {
      .target = GPU_EMULATED, .capability = 80, .opt = suite_opt(1), .cache = suite_cache()};
  GpuCode *code = gpu_code_load(all_operations(a), NULL, &opt, d);
  if (!code) {
    diag_print(d, stdout, false);
    return 1;
  }
  int passed = 0, failed = 0;
  image = emulated_load(code);
  emulated_allow(&device, sizeof device);
  run_all(argc > 1 ? strtoull(argv[1], NULL, 10) : 0, &passed, &failed);
  emulated_forget(0);
  emulated_free(image);
  gpu_code_free(code);
  arena_free(a);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
