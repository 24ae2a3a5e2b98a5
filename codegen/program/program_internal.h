// What the parts of program_build share while a Program grows. Private to the room.
#ifndef CODEGEN_PROGRAM_RULES_H
#define CODEGEN_PROGRAM_RULES_H

#include "codegen/fuse/group_deps_internal.h"
#include "codegen/fuse/kernel_build_internal.h"

// schedule.c: the groups that execute, in order; those at `commit` and after change persistent
// tensors.
typedef struct Schedule {
  uint32_t n;
  uint32_t *group;
  uint32_t commit;    // index into group
  uint32_t *position; // of a group; of one launch equal
  bool *after_commit; // after the commit
} Schedule;
Schedule schedule_make(Arena *a, const Fusion *f, bool overlap);

// A piece of the work arena. While a program is built, a Ref into the arena holds the buffer's
// number.
typedef struct Builder {
  Arena *a;
  const Fusion *f;
  const Graph *g;
  const CodegenOptions *opt;
  Schedule schedule;
  Ref *place; // of a root: persistent tensor or buffer
  bool *placed;
  NodeId *collected_in; // of a root: the collect whose slice it is written as, 0: none
  RegionId open;        // the loop whose instructions are being emitted
  VEC(uint32_t) begin;  // INSTR_LOOP of the loops that are open
  int32_t *decl_tensor; // of a decl: index of its tensor, -1
  Program *p;
  VEC(ProgTensor) tensor;
  VEC(Slot) slot;
  VEC(Check) check;
  VEC(ProgKernel) kernel;
  VEC(Kernel *) kernels;
  VEC(Instr) instr;
  VEC(uint32_t)
  from; // of an instruction: 1 + the place in the schedule of the group that it runs, 0: none
  VEC(PlanBuffer) buffer;
  GroupNote *note; // of each group
  uint32_t *hash;  // kernel index + 1 by hash of its identity
  uint32_t hash_size;
} Builder;

// builder.c: what the parts enter into a growing Program.
int32_t builder_slot(Builder *b, Slot s);
// A group of dims in a nest as one Size.
Size builder_size(Builder *b, const Dims *list);
Ref builder_buffer(Builder *b, const char *value, int64_t bytes);
Ref builder_ref(Builder *b, NodeId n); // of n's memory, made on first use
ProgDim builder_dim(Builder *b, DimId d);
// r in one step of the loop of region `loop`, whose steps are `bytes` apart.
Ref builder_step_ref(Builder *b, Ref r, RegionId loop, int64_t bytes);
RegionId collect_loop(const Graph *g, NodeId collect); // the loop whose steps a COLLECT gathers

// directory.c: declared tensors, constants, outputs; updates that can be written in place.
void directory_make(Builder *b);
void directory_outputs(Builder *b);
void updates_place(Builder *b);
void updates_copy(Builder *b); // the copies that updates need after everything else
// program_loops.c: the begin of all loops down to r; the end of the innermost, with the copies that
// close a step.
void loops_open(Builder *b, RegionId r);
void loop_close(Builder *b, NodeId scan);
void collected_find(Builder *b); // which values of steps are written where they are collected
// launch.c, collect.c: instructions of groups.
void launch_emit(Builder *b, uint32_t n, const uint32_t *group);
void product_emit(Builder *b, const Group *g);
void collective_emit(Builder *b, const Group *g);
void ordered_emit(Builder *b, NodeId n);

// notes.c: Program.note, after the last instruction.
void notes_make(Builder *b);

// plan.c: lifetimes, in-place reuse, offsets; turns buffer numbers into offsets.
void plan_memory(Builder *b);
int64_t plan_live(const Builder *b); // most bytes live at one instruction

#endif
