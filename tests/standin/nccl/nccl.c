// A stand-in for libnccl.so.2: ranks are processes, which meet in shared memory (meeting.h). The
// calls of a group are one operation of a stream of the stand-in of libcuda: it waits there for the
// other ranks, compares what they call, and computes (transfer.h).
//
// Limits: a process has one rank of a communicator; the calls of a group use one stream.
#define _GNU_SOURCE // on_exit
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/mem.h"
#include "tests/standin/fail.h"
#include "tests/standin/nccl/transfer.h"
#include "tests/standin/standin.h"

enum { VERSION = 22809 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *communicators; // those that are destroyed, too

ncclResult_t ncclGetVersion(int *version) {
  *version = VERSION;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  if (result == ncclRemoteError) return "remote process exited or there was a network error";
  return result == ncclSuccess ? "no error" : "invalid usage (stand-in)";
}

// -- communicators ------------------------------------------------------------------------------

static void at_exit(int status, void *process) {
  if (status != 0 || (pid_t)(intptr_t)process != getpid()) return;
  for (const struct ncclComm *c = communicators; c; c = c->next)
    if (!c->destroyed)
      standin_fail("at the end of the process there is still a communicator of %d ranks",
                   c->nranks);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static unsigned number;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/meshc-standin-%ld-%ld-%u", (long)getpid(),
           (long)now.tv_nsec, number++);
  return ncclSuccess;
}

static ncclResult_t join(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, bool blocks) {
  if (nranks < 1 || nranks > MEETING_RANKS || rank < 0 || rank >= nranks)
    return ncclInvalidArgument;
  struct ncclComm *c = mem_zeroed(1, sizeof *c);
  c->rank = rank;
  c->nranks = nranks;
  c->blocks = blocks;
  c->meeting = meeting_join(id.internal, nranks, rank);
  pthread_mutex_lock(&lock);
  if (!communicators) on_exit(at_exit, (void *)(intptr_t)getpid());
  c->next = communicators;
  communicators = c;
  pthread_mutex_unlock(&lock);
  *comm = c;
  return blocks ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
  return join(comm, nranks, id, rank, true);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  if (config->magic != 0xcafebeef || config->version < 21400) return ncclInvalidArgument;
  return join(comm, nranks, id, rank, config->blocking != 0);
}

static void check_communicator(const struct ncclComm *c, const char *call) {
  if (!c) standin_fail("%s gets no communicator", call);
  if (c->destroyed) standin_fail("%s gets a communicator that is destroyed", call);
}

// Fails if the caller of a communicator that does not block has not asked for the state of the last
// call (ncclCommGetAsyncError) before it makes the next one.
static void check_settled(const struct ncclComm *c, const char *call) {
  check_communicator(c, call);
  if (!c->blocks && !c->asked)
    standin_fail("%s: nobody has asked how the call before went, which returned ncclInProgress",
                 call);
}

static ncclResult_t answer(struct ncclComm *c, ncclResult_t result) {
  if (c->blocks || result != ncclSuccess) return result;
  c->asked = false;
  return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  check_settled(comm, "ncclCommFinalize");
  comm->finalized = true;
  return answer(comm, ncclSuccess);
}

static void run_group(void *argument);
static bool has_calls(const void *group, const void *comm);

// Ends a communicator. Fails where instantiated graphs have its calls: the library would wait until
// they are destroyed. call: the function of the library, for the message.
static ncclResult_t end(struct ncclComm *c, const char *call) {
  int n = meshc_standin_captured(run_group, has_calls, c);
  if (n)
    standin_fail("%s waits without end: graphs have %d operations of the communicator", call, n);
  meeting_leave(c->meeting);
  c->destroyed = true;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  check_settled(comm, "ncclCommDestroy");
  if (!comm->blocks && !comm->finalized)
    standin_fail("ncclCommDestroy: this communicator has to be finalized before");
  return end(comm, "ncclCommDestroy");
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  check_communicator(comm, "ncclCommAbort");
  meshc_standin_resume();
  return end(comm, "ncclCommAbort");
}

// The first question after a call is answered with ncclInProgress, later ones with ncclSuccess.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  check_communicator(comm, "ncclCommGetAsyncError");
  *error = comm->error ? comm->error : comm->blocks || comm->asked ? ncclSuccess : ncclInProgress;
  comm->asked = true;
  return ncclSuccess;
}

// -- groups -------------------------------------------------------------------------------------

// The calls of the group that the thread has begun.
typedef struct Group {
  int n;
  Part part[TRANSFER_PARTS];
} Group;
static _Thread_local Group group;

// Returns whether the calls of a group, the argument of run_group, are those of a communicator.
static bool has_calls(const void *group_of_calls, const void *comm) {
  const Group *g = group_of_calls;
  return g->part[0].comm == comm;
}

static _Thread_local int depth;
static _Thread_local cudaStream_t group_stream;

// Returns whether the operation is the one that fails: MESHC_STANDIN_NCCL_ERROR=NUMBER@RANK.
static bool is_to_fail(const struct ncclComm *c) {
  static unsigned number; // of operations of this process
  unsigned wanted;
  int rank;
  const char *text = getenv("MESHC_STANDIN_NCCL_ERROR");
  number++;
  return text && sscanf(text, "%u@%d", &wanted, &rank) == 2 && wanted == number && rank == c->rank;
}

// Runs the calls of a group. If a failure is injected, or if other ranks do not come and
// MESHC_STANDIN_NCCL_LATE is `hang`, the operation never ends.
static void run_group(void *argument) {
  Group *g = argument;
  const char *text = getenv("MESHC_STANDIN_NCCL_LATE");
  jmp_buf late;
  if (is_to_fail(g->part[0].comm)) {
    g->part[0].comm->error = ncclRemoteError;
    meshc_standin_hang();
    return;
  }
  if (text && strcmp(text, "hang") == 0) meeting_late = &late;
  if (!meeting_late) {
    transfer_group(g->part, g->n);
    return;
  }
  if (setjmp(late) == 0)
    transfer_group(g->part, g->n);
  else
    meshc_standin_hang();
  meeting_late = NULL;
}

// Writes the memory that a call accesses to access[0..2); returns how many pieces that are.
static int accesses_of(const Part *p, StandinAccess *access) {
  size_t block = (size_t)(p->count * transfer_bytes(p->type)),
         all = block * (size_t)p->comm->nranks;
  int n = 0;
  if (p->kind != RECEIVE)
    access[n++] = (StandinAccess){p->from, p->kind == REDUCE_SCATTER ? all : block, 1, 0, 0};
  if (p->kind != SEND)
    access[n++] = (StandinAccess){p->to, p->kind == ALL_GATHER ? all : block, 1, 0, STANDIN_WRITES};
  return n;
}

static ncclResult_t enqueue_group(void) {
  StandinAccess access[2 * TRANSFER_PARTS];
  int naccess = 0;
  for (int i = 0; i < group.n; i++) naccess += accesses_of(&group.part[i], access + naccess);
  size_t bytes = offsetof(Group, part) + (size_t)group.n * sizeof *group.part;
  const char *name = transfer_name(group.part[0].kind);
  if (group.n == 0) return ncclSuccess;
  struct ncclComm *comm = group.part[0].comm;
  int result = meshc_standin_enqueue(group_stream, name, access, naccess, run_group, &group, bytes);
  group.n = 0;
  return answer(comm, result == 0 ? ncclSuccess : ncclSystemError);
}

ncclResult_t ncclGroupStart(void) {
  depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
  if (depth == 0) return ncclInvalidUsage;
  return --depth ? ncclSuccess : enqueue_group();
}

static ncclResult_t add(Part p, cudaStream_t stream) {
  check_settled(p.comm, transfer_name(p.kind));
  if (transfer_bytes(p.type) == 0 || p.peer < 0 || p.peer >= p.comm->nranks || p.count < 0)
    return ncclInvalidArgument;
  if (group.n == TRANSFER_PARTS || (group.n && stream != group_stream))
    standin_fail("%s: a group has calls of one stream, and %d at most", transfer_name(p.kind),
                 TRANSFER_PARTS);
  group_stream = stream;
  group.part[group.n++] = p;
  return depth ? ncclSuccess : enqueue_group();
}

// -- calls --------------------------------------------------------------------------------------

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add((Part){ALL_REDUCE, from, to, (int64_t)count, type, op, 0, comm}, stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add((Part){REDUCE_SCATTER, from, to, (int64_t)count, type, op, 0, comm}, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add((Part){ALL_GATHER, from, to, (int64_t)count, type, ncclSum, 0, comm}, stream);
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add((Part){SEND, from, NULL, (int64_t)count, type, ncclSum, peer, comm}, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add((Part){RECEIVE, NULL, to, (int64_t)count, type, ncclSum, peer, comm}, stream);
}
