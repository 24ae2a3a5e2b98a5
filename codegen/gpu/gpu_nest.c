// The loops of a kernel on a GPU: items, the phases of an item, inner loops, statements.
//
//   for the items of the block that the team computes
//     statements of the item
//     for each phase
//       statements of the phase
//       for the positions of the thread
//         for the rounds of the other inner loops: inner statements
//       the cells of the team's threads are joined, and reductions become values
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM

// -- statements ---------------------------------------------------------------------------------

// Emits statement `id` for neighbour v along the vector loop.
static void emit_one(GpuEmit *g, int id, int v) {
  Emit *e = &g->e;
  const KStmt *s = &e->k->stmt[id];
  LLVMValueRef *value = &e->value[instance_id(id, 0, v)];
  switch (s->kind) {
  case K_NUM: *value = known_number(e, s); return;
  case K_LOAD:
  case K_LOAD_AT: *value = gpu_load(g, s, v); return;
  case K_OP: *value = emit_op(e, s, 0, v); return;
  case K_DOT: *value = gpu_dot(g, s, v); return;
  case K_POSITION: *value = emit_position(e, s, 0, v); return;
  case K_QUOTIENT: *value = emit_quotient(e, s, 0, v); return;
  case K_INSIDE: *value = emit_inside(e, s, 0, v); return;
  case K_REDUCE:
    gpu_cell_add(g, gpu_cell(g, id, v), operand_at(e, s, 0, s->type, 0, v), s->type);
    return;
  case K_ACCUM: gpu_accum_add(g, id, v); return;
  case K_STORE: gpu_store(g, s, v); return;
  case K_SCATTER: gpu_scatter(g, s); return;
  }
  BUG("kernel %s: a statement of kind %d", e->k->name, (int)s->kind);
}

void gpu_statement(GpuEmit *g, int id) { emit_one(g, id, 0); }

void gpu_statement_wide(GpuEmit *g, int id) {
  Emit *e = &g->e;
  const KStmt *s = &e->k->stmt[id];
  bool adds = s->kind == K_ACCUM || (s->kind == K_REDUCE && !g->plan.blocked);
  int n = adds || depends(e, id, e->k->vector) ? e->vecs : 1;
  bool wide = n > 1 && gpu_is_wide(e->k, s);
  if (wide && s->kind == K_LOAD)
    gpu_load_wide(g, id);
  else if (wide)
    gpu_store_wide(g, s);
  else
    for (int v = 0; v < n; v++) emit_one(g, id, v);
}

static bool is_at(const GpuEmit *g, int id, int place, int phase) {
  bool any_phase = place <= GPU_AT_ITEM;
  return g->plan.place[id] == place && (any_phase || g->e.k->stmt[id].phase == phase);
}

static void emit_place(GpuEmit *g, int place, int phase) {
  for (int id = 0; id < g->e.k->nstmts; id++)
    if (is_at(g, id, place, phase)) gpu_statement_wide(g, id);
}

void gpu_entry_statements(GpuEmit *g) { emit_place(g, GPU_AT_ENTRY, 0); }

void gpu_phase_repeat(GpuEmit *g, int phase) {
  for (int id = 0; id < g->e.k->nstmts; id++)
    if (is_at(g, id, GPU_AT_PHASE, phase) && g->e.k->stmt[id].kind != K_STORE)
      gpu_statement_wide(g, id);
}

// Emits the statements of a phase outside of the inner loops. Its stores may be to memory that the
// other threads of the team still read (KPtr): they wait for them.
static void emit_phase_place(GpuEmit *g, int phase) {
  bool waited = !g->leader;
  for (int id = 0; id < g->e.k->nstmts; id++) {
    if (!is_at(g, id, GPU_AT_PHASE, phase)) continue;
    KKind kind = g->e.k->stmt[id].kind;
    bool once = g->leader && (kind == K_STORE || kind == K_SCATTER);
    if (once && !waited)
      (g->plan.team == TEAM_WARP ? gpu_warp_barrier : gpu_barrier)(g), waited = true;
    LLVMBasicBlockRef done = once ? if_begin(&g->e, g->leader) : NULL;
    gpu_statement_wide(g, id);
    if (once) if_end(&g->e, done);
  }
}

// -- rounds of several loops --------------------------------------------------------------------

LLVMValueRef gpu_rounds(GpuEmit *g, LoopSet set, const LLVMValueRef *rounds) {
  LLVMValueRef n = NULL;
  for (int l = 0; l < MAX_LOOPS; l++)
    if (set >> l & 1) n = n ? int_mul(&g->e, n, rounds[l]) : rounds[l];
  return n ? n : i64_of(&g->e, 1);
}

void gpu_decode(GpuEmit *g, LLVMValueRef i, bool narrow, LoopSet set, const LLVMValueRef *rounds,
                LLVMValueRef *counter) {
  Emit *e = &g->e;
  LLVMTypeRef t = narrow ? e->i32 : e->i64;
  if (narrow) i = int_trunc(e, i, t);
  for (int l = MAX_LOOPS - 1; l >= 0; l--) {
    if (!(set >> l & 1)) continue;
    set &= ~((LoopSet)1 << l);
    LLVMValueRef n = narrow ? int_trunc(e, rounds[l], t) : rounds[l];
    LLVMValueRef x = set ? LLVMBuildURem(e->b, i, n, "") : i;
    if (set) i = LLVMBuildUDiv(e->b, i, n, "");
    counter[l] = narrow ? int_zext(e, x, e->i64) : x;
  }
}

// -- inner loops --------------------------------------------------------------------------------

// Emits inner loop l, if it is not spread, with all loops inside it.
static void plain_loops(GpuEmit *g, int l, int phase) {
  Emit *e = &g->e;
  while (l < e->k->nouter + e->k->ninner && g->plan.spread >> l & 1) l++;
  if (l == e->k->nouter + e->k->ninner) {
    emit_place(g, GPU_AT_INNER, phase);
    return;
  }
  bool folds = g->plan.leaves && l == g->plan.fold_loop;
  Blocks b = blocks_begin(e, i64_of(e, 0), e->extent[l], folds ? g->plan.fold_step : 0);
  EmitLoop loop = loop_begin(e, b.from, b.to, i64_of(e, 1));
  e->counter[l] = loop.var;
  plain_loops(g, l + 1, phase);
  loop_end(e, &loop);
  if (folds) gpu_cells_fold(g, phase);
  blocks_end(e, &b);
}

static void position(GpuEmit *g, int phase) {
  gpu_accum_position_begin(g, phase);
  plain_loops(g, g->e.k->nouter, phase);
  if (g->plan.leaves && g->plan.fold_loop < 0) gpu_cells_fold(g, phase);
  gpu_accum_position_end(g, phase);
}

// What is done for some neighbours along the vector loop, whose counter is set.
typedef void Neighbours(GpuEmit *g, int phase);

// Emits `body` for the elements from `at` to at most at + GPU_VECS - 1 of the vector loop: together
// if they are all there and aligned, else one after the other.
static void neighbours(GpuEmit *g, LLVMValueRef at, int phase, Neighbours *body) {
  Emit *e = &g->e;
  int l = e->k->vector;
  LLVMValueRef next = int_add(e, at, i64_of(e, GPU_VECS)), extent = e->extent[l];
  e->counter[l] = at;
  LLVMValueRef full = int_cmp(e, LLVMIntSLE, next, extent);
  LLVMValueRef together = bit_and(e, full, gpu_aligned(g, phase));
  LLVMBasicBlockRef all = emit_block(e), some = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, together, all, some);
  LLVMPositionBuilderAtEnd(e->b, all);
  e->vecs = GPU_VECS;
  body(g, phase);
  e->vecs = 1;
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, some);
  EmitLoop one = loop_begin(e, at, int_min(e, next, extent), i64_of(e, 1));
  e->counter[l] = one.var;
  body(g, phase);
  loop_end(e, &one);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

static void kept_positions(GpuEmit *g, int phase) {
  for (int slot = 0; slot < g->plan.kept; slot++) {
    LLVMBasicBlockRef done = gpu_kept_begin(g, slot);
    position(g, phase);
    if (done) if_end(&g->e, done);
  }
}

// Emits the loop over the positions of a thread, `together` neighbours at a time. The block has all
// positions, of which there are n, or those of GpuEmit.span.
static EmitLoop positions_begin(GpuEmit *g, LLVMValueRef n, int together) {
  Emit *e = &g->e;
  LLVMValueRef first = together > 1 ? int_mul(e, g->lane, i64_of(e, together)) : g->lane;
  if (g->span[0]) first = int_add(e, first, g->span[0]);
  return loop_begin(e, first, g->span[1] ? g->span[1] : n,
                    i64_of(e, (int64_t)gpu_team_threads(g) * together));
}

// Emits the positions of a thread along the vector loop, some neighbours at a time.
static void wide_positions(GpuEmit *g, int phase) {
  Emit *e = &g->e;
  EmitLoop l = positions_begin(g, e->extent[e->k->vector], GPU_VECS);
  neighbours(g, l.var, phase, position);
  loop_end(e, &l);
}

// Emits the positions of a thread. Where no loop is spread there is one, which the leader has.
static void positions(GpuEmit *g, int phase) {
  Emit *e = &g->e;
  if (g->plan.kept) {
    kept_positions(g, phase);
    return;
  }
  if (g->plan.vecs > 1 && g->plan.spread) {
    wide_positions(g, phase);
    return;
  }
  if (!g->plan.spread) {
    LLVMBasicBlockRef done = g->leader ? if_begin(e, g->leader) : NULL;
    position(g, phase);
    if (done) if_end(e, done);
    return;
  }
  LLVMValueRef n = gpu_rounds(g, g->plan.spread, e->extent);
  EmitLoop l = positions_begin(g, n, 1);
  gpu_decode(g, l.var, g->plan.narrow_spread, g->plan.spread, e->extent, e->counter);
  position(g, phase);
  loop_end(e, &l);
}

// -- items --------------------------------------------------------------------------------------

static bool reduces_in(const GpuEmit *g, int s, int phase) {
  return g->e.k->stmt[s].kind == K_REDUCE && g->e.k->stmt[s].phase == phase;
}

// Returns how many results reduction s has for the neighbours that are computed together.
static int results(const GpuEmit *g, int s) { return gpu_cell_count(g, s) > 1 ? g->e.vecs : 1; }

int gpu_phase_join(GpuEmit *g, int phase, GpuCell *cell, LLVMValueRef *value) {
  int n = 0;
  for (int s = 0; s < g->e.k->nstmts; s++)
    for (int v = 0; reduces_in(g, s, phase) && v < results(g, s); v++)
      cell[n++] = *gpu_cell(g, s, v);
  gpu_cells_join(g, n, cell, false, value);
  return n;
}

void gpu_phase_values(GpuEmit *g, int phase, const GpuCell *cell, const LLVMValueRef *value) {
  Emit *e = &g->e;
  for (int s = 0, i = 0; s < e->k->nstmts; s++)
    for (int v = 0; reduces_in(g, s, phase) && v < results(g, s); v++, i++)
      e->value[instance_id(s, 0, v)] = emit_coerce(e, value[i], cell[i].type, e->k->stmt[s].type);
}

static bool has_inner(const GpuEmit *g, int phase) {
  for (int s = 0; s < g->e.k->nstmts; s++)
    if (is_at(g, s, GPU_AT_INNER, phase)) return true;
  return false;
}

void gpu_item_begin(GpuEmit *g) { emit_place(g, GPU_AT_ITEM, 0); }

void gpu_phase_compute(GpuEmit *g, int phase) {
  for (int s = 0; s < g->e.k->nstmts; s++)
    if (reduces_in(g, s, phase)) gpu_cells_clear(g, s);
  emit_phase_place(g, phase);
  if (has_inner(g, phase)) positions(g, phase);
}

static void item(GpuEmit *g, int unused) {
  Emit *e = &g->e;
  (void)unused;
  GpuCell *cell = arena_array(e->arena, GpuCell, GPU_VECS * e->k->nstmts + 1);
  LLVMValueRef *value = arena_array(e->arena, LLVMValueRef, GPU_VECS * e->k->nstmts + 1);
  gpu_item_begin(g);
  for (int phase = 0; phase < e->k->nphases; phase++) {
    gpu_phase_compute(g, phase);
    gpu_phase_join(g, phase, cell, value);
    gpu_phase_values(g, phase, cell, value);
  }
}

// Returns how many elements of an outer vector loop are computed together.
static int unit_together(const GpuEmit *g) { return g->plan.blocked ? g->plan.vecs : 1; }
// Returns the items of a unit, where elements that are computed together count as one.
static int64_t unit_items(const GpuEmit *g) { return ceil_div(g->plan.elements, unit_together(g)); }

// Emits item number i of the block. The last unit along an outer vector loop may have fewer
// elements than the others.
static void numbered_item(GpuEmit *g, LLVMValueRef i) {
  Emit *e = &g->e;
  LLVMValueRef size = i64_of(e, unit_items(g)), unit = LLVMBuildUDiv(e->b, i, size, "");
  LoopSet outer = ((LoopSet)1 << e->k->nouter) - 1;
  gpu_decode(g, int_add(e, g->from, unit), g->plan.narrow, outer, g->count, e->counter);
  if (!g->plan.blocked) {
    item(g, 0);
    return;
  }
  int l = e->k->vector, together = unit_together(g);
  LLVMValueRef block = int_mul(e, e->counter[l], i64_of(e, e->k->block));
  LLVMValueRef rest = int_mul(e, LLVMBuildURem(e->b, i, size, ""), i64_of(e, together));
  e->counter[l] = int_add(e, block, rest);
  LLVMBasicBlockRef done = if_begin(e, int_less(e, e->counter[l], e->extent[l]));
  if (together > 1)
    neighbours(g, e->counter[l], -1, item);
  else
    item(g, 0);
  if_end(e, done);
}

// Emits the number of the thread's team in its block.
static LLVMValueRef team_number(GpuEmit *g) {
  switch (g->plan.team) {
  case TEAM_THREAD: return g->thread;
  case TEAM_WARP: return right_by(&g->e, g->thread, 5);
  default: return keep_bits(&g->e, g->thread, g->plan.columns - 1);
  }
}

void gpu_items(GpuEmit *g) {
  Emit *e = &g->e;
  gpu_entry_statements(g);
  int teams = g->threads / gpu_plan_team(&g->plan);
  LLVMValueRef first = team_number(g);
  LLVMValueRef n = int_mul(e, int_sub(e, g->to, g->from), i64_of(e, unit_items(g)));
  if (g->part) {
    LLVMValueRef before = int_mul(e, g->part, i64_of(e, teams));
    first = int_add(e, before, first);
    n = int_add(e, before, i64_of(e, teams));
  }
  EmitLoop l = loop_begin(e, first, n, i64_of(e, teams));
  numbered_item(g, l.var);
  loop_end(e, &l);
}
#endif
