// Private: what the files of asynchronous updates share (stale.c has the idea).
#ifndef RUNTIME_STALE_INTERNAL_H
#define RUNTIME_STALE_INTERNAL_H

#include <pthread.h>

#include "runtime/train/stale.h"

enum { STALE_SPINS = 300 }; // turns of a wait before it sleeps

// -- what ranks share ---------------------------------------------------------------------------

enum { SERVER_IDLE, SERVER_ASKED };
// A server, in the memory of its first processor.
typedef struct StaleServer {
  atomic_uint lock;    // 0: free; 1: held; 2: held, and others wait for it
  atomic_uint request; // SERVER_ASKED: make the update of what the inputs have
  atomic_llong number; // of that update
} StaleServer;
// The clocks of a group: the number of steps begun and finished.
typedef struct StaleClock {
  _Alignas(64) atomic_llong begun, done;
} StaleClock;
// In the memory of processor 0, behind its server. The values of the last step of each replica
// follow the clocks.
typedef struct StaleClocks {
  atomic_uint lock;
  atomic_llong until; // no replica begins this step
  atomic_uint ticks;  // advances with each step that a group has finished
  StaleClock clock[];
} StaleClocks;

// What a parameter or state needs to be pushed and pulled: indices of tensors.
typedef struct StalePair {
  uint32_t pushed, gradient; // the input of the server, the output of the worker
  uint32_t kept, own;        // the tensor of the server, that of the worker
} StalePair;

// The batches of this process, which its groups read at different times.
typedef struct StaleBatches {
  pthread_mutex_t gate;
  int64_t next;      // number of the batch that the feed gives next
  const void **data; // of the feed
  // with several groups: copies of the last `slots` batches, each input by input
  int64_t slots;
  char **copy;
  bool failed;
} StaleBatches;

// A group of this process, which runs in a thread of its own.
typedef struct StaleGroup {
  Stale *s;
  int64_t number;
  Exec *exec;
  pthread_t thread;
  // by pair: the full tensor of the parameter and of its gradient. One processor may have them in
  // its memory (exec_direct); otherwise they are put together
  char **value, **gradient;
  bool *direct_value, *direct_gradient;
  char **rows; // by input: room for the rows of a replica, NULL: they are in one piece
  void **room; // memory of these, to be freed
  uint32_t nrooms;
  int64_t updates, pulls, pushed, pulled;
  int64_t step, replica; // of the step that failed
  StepResult result;
} StaleGroup;

struct Stale {
  const TrainJob *job;
  StaleJob *stale;
  Exec *servers;
  Ranks *ranks;
  SharedSegment *segment;
  void *alone; // what the segment would have, if this is the only process
  StaleClocks *clocks;
  double *shown;            // by replica and TrainJob.shown
  int64_t nservers, server; // number of servers, and that of this rank
  uint32_t npairs;
  StalePair *pair;
  uint32_t ninputs;
  const FeedInput *input;
  int32_t *taken; // by input: the tensor of the workers, -1: they do not read it
  StaleBatches batches;
  StaleGroup *group;
  int64_t from;
  pthread_mutex_t watching; // held by the thread that looks at the other ranks
  // Held during an update. The lock of the server lets one thread of this process at a time make
  // one, but it may come by way of another process: this one orders the threads by themselves.
  pthread_mutex_t updating;
  atomic_bool ends;   // the server of this process is to end
  atomic_bool broken; // a group of this process has failed
  bool no_threads;    // not all groups could be started
  uint64_t meetings;
};

// -- stale_serve.c ------------------------------------------------------------------------------
// A wait: how often it has looked, when it began or a group has finished a step since, and when it
// looked at the other ranks last.
typedef struct Waiting {
  int turns;
  unsigned ticks; // StaleClocks.ticks at `began`
  double began, looked;
} Waiting;
// Waits a little for *word to become another number than `value`. Returns false once the run has
// failed.
MUST_USE bool stale_wait(Stale *s, atomic_uint *word, unsigned value, Waiting *w);
MUST_USE bool lock_take(Stale *s, atomic_uint *lock); // returns false once the run has failed
void lock_release(atomic_uint *lock);
// Makes the updates that other ranks ask for, until server_end. Has the signature of a thread.
void *serve(void *stale);
void server_end(Stale *s, pthread_t thread);
// Gets the parameters and states of all servers, each after one of its updates. Returns false once
// the run has failed.
MUST_USE bool pull(StaleGroup *g);
// Gives the gradients of the step that a replica has just computed to all servers, for update
// `number`. Returns false once the run has failed.
MUST_USE bool push(StaleGroup *g, int64_t number);

// -- stale_batches.c ----------------------------------------------------------------------------
void batches_open(Stale *s);
void batches_close(Stale *s);
// Sets *data to the inputs of batch t. No group of this process is `slots` batches behind another
// one. Returns false if the feed has failed.
MUST_USE bool batch_get(Stale *s, int64_t t, const void *const **data);
// Returns the rows of a replica in input number i of a batch. Its axis of rows may have axes before
// it: then the rows are copied to g->rows[i].
const void *rows_of(const StaleGroup *g, uint32_t i, const void *whole, int64_t replica);
size_t batch_bytes(const FeedInput *x);

#endif
