// Plans a kernel for a GPU: which threads compute an item together, which inner loops are divided
// among them, where statements are, how many units a block of threads has. In: a Kernel. Out: a
// GpuPlan. Words: gpu_internal.h.
//
//   a thread an item   an outer vector loop, short inner loops, or none
//   columns            few long items of an outer vector loop: some to a block (gpu_columns.c)
//   a warp an item     inner loops of up to WARP_ROUNDS rounds
//   tiles of results   products of matrices (gpu_product_plan.c)
//   tiles of scores    attention (gpu_scores_plan.c)
//   a block an item    longer ones, and accumulators with many elements: each element has one
//                      thread that adds to it, whatever the item
//   several blocks     few items with rows of many rounds (gpu_row_parts.c)
//   owners of rows     kernels that only scatter (gpu_scatter_plan.c)
//
// Other scatters are deterministic, too: only loops on which the index does not depend, and along
// which the pointer moves, run in parallel. If that is not so for an outer loop, one block runs all
// units.
#include "codegen/gpu/gpu_scatter.h"
#include "codegen/gpu/gpu_scores.h"

#include "ir/program/sums.h"

#include <string.h>

enum {
  BLOCK_THREADS = 256,
  SHORT_ROUNDS = 16,    // inner loops of so many rounds are left to one thread
  WARP_ROUNDS = 1024,   // inner loops of so many rounds are left to one warp
  MANY_ITEMS = 1 << 20, // a kernel with so many items has THREAD_ITEMS items for each thread
  THREAD_ITEMS = 4
};

// The grain where one block runs all units: more units than any memory has elements.
static const int64_t ALL_UNITS = INT64_C(1) << 40;

static LoopSet loops_of(int from, int to) {
  LoopSet out = 0;
  for (int l = from; l < to; l++) out |= (LoopSet)1 << l;
  return out;
}
static LoopSet inner_loops(const Kernel *k) { return loops_of(k->nouter, k->nouter + k->ninner); }

static LoopSet moving(const Kernel *k, int pointer) {
  LoopSet out = 0;
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if (k->ptr[pointer].stride[l]) out |= (LoopSet)1 << l;
  return out;
}

bool gpu_accum_in_row(const Kernel *k, int s) {
  return k->stmt[s].kind == K_ACCUM && accum_elements(k, s) > 1;
}

bool gpu_accum_has_cell(const Kernel *k, const GpuPlan *p, int s) {
  return !(moving(k, k->stmt[s].index) & inner_loops(k) & ~p->spread);
}

// Returns the loops that may run in parallel: those that do not let two threads add to one element
// of a scatter, or of an accumulator with many elements.
static LoopSet parallel_loops(const Kernel *k, const GpuPlan *p) {
  LoopSet out = ~(LoopSet)0;
  for (int s = 0; s < k->nstmts; s++) {
    const KStmt *x = &k->stmt[s];
    if (x->kind == K_SCATTER) out &= moving(k, x->index) & ~p->dep[x->arg[1]];
    if (gpu_accum_in_row(k, s)) out &= moving(k, x->index) | ~inner_loops(k);
  }
  return out;
}

static bool has_rows(const Kernel *k) {
  for (int s = 0; s < k->nstmts; s++)
    if (gpu_accum_in_row(k, s)) return true;
  return false;
}

// items: whether teams compute items, and not parts of another form (GpuTeam).
static void choose_team(const Kernel *k, bool items, GpuPlan *p) {
  LoopSet parallel = parallel_loops(k, p), inner = inner_loops(k);
  bool serial = (loops_of(0, k->nouter) & ~parallel) != 0, rows = has_rows(k);
  int64_t n = kernel_rounds(k, inner & parallel);
  p->team = TEAM_BLOCK;
  if (!serial && !rows) {
    if (p->blocked || n <= SHORT_ROUNDS)
      p->team = TEAM_THREAD;
    else if (n <= WARP_ROUNDS)
      p->team = TEAM_WARP;
  }
  p->spread = p->team == TEAM_THREAD ? 0 : inner & parallel;
  p->threads = BLOCK_THREADS;
  if (p->team == TEAM_BLOCK && n < BLOCK_THREADS)
    p->threads = (int)ceil_div(n, GPU_WARP) * GPU_WARP;
  p->serial = serial;
  if (serial) p->grain = ALL_UNITS;
  if (items && p->team == TEAM_THREAD && n > SHORT_ROUNDS) gpu_columns_plan(k, inner & parallel, p);
}

// -- positions in registers, neighbours ---------------------------------------------------------

enum { MOST_CODE = 256 }; // statements that are emitted for several positions or neighbours

static bool has_known_size(const Kernel *k, LoopSet set) {
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if ((set >> l & 1) && k->loop[l].size == 0) return false;
  return true;
}

// Lets threads keep the elements of all accumulators in cells, if they are few. If a warp can keep
// them, each warp has items of its own, and the cells of the warps are joined at the end.
static void choose_kept(const Kernel *k, GpuPlan *p, bool serial) {
  if (p->team != TEAM_BLOCK || !p->spread || !has_rows(k) || !has_known_size(k, p->spread)) return;
  for (int s = 0; s < k->nstmts; s++)
    if (gpu_accum_in_row(k, s) && !gpu_accum_has_cell(k, p, s)) return;
  int64_t rounds = kernel_rounds(k, p->spread);
  bool warp = !serial && rounds <= GPU_KEPT * GPU_WARP;
  int64_t n = ceil_div(rounds, warp ? GPU_WARP : p->threads);
  if (n > GPU_KEPT || n * k->nstmts > MOST_CODE) return;
  p->kept = (int)n;
  if (!warp) return;
  p->team = TEAM_WARP;
  p->threads = BLOCK_THREADS;
}

bool gpu_is_wide(const Kernel *k, const KStmt *s) {
  bool plain = s->kind == K_STORE || (s->kind == K_LOAD && s->arg[1] == NO_STMT);
  if (!plain || k->vector < 0 || k->ptr[s->index].stride[k->vector] != 1) return false;
  // in an outer vector loop all rounds of the inner loops must be aligned if the first one is
  for (int l = k->nouter; l < k->nouter + k->ninner && k->vector < k->nouter; l++)
    if (k->ptr[s->index].stride[l] % GPU_VECS) return false;
  return true;
}

// Estimates the registers that the code of one element takes, to a factor: those of f64 are twice
// as wide, and long operations have many constants.
static int body_weight(const Kernel *k) {
  int weight = 0;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    int cost = s->kind == K_OP ? op_row(s->op)->cost : 1;
    weight += (cost > 1 ? cost : 1) * (dtype_bytes(s->type) == 8 ? 2 : 1);
  }
  return weight;
}

static void choose_vecs(const Kernel *k, GpuPlan *p) {
  p->vecs = 1;
  if (k->vector < 0 || body_weight(k) * (GPU_VECS + 1) > MOST_CODE || has_rows(k)) return;
  bool any = false;
  for (int s = 0; s < k->nstmts; s++) {
    if (k->stmt[s].kind == K_SCATTER) return;
    any |= gpu_is_wide(k, &k->stmt[s]);
  }
  bool whole = k->block % GPU_VECS == 0 || k->block >= loop_rounds(k, k->vector);
  bool outer = p->blocked && p->team == TEAM_THREAD && whole;
  bool inner = p->spread == (LoopSet)1 << k->vector;
  if (any && (outer || inner) && loop_rounds(k, k->vector) >= GPU_VECS) p->vecs = GPU_VECS;
}

// -- items in parts -------------------------------------------------------------------------------

// Returns whether a load outside of the spread loops may read memory that the kernel stores to
// (KPtr). All blocks of an item run such a load, and one of them would have stored already.
static bool may_reload(const Kernel *k, const GpuPlan *p, const KStmt *s) {
  if ((s->kind != K_LOAD && s->kind != K_LOAD_AT) || moving(k, s->index) & p->spread) return false;
  const KPtr *from = &k->ptr[s->index];
  for (int i = 0; i < k->nptr; i++)
    if (k->ptr[i].written && dtype_bytes(k->ptr[i].type) == dtype_bytes(from->type) &&
        memcmp(k->ptr[i].stride, from->stride, sizeof from->stride) == 0)
      return true;
  return false;
}

// Returns whether several blocks can divide an item: each phase only reduces, and stores at its own
// positions.
static bool divides_rows(const Kernel *k, const GpuPlan *p) {
  bool reduces = false;
  if (p->team != TEAM_BLOCK || p->grain || p->blocked || !has_known_size(k, p->spread))
    return false;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if (s->kind == K_ACCUM || s->kind == K_SCATTER || may_reload(k, p, s)) return false;
    reduces |= s->kind == K_REDUCE;
  }
  return reduces;
}

// Divides long rows among several blocks if there are few of them. The parts depend on sizes only,
// so that results do not depend on the GPU.
static void choose_row_parts(const Kernel *k, GpuPlan *p) {
  enum {
    FEW_ROWS = 128,    // most units that are divided; with more, each has one block
    LEAST_PART = 4096, // positions of a part
    BLOCKS = 512,      // of a launch: about four for each multiprocessor of a large GPU
    MOST_PARTS = 256   // of an item: one for each thread of a block that joins their results
  };
  int64_t units = kernel_units(k), n = kernel_rounds(k, p->spread);
  p->row_parts = 1;
  if (units < 1 || units > FEW_ROWS || n < KERNEL_LONG_ROW || !divides_rows(k, p)) return;
  p->row_parts = (int)clamp64(n / LEAST_PART, 1, clamp64(BLOCKS / units, 1, MOST_PARTS));
}

int gpu_plan_team(const GpuPlan *p) {
  return p->team == TEAM_THREAD ? 1 : p->team == TEAM_WARP ? GPU_WARP : p->threads / p->columns;
}

// -- grain --------------------------------------------------------------------------------------

static void choose_grain(const Kernel *k, GpuPlan *p) {
  int64_t items = size_times(kernel_units(k), p->elements), teams = p->threads / gpu_plan_team(p);
  int64_t each = items >= MANY_ITEMS ? THREAD_ITEMS : 1, n;
  if (p->blocked && p->vecs > 1) each = p->vecs;
  n = teams * each / p->elements;
  p->narrow = items < INT32_MAX;
  p->narrow_spread = kernel_rounds(k, p->spread) < INT32_MAX;
  if (accum_offset(k, k->nstmts) > 0)
    p->grain = 0;
  else if (p->grain == 0)
    p->grain = n > 1 ? n : 1;
}

// -- cells --------------------------------------------------------------------------------------

// Returns how many values a thread adds to a cell of reduction s.
static int64_t chain_of(const Kernel *k, const GpuPlan *p, int s) {
  const KStmt *x = &k->stmt[s];
  int64_t n = x->level == LEVEL_INNER ? kernel_rounds(k, inner_loops(k) & ~p->spread) : 1;
  if (x->kind == K_ACCUM && gpu_accum_in_row(k, s))
    return p->kept ? size_times(n, kernel_chunk_units(k)) : n;
  if (x->level == LEVEL_INNER)
    n = size_times(n, ceil_div(kernel_rounds(k, p->spread), gpu_plan_team(p)));
  return x->kind == K_ACCUM ? size_times(n, kernel_units(k)) : n;
}

// Decides after how many additions a leaf is added to its cell. A leaf takes the values of as many
// inner loops that are not spread as give at most SUM_LEAF, or of a part of the next one.
static void choose_fold(const Kernel *k, GpuPlan *p) {
  int64_t n = 1;
  p->leaves = kernel_rounds(k, inner_loops(k) & ~p->spread) > 1;
  p->fold_loop = -1;
  for (int l = k->nouter + k->ninner - 1; l >= k->nouter && p->fold_loop < 0; l--) {
    if (p->spread >> l & 1) continue;
    if (size_times(n, loop_rounds(k, l)) > SUM_LEAF) {
      p->fold_loop = l;
      p->fold_step = SUM_LEAF / n > 1 ? SUM_LEAF / n : 1;
    }
    n = size_times(n, loop_rounds(k, l));
  }
}

static void choose_cells(const Kernel *k, GpuPlan *p) {
  for (int s = 0; s < k->nstmts; s++) {
    bool wide = stmt_folds(&k->stmt[s]) && (chain_of(k, p, s) > SUM_LEAF || p->row_parts > 1);
    p->cell[s] = wide || kernel_accum_wide(k, s) ? TYPE_F64 : k->stmt[s].type;
  }
}

static void count_joins(const Kernel *k, GpuPlan *p) {
  for (int phase = 0; phase < k->nphases; phase++) {
    int n = 0;
    for (int s = 0; s < k->nstmts; s++)
      n += k->stmt[s].kind == K_REDUCE && k->stmt[s].phase == phase;
    if (n > p->joins) p->joins = n;
  }
  int accums = 0;
  for (int s = 0; s < k->nstmts; s++)
    accums += k->stmt[s].kind == K_ACCUM && !gpu_accum_in_row(k, s);
  if (accums > p->joins) p->joins = accums;
}

// -- places -------------------------------------------------------------------------------------

// Returns whether the kernel may store where this load reads (KPtr). If the address is the same in
// all loops the kernel has one item: threads without an item must not load what its team stores.
static bool may_be_stored(const Kernel *k, const KStmt *s) {
  if (s->kind != K_LOAD) return false;
  for (int i = 0; i < k->nptr; i++)
    if (k->ptr[i].written && !moving(k, i) &&
        dtype_bytes(k->ptr[i].type) == dtype_bytes(k->ptr[s->index].type))
      return true;
  return false;
}

static uint8_t place_of(const Kernel *k, const GpuPlan *p, const KStmt *s, LoopSet dep) {
  bool effect = stmt_has_effect(k, s);
  if (effect && s->level != LEVEL_PROLOGUE)
    return s->level == LEVEL_INNER ? GPU_AT_INNER : GPU_AT_PHASE;
  uint8_t place = effect                       ? GPU_AT_ENTRY
                  : dep & inner_loops(k)       ? GPU_AT_INNER
                  : dep || may_be_stored(k, s) ? GPU_AT_ITEM
                                               : GPU_AT_ENTRY;
  for (int i = 0; i < 3; i++) {
    if (s->arg[i] == NO_STMT) continue;
    uint8_t of = k->stmt[s->arg[i]].kind == K_REDUCE ? GPU_AT_PHASE : p->place[s->arg[i]];
    if (of > place) place = of;
  }
  return place;
}

static void choose_tiles(const Kernel *k, GpuPlan *p) {
  p->team = TEAM_TILE;
  p->threads = p->tiles.warps[0] * p->tiles.warps[1] * GPU_WARP;
  p->grain = gpu_product_grain(k, &p->tiles);
  p->vecs = 1;
  p->spread = 0;
}

static void choose_owners(GpuPlan *p) {
  p->team = TEAM_OWNERS;
  p->threads = p->owners.threads;
  p->grain = ALL_UNITS;
  p->vecs = 1;
  p->spread = 0;
}

static void choose_scores(const Kernel *k, GpuPlan *p) {
  p->team = TEAM_SCORES;
  p->threads = GPU_SCORES_WARPS * GPU_WARP;
  p->grain = gpu_scores_grain(k, &p->scores);
  p->vecs = 1;
  p->spread = 0;
}

GpuPlan gpu_plan_make(Arena *a, const Kernel *k, const GpuCodeOptions *opt) {
  GpuPlan p = {.blocked = k->vector >= 0 && k->vector < k->nouter,
               .elements = 1,
               .columns = 1,
               .unit_parts = 1,
               .dep = arena_array(a, LoopSet, k->nstmts + 1),
               .place = arena_array(a, uint8_t, k->nstmts + 1),
               .cell = arena_array(a, Dtype, k->nstmts + 1)};
  if (p.blocked) {
    int64_t size = loop_rounds(k, k->vector);
    p.elements = k->block < size ? k->block : size;
  }
  for (int s = 0; s < k->nstmts; s++) {
    p.dep[s] = stmt_loops(k, p.dep, &k->stmt[s]);
    p.place[s] = place_of(k, &p, &k->stmt[s], p.dep[s]);
  }
  bool scores = gpu_scores_plan(k, p.dep, opt->capability, &p.scores),
       product = !scores && gpu_product_plan(a, k, p.dep, opt->tile, &p.tiles);
  count_joins(k, &p);
  choose_team(k, !scores && !product, &p);
  choose_kept(k, &p, p.grain != 0);
  choose_vecs(k, &p);
  choose_row_parts(k, &p);
  choose_grain(k, &p);
  choose_fold(k, &p);
  choose_cells(k, &p);
  if (scores) choose_scores(k, &p);
  if (product) choose_tiles(k, &p);
  if (gpu_scatter_plan(a, k, p.dep, &p.owners)) choose_owners(&p);
  return p;
}

// -- entry, text --------------------------------------------------------------------------------

// Return whether several blocks sum parts of a product's depth, and parts of long rows.
static bool in_parts(const GpuPlan *p) { return p->team == TEAM_TILE && p->tiles.parts > 1; }
static bool rows_in_parts(const GpuPlan *p) { return p->team == TEAM_BLOCK && p->row_parts > 1; }

// Returns the blocks of `combine`: each has as many results as a warp has lanes.
static int64_t combine_blocks(const Kernel *k, const GpuPlan *p) {
  int64_t most = in_parts(p) ? gpu_product_results(k, &p->tiles) : 1;
  for (int s = 0; s < k->nstmts; s++)
    if (k->stmt[s].kind == K_ACCUM && accum_elements(k, s) > most) most = accum_elements(k, s);
  return clamp64(ceil_div(most, GPU_WARP), 1, 1024);
}

int gpu_plan_parts(const GpuPlan *p) {
  if (rows_in_parts(p)) return p->row_parts;
  if (p->team == TEAM_OWNERS) return p->owners.owners * p->owners.groups;
  return in_parts(p) ? p->tiles.parts : p->unit_parts;
}

GpuEntry gpu_plan_entry(Arena *a, const Kernel *k, const GpuPlan *p, const char *name) {
  bool combines = accum_offset(k, k->nstmts) > 0 || in_parts(p);
  int shared = (int)gpu_join_shared(p->joins, p->threads, p->columns), all = 8 * p->threads;
  if (p->kept && p->team == TEAM_WARP && shared < all) shared = all;
  if (p->team == TEAM_TILE) shared = gpu_product_shared(&p->tiles);
  if (p->team == TEAM_OWNERS) shared = gpu_scatter_shared(&p->owners);
  if (p->team == TEAM_SCORES) shared = gpu_scores_shared(&p->scores);
  return (GpuEntry){.run = name,
                    .combine = combines ? arena_printf(a, "%s_combine", name) : NULL,
                    .threads = p->threads,
                    .combine_threads = combines ? GPU_COMBINE_THREADS : 0,
                    .grain = p->grain,
                    .parts = gpu_plan_parts(p),
                    .shared = shared,
                    .combine_shared = combines ? 8 * GPU_COMBINE_THREADS : 0,
                    .combine_blocks = combines ? combine_blocks(k, p) : 0,
                    .phases = rows_in_parts(p) ? k->nphases : 0,
                    .scratch = in_parts(p)        ? gpu_product_scratch(k, &p->tiles)
                               : rows_in_parts(p) ? gpu_row_scratch(k, p)
                                                  : 0};
}

static const char *spread_text(Arena *a, const Kernel *k, const GpuPlan *p) {
  const char *text = "none";
  bool first = true;
  for (int l = 0; l < k->nouter + k->ninner; l++) {
    if (!(p->spread >> l & 1)) continue;
    text = first ? k->loop[l].name : arena_printf(a, "%s, %s", text, k->loop[l].name);
    first = false;
  }
  return text;
}

char *gpu_plan_print(Arena *a, const Kernel *k, const GpuPlan *p) {
  static const char *const team[] = {
      [TEAM_THREAD] = "a thread", [TEAM_WARP] = "a warp", [TEAM_BLOCK] = "a block"};
  const char *grain = p->grain == ALL_UNITS ? "all units"
                      : p->grain
                          ? arena_printf(a, "%lld unit%s", (long long)p->grain, plural(p->grain))
                          : "the units of a chunk";
  const char *more = p->vecs > 1 ? arena_printf(a, ", %d neighbours at a time", p->vecs)
                     : p->kept   ? ", accumulators in registers"
                                 : "";
  if (p->team == TEAM_SCORES)
    return arena_printf(a, "%s, %d threads and %s for each block",
                        gpu_scores_print(a, k, &p->scores), p->threads, grain);
  if (p->team == TEAM_TILE)
    return arena_printf(a, "%s, %d threads and %s for each block", gpu_product_print(a, &p->tiles),
                        p->threads, grain);
  if (p->team == TEAM_OWNERS) return gpu_scatter_print(a, &p->owners);
  if (p->columns > 1 || p->unit_parts > 1)
    return arena_printf(a, "%d threads for each item, %d item%s for each block, spread: %s",
                        gpu_plan_team(p), p->columns, plural(p->columns), spread_text(a, k, p));
  if (rows_in_parts(p))
    return arena_printf(a, "%d blocks for each item, %d threads for each block, spread: %s%s",
                        p->row_parts, p->threads, spread_text(a, k, p), more);
  return arena_printf(a, "%s for each item, %d threads and %s for each block, spread: %s%s",
                      team[p->team], p->threads, grain, spread_text(a, k, p), more);
}
