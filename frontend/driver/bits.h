// Which results of a program have equal bits under which circumstances: in each run, with any
// number of threads, on one processor as on the mesh; and what --exact, which makes them equal on
// every mesh, would cost. Input: a compile up to stage "program". Output: BitsFacts; JSON.
//
// Sums are the reason for different bits: floats that are added in another order round otherwise.
// The facts are derived from the graph of one processor, after its collectives are chosen:
//
//   apart    sums whose terms are on several processors: each adds up its own, and a collective adds
//            those; so the order of additions is another one than on one processor
//   resized  sums whose terms are all on one processor, which has only a block of the results. The
//            size of blocks decides whether a product is one of the library and how vectors lie: so
//            the order may be another one
//
// Values that depend on no such sum have the bits of one processor. All else is computed element by
// element, alike in every kernel; random numbers depend on their global position.
#ifndef FRONTEND_BITS_H
#define FRONTEND_BITS_H

#include "frontend/driver/foresee.h"
#include "ir/base/map.h"

// A sum, by the value that it belongs to. Values of all rounds of a loop are one entry, with a
// star.
typedef struct BitsSum {
  const char *value; // interned
  Pos pos;           // of the line that computes it
} BitsSum;
typedef struct BitsSums {
  BitsSum *at;
  uint32_t n, cap;
  NameMap known; // their values
} BitsSums;

typedef struct BitsFacts {
  bool exact; // compiled with --exact
  bool gpu;
  bool raced; // a training in which groups of processors update parameters in any order
  BitsSums apart, resized;
  // Products that OpenBLAS computes on this machine. It divides sums by the size of the share of a
  // thread, so their bits may depend on the number of threads.
  BitsSums library;
  VEC(const char *) equal; // results and updated tensors that have the bits of one processor
  uint32_t outputs;        // number of all results and updated tensors
  // What --exact costs: the step now, and with it. Empty if the second is not known.
  Foreseen now, with_exact;
  const char *no_exact; // why with_exact is not known; NULL: it is
} BitsFacts;

// Fills *out with the facts of a compile of the graph `of`, in the session's arena. Returns false
// after an error.
MUST_USE bool bits_find(Session *s, const Selected *of, const Compilation *made, BitsFacts *out);
// Returns the facts as a new JSON object.
json_t *bits_json(const Session *s, const BitsFacts *b);

#endif
