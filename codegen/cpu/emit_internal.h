// The emitter: one Kernel becomes two functions of an LLVM module, SYMBOL and SYMBOL_combine.
//
// A kernel is a loop nest (codegen/fuse/kernel.h). Words of the emitter:
//
//   unit         one round of the outer loops; a chunk is the units of one call of SYMBOL
//   phase        one pass over the inner loops of a unit; a later phase reads earlier reductions
//   vector loop  the loop whose elements are the lanes of vectors: the last inner or outer loop
//   row loop     the outer loop Kernel.rows of a contraction, of which several rounds run together
//   tile         rounds of the row loop ("rows") by vectors of the vector loop that run together
//   instance     a statement for one row and one vector of a tile
//   body         the code of one tile: the main tile, or a smaller one for what is left over
//   cell         the accumulator of an instance of a K_REDUCE or K_ACCUM: stack memory, which
//                LLVM turns into a register
//   leaf, middle, total   the levels of an accumulator of a long sum: values are added to the leaf,
//                which is added to the middle (a fold), which is added to the total, an f64
//   partial row  memory of a chunk with the results of its K_ACCUMs; SYMBOL_combine joins the rows
//   guard        the bool argument of a load: false where a window is outside of its tensor
//   walk         an address computed as a number of elements, without memory behind it
//   slot         a run-time scalar of the call, such as the valid extent of a loop
//   slab         a part of the inner loops; it is done for all units of a run before the next slab
//   run          successive units that keep their sums in memory between two slabs (emit_units.c)
//
// Each statement is emitted once for each instance. A value that is equal in all rows of a tile, or
// in all its vectors, is emitted once for all of them. An example is a load whose address does not
// depend on the row loop.
//
// Files, each using only those before it:
//
//   emit_plan.c, winograd_plan.c, product_plan.c, fold.c, ahead_plan.c   decide lanes, tile, places
//                           of statements, slabs, folds and prefetches (no LLVM)
//   emit_value.c            constants, types, conversions, instances
//   emit_flow.c             blocks, conditionals, loops, masks
//   emit_position.c         positions that a window reads, and whether they are inside a tensor
//   emit_math.c, emit_gates.c, emit_pow.c, emit_trig.c   elementary functions
//   emit_random.c           random draws
//   emit_op.c               one rule for each row of ir/graph/ops.def
//   emit_memory.c           loads, stores, gathers, scatters
//   emit_cells.c, emit_fold.c, emit_reduce.c   accumulators, their folds, K_REDUCE and K_ACCUM
//   emit_nest.c             statements, inner loops, guards
//   emit_winograd.c, emit_winograd_grad.c   3x3 convolutions by Winograd's algorithm
//   emit_pack.c, emit_product.c   products: packed factors, blocks, register tiles
//   emit_units.c            outer loops: units, register tiles, slabs
//   emit_combine.c, emit.c  SYMBOL_combine; the functions of a kernel
//   emit_freeze.c           keeps the analysis of an inner loop's addresses to that loop
#ifndef CODEGEN_EMIT_H
#define CODEGEN_EMIT_H

#include "codegen/fuse/kernel.h"

// -- emit_plan.c: how a kernel is scheduled on a CPU --------------------------------------------

enum { TILE_ROWS = 14, TILE_VECS = 4, TILE = TILE_ROWS * TILE_VECS }; // largest register tile
enum { ZERO_BYTES = 4096 }; // bytes of the memory at Emit.zeros

// The place of a statement: where its code is emitted. PLACE_ENTRY: at the start of SYMBOL, once a
// call. PLACE_UNIT: once for each unit (one round of the outer loops), or once for all units of a
// tile. PLACE_PHASE: once for each pass over the inner loops, before them but inside an outer
// vector loop. PLACE_LOOP + i: in the body of inner loop i.
enum { PLACE_ENTRY, PLACE_UNIT, PLACE_PHASE, PLACE_LOOP };

// The processor for which code is emitted.
typedef struct EmitTarget {
  int bits; // bits of a vector register
  bool fma; // whether the processor has fused multiply-add
  bool f16; // whether the processor has instructions that convert between f16 and f32
  int opt;  // level of optimization of LLVM's code generation, 0 to 3
} EmitTarget;

// When an accumulator of a long sum is folded: its leaf is added to the next level and becomes the
// identity. FOLD_UNIT: after every `step` units (rounds of the outer loops). FOLD_VECTOR: after
// every `step` vectors of an outer vector loop. FOLD_LOOP + i: after every `step` rounds of inner
// loop i. fold.c decides.
enum { FOLD_NEVER, FOLD_UNIT, FOLD_VECTOR, FOLD_LOOP };
typedef struct Fold {
  int place;
  int64_t step; // units, vectors or rounds between two folds
  // if not 0: after so many rounds there is a fold, and `step` counts from 0 again
  int64_t period;
  bool wide; // whether the accumulator has an f64 total beside leaf and middle
} Fold;

// One axis of the image of a convolution (winograd_plan.c). A patch of the image has its position 0
// where the window of result 0 begins; it may begin before the image.
typedef struct WinogradAxis {
  int loop;            // the outer loop over the results along this axis
  int64_t size;        // results
  int64_t image;       // elements between two neighbours of the image
  int64_t weights;     // elements between two taps of the weights; in a gradient, of the slope
  bool flip;           // whether the window runs backwards: position = result - tap
  int64_t first, last; // positions first..last-1 are inside the image, all others are 0
} WinogradAxis;

// A kernel that is a 3x3 convolution, the sum of image * weights over ky, kx and the channels, or
// the gradient of its weights (Kernel.images), the sum of image * slope over images, y and x. The
// slope is the gradient of the results.
typedef struct WinogradForm {
  bool gradient;
  int sum, image, weights; // statements: the sum, the load of the image, that of weights or slope
  WinogradAxis axis[2];    // y and x
  int64_t channels;        // channels of the image
  int64_t columns;         // channels of the results that are computed together
  int64_t weights_channel; // elements between two channels of the image in the weights
  int64_t tiles[2];        // tiles of 2x2 results along y and x
  int64_t all_tiles;       // tiles of all images
  int64_t run_rows;        // rows of tiles in a run
} WinogradForm;

// How a convolution is computed by Winograd's algorithm (emit_winograd.c).
typedef struct WinogradPlan {
  bool on;
  WinogradForm form;
  // Register tile of its products: tiles of the run (in a gradient, channels) by vectors of
  // columns.
  int rows, vecs;
  int64_t depth; // most channels in one chain of additions
} WinogradPlan;
// How a product (kernel_product) is computed (emit_product.c).
typedef struct ProductPlan {
  bool on;          // whether the kernel is computed as a product
  ProductForm form; // span: the rows of a run are rounds of the outer loops span..Kernel.rows
  int64_t depth;    // most summed elements of a slab
  bool whole;       // whether there is only one slab, whatever the run-time extents of loops are
  // The loop along which a factor is loaded in vectors, to be packed. For the left factor this is
  // the last inner loop or the rows loop, for the right one an inner loop or the vector loop.
  int left_lanes, right_lanes;
  bool left_by_rows;        // whether left_lanes is the rows loop
  int rows_left, vecs_left; // rows and vectors of the tiles that are left over; 0: none
} ProductPlan;

typedef struct CpuPlan {
  int lanes;      // elements of a vector, equal for all types of the kernel
  int rows, vecs; // size of the main tile: rounds of the row loop, vectors of the vector loop
  int innermost;  // place of inner stores, reductions, checks of indices
  bool vec_outer; // whether the vector loop is the last outer loop
  LoopSet *dep;   // of each statement: the loops on whose counters it depends (stmt_loops)
  uint8_t *place; // of each statement: a PLACE_ constant
  // A kernel with slabs splits its inner loops: inner loops 0..slab_loop-1 and steps of slab_step
  // rounds of inner loop slab_loop are loops around the tiles (emit_units.c).
  int slab_loop;
  int64_t slab_step;     // 0: the kernel has no slabs
  int64_t run;           // upper limit of the units of a run
  bool slab_wide;        // whether f32 sums are stored as f64 between two slabs
  int64_t scratch_row;   // elements of a unit in the memory for sums between two slabs
  WinogradPlan winograd; // if `on`, the sums of a run are computed by emit_winograd.c
  ProductPlan product;   // if `on`, slab_loop and slab_step say what a slab of the product is
  Fold *fold;            // of each statement: when its accumulator is folded
  KernelRows kept;       // which values are kept from one phase to later ones
  int32_t *ahead;        // of each K_LOAD: how many bytes ahead it prefetches; 0: it does not
} CpuPlan;

// Returns the plan of kernel k for target t. The arrays of the plan are allocated in arena a.
CpuPlan cpu_plan_make(Arena *a, const Kernel *k, const EmitTarget *t);
// Returns an array, allocated in arena a, with the Fold of each statement: when its accumulator is
// folded. All other fields of plan p must be set. Defined in fold.c.
Fold *fold_plan(Arena *a, const Kernel *k, const CpuPlan *p);
// Returns CpuPlan.ahead, allocated in arena a. The tile, the slabs and the rows that are kept of
// plan p must be set. Defined in ahead_plan.c.
int32_t *ahead_plan(Arena *a, const Kernel *k, const CpuPlan *p);

// -- winograd_plan.c
// Returns whether kernel k is a 3x3 convolution that is faster by Winograd's algorithm, or a kernel
// of images (Kernel.images). If so, sets *f.
bool winograd_form(const Kernel *k, WinogradForm *f);
int64_t winograd_grain(const WinogradForm *f); // kernel_grain of such a kernel
// Plans the computation of k by Winograd's algorithm in p, if winograd_form returns true. Lanes and
// register tile of p must be set.
void winograd_plan(const Kernel *k, const EmitTarget *t, CpuPlan *p);

// -- product_plan.c
// Plans the computation of k as a product in p, if it is one (kernel_product). The other fields of
// p must be set.
void product_plan(const Kernel *k, const EmitTarget *t, CpuPlan *p);
// Marks in `needed` the statement `root` and all statements that it depends on.
void needed_stmts(const Kernel *k, int root, bool *needed);

// Returns whether statement `stmt` is a load whose guard is equal in all lanes. The guard is a
// bool: whether the position that the load reads is inside its tensor.
bool load_is_guarded(const Kernel *k, const CpuPlan *p, int stmt);
// Returns whether `stmt` is a load inside the inner loops of phase `phase` whose guard is equal in
// all lanes. The guard is a bool: whether the position that the load reads is inside its tensor.
bool is_guard_use(const Kernel *k, const CpuPlan *p, int stmt, int phase);
// Returns the innermost place at which a guard of the phase is computed, or -1 if it has none. A
// guard is the bool argument of a load; only loads for which is_guard_use is true count.
int guards_place(const Kernel *k, const CpuPlan *p, int phase);
// Returns whether rounds in which the guard of the loads is false can be skipped. That is so if all
// loads for which is_guard_use is true share one guard, and such rounds change no reduction of the
// phase.
bool guards_decide(const Kernel *k, const CpuPlan *p, int phase);

#ifdef MESHC_HAVE_LLVM
#include "codegen/cpu/llvm_api_internal.h"

// The numbers of a run that statements use.
typedef enum RunNumber { RUN_STEP, RUN_SEED, RUN_REPEAT, RUN_NUMBERS } RunNumber;

struct Emit;
// Emits a report of a fault: its code, an i32, and the value and its position, both i64.
typedef void EmitReport(struct Emit *e, LLVMValueRef code, LLVMValueRef value,
                        LLVMValueRef position);

// The back end for GPUs (codegen/gpu) uses the fields that emit_value.c, emit_flow.c,
// emit_position.c, emit_op.c and the files of elementary functions read.
typedef struct Emit {
  Arena *arena;
  const Kernel *k;
  const EmitTarget *target;
  CpuPlan plan;
  LLVMContextRef ctx;
  LLVMModuleRef module;
  LLVMBuilderRef b;
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr, none;
  // the function that is emitted; its parameter, the address of a KernelCall
  LLVMValueRef fn, call;
  LLVMBasicBlockRef allocas;        // first block of the function, with allocas only
  LLVMValueRef slots, nums, status; // addresses of the call's run-time scalars, numbers, Status
  EmitReport *report;               // emits a report of a fault
  // Values that are loaded already, instead of where they are used. NULL: they are not.
  const LLVMValueRef *loaded_slot, *loaded_num, *loaded_run;
  LLVMValueRef *start; // of each pointer: as the caller passes it; readable
  LLVMValueRef *base;  // of each pointer: the address when all loop counters are 0
  LLVMValueRef *walk;  // of each walk: its value when all loop counters are 0, an i64
  // of each pointer: the address for the counters of the open loops; behind them the row addresses
  // that row_address returns
  LLVMValueRef *addr;
  LLVMValueRef zeros;           // zeros; rows of a tile that are outside of a window read these
  LLVMValueRef *cell;           // of each instance: its accumulator; if that has levels, the leaf
  LLVMValueRef *middle, *total; // of each instance: the other levels of a long sum
  LLVMValueRef *leaves; // of each statement: folds since the last addition to the total, i64
  LLVMValueRef units;   // number of units since the last fold, i64
  LLVMValueRef *value;  // of each instance: the value of the statement
  LLVMValueRef partial; // address of the partial row of this chunk
  LLVMValueRef extent[MAX_LOOPS];  // valid rounds of each loop, i64
  LLVMValueRef counter[MAX_LOOPS]; // of each loop: at row 0, vector 0, lane 0 of the tile
  int rows, vecs;                  // size of the tile whose body is emitted
  bool in_vector;                  // whether the body is inside the vector loop
  bool guards_hold_here; // whether the body runs only where guards equal in all lanes are true
  bool slab;             // whether the body is part of a slab
  // The rounds of inner loop CpuPlan.slab_loop that are in this slab.
  LLVMValueRef slab_from, slab_to;
  LLVMValueRef *row;         // of each statement whose row is kept (KernelRows): address of the row
  LLVMValueRef run, scratch; // number of the run's first unit; memory for the sums of the run
  LLVMValueRef unit;         // number of the current unit, in a tile that of row 0
  LLVMValueRef block_from;   // of an outer vector loop: the first element of the unit
  // The lanes of the current instance that are in use, and their number. Both NULL: all lanes.
  LLVMValueRef mask, active;
  LLVMValueRef last_mask, last_active; // mask and active of the last vector of the tile
} Emit;

// Returns the index of statement s for row r and vector v of a tile. It is used in these arrays of
// Emit: cell, middle, total, value.
static inline int instance_id(int s, int r, int v) { return s * TILE + r * TILE_VECS + v; }

// -- emit_value.c
// "In the shape of x" means: a scalar if x is a scalar, else a vector of as many lanes. Functions
// that return a constant take the type of the result. If that is a vector, all its lanes hold the
// constant.
bool is_vector(LLVMValueRef v);
// Returns type `element` if the value `shape` is a scalar, else the type of a vector of `element`
// with as many lanes as `shape`.
LLVMTypeRef type_like(Emit *e, LLVMTypeRef element, LLVMValueRef shape);
LLVMTypeRef type_vector(Emit *e, LLVMTypeRef element);
LLVMValueRef const_int(LLVMTypeRef t, int64_t x);
LLVMValueRef const_real(LLVMTypeRef t, double x);
// Returns a constant vector with the lanes 0, stride, 2 stride, and so on.
LLVMValueRef const_lanes(Emit *e, LLVMTypeRef element, int64_t stride);
LLVMValueRef i64_of(Emit *e, int64_t x);
// Returns v if it is a vector, else a vector of CpuPlan.lanes elements that all hold v.
LLVMValueRef emit_splat(Emit *e, LLVMValueRef v);
// Emits an alloca of type t in the block Emit.allocas. Returns its address.
LLVMValueRef emit_alloca(Emit *e, LLVMTypeRef t);
// Emits a call of the LLVM intrinsic `name` with n arguments. types: the types on which the
// intrinsic is overloaded.
LLVMValueRef emit_intrinsic(Emit *e, const char *name, int ntypes, LLVMTypeRef *types, int n,
                            LLVMValueRef *args);
// Emits a call of an intrinsic that is overloaded on the type of its first argument alone.
LLVMValueRef emit_call(Emit *e, const char *name, int n, LLVMValueRef *args);
LLVMValueRef emit_unary(Emit *e, const char *name, LLVMValueRef x);
LLVMValueRef fast(LLVMValueRef v);        // sets reassoc, nsz, contract in v
LLVMValueRef contracting(LLVMValueRef v); // sets the fast-math flag contract in v
// Emits a load of the KernelCall's field at byte `at`, of type t.
LLVMValueRef call_field(Emit *e, LLVMTypeRef t, size_t at);
LLVMValueRef slot_value(Emit *e, int slot);         // loads run-time scalar `slot`, an i64
LLVMValueRef number_value(Emit *e, int number);     // loads a numeric argument, an f64
LLVMValueRef run_number(Emit *e, RunNumber n);      // loads a number of the run, an i64
LLVMValueRef known_number(Emit *e, const KStmt *s); // emits the value of a K_NUM statement
// Returns whether the elements of loop l are the lanes of vectors. Code without vectors has none.
bool has_lanes(const Emit *e, int l);
void emit_types(Emit *e); // sets the types of Emit, in its context
// Returns the scalar type in which registers hold elements of type t: f32 for bf16, i32 for u8.
LLVMTypeRef reg_type(Emit *e, Dtype t);
// Returns the type in which registers hold an element of type t (reg_type) or, with `vector`,
// CpuPlan.lanes such elements.
LLVMTypeRef reg_shape(Emit *e, Dtype t, bool vector);
// Returns the type that one element of type t has in memory.
LLVMTypeRef mem_type(Emit *e, Dtype t);
LLVMValueRef from_memory(Emit *e, Dtype t, LLVMValueRef raw); // converts mem_type to reg_type
LLVMValueRef to_memory(Emit *e, Dtype t, LLVMValueRef v);     // converts reg_type to mem_type
// Emits the conversion that cast(v, to) of the language does. Floats become integers by truncation;
// those out of range become the nearest integer of the type, and NaN becomes 0. Floats that become
// bf16 or f16 are rounded to that type.
LLVMValueRef emit_convert(Emit *e, LLVMValueRef v, Dtype from, Dtype to);
// Emits v, an operand of type `from`, in the register type of `to`. Nothing saturates: integers
// keep their low bits. Floats whose register type is equal stay unchanged.
LLVMValueRef emit_coerce(Emit *e, LLVMValueRef v, Dtype from, Dtype to);
// Returns whether the value of statement s depends on the counter of loop `loop`. Returns false if
// `loop` is -1.
bool depends(const Emit *e, int s, int loop);
// Returns the value of statement s for row r and vector v of a tile.
LLVMValueRef value_at(Emit *e, int s, int r, int v);
// Returns argument number `which` of statement s for row r and vector v of a tile, converted to
// `type` by emit_coerce.
LLVMValueRef operand_at(Emit *e, const KStmt *s, int which, Dtype type, int r, int v);
// Returns argument number `which` of statement s for row r and vector v of a tile, as an i64
// multiplied by KStmt.step.
LLVMValueRef scaled_operand(Emit *e, const KStmt *s, int which, int r, int v);
// Returns the counter of loop l, an i64, for row r of a tile and lane 0 of its vector v.
LLVMValueRef counter_at(Emit *e, int l, int r, int v);

// -- emit_flow.c --------------------------------------------------------------------------------
LLVMBasicBlockRef emit_block(Emit *e);
// Begins `if (condition) { ... }`. The code that is emitted until the call of if_end is the body.
// Returns the block that follows the body; the caller passes it to if_end.
LLVMBasicBlockRef if_begin(Emit *e, LLVMValueRef condition);
void if_end(Emit *e, LLVMBasicBlockRef done);
// The loop `for (var = from; var < to; var += step) { ... }`. Code that is emitted between
// loop_begin and loop_end is its body.
typedef struct EmitLoop {
  LLVMBasicBlockRef head, done;
  LLVMValueRef var, to, step;
} EmitLoop;
EmitLoop loop_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step);
EmitLoop loop_to(Emit *e, int64_t to); // begins a loop from 0 to `to` in steps of 1
void loop_end(Emit *e, const EmitLoop *l);
// A loop that divides an interval into blocks of equal length; the last one may be shorter.
typedef struct Blocks {
  bool many; // false: the interval is one block, and no loop is emitted
  EmitLoop loop;
  LLVMValueRef from, to; // the interval of the current block
} Blocks;
// Begins a loop that divides the interval from..to into blocks of `step` elements each. If step is
// 0, there is one block and no loop.
Blocks blocks_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t step);
void blocks_end(Emit *e, const Blocks *b);
// Emits code that adds 1 to *counter and resets it to 0 when it reaches `period`. Returns an i1:
// whether it was reset.
LLVMValueRef count_round(Emit *e, LLVMValueRef counter, int64_t period);
// Sets Emit.last_mask so that only the first `left` lanes are in use in the last vector of the
// tile. All lanes are in use if `left` is at least their number.
void emit_mask(Emit *e, LLVMValueRef left);
void emit_mask_off(Emit *e);

// -- emit_position.c: K_POSITION, K_QUOTIENT, K_INSIDE ------------------------------------------
LLVMValueRef emit_position(Emit *e, const KStmt *s, int r, int v);
LLVMValueRef emit_quotient(Emit *e, const KStmt *s, int r, int v);
LLVMValueRef emit_inside(Emit *e, const KStmt *s, int r, int v);

// -- emit_math.c, emit_gates.c, emit_pow.c, emit_trig.c: x is f32 or f64, scalar or vector -------
typedef LLVMValueRef MathFn(Emit *e, LLVMValueRef x);
#define MATH_FUNCTIONS(f)                                                                          \
  f(exp) f(expm1) f(log) f(log1p) f(tanh) f(sigmoid) f(softplus) f(erf) f(sin) f(cos) f(silu)      \
      f(silu_slope) f(gelu) f(gelu_slope) f(gelu_tanh) f(gelu_tanh_slope)
#define DECLARE(name) MathFn math_##name;
MATH_FUNCTIONS(DECLARE)
#undef DECLARE
typedef LLVMValueRef MathFn2(Emit *e, LLVMValueRef x, LLVMValueRef y);
MathFn2 math_pow, math_mod, math_floor_div;
// Emits the quotients of the lanes of a vector and one scalar, on a processor that has fused
// multiply-add.
LLVMValueRef math_quotients(Emit *e, LLVMValueRef a, LLVMValueRef divisor);

// -- emit_random.c
// Emits the random numbers that statement s draws for the elements with numbers x, of type i64.
LLVMValueRef emit_draw(Emit *e, const KStmt *s, LLVMValueRef x);

// -- emit_op.c
// Emits a statement of kind K_OP (arithmetic and the like) for row r and vector v of a tile.
LLVMValueRef emit_op(Emit *e, const KStmt *s, int r, int v);
// Emits op(a, b), one step of a reduction, for elements of type t.
LLVMValueRef emit_join(Emit *e, Op op, Dtype t, LLVMValueRef a, LLVMValueRef b);

// -- emit_memory.c
LLVMValueRef emit_load(Emit *e, const KStmt *s, int r, int v);
void emit_store(Emit *e, const KStmt *s, int r, int v);
void emit_scatter(Emit *e, const KStmt *s, int r, int v);
// Emit a load or a store at address `at`. It accesses one element of type t or, for a vector, the
// lanes of neighbours that Emit.mask selects. The value has the register type of t.
LLVMValueRef load_raw(Emit *e, Dtype t, LLVMValueRef at, bool vector);
void store_raw(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef v);
// Emits stores of lane i of v to element i * stride from `at`, for all lanes i.
void scatter_raw(Emit *e, Dtype t, LLVMValueRef at, int64_t stride, LLVMValueRef v);
// Returns a pointer to the entry of Emit.addr with the address of pointer p in row r of a tile. The
// entry is NULL, unless rows_of_zeros (emit_nest.c) has set it for rows that may be outside of
// their tensor.
static inline LLVMValueRef *row_address(Emit *e, int p, int r) {
  return &e->addr[e->k->nptr + p * TILE_ROWS + r];
}

// -- emit_cells.c: accumulators. s is the number of a K_REDUCE or K_ACCUM statement.
LLVMValueRef emit_identity(Emit *e, Op op, Dtype t, bool vector);
// Emits op over all lanes of v.
LLVMValueRef emit_horizontal(Emit *e, Op op, Dtype t, LLVMValueRef v);
bool vector_is_inner(const Emit *e);
// Returns whether the accumulators of K_ACCUM s, a reduction over all units, are cells (stack
// memory that becomes registers). Otherwise s adds to elements of the partial row, the memory with
// the results of a chunk.
bool accum_in_registers(const Emit *e, int s);
bool cell_is_vector(const Emit *e, int s);
// Returns the LLVM type of a cell of reduction s for elements of type t: a vector if
// cell_is_vector(e, s), else a scalar.
LLVMTypeRef cell_type(Emit *e, int s, Dtype t);
int cell_vecs(const Emit *e, int s); // returns the cells that one row of the main tile has
// body_rows returns for how many rows of a tile the current body adds to reduction s. body_vecs
// returns how many accumulators each of these rows has.
int body_rows(const Emit *e, int s);
int body_vecs(const Emit *e, int s);
// A function that each_cell calls for the cells of reduction s, in the first `rows` rows and `vecs`
// vectors of a tile. `at` is the index of the cell in Emit.cell (instance_id).
typedef void CellVisitor(Emit *e, int s, int at);
void each_cell(Emit *e, int s, int rows, int vecs, CellVisitor *visit);
// Returns the address of element `index` of reduction s in the partial row, the memory with the
// results of a chunk. If index is NULL, returns the address of element 0.
LLVMValueRef partial_at(Emit *e, int s, LLVMValueRef index);
// Returns the address of the f64 total of element `index` of reduction s. `row` is the address of
// the leaf of element 0, to which values are added. The totals lie in memory behind all leaves.
LLVMValueRef wide_at(Emit *e, int s, LLVMValueRef row, LLVMValueRef index);

// -- emit_fold.c: levels of the accumulator of statement s. at: an index of instance_id.
void fold_make(Emit *e, int s, int at);                        // emits allocas of middle and total
void level_clear(Emit *e, int s, Dtype t, LLVMValueRef level); // emits level = identity
void fold_clear(Emit *e, int s, int at);                       // emits middle = total = identity
void folds_begin(Emit *e, int s);                              // emits leaves[s] = 0
// Emits stores of identities to the f64 totals of reduction s in the partial row, the memory with
// the results of a chunk.
void wide_clear(Emit *e, int s);
// The body of a loop that each_of_row emits over elements from..from + n - 1 of reduction s in the
// partial row, a chunk's results. Emits the work for element `index` or, with `vector`, for the
// vector of elements that begins there.
typedef void RowBody(Emit *e, int s, LLVMValueRef index, bool vector);
void each_of_row(Emit *e, int s, LLVMValueRef from, int64_t n, bool vector, RowBody *body);
Dtype fold_type(const Emit *e, int s); // returns the type of the last level of s
// Emits the joining of the leaf, middle and total of a long sum to one value. Returns the value, of
// type fold_type.
LLVMValueRef fold_value(Emit *e, int s, int at);
// Returns x, a value of type fold_type (the last level of sum s), converted to the type of
// statement s.
LLVMValueRef fold_narrow(Emit *e, int s, LLVMValueRef x);
// Returns the Fold with the smallest step among the accumulators that are folded at `place`. If
// `place` is an inner loop, only those of statements in `phase` count. If there is none, returns a
// Fold of step 0.
const Fold *fold_most(const Emit *e, int place, int phase);
void fold_now(Emit *e, int place, int phase); // emits the folds that have this place
void fold_units_begin(Emit *e);               // allocates Emit.units, and stores 0 to it
// Emits code that counts a unit (or a tile of units) in Emit.units, and folds long sums after every
// Fold.step of them.
void fold_units(Emit *e);

// -- emit_reduce.c
void cells_make(Emit *e);  // emits allocas of all cells
void accum_begin(Emit *e); // emits identities for the accumulators of all K_ACCUMs
void accum_end(Emit *e);   // emits stores of the cells of all K_ACCUMs to the partial row
// Emits stores of identities to the accumulators of all reductions of a phase, a pass over the
// inner loops.
void reduce_begin(Emit *e, int phase);
// Sets Emit.value of all reductions of a phase, a pass over the inner loops, to the results in
// their accumulators.
void reduce_end(Emit *e, int phase);
void emit_reduce(Emit *e, int s, int r, int v);
void emit_accum(Emit *e, int s, int r, int v);
// The scratch, Emit.scratch, keeps the sums of the units of a run between two slabs, which are
// parts of the inner loops. Returns the statement whose sums these are.
int scratch_stmt(const Emit *e);
Dtype scratch_type(const Emit *e, int s); // returns the type of the elements of the scratch
// Emits an allocation of `elements` elements of type t, aligned for vectors. Returns its address.
LLVMValueRef scratch_make(Emit *e, Dtype t, int64_t elements);
// Emits stores of 0 to the sums of `units` units (rounds of the outer loops) in the scratch.
void scratch_clear(Emit *e, LLVMValueRef units);
void reduce_spill(Emit *e); // emits the addition of the tile's cells to Emit.scratch
void reduce_fetch(Emit *e); // emits loads of the tile's sums to Emit.value

// -- emit_nest.c
void emit_stmt(Emit *e, int id); // emits the instances of statement `id`
// Emits all statements of a place, a PLACE_ constant. If the place is PLACE_PHASE or later, emits
// only the statements of that phase.
void emit_statements(Emit *e, int place, int phase);
// Emits the loops of a phase, which is one pass over the inner loops. The caller emits reduce_end
// afterwards: in a kernel with slabs (parts of the inner loops) only after the last slab.
void emit_phase(Emit *e, int phase);
// Enters loop l: adds counter * stride to all addresses that depend on loop l. Returns a copy of
// the addresses before the addition, which leave_loop restores.
LLVMValueRef *enter_loop(Emit *e, int l, LLVMValueRef counter);
void leave_loop(Emit *e, LLVMValueRef *saved);
LLVMValueRef *addresses_save(Emit *e);
// A function that emits the code of one tile (the rows and vectors that run together) in phase
// number `phase`.
typedef void Body(Emit *e, int phase);
// Emits the vector loop over elements from..to: whole tiles first, then the elements left over,
// with lanes behind `to` masked. `span` is to - from if that is known when code is emitted, else
// -1.
void vector_loop(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t span, Body *body, int phase);

struct Units;
// -- emit_winograd.c
// Emits units lo..hi-1 of a kernel that is computed by Winograd's algorithm.
void units_as_winograd(Emit *e, const struct Units *u, LLVMValueRef lo, LLVMValueRef hi);

// -- emit_winograd_grad.c
// Emits units lo..hi-1 of a kernel of images (Kernel.images), and adds their sums to the partial
// row of the chunk.
void units_as_winograd_grad(Emit *e, const struct Units *u, LLVMValueRef lo, LLVMValueRef hi);

// -- emit_pack.c
// Emits code that packs the left factor of a product for `rows` rows and the summed elements of the
// current slab. The counters of the span (ProductForm) are those of the first row, in the memory at
// u. to: the address of the packed elements, which are left_row_step elements apart along the rows
// and left_depth_step along the summed loops.
void pack_left(Emit *e, const struct Units *u, LLVMValueRef rows, LLVMValueRef to);
// Emits code that packs the right factor for the current slab and the columns from..to: panels of
// lanes * vecs columns, each with a row of columns for each summed element.
void pack_right(Emit *e, LLVMValueRef from, LLVMValueRef columns_end, LLVMValueRef to);
// Returns the elements between two neighbours along the rows, and along the summed loops, in the
// packed left factor.
int64_t left_row_step(const Emit *e);
int64_t left_depth_step(const Emit *e);
int64_t left_elements(const Emit *e);  // returns the elements of a packed tile of the left factor
int64_t right_elements(const Emit *e); // returns the elements of the packed right factor

// -- emit_product.c
// Emits units lo..hi-1 of a kernel that is computed as a product.
void units_as_product(Emit *e, const struct Units *u, LLVMValueRef lo, LLVMValueRef hi);

// -- emit_units.c, emit_combine.c, emit.c
// The counters of the outer loops, for the current unit. If the vector loop is an outer loop, a
// unit has a block of Kernel.block of its elements.
typedef struct Units {
  // of each outer loop: memory of its counter, in rounds, or blocks of the vector loop
  LLVMValueRef cell[MAX_LOOPS];
  // of each outer loop: the number of its rounds, or of blocks of the vector loop
  LLVMValueRef count[MAX_LOOPS];
} Units;
// Emits stores of the counters of the outer loops in unit number `unit`. A unit is one round of
// these loops.
void units_decode(Emit *e, const Units *u, LLVMValueRef unit);
// Emits: counter of loop `last` += n, with a carry to the loop before it, and so on up to loop
// `first`.
void units_advance(Emit *e, const Units *u, int first, int last, int64_t n);
// Emits a loop over units lo..hi-1 in runs, sequences of at most CpuPlan.run units. No run goes
// beyond a multiple of `round`. `body` emits units lo..hi-1 of one run; it gets `context`.
typedef void RunBody(Emit *e, const void *context, LLVMValueRef lo, LLVMValueRef hi);
void each_run(Emit *e, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef round, RunBody *body,
              const void *context);
// Emits units lo..hi-1 after their last slab: the phases after the first, with the sums in the
// scratch.
void units_after_slabs(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi);
void emit_units(Emit *e, LLVMValueRef lo, LLVMValueRef hi); // emits units lo..hi-1, for lo < hi
void emit_combine(Emit *e);                                 // emits the body of SYMBOL_combine
// Emits the part of pointer p's offset that no loop counter changes, in elements. That is the
// constant offset, plus run-time scalars of the call times their strides.
LLVMValueRef walk_start(Emit *e, const KPtr *p);
// Adds the function `symbol` of kernel k to the module, and symbol_combine if the kernel has
// reductions over all units (K_ACCUM).
void emit_kernel(LLVMModuleRef module, const Kernel *k, const char *symbol, const EmitTarget *t);
// Freezes the addresses that a block takes from another block, in all functions of a module whose
// accumulators are registers already. The values of a kernel do not change.
void freeze_addresses(LLVMModuleRef module);
#endif

#endif
