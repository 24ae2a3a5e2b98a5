// Fills the tiles of the factors of a product: with copies of memory, or with values that are
// computed from what the kernel loads.
#include "codegen/gpu/gpu_product.h"

#ifdef MESHC_HAVE_LLVM
#include <string.h>

// -- statements ---------------------------------------------------------------------------------

bool *gpu_statements_of(GpuEmit *g, int root) {
  bool *needed = arena_array(g->e.arena, bool, g->e.k->nstmts);
  needed_stmts(g->e.k, root, needed);
  for (int i = 0; i < g->e.k->nstmts; i++)
    if (g->plan.place[i] == GPU_AT_ENTRY) needed[i] = false;
  return needed;
}

bool *gpu_result_statements(GpuEmit *g, int sum, LoopSet along) {
  const Kernel *k = g->e.k;
  bool *out = arena_array(g->e.arena, bool, k->nstmts);
  for (int i = k->nstmts - 1; i >= 0; i--) {
    out[i] |= k->stmt[i].kind == K_STORE && (!along || g->plan.dep[i] & along);
    out[i] &= g->plan.place[i] != GPU_AT_ENTRY;
    for (int j = 0; j < 3 && out[i] && i != sum; j++)
      if (k->stmt[i].arg[j] != NO_STMT) out[k->stmt[i].arg[j]] = true;
  }
  out[sum] = false;
  return out;
}

void gpu_product_prepare(GpuProduct *p) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  p->result = gpu_result_statements(g, p->t->sum, 0);
  for (int side = 0; side < 2; side++) {
    int root = p->t->root[side];
    p->needed[side] = gpu_statements_of(g, root);
    if (!p->t->copied[side]) continue;
    LLVMValueRef at = LLVMBuildPtrToInt(e->b, e->base[e->k->stmt[root].index], e->i64, "");
    p->aligned[side] = int_equal(e, keep_bits(e, at, 15), i64_of(e, 0));
  }
}

void gpu_product_counters(GpuProduct *p, LoopSet set, LLVMValueRef i) {
  Emit *e = &p->g->e;
  gpu_decode(p->g, i, p->t->narrow, set, e->extent, e->counter);
}

// -- tiles --------------------------------------------------------------------------------------

GpuTile gpu_product_tile(GpuProduct *p, int side, LLVMValueRef stage) {
  Emit *e = &p->g->e;
  const GpuTiles *t = p->t;
  LLVMValueRef at = int_mul(e, stage, i64_of(e, gpu_product_stage_bytes(t)));
  if (side) at = int_add(e, at, i64_of(e, gpu_product_tile_bytes(t, 0)));
  GpuTile tile = {t->factor, t->size[side], t->depth, gpu_shared_at(p->g, at)};
  if (t->deep[side]) tile.rows = t->depth, tile.columns = t->size[side];
  return tile;
}

// The factor that a tile is filled with, as GpuSource.context.
typedef struct Factor {
  GpuProduct *p;
  int side;
  LLVMValueRef from; // round of the sum where the tile begins
} Factor;

// Sets the counters of the loops to those of an element of a factor's tile.
static void go_to(const Factor *f, LLVMValueRef row, LLVMValueRef column) {
  GpuProduct *p = f->p;
  Emit *e = &p->g->e;
  bool deep = p->t->deep[f->side];
  LLVMValueRef along = int_add(e, p->first[f->side], deep ? column : row);
  gpu_product_counters(p, p->t->along[f->side], along);
  gpu_product_counters(p, p->t->inner, int_add(e, f->from, deep ? row : column));
}

static LLVMValueRef address(GpuEmit *g, const void *context, LLVMValueRef row,
                            LLVMValueRef column) {
  const Factor *f = context;
  go_to(f, row, column);
  return gpu_element(g, g->e.k->stmt[f->p->t->root[f->side]].index);
}

static LLVMValueRef value(GpuEmit *g, const void *context, LLVMValueRef row, LLVMValueRef column) {
  const Factor *f = context;
  int root = f->p->t->root[f->side];
  go_to(f, row, column);
  for (int i = 0; i <= root; i++)
    if (f->p->needed[f->side][i]) gpu_statement(g, i);
  return emit_coerce(&g->e, value_at(&g->e, root, 0, 0), g->e.k->stmt[root].type, f->p->t->factor);
}

static void fill_factor(GpuProduct *p, int side, LLVMValueRef stage, LLVMValueRef from) {
  GpuEmit *g = p->g;
  Emit *e = &g->e;
  GpuTile tile = gpu_product_tile(p, side, stage);
  Factor f = {p, side, from};
  LLVMValueRef along = int_sub(e, p->size[side], p->first[side]),
               depth = int_sub(e, p->depth, from);
  GpuSource source = {address, value, &f, p->t->deep[side] ? depth : along,
                      p->t->deep[side] ? along : depth};
  if (!p->t->copied[side]) {
    gpu_tile_fill(g, &tile, &source);
    return;
  }
  LLVMBasicBlockRef copy = emit_block(e), fill = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, p->aligned[side], copy, fill);
  LLVMPositionBuilderAtEnd(e->b, copy);
  gpu_tile_copy(g, &tile, &source);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, fill);
  gpu_tile_fill(g, &tile, &source);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

void gpu_product_fill(GpuProduct *p, LLVMValueRef stage, LLVMValueRef from) {
  for (int side = 0; side < 2; side++) fill_factor(p, side, stage, from);
  gpu_copies_commit(p->g);
}
#endif
