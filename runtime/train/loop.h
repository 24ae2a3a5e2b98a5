// Functions that training (loop.c) and evaluation (evaluate.c) share.
#ifndef RUNTIME_LOOP_H
#define RUNTIME_LOOP_H

#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint.h"

// Writes a batch of f to the inputs of e; `data` has the elements of each input (feed_next).
void give_batch(Exec *e, Feed *f, const void **data);

#endif
