// Tiles of matrices in shared memory: their layout, and how threads fill them.
#include "codegen/gpu/gpu_tensor.h"

enum { PADDING = 16 }; // bytes behind each row

int gpu_tile_pitch(Dtype type, int columns) { return columns + PADDING / (int)dtype_bytes(type); }

int gpu_tile_bytes(Dtype type, int rows, int columns) {
  return rows * gpu_tile_pitch(type, columns) * (int)dtype_bytes(type);
}

Dtype gpu_tile_sum_type(Dtype type) { return type == TYPE_F64 ? TYPE_F64 : TYPE_F32; }

#ifdef MESHC_HAVE_LLVM

LLVMValueRef gpu_shared_at(GpuEmit *g, LLVMValueRef at) {
  return emit_at(&g->e, g->e.i8, gpu_shared(g), at);
}

LLVMValueRef gpu_tile_at(GpuEmit *g, const GpuTile *t, LLVMValueRef row, LLVMValueRef column) {
  Emit *e = &g->e;
  LLVMValueRef at = int_mul(e, row, i64_of(e, gpu_tile_pitch(t->type, t->columns)));
  return emit_at(e, mem_type(e, t->type), t->at, int_add(e, at, column));
}

// -- filling ------------------------------------------------------------------------------------

// Emits the copy of number `i` of the 16-byte pieces of a tile.
static void copy_piece(GpuEmit *g, const GpuTile *t, const GpuSource *from, LLVMValueRef i) {
  Emit *e = &g->e;
  int bytes = (int)dtype_bytes(t->type), each = GPU_COPY_BYTES / bytes;
  LLVMValueRef a_row = i64_of(e, t->columns / each), zero = i64_of(e, 0);
  LLVMValueRef row = LLVMBuildUDiv(e->b, i, a_row, "");
  LLVMValueRef column = int_mul(e, LLVMBuildURem(e->b, i, a_row, ""), i64_of(e, each));
  LLVMValueRef n = int_min(e, int_sub(e, from->columns, column), i64_of(e, each));
  LLVMValueRef some = bit_and(e, int_less(e, row, from->rows), int_less(e, zero, n));
  LLVMValueRef valid = pick(e, some, int_mul(e, n, i64_of(e, bytes)), zero);
  gpu_copy_begin(g, gpu_tile_at(g, t, row, column), from->address(g, from->context, row, column),
                 int_trunc(e, valid, e->i32));
}

void gpu_tile_copy(GpuEmit *g, const GpuTile *t, const GpuSource *from) {
  Emit *e = &g->e;
  int pieces = t->rows * t->columns * (int)dtype_bytes(t->type) / GPU_COPY_BYTES;
  for (int i = 0; i < pieces; i += g->threads) {
    LLVMValueRef own = int_add(e, g->thread, i64_of(e, i));
    bool all = i + g->threads <= pieces;
    LLVMBasicBlockRef done = all ? NULL : if_begin(e, int_less(e, own, i64_of(e, pieces)));
    copy_piece(g, t, from, own);
    if (done) if_end(e, done);
  }
}

void gpu_tile_fill(GpuEmit *g, const GpuTile *t, const GpuSource *from) {
  Emit *e = &g->e;
  LLVMTypeRef type = reg_type(e, t->type);
  LLVMValueRef cell = emit_alloca(e, type), a_row = i64_of(e, t->columns);
  EmitLoop l =
      loop_begin(e, g->thread, i64_of(e, (int64_t)t->rows * t->columns), i64_of(e, g->threads));
  LLVMValueRef row = LLVMBuildUDiv(e->b, l.var, a_row, ""),
               column = LLVMBuildURem(e->b, l.var, a_row, "");
  LLVMBuildStore(e->b, LLVMConstNull(type), cell);
  LLVMBasicBlockRef done =
      if_begin(e, bit_and(e, int_less(e, row, from->rows), int_less(e, column, from->columns)));
  LLVMBuildStore(e->b, from->value(g, from->context, row, column), cell);
  if_end(e, done);
  gpu_write(g, t->type, gpu_tile_at(g, t, row, column), emit_read(e, type, cell), GPU_SHARED);
  loop_end(e, &l);
}
#endif
