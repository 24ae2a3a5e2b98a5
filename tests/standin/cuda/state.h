// The state of the stand-in of libcuda: what the environment asks for, the order of operations,
// memories, and how an operation is run.
//
//   MESHC_STANDIN_DEVICES      number of GPUs                                        1
//   MESHC_STANDIN_CAPABILITY   compute capability times 10                           90
//   MESHC_STANDIN_MEMORY       bytes of the GPU's memory                             17179869184
//   MESHC_STANDIN_SEED         of the order of warps, blocks and nodes of a graph    1
//   MESHC_STANDIN_FAIL_LAUNCH  number of the launch of a function that fails         none
//   MESHC_STANDIN_HANG_LAUNCH  number of the launch of a function that never ends    none
//   MESHC_STANDIN_SLOW         seconds that a graph seems to take                    0
//   MESHC_STANDIN_CLOSED       1: the host faults where it accesses the GPU's memory  0
//   MESHC_STANDIN_WRITTEN      1: functions may read only what was written before      0
//   MESHC_STANDIN_CALLS        file that gets how often each function was called      none
#ifndef TESTS_STANDIN_STATE_H
#define TESTS_STANDIN_STATE_H

#include "runtime/gpu/cuda.h"
#include "tests/standin/cuda/handle.h"
#include "tests/standin/emulator.h"
#include "tests/standin/fail.h"
#include "tests/standin/memory.h"
#include "tests/standin/order.h"
#include "tests/standin/standin.h"

// All functions of the library, as meshc declares them.
#define EXPORTED __attribute__((visibility("default")))
#define CUDA_FUNCTION(member, symbol, parameters) EXPORTED CudaResult symbol parameters;
#include "runtime/gpu/cuda.def"

typedef struct State {
  bool started;
  long devices, capability, fail_launch, hang_launch, lost_wait; // settings (README.md)
  double slow;       // seconds that a graph seems to take (host_hold)
  double slow_from;  // clock (seconds) at the last launch of one; 0: it seems to have ended
  bool closed;       // memory of the GPU is accessible only during a call
  bool written;      // functions may read only what was written
  long launches;     // of functions, run so far
  long waits;        // calls of cuStreamWaitEvent so far
  unsigned graphs;   // launches of graphs so far
  bool in_graph;     // the last one of them is running
  CudaResult failed; // of an injected failure
  bool failure_told; // a call has returned it: from now on all do
  bool hangs;        // an operation never ends: operation `hung` of hung_lane
  uint32_t hung_lane, hung;
  Memory *memory;
  Order *order;
  Emulator *emulator;
  Clock host; // what the host has waited for
  long users; // of the context
  struct CUctx_st *context;
  ShadowSelf self; // of the running operation
  uint32_t lane, number;
  uint64_t random;
} State;
extern State state;

// Begins a call of the library: takes the lock, and returns from the calling function what the call
// has to return if it can do nothing. END(result) ends it.
#define BEGIN(name)                                                                                \
  do {                                                                                             \
    CudaResult before = state_enter(name);                                                         \
    if (before != CUDA_OK) return state_leave(before);                                             \
  } while (0)
#define END(result) return state_leave(result)
CudaResult state_enter(const char *call);
CudaResult state_leave(CudaResult r);
// The name of the running call, for messages.
const char *state_call(void);
// The context that is current for this thread; NULL: none.
extern _Thread_local CudaContext current_context;

// -- operations ---------------------------------------------------------------------------------

// Something that a stream or a graph runs.
typedef struct Work {
  char name[64];
  void (*run)(void *argument);
  void *argument; // own memory, `bytes` bytes
  size_t bytes;
  StandinAccess *access;
  int naccess;
  bool launches; // a function of a module: it tells its accesses while it runs
} Work;

Work work_new(const char *name, const StandinAccess *access, int n, void (*run)(void *),
              const void *argument, size_t bytes);
Work work_copy(const Work *w);
void work_free(Work *w);
// Runs an operation as the next one of a lane, ordered behind all that `behind` covers. Checks what
// it accesses.
void work_run(const Work *w, uint32_t lane, const Clock *behind);
// The host has waited for all that c covers, or for everything (NULL). Does not return if an
// operation among them hangs. Returns what the waiting call has to return.
CudaResult state_wait(const Clock *c);
// Returns the bytes of shared memory that a block may have if its function asks for them.
int state_shared_bytes(void);
// Gives the signals of this thread a stack of their own: a fault may be that a coroutine's is full.
void state_use_signal_stack(void);
// Returns a random number, by the seed.
uint32_t state_random(void);

#endif
