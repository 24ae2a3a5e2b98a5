// A Program bound to the processors of a mesh. Each Ref of the program (a tensor and an offset) has
// become an address, and each run-time slot a number. A run-time slot is a number of the program
// that differs between processors, or depends on the number of rows in a batch. Elements of a block
// that are not padding are called valid.
//
// A context is a processor that this process runs; a worker is a thread of this process. A kernel
// is launched on one or more operand sets, such as the tensors of several parameters. The work of a
// set is counted in units, the iterations of the kernel's outermost loop. `grain` units form a
// chunk, which one worker runs in one call.
#ifndef RUNTIME_BOUND_H
#define RUNTIME_BOUND_H

#include "collectives/ranks/ranks.h"
#include "runtime/exec/crew.h"
#include "runtime/exec/device.h"
#include "runtime/exec/matrix_internal.h"
#include "runtime/exec/ordered_internal.h"
#include "runtime/runtime_internal.h"

// An operand set of a kernel launch: the tensors of one application of the kernel.
typedef struct BoundSet {
  void **ptr;
  const Ref *ref; // the references of the addresses in ptr; NULL: no address depends on loop steps
  int64_t *slot;
  const double *num;
  int64_t from;          // first unit; not 0 only in a set that several processors divide
  int64_t units, chunks; // number of units and of chunks of the set, for the rows of this batch
  // index of its first chunk among the chunks of all sets; BoundKernel.partial has the results of
  // the chunks in this order
  int64_t first;
} BoundSet;

typedef struct BoundKernel {
  const ProgKernel *kernel;
  uint32_t nsets;
  BoundSet *set;
  char *partial;
  int64_t grain; // number of units of a chunk
  bool meets;    // processors divide a set, or the launch: all meet before and after
  // The processors that divide the chunks of the launch, and the number of this one among them.
  int64_t sharers, rank;
  int64_t strips, row_units; // as in KernelLaunch
  int64_t chunks, units;     // number of chunks and of units of all sets together
} BoundKernel;

typedef struct BoundGemm {
  const Gemm *what;
  const ProductWay *way;
  const char *a, *b;
  char *c;
  char *extra[GEMM_EXTRAS]; // operands of the epilogue; NULL: there is none
  int64_t m, n, k, batches;
  int64_t count[MAX_RANK];
  bool thin; // thin_product.c computes it
  // The next product that the workers compute, or NULL; and which of its operands are complete
  // before this product begins, so that they can be prefetched (exec_coming.c).
  const struct BoundGemm *next;
  bool next_a, next_b;
} BoundGemm;

typedef struct BoundInstr {
  InstrKind kind;
  // If its sizes change from step to step of a loop: the instruction in each step of loop number
  // `loop`, outermost first. NULL: it is the same in all steps.
  struct BoundInstr *in_step;
  int64_t steps; // entries of `in_step`
  int32_t loop;
  bool solo; // one worker of the context runs it; false: it is divided among them
  union {
    BoundKernel kernel;
    BoundGemm gemm;
    BoundOrdered ordered;
    BoundMatrix matrix;
    struct {
      void *dst;
      const void *src;
      Ref to, from; // references of dst and src, which say how they depend on loop steps
      int64_t bytes;
      bool streamed; // stores go past the caches
    } copy;          // INSTR_COPY; INSTR_FILL, with src NULL
    struct {
      int64_t *src, *dst;
      void **from, **to;
    } valid; // INSTR_COLLECTIVE: CommMember.src_valid and dst_valid, and the operands' addresses
    struct {
      int64_t count;
      bool meets; // the loop has a collective, at which all workers meet
      bool solo;  // one worker of a context runs the whole loop
      // Not 0: number of rows; workers with `least` rows or more each run all rounds for their rows
      int64_t rows, least;
      // the loop runs only if this byte is not 0; of the INSTR_END: goes on only if; NULL: always
      const char *guard;
    } loop; // INSTR_LOOP and INSTR_END
  } u;
} BoundInstr;

// The numbers of the current iterations of the loops around an instruction, outermost loop first.
typedef struct LoopSteps {
  int depth;
  int64_t at[LOOP_DEPTH];
} LoopSteps;

// A processor: its memory, and the addresses of its operands in every instruction. For a processor
// that another rank (process) runs, only the operands of collectives have addresses. If that rank
// is on another machine, the memory is NULL.
typedef struct Context {
  int64_t processor;
  char *arena, *own; // memory of the arena; memory of persistent tensors that are not shared
  char **tensor;     // by index in Program.tensor: the address of the tensor
  int64_t *slot;
  BoundInstr *instr;
  // by instruction: itself or the next one that is a thin product and runs once in a step, or
  // UINT32_MAX. NULL: there is none
  uint32_t *next_thin;
  int64_t bytes; // size of `own` and `arena` together
} Context;

enum { FAULT_DEPTH = 2 }; // length of StepFault.at
// The first error that a worker (thread) has seen in a context, which is a processor of the mesh.
typedef struct StepFault {
  uint32_t instr;
  Status status;           // code 0: there is no error
  int64_t at[FAULT_DEPTH]; // steps of the outermost loops around the instruction
} StepFault;

struct Exec {
  const Program *program;
  const Exec *share;
  const char *directory;
  uint64_t seed;
  Arena *memory; // has all memory of the Exec but that of tensors
  Team *team;
  Barrier *all;         // barrier for all workers
  Barrier **of_context; // by context: barrier for its workers, if it has several
  Comm *comm;
  Ranks *ranks; // NULL: this process runs all processors
  int workers;
  int64_t processors;         // number of processors of the mesh
  int64_t first, own;         // first processor of this process, and the number of its processors
  SharedSegment *kept, *work; // with ranks: the memory of Context.own, and that of Context.arena
  Context *context;
  bool defers; // kernels compute the sums over processors that collectives leave to them (SetSum)
  char *zeros; // if not `defers`: what kernels read instead of the blocks of other processors
  int64_t zeros_bytes;
  char *scratch;           // work memory of all workers: orders, matrices, products
  int64_t scratch_bytes;   // bytes of `scratch` that one worker has
  char *thin;              // parts of a thin product, for each processor of this process
  int64_t thin_bytes;      // of one processor
  struct ThinTurn *turn;   // of the workers in a thin product, for each processor of this process
  struct ThinAhead *ahead; // by worker: what it prefetches while it waits
  int64_t own_bytes;       // size of Context.own: persistent tensors that are not shared
  int64_t *own_offset;     // by tensor: its offset in Context.own; -1: it is shared or in the arena
  CommCall *call;          // by instruction: the call of a collective; zero for other instructions
  CommMember **member; // by instruction: operands of all processors of a collective; otherwise NULL
  void ***moved;       // by worker: room for the addresses of a kernel's operands in a loop
  int64_t rows;
  uint64_t sequence;
  ProgramCount moves[2];  // what collectives should send in a step with `rows` valid rows:
                          // [0] before INSTR_COMMIT, [1] after it
  ProgramCount predicted; // what collectives should have sent in all steps so far
  bool interrupted;       // a step has failed in a collective
  ExecInject inject;
  uint32_t inject_instr;  // index of the launch whose kernel gets a fault; UINT32_MAX: none
  const ExecProbe *probe; // may be NULL
  bool apart;             // ExecOptions.apart, or there is a probe
  bool common;            // processors keep common values (Ref.common) once
  bool alone;             // ExecOptions.alone
  bool small;             // no instruction is divided among workers (choose_crew)
  int crew;               // number of workers that run the current step
  Crew choice;            // all of them, or one
  int64_t steps;          // number of steps done so far
  // the step that is running: its number, and whether one is running
  int64_t step;
  bool under_way, commit, stop, judged;
  const volatile sig_atomic_t *stop_request; // ExecOptions.stop_request
  bool asked;                                // with ranks: any rank has been asked to stop
  StepResult result;
  StepFault *fault;              // index: context * workers + worker
  int32_t finite_tensor;         // index of the output that must be finite to commit; -1: none
  double *seconds;               // by instruction: seconds spent in it; NULL: there is no profile
  bool timed;                    // the profile is on
  double stamp;                  // clock (seconds) at the end of the last instruction
  struct FiniteProbe *nonfinite; // finds the first value that is not finite (probe.c), or NULL
  // called after instruction i if `nonfinite` is not NULL
  void (*look)(struct Exec *e, int64_t context, uint32_t i, const LoopSteps *steps);
  struct Trace *trace; // records what the workers run (runtime/exec/trace.h), or NULL
  // the device that runs the steps, and what it keeps for this Exec; NULL: the workers run them
  const ExecDevice *device;
  DeviceWork *work_on_device;
};

typedef struct FiniteProbe FiniteProbe; // defined in probe.c

// The work of one worker (thread) in a step: it runs the contexts first..last-1, which are
// processors of the mesh. If several workers share one context, `members` is their number and
// `member` the number of this worker among them. Otherwise `members` is 1 and `member` is 0.
typedef struct Seat {
  int64_t first, last;
  int member, members;
} Seat;
// Returns the seat of a worker if `crew` workers run the step.
Seat exec_seat(const Exec *e, int worker, int crew);

// Returns instruction i of a context in these steps of the loops around it.
static inline const BoundInstr *bound_instr(const Exec *e, int64_t context, uint32_t i,
                                            const LoopSteps *steps) {
  const BoundInstr *b = &e->context[context].instr[i];
  return b->in_step ? &b->in_step[steps->at[b->loop]] : b;
}

// Allocates the memory of all tensors and computes the addresses of all operands of the program.
// Returns false after an error in d.
MUST_USE bool exec_bind(Exec *e, Diag *d);
void exec_unbind(Exec *e);
// Returns whether processor r has memory of its own for tensor t. If not, it shares the memory of
// another processor.
bool exec_keeps(const Exec *e, int64_t r, uint32_t t);
// Returns whether this process runs processor r.
static inline bool exec_is_own(const Exec *e, int64_t r) {
  return r >= e->first && r < e->first + e->own;
}
// Returns how many of the processors of a group over `axes` share the memory of tensor t with
// processor c. *rank gets the number of those before c, and *first the first of them. Looks at
// processors up to c only if later ones have no addresses yet.
int64_t exec_sharers(const Exec *e, const Context *c, Axes axes, uint32_t t, int64_t *rank,
                     const Context **first);

// Returns the address of newly mapped zeroed memory, or NULL if the system has not enough memory.
char *memory_map(int64_t bytes);
void memory_unmap(char *at, int64_t bytes); // `at` may be NULL
// Lets all workers of a team touch the pages of such memory, so that steps cause no page faults.
void memory_touch(Team *team, char *at, int64_t bytes);

// Sets the persistent tensors (kept from step to step), whose memory is new, to their initial
// values (docs/decisions.md, 25), except those shared with another Exec. Returns false after an
// error in d.
MUST_USE bool exec_initialise(Exec *e, Diag *d);
// Sets the addresses of the operands that kernels sum over processors (set_sums.c). Call it when
// all processors have addresses.
void exec_bind_sums(Exec *e);
// Adds to e->predicted what collectives should have sent in the step that has ended (self_check.c).
void exec_count_predicted(Exec *e);
// Makes one element of the result of collective i wrong, if e->inject (an injected fault, for
// tests) names this call of the collective. The element is on the processor that e->inject names.
void exec_inject(Exec *e, uint32_t i);
// Returns the index of the instruction that launches the kernel in which e->inject injects a fault;
// UINT32_MAX if e->inject names no kernel.
uint32_t exec_inject_instr(const Exec *e);
// Returns a copy of `num`, the numeric constants of a launch of kernel k, in which the first
// constant is changed: an injected fault.
const double *exec_inject_numbers(const Exec *e, const ProgKernel *k, const double *num);
// Sets the addresses of the operands of collective i on the processor with index c, for the current
// iterations `s` of its loops.
void exec_move_operands(Exec *e, int64_t c, uint32_t i, const LoopSteps *s);
// Returns the first fault of the step, ordered by instruction, then by position in the full tensor;
// NULL if there is no fault. The first fault is the same on every mesh.
const StepFault *exec_first_fault(const Exec *e);
// Adds a fault of a processor (context) to e->fault, unless it is none or `worker` has one already.
void exec_note_fault(Exec *e, int64_t context, int worker, uint32_t instr, const Status *s,
                     const LoopSteps *steps);
// Sets the fields of e that describe a step, and clears its result and faults.
void exec_step_begins(Exec *e, int64_t step, bool commit);
// Takes e->result as the result of the step, and sets e->stop: whether the step ends at
// INSTR_COMMIT.
void exec_decide(Exec *e);
// Exchanges the result of a step and the first fault of each rank (process) among all ranks, which
// call it together. Afterwards e->fault has the faults of all ranks, and e->result and e->asked are
// equal on all ranks.
void exec_vote(Exec *e);
// Returns whether this process has been asked to stop, whatever other ranks have been.
bool exec_stop_requested(const Exec *e);
// Returns the index of the instruction to run after instruction i, which is an INSTR_LOOP or
// INSTR_END, bound as b. If the loop has another iteration, this is the first instruction in the
// loop, otherwise the instruction after the loop.
uint32_t exec_loop_pass(const Exec *e, const BoundInstr *b, uint32_t i, LoopSteps *s);
// If the sizes of instruction i change from step to step of a loop, gives it a bound instruction
// for each of these steps.
void exec_bind_steps(Exec *e, const Context *c, uint32_t i);
// Computes the run-time slots for a batch of e->rows rows; they are numbers that depend on the
// processor or on the rows of a batch. Computes also the sizes and counts of instructions that
// depend on the slots.
void exec_bind_sizes(Exec *e);

// Returns an operation on matrices with its addresses in these steps of the loops around it.
BoundMatrix exec_matrix(const BoundMatrix *at_base, const LoopSteps *steps);
// Divides n items (GEMMs of a batch, rows, columns or bytes) among `members` workers (threads), in
// multiples of `unit`. The share of worker `member` is items *lo..*hi-1.
void share_of(int64_t n, int64_t unit, int member, int members, int64_t *lo, int64_t *hi);
// Sets the fields `next` of the products of a context.
void exec_bind_coming(const Program *p, Context *c);
// Places in the operands of a GEMM, in elements.
typedef struct GemmPlace {
  int64_t a, b, c;
} GemmPlace;
// Returns where GEMM number `batch` of a batch begins in the operands of the batch.
GemmPlace gemm_place(const BoundGemm *b, int64_t batch);
// Returns piece i of a GEMM, without what is padding in the processor's blocks.
GemmPiece gemm_piece(const BoundGemm *b, int64_t i);
// Applies the epilogue of b to part p of C in batch number `batch`, where C has the product. The
// addend must not be in the memory of C.
void gemm_finish(const BoundGemm *b, int64_t batch, const GemmPiece *p);
// Runs the share of worker `member` of an INSTR_COPY or INSTR_FILL in these steps of the loops.
void run_copy(const BoundInstr *b, int member, int members, const LoopSteps *steps);
// Runs the share of worker `member` of a bound GEMM in these steps of the loops around it. scratch:
// gemm_scratch bytes of this worker alone. The workers meet before and after it.
void run_gemm(const BoundGemm *at_base, void *scratch, int member, int members,
              const LoopSteps *steps);
// Returns the product of a bound GEMM that is thin, in these steps of the loops around it.
Product thin_gemm(const BoundGemm *at_base, const LoopSteps *steps);

// Returns the index in the full dim d of the first element of processor r's block.
int64_t block_offset(const Mesh *m, const ProgDim *d, int64_t r);
// Returns the number of elements of processor r's block of dim d that are not padding. `rows` is
// the number of rows in the batch, the size of the batch dim (Program.over). If `rows` is -1, the
// batch is full.
int64_t block_valid(const Program *p, const ProgDim *d, int64_t r, int64_t rows);
// Returns the bytes of the full tensor t in an array that has `rows` rows, -1 for a whole batch.
int64_t block_full_bytes(const Program *p, const ProgTensor *t, int64_t rows);
// With several ranks (processes), waits until all ranks have called this function. Call it without
// `done` before blocks of other ranks are read, and with `done` afterwards. If first_says is not
// NULL, *first_says gets the value that rank 0 passed in it. Returns false once the run has failed.
MUST_USE bool exec_meet_readers(const Exec *e, bool done, bool *first_says);
// Returns processor r's block of tensor t. A block on another machine is copied to `room`, memory
// of exec_block_bytes bytes. All ranks call this function together, between two calls of
// exec_meet_readers. Returns NULL once the run has failed.
const char *exec_block(const Exec *e, uint32_t t, int64_t r, char *room);
int64_t exec_block_bytes(const Exec *e);
// Copies the persistent tensors to the host that a device has newer. Returns false if it has
// failed.
MUST_USE bool exec_fetch_kept(const Exec *e);
// Several processors may have equal blocks of t, called replicas. Returns the number, from 0, of
// processor r's replica of its block.
int64_t block_replica(const Mesh *m, const ProgTensor *t, int64_t r);
// Returns how many processors have equal copies (replicas) of each block of t.
int64_t block_replicas(const Mesh *m, const ProgTensor *t);
// Returns the processor that has replica 0 of processor r's block of t. Replicas are the equal
// copies of a block on several processors.
int64_t block_first(const Mesh *m, const ProgTensor *t, int64_t r);
// A function that receives a run of n elements of a block, the part of a tensor on one processor.
// In the block the run begins at offset `at` and has stride 1. In the full tensor, in declared
// order of dims, it begins at offset `index` and has stride `step`.
typedef void BlockRun(void *context, int64_t at, int64_t index, int64_t step, int64_t n);
// Calls `run` for all elements of processor r's block of t that are not padding, in runs along the
// dim that is last in memory. `rows` is the number of rows in the batch, the size of the batch dim.
// If `rows` is -1, the batch is full.
void block_visit(const Program *p, const ProgTensor *t, int64_t r, int64_t rows, BlockRun *run,
                 void *context);
// Positions first .. first + n - 1 of dim number `dim` (in physical order) of a tensor.
typedef struct BlockPart {
  int dim;
  int64_t first, n;
} BlockPart;
// The same for the elements of a part of the tensor, which takes the place of the full tensor.
void block_visit_part(const Program *p, const ProgTensor *t, int64_t r, int64_t rows,
                      const BlockPart *part, BlockRun *run, void *context);

#endif
