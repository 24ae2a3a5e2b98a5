// Kernel: one loop nest as data, with a text form. CPU and GPU share it; how it is scheduled
// (vector width, unroll, register rows) is a separate record for each target (decision 16).
//
//   for each unit of the outer loops (in parallel, in chunks)
//     for phase 0 .. nphases-1
//       statements of level OUTER of this phase
//       for the inner loops
//         statements of level INNER of this phase
//   and once a chunk: statements of level PROLOGUE before, stores of accumulators after
//
// A REDUCE statement sums, over the inner loops of its phase, into a value that later phases use at
// level OUTER. An ACCUM statement combines over all units of a chunk into the chunk's partial row;
// the combine entry puts the chunks together, in order. softmax is one kernel of three phases:
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
  const char *name; // of the dim, for the text
  int64_t size;     // block length; 0 in a kernel made for tensors of any size: then slot >= 0
  int16_t slot;     // kernel slot that holds the valid extent, -1: always `size`
  uint8_t nparts;   // of a joined loop along which sums are folded: the sizes of its dims, slow
                    // first; else 0
  const int64_t *part;
} KLoop;
// A loop may stand for several adjacent dims of the graph (all pointers contiguous over them); its
// slot then counts elements of all of them (Slot.scale), so that the kernel only ever sees one
// extent. Its parts tell fold.c where the same sum is folded in a kernel whose loops are not
// joined.

// Part of an address that a run-time scalar decides: the slot's value times `stride`.
typedef struct KBase {
  int16_t slot;
  int64_t stride;
} KBase;

// An address: ptr[p] + offset + sum of bases + sum of stride * loop counter, in elements.
// Two pointers of a call may be the same memory, one of them written (in place), only when their
// strides are equal and they address elements of equal size; at each index the loads then stand
// before the store, in this phase or an earlier one of the same unit. So a written pointer is not
// `noalias`.
typedef struct KPtr {
  Dtype type;
  bool written;
  int64_t stride[MAX_LOOPS]; // one a loop; 0: does not move
  int64_t offset;
  uint8_t nbases;
  KBase base[MAX_BASES];
} KPtr;
// A walk has the same form and no memory: its value is the number of the element (K_POSITION).

typedef enum KLevel { LEVEL_PROLOGUE, LEVEL_OUTER, LEVEL_INNER } KLevel;

typedef enum KKind {
  K_NUM,  // numeric argument `index` of the call (constants are arguments, so that layers share
          // kernels); step: a KNumber that it is known to be
  K_LOAD, // ptr[index] at the loop counters; with arg[1], a bool: 0 without touching memory where
          // that is false
  K_LOAD_AT,  // the same at the loop counters plus arg[0] (an integer value) * step
  K_POSITION, // walk[index] at the loop counters, plus arg[0] * step and arg[1] where there are
              // such; i64
  K_QUOTIENT, // arg[0] / step toward zero, i64
  K_INSIDE,   // 0 <= arg[0] < the value of slot `slot` (-1: step), and arg[1] if there is one; bool
  K_OP, // op on arg[..]; INDEX: global index along loop `index` (slot `slot` is its offset, -1: 0);
        // STEP: the step counter; BOUND: arg[0] clamped to 0..step-1, status code numeric argument
        // `index` (1 + the check), position the row-major index of the loop counters by KLoop.size:
        // of the outer loops at level OUTER, of outer and inner loops at level INNER, 0 in the
        // prologue; OWN_TERM: arg[0] where slot `slot` is 0, else 0; RANDOM_*: the draw at position
        // arg[0], its key's halves are numeric arguments `index` (low) and `index` + 1
  K_REDUCE, // combines arg[0] over the inner loops of this phase with `op` (SUM MAX MIN PROD ANY
            // ALL)
  K_ACCUM, // combines arg[0] over all units and the loops that ptr[index] does not move along, with
           // `op`; ptr[index] moves along inner loops only (or none). After the combine entry the
           // result stands there
  K_STORE, // ptr[index] at the loop counters = arg[0]
  K_SCATTER, // ptr[index] at the loop counters plus arg[1] * step += arg[0]; the memory was filled
             // before
} KKind;

// Numbers that decide what code is needed: what they are is part of the kernel.
typedef enum KNumber {
  NUMBER_ANY,
  NUMBER_ZERO,
  NUMBER_LEAST,
  NUMBER_GREATEST
} KNumber; // the last two: -inf, inf
KNumber number_known(double x, Dtype type);

typedef struct KStmt {
  KKind kind;
  Op op;
  Dtype type; // of the value
  KLevel level;
  uint8_t phase;
  int32_t arg[3]; // earlier statements, NO_STMT
  int32_t index;  // pointer, numeric argument or loop, by kind
  int32_t slot;
  int64_t step;
  NodeId node; // of the graph, for dumps; takes no part in the identity of a kernel
} KStmt;

typedef struct Kernel {
  const char *name;       // symbol
  const char *why;        // what it is made of, and why
  uint8_t nouter, ninner; // loop[0..nouter) outer, then ninner inner; slow first
  KLoop loop[MAX_LOOPS];
  int8_t vector; // the vectorised loop: the last inner or the last outer; -1: none
  int64_t block; // when the vector loop is outer: its elements are cut into units of this many
  int8_t
      rows; // an outer loop worth unrolling and jamming (register tile of a contraction), -1: none
  uint8_t nphases;
  uint16_t nptr, nwalks, nslots, nnum, nstmts;
  KPtr *ptr, *walk;
  KStmt *stmt; // topological; in order of execution within (phase, level)
} Kernel;
// Units: the product of the outer loops' valid extents, the vector loop (if outer) counting
// ceil(extent / block). Unit u runs the outer loops in row-major order of valid extents. Without
// outer loops there is one unit. REDUCE and ACCUM start from the neutral element of `op`, so that
// empty loops and chunks without units (and a combine over 0 chunks) leave it.

// Chunks of a kernel with `rows` should hold a multiple of this many units, 1 for others: rounds of
// the row loop run jammed only where they lie whole within a chunk (any chunk is computed right).
int64_t kernel_grain(const Kernel *k);

// kernel_accum.c. Rounds of loop l; a large number where it is known at run time only.
static inline int64_t loop_rounds(const Kernel *k, int l) {
  return k->loop[l].size ? k->loop[l].size : INT64_C(1) << 40;
}
// a * b for numbers of rounds, which need no more than a large number.
static inline int64_t size_times(int64_t a, int64_t b) {
  return b && a > (INT64_C(1) << 40) / b ? INT64_C(1) << 40 : a * b;
}
int64_t kernel_units(const Kernel *k); // the units of all outer loops
// ACCUM statement s: elements of its part of the partial row, and its offset there in bytes.
int64_t accum_elements(const Kernel *k, int s);
int64_t accum_offset(const Kernel *k, int s);    // s == nstmts: bytes of the whole row
int64_t accum_row_bytes(const Kernel *k, int s); // its row of f64, if it is wide, is behind them
// Elements between neighbours along loop l in that part; 0: does not move.
int64_t accum_stride(const Kernel *k, int s, int l);
// Whether REDUCE or ACCUM s rounds, so that it is accumulated in blocks (fold.c).
bool stmt_folds(const KStmt *s);

// Chunks are KERNEL_CHUNKS parts of a launch, or read about KERNEL_CHUNK_BYTES where that is more.
// At most kernel_chunk_units units: accumulators in memory without a row of f64 rely on it.
enum { KERNEL_CHUNK_BYTES = 65536, KERNEL_CHUNKS = 64 };
int64_t kernel_chunk_units(const Kernel *k);
// Whether ACCUM s, kept in memory, has a row of f64 behind its own, to which leaves are added.
bool kernel_accum_wide(const Kernel *k, int s);

// The partial row of a chunk: one element of type stmt.type for every address of ptr[index] of each
// ACCUM statement, in order of statements, and those of wide ones again as f64; each aligned to 64
// bytes.
int64_t kernel_partial_bytes(const Kernel *k);
// Readable and complete: equal texts (name, why and nodes aside) are equal kernels.
char *kernel_print(Arena *a, const Kernel *k);
// The identity: kernel_print without name, why and node numbers.
char *kernel_identity(Arena *a, const Kernel *k);
// Equal kernels have equal identities and hashes; padding may make kernels of one identity unequal.
MUST_USE bool kernel_equal(const Kernel *a, const Kernel *b);
uint64_t kernel_hash(const Kernel *k);
// The index of the first kernel equal to each.
const uint32_t *kernels_first(Arena *a, uint32_t n, Kernel *const *kernel);
// Invariants (argument order, levels, phases, strides); one sentence in why[0..200) if broken.
MUST_USE bool kernel_verify(const Kernel *k, char *why);

#endif
