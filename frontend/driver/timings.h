// What each stage of a compile costs: processor time, and memory that stays until its end.
#ifndef FRONTEND_LAPS_H
#define FRONTEND_LAPS_H

#include <stdio.h>

#include "ir/base/arena.h"

enum { MAX_LAPS = 24 };
typedef struct Lap {
  const char *name;
  uint32_t nodes; // of the graph it made, 0: none
  double seconds; // of all threads
  size_t bytes;   // of the arena
} Lap;
typedef struct Laps {
  const Arena *arena;
  double seconds; // when the last lap ended
  size_t bytes;
  uint32_t n;
  Lap at[MAX_LAPS]; // later ones count as part of the last
} Laps;

// Starts over: what is done from here on, in memory of `a`.
void laps_start(Laps *l, const Arena *a);
// What was done since the last call is `name`. Nothing when l is NULL or was not started.
void laps_end(Laps *l, const char *name, uint32_t nodes);
// A line a lap, and their sum.
void laps_print(FILE *f, const Laps *l);

#endif
