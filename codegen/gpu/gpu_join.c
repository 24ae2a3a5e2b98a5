// Joins the cells of the threads of a team or block: by shuffles within a warp, then through shared
// memory. All threads get the same bits, because each joins the same values in the same order.
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM

GpuCell gpu_cell_make(GpuEmit *g, Op op, Dtype type) {
  return (GpuCell){.op = op, .type = type, .at = emit_alloca(&g->e, reg_type(&g->e, type))};
}

void gpu_cell_clear(GpuEmit *g, const GpuCell *c) {
  LLVMBuildStore(g->e.b, emit_identity(&g->e, c->op, c->type, false), c->at);
  if (c->leaf) LLVMBuildStore(g->e.b, LLVMConstNull(g->e.f32), c->leaf);
}

static LLVMValueRef cell_value(GpuEmit *g, const GpuCell *c) {
  return emit_read(&g->e, reg_type(&g->e, c->type), c->at);
}

void gpu_cell_add(GpuEmit *g, const GpuCell *c, LLVMValueRef x, Dtype type) {
  Emit *e = &g->e;
  if (c->leaf) {
    LLVMValueRef old = emit_read(e, e->f32, c->leaf);
    LLVMBuildStore(e->b, emit_join(e, c->op, TYPE_F32, old, x), c->leaf);
    return;
  }
  x = emit_coerce(e, x, type, c->type);
  LLVMBuildStore(e->b, emit_join(e, c->op, c->type, cell_value(g, c), x), c->at);
}

// -- the cells of reductions --------------------------------------------------------------------

static bool is_reduction(const GpuEmit *g, int s) {
  return g->e.k->stmt[s].kind == K_REDUCE || g->e.k->stmt[s].kind == K_ACCUM;
}

int gpu_cell_count(const GpuEmit *g, int s) {
  if (g->e.k->stmt[s].kind == K_ACCUM)
    return g->plan.kept && gpu_accum_in_row(g->e.k, s) ? g->plan.kept : 1;
  return g->plan.blocked && depends(&g->e, s, g->e.k->vector) ? g->plan.vecs : 1;
}

GpuCell *gpu_cell(const GpuEmit *g, int s, int v) {
  bool kept = g->e.k->stmt[s].kind == K_ACCUM;
  int at = gpu_cell_count(g, s) == 1 ? 0 : kept ? g->slot : v;
  return &g->cell[s * GPU_CELLS + at];
}

void gpu_cells_make(GpuEmit *g) {
  for (int s = 0; s < g->e.k->nstmts; s++)
    for (int i = 0; is_reduction(g, s) && i < gpu_cell_count(g, s); i++) {
      const KStmt *x = &g->e.k->stmt[s];
      GpuCell *c = &g->cell[s * GPU_CELLS + i];
      *c = gpu_cell_make(g, x->op, g->plan.cell[s]);
      bool leaf = g->plan.leaves && x->level == LEVEL_INNER && stmt_folds(x) && c->type == TYPE_F64;
      if (leaf) c->leaf = emit_alloca(&g->e, g->e.f32);
    }
}

void gpu_cells_clear(GpuEmit *g, int s) {
  for (int i = 0; i < gpu_cell_count(g, s); i++) gpu_cell_clear(g, &g->cell[s * GPU_CELLS + i]);
}

void gpu_cell_fold(GpuEmit *g, const GpuCell *c) {
  Emit *e = &g->e;
  if (!c->leaf) return;
  LLVMValueRef x = emit_coerce(e, emit_read(e, e->f32, c->leaf), TYPE_F32, c->type);
  LLVMBuildStore(e->b, emit_join(e, c->op, c->type, cell_value(g, c), x), c->at);
  LLVMBuildStore(e->b, LLVMConstNull(e->f32), c->leaf);
}

void gpu_cells_fold(GpuEmit *g, int phase) {
  for (int s = 0; s < g->e.k->nstmts; s++) {
    if (!is_reduction(g, s) || g->e.k->stmt[s].phase != phase) continue;
    bool each = g->e.k->stmt[s].kind == K_REDUCE && gpu_cell_count(g, s) > 1;
    for (int v = 0; v < (each ? g->e.vecs : 1); v++) gpu_cell_fold(g, gpu_cell(g, s, v));
  }
}

// -- joins --------------------------------------------------------------------------------------

// columns: only threads whose numbers differ by a multiple of it are joined.
static LLVMValueRef join_warp(GpuEmit *g, const GpuCell *c, int columns) {
  LLVMValueRef x = cell_value(g, c);
  for (int lane = GPU_WARP / 2; lane >= columns; lane /= 2)
    x = emit_join(&g->e, c->op, c->type, x, gpu_shuffle(g, GPU_SHUFFLE_XOR, x, lane));
  return x;
}

// What threads of several warps join through shared memory.
typedef struct WarpJoin {
  GpuEmit *g;
  int columns;         // as in join_warp
  LLVMValueRef column; // the thread's number among them
} WarpJoin;

// Emits the address of the result of warp number `warp` for cell number i, in the thread's column.
static LLVMValueRef warp_slot(const WarpJoin *j, int i, LLVMValueRef warp) {
  Emit *e = &j->g->e;
  LLVMValueRef at = int_add(e, warp, i64_of(e, i * (j->g->threads / GPU_WARP)));
  if (j->columns > 1) at = int_add(e, int_mul(e, at, i64_of(e, j->columns)), j->column);
  return emit_at(e, e->i64, gpu_shared(j->g), at);
}

LLVMValueRef gpu_cell_join_warps(GpuEmit *g, const GpuCell *c) {
  Emit *e = &g->e;
  LLVMValueRef own = emit_at(e, e->i64, gpu_shared(g), g->thread), all = NULL;
  gpu_barrier(g);
  gpu_write(g, c->type, own, cell_value(g, c), GPU_SHARED);
  gpu_barrier(g);
  for (int w = 0; w < g->threads / GPU_WARP; w++) {
    LLVMValueRef at = int_add(e, g->lane, i64_of(e, (int64_t)w * GPU_WARP));
    LLVMValueRef x = gpu_read(g, c->type, emit_at(e, e->i64, gpu_shared(g), at), GPU_SHARED);
    all = all ? emit_join(e, c->op, c->type, all, x) : x;
  }
  return all;
}

static LLVMValueRef join_slots(const WarpJoin *j, int i, const GpuCell *c) {
  GpuEmit *g = j->g;
  LLVMValueRef all = gpu_read(g, c->type, warp_slot(j, i, i64_of(&g->e, 0)), GPU_SHARED);
  for (int w = 1; w < g->threads / GPU_WARP; w++) {
    LLVMValueRef x = gpu_read(g, c->type, warp_slot(j, i, i64_of(&g->e, w)), GPU_SHARED);
    all = emit_join(&g->e, c->op, c->type, all, x);
  }
  return all;
}

// The first barrier lets all threads read what the shared memory had before.
static void join_block(GpuEmit *g, int columns, int n, const GpuCell *cell, LLVMValueRef *value) {
  Emit *e = &g->e;
  LLVMValueRef lane = keep_bits(e, g->thread, GPU_WARP - 1), warp = right_by(e, g->thread, 5);
  WarpJoin j = {g, columns, keep_bits(e, g->thread, columns - 1)};
  gpu_barrier(g);
  LLVMBasicBlockRef done = if_begin(e, int_less(e, lane, i64_of(e, columns)));
  for (int i = 0; i < n; i++)
    gpu_write(g, cell[i].type, warp_slot(&j, i, warp), value[i], GPU_SHARED);
  if_end(e, done);
  gpu_barrier(g);
  for (int i = 0; i < n; i++) value[i] = join_slots(&j, i, &cell[i]);
}

void gpu_cells_join(GpuEmit *g, int n, const GpuCell *cell, bool block, LLVMValueRef *value) {
  bool thread = g->plan.team == TEAM_THREAD && !block;
  int columns = block ? 1 : g->plan.columns;
  for (int i = 0; i < n; i++)
    value[i] = thread ? cell_value(g, &cell[i]) : join_warp(g, &cell[i], columns);
  if (n && g->threads > GPU_WARP && (block || g->plan.team == TEAM_BLOCK))
    join_block(g, columns, n, cell, value);
}
#endif
