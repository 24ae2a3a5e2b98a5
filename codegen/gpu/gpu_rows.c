// The rows of ordered operations on a GPU: operands of a launch, addresses of a row and of its
// elements. A row is the elements along the ordered dim at one index of the other dims.
#include "codegen/gpu/gpu_ordered_internal.h"

#ifdef MESHC_HAVE_LLVM
LLVMValueRef gpu_ordered_slot(GpuEmit *g, int i) {
  return gpu_constant(g, g->e.i64, g->record, gpu_slot_at(ORDERED_POINTERS, i));
}

static LLVMValueRef pointer(GpuEmit *g, int i) {
  return gpu_address(g, gpu_constant(g, g->e.i64, g->record, gpu_ptr_at(i)));
}

// Emits the address of element i of an array of elements of type t.
static LLVMValueRef element(GpuEmit *g, Dtype t, LLVMValueRef base, LLVMValueRef i) {
  return emit_at(&g->e, mem_type(&g->e, t), base, i);
}

// Adds at * slot `i` of loop `loop` over rows to the i64 in `sum`.
static void add_step(GpuEmit *g, LLVMValueRef loop, LLVMValueRef at, int i, LLVMValueRef sum) {
  Emit *e = &g->e;
  LLVMValueRef step = gpu_constant(g, e->i64, loop, gpu_slot_at(ORDERED_POINTERS, ORDERED_ROW + i));
  LLVMBuildStore(e->b, int_add(e, get(g, sum), int_mul(e, at, step)), sum);
}

GpuRow gpu_row_begin(GpuEmit *g, LLVMValueRef row, Dtype type, Dtype out) {
  Emit *e = &g->e;
  LLVMValueRef zero = i64_of(e, 0), loops = gpu_ordered_slot(g, ORDERED_LOOPS);
  LLVMValueRef rest = variable(g, e->i64, row), src = variable(g, e->i64, zero),
               dst = variable(g, e->i64, zero);
  EmitLoop l = loop_begin(e, zero, loops, i64_of(e, 1)); // from the innermost loop outward
  LLVMValueRef i = int_sub(e, int_sub(e, loops, i64_of(e, 1)), l.var);
  LLVMValueRef loop = emit_at(e, e->i8, g->record, int_mul(e, i, i64_of(e, 3 * 8)));
  LLVMValueRef count = gpu_constant(g, e->i64, loop, gpu_slot_at(ORDERED_POINTERS, ORDERED_ROW));
  LLVMValueRef r = get(g, rest), at = LLVMBuildURem(e->b, r, count, "");
  add_step(g, loop, at, 1, src);
  add_step(g, loop, at, 2, dst);
  LLVMBuildStore(e->b, LLVMBuildUDiv(e->b, r, count, ""), rest);
  loop_end(e, &l);
  return (GpuRow){element(g, type, pointer(g, 0), get(g, src)),
                  element(g, out, pointer(g, 1), get(g, dst)),
                  gpu_ordered_slot(g, ORDERED_SRC_STEP), gpu_ordered_slot(g, ORDERED_DST_STEP)};
}

LLVMValueRef gpu_row_load(GpuEmit *g, const GpuRow *r, Dtype t, LLVMValueRef i) {
  LLVMValueRef at = element(g, t, r->src, int_mul(&g->e, i, r->src_step));
  return gpu_read(g, t, at, GPU_GLOBAL);
}

void gpu_row_store(GpuEmit *g, const GpuRow *r, Dtype t, LLVMValueRef i, LLVMValueRef x) {
  gpu_write(g, t, element(g, t, r->dst, int_mul(&g->e, i, r->dst_step)), x, GPU_GLOBAL);
}
#endif
