// Reports of faults: an index that is out of range. All launches that share a GpuStatus keep the
// first fault, by its code and then by its position.
//
// A fault is three words, which a spin lock guards. A thread may wait for a lock that another
// thread of its warp holds: since compute capability 7.0 the threads of a warp are scheduled one by
// one, so that the holder goes on and releases it. Accesses to the lock are reported to the
// emulator, those to the words that it guards are not.
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>

static LLVMValueRef field(Emit *e, size_t at) {
  return emit_at(e, e->i8, e->status, i64_of(e, (int64_t)at));
}

static LLVMValueRef read_field(Emit *e, LLVMTypeRef t, size_t at) {
  LLVMValueRef x = emit_read(e, t, field(e, at));
  LLVMSetVolatile(x, true);
  return x;
}

static void write_field(Emit *e, LLVMValueRef x, size_t at) {
  LLVMSetVolatile(LLVMBuildStore(e->b, x, field(e, at)), true);
}

static LLVMValueRef exchange(GpuEmit *g, int with) {
  Emit *e = &g->e;
  LLVMValueRef at = field(e, offsetof(GpuStatus, lock)),
               x = LLVMConstInt(e->i32, (unsigned)with, 0);
  gpu_tell_atomic(g, at);
  return LLVMBuildAtomicRMW(e->b, LLVMAtomicRMWBinOpXchg, at, x, LLVMAtomicOrderingMonotonic,
                            false);
}

// Emits stores of the fault, if it is before the one that is stored.
static void keep_first(Emit *e, LLVMValueRef code, LLVMValueRef value, LLVMValueRef position) {
  LLVMValueRef old = read_field(e, e->i32, offsetof(GpuStatus, first.code));
  LLVMValueRef at = read_field(e, e->i64, offsetof(GpuStatus, first.position));
  LLVMValueRef same = bit_and(e, int_equal(e, code, old), int_less(e, position, at));
  LLVMValueRef before = bit_or(e, int_cmp(e, LLVMIntULT, code, old), same);
  before = bit_or(e, before, int_equal(e, old, int_like(old, 0)));
  LLVMBasicBlockRef done = if_begin(e, before);
  write_field(e, code, offsetof(GpuStatus, first.code));
  write_field(e, value, offsetof(GpuStatus, first.value));
  write_field(e, position, offsetof(GpuStatus, first.position));
  if_end(e, done);
}

void gpu_report(Emit *e, LLVMValueRef code, LLVMValueRef value, LLVMValueRef position) {
  GpuEmit *g = (GpuEmit *)e;
  LLVMValueRef none = LLVMConstNull(LLVMTypeOf(e->status));
  LLVMBasicBlockRef asked = if_begin(e, int_cmp(e, LLVMIntNE, e->status, none));
  LLVMBasicBlockRef head = emit_block(e), locked = emit_block(e), done = emit_block(e);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef was = exchange(g, 1);
  LLVMBuildCondBr(e->b, int_equal(e, was, int_like(was, 0)), locked, head);
  LLVMPositionBuilderAtEnd(e->b, locked);
  gpu_fence(g);
  keep_first(e, code, value, position);
  gpu_fence(g);
  exchange(g, 0);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
  if_end(e, asked);
}
#endif
