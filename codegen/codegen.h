// The interface of code generation: from the graph of one processor to a Program with machine code.
//   attention_sums  takes the scores out of row sums in gradients of attention, for a GPU
//   remat           rematerialises forward values for the backward pass
//   attention_blocked   computes attention in loops over blocks of rows
//   live_select     lets products leave out what masks discard
//   order_choose    chooses the physical order of every value's dims, and the copies that remain
//   fuse            groups nodes into kernels, GEMMs, collectives and aliases
//   program_build   schedules groups and plans memory: a Program without machine code
//   code_load       generates machine code for the kernels (LLVM) and maps it into this process
// All steps before code_load give the same result on every machine and need neither LLVM nor BLAS.
// Results are allocated in the arena that is passed. No step keeps state between calls.
#ifndef CODEGEN_CODEGEN_H
#define CODEGEN_CODEGEN_H

#include "codegen/fuse/kernel.h"
#include "collectives/collectives.h"
#include "ir/program/gpu.h"
#include "ir/program/program.h"

typedef struct CodegenOptions {
  bool fuse;            // false: one kernel for each node (--no-fuse)
  DtypeSet products;    // large contractions of these types become INSTR_GEMM; others: kernels
  int64_t product_work; // least multiplications of a large contraction; 0: as in gemm_form.c
  // Not 0: attention of any size is computed in blocks of at most so many rows or, for a GPU, with
  // recomputed scores, for tests. 0: as in blocked_find.c and attention.c.
  int64_t blocked_rows;
  // Not 0: the least bytes of values that processors of one process keep once, for tests. 0: as in
  // common_values.c.
  int64_t common_bytes;
  // Whether the program is for a GPU, which gains more from few large operations: attention is not
  // computed in blocks of rows, and products not without what masks discard. Kernels recompute the
  // scores of large attentions (attention.c). Launches have more and smaller chunks.
  bool gpu;
  // What products may compute after their sums: bit i is the epilogue of row i of gemm_library.def.
  // A CPU gains nothing from it.
  uint32_t epilogues;
  bool tf32;            // products of f32 may round their factors (Gemm.tf32)
  int64_t launch_bytes; // bytes that memory moves while one kernel is launched; 0: a few
  const char *for_;     // what the Program is for: "train", "eval" or "run" (Program.for_)
  const char *over;     // name of the dim whose last batch may be incomplete, or NULL
  // Whether collectives run beside computation (Machine.overlap). The schedule then runs groups
  // that read the result of a reduction as late as it can.
  bool overlap;
  // Bytes of the cache that all cores share (Machine.l3). Values that it cannot keep are stored
  // past the caches (stream_stores.c), and large buffers begin at addresses that do not compete
  // (memory_plan.c). 0: neither, as on GPUs.
  int64_t shared_cache;
  // Whether the Program also lists parameters and states that nothing uses, because checkpoints
  // have them.
  bool keep;
  // Whether the Program is only simulated, for its price: its kernels have no texts, and groups do
  // not say why they are apart. Time and memory are the same.
  bool simulated;
} CodegenOptions;

// remat.c. Returns g with forward values rematerialised for the backward pass, or g itself when no
// value is rematerialised. Level 0 honours `checkpoint` only. Each higher level rematerialises more
// values, cheapest first (remat_marks.c).
const Graph *remat(Arena *a, const Graph *g, int level);
// Returns the highest level of `remat`, or 0 if g has no gradients. Levels 1 to REMAT_BASE_LEVELS
// choose kinds of values. Each level above rematerialises one more segment of the forward pass. The
// last REMAT_TAIL levels rematerialise all segments: the first of them also computes values of
// loops step by step, the second also repeats collectives.
int remat_levels(Arena *a, const Graph *g);
// Returns a text for messages: what `level` of `levels` rematerialises.
const char *remat_level_text(Arena *a, int level, int levels);
enum { REMAT_BASE_LEVELS = 3, REMAT_TAIL = 2 };

// blocked.c. Returns g with attention computed in loops over blocks of rows, so that its scores are
// not stored for all rows. Returns g itself if it has no attention, or only small ones.
const Graph *attention_blocked(Arena *a, const Graph *g, const CodegenOptions *opt);

// attention_sums.c. For a GPU. Returns g with the row sums in gradients of large attentions
// replaced by sums that need no scores. Returns g itself if it has none, or without fusion.
const Graph *attention_sums(Arena *a, const Graph *g, const CodegenOptions *opt);

// live_select.c. Returns g with masks that let products leave out what a mask discards. Returns g
// itself if no mask lets a product leave out elements.
const Graph *live_select(Arena *a, const Graph *g, const CodegenOptions *opt);

// live_ahead.c. What masks say about the elements of values that lie ahead of a position in time.
// Made for a graph of whole tensors that the caller no longer changes, in `a`.
typedef struct Ahead Ahead;
Ahead *ahead_new(Arena *a, const Graph *g);
// Returns true only if at each position p of dim t all elements of node n at positions after p of
// dim s let `op`, a reduction over s or a contraction, depend on no input there: they are one
// number that depends on none, 0 for a contraction, and for a maximum or minimum perhaps any
// numbers far below or above all others. n has the dim s, and has t or lies in a loop over t. What
// is computed from inputs is taken to lie within -AHEAD_REACH..AHEAD_REACH, if no mask is part of
// it. Less than -AHEAD_HIDDEN is so far below it that exp of the difference is 0 in every type.
#define AHEAD_REACH 1e7
#define AHEAD_HIDDEN (AHEAD_REACH + 1000)
bool ahead_is_neutral(Ahead *x, NodeId n, DimId t, DimId s, Op op);

// order.c. Chooses a physical order for every value: at[n] lists the dims of node n, slowest first.
// `graph` is a copy of g with nodes added that copy
// memory (BROADCAST without dims) where an order could not be chosen freely. gpu: whether kernels
// are for a GPU, whose threads compute one element each.
typedef struct Order {
  const Graph *graph;
  DimList *at; // the physical order of each value, indexed by NodeId
  // The estimated seconds, on one core, of the operations whose cost depends on orders: with the
  // orders that users ask for, and with those of the search.
  double asked, searched;
  bool taken; // whether the orders of the search are taken
} Order;
// How parameters, states and slots are stored, and what the graph stands for.
typedef struct StoreOptions {
  const Program *like; // a program with which tensors of equal names share memory, or NULL
  // Whether a step that changes tensors may store them in another order than they are declared in.
  // Not with `like`.
  bool freely;
  // The graph stands for one that takes so many times as long, with more layers of the same kinds:
  // other orders are taken if they save enough there. 0: it stands for itself.
  double times;
} StoreOptions;
Order *order_choose(Arena *a, const Graph *g, const StoreOptions *store, bool gpu);
const char *order_note(const void *order, NodeId n);

// The kinds of groups that fuse.c makes. A group is a set of nodes that one instruction computes,
// or that needs no computation. Exactly one group stores a value that another group uses. Instead,
// cheap values (scalars, broadcasts, index) may be recomputed in each kernel that uses them.
typedef enum GroupKind {
  GROUP_KERNEL,
  GROUP_GEMM,
  GROUP_COLLECTIVE,
  GROUP_ORDERED, // work on whole rows or matrices, such as cumulative sums, sorting, cholesky
  GROUP_ALIAS,   // a rename, split or merge that moves nothing: the same memory under other dims
  GROUP_LOOP,    // end of a scan; the groups of its loop come before it
  GROUP_SOURCE,  // declared tensors and constants: already in memory
} GroupKind;
extern const char *const group_kinds[]; // by GroupKind: its name in dumps, such as "kernel"
// Why two groups are not one kernel, and why a kernel ends where it does (codegen/fuse/apart.def).
typedef enum ApartReason {
#define APART(reason, text) APART_##reason,
#include "codegen/fuse/apart.def"
#undef APART
  APART_COUNT
} ApartReason;
const char *apart_text(ApartReason why); // the reason in words: "too many operands for one kernel"
const char *apart_name(ApartReason why); // its name in apart.def: "OPERANDS"
// The reason why a group is not one kernel with an earlier group whose value it reads.
typedef struct MergeRefusal {
  uint32_t group; // index of the earlier group in Fusion.group
  ApartReason why;
} MergeRefusal;
typedef struct Group {
  GroupKind kind;
  struct BuiltKernel *kernel;  // the kernel of a GROUP_KERNEL, else NULL
  const struct GemmForm *gemm; // how a GROUP_GEMM is computed, else NULL
  uint32_t nnodes;
  NodeId *node; // its nodes, ascending; recomputed nodes included
  uint32_t nstored;
  NodeId *stored;    // nodes whose values other groups use
  uint32_t launch;   // kernels with the same number share one launch, 0: a launch of its own
  Dims outer, inner; // dims of a kernel's loops, before they are ordered and joined
  int64_t load_bytes, store_bytes; // bytes that one run loads and stores
  uint32_t merged;                 // number of nodes in this kernel, recomputed nodes excluded
  double saved; // cost that merges into this kernel saved, in bytes of memory traffic
  const char *why;
  // Entries of `refusal`: one for each earlier group whose values it reads, sources left out.
  uint32_t nrefusals;
  MergeRefusal *refusal;
} Group;
// The rows of a loop: a dim along which its rounds are independent. Each worker can run all rounds
// for its part of the rows, if it has at least `least` of them.
typedef struct LoopRows {
  DimId dim; // 0: the loop has no rows
  int64_t least;
} LoopRows;
// The result of fusion: the groups of a graph, in a valid order of execution. Updates of
// parameters, states and slots (persistent tensors) run after the commit. The commit is the point
// of a training step after which persistent tensors change and nothing may fail. Other groups that
// nothing but updates needs may run after it, too (codegen/program/schedule.c).
typedef struct Fusion {
  const Graph *graph;
  const Order *order;
  const Buckets *buckets;
  const struct Rows *rows; // dims whose length depends on the number of rows in the batch
  uint32_t ngroups;
  Group *group;     // the groups, in a valid order of execution
  uint32_t *of;     // by node: the group that computes and stores it
  bool *recomputed; // by node: kernels compute the value where they use it, and never store it
  bool *update;     // by node: it is part of an update, which runs after the commit
  const struct GroupDeps *deps; // by group: the groups whose values it reads
  const bool *after_commit;     // by group: it runs after the commit
  LoopRows *loop_rows;          // by region: the rows of the loop
} Fusion;
// Returns whether dumps say why group g is apart from r->group: g is a kernel that reads a value of
// a kernel or product. Other groups are apart because of their kind.
bool group_says_apart(const Fusion *f, const Group *g, const MergeRefusal *r);
// Groups the nodes of order->graph. buckets: the collectives that leave in one call; NULL: each has
// a call of its own. Every kernel group gets its kernel, every GEMM group its form.
Fusion *fuse(Arena *a, const Order *order, const Buckets *buckets, const CodegenOptions *opt);
// Returns the text of `dump --stage fuse`: a paragraph for each group. d: has the names of the
// model files; NULL: the text has no places in the model.
char *fusion_print(Arena *a, const Fusion *f, const Diag *d);
// Returns the bytes that fusion saves in this group: the traffic of its nodes as kernels of their
// own, minus the traffic of the kernel. It is 0 for groups that are not kernels.
int64_t group_saved_bytes(const Fusion *f, uint32_t group);

// A buffer of the work arena, the memory for values of one step, and its live range: the
// instructions from first to last use.
typedef struct PlanBuffer {
  const char *value;
  NodeId node; // the node of the fused graph whose value it holds, of a history its carry; 0: none
  int64_t bytes, offset;
  uint32_t first, last; // first and last instruction of the live range
  bool kept;            // an input, live from the start on, or an output, live to the end
  AxisSet common;       // Ref.common of its value
  uint32_t same;        // 1 + the index of the buffer whose memory it reuses in place, 0: none
  bool part;            // it is only a part of that memory, from byte `shift` on
  int64_t shift;
} PlanBuffer;

// For dumps and reports: the instruction that runs a group of fused nodes (Fusion.group), and the
// cost of one run on one processor.
typedef struct GroupNote {
  uint32_t instr;       // 1 + the index of the instruction, 0: the group has none
  uint32_t together;    // number of groups that this instruction runs
  int64_t bytes, flops; // bytes moved and operations in one run of the group
  int64_t written;      // those of the bytes that it writes; 0 for collectives
} GroupNote;

// The result of program_build: a Program and its kernels; kernels[i] belongs to Program.kernel[i].
typedef struct Compiled {
  Program *program;
  Kernel **kernels;
  int64_t activation_bytes; // size of the arena, inputs and outputs included
  int64_t live_bytes; // most bytes that are live at one instruction: a lower bound on the arena
  uint32_t nbuffers;
  PlanBuffer *buffer;
  GroupNote *group; // by group of the fusion
  // by instruction: for a loop that runs exactly if an earlier loop does not, 1 + the index of that
  // one; else 0
  uint32_t *instead;
} Compiled;
Compiled *program_build(Arena *a, const Fusion *f, const CodegenOptions *opt);
// Returns the kind of tensor that a declaration becomes in the directory of a Program.
TensorKind tensor_kind(DeclKind k);
// Returns the kind of tensor that output o of g becomes in the directory of a Program.
TensorKind tensor_kind_of_output(const Graph *g, const Output *o);

// What most of the predicted time of an instruction is spent on.
typedef enum Limit {
  LIMIT_NONE,       // it takes no time
  LIMIT_BYTES,      // moving bytes to and from memory and caches, or over the link
  LIMIT_OPERATIONS, // arithmetic
  LIMIT_LATENCY     // what it takes whatever its size: launches, meetings of cores, too few threads
} Limit;
extern const char *const limit_texts[]; // by Limit: "bytes"

// The predicted time of one run of a program on a machine, from the figures of the machine
// (simulate.c).
typedef struct Simulation {
  double seconds;                // compute + transfer - hidden
  double compute;                // time of all instructions but collectives
  double transfer;               // time of collectives
  double hidden;                 // the part of `transfer` that computation hides
  double of_kind[INSTR_END + 1]; // seconds by kind of instruction
  double *of;                    // seconds by instruction: the sum over all steps of its loops
  uint8_t *limit;                // by instruction: its Limit
} Simulation;
// Returns the time with all cores of the machine or, where one core may run the step of a single
// processor alone and is faster, the time of that core.
Simulation *simulate(Arena *a, const Compiled *c, const Machine *m);
// Returns the time with all cores of the machine.
Simulation *simulate_cores(Arena *a, const Compiled *c, const Machine *m);
// Returns the text of `dump --stage plan`: buffers, live ranges, offsets and the peak of the arena.
char *plan_print(Arena *a, const Compiled *c);

// The mapped machine code of a program. Free it after the Program's last run.
typedef struct Code Code;
typedef struct CodeOptions {
  int width;           // bits of a vector: 128, 256, 512; 0: the widest of the host
  int opt;             // optimization level of LLVM, 0..3
  const char *without; // host features that code must not use, such as "fma,f16c"; NULL: none
  const char *cache;   // directory of the compile cache, NULL: no cache
  // The level of CPUs for which code_object compiles, a name of code_levels; NULL: the host.
  const char *level;
} CodeOptions;
// The levels of CPUs for which code_object compiles: those of the x86-64 psABI, and aarch64. The
// list ends with NULL.
extern const char *const code_levels[];
// Returns whether the level is of the architecture on which this process runs.
bool code_level_is_here(const char *level);
// Compiles all kernels of p to one relocatable ELF object. Kernel i has the symbol k<i> and, if it
// has partial results, k<i>_combine. Returns the bytes, malloc'd, and their number in *n, or NULL
// after an error in d.
char *code_object(const Program *p, Kernel *const *kernels, const CodeOptions *opt, size_t *n,
                  Diag *d);
// Compiles the kernels that are not in the cache, and stores the addresses of their code in
// ProgKernel.run and ProgKernel.combine of p. Returns NULL after an error in d: this build has no
// LLVM and a kernel is not in the cache.
Code *code_load(Program *p, Kernel *const *kernels, const CodeOptions *opt, Diag *d);
void code_free(Code *c);
// Returns the text of `dump --stage llvm|asm`: the code of all kernels. Returns NULL after an error
// in d.
char *code_text(Arena *a, const Program *p, Kernel *const *kernels, const CodeOptions *opt,
                bool assembly, Diag *d);
// -- codegen/gpu: the kernels of a program as code of a GPU
typedef enum GpuTarget {
  GPU_PTX,     // images are machine code where there is nvJitLink, else PTX text
  GPU_EMULATED // images are ELF objects for this processor (codegen/gpu/emulator.h)
} GpuTarget;
typedef struct GpuCodeOptions {
  GpuTarget target;
  int capability;    // compute capability of the GPU times 10: 80, 90
  int opt;           // optimization level of LLVM, 0..3
  int threads;       // most threads that compile, each an image; 0: one
  bool text;         // images for GPU_PTX are PTX text, even where there is nvJitLink
  int tile;          // 1 + the tile of all products (gpu_product_plan.c), for tests; 0: chosen
  const char *cache; // directory of the compile cache, NULL: no cache
} GpuCodeOptions;
typedef struct GpuCode GpuCode;
// Compiles the kernels of p that are not in the cache. Returns NULL after an error in d: this build
// has no LLVM, or its LLVM cannot compile for this target.
GpuCode *gpu_code_load(const Program *p, Kernel *const *kernels, const GpuCodeOptions *opt,
                       Diag *d);
void gpu_code_free(GpuCode *c);
// Returns how to launch each kernel of the program, by its index. Valid until gpu_code_free.
const GpuEntry *gpu_code_entries(const GpuCode *c);
// Returns the number of images and stores their array in *out. Each name of an entry is in one of
// them. Valid until gpu_code_free.
uint32_t gpu_code_images(const GpuCode *c, const GpuImage **out);
// Returns the text of `dump --stage ptx`: plan and code of all kernels. Returns NULL after an error
// in d.
char *gpu_code_text(Arena *a, const Program *p, Kernel *const *kernels, const GpuCodeOptions *opt,
                    Diag *d);
// Returns one line of text for kernel k: which threads of a GPU compute what, and why.
const char *gpu_kernel_text(Arena *a, const Kernel *k);
// -- gpu_transfer.c: collectives between processors on one GPU, or between GPUs
// How the collectives of a program are carried out on GPUs. All arrays are by instruction.
typedef struct GpuTransfers {
  // The plans of the parts of a collective within one GPU, for transfer_sets
  // (collectives/local/transfer_plan.h). NULL for all other instructions.
  struct PartPlan **local;
  // The same of a collective between GPUs, for message_call (collectives/local/messages.h). The
  // array itself is NULL if all processors are on one GPU.
  struct MessagePart **messages;
  uint32_t *join; // the result of gpu_overlap; NULL if `messages` is
} GpuTransfers;
// Plans the collectives of a program, and appends the kernels that they need to those of c, for
// gpu_code_load. each: how many processors each GPU has, a number for which devices_fit
// (collectives/local/devices.h) holds; 0: all processors are on one GPU. Results are allocated in
// `a`.
GpuTransfers *gpu_transfers(Arena *a, Compiled *c, int64_t each);
// -- gpu_overlap.c
// Returns an array by instruction, allocated in `a`. For each collective between GPUs it has the
// first instruction after it that must wait for its end; ninstrs: the end of the step. messages:
// GpuTransfers.messages.
uint32_t *gpu_overlap(Arena *a, const Compiled *c, struct MessagePart *const *messages);
// -- program_cache.c: programs in the compile cache, so that a later run need not compile them
// The key of a program: a hash of all that it depends on.
typedef struct ProgramKey {
  uint8_t byte[32];
} ProgramKey;
// Returns the key for the `n` bytes of `question`, which are all that the passes read: the graph
// and the options. The sources of the compiler, the host and the options of machine code count,
// too.
ProgramKey program_key(const char *question, size_t n, const CodeOptions *opt);
// Keeps program p and where its machine code is in the cache of c's options. `predicted`: seconds
// of a step. d has the files of positions. If it cannot be written, it is not kept.
void program_keep(const ProgramKey *key, const Program *p, double predicted, const Code *c,
                  const CodeOptions *opt, Diag *d);
// Returns the program with that key, allocated in `a` with texts of `names`, and its machine code
// in *c. Its kernels have no text. Returns NULL if it is not kept, or not its code.
Program *program_recall(Arena *a, Intern *names, const ProgramKey *key, const CodeOptions *opt,
                        Diag *d, double *predicted, Code **c);
// -- cache_files.c: the directory of the compile cache
typedef struct CacheEntry {
  const char *key;     // hash of everything that the code depends on
  int64_t bytes, used; // size of the file; time of its last write or read, in seconds since 1970
} CacheEntry;
typedef struct CacheFolder {
  uint32_t n;
  CacheEntry *entry; // least recently used first
  int64_t bytes, limit;
  bool refused; // it is not used: it belongs to another user, or others may write in it
} CacheFolder;
CacheFolder cache_list(Arena *a, const char *dir);
// Removes all entries of the cache in folder `dir`. Returns their number.
uint32_t cache_clear(const char *dir);
// -- cache_values.c: small values in the compile cache
// Reads the value of `bytes` bytes that was kept under a key in folder `dir`. Returns false, with
// *value as it was, if there is none of this size, or its file is damaged. All bytes of a key
// count, so that a struct must be cleared before its fields are set.
bool cache_recall(const char *dir, const void *key, size_t key_bytes, void *value, size_t bytes);
// Keeps a value under a key, in place of an earlier one. If it cannot be written, it is not kept.
void cache_keep(const char *dir, const void *key, size_t key_bytes, const void *value,
                size_t bytes);
bool code_available(void);      // returns whether this build has LLVM
const char *code_version(void); // version of LLVM, such as "LLVM 19.1.7"; "none" without LLVM
const char *code_cpu(void);     // this processor, such as "znver5, 512 bit"; "none" without LLVM

#endif
