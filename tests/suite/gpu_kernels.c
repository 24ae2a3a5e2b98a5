// Compares code for a GPU with a plain interpreter of kernels, on the emulator of GPU threads
// (tests/standin/emulator.h): the hand-made kernels of suite_kernels and suite_kernels_windows.
// Each runs as one launch of two operand sets, with partial results and several blocks of threads
// where it has them; the emulator finds races, accesses out of bounds, and threads that do not
// meet.
//
//   suite_gpu_kernels [TEXT]   only cases whose name contains TEXT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "codegen/cpu/load_internal.h"
#include "ir/base/philox.h"
#include "tests/standin/emulator.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/kernel_case.h"

// What runs cases: the code, the emulator and its memory.
typedef struct Runner {
  const GpuEntry *entry;
  Image *image;
  Emulator *emulator;
  uint32_t segment;
  GpuHeader header;
  Shadow region[2 * MAX_P + 2]; // memory of the running launch
  int nregions;
} Runner;

// -- the emulator's memory ----------------------------------------------------------------------

static Shadow *find(void *self, const char *at) {
  Runner *r = self;
  for (int i = 0; i < r->nregions; i++)
    if (at >= r->region[i].from && at < r->region[i].from + r->region[i].bytes)
      return &r->region[i];
  return NULL;
}

static void explain(void *self, const char *at, char *text, size_t n) {
  (void)self;
  snprintf(text, n, "%p is outside of all operands", (const void *)at);
}

static void operation(void *self, uint32_t segment, char *text, size_t n) {
  (void)self;
  snprintf(text, n, "operation %u", segment);
}

static void add_region(Runner *r, char *from, size_t bytes) {
  if (bytes) shadow_begin(&r->region[r->nregions++], from, bytes, false);
}

static void regions_end(Runner *r) {
  for (int i = 0; i < r->nregions; i++) shadow_end(&r->region[i]);
  r->nregions = 0;
}

// -- launches -----------------------------------------------------------------------------------

enum { SETS = 2 };

static void launch(Runner *r, const char *name, const void *table, int64_t x, int64_t y,
                   int threads, int shared) {
  EmulatorLaunch l = {.name = name,
                      .table = table,
                      .header = &r->header,
                      .nsets = SETS,
                      .blocks_x = x,
                      .blocks_y = y,
                      .threads = threads,
                      .shared = shared,
                      .safe = r->segment};
  void *at = image_symbol(r->image, name);
  if (!at) BUG("the image has no function %s", name);
  memcpy(&l.function, &at, sizeof at);
  emulator_run(r->emulator, &l);
}

// Fills the record of a set whose pointers are mem[p].
static void fill_record(const Case *c, char *record, const GpuRecord *head, char *const *mem) {
  memcpy(record, head, sizeof *head);
  for (int i = 0; i < c->k.nptr; i++) memcpy(record + gpu_ptr_at(i), &mem[i], 8);
  for (int i = 0; i < c->k.nslots; i++) memcpy(record + gpu_slot_at(c->k.nptr, i), &c->slot[i], 8);
  for (int i = 0; i < c->k.nnum; i++)
    memcpy(record + gpu_num_at(c->k.nptr, c->k.nslots, i), &c->num[i], 8);
}

// Runs a case for its operands and for a copy of them. Returns the number of a pointer whose copy
// differs afterwards, or -1.
static int run_sets(Runner *r, CaseRun *run, char *const *copy) {
  const Case *c = run->c;
  const GpuEntry *e = &r->entry[run->i];
  int64_t n = case_units(c), grain = e->grain ? e->grain : ceil_div(n ? n : 1, c->chunks);
  int64_t blocks = n ? ceil_div(n, grain) : 0, row = kernel_partial_bytes(&c->k);
  size_t bytes = (size_t)gpu_record_bytes(c->k.nptr, c->k.nslots, c->k.nnum);
  char *table = calloc(SETS, bytes);
  char *partial = aligned_alloc(64, (size_t)(SETS * row * blocks + 64) / 64 * 64 + 64);
  GpuStatus status[SETS] = {{{0}, 0, 0}};
  add_region(r, partial, (size_t)(SETS * row * blocks));
  add_region(r, (char *)status, sizeof status);
  for (int s = 0; s < SETS; s++) {
    GpuRecord head = {.first_block = s * blocks,
                      .to = n,
                      .grain = grain,
                      .partial = (uint64_t)(uintptr_t)(partial + s * blocks * row),
                      .status = (uint64_t)(uintptr_t)&status[s]};
    fill_record(c, table + (size_t)s * bytes, &head, s ? copy : run->mem);
  }
  if (blocks) launch(r, e->run, table, SETS * blocks, 1, e->threads, e->shared);
  if (e->combine)
    launch(r, e->combine, table, e->combine_blocks, SETS, e->combine_threads, e->combine_shared);
  run->status = status[0].first;
  free(table);
  free(partial);
  bool same = memcmp(&status[0], &status[1], sizeof status[0]) == 0;
  if (!same) printf("  %s: the statuses of equal sets differ\n", c->name);
  int differs = same ? -1 : 0;
  for (int p = 0; p < c->k.nptr; p++)
    if (memcmp(copy[p], run->mem[p], (size_t)(run->elements[p] * dtype_bytes(c->ptr[p].type))))
      differs = p;
  return differs;
}

static bool sets_differ;

static void run_case(CaseRun *run) {
  Runner *r = run->context;
  const Case *c = run->c;
  char *copy[MAX_P];
  for (int p = 0; p < c->k.nptr; p++) {
    size_t bytes = (size_t)(run->elements[p] * dtype_bytes(c->ptr[p].type));
    copy[p] = malloc(bytes + 1);
    memcpy(copy[p], run->mem[p], bytes);
    add_region(r, run->mem[p], bytes);
    add_region(r, copy[p], bytes);
  }
  int differs = run_sets(r, run, copy);
  if (differs >= 0) printf("  %s: p%d of two equal sets differs\n", c->name, differs);
  sets_differ = differs >= 0;
  regions_end(r);
  for (int p = 0; p < c->k.nptr; p++) free(copy[p]);
}

// -- all ----------------------------------------------------------------------------------------

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_all(const Case *cases, int n, const char *only, Runner *r, int *passed,
                    int *failed) {
  Arena *a = arena_new();
  double start = seconds();
  for (int i = 0; i < n; i++) {
    if (only && !strstr(cases[i].name, only)) continue;
    if (getenv("VERBOSE")) fprintf(stderr, "%s\n", cases[i].name);
    bool ok = case_check(i, run_case, r) && !sets_differ;
    if (!ok) printf("FAIL %s\n%s", cases[i].name, kernel_print(a, &cases[i].k));
    *(ok ? passed : failed) += 1;
  }
  printf("%.2f s\n", seconds() - start);
  arena_free(a);
}

int main(int argc, char **argv) {
  Case *cases;
  kernel_cases_add(150);
  window_cases_add();
  int n = cases_all(&cases), passed = 0, failed = 0;
  if (n < 0) return 1;
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", n);
    return 0;
  }
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  Kernel **kernels;
  Program *p = cases_program(a, &kernels);
  double start = seconds();
  GpuCodeOptions opt = {
      .target = GPU_EMULATED, .capability = 80, .opt = suite_opt(1), .cache = suite_cache()};
  GpuCode *code = gpu_code_load(p, kernels, &opt, d);
  printf("%d kernels compiled, %.2f ms each\n", n, 1e3 * (seconds() - start) / n);
  fflush(stdout);
  if (!code) {
    diag_print(d, stdout, false);
    return 1;
  }
  const GpuImage *image;
  char why[200];
  gpu_code_images(code, &image);
  Runner *r = calloc(1, sizeof *r);
  EmulatorMemory memory = {r, find, explain, operation};
  r->entry = gpu_code_entries(code);
  r->image = image_load(image->at, image->n, why);
  if (!r->image) BUG("%s", why);
  r->segment = 1;
  r->header = (GpuHeader){.step = INTERP_STEP, .seed = philox_seed(INTERP_SEED), .go = 1};
  r->emulator = emulator_new(&memory, &r->segment, 1);
  run_all(cases, n, argc > 1 ? argv[1] : NULL, r, &passed, &failed);
  emulator_free(r->emulator);
  image_free(r->image);
  gpu_code_free(code);
  free(r);
  arena_free(a);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
