// What the files of the simulator share. Private to the room.
#ifndef CODEGEN_SIMULATE_RULES_H
#define CODEGEN_SIMULATE_RULES_H

#include "codegen/codegen.h"

enum {
  ZONE_GRANULES = 8192, // pieces of a memory whose last use is kept
  LANES = 16,           // elements of f32 in a vector
  TILE = 8,             // rows of a register tile
  PART = 1,             // operations more that a masked access takes
  SOLO_BYTES = 1 << 16,
  SOLO_FLOPS = 1 << 18,
  SOLO_ORDERED = 1 << 13, // less than this the executor does not share out
};

typedef struct Touch {
  double at; // bytes touched before
  uint32_t segment;
  bool seen, other_core; // far: another core has written it since
} Touch;
typedef struct Zone { // a persistent tensor, or the arena
  int64_t bytes, granule;
  Touch *last;
} Zone;
typedef struct CacheTraffic {
  double l2, l3, memory; // bytes, by where they come from
} CacheTraffic;
typedef struct MemoryRange {
  int32_t tensor;
  int64_t first, end;
} MemoryRange;
typedef struct Pending { // a part of a collective under way
  double end;
  MemoryRange from, to;
} Pending;

typedef struct Sim {
  Arena *a;
  const Compiled *c;
  const Program *p;
  const Machine *m;
  double processors, contexts,
      team;         // of the mesh; that a core runs in turn; cores that share a processor
  Zone *zone;       // of a tensor; the last is the arena's
  double touched;   // bytes so far
  uint32_t segment; // collectives so far
  int depth;
  int64_t at[LOOP_DEPTH];
  double now, link; // when the core and the link are free
  double compute, transfer, waited;
  double *of; // seconds of each instruction
  VEC(Pending) pending;
} Sim;

// simulate_cost.c
void sim_zones(Sim *s);
int64_t sim_offset(const Sim *s, Ref r); // where r is at this step of the loops around
double sim_size(const Sim *s, Size x);
int64_t part_bytes(const CollPart *p, const int64_t *block, Dtype type);
void sim_gemm_spans(const Sim *s, const Gemm *p,
                    int64_t span[3]); // bytes of A, B, C from first to last
double sim_seconds(Sim *s, const Instr *in);

// simulate_kernel.c
typedef struct PointerSpan {
  int64_t span;  // bytes from the first to behind the last element that a pointer moves over
  double bytes;  // of the elements, each counted once
  bool indirect; // at places that are computed: span is not known, bytes are those of all accesses
} PointerSpan;
// Valid extents of a kernel's loops in a set.
void sim_extents(const Sim *s, const Kernel *k, const KernelSet *set, double extent[MAX_LOOPS]);
PointerSpan kernel_pointer_span(const Kernel *k, int ptr, const double *extent);
// Simple operations on f32, vectors counting whole.
double kernel_operations(Arena *scratch, const Kernel *k, const double *extent);
// Bytes from r to the end of what lies there.
int64_t sim_bytes_from(const Sim *s, Ref r);

#endif
