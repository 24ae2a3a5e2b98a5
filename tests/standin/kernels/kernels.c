// Functions for the emulator, as codegen/gpu makes them, in C: an object that tests load as an
// image (tests/unit/standin_cuda.c). `table` is an array of pointers and numbers.
#include "codegen/gpu/emulator.h"
#include "ir/program/gpu.h"

#define FUNCTION(name)                                                                             \
  __attribute__((visibility("default"))) void name(const void *table, const GpuHeader *header,     \
                                                   int32_t nsets, int32_t flags, GpuEmulator *g);  \
  void name(const void *table, const GpuHeader *header, int32_t nsets, int32_t flags,              \
            GpuEmulator *g)
#define UNUSED (void)header, (void)nsets, (void)flags

static float *pointer(const void *table, int i, GpuEmulator *g) {
  float *const *at = (float *const *)table + i;
  g->access(g, at, 8, GPU_READ, GPU_GLOBAL);
  return *at;
}

// to[i] = from[i] + 1 for each thread of the grid; table: to, from.
FUNCTION(add_one) {
  UNUSED;
  float *to = pointer(table, 0, g), *from = pointer(table, 1, g);
  int32_t i = g->block_x(g) * g->threads(g) + g->thread(g);
  g->access(g, from + i, 4, GPU_READ, GPU_GLOBAL);
  g->access(g, to + i, 4, GPU_WRITE, GPU_GLOBAL);
  to[i] = from[i] + 1;
}

// Writes beyond the bytes it tells.
FUNCTION(untold) {
  UNUSED;
  float *to = pointer(table, 0, g);
  if (g->thread(g) == 0) to[-1] = 0;
}

// Accesses an address that is no memory, without telling it.
FUNCTION(wild) {
  UNUSED;
  (void)table, (void)g;
  volatile uintptr_t nowhere = 16;
  *(volatile float *)nowhere = 0;
}

// Calls itself until the stack is full.
static int deep(volatile int n) {
  volatile char room[512];
  room[n % 512] = (char)n;
  return n <= 0 ? room[0] : deep(n - 1) + room[n % 512];
}
FUNCTION(deep_stack) {
  UNUSED;
  (void)table, (void)g;
  deep(1 << 20);
}
