// A kernel: one loop nest as data, with a text form. Every back end compiles the same kernel;
// vector width, unrolling and register tiles are a separate record for each target (decision 16).
//
//   for each unit of the outer loops (in parallel, in chunks)
//     for phase 0 .. nphases-1
//       statements of level OUTER of this phase
//       for the inner loops
//         statements of level INNER of this phase
//   and for each chunk: statements of level PROLOGUE before, stores of accumulators after
//
// A REDUCE statement combines a value over the inner loops of its phase. Later phases use the
// result at level OUTER. An ACCUM statement combines over all units of a chunk into the chunk's
// partial row; the combine entry merges the rows of the chunks in order. softmax is one kernel of
// three phases:
//
//   kernel softmax outer(b:64) inner(c:10 vector)
//     phase 0 inner: %1 = load p0[b*10 + c]        %2 = reduce max %1
//     phase 1 inner: %3 = load p0[..]  %4 = sub %3 %2  %5 = exp %4  %6 = reduce sum %5
//     phase 2 inner: %7 = load p0  %8 = sub %7 %2  %9 = exp %8  %10 = div %9 %6  store p1[..] %10
#ifndef CODEGEN_KERNEL_H
#define CODEGEN_KERNEL_H

#include "ir/graph/graph.h"

enum { MAX_LOOPS = MAX_RANK + 4, MAX_BASES = 16, NO_STMT = -1 };

typedef struct KLoop {
  const char *name;    // of the dim, in texts
  int64_t size;        // full length; 0: known at run time only, then slot >= 0
  int16_t slot;        // kernel slot with the valid length, -1: always `size`
  uint8_t nparts;      // entries of part; 0: not a joined loop along which sums are folded
  const int64_t *part; // sizes of the joined dims, slow first
} KLoop;
// A loop may cover several adjacent dims of the graph, if all pointers are contiguous over them.
// Its slot then counts elements of all of them (Slot.scale). Its parts let fold.c fold a sum at the
// same places as in a kernel whose loops are not joined.

// A part of an address that is known at run time: the slot's value times `stride`.
typedef struct KBase {
  int16_t slot;
  int64_t stride;
} KBase;

// An address in elements: ptr[p] + offset + sum of bases + sum of stride * loop counter.
// A written pointer may address the memory of a read one (in place). Then both have equal strides
// and element sizes, and each element is loaded before it is stored, in this phase or an earlier
// one of the same unit. So a written pointer is not `noalias`.
typedef struct KPtr {
  Dtype type;
  bool written;
  int64_t stride[MAX_LOOPS]; // one for each loop; 0: the loop does not move it
  int64_t offset;
  uint8_t nbases;
  KBase base[MAX_BASES];
} KPtr;
// A walk is an address without memory: its value is the number of an element (K_POSITION).

typedef enum KLevel { LEVEL_PROLOGUE, LEVEL_OUTER, LEVEL_INNER } KLevel;

typedef enum KKind {
  // The numeric argument `index` of the call. Constants are arguments so that layers share kernels.
  // step: the KNumber that it is known to be.
  K_NUM,
  // ptr[index] at the loop counters. With arg[1], a bool: 0 where it is false, without a read.
  K_LOAD,
  // As K_LOAD, at the loop counters plus arg[0] (an integer) * step.
  K_LOAD_AT,
  // walk[index] at the loop counters, plus arg[0] * step and plus arg[1] if they are given; i64.
  K_POSITION,
  // arg[0] / step, rounded toward zero; i64.
  K_QUOTIENT,
  // 0 <= arg[0] < the value of slot `slot` (-1: step), and arg[1] if it is given; bool.
  K_INSIDE,
  // op on arg[0..2]. Of these ops:
  //   INDEX: the global index along loop `index`; slot `slot` is its offset, -1: 0
  //   STEP: the step counter
  //   BOUND: arg[0] clamped to 0..step-1; numeric argument `index` is its status code (1 + the
  //     check). The position it reports is the row-major index of the loop counters by KLoop.size:
  //     of the outer loops at level OUTER, of all loops at level INNER, 0 in the prologue
  //   TO_PARTIAL: arg[0] where slot `slot` is 0, else 0
  //   RANDOM_*: the draw at position arg[0]; numeric arguments `index` (low) and `index` + 1 are the
  //     halves of its key
  K_OP,
  // Combines arg[0] over the inner loops of this phase with `op` (SUM MAX MIN PROD ANY ALL).
  K_REDUCE,
  // Combines arg[0] with `op` over all units, and over the inner loops that do not move ptr[index].
  // No outer loop moves ptr[index]. The combine entry stores the result there.
  K_ACCUM,
  // ptr[index] at the loop counters = arg[0].
  K_STORE,
  // ptr[index] at the loop counters plus arg[1] * step += arg[0]. Another kernel fills the memory
  // before.
  K_SCATTER,
} KKind;

// Values of a K_NUM that allow simpler code. They are part of the kernel's identity.
typedef enum KNumber {
  NUMBER_ANY,
  NUMBER_ZERO,
  NUMBER_LEAST,
  NUMBER_GREATEST
} KNumber; // LEAST: -inf, GREATEST: inf
KNumber number_known(double x, Dtype type);

typedef struct KStmt {
  KKind kind;
  Op op;
  Dtype type; // of the result
  KLevel level;
  uint8_t phase;
  int32_t arg[3]; // numbers of earlier statements, or NO_STMT
  int32_t index;  // of a pointer, walk, numeric argument or loop, by kind
  int32_t slot;
  int64_t step;
  NodeId node; // node of the graph, for dumps; not part of the identity
} KStmt;

typedef struct Kernel {
  const char *name;       // symbol
  const char *why;        // its nodes and the reason for it
  uint8_t nouter, ninner; // loop[0..nouter) are outer, the next ninner are inner; slow first
  KLoop loop[MAX_LOOPS];
  int8_t vector; // the vectorised loop: the last inner or the last outer one; -1: none
  int64_t block; // elements of a unit along an outer vector loop
  int8_t rows;   // outer loop to unroll and jam (register tile of a contraction), -1: none
  uint8_t nphases;
  uint16_t nptr, nwalks, nslots, nnum, nstmts;
  KPtr *ptr, *walk;
  KStmt *stmt; // each after its arguments; in order of execution within a phase and level
} Kernel;
// Number of units: the product of the outer loops' valid lengths; an outer vector loop counts
// ceil(length / block). Units run the outer loops in row-major order. Without outer loops there is
// one unit. REDUCE and ACCUM start from the identity of `op`, so empty loops, chunks without units
// and a combine over 0 chunks leave that.

// Returns the number of units of which a chunk should have a multiple; 1 for kernels without
// `rows`. Iterations of the row loop run jammed only if they are all in one chunk. Other chunks
// give the same result.
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
int64_t kernel_units(const Kernel *k); // product over the outer loops
// Returns the number of loops around a statement of that level: loop[0] to loop[n - 1].
int kernel_depth(const Kernel *k, KLevel level);
// A set of loops of a kernel: bit l is loop[l].
typedef uint32_t LoopSet;
_Static_assert(MAX_LOOPS <= 32, "loops fit a set");
// Returns the loops on whose counters the value of s depends; for a K_STORE or K_SCATTER, its value
// or its address. of: the sets of the earlier statements.
LoopSet stmt_loops(const Kernel *k, const LoopSet *of, const KStmt *s);
// For ACCUM statement s: the elements of its part of the partial row, and the part's offset in
// bytes.
int64_t accum_elements(const Kernel *k, int s);
int64_t accum_offset(const Kernel *k, int s); // s == nstmts: bytes of the whole row
int64_t accum_row_bytes(const Kernel *k,
                        int s); // without its row of f64, which follows if the statement is wide
// Returns the distance, in elements, of neighbours along loop l in that part; 0: the loop does not
// move it.
int64_t accum_stride(const Kernel *k, int s, int l);
// Returns true if REDUCE or ACCUM s rounds, so that it is accumulated in blocks
// (codegen/cpu/fold.c).
bool stmt_folds(const KStmt *s);

// A launch has KERNEL_CHUNKS chunks, or fewer that read about KERNEL_CHUNK_BYTES each. A chunk has
// at most kernel_chunk_units units: accumulators in memory without a row of f64 rely on that.
enum { KERNEL_CHUNK_BYTES = 65536, KERNEL_CHUNKS = 64 };
int64_t kernel_chunk_units(const Kernel *k);
// Returns true if ACCUM s, kept in memory, has an f64 row to which the sums of blocks are added.
bool kernel_accum_wide(const Kernel *k, int s);

// Returns the bytes of a chunk's partial row. Each ACCUM statement, in order, has one element of
// type stmt.type for each address of its ptr[index]; a wide one has a second element as f64. Each
// part is aligned to 64 bytes.
static inline int64_t kernel_partial_bytes(const Kernel *k) { return accum_offset(k, k->nstmts); }
// Returns the complete text of a kernel. Kernels with equal texts, apart from name, why and nodes,
// are equal.
char *kernel_print(Arena *a, const Kernel *k);
// Returns the identity of a kernel: its text without names and reason.
char *kernel_identity(Arena *a, const Kernel *k);
// Equal kernels have equal identities and hashes. Padding bytes may make kernels of one identity
// unequal.
MUST_USE bool kernel_equal(const Kernel *a, const Kernel *b);
uint64_t kernel_hash(const Kernel *k);
// Returns, for each kernel, the index of the first kernel that is equal to it.
const uint32_t *kernels_first(Arena *a, uint32_t n, Kernel *const *kernel);
// Checks the invariants (order of arguments, levels, phases, strides). If one is broken, returns
// false and writes one sentence to why[0..200).
MUST_USE bool kernel_verify(const Kernel *k, char *why);

#endif
