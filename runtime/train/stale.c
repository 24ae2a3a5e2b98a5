// Asynchronous updates with bounded staleness: Downpour SGD (Dean et al., "Large scale distributed
// deep networks", 2012), with the clocks of Ho et al. ("More effective distributed ML via a stale
// synchronous parallel parameter server", 2013).
//
// Every rank is a server of the shards of its processors, and a worker. A replica in step t
//   1. waits until no replica has finished `ahead` steps or more less than t;
//   2. gets the parameters of each server (pull);
//   3. computes the loss and gradients on its rows of batch t;
//   4. gives its gradients to each server, which updates its shards (push).
//
// The servers are TrainJob.train, each rank the one of its processors (stale_serve.c). The batches
// come from one feed a process (stale_batches.c).
//
// Replicas meet (stale_run returns) where a log line, an evaluation or a checkpoint is due. Then
// all updates of the same steps have been made, and the tensors are those of a training without
// servers.
#include "runtime/train/loop.h"
#include "runtime/train/stale_internal.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

// -- the steps of a group -----------------------------------------------------------------------

// Lowers the step that no group begins to the first that none has begun.
static void ask_to_stop(Stale *s) {
  StaleClocks *b = s->clocks;
  long long until = 0;
  for (int64_t g = 0; g < s->stale->groups; g++) {
    long long begun = atomic_load(&b->clock[g].begun);
    if (begun > until) until = begun;
  }
  if (until < atomic_load(&b->until)) atomic_store(&b->until, until);
}

// Returns how many steps the slowest group has finished.
static int64_t slowest(const Stale *s) {
  int64_t least = INT64_MAX;
  for (int64_t g = 0; g < s->stale->groups; g++) {
    int64_t done = atomic_load(&s->clocks->clock[g].done);
    if (done < least) least = done;
  }
  return least;
}

// Waits until the group may begin step t. Returns false if it does not: the run has failed, or all
// groups stop before.
static bool begin(StaleGroup *g, int64_t t) {
  Stale *s = g->s;
  StaleClocks *b = s->clocks;
  Waiting w = {0};
  if (atomic_load(&s->broken) || !lock_take(s, &b->lock)) return false;
  if (exec_stop_requested(s->servers)) ask_to_stop(s);
  bool goes = t < atomic_load(&b->until);
  if (goes) atomic_store(&b->clock[g->number].begun, t + 1);
  lock_release(&b->lock);
  while (goes) {
    unsigned ticks = atomic_load(&b->ticks);
    if (t < slowest(s) + s->stale->ahead) return true;
    goes = stale_wait(s, &b->ticks, ticks, &w);
  }
  return false;
}

static void finish(StaleGroup *g, int64_t t) {
  StaleClocks *b = g->s->clocks;
  atomic_store(&b->clock[g->number].done, t + 1);
  atomic_fetch_add(&b->ticks, 1);
  word_wake(&b->ticks, INT_MAX);
}

static void keep_shown(const StaleGroup *g, int64_t replica) {
  const TrainJob *j = g->s->job;
  for (uint32_t i = 0; i < j->nshown; i++)
    g->s->shown[replica * j->nshown + i] = exec_scalar(g->exec, j->shown[i]);
}

// Runs step t of one replica. Returns false after a failure, which g->result says.
static bool replica_step(StaleGroup *g, int64_t t, int64_t replica, const void *const *data) {
  Stale *s = g->s;
  int64_t number = (s->job->before + t) * s->stale->replicas + replica;
  g->result = STEP_FAILED;
  if (!pull(g)) return false;
  for (uint32_t i = 0; i < s->ninputs; i++)
    if (s->taken[i] >= 0)
      exec_write_tensor(g->exec, (uint32_t)s->taken[i], s->input[i].type,
                        rows_of(g, i, data[i], replica));
  g->result = exec_step(g->exec, number, true);
  if (g->result != STEP_OK) return false;
  keep_shown(g, replica);
  if (push(g, number)) return true;
  g->result = STEP_FAILED;
  return false;
}

static void *run_group(void *context) {
  StaleGroup *g = context;
  Stale *s = g->s;
  int64_t each = s->stale->replicas / s->stale->groups;
  g->result = STEP_OK;
  for (g->step = s->from; begin(g, g->step); g->step++) {
    const void *const *data;
    if (s->ranks) ranks_signal(s->ranks, g->step, 1);
    bool good = batch_get(s, g->step, &data);
    for (int64_t k = 0; good && k < each; k++) {
      g->replica = g->number * each + k;
      good = replica_step(g, g->step, g->replica, data);
    }
    if (!good) {
      atomic_store(&s->broken, true);
      return NULL;
    }
    finish(g, g->step);
  }
  return NULL;
}

// -- errors -------------------------------------------------------------------------------------

static int say_not_finite(const StaleGroup *g, Diag *d) {
  const TrainJob *j = g->s->job;
  const char *name = NULL;
  char number[METRIC_NUMBER];
  for (uint32_t i = j->nshown; i-- > 0;)
    if (!isfinite(exec_scalar(g->exec, j->shown[i]))) name = j->shown[i];
  diag_error(d, DIAG_NOT_FINITE, (Pos){0},
             "%s is %s in step %lld of replica %lld; the update of that step was not made",
             name ? name : "a gradient",
             name ? metric_number(exec_scalar(g->exec, name), number) : "not finite",
             (long long)g->step, (long long)g->replica);
  diag_hint(d, "try a lower learning rate, or look at the step without sync: --check finite names "
               "the operation where it begins");
  return diag_exit(d);
}

static int say_no_threads(Diag *d) {
  diag_error(d, DIAG_NO_MEMORY, (Pos){0}, "out of memory: the system starts no more threads");
  diag_hint(d, "use fewer replicas in a process, or raise the limit of processes (ulimit -u)");
  return diag_exit(d);
}

// Adds the error of the group of this process that has failed, or of the feed.
static int say_failed(Stale *s, Diag *d) {
  if (s->no_threads) return say_no_threads(d);
  if (s->batches.failed) {
    feed_fault(s->job->feed, d);
    return diag_exit(d);
  }
  for (int64_t k = 0; k < s->stale->own; k++) {
    StaleGroup *g = &s->group[k];
    if (g->result == STEP_NOT_FINITE) return say_not_finite(g, d);
    if (g->result == STEP_BAD_INDEX) {
      replica_fault(g->exec, s->job->feed, s->batches.next - 1 - g->step, g->replica,
                    s->stale->replicas, d);
      return diag_exit(d);
    }
  }
  (void)ranks_lost(d);
  return diag_exit(d);
}

// -- from one meeting to the next ---------------------------------------------------------------

// Waits until all groups have done all steps. Returns false once the run has failed.
static bool all_done(Stale *s) {
  StaleClocks *b = s->clocks;
  Waiting w = {0};
  for (;;) {
    unsigned ticks = atomic_load(&b->ticks);
    if (slowest(s) >= atomic_load(&b->until)) return true;
    if (!stale_wait(s, &b->ticks, ticks, &w)) return false;
  }
}

// Meets all ranks. Returns false once the run has failed.
static bool meet(Stale *s) {
  RankNote mine = {.what = NOTE_UPDATES, .sequence = s->meetings++};
  return !s->ranks || ranks_meet(s->ranks, &mine, false, NULL);
}

static void copy_kept(Stale *s, uint32_t from, StaleGroup *g, uint32_t to) {
  const ProgTensor *t = &s->servers->program->tensor[from];
  ShardRange all = {0, s->servers->processors, s->stale->over, g->number};
  int64_t n = dtype_bytes(t->type);
  for (int d = 0; d < t->rank; d++) n *= t->dim[d].whole;
  void *full = mem_alloc((size_t)n + 1);
  (void)exec_gather(s->servers, from, &all, full);
  exec_write_tensor(g->exec, to, t->type, full);
  free(full);
}

// Gives all parameters and states of the servers to the workers of this process, also those that no
// step changes. Nobody changes them meanwhile.
static void hand_out(Stale *s) {
  const Program *p = s->servers->program;
  for (int64_t k = 0; k < s->stale->own; k++) {
    StaleGroup *g = &s->group[k];
    for (uint32_t t = 0; t < p->ntensors; t++) {
      bool kept = p->tensor[t].kind == TENSOR_PARAM || p->tensor[t].kind == TENSOR_STATE;
      int32_t to =
          kept ? program_tensor(g->exec->program, p->tensor[t].kind, p->tensor[t].name) : -1;
      if (to >= 0) copy_kept(s, t, g, (uint32_t)to);
    }
  }
}

// Makes the copies of tensors that several servers have equal: each server has made the updates in
// its own order.
static void settle(Stale *s) {
  const Program *p = s->servers->program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    int64_t n = dtype_bytes(t->type);
    if (!tensor_is_persistent(p, i) || t->kind == TENSOR_CONSTANT ||
        block_replicas(&p->mesh, t) == 1)
      continue;
    for (int d = 0; d < t->rank; d++) n *= t->dim[d].whole;
    void *full = mem_zeroed((size_t)n + 1, 1);
    exec_read_tensor(s->servers, i, full);
    exec_write_tensor(s->servers, i, t->type, full);
    free(full);
  }
}

static void average_shown(Stale *s) {
  uint32_t n = s->job->nshown;
  for (uint32_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t k = 0; k < s->stale->replicas; k++) sum += s->shown[k * n + i];
    s->stale->shown[i] = sum / (double)s->stale->replicas;
  }
}

// Sets the clocks of all groups. One rank does it, before they meet.
static void set_clocks(Stale *s, int64_t from, int64_t to) {
  StaleClocks *b = s->clocks;
  if (s->server != 0) return;
  atomic_store(&b->until, to);
  for (int64_t g = 0; g < s->stale->groups; g++) {
    atomic_store(&b->clock[g].begun, from);
    atomic_store(&b->clock[g].done, from);
  }
}

// Runs the groups of this process, the first of them in this thread. Returns false after a failure.
static bool run_groups(Stale *s) {
  int64_t started = 1;
  while (started < s->stale->own &&
         pthread_create(&s->group[started].thread, NULL, run_group, &s->group[started]) == 0)
    started++;
  s->no_threads = started < s->stale->own;
  if (s->no_threads) atomic_store(&s->broken, true);
  run_group(&s->group[0]);
  for (int64_t k = 1; k < started; k++) pthread_join(s->group[k].thread, NULL);
  return !atomic_load(&s->broken) && !(s->ranks && ranks_failed(s->ranks));
}

int stale_run(Stale *s, int64_t from, int64_t to, int64_t *done, Diag *d) {
  pthread_t server;
  s->from = s->batches.next = from;
  set_clocks(s, from, to);
  hand_out(s);
  if (!meet(s)) return ranks_lost(d), diag_exit(d);
  bool serves = s->nservers > 1;
  if (serves && pthread_create(&server, NULL, serve, s) != 0) return say_no_threads(d);
  if (s->ranks) ranks_do(s->ranks, NOTE_UPDATES);
  bool good = run_groups(s), met = good && all_done(s) && meet(s);
  if (serves) server_end(s, server);
  if (!good) return say_failed(s, d);
  if (!met) return ranks_lost(d), diag_exit(d);
  *done = slowest(s);
  average_shown(s);
  settle(s);
  if (s->ranks) exec_vote(s->servers); // whether a rank has been asked to stop
  if (s->servers->result == STEP_OK) return 0;
  return ranks_lost(d), diag_exit(d);
}
