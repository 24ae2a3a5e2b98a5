// Local communicator: all processors are contexts of this process. The workers divide the elements
// of a collective among them. They read the blocks of all sources directly and write all
// destinations (collectives/local/transfer.h).
#include <stdlib.h>

#include "collectives/local/transfer.h"

typedef struct Local {
  Comm comm;
  int workers;
  WalkRoom room;
} Local;

static bool local_run(Comm *comm, const CommCall *call, int worker, int workers) {
  Local *l = (Local *)(void *)comm;
  if (workers > l->workers || call->members != l->room.processors)
    BUG("collective by %d workers for %lld processors", workers, (long long)call->members);
  double start = worker == 0 ? clock_seconds() : 0;
  bool small = call->what->bytes <= TRANSFER_SMALL_BYTES;
  if (worker > 0 && small) return true;
  TransferWalk walk = walk_begin(&l->room, worker, comm->mesh, call, worker, small ? 1 : workers);
  transfers_walk(&walk);
  if (worker == 0) call_count(&walk, &comm->count, clock_seconds() - start);
  return true;
}

static void local_free(Comm *comm) {
  Local *l = (Local *)(void *)comm;
  walk_room_free(&l->room);
  free(l);
}

Comm *comm_local(const Mesh *mesh, int workers) {
  Local *l = mem_zeroed(1, sizeof *l);
  l->comm = (Comm){.mesh = mesh, .run = local_run, .free = local_free};
  l->workers = workers;
  l->room = walk_room(mesh_size(mesh), workers);
  return &l->comm;
}
