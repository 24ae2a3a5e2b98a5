// Plans a kernel for a CPU. In: a Kernel and an EmitTarget. Out: a CpuPlan with
//   the lanes of a vector
//   the tile: rounds of the row loop ("rows") by vectors of the vector loop that run together
//   slabs: parts of the inner loops, each done for a run, a sequence of units (emit_units.c)
//   the place of each statement
//
// A unit is one round of the outer loops, a phase one pass over the inner loops, a chunk the units
// of one call. A value is computed outside of all loops that it does not depend on. Statements with
// an effect stay at the level that the kernel gives them: stores, reductions, checks of indices,
// and loads from memory that the kernel writes.
#include "codegen/cpu/emit_internal.h"
#include "ir/program/sums.h"

static LoopSet loop_bit(int l) { return l < 0 ? 0 : (LoopSet)1 << l; }

static int place_of_dep(const Kernel *k, const CpuPlan *p, LoopSet dep) {
  for (int i = k->ninner - 1; i >= 0; i--)
    if (dep & loop_bit(k->nouter + i)) return PLACE_LOOP + i;
  if (p->vec_outer && dep & loop_bit(k->vector)) return PLACE_PHASE;
  return dep ? PLACE_UNIT : PLACE_ENTRY;
}

static int stmt_place(const Kernel *k, const CpuPlan *p, const KStmt *s, LoopSet dep) {
  if (stmt_has_effect(k, s)) {
    if (s->level == LEVEL_PROLOGUE) return PLACE_ENTRY;
    return s->level == LEVEL_INNER || s->kind == K_REDUCE ? p->innermost : PLACE_PHASE;
  }
  int place = place_of_dep(k, p, dep);
  for (int i = 0; i < 3; i++) {
    if (s->arg[i] == NO_STMT) continue;
    int of = k->stmt[s->arg[i]].kind == K_REDUCE ? PLACE_PHASE : p->place[s->arg[i]];
    if (of > place) place = of;
  }
  return place;
}

// Returns the rounds of loop l, or a large number if they are known at run time only.
static int64_t loop_size(const Kernel *k, int l) {
  return k->loop[l].size ? k->loop[l].size : 1 << 20;
}

// Returns the elements of the vector loop in one full unit (round of the outer loops). If the
// vector loop is an inner loop, these are all of it, else at most Kernel.block.
static int64_t vector_span(const Kernel *k, bool outer) {
  int64_t size = loop_size(k, k->vector);
  return outer && k->block < size ? k->block : size;
}

// Estimates the instructions of the kernel's body for one vector. A tile of a long body needs few
// vectors: it keeps the processor busy, and each further vector costs compile time.
static int body_weight(const Kernel *k) {
  int w = 0;
  for (int i = 0; i < k->nstmts; i++) {
    int cost = k->stmt[i].kind == K_OP ? op_row(k->stmt[i].op)->cost : 1;
    w += cost > 1 ? 2 * cost : 1; // each instruction of a long operation waits for the one before
  }
  return w;
}

// Returns the largest number of reductions in one phase, or 1 if there are none.
static int reductions(const Kernel *k) {
  int most = 1;
  for (int ph = 0; ph < k->nphases; ph++) {
    int n = 0;
    for (int i = 0; i < k->nstmts; i++) n += k->stmt[i].kind == K_REDUCE && k->stmt[i].phase == ph;
    if (n > most) most = n;
  }
  return most;
}

// Estimates the cycles of one round of a tile of r rows by v vectors. It has r*v products and r+v
// loads; a cycle does two products or two loads. The minimum is the latency of an accumulator. The
// instructions of the loop are added.
static double tile_round(int r, int v) {
  double products = r * v * 0.5, loads = (r + v) * 0.5, latency = 5;
  double most = products > loads ? products : loads;
  return (most > latency ? most : latency) + 0.75;
}

// Estimates the cycles of a matrix of `size` rows by `vectors` vectors in tiles of r rows by v
// vectors. Rows left over run one by one, and vectors left over run in narrower tiles.
static double tile_cost(int64_t size, int64_t vectors, int r, int v) {
  double tiles = (double)(vectors / v);
  int tail = (int)(vectors % v);
  return (double)(size / r) * (tiles * tile_round(r, v) + (tail ? tile_round(r, tail) : 0)) +
         (double)(size % r) * (tiles * tile_round(1, v) + (tail ? tile_round(1, tail) : 0));
}

// The row loop (Kernel.rows) of a contraction runs in tiles of several rows. A chunk, the units of
// one call, has all rows if there are few. Otherwise it has a multiple of ROWS_GRAIN rows, and the
// rows of a tile divide ROWS_GRAIN, so that chunks consist of full tiles. With slabs, a chunk
// consists of runs of units.
enum {
  ROWS_GRAIN = 24,
  SHORT_ROWS = 64,        // so many rows are few
  SHORT_ROWS_SLABS = 256, // so many rows are few in a kernel with slabs
  PART_ROWS = 48,         // upper limit of the rows of a chunk with slabs, if parts of it exist
  LEAST_PART = 12,        // lower limit of the rows of such a part
  RUN_UNITS = 64,         // upper limit of the units of a run
  FEW_RUNS = 16,          // a kernel has at least so many runs, if each has TILE_ROWS units
  SLAB_FROM = 196608,     // a unit that reads more bytes than this runs in slabs
  SLAB_BYTES = 32768,     // bytes that a unit reads in one slab, about
  SCRATCH_BYTES = 131072  // bytes of the sums of a run between slabs
};

// -- slabs --------------------------------------------------------------------------------------

// Returns the bytes that one unit (round of the outer loops) reads during inner loop `inner` and
// the loops inside it. Only pointers that move along the vector loop count.
static int64_t stream_bytes(const Kernel *k, int inner) {
  int64_t bytes = 0;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if (s->kind != K_LOAD || s->level != LEVEL_INNER || k->ptr[s->index].stride[k->vector] == 0)
      continue;
    int64_t n = k->block * dtype_bytes(s->type);
    for (int l = k->nouter + inner; l < k->nouter + k->ninner; l++)
      if (k->ptr[s->index].stride[l]) n *= loop_size(k, l);
    bytes += n;
  }
  return bytes;
}

static bool in_slabs(const Kernel *k) {
  if (k->rows < 0 || !k->ninner || k->vector != k->nouter - 1 || k->rows != k->nouter - 2)
    return false;
  return kernel_lone_sum(k) != NO_STMT && stream_bytes(k, 0) > SLAB_FROM;
}

// Chooses slabs, parts of the inner loops, in which a unit reads about SLAB_BYTES (slab_loop,
// slab_step). Also sets `run`, the units that run one slab together, and slab_wide.
static void choose_slabs(const Kernel *k, CpuPlan *p) {
  if (!in_slabs(k) || p->rows < 2) return;
  LoopSet every = loop_bit(k->rows) | loop_bit(k->vector);
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].kind == K_REDUCE && (p->dep[i] & every) != every) return;
  int i = k->ninner - 1;
  while (i > 0 && stream_bytes(k, i) <= SLAB_BYTES) i--;
  int64_t round = stream_bytes(k, i) / loop_size(k, k->nouter + i);
  p->slab_loop = i;
  p->slab_step = clamp64(SLAB_BYTES / (round > 0 ? round : 1), 1, loop_size(k, k->nouter + i));
  p->run = SCRATCH_BYTES / (ceil_div(k->block, p->lanes) * p->lanes * 8);
  int64_t slabs = ceil_div(loop_size(k, k->nouter + i), p->slab_step);
  for (int l = 0; l < i; l++) slabs *= loop_size(k, k->nouter + l);
  p->slab_wide = slabs > SUM_MIDDLE;
}

// Returns how many rows of a kernel with slabs a chunk has at least. A part of the rows lets the
// threads share the work evenly. Parts of fewer rows would read all that the rows share more often.
static int64_t part_rows(int64_t size) {
  for (int64_t n = PART_ROWS; n >= LEAST_PART; n--)
    if (size % n == 0) return n;
  return size <= SHORT_ROWS_SLABS ? size : ROWS_GRAIN;
}

static bool is_height(const Kernel *k, int r) {
  int64_t size = loop_size(k, k->rows);
  if (!in_slabs(k)) return size <= SHORT_ROWS || ROWS_GRAIN % r == 0;
  return part_rows(size) == size || part_rows(size) % r == 0;
}

int64_t kernel_grain(const Kernel *k) {
  WinogradForm winograd;
  if (winograd_form(k, &winograd)) return winograd_grain(&winograd);
  if (k->rows < 0) return 1;
  ProductForm product;
  if (kernel_product(k, &product)) return product_rows(k, &product);
  if (in_slabs(k)) {
    int64_t size = loop_size(k, k->rows), units = ceil_div(loop_size(k, k->vector), k->block);
    for (int l = 0; l < k->vector; l++) units *= loop_size(k, l);
    int64_t run = clamp64(units / FEW_RUNS, TILE_ROWS, RUN_UNITS), rows = part_rows(size);
    return rows * ceil_div(run, rows);
  }
  int64_t n = loop_size(k, k->rows) <= SHORT_ROWS ? k->loop[k->rows].size : ROWS_GRAIN;
  for (int l = k->rows + 1; l < k->nouter; l++)
    n *= l == k->vector ? ceil_div(loop_size(k, l), k->block) : loop_size(k, l);
  return n;
}

static void choose_tile(const Kernel *k, const EmitTarget *t, CpuPlan *p) {
  int64_t size = loop_size(k, k->rows), vectors = ceil_div(vector_span(k, p->vec_outer), p->lanes);
  // Upper limit of the accumulators of a tile. AVX-512 has 32 vector registers, other processors
  // have 16, and operands need some of them. A tile whose accumulators do not fit runs at half
  // speed.
  int budget = (t->bits == 512 ? 24 : 12) / reductions(k);
  // In an inner vector loop all vectors of a row are joined to one result in the end. Further
  // vectors in a tile then only hide the latency of additions.
  int64_t spread = p->vec_outer ? vectors : 1;
  double best = -1;
  for (int v = 1; v <= TILE_VECS && v <= vectors; v++)
    for (int r = 1; r <= TILE_ROWS && r <= size && (r * v <= budget || r * v == 1); r++) {
      if (!is_height(k, r)) continue;
      double cost = tile_cost(size, p->vec_outer ? spread : v, r, v) / (p->vec_outer ? 1 : v);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      p->rows = r;
      p->vecs = v;
    }
}

bool load_is_guarded(const Kernel *k, const CpuPlan *p, int stmt) {
  const KStmt *s = &k->stmt[stmt];
  if ((s->kind != K_LOAD && s->kind != K_LOAD_AT) || s->arg[1] == NO_STMT) return false;
  return !(p->dep[s->arg[1]] & loop_bit(k->vector));
}

bool is_guard_use(const Kernel *k, const CpuPlan *p, int stmt, int phase) {
  return k->stmt[stmt].phase == phase && load_is_guarded(k, p, stmt) &&
         p->place[stmt] >= PLACE_LOOP;
}

int guards_place(const Kernel *k, const CpuPlan *p, int phase) {
  int place = -1;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if (is_guard_use(k, p, i, phase) && p->place[s->arg[1]] > place) place = p->place[s->arg[1]];
  }
  return place;
}

// Returns what is known of the value of `stmt` where `guard`, the bool argument of a load, is
// false. known[i] is what is known of each earlier statement i.
static KNumber number_without(const Kernel *k, const KNumber *known, int guard, int stmt) {
  const KStmt *s = &k->stmt[stmt];
  if (s->kind == K_NUM) return (KNumber)s->step;
  if (s->kind == K_LOAD || s->kind == K_LOAD_AT)
    return s->arg[1] == guard ? NUMBER_ZERO : NUMBER_ANY;
  if (s->kind != K_OP) return NUMBER_ANY;
  if (s->op == OP_CAST)
    return known[s->arg[0]] == NUMBER_ZERO || dtype_is_float(s->type) ? known[s->arg[0]]
                                                                      : NUMBER_ANY;
  if (s->op != OP_WHERE) return NUMBER_ANY;
  if (s->arg[0] == guard || known[s->arg[1]] == known[s->arg[2]]) return known[s->arg[2]];
  return NUMBER_ANY;
}

// Returns whether x is known to be the identity of the reduction, so that reducing it changes
// nothing.
static bool is_neutral(const KStmt *reduce, KNumber x) {
  switch (op_row(reduce->op)->monoid) {
  case MONOID_SUM: return x == NUMBER_ZERO;
  case MONOID_MAX: return x == (reduce->type == TYPE_BOOL ? NUMBER_ZERO : NUMBER_LEAST);
  case MONOID_MIN: return x == NUMBER_GREATEST;
  default: return false;
  }
}

bool guards_decide(const Kernel *k, const CpuPlan *p, int phase) {
  int guard = NO_STMT;
  KNumber known[UINT8_MAX];
  if (k->nstmts > UINT8_MAX) return false;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if (!is_guard_use(k, p, i, phase)) continue;
    if (guard != NO_STMT && guard != s->arg[1]) return false;
    guard = s->arg[1];
  }
  for (int i = 0; i < k->nstmts && guard != NO_STMT; i++) {
    const KStmt *s = &k->stmt[i];
    known[i] = number_without(k, known, guard, i);
    if (s->phase != phase || s->level != LEVEL_INNER) continue;
    if (s->kind == K_REDUCE && is_neutral(s, known[s->arg[0]])) continue;
    if (stmt_has_effect(k, s)) return false;
  }
  return guard != NO_STMT;
}

static void choose_vecs(const Kernel *k, const EmitTarget *t, CpuPlan *p) {
  p->rows = p->vecs = 1;
  if (k->vector < 0 || t->opt == 0) return;
  if (k->rows >= 0) {
    choose_tile(k, t, p);
    return;
  }
  int weight = body_weight(k);
  p->vecs = weight <= 16 ? 4 : weight <= 70 ? 2 : 1;
  while (p->vecs > 1 && (int64_t)p->vecs * p->lanes > vector_span(k, p->vec_outer)) p->vecs /= 2;
}

// Returns whether a statement of this kind counts when the widest element type of a kernel decides
// the number of lanes of its vectors. K_NUM does not count, because it is a scalar. Positions are
// i64, but there are few of them.
static bool shapes_lanes(KKind kind) {
  return kind != K_NUM && kind != K_POSITION && kind != K_QUOTIENT;
}

static int choose_lanes(const Kernel *k, const EmitTarget *t) {
  int64_t widest = 4;
  for (int i = 0; i < k->nstmts; i++)
    if (shapes_lanes(k->stmt[i].kind) && dtype_bytes(k->stmt[i].type) > widest)
      widest = dtype_bytes(k->stmt[i].type);
  return t->bits / 8 / (int)widest;
}

CpuPlan cpu_plan_make(Arena *a, const Kernel *k, const EmitTarget *t) {
  CpuPlan p = {.lanes = choose_lanes(k, t),
               .innermost = k->ninner ? PLACE_LOOP + k->ninner - 1 : PLACE_PHASE,
               .vec_outer = k->vector >= 0 && k->vector < k->nouter,
               .dep = arena_array(a, LoopSet, k->nstmts + 1),
               .place = arena_array(a, uint8_t, k->nstmts + 1)};
  for (int i = 0; i < k->nstmts; i++) {
    p.dep[i] = stmt_loops(k, p.dep, &k->stmt[i]);
    p.place[i] = (uint8_t)stmt_place(k, &p, &k->stmt[i], p.dep[i]);
  }
  choose_vecs(k, t, &p);
  p.scratch_row = ceil_div(k->block, p.lanes) * p.lanes;
  choose_slabs(k, &p);
  winograd_plan(k, t, &p);
  if (t->opt > 0 && !p.winograd.on) product_plan(k, t, &p);
  p.fold = fold_plan(a, k, &p);
  p.kept = kernel_rows(a, k);
  p.ahead = ahead_plan(a, k, &p);
  return p;
}
