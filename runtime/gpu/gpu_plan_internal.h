// What the files of a step's plan share (gpu_plan.c):
//
//   gpu_plan.c    walks the program: measures what a plan needs, makes it, frees it
//   gpu_ops.c     for each kind of instruction: what it needs, and its operations
//   gpu_messages.c   the same for collectives between GPUs
//   gpu_table.c   the table of records, from which launches read their operands
//
// A plan also has rounds that are no instructions: inputs (gpu_inputs.c), and the judge
// (gpu_results.c).
#ifndef RUNTIME_GPU_PLAN_INTERNAL_H
#define RUNTIME_GPU_PLAN_INTERNAL_H

#include "runtime/gpu/gpu_internal.h"

// A launch whose records are being written.
typedef struct Launching {
  int64_t table; // offset of its first record in StepPlan.table
  int32_t nsets;
  int64_t blocks; // blocks of all sets so far
  int32_t flags;  // beside GPU_IF_GO: bits of the parameter `flags` of the function
  int parts;      // GpuEntry.parts
  // GpuEntry.scratch, and where the scratch memory of the next set is
  int64_t scratch;
  CudaAddress scratch_at;
} Launching;

// What a record is made from. ptr has addresses on the host.
typedef struct SetOperands {
  void *const *ptr;
  const int64_t *slot;
  const double *num;
} SetOperands;

// -- gpu_table.c
// Returns the bytes of a record of kernel k.
size_t gpu_table_record(const ProgKernel *k);
// Returns room for n more bytes at the end of the table, filled with zeros, and their offset in
// *at.
char *gpu_table_add(StepPlan *p, size_t n, int64_t *at);
// Adds the record of a set of kernel k to a launch. It has units record.from..record.to-1.
void gpu_table_set(const DeviceWork *w, StepPlan *p, const ProgKernel *k, GpuRecord record,
                   SetOperands of, Launching *l);
// Adds the records of a kernel's sets on one processor. status: the address of its GpuStatus, or 0.
void gpu_table_kernel(const DeviceWork *w, StepPlan *p, const BoundKernel *b, int64_t grain,
                      CudaAddress status, const LoopSteps *steps, Launching *l);

// A copy or, without `from`, a fill by the function `move` (ir/program/gpu_step.h).
typedef struct GpuMove {
  CudaAddress to, from;
  int64_t bytes, stride; // stride: MOVE_STRIDE
} GpuMove;
size_t gpu_table_move_record(void); // bytes of its record
// Adds the record of a copy to a launch.
void gpu_table_move(StepPlan *p, const GpuMove *m, Launching *l);

// -- gpu_ops.c
// What the plan does with a kind of instruction: both functions may be NULL. They return false
// after an error in w->diag.
typedef struct InstrPlan {
  // adds to p->need what one run of the instruction needs
  bool (*measure)(DeviceWork *w, StepPlan *p, const GpuRound *round);
  // adds the operations of one run to p->op
  bool (*plan)(DeviceWork *w, StepPlan *p, GpuRound *round);
  const char *lacks; // what such instructions are, if no GPU runs them: programs are refused
} InstrPlan;
const InstrPlan *gpu_ops_of(InstrKind kind);
// Adds a launch on the l->nsets records at l->table, for the part of the step that is being
// planned. Returns it.
GpuOp *gpu_ops_launch(StepPlan *p, CudaFunction f, const Launching *l, int64_t grid_x,
                      int64_t grid_y, int threads, int shared);
// Adds the launch of the copies whose records are in l. Returns false after an error.
bool gpu_ops_move(DeviceWork *w, StepPlan *p, const GpuRound *round, const Launching *l);
// Adds an error: the GPU does not support `what` at instruction i yet. Returns false.
bool gpu_lacks(DeviceWork *w, uint32_t i, const char *what);
// Adds launches on n sets, which are ordered by kernel: one for each kernel. Returns false after an
// error in w->diag.
MUST_USE bool gpu_launch_sets(DeviceWork *w, StepPlan *p, const GpuRound *round,
                              const TransferSet *set, uint32_t n);

// -- gpu_plan.c
// Returns whether a reference is to memory that outlives the step: that of a persistent tensor.
bool gpu_is_lasting(const Program *p, Ref r);

// -- gpu_messages.c
// The functions of InstrPlan for collectives of ranks.
bool gpu_messages_measure(DeviceWork *w, StepPlan *p, const GpuRound *round);
bool gpu_messages_plan(DeviceWork *w, StepPlan *p, GpuRound *round);
// Lets the main stream wait for those collectives under way for which instruction `instr`, the next
// one, has to wait. UINT32_MAX: for all. The waiting belongs to the last round that was planned.
void gpu_messages_join(StepPlan *p, uint32_t instr);
// Reserves addresses that stand for the slots of a plan (p->need.slots), and releases them. Returns
// false after an error in w->diag.
MUST_USE bool gpu_slots_reserve(DeviceWork *w, StepPlan *p);
void gpu_slots_release(StepPlan *p);
// Returns the address on the GPU of an operand, which may be in a slot of p.
CudaAddress gpu_operand(const DeviceWork *w, const StepPlan *p, const void *host);

// -- gpu_inputs.c, gpu_results.c: rounds that are no instructions
bool gpu_inputs_measure(DeviceWork *w, StepPlan *p, const GpuRound *round);
bool gpu_inputs_plan(DeviceWork *w, StepPlan *p, GpuRound *round);
bool gpu_judge_measure(DeviceWork *w, StepPlan *p, const GpuRound *round);
bool gpu_judge_plan(DeviceWork *w, StepPlan *p, GpuRound *round);
// Signs of progress (StepPlan.signs), which only steps of several ranks have.
size_t gpu_signs_record(const DeviceWork *w);     // returns the bytes of their record in the table
void gpu_signs_begin(DeviceWork *w, StepPlan *p); // writes the record, and sets StepPlan.signs
void gpu_signs_add(DeviceWork *w, StepPlan *p);   // adds a sign behind the current round

#endif
