// What the files of the simulator share.
//
//   simulate_access.c   caches: which of them serves the memory accesses of an instruction
//   simulate_kernel.c   the operations of a kernel
//   simulate_cost.c     the memory accesses and the seconds of an instruction
//   simulate_gpu.c      the seconds of an instruction on a GPU
//   simulate_lanes.c    the operations of a kernel on a GPU
//   simulate_live.c     what masks leave out of attention on a GPU
//   simulate.c          the clocks of the core and of the link; loops; a step
//
// A zone is memory for which caches are simulated: one for each persistent tensor, and one for the
// arena. It is divided into granules of equal size; a cache holds a granule or does not. A run is a
// sequence of granules whose last access is the same one. A segment is the time between two
// collectives. A core that runs several processors changes from one to the next at a collective.
#ifndef CODEGEN_SIMULATE_RULES_H
#define CODEGEN_SIMULATE_RULES_H

#include "codegen/codegen.h"

enum { LANES = 16 }; // f32 elements of a vector

// A memory access of an instruction. It moves `bytes` bytes, all of which are in the range of
// `span` bytes that begins at `at`.
typedef struct Access {
  Ref at;
  int64_t span;
  double bytes;
  bool writes;
  // The cores of a processor access one range each, the first core the first one. Otherwise each of
  // them accesses columns or rows all over the span, or the whole.
  bool ranges;
} Access;

// The last access to the granules of a run. `written`, `ranges` and `copied` are about the cores of
// one processor.
typedef struct Touch {
  int64_t first;    // the granule that the access began with; the run may begin behind it
  double at;        // Sim.touched when the access began
  double each;      // bytes that it moved for each granule, one granule after the other
  uint32_t segment; // Sim.segment at the time of the access
  bool seen;        // false: the granules have not been accessed yet
  bool other_core;  // the access was part of a collective: another core has written or read it
  bool written;     // an instruction has written the granules
  bool ranges;      // the instruction that wrote it last wrote ranges
  bool copied;      // other cores have read the granules since
} Touch;
// The runs of a zone. Most tensors are accessed as a whole only: they have one run, and no tables.
typedef struct Zone {
  int64_t bytes, granule; // size of the zone and of a granule, in bytes
  int64_t granules;       // number of granules, at least 1
  Touch whole;            // the only run, if `begins` is NULL
  uint64_t *begins;       // otherwise: bit i is set if a run begins with granule i
  Touch *run;             // by the granule that a run begins with
} Zone;
// Bytes that come from the second-level cache, from that of another core of the same processor,
// from the third-level cache, and from memory.
typedef struct CacheTraffic {
  double l2, core, l3, memory;
} CacheTraffic;

typedef struct MemoryRange {
  int32_t tensor;     // index of a persistent tensor; -1: the arena
  int64_t first, end; // offsets in bytes; `end` is behind the last byte
} MemoryRange;
// One tensor of a collective that is under way: it is read from `from` and written to `to`.
typedef struct Pending {
  double end; // the time in seconds at which the collective ends
  MemoryRange from, to;
} Pending;

// Times in seconds since the start of the step, and the sums of the times of the instructions so
// far by kind.
typedef struct Clocks {
  double now, link;                 // times at which the core and the link are free
  double compute, transfer, waited; // sums: of instructions, of collectives, of waits of the core
} Clocks;

// The seconds of an instruction by what they are spent on. Some of them pass at the same time.
typedef struct SimParts {
  double operations, bytes, latency;
} SimParts;

typedef struct Sim {
  Arena *a;
  const Compiled *c;
  const Program *p;
  const Machine *m;
  double processors;      // processors of the mesh
  double contexts;        // processors that a core runs one after the other, at least 1
  double team;            // cores that share a processor, at least 1
  Zone *zone;             // the zone of each persistent tensor, then that of the arena
  double touched;         // bytes that all accesses so far have moved, as a clock for caches
  uint32_t segment;       // number of collectives so far
  uint32_t instr;         // index of the current instruction
  int depth;              // number of open loops
  int64_t at[LOOP_DEPTH]; // iteration of each open loop
  Clocks t;
  double *of;                // sum of the seconds of each instruction
  uint8_t *limit;            // the Limit of each instruction
  struct Added **added;      // by INSTR_LOOP: what the guarded loop has added last; NULL before
  SimParts parts;            // of the current instruction
  struct KnownKernel *known; // [kernel] what simulate_gpu.c has computed of it; NULL before
  struct KnownWork *work;    // [kernel] what simulate_cost.c has computed of it; NULL before
  VEC(Access) access;        // accesses of the current instruction
  VEC(Pending) pending;
} Sim;

// -- simulate_access.c
void sim_zones(Sim *s); // makes all zones; no cache holds any of their granules
// Returns the value of a size. If the size contains a run-time scalar, the scalar counts with its
// value for full blocks.
double sim_size(const Sim *s, Size x);
// Returns the distance in bytes of reference r from the start of its zone, the memory area that
// contains it. Loops that are open count with their current iteration.
int64_t sim_offset(const Sim *s, Ref r);
// Adds to s->access an access of `bytes` bytes within the `span` bytes from `at`. writes: the
// access writes, else it reads. Each core of a processor accesses one range.
void sim_access(Sim *s, Ref at, int64_t span, double bytes, bool writes);
// Returns the bytes from address r to the end of the memory around it. That is the buffer for an
// address in the arena, otherwise the tensor.
int64_t sim_bytes_behind(const Sim *s, Ref r);
// The same for a value that the current instruction accesses: memory that holds other values at
// other times does not count.
int64_t sim_value_bytes(const Sim *s, Ref r);
// Records the accesses in s->access as the last accesses of their granules (tracked blocks of
// memory). With only_writes, records only accesses that write. Returns the bytes moved, by the
// cache that held the granules before. other_core: the accesses are part of a collective.
CacheTraffic sim_touch(Sim *s, bool only_writes, bool other_core);

// -- simulate_kernel.c
// Adds to s->access the accesses of kernel k through pointer number `ptr`, whose address is `at`.
// extent: the number of iterations of each loop of the kernel.
void kernel_access(Sim *s, const Kernel *k, int ptr, Ref at, const double *extent);
// The work of a kernel. A sum of products in register tiles counts in one of the fields of flops
// only.
typedef struct KernelWork {
  // Additions of one f32 element. A vector addition counts as LANES such additions, also if the
  // vector is filled only in part.
  double operations;
  double tiles;    // flops in register tiles; one of f64 counts as two
  double winograd; // flops of the products between the transforms of Winograd's algorithm
} KernelWork;
// Returns the work of all units of a kernel. extent: the number of iterations of each loop.
KernelWork kernel_work(Arena *scratch, const Kernel *k, const double *extent);

// Returns the loops on which the result of statement s depends. It is recomputed in each of their
// iterations; iterations of other loops reuse it. of: the loops for each earlier statement.
LoopSet sim_stmt_loops(const Kernel *k, const KStmt *s, const LoopSet *of);
bool sim_is_access(const KStmt *s); // a load, store or scatter
// Returns the cost of a statement that is no access, in additions of f32. A term of a K_DOT counts
// as two: a load of each factor and a multiplication.
double sim_operation_cost(const Kernel *k, const KStmt *s);
double sim_dot_terms(const Kernel *k, const KStmt *s); // the terms of a K_DOT
// Returns whether statement `stmt` is a product that only sums read. Then the product and the sum
// are one instruction.
bool sim_is_fused(const Kernel *k, int stmt);

// -- simulate_lanes.c
struct GpuPlan;
// Returns the operations of all units of a kernel on a GPU with this plan, in additions of f32 of
// one thread. extent: the number of iterations of each loop. live: the share of scores that a
// kernel of TEAM_SCORES computes (scores_live); 1 for others.
double lane_operations(Arena *scratch, const Kernel *k, const struct GpuPlan *plan,
                       const double *extent, double live);
double loops_rounds(const double *extent, LoopSet set); // the iterations of these loops together

// -- simulate_live.c
struct GpuScores;
// Returns the share of the tiles of scores, 0 to 1, that kernel k with plan t computes for a set of
// operands. A mask over indices leaves out the others. extent: the number of iterations of each
// loop.
double scores_live(const Sim *s, const Kernel *k, const struct GpuScores *t, const KernelSet *set,
                   const double *extent);

// -- simulate_gpu.c
// Returns the seconds that an instruction other than a collective or a commit takes a GPU, as
// sim_seconds.
double gpu_instr_seconds(Sim *s, const Instr *in);
// Returns the seconds of a step that belong to no instruction.
double gpu_step_seconds(const Machine *m);

// -- simulate_cost.c
// Sets extent[0..MAX_LOOPS-1] to the iterations of the loops of kernel k for a set of operands.
void sim_extents(const Sim *s, const Kernel *k, const KernelSet *set, double extent[MAX_LOOPS]);
// The sizes of the products of a GEMM instruction: `batch` products [m, k] x [k, n].
typedef struct GemmSizes {
  double m, n, k, batch;
} GemmSizes;
// Add to s->access the accesses of a GEMM or ordered instruction.
GemmSizes gemm_accesses(Sim *s, const Gemm *g);
void ordered_accesses(Sim *s, const Ordered *o, double rows);
double ordered_rows(const Sim *s, const Ordered *o);
// Returns the seconds of an instruction. Sets s->access to its accesses, in order, and records them
// (sim_touch). Sets s->parts.
double sim_seconds(Sim *s, const Instr *in);

#endif
