// Loads images for the emulator of GPU threads (tests/standin/emulator.h), and launches their
// functions on memory of a suite. All images share one emulator. Thread rule: one thread.
#ifndef TESTS_SUITE_COMMON_EMULATED_H
#define TESTS_SUITE_COMMON_EMULATED_H

#include "codegen/codegen.h"

// Lets functions access bytes at..at+n. emulated_regions returns how many such regions there are,
// and emulated_forget takes back all but the first `kept` of them.
void emulated_allow(void *at, size_t n);
int emulated_regions(void);
void emulated_forget(int kept);

typedef struct EmulatedImage EmulatedImage;
EmulatedImage *emulated_load(const GpuCode *code);
void emulated_free(EmulatedImage *i);

typedef struct EmulatedGrid {
  int64_t x, y; // blocks
  int threads;  // of a block
  int shared;   // bytes of dynamic shared memory
} EmulatedGrid;
// Runs function `name` with nsets records at `table`. The emulator ends the process at the first
// error.
void emulated_launch(const EmulatedImage *i, const char *name, const void *table, uint32_t nsets,
                     int32_t flags, const GpuHeader *header, EmulatedGrid grid);

#endif
