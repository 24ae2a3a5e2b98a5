// The tiles of a kernel with scores in shared memory: their places, and how they are filled.
//
//   pair i, side 0   rows x depth: what the left pointer of pair i has for the block's rows
//   pair i, side 1   columns x depth: what the right one has for the current columns
//   factor           columns x results: the right factor of a product
//   weights          rows x columns: the left factor, where no tensor core takes it from registers
//
// The tiles that change with the columns, side 1 of all pairs and the factor, are a stage. With two
// stages (GpuScores.stages) one is filled while the other is used.
#include "codegen/gpu/gpu_scores.h"

#ifdef MESHC_HAVE_LLVM

// Returns a tile at byte *at behind address `from`, and moves *at behind it.
static GpuTile place(GpuEmit *g, LLVMValueRef from, Dtype type, int rows, int columns, int *at) {
  GpuTile t = {type, rows, columns, emit_at(&g->e, g->e.i8, from, i64_of(&g->e, *at))};
  *at += gpu_tile_bytes(type, rows, columns);
  return t;
}

void gpu_scores_stage_set(GpuScoresEmit *x, LLVMValueRef stage) {
  GpuEmit *g = x->g;
  const GpuScores *t = x->t;
  int at = 0;
  LLVMValueRef skipped = int_mul(&g->e, stage, i64_of(&g->e, gpu_scores_stage(t)));
  LLVMValueRef from = emit_at(&g->e, g->e.i8, x->stages, skipped);
  for (int i = 0; i < t->npairs; i++)
    x->pair[i][1] = place(g, from, t->pair[i].type, t->tile_columns, t->pair[i].depth, &at);
  if (t->sum != NO_STMT)
    x->factor = place(g, from, t->factor, t->tile_columns, t->tile_results, &at);
}

void gpu_scores_tiles(GpuScoresEmit *x) {
  GpuEmit *g = x->g;
  const GpuScores *t = x->t;
  LLVMValueRef from = gpu_shared(g);
  int at = 0;
  for (int i = 0; i < t->npairs; i++)
    x->pair[i][0] = place(g, from, t->pair[i].type, t->tile_rows, t->pair[i].depth, &at);
  if (t->sum != NO_STMT && !gpu_by_tensor_cores(g, t->factor))
    x->weights = place(g, from, t->factor, t->tile_rows, t->tile_columns, &at);
  x->stages = emit_at(&g->e, g->e.i8, from, i64_of(&g->e, at));
  gpu_scores_stage_set(x, i64_of(&g->e, 0));
}

// -- factors of scores ----------------------------------------------------------------------------

// A tile of a pair, as GpuSource.context.
typedef struct PairSide {
  GpuScoresEmit *x;
  int pair, side;
} PairSide;

// Emits the address of the element of a pair's tile.
static LLVMValueRef pair_address(GpuEmit *g, const void *context, LLVMValueRef row,
                                 LLVMValueRef column) {
  const PairSide *s = context;
  const GpuScorePair *p = &s->x->t->pair[s->pair];
  Emit *e = &g->e;
  int l = s->side ? s->x->t->columns : s->x->t->rows;
  e->counter[l] = int_add(e, s->side ? s->x->first_column : s->x->first_row, row);
  gpu_decode(g, column, true, p->dots, e->extent, e->counter);
  return gpu_dot_element(g, p->pointer[s->side]);
}

static LLVMValueRef pair_value(GpuEmit *g, const void *context, LLVMValueRef row,
                               LLVMValueRef column) {
  const PairSide *s = context;
  const GpuScorePair *p = &s->x->t->pair[s->pair];
  Dtype t = g->e.k->ptr[p->pointer[s->side]].type;
  LLVMValueRef at = pair_address(g, context, row, column);
  return emit_coerce(&g->e, gpu_read(g, t, at, GPU_GLOBAL), t, p->type);
}

// Returns whether 16 bytes of the pointer's elements can be copied to a tile of elements of `type`
// at a time, if it begins at a multiple of 16: they are neighbours along the only loop of
// `columns`, which the tile's columns run along.
static bool is_copied(const Kernel *k, int pointer, Dtype type, LoopSet columns) {
  const KPtr *ptr = &k->ptr[pointer];
  int64_t each = 16 / dtype_bytes(ptr->type);
  if (ptr->type != type) return false;
  for (int l = 0; l < k->nouter + k->ninner + k->ndots; l++) {
    bool along = columns >> l & 1;
    if (along && (columns != (LoopSet)1 << l || ptr->stride[l] != 1)) return false;
    if (!along && ptr->stride[l] % each) return false;
  }
  return true;
}

// Emits the filling of a tile from a pointer for which is_copied holds: by copies if the address is
// aligned when the kernel runs, else by stores.
static void copy_or_fill(GpuEmit *g, const GpuTile *t, const GpuSource *from, int pointer) {
  Emit *e = &g->e;
  LLVMValueRef at = LLVMBuildPtrToInt(e->b, e->base[pointer], e->i64, "");
  LLVMValueRef aligned = int_equal(e, keep_bits(e, at, 15), i64_of(e, 0));
  LLVMBasicBlockRef copy = emit_block(e), fill = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, aligned, copy, fill);
  LLVMPositionBuilderAtEnd(e->b, copy);
  gpu_tile_copy(g, t, from);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, fill);
  gpu_tile_fill(g, t, from);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

static void fill_pair(GpuScoresEmit *x, int pair, int side) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  const GpuScorePair *p = &x->t->pair[pair];
  PairSide context = {x, pair, side};
  LLVMValueRef rows = side ? int_sub(e, e->extent[x->t->columns], x->first_column)
                           : int_sub(e, e->extent[x->t->rows], x->first_row);
  GpuSource from = {pair_address, pair_value, &context, rows, gpu_rounds(g, p->dots, e->extent)};
  if (is_copied(e->k, p->pointer[side], p->type, p->dots))
    copy_or_fill(g, &x->pair[pair][side], &from, p->pointer[side]);
  else
    gpu_tile_fill(g, &x->pair[pair][side], &from);
}

// -- the right factor of a product ----------------------------------------------------------------

// Emits the counters of an element of the factor's tile.
static void factor_counters(GpuEmit *g, const GpuScoresEmit *x, LLVMValueRef row,
                            LLVMValueRef column) {
  Emit *e = &g->e;
  e->counter[x->t->columns] = int_add(e, x->first_column, row);
  gpu_decode(g, int_add(e, x->first_result, column), true, x->t->results, e->extent, e->counter);
}

static LLVMValueRef factor_address(GpuEmit *g, const void *context, LLVMValueRef row,
                                   LLVMValueRef column) {
  const GpuScoresEmit *x = context;
  factor_counters(g, x, row, column);
  return gpu_element(g, g->e.k->stmt[x->t->right].index);
}

static LLVMValueRef factor_value(GpuEmit *g, const void *context, LLVMValueRef row,
                                 LLVMValueRef column) {
  const GpuScoresEmit *x = context;
  const GpuScores *t = x->t;
  Emit *e = &g->e;
  factor_counters(g, x, row, column);
  for (int i = 0; i <= t->right; i++)
    if (x->factor_stmt[i]) gpu_statement(g, i);
  return emit_coerce(e, value_at(e, t->right, 0, 0), e->k->stmt[t->right].type, t->factor);
}

static void fill_factor(GpuScoresEmit *x) {
  Emit *e = &x->g->e;
  const KStmt *s = &e->k->stmt[x->t->right];
  GpuSource from = {.address = factor_address,
                    .value = factor_value,
                    .context = x,
                    .rows = int_sub(e, e->extent[x->t->columns], x->first_column),
                    .columns = int_sub(e, x->results, x->first_result)};
  bool loads = s->kind == K_LOAD && s->arg[1] == NO_STMT;
  if (loads && is_copied(e->k, s->index, x->t->factor, x->t->results))
    copy_or_fill(x->g, &x->factor, &from, s->index);
  else
    gpu_tile_fill(x->g, &x->factor, &from);
}

// -- what is filled when --------------------------------------------------------------------------

// Returns whether phase `phase` has scores of a pair. phase < 0: whether any phase has.
static bool is_used(const GpuScoresEmit *x, int pair, int phase) {
  const Kernel *k = x->g->e.k;
  for (int i = 0; i < k->nstmts; i++)
    if (k->stmt[i].kind == K_DOT && (phase < 0 || k->stmt[i].phase == phase) &&
        gpu_scores_pair(x->t, &k->stmt[i]) == pair)
      return true;
  return false;
}

void gpu_scores_fill_rows(GpuScoresEmit *x) {
  for (int i = 0; i < x->t->npairs; i++) fill_pair(x, i, 0);
  gpu_copies_commit(x->g);
}

void gpu_scores_fill_columns(GpuScoresEmit *x, int phase) {
  for (int i = 0; i < x->t->npairs; i++)
    if (is_used(x, i, phase)) fill_pair(x, i, 1);
  if (x->t->sum != NO_STMT) fill_factor(x);
  gpu_copies_commit(x->g);
}
#endif
