// Products of tiles: by tensor cores (bf16, f16), or by FMA with sums in the same places.
#include "codegen/gpu/gpu_tensor.h"

#ifdef MESHC_HAVE_LLVM

enum { HALF = 8, LEFT = 4, RIGHT = 2 }; // side of a matrix; registers of a fragment of a factor

bool gpu_by_tensor_cores(const GpuEmit *g, Dtype type) {
  return (type == TYPE_BF16 || type == TYPE_F16) && gpu_has_tensor(g);
}

static LLVMValueRef lane_of_warp(GpuEmit *g) { return keep_bits(&g->e, g->thread, GPU_WARP - 1); }

// Emits the address of the element of a side that is `along` behind its first one, and `k` behind
// the begin of the tile along the depth.
static LLVMValueRef side_at(GpuEmit *g, const GpuSide *s, LLVMValueRef along, LLVMValueRef k) {
  LLVMValueRef at = int_add(&g->e, s->first, along);
  return s->deep ? gpu_tile_at(g, s->tile, k, at) : gpu_tile_at(g, s->tile, at, k);
}

// -- tensor cores -------------------------------------------------------------------------------

// Emits the load of four matrices: 16 elements of a side from `along` on, by 16 rounds of the depth
// from k on. Matrix m has the upper 8 elements if bit `bit` of m is 1, and the upper 8 rounds if
// the other bit is.
static void load_four(GpuEmit *g, const GpuSide *s, int along, int k, int bit, LLVMValueRef *out) {
  Emit *e = &g->e;
  LLVMValueRef lane = lane_of_warp(g), row = keep_bits(e, lane, HALF - 1);
  LLVMValueRef upper[2];
  for (int i = 0; i < 2; i++) upper[i] = left_by(e, keep_bits(e, right_by(e, lane, 3 + i), 1), 3);
  LLVMValueRef x = int_add(e, upper[bit], i64_of(e, along));
  LLVMValueRef y = int_add(e, upper[!bit], i64_of(e, k));
  if (s->deep)
    y = int_add(e, y, row);
  else
    x = int_add(e, x, row);
  gpu_load_matrices(g, side_at(g, s, x, y), s->deep, out);
}

static void multiply_add(GpuEmit *g, const GpuSums *s, int i, int j, Dtype factor,
                         const LLVMValueRef *a, const LLVMValueRef *b) {
  LLVMValueRef sum[GPU_FRAGMENT_SUMS];
  for (int r = 0; r < GPU_FRAGMENT_SUMS; r++) sum[r] = gpu_sums_get(g, s, i, j, r);
  gpu_mma(g, factor, a, b, sum);
  for (int r = 0; r < GPU_FRAGMENT_SUMS; r++) gpu_sums_set(g, s, i, j, r, sum[r]);
}

// Emits 16 rounds of the depth. left: the fragments of the left factor.
static void multiply_step(GpuEmit *g, const GpuSums *s, const LLVMValueRef *left,
                          const GpuSide *right, int k) {
  for (int j = 0; j < s->n; j += 2) {
    LLVMValueRef b[2 * RIGHT];
    load_four(g, right, j * GPU_FRAGMENT_COLUMNS, k, 1, b);
    for (int i = 0; i < s->m; i++)
      for (int c = 0; c < 2; c++)
        multiply_add(g, s, i, j + c, right->tile->type, left + i * LEFT, b + c * RIGHT);
  }
}

void gpu_multiply_registers(GpuEmit *g, const GpuSums *s, const LLVMValueRef *left,
                            const GpuSide *right, int depth) {
  for (int k = 0; k < depth; k += GPU_FRAGMENT_DEPTH)
    multiply_step(g, s, left + k / GPU_FRAGMENT_DEPTH * s->m * LEFT, right, right->depth + k);
}

static void multiply_tensor(GpuEmit *g, const GpuSums *s, const GpuSide *left, const GpuSide *right,
                            int depth) {
  LLVMValueRef *a = arena_array(g->e.arena, LLVMValueRef, s->m * LEFT);
  for (int k = 0; k < depth; k += GPU_FRAGMENT_DEPTH) {
    for (int i = 0; i < s->m; i++)
      load_four(g, left, i * GPU_FRAGMENT_ROWS, left->depth + k, 0, a + i * LEFT);
    multiply_step(g, s, a, right, right->depth + k);
  }
}

// -- FMA ----------------------------------------------------------------------------------------

enum { STEP = 4 }; // rounds of the depth whose factors are loaded together

// The elements of a side that a thread needs for STEP rounds: of the left one 2 for each fragment,
// at rows t / 4 and 8 below; of the right one 2 neighbours.
typedef LLVMValueRef Elements[2][STEP];

// Emits loads of two elements of a side for STEP rounds from k on. They are the elements from
// `along` on and `apart` behind that.
static void load_two(GpuEmit *g, const GpuSide *s, LLVMValueRef along, int apart, LLVMValueRef k,
                     Elements out) {
  Emit *e = &g->e;
  Dtype t = s->tile->type;
  for (int c = 0; c < 2 && !s->deep; c++) {
    LLVMValueRef own = int_add(e, along, i64_of(e, c * apart));
    gpu_read_wide(g, t, side_at(g, s, own, k), GPU_SHARED, STEP, out[c]);
  }
  for (int i = 0; i < STEP && s->deep; i++) {
    LLVMValueRef round = int_add(e, k, i64_of(e, i)), pair[2];
    if (apart == 1) gpu_read_wide(g, t, side_at(g, s, along, round), GPU_SHARED, 2, pair);
    for (int c = 0; c < 2; c++) {
      LLVMValueRef own = int_add(e, along, i64_of(e, c * apart));
      out[c][i] = apart == 1 ? pair[c] : gpu_read(g, t, side_at(g, s, own, round), GPU_SHARED);
    }
  }
}

static void add_products(GpuEmit *g, const GpuSums *s, int i, int j, Elements a, Elements b) {
  Emit *e = &g->e;
  for (int r = 0; r < GPU_FRAGMENT_SUMS; r++) {
    LLVMValueRef sum = gpu_sums_get(g, s, i, j, r);
    for (int k = 0; k < STEP; k++)
      sum = contracting(add(e, sum, contracting(mul(e, a[r / 2][k], b[r % 2][k]))));
    gpu_sums_set(g, s, i, j, r, sum);
  }
}

static void multiply_fma(GpuEmit *g, const GpuSums *s, const GpuSide *left, const GpuSide *right,
                         int depth) {
  Emit *e = &g->e;
  Elements *a = arena_array(e->arena, Elements, s->m), b;
  EmitLoop l = loop_begin(e, i64_of(e, 0), i64_of(e, depth), i64_of(e, STEP));
  LLVMValueRef ka = int_add(e, l.var, i64_of(e, left->depth)),
               kb = int_add(e, l.var, i64_of(e, right->depth));
  for (int i = 0; i < s->m; i++) {
    LLVMValueRef row = int_add(e, gpu_sum_row(g, 0), i64_of(e, i * GPU_FRAGMENT_ROWS));
    load_two(g, left, row, HALF, ka, a[i]);
  }
  for (int j = 0; j < s->n; j++) {
    LLVMValueRef column = int_add(e, gpu_sum_column(g, 0), i64_of(e, j * GPU_FRAGMENT_COLUMNS));
    load_two(g, right, column, 1, kb, b);
    for (int i = 0; i < s->m; i++) add_products(g, s, i, j, a[i], b);
  }
  loop_end(e, &l);
}

void gpu_multiply(GpuEmit *g, const GpuSums *s, const GpuSide *left, const GpuSide *right,
                  int depth) {
  if (gpu_by_tensor_cores(g, left->tile->type))
    multiply_tensor(g, s, left, right, depth);
  else
    multiply_fma(g, s, left, right, depth);
}
#endif
