// Computes a product of matrices in tiles (GpuTiles). A block of threads computes a tile of results
// at a time:
//
//   fill all stages but the last with the first tiles of both factors
//   for each tile along the depth
//     wait until its stage is filled; fill the stage that was multiplied last
//     each warp multiplies its rows and columns, with sums in registers
//   for each row of warps
//     its sums go to a tile in shared memory
//     all threads compute and store results from it, neighbours side by side, with accesses of up
//     to 16 bytes where they are aligned (GpuTiles.vecs)
//
// Tiles are numbered column by column within GROUP rows of tiles: blocks which run at the same time
// then read the same rows and columns, which stay in the cache. If a launch has fewer blocks than
// tiles, each block has several.
//
// Where few tiles have a long sum, the depth is divided into parts (GpuTiles.parts). A block then
// sums a part of the depth and stores its sums to scratch memory (gpu_product_parts.c).
#include "codegen/gpu/gpu_product.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>

enum { GROUP = 8 }; // rows of tiles

static LLVMValueRef ceil_by(Emit *e, LLVMValueRef n, int by) {
  return LLVMBuildUDiv(e->b, int_add(e, n, i64_of(e, by - 1)), i64_of(e, by), "");
}

// -- sums ---------------------------------------------------------------------------------------

// The sums of a warp. With folds, `leaf` has those of the last tiles and `total` the others.
typedef struct Accumulators {
  GpuSums leaf, total;
  LLVMValueRef first[2]; // row and column of the warp's first sum, in the block's tile
  LLVMValueRef warp_row; // number of the warp along the rows
} Accumulators;

static Accumulators accumulators_make(GpuProduct *p) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  const GpuTiles *t = p->t;
  int rows = t->size[0] / t->warps[0], columns = t->size[1] / t->warps[1];
  Dtype type = gpu_tile_sum_type(t->factor);
  int m = rows / GPU_FRAGMENT_ROWS, n = columns / GPU_FRAGMENT_COLUMNS;
  LLVMValueRef warp = right_by(e, g->thread, 5), across = i64_of(e, t->warps[1]);
  Accumulators a = {.leaf = gpu_sums_make(g, type, m, n)};
  if (t->fold) a.total = gpu_sums_make(g, type, m, n);
  a.warp_row = LLVMBuildUDiv(e->b, warp, across, "");
  a.first[0] = int_mul(e, a.warp_row, i64_of(e, rows));
  a.first[1] = int_mul(e, LLVMBuildURem(e->b, warp, across, ""), i64_of(e, columns));
  return a;
}

// Emits total += leaf, leaf = 0.
static void fold(GpuEmit *g, const Accumulators *a) {
  gpu_sums_add(g, &a->total, &a->leaf);
  gpu_sums_clear(g, &a->leaf);
}

// -- the sum over the depth ---------------------------------------------------------------------

static void multiply(GpuProduct *p, const Accumulators *a, LLVMValueRef stage) {
  GpuTile tile[2];
  GpuSide side[2];
  for (int i = 0; i < 2; i++) {
    tile[i] = gpu_product_tile(p, i, stage);
    side[i] = (GpuSide){.tile = &tile[i], .first = a->first[i], .deep = p->t->deep[i]};
  }
  gpu_multiply(p->g, &a->leaf, &side[0], &side[1], p->t->depth);
}

// Emits the filling of stage `step` modulo the stages with tile number `step` along the depth, if
// there is one. The group of copies is ended in any case, so that their number is known.
static void fill_step(GpuProduct *p, LLVMValueRef step, LLVMValueRef steps) {
  Emit *e = &p->g->e;
  LLVMBasicBlockRef some = emit_block(e), none = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, int_less(e, step, steps), some, none);
  LLVMPositionBuilderAtEnd(e->b, some);
  LLVMValueRef stage = LLVMBuildURem(e->b, step, i64_of(e, p->t->stages), "");
  gpu_product_fill(p, stage, int_mul(e, step, i64_of(e, p->t->depth)));
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, none);
  gpu_copies_commit(p->g);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

static void fold_after(GpuProduct *p, const Accumulators *a, LLVMValueRef step) {
  Emit *e = &p->g->e;
  if (!p->t->fold) return;
  LLVMValueRef fold_at = i64_of(e, p->t->fold);
  LLVMValueRef rest = LLVMBuildURem(e->b, int_add(e, step, i64_of(e, 1)), fold_at, "");
  LLVMBasicBlockRef done = if_begin(e, int_equal(e, rest, i64_of(e, 0)));
  fold(p->g, a);
  if_end(e, done);
}

// Emits the sums over the block's part of the depth: tiles from..steps - 1 along it. A part behind
// the end has none, and its sums are 0.
static void sum_over_depth(GpuProduct *p, const Accumulators *a) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  int ahead = p->t->stages - 1;
  LLVMValueRef all = ceil_by(e, p->depth, p->t->depth), each = ceil_by(e, all, p->t->parts);
  LLVMValueRef from = int_mul(e, p->part, each), steps = int_min(e, all, int_add(e, from, each));
  gpu_sums_clear(g, &a->leaf);
  if (p->t->fold) gpu_sums_clear(g, &a->total);
  EmitLoop first = loop_to(e, ahead);
  fill_step(p, int_add(e, from, first.var), steps);
  loop_end(e, &first);
  EmitLoop l = loop_begin(e, from, steps, i64_of(e, 1));
  gpu_copies_wait(g, ahead - 1);
  gpu_barrier(g); // all copies of this stage are there, and the last one is not read any more
  fill_step(p, int_add(e, l.var, i64_of(e, ahead)), steps);
  multiply(p, a, LLVMBuildURem(e->b, l.var, i64_of(e, p->t->stages), ""));
  fold_after(p, a, l.var);
  loop_end(e, &l);
  gpu_copies_wait(g, 0);
  if (p->t->fold) fold(g, a);
}

// -- results ------------------------------------------------------------------------------------

LLVMValueRef gpu_unit_number(GpuEmit *g) {
  Emit *e = &g->e;
  LLVMValueRef unit = i64_of(e, 0);
  for (int l = 0; l < e->k->nouter; l++) {
    LLVMValueRef at = e->counter[l];
    bool blocks = g->plan.blocked && l == e->k->vector;
    if (blocks) at = LLVMBuildUDiv(e->b, at, i64_of(e, e->k->block), "");
    unit = int_add(e, int_mul(e, unit, g->count[l]), at);
  }
  return unit;
}

void gpu_product_result(GpuProduct *p, LLVMValueRef row, LLVMValueRef column, int n,
                        const LLVMValueRef *sum) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  gpu_product_counters(p, p->t->along[0], row);
  gpu_product_counters(p, p->t->along[1], column);
  LLVMValueRef unit = gpu_unit_number(g);
  LLVMBasicBlockRef wanted =
      if_begin(e, bit_and(e, bit_not(e, int_less(e, unit, g->from)), int_less(e, unit, g->to)));
  for (int v = 0; v < n; v++) e->value[instance_id(p->t->sum, 0, v)] = sum[v];
  e->vecs = n;
  for (int i = 0; i < e->k->nstmts; i++)
    if (p->result[i]) gpu_statement_wide(g, i);
  e->vecs = 1;
  if_end(e, wanted);
}

// A sum in the tile of sums, and the result that it belongs to.
typedef struct Place {
  const GpuTile *sums;
  LLVMValueRef row, column; // in the tile
  LLVMValueRef x, y;        // row and column among all results of the batch
} Place;

// Emits what is done with the n sums of a row from a place on: they become results or, where the
// depth is divided, are stored for `combine`.
static void use_sums(GpuProduct *p, const Place *at, int n) {
  GpuEmit *g = p->g;
  LLVMValueRef sum[GPU_VECS], from = gpu_tile_at(g, at->sums, at->row, at->column);
  if (n == 1)
    sum[0] = gpu_read(g, at->sums->type, from, GPU_SHARED);
  else
    gpu_read_wide(g, at->sums->type, from, GPU_SHARED, n, sum);
  if (p->t->parts > 1)
    gpu_part_store(p, at->x, at->y, sum[0]);
  else
    gpu_product_result(p, at->x, at->y, n, sum);
}

// Emits use_sums for the one sum at a place, unless it is behind the last row or column.
static void use_sum(GpuProduct *p, const Place *at) {
  Emit *e = &p->g->e;
  LLVMValueRef row = int_less(e, at->x, p->size[0]), column = int_less(e, at->y, p->size[1]);
  LLVMBasicBlockRef inside = if_begin(e, bit_and(e, row, column));
  use_sums(p, at, 1);
  if_end(e, inside);
}

// Emits whether the results of GPU_VECS neighbours from a place on can be computed together: all of
// them exist, and all their accesses to memory are aligned.
static LLVMValueRef together(GpuProduct *p, const Place *at) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  LLVMValueRef bits = i64_of(e, 0), end = int_add(e, at->y, i64_of(e, GPU_VECS));
  gpu_product_counters(p, p->t->along[0], at->x);
  gpu_product_counters(p, p->t->along[1], at->y);
  for (int i = 0; i < e->k->nstmts; i++) {
    const KStmt *s = &e->k->stmt[i];
    if (!p->result[i] || !gpu_is_wide(e->k, s)) continue;
    int bytes = gpu_wide_bytes(e->k->ptr[s->index].type, GPU_VECS);
    LLVMValueRef address = LLVMBuildPtrToInt(e->b, gpu_element(g, s->index), e->i64, "");
    bits = bit_or(e, bits, keep_bits(e, address, bytes - 1));
  }
  LLVMValueRef there = bit_not(e, int_less(e, p->size[1], end));
  there = bit_and(e, there, int_less(e, at->x, p->size[0]));
  return bit_and(e, there, int_equal(e, bits, i64_of(e, 0)));
}

// Emits use_sums for GPU_VECS sums from a place on, together or one after the other.
static void use_neighbours(GpuProduct *p, const Place *at) {
  Emit *e = &p->g->e;
  LLVMBasicBlockRef all = emit_block(e), some = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, together(p, at), all, some);
  LLVMPositionBuilderAtEnd(e->b, all);
  use_sums(p, at, GPU_VECS);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, some);
  EmitLoop one = loop_to(e, GPU_VECS);
  Place next = *at;
  next.column = int_add(e, at->column, one.var);
  next.y = int_add(e, at->y, one.var);
  use_sum(p, &next);
  loop_end(e, &one);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

// Emits use_sums for all sums in tile `sums`, whose first row is row `from` of the block's tile.
static void use_tile(GpuProduct *p, const GpuTile *sums, LLVMValueRef from) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  int vecs = p->t->vecs, across = sums->columns / vecs;
  EmitLoop l =
      loop_begin(e, g->thread, i64_of(e, (int64_t)sums->rows * across), i64_of(e, g->threads));
  Place at = {.sums = sums, .row = LLVMBuildUDiv(e->b, l.var, i64_of(e, across), "")};
  at.column = int_mul(e, LLVMBuildURem(e->b, l.var, i64_of(e, across), ""), i64_of(e, vecs));
  at.x = int_add(e, int_add(e, p->first[0], from), at.row);
  at.y = int_add(e, p->first[1], at.column);
  (vecs > 1 ? use_neighbours : use_sum)(p, &at);
  loop_end(e, &l);
}

static void store_results(GpuProduct *p, const Accumulators *a) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  const GpuTiles *t = p->t;
  int rows = t->size[0] / t->warps[0];
  GpuTile sums = {a->leaf.type, rows, t->size[1], gpu_shared(g)};
  EmitLoop pass = loop_to(e, t->warps[0]);
  gpu_barrier(g); // what was in shared memory is not read any more
  LLVMBasicBlockRef own = if_begin(e, int_equal(e, a->warp_row, pass.var));
  gpu_sums_store(g, t->fold ? &a->total : &a->leaf, &sums, i64_of(e, 0), a->first[1]);
  if_end(e, own);
  gpu_barrier(g);
  use_tile(p, &sums, int_mul(e, pass.var, i64_of(e, rows)));
  loop_end(e, &pass);
  gpu_barrier(g); // the next tile fills the shared memory
}

// -- tiles --------------------------------------------------------------------------------------

// Sets the place of tile number i of a part: GpuProduct.first, and the counters of the batch.
// tiles: the numbers of tiles along rows and columns.
static void find_tile(GpuProduct *p, LLVMValueRef i, const LLVMValueRef *tiles) {
  Emit *e = &p->g->e;
  LLVMValueRef all = int_mul(e, tiles[0], tiles[1]), at = LLVMBuildURem(e->b, i, all, "");
  p->batch = LLVMBuildUDiv(e->b, i, all, "");
  gpu_product_counters(p, p->t->batch, p->batch);
  LLVMValueRef in_group = int_mul(e, tiles[1], i64_of(e, GROUP));
  LLVMValueRef above = int_mul(e, LLVMBuildUDiv(e->b, at, in_group, ""), i64_of(e, GROUP));
  LLVMValueRef rows = int_min(e, int_sub(e, tiles[0], above), i64_of(e, GROUP));
  at = LLVMBuildURem(e->b, at, in_group, "");
  LLVMValueRef row = int_add(e, above, LLVMBuildURem(e->b, at, rows, ""));
  p->first[0] = int_mul(e, row, i64_of(e, p->t->size[0]));
  p->first[1] = int_mul(e, LLVMBuildUDiv(e->b, at, rows, ""), i64_of(e, p->t->size[1]));
}

LLVMValueRef gpu_blocks_of_set(GpuEmit *g) {
  Emit *e = &g->e;
  g->from = gpu_constant(g, e->i64, g->record, (int64_t)offsetof(GpuRecord, from));
  g->to = gpu_constant(g, e->i64, g->record, (int64_t)offsetof(GpuRecord, to));
  LLVMValueRef n = int_add(e, int_sub(e, g->to, g->from), int_sub(e, g->grain, i64_of(e, 1)));
  return LLVMBuildUDiv(e->b, n, g->grain, "");
}

void gpu_product_sizes(GpuProduct *p) {
  const LLVMValueRef *extent = p->g->e.extent;
  p->depth = gpu_rounds(p->g, p->t->inner, extent);
  p->batches = gpu_rounds(p->g, p->t->batch, extent);
  for (int i = 0; i < 2; i++) p->size[i] = gpu_rounds(p->g, p->t->along[i], extent);
}

// A launch runs through all tiles of a part before the next part. So blocks that run at the same
// time read the same rounds of the factors, which stay in the cache.
void gpu_product(GpuEmit *g) {
  Emit *e = &g->e;
  const GpuTiles *t = &g->plan.tiles;
  GpuProduct p = {.g = g, .t = t};
  gpu_product_sizes(&p);
  LLVMValueRef tiles[2], parts = i64_of(e, t->parts);
  for (int i = 0; i < 2; i++) tiles[i] = ceil_by(e, p.size[i], t->size[i]);
  gpu_entry_statements(g);
  gpu_product_prepare(&p);
  Accumulators a = accumulators_make(&p);
  LLVMValueRef n = int_mul(e, p.batches, int_mul(e, tiles[0], tiles[1]));
  EmitLoop l =
      loop_begin(e, g->chunk, int_mul(e, n, parts), int_mul(e, gpu_blocks_of_set(g), parts));
  p.part = LLVMBuildUDiv(e->b, l.var, n, "");
  find_tile(&p, LLVMBuildURem(e->b, l.var, n, ""), tiles);
  sum_over_depth(&p, &a);
  store_results(&p, &a);
  loop_end(e, &l);
}
#endif
