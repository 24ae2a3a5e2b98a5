// What the files that build a Program share. The commit is the point of a step from which
// persistent tensors change and nothing may fail. The root of a value is the node whose memory the
// value has: views (renames, AT and others) have the memory of an argument. Private to the room.
#ifndef CODEGEN_PROGRAM_RULES_H
#define CODEGEN_PROGRAM_RULES_H

#include "codegen/fuse/group_deps_internal.h"
#include "codegen/fuse/kernel_build_internal.h"
#include "ir/base/map.h"

// schedule.c. The groups that execute, in order of execution. Groups from index `commit` on run
// after the commit, the point of a step from which nothing may fail. Besides updates these may be
// groups of the backward pass.
typedef struct Schedule {
  uint32_t n;
  uint32_t *group;
  uint32_t commit;    // index into `group`
  uint32_t *position; // by group: its index in `group`, equal for all groups of a launch
} Schedule;
Schedule schedule_make(Arena *a, const Fusion *f, bool overlap);

// A guarded loop: its guard outside of it, the loop around it, and the index of its INSTR_LOOP.
// instead: 1 + that of an earlier loop, exactly one of the two runs; 0: there is none.
typedef struct GuardNote {
  NodeId guard;
  RegionId parent;
  uint32_t begin, instead;
} GuardNote;

// A Program under construction. A Ref (reference to memory) into the arena has the index of its
// buffer as offset until plan_memory has run.
typedef struct Builder {
  Arena *a;
  const Fusion *f;
  const Graph *g;
  const CodegenOptions *opt;
  CollSizes *sizes;
  Schedule schedule;
  Ref *place;   // by node: the memory of a root, if placed[node]
  bool *placed; // by node: `place` is set
  // By node: for a root in a loop, the COLLECT into whose memory each step writes the value; 0: the
  // root has memory of its own.
  NodeId *collected_in;
  // By node: its micro-batch (graph_micro_batches), or NULL; set with the first check.
  const uint32_t *micro;
  uint32_t *history;  // by carry: 1 + the buffer with its values of all rounds, 0: none
  const NodeId *scan; // by region: its SCAN node
  RegionNodes carries, finals, collects; // of each loop (region_ends)
  RegionId open;                         // the innermost open loop, 0: none
  VEC(uint32_t) begin;                   // by open loop, outermost first: index of its INSTR_LOOP
  NodeId *stop; // by region: the carry after whose false value the loop ends, 0: none (stopping.c)
  VEC(GuardNote) guard; // guarded loops, in the order of their INSTR_LOOP
  int32_t *decl_tensor; // by declaration: index in `tensor`, -1: none
  Program *p;
  VEC(ProgTensor) tensor;
  VEC(Slot) slot;
  VEC(Check) check;
  VEC(ProgKernel) kernel;
  VEC(Kernel *) kernels;
  VEC(Instr) instr;
  VEC(uint32_t) from; // by instruction: 1 + the index of its group in the schedule; 0: no group
  VEC(PlanBuffer) buffer;
  GroupNote *note;         // by group
  KernelTexts *identities; // of the kernels so far
  NameMap kernel_at;       // by identity: 1 + index in `kernel`
} Builder;

// -- builder.c
int32_t builder_slot(Builder *b, Slot s); // returns the index of s, adds it if it is new
Size builder_size(Builder *b,
                  const DimList *list); // returns the product of the valid extents of dims
Size builder_dim_size(Builder *b, DimId d);
ProgDim builder_dim(Builder *b, DimId d);
// Returns dim d of the graph as a dim of a Program. ProgDim.extent, the run-time argument with the
// number of valid elements, is not set.
ProgDim program_dim(const Graph *g, DimId d);
Ref builder_buffer(Builder *b, const char *value,
                   int64_t bytes);     // adds a buffer, returns its memory
Ref builder_ref(Builder *b, NodeId n); // returns the memory of n, made on first use
// Returns the memory of a value in one iteration of loop `loop`. It is the address r + i * `bytes`,
// where i is the number of the iteration.
Ref builder_step_ref(Builder *b, Ref r, RegionId loop, int64_t bytes);
RegionId collect_loop(const Graph *g, NodeId collect); // returns the loop of a COLLECT
// Adds an instruction that copies `bytes` bytes to `to`. Does nothing if `to` and `from` are the
// same memory.
void builder_copy(Builder *b, Ref to, Ref from, int64_t bytes);

// -- directory.c: declared tensors, constants, outputs; where updates go
void directory_make(Builder *b);
void directory_outputs(Builder *b);
void updates_place(Builder *b); // lets kernels write updates into their tensors where possible
void updates_copy(Builder *b);  // copies the other updates into their tensors, after all groups

// -- program_loops.c
void loops_open(Builder *b, RegionId r);  // begins loop r and the loops around it that are not open
void loop_close(Builder *b, NodeId scan); // ends the innermost loop
void collected_find(Builder *b);          // sets Builder.collected_in

// -- stopping.c
void stops_find(Builder *b); // sets Builder.stop
// Notes that the next instruction begins a loop in loop `parent` that `guard` guards.
void guard_note(Builder *b, NodeId guard, RegionId parent);

// -- carries.c
void histories_place(Builder *b); // gives carries memory for all rounds where that saves copies
// Returns the memory of a carry in the first round of its loop.
Ref carry_start_ref(Builder *b, NodeId carry);
// Lets carry `carry` and its next value have the same memory, if the instructions of the innermost
// open loop allow it. Call it after the last of them, before copies of carries.
void carry_in_place(Builder *b, NodeId scan, NodeId carry);

// -- launch.c, collective.c: the instructions of groups
// Returns the index in b->kernel of the ProgKernel for k. It is an entry with equal code if there
// is one, else a new entry.
uint32_t kernel_share(Builder *b, Kernel *k);
void kernels_drop_unused(Builder *b); // removes the kernels that no launch runs
// Emits one instruction for group[0..n), groups with equal kernels.
void launch_emit(Builder *b, uint32_t n, const uint32_t *group);
void gemm_emit(Builder *b, const Group *g);
void ordered_emit(Builder *b, NodeId n);
void matrix_emit(Builder *b, NodeId n);
void collective_emit(Builder *b, const Group *g);

// -- notes.c: Program.note, after the last instruction
void notes_make(Builder *b);

// -- memory_gaps.c: which offsets of the arena are free during a live range
typedef struct MemoryGaps MemoryGaps;
// Returns the gaps of an arena without buffers, for live ranges in instructions 0 to `instrs` - 1.
// The memory is in `a`.
MemoryGaps *gaps_new(Arena *a, uint32_t instrs);
// Returns the offset of the smallest gap of at least `bytes` bytes that is free during the
// instructions first..last, among the first gaps of that size. If there is none, returns the end of
// the offsets that are used then.
// The offset is not marked as used.
int64_t gaps_smallest(MemoryGaps *g, uint32_t first, uint32_t last, int64_t bytes);
// Marks the offsets from..to-1 as used during the instructions first..last.
void gaps_take(MemoryGaps *g, uint32_t first, uint32_t last, int64_t from, int64_t to);

// -- memory_plan.c
void plan_memory(Builder *b); // places all buffers; sets the offsets of Refs into the arena
// Returns the buffer that owns the memory of `buffer`. Buffers form a chain when each takes over
// the memory of its predecessor in place. The owner is the first buffer of that chain.
uint32_t plan_owner(const Builder *b, int64_t buffer);
// Adds the uses of buffers by instruction i to the live ranges of the buffers.
void plan_note_uses(Builder *b, uint32_t i);
// Returns whether kernel k can store through pointer `store` into the buffer that it loads through
// pointer `load`. No other pointer of the call with arguments s may address that buffer. Each
// element must be loaded before it is stored.
bool plan_overlays(const Builder *b, const Kernel *k, const KernelSet *s, int load, int store);
int64_t plan_live(const Builder *b); // returns the most bytes that are live at one instruction

// -- common_values.c
// Common values: those that processors of one process keep once (Ref.common).
typedef struct Common Common;
// Notes how long each value lives. Call it before buffers take over the memory of others in place.
// Returns NULL if there are no common values.
Common *common_begin(Builder *b);
// Sets PlanBuffer.common and KernelLaunch.common. Call it when all buffers have offsets and no more
// instructions change. Does nothing if c is NULL.
void common_find(Common *c);

// -- divide_updates.c
// Marks the tensors whose memory processors with equal blocks may share, the launches that these
// processors then divide, and the collectives whose result one of them needs.
void updates_divide(Builder *b);

// -- defer_sums.c
// Lets divided updates compute the sums over processors that they read. Call it after
// updates_divide.
void sums_defer(Builder *b);

// -- stream_stores.c
// Chooses the stores that go past the caches, after buffers were taken over in place. The launches
// concerned get kernels of their own.
void plan_streams(Builder *b);

#endif
