// What the files of the simulator share.
//
//   simulate_access.c   the memory that an instruction touches, and the caches that hold it
//   simulate_kernel.c   the operations of a kernel
//   simulate_cost.c     the seconds of an instruction
//   simulate.c          the two clocks, loops, a step
#ifndef CODEGEN_SIMULATE_RULES_H
#define CODEGEN_SIMULATE_RULES_H

#include "codegen/codegen.h"

enum { LANES = 16 }; // f32 elements of a vector

// An access of an instruction: `bytes` move within the `span` bytes from `at` on.
typedef struct Access {
  Ref at;
  int64_t span;
  double bytes;
  bool writes;
} Access;

// The last access to one granule of a zone.
typedef struct Touch {
  double at;        // bytes that the program had touched before
  uint32_t segment; // Sim.segment at that time
  bool seen;        // there was one
  bool other_core;  // by a collective: another core has written or read it
} Touch;
typedef struct Zone { // a persistent tensor, or the arena
  int64_t bytes, granule;
  Touch *last; // [granule]
} Zone;
typedef struct CacheTraffic {
  double l2, l3, memory; // bytes by where they come from
} CacheTraffic;

typedef struct MemoryRange {
  int32_t tensor;
  int64_t first, end;
} MemoryRange;
typedef struct Pending { // one part of a collective that is under way
  double end;            // seconds
  MemoryRange from, to;
} Pending;

typedef struct Sim {
  Arena *a;
  const Compiled *c;
  const Program *p;
  const Machine *m;
  double processors; // of the mesh
  double contexts;   // processors that a core runs one after the other, at least 1
  double team;       // cores that share a processor, at least 1
  Zone *zone;        // [tensor]; the last is the arena's
  double touched;    // bytes so far
  uint32_t segment;  // collectives so far
  int depth;         // open loops
  int64_t at[LOOP_DEPTH];
  double now, link; // when the core and the link are free, seconds
  double compute, transfer, waited;
  double *of;         // seconds of each instruction
  VEC(Access) access; // of the current instruction
  VEC(Pending) pending;
} Sim;

// -- simulate_access.c --------------------------------------------------------------------------
void sim_zones(Sim *s); // zones of all memory, nothing of which is in a cache
double sim_size(const Sim *s, Size x);
// Valid extents of a kernel's loops in a set.
void sim_extents(const Sim *s, const Kernel *k, const KernelSet *set, double extent[MAX_LOOPS]);
int64_t sim_offset(const Sim *s, Ref r); // of r in its zone, at the current step of all loops
// Sets s->access to the accesses of an instruction, in order.
void sim_accesses(Sim *s, const Instr *in);
// Marks all accesses of the current instruction, or only those that write, as the last ones.
// Returns where their bytes come from.
CacheTraffic sim_touch(Sim *s, bool only_writes, bool other_core);

// -- simulate_kernel.c --------------------------------------------------------------------------
// Operations in units of one addition of a vector of f32 elements, times LANES. A partial vector
// counts as a full one.
double kernel_operations(Arena *scratch, const Kernel *k, const double *extent);

// -- simulate_cost.c ----------------------------------------------------------------------------
// Seconds of an instruction whose accesses are in s->access; touches them.
double sim_seconds(Sim *s, const Instr *in);

#endif
