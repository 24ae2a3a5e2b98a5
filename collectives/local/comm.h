// Communicators: how processors of a mesh exchange blocks. One table of functions, three makers:
// local (processors are contexts of this process), mpi, nccl.
//
// A process runs one or several processors as contexts, worked on by a team of workers. When all
// contexts of the process have come to a collective, every worker calls comm_run; the communicator
// divides the work among them. On return of all workers the results stand in every destination.
#ifndef COLLECTIVES_COMM_H
#define COLLECTIVES_COMM_H

#include "ir/program/program.h"

// The operands of one processor in a call, part by part. member[i] of a call is the i-th context of
// the process; in `local`, processor i.
typedef struct CommMember {
  int64_t processor;
  void *const *src, *const *dst;        // nparts each; equal pointers (all_reduce only): in place
  const int64_t *src_valid, *dst_valid; // nparts * MAX_RANK valid extents
} CommMember;
typedef struct CommCall {
  const Collective *what;
  uint64_t sequence; // number of this call, equal on all processes
  int64_t members;   // contexts of this process
  const CommMember *member;
} CommCall;

// Counters per kind, kept by the communicator; bytes as decision 28 counts them.
typedef struct CommCount {
  int64_t calls[COLL_COUNT], bytes[COLL_COUNT], wire_bytes[COLL_COUNT];
  double seconds[COLL_COUNT];
} CommCount;

typedef struct Comm Comm;
typedef struct CommTable {
  const char *name;
  // Runs worker `worker` of `workers` of this process; all call it with the same `call`, after a
  // barrier of theirs and before the next. False after a failure, which `error` describes; then
  // every worker returns false.
  bool (*run)(Comm *c, const CommCall *call, int worker, int workers);
  void (*free)(Comm *c);
} CommTable;
struct Comm {
  const CommTable *table;
  const Mesh *mesh;
  CommCount count; // of the processor that sends most
  char error[256];
};

// All processors of the mesh in this process. Sums run in the order of ranks, so results do not
// depend on the number of workers. Caller owns; comm_free ends it. mesh must outlive it.
Comm *comm_local(const Mesh *mesh, int workers);

static inline bool comm_run(Comm *c, const CommCall *call, int worker, int workers) {
  return c->table->run(c, call, worker, workers);
}
static inline void comm_free(Comm *c) {
  if (c) c->table->free(c);
}

// A barrier for `workers` threads: spins about 2,000 pauses when there are cores for all, then
// sleeps on a futex. Reusable. Embedded by communicators and the executor alike.
typedef struct Barrier Barrier;
Barrier *barrier_new(int workers, bool spin);
void barrier_free(Barrier *b);
void barrier_wait(Barrier *b);

// In a loop that spins: lets the other thread of the core run.
static inline void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
