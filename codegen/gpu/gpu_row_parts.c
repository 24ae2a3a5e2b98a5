// Kernels with few items of many positions, such as few long rows: several blocks of threads divide
// the positions of each item (GpuPlan.row_parts), so that the whole GPU has work.
//
//   softmax of 32 rows of 65,536 elements: 16 blocks for each row, with 4,096 elements each
//
// Blocks do not wait for one another. So each phase of the kernel is a launch of its own
// (GpuEntry.phases): a block reduces its part of the positions and stores the result to scratch
// memory; the blocks of later phases join the results of all parts, each for itself:
//
//   scratch[unit][reduction][part]   8 bytes each, in the type of the cells
//
// A block repeats the statements outside of the inner loops of earlier phases, whose values it
// needs, but not their stores. The first block of an item stores what the item has one of.
#include "codegen/gpu/gpu_internal.h"

static int reductions_before(const Kernel *k, int s) {
  int n = 0;
  for (int i = 0; i < s; i++) n += k->stmt[i].kind == K_REDUCE;
  return n;
}

int64_t gpu_row_scratch(const Kernel *k, const GpuPlan *p) {
  int64_t bytes = 8 * kernel_units(k) * p->row_parts * reductions_before(k, k->nstmts);
  return ceil_div(bytes, MEMORY_ALIGN) * MEMORY_ALIGN;
}

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>

// The block's part of an item.
typedef struct RowPart {
  GpuEmit *g;
  LLVMValueRef item, part; // number of the item in its set, of the part in the item
  // what gpu_phase_join stores: the cells of a phase's reductions, and their results
  GpuCell *cell;
  LLVMValueRef *value;
} RowPart;

// Emits the address of the result of part `part` for reduction s.
static LLVMValueRef result_at(const RowPart *r, int s, LLVMValueRef part) {
  Emit *e = &r->g->e;
  int64_t n = reductions_before(e->k, e->k->nstmts), at = reductions_before(e->k, s);
  LLVMValueRef index = int_add(e, int_mul(e, r->item, i64_of(e, n)), i64_of(e, at));
  index = int_add(e, int_mul(e, index, i64_of(e, r->g->plan.row_parts)), part);
  return emit_at(e, e->i64, e->partial, index);
}

static bool reduces_in(const RowPart *r, int s, int phase) {
  const KStmt *st = &r->g->e.k->stmt[s];
  return st->kind == K_REDUCE && st->phase == phase;
}

// Emits the values of an earlier phase, which earlier launches have computed, from the results of
// all parts. Each thread adds some of them to its cells; the cells are then joined as in a phase.
static void recall(RowPart *r, int phase) {
  GpuEmit *g = r->g;
  Emit *e = &g->e;
  gpu_phase_repeat(g, phase);
  for (int s = 0; s < e->k->nstmts; s++) {
    if (!reduces_in(r, s, phase)) continue;
    GpuCell c = *gpu_cell(g, s, 0);
    c.leaf = NULL;
    gpu_cells_clear(g, s);
    EmitLoop l = loop_begin(e, g->thread, i64_of(e, g->plan.row_parts), i64_of(e, g->threads));
    gpu_cell_add(g, &c, gpu_read(g, c.type, result_at(r, s, l.var), GPU_GLOBAL), c.type);
    loop_end(e, &l);
  }
  gpu_phase_join(g, phase, r->cell, r->value);
  gpu_phase_values(g, phase, r->cell, r->value);
}

// Emits the block's part of a phase. Thread 0 stores the results of its reductions.
static void compute(RowPart *r, int phase) {
  GpuEmit *g = r->g;
  Emit *e = &g->e;
  gpu_phase_compute(g, phase);
  if (!gpu_phase_join(g, phase, r->cell, r->value)) return;
  LLVMBasicBlockRef done = if_begin(e, int_equal(e, g->thread, i64_of(e, 0)));
  for (int s = 0, i = 0; s < e->k->nstmts; s++) {
    if (!reduces_in(r, s, phase)) continue;
    gpu_write(g, r->cell[i].type, result_at(r, s, r->part), r->value[i], GPU_GLOBAL);
    i++;
  }
  if_end(e, done);
}

// Sets the positions of the block. Parts begin at multiples of the neighbours that a thread
// computes together.
static void find_span(RowPart *r) {
  GpuEmit *g = r->g;
  Emit *e = &g->e;
  LLVMValueRef n = gpu_rounds(g, g->plan.spread, e->extent);
  int64_t step = (int64_t)g->plan.row_parts * g->plan.vecs;
  LLVMValueRef each = LLVMBuildUDiv(e->b, int_add(e, n, i64_of(e, step - 1)), i64_of(e, step), "");
  each = int_mul(e, each, i64_of(e, g->plan.vecs));
  g->span[0] = int_mul(e, r->part, each);
  g->span[1] = int_min(e, n, int_add(e, g->span[0], each));
}

// Sets the item and the part of the block. The blocks of a set are in the order of items, and those
// of an item in the order of parts. The leader is now a thread of the first part only.
static void find_item(RowPart *r) {
  GpuEmit *g = r->g;
  Emit *e = &g->e;
  LLVMValueRef parts = i64_of(e, g->plan.row_parts);
  LLVMValueRef first = gpu_constant(g, e->i64, g->record, (int64_t)offsetof(GpuRecord, from));
  r->item = LLVMBuildUDiv(e->b, g->chunk, parts, "");
  r->part = LLVMBuildURem(e->b, g->chunk, parts, "");
  LoopSet outer = ((LoopSet)1 << e->k->nouter) - 1;
  gpu_decode(g, int_add(e, first, r->item), g->plan.narrow, outer, g->count, e->counter);
  g->leader = bit_and(e, g->leader, int_equal(e, r->part, i64_of(e, 0)));
}

void gpu_row_part(GpuEmit *g) {
  Emit *e = &g->e;
  RowPart r = {.g = g,
               .cell = arena_array(e->arena, GpuCell, GPU_VECS * e->k->nstmts + 1),
               .value = arena_array(e->arena, LLVMValueRef, GPU_VECS * e->k->nstmts + 1)};
  LLVMValueRef now = right_by(e, LLVMGetParam(e->fn, 3), GPU_PHASE_BIT);
  gpu_cells_make(g);
  gpu_entry_statements(g);
  find_item(&r);
  find_span(&r);
  for (int phase = 0; phase < e->k->nphases; phase++) {
    LLVMBasicBlockRef done = if_begin(e, int_equal(e, now, int_like(now, phase)));
    gpu_item_begin(g);
    for (int earlier = 0; earlier < phase; earlier++) recall(&r, earlier);
    compute(&r, phase);
    if_end(e, done);
  }
}
#endif
