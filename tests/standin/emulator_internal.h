// What the files of the emulator share: the threads of the running block, and how each file does
// what functions call (codegen/gpu/emulator.h).
#ifndef TESTS_STANDIN_EMULATOR_INTERNAL_H
#define TESTS_STANDIN_EMULATOR_INTERNAL_H

#include "ir/base/base.h"
#include "tests/standin/coroutine.h"
#include "tests/standin/emulator.h"

enum { WARPS = EMULATOR_THREADS / GPU_WARP, EMULATOR_TEXT = 400, REGIONS = 4 };

typedef enum State { READY, AT_BARRIER, AT_MEETING, ENDED } State;

// What the threads of a warp do together at a meeting: a GpuShuffle, or one of these.
enum { MEETING_MULTIPLY = GPU_SHUFFLE_INDEX + 1, MEETING_LOAD_MATRIX, MEETING_BARRIER };

// A copy to shared memory that is under way.
typedef struct AsyncCopy {
  char *to;
  const char *from;
  int32_t bytes, valid;
  int group; // number of the thread's group of copies, which it makes later or has made
} AsyncCopy;

typedef struct Thread {
  Coroutine at;
  Emulator *emulator;
  State state;
  int32_t site;    // of the barrier or meeting at which it waits
  int32_t kind;    // of the meeting
  void *part;      // what it brings to the meeting, as kind says
  AsyncCopy *copy; // that it began and has not waited for, the oldest first
  size_t ncopies, copies;
  int groups; // of copies, that it has made in this block
} Thread;

typedef struct BlockStart {
  uint32_t segment; // the first one of the block
  int64_t block;
} BlockStart;

struct Emulator {
  GpuEmulator device; // what functions get; first, so that its address is that of the emulator
  const EmulatorMemory *memory;
  uint32_t *next_segment;
  uint64_t random;
  char *stacks, *shared;
  int prepared; // threads that have a coroutine
  Thread thread[EMULATOR_THREADS];
  Coroutine scheduler;
  int arrived[WARPS]; // threads of each warp that wait at a meeting
  Shadow shared_shadow;
  Shadow *region[REGIONS]; // where the last accesses were
  // Of each 4 bytes of shared memory: 1 + the thread that copies to them, or 0.
  uint16_t copied[EMULATOR_SHARED / 4];
  // the running launch
  const EmulatorLaunch *launch;
  int running; // the thread that runs
  int64_t block;
  bool checked; // accesses to the shared memory of the block are checked
  // Who accesses global and shared memory (shadow.h). emulator_segment sets their segments, and
  // each access the thread.
  ShadowSelf in_global, in_shared;
  BlockStart *start; // of the blocks run so far
  size_t nstarts, starts;
};

static inline Emulator *emulator_of(GpuEmulator *g) { return (Emulator *)(void *)g; }

// Ends the process with a message about a thread of the running block.
_Noreturn void emulator_fail(const Emulator *e, int thread, const char *format, ...)
    PRINTF_LIKE(3, 4);
// Writes the name of a block of the grid: "block 3", or "block (3, 1)" where the grid has two dims.
void emulator_print_block(const Emulator *e, int64_t block, char *text, size_t n);
// Leaves the running thread in a state; returns when it is ready again.
void emulator_leave(Emulator *e, State state, int32_t site);

// What begins with a segment: a block, a part of a block between two barriers, the work of a warp
// in such a part, or the rest of this work behind a barrier of the warp. Where one of them begins,
// those after it in this list begin, too.
typedef enum SegmentOf { OF_BLOCK, OF_PART, OF_WARP, OF_REST } SegmentOf;
// Begins a segment.
void emulator_segment(Emulator *e, SegmentOf of);

// emulator_access.c: checks an access of the running thread.
void emulator_access(GpuEmulator *g, const void *at, int32_t bytes, int32_t how, int32_t space);
// Checks an access to shared memory as if `thread` made it.
void emulator_access_shared(Emulator *e, int thread, const char *at, int32_t bytes, int32_t how);
// emulator_warp.c: what all threads of a warp do together.
void emulator_warp_barrier(GpuEmulator *g, int32_t site);
uint32_t emulator_shuffle(GpuEmulator *g, int32_t kind, uint32_t value, int32_t lane, int32_t site);
void emulator_multiply(GpuEmulator *g, int32_t factor, float *d, const uint32_t *a,
                       const uint32_t *b, const float *c, int32_t site);
void emulator_load_matrix(GpuEmulator *g, uint32_t *to, const void *row, int32_t count,
                          int32_t transposed, int32_t site);
// emulator_copy.c: copies to shared memory beside the computation.
void emulator_copy_begin(GpuEmulator *g, void *to, const void *from, int32_t bytes, int32_t valid);
void emulator_copy_commit(GpuEmulator *g);
void emulator_copy_wait(GpuEmulator *g, int32_t groups);
// Forgets all copies, before a block.
void emulator_copy_reset(Emulator *e);
// Ends the process if `thread` may not access bytes of shared memory since a copy to them is under
// way.
void emulator_copy_check(const Emulator *e, int thread, const char *at, int32_t bytes);

#endif
