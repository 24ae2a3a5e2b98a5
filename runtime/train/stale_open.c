// Prepares asynchronous updates (stale.c): finds what is pushed and pulled, takes the memory that
// ranks share, and compares the bytes that were sent with the predicted ones.
#include <stdlib.h>
#include <string.h>

#include "runtime/train/stale_internal.h"

int64_t stale_pushed(const Program *server, Axes over, int64_t group) {
  ShardRange all = {0, mesh_size(&server->mesh), over, group};
  int64_t bytes = 0;
  for (uint32_t i = 0; i < server->ntensors; i++)
    if (server->tensor[i].kind == TENSOR_INPUT) bytes += shards_predict(server, i, &all, false);
  return bytes;
}

// Returns the tensor of the server of which input `input` gets the gradient or the change.
static int32_t kept_of(const Program *server, uint32_t input) {
  const char *name = server->tensor[input].name;
  bool state = !strncmp(name, STALE_CHANGE, strlen(STALE_CHANGE));
  return state ? program_tensor(server, TENSOR_STATE, name + strlen(STALE_CHANGE))
               : program_tensor(server, TENSOR_PARAM, name + strlen(STALE_PUSH));
}

int64_t stale_pulled(const Program *server, Axes over, int64_t group) {
  ShardRange all = {0, mesh_size(&server->mesh), over, group};
  int64_t bytes = 0;
  for (uint32_t i = 0; i < server->ntensors; i++)
    if (server->tensor[i].kind == TENSOR_INPUT)
      bytes += shards_predict(server, (uint32_t)kept_of(server, i), &all, true);
  return bytes;
}

static void find_pairs(Stale *s) {
  const Program *p = s->servers->program, *w = s->group[0].exec->program;
  s->pair = mem_zeroed(p->ntensors + 1u, sizeof *s->pair);
  for (uint32_t i = 0; i < p->ntensors; i++) {
    if (p->tensor[i].kind != TENSOR_INPUT) continue;
    int32_t kept = kept_of(p, i);
    if (kept < 0) BUG("a gradient %s of no parameter", p->tensor[i].name);
    const ProgTensor *t = &p->tensor[kept];
    int32_t gradient = program_tensor(w, TENSOR_OUTPUT, p->tensor[i].name),
            own = program_tensor(w, t->kind, t->name);
    if (gradient < 0 || own < 0) BUG("a replica without %s", t->name);
    s->pair[s->npairs++] = (StalePair){i, (uint32_t)gradient, (uint32_t)kept, (uint32_t)own};
  }
}

static void find_inputs(Stale *s) {
  s->ninputs = feed_inputs(s->job->feed, &s->input);
  s->taken = mem_zeroed(s->ninputs + 1u, sizeof *s->taken);
  for (uint32_t i = 0; i < s->ninputs; i++)
    s->taken[i] = program_tensor(s->group[0].exec->program, TENSOR_INPUT, s->input[i].name);
}

static char *group_room(StaleGroup *g, int64_t bytes) {
  return g->room[g->nrooms++] = mem_alloc((size_t)bytes + 1);
}

static int64_t full_bytes(const Exec *e, uint32_t tensor) {
  const ProgTensor *t = &e->program->tensor[tensor];
  int64_t n = dtype_bytes(t->type);
  for (int d = 0; d < t->rank; d++) n *= t->dim[d].whole;
  return n;
}

static char *pair_memory(StaleGroup *g, uint32_t tensor, bool *direct) {
  const ProgTensor *t = &g->exec->program->tensor[tensor];
  char *at = exec_direct(g->exec, t->kind, t->name);
  *direct = at != NULL;
  return at ? at : group_room(g, full_bytes(g->exec, tensor));
}

static void group_open(Stale *s, int64_t k) {
  StaleGroup *g = &s->group[k];
  g->room = mem_zeroed(2 * s->npairs + s->ninputs + 1u, sizeof *g->room);
  g->value = mem_zeroed(s->npairs + 1u, sizeof *g->value);
  g->gradient = mem_zeroed(s->npairs + 1u, sizeof *g->gradient);
  g->rows = mem_zeroed(s->ninputs + 1u, sizeof *g->rows);
  g->direct_value = mem_zeroed(s->npairs + 1u, sizeof *g->direct_value);
  g->direct_gradient = mem_zeroed(s->npairs + 1u, sizeof *g->direct_gradient);
  for (uint32_t i = 0; i < s->npairs; i++) {
    g->value[i] = pair_memory(g, s->pair[i].own, &g->direct_value[i]);
    g->gradient[i] = pair_memory(g, s->pair[i].gradient, &g->direct_gradient[i]);
  }
  for (uint32_t i = 0; i < s->ninputs; i++)
    if (s->input[i].over > 0) g->rows[i] = group_room(g, (int64_t)batch_bytes(&s->input[i]));
}

// Lets each rank read only the rows of its replicas.
static void restrict_rows(const Stale *s) {
  for (uint32_t i = 0; s->ranks && i < s->ninputs; i++) {
    int64_t each = s->input[i].size[s->input[i].over] / s->stale->groups;
    feed_restrict(s->job->feed, i, false, s->stale->first * each,
                  (s->stale->first + s->stale->own) * each);
  }
}

// Takes the memory that all ranks share. Returns false after an error in d.
static bool take_memory(Stale *s, Diag *d) {
  size_t clocks = sizeof(StaleClocks) + (size_t)s->stale->groups * sizeof(StaleClock),
         at = ceil_div(sizeof(StaleServer), 64) * 64, values = at + clocks;
  size_t bytes = values + (size_t)s->stale->replicas * (s->job->nshown + 1u) * sizeof(double);
  if (s->ranks)
    s->segment = ranks_segment(s->ranks, (int64_t)bytes, false);
  else
    s->alone = mem_aligned(64, ceil_div(bytes, 64) * 64);
  if (!s->segment && !s->alone) {
    if (ranks_failed(s->ranks)) return ranks_lost(d);
    return diag_error(d, DIAG_NO_MEMORY, (Pos){0}, "out of memory for the clocks of the replicas");
  }
  if (s->alone) memset(s->alone, 0, bytes);
  char *first = s->segment ? segment_at(s->segment, 0) : s->alone;
  s->clocks = (StaleClocks *)(void *)(first + at);
  s->shown = (double *)(void *)(first + values);
  return true;
}

Stale *stale_open(const TrainJob *job, Diag *d) {
  Stale *s = mem_zeroed(1, sizeof *s);
  StaleJob *stale = job->stale;
  s->job = job;
  s->stale = stale;
  s->servers = job->train;
  s->ranks = s->servers->ranks;
  s->nservers = s->servers->processors / s->servers->own;
  s->server = s->servers->first / s->servers->own;
  pthread_mutex_init(&s->watching, NULL);
  pthread_mutex_init(&s->updating, NULL);
  s->group = mem_zeroed((size_t)stale->own, sizeof *s->group);
  for (int64_t k = 0; k < stale->own; k++)
    s->group[k] = (StaleGroup){.s = s, .number = stale->first + k, .exec = stale->worker[k]};
  find_pairs(s);
  find_inputs(s);
  for (int64_t k = 0; k < stale->own; k++) group_open(s, k);
  batches_open(s);
  restrict_rows(s);
  if (take_memory(s, d)) return s;
  stale_close(s);
  return NULL;
}

void stale_close(Stale *s) {
  if (!s) return;
  for (int64_t k = 0; k < s->stale->own; k++) {
    StaleGroup *g = &s->group[k];
    for (uint32_t i = 0; i < g->nrooms; i++) free(g->room[i]);
    free(g->room);
    free(g->value);
    free(g->gradient);
    free(g->direct_value);
    free(g->direct_gradient);
    free(g->rows);
  }
  batches_close(s);
  pthread_mutex_destroy(&s->watching);
  pthread_mutex_destroy(&s->updating);
  segment_free(s->segment);
  free(s->alone);
  free(s->group);
  free(s->pair);
  free(s->taken);
  free(s);
}

static bool same_bytes(const StaleGroup *g, const char *what, int64_t counted, int64_t predicted,
                       Diag *d) {
  if (counted == predicted) return true;
  diag_error(d, DIAG_FAILURE, (Pos){0},
             "replicas of group %lld: %lld bytes %s counted, %lld predicted in %lld updates",
             (long long)g->number, (long long)counted, what, (long long)predicted,
             (long long)g->updates);
  return diag_hint(d, "this is a fault of meshc: please report it with the model and the options");
}

bool stale_check(const Stale *s, Diag *d) {
  const Program *p = s->servers->program;
  bool good = true;
  for (int64_t k = 0; k < s->stale->own; k++) {
    const StaleGroup *g = &s->group[k];
    int64_t pushed = stale_pushed(p, s->stale->over, g->number),
            pulled = stale_pulled(p, s->stale->over, g->number);
    good &= same_bytes(g, "sent", g->pushed, g->updates * pushed, d);
    good &= same_bytes(g, "received", g->pulled, g->pulls * pulled, d);
    s->stale->updates += g->updates;
    s->stale->pushed += g->pushed;
    s->stale->pulled += g->pulled;
  }
  return good;
}
