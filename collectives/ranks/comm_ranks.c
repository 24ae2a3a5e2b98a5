// Communicator over ranks. The ranks of one machine work like the local communicator, on shared
// segments: all meet and compare what they are about to do, their workers divide the elements among
// them, and all meet again. Transfers between machines are done by the leader, the first rank, of
// each machine (collectives/ranks/internode.c). Elements are combined in the order of processors,
// as in one process, so the bits of the results are equal.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/ranks/ranks_internal.h"

typedef struct CommRanks {
  Comm comm;
  Ranks *ranks;
  Internode *internode; // NULL: there is one machine, or this rank is not its leader
  Barrier *all;         // where the workers of this process meet
  bool agreed;          // worker 0 writes here for the others whether the ranks agree on the call
  int first_worker;     // number of workers of the ranks before this one on the machine
  int all_workers;      // number of workers of all ranks of the machine
  WalkRoom room;
  char **local_dst; // memory for LocalPart.local_dst: for each worker one address a processor
} CommRanks;

// -- the notes that ranks compare before a collective -------------------------------------------

static RankNote note_of(const CommCall *call, int workers) {
  const Collective *w = call->what;
  RankNote n = {.what = (uint32_t)NOTE_CALL + (uint32_t)w->kind,
                .line = w->pos.line,
                .sequence = call->sequence,
                .size = w->bytes,
                .elements = 1,
                .workers = workers};
  for (int d = 0; w->nparts && d < w->part[0].rank; d++) n.elements *= w->part[0].src_block[d];
  return n;
}

static const char *const inject_names[INJECT_COUNT] = {
    [INJECT_COUNT_WRONG] = "count", [INJECT_KIND] = "kind", [INJECT_LINE] = "line",
    [INJECT_SKIP] = "skip",         [INJECT_KILL] = "kill", [INJECT_STOP] = "stop",
};

bool ranks_inject(Ranks *r, const char *text) {
  char how[16], rest;
  int rank;
  long long call;
  if (sscanf(text, "%15[a-z]@%d:%lld%c", how, &rank, &call, &rest) != 3) return false;
  int f = INJECT_NONE + 1;
  while (f < INJECT_COUNT && strcmp(inject_names[f], how) != 0) f++;
  if (f == INJECT_COUNT) return false;
  r->inject = rank == r->rank ? (InjectKind)f : INJECT_NONE;
  r->inject_call = call;
  return true;
}

bool ranks_injects_note(const Ranks *r) {
  return r->inject != INJECT_NONE && r->inject != INJECT_KILL && r->inject != INJECT_STOP;
}

void ranks_signal(const Ranks *r, int64_t first, int64_t n) {
  if (r->inject_call < first || r->inject_call >= first + n) return;
  if (r->inject == INJECT_KILL) raise(SIGKILL);
  if (r->inject == INJECT_STOP) raise(SIGSTOP);
}

static InjectKind inject_at(const Ranks *r, const CommCall *call) {
  return (int64_t)call->sequence == r->inject_call ? r->inject : INJECT_NONE;
}

static bool agree(CommRanks *c, const CommCall *call, int workers) {
  RankNote mine = note_of(call, workers);
  const RankNote *const *all;
  Ranks *r = c->ranks;
  InjectKind inject = inject_at(r, call);
  if (inject == INJECT_COUNT_WRONG) mine.elements++;
  if (inject == INJECT_KIND)
    mine.what = (uint32_t)NOTE_CALL + (uint32_t)(call->what->kind + 1) % COLL_COUNT;
  if (inject == INJECT_LINE) mine.line++;
  ranks_signal(r, (int64_t)call->sequence, 1);
  if (!ranks_meet(r, &mine, false, &all)) return false;
  c->first_worker = c->all_workers = 0;
  for (int i = 0; i < r->nlocal; i++) {
    if (i == r->index) c->first_worker = c->all_workers;
    c->all_workers += (int)all[r->local_rank[i]]->workers;
  }
  return true;
}

// -- the transfers within this machine ----------------------------------------------------------

// The context of the callback of a walk over the transfers of a call. The callback writes the
// addresses of the destinations on this machine into `local_dst`, which has one element for each
// processor.
typedef struct LocalPart {
  const Ranks *ranks;
  char **local_dst;
} LocalPart;

// Restricts transfer t to its destinations on this machine. Returns false if this rank has nothing
// to do for it. That is so if this machine has none of its blocks, or if the leaders (first ranks)
// of the machines do the transfer (internode.c).
static bool restrict_to_machine(const LocalPart *p, Transfer *t) {
  const Ranks *r = p->ranks;
  if (r->machines == 1) return true;
  if (!internode_concerns(r, t)) return ranks_is_local(r, t->src_of[0]);
  if (t->nsrc > 1 || !ranks_is_local(r, t->src_of[0])) return false;
  int64_t n = 0;
  for (int64_t d = 0; d < t->ndst; d++)
    if (ranks_is_local(r, t->dst_of[d])) p->local_dst[n++] = t->dst[d];
  t->dst = p->local_dst;
  t->ndst = n;
  return n > 0;
}

static void take(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  Transfer own = *t;
  if (restrict_to_machine(w->context, &own)) transfer_share(w, &own, elements, job);
}

static void workers_wait(const CommRanks *c, int workers) {
  if (workers > 1) barrier_wait(c->all);
}

static bool ranks_run(Comm *comm, const CommCall *call, int worker, int workers) {
  CommRanks *c = (CommRanks *)(void *)comm;
  double start = worker == 0 ? clock_seconds() : 0;
  if (inject_at(c->ranks, call) == INJECT_SKIP) return true;
  if (worker == 0) c->agreed = agree(c, call, workers);
  workers_wait(c, workers);
  if (!c->agreed) return false;
  LocalPart part = {c->ranks, c->local_dst + worker * c->room.processors};
  TransferWalk walk = walk_begin(&c->room, worker, comm->mesh, call, c->first_worker + worker,
                                 call->what->bytes <= TRANSFER_SMALL_BYTES ? 1 : c->all_workers);
  walk.take = take;
  walk.context = &part;
  if (walk.worker < walk.workers) transfers_walk(&walk);
  workers_wait(c, workers);
  if (worker != 0) return true;
  bool good = (!c->internode || !ranks_is_leader(c->ranks) || internode_run(c->internode, call)) &&
              ranks_meet_local(c->ranks, false);
  call_count(&walk, &comm->count, clock_seconds() - start);
  return good;
}

static void ranks_end(Comm *comm) {
  CommRanks *c = (CommRanks *)(void *)comm;
  internode_free(c->internode);
  barrier_free(c->all);
  walk_room_free(&c->room);
  free(c->local_dst);
  free(c);
}

Comm *comm_ranks(Ranks *r, const Mesh *mesh, int workers) {
  CommRanks *c = mem_zeroed(1, sizeof *c);
  c->comm = (Comm){.mesh = mesh, .run = ranks_run, .free = ranks_end};
  c->ranks = r;
  c->room = walk_room(mesh_size(mesh), workers);
  c->local_dst = mem_zeroed((size_t)(c->room.processors * workers), sizeof *c->local_dst);
  c->all = barrier_new(workers, r->spin && workers > 1);
  if (r->machines > 1 && ranks_is_leader(r)) c->internode = internode_new(r, mesh);
  return &c->comm;
}
