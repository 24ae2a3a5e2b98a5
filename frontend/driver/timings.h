// Measures each stage of a compile: processor time, and memory in the arena that remains after the
// stage. `meshc -v` prints it.
#ifndef FRONTEND_TIMINGS_H
#define FRONTEND_TIMINGS_H

#include <stdio.h>

#include "ir/base/arena.h"

enum { MAX_STAGES_TIMED = 40 };
typedef struct StageTime {
  const char *name;
  uint32_t nodes; // nodes of the graph that the stage made, or 0
  double seconds; // processor time of all threads
  int64_t bytes;  // bytes that the arena grew by during the stage; negative if it gave memory back
} StageTime;
typedef struct Timings {
  const Arena *arena;
  double seconds; // processor time at the end of the last stage
  size_t bytes;   // bytes of the arena at the end of the last stage
  uint32_t n;
  StageTime at[MAX_STAGES_TIMED]; // if it is full, its last entry adds up later stages
} Timings;

// Measures all stages from now on by another clock, which returns seconds: tests count work.
typedef double TimingsClock(void);
void timings_use_clock(TimingsClock *clock);

// Clears all entries of l. The first stage of the compiler starts now and allocates in `a`.
void timings_start(Timings *l, const Arena *a);
// The stage that has begun, and those after it, allocate in `a`. Does nothing if l is NULL or
// timings_start was not called.
void timings_in(Timings *l, const Arena *a);
// Ends the compiler stage that started at the previous call of timings_start or timings_end, and
// records the stage as `name`. Does nothing if l is NULL or timings_start was not called.
void timings_end(Timings *l, const char *name, uint32_t nodes);
// Prints one line for each recorded stage of the compiler, and a line with their sum.
void timings_print(FILE *f, const Timings *l);

#endif
