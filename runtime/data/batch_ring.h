// A ring of batches between the thread that reads data and the thread that uses them. While both
// keep up, a batch changes hands by one atomic counter: nobody takes a lock or wakes a thread. The
// reader sleeps when all slots are full, and is woken when a quarter of them is empty, so that it
// is woken once for many small batches.
//
//   slot      0     1     2     3     4     5     6     7
//           used  ready ready ready  being filled ... free
//             |                        |
//          released                  filled           counts of batches, modulo the slots
#ifndef RUNTIME_BATCH_RING_H
#define RUNTIME_BATCH_RING_H

#include "runtime/runtime_internal.h"

typedef struct BatchRing BatchRing;
typedef struct Batch {
  void **data;  // by input: the elements of the batch
  int64_t rows; // of the batch; 0: the end of an epoch; -1: reading failed
} Batch;

// Returns a ring of batches with n inputs, of bytes[i] bytes each. The caller frees it with
// ring_free. Until the first call of ring_take only a few slots are filled, for it is not known yet
// which rows are used.
BatchRing *ring_new(uint32_t n, const int64_t *bytes);
void ring_free(BatchRing *r); // NULL is allowed; no thread uses the ring any more

// The reader: returns the next slot to fill, after waiting until one is free. Returns NULL when the
// ring is stopped.
Batch *ring_claim(BatchRing *r);
// The reader: hands over the slot of the last ring_claim, with `rows` rows.
void ring_hand_over(BatchRing *r, int64_t rows);

// The user: gives back the batch of the last call and returns the next one, after waiting until it
// is filled. A batch with -1 rows is returned by every later call, too.
const Batch *ring_take(BatchRing *r);
// Returns the seconds that ring_take has waited. The user calls it.
double ring_wait_seconds(const BatchRing *r);

// Any thread: makes ring_claim return NULL from now on.
void ring_stop(BatchRing *r);
// Empties a stopped ring, which no reader uses, and lets it begin anew.
void ring_restart(BatchRing *r);

#endif
