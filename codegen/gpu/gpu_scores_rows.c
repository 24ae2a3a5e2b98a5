// What a thread knows of its two rows of scores: the values of statements outside of the inner
// loops, and the cells of reductions, which the four threads of a row join at the end of a phase.
#include "codegen/gpu/gpu_scores.h"

#ifdef MESHC_HAVE_LLVM

#include "ir/program/sums.h"

static bool is_reduction(const GpuScoresEmit *x, int s, int phase) {
  const KStmt *st = &x->g->e.k->stmt[s];
  return st->kind == K_REDUCE && st->phase == phase && s != x->t->sum;
}

// -- statements -----------------------------------------------------------------------------------

bool gpu_scores_stores_row(const GpuScoresEmit *x, int s) {
  const GpuEmit *g = x->g;
  return x->t->sweep && g->e.k->stmt[s].kind == K_STORE && !(g->plan.dep[s] & x->t->results);
}

// Returns by statement whether it runs once for each row: outside of the inner loops, and not at
// the start of the function. Of a product these are only what its left factor needs, and the stores
// of a sweep before the sum of the product, with what they need.
static bool *row_statements(GpuScoresEmit *x) {
  const Kernel *k = x->g->e.k;
  bool *out = arena_array(x->g->e.arena, bool, k->nstmts + 1);
  if (x->t->sum != NO_STMT) needed_stmts(k, x->t->left, out);
  for (int i = 0; i < k->nstmts; i++)
    if (gpu_scores_stores_row(x, i)) needed_stmts(k, i, out);
  for (int i = 0; i < k->nstmts; i++) {
    bool inner = k->stmt[i].level == LEVEL_INNER || x->g->plan.place[i] == GPU_AT_ENTRY;
    out[i] = (x->t->sum == NO_STMT || out[i]) && !inner;
  }
  return out;
}

static GpuCell cell_of(GpuEmit *g, int s) {
  const KStmt *st = &g->e.k->stmt[s];
  GpuCell c = gpu_cell_make(g, st->op, stmt_folds(st) ? TYPE_F64 : st->type);
  if (stmt_folds(st)) c.leaf = emit_alloca(&g->e, g->e.f32);
  return c;
}

void gpu_scores_rows_prepare(GpuScoresEmit *x) {
  const Kernel *k = x->g->e.k;
  x->row_stmt = row_statements(x);
  for (int h = 0; h < GPU_SCORES_HALVES; h++) {
    x->row_value[h] = arena_array(x->g->e.arena, LLVMValueRef, k->nstmts + 1);
    x->cell[h] = arena_array(x->g->e.arena, GpuCell, k->nstmts + 1);
    for (int s = 0; s < k->nstmts; s++)
      if (k->stmt[s].kind == K_REDUCE && s != x->t->sum) x->cell[h][s] = cell_of(x->g, s);
  }
}

LLVMValueRef gpu_scores_wanted(GpuScoresEmit *x) {
  GpuEmit *g = x->g;
  LLVMValueRef unit = gpu_unit_number(g);
  return bit_and(&g->e, bit_not(&g->e, int_less(&g->e, unit, g->from)),
                 int_less(&g->e, unit, g->to));
}

// Emits a load for a row. `valid` is false behind the last row, where the counter is that of the
// last row: nothing is read then, because the thread of that row may be storing to the element.
static void load_row(GpuScoresEmit *x, int s, LLVMValueRef valid) {
  Emit *e = &x->g->e;
  LLVMTypeRef type = reg_type(e, e->k->stmt[s].type);
  LLVMValueRef cell = emit_alloca(e, type), *value = &e->value[instance_id(s, 0, 0)];
  LLVMBuildStore(e->b, LLVMConstNull(type), cell);
  LLVMBasicBlockRef done = if_begin(e, valid);
  gpu_statement(x->g, s);
  LLVMBuildStore(e->b, *value, cell);
  if_end(e, done);
  *value = emit_read(e, type, cell);
}

// Emits a store of a row by the first of its threads, behind all loads of the warp. Where several
// blocks have results of a row, the one with the first results stores.
static void store_row(GpuScoresEmit *x, int s, LLVMValueRef valid) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  LLVMValueRef first = int_equal(e, keep_bits(e, g->thread, GPU_SCORES_THREADS - 1), i64_of(e, 0));
  if (x->t->sweep) first = bit_and(e, first, int_equal(e, x->first_result, i64_of(e, 0)));
  gpu_warp_barrier(g);
  LLVMBasicBlockRef done = if_begin(e, bit_and(e, bit_and(e, first, valid), gpu_scores_wanted(x)));
  gpu_statement(g, s);
  if_end(e, done);
}

static void row_statement(GpuScoresEmit *x, int s, LLVMValueRef valid) {
  KKind kind = x->g->e.k->stmt[s].kind;
  if (kind == K_LOAD || kind == K_LOAD_AT)
    load_row(x, s, valid);
  else if (kind == K_STORE)
    store_row(x, s, valid);
  else
    gpu_statement(x->g, s);
}

void gpu_scores_half(GpuScoresEmit *x, int half) {
  Emit *e = &x->g->e;
  e->counter[x->t->rows] = x->row[half];
  for (int s = 0; s < e->k->nstmts; s++)
    if (x->row_value[half][s]) e->value[instance_id(s, 0, 0)] = x->row_value[half][s];
}

void gpu_scores_rows(GpuScoresEmit *x, int phase) {
  Emit *e = &x->g->e;
  // a row value does not vary along the results: it is stored with the first one
  for (int l = 0; l < e->k->nouter; l++)
    if (x->t->results >> l & 1) e->counter[l] = i64_of(e, 0);
  for (int h = 0; h < GPU_SCORES_HALVES; h++) {
    gpu_scores_half(x, h);
    for (int s = 0; s < e->k->nstmts; s++) {
      if (!x->row_stmt[s] || e->k->stmt[s].phase != phase) continue;
      row_statement(x, s, x->valid[h]);
      x->row_value[h][s] = e->value[instance_id(s, 0, 0)];
    }
  }
}

// -- cells ----------------------------------------------------------------------------------------

void gpu_scores_cells_clear(GpuScoresEmit *x, int phase) {
  for (int s = 0; s < x->g->e.k->nstmts; s++)
    for (int h = 0; h < GPU_SCORES_HALVES && is_reduction(x, s, phase); h++)
      gpu_cell_clear(x->g, &x->cell[h][s]);
}

void gpu_scores_cells_fold(GpuScoresEmit *x, int phase) {
  for (int s = 0; s < x->g->e.k->nstmts; s++)
    for (int h = 0; h < GPU_SCORES_HALVES && is_reduction(x, s, phase); h++)
      gpu_cell_fold(x->g, &x->cell[h][s]);
}

static LLVMValueRef joined(GpuScoresEmit *x, int s, int half) {
  GpuEmit *g = x->g;
  const GpuCell *c = &x->cell[half][s];
  LLVMValueRef v = emit_read(&g->e, reg_type(&g->e, c->type), c->at);
  for (int lane = 1; lane < GPU_SCORES_THREADS; lane *= 2)
    v = emit_join(&g->e, c->op, c->type, v, gpu_shuffle(g, GPU_SHUFFLE_XOR, v, lane));
  return emit_coerce(&g->e, v, c->type, g->e.k->stmt[s].type);
}

void gpu_scores_cells_join(GpuScoresEmit *x, int phase) {
  for (int s = 0; s < x->g->e.k->nstmts; s++)
    for (int h = 0; h < GPU_SCORES_HALVES && is_reduction(x, s, phase); h++)
      x->row_value[h][s] = joined(x, s, h);
}
#endif
