// Launches of kernels on the emulator of GPU threads: records, partial rows, statuses.
#include "tests/suite/common/gpu_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cpu/load_internal.h"
#include "tests/standin/emulator.h"
#include "tests/suite/common/code.h"

enum { MOST_REGIONS = 256 };

struct GpuRunner {
  Kernel *const *kernel;
  GpuCode *code;
  Image *image;
  Emulator *emulator;
  EmulatorMemory memory;
  uint32_t segment; // next one of the emulator
  GpuHeader header;
  Shadow region[MOST_REGIONS];
  int nregions;
};

// -- memory -------------------------------------------------------------------------------------

static Shadow *find(void *self, const char *at) {
  GpuRunner *r = self;
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

void gpu_runner_allow(GpuRunner *r, void *at, size_t n) {
  if (!n) return;
  if (r->nregions == MOST_REGIONS) BUG("more than %d regions", MOST_REGIONS);
  shadow_begin(&r->region[r->nregions++], at, n, false);
}

static void forget_from(GpuRunner *r, int n) {
  while (r->nregions > n) shadow_end(&r->region[--r->nregions]);
}

void gpu_runner_forget(GpuRunner *r) { forget_from(r, 0); }

// -- runners ------------------------------------------------------------------------------------

GpuRunner *gpu_runner_new(const Program *p, Kernel *const *kernels, Diag *d) {
  GpuCodeOptions opt = {
      .target = GPU_EMULATED, .capability = 80, .opt = suite_opt(1), .cache = suite_cache()};
  GpuCode *code = gpu_code_load(p, kernels, &opt, d);
  if (!code) return NULL;
  const GpuImage *image;
  char why[200];
  gpu_code_images(code, &image);
  GpuRunner *r = calloc(1, sizeof *r);
  r->kernel = kernels;
  r->code = code;
  if (p->nkernels) r->image = image_load(image->at, image->n, why);
  if (p->nkernels && !r->image) BUG("the image cannot be loaded: %s", why);
  r->segment = 1;
  r->header.go = 1;
  r->memory = (EmulatorMemory){r, find, explain, operation};
  r->emulator = emulator_new(&r->memory, &r->segment, 1);
  return r;
}

void gpu_runner_free(GpuRunner *r) {
  gpu_runner_forget(r);
  emulator_free(r->emulator);
  image_free(r->image);
  gpu_code_free(r->code);
  free(r);
}

GpuHeader *gpu_runner_header(GpuRunner *r) { return &r->header; }

// -- launches -----------------------------------------------------------------------------------

static void launch(GpuRunner *r, const char *name, EmulatorLaunch *l) {
  void *at = image_symbol(r->image, name);
  if (!at) BUG("the image has no function %s", name);
  memcpy(&l->function, &at, sizeof at);
  l->name = name;
  l->header = &r->header;
  l->safe = r->segment;
  if (l->blocks_x > 0 && l->blocks_y > 0) emulator_run(r->emulator, l);
}

static void fill_record(const Kernel *k, char *record, const GpuRecord *head, const GpuSet *set) {
  memcpy(record, head, sizeof *head);
  for (int i = 0; i < k->nptr; i++) memcpy(record + gpu_ptr_at(i), &set->ptr[i], 8);
  for (int i = 0; i < k->nslots; i++) memcpy(record + gpu_slot_at(k->nptr, i), &set->slot[i], 8);
  for (int i = 0; i < k->nnum; i++)
    memcpy(record + gpu_num_at(k->nptr, k->nslots, i), &set->num[i], 8);
}

// Fills the records of all sets, with partial rows from `partial` on. Returns the blocks of all.
static int64_t fill_table(const Kernel *k, char *table, char *partial, GpuStatus *status,
                          int64_t grain, uint32_t n, const GpuSet *set) {
  int64_t blocks = 0;
  for (uint32_t s = 0; s < n; s++) {
    char *row = partial + blocks * kernel_partial_bytes(k);
    GpuRecord head = {.first_block = blocks,
                      .to = set[s].units,
                      .grain = grain,
                      .partial = (uint64_t)(uintptr_t)row,
                      .status = (uint64_t)(uintptr_t)&status[s]};
    fill_record(k, table + s * gpu_record_bytes(k->nptr, k->nslots, k->nnum), &head, &set[s]);
    blocks += ceil_div(set[s].units, grain);
  }
  return blocks;
}

void gpu_runner_run(GpuRunner *r, uint32_t k, int64_t grain, uint32_t n, GpuSet *set) {
  const Kernel *kernel = r->kernel[k];
  const GpuEntry *e = &gpu_code_entries(r->code)[k];
  int64_t rows = 0;
  int regions = r->nregions;
  if (e->grain) grain = e->grain;
  for (uint32_t s = 0; s < n; s++) rows += ceil_div(set[s].units, grain);
  size_t bytes = (size_t)(rows * kernel_partial_bytes(kernel)) / 64 * 64;
  char *table = calloc(n, (size_t)gpu_record_bytes(kernel->nptr, kernel->nslots, kernel->nnum)),
       *partial = aligned_alloc(64, bytes + 64);
  GpuStatus *status = calloc(n, sizeof *status);
  memset(partial, 0xff, bytes);
  gpu_runner_allow(r, partial, bytes);
  gpu_runner_allow(r, status, n * sizeof *status);
  int64_t blocks = fill_table(kernel, table, partial, status, grain, n, set);
  launch(r, e->run,
         &(EmulatorLaunch){.table = table,
                           .nsets = (int32_t)n,
                           .blocks_x = blocks,
                           .blocks_y = 1,
                           .threads = e->threads,
                           .shared = e->shared});
  if (e->combine)
    launch(r, e->combine,
           &(EmulatorLaunch){.table = table,
                             .nsets = (int32_t)n,
                             .blocks_x = e->combine_blocks,
                             .blocks_y = n,
                             .threads = e->combine_threads,
                             .shared = e->combine_shared});
  for (uint32_t s = 0; s < n; s++) set[s].status = status[s].first;
  forget_from(r, regions);
  free(table);
  free(partial);
  free(status);
}
