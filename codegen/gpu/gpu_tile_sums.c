// The sums of products of tiles, in the places of fragments (gpu_tile.h).
#include "codegen/gpu/gpu_tensor.h"

#ifdef MESHC_HAVE_LLVM

static LLVMValueRef *cell_of(const GpuSums *s, int i, int j, int r) {
  return &s->cell[(i * s->n + j) * GPU_FRAGMENT_SUMS + r];
}

GpuSums gpu_sums_make(GpuEmit *g, Dtype type, int m, int n) {
  int cells = m * n * GPU_FRAGMENT_SUMS;
  GpuSums s = {type, m, n, arena_array(g->e.arena, LLVMValueRef, cells)};
  for (int i = 0; i < cells; i++) s.cell[i] = emit_alloca(&g->e, reg_type(&g->e, type));
  return s;
}

void gpu_sums_clear(GpuEmit *g, const GpuSums *s) {
  for (int i = 0; i < s->m * s->n * GPU_FRAGMENT_SUMS; i++)
    LLVMBuildStore(g->e.b, LLVMConstNull(reg_type(&g->e, s->type)), s->cell[i]);
}

LLVMValueRef gpu_sums_get(GpuEmit *g, const GpuSums *s, int i, int j, int r) {
  return emit_read(&g->e, reg_type(&g->e, s->type), *cell_of(s, i, j, r));
}

void gpu_sums_set(GpuEmit *g, const GpuSums *s, int i, int j, int r, LLVMValueRef x) {
  LLVMBuildStore(g->e.b, x, *cell_of(s, i, j, r));
}

void gpu_sums_add(GpuEmit *g, const GpuSums *to, const GpuSums *s) {
  for (int i = 0; i < s->m; i++)
    for (int j = 0; j < s->n; j++)
      for (int r = 0; r < GPU_FRAGMENT_SUMS; r++) {
        LLVMValueRef x = gpu_sums_get(g, to, i, j, r), y = gpu_sums_get(g, s, i, j, r);
        gpu_sums_set(g, to, i, j, r, add(&g->e, x, y));
      }
}

void gpu_sums_scale(GpuEmit *g, const GpuSums *s, int half, LLVMValueRef x) {
  x = emit_coerce(&g->e, x, TYPE_F32, s->type);
  for (int i = 0; i < s->m; i++)
    for (int j = 0; j < s->n; j++)
      for (int r = 2 * half; r < 2 * half + 2; r++)
        gpu_sums_set(g, s, i, j, r, LLVMBuildFMul(g->e.b, gpu_sums_get(g, s, i, j, r), x, ""));
}

LLVMValueRef gpu_sum_row(GpuEmit *g, int r) {
  Emit *e = &g->e;
  LLVMValueRef lane = keep_bits(e, g->thread, GPU_WARP - 1);
  return int_add(e, right_by(e, lane, 2), i64_of(e, r / 2 * 8));
}

LLVMValueRef gpu_sum_column(GpuEmit *g, int r) {
  Emit *e = &g->e;
  return int_add(e, left_by(e, keep_bits(e, g->thread, 3), 1), i64_of(e, r % 2));
}

// Emits the store of sums r and r + 1 of fragment (i, j), which are neighbours in a row.
static void store_pair(GpuEmit *g, const GpuSums *s, int i, int j, int r, LLVMValueRef at,
                       Dtype type) {
  LLVMValueRef x[2];
  for (int c = 0; c < 2; c++)
    x[c] = emit_coerce(&g->e, gpu_sums_get(g, s, i, j, r + c), s->type, type);
  gpu_write_wide(g, type, at, GPU_SHARED, 2, x);
}

void gpu_sums_store(GpuEmit *g, const GpuSums *s, const GpuTile *t, LLVMValueRef row,
                    LLVMValueRef column) {
  Emit *e = &g->e;
  for (int i = 0; i < s->m; i++)
    for (int j = 0; j < s->n; j++)
      for (int r = 0; r < GPU_FRAGMENT_SUMS; r += 2) {
        LLVMValueRef y = int_add(e, row, i64_of(e, i * GPU_FRAGMENT_ROWS)),
                     x = int_add(e, column, i64_of(e, j * GPU_FRAGMENT_COLUMNS));
        y = int_add(e, y, gpu_sum_row(g, r));
        x = int_add(e, x, gpu_sum_column(g, r));
        store_pair(g, s, i, j, r, gpu_tile_at(g, t, y, x), t->type);
      }
}

LLVMValueRef *gpu_sums_as_left(GpuEmit *g, const GpuSums *s, Dtype factor) {
  LLVMValueRef *out = arena_array(g->e.arena, LLVMValueRef, s->n / 2 * s->m * GPU_FRAGMENT_SUMS);
  int n = 0;
  // register r of a left fragment: rows + 8 (r % 2), columns + 8 (r / 2)
  for (int k = 0; k < s->n / 2; k++)
    for (int i = 0; i < s->m; i++)
      for (int r = 0; r < GPU_FRAGMENT_SUMS; r++) {
        int j = 2 * k + r / 2, low = r % 2 * 2;
        out[n++] =
            gpu_pack(g, factor, gpu_sums_get(g, s, i, j, low), gpu_sums_get(g, s, i, j, low + 1));
      }
  return out;
}
#endif
