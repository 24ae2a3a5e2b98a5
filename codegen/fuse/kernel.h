// A kernel: one loop nest as data, with a text form. Every back end compiles the same kernel. What
// depends on a target, such as vector width and unrolling, is decided there
// (codegen/cpu/emit_plan.c for processors).
//
// A unit is one iteration of the outer loops, or a block of the outer vector loop. A chunk is a
// sequence of units that one thread runs. The code of a kernel has two entry points: `run` computes
// one chunk, `combine` merges the partial results of all chunks.
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
#ifndef CODEGEN_KERNEL_H
#define CODEGEN_KERNEL_H

#include "ir/graph/graph.h"

enum { MAX_LOOPS = MAX_RANK + 4, MAX_BASES = 16, NO_STMT = -1 };

// A slot is an integer argument of a call, such as a length that is known at run time only.
//
// A loop may cover several adjacent dims of the graph, if all pointers are contiguous over them.
// Its slot then counts elements of all of them (Slot.scale). A joined loop in which long sums are
// added block by block (codegen/cpu/fold.c) keeps the sizes of its dims: the blocks then end at the
// same elements as in a kernel whose loops are not joined.
typedef struct KLoop {
  const char *name;    // of the dim, in texts
  int64_t size;        // full length; 0: known at run time only, in slot `slot`
  int16_t slot;        // index of the slot with the valid length, -1: the length is always `size`
  uint8_t nparts;      // entries of part, 0: the sizes of the dims do not matter
  const int64_t *part; // sizes of the dims that it covers, slowest first
} KLoop;

// A part of an address that is known at run time: the slot's value times `stride`.
typedef struct KBase {
  int16_t slot;
  int64_t stride;
} KBase;

// An address in elements: ptr[p] + offset + sum of bases + sum of stride * loop counter. Where ptr
// is absent it is a walk: the same sum, used as the number of an element (K_POSITION).
//
// A written pointer may address the memory of a read one (in place). Then both have equal strides
// and element sizes, and each element is loaded before it is stored, in this phase or an earlier
// one of the same unit. So a written pointer is not `noalias`.
typedef struct KPtr {
  Dtype type;
  bool written;
  int64_t stride[MAX_LOOPS]; // by loop; 0: the address does not change along it
  int64_t offset;
  uint8_t nbases;
  KBase base[MAX_BASES];
} KPtr;

typedef enum KLevel { LEVEL_PROLOGUE, LEVEL_OUTER, LEVEL_INNER } KLevel;

// What a statement does. The meaning of the fields index, step and slot of KStmt depends on it.
typedef enum KKind {
  // The numeric argument `index` of the call. Constants are arguments so that layers share kernels.
  // step: what the number is known to be, a KNumber.
  K_NUM,
  // The element of ptr[index] at the loop counters. If arg[1], a bool, is given and false: 0, and
  // nothing is read.
  K_LOAD,
  // The element of ptr[index] at the loop counters plus arg[0] (an integer) * step. If arg[1], a
  // bool, is given and false: 0, and nothing is read.
  K_LOAD_AT,
  // The sum walk[index] at the loop counters, plus arg[0] * step and arg[1] if given; i64.
  K_POSITION,
  // arg[0] / step, rounded toward zero; i64.
  K_QUOTIENT,
  // 0 <= arg[0] < the value of slot `slot` (-1: step), and arg[1] if it is given; bool.
  K_INSIDE,
  // op on arg[0..2]. Of these ops:
  //   INDEX: the global index along loop `index`; slot `slot` is its offset, -1: 0
  //   STEP: the step counter
  //   BOUND: arg[0] clamped to 0..step-1. An index out of range is reported with the status code in
  //     numeric argument `index` (1 + the index in Program.check) and with a position: the row-major
  //     number of the loop counters by KLoop.size, of the outer loops at level OUTER, of all loops at
  //     level INNER, 0 in the prologue
  //   TO_PARTIAL: arg[0] where slot `slot` is 0, else 0
  //   RANDOM_*: the draw at position arg[0]; numeric arguments `index` (low) and `index` + 1 are the
  //     halves of its key
  K_OP,
  // Combines arg[0] over the inner loops of this phase with `op` (SUM MAX MIN PROD ANY ALL).
  K_REDUCE,
  // Combines arg[0] with `op` over all units, and over the inner loops along which ptr[index] has
  // stride 0. Its stride along every outer loop is 0. `combine` stores the result at ptr[index].
  K_ACCUM,
  // ptr[index] at the loop counters = arg[0].
  K_STORE,
  // ptr[index] at the loop counters plus arg[1] * step += arg[0]. The memory is filled with zeros
  // before the kernel runs.
  K_SCATTER,
} KKind;

// Values of a K_NUM that allow simpler code. Kernels with different ones are different kernels.
typedef enum KNumber {
  NUMBER_ANY,
  NUMBER_ZERO,
  NUMBER_LEAST,   // -inf
  NUMBER_GREATEST // inf
} KNumber;
// Returns what is known of number x as a value of the type.
KNumber number_known(double x, Dtype type);

typedef struct KStmt {
  KKind kind;
  Op op;
  Dtype type; // of the result
  KLevel level;
  uint8_t phase;
  int32_t arg[3]; // numbers of earlier statements, or NO_STMT
  int32_t index;  // of a pointer, walk, numeric argument or loop, as KKind says
  int32_t slot;
  int64_t step;
  NodeId node; // node of the graph, for dumps; kernels that differ in it only are equal
} KStmt;

typedef struct Kernel {
  const char *name;       // symbol
  const char *why;        // its nodes and the reason for it
  uint8_t nouter, ninner; // loop[0..nouter) are outer, the next ninner are inner; slow first
  KLoop loop[MAX_LOOPS];
  int8_t vector; // the vectorised loop: the last inner or the last outer one; -1: none
  int64_t block; // of an outer vector loop: how many of its elements one unit computes
  // The outer loop of which several iterations are computed together, one accumulator for each (the
  // rows of a contraction's register tile). -1: none.
  int8_t rows;
  uint8_t nphases;
  uint16_t nptr, nwalks, nslots, nnum, nstmts;
  KPtr *ptr, *walk;
  KStmt *stmt; // each after its arguments; in order of execution within a phase and level
} Kernel;
// The number of units of a kernel is the product of the outer loops' valid lengths; an outer vector
// loop counts ceil(length / block). Units run the outer loops in row-major order. Without outer
// loops there is one unit. REDUCE and ACCUM start from the neutral value of `op` (0 for a sum):
// empty loops, chunks without units and a `combine` of 0 chunks give that.

// Returns a number of units; the units of a chunk should be a multiple of it. It is 1 for kernels
// without `rows`. Iterations of that loop are computed together only if they are in one chunk.
// Chunks of other sizes give the same result.
int64_t kernel_grain(const Kernel *k);

// -- kernel_accum.c
// Returns the iterations of loop l, or a large number if they are known at run time only.
static inline int64_t loop_rounds(const Kernel *k, int l) {
  return k->loop[l].size ? k->loop[l].size : INT64_C(1) << 40;
}
// Returns a * b, saturated at a large number.
static inline int64_t size_times(int64_t a, int64_t b) {
  return b && a > (INT64_C(1) << 40) / b ? INT64_C(1) << 40 : a * b;
}
int64_t kernel_units(const Kernel *k); // the number of units if all lengths are full
// Returns the number of loops around a statement of that level: loop[0] to loop[n - 1].
int kernel_depth(const Kernel *k, KLevel level);
// A set of loops of a kernel: bit l is loop[l].
typedef uint32_t LoopSet;
_Static_assert(MAX_LOOPS <= 32, "loops fit a set");
// Returns the loops on whose counters the value of s depends; for a K_STORE or K_SCATTER, its value
// or its address. of: the sets of the earlier statements.
LoopSet stmt_loops(const Kernel *k, const LoopSet *of, const KStmt *s);
// The partial row of a chunk has one array for each ACCUM statement, in order, aligned to 64 bytes.
// It has an element of type stmt.type for each address of the statement's ptr[index]. If
// kernel_accum_wide, an array of f64 with as many elements follows.
int64_t accum_elements(const Kernel *k, int s); // elements of the array of ACCUM statement s
int64_t accum_offset(const Kernel *k, int s); // its offset in bytes; s == nstmts: of the row's end
int64_t accum_row_bytes(const Kernel *k, int s); // its bytes, without the array of f64
// Returns the stride along loop l in the array of ACCUM statement s, in elements.
int64_t accum_stride(const Kernel *k, int s, int l);
// Returns true if REDUCE or ACCUM s is a sum of f32, whose additions round. Such sums are added in
// blocks of bounded length (codegen/cpu/fold.c), so that the errors of long sums stay small.
bool stmt_folds(const KStmt *s);

// A launch has KERNEL_CHUNKS chunks, or fewer that access about KERNEL_CHUNK_BYTES each. A chunk
// has at most kernel_chunk_units units. This bounds how many f32 values a chunk adds to one element
// of an array without f64, and so the error of the sum.
enum { KERNEL_CHUNK_BYTES = 65536, KERNEL_CHUNKS = 64 };
int64_t kernel_chunk_units(const Kernel *k);
// Returns true if ACCUM s has an array of f64: it adds so many values that f32 would be inexact.
// The sums of blocks of values are added to it.
bool kernel_accum_wide(const Kernel *k, int s);

// Returns the bytes of a chunk's partial row.
static inline int64_t kernel_partial_bytes(const Kernel *k) { return accum_offset(k, k->nstmts); }
// Returns the complete text of a kernel. Kernels with equal texts, apart from name, why and nodes,
// are equal.
char *kernel_print(Arena *a, const Kernel *k);
// Returns the identity of a kernel: its text without names and reason.
char *kernel_identity(Arena *a, const Kernel *k);
// Checks the invariants (order of arguments, levels, phases, strides). If one is broken, returns
// false and writes one sentence to why[0..200).
MUST_USE bool kernel_verify(const Kernel *k, char *why);

#endif
