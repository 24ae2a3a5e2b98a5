// The sums of a product whose depth is divided into parts (GpuTiles.parts). Each block of threads
// sums a part of the depth for a tile of results, and `combine` adds up the parts:
//
//   scratch[part][batch][row][column]   a sum, in the type of the sums
//
// The parts of a result are added in f64, in an order that depends on their number only. A block of
// `combine` has as many results as a warp has lanes; its warps divide the parts.
#include "codegen/gpu/gpu_product.h"

#ifdef MESHC_HAVE_LLVM

// Emits the number of results of all batches.
static LLVMValueRef results_of(const GpuProduct *p) {
  Emit *e = &p->g->e;
  return int_mul(e, p->batches, int_mul(e, p->size[0], p->size[1]));
}

// Emits the address of the sum of a part for result number `result`.
static LLVMValueRef sum_at(const GpuProduct *p, LLVMValueRef part, LLVMValueRef result) {
  Emit *e = &p->g->e;
  LLVMTypeRef type = mem_type(e, gpu_tile_sum_type(p->t->factor));
  return emit_at(e, type, e->partial, int_add(e, int_mul(e, part, results_of(p)), result));
}

void gpu_part_store(GpuProduct *p, LLVMValueRef row, LLVMValueRef column, LLVMValueRef x) {
  Emit *e = &p->g->e;
  LLVMValueRef result = int_add(e, int_mul(e, p->batch, p->size[0]), row);
  result = int_add(e, int_mul(e, result, p->size[1]), column);
  gpu_write(p->g, gpu_tile_sum_type(p->t->factor), sum_at(p, p->part, result), x, GPU_GLOBAL);
}

// Emits the sum of all parts of result number `result`, which is the same in all warps of the
// block.
static LLVMValueRef join(GpuProduct *p, LLVMValueRef result) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  Dtype type = gpu_tile_sum_type(p->t->factor);
  GpuCell cell = gpu_cell_make(g, OP_SUM, TYPE_F64);
  gpu_cell_clear(g, &cell);
  EmitLoop part = loop_begin(e, right_by(e, g->thread, 5), i64_of(e, p->t->parts),
                             i64_of(e, g->threads / GPU_WARP));
  gpu_cell_add(g, &cell, gpu_read(g, type, sum_at(p, part.var, result), GPU_GLOBAL), type);
  loop_end(e, &part);
  return emit_coerce(e, gpu_cell_join_warps(g, &cell), TYPE_F64, type);
}

// Emits the statements behind the sum for result number `result`.
static void store(GpuProduct *p, LLVMValueRef result, LLVMValueRef sum) {
  Emit *e = &p->g->e;
  LLVMValueRef column = LLVMBuildURem(e->b, result, p->size[1], ""),
               rest = LLVMBuildUDiv(e->b, result, p->size[1], "");
  gpu_product_counters(p, p->t->batch, LLVMBuildUDiv(e->b, rest, p->size[0], ""));
  gpu_product_result(p, LLVMBuildURem(e->b, rest, p->size[0], ""), column, 1, &sum);
}

// All threads of the block run each round, because `join` has barriers. Lanes without a result join
// the last one and do not store it.
void gpu_parts_join(GpuEmit *g, int64_t blocks) {
  Emit *e = &g->e;
  GpuProduct p = {.g = g, .t = &g->plan.tiles};
  gpu_product_sizes(&p);
  gpu_entry_statements(g);
  p.result = gpu_result_statements(g, p.t->sum, 0);
  g->lane = keep_bits(e, g->thread, GPU_WARP - 1);
  LLVMValueRef n = results_of(&p), lanes = i64_of(e, GPU_WARP);
  EmitLoop l = loop_begin(e, int_mul(e, gpu_block_x(g), lanes), n, i64_of(e, blocks * GPU_WARP));
  LLVMValueRef own = int_add(e, l.var, g->lane);
  LLVMValueRef sum = join(&p, int_min(e, own, int_sub(e, n, i64_of(e, 1))));
  LLVMValueRef first_warp = int_less(e, g->thread, lanes);
  LLVMBasicBlockRef stored = if_begin(e, bit_and(e, first_warp, int_less(e, own, n)));
  store(&p, own, sum);
  if_end(e, stored);
  loop_end(e, &l);
}
#endif
