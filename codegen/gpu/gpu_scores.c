// Computes a kernel with scores of attention in tiles (GpuScores). A block of threads has a tile of
// rows at a time, and each warp 16 of them:
//
//   fill the tiles of the rows
//   for each phase
//     statements of the rows (gpu_scores_rows.c)
//     for each tile of columns
//       fill the tiles of the columns and of the right factor or, if there are two stages of them,
//       those of the next tile of columns, by copies that run beside the rest
//       each warp multiplies its rows by all columns: scores, as sums in registers
//       each thread computes the inner statements for its scores; reductions go to cells of its
//       rows. Of a product it makes the left factor, which multiplies the right one.
//     the threads of a row join their cells
//   of a product: store results
//
// The three phases of a sweep (GpuScores.sweep) are one: each thread turns its scores into weights
// as soon as it has the maximum of its rows in the tile (gpu_scores_online.c).
//
// Rows and columns behind the last one are computed like the last one, and then left out.
#include "codegen/gpu/gpu_scores.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>

static LLVMValueRef ceil_by(Emit *e, LLVMValueRef n, int by) {
  return LLVMBuildUDiv(e->b, int_add(e, n, i64_of(e, by - 1)), i64_of(e, by), "");
}

static bool is_product(const GpuScoresEmit *x) { return x->t->sum != NO_STMT; }

// -- one score ------------------------------------------------------------------------------------

// Emits x where `in` is true, else the value that does not change reduction s.
static LLVMValueRef or_neutral(GpuEmit *g, const KStmt *s, LLVMValueRef in, LLVMValueRef x) {
  return in ? pick(&g->e, in, x, emit_identity(&g->e, s->op, s->type, false)) : x;
}

// Emits inner statement i of a phase for sum r of fragment j.
static void inner_statement(GpuScoresEmit *x, int i, int j, int r, LLVMValueRef in) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  const KStmt *s = &e->k->stmt[i];
  int pair = s->kind == K_DOT ? gpu_scores_pair(x->t, s) : -1;
  if (s->kind == K_REDUCE)
    gpu_cell_add(g, &x->cell[r / 2][i], or_neutral(g, s, in, operand_at(e, s, 0, s->type, 0, 0)),
                 s->type);
  else if (pair >= 0)
    e->value[instance_id(i, 0, 0)] =
        emit_coerce(e, gpu_sums_get(g, &x->score[pair], 0, j, r), x->score[pair].type, s->type);
  else
    gpu_statement(g, i);
}

// Emits the inner statements of a phase for sum r of fragment j, whose counters are set. in:
// whether the column is there; NULL: it always is.
static void inner_statements(GpuScoresEmit *x, int phase, int j, int r, LLVMValueRef in) {
  GpuEmit *g = x->g;
  const Kernel *k = g->e.k;
  bool all = !is_product(x) || x->t->sweep;
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].level == LEVEL_INNER && k->stmt[i].phase == phase &&
        (all || x->weight_stmt[i]) && g->plan.place[i] != GPU_AT_ENTRY &&
        !(x->online && i == x->online->max))
      inner_statement(x, i, j, r, in);
}

// Sets the weight of a product at sum r of fragment j.
static void set_weight(GpuScoresEmit *x, int j, int r, LLVMValueRef in) {
  Emit *e = &x->g->e;
  LLVMValueRef w =
      emit_coerce(e, value_at(e, x->t->left, 0, 0), e->k->stmt[x->t->left].type, x->weight.type);
  if (in) w = pick(e, in, w, LLVMConstNull(reg_type(e, x->weight.type)));
  gpu_sums_set(x->g, &x->weight, 0, j, r, w);
}

// Emits the weight of a sweep at sum r of fragment j, whose counters are set. power: e^(score -
// maximum), an f32.
static void sweep_weight(GpuScoresEmit *x, int j, int r, LLVMValueRef in, LLVMValueRef power) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  const GpuScores *t = x->t;
  for (int i = 0; i < e->k->nstmts; i++) {
    const KStmt *s = &e->k->stmt[i];
    if (!x->weight_stmt[i] || s->level != LEVEL_INNER) continue;
    if (i == t->power)
      e->value[instance_id(i, 0, 0)] = emit_coerce(e, power, TYPE_F32, s->type);
    else if (i == t->ratio)
      e->value[instance_id(i, 0, 0)] = operand_at(e, s, 0, s->type, 0, 0);
    else
      gpu_statement(g, i);
  }
  set_weight(x, j, r, in);
}

// Returns the score whose maximum is searched.
static LLVMValueRef online_score(GpuScoresEmit *x, LLVMValueRef in) {
  const KStmt *max = &x->g->e.k->stmt[x->online->max];
  return or_neutral(x->g, max, in, operand_at(&x->g->e, max, 0, max->type, 0, 0));
}

// Returns whether the columns are a multiple of those of a tile.
static bool whole_columns(const GpuScoresEmit *x) {
  const KLoop *l = &x->g->e.k->loop[x->t->columns];
  return l->slot < 0 && l->size % x->t->tile_columns == 0;
}

// Sets the counter of the columns to that of sum r of fragment j or, if there is no such column, of
// the last one. Returns whether the column is there; NULL: it always is.
static LLVMValueRef set_column(GpuScoresEmit *x, int j, int r) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  LLVMValueRef extent = e->extent[x->t->columns];
  LLVMValueRef column = int_add(e, gpu_sum_column(g, r), i64_of(e, j * GPU_FRAGMENT_COLUMNS));
  column = int_add(e, x->first_column, column);
  LLVMValueRef in = whole_columns(x) ? NULL : int_less(e, column, extent);
  if (in) column = pick(e, in, column, int_sub(e, extent, i64_of(e, 1)));
  e->counter[x->t->columns] = column;
  return in;
}

// Emits the sums of a softmax, and the weights of a sweep, from the scores a[0..n) of a half.
static void online_scores(GpuScoresEmit *x, int half, int n, LLVMValueRef *a) {
  LLVMValueRef scale = gpu_scores_online_add(x, x->online, half, n, a);
  if (!x->t->sweep) return;
  gpu_sums_scale(x->g, &x->leaf, half, scale);
  if (x->t->fold) gpu_sums_scale(x->g, &x->total, half, scale);
  for (int i = 0; i < n; i++) {
    int j = i / 2, r = 2 * half + i % 2;
    LLVMValueRef in = set_column(x, j, r);
    sweep_weight(x, j, r, in, a[i]);
  }
}

// Emits the work of a phase on the scores of the current tile.
static void scores(GpuScoresEmit *x, int phase) {
  LLVMValueRef *online = arena_array(x->g->e.arena, LLVMValueRef, x->t->tile_columns);
  for (int h = 0; h < GPU_SCORES_HALVES; h++) {
    int n = 0;
    gpu_scores_half(x, h);
    for (int j = 0; j < x->t->tile_columns / GPU_FRAGMENT_COLUMNS; j++)
      for (int r = 2 * h; r < 2 * h + 2; r++) {
        LLVMValueRef in = set_column(x, j, r);
        inner_statements(x, phase, j, r, in);
        if (is_product(x) && !x->t->sweep) set_weight(x, j, r, in);
        if (x->online) online[n++] = online_score(x, in);
      }
    if (x->online) online_scores(x, h, n, online);
  }
}

// -- products -------------------------------------------------------------------------------------

// Emits sums += the products of a tile's factors.
static void multiply_scores(GpuScoresEmit *x, int phase) {
  GpuEmit *g = x->g;
  bool done[GPU_SCORES_PAIRS] = {false};
  for (int i = 0; i < g->e.k->nstmts; i++) {
    const KStmt *s = &g->e.k->stmt[i];
    int pair = s->kind == K_DOT && s->phase == phase ? gpu_scores_pair(x->t, s) : -1;
    if (pair < 0 || done[pair]) continue;
    done[pair] = true;
    GpuSide left = {.tile = &x->pair[pair][0], .first = x->warp_row},
            right = {.tile = &x->pair[pair][1], .first = i64_of(&g->e, 0)};
    gpu_sums_clear(g, &x->score[pair]);
    gpu_multiply(g, &x->score[pair], &left, &right, x->t->pair[pair].depth);
  }
}

static void multiply_weights(GpuScoresEmit *x) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  GpuSide right = {.tile = &x->factor, .first = i64_of(e, 0), .deep = true};
  if (gpu_by_tensor_cores(g, x->t->factor)) {
    LLVMValueRef *left = gpu_sums_as_left(g, &x->weight, x->t->factor);
    gpu_multiply_registers(g, &x->leaf, left, &right, x->t->tile_columns);
    return;
  }
  GpuSide left = {.tile = &x->weights, .first = x->warp_row};
  gpu_warp_barrier(g); // the weights of the last tile are not read any more
  gpu_sums_store(g, &x->weight, &x->weights, x->warp_row, i64_of(e, 0));
  gpu_warp_barrier(g);
  gpu_multiply(g, &x->leaf, &left, &right, x->t->tile_columns);
}

// Emits total += leaf, leaf = 0, after every GpuScores.fold tiles of columns and the last one, and
// with `always`.
static void fold(GpuScoresEmit *x, bool always) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  LLVMBasicBlockRef done = NULL;
  if (!x->t->fold) return;
  if (!always && x->t->fold > 1) {
    LLVMValueRef next = int_add(e, x->first_column, i64_of(e, x->t->tile_columns));
    LLVMValueRef fold_at = i64_of(e, (int64_t)x->t->fold * x->t->tile_columns);
    LLVMValueRef full = int_equal(e, LLVMBuildURem(e->b, next, fold_at, ""), i64_of(e, 0));
    LLVMValueRef last = bit_not(e, int_less(e, next, e->extent[x->t->columns]));
    done = if_begin(e, bit_or(e, full, last));
  }
  gpu_sums_add(g, &x->total, &x->leaf);
  gpu_sums_clear(g, &x->leaf);
  if (done) if_end(e, done);
}

// Emits the result at sum r of fragment j.
static void result(GpuScoresEmit *x, const GpuSums *sums, int j, int r) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  const GpuScores *t = x->t;
  LLVMValueRef column = int_add(e, gpu_sum_column(g, r), i64_of(e, j * GPU_FRAGMENT_COLUMNS));
  column = int_add(e, x->first_result, column);
  LLVMBasicBlockRef inside =
      if_begin(e, bit_and(e, x->valid[r / 2], int_less(e, column, x->results)));
  gpu_scores_half(x, r / 2);
  gpu_decode(g, column, true, t->results, e->extent, e->counter);
  LLVMBasicBlockRef wanted = if_begin(e, gpu_scores_wanted(x));
  e->value[instance_id(t->sum, 0, 0)] =
      emit_coerce(e, gpu_sums_get(g, sums, 0, j, r), sums->type, e->k->stmt[t->sum].type);
  for (int i = 0; i < e->k->nstmts; i++)
    if (x->result_stmt[i]) gpu_statement(g, i);
  if_end(e, wanted);
  if_end(e, inside);
}

static void store_results(GpuScoresEmit *x) {
  const GpuSums *sums = x->t->fold ? &x->total : &x->leaf;
  fold(x, true);
  if (x->t->sweep) gpu_scores_sweep_end(x, sums);
  for (int j = 0; j < sums->n; j++)
    for (int r = 0; r < GPU_FRAGMENT_SUMS; r++) result(x, sums, j, r);
}

// -- tiles ----------------------------------------------------------------------------------------

// Emits the work on a tile of columns of a phase, whose tiles are filled.
static void columns(GpuScoresEmit *x, int phase) {
  multiply_scores(x, phase);
  scores(x, phase);
  gpu_scores_cells_fold(x, phase);
  if (is_product(x)) multiply_weights(x);
}

// Returns the last of the phases that are computed together with a phase.
static int last_phase(const GpuScoresEmit *x, int phase) {
  return x->t->sweep ? x->g->e.k->stmt[x->t->sum].phase : phase;
}

// Emits the filling of a tile of columns of a phase, and then the work on it, unless masks discard
// it.
static void fill_and_work(GpuScoresEmit *x, int phase) {
  GpuEmit *g = x->g;
  LLVMValueRef dead = gpu_scores_dead(x, phase, last_phase(x, phase));
  LLVMBasicBlockRef done = dead ? if_begin(&g->e, bit_not(&g->e, dead)) : NULL;
  gpu_barrier(g); // the tiles of the last columns are not read any more
  gpu_scores_fill_columns(x, phase);
  gpu_copies_wait(g, 0);
  gpu_barrier(g);
  columns(x, phase);
  if (done) if_end(&g->e, done);
}

// What a round of the loop over columns tells the next one if there are two stages. Both are
// allocas.
typedef struct Ahead {
  LLVMValueRef live;  // an i1: whether it has filled a tile, on which the next round works
  LLVMValueRef stage; // an i64: the stage of that tile
} Ahead;

static Ahead ahead_make(GpuScoresEmit *x) {
  Emit *e = &x->g->e;
  Ahead a = {emit_alloca(e, e->i1), emit_alloca(e, e->i64)};
  LLVMBuildStore(e->b, LLVMConstInt(e->i1, 0, false), a.live);
  LLVMBuildStore(e->b, i64_of(e, 0), a.stage);
  return a;
}

// Emits the filling of the tile of columns behind the current one, in the other stage, if there is
// such a tile and no mask discards it.
static void fill_next(GpuScoresEmit *x, int phase, const Ahead *a) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  LLVMValueRef current = x->first_column;
  x->first_column = int_add(e, current, i64_of(e, x->t->tile_columns));
  LLVMValueRef stage = int_sub(e, i64_of(e, 1), emit_read(e, e->i64, a->stage));
  LLVMBuildStore(e->b, LLVMConstInt(e->i1, 0, false), a->live);
  LLVMBuildStore(e->b, stage, a->stage);
  LLVMBasicBlockRef more = if_begin(e, int_less(e, x->first_column, e->extent[x->t->columns]));
  LLVMValueRef dead = gpu_scores_dead(x, phase, last_phase(x, phase));
  LLVMBasicBlockRef wanted = dead ? if_begin(e, bit_not(e, dead)) : NULL;
  LLVMBuildStore(e->b, LLVMConstInt(e->i1, 1, false), a->live);
  gpu_scores_stage_set(x, stage);
  gpu_scores_fill_columns(x, phase);
  if (wanted) if_end(e, wanted);
  if_end(e, more);
  x->first_column = current;
}

// Emits a round of a loop with two stages. It starts to fill the tile behind the current one, and
// works on the current one, which the round before has filled. The loop begins a tile early: its
// first round has no current tile.
static void fill_ahead(GpuScoresEmit *x, int phase, const Ahead *a) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  LLVMValueRef live = emit_read(e, e->i1, a->live), stage = emit_read(e, e->i64, a->stage);
  gpu_copies_wait(g, 0);
  gpu_barrier(g); // the tile of this round is filled, that of the last round is not read any more
  fill_next(x, phase, a);
  LLVMBasicBlockRef done = if_begin(e, live);
  gpu_scores_stage_set(x, stage);
  columns(x, phase);
  if_end(e, done);
}

// Emits the loop over tiles of columns.
static void column_loop(GpuScoresEmit *x, int phase) {
  Emit *e = &x->g->e;
  bool two = x->t->stages > 1;
  Ahead ahead = two ? ahead_make(x) : (Ahead){0};
  int first = two ? -x->t->tile_columns : 0;
  EmitLoop loop =
      loop_begin(e, i64_of(e, first), e->extent[x->t->columns], i64_of(e, x->t->tile_columns));
  x->first_column = loop.var;
  if (two)
    fill_ahead(x, phase, &ahead);
  else
    fill_and_work(x, phase);
  if (is_product(x)) fold(x, false);
  loop_end(e, &loop);
}

// Emits inner loop l and those behind it, around all tiles of columns.
static void sweep(GpuScoresEmit *x, int l, int phase) {
  Emit *e = &x->g->e;
  const Kernel *k = e->k;
  while (l < k->nouter + k->ninner && l == x->t->columns) l++;
  if (l == k->nouter + k->ninner) {
    column_loop(x, phase);
    return;
  }
  EmitLoop loop = loop_begin(e, i64_of(e, 0), e->extent[l], i64_of(e, 1));
  e->counter[l] = loop.var;
  sweep(x, l + 1, phase);
  loop_end(e, &loop);
}

static bool has_inner(const Kernel *k, int phase) {
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].level == LEVEL_INNER && k->stmt[i].phase == phase) return true;
  return false;
}

// Emits phases `phase` and `phase` + 1, those of a softmax, and the product of a sweep behind them.
static void online_phases(GpuScoresEmit *x, int phase, const GpuOnline *o) {
  gpu_scores_cells_clear(x, phase);
  gpu_scores_cells_clear(x, phase + 1);
  x->online = o;
  sweep(x, x->g->e.k->nouter, phase);
  x->online = NULL;
  gpu_scores_cells_join(x, phase);
  gpu_scores_rows(x, phase + 1);
  gpu_scores_online_scale(x, o);
  gpu_scores_cells_join(x, phase + 1);
  if (x->t->sweep) gpu_scores_rows(x, phase + 2);
}

static void phases(GpuScoresEmit *x) {
  const Kernel *k = x->g->e.k;
  for (int phase = 0; phase < k->nphases; phase++) {
    gpu_scores_rows(x, phase);
    if (!has_inner(k, phase)) continue;
    if (gpu_scores_online(k, phase, &x->softmax)) {
      online_phases(x, phase++, &x->softmax);
      if (x->t->sweep) return;
      continue;
    }
    gpu_scores_cells_clear(x, phase);
    sweep(x, k->nouter, phase);
    gpu_scores_cells_join(x, phase);
  }
}

// Sets the rows of the thread in the block's tile.
static void find_rows(GpuScoresEmit *x) {
  Emit *e = &x->g->e;
  LLVMValueRef extent = e->extent[x->t->rows];
  for (int h = 0; h < GPU_SCORES_HALVES; h++) {
    LLVMValueRef row = int_add(e, x->warp_row, gpu_sum_row(x->g, 2 * h));
    row = int_add(e, x->first_row, row);
    x->valid[h] = int_less(e, row, extent);
    x->row[h] = pick(e, x->valid[h], row, int_sub(e, extent, i64_of(e, 1)));
    for (int s = 0; s < e->k->nstmts; s++) x->row_value[h][s] = NULL;
  }
}

// Emits tile number i of the launch. rows, results: the numbers of tiles along them.
static void tile(GpuScoresEmit *x, LLVMValueRef i, LLVMValueRef rows, LLVMValueRef results) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  const GpuScores *t = x->t;
  x->first_result = int_mul(e, LLVMBuildURem(e->b, i, results, ""), i64_of(e, t->tile_results));
  i = LLVMBuildUDiv(e->b, i, results, "");
  x->first_row = int_mul(e, LLVMBuildURem(e->b, i, rows, ""), i64_of(e, t->tile_rows));
  gpu_decode(g, LLVMBuildUDiv(e->b, i, rows, ""), false, t->batch, e->extent, e->counter);
  find_rows(x);
  gpu_barrier(g); // the tiles of the last rows are not read any more
  gpu_scores_fill_rows(x);
  if (is_product(x)) gpu_sums_clear(g, &x->leaf);
  if (t->fold) gpu_sums_clear(g, &x->total);
  phases(x);
  if (is_product(x)) store_results(x);
}

// -- kernels --------------------------------------------------------------------------------------

static void make_sums(GpuScoresEmit *x) {
  const GpuScores *t = x->t;
  int n = t->tile_columns / GPU_FRAGMENT_COLUMNS, results = t->tile_results / GPU_FRAGMENT_COLUMNS;
  for (int i = 0; i < t->npairs; i++)
    x->score[i] = gpu_sums_make(x->g, gpu_tile_sum_type(t->pair[i].type), 1, n);
  if (!is_product(x)) return;
  Dtype type = gpu_tile_sum_type(t->factor);
  x->weight = gpu_sums_make(x->g, type, 1, n);
  x->leaf = gpu_sums_make(x->g, type, 1, results);
  if (t->fold) x->total = gpu_sums_make(x->g, type, 1, results);
}

static bool *sweep_weights(const GpuScoresEmit *x) {
  const GpuEmit *g = x->g;
  bool *out = arena_array(g->e.arena, bool, g->e.k->nstmts + 1);
  gpu_scores_weights(g->e.k, x->t, out);
  for (int i = 0; i < g->e.k->nstmts; i++) out[i] &= g->plan.place[i] != GPU_AT_ENTRY;
  return out;
}

// Finds which statements are emitted where.
static void find_statements(GpuScoresEmit *x) {
  GpuEmit *g = x->g;
  const Kernel *k = g->e.k;
  if (!is_product(x)) return;
  x->weight_stmt = x->t->sweep ? sweep_weights(x) : gpu_statements_of(g, x->t->left);
  x->factor_stmt = gpu_statements_of(g, x->t->right);
  x->result_stmt = gpu_result_statements(g, x->t->sum, x->t->sweep ? x->t->results : 0);
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].level == LEVEL_INNER) x->result_stmt[i] = false;
}

void gpu_scores(GpuEmit *g) {
  Emit *e = &g->e;
  GpuScoresEmit x = {.g = g, .t = &g->plan.scores};
  const GpuScores *t = x.t;
  x.results = gpu_rounds(g, t->results, e->extent);
  x.warp_row = left_by(e, right_by(e, g->thread, 5), 4);
  gpu_entry_statements(g);
  find_statements(&x);
  gpu_scores_tiles(&x);
  gpu_scores_rows_prepare(&x);
  make_sums(&x);
  LLVMValueRef rows = ceil_by(e, e->extent[t->rows], t->tile_rows);
  LLVMValueRef results = is_product(&x) ? ceil_by(e, x.results, t->tile_results) : i64_of(e, 1);
  LLVMValueRef n = int_mul(e, gpu_rounds(g, t->batch, e->extent), int_mul(e, rows, results));
  EmitLoop l = loop_begin(e, g->chunk, n, gpu_blocks_of_set(g));
  tile(&x, l.var, rows, results);
  loop_end(e, &l);
}
#endif
