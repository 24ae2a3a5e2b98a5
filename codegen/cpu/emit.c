// A kernel's function: phases, loops, guards (units and register tiles: emit_units.c).
//
//   SYMBOL(call, lo, hi):  entry: pointers, extents, statements that depend on no loop
//     counters of the outer loops from lo (the only divisions)
//     for units lo..hi-1:  addresses; statements of the unit
//       [vector loop outer: for tiles of vecs x lanes elements of the block, then for the masked rest]
//       for each phase: OUTER statements, inner loops around INNER statements, ends of reductions
//     accumulators to the partial row
#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <math.h>
#include <string.h>

enum { ZERO_BYTES = 4096 };

// -- blocks, loops, masks -----------------------------------------------------------------------

LLVMBasicBlockRef emit_block(Emit *e) { return LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""); }

EmitLoop loop_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
  EmitLoop l = {emit_block(e), emit_block(e), NULL, to, step};
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, from, to, ""), l.head, l.done);
  LLVMPositionBuilderAtEnd(e->b, l.head);
  l.var = LLVMBuildPhi(e->b, e->i64, "");
  LLVMAddIncoming(l.var, &from, &before, 1);
  return l;
}

void loop_end(Emit *e, const EmitLoop *l) {
  LLVMValueRef next = LLVMBuildNSWAdd(e->b, l->var, l->step, "");
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMAddIncoming(l->var, &next, &here, 1);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, l->to, ""), l->head, l->done);
  LLVMPositionBuilderAtEnd(e->b, l->done);
}

Blocks blocks_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t step) {
  Blocks b = {.many = step > 0, .from = from, .to = to};
  if (!b.many) return b;
  b.loop = loop_begin(e, from, to, i64_of(e, step));
  b.from = b.loop.var;
  LLVMValueRef end = LLVMBuildAdd(e->b, b.from, b.loop.step, "");
  b.to = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, end, to, ""), end, to, "");
  return b;
}

void blocks_end(Emit *e, const Blocks *b) {
  if (b->many) loop_end(e, &b->loop);
}

void emit_mask(Emit *e, LLVMValueRef left) {
  LLVMValueRef lanes = i64_of(e, e->plan.lanes);
  LLVMValueRef short_ = LLVMBuildICmp(e->b, LLVMIntSLT, left, lanes, "");
  e->last_active = LLVMBuildSelect(e->b, short_, left, lanes, "");
  LLVMValueRef n = emit_splat(e, LLVMBuildTrunc(e->b, e->last_active, e->i32, ""));
  e->last_mask = LLVMBuildICmp(e->b, LLVMIntULT, const_lanes(e, e->i32, 1), n, "");
  e->mask = e->last_mask;
  e->active = e->last_active;
}

void emit_mask_off(Emit *e) { e->mask = e->active = e->last_mask = e->last_active = NULL; }

// Only the last vector of a tile is short.
static void instance_mask(Emit *e, int v) {
  bool last = v == e->vecs - 1;
  e->mask = last ? e->last_mask : NULL;
  e->active = last ? e->last_active : NULL;
}

// -- statements ---------------------------------------------------------------------------------

// Instances of a statement with an effect: all that its operands or its target tell apart.
static int effect_rows(const Emit *e, const KStmt *s, int id) {
  if (s->kind == K_ACCUM || e->k->rows < 0) return e->rows;
  if (s->kind == K_SCATTER) return e->rows;
  bool moves = s->kind == K_STORE && e->k->ptr[s->index].stride[e->k->rows] != 0;
  return moves || depends(e, id, e->k->rows) ? e->rows : 1;
}

static int effect_vecs(const Emit *e, const KStmt *s, int id) {
  if (!e->in_vector) return 1;
  if (s->kind == K_ACCUM || s->kind == K_SCATTER) return e->vecs;
  if (s->kind == K_STORE) return e->k->ptr[s->index].stride[e->k->vector] != 0 ? e->vecs : 1;
  return !e->plan.vec_outer || depends(e, id, e->k->vector) ? e->vecs : 1;
}

static void emit_effect(Emit *e, int id) {
  const KStmt *s = &e->k->stmt[id];
  int rows = effect_rows(e, s, id), vecs = effect_vecs(e, s, id);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) {
      instance_mask(e, v);
      if (s->kind == K_REDUCE) emit_reduce(e, id, r, v);
      if (s->kind == K_ACCUM) emit_accum(e, id, r, v);
      if (s->kind == K_STORE) emit_store(e, s, r, v);
      if (s->kind == K_SCATTER) emit_scatter(e, s, r, v);
    }
}

static LLVMValueRef emit_num(Emit *e, const KStmt *s) {
  if (s->step == NUMBER_ZERO) return LLVMConstNull(reg_type(e, s->type));
  if (s->step != NUMBER_ANY)
    return const_real(reg_type(e, s->type),
                      s->step == NUMBER_LEAST ? -(double)INFINITY : (double)INFINITY);
  LLVMValueRef n = i64_of(e, s->index), at = LLVMBuildGEP2(e->b, e->f64, e->nums, &n, 1, "");
  return emit_coerce(e, LLVMBuildLoad2(e->b, e->f64, at, ""), TYPE_F64, s->type);
}

static LLVMValueRef emit_value(Emit *e, const KStmt *s, int r, int v) {
  switch (s->kind) {
  case K_NUM: return emit_num(e, s);
  case K_LOAD:
  case K_LOAD_AT: return emit_load(e, s, r, v);
  case K_OP: return emit_op(e, s, r, v);
  case K_POSITION: return emit_position(e, s, r, v);
  case K_QUOTIENT: return emit_quotient(e, s, r, v);
  case K_INSIDE: return emit_inside(e, s, r, v);
  case K_REDUCE:
  case K_ACCUM:
  case K_STORE:
  case K_SCATTER: break;
  }
  BUG("kernel %s: statement %d has no value", e->k->name, (int)(s - e->k->stmt));
}

static void emit_stmt(Emit *e, int id) {
  const KStmt *s = &e->k->stmt[id];
  if (s->kind == K_REDUCE || s->kind == K_ACCUM || s->kind == K_STORE || s->kind == K_SCATTER) {
    emit_effect(e, id);
    return;
  }
  int rows = depends(e, id, e->k->rows) ? e->rows : 1,
      vecs = depends(e, id, e->k->vector) ? e->vecs : 1;
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) {
      instance_mask(e, v);
      e->value[id * TILE + r * TILE_VECS + v] = emit_value(e, s, r, v);
    }
}

void emit_statements(Emit *e, int place, int phase) {
  for (int id = 0; id < e->k->nstmts; id++)
    if (e->plan.place[id] == place && (place <= PLACE_UNIT || e->k->stmt[id].phase == phase))
      emit_stmt(e, id);
}

// -- inner loops --------------------------------------------------------------------------------

static size_t addresses(const Emit *e) { return (size_t)e->k->nptr * (1 + TILE_ROWS); }

LLVMValueRef *addresses_save(Emit *e) {
  return arena_copy(e->arena, e->addr, addresses(e) * sizeof *e->addr);
}

static void advance_rows(Emit *e, int p, LLVMValueRef off) {
  for (int r = 0; r < TILE_ROWS; r++) {
    LLVMValueRef *at = row_address(e, p, r);
    if (*at) *at = LLVMBuildGEP2(e->b, mem_type(e, e->k->ptr[p].type), *at, &off, 1, "");
  }
}

LLVMValueRef *enter_loop(Emit *e, int l, LLVMValueRef counter) {
  LLVMValueRef *saved = addresses_save(e);
  for (int p = 0; p < e->k->nptr; p++) {
    int64_t stride = e->k->ptr[p].stride[l];
    if (stride == 0) continue;
    LLVMValueRef off = LLVMBuildMul(e->b, counter, i64_of(e, stride), "");
    e->addr[p] = LLVMBuildGEP2(e->b, mem_type(e, e->k->ptr[p].type), e->addr[p], &off, 1, "");
    advance_rows(e, p, off);
  }
  e->counter[l] = counter;
  return saved;
}

void leave_loop(Emit *e, LLVMValueRef *saved) {
  memcpy(e->addr, saved, addresses(e) * sizeof *saved);
}

// Whole tiles from..to, in blocks where sums are folded.
static void vector_tiles(Emit *e, LLVMValueRef from, LLVMValueRef to, Body *body, int phase) {
  int l = e->k->vector, place = e->plan.vec_outer ? FOLD_VECTOR : FOLD_LOOP + l - e->k->nouter;
  int64_t tile = (int64_t)e->plan.lanes * e->vecs, step = fold_step(e, place, phase);
  Blocks b = blocks_begin(e, from, to, step * tile);
  EmitLoop main = loop_begin(e, b.from, b.to, i64_of(e, tile));
  LLVMValueRef *saved = enter_loop(e, l, main.var);
  body(e, phase);
  leave_loop(e, saved);
  loop_end(e, &main);
  if (step) fold_now(e, place, phase);
  blocks_end(e, &b);
}

void vector_loop(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t span, Body *body, int phase) {
  int l = e->k->vector, lanes = e->plan.lanes, vecs = e->vecs;
  int64_t tile = (int64_t)lanes * vecs;
  LLVMValueRef whole = LLVMBuildSub(e->b, to, from, ""), middle = from;
  e->in_vector = true;
  if (span < 0 || span >= tile) {
    LLVMValueRef rest = LLVMBuildURem(e->b, whole, i64_of(e, tile), "");
    middle = LLVMBuildSub(e->b, to, rest, "");
    vector_tiles(e, from, middle, body, phase);
  }
  if (span >= 0 && e->k->rows >= 0 && span % tile != 0) {
    e->vecs = (int)ceil_div(span % tile, lanes);
    LLVMValueRef *saved = enter_loop(e, l, middle);
    if (span % lanes != 0) emit_mask(e, i64_of(e, span % lanes));
    body(e, phase);
    emit_mask_off(e);
    leave_loop(e, saved);
    e->vecs = vecs;
  } else if (span < 0 || span % tile != 0) {
    e->vecs = 1;
    EmitLoop rest = loop_begin(e, middle, to, i64_of(e, lanes));
    LLVMValueRef *saved = enter_loop(e, l, rest.var);
    if (span < 0 || span % lanes != 0) emit_mask(e, LLVMBuildSub(e->b, to, rest.var, ""));
    body(e, phase);
    emit_mask_off(e);
    leave_loop(e, saved);
    loop_end(e, &rest);
    e->vecs = vecs;
  }
  e->in_vector = false;
}

static int64_t fixed_extent(const KLoop *l) { return l->slot < 0 ? l->size : -1; }

static void inner_loops(Emit *e, int i, int phase);

// -- guards -------------------------------------------------------------------------------------
// Where guards of loads are the same in all lanes, the body is emitted twice: without them for the
// rounds in which all hold, which are most. Where nothing would be added to any reduction unless
// they hold, once: other rounds are left out.

static bool is_guard_use(const Emit *e, int id, int phase) {
  return e->k->stmt[id].phase == phase && load_is_guarded(e->k, &e->plan, id) &&
         e->plan.place[id] >= PLACE_LOOP;
}

// All guards of loads in this phase, of all instances; NULL: there are none here.
static LLVMValueRef guards_hold(Emit *e, int phase) {
  LLVMValueRef all = NULL;
  for (int id = 0; id < e->k->nstmts; id++) {
    if (!is_guard_use(e, id, phase)) continue;
    int guard = e->k->stmt[id].arg[1], rows = depends(e, guard, e->k->rows) ? e->rows : 1;
    for (int r = 0; r < rows; r++) {
      LLVMValueRef g = value_at(e, guard, r, 0);
      all = all ? LLVMBuildAnd(e->b, all, g, "") : g;
    }
  }
  return all;
}

// In what follows guards are known to hold, until values are put back as they were.
static LLVMValueRef *guards_known(Emit *e, int phase) {
  size_t n = (size_t)e->k->nstmts * TILE;
  LLVMValueRef *saved = arena_copy(e->arena, e->value, n * sizeof *saved);
  for (int id = 0; id < e->k->nstmts; id++)
    for (int i = 0; i < TILE && is_guard_use(e, id, phase); i++)
      e->value[e->k->stmt[id].arg[1] * TILE + i] = LLVMConstInt(e->i1, 1, false);
  return saved;
}

// Bytes that load s runs over in inner loops i.., 0: runs backwards, or along vectors.
static int64_t run_bytes(const Emit *e, const KStmt *s, int i) {
  const KPtr *p = &e->k->ptr[s->index];
  int64_t n = 1;
  if (s->kind != K_LOAD || p->stride[e->k->vector] != 0) return 0;
  for (int l = e->k->nouter + i; l < e->k->nouter + e->k->ninner; l++) {
    if (p->stride[l] < 0 || e->k->loop[l].size == 0) return 0;
    n += (e->k->loop[l].size - 1) * p->stride[l];
  }
  return n * dtype_bytes(p->type);
}

static bool is_shared(const Emit *e, int id) {
  for (int j = 0; j < e->k->nstmts; j++) {
    const KStmt *s = &e->k->stmt[j];
    if (j != id && (s->kind == K_LOAD || s->kind == K_LOAD_AT) && s->index == e->k->stmt[id].index)
      return true;
  }
  return false;
}

// In inner loops i.. rows whose guard is false read zeros, so that no load there needs to ask.
static void rows_of_zeros(Emit *e, int i, int phase) {
  if (e->slab && i < e->plan.slab_loop) i = e->plan.slab_loop;
  for (int id = 0; id < e->k->nstmts && e->rows > 1; id++) {
    const KStmt *s = &e->k->stmt[id];
    if (!is_guard_use(e, id, phase) || is_shared(e, id)) continue;
    int64_t bytes = run_bytes(e, s, i);
    if (bytes == 0 || bytes > ZERO_BYTES) continue;
    for (int r = 0; r < e->rows; r++) {
      LLVMValueRef off = i64_of(e, r * e->k->ptr[s->index].stride[e->k->rows]);
      LLVMValueRef at = LLVMBuildGEP2(e->b, mem_type(e, e->k->ptr[s->index].type),
                                      e->addr[s->index], &off, 1, "");
      *row_address(e, s->index, r) =
          LLVMBuildSelect(e->b, value_at(e, s->arg[1], r, 0), at, e->zeros, "");
    }
  }
}

static void emit_twice(Emit *e, int i, int phase, void (*rest)(Emit *e, int i, int phase)) {
  LLVMBasicBlockRef guards_hold_here = emit_block(e), unsure = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, guards_hold(e, phase), guards_hold_here, unsure);
  LLVMPositionBuilderAtEnd(e->b, guards_hold_here);
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

// Rows left over from register tiles are few.
static bool splits_at(const Emit *e, int place, int phase) {
  return (e->rows > 1 || e->k->rows < 0) && !e->guards_hold_here &&
         guards_place(e->k, &e->plan, phase) == place;
}

// Statements of that place that guards need, or (rest) the others.
static void emit_part(Emit *e, int place, int phase, bool rest) {
  bool *needed = arena_array(e->arena, bool, e->k->nstmts + 1);
  for (int id = e->k->nstmts - 1; id >= 0; id--) {
    const KStmt *s = &e->k->stmt[id];
    if (load_is_guarded(e->k, &e->plan, id)) needed[s->arg[1]] = true;
    for (int j = 0; j < 3 && needed[id]; j++)
      if (s->arg[j] != NO_STMT) needed[s->arg[j]] = true;
  }
  for (int id = 0; id < e->k->nstmts; id++)
    if (e->plan.place[id] == place && e->k->stmt[id].phase == phase && needed[id] != rest)
      emit_stmt(e, id);
}

static void body_rest(Emit *e, int i, int phase) { emit_part(e, PLACE_LOOP + i, phase, true); }

static void innermost_body(Emit *e, int phase) {
  int i = e->k->ninner - 1;
  if (!splits_at(e, PLACE_LOOP + i, phase)) {
    emit_statements(e, PLACE_LOOP + i, phase);
    return;
  }
  emit_part(e, PLACE_LOOP + i, phase, false);
  emit_twice(e, i, phase, body_rest);
}

// Inside what loop i - 1 has of this phase.
static void after_place(Emit *e, int i, int phase) {
  if (splits_at(e, PLACE_LOOP + i - 1, phase))
    emit_twice(e, i, phase, inner_loops);
  else
    inner_loops(e, i, phase);
}

static void inner_loops(Emit *e, int i, int phase) {
  const Kernel *k = e->k;
  int l = k->nouter + i;
  if (e->slab && i < e->plan.slab_loop) {
    emit_statements(e, PLACE_LOOP + i, phase);
    after_place(e, i + 1, phase);
    return;
  }
  if (l == k->vector) {
    vector_loop(e, i64_of(e, 0), e->extent[l], fixed_extent(&k->loop[l]), innermost_body, phase);
    return;
  }
  bool part = e->slab && i == e->plan.slab_loop;
  int64_t step = fold_step(e, FOLD_LOOP + i, phase);
  Blocks all = blocks_begin(e, part ? e->slab_from : i64_of(e, 0), part ? e->slab_to : e->extent[l],
                            fold_period(e, FOLD_LOOP + i, phase));
  Blocks b = blocks_begin(e, all.from, all.to, step);
  EmitLoop loop = loop_begin(e, b.from, b.to, i64_of(e, 1));
  LLVMValueRef *saved = enter_loop(e, l, loop.var);
  if (i + 1 == k->ninner)
    innermost_body(e, phase);
  else {
    emit_statements(e, PLACE_LOOP + i, phase);
    after_place(e, i + 1, phase);
  }
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
  int guards = guards_place(e->k, &e->plan, phase);
  if (has_inner(e, phase) && guards >= 0 && guards < PLACE_LOOP && (e->rows > 1 || e->k->rows < 0))
    emit_twice(e, 0, phase, inner_loops);
  else if (has_inner(e, phase))
    inner_loops(e, 0, phase);
}

// -- functions ----------------------------------------------------------------------------------

static void emit_types(Emit *e) {
  e->i1 = LLVMInt1TypeInContext(e->ctx);
  e->i8 = LLVMInt8TypeInContext(e->ctx);
  e->i16 = LLVMInt16TypeInContext(e->ctx);
  e->i32 = LLVMInt32TypeInContext(e->ctx);
  e->i64 = LLVMInt64TypeInContext(e->ctx);
  e->f16 = LLVMHalfTypeInContext(e->ctx);
  e->f32 = LLVMFloatTypeInContext(e->ctx);
  e->f64 = LLVMDoubleTypeInContext(e->ctx);
  e->ptr = LLVMPointerTypeInContext(e->ctx, 0);
  e->none = LLVMVoidTypeInContext(e->ctx);
}

static void add_attribute(Emit *e, const char *key, const char *value) {
  LLVMAttributeRef a =
      LLVMCreateStringAttribute(e->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex, a);
}

static void add_flag(Emit *e, const char *name) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(e->ctx, kind, 0));
}

// void name(ptr call, i64 x n), its first blocks, the builder at the second.
static void function_begin(Emit *e, const char *name, int n) {
  LLVMTypeRef params[3] = {e->ptr, e->i64, e->i64};
  e->fn =
      LLVMAddFunction(e->module, name, LLVMFunctionType(e->none, params, (unsigned)n + 1, false));
  const char *bits = arena_printf(e->arena, "%d", e->target->bits);
  add_attribute(e, "prefer-vector-width", bits);
  add_attribute(e, "min-legal-vector-width", bits);
  add_attribute(e, "no-builtins", "true");
  add_flag(e, "nounwind");
  e->allocas = emit_block(e);
  LLVMPositionBuilderAtEnd(e->b, emit_block(e));
  e->call = LLVMGetParam(e->fn, 0);
  emit_mask_off(e);
  e->in_vector = false;
  e->rows = e->vecs = 1;
}

static void function_end(Emit *e) {
  LLVMBuildRetVoid(e->b);
  LLVMPositionBuilderAtEnd(e->b, e->allocas);
  LLVMBuildBr(e->b, LLVMGetNextBasicBlock(e->allocas));
}

// Field number i of the call: they are all eight bytes.
static LLVMValueRef field(Emit *e, LLVMTypeRef t, int i) {
  LLVMValueRef at = i64_of(e, i);
  return LLVMBuildLoad2(e->b, t, LLVMBuildGEP2(e->b, e->i64, e->call, &at, 1, ""), "");
}

static LLVMValueRef slot_value(Emit *e, int slot) {
  LLVMValueRef at = i64_of(e, slot);
  return LLVMBuildLoad2(e->b, e->i64, LLVMBuildGEP2(e->b, e->i64, e->slots, &at, 1, ""), "");
}

// The element number at counters 0.
static LLVMValueRef walk_start(Emit *e, const KPtr *p) {
  LLVMValueRef at = i64_of(e, p->offset);
  for (int i = 0; i < p->nbases; i++) {
    LLVMValueRef off =
        LLVMBuildMul(e->b, slot_value(e, p->base[i].slot), i64_of(e, p->base[i].stride), "");
    at = LLVMBuildAdd(e->b, at, off, "");
  }
  return at;
}

static void load_pointers(Emit *e) {
  LLVMValueRef table = field(e, e->ptr, 0);
  for (int p = 0; p < e->k->nptr; p++) {
    const KPtr *kp = &e->k->ptr[p];
    LLVMValueRef at = i64_of(e, p);
    e->start[p] = e->base[p] =
        LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->ptr, table, &at, 1, ""), "");
    if (!kp->nbases && !kp->offset) continue;
    LLVMValueRef off = walk_start(e, kp);
    e->base[p] = LLVMBuildGEP2(e->b, mem_type(e, kp->type), e->base[p], &off, 1, "");
  }
  for (int w = 0; w < e->k->nwalks; w++) e->walk[w] = walk_start(e, &e->k->walk[w]);
  memcpy(e->addr, e->base, sizeof *e->base * e->k->nptr);
}

static void load_call(Emit *e) {
  e->slots = field(e, e->ptr, 1);
  e->nums = field(e, e->ptr, 2);
  e->partial = field(e, e->ptr, 3);
  e->status = field(e, e->ptr, 4);
  load_pointers(e);
  for (int l = 0; l < e->k->nouter + e->k->ninner; l++) {
    const KLoop *kl = &e->k->loop[l];
    e->extent[l] = kl->slot < 0 ? i64_of(e, kl->size) : slot_value(e, kl->slot);
  }
}

// Memory for rows_of_zeros, if some load has a guard.
static void zeros_make(Emit *e) {
  bool any = false;
  for (int id = 0; id < e->k->nstmts && e->k->rows >= 0 && e->plan.rows > 1; id++)
    any |= load_is_guarded(e->k, &e->plan, id);
  if (!any) return;
  LLVMTypeRef vector = LLVMVectorType(e->i64, 8);
  e->zeros = emit_alloca(e, LLVMArrayType2(vector, ZERO_BYTES / 64));
  EmitLoop l = loop_begin(e, i64_of(e, 0), i64_of(e, ZERO_BYTES / 64), i64_of(e, 1));
  LLVMBuildStore(e->b, LLVMConstNull(vector), LLVMBuildGEP2(e->b, vector, e->zeros, &l.var, 1, ""));
  loop_end(e, &l);
}

static void emit_run(Emit *e, const char *symbol) {
  function_begin(e, symbol, 2);
  LLVMValueRef lo = LLVMGetParam(e->fn, 1), hi = LLVMGetParam(e->fn, 2);
  load_call(e);
  cells_make(e);
  accum_begin(e);
  LLVMBasicBlockRef some = emit_block(e), end = emit_block(e);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, lo, hi, ""), some, end);
  LLVMPositionBuilderAtEnd(e->b, some);
  zeros_make(e);
  emit_statements(e, PLACE_ENTRY, 0);
  emit_units(e, lo, hi);
  LLVMBuildBr(e->b, end);
  LLVMPositionBuilderAtEnd(e->b, end);
  accum_end(e);
  function_end(e);
}

void emit_kernel(LLVMModuleRef module, const Kernel *k, const char *symbol, const EmitTarget *t) {
  Arena *a = arena_new();
  Emit e = {.arena = a, .k = k, .target = t, .plan = cpu_plan_make(a, k, t), .module = module};
  e.ctx = LLVMGetModuleContext(module);
  e.b = LLVMCreateBuilderInContext(e.ctx);
  e.start = arena_array(a, LLVMValueRef, k->nptr + 1);
  e.base = arena_array(a, LLVMValueRef, k->nptr + 1);
  e.walk = arena_array(a, LLVMValueRef, k->nwalks + 1);
  e.addr = arena_array(a, LLVMValueRef, (k->nptr + 1) * (1 + TILE_ROWS));
  e.cell = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  e.middle = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  e.total = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  e.leaves = arena_array(a, LLVMValueRef, k->nstmts + 1);
  e.value = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  emit_types(&e);
  emit_run(&e, symbol);
  if (accum_offset(k, k->nstmts) > 0) {
    function_begin(&e, arena_printf(a, "%s_combine", symbol), 1);
    load_call(&e);
    emit_combine(&e);
    function_end(&e);
  }
  LLVMDisposeBuilder(e.b);
  arena_free(a);
}
#endif
