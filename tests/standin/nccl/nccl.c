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

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
  if (nranks < 1 || nranks > MEETING_RANKS || rank < 0 || rank >= nranks)
    return ncclInvalidArgument;
  struct ncclComm *c = mem_zeroed(1, sizeof *c);
  c->rank = rank;
  c->nranks = nranks;
  c->meeting = meeting_join(id.internal, nranks, rank);
  pthread_mutex_lock(&lock);
  if (!communicators) on_exit(at_exit, (void *)(intptr_t)getpid());
  c->next = communicators;
  communicators = c;
  pthread_mutex_unlock(&lock);
  *comm = c;
  return ncclSuccess;
}

static void check_communicator(const struct ncclComm *c, const char *call) {
  if (!c) standin_fail("%s gets no communicator", call);
  if (c->destroyed) standin_fail("%s gets a communicator that is destroyed", call);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  check_communicator(comm, "ncclCommDestroy");
  meeting_leave(comm->meeting);
  comm->destroyed = true;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  check_communicator(comm, "ncclCommGetAsyncError");
  *error = ncclSuccess;
  return ncclSuccess;
}

// -- groups -------------------------------------------------------------------------------------

// The calls of the group that the thread has begun.
typedef struct Group {
  int n;
  Part part[TRANSFER_PARTS];
} Group;
static _Thread_local Group group;
static _Thread_local int depth;
static _Thread_local cudaStream_t group_stream;

static void run_group(void *argument) {
  Group *g = argument;
  transfer_group(g->part, g->n);
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
  int result =
      group.n ? meshc_standin_enqueue(group_stream, name, access, naccess, run_group, &group, bytes)
              : 0;
  group.n = 0;
  return result == 0 ? ncclSuccess : ncclSystemError;
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
  check_communicator(p.comm, transfer_name(p.kind));
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
