// Units, the rounds of the outer loops: one by one, in tiles, or in runs with slabs. In: the units
// lo..hi-1 of a chunk. Out: LLVM IR in the current function.
//
// If a kernel has a row loop (Kernel.rows), CpuPlan.rows rounds of it run together as a tile
// (unroll and jam). All units of a tile must be in lo..hi-1; other units run one by one. The length
// of a chunk is therefore a multiple of kernel_grain (codegen/program/launch.c).
//
// A contraction whose units read more than a cache holds runs in slabs. A slab is a part of the
// inner loops: slab_step rounds of inner loop slab_loop. A run is a sequence of units. All units of
// a run execute one slab, then all execute the next one. In between their sums are in memory, the
// scratch. So data that the units share is read while a cache holds it, such as the weights of a
// convolution.
//
//   for units in runs            blocks of the vector loop are the slowest outer loop here
//     scratch = 0
//     for slabs of the inner loops
//       for tiles of the run: sums of the slab, added to the scratch
//     for units of the run: phases after the first, from the scratch
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <string.h>

static bool is_blocked(const Emit *e, int l) { return e->plan.vec_outer && l == e->k->vector; }

static Units units_make(Emit *e) {
  Units u;
  for (int l = 0; l < e->k->nouter; l++) {
    u.cell[l] = emit_alloca(e, e->i64);
    u.count[l] = e->extent[l];
    if (!is_blocked(e, l)) continue;
    LLVMValueRef up = int_add(e, e->extent[l], i64_of(e, e->k->block - 1));
    u.count[l] = LLVMBuildUDiv(e->b, up, i64_of(e, e->k->block), "");
  }
  return u;
}

// Returns the outer loop whose counter changes from each unit (round of the outer loops) to the
// next. This is the last outer loop. In a kernel with slabs the last one is the vector loop, which
// then changes slowest; the result is the loop before it.
static int last_loop(const Emit *e) { return e->k->nouter - (e->plan.slab_step ? 2 : 1); }

void units_decode(Emit *e, const Units *u, LLVMValueRef unit) {
  int slowest = e->plan.slab_step ? e->k->vector : 0;
  for (int l = last_loop(e); l >= 0; l--) {
    if (l == slowest) break;
    LLVMBuildStore(e->b, LLVMBuildURem(e->b, unit, u->count[l], ""), u->cell[l]);
    unit = LLVMBuildUDiv(e->b, unit, u->count[l], "");
  }
  if (e->k->nouter) LLVMBuildStore(e->b, unit, u->cell[slowest]);
}

void units_advance(Emit *e, const Units *u, int first, int last, int64_t n) {
  LLVMValueRef carry = i64_of(e, n);
  for (int l = last; l >= first; l--) {
    LLVMValueRef next = int_add(e, emit_read(e, e->i64, u->cell[l]), carry);
    LLVMValueRef wraps = int_equal(e, next, u->count[l]);
    LLVMBuildStore(e->b, l == 0 ? next : pick(e, wraps, i64_of(e, 0), next), u->cell[l]);
    carry = int_zext(e, wraps, e->i64);
  }
}

// Emits the phases of a unit from number `phase` on. A phase is a pass over the inner loops,
// followed by the results of its reductions.
static void phases_from(Emit *e, int phase) {
  for (; phase < e->k->nphases; phase++) {
    emit_phase(e, phase);
    reduce_end(e, phase);
  }
}

// Emits phase 0 for one slab (a part of the inner loops), and the addition of its sums to the
// scratch memory.
static void unit_slab(Emit *e, int phase) {
  emit_phase(e, phase);
  reduce_spill(e);
}

// Emits what a unit does after the last slab (part of the inner loops). It loads its sums from the
// scratch memory, and runs the phases after `phase`.
static void unit_after_slabs(Emit *e, int phase) {
  emit_statements(e, PLACE_PHASE, phase);
  reduce_fetch(e);
  phases_from(e, phase + 1);
}

// Emits the vector loop, an outer one, over the elements of block number `block`.
static void outer_vector_loop(Emit *e, LLVMValueRef block, Body *body) {
  const KLoop *l = &e->k->loop[e->k->vector];
  LLVMValueRef size = i64_of(e, e->k->block), from = int_mul(e, block, size);
  LLVMValueRef to = int_min(e, int_add(e, from, size), e->extent[e->k->vector]);
  int64_t span = l->slot >= 0                 ? -1
                 : e->k->block >= l->size     ? l->size
                 : l->size % e->k->block == 0 ? e->k->block
                                              : -1;
  e->block_from = from;
  vector_loop(e, from, to, span, body, 0);
}

// Emits the unit (one round of the outer loops) at the counters of u. If rows > 1, emits a tile:
// that unit, and one unit in each of the next rows - 1 rounds of the row loop.
static void emit_unit(Emit *e, const Units *u, int rows, Body *body) {
  LLVMValueRef *saved = addresses_save(e), block = NULL;
  for (int l = 0; l < e->k->nouter; l++) {
    LLVMValueRef c = emit_read(e, e->i64, u->cell[l]);
    if (is_blocked(e, l))
      block = c;
    else
      enter_loop(e, l, c);
  }
  e->rows = rows;
  e->vecs = e->plan.vecs;
  emit_statements(e, PLACE_UNIT, 0);
  if (block)
    outer_vector_loop(e, block, body);
  else
    body(e, 0);
  leave_loop(e, saved);
}

static void units_plain(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi, Body *body) {
  int64_t step = fold_most(e, FOLD_UNIT, 0)->step;
  Blocks b = blocks_begin(e, lo, hi, step);
  EmitLoop l = loop_begin(e, b.from, b.to, i64_of(e, 1));
  e->unit = l.var;
  emit_unit(e, u, 1, body);
  units_advance(e, u, 0, last_loop(e), 1);
  loop_end(e, &l);
  if (step) fold_now(e, FOLD_UNIT, 0);
  blocks_end(e, &b);
}

// Emits the number of units (rounds of all outer loops) in one round of the row loop. It is the
// product of the sizes of the loops inside it.
static LLVMValueRef round_units(Emit *e, const Units *u) {
  LLVMValueRef n = i64_of(e, 1);
  for (int l = e->k->rows + 1; l <= last_loop(e); l++) n = int_mul(e, n, u->count[l]);
  return n;
}

// Emits whether u is at the first unit of a round of the row loop: whether the counters of all
// loops inside it are 0.
static LLVMValueRef at_round_start(Emit *e, const Units *u) {
  LLVMValueRef any = i64_of(e, 0);
  for (int l = e->k->rows + 1; l <= last_loop(e); l++)
    any = bit_or(e, any, emit_read(e, e->i64, u->cell[l]));
  return int_equal(e, any, i64_of(e, 0));
}

// Emits whether a tile can begin at `unit`: at the start of a round of the row loop, with enough
// rounds left, and with all of its units before hi. tile: the number of units of a tile.
static LLVMValueRef jam_fits(Emit *e, const Units *u, LLVMValueRef unit, LLVMValueRef hi,
                             LLVMValueRef tile) {
  int rows = e->k->rows;
  LLVMValueRef c = emit_read(e, e->i64, u->cell[rows]);
  LLVMValueRef last = int_add(e, c, i64_of(e, e->plan.rows));
  LLVMValueRef in_loop = int_cmp(e, LLVMIntSLE, last, e->extent[rows]);
  LLVMValueRef in_chunk = int_cmp(e, LLVMIntSLE, int_add(e, unit, tile), hi);
  return bit_and(e, bit_and(e, in_loop, in_chunk), at_round_start(e, u));
}

// Emits units lo..hi-1, the rounds of the outer loops. CpuPlan.rows rounds of the row loop run
// together as a tile where they fit; other units run one by one.
static void units_jammed(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi, Body *body) {
  LLVMBuilderRef b = e->b;
  int rows = e->k->rows, last = last_loop(e);
  LLVMValueRef unit = emit_alloca(e, e->i64), round = round_units(e, u);
  LLVMValueRef tile = int_mul(e, round, i64_of(e, e->plan.rows));
  LLVMBasicBlockRef head = emit_block(e), jam = emit_block(e), one = emit_block(e),
                    test = emit_block(e), done = emit_block(e);
  LLVMBuildStore(b, lo, unit);
  LLVMBuildBr(b, test);
  LLVMPositionBuilderAtEnd(b, test);
  LLVMValueRef at = emit_read(e, e->i64, unit);
  LLVMBuildCondBr(b, int_less(e, at, hi), head, done);
  LLVMPositionBuilderAtEnd(b, head);
  LLVMBuildCondBr(b, jam_fits(e, u, at, hi, tile), jam, one);
  e->unit = at;

  LLVMPositionBuilderAtEnd(b, jam);
  EmitLoop l = loop_begin(e, i64_of(e, 0), round, i64_of(e, 1));
  emit_unit(e, u, e->plan.rows, body);
  fold_units(e);
  if (rows < last) units_advance(e, u, rows + 1, last, 1);
  loop_end(e, &l);
  units_advance(e, u, 0, rows, e->plan.rows);
  LLVMBuildStore(b, int_add(e, at, tile), unit);
  LLVMBuildBr(b, test);

  LLVMPositionBuilderAtEnd(b, one);
  emit_unit(e, u, 1, body);
  fold_units(e);
  units_advance(e, u, 0, last, 1);
  LLVMBuildStore(b, int_add(e, at, i64_of(e, 1)), unit);
  LLVMBuildBr(b, test);
  LLVMPositionBuilderAtEnd(b, done);
}

// -- runs ---------------------------------------------------------------------------------------

// Emits loops over the slabs (parts of the inner loops), with units lo..hi-1 inside. They run over
// each round of inner loops i..slab_loop-1, and over slab_loop in steps of slab_step rounds.
static void emit_slabs(Emit *e, const Units *u, int i, LLVMValueRef lo, LLVMValueRef hi) {
  int l = e->k->nouter + i;
  bool pieces = i == e->plan.slab_loop;
  EmitLoop loop =
      loop_begin(e, i64_of(e, 0), e->extent[l], i64_of(e, pieces ? e->plan.slab_step : 1));
  if (pieces) {
    e->slab_from = loop.var;
    e->slab_to = int_min(e, int_add(e, loop.var, loop.step), e->extent[l]);
    units_decode(e, u, lo);
    units_jammed(e, u, lo, hi, unit_slab);
  } else {
    LLVMValueRef *saved = enter_loop(e, l, loop.var);
    emit_slabs(e, u, i + 1, lo, hi);
    leave_loop(e, saved);
  }
  loop_end(e, &loop);
}

void units_after_slabs(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi) {
  units_decode(e, u, lo);
  if (e->plan.rows > 1 && !e->plan.product.on)
    units_jammed(e, u, lo, hi, unit_after_slabs);
  else
    units_plain(e, u, lo, hi, unit_after_slabs);
}

static void run_in_slabs(Emit *e, const void *units, LLVMValueRef lo, LLVMValueRef hi) {
  const Units *u = units;
  e->run = lo;
  scratch_clear(e, int_sub(e, hi, lo));
  e->slab = true;
  emit_slabs(e, u, 0, lo, hi);
  e->slab = false;
  units_after_slabs(e, u, lo, hi);
}

void each_run(Emit *e, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef round, RunBody *body,
              const void *context) {
  LLVMValueRef at = emit_alloca(e, e->i64);
  LLVMBasicBlockRef head = emit_block(e), run = emit_block(e), done = emit_block(e);
  LLVMBuildStore(e->b, lo, at);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef from = emit_read(e, e->i64, at);
  LLVMBuildCondBr(e->b, int_less(e, from, hi), run, done);
  LLVMPositionBuilderAtEnd(e->b, run);
  LLVMValueRef left = int_sub(e, round, LLVMBuildURem(e->b, from, round, ""));
  LLVMValueRef n = int_min(e, int_min(e, int_sub(e, hi, from), left), i64_of(e, e->plan.run));
  LLVMValueRef to = int_add(e, from, n);
  body(e, context, from, to);
  LLVMBuildStore(e->b, to, at);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, done);
}

// Emits units lo..hi-1 in runs. All units of a run are within one block of the vector loop.
static void units_in_runs(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi) {
  LLVMValueRef others = i64_of(e, 1);
  for (int l = 0; l <= last_loop(e); l++) others = int_mul(e, others, u->count[l]);
  each_run(e, lo, hi, others, run_in_slabs, u);
}

// Returns the elements of the sums of a run. The last tile of a product may have fewer rows than it
// computes.
static int64_t scratch_elements(const Emit *e) {
  int64_t rows = ceil_div(e->plan.run, e->plan.rows) * e->plan.rows;
  return e->plan.scratch_row * (e->plan.product.on ? rows : e->plan.run);
}

void emit_units(Emit *e, LLVMValueRef lo, LLVMValueRef hi) {
  Units u = units_make(e);
  if (e->plan.winograd.on) {
    (e->k->images ? units_as_winograd_grad : units_as_winograd)(e, &u, lo, hi);
    return;
  }
  if (e->plan.slab_step)
    e->scratch = scratch_make(e, scratch_type(e, scratch_stmt(e)), scratch_elements(e));
  if (e->plan.product.on) {
    units_as_product(e, &u, lo, hi);
    return;
  }
  if (e->plan.slab_step) {
    units_in_runs(e, &u, lo, hi);
    return;
  }
  units_decode(e, &u, lo);
  if (e->k->rows >= 0 && e->plan.rows > 1)
    units_jammed(e, &u, lo, hi, phases_from);
  else
    units_plain(e, &u, lo, hi, phases_from);
}
#endif
