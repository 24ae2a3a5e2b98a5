// What a step would cost under another mesh or layout (a what-if): the selected graph is compiled
// under it, without machine code, and the program is simulated. Input: a loaded session and the
// selected graph. Output: a Foreseen. Every what-if that a command prints comes from here, and is
// therefore equal to what `check` and `explain` print under that mesh and layout.
#ifndef FRONTEND_FORESEE_H
#define FRONTEND_FORESEE_H

#include "frontend/driver/session.h"
#include "partition/search/search.h"

// What the collectives over one set of axes cost a processor in a step.
typedef struct ForeseenAxes {
  Axes axes;
  int64_t calls, bytes; // bytes: those that one processor sends
  double seconds;       // of the calls alone, also where computation hides them
} ForeseenAxes;

// The figures of a step under one mesh and layout. Bytes and flops are those of one processor.
typedef struct Foreseen {
  SearchChoice choice;    // the mesh and the layout; its estimated cost is set by the search only
  int64_t calls, bytes;   // collective calls, and the bytes sent in them
  uint32_t nover;         // number of sets of axes over which something is sent
  ForeseenAxes *over;     // what is sent over each of them, in program order
  const CollFacts *facts; // all calls, in program order; their field `why` is NULL
  int64_t kept;           // bytes of parameters and of optimizer states
  int64_t peak;           // peak memory in bytes
  bool fits;              // peak is at most --memory, or without it the memory of the machine
  PartitionFacts work;    // flops, also those that are redundant or rematerialise values
  int again;              // the recompute level chosen for the memory (Compilation.again), 0: none
  double recomputed;      // share of the forward pass that this level recomputes, 0 to 1
  const char *again_text; // what it recomputes; "": nothing
  const Simulation *time; // predicted seconds and their parts; `of` is NULL
} Foreseen;
// Compiles the selected graph under the mesh and layout of f->choice, which must be a valid layout
// of the graph (layout_check), and simulates the program. Fills the other fields of *f but
// choice.cost; what they point to is in the session's arena. Memory that the compile needs is
// freed. Returns false after an error.
MUST_USE bool foresee_step(Session *s, const Selected *of, Foreseen *f);
// Fills *f with the figures of `made`, which is compiled at least up to stage "program" under the
// session's own mesh and layout. Returns false after an error.
MUST_USE bool foresee_made(const Session *s, const Compilation *made, Foreseen *f);
// Returns the figures of *f as the price of a whole program. Its field `again` is 0.
SearchPrice foreseen_price(const Foreseen *f);

#endif
