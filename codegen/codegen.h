// Code generation: from the graph of one processor to a Program with machine code.
//   order_choose    physical order of every value's dims, and the copies that remain
//   fuse            nodes into kernels, products, collectives and aliases
//   program_build   kernels, schedule, memory plan: a complete Program without machine code
//   code_load       machine code for its kernels (LLVM), mapped into this process
// Everything before code_load is the same on every machine and needs no LLVM and no BLAS.
#ifndef CODEGEN_CODEGEN_H
#define CODEGEN_CODEGEN_H

#include "codegen/fuse/kernel.h"
#include "collectives/collectives.h"
#include "ir/program/program.h"

typedef struct CodegenOptions {
  bool fuse;     // false: one kernel a node (--no-fuse)
  bool products; // contractions large enough become INSTR_GEMM (BLAS); false: generated kernels
  int64_t product_work; // fewest multiplications of such a product; 0: 100,000 and no side below 4
  const char *for_;     // "train", "eval", "run": Program.for_
  const char *over;     // dim with a last incomplete batch or NULL
  bool overlap;         // collectives run beside work: what needs reduced values is put off
                        // (Machine.overlap)
  bool keep; // parameters and states that nothing uses are in the directory, too: they are to be
             // saved
} CodegenOptions;

// remat.c. Returns g with forward values rematerialised for the backward pass, or g itself when
// there are none. Level 0 honours `checkpoint` only. Each higher level rematerialises more values,
// cheapest first (remat_marks.c).
const Graph *remat(Arena *a, const Graph *g, int level);
// The highest level; 0: g has no gradients. Levels above REMAT_BASE_LEVELS differ in how many
// segments of the forward pass they rematerialise. The last REMAT_TAIL levels do so for all
// segments: with loops step by step, then with their collectives too.
int remat_levels(Arena *a, const Graph *g);
const char *remat_level_text(Arena *a, int level, int levels); // what a level rematerialises
enum { REMAT_BASE_LEVELS = 3, REMAT_TAIL = 2 };

// order.c. order->at[n]: the dims of node n, slowest first. Declared tensors keep their declared
// order. The returned graph has the copies that remain (BROADCAST without dims is a copy).
typedef struct Order {
  const Graph *graph;
  Dims *at; // Dims used as a list: physical order
} Order;
Order *order_choose(Arena *a, const Graph *g);
const char *order_note(const void *order, NodeId n);

// fuse.c. Every node is in exactly one group; values used outside their group are stored. Cheap
// values (scalars, broadcasts, index) may be computed again in several groups.
typedef enum GroupKind {
  GROUP_KERNEL,
  GROUP_GEMM,
  GROUP_COLLECTIVE,
  GROUP_ORDERED,
  GROUP_ALIAS,  // a rename, split or merge that moves nothing: the same memory under other dims
  GROUP_LOOP,   // a scan: the end of its loop, all of whose groups stand before it
  GROUP_SOURCE, // declared tensors and constants: already in memory
} GroupKind;
extern const char *const group_kinds[]; // "kernel", "product" ...
// Why a kernel is not one with an earlier one that it reads.
typedef struct MergeRefusal {
  uint32_t group;
  const char *why; // "a reduction runs over other loops than the rest"; NULL: not known
} MergeRefusal;
typedef struct Group {
  GroupKind kind;
  struct BuiltKernel *kernel;  // of GROUP_KERNEL
  const struct GemmForm *gemm; // of GROUP_GEMM
  uint32_t nnodes;
  NodeId *node; // ascending
  uint32_t nstored;
  NodeId *stored; // values that leave the group
  uint32_t
      launch; // kernel groups of equal kernels that share one launch have the same number, 0: alone
  Dims outer, inner; // of a kernel: the dims of its loops, before they are ordered and joined
  int64_t load_bytes, store_bytes; // what one run moves
  uint32_t merged; // of a kernel: nodes that merges put together; those that it computes again are
                   // not counted
  double saved;    // by these merges: bytes, and work as bytes
  const char *why;
  uint32_t nrefusals; // of a kernel: kernels before it that it reads
  MergeRefusal *refusal;
} Group;
typedef struct Fusion {
  const Graph *graph;
  const Order *order;
  const Buckets *buckets;
  const struct Rows *rows; // dims that follow the rows of a batch
  uint32_t ngroups;
  Group *group;     // in an order that can be executed
  uint32_t *of;     // of[node]: index of the group that computes and stores it
  bool *recomputed; // again[node]: kernels that use the value compute it again (constants,
                    // broadcasts, scalars)
  bool *update; // update[node]: belongs to the update of a persistent tensor, runs after the commit
} Fusion;
// buckets: of order->graph; NULL: each collective alone.
Fusion *fuse(Arena *a, const Order *order, const Buckets *buckets, const CodegenOptions *opt);
// `dump --stage fuse`: one group a paragraph: kind, nodes, loads, stores, bytes, reason.
char *fusion_print(Arena *a, const Fusion *f, const Diag *d);
// What the operations of a kernel would read and write as kernels of their own, less what it reads
// and writes.
int64_t group_saved_bytes(const Fusion *f, uint32_t group);

// A piece of the work arena: what it holds, and the instructions between which it does.
typedef struct PlanBuffer {
  const char *value;
  int64_t bytes, offset;
  uint32_t first, last; // instructions
  bool kept;            // inputs and outputs: from the start, to the end
  uint32_t same;        // 1 + the buffer whose memory it took over in place, 0: none
} PlanBuffer;

// What runs a group and what that costs one processor.
typedef struct GroupNote {
  uint32_t instr;       // 1 + the instruction, 0: none
  uint32_t together;    // groups that this instruction runs
  int64_t bytes, flops; // of one run of the group, as those of InstrNote
} GroupNote;

// kernel_build.c, schedule.c, plan.c. The Program and (for dumps and code_load) its kernels,
// kernels[i] being that of Program.kernel[i].
typedef struct Compiled {
  Program *program;
  Kernel **kernels;
  int64_t activation_bytes; // of the arena at its peak, inputs and outputs included
  int64_t live_bytes;       // most bytes live at one instruction: what no plan can beat
  uint32_t nbuffers;
  PlanBuffer *buffer;
  GroupNote *group; // of each group of the fusion
} Compiled;
Compiled *program_build(Arena *a, const Fusion *f, const CodegenOptions *opt);
// directory.c: the tensor of a Program that a declaration, and that an output of g, becomes.
TensorKind tensor_kind(DeclKind k);
TensorKind tensor_kind_of_output(const Graph *g, const Output *o);

// simulate.c. How long one run of a program takes on a machine, by its figures alone.
typedef struct Simulation {
  double seconds;                // compute + transfer - hidden
  double compute;                // all but collectives
  double transfer, hidden;       // collectives; of them, beside compute
  double of_kind[INSTR_END + 1]; // seconds by kind of instruction
  double *of;                    // of each instruction, all its rounds
} Simulation;
Simulation *simulate(Arena *a, const Compiled *c, const Machine *m);
char *plan_print(Arena *a,
                 const Compiled *c); // `dump --stage plan`: buffers, lifetimes, offsets, peak

// The machine code of a program, mapped; frees its memory at the end. The Program must not outlive
// it.
typedef struct Code Code;
typedef struct CodeOptions {
  int width;           // vector bits: 128, 256, 512; 0: best of the host
  int opt;             // 0..3
  const char *without; // features of the host that the code does not use, by LLVM's names,
                       // "fma,f16c"; NULL: uses all
  const char *cache;   // directory of the compile cache, NULL: none
} CodeOptions;
// Compiles what the cache lacks and fills run and combine of every kernel. NULL after an error in d
// (no LLVM in this build and nothing cached).
Code *code_load(Program *p, Kernel *const *kernels, const CodeOptions *opt, Diag *d);
void code_free(Code *c);
// `dump --stage llvm|asm`: text of all kernels; NULL after an error.
char *code_text(Arena *a, const Program *p, Kernel *const *kernels, const CodeOptions *opt,
                bool assembly, Diag *d);
// -- cache_files.c: the folder of the compile cache
typedef struct CacheEntry {
  const char *key;     // hash of all that the code depends on
  int64_t bytes, used; // seconds since 1970, when it was written or last read
} CacheEntry;
typedef struct CacheFolder {
  uint32_t n;
  CacheEntry *entry; // longest unused first
  int64_t bytes, limit;
} CacheFolder;
CacheFolder cache_list(Arena *a, const char *dir);
// Removes all entries; how many.
uint32_t cache_clear(const char *dir);
bool code_available(void);      // this build has LLVM
const char *code_version(void); // "LLVM 19.1.7", or "none"
const char *code_cpu(void);     // "znver5, 512 bit", or "none"

#endif
