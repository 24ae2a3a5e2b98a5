// Communicator over ranks. Those of one machine work like the local one, on windows: all meet and
// compare what they are about to do, their workers share the elements, all meet again. What
// concerns several machines their leaders do (collectives/ranks/internode.c). Elements are combined
// in the same order as in one process, so the bits are the same.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/ranks/ranks_internal.h"

typedef struct CommRanks {
  Comm comm;
  Ranks *ranks;
  Far *far; // NULL: one machine
  int workers;
  int64_t processors;
  Barrier *all; // of the workers of this process
  bool agreed;
  int first_worker, all_workers; // of the machine's ranks together
  int64_t *peer;                 // per worker: `processors` numbers
  char **src, **dst, **near;     // per worker: `processors` addresses
} CommRanks;

// -- what the ranks compare ---------------------------------------------------------------------

static Note note_of(const CommCall *call, int workers) {
  const Collective *w = call->what;
  Note n = {.what = (uint32_t)NOTE_CALL + (uint32_t)w->kind,
            .line = w->pos.line,
            .sequence = call->sequence,
            .size = w->bytes,
            .elements = 1,
            .workers = workers};
  for (int d = 0; w->nparts && d < w->part[0].rank; d++) n.elements *= w->part[0].src_block[d];
  return n;
}

static const char *const faults[FAULT_COUNT] = {
    [FAULT_COUNT_WRONG] = "count", [FAULT_KIND] = "kind", [FAULT_LINE] = "line",
    [FAULT_SKIP] = "skip",         [FAULT_KILL] = "kill", [FAULT_STOP] = "stop",
};

bool ranks_fault(Ranks *r, const char *text) {
  char how[16], rest;
  int rank;
  long long call;
  if (sscanf(text, "%15[a-z]@%d:%lld%c", how, &rank, &call, &rest) != 3) return false;
  int f = FAULT_NONE + 1;
  while (f < FAULT_COUNT && strcmp(faults[f], how) != 0) f++;
  if (f == FAULT_COUNT) return false;
  r->fault = rank == r->rank ? (FaultKind)f : FAULT_NONE;
  r->fault_call = call;
  return true;
}

static FaultKind fault_at(const Ranks *r, const CommCall *call) {
  return (int64_t)call->sequence == r->fault_call ? r->fault : FAULT_NONE;
}

static bool agree(CommRanks *c, const CommCall *call, int workers) {
  Note mine = note_of(call, workers);
  const Note *const *all;
  Ranks *r = c->ranks;
  FaultKind fault = fault_at(r, call);
  if (fault == FAULT_COUNT_WRONG) mine.elements++;
  if (fault == FAULT_KIND)
    mine.what = (uint32_t)NOTE_CALL + (uint32_t)(call->what->kind + 1) % COLL_COUNT;
  if (fault == FAULT_LINE) mine.line++;
  if (fault == FAULT_KILL) raise(SIGKILL);
  if (fault == FAULT_STOP) raise(SIGSTOP);
  if (!ranks_meet(r, &mine, false, &all)) return false;
  c->first_worker = c->all_workers = 0;
  for (int i = 0; i < r->near; i++) {
    if (i == r->index) c->first_worker = c->all_workers;
    c->all_workers += (int)all[r->near_rank[i]]->workers;
  }
  return true;
}

// -- the machine's part -------------------------------------------------------------------------

typedef struct Share {
  const CommRanks *comm;
  int worker, workers;
  Combine *combine;
  char **near;
} Share;

// Of a transfer to several machines the blocks on this one are its own affair where nothing is
// combined.
static bool own_part(const Share *s, Transfer *t) {
  const Ranks *r = s->comm->ranks;
  if (r->machines == 1) return true;
  if (!far_concerns(r, t)) return ranks_sees(r, t->src_of[0]);
  if (t->nsrc > 1 || !ranks_sees(r, t->src_of[0])) return false;
  int64_t n = 0;
  for (int64_t d = 0; d < t->ndst; d++)
    if (ranks_sees(r, t->dst_of[d])) s->near[n++] = t->dst[d];
  t->dst = s->near;
  t->ndst = n;
  return n > 0;
}

static void take(const Walk *w, const Transfer *t, int64_t elements, int64_t job) {
  const Share *s = w->context;
  Transfer own = *t;
  own.combine = s->combine;
  if (own_part(s, &own)) transfer_share(&own, w->call->what, elements, job, s->worker, s->workers);
}

static void workers_wait(const CommRanks *c, int workers) {
  if (workers > 1) barrier_wait(c->all);
}

static bool ranks_run(Comm *comm, const CommCall *call, int worker, int workers) {
  CommRanks *c = (CommRanks *)(void *)comm;
  const Collective *w = call->what;
  double start = worker == 0 ? clock_seconds() : 0;
  if (fault_at(c->ranks, call) == FAULT_SKIP) return true;
  if (worker == 0) c->agreed = agree(c, call, workers);
  workers_wait(c, workers);
  if (!c->agreed) return false;
  bool small = w->bytes <= TRANSFER_SMALL_BYTES;
  int64_t at = worker * c->processors;
  Share share = {c, c->first_worker + worker, c->all_workers, combine_of(w->type), c->near + at};
  Walk walk = {comm->mesh, call, take, &share, 0, c->peer + at, c->src + at, c->dst + at};
  if (small) share.workers = 1;
  if (share.worker < share.workers) transfers_walk(&walk);
  workers_wait(c, workers);
  if (worker != 0) return true;
  bool good = (!c->far || !ranks_lead(c->ranks) || far_run(c->far, call)) &&
              ranks_meet_near(c->ranks, false);
  call_count(&walk, &comm->count, clock_seconds() - start);
  return good;
}

static void ranks_end(Comm *comm) {
  CommRanks *c = (CommRanks *)(void *)comm;
  far_free(c->far);
  barrier_free(c->all);
  free(c->peer);
  free(c->src);
  free(c->dst);
  free(c->near);
  free(c);
}

static const CommTable ranks_table = {"mpi", ranks_run, ranks_end};

Comm *comm_ranks(Ranks *r, const Mesh *mesh, int workers) {
  CommRanks *c = mem_zeroed(1, sizeof *c);
  c->comm.table = &ranks_table;
  c->comm.mesh = mesh;
  c->ranks = r;
  c->workers = workers;
  c->processors = mesh_size(mesh);
  size_t n = (size_t)c->processors * (size_t)workers;
  c->peer = mem_zeroed(n, sizeof *c->peer);
  c->src = mem_zeroed(n, sizeof *c->src);
  c->dst = mem_zeroed(n, sizeof *c->dst);
  c->near = mem_zeroed(n, sizeof *c->near);
  c->all = barrier_new(workers, r->spin && workers > 1);
  if (r->machines > 1 && ranks_lead(r)) c->far = far_new(r, mesh);
  return &c->comm;
}
