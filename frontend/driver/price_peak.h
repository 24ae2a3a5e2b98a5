// Extrapolates the peak memory of a step from compiled models with short loops (SearchSample).
// Input: the memory of each sample over its instructions. Output: the bytes of the whole model.
//
// The peak itself must not be extrapolated: which instruction needs most memory depends on the
// number of rounds. Three and four rounds may need most for a table of words, and twelve rounds for
// the parameters of all rounds, which are gathered before the first one. So the memory at every
// instruction is extrapolated, and the largest result counts.
#ifndef FRONTEND_PRICE_PEAK_H
#define FRONTEND_PRICE_PEAK_H

#include "frontend/driver/session.h"

// A buffer of the work arena.
typedef struct SampleBuffer {
  uint64_t class; // equal for buffers of equal bytes whose values are of one statement
  double bytes;
  bool gathered;        // its value is the result of an all_gather
  uint32_t first, last; // its live range, in instructions
} SampleBuffer;

// The memory of one sample.
typedef struct SampleMemory {
  double weight;     // SearchSample.memory
  double bytes;      // program_bytes
  double persistent; // bytes outside the work arena
  uint32_t n;        // number of instructions
  // For each instruction: the live bytes of the arena, and a key, which is equal for instructions
  // of different rounds and samples that do the same among the same neighbours.
  int64_t *live;
  uint64_t *key;
  uint32_t nbuffers;
  SampleBuffer *buffer;
} SampleMemory;

// Returns the memory of a compiled sample, in arena `a`.
SampleMemory sample_memory(Arena *a, const Compilation *c, double weight);
SampleMemory *sample_memory_copy(Arena *a, const SampleMemory *of);
// Returns the peak in bytes that n samples together predict for the whole model. *kept gets the
// bytes of it that are outside the work arena: parameters and states.
double price_peak(uint32_t n, const SampleMemory *of, double *kept);

#endif
