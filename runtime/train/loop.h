// Shared by the files of training and evaluation.
#ifndef RUNTIME_LOOP_H
#define RUNTIME_LOOP_H

#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint.h"

// Writes a batch to the inputs of e.
void give_batch(Exec *e, Feed *f, const void **data);

#endif
