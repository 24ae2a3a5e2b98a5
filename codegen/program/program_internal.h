// What the parts of program_build share while they build a Program. The commit is the point of a
// step from which persistent tensors change and nothing may fail. The root of a value is the node
// whose memory it has: views (renames, AT and others) have that of an argument. Private to the
// room.
#ifndef CODEGEN_PROGRAM_RULES_H
#define CODEGEN_PROGRAM_RULES_H

#include "codegen/fuse/group_deps_internal.h"
#include "codegen/fuse/kernel_build_internal.h"
#include "ir/base/intern.h"
#include "ir/base/map.h"

// schedule.c: the groups that execute, in order. Those from index `commit` on run after the commit.
typedef struct Schedule {
  uint32_t n;
  uint32_t *group;
  uint32_t commit;    // index into group
  uint32_t *position; // [group] index in `group`, equal for all groups of a launch
} Schedule;
Schedule schedule_make(Arena *a, const Fusion *f, bool overlap);

// A Program under construction. Until plan_memory has run, the offset of a Ref into the arena is
// the index of its buffer.
typedef struct Builder {
  Arena *a;
  const Fusion *f;
  const Graph *g;
  const CodegenOptions *opt;
  Schedule schedule;
  Ref *place;   // [node] memory of a root, if placed[node]
  bool *placed; // [node]
  // [node] of a root in a loop: the COLLECT of it, into whose memory each step writes its value; 0:
  // the root has memory of its own.
  NodeId *collected_in;
  RegionId open;        // the innermost open loop, 0: none
  VEC(uint32_t) begin;  // of each open loop, outermost first: index of its INSTR_LOOP
  int32_t *decl_tensor; // [decl] its tensor, -1: none
  Program *p;
  VEC(ProgTensor) tensor;
  VEC(Slot) slot;
  VEC(Check) check;
  VEC(ProgKernel) kernel;
  VEC(Kernel *) kernels;
  VEC(Instr) instr;
  VEC(uint32_t) from; // [instruction] 1 + the index in the schedule of its group; 0: none
  VEC(PlanBuffer) buffer;
  GroupNote *note;    // [group]
  Intern *identities; // of kernels
  NameMap kernel_at;  // by identity: a ProgKernel's index + 1
} Builder;

// -- builder.c
int32_t builder_slot(Builder *b, Slot s); // the index of slot s, which is added if it is new
Size builder_size(Builder *b, const DimList *list); // the product of the dims' valid extents
Size builder_dim_size(Builder *b, DimId d);
ProgDim builder_dim(Builder *b, DimId d);
ProgDim program_dim(const Graph *g,
                    DimId d); // without ProgDim.extent, the slot of the valid length
Ref builder_buffer(Builder *b, const char *value, int64_t bytes); // a new buffer of the arena
Ref builder_ref(Builder *b, NodeId n);                            // memory of n, made on first use
// Returns the memory of one step of loop `loop`: r in the first step, `bytes` further in each
// other.
Ref builder_step_ref(Builder *b, Ref r, RegionId loop, int64_t bytes);
RegionId collect_loop(const Graph *g, NodeId collect); // the loop whose steps a COLLECT gathers
void builder_copy(Builder *b, Ref to, Ref from, int64_t bytes); // unless it is the same memory

// -- directory.c: declared tensors, constants, outputs; where updates go
void directory_make(Builder *b);
void directory_outputs(Builder *b);
void updates_place(Builder *b); // lets kernels write updates straight into tensors where possible
void updates_copy(Builder *b);  // copies the other updates, after all groups

// -- program_loops.c
void loops_open(Builder *b, RegionId r);  // begins the loops down to r that are not open
void loop_close(Builder *b, NodeId scan); // ends the innermost loop
void collected_find(Builder *b);          // sets Builder.collected_in

// -- launch.c, collective.c: the instructions of groups
void launch_emit(Builder *b, uint32_t n, const uint32_t *group); // n groups with equal kernels
void gemm_emit(Builder *b, const Group *g);
void ordered_emit(Builder *b, NodeId n);
void collective_emit(Builder *b, const Group *g);

// -- notes.c: Program.note, after the last instruction
void notes_make(Builder *b);

// -- memory_plan.c
void plan_memory(Builder *b);        // places all buffers; turns their indices in Refs into offsets
int64_t plan_live(const Builder *b); // the most bytes that are live at one instruction

#endif
