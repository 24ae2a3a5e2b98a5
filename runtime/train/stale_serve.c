// Parameter servers: waiting for other ranks and their locks, making updates, and what replicas
// send to servers (push) and get from them (pull). See stale.c.
//
// The update of another rank is made by a thread of that rank, because only it has the addresses of
// the program. The memory of all servers of the machine is mapped, so replicas write gradients and
// read parameters themselves, while they hold the lock of the server.
#include <limits.h>

#include "runtime/train/stale_internal.h"

static const double LOOK_SECONDS = 0.05; // between two looks at the other ranks

static StaleServer *server_of(const Stale *s, int64_t q) {
  char *at = s->segment ? segment_at(s->segment, q * s->servers->own) : s->alone;
  return (StaleServer *)(void *)at;
}

// -- waiting ------------------------------------------------------------------------------------

// Looks at the other ranks from time to time. The wait counts from the last step that a group has
// finished: a group that is far ahead may wait for long.
static bool look(Stale *s, Waiting *w) {
  double now = clock_seconds();
  unsigned ticks = atomic_load(&s->clocks->ticks);
  if (w->began == 0 || w->ticks != ticks) {
    w->began = w->looked = now;
    w->ticks = ticks;
  }
  if (!s->ranks || now - w->looked < LOOK_SECONDS) return true;
  w->looked = now;
  if (pthread_mutex_trylock(&s->watching) != 0) return true;
  bool good = ranks_watch(s->ranks, now - w->began, "other replicas");
  pthread_mutex_unlock(&s->watching);
  return good;
}

bool stale_wait(Stale *s, atomic_uint *word, unsigned value, Waiting *w) {
  if (w->turns++ < STALE_SPINS) return spin_pause(), true;
  if (atomic_load(&s->broken) || (s->ranks && ranks_failed(s->ranks))) return false;
  word_wait(word, value);
  return look(s, w);
}

bool lock_take(Stale *s, atomic_uint *lock) {
  unsigned none = 0;
  Waiting w = {0};
  if (atomic_compare_exchange_strong(lock, &none, 1)) return true;
  while (atomic_exchange(lock, 2) != 0)
    if (!stale_wait(s, lock, 2, &w)) return false;
  return true;
}

void lock_release(atomic_uint *lock) {
  if (atomic_exchange(lock, 0) == 2) word_wake(lock, 1);
}

// -- servers ------------------------------------------------------------------------------------

// Makes an update of the servers of this process.
static bool make_update(Stale *s, int64_t number) {
  pthread_mutex_lock(&s->updating);
  bool good = exec_step(s->servers, number, true) == STEP_OK;
  pthread_mutex_unlock(&s->updating);
  return good;
}

void *serve(void *context) {
  Stale *s = context;
  StaleServer *own = server_of(s, s->server);
  for (;;) {
    unsigned request = atomic_load(&own->request);
    for (int i = 0; request == SERVER_IDLE && i < STALE_SPINS; i++) {
      spin_pause();
      request = atomic_load(&own->request);
    }
    if (atomic_load(&s->ends)) return NULL;
    if (request == SERVER_IDLE) {
      word_wait(&own->request, SERVER_IDLE);
      continue;
    }
    if (!make_update(s, atomic_load(&own->number))) atomic_store(&s->broken, true);
    atomic_store(&own->request, SERVER_IDLE);
    word_wake(&own->request, INT_MAX);
  }
}

void server_end(Stale *s, pthread_t thread) {
  StaleServer *own = server_of(s, s->server);
  atomic_store(&s->ends, true);
  word_wake(&own->request, INT_MAX);
  pthread_join(thread, NULL);
  atomic_store(&s->ends, false);
}

// Makes update `number` of server q with the gradients in its inputs. The caller has its lock.
static bool update(Stale *s, int64_t q, int64_t number) {
  Waiting w = {0};
  StaleServer *server = server_of(s, q);
  if (q == s->server) return make_update(s, number);
  atomic_store(&server->number, number);
  atomic_store(&server->request, SERVER_ASKED);
  word_wake(&server->request, 1);
  while (atomic_load(&server->request) == SERVER_ASKED)
    if (!stale_wait(s, &server->request, SERVER_ASKED, &w)) return false;
  return true;
}

static ShardRange range_of(const StaleGroup *g, int64_t q) {
  int64_t each = g->s->servers->own;
  return (ShardRange){q * each, each, g->s->stale->over, g->number};
}

bool pull(StaleGroup *g) {
  Stale *s = g->s;
  for (int64_t k = 0; k < s->nservers; k++) {
    int64_t q = (s->server + k) % s->nservers;
    ShardRange of = range_of(g, q);
    if (!lock_take(s, &server_of(s, q)->lock)) return false;
    for (uint32_t i = 0; i < s->npairs; i++)
      g->pulled += exec_gather(s->servers, s->pair[i].kept, &of, g->value[i]);
    lock_release(&server_of(s, q)->lock);
  }
  for (uint32_t i = 0; i < s->npairs; i++) {
    const ProgTensor *t = &g->exec->program->tensor[s->pair[i].own];
    if (!g->direct_value[i]) exec_write_tensor(g->exec, s->pair[i].own, t->type, g->value[i]);
  }
  g->pulls++;
  return true;
}

bool push(StaleGroup *g, int64_t number) {
  Stale *s = g->s;
  const ShardRange own = {0, g->exec->processors, {0}, 0};
  for (uint32_t i = 0; i < s->npairs; i++)
    if (!g->direct_gradient[i])
      (void)exec_gather(g->exec, s->pair[i].gradient, &own, g->gradient[i]);
  for (int64_t k = 0; k < s->nservers; k++) {
    int64_t q = (s->server + k) % s->nservers;
    ShardRange of = range_of(g, q);
    if (!lock_take(s, &server_of(s, q)->lock)) return false;
    for (uint32_t i = 0; i < s->npairs; i++)
      g->pushed += exec_scatter(s->servers, s->pair[i].pushed, &of, g->gradient[i]);
    bool good = update(s, q, number);
    lock_release(&server_of(s, q)->lock);
    if (!good) return false;
  }
  g->updates++;
  return true;
}
