// Kernels with sums of their own for each score (K_DOT), computed in tiles by the threads of a
// block together: reductions of attention's scores over keys, and products of what is computed from
// them. gpu_scores_plan.c says which kernels these are.
#ifndef CODEGEN_GPU_SCORES_H
#define CODEGEN_GPU_SCORES_H

#include "codegen/gpu/gpu_product.h"

enum { GPU_SCORES_WARPS = 4 }; // of a block; each has GPU_FRAGMENT_ROWS rows of scores

// -- gpu_scores_plan.c
// Returns whether k is computed in tiles of scores, and how in *t. dep: GpuPlan.dep.
bool gpu_scores_plan(const Kernel *k, const LoopSet *dep, int capability, GpuScores *t);
// Returns the units of a block of threads: a launch has at least as many blocks as tiles.
int64_t gpu_scores_grain(const Kernel *k, const GpuScores *t);
int gpu_scores_shared(const GpuScores *t); // bytes of shared memory
int gpu_scores_stage(const GpuScores *t);  // bytes of one stage of the tiles of columns
char *gpu_scores_print(Arena *a, const Kernel *k, const GpuScores *t);
// Returns which pair of pointers K_DOT statement s multiplies.
int gpu_scores_pair(const GpuScores *t, const KStmt *s);

// -- gpu_scores_form.c
// The maximum of a phase and the sum of the next one, which are computed together.
typedef struct GpuOnline {
  int max, sum; // statements: the reductions
  int power;    // the statement that is summed: e^(score - maximum), before conversions
  int least;    // the statement of the row that the sum subtracts: the maximum, perhaps rounded
} GpuOnline;
// Returns the only reduction of a phase, or NO_STMT.
int gpu_scores_reduction(const Kernel *k, int phase);
// Returns whether phases `phase` and `phase` + 1 are those of a softmax, and sets *out.
bool gpu_scores_online(const Kernel *k, int phase, GpuOnline *out);
// Returns whether `left`, a factor of a product in the phase behind a softmax, is that softmax,
// times factors that are known at each score. Sets *power and *ratio, as in GpuScores.
bool gpu_scores_sweep(const Kernel *k, const GpuOnline *o, int left, int *power, int *ratio);
// Marks in needed[0..nstmts) the statements from which the left factor of a sweep is computed, once
// GpuScores.power has its value: without the scores, and without what GpuScores.ratio divides by.
void gpu_scores_weights(const Kernel *k, const GpuScores *t, bool *needed);
// Sets computed[i], for all statements: whether threads compute statement i. They leave out inner
// statements of a phase that is computed together with an earlier one.
void gpu_scores_computed(const Kernel *k, const GpuScores *t, bool *computed);

#ifdef MESHC_HAVE_LLVM
// A thread has scores of two rows (gpu_sum_row): sums 0 and 1 of each fragment are of the first
// one, sums 2 and 3 of the other. What it has of one row is a half.
enum { GPU_SCORES_HALVES = 2, GPU_SCORES_THREADS = 4 /* that have scores of one row */ };

// The kernel that is emitted.
typedef struct GpuScoresEmit {
  GpuEmit *g;
  const GpuScores *t;
  LLVMValueRef first_row, first_column, first_result; // of the current tiles; i64s
  LLVMValueRef warp_row;                              // first row of the warp, in the block's tile
  LLVMValueRef results;                               // columns of results
  LLVMValueRef stages;                                // address of stage 0 of the tiles of columns
  GpuTile pair[GPU_SCORES_PAIRS][2], factor, weights; // tiles in shared memory
  GpuSums score[GPU_SCORES_PAIRS], weight, leaf, total;
  bool *row_stmt;    // statements of the rows: once for each row and phase
  bool *weight_stmt; // statements that give the left factor of a product
  bool *factor_stmt; // statements that give the elements of the right factor's tile
  bool *result_stmt; // statements behind the sum of a product
  // by half: the values of statements of its row; whether the row is there; its counter
  LLVMValueRef *row_value[GPU_SCORES_HALVES], valid[GPU_SCORES_HALVES], row[GPU_SCORES_HALVES];
  GpuCell *cell[GPU_SCORES_HALVES]; // by reduction
  const GpuOnline *online;          // the reductions of the current phase and the next; or NULL
  GpuOnline softmax;                // of a sweep
} GpuScoresEmit;

// -- gpu_scores_fill.c: tiles in shared memory
void gpu_scores_tiles(GpuScoresEmit *x); // sets the places of all tiles, in stage 0
// Sets the places of the tiles of columns, and of the right factor's tile, to those in stage number
// `stage`, an i64.
void gpu_scores_stage_set(GpuScoresEmit *x, LLVMValueRef stage);
void gpu_scores_fill_rows(GpuScoresEmit *x);               // emits the filling of the tiles of rows
void gpu_scores_fill_columns(GpuScoresEmit *x, int phase); // of columns, and of the right factor

// -- gpu_scores_rows.c: what a thread knows of its rows
// Returns whether statement s stores a row value of a sweep, one that has no dim of the results.
bool gpu_scores_stores_row(const GpuScoresEmit *x, int s);
void gpu_scores_rows_prepare(GpuScoresEmit *x);
// Emits the statements of phase `phase` outside of the inner loops, for both rows of the thread.
void gpu_scores_rows(GpuScoresEmit *x, int phase);
// Sets the counter of the rows and the values of row statements to those of a half.
void gpu_scores_half(GpuScoresEmit *x, int half);
void gpu_scores_cells_clear(GpuScoresEmit *x, int phase);
void gpu_scores_cells_fold(GpuScoresEmit *x, int phase);
void gpu_scores_cells_join(GpuScoresEmit *x, int phase); // reductions become values of rows
// Emits whether the unit at the counters of the outer loops is one of the launch.
LLVMValueRef gpu_scores_wanted(GpuScoresEmit *x);

// -- gpu_scores_online.c
// Emits the addition of scores a[0..n), f32s of the row of a half, to its maximum and its sum.
// Turns the scores into e^(score - maximum). Returns an f32: by what sums for the maximum before
// are scaled.
LLVMValueRef gpu_scores_online_add(GpuScoresEmit *x, const GpuOnline *o, int half, int n,
                                   LLVMValueRef *a);
// Emits the scaling of the thread's sums to the maximum of the row, once the maxima are joined.
void gpu_scores_online_scale(GpuScoresEmit *x, const GpuOnline *o);
// Emits the division of the sums of a sweep's product by the sums of its softmax.
void gpu_scores_sweep_end(GpuScoresEmit *x, const GpuSums *sums);

// -- gpu_scores_live.c
// Emits whether the tile of scores at first_row and first_column changes no result of phases
// `phase` to `last`, the same for all threads of the block, all of which run the code. Returns NULL
// if that is never known. Changes the counter of the columns.
LLVMValueRef gpu_scores_dead(GpuScoresEmit *x, int phase, int last);

// -- gpu_scores.c
// Emits the block's share of a kernel of TEAM_SCORES.
void gpu_scores(GpuEmit *g);
#endif

#endif
