// Reductions: K_REDUCE, over the inner loops of a unit, and K_ACCUM, over all units of a chunk.
// Sets their accumulators to identities, adds to them, and reads their results.
//
// A unit is one round of the outer loops, a chunk the units of one call, a phase one pass over the
// inner loops. Accumulators are cells (stack memory) or in the partial row of the chunk
// (emit_cells.c). Those of long sums are folded (emit_fold.c). A tile is a number of rounds of an
// outer loop, the rows, by a number of vectors that run together.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM

static void cell_make(Emit *e, int s, int at) {
  e->cell[at] = emit_alloca(e, cell_type(e, s, e->k->stmt[s].type));
  fold_make(e, s, at);
}

void cells_make(Emit *e) {
  fold_units_begin(e);
  for (int s = 0; s < e->k->nstmts; s++) {
    bool reduce = e->k->stmt[s].kind == K_REDUCE;
    int rows = reduce && depends(e, s, e->k->rows) ? e->plan.rows : 1;
    if (reduce || (e->k->stmt[s].kind == K_ACCUM && accum_in_registers(e, s)))
      each_cell(e, s, rows, cell_vecs(e, s), cell_make);
  }
}

static void cell_clear(Emit *e, int s, int at) {
  level_clear(e, s, e->k->stmt[s].type, e->cell[at]);
  fold_clear(e, s, at);
}

// Emits cell = op(cell, x), where the cell is the accumulator of reduction s for row r and vector
// v. If lanes are joined later, those that are not in use keep their value. Otherwise each lane is
// a result of its own, and no code reads the lanes that are not in use.
static void cell_add(Emit *e, int s, int r, int v, LLVMValueRef x) {
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef cell = e->cell[instance_id(s, r, v)],
               old = emit_read(e, cell_type(e, s, st->type), cell);
  if (cell_is_vector(e, s)) x = emit_splat(e, x);
  LLVMValueRef y = emit_join(e, st->op, st->type, old, x);
  bool joined = st->kind == K_ACCUM || !e->plan.vec_outer;
  if (e->mask && is_vector(y) && joined) y = pick(e, e->mask, y, old);
  LLVMBuildStore(e->b, y, cell);
}

static LLVMValueRef operand(Emit *e, int s, int r, int v) {
  const KStmt *st = &e->k->stmt[s];
  return operand_at(e, st, 0, st->type, r, v);
}

// -- REDUCE -------------------------------------------------------------------------------------

static bool reduces_in(const Emit *e, int s, int phase) {
  return e->k->stmt[s].kind == K_REDUCE && e->k->stmt[s].phase == phase;
}

void reduce_begin(Emit *e, int phase) {
  for (int s = 0; s < e->k->nstmts; s++) {
    if (!reduces_in(e, s, phase)) continue;
    folds_begin(e, s);
    each_cell(e, s, body_rows(e, s), body_vecs(e, s), cell_clear);
  }
}

void emit_reduce(Emit *e, int s, int r, int v) {
  int row = depends(e, s, e->k->rows) ? r : 0, vec = cell_is_vector(e, s) ? v : 0;
  cell_add(e, s, row, vec, operand(e, s, r, v));
}

// Sets Emit.value of reduction s for row r of a tile. In an outer vector loop each accumulator
// gives a value. In an inner vector loop all lanes of all accumulators of the row are joined to one
// value.
static void reduce_finish(Emit *e, int s, int r) {
  const KStmt *st = &e->k->stmt[s];
  int n = body_vecs(e, s);
  if (!vector_is_inner(e)) {
    for (int v = 0; v < n; v++)
      e->value[instance_id(s, r, v)] = fold_narrow(e, s, fold_value(e, s, instance_id(s, r, v)));
    return;
  }
  LLVMValueRef all[TILE_VECS];
  Dtype t = fold_type(e, s);
  for (int v = 0; v < n; v++) all[v] = fold_value(e, s, instance_id(s, r, v));
  for (; n > 1; n = (n + 1) / 2)
    for (int v = 0; v < n / 2; v++) all[v] = emit_join(e, st->op, t, all[v], all[n - 1 - v]);
  e->value[instance_id(s, r, 0)] = fold_narrow(e, s, emit_horizontal(e, st->op, t, all[0]));
}

void reduce_end(Emit *e, int phase) {
  for (int s = 0; s < e->k->nstmts; s++)
    for (int r = 0; reduces_in(e, s, phase) && r < body_rows(e, s); r++) reduce_finish(e, s, r);
}

// -- the scratch of a run -----------------------------------------------------------------------
//
// A kernel with slabs, parts of the inner loops (emit_units.c), has one sum. Between two slabs the
// sums of a run are in Emit.scratch. It has a row for each unit of the run, with an element for
// each element of the vector loop in that unit, filled up to full vectors.

int scratch_stmt(const Emit *e) {
  for (int s = 0; s < e->k->nstmts; s++)
    if (e->k->stmt[s].kind == K_REDUCE) return s;
  BUG("kernel %s: nothing to sum in slabs", e->k->name);
}

Dtype scratch_type(const Emit *e, int s) {
  return e->plan.slab_wide && stmt_folds(&e->k->stmt[s]) ? TYPE_F64 : e->k->stmt[s].type;
}

static LLVMValueRef scratch_at(Emit *e, int s, int r, int v) {
  LLVMValueRef at = int_add(e, int_sub(e, e->unit, e->run), i64_of(e, r));
  at = int_mul(e, at, i64_of(e, e->plan.scratch_row));
  at = int_add(e, at, int_sub(e, e->counter[e->k->vector], e->block_from));
  at = int_add(e, at, i64_of(e, (int64_t)v * e->plan.lanes));
  return emit_at(e, reg_type(e, scratch_type(e, s)), e->scratch, at);
}

LLVMValueRef scratch_make(Emit *e, Dtype t, int64_t elements) {
  LLVMValueRef at = emit_alloca(e, LLVMArrayType2(reg_type(e, t), (uint64_t)elements));
  LLVMSetAlignment(at, 64);
  return at;
}

void scratch_clear(Emit *e, LLVMValueRef units) {
  Dtype type = scratch_type(e, scratch_stmt(e));
  LLVMTypeRef t = reg_type(e, type);
  EmitLoop l = loop_begin(e, i64_of(e, 0), int_mul(e, units, i64_of(e, e->plan.scratch_row)),
                          i64_of(e, e->plan.lanes));
  LLVMBuildStore(e->b, LLVMConstNull(type_vector(e, t)), emit_at(e, t, e->scratch, l.var));
  loop_end(e, &l);
}

static LLVMValueRef scratch_load(Emit *e, int s, LLVMValueRef at) {
  return emit_read(e, type_vector(e, reg_type(e, scratch_type(e, s))), at);
}

void reduce_spill(Emit *e) {
  int s = scratch_stmt(e);
  Dtype t = scratch_type(e, s);
  for (int r = 0; r < e->rows; r++)
    for (int v = 0; v < e->vecs; v++) {
      LLVMValueRef at = scratch_at(e, s, r, v), old = scratch_load(e, s, at);
      LLVMValueRef x = emit_coerce(e, fold_value(e, s, instance_id(s, r, v)), fold_type(e, s), t);
      LLVMBuildStore(e->b, emit_join(e, OP_SUM, t, old, x), at);
    }
}

void reduce_fetch(Emit *e) {
  int s = scratch_stmt(e);
  for (int r = 0; r < e->rows; r++)
    for (int v = 0; v < e->vecs; v++) {
      LLVMValueRef x = scratch_load(e, s, scratch_at(e, s, r, v));
      e->value[instance_id(s, r, v)] = emit_coerce(e, x, scratch_type(e, s), e->k->stmt[s].type);
    }
}

// -- ACCUM --------------------------------------------------------------------------------------

static void leaf_clear(Emit *e, int s, LLVMValueRef index, bool vector) {
  const KStmt *st = &e->k->stmt[s];
  store_raw(e, st->type, partial_at(e, s, index), emit_identity(e, st->op, st->type, vector));
}

void accum_begin(Emit *e) {
  for (int s = 0; s < e->k->nstmts; s++) {
    if (e->k->stmt[s].kind != K_ACCUM) continue;
    folds_begin(e, s);
    if (kernel_accum_wide(e->k, s)) wide_clear(e, s);
    if (!accum_in_registers(e, s))
      each_of_row(e, s, i64_of(e, 0), accum_elements(e->k, s), e->k->vector >= 0, leaf_clear);
    else
      each_cell(e, s, 1, cell_vecs(e, s), cell_clear);
  }
}

// Emits the index of the element to which the body adds for reduction s, in the memory with a
// chunk's results. It is that for the counters of the inner loops and lane 0 of vector v.
static LLVMValueRef row_index(Emit *e, int s, int v) {
  LLVMValueRef at = i64_of(e, 0);
  for (int l = e->k->nouter; l < e->k->nouter + e->k->ninner; l++) {
    int64_t stride = accum_stride(e->k, s, l);
    if (stride) at = int_add(e, at, int_mul(e, counter_at(e, l, 0, v), i64_of(e, stride)));
  }
  return at;
}

static void accum_in_row(Emit *e, int s, int v, LLVMValueRef x) {
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef at = partial_at(e, s, row_index(e, s, v));
  bool along = vector_is_inner(e) && accum_stride(e->k, s, e->k->vector) != 0;
  if (e->in_vector) x = emit_splat(e, x);
  if (e->in_vector && !along) {
    if (e->mask) x = pick(e, e->mask, x, emit_identity(e, st->op, st->type, true));
    x = emit_horizontal(e, st->op, st->type, x);
  }
  LLVMValueRef old = load_raw(e, st->type, at, is_vector(x));
  store_raw(e, st->type, at, emit_join(e, st->op, st->type, old, x));
}

void emit_accum(Emit *e, int s, int r, int v) {
  LLVMValueRef x = operand(e, s, r, v);
  if (accum_in_registers(e, s))
    cell_add(e, s, 0, cell_is_vector(e, s) ? v : 0, x);
  else
    accum_in_row(e, s, v, x);
}

void accum_end(Emit *e) {
  for (int s = 0; s < e->k->nstmts; s++) {
    const KStmt *st = &e->k->stmt[s];
    if (st->kind != K_ACCUM || !accum_in_registers(e, s)) continue;
    LLVMValueRef x = fold_value(e, s, instance_id(s, 0, 0));
    Dtype t = fold_type(e, s);
    for (int v = 1; v < cell_vecs(e, s); v++)
      x = emit_join(e, st->op, t, x, fold_value(e, s, instance_id(s, 0, v)));
    if (is_vector(x)) x = emit_horizontal(e, st->op, t, x);
    store_raw(e, st->type, partial_at(e, s, NULL), fold_narrow(e, s, x));
  }
}
#endif
