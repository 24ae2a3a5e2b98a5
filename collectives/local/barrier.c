// A barrier for threads: a generation counter, on which waiters spin and then sleep by a futex.
//
// The last thread to arrive advances the generation. With fewer cores than workers a waiter does
// not spin, because it would occupy the core that a late worker needs.
#include "collectives/local/comm.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 2000 };

struct Barrier {
  _Alignas(64) atomic_uint arrived;
  _Alignas(64) _Atomic(uint32_t) generation;
  atomic_uint sleepers;
  unsigned workers;
  bool spin;
};

_Static_assert(sizeof(_Atomic(uint32_t)) == 4, "a futex is 32 bits");

Barrier *barrier_new(int workers, bool spin) {
  Barrier *b = mem_aligned(64, (sizeof *b + 63) / 64 * 64);
  atomic_init(&b->arrived, 0);
  atomic_init(&b->generation, 0);
  atomic_init(&b->sleepers, 0);
  b->workers = (unsigned)workers;
  b->spin = spin;
  return b;
}

void barrier_free(Barrier *b) { free(b); }

static void release_all(Barrier *b, uint32_t generation) {
  atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);
  atomic_store(&b->generation, generation + 1);
  // This load and the increment of `sleepers` in sleep_until are sequentially consistent. So either
  // this thread sees the sleeper, or the kernel sees the new generation and does not let it sleep.
  if (atomic_load(&b->sleepers) > 0)
    syscall(SYS_futex, &b->generation, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static void sleep_until(Barrier *b, uint32_t generation) {
  atomic_fetch_add(&b->sleepers, 1);
  while (atomic_load(&b->generation) == generation)
    syscall(SYS_futex, &b->generation, FUTEX_WAIT_PRIVATE, generation, NULL, NULL, 0);
  atomic_fetch_sub(&b->sleepers, 1);
}

void barrier_wait(Barrier *b) { barrier_wait_working(b, NULL, NULL); }

void barrier_wait_working(Barrier *b, BarrierWork *work, void *context) {
  if (b->workers <= 1) return;
  uint32_t generation = atomic_load_explicit(&b->generation, memory_order_relaxed);
  if (atomic_fetch_add(&b->arrived, 1) + 1 == b->workers) {
    release_all(b, generation);
    return;
  }
  bool works = b->spin && work;
  while (works && atomic_load_explicit(&b->generation, memory_order_acquire) == generation)
    works = work(context);
  for (int i = 0; b->spin && i < SPINS; i++) {
    if (atomic_load_explicit(&b->generation, memory_order_acquire) != generation) return;
    spin_pause();
  }
  sleep_until(b, generation);
}
