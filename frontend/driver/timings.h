// What each stage of a compile costs: processor time, and memory that stays until its end.
#ifndef FRONTEND_TIMINGS_H
#define FRONTEND_TIMINGS_H

#include <stdio.h>

#include "ir/base/arena.h"

enum { MAX_STAGES_TIMED = 24 };
typedef struct StageTime {
  const char *name;
  uint32_t nodes; // of the graph it made, 0: none
  double seconds; // of all threads
  size_t bytes;   // of the arena
} StageTime;
typedef struct Timings {
  const Arena *arena;
  double seconds; // when the last stage ended
  size_t bytes;
  uint32_t n;
  StageTime at[MAX_STAGES_TIMED]; // later ones count as part of the last
} Timings;

// Starts over: what is done from here on, in memory of `a`.
void timings_start(Timings *l, const Arena *a);
// What was done since the last call is `name`. Nothing when l is NULL or was not started.
void timings_end(Timings *l, const char *name, uint32_t nodes);
// Prints one line a stage, and their sum.
void timings_print(FILE *f, const Timings *l);

#endif
