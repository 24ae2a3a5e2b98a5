// REDUCE and ACCUM: accumulators, identities, joining lanes.
//
// Accumulators are stack cells that LLVM's mem2reg turns into registers, one an instance. A REDUCE
// along the vector loop keeps a vector of partial results and joins its lanes when its phase ends;
// across an outer vector loop every lane is a result of its own. An ACCUM whose pointer moves along
// no inner loop lives in registers for the whole chunk, others stand in the chunk's partial row.
#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <math.h>

// -- identities and joining ---------------------------------------------------------------------

LLVMValueRef emit_identity(Emit *e, Op op, Dtype t, bool vector) {
  LLVMTypeRef type = vector ? type_vector(e, reg_type(e, t)) : reg_type(e, t);
  Monoid m = op_row(op)->monoid;
  return dtype_is_float(t) ? const_real(type, monoid_identity(m, t))
                           : const_int(type, monoid_identity_int(m, t));
}

// Halves are joined until one lane is left.
LLVMValueRef emit_horizontal(Emit *e, Op op, Dtype t, LLVMValueRef v) {
  for (unsigned n = LLVMGetVectorSize(LLVMTypeOf(v)) / 2; n >= 1; n /= 2) {
    LLVMValueRef low[32], high[32], none = LLVMGetPoison(LLVMTypeOf(v));
    for (unsigned i = 0; i < n; i++) {
      low[i] = LLVMConstInt(e->i32, i, false);
      high[i] = LLVMConstInt(e->i32, n + i, false);
    }
    LLVMValueRef a = LLVMBuildShuffleVector(e->b, v, none, LLVMConstVector(low, n), "");
    LLVMValueRef b = LLVMBuildShuffleVector(e->b, v, none, LLVMConstVector(high, n), "");
    v = emit_join(e, op, t, a, b);
  }
  return LLVMBuildExtractElement(e->b, v, i64_of(e, 0), "");
}

// -- cells --------------------------------------------------------------------------------------

static bool vector_inner(const Emit *e) { return e->k->vector >= 0 && !e->plan.vec_outer; }

// Is the statement executed inside the vector loop?
static bool runs_in_vector_loop(const Emit *e, const KStmt *s) {
  if (e->k->vector < 0) return false;
  return e->plan.vec_outer || s->level == LEVEL_INNER || s->kind == K_REDUCE;
}

// A value that is the same in all lanes of an outer vector loop needs one accumulator for them.
bool cell_is_vector(const Emit *e, int s) {
  const KStmt *st = &e->k->stmt[s];
  if (!runs_in_vector_loop(e, st)) return false;
  return st->kind == K_ACCUM || vector_inner(e) || depends(e, s, e->k->vector);
}

static bool in_registers(const Emit *e, int s) {
  const KStmt *st = &e->k->stmt[s];
  return st->kind == K_REDUCE || (st->kind == K_ACCUM && accum_elements(e->k, s) == 1);
}

static LLVMTypeRef cell_type(Emit *e, int s) {
  LLVMTypeRef t = reg_type(e, e->k->stmt[s].type);
  return cell_is_vector(e, s) ? type_vector(e, t) : t;
}

static int cell_rows(const Emit *e, int s) { return depends(e, s, e->k->rows) ? e->plan.rows : 1; }
int cell_vecs(const Emit *e, int s) { return cell_is_vector(e, s) ? e->plan.vecs : 1; }

void cells_make(Emit *e) {
  fold_units_begin(e);
  for (int s = 0; s < e->k->nstmts; s++) {
    if (!in_registers(e, s)) continue;
    int rows = e->k->stmt[s].kind == K_ACCUM ? 1 : cell_rows(e, s);
    for (int r = 0; r < rows; r++)
      for (int v = 0; v < cell_vecs(e, s); v++) {
        e->cell[cell_index(s, r, v)] = emit_alloca(e, cell_type(e, s));
        fold_make(e, s, cell_index(s, r, v));
      }
  }
}

static void cell_clear(Emit *e, int s, int r, int v) {
  const KStmt *st = &e->k->stmt[s];
  LLVMBuildStore(e->b, emit_identity(e, st->op, st->type, cell_is_vector(e, s)),
                 e->cell[cell_index(s, r, v)]);
  fold_clear(e, s, cell_index(s, r, v));
}

static LLVMValueRef cell_get(Emit *e, int s, int r, int v) {
  return LLVMBuildLoad2(e->b, cell_type(e, s), e->cell[cell_index(s, r, v)], "");
}

// cell = op(cell, x), in the lanes in use; where each lane is a result of its own the others do not
// matter.
static void cell_add(Emit *e, int s, int r, int v, LLVMValueRef x) {
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef old = cell_get(e, s, r, v);
  if (cell_is_vector(e, s)) x = emit_splat(e, x);
  LLVMValueRef y = emit_join(e, st->op, st->type, old, x);
  bool joined = st->kind == K_ACCUM || !e->plan.vec_outer;
  if (e->mask && is_vector(y) && joined) y = LLVMBuildSelect(e->b, e->mask, y, old, "");
  LLVMBuildStore(e->b, y, e->cell[cell_index(s, r, v)]);
}

static LLVMValueRef operand(Emit *e, int s, int r, int v) {
  const KStmt *st = &e->k->stmt[s];
  return emit_coerce(e, value_at(e, st->arg[0], r, v), e->k->stmt[st->arg[0]].type, st->type);
}

// -- REDUCE -------------------------------------------------------------------------------------

// Instances: an inner vector loop folds all its vectors into cells of one row.
int reduce_vecs(const Emit *e, int s) {
  return vector_inner(e) ? e->plan.vecs : cell_is_vector(e, s) ? e->vecs : 1;
}

void reduce_begin(Emit *e, int phase) {
  for (int s = 0; s < e->k->nstmts; s++) {
    if (e->k->stmt[s].kind != K_REDUCE || e->k->stmt[s].phase != phase) continue;
    int rows = depends(e, s, e->k->rows) ? e->rows : 1;
    folds_begin(e, s);
    for (int r = 0; r < rows; r++)
      for (int v = 0; v < reduce_vecs(e, s); v++) cell_clear(e, s, r, v);
  }
}

void emit_reduce(Emit *e, int s, int r, int v) {
  int row = depends(e, s, e->k->rows) ? r : 0, vec = cell_is_vector(e, s) ? v : 0;
  cell_add(e, s, row, vec, operand(e, s, r, v));
}

static void reduce_finish(Emit *e, int s, int r) {
  const KStmt *st = &e->k->stmt[s];
  int n = reduce_vecs(e, s);
  if (!vector_inner(e)) {
    for (int v = 0; v < n; v++)
      e->value[cell_index(s, r, v)] = fold_narrow(e, s, fold_value(e, s, cell_index(s, r, v)));
    return;
  }
  LLVMValueRef all[TILE_VECS];
  Dtype t = fold_type(e, s);
  for (int v = 0; v < n; v++) all[v] = fold_value(e, s, cell_index(s, r, v));
  for (; n > 1; n = (n + 1) / 2)
    for (int v = 0; v < n / 2; v++) all[v] = emit_join(e, st->op, t, all[v], all[n - 1 - v]);
  e->value[cell_index(s, r, 0)] = fold_narrow(e, s, emit_horizontal(e, st->op, t, all[0]));
}

void reduce_end(Emit *e, int phase) {
  for (int s = 0; s < e->k->nstmts; s++) {
    if (e->k->stmt[s].kind != K_REDUCE || e->k->stmt[s].phase != phase) continue;
    int rows = depends(e, s, e->k->rows) ? e->rows : 1;
    for (int r = 0; r < rows; r++) reduce_finish(e, s, r);
  }
}

// -- the scratch of a run -----------------------------------------------------------------------
// A row of whole vectors for every unit.

static int scratch_stmt(const Emit *e) {
  for (int s = 0; s < e->k->nstmts; s++)
    if (e->k->stmt[s].kind == K_REDUCE) return s;
  BUG("kernel %s: nothing to sum in slabs", e->k->name);
}

static int64_t scratch_row(const Emit *e) {
  return ceil_div(e->k->block, e->plan.lanes) * e->plan.lanes;
}

static Dtype scratch_type(const Emit *e, int s) {
  return e->plan.slab_wide && stmt_folds(&e->k->stmt[s]) ? TYPE_F64 : e->k->stmt[s].type;
}

static LLVMValueRef scratch_at(Emit *e, int s, int r, int v) {
  LLVMValueRef at = LLVMBuildAdd(e->b, LLVMBuildSub(e->b, e->unit, e->run, ""), i64_of(e, r), "");
  at = LLVMBuildMul(e->b, at, i64_of(e, scratch_row(e)), "");
  at = LLVMBuildAdd(e->b, at, LLVMBuildSub(e->b, e->counter[e->k->vector], e->block_from, ""), "");
  at = LLVMBuildAdd(e->b, at, i64_of(e, (int64_t)v * e->plan.lanes), "");
  return LLVMBuildGEP2(e->b, reg_type(e, scratch_type(e, s)), e->scratch, &at, 1, "");
}

void scratch_clear(Emit *e, LLVMValueRef units) {
  int s = scratch_stmt(e);
  LLVMTypeRef t = reg_type(e, scratch_type(e, s));
  e->scratch = emit_alloca(e, LLVMArrayType2(t, (uint64_t)(scratch_row(e) * e->plan.run)));
  LLVMSetAlignment(e->scratch, 64);
  EmitLoop l = loop_begin(e, i64_of(e, 0), LLVMBuildMul(e->b, units, i64_of(e, scratch_row(e)), ""),
                          i64_of(e, e->plan.lanes));
  LLVMBuildStore(e->b, LLVMConstNull(type_vector(e, t)),
                 LLVMBuildGEP2(e->b, t, e->scratch, &l.var, 1, ""));
  loop_end(e, &l);
}

static LLVMValueRef scratch_load(Emit *e, int s, LLVMValueRef at) {
  return LLVMBuildLoad2(e->b, type_vector(e, reg_type(e, scratch_type(e, s))), at, "");
}

void reduce_spill(Emit *e) {
  int s = scratch_stmt(e);
  Dtype t = scratch_type(e, s);
  for (int r = 0; r < e->rows; r++)
    for (int v = 0; v < e->vecs; v++) {
      LLVMValueRef at = scratch_at(e, s, r, v), old = scratch_load(e, s, at);
      LLVMValueRef x = emit_coerce(e, fold_value(e, s, cell_index(s, r, v)), fold_type(e, s), t);
      LLVMBuildStore(e->b, emit_join(e, OP_SUM, t, old, x), at);
    }
}

void reduce_fetch(Emit *e) {
  int s = scratch_stmt(e);
  for (int r = 0; r < e->rows; r++)
    for (int v = 0; v < e->vecs; v++) {
      LLVMValueRef x = scratch_load(e, s, scratch_at(e, s, r, v));
      e->value[cell_index(s, r, v)] = emit_coerce(e, x, scratch_type(e, s), e->k->stmt[s].type);
    }
}

// -- ACCUM --------------------------------------------------------------------------------------

LLVMValueRef partial_at(Emit *e, int s, LLVMValueRef index) {
  LLVMValueRef off = i64_of(e, accum_offset(e->k, s));
  LLVMValueRef at = LLVMBuildGEP2(e->b, e->i8, e->partial, &off, 1, "");
  return index ? LLVMBuildGEP2(e->b, mem_type(e, e->k->stmt[s].type), at, &index, 1, "") : at;
}

static void row_clear(Emit *e, int s) {
  const KStmt *st = &e->k->stmt[s];
  bool vector = e->k->vector >= 0;
  // the row is padded to 64 bytes, so that whole vectors of most types fit; masks cover the others
  int64_t n = accum_elements(e->k, s), step = vector ? e->plan.lanes : 1;
  EmitLoop l = loop_begin(e, i64_of(e, 0), i64_of(e, n), i64_of(e, step));
  if (vector && n % step) emit_mask(e, LLVMBuildSub(e->b, i64_of(e, n), l.var, ""));
  store_raw(e, st->type, partial_at(e, s, l.var), emit_identity(e, st->op, st->type, vector));
  emit_mask_off(e);
  loop_end(e, &l);
}

void accum_begin(Emit *e) {
  for (int s = 0; s < e->k->nstmts; s++) {
    if (e->k->stmt[s].kind != K_ACCUM) continue;
    folds_begin(e, s);
    if (kernel_accum_wide(e->k, s)) wide_clear(e, s);
    if (!in_registers(e, s))
      row_clear(e, s);
    else
      for (int v = 0; v < cell_vecs(e, s); v++) cell_clear(e, s, 0, v);
  }
}

// Place in the row of ACCUM s at the counters of the inner loops, instance v.
static LLVMValueRef row_index(Emit *e, int s, int v) {
  LLVMValueRef at = i64_of(e, 0);
  for (int l = e->k->nouter; l < e->k->nouter + e->k->ninner; l++) {
    int64_t stride = accum_stride(e->k, s, l);
    if (stride == 0) continue;
    LLVMValueRef i = e->counter[l];
    if (l == e->k->vector) i = LLVMBuildAdd(e->b, i, i64_of(e, (int64_t)v * e->plan.lanes), "");
    at = LLVMBuildAdd(e->b, at, LLVMBuildMul(e->b, i, i64_of(e, stride), ""), "");
  }
  return at;
}

static void accum_in_row(Emit *e, int s, int v, LLVMValueRef x) {
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef at = partial_at(e, s, row_index(e, s, v));
  bool along = vector_inner(e) && accum_stride(e->k, s, e->k->vector) != 0;
  if (e->in_vector) x = emit_splat(e, x);
  if (e->in_vector && !along) {
    if (e->mask)
      x = LLVMBuildSelect(e->b, e->mask, x, emit_identity(e, st->op, st->type, true), "");
    x = emit_horizontal(e, st->op, st->type, x);
  }
  LLVMValueRef old = load_raw(e, st->type, at, is_vector(x));
  store_raw(e, st->type, at, emit_join(e, st->op, st->type, old, x));
}

void emit_accum(Emit *e, int s, int r, int v) {
  LLVMValueRef x = operand(e, s, r, v);
  if (in_registers(e, s))
    cell_add(e, s, 0, cell_is_vector(e, s) ? v : 0, x);
  else
    accum_in_row(e, s, v, x);
}

void accum_end(Emit *e) {
  for (int s = 0; s < e->k->nstmts; s++) {
    const KStmt *st = &e->k->stmt[s];
    if (st->kind != K_ACCUM || !in_registers(e, s)) continue;
    LLVMValueRef x = fold_value(e, s, cell_index(s, 0, 0));
    Dtype t = fold_type(e, s);
    for (int v = 1; v < cell_vecs(e, s); v++)
      x = emit_join(e, st->op, t, x, fold_value(e, s, cell_index(s, 0, v)));
    if (is_vector(x)) x = emit_horizontal(e, st->op, t, x);
    store_raw(e, st->type, partial_at(e, s, NULL), fold_narrow(e, s, x));
  }
}
#endif
