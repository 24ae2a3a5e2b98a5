// Private to the emitter: one Kernel becomes two functions of an LLVM module.
//
// Every statement is emitted as a grid of instances, rows x vecs: rows of a register tile (the loop
// `Kernel.rows`, unrolled and jammed) times vectors along the vector loop. An instance that a value
// does not depend on is shared: a load that does not move along the rows is emitted once for all of
// them.
//
//   emit.c        phases, loops, guards                emit_plan.c    where each statement stands
//   emit_units.c  units, register tiles, slabs
//   emit_value.c  builder shorthand, conversions       emit_memory.c  loads, stores, gathers
//   emit_position.c  places of windows, guards           emit_random.c  draws
//   emit_op.c     ops.def's column `emit`              emit_math.c, emit_trig.c  polynomials
//   emit_reduce.c REDUCE and ACCUM                     emit_combine.c the combine entry
//   fold.c, emit_fold.c  blocks of long sums
#ifndef CODEGEN_EMIT_H
#define CODEGEN_EMIT_H

#include "codegen/fuse/kernel.h"

enum { TILE_ROWS = 14, TILE_VECS = 4, TILE = TILE_ROWS * TILE_VECS };

// Places of statements; PLACE_LOOP + i is the body of inner loop i.
enum { PLACE_ENTRY, PLACE_UNIT, PLACE_PHASE, PLACE_LOOP };

// What is known of the processor that code is made for.
typedef struct EmitTarget {
  int bits; // of a vector
  bool fma; // fused multiply-add exists
  bool f16; // conversions between f16 and f32 exist
  int opt;  // 0..3
} EmitTarget;

// Where an accumulator is folded (fold.c); FOLD_LOOP + i is inner loop i.
enum { FOLD_NEVER, FOLD_UNIT, FOLD_VECTOR, FOLD_LOOP };
typedef struct Fold {
  int place;
  int64_t step;   // after so many rounds of that loop, so many units
  int64_t period; // and after so many rounds, from which blocks of `step` begin anew; 0: never
  bool wide;      // the last level is f64; else the middle is the last
} Fold;

typedef struct CpuPlan {
  int lanes;      // elements of a vector, the same for all types of the kernel
  int rows, vecs; // main register tile
  int innermost;  // place of INNER statements with effects
  bool vec_outer; // the vector loop is the last outer loop
  uint32_t *dep;  // [statement] bit l: the value depends on the counter of loop l
  uint8_t *place; // [statement]
  // Slabs (emit_units.c): inner loops up to slab_loop go around the tiles, that one in pieces of
  // slab_step.
  int slab_loop;
  int64_t slab_step; // 0: no slabs
  int64_t run;       // units of a run at most
  bool slab_wide;    // the sums of f32 that wait are f64
  Fold *fold;        // [statement]
} CpuPlan;

// Decides all of it; memory from a.
CpuPlan cpu_plan_make(Arena *a, const Kernel *k, const EmitTarget *t);
// fold.c: the folds of all statements; the rest of p is decided.
Fold *fold_plan(Arena *a, const Kernel *k, const CpuPlan *p);

// Whether a load has a guard that is the same in all lanes.
bool load_is_guarded(const Kernel *k, const CpuPlan *p, int stmt);
// The deepest place where such guards of loads inside the loops of that phase are known; -1: there
// are none.
int guards_place(const Kernel *k, const CpuPlan *p, int phase);
// Whether all such loads have one guard, and no reduction of that phase changes where it is false.
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
  LLVMValueRef fn, call;
  LLVMBasicBlockRef allocas; // first block: only allocas
  LLVMValueRef slots, nums, status;
  LLVMValueRef *start; // [pointer] as given: there is always memory
  LLVMValueRef *base;  // [pointer] at the start of the set
  LLVMValueRef *walk;  // [walk] at counters 0, i64
  LLVMValueRef *addr;  // [pointer] at the counters of the loops entered so far; then those of rows
  LLVMValueRef zeros;  // memory that rows outside of a window read
  LLVMValueRef *cell;  // [statement * TILE + instance] accumulators: leaves
  LLVMValueRef *middle, *total;    // the same, of those that are folded
  LLVMValueRef *leaves;            // [statement] how many leaves are in the middle, i64
  LLVMValueRef units;              // how many units have gone into leaves, i64
  LLVMValueRef *value;             // [statement * TILE + instance]
  LLVMValueRef partial;            // of this chunk, or NULL
  LLVMValueRef extent[MAX_LOOPS];  // valid, i64
  LLVMValueRef counter[MAX_LOOPS]; // of row 0, element 0
  int rows, vecs;                  // instances of the body under work
  bool in_vector;                  // inside the vector loop
  bool guards_hold_here;           // guards that are the same in all lanes hold
  bool slab; // inside a slab slab_from..slab_to of a run that begins with unit `run`
  LLVMValueRef slab_from, slab_to, run, unit, block_from,
      scratch;               // unit: of row 0; block_from: of the vector loop
  LLVMValueRef mask, active; // lanes in use of the instance under work, how many (i64); NULL: all
  LLVMValueRef last_mask, last_active; // of the tile's last vector
} Emit;

// emit.c: adds SYMBOL, and SYMBOL_combine if the kernel has ACCUM statements.
void emit_kernel(LLVMModuleRef module, const Kernel *k, const char *symbol, const EmitTarget *t);
// Emits the statements of that place (of `phase`, where places belong to phases).
void emit_statements(Emit *e, int place, int phase);

typedef struct EmitLoop {
  LLVMBasicBlockRef head, done;
  LLVMValueRef var, to, step;
} EmitLoop;
// for (var = from; var < to; var += step) around what is emitted until loop_end.
EmitLoop loop_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step);
void loop_end(Emit *e, const EmitLoop *l);
// from..to in blocks of `step`, each of which is from..to of the result; step 0: one block.
typedef struct Blocks {
  bool many;
  EmitLoop loop;
  LLVMValueRef from, to;
} Blocks;
Blocks blocks_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t step);
void blocks_end(Emit *e, const Blocks *b);
LLVMBasicBlockRef emit_block(Emit *e);
// The tile's last vector has n elements left, at most all its lanes; emit_mask_off: all again.
void emit_mask(Emit *e, LLVMValueRef left);
void emit_mask_off(Emit *e);

// Moves every address along loop l by `counter` and returns what they were, to be put back.
LLVMValueRef *enter_loop(Emit *e, int l, LLVMValueRef counter);
void leave_loop(Emit *e, LLVMValueRef *saved);
LLVMValueRef *addresses_save(Emit *e);
// The address of row r of a tile through pointer p where rows have their own, NULL: the common one.
static inline LLVMValueRef *row_address(Emit *e, int p, int r) {
  return &e->addr[e->k->nptr + p * TILE_ROWS + r];
}
typedef void Body(Emit *e, int phase);
// The vector loop from..to: whole tiles of vecs vectors, then one vector at a time, the last one
// masked. span: its length where that is known, else -1.
void vector_loop(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t span, Body *body, int phase);
void emit_phase(Emit *e, int phase); // but for the end of its reductions

// emit_units.c: units lo..hi-1, at least one.
void emit_units(Emit *e, LLVMValueRef lo, LLVMValueRef hi);

// emit_value.c
bool is_vector(LLVMValueRef v);
LLVMTypeRef type_like(Emit *e, LLVMTypeRef element, LLVMValueRef shape); // vector if shape is one
LLVMTypeRef type_vector(Emit *e, LLVMTypeRef element);
LLVMValueRef const_int(LLVMTypeRef t, int64_t x); // scalar or splat
LLVMValueRef const_real(LLVMTypeRef t, double x);
LLVMValueRef const_lanes(Emit *e, LLVMTypeRef element, int64_t stride); // 0, stride, 2 stride ...
LLVMValueRef i64_of(Emit *e, int64_t x);
LLVMValueRef emit_splat(Emit *e, LLVMValueRef v); // v itself if a vector
LLVMValueRef emit_alloca(Emit *e, LLVMTypeRef t);
LLVMValueRef emit_intrinsic(Emit *e, const char *name, int ntypes, LLVMTypeRef *types, int n,
                            LLVMValueRef *args);
LLVMValueRef emit_unary(Emit *e, const char *name,
                        LLVMValueRef x);  // intrinsic overloaded on x's type
LLVMValueRef fast(LLVMValueRef v);        // reassoc nsz contract
LLVMValueRef contracting(LLVMValueRef v); // may become part of a fused multiply-add
LLVMTypeRef reg_type(Emit *e, Dtype t);   // scalar, in registers
LLVMTypeRef mem_type(Emit *e, Dtype t);   // scalar, in memory
LLVMValueRef from_memory(Emit *e, Dtype t, LLVMValueRef raw);
LLVMValueRef to_memory(Emit *e, Dtype t, LLVMValueRef v);
// As cast(x, to) does: truncating, saturating, NaN to 0; to bf16 and f16 rounded.
LLVMValueRef emit_convert(Emit *e, LLVMValueRef v, Dtype from, Dtype to);
// The register form of an argument of another type that no rounding is meant for.
LLVMValueRef emit_coerce(Emit *e, LLVMValueRef v, Dtype from, Dtype to);
// Instance (r, v) of statement s, shared if s does not depend on rows or vector.
LLVMValueRef value_at(Emit *e, int s, int r, int v);
bool depends(const Emit *e, int s, int loop); // loop -1: no

// emit_memory.c
LLVMValueRef emit_load(Emit *e, const KStmt *s, int r, int v);
void emit_store(Emit *e, const KStmt *s, int r, int v);
void emit_scatter(Emit *e, const KStmt *s, int r, int v);
LLVMValueRef load_raw(Emit *e, Dtype t, LLVMValueRef at, bool vector);
void store_raw(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef v);
void scatter_raw(Emit *e, Dtype t, LLVMValueRef at, int64_t stride, LLVMValueRef v);

// emit_position.c: K_POSITION, K_QUOTIENT, K_INSIDE.
LLVMValueRef emit_position(Emit *e, const KStmt *s, int r, int v);
LLVMValueRef emit_quotient(Emit *e, const KStmt *s, int r, int v);
LLVMValueRef emit_inside(Emit *e, const KStmt *s, int r, int v);

// emit_random.c: the draw at position x, an i64.
LLVMValueRef emit_draw(Emit *e, const KStmt *s, LLVMValueRef x);

// emit_op.c
LLVMValueRef emit_op(Emit *e, const KStmt *s, int r, int v);
// One step of a reduction of register type t; also joins partial results.
LLVMValueRef emit_join(Emit *e, Op op, Dtype t, LLVMValueRef a, LLVMValueRef b);

// emit_reduce.c
LLVMValueRef emit_identity(Emit *e, Op op, Dtype t, bool vector);
LLVMValueRef emit_horizontal(Emit *e, Op op, Dtype t, LLVMValueRef v);
void cells_make(Emit *e);  // for all statements that need them
void accum_begin(Emit *e); // identities into registers and the partial row
void accum_end(Emit *e);   // registers to the partial row
void reduce_begin(Emit *e, int phase);
void reduce_end(Emit *e, int phase);
void emit_reduce(Emit *e, int s, int r, int v);
void scratch_clear(Emit *e, LLVMValueRef units); // of the sums of a run
void reduce_spill(Emit *e);                      // adds the sums of a tile to the scratch
void reduce_fetch(Emit *e);                      // its sums, from the scratch
void emit_accum(Emit *e, int s, int r, int v);

bool cell_is_vector(const Emit *e, int s);
int cell_vecs(const Emit *e, int s);
int reduce_vecs(const Emit *e, int s);
static inline int cell_index(int s, int r, int v) { return s * TILE + r * TILE_VECS + v; }
LLVMValueRef partial_at(Emit *e, int s, LLVMValueRef index);

// emit_fold.c: blocks of accumulators.
void fold_make(Emit *e, int s, int at); // memory for instance `at`
void fold_clear(Emit *e, int s, int at);
void folds_begin(Emit *e, int s); // no leaf is in the middle
// Instance `at` with all its levels; f64 where fold_type says so.
Dtype fold_type(const Emit *e, int s);
LLVMValueRef fold_value(Emit *e, int s, int at);
LLVMValueRef fold_narrow(Emit *e, int s, LLVMValueRef x); // of fold_type to the statement's type
// Rounds between folds at that place in that phase; 0: none there.
int64_t fold_step(const Emit *e, int place, int phase);
int64_t fold_period(const Emit *e, int place,
                    int phase); // rounds after which blocks of fold_step begin anew; 0: never
void fold_now(Emit *e, int place, int phase); // folds what is folded at that place
void fold_units_begin(Emit *e);
void fold_units(Emit *e);        // another unit, or tile of units, is done
void wide_clear(Emit *e, int s); // the row of f64
LLVMValueRef wide_at(Emit *e, int s, LLVMValueRef row,
                     LLVMValueRef index); // in it; row: its f32 row

// emit_combine.c: the body of SYMBOL_combine.
void emit_combine(Emit *e);

// emit_math.c, emit_gates.c, emit_trig.c: x is f32 or f64, scalar or vector; no contraction inside.
LLVMValueRef math_fma(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
LLVMValueRef math_poly(Emit *e, LLVMValueRef x, int n, const double *c); // highest power first
LLVMValueRef math_exp(Emit *e, LLVMValueRef x);
LLVMValueRef math_expm1(Emit *e, LLVMValueRef x);
LLVMValueRef math_log(Emit *e, LLVMValueRef x);
LLVMValueRef math_log1p(Emit *e, LLVMValueRef x);
LLVMValueRef math_tanh(Emit *e, LLVMValueRef x);
LLVMValueRef math_sigmoid(Emit *e, LLVMValueRef x);
LLVMValueRef math_softplus(Emit *e, LLVMValueRef x);
LLVMValueRef math_erf(Emit *e, LLVMValueRef x);
LLVMValueRef math_pow(Emit *e, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef math_mod(Emit *e, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef math_floor_div(Emit *e, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef math_silu(Emit *e, LLVMValueRef x);
LLVMValueRef math_silu_slope(Emit *e, LLVMValueRef x);
LLVMValueRef math_gelu(Emit *e, LLVMValueRef x);
LLVMValueRef math_gelu_slope(Emit *e, LLVMValueRef x);
LLVMValueRef math_gelu_tanh(Emit *e, LLVMValueRef x);
LLVMValueRef math_gelu_tanh_slope(Emit *e, LLVMValueRef x);
LLVMValueRef math_sin(Emit *e, LLVMValueRef x);
LLVMValueRef math_cos(Emit *e, LLVMValueRef x);
#endif

#endif
