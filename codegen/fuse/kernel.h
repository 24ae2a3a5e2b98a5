// A kernel: one loop nest as data, with a text form. Every back end compiles the same kernel and
// decides what depends on its target, such as vector width and unrolling (codegen/cpu/emit_plan.c
// for processors).
//
// A unit is one iteration of the outer loops, or a block of the outer vector loop. A chunk is a
// sequence of units that one thread runs. The code of a kernel has two entry points: `run` computes
// one chunk, `combine` merges the partial results of all chunks. A call passes pointers, numeric
// arguments, and slots: integers such as a length that is known at run time only.
//
//   for each unit of the outer loops (in parallel, in chunks)
//     for phase 0 .. nphases-1
//       statements of level OUTER of this phase
//       for the inner loops
//         statements of level INNER of this phase
//   and for each chunk: statements of level PROLOGUE before, stores of accumulators after
//
// A REDUCE statement combines a value over the inner loops of its phase. Later phases use the
// result at level OUTER. An ACCUM statement combines over all units of a chunk. The partial row of
// a chunk is memory for the results of its ACCUM statements; `combine` merges the rows of the
// chunks in order. softmax is one kernel of three phases:
//
//   kernel softmax outer(b:64) inner(c:10 vector)
//     phase 0 inner: %1 = load p0[b*10 + c]        %2 = reduce max %1
//     phase 1 inner: %3 = load p0[..]  %4 = sub %3 %2  %5 = exp %4  %6 = reduce sum %5
//     phase 2 inner: %7 = load p0  %8 = sub %7 %2  %9 = exp %8  %10 = div %9 %6  store p1[..] %10
//
// A back end may keep %5 of a row in memory, so that phase 2 need not compute it again
// (KernelRows).
//
// A kernel for a GPU may compute the scores of an attention where it uses them (K_DOT). A score is
// a sum over loops of its own, the dot loops, which lie behind the inner ones in Kernel.loop:
//
//   kernel rows outer(t:64) inner(s:64) dots(k:32)
//     phase 0 inner: %1 = dot p0[t*32 + k] p1[s*32 + k]    %2 = reduce max %1
//
// Such a kernel may store values of several shapes. An attention whose results are o[t, v] has the
// loops outer(t, v) inner(s), and also stores the maximum m[t] and the sum z[t] of its softmax:
//
//   phase 0: m = reduce max      phase 1: store p3[t] m, z = reduce sum
//   phase 2: store p4[t] z, o = reduce sum of e / z * value      phase 3: store p5[t*8 + v] o
//
// Its units with equal t compute the same m and z. A GPU computes all three phases in one sweep
// over s, for all v at once (codegen/gpu/gpu_scores_online.c).
#ifndef CODEGEN_KERNEL_H
#define CODEGEN_KERNEL_H

#include "ir/graph/graph.h"

enum { MAX_LOOPS = MAX_RANK + 4, MAX_BASES = 16, NO_STMT = -1 };
enum { CACHE_LINE = 64 }; // bytes of a cache line

// A loop of a kernel. It may cover several adjacent dims of the graph, if all pointers are
// contiguous over them. Its length at run time is then the number of elements of all these dims
// (Slot.scale). Long sums are added block by block (codegen/cpu/fold.c). A loop with such a sum
// keeps the sizes of all the dims that it covers. The blocks then end at the same elements as in a
// kernel with separate loops.
typedef struct KLoop {
  const char *name;    // name of the dim, for the text of the kernel
  int64_t size;        // full length; 0: only slot `slot` has the length, at run time
  int16_t slot;        // index of the slot that has the valid length; -1: it is always `size`
  uint8_t nparts;      // entries of `part`; 0: the sizes of the dims do not matter
  const int64_t *part; // sizes of the dims that it covers, slowest first
} KLoop;

// A summand of an address that is known at run time only: the value of an integer argument of the
// call (a slot) times `stride`.
typedef struct KBase {
  int16_t slot;
  int64_t stride;
} KBase;

// An address in elements: pointer p of the call + offset + sum of bases (KBase) + sum of stride *
// loop counter. A walk (Kernel.walk) is such a sum without a pointer, which gives the number of an
// element (K_POSITION).
//
// A written pointer may address the memory of a read one (in place). Then both have equal strides
// and element sizes. Each element is loaded before it is stored, in this phase or an earlier one of
// the same iteration of the outer loops. So a written pointer is not `noalias`.
typedef struct KPtr {
  Dtype type;
  bool written;
  // Stores go past the caches to memory (codegen/program/stream_stores.c). Only K_STORE uses the
  // pointer, and each run of the vector loop begins at a cache line of 64 bytes.
  bool streamed;
  int64_t stride[MAX_LOOPS]; // by loop, in elements; 0: the address does not change along it
  int64_t offset;
  uint8_t nbases;
  KBase base[MAX_BASES];
} KPtr;

typedef enum KLevel { LEVEL_PROLOGUE, LEVEL_OUTER, LEVEL_INNER } KLevel;

// What a statement of a kernel does. The meaning of KStmt.index, KStmt.step and KStmt.slot depends
// on it.
typedef enum KKind {
  // Gives numeric argument `index` of the call. Constants are arguments so that layers with
  // different constants share kernels. step: a KNumber, what is known of the number in advance.
  K_NUM,
  // Gives the element of ptr[index] at the loop counters. If arg[1], a bool, is given and false,
  // the result is 0 and nothing is read.
  K_LOAD,
  // Gives the element of ptr[index] at the loop counters plus arg[0] (an integer) * step. If
  // arg[1], a bool, is given and false, the result is 0 and nothing is read.
  K_LOAD_AT,
  // Gives the sum over the dot loops of the element of ptr[index] times that of ptr[other], in
  // `type`: f32 or f64. Its dot loops are those along which these pointers move; no other statement
  // uses the pointers. Only back ends for GPUs compile it.
  K_DOT,
  // Gives an i64: the sum walk[index] at the loop counters, plus arg[0] * step and plus arg[1],
  // each if it is given.
  K_POSITION,
  // Gives an i64: arg[0] / step, rounded toward zero.
  K_QUOTIENT,
  // Gives a bool: 0 <= arg[0] < limit, and arg[1] if it is given. The limit is the value of slot
  // `slot`, or step if slot is -1.
  K_INSIDE,
  // Applies `op` to arg[0..2]. These ops use more fields:
  //   INDEX: the global index along loop `index`; slot `slot` is its offset, -1: the offset is 0
  //   STEP: the number of the step of the run
  //   BOUND: arg[0] clamped to 0..step-1. An index out of range is reported with the status code in
  //     numeric argument `index` (1 + the index in Program.check) and with a position. The position
  //     is the row-major number of the loop counters, with KLoop.size as sizes: of the outer loops
  //     at level OUTER, of all loops at level INNER. It is 0 in the prologue.
  //   TO_PARTIAL: arg[0] where the value of slot `slot` is 0, else 0
  //   RANDOM_*: the draw at position arg[0]; the low and the high half of its key are numeric
  //     arguments `index` and `index` + 1
  K_OP,
  // Combines arg[0] over the inner loops of this phase with `op` (SUM MAX MIN PROD ANY ALL).
  K_REDUCE,
  // Combines arg[0] with `op` over all units, and over the inner loops along which ptr[index] has
  // stride 0. ptr[index] has stride 0 along every outer loop. `combine` stores the result in it.
  K_ACCUM,
  // Stores arg[0] in the element of ptr[index] at the loop counters. If the pointer does not move
  // along an outer loop, the units of all its rounds store one value to one element. Back ends for
  // GPUs then leave the store to the units of the first round. Other back ends have no such stores.
  K_STORE,
  // Combines arg[0] by `op`, OP_SUM or OP_MAX, with the element of ptr[index] at the loop counters
  // plus arg[1] * step. The memory is filled with zeros before the kernel runs.
  K_SCATTER,
} KKind;

// What is known in advance of the numeric argument that a K_NUM statement gives. Some numbers, such
// as 0, allow simpler code, so that kernels which differ in this knowledge are different kernels.
typedef enum KNumber {
  NUMBER_ANY,
  NUMBER_ZERO,
  NUMBER_LEAST,   // it is -inf
  NUMBER_GREATEST // it is inf
} KNumber;
// Returns which KNumber describes the number x as a value of type `type`.
KNumber number_known(double x, Dtype type);

typedef struct KStmt {
  KKind kind;
  Op op;
  Dtype type; // type of the result
  KLevel level;
  uint8_t phase;
  int32_t arg[3]; // indices of earlier statements in Kernel.stmt; NO_STMT: no argument
  int32_t index;  // index of a pointer, walk, numeric argument or loop: KKind says which
  int32_t other;  // K_DOT: index of the second pointer
  int32_t slot;
  int64_t step;
  NodeId node; // node of the graph, for dumps; it does not distinguish kernels
} KStmt;

typedef struct Kernel {
  const char *name;       // symbol of its machine code
  const char *why;        // for dumps: what its nodes are, and why they are one kernel
  uint8_t nouter, ninner; // loop[0..nouter) are outer, the next ninner inner; slowest first
  uint8_t ndots;          // the last loops: those of K_DOT statements
  KLoop loop[MAX_LOOPS];
  int8_t vector; // index of the vectorised loop, the last inner or the last outer one; -1: none
  int64_t block; // if `vector` is an outer loop: how many iterations of it one unit computes
  // Index of the outer loop of which several iterations are computed together, with one accumulator
  // for each: the rows of a contraction's register tile. -1: none.
  int8_t rows;
  // Whether the kernel is the gradient of the weights of a 3x3 convolution, and its units are
  // images (kernel_images.c). Its inner loops are y, x, ky, kx, channels, columns. Its only
  // accumulator adds the values of an image in blocks of bounded length.
  bool images;
  uint8_t nphases;
  uint16_t nptr, nwalks, nslots, nnum, nstmts;
  KPtr *ptr, *walk;
  KStmt *stmt; // each follows its arguments; within a phase and level in order of execution
} Kernel;
// The number of units of a kernel is the product of the outer loops' valid lengths; an outer vector
// loop counts ceil(length / block). Units run the outer loops in row-major order. Without outer
// loops there is one unit. REDUCE and ACCUM start from the neutral value of `op`, which is 0 for a
// sum. It is their result for empty loops, chunks without units and a `combine` of 0 chunks.

// Returns the number of which the size of a chunk (units that one thread runs in sequence) should
// be a multiple. It is 1 for kernels without a rows loop (Kernel.rows), the outer loop whose
// iterations are computed several at a time. Iterations of that loop are computed together only if
// they are in one chunk. Chunks of other sizes give the same result.
int64_t kernel_grain(const Kernel *k);

// -- kernel_accum.c
// Returns the number of iterations of loop l, or a large number if it is known at run time only.
static inline int64_t loop_rounds(const Kernel *k, int l) {
  return k->loop[l].size ? k->loop[l].size : INT64_C(1) << 40;
}
// Returns a * b, saturated at a large number.
static inline int64_t size_times(int64_t a, int64_t b) {
  return b && a > (INT64_C(1) << 40) / b ? INT64_C(1) << 40 : a * b;
}
int64_t kernel_units(const Kernel *k); // number of units if all loops have full length
// Returns the number of loops around a statement of level `level`. These loops are loop[0] to
// loop[n - 1], where n is the number returned.
int kernel_depth(const Kernel *k, KLevel level);
// A set of loops of a kernel: bit l is loop[l].
typedef uint32_t LoopSet;
_Static_assert(MAX_LOOPS <= 32, "loops fit a set");
// Returns the number of iterations of the loops in a set, all together, saturated as size_times.
static inline int64_t kernel_rounds(const Kernel *k, LoopSet set) {
  int64_t n = 1;
  for (int l = 0; l < k->nouter + k->ninner + k->ndots; l++)
    if (set >> l & 1) n = size_times(n, loop_rounds(k, l));
  return n;
}
// Returns the loops on whose counters the result of statement s depends. K_STORE and K_SCATTER have
// no result: for them, returns the loops on which the stored value or its address depends. of[i]:
// this set for statement i, for all statements before s.
LoopSet stmt_loops(const Kernel *k, const LoopSet *of, const KStmt *s);
// The partial row of a chunk has one array for each ACCUM statement, in order, aligned to 64 bytes.
// The array has an element of type stmt.type for each address of the statement's ptr[index]. If
// kernel_accum_wide is true, an array of f64 with as many elements follows.

// Returns the number of elements of the array that ACCUM statement s has in the partial row, the
// memory for the accumulators of a chunk.
int64_t accum_elements(const Kernel *k, int s);
// Returns the offset in bytes of the array of ACCUM statement s in the partial row, the memory for
// the accumulators of a chunk. For s == nstmts it returns the size of the partial row.
int64_t accum_offset(const Kernel *k, int s);
// Returns the bytes of the array of ACCUM statement s in the partial row of a chunk. The array of
// f64 that may follow it does not count.
int64_t accum_row_bytes(const Kernel *k, int s);
// Returns how many elements apart two neighbours along loop l are in the array of ACCUM statement s
// (in the partial row of a chunk).
int64_t accum_stride(const Kernel *k, int s, int l);
// Returns true if REDUCE or ACCUM s is a sum of f32, whose additions round. Such sums are added in
// blocks of bounded length (codegen/cpu/fold.c), so that the errors of long sums stay small.
bool stmt_folds(const KStmt *s);

// -- kernel_product.c
// A kernel whose phase 0 is one sum over the inner loops of left * right. `left` varies along the
// rows loop and not along the vector loop, `right` the other way round.
typedef struct ProductForm {
  int sum, left, right; // statements: the sum and the two factors
  int span;             // `right` is constant along the outer loops span..rows
} ProductForm;
// Returns whether kernel k is a product that is large enough to be computed in packed blocks. If
// so, sets *out.
bool kernel_product(const Kernel *k, ProductForm *out);
// Return the columns (elements of the vector loop) and the rows (rounds of the outer loops
// ProductForm.span..rows) of a block of a product, the results that a chunk computes.
int64_t product_columns(const Kernel *k, const ProductForm *f);
int64_t product_rows(const Kernel *k, const ProductForm *f);
// Returns the number of the sum in phase 0 if that is the only statement with an effect there, and
// the inner loops of later phases have no statement. Else returns NO_STMT.
int kernel_lone_sum(const Kernel *k);
// Returns whether the result of statement s, a K_OP, must be rounded to its type, bf16 or f16. All
// values of these types are rounded, also those that no kernel stores: two kernels that compute one
// value, of which one reads an argument from memory, must agree on it. The gradient of a maximum
// compares the maximum with the values that it was chosen from.
static inline bool stmt_rounds(const KStmt *s) {
  return (s->type == TYPE_BF16 || s->type == TYPE_F16) && !(op_row(s->op)->flags & UNROUNDED);
}
// Returns whether statement s stores, reduces, checks an index or loads from memory that the kernel
// writes.
bool stmt_has_effect(const Kernel *k, const KStmt *s);

// -- kernel_rows.c
// What becomes of a statement if values of a row are kept from one phase to later ones. A row is
// what one unit computes along an inner vector loop.
typedef enum RowUse {
  ROW_COMPUTED, // it is computed
  ROW_KEPT,     // it is computed and its row is kept
  ROW_LOADED,   // an earlier phase has computed the same value, which is read from its row
  ROW_UNUSED    // no statement that is computed needs it
} RowUse;
typedef struct KernelRows {
  uint8_t *use;  // of each statement: a RowUse
  int32_t *from; // of each statement whose use is ROW_LOADED: the statement whose row it reads
} KernelRows;
// Returns which values of kernel k are kept. The arrays are allocated in `a`.
KernelRows kernel_rows(Arena *a, const Kernel *k);

// The fewest rounds of the inner loops, all together, with which a GPU divides each unit of a
// kernel among several blocks of threads (codegen/gpu/gpu_row_parts.c).
enum { KERNEL_LONG_ROW = 1 << 15 };

// A launch has KERNEL_CHUNKS chunks, or fewer that access about KERNEL_CHUNK_BYTES each. A chunk is
// a sequence of units that one thread runs, at most kernel_chunk_units of them. This limit bounds
// how many f32 values a chunk adds to one element of an accumulator without an array of f64. So it
// bounds the error of the sum.
enum { KERNEL_CHUNK_BYTES = 65536, KERNEL_CHUNKS = 64 };
// Returns the largest number of units (iterations of the outer loops) that a chunk may have.
int64_t kernel_chunk_units(const Kernel *k);
// Returns true if ACCUM statement s has an array of f64, because it adds so many values that their
// sum in f32 would be inexact. Such a sum adds blocks of values in f32, and the sums of the blocks
// in f64.
bool kernel_accum_wide(const Kernel *k, int s);

// Returns the bytes of the partial row of a chunk, the memory for the results of all its ACCUM
// statements.
static inline int64_t kernel_partial_bytes(const Kernel *k) { return accum_offset(k, k->nstmts); }
// Returns the complete text of a kernel. Kernels are equal if their texts are, apart from the
// names, the reason (Kernel.why) and the nodes.
char *kernel_print(Arena *a, const Kernel *k);
// Returns the identity of a kernel: its text without names and reason. Equal kernels have equal
// identities.
char *kernel_identity(Arena *a, const Kernel *k);
// -- kernel_texts.c
// A table of the identities of kernels, which prints equal kernels once.
typedef struct KernelTexts KernelTexts;
KernelTexts *kernel_texts_new(Arena *a);
// Returns the identity of kernel k. Equal identities have equal addresses. *k must stay as it is
// for as long as the table is used; its names may change.
const char *kernel_text(KernelTexts *t, const Kernel *k);
// Returns a name that kernels with equal fields share, where nobody reads identities. Kernels with
// other fields may have equal identities, but not equal names. *k: as for kernel_text.
const char *kernel_number(KernelTexts *t, const Kernel *k);
// Checks the invariants of a kernel: order of arguments, levels, phases, strides. If one is broken,
// returns false and writes a sentence about it to why[0..200).
MUST_USE bool kernel_verify(const Kernel *k, char *why);

#endif
