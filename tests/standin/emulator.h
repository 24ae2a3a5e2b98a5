// Runs GPU functions on the CPU, one launch at a time. Each thread of a block is a coroutine, which
// leaves the processor at barriers and shuffles (codegen/gpu/emulator.h says what a function
// calls). Warps and blocks run in an order that depends on a seed.
//
// What a GPU leaves undefined is an error here (tests/standin/fail.h): threads that do not meet at
// a barrier or a shuffle; accesses outside of memory, of freed memory, not aligned; reads of shared
// memory that nobody wrote; and two accesses to the same bytes, one of which writes, that nothing
// orders (tests/standin/shadow.h).
//
// Accesses to global memory, and the bounds of shared memory, are checked in all blocks. Whether
// accesses to shared memory race, or read what nobody wrote, is checked in some blocks only, since
// checks take most of the time and the blocks of a launch run the same code: in the first
// EMULATOR_CHECKED blocks that run, which a seed chooses, and in those at the corners of the grid,
// where tiles are incomplete. In all blocks shared memory is filled with 0xff before, so that a
// value that nobody wrote changes results.
//
// Atomic operations are ordered among one another, and do not order anything else. So accesses to
// data that a lock protects are races, unless they are reported as GPU_ATOMIC, too.
#ifndef TESTS_STANDIN_EMULATOR_H
#define TESTS_STANDIN_EMULATOR_H

#include "codegen/gpu/emulator.h"
#include "ir/program/gpu.h"
#include "tests/standin/shadow.h"

typedef void EmulatedFunction(const void *table, const GpuHeader *header, int32_t nsets,
                              int32_t flags, GpuEmulator *g);

// The memory of the GPU, which somebody else allocates.
typedef struct EmulatorMemory {
  void *self;
  // Returns the shadow of the memory that `at` lies in, or NULL if functions may not access it.
  // Shadows stay where they are during a launch.
  Shadow *(*find)(void *self, const char *at);
  // Writes to text[0..n) what is at an address that `find` refuses, or that is too near an end.
  void (*explain)(void *self, const char *at, char *text, size_t n);
  // Writes to text[0..n) the name of the operation of a segment.
  void (*operation)(void *self, uint32_t segment, char *text, size_t n);
} EmulatorMemory;

typedef struct EmulatorLaunch {
  const char *name; // of the function, for messages
  EmulatedFunction *function;
  const void *table;
  const GpuHeader *header;
  int32_t nsets, flags;
  int64_t blocks_x, blocks_y; // of the grid
  int threads;                // of a block, 1..1024
  int shared;                 // bytes of dynamic shared memory of a block
  uint32_t safe;              // operations of segments below are ordered before this launch
  bool written;               // reads of global memory that nobody has written are errors
  const ShadowOrder *order;   // of other earlier operations; NULL: all are ordered before
} EmulatorLaunch;

typedef struct Emulator Emulator;
enum { EMULATOR_CHECKED = 16 };                             // blocks of a launch (above)
enum { EMULATOR_THREADS = 1024, EMULATOR_SHARED = 232448 }; // the largest block, as on sm_90

// *memory and *next_segment must outlive the emulator. *next_segment is the number of the next
// segment of shadow memory, at least 1; each launch takes some.
// Thread rule: one thread at a time.
Emulator *emulator_new(const EmulatorMemory *memory, uint32_t *next_segment, uint64_t seed);
void emulator_free(Emulator *e);
// Runs all blocks of a launch. Ends the process at the first error.
void emulator_run(Emulator *e, const EmulatorLaunch *launch);
// Writes to text[0..n) which thread of which function is running; returns false if none is.
bool emulator_running(const Emulator *e, char *text, size_t n);

#endif
