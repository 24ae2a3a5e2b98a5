// Functions that training (loop.c) and evaluation (evaluate.c) share.
#ifndef RUNTIME_LOOP_H
#define RUNTIME_LOOP_H

#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint.h"

// Writes a batch of f to the inputs of e; `data` has the elements of each input (feed_next).
void give_batch(Exec *e, Feed *f, const void **data);
// Adds the error of a step that did not end with STEP_OK, as exec_fault, and where in the data of f
// the row with a bad index is. Since the batch of the step, f has given `since` more. f may be
// NULL.
void step_fault(const Exec *e, const Feed *f, int64_t since, Diag *d);
// The same for a step of e with the rows of replica number `replica` of `replicas`, an equal part
// of the batch.
void replica_fault(const Exec *e, const Feed *f, int64_t since, int64_t replica, int64_t replicas,
                   Diag *d);

#endif
