// Loads, stores and scatters of one element. A guard is a bool argument of a load: where it is
// false, nothing is read.
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM

// Emits the address of a pointer at the counters of the loops, `index` elements further. NULL: 0.
static LLVMValueRef address(GpuEmit *g, int pointer, LLVMValueRef index) {
  Emit *e = &g->e;
  const KPtr *p = &e->k->ptr[pointer];
  LLVMValueRef at = index;
  for (int l = 0; l < e->k->nouter + e->k->ninner; l++) {
    if (p->stride[l] == 0) continue;
    LLVMValueRef off = int_mul(e, e->counter[l], i64_of(e, p->stride[l]));
    at = at ? int_add(e, at, off) : off;
  }
  return at ? emit_at(e, mem_type(e, p->type), e->base[pointer], at) : e->base[pointer];
}

static LLVMValueRef load_if(GpuEmit *g, Dtype t, LLVMValueRef at, LLVMValueRef guard) {
  Emit *e = &g->e;
  LLVMTypeRef type = reg_type(e, t);
  LLVMValueRef cell = emit_alloca(e, type);
  LLVMBuildStore(e->b, LLVMConstNull(type), cell);
  LLVMBasicBlockRef done = if_begin(e, guard);
  LLVMBuildStore(e->b, gpu_read(g, t, at, GPU_GLOBAL), cell);
  if_end(e, done);
  return emit_read(e, type, cell);
}

LLVMValueRef gpu_load(GpuEmit *g, const KStmt *s) {
  Emit *e = &g->e;
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef index = s->kind == K_LOAD ? NULL : scaled_operand(e, s, 0, 0, 0);
  LLVMValueRef at = address(g, s->index, index);
  LLVMValueRef x = s->arg[1] == NO_STMT ? gpu_read(g, t, at, GPU_GLOBAL)
                                        : load_if(g, t, at, value_at(e, s->arg[1], 0, 0));
  return emit_coerce(e, x, t, s->type);
}

void gpu_store(GpuEmit *g, const KStmt *s) {
  Dtype t = g->e.k->ptr[s->index].type;
  gpu_write(g, t, address(g, s->index, NULL), operand_at(&g->e, s, 0, t, 0, 0), GPU_GLOBAL);
}

void gpu_scatter(GpuEmit *g, const KStmt *s) {
  Emit *e = &g->e;
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef x = operand_at(e, s, 0, t, 0, 0);
  LLVMValueRef at = address(g, s->index, scaled_operand(e, s, 1, 0, 0));
  gpu_write(g, t, at, emit_join(e, s->op, t, gpu_read(g, t, at, GPU_GLOBAL), x), GPU_GLOBAL);
}
#endif
