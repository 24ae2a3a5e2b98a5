// Program: what one processor executes, the same text for all processors of a mesh. Instructions
// know only bytes and run-time scalars (slots); the directory of tensors keeps names and dims for
// checkpoints, feeds and messages (decision 24). The runtime needs this file and object code only.
#ifndef IR_PROGRAM_H
#define IR_PROGRAM_H

#include "ir/base/dtype.h"
#include "ir/base/mesh.h"
#include "ir/program/monoid.h"
#include "ir/program/spec.h"

// What differs by processor is one primitive (decision 10): a scalar computed from the coordinate
// when the program is bound, and again when an incomplete batch has fewer rows.
typedef enum SlotKind {
  SLOT_EXTENT, // valid elements of the own block of a dim
  SLOT_OFFSET, // global index of the block's first element
  SLOT_RANK,   // rank in the group over `axes`
} SlotKind;
typedef struct Slot {
  SlotKind kind;
  const char *dim; // name of the whole dim
  int64_t whole;   // its size
  Axes axes;       // that split it
  // What follows is 0 in most. The value is ceil(base value * scale / div) * value of slot times-1:
  // loops over several dims at once, and work units in blocks.
  Axes within;         // SLOT_OFFSET: counted from the start of the block under these leading axes
  int64_t scale;       // 0: 1
  int64_t div;         // 0: 1
  int32_t times;       // 0: none
  Footprint footprint; // divisor not 0: the interval of dim that this describes, instead of a block
                       // over axes
} Slot;
// The scalar of that kind of d, a block or a footprint dim.
Slot slot_of_dim(const DimTable *t, DimId d, SlotKind kind);
bool slot_equal(const Slot *a, const Slot *b);

// A size known when bound: base, or base times a slot's value.
typedef struct Size {
  int64_t base;
  int32_t slot; // -1: none
} Size;

enum { LOOP_DEPTH = 8 }; // loops nest no deeper

// A place in a processor's memory: in persistent tensor `tensor`, or (-1) in the work arena. Within
// loops it moves: in step t of a loop by t times the loop's stride.
typedef struct Ref {
  int32_t tensor;
  int64_t offset; // bytes, at step 0 of all loops
  const int64_t
      *stride; // bytes; LOOP_DEPTH of them, of the outermost loop first; NULL: does not move
} Ref;

typedef enum TensorKind {
  TENSOR_INPUT,
  TENSOR_PARAM,
  TENSOR_STATE,
  TENSOR_SLOT,     // by name, from outside
  TENSOR_CONSTANT, // data in the program
  TENSOR_OUTPUT,   // handed out
} TensorKind;

typedef struct ProgDim {
  const char *name; // of the whole dim
  int64_t whole, block;
  Axes axes;
  int32_t extent; // slot of its valid extent, -1: block is always full
} ProgDim;

typedef struct ProgTensor {
  TensorKind kind;
  const char *name; // "w", "optimizer.w.m", "grad(w)"
  Dtype type;
  uint8_t rank;
  ProgDim dim[MAX_RANK];      // physical order, slowest first
  uint8_t declared[MAX_RANK]; // declared[i]: index into dim of the i-th axis in files
  int64_t bytes;              // of a block
  Ref at;                     // params, states, slots, constants: {own index, 0}; else in the arena
  Init init;                  // params, states, slots
  const double *data;         // constants: row-major in physical order, whole dims
  int32_t of;                 // slot: index of its parameter, else -1
  Pos pos;
} ProgTensor;

// What generated code is called with. Pointers and slots are those of one processor and one set.
typedef struct Status {
  uint32_t code;    // 0 clean; else 1 + index into Program.check
  int64_t value;    // the offending number
  int64_t position; // flat index within the check's loops
} Status;
typedef struct KernelCall {
  void *const *ptr;
  const int64_t *slot;
  const double *num;
  char *partial; // of this chunk; for combine: of chunk 0
  Status *status;
  int64_t step;
  uint64_t seed;  // philox_seed of the run's seed (ir/base/philox.h)
  int64_t repeat; // number of the update within the step, 0 in most
} KernelCall;
// Work units lo..hi-1.
typedef void KernelFn(const KernelCall *call, int64_t lo, int64_t hi);
// Puts the partial results of n chunks together, in order.
typedef void CombineFn(const KernelCall *call, int64_t n);

typedef struct ProgKernel {
  const char *name; // symbol; the combine entry is NAME_combine
  const char *text; // the kernel's text: identity for the cache, shown by dumps
  uint16_t nptr, nslot, nnum;
  int64_t partial_bytes; // a chunk; 0: no combine entry
  KernelFn *run;         // set by the loader
  CombineFn *combine;
} ProgKernel;

// One launch: the kernel over one or more sets of operands (an optimizer's tensors).
typedef struct KernelSet {
  Ref *ptr;      // nptr
  int32_t *slot; // nslot, indices into Program.slot
  Size units;    // work units
  double *num;   // nnum
} KernelSet;
typedef struct KernelLaunch {
  uint32_t kernel;
  uint32_t nsets;
  KernelSet *set;
  int64_t grain;  // units a chunk: chunks do not depend on the number of threads (decision 18)
  Ref partial;    // room for all chunks
  int64_t chunks; // at full extents, all sets
} KernelLaunch;

// C[m, n] = sum over k of A[m, k] B[k, n], row-major, for every batch. ta: A is stored [k, m].
typedef struct Gemm {
  Dtype type; // f32 or f64
  bool ta, tb;
  Size m, n, k;
  int64_t lda, ldb, ldc;
  uint8_t nbatch;
  struct {
    Size count;
    int64_t a, b, c;
  } batch[MAX_RANK]; // strides in elements, slow first
  Ref a, b, c;
} Gemm;

static inline double gemm_flops(double m, double n, double k, double batches) {
  return 2 * m * n * k * batches;
}
// Instructions below these sizes are left to one worker of a context. The simulator knows it.
enum {
  SOLO_BYTES = 1 << 16,   // of a copy or fill
  SOLO_FLOPS = 1 << 18,   // of a product
  SOLO_ORDERED = 1 << 13, // elements of an ordered operation
};

typedef enum CollKind {
#define COLL(id, text) COLL_##id,
#include "ir/program/coll.def"
#undef COLL
  COLL_COUNT
} CollKind;
const char *coll_text(CollKind k);
// How often a ring passes the data on: 2 for an all_reduce, which scatters and gathers, else 1.
int coll_rounds(CollKind k);
// Bytes that one processor of a group of n sends in a ring, rounded up: (n-1)/n of `bytes` in each
// round, all of them for permute. `bytes`: of the operand; of an all_gather, of the result.
int64_t coll_wire_bytes(CollKind k, int64_t group, int64_t bytes);
double coll_sent_share(CollKind k, double group); // the same for one byte, not rounded

// One tensor of a collective: dims in physical order. Along dim `gathered` the destination is
// longer, along `split` shorter (-1: no such dim): all_gather has gathered, reduce_scatter has
// split, all_to_all both, all_reduce none. Pieces nest: member k of the group holds [k*piece,
// k*piece + piece) of the longer block, clipped to its valid extent.
typedef struct MovedDim {
  int64_t whole; // elements of the dim; 0: it is not moved
  Axes from, to; // that split it in the source and in the destination
} MovedDim;
typedef struct CollPart {
  Ref src, dst;
  uint8_t rank;
  int64_t src_block[MAX_RANK], dst_block[MAX_RANK];
  Size src_valid[MAX_RANK], dst_valid[MAX_RANK];
  int8_t gathered, split;
  int64_t whole; // permute: length of dim `split`, of which source and destination hold pieces
  Footprint footprint; // permute, divisor not 0: the destination holds this interval of it (a halo)
  MovedDim moved[MAX_RANK]; // permute along several dims (then split is -1): boxes go to whoever
                            // holds them afterwards
  const char *value;        // for messages and trace
} CollPart;
typedef struct Collective {
  CollKind kind;
  Axes axes;
  Axes to; // permute: the source is split by `axes`, the destination by `to` (of a halo: it depends
           // on)
  Dtype type;
  Monoid monoid;   // of reductions
  uint32_t nparts; // packed into one call
  CollPart *part;
  int64_t bytes, wire_bytes; // of one call, as `check` predicts them (decision 28)
  bool backward;
  Pos pos;
  const char *why;
} Collective;

// Ordered work along one dim (cumsum, cummax, argsort, top_k): the runtime does it, row by row.
typedef enum OrderedKind {
  ORDERED_CUMSUM,
  ORDERED_CUMMAX,
  ORDERED_CUM_INDEX,
  ORDERED_ARGSORT,
  ORDERED_TOP_K
} OrderedKind;
typedef struct Ordered {
  OrderedKind kind;
  Dtype type;                 // of the source; indices are i32
  unsigned flags;             // ORDER_* of ir/program/ordered_flags.h
  Size n;                     // elements along the dim
  int64_t k;                  // top_k: how many
  int64_t src_step, dst_step; // elements from one to the next along it
  uint8_t nrows;              // loops over rows, slow first
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
  INSTR_FILL,   // zero bytes
  INSTR_COPY,   // bytes from src to dst
  INSTR_COMMIT, // from here on persistent tensors change: run only if the status of all is clean
  INSTR_LOOP,   // runs what stands between it and its INSTR_END for t = 0 .. count-1, or down; not
                // after a COMMIT
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
    } loop; // end: index of its INSTR_END
    struct {
      uint32_t begin;
    } end;
  } u;
} Instr;

// A value that an instruction writes.
typedef struct InstrValue {
  uint32_t set, ptr; // of a kernel: its operand; of a collective ptr is the part; else 0
  Dtype type;
  uint8_t rank;
  ProgDim dim[MAX_RANK];  // of a block in memory, slowest first; extent is -1
  const char *value, *op; // full name or NULL; the operation
  bool backward;
  Pos pos;
} InstrValue;
// What an instruction is in the model: for traces, times and messages. Several sets or stored
// values make several.
typedef struct InstrNote {
  uint32_t nvalues;
  InstrValue *value;
  int64_t bytes, flops; // that one run reads and writes; operations on numbers of a processor
} InstrNote;

// A place that can write the status word.
typedef struct Check {
  const char *value; // scoped name of the value or NULL
  const char *dim;   // the dim whose range was left
  int64_t size;
  Pos pos;
  uint8_t rank; // dims of the loops that `position` counts, slow first
  ProgDim loop[MAX_RANK];
  uint16_t without; // bit i: the id is the same all along loop[i]
} Check;

typedef struct Program {
  const char *model, *for_; // path of the model; "train", "eval", "run"
  Mesh mesh;
  const char *over;    // dim whose rows a last incomplete batch may lack, or NULL
  int64_t arena_bytes; // work arena of one processor
  uint32_t nslots, ntensors, nkernels, ninstrs, nchecks;
  Slot *slot;
  ProgTensor *tensor;
  ProgKernel *kernel;
  Instr *instr;
  Check *check;
  InstrNote *note; // of each instruction; NULL in a program that was not compiled from a graph
  int64_t flops;   // of products, one processor
} Program;

// The value that instruction i is named by, one with a name where there is one; NULL: it makes
// none.
const InstrValue *program_instr_value(const Program *p, uint32_t i);
// "hidden", or the kind of instruction i where it makes no value of the model: a name for people,
// and its place (line 0: none). Static or of p.
const char *program_instr_name(const Program *p, uint32_t i, Pos *pos);
// Value of slot s on processor r when the dim `over` has `rows` valid rows (rows < 0: all).
int64_t program_slot(const Program *p, int32_t s, int64_t r, int64_t rows);
// Index of the tensor of that name and kind, or -1.
int32_t program_tensor(const Program *p, TensorKind kind, const char *name);
// What the collectives of one run move, as they were predicted, by kind.
typedef struct ProgramCount {
  int64_t calls[COLL_COUNT], bytes[COLL_COUNT], wire_bytes[COLL_COUNT];
} ProgramCount;
// Of processor r when the dim `over` has `rows` valid rows (rows < 0: all): part[0] up to the
// COMMIT, or all of a program without one, part[1] behind it.
void program_count(const Program *p, int64_t r, int64_t rows, ProgramCount part[2]);
void program_count_add(ProgramCount *sum, const ProgramCount *x);

enum { MEMORY_ALIGN = 64 }; // where a tensor that stays between runs may begin
// Whether the memory of tensor t is its own and stays between runs; else it is a place in another
// or in the arena.
static inline bool tensor_is_persistent(const Program *p, uint32_t t) {
  return p->tensor[t].at.tensor == (int32_t)t;
}
// Bytes of one processor: persistent tensors one behind the other, each aligned, and the work
// arena.
int64_t program_bytes(const Program *p);
enum { ORDERED_ENTRY = 16 }; // bytes of an element that is being sorted
// Room for two copies of what is sorted in one piece, which every worker has: bytes, 0 without.
int64_t program_scratch(const Program *p);
// What r moves by when the enclosing loops, `depth` of them, are at steps at[0..depth).
int64_t ref_moved(Ref r, int depth, const int64_t *at);
// Readable text of the whole program.
char *program_print(Arena *a, const Program *p);

#endif
