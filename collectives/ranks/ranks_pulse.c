// Life signs of a rank: a thread advances a counter on the board while the process runs, also where
// the rank compiles for minutes between two meetings. A process that is stopped, frozen or dead
// advances nothing. The leader of a machine sends life signs to the leaders of the others, too.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PULSE_NANOSECONDS = 100000000, BEAT_PULSES = 5, STACK = 256 << 10 };

typedef struct Pulse {
  Ranks *ranks;
  pthread_t thread;
  _Atomic(uint32_t) over;
  int nleaders, *leader; // of the other machines; none where this rank does not lead its own
} Pulse;

static void *beat(void *context) {
  Pulse *p = context;
  const struct timespec period = {0, PULSE_NANOSECONDS};
  atomic_uint *pulse = &p->ranks->board->rank[p->ranks->index].pulse;
  while (!atomic_load(&p->over)) {
    unsigned n = atomic_fetch_add(pulse, 1);
    if (p->nleaders > 0 && n % BEAT_PULSES == 0) p->ranks->transport->beat(p->nleaders, p->leader);
    syscall(SYS_futex, &p->over, FUTEX_WAIT_PRIVATE, 0, &period, NULL, 0);
  }
  return NULL;
}

static void find_leaders(Pulse *p) {
  const Ranks *r = p->ranks;
  if (r->machines == 1 || r->index != 0) return;
  p->leader = mem_zeroed((size_t)r->machines, sizeof *p->leader);
  for (int m = 0; m < r->machines; m++)
    if (m != r->machine) p->leader[p->nleaders++] = r->leader[m];
}

// The thread takes no signals.
static bool start_thread(Pulse *p) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&p->thread, &attributes, beat, p) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

static void pulse_free(Pulse *p) {
  if (p) free(p->leader);
  free(p);
}

bool pulse_start(Ranks *r) {
  Pulse *p = mem_zeroed(1, sizeof *p);
  p->ranks = r;
  find_leaders(p);
  if (start_thread(p)) {
    r->pulse = p;
    return true;
  }
  pulse_free(p);
  return false;
}

void pulse_end(Ranks *r) {
  Pulse *p = r->pulse;
  if (!p) return;
  r->pulse = NULL;
  atomic_store(&p->over, 1);
  syscall(SYS_futex, &p->over, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  pthread_join(p->thread, NULL);
  pulse_free(p);
}
