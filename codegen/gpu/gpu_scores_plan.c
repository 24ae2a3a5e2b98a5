// Finds kernels with scores of attention (K_DOT), and plans their computation in tiles. In: a
// Kernel. Out: GpuScores. The scores of all K_DOT statements of a kernel have the same two loops:
//
//   rows       an outer loop, along which one pointer of each pair moves, the left one
//   columns    an inner loop, along which the other moves, the right one
//
// A kernel reduces what it computes from scores over the inner loops, in one or several phases. Or
// it is a product: its only reduction is a sum of left * right, where left is computed from scores
// and right varies along the columns and along outer loops of its own, the results.
//
//   m[t] = max[s] (sum[k] q[t, k] * key[s, k])                                rows t, columns s
//   o[t, v] = sum[s] exp(sum[k] q[t, k] * key[s, k] - m[t]) * value[s, v]     results v
//
// Or it is a sweep: a product whose left factor is a softmax that two phases before it compute.
#include "codegen/cpu/emit_internal.h"
#include "codegen/gpu/gpu_scores.h"

enum {
  BLOCK_ROWS = GPU_SCORES_WARPS * GPU_FRAGMENT_ROWS,
  MOST_COLUMNS = 64,        // of a tile of scores
  MOST_RESULTS = 128,       // of a tile of results; their sums are in registers
  MOST_FOLDED = 64,         // of one whose sums have totals
  LEAST_SIDE = 8,           // rows and columns of the smallest scores in tiles
  MOST_STATEMENTS = 96,     // they are emitted for each score of a thread
  MOST_OF_SWEEP = 192,      // of a sweep, which emits scores once for three phases that have them
  LEAF = 256,               // terms of the longest chain of f32 additions in the sums of a product
  LEAF_TENSOR = 4096,       // the same on tensor cores, which add 16 terms at a time
  MOST_SHARED = 96 << 10,   // bytes of shared memory of a block
  TURING_SHARED = 64 << 10, // the same on GPUs of compute capability 7.5, which have no more
  TURING = 75,              // compute capabilities times 10
  TENSOR_CORES = 80
};

static LoopSet loops_between(int from, int to) {
  return (((LoopSet)1 << to) - 1) & ~(((LoopSet)1 << from) - 1);
}

static bool moves(const Kernel *k, int pointer, int l) { return k->ptr[pointer].stride[l] != 0; }

static int round_up(int64_t n, int to) { return (int)(ceil_div(n, to) * to); }

// -- loops ----------------------------------------------------------------------------------------

// Returns whether one pointer of K_DOT statement s moves along outer loop x and the other along
// inner loop y. *left is the one that moves along x.
static bool separates(const Kernel *k, const KStmt *s, int x, int y, int *left) {
  bool swapped = moves(k, s->other, x);
  *left = swapped ? s->other : s->index;
  int right = swapped ? s->index : s->other;
  return moves(k, *left, x) && !moves(k, right, x) && moves(k, right, y) && !moves(k, *left, y);
}

static bool separate_all(const Kernel *k, int x, int y) {
  bool any = false;
  int left;
  for (int i = 0; i < k->nstmts; i++) {
    if (k->stmt[i].kind != K_DOT) continue;
    if (!separates(k, &k->stmt[i], x, y, &left)) return false;
    any = true;
  }
  return any;
}

static bool find_loops(const Kernel *k, GpuScores *t) {
  int64_t best = 0;
  for (int x = 0; x < k->nouter; x++)
    for (int y = k->nouter; y < k->nouter + k->ninner; y++) {
      int64_t n = size_times(loop_rounds(k, x), loop_rounds(k, y));
      if (n <= best || !separate_all(k, x, y)) continue;
      best = n;
      t->rows = x;
      t->columns = y;
    }
  t->others = loops_between(k->nouter, k->nouter + k->ninner) & ~((LoopSet)1 << t->columns);
  return best > 0 && loop_rounds(k, t->rows) >= LEAST_SIDE &&
         loop_rounds(k, t->columns) >= LEAST_SIDE;
}

// -- pairs of pointers ----------------------------------------------------------------------------

int gpu_scores_pair(const GpuScores *t, const KStmt *s) {
  for (int i = 0; i < t->npairs; i++)
    if ((t->pair[i].pointer[0] == s->index && t->pair[i].pointer[1] == s->other) ||
        (t->pair[i].pointer[0] == s->other && t->pair[i].pointer[1] == s->index))
      return i;
  return -1;
}

static bool is_narrow(Dtype t) { return t == TYPE_BF16 || t == TYPE_F16; }

// Adds the pair of pointers of K_DOT statement s, if it is a new one. Returns false if no tiles can
// have it: there are too many pairs, no type of tiles fits, or the left pointer moves along inner
// loops, though its tile is filled once for all of them.
static bool add_pair(const Kernel *k, const KStmt *s, GpuScores *t) {
  if (gpu_scores_pair(t, s) >= 0) return true;
  if (t->npairs == GPU_SCORES_PAIRS) return false;
  GpuScorePair *p = &t->pair[t->npairs++];
  *p = (GpuScorePair){.type = s->type};
  (void)separates(k, s, t->rows, t->columns, &p->pointer[0]);
  p->pointer[1] = p->pointer[0] == s->index ? s->other : s->index;
  for (int l = k->nouter + k->ninner; l < k->nouter + k->ninner + k->ndots; l++)
    if (moves(k, p->pointer[0], l) || moves(k, p->pointer[1], l)) p->dots |= (LoopSet)1 << l;
  Dtype a = k->ptr[p->pointer[0]].type, b = k->ptr[p->pointer[1]].type;
  if (a == b && is_narrow(a)) p->type = a;
  if (kernel_rounds(k, p->dots) > MOST_SHARED) return false; // the bytes of its tiles fit 31 bits
  p->depth = round_up(kernel_rounds(k, p->dots), GPU_FRAGMENT_DEPTH);
  for (int l = k->nouter; l < k->nouter + k->ninner; l++)
    if ((t->others >> l & 1) && moves(k, p->pointer[0], l)) return false;
  return p->type == s->type || is_narrow(p->type);
}

static bool find_pairs(const Kernel *k, GpuScores *t) {
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].kind == K_DOT && !add_pair(k, &k->stmt[i], t)) return false;
  return true;
}

// -- products -------------------------------------------------------------------------------------

static bool needs_scores(const Kernel *k, const bool *needed) {
  for (int i = 0; i < k->nstmts; i++)
    if (needed[i] && k->stmt[i].kind == K_DOT) return true;
  return false;
}

// Returns the sum in the inner loops of phase `phase` if it is the only reduction there, and no
// later phase has inner statements. Else returns NO_STMT.
static int sum_behind(const Kernel *k, int phase) {
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].level == LEVEL_INNER && k->stmt[i].phase > phase) return NO_STMT;
  int sum = gpu_scores_reduction(k, phase);
  return sum != NO_STMT && k->stmt[sum].op == OP_SUM ? sum : NO_STMT;
}

// Sets the factors of a product. Returns false if the kernel is none.
static bool find_product(const Kernel *k, const LoopSet *dep, GpuScores *t) {
  bool needed[MOST_OF_SWEEP] = {false};
  LoopSet outer = loops_between(0, k->nouter), x = (LoopSet)1 << t->rows;
  GpuOnline softmax;
  bool online = gpu_scores_online(k, 0, &softmax);
  int sum = online ? sum_behind(k, 2) : kernel_lone_sum(k);
  if (sum == NO_STMT) return false;
  const KStmt *times = &k->stmt[k->stmt[sum].arg[0]];
  if (times->kind != K_OP || times->op != OP_MUL || times->type != k->stmt[sum].type) return false;
  if (times->type != TYPE_F32 && times->type != TYPE_F64) return false;
  int left = dep[times->arg[0]] & x ? 0 : 1;
  t->left = times->arg[left];
  t->right = times->arg[!left];
  t->results = dep[t->right] & ~dep[t->left] & outer;
  needed_stmts(k, t->right, needed);
  if (dep[t->right] & x || !t->results || needs_scores(k, needed)) return false;
  for (int i = 0; i < 2; i++)
    if (k->stmt[times->arg[i]].type != times->type) return false;
  t->factor = gpu_product_factors(k, sum, &t->left, &t->right);
  t->sweep = online && gpu_scores_sweep(k, &softmax, t->left, &t->power, &t->ratio);
  if (online && !t->sweep) return false;
  t->sum = sum;
  return true;
}

// -- the form -------------------------------------------------------------------------------------

// Returns whether tiles compute all statements: results are stored outside of the inner loops, and
// nothing else has an effect but reductions.
static bool has_only_sums(const Kernel *k) {
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    bool stores = s->kind == K_STORE && s->level == LEVEL_OUTER;
    bool checks = s->kind == K_OP && s->level == LEVEL_PROLOGUE;
    if (stmt_has_effect(k, s) && !stores && !checks && s->kind != K_REDUCE) return false;
  }
  return true;
}

// Chooses the sides of tiles so that they fit shared memory. Returns false if none do.
static bool choose_sizes(const Kernel *k, int capability, GpuScores *t) {
  int most_shared = capability == TURING ? TURING_SHARED : MOST_SHARED;
  int64_t results = t->sum == NO_STMT ? 0 : kernel_rounds(k, t->results), most = MOST_RESULTS;
  int64_t terms = kernel_rounds(k, loops_between(k->nouter, k->nouter + k->ninner));
  int leaf = is_narrow(t->factor) ? LEAF_TENSOR : LEAF;
  bool folds = t->sum != NO_STMT && t->factor != TYPE_F64 && terms > leaf;
  if (folds || t->factor == TYPE_F64) most = MOST_FOLDED;
  t->tile_rows = BLOCK_ROWS;
  t->tile_results = round_up(results < most ? results : most, GPU_FRAGMENT_DEPTH);
  for (t->tile_columns = MOST_COLUMNS; t->tile_columns >= GPU_FRAGMENT_DEPTH;
       t->tile_columns /= 2) {
    t->fold = folds ? leaf / t->tile_columns : 0;
    for (t->stages = 2; t->stages; t->stages--)
      if (gpu_scores_shared(t) <= most_shared) return true;
  }
  return false;
}

bool gpu_scores_plan(const Kernel *k, const LoopSet *dep, int capability, GpuScores *t) {
  *t = (GpuScores){.sum = NO_STMT};
  if (!k->ndots || k->nstmts > MOST_OF_SWEEP || !has_only_sums(k)) return false;
  if (!find_loops(k, t) || !find_pairs(k, t)) return false;
  if (!find_product(k, dep, t)) t->results = 0;
  if (!t->sweep && k->nstmts > MOST_STATEMENTS) return false;
  t->batch = loops_between(0, k->nouter) & ~t->results & ~((LoopSet)1 << t->rows);
  bool narrow = is_narrow(t->factor);
  for (int i = 0; i < t->npairs; i++) narrow |= is_narrow(t->pair[i].type);
  return (!narrow || capability >= TENSOR_CORES) && choose_sizes(k, capability, t);
}

int gpu_scores_stage(const GpuScores *t) {
  int bytes = t->sum == NO_STMT ? 0 : gpu_tile_bytes(t->factor, t->tile_columns, t->tile_results);
  for (int i = 0; i < t->npairs; i++)
    bytes += gpu_tile_bytes(t->pair[i].type, t->tile_columns, t->pair[i].depth);
  return bytes;
}

int gpu_scores_shared(const GpuScores *t) {
  int bytes = t->stages * gpu_scores_stage(t);
  for (int i = 0; i < t->npairs; i++)
    bytes += gpu_tile_bytes(t->pair[i].type, t->tile_rows, t->pair[i].depth);
  if (t->sum == NO_STMT || is_narrow(t->factor)) return bytes;
  return bytes + gpu_tile_bytes(t->factor, t->tile_rows, t->tile_columns);
}

int64_t gpu_scores_grain(const Kernel *k, const GpuScores *t) {
  int64_t tiles =
      size_times(ceil_div(loop_rounds(k, t->rows), t->tile_rows), kernel_rounds(k, t->batch));
  if (t->sum != NO_STMT)
    tiles = size_times(tiles, ceil_div(kernel_rounds(k, t->results), t->tile_results));
  int64_t grain = kernel_units(k) / tiles;
  return grain > 1 ? grain : 1;
}

char *gpu_scores_print(Arena *a, const Kernel *k, const GpuScores *t) {
  return arena_printf(a, "scores in tiles of %d %s x %d %s%s%s", t->tile_rows,
                      k->loop[t->rows].name, t->tile_columns, k->loop[t->columns].name,
                      t->sweep ? ", softmax and products in one sweep" : "",
                      t->stages > 1 ? ", filled ahead" : "");
}
