// The batches of replicas with asynchronous updates (stale.c). The groups of a process read one
// feed at different times: a group that is ahead gets the next batch, and copies are kept until the
// slowest group has read them.
#include <stdlib.h>
#include <string.h>

#include "runtime/train/stale_internal.h"

size_t batch_bytes(const FeedInput *x) {
  int64_t n = dtype_bytes(x->type);
  for (int d = 0; d < x->rank; d++) n *= x->size[d];
  return (size_t)n;
}

static bool next_of(const Stale *s, const void **data) {
  int64_t rows = feed_next(s->job->feed, data);
  if (rows == 0) rows = feed_next(s->job->feed, data); // the next epoch
  return rows > 0;
}

static void keep_copies(Stale *s) {
  StaleBatches *b = &s->batches;
  char **to = b->copy + b->next % b->slots * s->ninputs;
  for (uint32_t i = 0; i < s->ninputs; i++) memcpy(to[i], b->data[i], batch_bytes(&s->input[i]));
}

bool batch_get(Stale *s, int64_t t, const void *const **data) {
  StaleBatches *b = &s->batches;
  pthread_mutex_lock(&b->gate);
  while (!b->failed && b->next <= t) {
    b->failed = !next_of(s, b->data);
    if (!b->failed && b->slots) keep_copies(s);
    b->next++;
  }
  *data = b->data;
  if (b->slots) *data = (const void *const *)(b->copy + t % b->slots * s->ninputs);
  bool good = !b->failed;
  pthread_mutex_unlock(&b->gate);
  return good;
}

const void *rows_of(const StaleGroup *g, uint32_t i, const void *whole, int64_t replica) {
  const FeedInput *x = &g->s->input[i];
  int64_t rows = x->size[x->over], each = rows / g->s->stale->replicas;
  Array shape = {.type = x->type, .rank = x->rank};
  memcpy(shape.size, x->size, sizeof shape.size);
  if (!g->rows[i])
    return (const char *)whole + batch_bytes(x) / (size_t)rows * (size_t)(replica * each);
  array_copy_rows(&shape, x->over, (ArrayRows){g->rows[i], each, 0},
                  (ArrayRows){(void *)(uintptr_t)whole, rows, replica * each}, each);
  return g->rows[i];
}

void batches_open(Stale *s) {
  StaleBatches *b = &s->batches;
  int64_t ahead = s->stale->ahead, steps = s->job->steps - s->job->start;
  pthread_mutex_init(&b->gate, NULL);
  b->data = mem_zeroed(s->ninputs + 1u, sizeof *b->data);
  b->slots = s->stale->own == 1 ? 0 : ahead < steps ? ahead : steps;
  size_t n = (size_t)b->slots * s->ninputs;
  b->copy = mem_zeroed(n + 1, sizeof *b->copy);
  for (size_t i = 0; i < n; i++) b->copy[i] = mem_alloc(batch_bytes(&s->input[i % s->ninputs]) + 1);
}

void batches_close(Stale *s) {
  StaleBatches *b = &s->batches;
  for (size_t i = 0; i < (size_t)b->slots * s->ninputs; i++) free(b->copy[i]);
  free(b->copy);
  free(b->data);
  pthread_mutex_destroy(&b->gate);
}
