// Small models that are compiled and run to measure a machine. A figure of a machine file is chosen
// so that the simulator gives the measured time of such a model.
#ifndef FRONTEND_MEASURE_H
#define FRONTEND_MEASURE_H

#include "frontend/driver/session.h"

// The best time of a probe (one small model). All probes are repeated in several sweeps, so that a
// disturbance by another process affects only one sweep.
typedef struct Probed {
  const char *text;
  double seconds;
  const Compiled *made;
} Probed;

enum { MOST_PROBES = 32 };
typedef struct Sweep {
  Session *s;
  Machine m; // the figures so far
  // For CPUs only:
  int processors;
  double contexts; // number of processors of the mesh that each core runs, one after another
  double empty;    // seconds of a step that computes almost nothing
  // For all:
  int nprobes;
  Probed probed[MOST_PROBES];
} Sweep;

// Compiles a model and measures the seconds of its step, or only of the instructions of `kind` in
// it; INSTR_END means the whole step. Returns the probe with its best time so far, or NULL after an
// error. `text` must live as long as b. `steps` steps are timed together.
const Probed *sweep_probe(Sweep *b, const char *text, int64_t steps, InstrKind kind);
// As sweep_probe; *out gets the seconds. Returns false after an error.
MUST_USE bool sweep_time(Sweep *b, const char *text, int64_t steps, InstrKind kind, double *out);
// Returns the simulated seconds of all instructions of a kind.
double sweep_simulated(const Sweep *b, const Probed *p, InstrKind kind, const Machine *m);
// Chooses *figure, one of the figures of b->m, between low and high, so that the instructions of a
// kind take their measured time. A higher figure makes the simulated time shorter; one that does
// not change it stays as it is.
void sweep_fit(const Sweep *b, const Probed *p, InstrKind kind, double low, double high,
               double *figure);
// Returns how `doctor --measure` finds this figure of a machine file, on a GPU or on this CPU, in
// words. Returns NULL if there is no such figure.
const char *measure_note(const char *figure, bool gpu);

#endif
