// How many workers (threads) run the steps of a program: all, or one. crew.c decides by the time
// that steps take. The choice does not affect results.
#ifndef RUNTIME_EXEC_CREW_H
#define RUNTIME_EXEC_CREW_H

#include <stdbool.h>

// TRY: the steps are timed, to compare them with the other crew.
typedef enum CrewState { CREW_ALL, CREW_TRY_ONE, CREW_ONE, CREW_TRY_ALL } CrewState;

// All zero at the start. One thread uses it, between steps.
typedef struct Crew {
  CrewState state;
  int steps;       // steps done in this state
  double spent;    // seconds of these steps, without the first
  double all, one; // mean seconds of a step by all workers and by one, when last measured
  double fastest;  // the least mean of a window of steps by all workers; 0: none yet
  int stay, left;  // windows between the last trial and the next one, and those still to come
  bool alone;      // one worker was the faster way in the last trial
  bool tried;      // a trial has begun
  bool slow;       // the last window of all workers was much slower than the fastest one
} Crew;

// Returns whether one worker runs the next step.
bool crew_is_one(const Crew *c);
// Records that a step took so many seconds. Call it after every step.
void crew_note(Crew *c, double seconds);

#endif
