// Tiles: parts of matrices in shared memory, and products of them by tensor cores or by fused
// multiply-add. Products (gpu_product.c) and attention are built from them.
//
//   tile       a matrix in shared memory, row after row. A row is followed by 16 bytes of padding,
//              so that threads which read a column, or ldmatrix, meet no conflict of banks.
//   side       the part of a tile that a warp multiplies: the left or the right factor
//   depth      the direction along which a product sums
//   fragment   16 x 8 sums of a warp, of which thread t (0..31) has four:
//                sum r is at row t / 4 + 8 (r / 2), column 2 (t % 4) + r % 2
//              the places of mma.m16n8k16. Products of all types have these places, so that what
//              works on sums does not ask for the type.
//   stage      one of several copies of a tile: one is multiplied while others are filled
//
// Types of factors, and how they are multiplied:
//
//   bf16, f16   mma.sync m16n8k16, sums in f32; before compute capability 8.0 as f32
//   f32, f64    FMA from shared memory, sums in the same type
//
// The order of additions depends on the sizes of the sides only.
//
// Thread rule: all threads of a block run gpu_tile_copy, gpu_tile_fill and the functions of groups
// of copies; all 32 threads of a warp run gpu_multiply and gpu_multiply_registers. Each thread runs
// gpu_sums_* for its own sums. Nothing here has a barrier: what threads write to a tile, others may
// read after a gpu_barrier (a gpu_warp_barrier, if they are of the same warp). If it was written by
// gpu_tile_copy, each thread must call gpu_copies_wait before that barrier.
#ifndef CODEGEN_GPU_TILE_H
#define CODEGEN_GPU_TILE_H

#include "codegen/gpu/gpu_internal.h"

enum {
  GPU_FRAGMENT_ROWS = 16,
  GPU_FRAGMENT_COLUMNS = 8,
  GPU_FRAGMENT_SUMS = 4,   // of a thread
  GPU_FRAGMENT_DEPTH = 16, // depths of sides are multiples of it
};

// Return the elements from one row to the next, and the bytes of a tile, a multiple of 16.
int gpu_tile_pitch(Dtype type, int columns);
int gpu_tile_bytes(Dtype type, int rows, int columns);
// Returns the type of the sums of products of factors of type `type`.
Dtype gpu_tile_sum_type(Dtype type);

#ifdef MESHC_HAVE_LLVM
// A tile. Its size is known when code is emitted. For a tile of several stages `at` is changed from
// stage to stage.
typedef struct GpuTile {
  Dtype type;        // TYPE_BF16, TYPE_F16, TYPE_F32, TYPE_F64
  int rows, columns; // multiples of 8; as factors of products, of 16
  LLVMValueRef at;   // address of element (0, 0) in shared memory, a multiple of 16
} GpuTile;
// Emits the address at byte `at`, an i64 that is a multiple of 16, of the dynamic shared memory.
LLVMValueRef gpu_shared_at(GpuEmit *g, LLVMValueRef at);
// Emits the address of element (row, column) of a tile.
LLVMValueRef gpu_tile_at(GpuEmit *g, const GpuTile *t, LLVMValueRef row, LLVMValueRef column);

// -- filling tiles --------------------------------------------------------------------------------

// What a tile is filled with. Elements at rows >= `rows` or columns >= `columns` become 0: neither
// function is asked for them. The numbers of rows and columns are i64s that count from the tile's
// first element. Only the function that is used must be given.
typedef struct GpuSource {
  // Emits the address in global memory of element (row, column). The tile's type is that of memory.
  LLVMValueRef (*address)(GpuEmit *g, const void *context, LLVMValueRef row, LLVMValueRef column);
  // Emits the value of element (row, column), in the register type (reg_type) of the tile's type.
  LLVMValueRef (*value)(GpuEmit *g, const void *context, LLVMValueRef row, LLVMValueRef column);
  const void *context;
  LLVMValueRef rows, columns; // valid ones; may exceed those of the tile, or be negative
} GpuSource;
// Emits the start of copies (cp.async) of the whole tile, by all threads of the block, 16 bytes at
// a time. Columns are neighbours in memory, and each run of 16 bytes begins at a multiple of 16,
// which the caller has made sure of. The copies belong to the group that gpu_copies_commit ends.
void gpu_tile_copy(GpuEmit *g, const GpuTile *t, const GpuSource *from);
// Emits the same by plain stores of GpuSource.value, element by element; successive threads have
// successive columns.
void gpu_tile_fill(GpuEmit *g, const GpuTile *t, const GpuSource *from);
void gpu_copies_commit(GpuEmit *g); // makes the thread's copies since the last call a group
// Emits waiting until at most the last `most` groups of the thread are under way.
void gpu_copies_wait(GpuEmit *g, int most);

// -- sums -----------------------------------------------------------------------------------------

// The sums of a warp: m x n fragments. cell[(i * n + j) * 4 + r] is the alloca of sum r of fragment
// (i, j), a variable of each thread.
typedef struct GpuSums {
  Dtype type; // TYPE_F32 or TYPE_F64
  int m, n;   // n is even
  LLVMValueRef *cell;
} GpuSums;
GpuSums gpu_sums_make(GpuEmit *g, Dtype type, int m, int n); // emits the allocation
void gpu_sums_clear(GpuEmit *g, const GpuSums *s);
LLVMValueRef gpu_sums_get(GpuEmit *g, const GpuSums *s, int i, int j, int r);
void gpu_sums_set(GpuEmit *g, const GpuSums *s, int i, int j, int r, LLVMValueRef x);
void gpu_sums_add(GpuEmit *g, const GpuSums *to, const GpuSums *s); // to += s
// Emits the product of x and the sums of one of the two rows that the thread has in each fragment:
// half 0 has sums 0 and 1, half 1 the others. x is an f32.
void gpu_sums_scale(GpuEmit *g, const GpuSums *s, int half, LLVMValueRef x);
// Emit the row and the column, within its fragment, of sum r of the thread; i64s.
LLVMValueRef gpu_sum_row(GpuEmit *g, int r);
LLVMValueRef gpu_sum_column(GpuEmit *g, int r);
// Emits stores of the sums to elements row.., column.. of a tile, in the tile's type.
void gpu_sums_store(GpuEmit *g, const GpuSums *s, const GpuTile *t, LLVMValueRef row,
                    LLVMValueRef column);
// Emits sums, rounded to `factor` (TYPE_BF16, TYPE_F16), as fragments of a left factor, whose depth
// is the columns of the sums. Returns n / 2 * m * 4 registers, an array in the arena of the
// function: the 4 of rows 16 i.. and of rounds 16 k.. of the depth begin at (k * m + i) * 4.
LLVMValueRef *gpu_sums_as_left(GpuEmit *g, const GpuSums *s, Dtype factor);

// -- products -------------------------------------------------------------------------------------

// The part of a tile that a warp multiplies. It begins at row (deep: column) `first`, an i64, and
// at round `depth` of the depth, both multiples of 16. deep: the rows of the tile are rounds of the
// depth; else its columns are.
//
//   sum[x, y] += left[x, k] * right[y, k]      left: tile [x][k], or deep [k][x]; right likewise
typedef struct GpuSide {
  const GpuTile *tile;
  LLVMValueRef first;
  int depth;
  bool deep;
} GpuSide;
// Emits sums += left * right over `depth` rounds. Of the left side it takes 16 m rows, of the right
// one 8 n columns. Both tiles have the same type, and the sums are of gpu_tile_sum_type.
void gpu_multiply(GpuEmit *g, const GpuSums *s, const GpuSide *left, const GpuSide *right,
                  int depth);
// Returns whether the GPU multiplies factors of this type by tensor cores.
bool gpu_by_tensor_cores(const GpuEmit *g, Dtype type);
// The same with a left factor in registers, as gpu_sums_as_left returns them. Tensor cores only.
void gpu_multiply_registers(GpuEmit *g, const GpuSums *s, const LLVMValueRef *left,
                            const GpuSide *right, int depth);
#endif

#endif
