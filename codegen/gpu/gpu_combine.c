// NAME_combine: joins the partial rows of all blocks of threads of a set, in order, and stores the
// results. Each thread has some of the elements of each K_ACCUM.
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM

static Dtype combine_type(const KStmt *s) { return stmt_folds(s) ? TYPE_F64 : s->type; }

// Emits the joining of element `index` of reduction s over all rows of partial results.
static LLVMValueRef join_rows(GpuEmit *g, int s, LLVMValueRef index, LLVMValueRef rows) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  Dtype type = combine_type(st);
  GpuCell cell = gpu_cell_make(g, st->op, type);
  gpu_cell_clear(g, &cell);
  EmitLoop l = loop_begin(e, i64_of(e, 0), rows, i64_of(e, 1));
  LLVMValueRef skip = int_mul(e, l.var, i64_of(e, accum_offset(e->k, e->k->nstmts)));
  LLVMValueRef row = emit_at(e, e->i8, partial_at(e, s, NULL), skip);
  LLVMValueRef at = emit_at(e, mem_type(e, st->type), row, index);
  gpu_cell_add(g, &cell, gpu_read(g, st->type, at, GPU_GLOBAL), st->type);
  if (kernel_accum_wide(e->k, s))
    gpu_cell_add(g, &cell, gpu_read(g, TYPE_F64, wide_at(e, s, row, index), GPU_GLOBAL), TYPE_F64);
  loop_end(e, &l);
  return emit_coerce(e, emit_read(e, reg_type(e, type), cell.at), type, st->type);
}

// Emits the results of reduction s for thread number `from` of the grid, which has `step` threads.
static void combine(GpuEmit *g, int s, LLVMValueRef from, int64_t step, LLVMValueRef rows) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  const KPtr *p = &e->k->ptr[st->index];
  LoopSet set = 0;
  for (int l = e->k->nouter; l < e->k->nouter + e->k->ninner; l++)
    if (p->stride[l]) set |= (LoopSet)1 << l;
  EmitLoop loop = loop_begin(e, from, gpu_rounds(g, set, e->extent), i64_of(e, step));
  gpu_decode(g, loop.var, false, set, e->extent, e->counter);
  LLVMValueRef index = i64_of(e, 0), off = index;
  for (int l = 0; l < MAX_LOOPS; l++) {
    if (!(set >> l & 1)) continue;
    index = int_add(e, index, int_mul(e, e->counter[l], i64_of(e, accum_stride(e->k, s, l))));
    off = int_add(e, off, int_mul(e, e->counter[l], i64_of(e, p->stride[l])));
  }
  LLVMValueRef x = emit_coerce(e, join_rows(g, s, index, rows), st->type, p->type);
  gpu_write(g, p->type, emit_at(e, mem_type(e, p->type), e->base[st->index], off), x, GPU_GLOBAL);
  loop_end(e, &loop);
}

void gpu_combine(GpuEmit *g, int64_t blocks) {
  Emit *e = &g->e;
  LLVMValueRef from = int_mul(e, gpu_block_x(g), i64_of(e, g->threads));
  from = int_add(e, from, g->thread);
  LLVMValueRef units = int_add(e, int_sub(e, g->to, g->from), int_sub(e, g->grain, i64_of(e, 1)));
  LLVMValueRef rows = LLVMBuildSDiv(e->b, units, g->grain, "");
  for (int s = 0; s < e->k->nstmts; s++)
    if (e->k->stmt[s].kind == K_ACCUM) combine(g, s, from, blocks * g->threads, rows);
}
#endif
