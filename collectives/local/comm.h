// Communicators: how the processors of a mesh exchange blocks.
//
// A process has one or several processors as contexts and a team of workers. When all contexts of
// the process have come to a collective, every worker calls comm_run, and the communicator divides
// the work among them. When all workers have returned, the results are in every destination.
//
// There are two communicators: comm_local for processors of one process, comm_ranks
// (collectives/ranks/ranks.h) for several processes.
//
// A Collective has one or several parts: the collective nodes of one bucket, each with an operand
// and a result. A member is a processor that takes part in the call.
#ifndef COLLECTIVES_COMM_H
#define COLLECTIVES_COMM_H

#include "ir/program/program.h"

// The operands and results of one processor in a call of a collective.
typedef struct CommMember {
  int64_t processor;
  // by part: the addresses of the operand's and of the result's block. In an all_reduce they may be
  // equal: then it works in place. Members may have one result (CollPart.once).
  void *const *src, *const *dst;
  // by part, MAX_RANK numbers each: by dim of the block, how many of its elements are not padding
  const int64_t *src_valid, *dst_valid;
} CommMember;
typedef struct CommCall {
  const Collective *what;
  uint64_t sequence; // number of this call, equal on all processes
  int64_t members;   // length of `member`: the number of processors of the mesh
  const CommMember *member;
  bool
      defers; // true: kernels compute the parts marked CollPart.deferred, so nothing moves for them
} CommCall;

// What a communicator has counted so far, by kind of collective: calls, bytes (coll_call_bytes,
// collectives/collectives.h), bytes that one processor sends in a ring, and seconds. In a permute
// the bytes are those of the processor that sends most.
typedef struct CommCount {
  int64_t calls[COLL_COUNT], bytes[COLL_COUNT], wire_bytes[COLL_COUNT];
  double seconds[COLL_COUNT];
} CommCount;

typedef struct Comm Comm;
struct Comm {
  const Mesh *mesh;
  CommCount count;
  // Does the share of worker `worker` of `workers`. All workers of the process call it with equal
  // `call`, between two barriers. Returns false on worker 0 once the run has failed.
  bool (*run)(Comm *c, const CommCall *call, int worker, int workers);
  void (*free)(Comm *c);
};

// Returns a communicator for a mesh whose processors are all in this process. Reductions combine in
// the order of processors, so results do not depend on the number of workers. The caller frees it
// with comm_free; mesh must outlive it.
Comm *comm_local(const Mesh *mesh, int workers);

static inline bool comm_run(Comm *c, const CommCall *call, int worker, int workers) {
  return c->run(c, call, worker, workers);
}
static inline void comm_free(Comm *c) {
  if (c) c->free(c);
}

// A reusable barrier for a fixed number of threads. With the option `spin`, a waiter executes about
// 2,000 pause instructions before it sleeps. The option is for processes that have a core for every
// thread.
typedef struct Barrier Barrier;
Barrier *barrier_new(int workers, bool spin);
void barrier_free(Barrier *b);
void barrier_wait(Barrier *b);
// Work in small portions. Returns false if nothing is left to do.
typedef bool BarrierWork(void *context);
// The same, but a waiter that would spin calls `work` instead, as long as there is any.
void barrier_wait_working(Barrier *b, BarrierWork *work, void *context);

// Executes the pause instruction, which lets the other hardware thread of the core run. Loops that
// spin call it once a turn.
static inline void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
