// Plans blocks of threads that compute neighbouring items side by side (GpuPlan.columns). In: a
// Kernel, and the plan in which a thread has an item. Out: columns, threads and spread loops.
//
// An outer vector loop makes items neighbours in memory, and neighbouring threads that have one
// item each read memory in whole sectors. But few long items make few threads, each of which waits
// for one load after the other. Here several threads divide the positions of an item:
//
//   softmax over 512 rows of 64 columns, 8 columns to a block of 256 threads
//     threads 0 to 7     rows 0, 32, 64 ... of the columns 0 to 7
//     threads 8 to 15    rows 1, 33, 65 ... of the same columns
//
// Threads of a block meet where partial results are joined. So each of them must have an item: the
// number of columns divides the size of the vector loop, and that of its blocks. Sizes alone
// decide, so that results do not depend on the GPU.
#include "codegen/gpu/gpu_internal.h"

enum {
  MOST_THREADS = 256,     // of a block
  LEAST_TEAM = 8,         // threads of an item
  LEAST_CHAIN = 2,        // positions of a thread at least, in teams of more than LEAST_TEAM
  SECTOR_COLUMNS = 8,     // columns of f32 that fill a sector of memory
  MOST_SHARED = 48 << 10, // bytes of shared memory that each GPU gives any block
  ENOUGH = 1 << 17        // threads that let a large GPU reach the rate of its memory
};

// Returns the largest power of two that divides n.
static int64_t power_in(int64_t n) { return n & -n; }

// Returns the most columns that leave no thread without an item. 0: an item may be missing.
static int64_t most_columns(const Kernel *k) {
  const KLoop *l = &k->loop[k->vector];
  if (l->slot >= 0 || l->size < 1) return 0;
  int64_t all = power_in(l->size), block = power_in(k->block);
  return k->block < l->size && block < all ? block : all;
}

// Returns whether blocks may have any items: none adds to memory, or to the partial row of a chunk.
static bool divides_units(const Kernel *k) {
  for (int s = 0; s < k->nstmts; s++)
    if (k->stmt[s].kind == K_SCATTER || k->stmt[s].kind == K_ACCUM) return false;
  return true;
}

// Returns the threads for each of `items` items of n positions: as many as fill a GPU, but at most
// `most`.
static int64_t team_of(int64_t items, int64_t n, int64_t most) {
  int64_t team = LEAST_TEAM;
  while (2 * team <= most && 2 * team * LEAST_CHAIN <= n && size_times(items, team) < ENOUGH)
    team *= 2;
  return team;
}

// Returns the items of a block, at most `most`: as many as its threads and its shared memory hold.
static int64_t columns_of(int64_t most, int64_t team, int joins) {
  int64_t n = most < GPU_WARP ? most : GPU_WARP;
  while (n > 1 && (n * team > MOST_THREADS || gpu_join_shared(joins, n * team, n) > MOST_SHARED))
    n /= 2;
  return n;
}

void gpu_columns_plan(const Kernel *k, LoopSet positions, GpuPlan *p) {
  int64_t most = most_columns(k), n = kernel_rounds(k, positions),
          items = kernel_rounds(k, ((LoopSet)1 << k->nouter) - 1);
  if (!most || !divides_units(k)) return;
  // fewer columns read only a part of each sector that memory moves
  int64_t filled = most < SECTOR_COLUMNS ? most : SECTOR_COLUMNS;
  if (size_times(items, SECTOR_COLUMNS / filled) >= ENOUGH) return;
  int64_t team = team_of(items, n, MOST_THREADS / filled);
  int64_t columns = columns_of(most, team, p->joins);
  if (columns * team < GPU_WARP) team = GPU_WARP / columns;
  p->team = TEAM_BLOCK;
  p->spread = positions;
  p->columns = (int)columns;
  p->threads = (int)(columns * team);
  p->unit_parts = (int)(p->elements / columns);
}
