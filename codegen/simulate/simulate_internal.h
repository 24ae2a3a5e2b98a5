// What the files of the simulator share.
//
//   simulate_access.c   caches: which of them serves the memory accesses of an instruction
//   simulate_kernel.c   the operations of a kernel
//   simulate_cost.c     the memory accesses and the seconds of an instruction
//   simulate.c          the clocks of the core and of the link; loops; a step
//
// Words: a zone is memory that caches are simulated for, one for each persistent tensor and one for
// the arena. A zone is divided into granules of equal size; a cache holds a granule or does not.
// A segment is the time between two collectives: a core that runs several processors changes from
// one to the next at a collective.
#ifndef CODEGEN_SIMULATE_RULES_H
#define CODEGEN_SIMULATE_RULES_H

#include "codegen/codegen.h"

enum { LANES = 16 }; // f32 elements of a vector

// A memory access of an instruction: `bytes` move within the `span` bytes from `at` on.
typedef struct Access {
  Ref at;
  int64_t span;
  double bytes;
  bool writes;
} Access;

// The last access to a granule.
typedef struct Touch {
  double at;        // Sim.touched at that time
  uint32_t segment; // Sim.segment at that time
  bool seen;        // false: the granule has not been accessed yet
  bool other_core;  // the access was part of a collective: another core has written or read it
} Touch;
typedef struct Zone {
  int64_t bytes, granule; // size of the zone, size of a granule
  Touch *last;            // by granule
} Zone;
// Bytes that come from the second-level cache, from the third-level cache, from memory.
typedef struct CacheTraffic {
  double l2, l3, memory;
} CacheTraffic;

typedef struct MemoryRange {
  int32_t tensor;     // index of a persistent tensor, -1: the arena
  int64_t first, end; // bytes
} MemoryRange;
// One tensor of a collective that is under way: it is read from `from` and written to `to`.
typedef struct Pending {
  double end; // the time in seconds at which the collective ends
  MemoryRange from, to;
} Pending;

// Times in seconds. The sums grow with every instruction.
typedef struct Clocks {
  double now, link;                 // when the core and the link are free
  double compute, transfer, waited; // sums: of instructions, of collectives, of waits of the core
} Clocks;

typedef struct Sim {
  Arena *a;
  const Compiled *c;
  const Program *p;
  const Machine *m;
  double processors;      // of the mesh
  double contexts;        // processors that a core runs one after the other, at least 1
  double team;            // cores that share a processor, at least 1
  Zone *zone;             // by persistent tensor; the last one is the arena's
  double touched;         // bytes that all accesses so far have moved
  uint32_t segment;       // number of collectives so far
  int depth;              // number of open loops
  int64_t at[LOOP_DEPTH]; // iteration of each open loop
  Clocks t;
  double *of;         // seconds of each instruction
  VEC(Access) access; // of the current instruction
  VEC(Pending) pending;
} Sim;

// -- simulate_access.c
void sim_zones(Sim *s); // makes the zones; no cache holds any of their granules
// Returns the value of a size: its run-time scalar is taken at full blocks.
double sim_size(const Sim *s, Size x);
// Returns the bytes from the start of r's zone to r, in the current iteration of all open loops.
int64_t sim_offset(const Sim *s, Ref r);
// Adds an access to s->access.
void sim_access(Sim *s, Ref at, int64_t span, double bytes, bool writes);
// Returns the bytes from r to the end of its tensor or of the buffer that contains it.
int64_t sim_bytes_behind(const Sim *s, Ref r);
// Makes the accesses of the current instruction, or those that write, the last accesses of their
// granules. Returns the bytes that they move, by the cache that holds the granules at that time.
CacheTraffic sim_touch(Sim *s, bool only_writes, bool other_core);

// -- simulate_kernel.c
// Adds the accesses of a kernel through pointer number `ptr`, which is at `at`. extent: iterations
// of each loop.
void kernel_access(Sim *s, const Kernel *k, int ptr, Ref at, const double *extent);
// Returns the operations of a kernel, as a number of f32 elements: the addition of one vector of
// f32 elements is LANES operations. A vector that is filled in part counts as a full one.
double kernel_operations(Arena *scratch, const Kernel *k, const double *extent);

// -- simulate_cost.c
// Sets s->access to the accesses of an instruction, in order, and makes them the last accesses of
// their granules. Returns the seconds of the instruction.
double sim_seconds(Sim *s, const Instr *in);

#endif
