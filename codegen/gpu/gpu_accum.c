// K_ACCUM: reductions over all units of a block of threads. An accumulator with one element has a
// cell in each thread for the whole block. One with many elements is in the block's partial row,
// where each element has one thread that adds to it (parallel_loops in gpu_plan.c).
//
// Where the elements are few, each thread keeps those of its positions in cells for the whole block
// and stores them to the row at the end (GpuPlan.kept).
//
// A sum that has an array of f64 in the partial row (kernel_accum_wide) adds to that array only;
// the array before it keeps the identity.
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM

static bool is_accum(const GpuEmit *g, int s) { return g->e.k->stmt[s].kind == K_ACCUM; }
static bool in_row(const GpuEmit *g, int s) { return gpu_accum_in_row(g->e.k, s); }

// Returns whether a thread adds up values for each position, before it adds them to the row.
static bool has_cell(const GpuEmit *g, int s) {
  return in_row(g, s) && !g->plan.kept && gpu_accum_has_cell(g->e.k, &g->plan, s);
}

static void row_begin(GpuEmit *g, int s) {
  Emit *e = &g->e;
  const KStmt *x = &e->k->stmt[s];
  EmitLoop l = loop_begin(e, g->thread, i64_of(e, accum_elements(e->k, s)), i64_of(e, g->threads));
  gpu_write(g, x->type, partial_at(e, s, l.var), emit_identity(e, x->op, x->type, false),
            GPU_GLOBAL);
  if (kernel_accum_wide(e->k, s))
    gpu_write(g, TYPE_F64, wide_at(e, s, partial_at(e, s, NULL), l.var),
              emit_identity(e, x->op, TYPE_F64, false), GPU_GLOBAL);
  loop_end(e, &l);
}

void gpu_accum_begin(GpuEmit *g) {
  bool rows = false;
  for (int s = 0; s < g->e.k->nstmts; s++) {
    if (!is_accum(g, s)) continue;
    gpu_cells_clear(g, s);
    if (!in_row(g, s) || g->plan.kept) continue;
    row_begin(g, s);
    rows = true;
  }
  if (rows) gpu_barrier(g);
}

// Emits the number of the element of s at the counters of the loops.
static LLVMValueRef row_index(GpuEmit *g, int s) {
  Emit *e = &g->e;
  LLVMValueRef index = i64_of(e, 0);
  for (int l = e->k->nouter; l < e->k->nouter + e->k->ninner; l++) {
    int64_t stride = accum_stride(e->k, s, l);
    if (stride) index = int_add(e, index, int_mul(e, e->counter[l], i64_of(e, stride)));
  }
  return index;
}

// Emits the addition of x, of type `type`, to the element of the row at the counters of the loops.
static void row_add(GpuEmit *g, int s, LLVMValueRef x, Dtype type) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef index = row_index(g, s);
  bool wide = kernel_accum_wide(e->k, s);
  Dtype t = wide ? TYPE_F64 : st->type;
  LLVMValueRef at = wide ? wide_at(e, s, partial_at(e, s, NULL), index) : partial_at(e, s, index);
  x = emit_coerce(e, x, type, t);
  gpu_write(g, t, at, emit_join(e, st->op, t, gpu_read(g, t, at, GPU_GLOBAL), x), GPU_GLOBAL);
}

void gpu_accum_add(GpuEmit *g, int s, int v) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef x = operand_at(e, st, 0, st->type, 0, v);
  if (in_row(g, s) && !g->plan.kept && !has_cell(g, s)) {
    row_add(g, s, x, st->type);
    return;
  }
  bool once = st->level == LEVEL_OUTER && g->leader;
  LLVMBasicBlockRef done = once ? if_begin(e, g->leader) : NULL;
  gpu_cell_add(g, gpu_cell(g, s, v), x, st->type);
  if (once) if_end(e, done);
}

void gpu_accum_position_begin(GpuEmit *g, int phase) {
  for (int s = 0; s < g->e.k->nstmts; s++)
    if (is_accum(g, s) && g->e.k->stmt[s].phase == phase && has_cell(g, s)) gpu_cells_clear(g, s);
}

// Emits the value of the cell of s at the current position.
static LLVMValueRef cell_value(GpuEmit *g, int s) {
  const GpuCell *c = gpu_cell(g, s, 0);
  return emit_read(&g->e, reg_type(&g->e, c->type), c->at);
}

void gpu_accum_position_end(GpuEmit *g, int phase) {
  for (int s = 0; s < g->e.k->nstmts; s++)
    if (is_accum(g, s) && g->e.k->stmt[s].phase == phase && has_cell(g, s))
      row_add(g, s, cell_value(g, s), g->plan.cell[s]);
}

LLVMBasicBlockRef gpu_kept_begin(GpuEmit *g, int slot) {
  Emit *e = &g->e;
  LLVMValueRef n = gpu_rounds(g, g->plan.spread, e->extent);
  LLVMValueRef at = int_add(e, g->lane, i64_of(e, (int64_t)slot * gpu_team_threads(g)));
  int64_t end = (int64_t)(slot + 1) * gpu_team_threads(g);
  bool all = LLVMIsAConstantInt(n) && LLVMConstIntGetSExtValue(n) >= end;
  LLVMBasicBlockRef done = all ? NULL : if_begin(e, int_less(e, at, n));
  gpu_decode(g, at, g->plan.narrow_spread, g->plan.spread, e->extent, e->counter);
  g->slot = slot;
  return done;
}

// Emits the value of the kept cell of s at position `slot`. Where warps have items of their own,
// their cells are joined.
static LLVMValueRef kept_value(GpuEmit *g, int s, int slot) {
  g->slot = slot;
  return g->plan.team == TEAM_WARP ? gpu_cell_join_warps(g, gpu_cell(g, s, 0)) : cell_value(g, s);
}

// Emits the store of x, the value of the kept cell of s at the current position, to the row.
static void store_kept(GpuEmit *g, int s, LLVMValueRef x) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef index = row_index(g, s);
  bool wide = kernel_accum_wide(e->k, s);
  LLVMValueRef leaf = wide ? emit_identity(e, st->op, st->type, false)
                           : emit_coerce(e, x, g->plan.cell[s], st->type);
  gpu_write(g, st->type, partial_at(e, s, index), leaf, GPU_GLOBAL);
  if (wide) gpu_write(g, TYPE_F64, wide_at(e, s, partial_at(e, s, NULL), index), x, GPU_GLOBAL);
}

// Emits the stores of the kept cells of s. Those of all warps are stored by the first warp.
static void kept_end(GpuEmit *g, int s) {
  Emit *e = &g->e;
  for (int slot = 0; slot < g->plan.kept; slot++) {
    LLVMValueRef x = kept_value(g, s, slot);
    LLVMBasicBlockRef first = if_begin(e, int_less(e, g->thread, i64_of(e, gpu_team_threads(g))));
    LLVMBasicBlockRef done = gpu_kept_begin(g, slot);
    store_kept(g, s, x);
    if (done) if_end(e, done);
    if_end(e, first);
  }
}

void gpu_accum_end(GpuEmit *g) {
  Emit *e = &g->e;
  for (int s = 0; s < e->k->nstmts; s++)
    if (is_accum(g, s) && in_row(g, s)) kept_end(g, s);
  GpuCell *cell = arena_array(e->arena, GpuCell, e->k->nstmts + 1);
  LLVMValueRef *value = arena_array(e->arena, LLVMValueRef, e->k->nstmts + 1);
  int n = 0;
  for (int s = 0; s < e->k->nstmts; s++)
    if (is_accum(g, s) && !in_row(g, s)) cell[n++] = *gpu_cell(g, s, 0);
  if (!n) return;
  gpu_cells_join(g, n, cell, true, value);
  LLVMBasicBlockRef done = if_begin(e, int_equal(e, g->thread, i64_of(e, 0)));
  for (int s = 0, i = 0; s < e->k->nstmts; s++) {
    if (!is_accum(g, s) || in_row(g, s)) continue;
    Dtype t = e->k->stmt[s].type;
    gpu_write(g, t, partial_at(e, s, NULL), emit_coerce(e, value[i], cell[i].type, t), GPU_GLOBAL);
    i++;
  }
  if_end(e, done);
}
#endif
