// Launches of kernels on the emulator of GPU threads: records, partial rows, statuses.
#include "tests/suite/common/gpu_launch.h"

#include <stdlib.h>
#include <string.h>

#include "tests/suite/common/code.h"
#include "tests/suite/common/emulated.h"

struct GpuRunner {
  Kernel *const *kernel;
  GpuCode *code;
  EmulatedImage *image; // NULL: there is no kernel
  GpuHeader header;
};

void gpu_runner_allow(GpuRunner *r, void *at, size_t n) {
  (void)r;
  emulated_allow(at, n);
}

void gpu_runner_forget(GpuRunner *r) {
  (void)r;
  emulated_forget(0);
}

// -- runners ------------------------------------------------------------------------------------

GpuRunner *gpu_runner_new(const Program *p, Kernel *const *kernels, Diag *d) {
  return gpu_runner_of_tile(p, kernels, 0, d);
}

GpuRunner *gpu_runner_of_tile(const Program *p, Kernel *const *kernels, int tile, Diag *d) {
  GpuCodeOptions opt = {.target = GPU_EMULATED,
                        .capability = 80,
                        .opt = suite_opt(1),
                        .tile = tile,
                        .cache = suite_cache()};
  GpuCode *code = gpu_code_load(p, kernels, &opt, d);
  if (!code) return NULL;
  GpuRunner *r = calloc(1, sizeof *r);
  r->kernel = kernels;
  r->code = code;
  if (p->nkernels) r->image = emulated_load(code);
  r->header.go = 1;
  return r;
}

void gpu_runner_free(GpuRunner *r) {
  gpu_runner_forget(r);
  emulated_free(r->image);
  gpu_code_free(r->code);
  free(r);
}

GpuHeader *gpu_runner_header(GpuRunner *r) { return &r->header; }

// -- launches -----------------------------------------------------------------------------------

static void fill_record(const Kernel *k, char *record, const GpuRecord *head, const GpuSet *set) {
  memcpy(record, head, sizeof *head);
  for (int i = 0; i < k->nptr; i++) memcpy(record + gpu_ptr_at(i), &set->ptr[i], 8);
  for (int i = 0; i < k->nslots; i++) memcpy(record + gpu_slot_at(k->nptr, i), &set->slot[i], 8);
  for (int i = 0; i < k->nnum; i++)
    memcpy(record + gpu_num_at(k->nptr, k->nslots, i), &set->num[i], 8);
}

// Fills the records of all sets. Their partial rows, or their scratch memory, lie from `partial`
// on. Returns the blocks of all sets.
static int64_t fill_table(const Kernel *k, char *table, char *partial, GpuStatus *status,
                          int64_t grain, const GpuEntry *e, uint32_t n, const GpuSet *set) {
  int64_t blocks = 0;
  for (uint32_t s = 0; s < n; s++) {
    char *row = partial + (e->scratch ? s * e->scratch : blocks * kernel_partial_bytes(k));
    GpuRecord head = {.first_block = blocks,
                      .to = set[s].units,
                      .grain = grain,
                      .partial = (uint64_t)(uintptr_t)row,
                      .status = (uint64_t)(uintptr_t)&status[s]};
    fill_record(k, table + s * gpu_record_bytes(k->nptr, k->nslots, k->nnum), &head, &set[s]);
    blocks += ceil_div(set[s].units, grain) * (e->parts ? e->parts : 1);
  }
  return blocks;
}

void gpu_runner_run(GpuRunner *r, uint32_t k, int64_t grain, uint32_t n, GpuSet *set) {
  const Kernel *kernel = r->kernel[k];
  const GpuEntry *e = &gpu_code_entries(r->code)[k];
  int64_t rows = 0;
  int regions = emulated_regions();
  if (e->grain) grain = e->grain;
  for (uint32_t s = 0; s < n; s++) rows += ceil_div(set[s].units, grain);
  size_t bytes = (size_t)(rows * kernel_partial_bytes(kernel) + n * e->scratch) / 64 * 64;
  char *table = calloc(n, (size_t)gpu_record_bytes(kernel->nptr, kernel->nslots, kernel->nnum)),
       *partial = aligned_alloc(64, bytes + 64);
  GpuStatus *status = calloc(n, sizeof *status);
  memset(partial, 0xff, bytes);
  gpu_runner_allow(r, partial, bytes);
  gpu_runner_allow(r, status, n * sizeof *status);
  int64_t blocks = fill_table(kernel, table, partial, status, grain, e, n, set);
  for (int phase = 0; phase < (e->phases ? e->phases : 1); phase++)
    emulated_launch(r->image, e->run, table, n, phase << GPU_PHASE_BIT, &r->header,
                    (EmulatedGrid){blocks, 1, e->threads, e->shared});
  if (e->combine)
    emulated_launch(r->image, e->combine, table, n, 0, &r->header,
                    (EmulatedGrid){e->combine_blocks, n, e->combine_threads, e->combine_shared});
  for (uint32_t s = 0; s < n; s++) set[s].status = status[s].first;
  emulated_forget(regions);
  free(table);
  free(partial);
  free(status);
}
