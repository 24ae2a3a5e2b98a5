// The operations of a kernel on a GPU: those of each statement, times the threads that run it.
//
// 32 threads, a warp, execute a statement together, each for its own element, in one cycle of 32
// lanes. So an operation costs what it costs one lane, and:
//
//   access     in a cycle a multiprocessor has 128 lanes and moves 128 bytes. So a byte costs as
//              much as an addition; elements that are apart cost their whole sector
//   item       a value that all threads of a team compute for themselves counts for each of them
//   scores     of attention: they are computed once for each row and column in each sweep
//   factor     of a product in tiles: threads compute its elements for each tile of results
//   rounds     threads of a team that have no round of the spread loops left wait for the others
#include <math.h>

#include "codegen/gpu/gpu_scores.h"
#include "codegen/simulate/simulate_internal.h"

enum {
  SECTOR = 32, // bytes that an access of one element far from others moves
  // Operations with which a thread takes part in joining the partial results of a reduction in a
  // warp. A block takes twice as many.
  JOIN_COST = 10
};

static double team_of(const GpuPlan *p) {
  return p->team == TEAM_WARP || p->team == TEAM_BLOCK ? gpu_plan_team(p) : 1;
}

// The loop along which threads that are neighbours have neighbouring elements, or -1, and how many
// of them have.
typedef struct Lanes {
  int loop, together;
} Lanes;

static int lane_loop(const Kernel *k, const GpuPlan *p) {
  if (p->columns > 1) return k->vector;
  if (p->spread && k->vector >= 0 && (p->spread >> k->vector & 1)) return k->vector;
  for (int l = k->nouter + k->ninner - 1; l >= 0 && p->spread; l--)
    if (p->spread >> l & 1) return l;
  return p->blocked ? k->vector : k->nouter - 1;
}

static Lanes lanes_of(const Kernel *k, const GpuPlan *p) {
  return (Lanes){lane_loop(k, p), p->columns > 1 ? p->columns : GPU_WARP};
}

// Returns the cost of an access through pointer `ptr`. Few neighbours leave a part of a sector
// unread.
static double pointer_cost(const Kernel *k, int ptr, Lanes lanes) {
  int64_t stride = lanes.loop >= 0 ? k->ptr[ptr].stride[lanes.loop] : 0;
  double bytes = (double)dtype_bytes(k->ptr[ptr].type);
  if (stride == 0) return bytes;
  return stride > 1 || stride < -1 ? SECTOR : fmax(bytes, (double)SECTOR / lanes.together);
}

static double access_cost(const Kernel *k, const KStmt *s, const LoopSet *of, Lanes lanes) {
  int32_t index = s->kind == K_LOAD_AT ? s->arg[0] : s->kind == K_SCATTER ? s->arg[1] : NO_STMT;
  bool apart = index != NO_STMT && lanes.loop >= 0 && (of[index] >> lanes.loop & 1);
  double cost = apart ? SECTOR : pointer_cost(k, s->index, lanes);
  return s->kind == K_SCATTER ? 2 * cost : cost;
}

// Returns the cost of a statement for one thread. A K_DOT loads both factors of each term.
static double thread_cost(const Kernel *k, const KStmt *s, const LoopSet *of, Lanes lanes) {
  if (sim_is_access(s)) return access_cost(k, s, of, lanes);
  if (s->kind == K_DOT)
    return sim_dot_terms(k, s) *
           (pointer_cost(k, s->index, lanes) + pointer_cost(k, s->other, lanes) + 1);
  return sim_operation_cost(k, s) * (dtype_bytes(s->type) > 4 ? 2 : 1);
}

static double join_cost(const GpuPlan *p) {
  return p->team == TEAM_WARP ? JOIN_COST : p->team == TEAM_BLOCK ? 2 * JOIN_COST : 0;
}

// Returns how often threads run a statement that depends on the loops `of`: in all iterations of
// the loops around the innermost of them, by all threads of a team if no inner loop is among them.
static double times_run(const Kernel *k, const GpuPlan *p, const double *extent, LoopSet of) {
  double times = 1, spread = 1;
  int loops = k->nouter + k->ninner, deepest = -1;
  for (int i = 0; i < loops; i++)
    if (of >> i & 1) deepest = i;
  for (int i = 0; i <= deepest; i++) {
    times *= extent[i];
    if (p->spread >> i & 1) spread *= extent[i];
  }
  double team = team_of(p);
  return spread >= 1 ? times / spread * team * ceil(spread / team) : 0;
}

double loops_rounds(const double *extent, LoopSet set) {
  double n = 1;
  for (int l = 0; l < MAX_LOOPS; l++)
    if (set >> l & 1) n *= extent[l];
  return n;
}

// Returns the cost of a load of a factor of a product in tiles: neighbouring threads have
// neighbours along the depth, or along rows or columns, whichever are neighbours in memory.
static double filled_cost(const Kernel *k, const GpuTiles *t, const KStmt *s) {
  LoopSet loops = t->inner | t->along[0] | t->along[1];
  double least = SECTOR;
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if (loops >> l & 1 && k->ptr[s->index].stride[l] == 1)
      least = (double)dtype_bytes(k->ptr[s->index].type);
  return least;
}

// Returns how often threads run a statement of a factor of a product in tiles: once for each
// element of the factor, and again for each tile of results that reads it.
static double times_filled(const GpuTiles *t, const double *extent, LoopSet of) {
  double times = loops_rounds(extent, of | t->batch | t->inner);
  for (int side = 0; side < 2; side++)
    if (!(of & t->along[side])) times *= ceil(loops_rounds(extent, t->along[side]) / t->size[side]);
  return times;
}

// Returns how often threads run statement number i. Products in tiles are counted in
// simulate_gpu.c.
static double times_of(const Kernel *k, const GpuPlan *p, int i, const double *extent, LoopSet of) {
  bool inner = k->stmt[i].level == LEVEL_INNER;
  if (inner && p->team == TEAM_TILE)
    return i == p->tiles.sum ? 0 : times_filled(&p->tiles, extent, of);
  if (inner && p->team == TEAM_SCORES) {
    bool product = k->stmt[i].kind == K_DOT || i == p->scores.sum;
    return product ? 0 : loops_rounds(extent, of & ~p->scores.results);
  }
  return times_run(k, p, extent, of);
}

double lane_operations(Arena *scratch, const Kernel *k, const GpuPlan *plan, const double *extent,
                       double live) {
  ArenaMark mark = arena_mark(scratch);
  LoopSet *of = arena_array(scratch, LoopSet, k->nstmts + 1), outer = ((LoopSet)1 << k->nouter) - 1;
  Lanes lanes = lanes_of(k, plan);
  bool *computed = arena_array(scratch, bool, k->nstmts + 1);
  if (plan->team == TEAM_SCORES) gpu_scores_computed(k, &plan->scores, computed);
  double all = 0;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    LoopSet own = sim_stmt_loops(k, s, of);
    of[i] = s->kind == K_REDUCE ? own & outer : own;
    if (sim_is_fused(k, i) || (plan->team == TEAM_SCORES && !computed[i])) continue;
    bool filled = plan->team == TEAM_TILE && s->kind == K_LOAD && s->level == LEVEL_INNER;
    double each = filled ? filled_cost(k, &plan->tiles, s) : thread_cost(k, s, of, lanes);
    bool score = plan->team == TEAM_SCORES && s->level == LEVEL_INNER;
    all += each * times_of(k, plan, i, extent, own) * (score ? live : 1);
    if (s->kind == K_REDUCE) all += join_cost(plan) * times_run(k, plan, extent, outer);
  }
  arena_reset(scratch, mark);
  return all;
}
