// NAME_combine: joins the partial rows of all blocks of threads of a set, and stores the results. A
// block has some of the elements of each K_ACCUM, one for each lane of a warp. Its warps divide the
// rows, in turn, each in order, and then join their values in order.
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM

static Dtype combine_type(const KStmt *s) { return stmt_folds(s) ? TYPE_F64 : s->type; }

// Emits the joining of element `index` of reduction s over all rows of partial results. All threads
// of the block run this code.
static LLVMValueRef join_rows(GpuEmit *g, int s, LLVMValueRef index, LLVMValueRef rows) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  Dtype type = combine_type(st);
  GpuCell cell = gpu_cell_make(g, st->op, type);
  gpu_cell_clear(g, &cell);
  EmitLoop l = loop_begin(e, right_by(e, g->thread, 5), rows, i64_of(e, g->threads / GPU_WARP));
  LLVMValueRef skip = int_mul(e, l.var, i64_of(e, accum_offset(e->k, e->k->nstmts)));
  LLVMValueRef row = emit_at(e, e->i8, partial_at(e, s, NULL), skip);
  LLVMValueRef at = emit_at(e, mem_type(e, st->type), row, index);
  gpu_cell_add(g, &cell, gpu_read(g, st->type, at, GPU_GLOBAL), st->type);
  if (kernel_accum_wide(e->k, s))
    gpu_cell_add(g, &cell, gpu_read(g, TYPE_F64, wide_at(e, s, row, index), GPU_GLOBAL), TYPE_F64);
  loop_end(e, &l);
  return emit_coerce(e, gpu_cell_join_warps(g, &cell), type, st->type);
}

// Emits the results of reduction s for a grid of `blocks` blocks. Lanes without an element compute
// the last one and do not store it.
static void combine(GpuEmit *g, int s, int64_t blocks, LLVMValueRef rows) {
  Emit *e = &g->e;
  const KStmt *st = &e->k->stmt[s];
  const KPtr *p = &e->k->ptr[st->index];
  LoopSet set = 0;
  for (int l = e->k->nouter; l < e->k->nouter + e->k->ninner; l++)
    if (p->stride[l]) set |= (LoopSet)1 << l;
  LLVMValueRef n = gpu_rounds(g, set, e->extent), lanes = i64_of(e, GPU_WARP);
  EmitLoop loop = loop_begin(e, int_mul(e, gpu_block_x(g), lanes), n, i64_of(e, blocks * GPU_WARP));
  LLVMValueRef own = int_add(e, loop.var, g->lane), last = int_sub(e, n, i64_of(e, 1));
  gpu_decode(g, int_min(e, own, last), false, set, e->extent, e->counter);
  LLVMValueRef index = i64_of(e, 0), off = index;
  for (int l = 0; l < MAX_LOOPS; l++) {
    if (!(set >> l & 1)) continue;
    index = int_add(e, index, int_mul(e, e->counter[l], i64_of(e, accum_stride(e->k, s, l))));
    off = int_add(e, off, int_mul(e, e->counter[l], i64_of(e, p->stride[l])));
  }
  LLVMValueRef x = emit_coerce(e, join_rows(g, s, index, rows), st->type, p->type);
  LLVMBasicBlockRef stored =
      if_begin(e, int_less(e, g->thread, int_min(e, lanes, int_sub(e, n, loop.var))));
  gpu_write(g, p->type, emit_at(e, mem_type(e, p->type), e->base[st->index], off), x, GPU_GLOBAL);
  if_end(e, stored);
  loop_end(e, &loop);
}

void gpu_combine(GpuEmit *g, int64_t blocks) {
  Emit *e = &g->e;
  g->lane = keep_bits(e, g->thread, GPU_WARP - 1);
  LLVMValueRef units = int_add(e, int_sub(e, g->to, g->from), int_sub(e, g->grain, i64_of(e, 1)));
  LLVMValueRef rows = LLVMBuildSDiv(e->b, units, g->grain, "");
  for (int s = 0; s < e->k->nstmts; s++)
    if (e->k->stmt[s].kind == K_ACCUM) combine(g, s, blocks, rows);
}
#endif
