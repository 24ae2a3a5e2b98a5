// Control flow of the emitter: blocks, conditionals, counted loops, masks of vectors.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM

LLVMBasicBlockRef emit_block(Emit *e) { return LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""); }

LLVMBasicBlockRef if_begin(Emit *e, LLVMValueRef condition) {
  LLVMBasicBlockRef then = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, condition, then, done);
  LLVMPositionBuilderAtEnd(e->b, then);
  return done;
}

void if_end(Emit *e, LLVMBasicBlockRef done) {
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

// Returns whether a loop runs exactly once for every input.
static bool runs_once(LLVMValueRef from, LLVMValueRef to, LLVMValueRef step) {
  if (!LLVMIsAConstantInt(from) || !LLVMIsAConstantInt(to) || !LLVMIsAConstantInt(step))
    return false;
  int64_t n = LLVMConstIntGetSExtValue(to) - LLVMConstIntGetSExtValue(from);
  return n > 0 && n <= LLVMConstIntGetSExtValue(step);
}

EmitLoop loop_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step) {
  if (runs_once(from, to, step)) return (EmitLoop){NULL, NULL, from, to, step};
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
  EmitLoop l = {emit_block(e), emit_block(e), NULL, to, step};
  LLVMBuildCondBr(e->b, int_less(e, from, to), l.head, l.done);
  LLVMPositionBuilderAtEnd(e->b, l.head);
  l.var = LLVMBuildPhi(e->b, e->i64, "");
  LLVMAddIncoming(l.var, &from, &before, 1);
  return l;
}

EmitLoop loop_to(Emit *e, int64_t to) {
  return loop_begin(e, i64_of(e, 0), i64_of(e, to), i64_of(e, 1));
}

void loop_end(Emit *e, const EmitLoop *l) {
  if (!l->head) return;
  LLVMValueRef next = LLVMBuildNSWAdd(e->b, l->var, l->step, "");
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMAddIncoming(l->var, &next, &here, 1);
  LLVMBuildCondBr(e->b, int_less(e, next, l->to), l->head, l->done);
  LLVMPositionBuilderAtEnd(e->b, l->done);
}

Blocks blocks_begin(Emit *e, LLVMValueRef from, LLVMValueRef to, int64_t step) {
  Blocks b = {.many = step > 0, .from = from, .to = to};
  if (!b.many) return b;
  b.loop = loop_begin(e, from, to, i64_of(e, step));
  b.from = b.loop.var;
  b.to = int_min(e, int_add(e, b.from, b.loop.step), to);
  return b;
}

void blocks_end(Emit *e, const Blocks *b) {
  if (b->many) loop_end(e, &b->loop);
}

LLVMValueRef count_round(Emit *e, LLVMValueRef counter, int64_t period) {
  LLVMValueRef n = int_add(e, emit_read(e, e->i64, counter), i64_of(e, 1));
  LLVMValueRef full = int_equal(e, n, i64_of(e, period));
  LLVMBuildStore(e->b, pick(e, full, i64_of(e, 0), n), counter);
  return full;
}

void emit_mask(Emit *e, LLVMValueRef left) {
  e->last_active = int_min(e, left, i64_of(e, e->plan.lanes));
  LLVMValueRef n = emit_splat(e, int_trunc(e, e->last_active, e->i32));
  e->last_mask = int_cmp(e, LLVMIntULT, const_lanes(e, e->i32, 1), n);
  e->mask = e->last_mask;
  e->active = e->last_active;
}

void emit_mask_off(Emit *e) { e->mask = e->active = e->last_mask = e->last_active = NULL; }
#endif
