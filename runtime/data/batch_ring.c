// The ring of batches (batch_ring.h): a queue with one writer and one reader, which sleep by a lock
// and conditions only if they have nothing to do.
//
// Each side stores its counter, then looks whether the other one sleeps. A side that is about to
// sleep says so, then looks at the counter of the other one. These accesses are sequentially
// consistent, so at least one of the two sees the other (Dekker), and no wake-up is lost.
#include "runtime/data/batch_ring.h"

#include "collectives/local/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
  BYTES = 8 << 20, // of all slots, if more than LEAST fit
  LEAST = 3,
  MOST = 1024, // numbers of slots
  BEFORE = 2,  // slots that are filled before the first ring_take
  SPINS = 200, // polls of ring_take before it sleeps: a few microseconds
  LINE = 64    // bytes of a cache line
};

struct BatchRing {
  uint32_t inputs;
  int slots, spins;
  Batch *batch;         // `slots` batches
  pthread_mutex_t lock; // held to sleep and to wake
  pthread_cond_t emptied, ready;
  atomic_bool reader_sleeps, user_sleeps, stopped;
  atomic_bool asked; // ring_take has been called
  // Of the reader, in cache lines of its own: the number of batches filled so far, and the last
  // number of batches given back that it has seen. It looks again when the ring seems to be full.
  _Alignas(LINE) atomic_llong filled;
  int64_t seen_released;
  // Of the user, likewise.
  _Alignas(LINE) atomic_llong released;
  int64_t seen_filled;
  bool in_use;   // it has the batch in slot `released`
  double waited; // seconds
};

BatchRing *ring_new(uint32_t n, const int64_t *bytes) {
  BatchRing *r = mem_aligned(LINE, ceil_div(sizeof *r, LINE) * LINE);
  int64_t all = 1;
  for (uint32_t i = 0; i < n; i++) all += bytes[i];
  *r = (BatchRing){.inputs = n, .slots = (int)clamp64(BYTES / all, LEAST, MOST)};
  r->spins = cores_available() > 1 ? SPINS : 0;
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->emptied, NULL);
  pthread_cond_init(&r->ready, NULL);
  r->batch = mem_zeroed((size_t)r->slots, sizeof *r->batch);
  for (int k = 0; k < r->slots; k++) {
    r->batch[k].data = mem_zeroed(n + 1u, sizeof(void *));
    for (uint32_t i = 0; i < n; i++) r->batch[k].data[i] = mem_alloc((size_t)bytes[i] + 1);
  }
  return r;
}

void ring_free(BatchRing *r) {
  if (!r) return;
  for (int k = 0; k < r->slots; k++) {
    for (uint32_t i = 0; i < r->inputs; i++) free(r->batch[k].data[i]);
    free(r->batch[k].data);
  }
  free(r->batch);
  pthread_cond_destroy(&r->emptied);
  pthread_cond_destroy(&r->ready);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

void ring_stop(BatchRing *r) {
  pthread_mutex_lock(&r->lock);
  atomic_store(&r->stopped, true);
  pthread_cond_signal(&r->emptied);
  pthread_mutex_unlock(&r->lock);
}

void ring_restart(BatchRing *r) {
  r->in_use = false;
  r->seen_filled = r->seen_released = 0;
  atomic_store(&r->filled, 0);
  atomic_store(&r->released, 0);
  atomic_store(&r->asked, false);
  atomic_store(&r->stopped, false);
}

// -- the reader -----------------------------------------------------------------------------------

static int64_t batches_filled(BatchRing *r) {
  return atomic_load_explicit(&r->filled, memory_order_relaxed); // the reader alone writes it
}

static bool is_full(BatchRing *r) {
  int64_t most = atomic_load(&r->asked) ? r->slots : BEFORE, filled = batches_filled(r);
  if (filled - r->seen_released < most) return false;
  r->seen_released = atomic_load(&r->released);
  return filled - r->seen_released >= most;
}

static void sleep_while_full(BatchRing *r) {
  pthread_mutex_lock(&r->lock);
  atomic_store(&r->reader_sleeps, true);
  if (!is_full(r)) atomic_store(&r->reader_sleeps, false);
  while (atomic_load(&r->reader_sleeps) && !atomic_load(&r->stopped))
    pthread_cond_wait(&r->emptied, &r->lock);
  atomic_store(&r->reader_sleeps, false);
  pthread_mutex_unlock(&r->lock);
}

Batch *ring_claim(BatchRing *r) {
  // A wake-up may come late, and be meant for an earlier sleep: look again.
  while (!atomic_load(&r->stopped) && is_full(r)) sleep_while_full(r);
  if (atomic_load(&r->stopped)) return NULL;
  return &r->batch[batches_filled(r) % r->slots];
}

void ring_hand_over(BatchRing *r, int64_t rows) {
  r->batch[batches_filled(r) % r->slots].rows = rows;
  atomic_fetch_add(&r->filled, 1);
  if (!atomic_load(&r->user_sleeps)) return;
  pthread_mutex_lock(&r->lock);
  pthread_cond_signal(&r->ready);
  pthread_mutex_unlock(&r->lock);
}

// -- the user -------------------------------------------------------------------------------------

static void wake_reader(BatchRing *r) {
  pthread_mutex_lock(&r->lock);
  atomic_store(&r->reader_sleeps, false);
  pthread_cond_signal(&r->emptied);
  pthread_mutex_unlock(&r->lock);
}

// Gives back the batch in use. A reader that sleeps is woken when a quarter of the slots is empty:
// it is woken rarely, and has the time of the other batches until it must be there.
static void release(BatchRing *r) {
  int64_t low = r->slots - 1 - r->slots / 4, released;
  released = atomic_fetch_add(&r->released, 1) + 1;
  if (atomic_load(&r->reader_sleeps) && atomic_load(&r->filled) - released <= low) wake_reader(r);
}

static void begin(BatchRing *r) {
  atomic_store(&r->asked, true);
  if (atomic_load(&r->reader_sleeps)) wake_reader(r);
}

// Waits until more than n batches have been filled.
static void wait_filled(BatchRing *r, int64_t n) {
  double began = clock_seconds();
  for (int i = 0; i < r->spins && atomic_load(&r->filled) == n; i++) spin_pause();
  if (atomic_load(&r->filled) == n) {
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->user_sleeps, true);
    while (atomic_load(&r->filled) == n) pthread_cond_wait(&r->ready, &r->lock);
    atomic_store(&r->user_sleeps, false);
    pthread_mutex_unlock(&r->lock);
  }
  r->waited += clock_seconds() - began;
}

const Batch *ring_take(BatchRing *r) {
  if (r->in_use) release(r);
  if (!atomic_load_explicit(&r->asked, memory_order_relaxed)) begin(r);
  int64_t n = atomic_load_explicit(&r->released, memory_order_relaxed);
  if (r->seen_filled == n) {
    if (atomic_load(&r->filled) == n) wait_filled(r, n);
    r->seen_filled = atomic_load(&r->filled);
  }
  const Batch *b = &r->batch[n % r->slots];
  r->in_use = b->rows >= 0; // the slot of an error is not given back
  return b;
}

double ring_wait_seconds(const BatchRing *r) { return r->waited; }
