// Makes communicators of NCCL, puts messages into a stream, and waits for them (gpu_comm.h).
//
// Communicators do not block: a call that another rank has to answer returns NCCL_IN_PROGRESS, and
// this rank asks for its state while it watches the others.
#include "runtime/gpu/gpu_comm.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/local/devices.h"
#include "collectives/local/transfer.h"

enum { MESSAGES_AT_ONCE = 512 };         // in a group; the library has room for about 2,000
static const double LOOK_SECONDS = 0.05; // between two looks at the other ranks
static const double REASON_SECONDS = 1;  // in which a lost rank is found, as the cause of an error

typedef struct GpuComm {
  Axes axes;
  NcclComm comm;
} GpuComm;

struct GpuComms {
  Ranks *ranks;
  volatile int64_t *sign; // page-locked; a GPU writes it while the host reads
  int64_t seen;           // the last value of it that this rank has told to the others
  bool aborted;
  uint32_t n, room;
  GpuComm *at;
};

// -- errors -------------------------------------------------------------------------------------

// Makes the run fail because of an error of the library. The error may only be a consequence of a
// lost rank: so it first looks for one, which then is the reason. Always returns false.
static bool fails(GpuComms *c, NcclResult r, const char *call) {
  const struct timespec nap = {0, 20000000};
  for (double waited = 0; waited < REASON_SECONDS; waited += 0.02) {
    if (!ranks_watch(c->ranks, 0, call)) return false;
    nanosleep(&nap, NULL);
  }
  return ranks_fail(c->ranks,
                    "rank %d: NCCL: %s gives an error (%s); NCCL_DEBUG=WARN makes the library say "
                    "more",
                    ranks_rank(c->ranks), call, nccl.GetErrorString(r));
}

// Returns whether a call of a communicator, which has returned r, succeeds. While it goes on, waits
// for it and watches the other ranks. After a failure the run has failed.
static bool settle(GpuComms *c, NcclComm comm, NcclResult r, const char *call) {
  const struct timespec nap = {0, 100000};
  double began = clock_seconds(), looked = began;
  while (r == NCCL_IN_PROGRESS) {
    NcclResult asked = nccl.CommGetAsyncError(comm, &r);
    if (asked != NCCL_OK) r = asked;
    if (r != NCCL_IN_PROGRESS) break;
    nanosleep(&nap, NULL);
    double now = clock_seconds();
    if (now - looked < LOOK_SECONDS) continue;
    looked = now;
    if (!ranks_watch(c->ranks, now - began, call)) return false;
  }
  return r == NCCL_OK || fails(c, r, call);
}

// -- making communicators -----------------------------------------------------------------------

GpuComms *gpu_comms_new(Ranks *r, Diag *d) {
  const LibraryFound *library = nccl_open();
  if (!library->library) {
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "--device cuda with several processes: %s",
               library->why);
    return NULL;
  }
  void *sign;
  if (!cuda_good(cuda.MemHostAlloc(&sign, sizeof(int64_t), CUDA_HOST_MAPPED), "cuMemHostAlloc", d))
    return NULL;
  GpuComms *c = mem_zeroed(1, sizeof *c);
  c->ranks = r;
  c->sign = sign;
  *c->sign = 0;
  return c;
}

static GpuComm *find(const GpuComms *c, Axes axes) {
  for (uint32_t i = 0; i < c->n; i++)
    if (axes_equal(c->at[i].axes, axes)) return &c->at[i];
  return NULL;
}

// Gives the id that the first rank of each group has made to all ranks of the group. In: *id on the
// first rank. Out: *id on all. ids: room for an id of each processor of this machine, of which a
// rank uses that of its first processor. All ranks call it together. Returns false once the run has
// failed.
static bool share_id(GpuComms *c, const Mesh *m, Axes axes, SharedSegment *ids, NcclId *id) {
  Ranks *r = c->ranks;
  int64_t each = ranks_processors(r), own = ranks_first_processor(r);
  int64_t first = axes_peer(m, axes, own, 0) / each * each;
  memcpy(segment_at(ids, own), id, sizeof *id);
  if (!ranks_meet_local(r, true)) return false;
  for (int64_t p = 0; p < mesh_size(m); p += each) {
    if (device_index(m, axes, each, p) != 0) continue;
    NcclId theirs;
    const char *block = segment_at(ids, p);
    if (!ranks_broadcast_block(r, p, block, sizeof theirs, &theirs)) return false;
    if (p == first) memcpy(id, block ? block : (const char *)&theirs, sizeof *id);
  }
  return ranks_meet_local(r, true);
}

// Makes this rank's end of the communicator along `axes`. All ranks call it together. Returns false
// once the run has failed.
static bool make_comm(GpuComms *c, const Mesh *m, Axes axes, SharedSegment *ids) {
  int64_t each = ranks_processors(c->ranks);
  int64_t k = device_index(m, axes, each, ranks_first_processor(c->ranks));
  NcclId id = {{0}};
  if (k == 0) {
    NcclResult r = nccl.GetUniqueId(&id);
    if (r != NCCL_OK) return fails(c, r, "ncclGetUniqueId");
  }
  if (!share_id(c, m, axes, ids, &id)) return false;
  NcclConfig config = {.size = sizeof config,
                       .magic = NCCL_CONFIG_MAGIC,
                       .version = NCCL_CONFIG_VERSION,
                       .blocking = 0,
                       .cluster = NCCL_USUAL,
                       .least_blocks = NCCL_USUAL,
                       .most_blocks = NCCL_USUAL,
                       .shares = NCCL_USUAL};
  GpuComm *made = &c->at[c->n];
  *made = (GpuComm){.axes = axes};
  NcclResult r =
      nccl.CommInitRankConfig(&made->comm, (int)devices_along(m, axes, each), id, (int)k, &config);
  if (made->comm) c->n++;
  return settle(c, made->comm, r, "ncclCommInitRankConfig");
}

// Makes the communicator along `axes`, with `ids` as in share_id, if it is missing and goes to
// other ranks. All ranks call it together. Returns false once the run has failed.
static bool need_comm(GpuComms *c, const Mesh *m, Axes axes, SharedSegment *ids) {
  if (find(c, axes) || devices_along(m, axes, ranks_processors(c->ranks)) == 1) return true;
  if (c->n == c->room) {
    c->room = 2 * c->room + 4;
    c->at = mem_grow(c->at, c->room * sizeof *c->at);
  }
  return make_comm(c, m, axes, ids);
}

// Makes the communicators that p needs, and that of all ranks, as need_comm does.
static bool make_comms(GpuComms *c, const Program *p, SharedSegment *ids) {
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_COLLECTIVE &&
        !need_comm(c, &p->mesh, group_axes(&p->instr[i].u.collective), ids))
      return false;
  return need_comm(c, &p->mesh, mesh_axes(&p->mesh), ids);
}

bool gpu_comms_add(GpuComms *c, const Program *p, CudaStream stream, Diag *d) {
  SharedSegment *ids = ranks_segment(c->ranks, sizeof(NcclId), true);
  bool good = ids && make_comms(c, p, ids);
  segment_free(ids);
  return good ? gpu_comms_wait(c, stream, "making communicators of NCCL (cuStreamQuery)", d)
              : ranks_lost(d);
}

// -- data of the first rank ----------------------------------------------------------------------

bool gpu_comms_first(const GpuComms *c) { return ranks_rank(c->ranks) == 0; }
bool gpu_comms_several(const GpuComms *c) { return ranks_count(c->ranks) > 1; }

// Does what gpu_comms_share does. room: memory in which the first rank passes the bytes on to the
// ranks of its machine. Returns false once the run has failed.
static bool share(GpuComms *c, SharedSegment *room, void *data, int64_t bytes) {
  Ranks *r = c->ranks;
  char *block = segment_at(room, 0);
  if (gpu_comms_first(c)) memcpy(block, data, (size_t)bytes);
  if (!ranks_meet_local(r, true) || !ranks_broadcast_block(r, 0, block, bytes, data)) return false;
  if (block) memcpy(data, block, (size_t)bytes);
  return ranks_meet_local(r, true);
}

// The first rank may have worked on its data for longer than the deadline: so the ranks meet
// patiently before they take memory together.
bool gpu_comms_share(GpuComms *c, void *data, int64_t bytes, Diag *d) {
  const RankNote mine = {.what = NOTE_COMPILE};
  if (!ranks_meet(c->ranks, &mine, true, NULL)) return ranks_lost(d);
  SharedSegment *room = ranks_segment(c->ranks, bytes, false);
  bool good = room && share(c, room, data, bytes);
  segment_free(room);
  return good || ranks_lost(d);
}

// -- messages -----------------------------------------------------------------------------------

static NcclType type_of(Dtype type) {
  static const NcclType types[TYPE_COUNT] = {
      [TYPE_F32] = NCCL_F32, [TYPE_F64] = NCCL_F64, [TYPE_F16] = NCCL_F16, [TYPE_BF16] = NCCL_BF16,
      [TYPE_I32] = NCCL_I32, [TYPE_I64] = NCCL_I64, [TYPE_U64] = NCCL_U64, [TYPE_U8] = NCCL_U8,
  };
  return types[type];
}

static NcclResult enqueue(NcclComm comm, const Message *m, CudaStream stream) {
  static const NcclReduction reductions[MONOID_COUNT] = {
      [MONOID_SUM] = NCCL_SUM,
      [MONOID_PROD] = NCCL_PROD,
      [MONOID_MAX] = NCCL_MAX,
      [MONOID_MIN] = NCCL_MIN,
  };
  NcclReduction how = reductions[m->monoid];
  NcclType type = type_of(m->type);
  size_t n = (size_t)m->count;
  switch (m->kind) {
  case MESSAGE_REDUCE: return nccl.AllReduce(m->from, m->to, n, type, how, comm, stream);
  case MESSAGE_REDUCE_SCATTER:
    return nccl.ReduceScatter(m->from, m->to, n, type, how, comm, stream);
  case MESSAGE_GATHER: return nccl.AllGather(m->from, m->to, n, type, comm, stream);
  case MESSAGE_SEND: return nccl.Send(m->from, n, type, (int)m->peer, comm, stream);
  case MESSAGE_RECEIVE: return nccl.Recv(m->to, n, type, (int)m->peer, comm, stream);
  }
  return NCCL_BAD_USE;
}

// Enqueues n messages as one group. Returns false once the run has failed.
static bool send_some(GpuComms *c, NcclComm comm, const Message *m, uint32_t n, CudaStream stream) {
  NcclResult r = nccl.GroupStart();
  for (uint32_t i = 0; i < n && r == NCCL_OK; i++) {
    r = enqueue(comm, &m[i], stream);
    if (r == NCCL_IN_PROGRESS) r = NCCL_OK; // the end of the group says how it went
  }
  NcclResult ended = nccl.GroupEnd();
  return settle(c, comm, r == NCCL_OK ? ended : r, "a group of messages");
}

// Lists that are too long for one group of the library are split, maybe elsewhere on other ranks.
// Ranks do not wait in a circle then, because all lists are in one order (MessageCall.message).
bool gpu_comms_send(GpuComms *c, Axes axes, const Message *m, uint32_t n, CudaStream stream,
                    Diag *d) {
  const GpuComm *comm = find(c, axes);
  if (!comm) BUG("a collective along axes without a communicator");
  for (uint32_t i = 0; i < n; i += MESSAGES_AT_ONCE)
    if (!send_some(c, comm->comm, m + i, n - i < MESSAGES_AT_ONCE ? n - i : MESSAGES_AT_ONCE,
                   stream))
      return ranks_lost(d);
  return true;
}

// -- waiting ------------------------------------------------------------------------------------

// Looks for errors of the communicators and at the other ranks. waited: seconds since the last sign
// of progress. Returns false once the run has failed.
static bool look(GpuComms *c, double waited) {
  for (uint32_t i = 0; i < c->n; i++) {
    NcclResult state = NCCL_OK, r = nccl.CommGetAsyncError(c->at[i].comm, &state);
    if (r == NCCL_OK) r = state;
    if (r != NCCL_OK && r != NCCL_IN_PROGRESS) return fails(c, r, "a message");
  }
  return ranks_watch(c->ranks, waited, "a sign of progress of the GPUs");
}

// What is waited for: an event, or without one the end of a stream.
typedef struct Awaited {
  CudaEvent event;
  CudaStream stream;
} Awaited;

static CudaResult ask(const Awaited *a) {
  return a->event ? cuda.EventQuery(a->event) : cuda.StreamQuery(a->stream);
}

CudaAddress gpu_comms_sign(const GpuComms *c) { return (CudaAddress)(uintptr_t)c->sign; }
void gpu_comms_advance(GpuComms *c) { ranks_advance(c->ranks); }

// Returns a number that changes with each sign of progress of a rank of this machine.
static unsigned advances(GpuComms *c) {
  int64_t sign = *c->sign;
  if (sign != c->seen) ranks_advance(c->ranks);
  c->seen = sign;
  return ranks_advances(c->ranks);
}

static bool wait_for(GpuComms *c, Awaited a, const char *what, Diag *d) {
  const struct timespec nap = {0, 50000};
  double began = clock_seconds(), looked = began, advanced = began;
  unsigned last = advances(c);
  CudaResult r;
  while ((r = ask(&a)) == CUDA_NOT_READY) {
    double now = clock_seconds();
    if (now - began > 0.002) nanosleep(&nap, NULL);
    if (now - looked < LOOK_SECONDS) continue;
    looked = now;
    unsigned all = advances(c);
    if (all != last) advanced = now;
    last = all;
    if (!look(c, now - advanced)) return ranks_lost(d);
  }
  return cuda_good(r, what, d);
}

bool gpu_comms_wait(GpuComms *c, CudaStream stream, const char *what, Diag *d) {
  return wait_for(c, (Awaited){.stream = stream}, what, d);
}

bool gpu_comms_wait_event(GpuComms *c, CudaEvent event, const char *what, Diag *d) {
  return wait_for(c, (Awaited){.event = event}, what, d);
}

// -- the end ------------------------------------------------------------------------------------

void gpu_comms_abort(GpuComms *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->n && !c->aborted; i++) (void)nccl.CommAbort(c->at[i].comm);
  c->aborted = true;
}

void gpu_comms_free(GpuComms *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->n && !c->aborted; i++) {
    NcclComm comm = c->at[i].comm;
    if (settle(c, comm, nccl.CommFinalize(comm), "ncclCommFinalize")) (void)nccl.CommDestroy(comm);
  }
  (void)cuda.MemFreeHost((void *)(uintptr_t)c->sign);
  free(c->at);
  free(c);
}
