// A Program bound to the processors of a mesh. Each Ref of the program (a tensor and an offset) has
// become an address, and each run-time slot a number. A run-time slot is a number of the program
// that differs between processors, or with the valid rows of a batch.
//
// A kernel is launched on one or more operand sets, such as the tensors of several parameters. The
// work of a set is counted in units (rows of the outermost loop), which form chunks of `grain`
// units. A chunk is what one worker runs in one call.
#ifndef RUNTIME_BOUND_H
#define RUNTIME_BOUND_H

#include "collectives/ranks/ranks.h"
#include "runtime/exec/ordered_internal.h"
#include "runtime/runtime_internal.h"

typedef struct BoundSet {
  void **ptr;
  const Ref *ref; // the references of the addresses in ptr; NULL: no address moves in loops
  int64_t *slot;
  const double *num;
  int64_t units, chunks; // their numbers for the current valid rows
  // number of its first chunk among the chunks of all sets, and the index of that chunk's result in
  // BoundKernel.partial
  int64_t first;
} BoundSet;

typedef struct BoundKernel {
  const ProgKernel *kernel;
  uint32_t nsets;
  BoundSet *set;
  char *partial;
  int64_t grain;         // units of a chunk
  int64_t chunks, units; // their numbers in all sets together
} BoundKernel;

typedef struct BoundGemm {
  const Gemm *what;
  const char *a, *b;
  char *c;
  int64_t m, n, k, batches;
  int64_t count[MAX_RANK];
} BoundGemm;

typedef struct BoundInstr {
  InstrKind kind;
  bool solo; // not divided: the first of the workers that share a context runs it
  union {
    BoundKernel kernel;
    BoundGemm gemm;
    BoundOrdered ordered;
    struct {
      void *dst;
      const void *src;
      Ref to, from; // references of dst and src, by which they move in loops
      int64_t bytes;
    } copy; // FILL: src NULL
    struct {
      int64_t *src, *dst;
      void **from, **to;
    } valid; // COLLECTIVE: valid extents and addresses of this processor's operands
    struct {
      int64_t count;
      bool meets; // the loop has a collective, at which all workers meet
      bool solo;  // one worker of a context runs the whole loop
    } loop;       // and END
  } u;
} BoundInstr;

// The current steps of the loops around an instruction, outermost first.
typedef struct LoopSteps {
  int depth;
  int64_t at[LOOP_DEPTH];
} LoopSteps;

// A processor: its memory, and its operands of every instruction. For a processor of another rank
// only collectives are bound; on another machine its memory is NULL.
typedef struct Context {
  int64_t processor;
  char *arena, *own; // work memory; persistent tensors that are not shared
  char **tensor;     // addresses of Program.tensor
  int64_t *slot;
  BoundInstr *instr;
  int64_t bytes; // size of `own` and `arena` together
} Context;

enum { FAULT_DEPTH = 2 }; // most loops whose steps a StepFault records, the outermost first
// The first error that a worker has seen in a context.
typedef struct StepFault {
  uint32_t instr;
  Status status; // code 0: none
  int64_t at[FAULT_DEPTH];
} StepFault;

struct Exec {
  const Program *program;
  const Exec *share;
  const char *directory;
  uint64_t seed;
  Arena *memory; // all memory but that of tensors
  Team *team;
  Barrier *all;         // where all workers meet
  Barrier **of_context; // one a context when it has several workers
  Comm *comm;
  Ranks *ranks; // NULL: all processors are of this process
  int workers;
  int64_t processors;         // number of processors of the mesh
  int64_t first, own;         // those of this process
  SharedSegment *kept, *work; // with ranks: the memory of Context.own, and that of Context.arena
  Context *context;
  char *scratch;         // work memory of every worker for INSTR_ORDERED (cumsum, argsort, ...)
  int64_t scratch_bytes; // bytes of `scratch` of one worker
  int64_t own_bytes;     // persistent, of one processor, shared ones not counted
  int64_t *own_offset;   // by tensor: its offset in Context.own; -1: it is shared or in the arena
  CommCall *call;        // by instruction; empty for those that are no collective
  CommMember **member; // by instruction: the operands of all processors; NULL: it is no collective
  void ***moved;       // by worker: memory for the addresses of a kernel in a loop
  int64_t rows;
  uint64_t sequence;
  ProgramCount moves[2];  // what collectives send in a step with these rows: [0] before, [1] after
                          // the COMMIT
  ProgramCount predicted; // what all steps so far should have sent
  bool interrupted;       // a step has failed in a collective
  ExecInject inject;
  uint32_t inject_instr;  // instruction of a kernel fault, UINT32_MAX: none
  const ExecProbe *probe; // or NULL
  bool small;             // no instruction is divided among workers (choose_crew)
  int crew;               // number of the workers that run the current step
  int64_t steps;          // done so far
  double spent[2];        // seconds of trial steps: [0] by all workers, [1] by one
  // of the step under way
  int64_t step;
  bool under_way, commit, stop, judged;
  const volatile sig_atomic_t *stop_request; // as in ExecOptions
  bool asked;                                // with ranks: one of them has been asked to stop
  StepResult result;
  StepFault *fault;              // [context * workers + worker]
  int32_t finite_tensor;         // index of the output that must be finite to commit; -1: none
  double *seconds;               // by instruction: its seconds; NULL: no profile
  bool timed;                    // the profile is on
  double stamp;                  // clock at the end of the last instruction
  struct FiniteProbe *nonfinite; // looks for the first value that is not finite, or NULL (probe.c)
  void (*look)(struct Exec *e, int64_t context, uint32_t i,
               const LoopSteps *steps); // with nonfinite: after instruction i
  struct Trace *trace;                  // gets what the workers run, or NULL (runtime/exec/trace.h)
};

typedef struct FiniteProbe FiniteProbe; // probe.c

// Allocates the memory of tensors and resolves all references of the program. False after an error
// in d.
MUST_USE bool exec_bind(Exec *e, Diag *d);
void exec_unbind(Exec *e);
// Adds to e->predicted what the step that has ended should have sent (self_check.c).
void exec_count_predicted(Exec *e);
// Makes one element wrong in what collective i has delivered to the processor of e->inject, if this
// call of a collective is the one that e->inject names (inject.c).
void exec_inject(Exec *e, uint32_t i);
// Returns the index of the kernel launch that e->inject names; UINT32_MAX: none.
uint32_t exec_inject_instr(const Exec *e);
// Returns a copy of `num`, the numeric constants of an operand set of k, with the first one
// changed.
const double *exec_inject_numbers(const Exec *e, const ProgKernel *k, const double *num);
// Sets the addresses of the operands of collective i in context c, for the current steps of the
// loops around it.
void exec_move_operands(Exec *e, int64_t c, uint32_t i, const LoopSteps *s);
// Returns the first fault by order of instructions, then by global position, or NULL.
const StepFault *exec_first_fault(const Exec *e);
// Computes slots and everything that depends on them, for e->rows valid rows.
void exec_bind_sizes(Exec *e);

// Return the first index of processor r's block of a dim, and the number of its elements when the
// dim Program.over has `rows` rows.
int64_t block_offset(const Mesh *m, const ProgDim *d, int64_t r);
int64_t block_valid(const Program *p, const ProgDim *d, int64_t r, int64_t rows);
// With ranks: meets all ranks, once before blocks are read, and once, with `done`, after they have
// been read. If first_says is not NULL, *first_says gets the value that it has on rank 0. Returns
// false once the run has failed.
MUST_USE bool exec_meet_readers(const Exec *e, bool done, bool *first_says);
// Returns processor r's block of tensor t. A block on another machine is copied to `room`, which
// has exec_block_bytes bytes. All ranks call it together, between two calls of exec_meet_readers.
// NULL once the run has failed.
const char *exec_block(const Exec *e, uint32_t t, int64_t r, char *room);
int64_t exec_block_bytes(const Exec *e);
// Several processors may hold equal blocks of tensor t, its replicas. Return the number of
// processor r's replica, from 0; the number of replicas; and the processor that has replica 0 of
// r's block.
int64_t block_replica(const Mesh *m, const ProgTensor *t, int64_t r);
int64_t block_replicas(const Mesh *m, const ProgTensor *t);
int64_t block_first(const Mesh *m, const ProgTensor *t, int64_t r);
// Visits the valid elements of processor r's block of t in runs of n elements along the last
// physical dim: in the block from `at` with stride 1, in the full tensor from `index` with stride
// `step`. `rows`: valid rows, -1: all.
typedef void BlockRun(void *context, int64_t at, int64_t index, int64_t step, int64_t n);
void block_visit(const Program *p, const ProgTensor *t, int64_t r, int64_t rows, BlockRun *run,
                 void *context);

#endif
