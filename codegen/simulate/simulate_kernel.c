// The memory accesses of a kernel, and its operations: the cost of each statement, times the rounds
// of the loops that its value depends on.
#include <math.h>

#include "codegen/cpu/emit_internal.h"
#include "codegen/simulate/simulate_internal.h"

enum { SHARED_ROWS = 8 }; // rows of a register tile, which share values that are equal in all rows
enum { MASKED_ACCESS = 1 }; // cost of the mask of an access, in vector operations
enum { LOOP_COST = 6 };     // cost of the start and end of an inner loop, in vector operations
enum { ACROSS_LANES = 10 }; // cost of joining the lanes of a vector, in vector operations
enum { JOINED_ROWS = 3 };   // the same for a row of a register tile: its rows are joined together

// -- accesses -----------------------------------------------------------------------------------

static double rounds(const double *extent, int n) {
  double product = 1;
  for (int i = 0; i < n; i++) product *= extent[i];
  return product;
}

// Returns how many times the kernel accesses memory through pointer `ptr` at computed indices. A
// scatter counts twice: it reads and writes.
static double indexed_accesses(const Kernel *k, int ptr, const double *extent) {
  double times = 0;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if ((s->kind != K_LOAD_AT && s->kind != K_SCATTER) || s->index != ptr) continue;
    times += rounds(extent, kernel_depth(k, s->level)) * (s->kind == K_SCATTER ? 2 : 1);
  }
  return times;
}

// Adds to s->access what kernel k accesses through pointer `ptr`. If indices are computed, it may
// be all bytes from `at` on, but each byte comes from memory once: the first-level cache serves
// repeated accesses. Otherwise it is each element in the range of the strides once.
void kernel_access(Sim *s, const Kernel *k, int ptr, Ref at, const double *extent) {
  const KPtr *p = &k->ptr[ptr];
  double size = (double)dtype_bytes(p->type), elements = 1, last = 0,
         times = indexed_accesses(k, ptr, extent);
  if (times > 0) {
    int64_t span = sim_bytes_behind(s, at);
    sim_access(s, at, span, fmin(times * size, (double)span), p->written);
    return;
  }
  for (int i = 0; i < k->nouter + k->ninner + k->ndots; i++) {
    if (!p->stride[i]) continue;
    if (extent[i] < 1) return;
    elements *= extent[i];
    last += (extent[i] - 1) * fabs((double)p->stride[i]);
  }
  elements = fmin(elements, last + 1); // a window reads elements several times; they count once
  sim_access(s, at, (int64_t)(last + 1) * dtype_bytes(p->type), elements * size, p->written);
}

// -- operations ---------------------------------------------------------------------------------

LoopSet sim_stmt_loops(const Kernel *k, const KStmt *s, const LoopSet *of) {
  if (s->kind != K_ACCUM && s->kind != K_REDUCE) return stmt_loops(k, of, s);
  return ((LoopSet)1 << (s->level == LEVEL_INNER ? k->nouter + k->ninner : k->nouter)) - 1;
}

static bool along_vector(const Kernel *k, LoopSet of) {
  return k->vector >= 0 && (of >> k->vector & 1);
}

// Returns the cost of the memory access of statement s for one vector. If the elements of the
// vector are not adjacent in memory, this is the cost of LANES single accesses.
static double access_cost(const Kernel *k, const KStmt *s, const LoopSet *of) {
  int64_t stride = k->vector >= 0 ? k->ptr[s->index].stride[k->vector] : 0;
  int32_t index = s->kind == K_LOAD_AT ? s->arg[0] : s->kind == K_SCATTER ? s->arg[1] : NO_STMT;
  bool together = (stride == 0 || stride == 1) && (index == NO_STMT || !along_vector(k, of[index]));
  double cost = together ? 0.5 : LANES;
  return s->kind == K_STORE     ? 2 * cost
         : s->kind == K_SCATTER ? 4 * cost
         : s->kind == K_LOAD_AT ? cost + 0.5
                                : cost;
}

double sim_dot_terms(const Kernel *k, const KStmt *s) {
  double terms = 1;
  for (int l = k->nouter + k->ninner; l < k->nouter + k->ninner + k->ndots; l++)
    if (k->ptr[s->index].stride[l]) terms *= (double)loop_rounds(k, l);
  return terms;
}

double sim_operation_cost(const Kernel *k, const KStmt *s) {
  // K_QUOTIENT divides by a constant, which is done by a multiplication.
  static const double cost[] = {
      [K_POSITION] = 1, [K_QUOTIENT] = 3, [K_INSIDE] = 2, [K_REDUCE] = 1, [K_ACCUM] = 3};
  if (s->kind == K_DOT) return 2 * sim_dot_terms(k, s);
  return s->kind == K_OP ? op_row(s->op)->cost : cost[s->kind];
}

bool sim_is_access(const KStmt *s) {
  return s->kind == K_LOAD || s->kind == K_LOAD_AT || s->kind == K_STORE || s->kind == K_SCATTER;
}

static double stmt_cost(const Kernel *k, const KStmt *s, const LoopSet *of) {
  return sim_is_access(s) ? access_cost(k, s, of) : sim_operation_cost(k, s);
}

static double type_cost(Dtype t) { return dtype_bytes(t) > 4 ? 2 : 1; }

// Returns how many times a statement is computed: vectors if it is in the vectorised loop, elements
// otherwise. of: the loops that the statement depends on. Its code is in the innermost of these, so
// all loops around that one count, too. Rows of a register tile (block of results in registers)
// share a value that is equal in all of them.
static double vectors(const Kernel *k, const double *extent, LoopSet of) {
  double n = 1;
  int deepest = -1;
  for (int i = 0; i < k->nouter + k->ninner; i++)
    if (of >> i & 1) deepest = i;
  for (int i = 0; i <= deepest; i++)
    n *= i == k->vector ? (double)ceil_div((int64_t)extent[i], LANES) : extent[i];
  bool shared = k->rows >= 0 && k->rows < deepest && !(of >> k->rows & 1);
  return shared ? n / clamp64((int64_t)extent[k->rows], 1, SHARED_ROWS) : n;
}

bool sim_is_fused(const Kernel *k, int stmt) {
  bool summed = false;
  for (int i = stmt + 1; i < k->nstmts && k->stmt[stmt].kind == K_OP && k->stmt[stmt].op == OP_MUL;
       i++)
    for (int a = 0; a < 3; a++) {
      if (k->stmt[i].arg[a] != stmt) continue;
      if (k->stmt[i].kind != K_REDUCE || k->stmt[i].op != OP_SUM) return false;
      summed = true;
    }
  return summed;
}

// Returns whether the vectorised loop has fewer iterations than a vector has elements. Then all
// accesses along the loop have a mask.
static bool is_masked(const Kernel *k, const double *extent) {
  return k->vector >= 0 && extent[k->vector] < LANES;
}

static bool is_access(const KStmt *s) { return s->kind == K_LOAD || s->kind == K_STORE; }

static bool is_tile_load(const Kernel *k, int stmt) {
  return stmt != NO_STMT && k->stmt[stmt].kind == K_LOAD && k->stmt[stmt].level == LEVEL_INNER;
}

// -- register tiles -----------------------------------------------------------------------------

// Returns how many rows of a register tile run together: they share loads, loops and joined lanes.
static double tile_rows(const Kernel *k, const double *extent) {
  return k->rows < 0 ? 1 : (double)clamp64((int64_t)extent[k->rows], 1, SHARED_ROWS);
}

// Returns whether register tiles load the elements of a vector one by one, as far apart as they are
// in memory. Products in packed blocks read them once.
static bool loads_apart(const Kernel *k, int load) {
  ProductForm product;
  int64_t stride = k->ptr[k->stmt[load].index].stride[k->vector];
  return stride != 0 && stride != 1 && !kernel_product(k, &product);
}

// Marks in `done` the statements of sums of products that register tiles compute: the sum, the
// product and the loads, except those of elements that are apart. Adds their work to w: flops of
// full vectors, or, where the lanes of vectors are joined to results, operations.
static void tile_work(const Kernel *k, const double *extent, bool *done, KernelWork *w) {
  if (k->rows < 0 || k->vector < 0) return;
  LoopSet outer = ((LoopSet)1 << k->nouter) - 1, all = ((LoopSet)1 << (k->nouter + k->ninner)) - 1;
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    if (s->kind != K_REDUCE || s->op != OP_SUM || !sim_is_fused(k, s->arg[0])) continue;
    const KStmt *product = &k->stmt[s->arg[0]];
    if (!is_tile_load(k, product->arg[0]) || !is_tile_load(k, product->arg[1])) continue;
    done[i] = done[s->arg[0]] = true;
    for (int j = 0; j < 2; j++) done[product->arg[j]] = !loads_apart(k, product->arg[j]);
    double each = LANES * type_cost(s->type), n = vectors(k, extent, all);
    if (k->vector < k->nouter)
      w->tiles += 2 * each * n;
    else
      w->operations += each * (n + JOINED_ROWS * vectors(k, extent, outer));
  }
}

// Adds to w the work of a convolution by Winograd's algorithm: the 16 products of each tile, and
// the operations of the transforms. Marks in `done` the statements of its inner loops. Returns
// false if kernel k is no such convolution.
static bool winograd_work(const Kernel *k, const double *extent, bool *done, KernelWork *w) {
  enum { PRODUCTS = 16, OF_PATCH = 56, OF_RESULTS = 36 }; // vector operations: 16 loads and stores
  WinogradForm f;
  if (!winograd_form(k, &f)) return false;
  int images = f.gradient ? k->nouter : f.axis[0].loop; // the loops over images are loop[0..images)
  double tiles = (double)(f.tiles[0] * f.tiles[1]) * rounds(extent, images);
  double channels = (double)f.channels, columns = extent[k->vector];
  double repeats = ceil(columns / (double)f.columns);
  w->winograd += 2 * PRODUCTS * tiles * channels * columns;
  w->operations +=
      tiles * (OF_PATCH * channels * repeats + (f.gradient ? OF_PATCH : OF_RESULTS) * columns);
  for (int i = 0; i < k->nstmts; i++) done[i] = k->stmt[i].level == LEVEL_INNER;
  return true;
}

// Returns the cost of statement `stmt` for one vector, if values of rows are kept from one phase to
// later ones. each: its cost if it is computed.
static double kept_cost(const KernelRows *rows, int stmt, double each) {
  switch ((RowUse)rows->use[stmt]) {
  case ROW_COMPUTED: break;
  case ROW_KEPT: return each + 1;
  case ROW_LOADED: return 0.5;
  case ROW_UNUSED: return 0;
  }
  return each;
}

KernelWork kernel_work(Arena *scratch, const Kernel *k, const double *extent) {
  KernelWork work = {0};
  ArenaMark mark = arena_mark(scratch);
  LoopSet *of = arena_array(scratch, LoopSet, k->nstmts + 1), outer = ((LoopSet)1 << k->nouter) - 1;
  bool *done = arena_array(scratch, bool, k->nstmts + 1);
  KernelRows rows = kernel_rows(scratch, k);
  double all = 0, masked = is_masked(k, extent) ? MASKED_ACCESS : 0;
  if (!winograd_work(k, extent, done, &work)) tile_work(k, extent, done, &work);
  for (int i = 0; i < k->nstmts; i++) {
    const KStmt *s = &k->stmt[i];
    LoopSet own = sim_stmt_loops(k, s, of);
    // the result of a reduction is a value of the outer loops
    of[i] = s->kind == K_REDUCE ? own & outer : own;
    if (done[i] || sim_is_fused(k, i)) continue;
    double each = stmt_cost(k, s, of) + (is_access(s) && along_vector(k, own) ? masked : 0);
    each = kept_cost(&rows, i, each);
    if (s->kind == K_REDUCE && along_vector(k, own & ~outer))
      all += ACROSS_LANES * vectors(k, extent, outer);
    all += vectors(k, extent, own) * (along_vector(k, own) ? each * type_cost(s->type) : each / 2);
  }
  if (k->ninner) all += LOOP_COST * vectors(k, extent, outer) * k->nphases / tile_rows(k, extent);
  arena_reset(scratch, mark);
  work.operations += all * LANES;
  return work;
}
