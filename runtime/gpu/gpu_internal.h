// What the files of the GPU executor share: the GPU, the loaded code of a program, the memory of an
// Exec on the GPU, and the operations of a step.
//
//   Gpu          the GPU of this process, with its driver                       gpu_device.c
//   GpuComms     how it exchanges blocks with the GPUs of other ranks           gpu_comm.c
//   GpuProgram   the code of a program's kernels, loaded                        gpu_code.c
//   DeviceWork   what the GPU keeps for an Exec (runtime/exec/device.h)         gpu_step.c
//     memory     a copy of each memory of the Exec                              gpu_memory.c
//     StepPlan   the operations of a step, and the records that launches read   gpu_plan.c
//     GpuOp      an operation, which is put into the stream                     gpu_enqueue.c
//
// All processors of the process are on one GPU, in one stream: what is enqueued runs in that order.
// A failed call of the driver adds an error to DeviceWork.diag, and the work fails from then on.
#ifndef RUNTIME_GPU_INTERNAL_H
#define RUNTIME_GPU_INTERNAL_H

#include "collectives/local/transfer_plan.h"
#include "ir/program/gpu_ordered.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/gpu/gpu_comm.h"
#include "runtime/gpu/gpu_product.h"

// The most blocks that a launch has in x and in y of its grid.
typedef struct GpuLimits {
  int blocks_x, blocks_y;
} GpuLimits;

enum { GPU_NAME = 128 };
struct Gpu {
  CudaDevice device;
  CudaContext context;
  CudaStream stream;
  char name[GPU_NAME];
  GpuFacts facts;
  GpuLimits limits;
  GpuProducts *products; // NULL: no program with products has been planned yet
  GpuComms *comms;       // NULL: this process runs all processors
};

// The functions of a kernel in the loaded images. combine is NULL without partial results.
typedef struct GpuKernel {
  CudaFunction run, combine;
} GpuKernel;

struct GpuProgram {
  ExecDevice device; // first, so that the device of an Exec is its GpuProgram
  Gpu *gpu;
  const Program *program;
  const GpuEntry *entry;        // by kernel
  GpuKernel *kernel;            // by kernel
  PartPlan *const *transfers;   // by instruction: the plans of the parts of a collective
  MessagePart *const *messages; // with ranks: the same, instead of `transfers`; otherwise NULL
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

// An operation of the stream.
typedef enum GpuOpKind { GPU_LAUNCH, GPU_PRODUCT, GPU_FILL, GPU_COPY, GPU_MESSAGES } GpuOpKind;
typedef struct GpuOp {
  GpuOpKind kind;
  union {
    struct {
      CudaFunction function;
      int64_t table; // offset of the records in StepPlan.table
      int32_t nsets;
      unsigned grid_x, grid_y, threads, shared;
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
  } u;
} GpuOp;

// One run of an instruction on all processors, in one round of the loops around it.
typedef struct GpuRound {
  uint32_t instr;
  uint32_t end; // index in StepPlan.op after its last operation
  // index of the status of the first processor; those of the others follow. UINT32_MAX: it reports
  // no faults.
  uint32_t status;
  LoopSteps steps;
} GpuRound;

// A scalar output of a processor, which each step copies to the host.
typedef struct GpuScalar {
  uint32_t tensor;
  int64_t context, bytes;
} GpuScalar;

// What a StepPlan needs on the GPU besides the memory of the Exec, in bytes.
typedef struct PlanNeed {
  size_t table, statuses;
  size_t scratch; // of ordered operations
  size_t slots;   // of messages
  bool products;  // whether it needs the workspace of products (GPU_WORKSPACE_BYTES)
} PlanNeed;

// The operations of a step for batches of `rows` valid rows (-1: whole batches, as Exec.rows), with
// loops unrolled. Operations before INSTR_COMMIT are part 0, those after it part 1.
typedef struct StepPlan {
  Arena *arena; // has the lists; NULL: there is no plan
  int64_t rows;
  bool defers;        // CommCall.defers of its collectives
  CommCount count[2]; // by part: what its collectives send
  VEC(GpuOp) op;
  VEC(GpuRound) round;
  uint32_t commit; // number of rounds before INSTR_COMMIT
  PlanNeed need;
  uint32_t nstatus;
  char *table; // the records of all launches, until they are on the GPU
  size_t table_bytes;
  CudaAddress table_at, status_at, scratch_at, slots_at; // on the GPU; 0: it is empty
  char *slots; // addresses on the host that stand for the slots (gpu_messages.c); NULL: none
  CudaGraphExec graph[2]; // by part: captured when the part first runs; NULL: not captured yet
} StepPlan;

enum {
  PLANS = 2, // [0] for whole batches, [1] for the last incomplete batch that was run
  SCALAR_BYTES = 8
};

struct DeviceWork {
  Exec *exec;
  const GpuProgram *code;
  Arena *arena;
  Diag *diag; // the first error is why the work has failed
  uint32_t nspans;
  GpuSpan *span;      // ordered by `host`
  uint8_t *side;      // by tensor: a TensorSide; only of tensors with memory of this Exec
  bool eager;         // no graphs are captured (MESHC_GPU_EAGER)
  CudaEvent clock[2]; // before and after a round that is timed; NULL: not made yet
  CudaAddress header; // a GpuHeader
  uint32_t nscalars;
  GpuScalar *scalar;
  // Memory of the host that the GPU reads and writes while a graph runs: the header of the step,
  // and what a step gives, which is SCALAR_BYTES for each scalar and then the statuses.
  GpuHeader *given;
  char *seen;
  size_t seen_bytes;
  StepPlan plan[PLANS];
};

// -- gpu_device.c
// Makes the GPU the one that calls of this thread concern. Returns false after an error in d.
MUST_USE bool gpu_use(const Gpu *g, Diag *d);

// Returns what the products of the GPU's stream share, which is made when it is needed first.
// Returns NULL after an error in d.
GpuProducts *gpu_products_of(Gpu *g, Diag *d);

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
// Returns the address on the GPU of the copy of a host address, which must be in memory of w->exec
// or of an Exec whose tensors it shares.
CudaAddress gpu_translate(const DeviceWork *w, const void *host);
// Enqueues copies to the GPU of all tensors that a step reads and that the host has newer. Returns
// false after an error in w->diag.
MUST_USE bool gpu_upload(DeviceWork *w);
// Notes that a step has changed the tensors of kinds first..last on the GPU.
void gpu_changed(DeviceWork *w, TensorKind first, TensorKind last);
// The functions of ExecDevice of these names.
bool gpu_wait(DeviceWork *w);
void gpu_wrote(DeviceWork *w, uint32_t t);
bool gpu_fetch(DeviceWork *w, uint32_t t);
bool gpu_fetch_bytes(DeviceWork *w, const void *host, int64_t bytes);

// -- gpu_plan.c
// Returns StepPlan.defers of the next step of e.
bool gpu_plan_defers(const Exec *e);
// Computes what a plan for w->exec->rows needs. Returns false after an error in w->diag.
MUST_USE bool gpu_plan_measure(DeviceWork *w, PlanNeed *need);
// Makes the plan for w->exec->rows. Returns false after an error in w->diag.
MUST_USE bool gpu_plan_new(DeviceWork *w, StepPlan *p);
// Frees the captured graphs of a plan, so that its parts are captured again.
void gpu_plan_forget(StepPlan *p);
// Frees a plan. Nothing in the stream may still use it.
void gpu_plan_free(StepPlan *p);

// -- gpu_enqueue.c: each puts something into the stream, and returns false after an error in w->diag
// An operation of the plan.
MUST_USE bool gpu_enqueue(DeviceWork *w, const StepPlan *p, const GpuOp *op);
// Copies between the host and the GPU, and bytes on the GPU that become 0.
MUST_USE bool gpu_copy_up(DeviceWork *w, CudaAddress to, const void *from, size_t bytes);
MUST_USE bool gpu_copy_down(DeviceWork *w, void *to, CudaAddress from, size_t bytes);
MUST_USE bool gpu_clear(DeviceWork *w, CudaAddress at, size_t bytes);

// -- gpu_step.c: the functions of ExecDevice
DeviceWork *gpu_begin(const ExecDevice *device, Exec *e, Diag *d);
void gpu_end(DeviceWork *w);
bool gpu_step(DeviceWork *w);
void gpu_why(const DeviceWork *w, Diag *d);

#endif
