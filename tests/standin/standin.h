// What other stand-ins (of libcublasLt, of libnccl) use of the stand-in of libcuda: they link with
// it, and enqueue their work there, so that it is captured into graphs and that its accesses are
// checked against those of all other operations.
#ifndef TESTS_STANDIN_STANDIN_H
#define TESTS_STANDIN_STANDIN_H

#include <stdbool.h>
#include <stddef.h>

// Memory that an operation accesses: `rows` pieces of `bytes` bytes, `stride` bytes from the start
// of one to that of the next.
typedef struct StandinAccess {
  const void *at;
  size_t bytes, rows, stride;
  int flags; // STANDIN_WRITES: it writes them, perhaps reading them before; STANDIN_HOST: they may
             // be memory of the host that no function of CUDA allocated
} StandinAccess;
enum { STANDIN_WRITES = 1, STANDIN_HOST = 2 };

// Enqueues an operation in a stream (a CUstream). When it is its turn, run(copy) is called, where
// `copy` is a copy of argument[0..bytes): now, or at each launch of the graph that the stream
// captures. Device addresses are readable and writable then. `name` is for messages, and copied,
// as `access` is. Returns a CUresult; misuse ends the process (tests/standin/fail.h).
// Thread rule: any thread; `run` is called by the thread that enqueues, and must not call CUDA.
__attribute__((visibility("default"))) int
meshc_standin_enqueue(void *stream, const char *name, const StandinAccess *access, int n,
                      void (*run)(void *copy), const void *argument, size_t bytes);
// Returns how many operations with this `run`, and for whose argument is(copy, what) is true, are
// in graphs that are instantiated and not destroyed. Returns 0 after a failure of the GPU, when
// graphs cannot be destroyed.
__attribute__((visibility("default"))) int
meshc_standin_captured(void (*run)(void *copy), bool (*is)(const void *copy, const void *what),
                       const void *what);
// Returns the number of the launch of a graph, counted from 1, to which the running operation
// belongs; 0: it is in no graph. Called by `run`.
__attribute__((visibility("default"))) unsigned meshc_standin_launch(void);
// Makes the operation that is running one that never ends: its `run` calls this.
__attribute__((visibility("default"))) void meshc_standin_hang(void);
// Ends an operation that never ends. Thread rule: any thread, but not from `run`.
__attribute__((visibility("default"))) void meshc_standin_resume(void);

#endif
