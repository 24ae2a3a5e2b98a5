// Emits the folds of long sums, so that chains of f32 additions stay short. fold.c decides where
// accumulators are folded, ir/program/sums.h how long a chain may be.
//
// An accumulator of a long sum has levels. Values are added to the leaf, a stack cell. A fold adds
// the leaf to the middle and sets the leaf to the identity. In very long sums, every SUM_MIDDLE
// folds, the middle is added to the total, an f64.
//
// A K_ACCUM, a reduction over all units, may have many results. Its leaves are then in the partial
// row of the chunk, a memory, and behind the leaves a row of f64 totals. It has no middle.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
#include "ir/program/sums.h"

static const Fold *fold_of(const Emit *e, int s) { return &e->plan.fold[s]; }
static bool folds(const Emit *e, int s) { return fold_of(e, s)->place != FOLD_NEVER; }

void fold_make(Emit *e, int s, int at) {
  if (!folds(e, s)) return;
  e->middle[at] = emit_alloca(e, cell_type(e, s, e->k->stmt[s].type));
  if (!fold_of(e, s)->wide) return;
  e->total[at] = emit_alloca(e, cell_type(e, s, TYPE_F64));
  if (!e->leaves[s]) e->leaves[s] = emit_alloca(e, e->i64);
}

void level_clear(Emit *e, int s, Dtype t, LLVMValueRef level) {
  LLVMBuildStore(e->b, emit_identity(e, e->k->stmt[s].op, t, cell_is_vector(e, s)), level);
}

void fold_clear(Emit *e, int s, int at) {
  if (!folds(e, s)) return;
  level_clear(e, s, e->k->stmt[s].type, e->middle[at]);
  if (fold_of(e, s)->wide) level_clear(e, s, TYPE_F64, e->total[at]);
}

void folds_begin(Emit *e, int s) {
  if (e->leaves[s]) LLVMBuildStore(e->b, i64_of(e, 0), e->leaves[s]);
}

Dtype fold_type(const Emit *e, int s) {
  return folds(e, s) && fold_of(e, s)->wide ? TYPE_F64 : e->k->stmt[s].type;
}

// Emits level = op(level, x), where op is that of reduction s. `level` is the address of a level:
// the leaf, middle or total of a long sum. x has the type of s and is converted to t, the type of
// the level.
static void level_add(Emit *e, int s, Dtype t, LLVMValueRef level, LLVMValueRef x) {
  const KStmt *st = &e->k->stmt[s];
  x = emit_coerce(e, x, st->type, t);
  LLVMValueRef old = emit_read(e, cell_type(e, s, t), level);
  LLVMBuildStore(e->b, emit_join(e, st->op, t, old, x), level);
}

// Emits a load of a level (the leaf, middle or total of a long sum), and a store of the identity in
// its place. Returns the loaded value.
static LLVMValueRef level_take(Emit *e, int s, LLVMValueRef level) {
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef x = emit_read(e, cell_type(e, s, st->type), level);
  level_clear(e, s, st->type, level);
  return x;
}

LLVMValueRef fold_value(Emit *e, int s, int at) {
  const KStmt *st = &e->k->stmt[s];
  LLVMTypeRef t = cell_type(e, s, st->type);
  LLVMValueRef x = emit_read(e, t, e->cell[at]);
  if (!folds(e, s)) return x;
  x = emit_join(e, st->op, st->type, emit_read(e, t, e->middle[at]), x);
  if (!fold_of(e, s)->wide) return x;
  LLVMValueRef total = emit_read(e, cell_type(e, s, TYPE_F64), e->total[at]);
  return emit_join(e, st->op, TYPE_F64, total, emit_coerce(e, x, st->type, TYPE_F64));
}

LLVMValueRef fold_narrow(Emit *e, int s, LLVMValueRef x) {
  return emit_coerce(e, x, fold_type(e, s), e->k->stmt[s].type);
}

static void add_middle(Emit *e, int s, int at) {
  level_add(e, s, TYPE_F64, e->total[at], level_take(e, s, e->middle[at]));
}

static void add_leaf(Emit *e, int s, int at) {
  level_add(e, s, e->k->stmt[s].type, e->middle[at], level_take(e, s, e->cell[at]));
}

// Emits the folds of sum s whose levels are in registers. All leaves, to which values are added,
// are added to their middles. Every SUM_MIDDLE folds, the middles are added to the f64 totals.
static void fold_registers(Emit *e, int s) {
  each_cell(e, s, body_rows(e, s), body_vecs(e, s), add_leaf);
  if (!fold_of(e, s)->wide) return;
  LLVMBasicBlockRef full = if_begin(e, count_round(e, e->leaves[s], SUM_MIDDLE));
  each_cell(e, s, body_rows(e, s), body_vecs(e, s), add_middle);
  if_end(e, full);
}

void each_of_row(Emit *e, int s, LLVMValueRef from, int64_t n, bool vector, RowBody *body) {
  LLVMValueRef mask[4] = {e->mask, e->active, e->last_mask, e->last_active};
  LLVMValueRef to = int_add(e, from, i64_of(e, n));
  emit_mask_off(e);
  EmitLoop l = loop_begin(e, from, to, i64_of(e, vector ? e->plan.lanes : 1));
  if (vector && n % e->plan.lanes) emit_mask(e, int_sub(e, to, l.var));
  body(e, s, l.var, vector);
  loop_end(e, &l);
  e->mask = mask[0], e->active = mask[1], e->last_mask = mask[2], e->last_active = mask[3];
}

static bool fills_vector(const Emit *e, int64_t n) {
  return e->k->vector >= 0 && n >= e->plan.lanes;
}

static void wide_begin(Emit *e, int s, LLVMValueRef index, bool vector) {
  LLVMValueRef to = wide_at(e, s, partial_at(e, s, NULL), index);
  store_raw(e, TYPE_F64, to, emit_identity(e, e->k->stmt[s].op, TYPE_F64, vector));
}

void wide_clear(Emit *e, int s) {
  int64_t n = accum_elements(e->k, s);
  each_of_row(e, s, i64_of(e, 0), n, fills_vector(e, n), wide_begin);
}

static void wide_add(Emit *e, int s, LLVMValueRef index, bool vector) {
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef leaf = partial_at(e, s, index), wide = wide_at(e, s, partial_at(e, s, NULL), index);
  LLVMValueRef x = emit_coerce(e, load_raw(e, st->type, leaf, vector), st->type, TYPE_F64);
  store_raw(e, TYPE_F64, wide,
            emit_join(e, st->op, TYPE_F64, load_raw(e, TYPE_F64, wide, vector), x));
  store_raw(e, st->type, leaf, emit_identity(e, st->op, st->type, vector));
}

// Emits the addition of leaves (partial sums) of reduction s to their f64 totals. The leaves
// are elements of the partial row, the memory with the results of a chunk. If `place` is an inner
// loop, only the leaves to which one run of that loop adds are folded. The counters of the loops
// around it give the first of these leaves. For other places all leaves are folded.
static void fold_row(Emit *e, int s, int place) {
  int at = place < FOLD_LOOP ? e->k->nouter : e->k->nouter + place - FOLD_LOOP;
  LLVMValueRef from = i64_of(e, 0);
  int64_t n = 1;
  for (int l = e->k->nouter; l < e->k->nouter + e->k->ninner; l++) {
    int64_t stride = accum_stride(e->k, s, l);
    if (stride && l >= at)
      n *= e->k->loop[l].size;
    else if (stride)
      from = int_add(e, from, int_mul(e, e->counter[l], i64_of(e, stride)));
  }
  each_of_row(e, s, from, n, fills_vector(e, n), wide_add);
}

static bool folds_here(const Emit *e, int s, int place, int phase) {
  const Fold *f = fold_of(e, s);
  bool of_phase = place < FOLD_LOOP || e->k->stmt[s].phase == phase;
  return f->place == place && of_phase;
}

const Fold *fold_most(const Emit *e, int place, int phase) {
  static const Fold none = {0};
  const Fold *most = &none;
  for (int s = 0; s < e->k->nstmts; s++)
    if (folds_here(e, s, place, phase) && (!most->step || fold_of(e, s)->step < most->step))
      most = fold_of(e, s);
  return most;
}

void fold_now(Emit *e, int place, int phase) {
  for (int s = 0; s < e->k->nstmts; s++) {
    if (!folds_here(e, s, place, phase)) continue;
    if (kernel_accum_wide(e->k, s))
      fold_row(e, s, place);
    else
      fold_registers(e, s);
  }
}

void fold_units_begin(Emit *e) {
  if (!fold_most(e, FOLD_UNIT, 0)->step) return;
  e->units = emit_alloca(e, e->i64);
  LLVMBuildStore(e->b, i64_of(e, 0), e->units);
}

void fold_units(Emit *e) {
  int64_t step = fold_most(e, FOLD_UNIT, 0)->step;
  if (!step || e->slab) return;
  LLVMBasicBlockRef full = if_begin(e, count_round(e, e->units, step));
  fold_now(e, FOLD_UNIT, 0);
  if_end(e, full);
}
#endif
