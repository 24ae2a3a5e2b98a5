// Local communicator: processors are contexts of this process, so a collective reads the blocks of
// all members of a group directly and writes all destinations (collectives/local/transfer.h). The
// elements of a box are dealt to the workers in ranges.
#include <stdlib.h>

#include "collectives/local/transfer.h"

typedef struct Local {
  Comm comm;
  int workers;
  int64_t processors;
  int64_t *peer;     // per worker: `processors` numbers
  char **src, **dst; // per worker: `processors` addresses
} Local;

// What the transfers of one worker in one call have in common.
typedef struct Share {
  int worker, workers;
  Combine *combine;
} Share;

static void take(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  const Share *s = w->context;
  Transfer own = *t;
  own.combine = s->combine;
  transfer_share(&own, w->call->what, elements, job, s->worker, s->workers);
}

static bool local_run(Comm *comm, const CommCall *call, int worker, int workers) {
  Local *l = (Local *)(void *)comm;
  const Collective *w = call->what;
  if (workers > l->workers || call->members != l->processors)
    BUG("collective by %d workers for %lld processors", workers, (long long)call->members);
  double start = worker == 0 ? clock_seconds() : 0;
  bool small = w->bytes <= TRANSFER_SMALL_BYTES;
  if (worker > 0 && small) return true;
  int64_t at = worker * l->processors;
  Share share = {small ? 0 : worker, small ? 1 : workers, combine_of(w->type)};
  TransferWalk walk = {comm->mesh, call, take, &share, 0, l->peer + at, l->src + at, l->dst + at};
  transfers_walk(&walk);
  if (worker == 0) call_count(&walk, &comm->count, clock_seconds() - start);
  return true;
}

static void local_free(Comm *comm) {
  Local *l = (Local *)(void *)comm;
  free(l->peer);
  free(l->src);
  free(l->dst);
  free(l);
}

static const CommTable local_table = {"local", local_run, local_free};

Comm *comm_local(const Mesh *mesh, int workers) {
  Local *l = mem_zeroed(1, sizeof *l);
  l->comm.table = &local_table;
  l->comm.mesh = mesh;
  l->workers = workers;
  l->processors = mesh_size(mesh);
  size_t n = (size_t)l->processors * (size_t)workers;
  l->peer = mem_zeroed(n, sizeof *l->peer);
  l->src = mem_zeroed(n, sizeof *l->src);
  l->dst = mem_zeroed(n, sizeof *l->dst);
  return &l->comm;
}
