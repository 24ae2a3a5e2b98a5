// Private: steps with asynchronous updates (stale.c), which the training loop runs.
#ifndef RUNTIME_STALE_H
#define RUNTIME_STALE_H

#include "runtime/exec/exec_internal.h"

typedef struct Stale Stale;
// Prepares the groups of this process, and the memory that all ranks of the machine share. All
// ranks call it together. Returns NULL after an error in d. Free it with stale_close.
Stale *stale_open(const TrainJob *job, Diag *d);
void stale_close(Stale *s);
// Runs the replicas from step `from`, until all have done `to` steps or, if a rank has been asked
// to stop, fewer: *done gets how many. All ranks call it together, and meet at its end. Returns an
// exit code, after an error in d.
int stale_run(Stale *s, int64_t from, int64_t to, int64_t *done, Diag *d);
// Compares the bytes that were sent and got with the predicted ones. Returns false after an error.
MUST_USE bool stale_check(const Stale *s, Diag *d);

#endif
