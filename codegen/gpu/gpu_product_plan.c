// Finds kernels that are products of matrices, and plans their computation in tiles. In: a Kernel.
// Out: GpuTiles. Any kernel is one whose phase 0 is one sum of left * right over the inner loops,
// and that stores results computed from it:
//
//   rows       the outer loops along which the left factor alone varies
//   columns    those along which the right factor alone varies
//   batch      all other outer loops
//   depth      the inner loops
//
// The loops of a direction count as one, the last of them fastest. Factors and results may be
// computed from whatever the kernel loads, so convolutions are products, too: their left factor is
// a window. A block of threads computes a tile of results (gpu_product.c).
//
// Few tiles with a long sum would leave most of a GPU idle. There the depth is divided into parts,
// which blocks of threads sum up at the same time. The gradient of weights [784, 128] from 65,536
// rows has 26 tiles of 64 x 64; in 8 parts they are the work of 208 blocks. Tiles and parts are
// those of least time by time_of, which knows sizes only: results do not depend on the GPU.
#include "codegen/cpu/emit_internal.h"
#include "codegen/gpu/gpu_product.h"

enum {
  LEAST_SIDE = 8,       // rows and columns of the smallest product in tiles
  LEAST_DEPTH = 16,     // its rounds of the inner loops
  LEAST_WORK = 1 << 14, // its multiplications
  LEAF = 256,           // longest chain of f32 additions
  STAGES = 3,           // copies for two steps are under way while a third one is multiplied
  DEPTH_BYTES = 64,     // of a row of a tile along the depth
  LEAST_TILE_DEPTH = 16,
  PROCESSORS = 132, // multiprocessors that the choice of a tile assumes, of any GPU
  LEAST_PART = 256, // rounds of the depth that a part has at least
  // What dividing the depth into parts costs. The unit is the time of a multiplication of f32 on a
  // multiprocessor of an H100, which does 250 a nanosecond. LAUNCH_WORK: a launch of 2 us.
  // SUM_WORK: writing and reading the sum of a part (8 bytes) at a multiprocessor's share of the
  // memory rate (23 bytes a nanosecond).
  LAUNCH_WORK = 500000,
  SUM_WORK = 90,
  TENSOR_SPEED = 6,        // multiplications by tensor cores in the time of one of f32
  MOST_SCRATCH = 64 << 20, // bytes of all sums of parts, unless least_parts needs more
};

// The tiles from which one is chosen, the larger ones first. `rate`: results per second of a
// multiprocessor, relative to the first one: larger tiles read less for a result.
static const struct {
  int rows, columns, warps_rows, warps_columns;
  double rate;
} shapes[] = {
    {128, 128, 2, 4, 1.0}, {128, 64, 4, 2, 0.85}, {64, 128, 2, 4, 0.85}, {64, 64, 2, 2, 0.7},
    {128, 32, 4, 1, 0.6},  {32, 128, 1, 4, 0.6},  {64, 32, 4, 1, 0.5},   {32, 64, 2, 2, 0.5},
    {32, 32, 2, 2, 0.4},   {16, 32, 1, 2, 0.25},  {32, 16, 2, 1, 0.25},
};
// Sums of f64 take twice the registers.
enum { FIRST_F64 = 3 };

static LoopSet outer_loops(const Kernel *k) { return ((LoopSet)1 << k->nouter) - 1; }
static LoopSet inner_loops(const Kernel *k) { return (((LoopSet)1 << k->ninner) - 1) << k->nouter; }

static int last_of(LoopSet set) {
  int last = -1;
  for (int l = 0; l < MAX_LOOPS; l++)
    if (set >> l & 1) last = l;
  return last;
}

// -- the form -----------------------------------------------------------------------------------

static bool used_once(const Kernel *k, int id) {
  int n = 0;
  for (int i = 0; i < k->nstmts; i++)
    for (int j = 0; j < 3; j++) n += k->stmt[i].arg[j] == id;
  return n == 1;
}

// Returns whether all effects of the kernel beside the sum are stores of single results.
static bool only_stores(const Kernel *k, int sum) {
  bool stores = false;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if (i == sum || !stmt_has_effect(k, s)) continue;
    bool check = s->kind == K_OP && s->level == LEVEL_PROLOGUE;
    if (s->kind != K_STORE && !check) return false;
    stores |= s->kind == K_STORE;
  }
  return stores;
}

// Returns whether statement `id` converts a value of type `from`, exactly.
static bool widens(const Kernel *k, int id, Dtype from) {
  const KStmt *s = &k->stmt[id];
  return s->kind == K_OP && s->op == OP_CAST && s->type == TYPE_F32 &&
         k->stmt[s->arg[0]].type == from;
}

Dtype gpu_product_factors(const Kernel *k, int sum, int *left, int *right) {
  static const Dtype narrow[] = {TYPE_BF16, TYPE_F16};
  for (size_t i = 0; i < countof(narrow); i++) {
    if (!widens(k, *left, narrow[i]) || !widens(k, *right, narrow[i])) continue;
    *left = k->stmt[*left].arg[0];
    *right = k->stmt[*right].arg[0];
    return narrow[i];
  }
  return (Dtype)k->stmt[sum].type;
}

// Returns the outer loop along which the results are neighbours in memory, or -1.
static int neighbours_loop(const Kernel *k) {
  for (int i = 0; i < k->nstmts; i++)
    for (int l = 0; l < k->nouter && k->stmt[i].kind == K_STORE; l++)
      if (k->ptr[k->stmt[i].index].stride[l] == 1 && loop_rounds(k, l) > 1) return l;
  return -1;
}

static bool find_sides(const Kernel *k, const LoopSet *dep, GpuTiles *t) {
  const KStmt *times = &k->stmt[k->stmt[t->sum].arg[0]];
  LoopSet own[2];
  for (int i = 0; i < 2; i++) own[i] = dep[times->arg[i]] & ~dep[times->arg[!i]] & outer_loops(k);
  int loop = neighbours_loop(k), right = loop >= 0 && own[0] >> loop & 1 ? 0 : 1;
  for (int side = 0; side < 2; side++) {
    int i = side == 1 ? right : !right;
    t->root[side] = times->arg[i];
    t->along[side] = own[i];
  }
  t->batch = outer_loops(k) & ~own[0] & ~own[1];
  t->inner = inner_loops(k);
  return own[0] && own[1] && times->arg[0] != times->arg[1];
}

static bool large_enough(const Kernel *k, const GpuTiles *t) {
  int64_t rows = kernel_rounds(k, t->along[0]), columns = kernel_rounds(k, t->along[1]),
          depth = kernel_rounds(k, t->inner);
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if (k->loop[l].size == 0) return false;
  return rows >= LEAST_SIDE && columns >= LEAST_SIDE && depth >= LEAST_DEPTH &&
         size_times(size_times(rows, columns), depth) >= LEAST_WORK;
}

static bool find_form(const Kernel *k, const LoopSet *dep, GpuTiles *t) {
  if (!k->ninner || !k->nouter || k->images || accum_offset(k, k->nstmts) > 0) return false;
  t->sum = kernel_lone_sum(k);
  if (t->sum == NO_STMT || k->stmt[t->sum].level != LEVEL_INNER) return false;
  const KStmt *times = &k->stmt[k->stmt[t->sum].arg[0]];
  Dtype type = k->stmt[t->sum].type;
  if (times->kind != K_OP || times->op != OP_MUL || times->type != type) return false;
  if ((type != TYPE_F32 && type != TYPE_F64) || !used_once(k, k->stmt[t->sum].arg[0])) return false;
  for (int i = 0; i < 2; i++)
    if (k->stmt[times->arg[i]].type != type) return false;
  return find_sides(k, dep, t) && only_stores(k, t->sum) && large_enough(k, t);
}

// -- tiles in shared memory ---------------------------------------------------------------------

// Returns whether more loads of a factor read neighbours in memory along the rows or columns of
// results than along the depth. The rows of its tiles are then rounds of the depth.
static bool is_deep(Arena *a, const Kernel *k, const GpuTiles *t, int side) {
  bool *needed = arena_array(a, bool, k->nstmts);
  int along = last_of(t->along[side]), depth = last_of(t->inner), n = 0;
  needed_stmts(k, t->root[side], needed);
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if (!needed[i] || (s->kind != K_LOAD && s->kind != K_LOAD_AT)) continue;
    const KPtr *p = &k->ptr[s->index];
    n += (p->stride[along] == 1) - (p->stride[depth] == 1);
  }
  return n > 0;
}

// Returns whether a factor is an array in memory of which 16 bytes can be copied at a time, if it
// begins at a multiple of 16.
static bool is_copied(const Kernel *k, const GpuTiles *t, int side) {
  const KStmt *s = &k->stmt[t->root[side]];
  if (s->kind != K_LOAD || s->arg[1] != NO_STMT) return false;
  const KPtr *p = &k->ptr[s->index];
  int64_t each = 16 / dtype_bytes(p->type);
  LoopSet set = t->deep[side] ? t->along[side] : t->inner;
  int fast = last_of(set);
  bool alone = set == (LoopSet)1 << fast;
  if (p->type != t->factor || p->stride[fast] != 1) return false;
  if (!alone && (k->loop[fast].slot >= 0 || k->loop[fast].size % each)) return false;
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if (l != fast && p->stride[l] % each) return false;
  return true;
}

// Returns the bytes of the tile of sums, through which results go from warps to threads.
static int results_bytes(const GpuTiles *t) {
  return gpu_tile_bytes(gpu_tile_sum_type(t->factor), t->size[0] / t->warps[0], t->size[1]);
}

int gpu_product_tile_bytes(const GpuTiles *t, int side) {
  return t->deep[side] ? gpu_tile_bytes(t->factor, t->depth, t->size[side])
                       : gpu_tile_bytes(t->factor, t->size[side], t->depth);
}

int gpu_product_stage_bytes(const GpuTiles *t) {
  return gpu_product_tile_bytes(t, 0) + gpu_product_tile_bytes(t, 1);
}

int gpu_product_shared(const GpuTiles *t) {
  int stages = t->stages * gpu_product_stage_bytes(t), results = results_bytes(t);
  return stages > results ? stages : results;
}

static int64_t tiles_of(const Kernel *k, const GpuTiles *t, int rows, int columns) {
  int64_t n = size_times(ceil_div(kernel_rounds(k, t->along[0]), rows),
                         ceil_div(kernel_rounds(k, t->along[1]), columns));
  return size_times(n, kernel_rounds(k, t->batch));
}

int64_t gpu_product_results(const Kernel *k, const GpuTiles *t) {
  return kernel_rounds(k, t->along[0] | t->along[1] | t->batch);
}

// Returns the bytes of the sums of `parts` parts of the depth.
static int64_t scratch_of(const Kernel *k, const GpuTiles *t, int64_t parts) {
  int64_t sums = size_times(gpu_product_results(k, t), parts);
  return size_times(sums, dtype_bytes(gpu_tile_sum_type(t->factor)));
}

int64_t gpu_product_scratch(const Kernel *k, const GpuTiles *t) {
  return t->parts > 1 ? ceil_div(scratch_of(k, t, t->parts), MEMORY_ALIGN) * MEMORY_ALIGN : 0;
}

// Returns the time that a GPU of PROCESSORS multiprocessors would take with row `i` of `shapes` and
// the depth in `parts` parts, in multiplications of one of them. With fewer blocks than
// multiprocessors it is that of one block.
static double time_of(const Kernel *k, const GpuTiles *t, size_t i, int64_t parts) {
  double tiles = (double)tiles_of(k, t, shapes[i].rows, shapes[i].columns),
         n = tiles * (double)parts / PROCESSORS, depth = (double)kernel_rounds(k, t->inner);
  double each = shapes[i].rows * shapes[i].columns / shapes[i].rate * depth / (double)parts;
  double sums = (double)gpu_product_results(k, t) * (double)parts / PROCESSORS,
         speed = dtype_bytes(t->factor) == 2 ? TENSOR_SPEED : 1;
  return (n < 1 ? 1 : n) * each + (parts > 1 ? speed * (LAUNCH_WORK + SUM_WORK * sums) : 0);
}

static void set_shape(GpuTiles *t, size_t i, int64_t parts) {
  t->size[0] = shapes[i].rows;
  t->size[1] = shapes[i].columns;
  t->warps[0] = shapes[i].warps_rows;
  t->warps[1] = shapes[i].warps_columns;
  t->parts = (int)parts;
}

// Returns the least number of parts, a power of two, that keeps sums of f32 precise: a part adds up
// at most LEAF totals of LEAF terms each, so that no chain of additions is longer than LEAF.
static int64_t least_parts(const Kernel *k, const GpuTiles *t) {
  int64_t parts = 1;
  while (t->factor != TYPE_F64 && parts * LEAF * LEAF < kernel_rounds(k, t->inner)) parts *= 2;
  return parts;
}

// Sets the tiles and parts of least time among rows first..last-1 of `shapes`.
static void choose_shape(const Kernel *k, GpuTiles *t, size_t first, size_t last) {
  int64_t from = least_parts(k, t), depth = kernel_rounds(k, t->inner);
  double least = 0;
  for (size_t i = first; i < last; i++)
    for (int64_t parts = from; parts == from || parts * LEAST_PART <= depth; parts *= 2) {
      double time = time_of(k, t, i, parts);
      bool fits = parts == from || scratch_of(k, t, parts) <= MOST_SCRATCH;
      if (!fits || (least > 0 && time >= least)) continue;
      least = time;
      set_shape(t, i, parts);
    }
}

// -- results ------------------------------------------------------------------------------------

// Returns how many neighbours along the columns have their results computed together: the vector
// loop is the fastest loop of the columns, a unit has whole groups of them, and something is loaded
// or stored that is contiguous along it.
static int choose_vecs(const Kernel *k, const GpuTiles *t) {
  enum { MOST_STATEMENTS = 48 }; // they are emitted for each neighbour
  int l = last_of(t->along[1]);
  if (t->parts > 1 || l != k->vector || k->nstmts > MOST_STATEMENTS) return 1;
  bool alone = t->along[1] == (LoopSet)1 << l, whole = k->block >= k->loop[l].size;
  if (!alone && (k->loop[l].slot >= 0 || k->loop[l].size % GPU_VECS)) return 1;
  if (k->loop[l].size < GPU_VECS || !(whole || k->block % GPU_VECS == 0)) return 1;
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].kind == K_STORE && gpu_is_wide(k, &k->stmt[i])) return GPU_VECS;
  return 1;
}

int gpu_product_shapes(void) { return (int)countof(shapes); }

bool gpu_product_plan(Arena *a, const Kernel *k, const LoopSet *dep, int tile, GpuTiles *t) {
  *t = (GpuTiles){.stages = STAGES};
  if (!find_form(k, dep, t)) return false;
  t->factor = gpu_product_factors(k, t->sum, &t->root[0], &t->root[1]);
  t->depth = DEPTH_BYTES / (int)dtype_bytes(t->factor);
  if (t->depth < LEAST_TILE_DEPTH) t->depth = LEAST_TILE_DEPTH;
  for (int side = 0; side < 2; side++) {
    t->deep[side] = is_deep(a, k, t, side);
    t->copied[side] = is_copied(k, t, side);
  }
  size_t first = t->factor == TYPE_F64 ? FIRST_F64 : 0;
  bool given = tile > (int)first;
  choose_shape(k, t, given ? (size_t)tile - 1 : first, given ? (size_t)tile : countof(shapes));
  t->vecs = choose_vecs(k, t);
  // numbers of rows and columns go up to the end of the last tile, which has at most 128
  int64_t depth = kernel_rounds(k, t->inner),
          most = size_times(kernel_rounds(k, outer_loops(k)), 128);
  t->fold = t->factor != TYPE_F64 && depth > LEAF ? LEAF / t->depth : 0;
  t->narrow = most < INT32_MAX && depth < INT32_MAX;
  return true;
}

int64_t gpu_product_grain(const Kernel *k, const GpuTiles *t) {
  int64_t grain = kernel_units(k) / tiles_of(k, t, t->size[0], t->size[1]);
  return grain > 1 ? grain : 1;
}

char *gpu_product_print(Arena *a, const GpuTiles *t) {
  static const char *const how[] = {"computed", "copied"};
  const char *parts = t->parts > 1  ? arena_printf(a, ", depth in %d parts", t->parts)
                      : t->vecs > 1 ? arena_printf(a, ", %d results at a time", t->vecs)
                                    : "";
  return arena_printf(a, "tiles of %d x %d x %d %s, left factor %s, right factor %s%s", t->size[0],
                      t->size[1], t->depth, dtype_text(t->factor), how[t->copied[0]],
                      how[t->copied[1]], parts);
}
