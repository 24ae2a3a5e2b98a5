// The functions of a kernel: SYMBOL(call, lo, hi) and SYMBOL_combine(call, chunks). In: a Kernel.
// Out: LLVM IR. A unit is one round of the outer loops; a chunk is the units of one call. Other
// words: emit_internal.h.
//
// SYMBOL runs the chunk of units lo..hi-1:
//   load pointers and extents of loops; compute statements that depend on no loop
//   divide lo into counters of the outer loops (the only divisions)
//   for units lo..hi-1: addresses, statements of the unit, its phases (emit_units.c)
//   store accumulators to the partial row, the chunk's memory for results of reductions over units
// SYMBOL_combine joins the partial rows of all chunks (emit_combine.c).
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>
#include <string.h>

#include "ir/program/program.h"

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

// Begins the LLVM function `void name(ptr call, i64, ...)` with n integer parameters. Its first
// block is for allocas (stack memory): LLVM turns only those of the first block into registers.
// Code is emitted to the second block.
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

LLVMValueRef walk_start(Emit *e, const KPtr *p) {
  LLVMValueRef at = i64_of(e, p->offset);
  for (int i = 0; i < p->nbases; i++)
    at = int_add(e, at, int_mul(e, slot_value(e, p->base[i].slot), i64_of(e, p->base[i].stride)));
  return at;
}

static void load_pointers(Emit *e) {
  LLVMValueRef table = call_field(e, e->ptr, offsetof(KernelCall, ptr));
  for (int p = 0; p < e->k->nptr; p++) {
    const KPtr *kp = &e->k->ptr[p];
    e->start[p] = e->base[p] = emit_read(e, e->ptr, emit_at(e, e->ptr, table, i64_of(e, p)));
    if (!kp->nbases && !kp->offset) continue;
    e->base[p] = emit_at(e, mem_type(e, kp->type), e->base[p], walk_start(e, kp));
  }
  for (int w = 0; w < e->k->nwalks; w++) e->walk[w] = walk_start(e, &e->k->walk[w]);
  memcpy(e->addr, e->base, sizeof *e->base * e->k->nptr);
}

static void load_call(Emit *e) {
  e->slots = call_field(e, e->ptr, offsetof(KernelCall, slot));
  e->nums = call_field(e, e->ptr, offsetof(KernelCall, num));
  e->partial = call_field(e, e->ptr, offsetof(KernelCall, partial));
  e->status = call_field(e, e->ptr, offsetof(KernelCall, status));
  load_pointers(e);
  for (int l = 0; l < e->k->nouter + e->k->ninner; l++) {
    const KLoop *kl = &e->k->loop[l];
    e->extent[l] = kl->slot < 0 ? i64_of(e, kl->size) : slot_value(e, kl->slot);
  }
}

// Emits an allocation of Emit.zeros, filled with zeros. A load of a window reads there when it is
// outside of its tensor (rows_of_zeros in emit_nest.c). Does nothing if the kernel has no such load
// or runs one row at a time.
static void zeros_make(Emit *e) {
  bool any = false;
  for (int id = 0; id < e->k->nstmts && e->k->rows >= 0 && e->plan.rows > 1; id++)
    any |= load_is_guarded(e->k, &e->plan, id);
  if (!any) return;
  LLVMTypeRef vector = LLVMVectorType(e->i64, 8);
  e->zeros = emit_alloca(e, LLVMArrayType2(vector, ZERO_BYTES / 64));
  EmitLoop l = loop_to(e, ZERO_BYTES / 64);
  LLVMBuildStore(e->b, LLVMConstNull(vector), emit_at(e, vector, e->zeros, l.var));
  loop_end(e, &l);
}

// Emits a fence if the kernel stores past the caches. Such stores are not ordered with the atomic
// operations by which threads tell each other that a result is there.
static void fence_streams(Emit *e) {
  bool any = false;
  for (int p = 0; p < e->k->nptr; p++) any |= e->k->ptr[p].streamed;
  if (any) LLVMBuildFence(e->b, LLVMAtomicOrderingSequentiallyConsistent, false, "");
}

static LLVMValueRef status_field(Emit *e, size_t at) {
  return emit_at(e, e->i8, e->status, i64_of(e, (int64_t)at));
}

// Emits stores to the status word of the call (Status in ir/program/program.h), if that is still 0:
// it receives the first index that is out of range.
static void write_status(Emit *e, LLVMValueRef code, LLVMValueRef value, LLVMValueRef position) {
  LLVMValueRef old = emit_read(e, e->i32, e->status);
  LLVMBasicBlockRef clean = if_begin(e, int_equal(e, old, int_like(old, 0)));
  LLVMBuildStore(e->b, code, e->status);
  LLVMBuildStore(e->b, value, status_field(e, offsetof(Status, value)));
  LLVMBuildStore(e->b, position, status_field(e, offsetof(Status, position)));
  if_end(e, clean);
}

static void emit_chunk(Emit *e, const char *symbol) {
  function_begin(e, symbol, 2);
  LLVMValueRef lo = LLVMGetParam(e->fn, 1), hi = LLVMGetParam(e->fn, 2);
  load_call(e);
  cells_make(e);
  accum_begin(e);
  LLVMBasicBlockRef some = if_begin(e, int_less(e, lo, hi));
  zeros_make(e);
  emit_statements(e, PLACE_ENTRY, 0);
  emit_units(e, lo, hi);
  fence_streams(e);
  if_end(e, some);
  accum_end(e);
  function_end(e);
}

void emit_kernel(LLVMModuleRef module, const Kernel *k, const char *symbol, const EmitTarget *t) {
  Arena *a = arena_new();
  Emit e = {.arena = a,
            .k = k,
            .target = t,
            .plan = cpu_plan_make(a, k, t),
            .module = module,
            .report = write_status};
  e.ctx = LLVMGetModuleContext(module);
  e.b = LLVMCreateBuilderInContext(e.ctx);
  e.start = arena_array(a, LLVMValueRef, k->nptr + 1);
  e.base = arena_array(a, LLVMValueRef, k->nptr + 1);
  e.walk = arena_array(a, LLVMValueRef, k->nwalks + 1);
  e.addr = arena_array(a, LLVMValueRef, (k->nptr + 1) * (1 + TILE_ROWS));
  e.cell = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  e.row = arena_array(a, LLVMValueRef, k->nstmts + 1);
  e.middle = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  e.total = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  e.leaves = arena_array(a, LLVMValueRef, k->nstmts + 1);
  e.value = arena_array(a, LLVMValueRef, (k->nstmts + 1) * TILE);
  emit_types(&e);
  emit_chunk(&e, symbol);
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
