// Private to the executor: running sums and maxima, sorting and top_k, row by row. A row is the
// elements along the ordered dim at one index of the other dims.
#ifndef RUNTIME_ORDERED_H
#define RUNTIME_ORDERED_H

#include "ir/program/ordered_flags.h"
#include "ir/program/program.h"

typedef struct BoundOrdered {
  const Ordered *what;
  const char *src;
  char *dst;
  int64_t n, rows;
  int64_t count[MAX_RANK]; // number of iterations of each loop over rows, the outermost first
} BoundOrdered;

// Returns how many rows of a cumsum, argsort or similar instruction are computed together. The
// number of rows that a worker (thread) computes should be a multiple of the result.
int64_t ordered_unit(const BoundOrdered *b);
// Computes rows lo..hi-1 of a cumsum, argsort, top_k or similar instruction. `scratch` is work
// memory of program_scratch bytes. Results do not depend on how rows are divided among workers. If
// a row has fewer than k elements, top_k gives index 0 for the missing ones.
void ordered_run(const BoundOrdered *b, int64_t lo, int64_t hi, void *scratch);

#endif
