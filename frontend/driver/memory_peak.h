// The memory of a processor over the instructions of a step, and the values that it holds when it
// needs most: for `explain` and for messages about too little memory. Input: a compilation up to
// the program.
#ifndef FRONTEND_MEMORY_PEAK_H
#define FRONTEND_MEMORY_PEAK_H

#include "frontend/driver/session.h"

// Buffers that are live at the peak and alike: of one statement, of one size, needed as long as one
// another. In a loop of the model they are those of all its rounds.
typedef struct PeakGroup {
  const char *what;  // "p of l.0 to l.3 (exp at line 12)"
  const char *until; // why they are still live: "kept for the backward pass at line 18"
  uint32_t n;
  int64_t each, bytes; // bytes of one buffer, and of all
} PeakGroup;

typedef struct Timeline {
  uint32_t n;         // number of instructions
  int64_t *live;      // live bytes at each instruction
  uint32_t peak;      // index of the first instruction with the most live bytes
  int64_t persistent; // bytes outside the work arena: parameters, states, optimizer, constants
  uint32_t nalive;
  const PlanBuffer **alive; // buffers that are live at the peak, largest first
  uint32_t ngroups;
  PeakGroup *group; // the same buffers in groups, most bytes first
} Timeline;

// Returns the live bytes of the work arena at each instruction, computed from the live ranges of
// the buffers. The result is in arena `a`.
int64_t *memory_live(Arena *a, const Compiled *c);
// Returns the memory of the step over time, computed from the live ranges of the buffers. The
// result is in arena `a`.
Timeline memory_timeline(Arena *a, const Compilation *c);
// Returns one line about the buffers of a group: "p of l.0 to l.3 (exp at line 12), 8 buffers of
// 256 MiB, kept for the backward pass at line 18".
const char *peak_group_text(Arena *a, const PeakGroup *g);
// Returns the bytes of all groups from index `first` on.
int64_t peak_rest_bytes(const Timeline *t, uint32_t first);

#endif
