// Kernels that are products of matrices, computed in tiles by the threads of a block together.
// gpu_product_plan.c says which kernels these are.
#ifndef CODEGEN_GPU_PRODUCT_H
#define CODEGEN_GPU_PRODUCT_H

#include "codegen/gpu/gpu_tile.h"

// -- gpu_product_plan.c
// Returns whether k is computed in tiles, and how in *t. dep: GpuPlan.dep; tile:
// GpuCodeOptions.tile. The arena is for scratch.
bool gpu_product_plan(Arena *a, const Kernel *k, const LoopSet *dep, int tile, GpuTiles *t);
// Returns the type in which the factors of statement `sum` are multiplied. Factors that are both
// widened from bf16 or f16 keep that type, which tensor cores multiply: *left and *right, the
// statements that compute them, then become those before the widening.
Dtype gpu_product_factors(const Kernel *k, int sum, int *left, int *right);
int gpu_product_shapes(void); // returns the number of tiles from which one is chosen
// Returns the units of a block of threads: a launch has at least as many blocks as tiles.
int64_t gpu_product_grain(const Kernel *k, const GpuTiles *t);
// Return the bytes of shared memory: of a factor's tile, of a stage, of a block of threads.
int gpu_product_tile_bytes(const GpuTiles *t, int side);
int gpu_product_stage_bytes(const GpuTiles *t);
int gpu_product_shared(const GpuTiles *t);
// Return the number of results of a product with all extents full, and the bytes of scratch memory
// for their sums over parts of the depth, a multiple of MEMORY_ALIGN (0: there is one part).
int64_t gpu_product_results(const Kernel *k, const GpuTiles *t);
int64_t gpu_product_scratch(const Kernel *k, const GpuTiles *t);
char *gpu_product_print(Arena *a, const GpuTiles *t);

#ifdef MESHC_HAVE_LLVM
// The product that is emitted.
typedef struct GpuProduct {
  GpuEmit *g;
  const GpuTiles *t;
  LLVMValueRef size[2], depth, batches; // rows and columns of results, rounds of the sum; i64s
  LLVMValueRef first[2];                // row and column of the block's current tile
  LLVMValueRef batch, part;             // its batch, and its part of the depth
  bool *needed[2];                      // statements that give the elements of a factor's tile
  bool *result;                         // statements that come behind the sum
  LLVMValueRef aligned[2]; // of a factor that is copied: whether its address is a multiple of 16
} GpuProduct;

// -- gpu_product_fill.c
// Returns by statement whether statement `root` depends on it or is it, and whether it is not
// emitted at the start of the function. In the arena of the function.
bool *gpu_statements_of(GpuEmit *g, int root);
// Returns the same for all stores that depend on a loop of `along` (0: for all stores), without
// statement `sum` and what only it needs.
bool *gpu_result_statements(GpuEmit *g, int sum, LoopSet along);
// Sets what does not change from tile to tile: `needed`, `result`, `aligned`.
void gpu_product_prepare(GpuProduct *p);
// Emits the counters of loops `set` at round number i of them all.
void gpu_product_counters(GpuProduct *p, LoopSet set, LLVMValueRef i);
// Returns the tile of a factor in stage number `stage`, an i64.
GpuTile gpu_product_tile(GpuProduct *p, int side, LLVMValueRef stage);
// Emits the filling of the tiles of both factors in stage number `stage`, with the rounds of the
// sum from `from` on. It ends a group of copies. The tiles may be read when each thread has waited
// for that group, and after a barrier.
void gpu_product_fill(GpuProduct *p, LLVMValueRef stage, LLVMValueRef from);

// -- gpu_product_parts.c: sums whose depth is divided into parts
// Emits the store of x, the sum of the current part for the result at row `row` and column `column`
// of the current batch, to scratch memory.
void gpu_part_store(GpuProduct *p, LLVMValueRef row, LLVMValueRef column, LLVMValueRef x);
// Emits the body of NAME_combine for a grid of `blocks` blocks in x: adds the sums of all parts,
// and computes and stores the results.
void gpu_parts_join(GpuEmit *g, int64_t blocks);

// -- gpu_product.c
// Sets the sizes of a product: GpuProduct.size, depth, batches.
void gpu_product_sizes(GpuProduct *p);
// Emits the statements behind the sum for the n results from row `row` and column `column` of the
// current batch on, if the launch has to compute them. sum[i]: the sum of column `column` + i. n is
// 1, or GPU_VECS where all accesses are aligned.
void gpu_product_result(GpuProduct *p, LLVMValueRef row, LLVMValueRef column, int n,
                        const LLVMValueRef *sum);
// Emits the number of the unit (kernel.h) that the counters of the outer loops are in.
LLVMValueRef gpu_unit_number(GpuEmit *g);
// Sets GpuEmit.from and to to the units of the whole set instead of those of the block: blocks that
// compute tiles divide the set by tiles. A launch may have a part of a kernel's units only, so what
// is stored is checked against them. Returns the number of blocks of the set, an i64.
LLVMValueRef gpu_blocks_of_set(GpuEmit *g);
// Emits the block's share of a kernel of TEAM_TILE.
void gpu_product(GpuEmit *g);
#endif

#endif
