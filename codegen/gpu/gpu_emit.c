// The functions of a kernel on a GPU: NAME and NAME_combine (ir/program/gpu.h). In: a Kernel. Out:
// LLVM IR.
//
//   return if the step is not to go on (GPU_IF_GO)
//   find the record of the set, load its operands
//   run the units of the block, or join its partial rows
#include "codegen/gpu/gpu_scatter.h"
#include "codegen/gpu/gpu_scores.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>
#include <string.h>

// -- records ------------------------------------------------------------------------------------

static LLVMValueRef record_at(GpuEmit *g, LLVMValueRef set) {
  Emit *e = &g->e;
  LLVMValueRef off = int_mul(e, set, i64_of(e, g->record_bytes));
  return emit_at(e, e->i8, LLVMGetParam(e->fn, 0), off);
}

static LLVMValueRef record_field(GpuEmit *g, size_t at) {
  return gpu_constant(g, g->e.i64, g->record, (int64_t)at);
}

// Emits a search for the last set whose first block is at most `block`: the sets low..high-1 are
// halved until one is left.
static LLVMValueRef find_set(GpuEmit *g, LLVMValueRef block) {
  Emit *e = &g->e;
  LLVMValueRef low = emit_alloca(e, e->i64), high = emit_alloca(e, e->i64), one = i64_of(e, 1);
  LLVMBuildStore(e->b, i64_of(e, 0), low);
  LLVMBuildStore(e->b, int_zext(e, LLVMGetParam(e->fn, 2), e->i64), high);
  LLVMBasicBlockRef head = emit_block(e), half = emit_block(e), done = emit_block(e);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef a = emit_read(e, e->i64, low), b = emit_read(e, e->i64, high);
  LLVMBuildCondBr(e->b, int_less(e, int_add(e, a, one), b), half, done);
  LLVMPositionBuilderAtEnd(e->b, half);
  LLVMValueRef middle = right_by(e, int_add(e, a, b), 1);
  LLVMValueRef first =
      gpu_constant(g, e->i64, record_at(g, middle), offsetof(GpuRecord, first_block));
  LLVMValueRef before = int_less(e, block, first);
  LLVMBuildStore(e->b, pick(e, before, a, middle), low);
  LLVMBuildStore(e->b, pick(e, before, middle, b), high);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, done);
  return a;
}

// Emits loads of the operands of GpuEmit.record, and of the numbers of the run.
static void load_operands(GpuEmit *g) {
  static const size_t run[RUN_NUMBERS] = {[RUN_STEP] = offsetof(GpuHeader, step),
                                          [RUN_SEED] = offsetof(GpuHeader, seed),
                                          [RUN_REPEAT] = offsetof(GpuHeader, repeat)};
  Emit *e = &g->e;
  const Kernel *k = e->k;
  LLVMValueRef *slot = arena_array(e->arena, LLVMValueRef, k->nslots + 1),
               *num = arena_array(e->arena, LLVMValueRef, k->nnum + 1),
               *numbers = arena_array(e->arena, LLVMValueRef, RUN_NUMBERS);
  for (int i = 0; i < k->nslots; i++)
    slot[i] = gpu_constant(g, e->i64, g->record, gpu_slot_at(k->nptr, i));
  for (int i = 0; i < k->nnum; i++)
    num[i] = gpu_constant(g, e->f64, g->record, gpu_num_at(k->nptr, k->nslots, i));
  for (int i = 0; i < RUN_NUMBERS; i++)
    numbers[i] = gpu_constant(g, e->i64, LLVMGetParam(e->fn, 1), (int64_t)run[i]);
  e->loaded_slot = slot;
  e->loaded_num = num;
  e->loaded_run = numbers;
  e->partial = gpu_address(g, record_field(g, offsetof(GpuRecord, partial)));
  e->status = gpu_address(g, record_field(g, offsetof(GpuRecord, status)));
}

static void load_pointers(GpuEmit *g) {
  Emit *e = &g->e;
  for (int p = 0; p < e->k->nptr; p++) {
    const KPtr *kp = &e->k->ptr[p];
    e->base[p] = gpu_address(g, gpu_constant(g, e->i64, g->record, gpu_ptr_at(p)));
    if (kp->nbases || kp->offset)
      e->base[p] = emit_at(e, mem_type(e, kp->type), e->base[p], walk_start(e, kp));
  }
  for (int w = 0; w < e->k->nwalks; w++) e->walk[w] = walk_start(e, &e->k->walk[w]);
  for (int l = 0; l < e->k->nouter + e->k->ninner + e->k->ndots; l++) {
    const KLoop *kl = &e->k->loop[l];
    e->extent[l] = kl->slot < 0 ? i64_of(e, kl->size) : slot_value(e, kl->slot);
  }
}

// -- functions ----------------------------------------------------------------------------------

// Begins a function with records of `bytes` bytes that does nothing with GPU_IF_GO in a step that
// is not to go on.
static LLVMBasicBlockRef begin(GpuEmit *g, const char *name, int threads, int64_t bytes) {
  Emit *e = &g->e;
  g->record_bytes = bytes;
  gpu_function_begin(g, name, threads);
  LLVMValueRef flags = LLVMGetParam(e->fn, 3), header = LLVMGetParam(e->fn, 1);
  LLVMValueRef go =
      emit_read(e, e->i32, emit_at(e, e->i8, header, i64_of(e, (int64_t)offsetof(GpuHeader, go))));
  LLVMValueRef after = keep_bits(e, flags, GPU_IF_GO);
  LLVMValueRef runs = bit_or(e, int_equal(e, after, int_like(after, 0)), not_zero(e, go));
  return if_begin(e, runs);
}

void gpu_run_end(GpuEmit *g, LLVMBasicBlockRef done) {
  if_end(&g->e, done);
  gpu_function_end(g);
}

LLVMBasicBlockRef gpu_run_begin(GpuEmit *g, const char *name, int threads, int64_t bytes) {
  Emit *e = &g->e;
  LLVMBasicBlockRef done = begin(g, name, threads, bytes);
  LLVMValueRef block = gpu_block_x(g);
  g->record = record_at(g, find_set(g, block));
  g->grain = record_field(g, offsetof(GpuRecord, grain));
  g->chunk = int_sub(e, block, record_field(g, offsetof(GpuRecord, first_block)));
  LLVMValueRef to = record_field(g, offsetof(GpuRecord, to));
  g->from = int_add(e, record_field(g, offsetof(GpuRecord, from)), int_mul(e, g->chunk, g->grain));
  g->to = int_min(e, to, int_add(e, g->from, g->grain));
  return done;
}

static int64_t kernel_record(const Kernel *k) {
  return gpu_record_bytes(k->nptr, k->nslots, k->nnum);
}

// Emits the counts of the outer loops, in rounds or in blocks of the vector loop.
static void count_units(GpuEmit *g) {
  Emit *e = &g->e;
  for (int l = 0; l < e->k->nouter; l++) {
    g->count[l] = e->extent[l];
    if (!g->plan.blocked || l != e->k->vector) continue;
    LLVMValueRef up = int_add(e, e->extent[l], i64_of(e, e->k->block - 1));
    g->count[l] = LLVMBuildUDiv(e->b, up, i64_of(e, e->k->block), "");
  }
}

// Emits the number of the thread in its team, and whether it is the leader of the team.
static void find_lane(GpuEmit *g) {
  Emit *e = &g->e;
  g->lane = g->plan.team == TEAM_WARP ? keep_bits(e, g->thread, GPU_WARP - 1) : g->thread;
  if (g->plan.columns > 1) g->lane = LLVMBuildUDiv(e->b, g->thread, i64_of(e, g->plan.columns), "");
  g->leader = g->plan.team == TEAM_THREAD ? NULL : int_equal(e, g->lane, i64_of(e, 0));
}

// Sets the unit and the part of the block where several divide a unit.
static void find_part(GpuEmit *g) {
  Emit *e = &g->e;
  if (g->plan.unit_parts == 1) return;
  LLVMValueRef parts = i64_of(e, g->plan.unit_parts),
               unit = LLVMBuildUDiv(e->b, g->chunk, parts, "");
  g->part = LLVMBuildURem(e->b, g->chunk, parts, "");
  g->from = int_add(e, record_field(g, offsetof(GpuRecord, from)), unit);
  g->to = int_add(e, g->from, i64_of(e, 1));
}

// Emits the items of the block and its partial row, or its part of an item.
static void emit_items(GpuEmit *g) {
  Emit *e = &g->e;
  if (g->plan.row_parts > 1) {
    gpu_row_part(g);
    return;
  }
  find_part(g);
  LLVMValueRef skip = int_mul(e, g->chunk, i64_of(e, accum_offset(e->k, e->k->nstmts)));
  e->partial = emit_at(e, e->i8, e->partial, skip);
  gpu_cells_make(g);
  gpu_accum_begin(g);
  gpu_items(g);
  gpu_accum_end(g);
}

static void emit_run(GpuEmit *g, const char *symbol) {
  static void (*const emit_share[])(GpuEmit * g) = {
      [TEAM_THREAD] = emit_items, [TEAM_WARP] = emit_items,   [TEAM_BLOCK] = emit_items,
      [TEAM_TILE] = gpu_product,  [TEAM_SCORES] = gpu_scores, [TEAM_OWNERS] = gpu_scatter_rows};
  Emit *e = &g->e;
  LLVMBasicBlockRef done = gpu_run_begin(g, symbol, g->plan.threads, kernel_record(e->k));
  load_operands(g);
  load_pointers(g);
  count_units(g);
  find_lane(g);
  emit_share[g->plan.team](g);
  gpu_run_end(g, done);
}

static void emit_combine_function(GpuEmit *g, const GpuEntry *entry) {
  LLVMBasicBlockRef done = begin(g, entry->combine, entry->combine_threads, kernel_record(g->e.k));
  g->record = record_at(g, gpu_block_y(g));
  g->grain = record_field(g, offsetof(GpuRecord, grain));
  load_operands(g);
  load_pointers(g);
  g->from = record_field(g, offsetof(GpuRecord, from));
  g->to = record_field(g, offsetof(GpuRecord, to));
  count_units(g);
  (g->plan.team == TEAM_TILE ? gpu_parts_join : gpu_combine)(g, entry->combine_blocks);
  gpu_run_end(g, done);
}

void gpu_emit(LLVMModuleRef module, const Kernel *k, const char *symbol, const GpuCodeOptions *opt,
              const EmitTarget *t) {
  Arena *a = arena_new();
  GpuEmit g = {.e = {.arena = a, .k = k, .target = t, .module = module, .report = gpu_report},
               .opt = opt,
               .plan = gpu_plan_make(a, k, opt),
               .cell = arena_array(a, GpuCell, k->nstmts * GPU_CELLS + 1)};
  Emit *e = &g.e;
  e->ctx = LLVMGetModuleContext(module);
  e->b = LLVMCreateBuilderInContext(e->ctx);
  e->plan.lanes = e->plan.rows = e->plan.vecs = e->rows = e->vecs = 1;
  e->plan.dep = g.plan.dep;
  e->base = arena_array(a, LLVMValueRef, k->nptr + 1);
  e->walk = arena_array(a, LLVMValueRef, k->nwalks + 1);
  e->value = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  emit_types(e);
  GpuEntry entry = gpu_plan_entry(a, k, &g.plan, symbol);
  emit_run(&g, symbol);
  if (entry.combine) emit_combine_function(&g, &entry);
  LLVMDisposeBuilder(e->b);
  arena_free(a);
}
#endif
