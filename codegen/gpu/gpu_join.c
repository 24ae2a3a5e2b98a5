// Joins the cells of the threads of a team or block: by shuffles within a warp, then through shared
// memory. All threads get the same bits, because each joins the same values in the same order.
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM

GpuCell gpu_cell_make(GpuEmit *g, Op op, Dtype type) {
  return (GpuCell){op, type, emit_alloca(&g->e, reg_type(&g->e, type))};
}

void gpu_cell_clear(GpuEmit *g, const GpuCell *c) {
  LLVMBuildStore(g->e.b, emit_identity(&g->e, c->op, c->type, false), c->at);
}

static LLVMValueRef cell_value(GpuEmit *g, const GpuCell *c) {
  return emit_read(&g->e, reg_type(&g->e, c->type), c->at);
}

void gpu_cell_add(GpuEmit *g, const GpuCell *c, LLVMValueRef x, Dtype type) {
  Emit *e = &g->e;
  x = emit_coerce(e, x, type, c->type);
  LLVMBuildStore(e->b, emit_join(e, c->op, c->type, cell_value(g, c), x), c->at);
}

static LLVMValueRef join_warp(GpuEmit *g, const GpuCell *c) {
  LLVMValueRef x = cell_value(g, c);
  for (int lane = GPU_WARP / 2; lane > 0; lane /= 2)
    x = emit_join(&g->e, c->op, c->type, x, gpu_shuffle(g, GPU_SHUFFLE_XOR, x, lane));
  return x;
}

// Emits the address of the result of warp number `warp` for cell number i.
static LLVMValueRef warp_slot(GpuEmit *g, int i, LLVMValueRef warp) {
  Emit *e = &g->e;
  LLVMValueRef at = int_add(e, warp, i64_of(e, i * (g->threads / GPU_WARP)));
  return emit_at(e, e->i64, gpu_shared(g), at);
}

LLVMValueRef gpu_cell_join_warps(GpuEmit *g, const GpuCell *c) {
  Emit *e = &g->e;
  LLVMValueRef own = emit_at(e, e->i64, gpu_shared(g), g->thread), all = NULL;
  gpu_barrier(g);
  gpu_write(g, c->type, own, cell_value(g, c), GPU_SHARED);
  gpu_barrier(g);
  for (int w = 0; w < g->threads / GPU_WARP; w++) {
    LLVMValueRef at = int_add(e, g->lane, i64_of(e, (int64_t)w * GPU_WARP));
    LLVMValueRef x = gpu_read(g, c->type, emit_at(e, e->i64, gpu_shared(g), at), GPU_SHARED);
    all = all ? emit_join(e, c->op, c->type, all, x) : x;
  }
  return all;
}

static LLVMValueRef join_slots(GpuEmit *g, int i, const GpuCell *c) {
  LLVMValueRef all = gpu_read(g, c->type, warp_slot(g, i, i64_of(&g->e, 0)), GPU_SHARED);
  for (int w = 1; w < g->threads / GPU_WARP; w++) {
    LLVMValueRef x = gpu_read(g, c->type, warp_slot(g, i, i64_of(&g->e, w)), GPU_SHARED);
    all = emit_join(&g->e, c->op, c->type, all, x);
  }
  return all;
}

// The first barrier lets all threads read what the shared memory had before.
static void join_block(GpuEmit *g, int n, const GpuCell *cell, LLVMValueRef *value) {
  Emit *e = &g->e;
  LLVMValueRef lane = keep_bits(e, g->thread, GPU_WARP - 1), warp = right_by(e, g->thread, 5);
  gpu_barrier(g);
  LLVMBasicBlockRef done = if_begin(e, int_equal(e, lane, i64_of(e, 0)));
  for (int i = 0; i < n; i++)
    gpu_write(g, cell[i].type, warp_slot(g, i, warp), value[i], GPU_SHARED);
  if_end(e, done);
  gpu_barrier(g);
  for (int i = 0; i < n; i++) value[i] = join_slots(g, i, &cell[i]);
}

void gpu_cells_join(GpuEmit *g, int n, const GpuCell *cell, bool block, LLVMValueRef *value) {
  bool thread = g->plan.team == TEAM_THREAD && !block;
  for (int i = 0; i < n; i++) value[i] = thread ? cell_value(g, &cell[i]) : join_warp(g, &cell[i]);
  if (n && g->threads > GPU_WARP && (block || g->plan.team == TEAM_BLOCK))
    join_block(g, n, cell, value);
}
#endif
