// The loop nest of one unit, a round of the outer loops, or of a tile of several units. In: a
// kernel and its CpuPlan. Out: LLVM IR in the current function.
//
// A phase is one pass over the inner loops. A tile is a number of rounds of an outer loop, the
// rows, by a number of vectors of the vector loop; they run together. Its code is a body. Other
// words: emit_internal.h.
//
//   for each phase: statements outside of the inner loops
//                   inner loops around the other statements
//                   reductions become values
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <string.h>

// -- statements ---------------------------------------------------------------------------------

// Sets which lanes are in use for vector v of the tile. All lanes are, except in the last vector of
// the tile.
static void instance_mask(Emit *e, int v) {
  bool last = v == e->vecs - 1;
  e->mask = last ? e->last_mask : NULL;
  e->active = last ? e->last_active : NULL;
}

// Returns whether s adds to memory. Such a statement is emitted for every row and vector of a tile,
// even if the added value is equal in several of them.
static bool repeats(const KStmt *s) { return s->kind == K_ACCUM || s->kind == K_SCATTER; }

// Returns for how many rows of the tile statement s is emitted: 1 if its value is equal in all
// rows. stmt_vecs returns the same number for the vectors of a row.
static int stmt_rows(const Emit *e, const KStmt *s, int id) {
  return repeats(s) || depends(e, id, e->k->rows) ? e->rows : 1;
}
static int stmt_vecs(const Emit *e, const KStmt *s, int id) {
  bool all = repeats(s) || (s->kind == K_REDUCE && vector_is_inner(e));
  return e->in_vector && (all || depends(e, id, e->k->vector)) ? e->vecs : 1;
}

static void emit_instance(Emit *e, int id, int r, int v) {
  const KStmt *s = &e->k->stmt[id];
  LLVMValueRef *value = &e->value[instance_id(id, r, v)];
  switch (s->kind) {
  case K_NUM: *value = known_number(e, s); return;
  case K_LOAD:
  case K_LOAD_AT: *value = emit_load(e, s, r, v); return;
  case K_OP: *value = emit_op(e, s, r, v); return;
  case K_POSITION: *value = emit_position(e, s, r, v); return;
  case K_QUOTIENT: *value = emit_quotient(e, s, r, v); return;
  case K_INSIDE: *value = emit_inside(e, s, r, v); return;
  case K_REDUCE: emit_reduce(e, id, r, v); return;
  case K_ACCUM: emit_accum(e, id, r, v); return;
  case K_STORE: emit_store(e, s, r, v); return;
  case K_SCATTER: emit_scatter(e, s, r, v); return;
  case K_DOT: break; // in kernels for GPUs only
  }
  BUG("kernel %s: a statement of kind %d", e->k->name, (int)s->kind);
}

// Returns the address of the elements of a row for vector v of a tile. `id` is the statement whose
// values the row keeps for later phases.
static LLVMValueRef kept_at(Emit *e, int id, int v) {
  const KLoop *l = &e->k->loop[e->k->vector];
  Dtype t = e->k->stmt[id].type;
  int64_t lanes = e->plan.lanes;
  if (!e->row[id]) e->row[id] = scratch_make(e, t, ceil_div(l->size, lanes) * lanes);
  return emit_at(e, reg_type(e, t), e->row[id], counter_at(e, e->k->vector, 0, v));
}

// Emits vector v of statement `id`, for row r of a tile, whose values may be kept in a row from one
// phase to later ones. Rows consist of full vectors, so that they need no mask.
static void emit_or_keep(Emit *e, int id, int r, int v) {
  const KernelRows *kept = &e->plan.kept;
  LLVMValueRef *value = &e->value[instance_id(id, r, v)];
  if (kept->use[id] == ROW_LOADED)
    *value = emit_read(e, reg_shape(e, e->k->stmt[id].type, true), kept_at(e, kept->from[id], v));
  else
    emit_instance(e, id, r, v);
  if (kept->use[id] == ROW_KEPT) LLVMBuildStore(e->b, *value, kept_at(e, id, v));
}

void emit_stmt(Emit *e, int id) {
  const KStmt *s = &e->k->stmt[id];
  if (e->plan.kept.use[id] == ROW_UNUSED) return;
  int rows = stmt_rows(e, s, id), vecs = stmt_vecs(e, s, id);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) {
      instance_mask(e, v);
      emit_or_keep(e, id, r, v);
    }
}

static bool is_at(const Emit *e, int id, int place, int phase) {
  return e->plan.place[id] == place && (place <= PLACE_UNIT || e->k->stmt[id].phase == phase);
}

void emit_statements(Emit *e, int place, int phase) {
  for (int id = 0; id < e->k->nstmts; id++)
    if (is_at(e, id, place, phase)) emit_stmt(e, id);
}

// -- addresses ----------------------------------------------------------------------------------

static size_t addresses(const Emit *e) { return (size_t)e->k->nptr * (1 + TILE_ROWS); }

LLVMValueRef *addresses_save(Emit *e) {
  return arena_copy(e->arena, e->addr, addresses(e) * sizeof *e->addr);
}

LLVMValueRef *enter_loop(Emit *e, int l, LLVMValueRef counter) {
  LLVMValueRef *saved = addresses_save(e);
  for (int p = 0; p < e->k->nptr; p++) {
    const KPtr *ptr = &e->k->ptr[p];
    if (ptr->stride[l] == 0) continue;
    LLVMTypeRef t = mem_type(e, ptr->type);
    LLVMValueRef off = int_mul(e, counter, i64_of(e, ptr->stride[l]));
    e->addr[p] = emit_at(e, t, e->addr[p], off);
    for (int r = 0; r < TILE_ROWS; r++) {
      LLVMValueRef *at = row_address(e, p, r);
      if (*at) *at = emit_at(e, t, *at, off);
    }
  }
  e->counter[l] = counter;
  return saved;
}

void leave_loop(Emit *e, LLVMValueRef *saved) {
  memcpy(e->addr, saved, addresses(e) * sizeof *saved);
}

// -- the vector loop ----------------------------------------------------------------------------

// Emits the body of a tile that begins at element `at` of the vector loop, which ends at `to`.
// left: number of lanes in use of the tile's last vector; 0: all lanes; -1: the lanes before `to`.
static void vector_body(Emit *e, LLVMValueRef at, LLVMValueRef to, int64_t left, Body *body,
                        int phase) {
  LLVMValueRef *saved = enter_loop(e, e->k->vector, at);
  if (left) emit_mask(e, left > 0 ? i64_of(e, left) : int_sub(e, to, at));
  body(e, phase);
  emit_mask_off(e);
  leave_loop(e, saved);
}

// Emits a loop over the full tiles in from..to. If sums are folded along this loop, it becomes two
// loops, over blocks and within a block, and the sums are folded after each block.
static void vector_tiles(Emit *e, LLVMValueRef from, LLVMValueRef to, Body *body, int phase) {
  int place = e->plan.vec_outer ? FOLD_VECTOR : FOLD_LOOP + e->k->vector - e->k->nouter;
  int64_t tile = (int64_t)e->plan.lanes * e->vecs, step = fold_most(e, place, phase)->step;
  Blocks b = blocks_begin(e, from, to, step * tile);
  EmitLoop main = loop_begin(e, b.from, b.to, i64_of(e, tile));
  vector_body(e, main.var, to, 0, body, phase);
  loop_end(e, &main);
  if (step) fold_now(e, place, phase);
  blocks_end(e, &b);
}

void vector_loop(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t span, Body *body, int phase) {
  int lanes = e->plan.lanes, vecs = e->vecs;
  int64_t tile = (int64_t)lanes * vecs;
  LLVMValueRef length = int_sub(e, to, from), middle = from;
  e->in_vector = true;
  if (span < 0 || span >= tile) {
    LLVMValueRef rest = LLVMBuildURem(e->b, length, i64_of(e, tile), "");
    middle = int_sub(e, to, rest);
    vector_tiles(e, from, middle, body, phase);
  }
  // what is left over is one tile of fewer vectors
  if (span >= 0 && e->k->rows >= 0 && span % tile != 0) {
    e->vecs = (int)ceil_div(span % tile, lanes);
    vector_body(e, middle, to, span % lanes, body, phase);
  } else if (span < 0 || span % tile != 0) {
    e->vecs = 1;
    EmitLoop rest = loop_begin(e, middle, to, i64_of(e, lanes));
    vector_body(e, rest.var, to, span < 0 || span % lanes != 0 ? -1 : 0, body, phase);
    loop_end(e, &rest);
  }
  e->vecs = vecs;
  e->in_vector = false;
}

static void inner_loops(Emit *e, int i, int phase);

// -- guards -------------------------------------------------------------------------------------
//
// A load of a window has a guard: whether its position is inside the tensor. If the guards are
// equal in all lanes, the body is emitted twice. One copy has no guards, for rounds in which all
// guards are true; the other copy has them. The other copy is left out if a false guard changes no
// reduction.

// Emits whether the guards of all loads are true, in all rows of the tile. The guard of a load is a
// bool: whether its position is inside the tensor. Only loads for which is_guard_use is true count.
static LLVMValueRef guards_hold(Emit *e, int phase) {
  LLVMValueRef all = NULL;
  for (int id = 0; id < e->k->nstmts; id++) {
    if (!is_guard_use(e->k, &e->plan, id, phase)) continue;
    int guard = e->k->stmt[id].arg[1], rows = depends(e, guard, e->k->rows) ? e->rows : 1;
    for (int r = 0; r < rows; r++) {
      LLVMValueRef g = value_at(e, guard, r, 0);
      all = all ? bit_and(e, all, g) : g;
    }
  }
  return all;
}

// Sets the guards (bool arguments of loads) in Emit.value to the constant true, for code that runs
// only where they are true. Returns a copy of the previous Emit.value.
static LLVMValueRef *guards_known(Emit *e, int phase) {
  size_t n = (size_t)e->k->nstmts * TILE;
  LLVMValueRef *saved = arena_copy(e->arena, e->value, n * sizeof *saved);
  for (int id = 0; id < e->k->nstmts; id++)
    for (int i = 0; i < TILE && is_guard_use(e->k, &e->plan, id, phase); i++)
      e->value[e->k->stmt[id].arg[1] * TILE + i] = LLVMConstInt(e->i1, 1, false);
  return saved;
}

// Returns the bytes from the first to the last element that load s reads during inner loop i and
// the loops inside it. Returns 0 if a stride is negative, a size is not known, or s reads vectors.
static int64_t covered_bytes(const Emit *e, const KStmt *s, int i) {
  const KPtr *p = &e->k->ptr[s->index];
  int64_t n = 1;
  if (s->kind != K_LOAD || p->stride[e->k->vector] != 0) return 0;
  for (int l = e->k->nouter + i; l < e->k->nouter + e->k->ninner; l++) {
    if (p->stride[l] < 0 || e->k->loop[l].size == 0) return 0;
    n += (e->k->loop[l].size - 1) * p->stride[l];
  }
  return n * dtype_bytes(p->type);
}

// Returns whether another load reads through the pointer of load `id`. The two loads may read under
// different conditions.
static bool is_shared(const Emit *e, int id) {
  for (int j = 0; j < e->k->nstmts; j++) {
    const KStmt *s = &e->k->stmt[j];
    if (j != id && (s->kind == K_LOAD || s->kind == K_LOAD_AT) && s->index == e->k->stmt[id].index)
      return true;
  }
  return false;
}

// Makes the loads of a row read zeros if the row is outside of their tensor: sets its row_address
// to Emit.zeros. Then the loads in inner loop i, and in the loops inside it, need no check.
static void rows_of_zeros(Emit *e, int i, int phase) {
  if (e->slab && i < e->plan.slab_loop) i = e->plan.slab_loop;
  for (int id = 0; id < e->k->nstmts && e->rows > 1; id++) {
    const KStmt *s = &e->k->stmt[id];
    if (!is_guard_use(e->k, &e->plan, id, phase) || is_shared(e, id)) continue;
    int64_t bytes = covered_bytes(e, s, i);
    if (bytes == 0 || bytes > ZERO_BYTES) continue;
    const KPtr *p = &e->k->ptr[s->index];
    for (int r = 0; r < e->rows; r++) {
      LLVMValueRef off = i64_of(e, r * p->stride[e->k->rows]);
      LLVMValueRef at = emit_at(e, mem_type(e, p->type), e->addr[s->index], off);
      *row_address(e, s->index, r) = pick(e, value_at(e, s->arg[1], r, 0), at, e->zeros);
    }
  }
}

// Emits the code of `rest` twice. One copy is for rounds in which all guards (bool arguments of
// loads) are known to be true, the other for all other rounds. The inner loop i is passed to rest.
static void emit_twice(Emit *e, int i, int phase, void (*rest)(Emit *e, int i, int phase)) {
  LLVMBasicBlockRef sure = emit_block(e), unsure = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, guards_hold(e, phase), sure, unsure);
  LLVMPositionBuilderAtEnd(e->b, sure);
  LLVMValueRef *saved = guards_known(e, phase);
  e->guards_hold_here = true;
  rest(e, i, phase);
  e->guards_hold_here = false;
  memcpy(e->value, saved, (size_t)e->k->nstmts * TILE * sizeof *saved);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, unsure);
  LLVMValueRef *addr = addresses_save(e);
  rows_of_zeros(e, i, phase);
  if (!guards_decide(e->k, &e->plan, phase)) rest(e, i, phase);
  leave_loop(e, addr);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

// Returns whether the rest of a phase is emitted twice, with and without guards (bool arguments of
// loads), from `place` on. That is the place where the innermost guard is computed. If a kernel has
// tiles, bodies of one row are emitted once: they run too seldom to be worth more code.
static bool splits_at(const Emit *e, int place, int phase) {
  return (e->rows > 1 || e->k->rows < 0) && !e->guards_hold_here &&
         guards_place(e->k, &e->plan, phase) == place;
}

// Emits the statements of `place` from which guards (bool arguments of loads) are computed. With
// `rest`, emits all other statements of `place` instead.
static void emit_guard_part(Emit *e, int place, int phase, bool rest) {
  bool *needed = arena_array(e->arena, bool, e->k->nstmts + 1);
  for (int id = e->k->nstmts - 1; id >= 0; id--) {
    const KStmt *s = &e->k->stmt[id];
    if (load_is_guarded(e->k, &e->plan, id)) needed[s->arg[1]] = true;
    for (int j = 0; j < 3 && needed[id]; j++)
      if (s->arg[j] != NO_STMT) needed[s->arg[j]] = true;
  }
  for (int id = 0; id < e->k->nstmts; id++)
    if (is_at(e, id, place, phase) && needed[id] != rest) emit_stmt(e, id);
}

static void body_rest(Emit *e, int i, int phase) {
  emit_guard_part(e, PLACE_LOOP + i, phase, true);
}

// -- inner loops --------------------------------------------------------------------------------

// Emits the body of inner loop i, with the loops inside it.
static void loop_body(Emit *e, int i, int phase) {
  bool splits = splits_at(e, PLACE_LOOP + i, phase), innermost = i + 1 == e->k->ninner;
  if (splits && innermost)
    emit_guard_part(e, PLACE_LOOP + i, phase, false);
  else
    emit_statements(e, PLACE_LOOP + i, phase);
  if (splits)
    emit_twice(e, innermost ? i : i + 1, phase, innermost ? body_rest : inner_loops);
  else if (!innermost)
    inner_loops(e, i + 1, phase);
}

static void innermost_body(Emit *e, int phase) { loop_body(e, e->k->ninner - 1, phase); }

// Emits inner loop i of a phase, with the loops inside it. In a slab (a part of the inner loops),
// emit_slabs has opened the loops before CpuPlan.slab_loop. Only their bodies are emitted then.
static void inner_loops(Emit *e, int i, int phase) {
  const Kernel *k = e->k;
  int l = k->nouter + i;
  if (e->slab && i < e->plan.slab_loop) {
    loop_body(e, i, phase);
    return;
  }
  if (l == k->vector) {
    int64_t size = k->loop[l].slot < 0 ? k->loop[l].size : -1;
    vector_loop(e, i64_of(e, 0), e->extent[l], size, innermost_body, phase);
    return;
  }
  bool part = e->slab && i == e->plan.slab_loop;
  int64_t step = fold_most(e, FOLD_LOOP + i, phase)->step;
  Blocks all = blocks_begin(e, part ? e->slab_from : i64_of(e, 0), part ? e->slab_to : e->extent[l],
                            fold_most(e, FOLD_LOOP + i, phase)->period);
  Blocks b = blocks_begin(e, all.from, all.to, step);
  EmitLoop loop = loop_begin(e, b.from, b.to, i64_of(e, 1));
  LLVMValueRef *saved = enter_loop(e, l, loop.var);
  loop_body(e, i, phase);
  leave_loop(e, saved);
  loop_end(e, &loop);
  if (step) fold_now(e, FOLD_LOOP + i, phase);
  blocks_end(e, &b);
  blocks_end(e, &all);
}

static bool has_inner(const Emit *e, int phase) {
  for (int s = 0; s < e->k->nstmts; s++)
    if (e->k->stmt[s].phase == phase && e->plan.place[s] >= PLACE_LOOP) return true;
  return false;
}

void emit_phase(Emit *e, int phase) {
  reduce_begin(e, phase);
  emit_statements(e, PLACE_PHASE, phase);
  if (!has_inner(e, phase)) return;
  int guards = guards_place(e->k, &e->plan, phase);
  if (guards >= 0 && guards < PLACE_LOOP && (e->rows > 1 || e->k->rows < 0))
    emit_twice(e, 0, phase, inner_loops);
  else
    inner_loops(e, 0, phase);
}
#endif
