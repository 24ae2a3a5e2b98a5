// What to do about a step that needs too much memory: the largest values at its peak, and the
// cheapest ways out with their costs, as notes of an error. Input: a compilation that does not
// fit.
#ifndef FRONTEND_MEMORY_REMEDIES_H
#define FRONTEND_MEMORY_REMEDIES_H

#include "frontend/driver/foresee.h"

// A changed step that needs less memory: with one further layout rule or more, or with
// micro-batches.
typedef struct MemoryWay {
  const char *option;    // "--layout \"b=rows,d=cols\"", "--set train.accumulate=4"
  int64_t micro_batches; // the number of micro-batches; 0: as many as the model has
  bool limited; // `at` is compiled with the limit as its budget, otherwise without a budget
  Foreseen at;  // the mesh, the layout and the figures of the step
} MemoryWay;

typedef struct MemoryWays {
  double most;      // the limit, in bytes
  double seconds;   // predicted time of the program that does not fit
  double unlimited; // predicted time of the step without a budget; 0: unknown
  uint32_t n;       // number of ways; all of them fit, or there is one that does not
  MemoryWay *way;   // the fastest first
} MemoryWays;

// Adds to the last message of s->diag notes that name the values that program c holds at its peak.
void memory_note_values(Session *s, const Compilation *c);
// Compiles steps with one further rule, and with micro-batches if the model computes the same with
// them, and returns those that need at most `most` bytes, in the session's arena. If no layout
// fits, adds rules one by one. If nothing fits, returns the layout with more rules that needs
// least. Returns NULL for steps of very many operations.
const MemoryWays *memory_ways(Session *s, const Compilation *c, double most);
// Adds to the last message of s->diag a note for each of the ways, with its peak and predicted
// time. w may be NULL.
void memory_note_ways(Session *s, const MemoryWays *w);
// Returns the predicted time of the program that does not fit as text, compared with the step
// without a budget: "step 38.2 ms (+10.3 %)". Returns "" if it is not known. w may be NULL.
const char *memory_cost(Session *s, const MemoryWays *w);

#endif
