// Private to the executor: running sums and maxima, sorting and the k largest, row by row.
#ifndef RUNTIME_ORDERED_H
#define RUNTIME_ORDERED_H

#include "ir/program/ordered_flags.h"
#include "ir/program/program.h"

typedef struct BoundOrdered {
  const Ordered *what;
  const char *src;
  char *dst;
  int64_t n, rows;
  int64_t count[MAX_RANK]; // number of steps of each loop over rows, the outermost first
} BoundOrdered;

// Returns the number of rows that one worker should get together, because they are computed
// together.
int64_t ordered_unit(const BoundOrdered *b);
// Computes rows lo..hi-1. `scratch` has program_scratch bytes. Results do not depend on how rows
// are divided among workers. If a row has fewer than k elements, top_k fills its result up with
// index 0.
void ordered_run(const BoundOrdered *b, int64_t lo, int64_t hi, void *scratch);

#endif
