// Team: the worker threads of a process. Worker 0 is the thread that calls team_run; the other
// workers sleep on a barrier between runs.
#include "runtime/runtime_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct TeamThread {
  Team *team;
  int worker;
  pthread_t thread;
} TeamThread;

struct Team {
  atomic_int users;
  int workers, started; // number of workers; number of threads started, one less when all run
  bool spin, failed;    // there is a core for every worker; not all threads could be started
  bool stop;            // true: the threads end. Written before a barrier and read after it
  pthread_mutex_t gate;
  Barrier *enter, *leave;
  TeamWork *work;
  void *context;
  TeamThread *thread;
};

static void *thread_main(void *p) {
  TeamThread *self = p;
  Team *t = self->team;
  pthread_mutex_lock(&t->gate);
  bool failed = t->failed;
  pthread_mutex_unlock(&t->gate);
  if (failed) return NULL;
  for (;;) {
    barrier_wait(t->enter);
    if (t->stop) return NULL;
    t->work(t->context, self->worker);
    barrier_wait(t->leave);
  }
}

// Starts all threads of a team but that of the caller. The caller holds the lock `gate`, for which
// new threads wait. If a thread cannot be started, those already started then see `failed` and end.
// Returns false if a thread cannot be started.
static bool start_threads(Team *t) {
  for (int w = 1; w < t->workers; w++) {
    t->thread[w] = (TeamThread){.team = t, .worker = w};
    if (pthread_create(&t->thread[w].thread, NULL, thread_main, &t->thread[w]) != 0) return false;
    t->started++;
  }
  return true;
}

static void join_threads(Team *t) {
  for (int w = 1; w <= t->started; w++) pthread_join(t->thread[w].thread, NULL);
}

static void team_destroy(Team *t) {
  pthread_mutex_destroy(&t->gate);
  barrier_free(t->enter);
  barrier_free(t->leave);
  free(t->thread);
  free(t);
}

Team *team_new(int workers) {
  Team *t = mem_zeroed(1, sizeof *t);
  atomic_init(&t->users, 1);
  pthread_mutex_init(&t->gate, NULL);
  t->workers = workers;
  t->spin = workers <= cores_available();
  t->thread = mem_zeroed((size_t)workers, sizeof *t->thread);
  t->enter = barrier_new(workers, t->spin);
  t->leave = barrier_new(workers, t->spin);
  pthread_mutex_lock(&t->gate);
  bool failed = t->failed = !start_threads(t);
  pthread_mutex_unlock(&t->gate);
  if (!failed) return t;
  join_threads(t);
  team_destroy(t);
  return NULL;
}

Team *team_share(Team *t) {
  atomic_fetch_add(&t->users, 1);
  return t;
}

void team_free(Team *t) {
  if (!t || atomic_fetch_sub(&t->users, 1) > 1) return;
  t->stop = true;
  barrier_wait(t->enter);
  join_threads(t);
  team_destroy(t);
}

int team_workers(const Team *t) { return t->workers; }
bool team_spins(const Team *t) { return t->spin; }

void team_run(Team *t, TeamWork *work, void *context) {
  t->work = work;
  t->context = context;
  barrier_wait(t->enter);
  work(context, 0);
  barrier_wait(t->leave);
}
