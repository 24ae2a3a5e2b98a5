// Heartbeats of a rank: a thread advances a counter in the rendezvous as long as the process runs,
// also while the rank compiles for minutes between two meetings. The leader of a machine also sends
// heartbeats to the leaders of the others.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { HEARTBEAT_NANOSECONDS = 100000000, SEND_PERIOD = 5, STACK = 256 << 10 };

typedef struct Heartbeat {
  Ranks *ranks;
  pthread_t thread;
  _Atomic(uint32_t) over;
  // the ranks to which this rank sends heartbeats: if it is the leader of its machine, the leaders
  // of the other machines; otherwise none
  int nleaders, *leader;
} Heartbeat;

static void *send_heartbeats(void *context) {
  Heartbeat *p = context;
  const struct timespec period = {0, HEARTBEAT_NANOSECONDS};
  atomic_uint *heartbeat = &p->ranks->rendezvous->rank[p->ranks->index].heartbeat;
  while (!atomic_load(&p->over)) {
    unsigned n = atomic_fetch_add(heartbeat, 1);
    if (p->nleaders > 0 && n % SEND_PERIOD == 0)
      p->ranks->transport->send_heartbeats(p->nleaders, p->leader);
    syscall(SYS_futex, &p->over, FUTEX_WAIT_PRIVATE, 0, &period, NULL, 0);
  }
  return NULL;
}

static void find_leaders(Heartbeat *p) {
  const Ranks *r = p->ranks;
  if (r->machines == 1 || r->index != 0) return;
  p->leader = mem_zeroed((size_t)r->machines, sizeof *p->leader);
  for (int m = 0; m < r->machines; m++)
    if (m != r->machine) p->leader[p->nleaders++] = r->leader[m];
}

bool thread_without_signals(pthread_t *thread, void *(*work)(void *), void *context) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // the new thread inherits the mask
  bool started = pthread_create(thread, &attributes, work, context) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

static void heartbeat_free(Heartbeat *p) {
  if (p) free(p->leader);
  free(p);
}

bool heartbeat_start(Ranks *r) {
  Heartbeat *p = mem_zeroed(1, sizeof *p);
  p->ranks = r;
  find_leaders(p);
  if (thread_without_signals(&p->thread, send_heartbeats, p)) {
    r->heartbeat = p;
    return true;
  }
  heartbeat_free(p);
  return false;
}

void heartbeat_end(Ranks *r) {
  Heartbeat *p = r->heartbeat;
  if (!p) return;
  r->heartbeat = NULL;
  atomic_store(&p->over, 1);
  syscall(SYS_futex, &p->over, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  pthread_join(p->thread, NULL);
  heartbeat_free(p);
}
