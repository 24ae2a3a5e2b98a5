// A pool of threads that share the rows of a batch. The threads sleep between batches.
#include "runtime/data/row_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ir/base/guard.h"

typedef struct PoolThread {
  RowPool *pool;
  int worker;
  pthread_t thread;
} PoolThread;

struct RowPool {
  int workers, busy; // number of threads; those that have not finished the run
  pthread_mutex_t lock;
  pthread_cond_t begin, done;
  uint64_t run; // number of runs that have begun
  bool stop;
  // the run
  RowWork *work;
  void *context;
  int64_t to;
  atomic_llong next; // the next row that no thread has taken
  atomic_bool failed;
  int64_t bad; // number of the first row that failed, or -1
  RowFault fault;
  bool broken; // a thread had a failure, which is in `failure`
  Failure failure;
  PoolThread *thread; // that of worker 0, the caller, is not used
};

// Takes rows until none is left. Rows are taken in order, so when row i fails, all rows before it
// have been taken, and the first row that fails is always found.
static void take_rows(void *thread) {
  PoolThread *t = thread;
  RowPool *p = t->pool;
  RowFault fault;
  while (!atomic_load(&p->failed)) {
    int64_t row = atomic_fetch_add(&p->next, 1);
    if (row >= p->to) return;
    if (p->work(p->context, t->worker, row, &fault)) continue;
    pthread_mutex_lock(&p->lock);
    if (p->bad < 0 || row < p->bad) p->bad = row, p->fault = fault;
    pthread_mutex_unlock(&p->lock);
    atomic_store(&p->failed, true);
  }
}

static void take_guarded(PoolThread *t) {
  RowPool *p = t->pool;
  Failure why;
  if (guard_run(take_rows, t, &why)) return;
  pthread_mutex_lock(&p->lock);
  p->broken = true;
  p->failure = why;
  pthread_mutex_unlock(&p->lock);
  atomic_store(&p->failed, true);
}

static void *thread_main(void *thread) {
  PoolThread *t = thread;
  RowPool *p = t->pool;
  uint64_t seen = 0;
  (void)mem_doing("reading data", NULL);
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->stop && p->run == seen) pthread_cond_wait(&p->begin, &p->lock);
    if (p->stop) break;
    seen = p->run;
    pthread_mutex_unlock(&p->lock);
    take_guarded(t);
    pthread_mutex_lock(&p->lock);
    if (--p->busy == 0) pthread_cond_signal(&p->done);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

RowPool *row_pool_new(int workers) {
  RowPool *p = mem_zeroed(1, sizeof *p);
  p->thread = mem_zeroed((size_t)workers, sizeof *p->thread);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->begin, NULL);
  pthread_cond_init(&p->done, NULL);
  p->thread[0] = (PoolThread){.pool = p};
  for (p->workers = 1; p->workers < workers; p->workers++) {
    PoolThread *t = &p->thread[p->workers];
    *t = (PoolThread){.pool = p, .worker = p->workers};
    if (pthread_create(&t->thread, NULL, thread_main, t) != 0) break;
  }
  return p;
}

int row_pool_workers(const RowPool *p) { return p->workers; }

bool row_pool_run(RowPool *p, int64_t from, int64_t to, RowWork *work, void *context,
                  RowFault *out) {
  pthread_mutex_lock(&p->lock);
  p->work = work;
  p->context = context;
  p->to = to;
  p->bad = -1;
  p->broken = false;
  atomic_store(&p->next, from);
  atomic_store(&p->failed, false);
  p->busy = p->workers - 1;
  p->run++;
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->lock);
  take_guarded(&p->thread[0]);
  pthread_mutex_lock(&p->lock);
  while (p->busy > 0) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
  if (p->broken) guard_raise(&p->failure);
  if (p->bad < 0) return true;
  *out = p->fault;
  return false;
}

void row_pool_free(RowPool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->lock);
  for (int w = 1; w < p->workers; w++) pthread_join(p->thread[w].thread, NULL);
  pthread_cond_destroy(&p->begin);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->lock);
  free(p->thread);
  free(p);
}
