// What the files of training and evaluation share.
#ifndef RUNTIME_LOOP_H
#define RUNTIME_LOOP_H

#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint.h"

// Hands a batch to the program's inputs.
void give_batch(Exec *e, Feed *f, const void **data);
// Says why a step ended other than STEP_OK; the exit code.
int report_step_fault(const Exec *e, StepResult r, Diag *d);

#endif
