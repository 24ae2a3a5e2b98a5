// Runs kernels as code for a GPU, on the emulator of GPU threads (tests/standin/emulator.h).
#ifndef TESTS_SUITE_COMMON_GPU_LAUNCH_H
#define TESTS_SUITE_COMMON_GPU_LAUNCH_H

#include "codegen/codegen.h"

typedef struct GpuRunner GpuRunner;
// Compiles the kernels of p for the emulator. Returns NULL after an error in d. Thread rule: one
// thread at a time. The second one has products in tiles of one kind (GpuCodeOptions.tile).
GpuRunner *gpu_runner_new(const Program *p, Kernel *const *kernels, Diag *d);
GpuRunner *gpu_runner_of_tile(const Program *p, Kernel *const *kernels, int tile, Diag *d);
void gpu_runner_free(GpuRunner *r);
GpuHeader *gpu_runner_header(GpuRunner *r); // what launches read; the caller may change it

// Lets kernels access bytes at..at+n until gpu_runner_forget.
void gpu_runner_allow(GpuRunner *r, void *at, size_t n);
void gpu_runner_forget(GpuRunner *r);

// The operands of one use of a kernel.
typedef struct GpuSet {
  void *const *ptr;
  const int64_t *slot;
  const double *num;
  int64_t units;
  Status status; // the result: the first fault
} GpuSet;
// Runs kernel number k for n sets in one launch, and joins their partial results. grain: units of a
// chunk, for kernels with partial results. The emulator ends the process at the first error.
void gpu_runner_run(GpuRunner *r, uint32_t k, int64_t grain, uint32_t n, GpuSet *set);

#endif
