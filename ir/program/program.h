// Program: what one processor executes. All processors of a mesh have the same Program.
//
// Instructions know only bytes and run-time scalars. The list of tensors keeps names and dims for
// checkpoints, feeds and messages. The runtime needs only this file and object code. Words of this
// file:
//
//   slot    a scalar whose value depends on the processor (Slot); not an optimizer's slot, which is
//           a tensor (TENSOR_SLOT)
//   unit    a share of the iterations of a kernel; the units of a kernel are divided among threads
//   chunk   consecutive units of a kernel that one thread runs in one call
//   set     the operands of one use of a kernel (KernelSet); one launch can run several sets
//   part    one tensor of a collective (CollPart); one call can move several
//   piece   the number of elements of a longer block that one member of a group has (CollPart)
//   valid   of a block: elements that belong to the tensor; the rest of the block is padding
#ifndef IR_PROGRAM_H
#define IR_PROGRAM_H

#include "ir/base/dtype.h"
#include "ir/base/mesh.h"
#include "ir/program/matrix.h"
#include "ir/program/monoid.h"
#include "ir/program/spec.h"

// A scalar that differs between processors. The runtime computes it from the processor's
// coordinates when the program is bound to memory. It computes it again for an incomplete batch,
// which has fewer rows.
typedef enum SlotKind {
  SLOT_EXTENT, // number of valid elements of the block that the processor has of a dim
  SLOT_OFFSET, // index in the whole dim of the first element of that block
  SLOT_RANK,   // rank of the processor in its group over `axes`
} SlotKind;
typedef struct Slot {
  SlotKind kind;
  const char *dim; // name of the whole dim
  int64_t whole;   // size of the whole dim
  // If not 0, the whole dim was made of the batch dim (Program.over), such as one that joins batch
  // and time. This is the number of rows of a full batch. In an incomplete batch the valid elements
  // of the dim are as many in proportion as the rows, rounded up.
  int64_t batch;
  Axes axes; // axes over which the dim is split
  // The scalar is ceil(x * scale / div) * y. x is the number that `kind` describes; y is the value
  // of the slot with index times - 1. This gives the length of a loop over several dims, or the
  // number of units of a kernel. Most slots have only x.
  // SLOT_OFFSET counts from the start of the block over these axes, the first of `axes`.
  Axes within;
  int64_t scale; // 0 means 1
  int64_t div;   // 0 means 1
  int32_t times; // 1 + the index of another slot, whose value is y; 0: y is 1
  // If its divisor is not 0, x describes this interval of the dim instead of a block.
  Footprint footprint;
  // If not NULL, x is live[i] in step i of a loop around the instruction that reads the slot. The
  // loop runs over dim `by`, has `steps` steps, and is number `loop` of the loops, outermost first.
  const int64_t *live;
  const char *by;
  int64_t steps;
  int32_t loop;
} Slot;
// Returns a slot (a scalar that differs between processors) of the given kind for dim d. d may be a
// whole, a block or a footprint dim.
Slot slot_of_dim(const DimTable *t, DimId d, SlotKind kind);
bool slot_equal(const Slot *a, const Slot *b);

// A size that is known when the program is bound to memory. It is `base` times the value of a slot
// (a scalar that differs between processors).
typedef struct Size {
  int64_t base;
  int32_t slot; // index into Program.slot; -1: the size is `base`
} Size;

enum { LOOP_DEPTH = 8 }; // the most loops (INSTR_LOOP) that can be nested

// A place in a processor's memory. Inside loops the place moves: in step t of loop i it is
// t * stride[i] bytes further.
typedef struct Ref {
  int32_t tensor;        // index of the persistent tensor that it lies in; -1: the work arena
  int64_t offset;        // bytes from the start of the tensor or arena, in step 0 of all loops
  const int64_t *stride; // LOOP_DEPTH numbers of bytes, outermost loop first; NULL: all 0
  // Of a value in the work arena that is equal on all processors along these axes: those of one
  // process may keep it once, in the arena of the first of them (codegen/program/common_values.c).
  AxisSet common;
} Ref;

typedef enum TensorKind {
  TENSOR_INPUT,
  TENSOR_PARAM,
  TENSOR_STATE,
  TENSOR_SLOT,     // state of an optimizer
  TENSOR_CONSTANT, // its elements are in the program
  TENSOR_OUTPUT,   // a result of the program
} TensorKind;

typedef struct ProgDim {
  const char *name;     // name of the whole dim
  int64_t whole, block; // sizes of the whole dim and of the largest block
  Axes axes;
  // Index of the slot that has its valid length; -1: all elements of each block are valid.
  int32_t extent;
} ProgDim;

typedef struct ProgTensor {
  TensorKind kind;
  const char *name; // "w", "optimizer.w.m", "grad(w)"
  Dtype type;
  uint8_t rank;
  ProgDim dim[MAX_RANK];      // physical order, slowest first
  uint8_t declared[MAX_RANK]; // axis i of the tensor in files is dim[declared[i]]
  int64_t bytes;              // bytes of the block of one processor
  // Where the tensor lies: at {own index, 0} if it has memory of its own, otherwise in the work
  // arena or in another tensor.
  Ref at;
  // Persistent: processors with equal blocks may share the memory of one. Only kernel sets that
  // they divide (KernelSet.divided) and all_gathers among them (CollPart.once) write it.
  bool shared;
  Init init;          // initial value of params, states and optimizer slots
  const double *data; // constants: all elements, row-major in the order of `dim`
  int32_t of;         // TENSOR_SLOT: index of its parameter; else -1
  Pos pos;
} ProgTensor;

// A fault that a kernel reports: an id that is out of range.
typedef struct Status {
  uint32_t code;    // 0: no fault; otherwise 1 + the index into Program.check
  int64_t value;    // the id that is out of range
  int64_t position; // iteration of the loops of that Check, as one row-major number from 0
} Status;
// The arguments of one call of generated code on one processor. The call runs one chunk (a range of
// iterations) with one set of operands.
typedef struct KernelCall {
  void *const *ptr;
  const int64_t *slot;
  const double *num;
  // Partial results of this chunk. For a CombineFn those of chunk 0; the other chunks follow.
  char *partial;
  Status *status;
  int64_t step;
  uint64_t seed;  // philox_seed of the run's seed (ir/base/philox.h)
  int64_t repeat; // number of the update within the step, counted from 0
} KernelCall;
// Runs the units lo to hi - 1 of a kernel. A unit is a share of its iterations.
typedef void KernelFn(const KernelCall *call, int64_t lo, int64_t hi);
// Combines the partial results of n chunks (ranges of iterations that one thread runs). Takes the
// chunks in their order, so that the result does not depend on threads.
typedef void CombineFn(const KernelCall *call, int64_t n);

typedef struct ProgKernel {
  const char *name;           // symbol of `run`; the symbol of `combine` is NAME_combine
  const char *text;           // text of the kernel: the key of the code cache, shown by dumps
  uint16_t nptr, nslot, nnum; // lengths of KernelCall.ptr, slot and num
  int64_t partial_bytes; // bytes of partial results of one chunk; 0: the kernel has no CombineFn
  KernelFn *run;         // run and combine are set when the machine code is loaded
  CombineFn *combine;
} ProgKernel;

// An operand of a divided set that is a sum over processors, which a collective has left to the
// kernel (CollPart.deferred). The kernel has a pointer for each of the n blocks of a group: `own`
// for the block of its first member, and n - 1 pointers from `others` on. Where the collective has
// summed after all, these n - 1 address zeros.
typedef struct SetSum {
  Axes axes; // axes of the collective
  int32_t own, others;
  int64_t bytes; // of a block
} SetSum;

// The operands of one use of a kernel. An optimizer's kernel has one set for each parameter.
typedef struct KernelSet {
  Ref *ptr;      // as many as ProgKernel.nptr
  int32_t *slot; // as many as ProgKernel.nslot; each is an index into Program.slot
  Size units;    // number of units
  double *num;   // as many as ProgKernel.nnum
  // 1 + the index of a persistent tensor that the set writes: the processors that share its memory
  // divide the units among them. All processors meet before and after the launch. 0: each processor
  // runs all units.
  int32_t divided;
  const SetSum *sum; // NULL: there is no such operand
} KernelSet;
// An instruction that runs a kernel once for each of its sets of operands.
typedef struct KernelLaunch {
  uint32_t kernel; // index into Program.kernel
  uint32_t nsets;
  KernelSet *set;
  int64_t grain;  // units in a chunk; fixed by the compiler, whatever the number of threads
  Ref partial;    // place of the partial results of all chunks
  int64_t chunks; // number of chunks of all sets if all blocks are full
  // All results are common along these axes (Ref.common): processors of one process divide the
  // chunks among them, and meet before and after the launch. Its operands are those of the first.
  AxisSet common;
  // In a loop with rows (Instr.u.loop.rows): the units are `strips` times the number of rows times
  // `row_units`, in this order. 0: the kernel runs as a whole.
  int64_t strips, row_units;
} KernelLaunch;

// A matrix product C[m, n] = sum over k of A[m, k] B[k, n], for each combination of steps of the
// batch loops. Matrices are row-major; lda, ldb and ldc are the distances between rows, in
// elements. With ta, A is stored as [k, m]; with tb, B is stored as [n, k].
//
// With pieces, only parts of the result are computed, or of the sums: those of each piece. The
// other elements of the result are not written.
typedef struct GemmPiece {
  int64_t from[3], to[3]; // the rows, the columns, and the terms of the sum: from..to - 1
} GemmPiece;
// The function that a product applies to its sums: with v = sum + addend + bias, C[m, n] is act(v)
// (gemm_act.def).
typedef enum GemmAct {
#define GEMM_ACT(id, text, reads) GEMM_##id,
#include "ir/program/gemm_act.def"
#undef GEMM_ACT
  GEMM_ACT_COUNT
} GemmAct;
// Operands of a product beside A, B and C, whose type they have.
enum {
  GEMM_ADDEND, // a matrix that is stored as C is. For a GPU it may be C itself: the product is
               // added.
  GEMM_BIAS,   // n numbers, one for each column of C
  GEMM_AUX,    // a matrix that is stored as C is, and that `act` reads or writes
  GEMM_EXTRAS
};
// What a product does with its sums before it stores them in C.
typedef struct GemmEpilogue {
  GemmAct act;
  bool has[GEMM_EXTRAS]; // which of the operands there are
  Ref extra[GEMM_EXTRAS];
} GemmEpilogue;
typedef struct Gemm {
  // The types of the elements of A and B, and of C. Both are f32, both are f64, or `factors` is
  // bf16 and `type` bf16 or f32. Sums are of type dtype_accumulator(factors).
  Dtype factors, type;
  bool tf32; // a GPU may round factors of f32 to 10 bits behind the point (--precision tf32)
  bool ta, tb;
  Size m, n, k;
  int64_t lda, ldb, ldc;
  uint8_t nbatch;
  struct {
    Size count;
    int64_t a, b, c;
  } batch[MAX_RANK]; // number of steps of a loop, and its strides in elements; outermost loop first
  Ref a, b, c;
  int32_t npieces; // 0: all is computed
  // 0: each piece is computed. Otherwise 1 + the index of a loop around the instruction, outermost
  // first: piece i is computed in step i of that loop.
  int32_t by_step;
  const GemmPiece *piece;
  // NULL: C is the product. A product that has one has no pieces, and at least one term. With a
  // bias or an auxiliary matrix it has no batches.
  GemmEpilogue *epilogue;
} Gemm;
// Returns the place of operand i of the epilogue, such as GEMM_BIAS, or NULL if there is none.
Ref *gemm_extra(const Gemm *g, int i);
// Returns whether the product writes this operand.
bool gemm_writes_extra(const Gemm *g, int i);
// Returns the index in gemm_library.def of the epilogue with which the library computes g, or -1.
int gemm_library(const Gemm *g);
enum {
#define GEMM_LIBRARY(act, bias, aux, types, theirs) GEMM_ROW_##theirs,
#include "ir/program/gemm_library.def"
#undef GEMM_LIBRARY
  GEMM_ROWS
};
static const uint32_t ALL_EPILOGUES = (1U << GEMM_ROWS) - 1;
// Returns a product of the smallest type of row `row`, of which only type and epilogue are set. The
// epilogue is stored in *e.
Gemm gemm_of_row(int row, GemmEpilogue *e);
const char *gemm_act_text(GemmAct act);
// Returns what is stored in C for v. aux: the element of the auxiliary matrix, if `act` reads it.
double gemm_act(GemmAct act, double v, double aux);
// Returns the elements of a Gemm's products that are computed, as a share of m * n * k. It is the
// mean over the steps of its loop.
double gemm_share(const Gemm *g, int64_t m, int64_t n, int64_t k);
// Returns whether elements of the result may be left out: its pieces do not differ in their terms.
bool gemm_has_gaps(const Gemm *g);

enum {
  BF16_GEMM_SCRATCH = 856064, // bytes of work memory of a thread in a Gemm of bf16
  // Sizes of a Gemm of f32 (runtime/exec/f32_gemm.c), in elements.
  F32_GEMM_LANES = 16,
  F32_GEMM_DEPTH = 384,       // most elements of k that a thread packs at a time
  F32_GEMM_BLOCK = 384 * 480, // most elements of a packed block of B
  F32_GEMM_PANEL = 48,        // columns of a panel of B
  F32_GEMM_ROWS = 14,         // most rows of a tile
  F32_GEMM_GROUP = 384 * 168, // most elements of A that are packed together
  F32_GEMM_KEPT = 336,        // most rows whose sums are kept apart: of 4 panels in such a group
  // Most elements of a transposed A that are packed for all blocks of columns of a slab: 114 tiles
  // of 9.
  F32_GEMM_WHOLE = 384 * 1026,
  F32_GEMM_LONG = 384 * 32,    // a longer sum has totals in f64
  F32_GEMM_TOTALS = 720 * 336, // most totals that are kept at a time
  // Thin products (runtime/exec/thin_product.c): most rows, least elements of B
  THIN_ROWS = 4,
  THIN_ELEMENTS = 1 << 19
};
static inline bool f32_gemm_is_long(int64_t k) { return k > F32_GEMM_LONG; }
// Returns whether a product takes as long as reading B from memory.
static inline bool product_is_thin(int64_t m, int64_t n, int64_t k) {
  return m <= THIN_ROWS && n * k >= THIN_ELEMENTS;
}
// Returns whether g is such a product, which the workers of a processor divide by the lines of B.
bool gemm_is_thin(const Gemm *g);
// Returns the number of pieces of k whose sums are added up, the first line of piece i, and the
// bytes of these sums of a product g that is thin; 0: it has no pieces.
int64_t thin_pieces(int64_t k);
int64_t thin_line(int64_t k, int64_t i);
int64_t thin_bytes(const Gemm *g);
// How the workers of a processor divide a Gemm without pieces: each computes `each` of its
// products, of the rows of C, or of the columns of C; the last workers get fewer, or none. m, n and
// `batches` are those of the processor. The executor divides so, and the simulator assumes it.
typedef struct GemmDivision {
  enum { GEMM_BY_BATCH, GEMM_BY_ROWS, GEMM_BY_COLUMNS } by;
  int64_t each;
} GemmDivision;
GemmDivision gemm_division(const Gemm *g, int64_t m, int64_t n, int64_t batches, int64_t workers);
// Returns the bytes of work memory of a thread in a Gemm with at most these sizes.
int64_t gemm_scratch(const Gemm *g, int64_t m, int64_t n, int64_t k);
static inline double gemm_flops(double m, double n, double k, double batches) {
  return 2 * m * n * k * batches;
}
// The smallest amount of work for which the threads of a processor share an instruction. One thread
// runs an instruction with less work. The simulator assumes so, too.
enum {
  SOLO_BYTES = 1 << 16,   // bytes of a copy or fill
  SOLO_FLOPS = 1 << 18,   // flops of a product
  SOLO_ORDERED = 1 << 13, // elements of an ordered operation
};
// Seconds of a step from which all threads always run it. Shorter steps are run by one thread where
// that is faster. The simulator assumes so, too.
static const double LONG_STEP = 5e-3;

typedef enum CollKind {
#define COLL(id, text) COLL_##id,
#include "ir/program/coll.def"
#undef COLL
  COLL_COUNT
} CollKind;
const char *coll_text(CollKind k);
// Returns the number of rounds of the ring algorithm: 2 for an all_reduce, which reduces and then
// gathers; otherwise 1.
int coll_rounds(CollKind k);
// Returns the bytes that one processor of a group sends in the ring algorithm, rounded up. In each
// round it sends (group - 1) / group of `bytes`; for a permute it sends all of `bytes`. `bytes` is
// the size of the operand, or for an all_gather of the result.
int64_t coll_wire_bytes(CollKind k, int64_t group, int64_t bytes);
// Returns the bytes that one processor sends for each byte of the operand, not rounded
// (coll_wire_bytes).
double coll_sent_share(CollKind k, double group);

// A dim along which a permute moves elements.
typedef struct MovedDim {
  int64_t whole; // size of the whole dim; 0: the permute does not move along it
  Axes from, to; // axes that split the dim in the source and in the destination
} MovedDim;
// One tensor that a collective moves; its dims are in physical order. `gathered` is the index of
// the dim along which the destination is longer than the source. `split` is that of the dim along
// which it is shorter. Either is -1 if there is no such dim. all_gather has `gathered`,
// reduce_scatter has `split`, all_to_all has both, all_reduce has none. Let p be the piece, the
// number of elements that one member has. Member k of the group has the elements k*p to k*p + p - 1
// of the longer block, as far as they are valid.
typedef struct CollPart {
  Ref src, dst;
  uint8_t rank;
  int64_t src_block[MAX_RANK], dst_block[MAX_RANK];
  Size src_valid[MAX_RANK], dst_valid[MAX_RANK];
  int8_t gathered, split;
  int64_t whole; // permute: size of the whole dim `split`
  // Permute: if its divisor is not 0, the destination is this interval of dim `split` (a halo).
  Footprint footprint;
  MovedDim moved[MAX_RANK]; // permute along several dims: entry i is for dim i, and `split` is -1
  // 1 + the index of a tensor: processors that share the memory of this tensor get the result once.
  // That of an all_gather is the tensor itself; that of an all_reduce is only read by sets that
  // these processors divide. 0: all get it.
  int32_t once;
  // all_reduce in place: the set of a kernel that reads the result computes it (SetSum). If all
  // processors share memory, the collective does nothing for this part.
  bool deferred;
  const char *value; // name of the tensor, for messages and traces
} CollPart;
typedef struct Collective {
  CollKind kind;
  Axes axes;
  // Permute: axes that split the destination; `axes` split the source. Halo: axes on which the
  // interval depends.
  Axes to;
  Dtype type;
  Monoid monoid;   // of an all_reduce or a reduce_scatter
  uint32_t nparts; // number of tensors that one call moves
  CollPart *part;
  int64_t bytes;      // bytes of the operands of one call
  int64_t wire_bytes; // bytes that a processor sends in one call, as `check` predicts
  bool backward;
  Pos pos;
  const char *why;
} Collective;

// Operations along one dim in which the order of elements matters. The runtime computes them one
// row after the other.
typedef enum OrderedKind {
  ORDERED_CUMSUM,
  ORDERED_CUMPROD,
  ORDERED_CUMMAX, // the kinds up to here have results of the type of the source
  ORDERED_CUM_INDEX,
  ORDERED_ARGSORT,
  ORDERED_TOP_K
} OrderedKind;
typedef struct Ordered {
  OrderedKind kind;
  Dtype type;     // type of the source; results that are indices are i32
  unsigned flags; // the flags of ir/program/ordered_flags.h
  Size n;         // number of elements of a row
  int64_t k;      // top_k: number of results of a row
  // Distance of neighbours in a row, in elements, in the source and in the destination.
  int64_t src_step, dst_step;
  uint8_t nrows; // number of loops over rows, outermost first
  struct {
    Size count;
    int64_t src, dst;
  } row[MAX_RANK];
  Ref src, dst;
} Ordered;

// An operation on matrices, one matrix after the other. Strides are in elements.
typedef struct MatrixCall {
  MatrixKind kind;
  Dtype type;              // f32 or f64, of both arguments and the result; all are computed in f64
  unsigned flags;          // MATRIX_UPPER
  int64_t m, n;            // rows and columns of a matrix
  int64_t a_row, a_column; // of the matrix
  int64_t b_row;           // of the second argument, if there is one
  int64_t dst_row, dst_column; // of the result; dst_column is 0 if its columns are those of b
  uint8_t nbatch;              // number of loops over matrices, outermost first
  struct {
    Size count;
    int64_t a, b, dst;
  } batch[MAX_RANK];
  uint8_t nright; // number of loops over columns of the second argument
  struct {
    Size count;
    int64_t b, dst;
  } right[MAX_RANK];
  Ref a, b, dst; // b is a if there is no second argument
} MatrixCall;

typedef enum InstrKind {
  INSTR_KERNEL,
  INSTR_GEMM,
  INSTR_COLLECTIVE,
  INSTR_ORDERED,
  INSTR_MATRIX,
  INSTR_FILL, // sets bytes to 0
  INSTR_COPY, // copies bytes from src to dst
  // Only later instructions change persistent tensors. They run only if no processor has reported
  // a fault. All outputs are complete.
  INSTR_COMMIT,
  // Repeats the instructions up to its INSTR_END, for t = 0 ... count-1 or in reverse. It never
  // follows INSTR_COMMIT.
  INSTR_LOOP,
  INSTR_END,
} InstrKind;
typedef struct Instr {
  InstrKind kind;
  union {
    KernelLaunch kernel;
    Gemm gemm;
    Collective collective;
    Ordered ordered;
    MatrixCall matrix;
    struct {
      Ref dst;
      int64_t bytes;
      bool streamed; // its stores go past the caches (codegen/program/stream_stores.c)
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
      // Not 0: all instructions of the loop are kernels, and its rounds are independent along the
      // rows of their values. Workers that have at least so many rows each may run all rounds for
      // their rows alone, without meeting one another.
      int64_t rows;
      // guarded: the loop runs only if the byte at `guard` is not 0; it is in the work memory, and
      // equal on all processors
      bool guarded;
      Ref guard;
    } loop; // loop.end is the index of the INSTR_END
    struct {
      uint32_t begin;
      // stops: the loop ends after a round if the byte at `alive` is 0; it is in the work memory,
      // and equal on all processors
      bool stops;
      Ref alive;
    } end;
  } u;
} Instr;
// Calls `visit` with each reference of an instruction to memory that it reads or writes. nptr:
// ProgKernel.nptr of its kernel, if it is an INSTR_KERNEL.
typedef void VisitRef(void *context, Ref *r);
void instr_refs(Instr *in, int nptr, VisitRef *visit, void *context);

// A value of the model that an instruction writes.
typedef struct InstrValue {
  // For a kernel the value is operand `ptr` of set `set`. For a collective it is the destination of
  // part `ptr`. For a product, ptr 0 is C and 1 the matrix GEMM_AUX. Otherwise both are 0.
  uint32_t set, ptr;
  Dtype type;
  uint8_t rank;
  const ProgDim *dim; // the `rank` dims of its block in memory, slowest first; their extent is -1
  const char *value, *op; // full name of the value or NULL; name of the operation
  bool backward;
  Pos pos;
} InstrValue;
// The values of the model that an instruction writes, and its costs. Traces, predicted times and
// messages use them.
typedef struct InstrNote {
  uint32_t nvalues;
  InstrValue *value;
  int64_t bytes;   // bytes that the instruction reads and writes each time
  int64_t written; // those of them that it writes; 0 for a collective
  int64_t flops;   // arithmetic operations of the instruction each time
  // For traces: the predicted seconds of one run, what limits it, why the instruction ends. NULL
  // and 0: not known.
  double predicted;
  const char *limit, *ends;
} InstrNote;

// An operation that checks whether ids are in range. A kernel reports an id out of range in Status.
typedef struct Check {
  const char *value; // full name of the value with the ids, or NULL
  const char *dim;   // the ids are indices of this dim
  int64_t size;      // size of that dim
  Pos pos;
  // Number of entries of `loop`, outermost first; Status.position counts their iterations.
  uint8_t rank;
  ProgDim loop[MAX_RANK];
  uint16_t without; // bit i is set if the ids do not have the dim of loop[i]
  // A step that splits the batch into micro-batches or replicas checks the ids of a part. `row` is
  // 1 + the index in `loop` of the dim of its rows; 0: there are no parts, or no such dim. `first`
  // is the number of rows of the batch before the micro-batch, `batch` that of the whole batch.
  uint8_t row;
  int64_t first, batch;
} Check;

typedef struct Program {
  // Path of the model file; the command that it is for: "train", "eval" or "run".
  const char *model, *for_;
  Mesh mesh;
  const char *over;    // name of the dim that is shorter in an incomplete batch, or NULL
  int64_t arena_bytes; // bytes of the work arena that each processor has
  uint32_t nslots, ntensors, nkernels, ninstrs, nchecks;
  Slot *slot;
  ProgTensor *tensor;
  ProgKernel *kernel;
  Instr *instr;
  Check *check;
  InstrNote *note; // one for each instruction; NULL if the program was not compiled from a graph
  int64_t flops;   // flops of all matrix products of one processor in a run
} Program;

// Returns the value by which messages name instruction i: the first value that has a name, or else
// the first value. Returns NULL if the instruction writes no value of the model.
const InstrValue *program_instr_value(const Program *p, uint32_t i);
// Returns a name of instruction i for messages: the name of its value, such as "hidden", or else
// its operation or kind. *pos gets the position in the model, whose line is 0 if there is none. The
// name lives as long as p.
const char *program_instr_name(const Program *p, uint32_t i, Pos *pos);
// Returns the number of valid elements of the whole dim of slot s. `rows` is as in program_slot.
int64_t slot_valid(const Program *p, const Slot *s, int64_t rows);
// Returns the value on processor r of Program.slot[s], a scalar that differs between processors.
// `rows` is the number of valid rows of the dim Program.over; a negative number means all rows.
// For a slot that changes from step to step of a loop, this is the mean, rounded up.
int64_t program_slot(const Program *p, int32_t s, int64_t r, int64_t rows);
// The same in step `step` of the loops on which slots depend.
int64_t program_slot_in(const Program *p, int32_t s, int64_t r, int64_t rows, int64_t step);
// Returns the index of a slot of instruction `in` that changes from step to step of a loop, or -1.
int32_t program_live_slot(const Program *p, const Instr *in);
// Returns the index of the tensor with that name and kind, or -1.
int32_t program_tensor(const Program *p, TensorKind kind, const char *name);
// Returns whether the program has a guarded loop. A step that skips it sends fewer bytes than
// predicted.
bool program_may_skip(const Program *p);
// Predicted calls, operand bytes and sent bytes of the collectives of one run, indexed by CollKind.
typedef struct ProgramCount {
  int64_t calls[COLL_COUNT], bytes[COLL_COUNT], wire_bytes[COLL_COUNT];
} ProgramCount;
// Counts the collectives of a run on processor r. `rows` is the number of valid rows of the dim
// Program.over; a negative number means all rows. part[0] gets the collectives before INSTR_COMMIT,
// part[1] those after it.
void program_count(const Program *p, int64_t r, int64_t rows, ProgramCount part[2]);
void program_count_add(ProgramCount *sum, const ProgramCount *x);

// Returns the axes of the mesh that split no dim of t. Processors that differ in these axes only
// have equal blocks.
Axes tensor_replicated(const Mesh *m, const ProgTensor *t);

enum { MEMORY_ALIGN = 64 }; // persistent tensors begin at multiples of this many bytes
// Returns true if tensor t has memory of its own, which is kept between runs.
static inline bool tensor_is_persistent(const Program *p, uint32_t t) {
  return p->tensor[t].at.tensor == (int32_t)t;
}
// Returns the bytes that one processor needs: its persistent tensors, each aligned to MEMORY_ALIGN,
// and its work arena.
int64_t program_bytes(const Program *p);
enum { ORDERED_ENTRY = 16 }; // bytes that sorting uses for one element
// Returns the bytes of scratch memory that each thread needs: to sort, two copies of the longest
// row of the program; for products, the room of packed factors. Returns 0 if the program does
// neither.
int64_t program_scratch(const Program *p);
// Returns a copy of p that has its parameters and states and, with `slots`, its optimizer tensors,
// but no instructions, kernels or other tensors. It is allocated in `a`.
Program *program_of_values(Arena *a, const Program *p, bool slots);
// Returns by how many bytes the place r has moved since step 0 of all loops. at[i] is the current
// step of loop i of the `depth` loops around the instruction.
int64_t ref_moved(Ref r, int depth, const int64_t *at);
// Returns the program as text, for dumps.
char *program_print(Arena *a, const Program *p);

#endif
