// The emitter: one Kernel becomes two functions of an LLVM module, SYMBOL and SYMBOL_combine.
//
// Every statement is emitted as a grid of instances, rows x vecs: the rows of a register tile (loop
// Kernel.rows, unrolled and jammed) times the vectors of the tile along the vector loop. A value
// that does not depend on the row or on the vector loop has one instance there: a load that does
// not move along the rows is emitted once for all of them.
//
// Files, each using only those before it:
//
//   emit_plan.c, fold.c     decide lanes, tile, places and folds (no LLVM)
//   emit_value.c            constants, types, conversions, instances
//   emit_flow.c             blocks, conditionals, loops, masks
//   emit_position.c         places of windows, and whether they are inside a tensor
//   emit_math.c, emit_gates.c, emit_pow.c, emit_trig.c   elementary functions
//   emit_random.c           random draws
//   emit_op.c               one rule for each row of ir/graph/ops.def
//   emit_memory.c           loads, stores, gathers, scatters
//   emit_cells.c, emit_fold.c, emit_reduce.c   accumulators, their folds, REDUCE and ACCUM
//   emit_nest.c             statements, inner loops, guards
//   emit_units.c            outer loops: units, register tiles, slabs
//   emit_combine.c, emit.c  the combine entry; the functions of a kernel
#ifndef CODEGEN_EMIT_H
#define CODEGEN_EMIT_H

#include "codegen/fuse/kernel.h"

// -- emit_plan.c: how a kernel is scheduled on a CPU --------------------------------------------

enum { TILE_ROWS = 14, TILE_VECS = 4, TILE = TILE_ROWS * TILE_VECS }; // largest register tile
enum { ZERO_BYTES = 4096 };                                           // of Emit.zeros

// Where a statement is emitted; PLACE_LOOP + i is the body of inner loop i.
//   ENTRY once a call    UNIT once a unit or tile    PHASE inside an outer vector loop, once a phase
enum { PLACE_ENTRY, PLACE_UNIT, PLACE_PHASE, PLACE_LOOP };

// What the emitter knows of the processor.
typedef struct EmitTarget {
  int bits; // of a vector
  bool fma; // it has fused multiply-add
  bool f16; // it converts between f16 and f32
  int opt;  // 0..3
} EmitTarget;

// Where an accumulator is folded into its next level (fold.c); FOLD_LOOP + i is inner loop i.
enum { FOLD_NEVER, FOLD_UNIT, FOLD_VECTOR, FOLD_LOOP };
typedef struct Fold {
  int place;
  int64_t step;   // rounds of that loop (or units) between two folds
  int64_t period; // rounds after which blocks of `step` start anew; 0: never
  bool wide;      // it has a third level, in f64
} Fold;

typedef struct CpuPlan {
  int lanes;      // elements of a vector, the same for all types of the kernel
  int rows, vecs; // main register tile
  int innermost;  // place of INNER statements with effects
  bool vec_outer; // the vector loop is the last outer loop
  LoopSet *dep;   // [statement] bit l: the value depends on the counter of loop l
  uint8_t *place; // [statement]
  // Slabs (emit_units.c): inner loops 0..slab_loop run around the tiles, the last one in pieces of
  // slab_step rounds.
  int slab_loop;
  int64_t slab_step; // 0: no slabs
  int64_t run;       // most units of a run
  bool slab_wide;    // f32 sums wait as f64 between slabs
  Fold *fold;        // [statement]
} CpuPlan;

// The plan of k on t; memory from a.
CpuPlan cpu_plan_make(Arena *a, const Kernel *k, const EmitTarget *t);
// fold.c: the folds of all statements. All other fields of p are set.
Fold *fold_plan(Arena *a, const Kernel *k, const CpuPlan *p);

// Whether statement `stmt` is a load with a guard that is equal in all lanes.
bool load_is_guarded(const Kernel *k, const CpuPlan *p, int stmt);
// The innermost place at which all such guards of loads inside the loops of that phase are
// computed; -1: there are none.
int guards_place(const Kernel *k, const CpuPlan *p, int phase);
// Whether all these loads share one guard and no reduction of the phase changes where it is false.
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
  LLVMValueRef fn, call;     // the function being emitted; its KernelCall
  LLVMBasicBlockRef allocas; // first block: only allocas
  LLVMValueRef slots, nums, status;
  LLVMValueRef *start;             // [pointer] as given: always readable
  LLVMValueRef *base;              // [pointer] with its constant offset and bases added
  LLVMValueRef *walk;              // [walk] its value at counters 0, i64
  LLVMValueRef *addr;              // [pointer] at the counters of the loops around; see row_address
  LLVMValueRef zeros;              // memory that rows outside of a window read
  LLVMValueRef *cell;              // [instance] accumulators: leaves
  LLVMValueRef *middle, *total;    // [instance] further levels of those that are folded
  LLVMValueRef *leaves;            // [statement] leaves that are in the middle level, i64
  LLVMValueRef units;              // units that are in leaves, i64
  LLVMValueRef *value;             // [instance]
  LLVMValueRef partial;            // this chunk's partial row, or NULL
  LLVMValueRef extent[MAX_LOOPS];  // valid extents, i64
  LLVMValueRef counter[MAX_LOOPS]; // of row 0, lane 0 of vector 0
  int rows, vecs;                  // instances of the body being emitted
  bool in_vector;                  // inside the vector loop
  bool guards_hold_here;           // guards that are equal in all lanes are true
  bool slab; // inside slab slab_from..slab_to of a run that begins with unit `run`
  LLVMValueRef slab_from, slab_to, run, scratch;
  LLVMValueRef unit;         // of row 0
  LLVMValueRef block_from;   // first element of the outer vector loop's block
  LLVMValueRef mask, active; // lanes in use of the current instance, and their number; NULL: all
  LLVMValueRef last_mask, last_active; // the same of the tile's last vector
} Emit;

// Index of instance (r, v) of statement s in Emit.value, cell, middle and total.
static inline int instance_id(int s, int r, int v) { return s * TILE + r * TILE_VECS + v; }

// -- emit_value.c -------------------------------------------------------------------------------
bool is_vector(LLVMValueRef v);
LLVMTypeRef type_like(Emit *e, LLVMTypeRef element, LLVMValueRef shape); // a vector if shape is one
LLVMTypeRef type_vector(Emit *e, LLVMTypeRef element);                   // of Plan.lanes elements
LLVMValueRef const_int(LLVMTypeRef t, int64_t x);                        // scalar or splat
LLVMValueRef const_real(LLVMTypeRef t, double x);
LLVMValueRef const_lanes(Emit *e, LLVMTypeRef element, int64_t stride); // 0, stride, 2 stride ...
LLVMValueRef i64_of(Emit *e, int64_t x);
LLVMValueRef emit_splat(Emit *e, LLVMValueRef v); // v itself if it is a vector
LLVMValueRef emit_alloca(Emit *e, LLVMTypeRef t); // in the function's first block
LLVMValueRef emit_intrinsic(Emit *e, const char *name, int ntypes, LLVMTypeRef *types, int n,
                            LLVMValueRef *args);
LLVMValueRef emit_unary(Emit *e, const char *name, LLVMValueRef x); // overloaded on x's type
LLVMValueRef fast(LLVMValueRef v);                          // sets the flags reassoc, nsz, contract
LLVMValueRef contracting(LLVMValueRef v);                   // sets the flag contract
LLVMValueRef call_field(Emit *e, LLVMTypeRef t, size_t at); // field of the KernelCall at byte `at`
LLVMValueRef slot_value(Emit *e, int slot);                 // i64
LLVMValueRef number_value(Emit *e, int number);             // numeric argument, f64
LLVMTypeRef reg_type(Emit *e, Dtype t);                     // scalar type of a Dtype in registers
LLVMTypeRef mem_type(Emit *e, Dtype t);                     // and in memory
LLVMValueRef from_memory(Emit *e, Dtype t, LLVMValueRef raw);
LLVMValueRef to_memory(Emit *e, Dtype t, LLVMValueRef v);
// As cast(x, to) does: truncating, saturating, NaN to 0; to bf16 and f16 rounded.
LLVMValueRef emit_convert(Emit *e, LLVMValueRef v, Dtype from, Dtype to);
// Changes the register type of an operand only: no rounding between float types that share one, low
// bits of integers.
LLVMValueRef emit_coerce(Emit *e, LLVMValueRef v, Dtype from, Dtype to);
bool depends(const Emit *e, int s, int loop);        // whether statement s does; false for loop -1
LLVMValueRef value_at(Emit *e, int s, int r, int v); // instance (r, v) of statement s
// Argument `which` of s at instance (r, v), coerced to `type`.
LLVMValueRef operand_at(Emit *e, const KStmt *s, int which, Dtype type, int r, int v);
// The counter of loop l at row r and lane 0 of vector v, i64.
LLVMValueRef counter_at(Emit *e, int l, int r, int v);

// -- emit_flow.c --------------------------------------------------------------------------------
LLVMBasicBlockRef emit_block(Emit *e);
// if (condition) { what is emitted until if_end }
typedef struct EmitIf {
  LLVMBasicBlockRef done;
} EmitIf;
EmitIf if_begin(Emit *e, LLVMValueRef condition);
void if_end(Emit *e, EmitIf i);
// for (var = from; var < to; var += step) { what is emitted until loop_end }
typedef struct EmitLoop {
  LLVMBasicBlockRef head, done;
  LLVMValueRef var, to, step;
} EmitLoop;
EmitLoop loop_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step);
EmitLoop loop_to(Emit *e, int64_t to); // from 0 by 1
void loop_end(Emit *e, const EmitLoop *l);
// Splits from..to into blocks of `step` and emits a loop over them; from..to of the result is the
// current block. step 0: one block and no loop.
typedef struct Blocks {
  bool many;
  EmitLoop loop;
  LLVMValueRef from, to;
} Blocks;
Blocks blocks_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t step);
void blocks_end(Emit *e, const Blocks *b);
// ++*counter; if it reaches `period`, resets it to 0. Returns whether it did, an i1.
LLVMValueRef count_round(Emit *e, LLVMValueRef counter, int64_t period);
// Masks the tile's last vector to its first `left` lanes, all if left is larger.
void emit_mask(Emit *e, LLVMValueRef left);
void emit_mask_off(Emit *e);

// -- emit_position.c: K_POSITION, K_QUOTIENT, K_INSIDE ------------------------------------------
LLVMValueRef emit_position(Emit *e, const KStmt *s, int r, int v);
LLVMValueRef emit_quotient(Emit *e, const KStmt *s, int r, int v);
LLVMValueRef emit_inside(Emit *e, const KStmt *s, int r, int v);

// -- emit_math.c, emit_gates.c, emit_pow.c, emit_trig.c: x is f32 or f64, scalar or vector -------
typedef LLVMValueRef MathFn(Emit *e, LLVMValueRef x);
MathFn math_exp, math_expm1, math_log, math_log1p, math_tanh, math_sigmoid, math_softplus, math_erf,
    math_silu, math_silu_slope, math_gelu, math_gelu_slope, math_gelu_tanh, math_gelu_tanh_slope,
    math_sin, math_cos;
typedef LLVMValueRef MathFn2(Emit *e, LLVMValueRef x, LLVMValueRef y);
MathFn2 math_pow, math_mod, math_floor_div;

// -- emit_random.c: the draw of s at positions x, i64 --------------------------------------------
LLVMValueRef emit_draw(Emit *e, const KStmt *s, LLVMValueRef x);

// -- emit_op.c ----------------------------------------------------------------------------------
LLVMValueRef emit_op(Emit *e, const KStmt *s, int r, int v); // K_OP
// One step op(a, b) of a reduction in the register form of t.
LLVMValueRef emit_join(Emit *e, Op op, Dtype t, LLVMValueRef a, LLVMValueRef b);

// -- emit_memory.c ------------------------------------------------------------------------------
LLVMValueRef emit_load(Emit *e, const KStmt *s, int r, int v);
void emit_store(Emit *e, const KStmt *s, int r, int v);
void emit_scatter(Emit *e, const KStmt *s, int r, int v);
// One element or a vector of neighbours at `at`, in register form; masked as Emit.mask says.
LLVMValueRef load_raw(Emit *e, Dtype t, LLVMValueRef at, bool vector);
void store_raw(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef v);
// Stores lane i at element i * stride.
void scatter_raw(Emit *e, Dtype t, LLVMValueRef at, int64_t stride, LLVMValueRef v);
// The address of row r of a tile through pointer p, if rows have addresses of their own, else NULL.
static inline LLVMValueRef *row_address(Emit *e, int p, int r) {
  return &e->addr[e->k->nptr + p * TILE_ROWS + r];
}

// -- emit_cells.c: accumulators of REDUCE and ACCUM ----------------------------------------------
LLVMValueRef emit_identity(Emit *e, Op op, Dtype t, bool vector);
LLVMValueRef emit_horizontal(Emit *e, Op op, Dtype t, LLVMValueRef v); // joins all lanes of v
bool vector_is_inner(const Emit *e);           // the vector loop is an inner loop
bool accum_in_registers(const Emit *e, int s); // else in the partial row
bool cell_is_vector(const Emit *e, int s);
LLVMTypeRef cell_type(Emit *e, int s, Dtype t); // t, or a vector of it
int cell_vecs(const Emit *e, int s);            // cells of a row in the main tile
int reduce_rows(const Emit *e, int s);          // rows of cells of REDUCE s in the current body
int reduce_vecs(const Emit *e, int s);          // and cells of one row
LLVMValueRef partial_at(Emit *e, int s, LLVMValueRef index); // in the partial row; NULL: its start
LLVMValueRef wide_at(Emit *e, int s, LLVMValueRef row,
                     LLVMValueRef index); // in the f64 row of `row`

// -- emit_fold.c: levels of accumulators ---------------------------------------------------------
void fold_make(Emit *e, int s, int at);          // memory for the levels of instance `at`
void fold_clear(Emit *e, int s, int at);         // sets them to the identity
void folds_begin(Emit *e, int s);                // no leaf is in the middle level
void wide_clear(Emit *e, int s);                 // sets the f64 row of ACCUM s to the identity
Dtype fold_type(const Emit *e, int s);           // type of the last level
LLVMValueRef fold_value(Emit *e, int s, int at); // instance `at`, all levels joined, in fold_type
LLVMValueRef fold_narrow(Emit *e, int s, LLVMValueRef x); // from fold_type to the statement's type
int64_t fold_step(const Emit *e, int place, int phase);   // rounds between folds; 0: none there
int64_t fold_period(const Emit *e, int place, int phase); // as Fold.period
void fold_now(Emit *e, int place, int phase);             // folds all statements that fold there
void fold_units_begin(Emit *e);
void fold_units(Emit *e); // after a unit or a tile of units

// -- emit_reduce.c ------------------------------------------------------------------------------
void cells_make(Emit *e);  // memory for all accumulators in registers
void accum_begin(Emit *e); // sets accumulators of ACCUM to identities
void accum_end(Emit *e);   // stores them to the partial row
void reduce_begin(Emit *e, int phase);
void reduce_end(Emit *e, int phase);
void emit_reduce(Emit *e, int s, int r, int v);
void emit_accum(Emit *e, int s, int r, int v);
// Sums that wait between slabs: memory for `units` units, zeroed; adds a tile's sums; reads them.
void scratch_clear(Emit *e, LLVMValueRef units);
void reduce_spill(Emit *e);
void reduce_fetch(Emit *e);

// -- emit_nest.c --------------------------------------------------------------------------------
void emit_statements(Emit *e, int place, int phase); // all of that place (and phase)
void emit_phase(Emit *e, int phase);                 // all but the end of its reductions
// Adds counter * stride to every address that moves along loop l. Returns the addresses from
// before, for leave_loop.
LLVMValueRef *enter_loop(Emit *e, int l, LLVMValueRef counter);
void leave_loop(Emit *e, LLVMValueRef *saved);
LLVMValueRef *addresses_save(Emit *e);
// The vector loop from..to: whole tiles of vecs vectors, then one vector at a time, the last one
// masked. span: the length of from..to if it is known, else -1.
typedef void Body(Emit *e, int phase);
void vector_loop(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t span, Body *body, int phase);

// -- emit_units.c, emit_combine.c, emit.c --------------------------------------------------------
void emit_units(Emit *e, LLVMValueRef lo, LLVMValueRef hi); // units lo..hi-1, at least one
void emit_combine(Emit *e);                                 // the body of SYMBOL_combine
// Adds SYMBOL to the module, and SYMBOL_combine if the kernel has ACCUM statements.
void emit_kernel(LLVMModuleRef module, const Kernel *k, const char *symbol, const EmitTarget *t);
#endif

#endif
