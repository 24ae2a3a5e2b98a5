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
//   slab, run    see emit_units.c
//
// Each statement is emitted once for each instance. A value that is equal in all rows or in all
// vectors of the tile has one instance for them: a load that does not move along the rows is
// emitted once for all of them.
//
// Files, each using only those before it:
//
//   emit_plan.c, fold.c     decide lanes, tile, places of statements and folds (no LLVM)
//   emit_value.c            constants, types, conversions, instances
//   emit_flow.c             blocks, conditionals, loops, masks
//   emit_position.c         positions that a window reads, and whether they are inside a tensor
//   emit_math.c, emit_gates.c, emit_pow.c, emit_trig.c   elementary functions
//   emit_random.c           random draws
//   emit_op.c               one rule for each row of ir/graph/ops.def
//   emit_memory.c           loads, stores, gathers, scatters
//   emit_cells.c, emit_fold.c, emit_reduce.c   accumulators, their folds, K_REDUCE and K_ACCUM
//   emit_nest.c             statements, inner loops, guards
//   emit_units.c            outer loops: units, register tiles, slabs
//   emit_combine.c, emit.c  SYMBOL_combine; the functions of a kernel
#ifndef CODEGEN_EMIT_H
#define CODEGEN_EMIT_H

#include "codegen/fuse/kernel.h"

// -- emit_plan.c: how a kernel is scheduled on a CPU --------------------------------------------

enum { TILE_ROWS = 14, TILE_VECS = 4, TILE = TILE_ROWS * TILE_VECS }; // largest register tile
enum { ZERO_BYTES = 4096 }; // size of the memory at Emit.zeros

// The place of a statement: where its code is emitted. PLACE_LOOP + i is the body of inner loop i.
//   PLACE_ENTRY   at the start of SYMBOL: once a call
//   PLACE_UNIT    before the phases: once a unit, or once a tile
//   PLACE_PHASE   before the inner loops, but inside an outer vector loop: once a phase
enum { PLACE_ENTRY, PLACE_UNIT, PLACE_PHASE, PLACE_LOOP };

// The processor for which code is emitted.
typedef struct EmitTarget {
  int bits; // size of a vector
  bool fma; // the processor has fused multiply-add
  bool f16; // the processor has instructions that convert between f16 and f32
  int opt;  // level of optimization, 0 to 3
} EmitTarget;

// The place of the fold of an accumulator (fold.c): after every Fold.step units, vectors of an
// outer vector loop, or rounds of inner loop i (FOLD_LOOP + i).
enum { FOLD_NEVER, FOLD_UNIT, FOLD_VECTOR, FOLD_LOOP };
typedef struct Fold {
  int place;
  int64_t step;   // units, vectors or rounds between two folds
  int64_t period; // after so many rounds the count of `step` starts anew; 0: it never does
  bool wide;      // the accumulator has a total, not only a leaf and a middle
} Fold;

typedef struct CpuPlan {
  int lanes;      // elements of a vector, the same for all types of the kernel
  int rows, vecs; // size of the main tile
  int innermost;  // place of inner statements that write memory, reduce or report errors
  bool vec_outer; // the vector loop is the last outer loop
  LoopSet *dep;   // by statement: the loops on whose counters it depends (stmt_loops)
  uint8_t *place; // by statement
  // With slabs, inner loops 0..slab_loop run outside of the tiles, and the last of these loops runs
  // slab_step rounds at a time (emit_units.c).
  int slab_loop;
  int64_t slab_step; // 0: the kernel has no slabs
  int64_t run;       // upper limit of the units of a run
  bool slab_wide;    // f32 sums are stored as f64 between two slabs
  Fold *fold;        // by statement
} CpuPlan;

// Returns the plan of kernel k for target t. Its arrays are allocated in a.
CpuPlan cpu_plan_make(Arena *a, const Kernel *k, const EmitTarget *t);
// fold.c. Returns the folds of all statements, for a plan p of which only `fold` is not set.
Fold *fold_plan(Arena *a, const Kernel *k, const CpuPlan *p);

// Returns whether statement `stmt` is a load whose guard is equal in all lanes.
bool load_is_guarded(const Kernel *k, const CpuPlan *p, int stmt);
// Returns whether it is such a load, and is inside the inner loops of that phase.
bool is_guard_use(const Kernel *k, const CpuPlan *p, int stmt, int phase);
// Returns the innermost place at which a guard of these loads is computed; -1: there are none.
int guards_place(const Kernel *k, const CpuPlan *p, int phase);
// Returns whether these loads share one guard, and the rounds in which it is false can be skipped:
// no reduction of the phase changes in them.
bool guards_decide(const Kernel *k, const CpuPlan *p, int phase);

#ifdef MESHC_HAVE_LLVM
#include <llvm-c/Core.h>

typedef struct Emit {
  Arena *arena;
  const Kernel *k;
  const EmitTarget *target;
  CpuPlan plan;
  LLVMContextRef ctx;
  LLVMModuleRef module;
  LLVMBuilderRef b;
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr, none;
  LLVMValueRef fn, call;            // the function being emitted; its argument, a KernelCall
  LLVMBasicBlockRef allocas;        // the first block of the function, which has allocas only
  LLVMValueRef slots, nums, status; // fields of the KernelCall
  LLVMValueRef *start;              // by pointer: as the caller passes it; can always be read
  LLVMValueRef *base;               // by pointer: at counters 0 of all loops
  LLVMValueRef *walk;               // by walk: its value at counters 0 of all loops, i64
  LLVMValueRef *addr; // by pointer: at the counters of the open loops; then those of row_address
  LLVMValueRef zeros; // memory that is read for rows of a tile that are outside of a window
  LLVMValueRef *cell; // by instance: its accumulator or, if that is folded, the leaf
  LLVMValueRef *middle, *total;    // by instance: the further levels of a folded accumulator
  LLVMValueRef *leaves;            // by statement: the number of leaves in the middle, i64
  LLVMValueRef units;              // the number of units since the last fold, i64
  LLVMValueRef *value;             // by instance
  LLVMValueRef partial;            // the partial row of this chunk, or NULL
  LLVMValueRef extent[MAX_LOOPS];  // rounds of a loop, without padding of its block; i64
  LLVMValueRef counter[MAX_LOOPS]; // of row 0 and of lane 0 of vector 0 of the tile
  int rows, vecs;                  // size of the tile whose body is being emitted
  bool in_vector;                  // the body is inside the vector loop
  bool guards_hold_here;           // the body runs only where guards equal in all lanes are true
  bool slab;                       // the body is part of a slab
  LLVMValueRef slab_from, slab_to; // rounds of loop CpuPlan.slab_loop in this slab
  LLVMValueRef run, scratch;       // the first unit of the run; memory for its sums
  LLVMValueRef unit;               // number of the unit, of row 0 of a tile
  LLVMValueRef block_from;         // first element of the unit along an outer vector loop
  LLVMValueRef mask, active; // lanes of the current instance that are in use, and their number;
                             // both NULL: all lanes
  LLVMValueRef last_mask, last_active; // mask and active for the last vector of the tile
} Emit;

// Returns the index of the instance of statement s for row r and vector v in the arrays of Emit
// that are by instance.
static inline int instance_id(int s, int r, int v) { return s * TILE + r * TILE_VECS + v; }

// -- emit_value.c
// A shape is a scalar or a vector of CpuPlan.lanes elements. Functions that return a constant take
// the type of the result, and return a vector of equal elements for a vector type.
bool is_vector(LLVMValueRef v);
LLVMTypeRef type_like(Emit *e, LLVMTypeRef element, LLVMValueRef shape); // in the shape of `shape`
LLVMTypeRef type_vector(Emit *e, LLVMTypeRef element);
LLVMValueRef const_int(LLVMTypeRef t, int64_t x);
LLVMValueRef const_real(LLVMTypeRef t, double x);
LLVMValueRef const_lanes(Emit *e, LLVMTypeRef element, int64_t stride); // 0, stride, 2 stride ...
LLVMValueRef i64_of(Emit *e, int64_t x);
// Returns a vector with v in all lanes, or v if it is a vector.
LLVMValueRef emit_splat(Emit *e, LLVMValueRef v);
LLVMValueRef emit_alloca(Emit *e, LLVMTypeRef t); // allocates in the first block of the function
// Calls the LLVM intrinsic `name` with n arguments. types: the types on which it is overloaded.
LLVMValueRef emit_intrinsic(Emit *e, const char *name, int ntypes, LLVMTypeRef *types, int n,
                            LLVMValueRef *args);
// Calls an intrinsic that is overloaded on the type of its first argument.
LLVMValueRef emit_call(Emit *e, const char *name, int n, LLVMValueRef *args);
LLVMValueRef emit_unary(Emit *e, const char *name, LLVMValueRef x);
LLVMValueRef fast(LLVMValueRef v);                          // sets the flags reassoc, nsz, contract
LLVMValueRef contracting(LLVMValueRef v);                   // sets the flag contract
LLVMValueRef call_field(Emit *e, LLVMTypeRef t, size_t at); // field of the KernelCall at byte `at`
LLVMValueRef slot_value(Emit *e, int slot);                 // slot of the kernel, i64
LLVMValueRef number_value(Emit *e, int number);             // numeric argument of the call, f64
// The scalar type of elements of type t in registers, which several element types share; that type
// as a scalar or a vector; the type of one element in memory.
LLVMTypeRef reg_type(Emit *e, Dtype t);
LLVMTypeRef reg_shape(Emit *e, Dtype t, bool vector);
LLVMTypeRef mem_type(Emit *e, Dtype t);
LLVMValueRef from_memory(Emit *e, Dtype t, LLVMValueRef raw); // from mem_type to reg_type
LLVMValueRef to_memory(Emit *e, Dtype t, LLVMValueRef v);     // from reg_type to mem_type
// Converts as cast(x, to) does: floats are truncated, out of range saturated, NaN becomes 0. Floats
// are rounded to bf16 and f16.
LLVMValueRef emit_convert(Emit *e, LLVMValueRef v, Dtype from, Dtype to);
// Converts an operand to the register type of another element type, without saturation: floats of
// one register type stay as they are, integers keep their low bits.
LLVMValueRef emit_coerce(Emit *e, LLVMValueRef v, Dtype from, Dtype to);
bool depends(const Emit *e, int s, int loop); // whether statement s depends on it; loop -1: false
LLVMValueRef value_at(Emit *e, int s, int r, int v); // of statement s for row r and vector v
// Returns argument `which` of s for row r and vector v, coerced to `type`.
LLVMValueRef operand_at(Emit *e, const KStmt *s, int which, Dtype type, int r, int v);
// Returns that argument as i64, times KStmt.step.
LLVMValueRef scaled_operand(Emit *e, const KStmt *s, int which, int r, int v);
// Returns the counter of loop l at row r and lane 0 of vector v, i64.
LLVMValueRef counter_at(Emit *e, int l, int r, int v);

// -- emit_flow.c --------------------------------------------------------------------------------
LLVMBasicBlockRef emit_block(Emit *e);
// Begins `if (condition) { ... }`: what is emitted until if_end, which gets the returned block, is
// the body.
LLVMBasicBlockRef if_begin(Emit *e, LLVMValueRef condition);
void if_end(Emit *e, LLVMBasicBlockRef done);
// The loop `for (var = from; var < to; var += step) { ... }`: what is emitted until loop_end is its
// body.
typedef struct EmitLoop {
  LLVMBasicBlockRef head, done;
  LLVMValueRef var, to, step;
} EmitLoop;
EmitLoop loop_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step);
EmitLoop loop_to(Emit *e, int64_t to); // begins a loop from 0 to `to` in steps of 1
void loop_end(Emit *e, const EmitLoop *l);
// A loop over pieces of an interval.
typedef struct Blocks {
  bool many; // false: the interval is the only piece, and there is no loop
  EmitLoop loop;
  LLVMValueRef from, to; // the current piece
} Blocks;
// Begins a loop over pieces of from..to with `step` elements each; step 0: one piece.
Blocks blocks_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t step);
void blocks_end(Emit *e, const Blocks *b);
// Adds 1 to *counter, or resets it to 0 if it would become `period`. Returns whether it was reset,
// an i1.
LLVMValueRef count_round(Emit *e, LLVMValueRef counter, int64_t period);
// Masks the last vector of the tile to its first `left` lanes; a larger number means all lanes.
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

// -- emit_random.c
// Emits the random numbers of statement s at positions x, i64.
LLVMValueRef emit_draw(Emit *e, const KStmt *s, LLVMValueRef x);

// -- emit_op.c
// Emits a statement of kind K_OP for row r and vector v.
LLVMValueRef emit_op(Emit *e, const KStmt *s, int r, int v);
// Emits op(a, b), a step of a reduction in element type t.
LLVMValueRef emit_join(Emit *e, Op op, Dtype t, LLVMValueRef a, LLVMValueRef b);

// -- emit_memory.c
LLVMValueRef emit_load(Emit *e, const KStmt *s, int r, int v);
void emit_store(Emit *e, const KStmt *s, int r, int v);
void emit_scatter(Emit *e, const KStmt *s, int r, int v);
// Loads or stores one element of type t at `at`, or a vector of neighbours from `at` on. Values are
// in registers' types. Of a vector only the lanes in Emit.mask are accessed.
LLVMValueRef load_raw(Emit *e, Dtype t, LLVMValueRef at, bool vector);
void store_raw(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef v);
// Stores lane i of v at element i * stride from `at`.
void scatter_raw(Emit *e, Dtype t, LLVMValueRef at, int64_t stride, LLVMValueRef v);
// Returns the address of row r of a tile through pointer p; NULL unless rows_of_zeros (emit_nest.c)
// has set it, because the row may be outside of a window.
static inline LLVMValueRef *row_address(Emit *e, int p, int r) {
  return &e->addr[e->k->nptr + p * TILE_ROWS + r];
}

// -- emit_cells.c: accumulators of K_REDUCE and K_ACCUM. s: the number of such a statement.
LLVMValueRef emit_identity(Emit *e, Op op, Dtype t, bool vector);
LLVMValueRef emit_horizontal(Emit *e, Op op, Dtype t, LLVMValueRef v); // joins all lanes of v by op
bool vector_is_inner(const Emit *e); // whether the vector loop is an inner loop
// Returns whether ACCUM s has cells; otherwise it adds to its elements of the partial row.
bool accum_in_registers(const Emit *e, int s);
bool cell_is_vector(const Emit *e, int s);
LLVMTypeRef cell_type(Emit *e, int s, Dtype t); // t in the shape of the cells of s
int cell_vecs(const Emit *e, int s);            // number of cells for a row of the main tile
// Return the rows, and the cells of a row, to which the current body adds.
int body_rows(const Emit *e, int s);
int body_vecs(const Emit *e, int s);
// Calls visit with the index (instance_id) of the cells of s for `rows` rows and `vecs` vectors.
typedef void CellVisitor(Emit *e, int s, int at);
void each_cell(Emit *e, int s, int rows, int vecs, CellVisitor *visit);
// Returns the address of element `index` of ACCUM s in the partial row; index NULL: 0.
LLVMValueRef partial_at(Emit *e, int s, LLVMValueRef index);
// Returns the address of the f64 total of element `index`; row: the address of its leaf 0.
LLVMValueRef wide_at(Emit *e, int s, LLVMValueRef row, LLVMValueRef index);

// -- emit_fold.c: levels of accumulators. at: the index of an instance of s (instance_id).
void fold_make(Emit *e, int s, int at);                        // allocates the middle and the total
void level_clear(Emit *e, int s, Dtype t, LLVMValueRef level); // sets it to the identity
void fold_clear(Emit *e, int s, int at);                       // clears the middle and the total
void folds_begin(Emit *e, int s); // sets the count of leaves in the middle to 0
void wide_clear(Emit *e, int s);  // clears the totals of ACCUM s in the partial row
// Emits `body` for elements from..from + n - 1 of ACCUM s in the partial row: for one element at a
// time or, with `vector`, for a vector from `index` on.
typedef void RowBody(Emit *e, int s, LLVMValueRef index, bool vector);
void each_of_row(Emit *e, int s, LLVMValueRef from, int64_t n, bool vector, RowBody *body);
Dtype fold_type(const Emit *e, int s);                    // element type of the last level of s
LLVMValueRef fold_value(Emit *e, int s, int at);          // all levels joined, in fold_type
LLVMValueRef fold_narrow(Emit *e, int s, LLVMValueRef x); // from fold_type to the statement's type
// Returns the fold with the smallest step of those with that place (and in that phase, if the place
// is an inner loop). Its step is 0 if there is none.
const Fold *fold_most(const Emit *e, int place, int phase);
void fold_now(Emit *e, int place, int phase); // folds the accumulators with that place
void fold_units_begin(Emit *e);               // sets the count of units since the last fold to 0
void fold_units(Emit *e); // counts a unit, or a tile of units, and folds if it is time

// -- emit_reduce.c
void cells_make(Emit *e);  // allocates all cells
void accum_begin(Emit *e); // sets the accumulators of K_ACCUMs to identities
void accum_end(Emit *e);   // stores the cells of K_ACCUMs to the partial row
// Set the cells of the K_REDUCEs of a phase to identities; make values of them.
void reduce_begin(Emit *e, int phase);
void reduce_end(Emit *e, int phase);
void emit_reduce(Emit *e, int s, int r, int v);
void emit_accum(Emit *e, int s, int r, int v);
// Between slabs, sums are kept in Emit.scratch.
void scratch_clear(Emit *e, LLVMValueRef units); // allocates it for `units` units, fills it with 0
void reduce_spill(Emit *e);                      // adds the cells of the tile to it
void reduce_fetch(Emit *e);                      // makes values of the sums of the tile

// -- emit_nest.c
// Emits all statements with that place and, from PLACE_PHASE on, in that phase.
void emit_statements(Emit *e, int place, int phase);
// Emits a phase without reduce_end, which may be left to the last slab.
void emit_phase(Emit *e, int phase);
// Adds counter * stride to every address that moves along loop l. Returns the addresses before
// that, for leave_loop.
LLVMValueRef *enter_loop(Emit *e, int l, LLVMValueRef counter);
void leave_loop(Emit *e, LLVMValueRef *saved);
LLVMValueRef *addresses_save(Emit *e);
// Emits the body of a tile in a phase.
typedef void Body(Emit *e, int phase);
// Emits the vector loop from..to: whole tiles, then one vector at a time, the last one masked.
// span: the length of from..to if it is known, else -1.
void vector_loop(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t span, Body *body, int phase);

// -- emit_units.c, emit_combine.c, emit.c
void emit_units(Emit *e, LLVMValueRef lo, LLVMValueRef hi); // emits units lo..hi-1, where lo < hi
void emit_combine(Emit *e);                                 // emits the body of SYMBOL_combine
// Adds SYMBOL to the module, and SYMBOL_combine if the kernel has K_ACCUM statements.
void emit_kernel(LLVMModuleRef module, const Kernel *k, const char *symbol, const EmitTarget *t);
#endif

#endif
