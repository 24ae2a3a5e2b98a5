// K_ACCUM: reductions over all units of a block of threads. An accumulator with one element has a
// cell in each thread for the whole block. One with many elements is in the block's partial row,
// where each element has one thread that adds to it (parallel_loops in gpu_plan.c).
//
// A sum that has an array of f64 in the partial row (kernel_accum_wide) adds to that array only;
// the array before it keeps the identity.
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM

static bool is_accum(const GpuEmit *g, int s) { return g->e.k->stmt[s].kind == K_ACCUM; }
static bool in_row(const GpuEmit *g, int s) { return gpu_accum_in_row(g->e.k, s); }

// Returns whether a thread adds up values for each position, before it adds them to the row.
static bool has_cell(const GpuEmit *g, int s) {
  return in_row(g, s) && gpu_accum_has_cell(g->e.k, &g->plan, s);
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
    g->cell[s] = gpu_cell_make(g, g->e.k->stmt[s].op, g->plan.cell[s]);
    gpu_cell_clear(g, &g->cell[s]);
    if (in_row(g, s)) row_begin(g, s);
    rows |= in_row(g, s);
  }
  if (rows) gpu_barrier(g);
}

// Emits the addition of x, of type `type`, to the element of the row at the counters of the loops.
static void row_add(GpuEmit *g, int s, LLVMValueRef x, Dtype type) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef index = i64_of(e, 0);
  for (int l = e->k->nouter; l < e->k->nouter + e->k->ninner; l++) {
    int64_t stride = accum_stride(e->k, s, l);
    if (stride) index = int_add(e, index, int_mul(e, e->counter[l], i64_of(e, stride)));
  }
  bool wide = kernel_accum_wide(e->k, s);
  Dtype t = wide ? TYPE_F64 : st->type;
  LLVMValueRef at = wide ? wide_at(e, s, partial_at(e, s, NULL), index) : partial_at(e, s, index);
  x = emit_coerce(e, x, type, t);
  gpu_write(g, t, at, emit_join(e, st->op, t, gpu_read(g, t, at, GPU_GLOBAL), x), GPU_GLOBAL);
}

void gpu_accum_add(GpuEmit *g, int s) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  LLVMValueRef x = operand_at(e, st, 0, st->type, 0, 0);
  if (in_row(g, s) && !has_cell(g, s)) {
    row_add(g, s, x, st->type);
    return;
  }
  bool once = st->level == LEVEL_OUTER && g->leader;
  LLVMBasicBlockRef done = once ? if_begin(e, g->leader) : NULL;
  gpu_cell_add(g, &g->cell[s], x, st->type);
  if (once) if_end(e, done);
}

void gpu_accum_position_begin(GpuEmit *g, int phase) {
  for (int s = 0; s < g->e.k->nstmts; s++)
    if (is_accum(g, s) && g->e.k->stmt[s].phase == phase && has_cell(g, s))
      gpu_cell_clear(g, &g->cell[s]);
}

void gpu_accum_position_end(GpuEmit *g, int phase) {
  for (int s = 0; s < g->e.k->nstmts; s++)
    if (is_accum(g, s) && g->e.k->stmt[s].phase == phase && has_cell(g, s))
      row_add(g, s, emit_read(&g->e, reg_type(&g->e, g->cell[s].type), g->cell[s].at),
              g->cell[s].type);
}

void gpu_accum_end(GpuEmit *g) {
  Emit *e = &g->e;
  GpuCell *cell = arena_array(e->arena, GpuCell, e->k->nstmts + 1);
  LLVMValueRef *value = arena_array(e->arena, LLVMValueRef, e->k->nstmts + 1);
  int n = 0;
  for (int s = 0; s < e->k->nstmts; s++)
    if (is_accum(g, s) && !in_row(g, s)) cell[n++] = g->cell[s];
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
