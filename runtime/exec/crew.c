// Crew: chooses how many workers (threads) run the steps of a program, all or one.
//
// One worker is faster than all if there is little work between two meetings, or if another process
// occupies a core: the others then wait at each meeting for the worker that has lost its core. Both
// ways are timed, and the faster one is used until the next trial. There is a trial at the start,
// when steps by all workers have become much slower than they were, and now and then. Before one
// worker is chosen, all are timed once more: what slowed them down may have been short. Trials that
// change nothing become rarer, up to about one a second. Long steps are always run by all workers,
// because a trial would cost more than it gains.
#include "runtime/exec/crew.h"

#include "ir/program/program.h"

enum {
  WINDOW = 16,    // most steps by all workers after which a trial may begin
  TRIAL = 8,      // most steps of a trial; the first warms the caches and is not timed
  FEWEST = 4,     // fewest steps of either
  STAY_LEAST = 4, // windows until the next trial, after one that changed the crew
  STAY_MOST = 64  // and the most windows, after trials that changed nothing
};

static const double DISTURBED = 1.5; // so many times the fastest window of all workers
static const double ENOUGH = 0.02;   // seconds after which a window or a trial ends, if not before

bool crew_is_one(const Crew *c) { return c->state == CREW_TRY_ONE || c->state == CREW_ONE; }

static void enter(Crew *c, CrewState state) {
  c->state = state;
  c->steps = 0;
  c->spent = 0;
}

// Ends a trial with the faster way.
static void settle(Crew *c, CrewState state) {
  bool changed = (state == CREW_ONE) != c->alone;
  c->alone = state == CREW_ONE;
  c->stay = changed || !c->stay ? STAY_LEAST : c->stay < STAY_MOST ? 2 * c->stay : STAY_MOST;
  c->left = c->stay;
  enter(c, state);
}

// Returns whether a trial begins after a window of steps by all workers. slower: the window is the
// first of several that are much slower than the fastest one.
static bool wants_trial(const Crew *c, bool slower) {
  return c->all < LONG_STEP && (!c->tried || c->left <= 0 || slower);
}

// Ends a window of steps by all workers.
static void window_of_all(Crew *c) {
  c->left--;
  if (c->fastest == 0 || c->all < c->fastest) c->fastest = c->all;
  bool slow = c->all > DISTURBED * c->fastest, trial = wants_trial(c, slow && !c->slow);
  c->slow = slow;
  c->tried |= trial;
  enter(c, trial ? CREW_TRY_ONE : CREW_ALL);
}

static void window_of_one(Crew *c) { enter(c, --c->left <= 0 ? CREW_TRY_ALL : CREW_ONE); }

void crew_note(Crew *c, double seconds) {
  bool trial = c->state == CREW_TRY_ONE || c->state == CREW_TRY_ALL;
  if (c->steps++ > 0) c->spent += seconds;
  if (c->steps < FEWEST || (c->spent < ENOUGH && c->steps < (trial ? TRIAL : WINDOW))) return;
  double *mean = crew_is_one(c) ? &c->one : &c->all;
  *mean = c->spent / (double)(c->steps - 1);
  switch (c->state) {
  case CREW_ALL: window_of_all(c); break;
  case CREW_ONE: window_of_one(c); break;
  case CREW_TRY_ONE:
    if (c->one < c->all)
      enter(c, CREW_TRY_ALL);
    else
      settle(c, CREW_ALL);
    break;
  case CREW_TRY_ALL: settle(c, c->all < c->one ? CREW_ALL : CREW_ONE); break;
  }
}
