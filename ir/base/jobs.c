// Independent pieces of work that run on several threads: a queue of jobs from which each thread
// takes the next (jobs.h).
#include "ir/base/jobs.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

struct Jobs {
  pthread_mutex_t lock;
  pthread_cond_t changed; // a job was added, or the last one has ended
  Job *first, **end;      // the jobs that have not begun
  int busy;               // jobs that run
  bool running;           // within jobs_run
  bool failed;            // a job had a failure, which is in `failure`
  Failure failure;
  int threads, started; // the most threads beside the caller; those that were started
  pthread_t *thread;
};

Jobs *jobs_new(Arena *a, int threads) {
  Jobs *j = arena_new_of(a, Jobs);
  *j = (Jobs){.end = &j->first, .threads = threads > 1 ? threads - 1 : 0};
  j->thread = arena_array(a, pthread_t, j->threads);
  return j;
}

// Takes the next job. Waits while there is none, but a job that runs may add one. Returns NULL when
// all have ended, or one has failed.
static Job *take(Jobs *j) {
  while (!j->first && j->busy && !j->failed) pthread_cond_wait(&j->changed, &j->lock);
  Job *job = j->failed ? NULL : j->first;
  if (!job) return NULL;
  j->first = job->next;
  if (!j->first) j->end = &j->first;
  j->busy++;
  return job;
}

static void run_all(Jobs *j) {
  Failure why;
  pthread_mutex_lock(&j->lock);
  for (Job *job = take(j); job; job = take(j)) {
    pthread_mutex_unlock(&j->lock);
    bool good = guard_run(job->work, job->context, &why);
    pthread_mutex_lock(&j->lock);
    if (!good && !j->failed) j->failure = why;
    j->failed |= !good;
    if (--j->busy == 0 || !good) pthread_cond_broadcast(&j->changed);
  }
  pthread_mutex_unlock(&j->lock);
}

// A thread says nothing of what it does (mem_doing) before its first job does: a message about
// memory then says what the process does.
static void *thread_main(void *jobs) {
  run_all(jobs);
  return NULL;
}

// Returns the size of the stack of the main thread, which may be larger than that of other threads.
static size_t stack_bytes(void) {
  enum { UNLIMITED = 64 << 20 };
  struct rlimit limit;
  bool known = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < UNLIMITED;
  return known ? (size_t)limit.rlim_cur : UNLIMITED;
}

// Signals of faults in the code of the thread itself.
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// Starts one more thread, if there may be one. It gets no other signals than those of faults:
// handlers of the process run in its own threads.
static void start_thread(Jobs *j) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (j->started == j->threads || pthread_attr_init(&attributes) != 0) return;
  (void)pthread_attr_setstacksize(&attributes, stack_bytes()); // refused if it is very small
  sigfillset(&all);
  for (size_t i = 0; i < countof(faults); i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before); // the new thread inherits the mask
  if (pthread_create(&j->thread[j->started], &attributes, thread_main, j) == 0)
    j->started++;
  else
    j->threads = j->started;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
}

void jobs_add(Jobs *j, Job *job) {
  job->next = NULL;
  if (j->running) pthread_mutex_lock(&j->lock);
  *j->end = job;
  j->end = &job->next;
  if (!j->running) return;
  if (!j->failed) start_thread(j);
  pthread_cond_signal(&j->changed);
  pthread_mutex_unlock(&j->lock);
}

void jobs_run(Jobs *j) {
  pthread_mutex_init(&j->lock, NULL);
  pthread_cond_init(&j->changed, NULL);
  pthread_mutex_lock(&j->lock);
  j->running = true;
  for (Job *job = j->first; job && job->next; job = job->next) start_thread(j);
  pthread_mutex_unlock(&j->lock);
  run_all(j);
  for (int i = 0; i < j->started; i++) pthread_join(j->thread[i], NULL);
  pthread_cond_destroy(&j->changed);
  pthread_mutex_destroy(&j->lock);
  j->running = false;
  j->started = 0;
  if (j->failed) guard_raise(&j->failure);
}
