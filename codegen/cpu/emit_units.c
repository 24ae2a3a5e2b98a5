// Units: counters of the outer loops, register tiles, runs in slabs.
//
// With Kernel.rows, whenever `rows` rounds of that loop lie whole within lo..hi, they are run
// together (unroll and jam); else units go one by one. So chunks should be multiples of rows times
// the units inside one round of that loop.
//
// A contraction that reads more for one unit than a cache holds goes in slabs: a run of units takes
// one slab of the inner loops after the other, and sums wait in a scratch meanwhile. What is read
// along the vector loop is then reused by all units of the run (the weights of a convolution by its
// places, the errors in a weight's gradient by its taps and channels):
//
//   for units in runs                      blocks of the vector loop are the slowest of the outer loops here
//     scratch = 0
//     for slabs of the inner loops
//       for tiles of the run: sums of the slab, added to the scratch
//     for units of the run: phases after the first, from the scratch
#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <string.h>

typedef struct Units {
  LLVMValueRef cell[MAX_LOOPS]; // counters of the outer loops, of blocks along an outer vector loop
  LLVMValueRef count[MAX_LOOPS]; // their ends
} Units;

static bool is_blocked(const Emit *e, int l) { return e->plan.vec_outer && l == e->k->vector; }

static Units units_make(Emit *e) {
  Units u;
  for (int l = 0; l < e->k->nouter; l++) {
    u.cell[l] = emit_alloca(e, e->i64);
    u.count[l] = e->extent[l];
    if (!is_blocked(e, l)) continue;
    LLVMValueRef up = LLVMBuildAdd(e->b, e->extent[l], i64_of(e, e->k->block - 1), "");
    u.count[l] = LLVMBuildUDiv(e->b, up, i64_of(e, e->k->block), "");
  }
  return u;
}

// The fastest loop of units.
static int last_loop(const Emit *e) { return e->k->nouter - (e->plan.slab_step ? 2 : 1); }

static void units_decode(Emit *e, const Units *u, LLVMValueRef unit) {
  int slowest = e->plan.slab_step ? e->k->vector : 0;
  for (int l = last_loop(e); l >= 0; l--) {
    if (l == slowest) break;
    LLVMBuildStore(e->b, LLVMBuildURem(e->b, unit, u->count[l], ""), u->cell[l]);
    unit = LLVMBuildUDiv(e->b, unit, u->count[l], "");
  }
  if (e->k->nouter) LLVMBuildStore(e->b, unit, u->cell[slowest]);
}

// Counter `last` moves on by n, which carries up to loop `first`.
static void units_advance(Emit *e, const Units *u, int first, int last, int64_t n) {
  LLVMValueRef carry = i64_of(e, n);
  for (int l = last; l >= first; l--) {
    LLVMValueRef next = LLVMBuildAdd(e->b, LLVMBuildLoad2(e->b, e->i64, u->cell[l], ""), carry, "");
    LLVMValueRef wraps = LLVMBuildICmp(e->b, LLVMIntEQ, next, u->count[l], "");
    LLVMBuildStore(e->b, l == 0 ? next : LLVMBuildSelect(e->b, wraps, i64_of(e, 0), next, ""),
                   u->cell[l]);
    carry = LLVMBuildZExt(e->b, wraps, e->i64, "");
  }
}

static void unit_full(Emit *e, int unused) {
  (void)unused;
  for (int phase = 0; phase < e->k->nphases; phase++) {
    emit_phase(e, phase);
    reduce_end(e, phase);
  }
}

static void unit_slab(Emit *e, int unused) {
  (void)unused;
  emit_phase(e, 0);
  reduce_spill(e);
}

static void unit_after_slabs(Emit *e, int unused) {
  (void)unused;
  emit_statements(e, PLACE_PHASE, 0);
  reduce_fetch(e);
  for (int phase = 1; phase < e->k->nphases; phase++) {
    emit_phase(e, phase);
    reduce_end(e, phase);
  }
}

static void outer_vector_loop(Emit *e, LLVMValueRef block, Body *body) {
  const KLoop *l = &e->k->loop[e->k->vector];
  LLVMValueRef from = LLVMBuildMul(e->b, block, i64_of(e, e->k->block), "");
  LLVMValueRef end = LLVMBuildAdd(e->b, from, i64_of(e, e->k->block), ""),
               to = e->extent[e->k->vector];
  to = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, end, to, ""), end, to, "");
  int64_t span = l->slot >= 0                 ? -1
                 : e->k->block >= l->size     ? l->size
                 : l->size % e->k->block == 0 ? e->k->block
                                              : -1;
  e->block_from = from;
  vector_loop(e, from, to, span, body, 0);
}

// The unit at the counters, or `rows` of them jammed.
static void emit_unit(Emit *e, const Units *u, int rows, Body *body) {
  LLVMValueRef *saved = addresses_save(e), block = NULL;
  for (int l = 0; l < e->k->nouter; l++) {
    LLVMValueRef c = LLVMBuildLoad2(e->b, e->i64, u->cell[l], "");
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
  int64_t step = fold_step(e, FOLD_UNIT, 0);
  Blocks b = blocks_begin(e, lo, hi, step);
  EmitLoop l = loop_begin(e, b.from, b.to, i64_of(e, 1));
  e->unit = l.var;
  emit_unit(e, u, 1, body);
  units_advance(e, u, 0, last_loop(e), 1);
  loop_end(e, &l);
  if (step) fold_now(e, FOLD_UNIT, 0);
  blocks_end(e, &b);
}

// Units inside one round of the row loop, and whether the counters stand at the start of one.
static LLVMValueRef round_units(Emit *e, const Units *u) {
  LLVMValueRef n = i64_of(e, 1);
  for (int l = e->k->rows + 1; l <= last_loop(e); l++) n = LLVMBuildMul(e->b, n, u->count[l], "");
  return n;
}

static LLVMValueRef at_round_start(Emit *e, const Units *u) {
  LLVMValueRef any = i64_of(e, 0);
  for (int l = e->k->rows + 1; l <= last_loop(e); l++)
    any = LLVMBuildOr(e->b, any, LLVMBuildLoad2(e->b, e->i64, u->cell[l], ""), "");
  return LLVMBuildICmp(e->b, LLVMIntEQ, any, i64_of(e, 0), "");
}

static LLVMValueRef jam_fits(Emit *e, const Units *u, LLVMValueRef unit, LLVMValueRef hi,
                             LLVMValueRef slab) {
  int rows = e->k->rows;
  LLVMValueRef c = LLVMBuildLoad2(e->b, e->i64, u->cell[rows], "");
  LLVMValueRef last = LLVMBuildAdd(e->b, c, i64_of(e, e->plan.rows), "");
  LLVMValueRef in_loop = LLVMBuildICmp(e->b, LLVMIntSLE, last, e->extent[rows], "");
  LLVMValueRef in_chunk =
      LLVMBuildICmp(e->b, LLVMIntSLE, LLVMBuildAdd(e->b, unit, slab, ""), hi, "");
  return LLVMBuildAnd(e->b, LLVMBuildAnd(e->b, in_loop, in_chunk, ""), at_round_start(e, u), "");
}

static void units_jammed(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi, Body *body) {
  LLVMBuilderRef b = e->b;
  int rows = e->k->rows, last = last_loop(e);
  LLVMValueRef unit = emit_alloca(e, e->i64), round = round_units(e, u);
  LLVMValueRef slab = LLVMBuildMul(b, round, i64_of(e, e->plan.rows), "");
  LLVMBasicBlockRef head = emit_block(e), jam = emit_block(e), one = emit_block(e),
                    test = emit_block(e), done = emit_block(e);
  LLVMBuildStore(b, lo, unit);
  LLVMBuildBr(b, test);
  LLVMPositionBuilderAtEnd(b, test);
  LLVMValueRef at = LLVMBuildLoad2(b, e->i64, unit, "");
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, at, hi, ""), head, done);
  LLVMPositionBuilderAtEnd(b, head);
  LLVMBuildCondBr(b, jam_fits(e, u, at, hi, slab), jam, one);
  e->unit = at;

  LLVMPositionBuilderAtEnd(b, jam);
  EmitLoop l = loop_begin(e, i64_of(e, 0), round, i64_of(e, 1));
  emit_unit(e, u, e->plan.rows, body);
  fold_units(e);
  if (rows < last) units_advance(e, u, rows + 1, last, 1);
  loop_end(e, &l);
  units_advance(e, u, 0, rows, e->plan.rows);
  LLVMBuildStore(b, LLVMBuildAdd(b, at, slab, ""), unit);
  LLVMBuildBr(b, test);

  LLVMPositionBuilderAtEnd(b, one);
  emit_unit(e, u, 1, body);
  fold_units(e);
  units_advance(e, u, 0, last, 1);
  LLVMBuildStore(b, LLVMBuildAdd(b, at, i64_of(e, 1), ""), unit);
  LLVMBuildBr(b, test);
  LLVMPositionBuilderAtEnd(b, done);
}

// -- runs ---------------------------------------------------------------------------------------

static LLVMValueRef least(Emit *e, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, x, y, ""), x, y, "");
}

// One slab after the other of inner loops i..; the last of them in pieces.
static void emit_slabs(Emit *e, const Units *u, int i, LLVMValueRef lo, LLVMValueRef hi) {
  int l = e->k->nouter + i;
  bool pieces = i == e->plan.slab_loop;
  EmitLoop loop =
      loop_begin(e, i64_of(e, 0), e->extent[l], i64_of(e, pieces ? e->plan.slab_step : 1));
  if (pieces) {
    e->slab_from = loop.var;
    e->slab_to = least(e, LLVMBuildAdd(e->b, loop.var, loop.step, ""), e->extent[l]);
    units_decode(e, u, lo);
    units_jammed(e, u, lo, hi, unit_slab);
  } else {
    LLVMValueRef *saved = enter_loop(e, l, loop.var);
    emit_slabs(e, u, i + 1, lo, hi);
    leave_loop(e, saved);
  }
  loop_end(e, &loop);
}

static void emit_run(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi) {
  e->run = lo;
  scratch_clear(e, LLVMBuildSub(e->b, hi, lo, ""));
  e->slab = true;
  emit_slabs(e, u, 0, lo, hi);
  e->slab = false;
  units_decode(e, u, lo);
  units_plain(e, u, lo, hi, unit_after_slabs);
}

// A run has at most as many units as the scratch holds, all of one block.
static void units_in_runs(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi) {
  LLVMValueRef at = emit_alloca(e, e->i64), others = i64_of(e, 1);
  for (int l = 0; l <= last_loop(e); l++) others = LLVMBuildMul(e->b, others, u->count[l], "");
  LLVMBasicBlockRef head = emit_block(e), body = emit_block(e), done = emit_block(e);
  LLVMBuildStore(e->b, lo, at);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef from = LLVMBuildLoad2(e->b, e->i64, at, "");
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, from, hi, ""), body, done);
  LLVMPositionBuilderAtEnd(e->b, body);
  LLVMValueRef left = LLVMBuildSub(e->b, others, LLVMBuildURem(e->b, from, others, ""), "");
  LLVMValueRef n =
      least(e, least(e, LLVMBuildSub(e->b, hi, from, ""), left), i64_of(e, e->plan.run));
  LLVMValueRef to = LLVMBuildAdd(e->b, from, n, "");
  emit_run(e, u, from, to);
  LLVMBuildStore(e->b, to, at);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, done);
}

void emit_units(Emit *e, LLVMValueRef lo, LLVMValueRef hi) {
  Units u = units_make(e);
  if (e->plan.slab_step) {
    units_in_runs(e, &u, lo, hi);
    return;
  }
  units_decode(e, &u, lo);
  if (e->k->rows >= 0 && e->plan.rows > 1)
    units_jammed(e, &u, lo, hi, unit_full);
  else
    units_plain(e, &u, lo, hi, unit_full);
}
#endif
