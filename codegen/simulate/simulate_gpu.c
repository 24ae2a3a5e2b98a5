// The seconds that an instruction takes a GPU.
//
//   kernel    its launches, and the longer of memory traffic and operations (simulate_lanes.c);
//             products in tiles and scores of attention take the time of their flops, too, and
//             scatters that of the terms which a block adds one after the other
//   GEMM      a launch for each call, and the longer of its memory traffic and the waves of its
//             tiles
//   ordered   a launch, traffic of all passes, operations
//   fill, copy  a launch and traffic
//
// Blocks of threads. The full rates need many threads on each multiprocessor: so many that their
// loads cover the time of an access to memory, or their operations the time of an operation. With
// fewer threads the rate falls in proportion:
//
//   a kernel of 264 blocks of 256 threads on 132 multiprocessors: 512 threads each, half of the
//   memory rate
//
// Tiles. A library divides the result of a product into tiles, and long sums into parts. A
// multiprocessor computes a tile at a time; tiles that are left over after full waves take as long
// as a full wave. The fastest of a few sizes of tiles and numbers of parts counts.
//
// Processors that share a GPU: a kernel is one launch for all of them, products are launched one
// after the other.
#include <math.h>
#include <string.h>

#include "codegen/gpu/gpu_internal.h"
#include "codegen/simulate/simulate_internal.h"
#include "ir/program/gpu_ordered.h"

enum {
  // Threads of a multiprocessor that reach the full rate. Memory: 1,024 accesses of 16 bytes under
  // way for 0.7 us on 132 multiprocessors are 3.1 TB/s. Operations: two warps for each of the four
  // schedulers, with two independent operations each.
  MEMORY_THREADS = 1024,
  WORK_THREADS = 256,
  RESIDENT_THREADS = 2048, // of a multiprocessor
  // Operations of a step that belong to no instruction: its header, statuses twice, results. Each
  // takes a launch.
  STEP_NODES = 4
};

static const double ACCESS_SECONDS = 0.7e-6; // from an access to memory to its value

double gpu_step_seconds(const Machine *m) { return STEP_NODES * m->launch; }

static double traffic_seconds(const Machine *m, const CacheTraffic *t) {
  return (t->l2 + t->core + t->l3) / (m->l3_rate > 0 ? m->l3_rate : m->memory_rate) +
         t->memory / m->memory_rate;
}

// Returns the share of a rate that `threads` threads reach if each multiprocessor needs `needed`.
static double share(const Sim *s, double threads, double needed) {
  double all = needed * fmax(s->m->multiprocessors, 1);
  return threads < all ? fmax(threads, 1) / all : 1;
}

// Returns the seconds of a launch of all processors that share the GPU.
static double launch_seconds(Sim *s, double work, double traffic, double threads) {
  threads *= s->contexts;
  double busy = s->contexts * fmax(work / share(s, threads, WORK_THREADS),
                                   traffic / share(s, threads, MEMORY_THREADS));
  double waits = busy - s->contexts * fmax(work, traffic); // for want of threads
  s->parts = (SimParts){s->contexts * work, s->contexts * traffic, s->m->launch + waits};
  return s->m->launch + busy;
}

static double operation_seconds(const Sim *s, double operations) {
  return s->m->operations > 0 ? operations / s->m->operations : 0;
}

// -- products -----------------------------------------------------------------------------------

typedef struct Tile {
  double rows, columns;
} Tile;

// Returns the share of the rate of products that tiles of a size reach; the largest tile has 1. A
// multiprocessor loads rows + columns factors for rows * columns products. A load is taken to cost
// as much as LOAD products (an estimate).
static double tile_share(const Tile *t) {
  enum { LOAD = 8 };
  double each = t->rows * t->columns / (t->rows + t->columns); // products for each load
  double largest = 128.0 * 256 / (128 + 256);
  return each / (each + LOAD) * (largest + LOAD) / largest;
}

// Returns the seconds of the waves of tiles of `batch` products, whose sums are divided into
// `parts` parts.
static double wave_seconds(const Sim *s, const GemmSizes *z, double flops, const Tile *t,
                           double parts) {
  double processors = fmax(s->m->multiprocessors, 1);
  double tiles = z->batch * ceil(z->m / t->rows) * ceil(z->n / t->columns) * parts;
  double each = 2 * t->rows * t->columns * (ceil(z->k / parts) + s->m->half) /
                (flops / processors * tile_share(t));
  double sums = 4 * 2 * parts * z->batch * z->m * z->n; // bytes of the sums of parts
  double join = parts > 1 ? s->m->launch + sums / s->m->memory_rate : 0;
  return ceil(tiles / processors) * each + join;
}

static double product_seconds(const Sim *s, const GemmSizes *z, double flops) {
  static const Tile tile[] = {{128, 256}, {128, 128}, {64, 128}, {64, 64}, {32, 64}};
  double least = HUGE_VAL;
  for (size_t i = 0; i < countof(tile); i++)
    for (double parts = 1; parts <= 32; parts *= 2)
      least = fmin(least, wave_seconds(s, z, flops, &tile[i], parts));
  return least;
}

// Returns the flops per second of kernels that compute products in tiles with factors of type t.
// They feed the tensor cores without TMA, the copy unit of newer GPUs. Kernels of this kind reach
// 370 TFLOP/s where a library reaches 722 (Triton, issue 2339): OF_LIBRARY is that ratio.
static double tile_flops(const Machine *m, Dtype t) {
  enum { OF_LIBRARY = 2 };
  if (dtype_bytes(t) == 2 && m->bf16_flops > 0) return m->bf16_flops / OF_LIBRARY;
  return machine_tile_flops(m) / (dtype_bytes(t) > 4 ? 2 : 1);
}

// Returns the seconds of the tiles of a kernel that is a product.
static double tiles_seconds(const Sim *s, const GpuTiles *t, const double *extent) {
  GemmSizes z = {.m = loops_rounds(extent, t->along[0]),
                 .n = loops_rounds(extent, t->along[1]),
                 .k = loops_rounds(extent, t->inner),
                 .batch = loops_rounds(extent, t->batch)};
  Tile tile = {t->size[0], t->size[1]};
  return wave_seconds(s, &z, tile_flops(s->m, t->factor), &tile, t->parts);
}

// Returns the seconds of the products of a kernel with scores of attention: the scores of each row
// and column, and their product with a factor.
static double scores_seconds(const Sim *s, const GpuScores *t, const double *extent) {
  double scores = loops_rounds(extent, t->batch | t->others) * extent[t->rows] * extent[t->columns],
         seconds = 0;
  for (int i = 0; i < t->npairs; i++)
    seconds +=
        2 * scores * loops_rounds(extent, t->pair[i].dots) / tile_flops(s->m, t->pair[i].type);
  if (t->sum != NO_STMT)
    seconds += 2 * scores * loops_rounds(extent, t->results) / tile_flops(s->m, t->factor);
  return seconds;
}

// What the blocks of a launch do, on one processor.
typedef struct LaunchWork {
  double blocks, operations;
  double tiles, owners; // seconds
  double reread;        // bytes that blocks read again, from the cache
} LaunchWork;

// -- scatters -------------------------------------------------------------------------------------

static bool rows_in_parts(const GpuPlan *p) { return p->team == TEAM_BLOCK && p->row_parts > 1; }

// Returns the rows of the table at `at` to which statement x, a scatter, adds: as many as are in a
// step of the next slower dim or, if there is none, in the value.
static double table_rows(const Sim *s, const Kernel *k, const KStmt *x, Ref at) {
  const KPtr *p = &k->ptr[x->index];
  int64_t all = 0;
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if (p->stride[l] > x->step && (!all || p->stride[l] < all)) all = p->stride[l];
  if (!all) all = sim_value_bytes(s, at) / dtype_bytes(p->type);
  return fmax(floor((double)all / (double)x->step), 1);
}

// Returns the seconds of scatter x, whose rows have owners, on all processors of the GPU. A block
// reads the indices of all terms in runs, in each of which a thread reads one, and adds the terms
// of its own rows one after the other. It waits for memory in each run and for each of its terms;
// all rows are taken to have as many. Blocks that find no room on the multiprocessors wait for
// others.
static double owners_seconds(const Sim *s, const GpuOwners *o, double rows, const double *extent) {
  double terms = loops_rounds(extent, o->terms), width = loops_rounds(extent, o->columns),
         threads = o->threads, blocks = (double)o->owners * o->groups * s->contexts,
         room = fmax(s->m->multiprocessors, 1) * RESIDENT_THREADS / threads;
  double runs = ceil(terms / threads), most = ceil(rows / o->owners) / rows * terms,
         own = most * ceil(width / threads / o->groups);
  return ceil(blocks / room) * (runs + own) * ACCESS_SECONDS;
}

// Returns the bytes of indices that the blocks of a scatter read from the cache: all but the first
// block, because each reads those of all terms.
static double owners_reread(const GpuOwners *o, const double *extent) {
  enum { INDEX = 4 }; // bytes
  return INDEX * loops_rounds(extent, o->terms) * ((double)o->owners * o->groups - 1);
}

// Adds the work of the scatters of a kernel, which its blocks compute one after the other.
static void add_scatters(const Sim *s, const Kernel *k, const KernelSet *set, const GpuOwners *o,
                         const double *extent, LaunchWork *w) {
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *x = &k->stmt[i];
    if (x->kind != K_SCATTER) continue;
    w->owners += owners_seconds(s, o, table_rows(s, k, x, set->ptr[x->index]), extent);
    w->reread += owners_reread(o, extent);
  }
}

// -- instructions -------------------------------------------------------------------------------

// What launches of one kernel share. Layers that are alike launch it with equal operands, so the
// share of scores that the last launch computes is kept.
typedef struct KnownKernel {
  bool planned;
  GpuPlan plan;
  const KernelSet *set; // NULL: `live` is not known
  double extent[MAX_LOOPS], live;
} KnownKernel;

static KnownKernel *known_kernel(Sim *s, uint32_t kernel) {
  if (!s->known) s->known = arena_array(s->a, KnownKernel, s->p->nkernels);
  KnownKernel *known = &s->known[kernel];
  if (known->planned) return known;
  const GpuCodeOptions options = {.capability = GPU_SHOWN_CAPABILITY};
  known->planned = true;
  known->plan = gpu_plan_make(s->a, s->c->kernels[kernel], &options);
  return known;
}

// Returns whether the values that masks depend on are equal in two sets of operands of a kernel.
static bool masks_equal(const ProgKernel *k, const KernelSet *x, const KernelSet *y) {
  return memcmp(x->slot, y->slot, (size_t)k->nslot * sizeof *x->slot) == 0 &&
         memcmp(x->num, y->num, (size_t)k->nnum * sizeof *x->num) == 0;
}

// Returns the share of the scores that kernel number `kernel` computes (scores_live).
static double live_share(Sim *s, KnownKernel *known, uint32_t kernel, const KernelSet *set,
                         const double extent[MAX_LOOPS]) {
  if (known->set && masks_equal(&s->p->kernel[kernel], known->set, set) &&
      memcmp(known->extent, extent, sizeof known->extent) == 0)
    return known->live;
  known->set = set;
  memcpy(known->extent, extent, sizeof known->extent);
  known->live = scores_live(s, s->c->kernels[kernel], &known->plan.scores, set, extent);
  return known->live;
}

static void add_set(Sim *s, const KernelLaunch *l, const KernelSet *set, KnownKernel *known,
                    LaunchWork *w) {
  const Kernel *k = s->c->kernels[l->kernel];
  const GpuPlan *plan = &known->plan;
  double extent[MAX_LOOPS] = {0}, grain = (double)(plan->grain ? plan->grain : l->grain);
  sim_extents(s, k, set, extent);
  for (int p = 0; p < k->nptr; p++) kernel_access(s, k, p, set->ptr[p], extent);
  double live = plan->team == TEAM_SCORES ? live_share(s, known, l->kernel, set, extent) : 1;
  w->operations += lane_operations(s->a, k, plan, extent, live);
  if (plan->team == TEAM_TILE) w->tiles += tiles_seconds(s, &plan->tiles, extent);
  if (plan->team == TEAM_SCORES) w->tiles += live * scores_seconds(s, &plan->scores, extent);
  if (plan->team == TEAM_OWNERS) add_scatters(s, k, set, &plan->owners, extent, w);
  w->blocks += ceil(sim_size(s, set->units) / grain) * gpu_plan_parts(plan);
}

// Returns the launches of a kernel after the first one: those of further phases (GpuEntry.phases),
// or that of `combine`.
static double more_launches(const Kernel *k, const GpuPlan *p, double partial) {
  if (rows_in_parts(p)) return k->nphases - 1;
  return partial > 0 ? 1 : 0;
}

// Returns the seconds of launches at full rates, of all processors that share the GPU.
static double full_rate(Sim *s, double launches, double work, double traffic) {
  s->parts = (SimParts){s->contexts * work, s->contexts * traffic, launches * s->m->launch};
  return launches * s->m->launch + s->contexts * fmax(work, traffic);
}

static double kernel_seconds(Sim *s, const KernelLaunch *l) {
  const Kernel *k = s->c->kernels[l->kernel];
  KnownKernel *known = known_kernel(s, l->kernel);
  LaunchWork w = {0};
  for (uint32_t i = 0; i < l->nsets; i++) add_set(s, l, &l->set[i], known, &w);
  CacheTraffic t = sim_touch(s, false, false);
  double partial = 2.0 * (double)s->p->kernel[l->kernel].partial_bytes * (double)l->chunks;
  t.l3 += partial + w.reread;
  double more = s->m->launch * more_launches(k, &known->plan, partial),
         work = operation_seconds(s, w.operations), traffic = traffic_seconds(s->m, &t),
         threads = w.blocks * known->plan.threads;
  if (w.tiles > 0) return full_rate(s, 1, w.tiles + work, traffic);
  double launched = launch_seconds(s, work, traffic, threads);
  s->parts.latency = more + fmax(s->parts.latency, s->m->launch + w.owners);
  return more + fmax(s->m->launch + w.owners, launched);
}

// Returns the number of calls of the library for a GEMM. A call covers one loop over the batch, so
// the longest one is left to it; the other loops, and the pieces, take a call for each round.
static double gemm_calls(const Sim *s, const Gemm *g) {
  double all = 1, longest = 1;
  for (int i = 0; i < g->nbatch; i++) {
    double count = sim_size(s, g->batch[i].count);
    all *= count;
    longest = fmax(longest, count);
  }
  return all / longest * (g->npieces && !g->by_step ? g->npieces : 1);
}

static double gemm_seconds(Sim *s, const Gemm *g) {
  GemmSizes z = gemm_accesses(s, g);
  CacheTraffic t = sim_touch(s, false, false);
  if (z.m < 1 || z.n < 1 || z.batch < 1) return 0;
  double calls = gemm_calls(s, g);
  double work = product_seconds(s, &z, machine_flops(s->m, g->factors)) *
                gemm_share(g, (int64_t)z.m, (int64_t)z.n, (int64_t)z.k);
  return full_rate(s, s->contexts * calls, work, traffic_seconds(s->m, &t));
}

// -- copies, ordered operations -----------------------------------------------------------------

static double copy_seconds(Sim *s, const Ref *src, Ref dst, int64_t bytes) {
  if (src) sim_access(s, *src, bytes, (double)bytes, false);
  sim_access(s, dst, bytes, (double)bytes, true);
  CacheTraffic t = sim_touch(s, false, false);
  return full_rate(s, s->contexts, 0, traffic_seconds(s->m, &t));
}

// Returns how often a sort merges the runs of a row of n elements.
static double merges(double n) { return n > ORDERED_RUN ? ceil(log2(n / ORDERED_RUN)) : 0; }

// Returns the seconds of an ordered operation. A sort compares all pairs of a run, and each merge
// reads and writes a key and an index of each element.
static double ordered_seconds(Sim *s, const Ordered *o) {
  enum { ENTRY = 16, RUNNING_COST = 8 };
  bool sorts = o->kind == ORDERED_ARGSORT || o->kind == ORDERED_TOP_K;
  double n = sim_size(s, o->n), rows = ordered_rows(s, o), all = n * rows;
  int64_t count[MAX_RANK];
  for (int i = 0; i < o->nrows; i++) count[i] = (int64_t)sim_size(s, o->row[i].count);
  OrderedSizes sizes = {.what = o, .n = (int64_t)n, .rows = (int64_t)rows, .count = count};
  double threads = (double)gpu_ordered_launch(&sizes).blocks * ORDERED_THREADS;
  ordered_accesses(s, o, rows);
  CacheTraffic t = sim_touch(s, false, false);
  if (sorts) t.l3 += all * 2 * ENTRY * merges(n);
  double each = sorts ? 2 * fmin(n, ORDERED_RUN) + ENTRY * merges(n) : RUNNING_COST;
  return launch_seconds(s, operation_seconds(s, all * each), traffic_seconds(s->m, &t), threads);
}

double gpu_instr_seconds(Sim *s, const Instr *in) {
  switch (in->kind) {
  case INSTR_KERNEL: return kernel_seconds(s, &in->u.kernel);
  case INSTR_GEMM: return gemm_seconds(s, &in->u.gemm);
  case INSTR_ORDERED: return ordered_seconds(s, &in->u.ordered);
  case INSTR_FILL: return copy_seconds(s, NULL, in->u.fill.dst, in->u.fill.bytes);
  case INSTR_COPY: return copy_seconds(s, &in->u.copy.src, in->u.copy.dst, in->u.copy.bytes);
  default: return 0;
  }
}
