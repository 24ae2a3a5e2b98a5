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
  int64_t count[MAX_RANK]; // of the loops over rows
} BoundOrdered;

// Rows that are best dealt out together.
int64_t ordered_unit(const BoundOrdered *b);
// Rows lo..hi-1, with program_scratch bytes of scratch. Results do not depend on how rows are
// divided. Of fewer than k elements the places of a top_k that are left over get index 0.
void ordered_run(const BoundOrdered *b, int64_t lo, int64_t hi, void *scratch);

#endif
