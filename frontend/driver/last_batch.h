// The last, incomplete batch of an evaluation: as if the model ran with --set of its size.
#ifndef FRONTEND_LAST_BATCH_H
#define FRONTEND_LAST_BATCH_H

#include "frontend/driver/session.h"

// A program for that many rows; `rows` 0: there is none, the program for whole batches runs with
// fewer rows.
typedef struct LastBatch {
  int64_t rows;
  const Graph *graph;
  Compilation made;
  Exec *exec; // shares the persistent tensors of the other
} LastBatch;

// The model with that many rows of dim `over`, the last of `all`. NULL after an error: it has no
// such size.
Model *last_batch_model(Session *s, const char *over, int64_t rows, int64_t all);
// Whether the graph `whole` with fewer rows gives just what `last` does, which is the same
// selection of last_batch_model's.
bool last_batch_fits(Arena *a, const Graph *whole, const Graph *last, DimId over);
// Whether what the two selections hand out is put together in the same way.
bool last_batch_alike(const EvalMetric *whole, const EvalMetric *last);
// Says it where parameters or states have rows of their own, of which an incomplete batch reads the
// first: a warning when the program for whole batches does that (`fits`), else an error and false.
MUST_USE bool last_batch_sized(const Session *s, const Graph *whole, const Graph *last, bool fits);
// Compiles `last` for these rows; its tensors are those of `share`, whose program is `shared`.
// False after an error.
MUST_USE bool last_batch_open(Session *s, const Graph *last, int64_t rows, const Exec *share,
                              const Program *shared, LastBatch *out);
void last_batch_free(LastBatch *b);

#endif
