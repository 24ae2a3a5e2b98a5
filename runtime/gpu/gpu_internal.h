// What the files of the GPU executor share: the GPU, the loaded code of a program, the memory of an
// Exec on the GPU, and the operations of a step.
//
//   Gpu          the GPU of this process, with its driver                       gpu_device.c
//   GpuComms     how it exchanges blocks with the GPUs of other ranks           gpu_comm.c
//   GpuProgram   the code of a program's kernels, loaded                        gpu_code.c
//   DeviceWork   what the GPU keeps for an Exec (runtime/exec/device.h)         gpu_step.c
//     memory     a copy of each memory of the Exec                              gpu_memory.c
//     inputs     slots from which batches are copied ahead of their steps       gpu_inputs.c
//     results    slots for what the host reads of each step                     gpu_results.c
//     StepPlan   the operations of a step, and the records that launches read   gpu_plan.c
//     GpuOp      an operation, which is put into the stream                     gpu_enqueue.c
//     GpuTimes   when the operations of a step ran                              gpu_times.c
//
// All processors of the process are on one GPU, in one stream, the main stream: what is enqueued
// runs in that order. A second stream copies inputs, and a third one, the stream of messages,
// carries out collectives with other GPUs (gpu_messages.c).
//
// A failed call of the driver adds an error to DeviceWork.diag, and the work fails from then on.
#ifndef RUNTIME_GPU_INTERNAL_H
#define RUNTIME_GPU_INTERNAL_H

#include "collectives/local/transfer_plan.h"
#include "ir/program/gpu_ordered.h"
#include "ir/program/gpu_step.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/gpu/gpu_comm.h"
#include "runtime/gpu/gpu_product.h"

// The most blocks that a launch has in x and in y of its grid, and the most nodes that a graph
// should have.
typedef struct GpuLimits {
  int blocks_x, blocks_y, nodes;
} GpuLimits;

enum {
  GPU_NAME = 128,
  GPU_MARKS = 16 // the most collectives under way that later operations can wait for one by one
};
struct Gpu {
  CudaDevice device;
  CudaContext context;
  CudaStream stream, copies; // the main stream; copies of inputs
  char name[GPU_NAME];
  GpuFacts facts;
  GpuLimits limits;
  GpuProducts *products; // NULL: no program with products has been planned yet
  GpuComms *comms;       // NULL: this process runs all processors
  GpuKeeper keeper;      // folder NULL: there is none
  uint32_t epilogues;    // gpu_epilogues, if `asked`
  bool asked;
  // with `comms`: the stream of messages, and events by which it waits for the main stream (fork)
  // and the main stream for it (mark)
  CudaStream beside;
  CudaEvent fork, mark[GPU_MARKS];
  struct DeviceWork *works; // of all Execs on this GPU
};

// The functions of a kernel in the loaded images. combine is NULL without partial results.
typedef struct GpuKernel {
  CudaFunction run, combine;
} GpuKernel;

struct GpuProgram {
  ExecDevice device; // first, so that the device of an Exec is its GpuProgram
  Gpu *gpu;
  const Program *program;
  const GpuEntry *entry;      // by kernel
  GpuKernel *kernel;          // by kernel
  CudaFunction judge, move;   // ir/program/gpu_step.h
  PartPlan *const *transfers; // by instruction: the plans of the parts of a collective
  // with ranks: the same of collectives between GPUs, which `transfers` has not; otherwise NULL
  MessagePart *const *messages;
  const uint32_t *join; // GpuParts.join
  uint32_t nmodules;
  CudaModule *module;
};

// A memory of an Exec on the host, and its copy on the GPU. An address on the GPU is as far from
// `at` as the one on the host is from `host`.
typedef struct GpuSpan {
  const char *host;
  int64_t bytes;
  CudaAddress at;
} GpuSpan;

// Which side has the values of a tensor.
typedef enum TensorSide { SIDE_BOTH, SIDE_HOST, SIDE_GPU } TensorSide;

// An operation of a step.
// GPU_FORK: the stream of messages waits for all that was put into the main stream before.
// GPU_DONE: records a mark (an event) behind what was put into the stream of messages before.
// GPU_JOIN: the main stream waits for such a mark.
typedef enum GpuOpKind {
  GPU_LAUNCH,
  GPU_PRODUCT,
  GPU_FILL,
  GPU_COPY,
  GPU_MESSAGES,
  GPU_FORK,
  GPU_DONE,
  GPU_JOIN
} GpuOpKind;
typedef struct GpuOp {
  GpuOpKind kind;
  bool beside; // it is in the stream of messages: GPU_LAUNCH, GPU_MESSAGES
  union {
    struct {
      CudaFunction function;
      int64_t table; // offset of the records in StepPlan.table
      int32_t nsets, flags;
      unsigned grid_x, grid_y, threads, shared;
      bool after; // the commit: it reads the second header
    } launch;
    struct {
      CudaAddress to, from;
      int64_t bytes;
    } copy; // GPU_COPY; GPU_FILL, with from 0
    GpuProduct product;
    struct {
      Axes axes; // of the communicator
      uint32_t n;
      const Message *at; // with addresses on the GPU
    } messages;          // all at once
    struct {
      int index; // in Gpu.mark
      bool all;  // GPU_JOIN: no collective is under way any more after it
    } mark;
  } u;
} GpuOp;

// One run of an instruction on all processors, in one round of the loops around it.
typedef struct GpuRound {
  uint32_t instr; // UINT32_MAX: none, the operations are those of the step itself
  uint32_t end;   // index in StepPlan.op after its last operation
  // index of the status of the first processor; those of the others follow. UINT32_MAX: it reports
  // no faults.
  uint32_t status;
  bool varies; // it is in a loop with numbers of rounds that may differ between processors
  LoopSteps steps;
} GpuRound;

// A collective in the stream of messages for which the main stream has not waited yet.
typedef struct UnderWay {
  uint32_t instr, join; // its instruction, and the first one that waits for it
  int mark;             // index in Gpu.mark
} UnderWay;

// A scalar output of a processor, which each step gives to the host.
typedef struct GpuScalar {
  uint32_t tensor;
  int64_t context, bytes;
} GpuScalar;

// What a StepPlan needs on the GPU besides the memory of the Exec, in bytes.
typedef struct PlanNeed {
  size_t table, statuses;
  size_t scratch; // of ordered operations and kernels (GpuEntry.scratch)
  size_t slots;   // of messages
  bool products;  // whether it needs the workspace of products (GPU_WORKSPACE_BYTES)
  uint32_t rounds;
} PlanNeed;

// Which rounds of a step are run at once: those up to the judge, those behind it, or all.
typedef enum Course { COURSE_FIRST, COURSE_SECOND, COURSE_WHOLE, COURSES } Course;

// The operations of a step for batches of `rows` valid rows (-1: whole batches, as Exec.rows), with
// loops unrolled: the inputs come to their places, what is before INSTR_COMMIT, the judge, and
// what is after INSTR_COMMIT.
typedef struct StepPlan {
  Arena *arena; // has the lists; NULL: there is no plan
  int64_t rows;
  bool defers;        // CommCall.defers of its collectives
  CommCount count[2]; // what its collectives send: before the commit, after it
  VEC(GpuOp) op;
  VEC(GpuRound) round;
  uint32_t commit; // number of rounds up to the judge
  // With several ranks: a sign of progress follows every `signs` rounds, which reads the record at
  // `sign`, an offset in the table. 0: there are none.
  uint32_t signs;
  int64_t sign;
  // The host leaves out what is after the commit of a step that is not committed, because the GPU
  // cannot leave out one of its operations (a product into a persistent tensor). Such a step runs
  // in two parts, COURSE_FIRST and COURSE_SECOND. Equal on all ranks.
  bool halves;
  PlanNeed need;
  uint32_t nstatus;
  char *table; // the records of all launches, until they are on the GPU
  size_t table_bytes;
  CudaAddress table_at, status_at, scratch_at, slots_at; // on the GPU; 0: it is empty
  char *slots; // addresses on the host that stand for the slots (gpu_messages.c); NULL: none
  VEC(UnderWay) under_way; // while it is made: collectives that have not been joined
  // of each course: captured when it first runs, in pieces of GpuLimits.nodes nodes
  VEC(CudaGraphExec) graph[COURSES];
} StepPlan;

// A block of an input on a processor.
typedef struct GpuInput {
  uint32_t tensor;
  int64_t context, at, bytes; // at: its offset in a slot
  const char *place; // the host address of which the place where a step reads it is the copy
} GpuInput;

// Slots for the inputs of steps, on the host (page-locked) and on the GPU. While an Exec is on the
// GPU, Context.tensor of inputs points into the slot of the host that is written next.
typedef struct GpuInputs {
  uint32_t n;
  GpuInput *input;
  bool *fresh;   // by input: it has been written since the last step was started
  int64_t bytes; // of a slot
  char *host[GPU_SLOTS];
  CudaAddress device;      // all slots: step number s reads slot s % GPU_SLOTS
  int current, before;     // slot of the host of the next step, and of the step before it
  int64_t used[GPU_SLOTS]; // by slot of the host: number of the last step that reads it; -1: none
  // version: for how many steps inputs were written; has: the version in each slot of the GPU
  int64_t version, has[GPU_SLOTS];
  bool written; // since the last step was started
  CudaEvent copied;
} GpuInputs;

// A step that has been started and whose result has not been read.
typedef struct Flight {
  int64_t step, sequence;
  bool commit;
  const StepPlan *plan;
} Flight;

// A moment in a stream, which an event records: what was put into the stream before has ended, and
// what was put there next begins.
typedef struct GpuMark {
  CudaStream stream;
  uint32_t instr;   // what runs from here to the next mark of this stream, or UINT32_MAX
  const char *what; // for UINT32_MAX, no instruction: what runs. NULL: nothing that is timed
} GpuMark;

// The marks of a step that is timed (gpu_times.c). Mark i is recorded by event i.
typedef struct GpuTimes {
  bool on;           // the step that is being started is timed
  CudaEvent origin;  // reached before the first mark; NULL: no step has been timed
  double origin_was; // clock_seconds when the GPU reached `origin`
  VEC(GpuMark) mark;
  VEC(CudaEvent) event; // as many as the most marks that a step had
} GpuTimes;

enum {
  PLANS = 2, // [0] for whole batches, [1] for the last incomplete batch that was run
  SCALAR_BYTES = 8
};

struct DeviceWork {
  struct DeviceWork *next; // in Gpu.works
  Exec *exec;
  const GpuProgram *code;
  Arena *arena;
  Arena *of_diag; // has the errors, which outlive what a plan discards
  Diag *diag;     // the first error is why the work has failed
  uint32_t nspans;
  GpuSpan *span; // ordered by `host`
  uint8_t *side; // by tensor: a TensorSide; only of tensors with memory of this Exec
  bool eager;    // no graphs are captured (MESHC_GPU_EAGER)
  bool alone;    // messages are in the main stream, too: its rounds are profiled or looked at
  GpuTimes times;
  // header: two GpuHeaders and a GpuVote on the GPU. given: page-locked memory from which the first
  // header is set.
  // expected: what the first one will be behind the steps under way, if all of them are good.
  CudaAddress header;
  GpuHeader *given, expected;
  // Scalar outputs, in the order of a slot of results; is_scalar: by tensor. fetches: there are
  // also scalar outputs that are views of persistent tensors, which are not in the slot
  uint32_t nscalars;
  GpuScalar *scalar;
  bool *is_scalar, fetches;
  char *result[GPU_SLOTS];   // page-locked: a GpuResult and SCALAR_BYTES for each scalar
  CudaEvent done[GPU_SLOTS]; // behind the step that has this slot
  GpuInputs inputs;
  int64_t sequence; // number of the next step, counted from 0
  int nflights;
  Flight flight[GPU_SLOTS]; // steps under way, the first one first
  StepPlan plan[PLANS];
};

// -- gpu_device.c
// Makes the GPU the one that calls of this thread concern. Returns false after an error in d.
MUST_USE bool gpu_use(const Gpu *g, Diag *d);

// Returns what the products of the GPU's stream share, which is made when it is needed first.
// Returns NULL after an error in d.
GpuProducts *gpu_products_of(Gpu *g, Diag *d);

// Chooses the algorithms of the products of a new program (product_tune.h). With ranks all call it
// together. Returns false after an error in d.
MUST_USE bool gpu_tune(Gpu *g, const Program *p, Diag *d);

// -- gpu_code.c
// Returns the function `name` of the loaded images, with room for `shared` bytes of dynamic shared
// memory. Returns NULL after an error in d.
CudaFunction gpu_function(const GpuProgram *p, const char *name, int shared, Diag *d);

// -- gpu_memory.c
// Allocates the copies of the memories of w->exec on the GPU, filled with zeros, if the GPU has
// enough memory for them and for all that a step needs later. Returns false after an error in
// w->diag.
MUST_USE bool gpu_memory_new(DeviceWork *w);
void gpu_memory_free(DeviceWork *w);
// Returns the address on the GPU of the copy of a host address in memory of w->exec, or of an Exec
// whose tensors it shares. Returns 0 after an error in w->diag: a program of a damaged package may
// have other addresses.
CudaAddress gpu_translate(const DeviceWork *w, const void *host);
// Enqueues copies to the GPU of all tensors but inputs that a step reads and that the host has
// newer. Returns false after an error in w->diag.
MUST_USE bool gpu_upload(DeviceWork *w);
// Notes that a step has changed the tensors of kinds first..last on the GPU.
void gpu_changed(DeviceWork *w, TensorKind first, TensorKind last);
// The functions of ExecDevice of these names.
bool gpu_wait(DeviceWork *w);
void gpu_wrote(DeviceWork *w, uint32_t t);
bool gpu_fetch(DeviceWork *w, uint32_t t);
bool gpu_fetch_bytes(DeviceWork *w, const void *host, int64_t bytes);

// -- gpu_inputs.c
// Lists the inputs, and the bytes of a slot.
void gpu_inputs_list(DeviceWork *w);
// Makes the slots. Returns false after an error in w->diag.
MUST_USE bool gpu_inputs_new(DeviceWork *w);
void gpu_inputs_free(DeviceWork *w);
// Enqueues the copy of the inputs of step w->sequence, if they are new, and lets the stream wait
// for it. Returns false after an error in w->diag.
MUST_USE bool gpu_inputs_send(DeviceWork *w);
// The function of ExecDevice of this name.
void gpu_writes(DeviceWork *w, uint32_t t);

// -- gpu_results.c
// Lists the scalar outputs.
void gpu_results_list(DeviceWork *w);
// Makes the slots. Returns false after an error in w->diag.
MUST_USE bool gpu_results_new(DeviceWork *w);
void gpu_results_free(DeviceWork *w);
// Prepares the slot of the next step, which no step under way has.
void gpu_results_prepare(DeviceWork *w);
// Reads the slot of a step that has ended: copies the scalars to their places on the host, notes
// whether a rank has been asked to stop (Exec.asked), and returns the verdict.
GpuVerdict gpu_results_take(DeviceWork *w, const Flight *f);
// Returns whether the host has the value of output t from the last step whose slot was read.
bool gpu_results_have(const DeviceWork *w, uint32_t t);
// Takes over the faults of all launches of a step that were reported (exec_note_fault), and clears
// them. Nothing may be under way. Returns false after an error in w->diag.
MUST_USE bool gpu_results_faults(DeviceWork *w, const StepPlan *p);

// -- gpu_graph.c
// Runs a course of a plan by graphs, which are captured when it first runs. Returns false after an
// error in w->diag.
MUST_USE bool gpu_graph_run(DeviceWork *w, StepPlan *p, Course course);
// Frees the graphs of a plan. None of them may be running.
void gpu_graph_free(StepPlan *p);
// Returns the range of rounds of a course.
static inline uint32_t course_from(const StepPlan *p, Course c) {
  return c == COURSE_SECOND ? p->commit : 0;
}
static inline uint32_t course_to(const StepPlan *p, Course c) {
  return c == COURSE_FIRST ? p->commit : p->round.n;
}

// -- gpu_plan.c
// Returns StepPlan.defers of the next step of e.
bool gpu_plan_defers(const Exec *e);
// Computes what a plan for w->exec->rows needs. Returns false after an error in w->diag.
MUST_USE bool gpu_plan_measure(DeviceWork *w, PlanNeed *need);
// Makes the plan for w->exec->rows. Returns false after an error in w->diag.
MUST_USE bool gpu_plan_new(DeviceWork *w, StepPlan *p);
// Frees a plan. Nothing in the stream may still use it.
void gpu_plan_free(StepPlan *p);

// -- gpu_enqueue.c: each puts something into the stream, and returns false after an error in w->diag
// An operation of the plan, as part of a course.
MUST_USE bool gpu_enqueue(DeviceWork *w, const StepPlan *p, const GpuOp *op, Course course);
// Copies between the host and the GPU, and bytes on the GPU that become 0.
MUST_USE bool gpu_copy_up(DeviceWork *w, CudaAddress to, const void *from, size_t bytes);
MUST_USE bool gpu_copy_down(DeviceWork *w, void *to, CudaAddress from, size_t bytes);
MUST_USE bool gpu_clear(DeviceWork *w, CudaAddress at, size_t bytes);

// -- gpu_times.c: each returns false after an error in w->diag
// Begins to time a step, if the executor wants its times (Exec.timed, Exec.trace): waits until the
// GPU is idle.
MUST_USE bool gpu_times_begin(DeviceWork *w);
// Marks where an instruction begins in a stream, and what was marked there before ends. With instr
// UINT32_MAX a part of the step begins that is no instruction, which `what` names, or with NULL
// nothing that is timed. Does nothing if the step is not timed.
MUST_USE bool gpu_times_mark(DeviceWork *w, CudaStream stream, uint32_t instr, const char *what);
// Waits for what is marked, and adds its times to the profile and to the trace of the Exec.
MUST_USE bool gpu_times_end(DeviceWork *w);
void gpu_times_free(DeviceWork *w);

// -- gpu_step.c: the functions of ExecDevice
DeviceWork *gpu_begin(const ExecDevice *device, Exec *e, Diag *d);
void gpu_end(DeviceWork *w);
int gpu_ahead(const DeviceWork *w);
bool gpu_start(DeviceWork *w);
bool gpu_finish(DeviceWork *w);
void gpu_why(const DeviceWork *w, Diag *d);

#endif
