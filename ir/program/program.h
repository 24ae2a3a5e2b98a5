// Program: what one processor executes. All processors of a mesh have the same Program.
//
// Instructions know only bytes and run-time scalars. The list of tensors keeps names and dims for
// checkpoints, feeds and messages (decision 24 of docs/decisions.md). The runtime needs this file
// and object code only. Words of this file:
//
//   slot    a scalar whose value depends on the processor (Slot); not an optimizer's slot, which is a
//           tensor (TENSOR_SLOT)
//   unit    a share of the iterations of a kernel; its units are divided among threads
//   chunk   consecutive units of a kernel that one thread runs in one call
//   set     the operands of one use of a kernel (KernelSet); one launch can run several sets
//   part    one tensor of a collective (CollPart); one call can move several
//   piece   the elements of a longer block that one member of a collective's group has
#ifndef IR_PROGRAM_H
#define IR_PROGRAM_H

#include "ir/base/dtype.h"
#include "ir/base/mesh.h"
#include "ir/program/monoid.h"
#include "ir/program/spec.h"

// A scalar that differs between processors. The runtime computes it from the processor's
// coordinates when the program is bound, and again when an incomplete batch has fewer rows
// (decision 10).
typedef enum SlotKind {
  SLOT_EXTENT, // number of valid elements of the processor's block of a dim
  SLOT_OFFSET, // index in the whole dim of the first element of that block
  SLOT_RANK,   // number of the processor in its group over `axes`
} SlotKind;
typedef struct Slot {
  SlotKind kind;
  const char *dim; // name of the whole dim
  int64_t whole;   // size of the whole dim
  Axes axes;       // axes over which the dim is split
  // The scalar is ceil(x * scale / div) * y, where x is the number that `kind` describes and y is
  // the value of slot times - 1. This gives the length of a loop over several dims, and the number
  // of units of a kernel. Most slots have only x.
  Axes within;         // SLOT_OFFSET counts from the start of the block under these first axes
  int64_t scale;       // 0 means 1
  int64_t div;         // 0 means 1
  int32_t times;       // 1 + the index of a slot; 0 means y = 1
  Footprint footprint; // if its divisor is not 0: x describes this interval of the dim, not a block
} Slot;
// Returns the slot of the given kind for dim d, which is a block or a footprint dim.
Slot slot_of_dim(const DimTable *t, DimId d, SlotKind kind);
bool slot_equal(const Slot *a, const Slot *b);

// A size that is known when the program is bound: `base` times the value of a slot.
typedef struct Size {
  int64_t base;
  int32_t slot; // index into Program.slot; -1 means the size is `base`
} Size;

enum { LOOP_DEPTH = 8 }; // the most loops inside one another

// A place in a processor's memory. Inside loops the place moves: in step t of a loop it is
// t * stride[loop] bytes further.
typedef struct Ref {
  int32_t tensor;        // index of the persistent tensor that it lies in; -1: the work arena
  int64_t offset;        // bytes from the start of that memory, in step 0 of all loops
  const int64_t *stride; // LOOP_DEPTH numbers of bytes, outermost loop first; NULL: all are 0
} Ref;

typedef enum TensorKind {
  TENSOR_INPUT,
  TENSOR_PARAM,
  TENSOR_STATE,
  TENSOR_SLOT,     // state of an optimizer
  TENSOR_CONSTANT, // its data is in the program
  TENSOR_OUTPUT,   // a result of the program
} TensorKind;

typedef struct ProgDim {
  const char *name;     // name of the whole dim
  int64_t whole, block; // sizes of the whole dim and of the largest block
  Axes axes;
  int32_t extent; // index of the slot with its valid length; -1: the block is always full
} ProgDim;

typedef struct ProgTensor {
  TensorKind kind;
  const char *name; // "w", "optimizer.w.m", "grad(w)"
  Dtype type;
  uint8_t rank;
  ProgDim dim[MAX_RANK];      // physical order, slowest first
  uint8_t declared[MAX_RANK]; // axis i of the tensor in files is dim[declared[i]]
  int64_t bytes;              // bytes of one block
  Ref at;    // {own index, 0} if it has memory of its own; else in the work arena or another tensor
  Init init; // initial value of params, states and optimizer slots
  const double *data; // constants: all elements, row-major in the order of `dim`
  int32_t of;         // TENSOR_SLOT: index of its parameter; else -1
  Pos pos;
} ProgTensor;

// A report of a kernel: an id that is out of range.
typedef struct Status {
  uint32_t code;    // 0: no fault; else 1 + index into Program.check
  int64_t value;    // the id
  int64_t position; // iteration of the loops of that Check, as one row-major number
} Status;
// The arguments of generated code: one chunk of one set on one processor.
typedef struct KernelCall {
  void *const *ptr;
  const int64_t *slot;
  const double *num;
  char *partial; // partial results of this chunk; for CombineFn those of chunk 0
  Status *status;
  int64_t step;
  uint64_t seed;  // philox_seed of the run's seed (ir/base/philox.h)
  int64_t repeat; // number of the update within the step, from 0
} KernelCall;
// Runs the units lo ... hi - 1 of a kernel.
typedef void KernelFn(const KernelCall *call, int64_t lo, int64_t hi);
// Combines the partial results of n chunks, in the order of chunks.
typedef void CombineFn(const KernelCall *call, int64_t n);

typedef struct ProgKernel {
  const char *name;           // symbol of KernelFn; that of CombineFn is NAME_combine
  const char *text;           // text of the kernel: the key of the code cache, shown by dumps
  uint16_t nptr, nslot, nnum; // lengths of KernelCall.ptr, slot and num
  int64_t partial_bytes;      // bytes of partial results of a chunk; 0: it has no CombineFn
  KernelFn *run;              // this and `combine` are set when the code is loaded
  CombineFn *combine;
} ProgKernel;

// The operands of one use of a kernel. An optimizer's kernel has one set for each parameter.
typedef struct KernelSet {
  Ref *ptr;      // ProgKernel.nptr places
  int32_t *slot; // ProgKernel.nslot indices into Program.slot
  Size units;    // number of units
  double *num;   // ProgKernel.nnum numbers
} KernelSet;
// An instruction that runs a kernel with all its sets.
typedef struct KernelLaunch {
  uint32_t kernel; // index into Program.kernel
  uint32_t nsets;
  KernelSet *set;
  int64_t grain;  // units in a chunk; it does not depend on the number of threads (decision 18)
  Ref partial;    // partial results of all chunks
  int64_t chunks; // chunks of all sets if every block is full
} KernelLaunch;

// A matrix product C[m, n] = sum over k of A[m, k] B[k, n], once for each combination of the batch
// loops. Matrices are row-major; lda, ldb and ldc are the elements from one row to the next. ta: A
// is stored as [k, m]; tb: B is stored as [n, k].
typedef struct Gemm {
  Dtype type; // f32 or f64
  bool ta, tb;
  Size m, n, k;
  int64_t lda, ldb, ldc;
  uint8_t nbatch;
  struct {
    Size count;
    int64_t a, b, c;
  } batch[MAX_RANK]; // steps of a loop and its strides in elements; outermost loop first
  Ref a, b, c;
} Gemm;

static inline double gemm_flops(double m, double n, double k, double batches) {
  return 2 * m * n * k * batches;
}
// An instruction smaller than this is run by one thread of the processor, in the simulator, too.
enum {
  SOLO_BYTES = 1 << 16,   // bytes of a copy or fill
  SOLO_FLOPS = 1 << 18,   // flops of a product
  SOLO_ORDERED = 1 << 13, // elements of an ordered operation
};

typedef enum CollKind {
#define COLL(id, text) COLL_##id,
#include "ir/program/coll.def"
#undef COLL
  COLL_COUNT
} CollKind;
const char *coll_text(CollKind k);
// Returns the rounds of the ring algorithm: 2 for an all_reduce, which reduces and then gathers;
// otherwise 1.
int coll_rounds(CollKind k);
// Returns the bytes that one processor of a group sends in the ring algorithm, rounded up. With n
// processors it sends (n-1)/n of `bytes` in each round; a permute sends all of `bytes`. `bytes` is
// the size of the operand, for an all_gather that of the result.
int64_t coll_wire_bytes(CollKind k, int64_t group, int64_t bytes);
// Returns coll_wire_bytes for one byte, not rounded.
double coll_sent_share(CollKind k, double group);

// A dim along which a permute moves elements.
typedef struct MovedDim {
  int64_t whole; // size of the whole dim; 0: nothing moves along it
  Axes from, to; // axes that split the dim in the source and in the destination
} MovedDim;
// One tensor of a collective; its dims are in physical order. Along dim `gathered` the destination
// is longer than the source, along dim `split` it is shorter; -1: there is no such dim. all_gather
// has `gathered`, reduce_scatter has `split`, all_to_all has both, all_reduce has none. Member k of
// the group has the elements k*piece ... k*piece + piece - 1 of the longer block, as far as they
// are valid.
typedef struct CollPart {
  Ref src, dst;
  uint8_t rank;
  int64_t src_block[MAX_RANK], dst_block[MAX_RANK];
  Size src_valid[MAX_RANK], dst_valid[MAX_RANK];
  int8_t gathered, split;
  int64_t whole; // permute: size of the whole dim `split`
  Footprint
      footprint; // permute: if its divisor is not 0, the destination is this interval (a halo)
  MovedDim moved[MAX_RANK]; // permute along several dims, with split = -1: by dim
  const char *value;        // name of the tensor, for messages and traces
} CollPart;
typedef struct Collective {
  CollKind kind;
  Axes axes;
  Axes to; // permute: axes that split the destination; `axes` split the source. Halo: axes on which
           // the interval depends
  Dtype type;
  Monoid monoid;   // all_reduce and reduce_scatter
  uint32_t nparts; // number of tensors that one call moves
  CollPart *part;
  int64_t bytes;      // bytes of the operands of one call
  int64_t wire_bytes; // bytes that a processor sends in one call, as `check` predicts (decision 28)
  bool backward;
  Pos pos;
  const char *why;
} Collective;

// An operation along one dim in which the order of elements matters. The runtime computes it row by
// row.
typedef enum OrderedKind {
  ORDERED_CUMSUM,
  ORDERED_CUMMAX,
  ORDERED_CUM_INDEX,
  ORDERED_ARGSORT,
  ORDERED_TOP_K
} OrderedKind;
typedef struct Ordered {
  OrderedKind kind;
  Dtype type;                 // type of the source; results that are indices are i32
  unsigned flags;             // ORDER_* of ir/program/ordered_flags.h
  Size n;                     // number of elements of a row
  int64_t k;                  // top_k: number of results of a row
  int64_t src_step, dst_step; // distance of neighbours in a row, in elements
  uint8_t nrows;              // number of loops over rows, outermost first
  struct {
    Size count;
    int64_t src, dst;
  } row[MAX_RANK];
  Ref src, dst;
} Ordered;

typedef enum InstrKind {
  INSTR_KERNEL,
  INSTR_GEMM,
  INSTR_COLLECTIVE,
  INSTR_ORDERED,
  INSTR_FILL,   // sets bytes to 0
  INSTR_COPY,   // copies bytes from src to dst
  INSTR_COMMIT, // later instructions change persistent tensors; they run only if no processor
                // has reported a fault
  INSTR_LOOP, // repeats the instructions up to its INSTR_END, for t = 0 ... count-1 or in reverse;
              // never after INSTR_COMMIT
  INSTR_END,
} InstrKind;
typedef struct Instr {
  InstrKind kind;
  union {
    KernelLaunch kernel;
    Gemm gemm;
    Collective collective;
    Ordered ordered;
    struct {
      Ref dst;
      int64_t bytes;
    } fill;
    struct {
      Ref dst, src;
      int64_t bytes;
    } copy;
    struct {
      Size count;
      bool reverse;
      uint32_t end;
      const char *dim;
    } loop; // end: index of the INSTR_END
    struct {
      uint32_t begin;
    } end;
  } u;
} Instr;

// A value that an instruction writes.
typedef struct InstrValue {
  uint32_t set, ptr; // kernel: the value is operand `ptr` of set `set`; collective: it is the
                     // destination of part `ptr`; else 0
  Dtype type;
  uint8_t rank;
  ProgDim dim[MAX_RANK];  // dims of its block in memory, slowest first; their extent is -1
  const char *value, *op; // full name of the value or NULL; name of the operation
  bool backward;
  Pos pos;
} InstrValue;
// The values of the model that an instruction writes, and its costs: for traces, times and
// messages.
typedef struct InstrNote {
  uint32_t nvalues;
  InstrValue *value;
  int64_t bytes; // bytes that one run reads and writes
  int64_t flops; // arithmetic operations of one run
} InstrNote;

// An operation that checks that ids are in range; a kernel reports a fault in Status.
typedef struct Check {
  const char *value; // full name of the value with the ids, or NULL
  const char *dim;   // the ids are indices of this dim
  int64_t size;      // size of that dim
  Pos pos;
  uint8_t rank; // number of loops that Status.position counts, outermost first
  ProgDim loop[MAX_RANK];
  uint16_t without; // bit i is set if the ids do not have the dim of loop[i]
} Check;

typedef struct Program {
  const char *model, *for_; // path of the model; "train", "eval", "run"
  Mesh mesh;
  const char *over;    // the dim that is shorter in an incomplete batch, or NULL
  int64_t arena_bytes; // bytes of the work arena of one processor
  uint32_t nslots, ntensors, nkernels, ninstrs, nchecks;
  Slot *slot;
  ProgTensor *tensor;
  ProgKernel *kernel;
  Instr *instr;
  Check *check;
  InstrNote *note; // of each instruction; NULL in a program that was not compiled from a graph
  int64_t flops;   // flops of all products of one processor in a run
} Program;

// Returns the value by which messages name instruction i: the first one with a name, otherwise
// the first one. NULL if the instruction writes no value of the model.
const InstrValue *program_instr_value(const Program *p, uint32_t i);
// Returns a name of instruction i for messages: that of its value, such as "hidden", otherwise its
// operation or kind. *pos gets the place in the model, with line 0 if there is none. The name lives
// as long as p.
const char *program_instr_name(const Program *p, uint32_t i, Pos *pos);
// Returns the value of slot s on processor r. `rows` is the number of valid rows of the dim
// Program.over; below 0 means all.
int64_t program_slot(const Program *p, int32_t s, int64_t r, int64_t rows);
// Returns the index of the tensor with that name and kind, or -1.
int32_t program_tensor(const Program *p, TensorKind kind, const char *name);
// Predicted calls and bytes of the collectives of one run, indexed by CollKind.
typedef struct ProgramCount {
  int64_t calls[COLL_COUNT], bytes[COLL_COUNT], wire_bytes[COLL_COUNT];
} ProgramCount;
// Counts the collectives of a run on processor r. `rows` is the number of valid rows of the dim
// Program.over; below 0 means all. part[0] gets those before INSTR_COMMIT, part[1] those after it.
void program_count(const Program *p, int64_t r, int64_t rows, ProgramCount part[2]);
void program_count_add(ProgramCount *sum, const ProgramCount *x);

enum { MEMORY_ALIGN = 64 }; // persistent tensors begin at multiples of this many bytes
// Returns true if tensor t has memory of its own, which is kept between runs.
static inline bool tensor_is_persistent(const Program *p, uint32_t t) {
  return p->tensor[t].at.tensor == (int32_t)t;
}
// Returns the bytes that one processor needs: its persistent tensors, each aligned, and its work
// arena.
int64_t program_bytes(const Program *p);
enum { ORDERED_ENTRY = 16 }; // bytes of an element that is being sorted
// Returns the bytes of scratch memory that every thread needs to sort: two copies of the longest
// row of the program. 0 if nothing is sorted.
int64_t program_scratch(const Program *p);
// Returns the bytes by which r has moved when the `depth` loops around it are in steps
// at[0..depth).
int64_t ref_moved(Ref r, int depth, const int64_t *at);
// Returns the program as text, for dumps.
char *program_print(Arena *a, const Program *p);

#endif
