// The emitter for GPUs: one Kernel becomes the functions NAME and NAME_combine (ir/program/gpu.h).
//
// A block of threads runs a chunk of units. Words, beside those of codegen/cpu/emit_internal.h:
//
//   item      a unit or, where the vector loop is an outer loop, one element of it in a unit
//   team      the threads that compute an item together: one thread, a warp of 32, or the block.
//             Few long items are divided among blocks: then each block computes a part of an item
//             (GpuPlan.row_parts). A block may also have several neighbouring items at a time, and a
//             team for each (GpuPlan.columns)
//   leader    the first thread of a team; it alone stores what the team has one of
//   spread    the inner loops whose rounds are divided among the threads of a team; each thread
//             runs the rounds of the other inner loops one after the other, inside of them
//   position  one round of all spread loops, which one thread of the team computes: the same thread
//             in all phases of an item, and in all items of the team
//   cell      the accumulator of a reduction in a thread: a variable, which LLVM turns into a
//             register
//
// Everything is emitted for one element at a time. Accumulators of f32 sums are f64 where a thread
// adds many values (GpuPlan.cell).
//
// Files, each using only those before it:
//
//   gpu_columns.c   decides which blocks have several items side by side (no LLVM)
//   gpu_plan.c      decides teams, spread loops, types of cells, grain (no LLVM)
//   gpu_plan_why.c  says why, for those who read a plan (no LLVM)
//   gpu_device.c    what the two targets do differently: numbers of threads, barriers, shuffles,
//                   shared memory, accesses that the emulator is told
//   gpu_fault.c     reports of faults
//   gpu_memory.c    loads, stores, scatters
//   gpu_join.c      joins the cells of a team
//   gpu_accum.c     K_ACCUM: cells, partial rows
//   gpu_nest.c      statements, inner loops, items
//   gpu_row_parts.c   items that several blocks of threads compute together
//   gpu_tensor.c    tensor cores, copies beside the computation
//   gpu_tile.c, gpu_tile_sums.c, gpu_tile_multiply.c   products of tiles (gpu_tile.h)
//   gpu_product_plan.c, gpu_product_fill.c, gpu_product_parts.c, gpu_product.c   kernels that are
//   products, in tiles
//   gpu_scatter_plan.c, gpu_scatter.c   kernels that only scatter, by owners of rows
//   gpu_scores_form.c, gpu_scores_plan.c, gpu_scores_fill.c, gpu_scores_rows.c,
//   gpu_scores_online.c, gpu_scores_live.c, gpu_scores.c    kernels with scores of attention, in
//   tiles
//   gpu_combine.c   NAME_combine: joins partial rows
//   gpu_emit.c      the functions of a kernel
//   gpu_rows.c      ordered operations: the elements of a row
//   gpu_scan.c      running sums and maxima
//   gpu_sort.c      sorting
//   gpu_ordered.c   the functions of ordered operations
//   gpu_judge.c     the functions that every program has: judge, move (ir/program/gpu_step.h)
//   gpu_compile.c   a module of LLVM for the target
//   gpu_divide.c    a module divided among threads; assembling
//   gpu_code.c      the interface in codegen/codegen.h, the compile cache
//   gpu_overlap.c   how long collectives between GPUs may run beside computation (no LLVM)
//   gpu_transfer.c  the kernels of collectives (no LLVM)
#ifndef CODEGEN_GPU_H
#define CODEGEN_GPU_H

#include "codegen/codegen.h"
#include "codegen/cpu/llvm_internal.h"
#include "codegen/gpu/emulator.h"

// Which threads compute what together. The last three have no items: a block divides the kernel
// into parts of other forms.
typedef enum GpuTeam {
  TEAM_THREAD, // a thread computes an item
  TEAM_WARP,   // a warp does
  TEAM_BLOCK,  // a block does
  TEAM_TILE,   // a block computes tiles of a product (GpuTiles)
  TEAM_SCORES, // a block computes tiles of attention's scores (GpuScores)
  TEAM_OWNERS  // a block adds the terms of a scatter that go to its rows (GpuOwners)
} GpuTeam;

// Where the code of a statement is: once for each thread at the start of the function, once for
// each item, once for each phase of an item, or in the inner loops.
enum { GPU_AT_ENTRY, GPU_AT_ITEM, GPU_AT_PHASE, GPU_AT_INNER };

// How a product is computed in tiles (gpu_product_plan.c). Arrays of two: of the left factor and
// the rows of results, of the right factor and their columns.
typedef struct GpuTiles {
  int sum;                        // statement: the sum of products
  int root[2];                    // statements: the values that are in the tiles of the factors
  LoopSet along[2], batch, inner; // the loops of rows, columns, batch and depth
  Dtype factor;                   // type of the tiles
  int size[2];                    // results of a tile: rows, columns
  int warps[2];                   // warps of a block along rows and columns
  int depth;                      // rounds of the inner loops in a tile of a factor
  int stages;                     // copies of the factors' tiles, which are filled in turn
  bool deep[2];                   // whether the rows of a factor's tile run along the depth
  bool copied[2]; // whether a factor is copied from memory if it is aligned; else it is computed
  int fold;       // after so many tiles sums are added to totals; 0: never
  // Neighbours along the columns whose results a thread computes together, with accesses of up to
  // 16 bytes: 1 or GPU_VECS
  int vecs;
  // Parts into which the depth is divided. A block of threads sums one of them for a tile, and
  // NAME_combine adds up the parts (gpu_product_parts.c). 1: the depth is not divided.
  int parts;
  bool narrow; // whether the numbers of rows, columns, batches and rounds fit 31 bits
} GpuTiles;

// How a kernel that only scatters is divided among blocks of threads (gpu_scatter_plan.c).
typedef struct GpuOwners {
  LoopSet terms, columns; // its loops
  int threads;            // of a block
  int owners;             // owner i has the rows i, i + owners, i + 2 owners ...
  int groups;             // blocks of each owner, which divide the columns
} GpuOwners;

// Two pointers whose elements K_DOT statements multiply: one moves along the rows of scores, the
// other along the columns.
typedef struct GpuScorePair {
  int pointer[2];
  LoopSet dots; // the loops that are summed
  Dtype type;   // of the tiles
  int depth;    // rounds of those loops, rounded up to GPU_FRAGMENT_DEPTH
} GpuScorePair;
enum { GPU_SCORES_PAIRS = 4 };

// How scores of attention are computed in tiles (gpu_scores_plan.c).
typedef struct GpuScores {
  int rows, columns; // the loops of rows (an outer one) and columns (an inner one)
  LoopSet results;   // outer loops of a product along which its right factor alone varies
  LoopSet batch;     // all other outer loops but the rows
  LoopSet others;    // all inner loops but the columns
  int npairs;
  GpuScorePair pair[GPU_SCORES_PAIRS];
  // A product: its sum and its factors, the left one computed from scores; the type of the tiles of
  // factors. sum is NO_STMT if the kernel has only reductions of rows.
  int sum, left, right;
  Dtype factor;
  // Whether the left factor is a softmax over the columns whose maximum and sum the kernel computes
  // in the phases before: then all phases are one sweep over the columns, in which sums are scaled
  // when the maximum rises. Statements: e^(score - maximum) in the left factor, and its division by
  // the sum, which is put off until the end.
  bool sweep;
  int power, ratio;
  int tile_rows, tile_columns, tile_results; // scores of a tile, columns of results
  int stages; // copies of the tiles of columns: with 2, one is filled while the other is multiplied
  int fold;   // after so many tiles of columns the sums of a product are added to totals; 0: never
} GpuScores;

// How a kernel is scheduled on a GPU.
typedef struct GpuPlan {
  GpuTeam team;
  GpuTiles tiles;   // TEAM_TILE
  GpuOwners owners; // TEAM_OWNERS
  GpuScores scores; // TEAM_SCORES
  int threads;      // of a block
  int64_t grain;    // GpuEntry.grain
  bool blocked;     // whether the vector loop is an outer loop
  bool serial;      // whether one block runs all units, because several add to one element
  int64_t elements; // elements of the outer vector loop in a full unit; 1 without it
  bool narrow;      // whether the numbers of all items fit 31 bits
  LoopSet spread;   // the spread loops
  // TEAM_BLOCK: how many items, which are neighbours along an outer vector loop, the block computes
  // at a time (gpu_columns.c). Thread t belongs to item t % columns. A power of two up to GPU_WARP.
  int columns;
  int unit_parts; // blocks that divide the items of a unit among them, `columns` items each; 1:
                  // none
  // TEAM_BLOCK: how many blocks divide the positions of an item among them (gpu_row_parts.c). 1: a
  // block has them all.
  int row_parts;
  bool narrow_spread; // whether the numbers of all positions fit 31 bits
  LoopSet *dep;       // of each statement: the loops on whose counters it depends (stmt_loops)
  uint8_t *place;     // of each statement: a GPU_AT_ constant
  Dtype *cell;        // of each reduction: the type of its cells
  int joins;          // largest number of reductions that a block joins at a time
  // Positions of a thread for which it keeps the elements of K_ACCUMs in cells, over all items; 0:
  // they are in memory.
  int kept;
  // Where sums of f32 with cells of f64 are added up in an f32 first, the leaf, which is added to
  // the cell after every fold_step rounds of inner loop fold_loop; -1: after each position.
  bool leaves;
  int fold_loop;
  int64_t fold_step;
  // Neighbours along the vector loop that a thread computes together, with accesses of up to 16
  // bytes: 1 or GPU_VECS.
  int vecs;
} GpuPlan;
// The compute capability, times 10, of plans that are shown or simulated where no GPU is open: that
// of an H100.
enum { GPU_SHOWN_CAPABILITY = 90 };
GpuPlan gpu_plan_make(Arena *a, const Kernel *k, const GpuCodeOptions *opt);
// Lets blocks compute several items at a time if that gives a GPU more to do. In *p, where a thread
// computes an item of an outer vector loop and `joins` is set, sets team, spread, columns, threads
// and unit_parts.
// positions: the inner loops whose rounds threads may divide.
void gpu_columns_plan(const Kernel *k, LoopSet positions, GpuPlan *p);
// Returns the bytes of shared memory through which the warps of a block join `joins` results of
// each of its columns.
static inline int64_t gpu_join_shared(int joins, int64_t threads, int64_t columns) {
  return 8 * joins * (threads / GPU_WARP) * columns;
}
// Returns the threads of a team. TEAM_THREAD, TEAM_WARP or TEAM_BLOCK.
int gpu_plan_team(const GpuPlan *p);
// Returns how many blocks divide the units of one block among them; 1: there is one.
int gpu_plan_parts(const GpuPlan *p);
// Returns the bytes of scratch memory of a kernel whose items are divided (GpuPlan.row_parts).
int64_t gpu_row_scratch(const Kernel *k, const GpuPlan *p);
char *gpu_plan_print(Arena *a, const Kernel *k, const GpuPlan *p); // one line of text
// Returns why the plan is as it is, as the end of a sentence.
const char *gpu_plan_why(Arena *a, const Kernel *k, const GpuPlan *p);
// Returns how kernel k is launched. Its names are `name` and NAME_combine, allocated in a.
GpuEntry gpu_plan_entry(Arena *a, const Kernel *k, const GpuPlan *p, const char *name);
// Returns whether K_ACCUM statement s adds to elements of the partial row instead of one cell.
bool gpu_accum_in_row(const Kernel *k, int s);
// Returns whether the rounds of the loops that are not spread add to one element of s, so that a
// thread can add them up in a cell.
bool gpu_accum_has_cell(const Kernel *k, const GpuPlan *p, int s);
// Returns whether statement s is a load or store of neighbours in memory along the vector loop.
bool gpu_is_wide(const Kernel *k, const KStmt *s);
enum { GPU_COMBINE_THREADS = 256, GPU_VECS = 4, GPU_KEPT = 8, GPU_CELLS = 8 };

// The function of an ordered operation (ir/program/gpu_ordered.h).
typedef struct GpuOrdered {
  OrderedKind kind;
  Dtype type;
} GpuOrdered;
// Returns the functions that the ordered instructions of p need, each once, as the array *out,
// allocated in a. Defined in gpu_ordered.c.
uint32_t gpu_ordered_list(Arena *a, const Program *p, GpuOrdered **out);

// -- gpu_compile.c
// The functions of a module: n kernels under the given symbols, ordered operations, and those that
// every program has.
typedef struct GpuModule {
  const Kernel *const *kernel;
  const char *const *symbol;
  uint32_t n;
  const GpuOrdered *ordered;
  uint32_t nordered;
  bool judges; // it has the functions of gpu_judge.c
  const GpuCodeOptions *opt;
} GpuModule;
// Compiles a module. Returns false with the reason in
// why[0..LLVM_WHY). form: LLVM_ASSEMBLY for GPU_PTX, LLVM_OBJECT for GPU_EMULATED; LLVM_IR for
// both.
MUST_USE bool gpu_compile(const GpuModule *m, LlvmForm form, Bytes *out, char *why);

// -- gpu_divide.c
// As gpu_compile. Reports an error in d.
MUST_USE bool gpu_compile_list(const GpuModule *m, LlvmForm form, Bytes *out, Diag *d);
// Compiles a module for its target, divided among up to m->opt->threads threads. Returns the number
// of images, or 0 after an error in d. *out is an array on the heap, and so is each image.
MUST_USE uint32_t gpu_compile_all(const GpuModule *m, Bytes **out, Diag *d);

#ifdef MESHC_HAVE_LLVM
#include "codegen/cpu/emit_arith_internal.h"

// A cell, its reduction and its type.
typedef struct GpuCell {
  Op op;
  Dtype type;
  LLVMValueRef at;   // its alloca
  LLVMValueRef leaf; // alloca of an f32 to which values are added first; NULL: none
} GpuCell;

// The function that is emitted. Functions of codegen/cpu take the address of `e`, which is first.
typedef struct GpuEmit {
  Emit e;
  const GpuCodeOptions *opt;
  GpuPlan plan;
  int threads;           // threads of a block of this function
  LLVMTypeRef global;    // type of the address of global memory
  LLVMValueRef device;   // GPU_EMULATED: the GpuEmulator
  int sites;             // meetings of threads that are emitted already in this function
  LLVMValueRef thread;   // number of the thread in its block, an i64
  LLVMValueRef lane;     // number of the thread in its team, an i64
  LLVMValueRef leader;   // whether the thread is the leader of its team, an i1; NULL: it always is
  int64_t record_bytes;  // bytes of a record of the launch
  LLVMValueRef record;   // address of the record of the block's set
  LLVMValueRef chunk;    // number of the block among those of its set
  LLVMValueRef grain;    // units of a block
  LLVMValueRef from, to; // units of the block (in NAME_combine of the set): from..to-1
  GpuCell *cell;         // GPU_CELLS of each reduction (gpu_cell_count)
  int slot;              // number of the current position among those that are kept
  LLVMValueRef span[2];  // positions of the block: span[0]..span[1]-1; NULL: all
  LLVMValueRef part;     // number of the block among those that divide a unit; NULL: it is alone
  LLVMValueRef count[MAX_LOOPS]; // of each outer loop: its rounds, or blocks of the vector loop
} GpuEmit;

// -- gpu_device.c
static inline int gpu_team_threads(const GpuEmit *g) {
  return g->plan.team == TEAM_WARP ? GPU_WARP : g->threads / g->plan.columns;
}
static inline bool gpu_is_emulated(const GpuEmit *g) { return g->opt->target == GPU_EMULATED; }
LLVMValueRef gpu_thread(GpuEmit *g); // an i64, as all numbers of threads and blocks
LLVMValueRef gpu_block_x(GpuEmit *g);
LLVMValueRef gpu_block_y(GpuEmit *g);
LLVMValueRef gpu_shared(GpuEmit *g); // address of the dynamic shared memory
void gpu_barrier(GpuEmit *g);        // of the block
void gpu_warp_barrier(GpuEmit *g);
void gpu_fence(GpuEmit *g); // orders the accesses of the thread to global memory
// Emits x of another thread of the warp, for a value of any register type. kind: a GpuShuffle.
LLVMValueRef gpu_shuffle(GpuEmit *g, GpuShuffle kind, LLVMValueRef x, int lane);
// Emit a load or a store of a register of type t in the element type that memory has for it.
LLVMValueRef gpu_read(GpuEmit *g, Dtype t, LLVMValueRef at, GpuSpace space);
void gpu_write(GpuEmit *g, Dtype t, LLVMValueRef at, LLVMValueRef x, GpuSpace space);
// Emit loads or stores of n neighbours from `at` on, an address that is a multiple of
// gpu_wide_bytes.
void gpu_read_wide(GpuEmit *g, Dtype t, LLVMValueRef at, GpuSpace space, int n, LLVMValueRef *out);
void gpu_write_wide(GpuEmit *g, Dtype t, LLVMValueRef at, GpuSpace space, int n,
                    const LLVMValueRef *x);
int gpu_wide_bytes(Dtype t, int n); // the bytes of one such access
// Emits a call of the function of the GpuEmulator whose pointer is at byte `at` of it. arg[0] is
// set to the GpuEmulator.
LLVMValueRef gpu_call_device(GpuEmit *g, size_t at, LLVMTypeRef result, int n, LLVMValueRef *arg);
// Tells the emulator of an atomic operation on 4 bytes of global memory that follows.
void gpu_tell_atomic(GpuEmit *g, LLVMValueRef at);
// Emits a load of the 8 bytes at byte `at` behind address `base`, as an i64 or f64. Nobody writes
// there while the function runs.
LLVMValueRef gpu_constant(GpuEmit *g, LLVMTypeRef t, LLVMValueRef base, int64_t at);
LLVMValueRef gpu_address(GpuEmit *g, LLVMValueRef i64); // an address of global memory
// Begins the function `name` with the parameters of ir/program/gpu.h, for blocks of `threads`
// threads. GpuEmit.e has arena, module and builder. gpu_function_end ends it.
void gpu_function_begin(GpuEmit *g, const char *name, int threads);
void gpu_function_end(GpuEmit *g);

// -- gpu_fault.c
EmitReport gpu_report;

// -- gpu_memory.c
// v: number of the neighbour along the vector loop.
LLVMValueRef gpu_load(GpuEmit *g, const KStmt *s, int v);
// Emits the address of a pointer at the counters of all loops.
LLVMValueRef gpu_element(GpuEmit *g, int pointer);
void gpu_store(GpuEmit *g, const KStmt *s, int v);
void gpu_scatter(GpuEmit *g, const KStmt *s);
// Emits the address of a pointer of a K_DOT at the counters of all loops, the dot loops included.
LLVMValueRef gpu_dot_element(GpuEmit *g, int pointer);
// Emits a K_DOT by a loop of the thread.
LLVMValueRef gpu_dot(GpuEmit *g, const KStmt *s, int v);
// Emit a load or store (gpu_is_wide) of all neighbours of the statement with number `id`.
void gpu_load_wide(GpuEmit *g, int id);
void gpu_store_wide(GpuEmit *g, const KStmt *s);
// Emits whether the addresses of all such accesses of a phase are aligned, at the counters of the
// loops. phase: -1: all phases, where the outer loops alone are open.
LLVMValueRef gpu_aligned(GpuEmit *g, int phase);

// -- gpu_join.c
GpuCell gpu_cell_make(GpuEmit *g, Op op, Dtype type); // emits the allocation of a cell
// Returns how many cells reduction s has: one for each kept position or, in an outer vector loop,
// for each neighbour, else one.
int gpu_cell_count(const GpuEmit *g, int s);
// Returns the cell of reduction s at the current position, for neighbour v.
GpuCell *gpu_cell(const GpuEmit *g, int s, int v);
void gpu_cells_make(GpuEmit *g); // emits the allocation of all cells of the kernel
void gpu_cells_clear(GpuEmit *g, int s);
// Emits cell += leaf, leaf = 0 for the reductions of a phase, at the current position.
void gpu_cells_fold(GpuEmit *g, int phase);
void gpu_cell_fold(GpuEmit *g, const GpuCell *c); // the same for one cell
void gpu_cell_clear(GpuEmit *g, const GpuCell *c);
void gpu_cell_add(GpuEmit *g, const GpuCell *c, LLVMValueRef x, Dtype type); // x has type `type`
// Emits the joining of the cells that threads with equal lanes have in all warps of the block, for
// all threads.
LLVMValueRef gpu_cell_join_warps(GpuEmit *g, const GpuCell *c);
// Emits the joining of the cells of all threads of the team, or with `block` of the block. Each
// thread of it gets the results: value[i] is that of cell[i], of its type. All threads of the block
// run this code.
void gpu_cells_join(GpuEmit *g, int n, const GpuCell *cell, bool block, LLVMValueRef *value);

// -- gpu_accum.c
void gpu_accum_begin(GpuEmit *g);
void gpu_accum_add(GpuEmit *g, int s, int v);
void gpu_accum_position_begin(GpuEmit *g, int phase);
void gpu_accum_position_end(GpuEmit *g, int phase);
void gpu_accum_end(GpuEmit *g);
// Emits the number and the counters of position `slot` of a thread that keeps positions. Returns
// what if_end ends, or NULL if each thread has this position.
LLVMBasicBlockRef gpu_kept_begin(GpuEmit *g, int slot);

// -- gpu_nest.c, gpu_row_parts.c, gpu_combine.c, gpu_emit.c
// Emits the items of the units GpuEmit.from..to-1.
void gpu_items(GpuEmit *g);
// The following emit the steps of an item, in this order, at the counters of the outer loops.
// Emits the statements of the item.
void gpu_item_begin(GpuEmit *g);
// Emits the statements of a phase, and its positions, which add to the cells of the threads.
void gpu_phase_compute(GpuEmit *g, int phase);
// Emits the joining of the cells of a phase by the team. Stores the n cells in cell[0..n) and their
// results, which have the types of the cells, in value[0..n). Both arrays have room for GPU_VECS *
// nstmts. Returns n.
int gpu_phase_join(GpuEmit *g, int phase, GpuCell *cell, LLVMValueRef *value);
// Makes what gpu_phase_join has stored the values of the phase's reductions.
void gpu_phase_values(GpuEmit *g, int phase, const GpuCell *cell, const LLVMValueRef *value);
// Emits the statements of a phase outside of the inner loops once more, but none that store.
void gpu_phase_repeat(GpuEmit *g, int phase);
// Emits the block's part of an item (GpuPlan.row_parts).
void gpu_row_part(GpuEmit *g);
// Emits the statements at GPU_AT_ENTRY.
void gpu_entry_statements(GpuEmit *g);
// Emits statement `id`, one that has neither cells nor a leader. The second one emits it for
// Emit.vecs neighbours along the vector loop.
void gpu_statement(GpuEmit *g, int id);
void gpu_statement_wide(GpuEmit *g, int id);
// Emits the counters of loops in `set`, whose rounds are rounds[l], in round number i of them all.
// The last of these loops runs fastest.
void gpu_decode(GpuEmit *g, LLVMValueRef i, bool narrow, LoopSet set, const LLVMValueRef *rounds,
                LLVMValueRef *counter);
LLVMValueRef gpu_rounds(GpuEmit *g, LoopSet set, const LLVMValueRef *rounds); // their product
// Emits the body of NAME_combine for a grid of `blocks` blocks in x.
void gpu_combine(GpuEmit *g, int64_t blocks);
// Begins the function `name` for blocks of `threads` threads, whose records have `bytes` bytes. It
// does nothing with GPU_IF_GO in a step that is not to go on. Sets the record of the block's set,
// and what units of it the block computes. Returns what gpu_run_end needs.
LLVMBasicBlockRef gpu_run_begin(GpuEmit *g, const char *name, int threads, int64_t bytes);
void gpu_run_end(GpuEmit *g, LLVMBasicBlockRef done);
// Adds the functions of kernel k to the module.
void gpu_emit(LLVMModuleRef module, const Kernel *k, const char *symbol, const GpuCodeOptions *opt,
              const EmitTarget *t);

// -- gpu_ordered.c
// Adds the function of an ordered operation to the module.
void gpu_ordered_emit(LLVMModuleRef module, const GpuOrdered *o, const GpuCodeOptions *opt,
                      const EmitTarget *t);

// -- gpu_judge.c
// Adds `judge` and `move` (ir/program/gpu_step.h) to the module.
void gpu_judge_emit(LLVMModuleRef module, const GpuCodeOptions *opt, const EmitTarget *t);
#endif

#endif
