// Tests the stand-in of NCCL: collectives, sends and receives of two and three processes, also in a
// captured graph and of communicators that do not block; that ranks which do not agree are found,
// and that failures are injected.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/gpu/cuda.h"
#include "tests/standin/child.h"
#include "tests/standin/fail.h"
#include "tests/standin/nccl/nccl_api.h"

enum { N = 40000, BLOCKS = 4 }; // elements of a block: more than ranks exchange at once

static CudaApi api;
// Functions of NCCL, by their names.
#define NCCL_FUNCTIONS(F)                                                                          \
  F(ncclGetUniqueId)                                                                               \
  F(ncclCommInitRank)                                                                              \
  F(ncclCommInitRankConfig)                                                                        \
  F(ncclCommFinalize)                                                                              \
  F(ncclCommGetAsyncError)                                                                         \
  F(ncclCommAbort)                                                                                 \
  F(ncclCommDestroy)                                                                               \
  F(ncclAllReduce)                                                                                 \
  F(ncclReduceScatter) F(ncclAllGather) F(ncclSend) F(ncclRecv) F(ncclGroupStart) F(ncclGroupEnd)
static struct {
#define MEMBER(name) __typeof__(name) *name;
  NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
} nccl;

static void ok_at(int result, const char *call) {
  if (result == 0) return;
  fprintf(stderr, "%s returns %d\n", call, result);
  _exit(3);
}
#define OK(call) ok_at((int)(call), #call)

static void find(void *library, const char *name, void *to) {
  void *at = dlsym(library, name);
  ok_at(at == NULL, name);
  memcpy(to, &at, sizeof at);
}

static void open_libraries(void) {
  void *driver = dlopen(STANDIN_CUDA, RTLD_NOW | RTLD_LOCAL);
  void *library = driver ? dlopen(STANDIN_NCCL, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) ok_at(1, dlerror());
#define CUDA_FUNCTION(member, symbol, parameters) find(driver, #symbol, &api.member);
#include "runtime/gpu/cuda.def"
#define FIND(name) find(library, #name, &nccl.name);
  NCCL_FUNCTIONS(FIND)
}

// -- a rank -------------------------------------------------------------------------------------

static int rank, nranks;
static ncclComm_t comm;
static CudaStream stream;
static CudaAddress from, to;   // BLOCKS * N floats each
static float host[BLOCKS * N]; // what `from` has: i + 1000 rank

static void *pointer(CudaAddress at) { return (void *)(uintptr_t)at; }

static void begin(ncclUniqueId id) {
  CudaContext context;
  OK(api.Init(0));
  OK(api.DevicePrimaryCtxRetain(&context, 0));
  OK(api.CtxSetCurrent(context));
  OK(api.StreamCreate(&stream, CUDA_STREAM_NON_BLOCKING));
  OK(api.MemAlloc(&from, sizeof host));
  OK(api.MemAlloc(&to, sizeof host));
  for (int i = 0; i < BLOCKS * N; i++) host[i] = (float)(i % 1000 + 1000 * rank);
  OK(api.MemcpyHtoD(from, host, sizeof host));
  OK(nccl.ncclCommInitRank(&comm, nranks, id, rank));
}

static void end(void) {
  OK(api.CtxSynchronize());
  OK(nccl.ncclCommDestroy(comm));
  OK(api.MemFree(from));
  OK(api.MemFree(to));
  OK(api.StreamDestroy(stream));
  OK(api.DevicePrimaryCtxRelease(0));
}

// Compares element i of `to` with `want`.
static void check(const char *what, int i, double want) {
  float got;
  OK(api.StreamSynchronize(stream));
  OK(api.MemcpyDtoH(&got, to + 4 * (CudaAddress)i, 4));
  if ((double)got == want) return;
  fprintf(stderr, "rank %d, %s: element %d is %g, not %g\n", rank, what, i, (double)got, want);
  _exit(4);
}

// -- what must work -----------------------------------------------------------------------------

static void collectives(void) {
  double ranks = (double)nranks, sum = 1000 * ranks * (ranks - 1) / 2;
  OK(nccl.ncclAllReduce(pointer(from), pointer(to), N, ncclFloat32, ncclSum, comm, stream));
  check("sum", 39001, ranks * 1 + sum);
  OK(nccl.ncclAllReduce(pointer(from), pointer(to), 7, ncclFloat32, ncclMax, comm, stream));
  check("largest", 6, 6 + 1000 * (ranks - 1));
  OK(nccl.ncclReduceScatter(pointer(from), pointer(to), N, ncclFloat32, ncclSum, comm, stream));
  check("reduce_scatter", 123, ranks * 123 + sum);
  OK(nccl.ncclAllGather(pointer(from), pointer(to), N, ncclFloat32, comm, stream));
  check("all_gather", N + 5, 1005);
  OK(nccl.ncclAllReduce(pointer(to), pointer(to), N, ncclFloat32, ncclMin, comm, stream));
  check("in place", 17, 17);
}

static void send_around(void) {
  OK(nccl.ncclGroupStart());
  OK(nccl.ncclSend(pointer(from), N, ncclFloat32, (rank + 1) % nranks, comm, stream));
  OK(nccl.ncclRecv(pointer(to), N, ncclFloat32, (rank + nranks - 1) % nranks, comm, stream));
  OK(nccl.ncclGroupEnd());
}
static void exchanges(void) {
  send_around();
  check("ring", 39999, 999 + 1000 * ((rank + nranks - 1) % nranks));
}

static void graphs(void) {
  CudaGraph graph;
  CudaGraphExec exec;
  OK(api.StreamBeginCapture(stream, CUDA_CAPTURE_THREAD));
  send_around();
  OK(nccl.ncclAllReduce(pointer(to), pointer(from), N, ncclFloat32, ncclSum, comm, stream));
  OK(nccl.ncclAllGather(pointer(from), pointer(to), 1, ncclFloat32, comm, stream));
  OK(api.StreamEndCapture(stream, &graph));
  OK(api.GraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; i++) OK(api.GraphLaunch(exec, stream));
  double sum = 1000.0 * nranks * (nranks - 1) / 2;
  check("graph", 1, nranks * sum);
  OK(api.GraphDestroy(graph));
  OK(api.GraphExecDestroy(exec));
}

// A double does not hold these numbers.
static void wide_integers(void) {
  uint64_t own = ((uint64_t)1 << 60) + (uint64_t)rank, largest;
  OK(api.MemcpyHtoD(from, &own, sizeof own));
  OK(nccl.ncclAllReduce(pointer(from), pointer(to), 1, ncclUint64, ncclMax, comm, stream));
  OK(api.StreamSynchronize(stream));
  OK(api.MemcpyDtoH(&largest, to, sizeof largest));
  ok_at(largest != ((uint64_t)1 << 60) + (uint64_t)nranks - 1, "the largest integer");
}

// -- communicators that do not block ------------------------------------------------------------

static void settle(ncclComm_t c, ncclResult_t r) {
  for (int i = 0; i < 3 && r == ncclInProgress; i++) OK(nccl.ncclCommGetAsyncError(c, &r));
  OK(r);
}

// Exchanges the communicator for one that does not block. Rank 0 gives the id to the others.
static void stop_blocking(void) {
  ncclUniqueId id;
  ncclConfig_t config = {.size = sizeof config, .magic = 0xcafebeef, .version = 21800};
  OK(nccl.ncclGetUniqueId(&id));
  OK(api.MemcpyHtoD(from, &id, sizeof id));
  OK(nccl.ncclAllGather(pointer(from), pointer(to), sizeof id, ncclUint8, comm, stream));
  OK(api.StreamSynchronize(stream));
  OK(api.MemcpyDtoH(&id, to, sizeof id));
  OK(nccl.ncclCommDestroy(comm));
  ncclResult_t r = nccl.ncclCommInitRankConfig(&comm, nranks, id, rank, &config);
  ok_at(r != ncclInProgress, "a communicator that does not block");
  settle(comm, r);
}

static ncclResult_t add_up(void) {
  return nccl.ncclAllReduce(pointer(from), pointer(to), 4, ncclFloat32, ncclSum, comm, stream);
}

static void without_blocking(void) {
  stop_blocking();
  settle(comm, add_up());
  settle(comm, nccl.ncclCommFinalize(comm));
}

// An operation that fails, or to which the other rank does not come, never ends.
static void hangs(void) {
  ncclResult_t state = ncclSuccess;
  setenv(rank == 0 ? "MESHC_STANDIN_NCCL_ERROR" : "MESHC_STANDIN_NCCL_LATE",
         rank == 0 ? "1@0" : "hang", 1);
  OK(add_up());
  ok_at(api.StreamQuery(stream) != CUDA_NOT_READY, "an operation that never ends");
  OK(nccl.ncclCommGetAsyncError(comm, &state));
  ok_at((state == ncclRemoteError) != (rank == 0), "an asynchronous error");
  OK(nccl.ncclCommAbort(comm));
  OK(api.StreamSynchronize(stream));
  _exit(0);
}

// -- what must be found -------------------------------------------------------------------------

static void counts_differ(void) {
  size_t n = rank == 1 ? 10 : 11;
  nccl.ncclAllReduce(pointer(from), pointer(to), n, ncclFloat32, ncclSum, comm, stream);
}
static void types_differ(void) {
  ncclDataType_t type = rank == 1 ? ncclInt32 : ncclFloat32;
  nccl.ncclAllReduce(pointer(from), pointer(to), 10, type, ncclSum, comm, stream);
}
static void orders_differ(void) {
  if (rank == 0)
    nccl.ncclAllReduce(pointer(from), pointer(to), 10, ncclFloat32, ncclSum, comm, stream);
  nccl.ncclAllGather(pointer(from), pointer(to), 10, ncclFloat32, comm, stream);
}
static void rank_is_missing(void) {
  if (rank == 0)
    nccl.ncclAllReduce(pointer(from), pointer(to), 10, ncclFloat32, ncclSum, comm, stream);
  _exit(0);
}
static void nobody_sends(void) {
  if (rank == 0) nccl.ncclRecv(pointer(to), 10, ncclFloat32, 1, comm, stream);
  _exit(0);
}
static void lengths_differ(void) {
  size_t n = rank == 1 ? 10 : 11;
  OK(nccl.ncclGroupStart());
  nccl.ncclSend(pointer(from), n, ncclFloat32, 1 - rank, comm, stream);
  nccl.ncclRecv(pointer(to), 10, ncclFloat32, 1 - rank, comm, stream);
  nccl.ncclGroupEnd();
}
static void beyond_memory(void) {
  nccl.ncclAllGather(pointer(from), pointer(to), BLOCKS * N, ncclFloat32, comm, stream);
}
static void unordered_streams(void) {
  CudaStream other;
  OK(api.StreamCreate(&other, CUDA_STREAM_NON_BLOCKING));
  OK(api.MemsetD8Async(from, 0, 4, other));
  nccl.ncclAllReduce(pointer(from), pointer(to), 10, ncclFloat32, ncclSum, comm, stream);
}
static void nobody_asks(void) {
  stop_blocking();
  (void)add_up();
  (void)add_up();
}
static void graph_is_left(void) {
  CudaGraph graph;
  CudaGraphExec exec;
  OK(api.StreamBeginCapture(stream, CUDA_CAPTURE_THREAD));
  OK(add_up());
  OK(api.StreamEndCapture(stream, &graph));
  OK(api.GraphInstantiate(&exec, graph, 0));
  OK(nccl.ncclCommAbort(comm));
}
static void uses_destroyed(void) {
  OK(nccl.ncclCommDestroy(comm));
  nccl.ncclAllReduce(pointer(from), pointer(to), 10, ncclFloat32, ncclSum, comm, stream);
}

// -- running the cases --------------------------------------------------------------------------

typedef struct Case {
  const char *name;
  void (*code)(void);
  int nranks;
  const char *words[2];
  const char *seconds; // after which a rank gives up, where it has to
} Case;
static const Case good[] = {{"collectives", collectives, 2, {NULL}, NULL},
                            {"collectives of 3", collectives, 3, {NULL}, NULL},
                            {"exchanges", exchanges, 3, {NULL}, NULL},
                            {"exchange with itself", exchanges, 1, {NULL}, NULL},
                            {"graphs", graphs, 2, {NULL}, NULL},
                            {"wide integers", wide_integers, 2, {NULL}, NULL},
                            {"without blocking", without_blocking, 2, {NULL}, NULL},
                            {"hangs", hangs, 2, {NULL}, "0.3"}};
static const Case wrong[] = {
    {"counts", counts_differ, 2, {"the ranks do not agree", "of 10 elements of f32"}, NULL},
    {"types", types_differ, 2, {"the ranks do not agree", "of i32"}, NULL},
    {"orders", orders_differ, 2, {"the ranks do not agree", "ncclAllGather"}, NULL},
    {"missing",
     rank_is_missing,
     2,
     {"rank 0 waits in operation 1, ncclAllReduce", "rank 1"},
     "0.3"},
    {"nobody sends", nobody_sends, 2, {"rank 0 waits in operation 1, ncclRecv", "rank 1"}, "0.3"},
    {"lengths", lengths_differ, 2, {"the ranks do not agree", "ncclSend of 11 elements"}, NULL},
    {"beyond memory", beyond_memory, 2, {"ncclAllGather writes", "byte 0 of allocation 2"}, NULL},
    {"streams", unordered_streams, 2, {"ncclAllReduce reads", "nothing orders the two"}, NULL},
    {"nobody asks", nobody_asks, 2, {"nobody has asked how the call before went", NULL}, NULL},
    {"a graph", graph_is_left, 2, {"graphs have 1 operations of the communicator", NULL}, NULL},
    {"destroyed", uses_destroyed, 2, {"communicator that is destroyed", NULL}, NULL},
};

// Runs a case in a process for each rank. Ends with the largest of their exit codes.
static void run_ranks(void *argument) {
  const Case *c = argument;
  ncclUniqueId id;
  setenv("MESHC_STANDIN_NCCL_SECONDS", c->seconds ? c->seconds : "20", 1);
  OK(nccl.ncclGetUniqueId(&id));
  nranks = c->nranks;
  for (int r = 0; r < nranks; r++) {
    rank = r;
    if (fork() != 0) continue;
    begin(id);
    c->code();
    end();
    exit(0);
  }
  int worst = 0;
  for (int status; wait(&status) > 0;) {
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (code > worst) worst = code;
  }
  _exit(worst);
}

static void test_good(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(good); i++) {
    Case c = good[i];
    char text[1000];
    int code = child_run(run_ranks, &c, text, sizeof text);
    if (code != 0) fail_msg("%s: exit code %d, %s", c.name, code, text);
  }
}

static void test_wrong(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(wrong); i++) {
    Case c = wrong[i];
    if (!child_fails(run_ranks, &c, c.words, countof(c.words))) fail_msg("%s is not found", c.name);
  }
}

int main(void) {
  open_libraries();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_wrong)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
