// What the two targets of the emitter for GPUs do differently: PTX has intrinsics of LLVM, and code
// for the emulator calls the functions of a GpuEmulator (emulator.h).
#include "codegen/gpu/gpu_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>
#include <string.h>

enum { SPACE_GLOBAL = 1, SPACE_SHARED = 3 }; // address spaces of NVPTX

static LLVMValueRef i32_of(GpuEmit *g, int x) { return LLVMConstInt(g->e.i32, (unsigned)x, true); }

LLVMValueRef gpu_call_device(GpuEmit *g, size_t at, LLVMTypeRef result, int n, LLVMValueRef *arg) {
  Emit *e = &g->e;
  LLVMTypeRef params[8];
  arg[0] = g->device;
  for (int i = 0; i < n; i++) params[i] = LLVMTypeOf(arg[i]);
  LLVMTypeRef type = LLVMFunctionType(result, params, (unsigned)n, false);
  LLVMValueRef slot = emit_at(e, e->i8, g->device, i64_of(e, (int64_t)at));
  return LLVMBuildCall2(e->b, type, emit_read(e, e->ptr, slot), arg, (unsigned)n, "");
}

static LLVMValueRef call_intrinsic(GpuEmit *g, const char *name, int n, LLVMValueRef *arg) {
  return emit_intrinsic(&g->e, name, 0, NULL, n, arg);
}

// -- threads ------------------------------------------------------------------------------------

static LLVMValueRef device_number(GpuEmit *g, size_t at, const char *intrinsic) {
  LLVMValueRef arg[1];
  LLVMValueRef x = gpu_is_emulated(g) ? gpu_call_device(g, at, g->e.i32, 1, arg)
                                      : call_intrinsic(g, intrinsic, 0, NULL);
  return int_zext(&g->e, x, g->e.i64);
}

LLVMValueRef gpu_thread(GpuEmit *g) {
  return device_number(g, offsetof(GpuEmulator, thread), "llvm.nvvm.read.ptx.sreg.tid.x");
}
LLVMValueRef gpu_block_x(GpuEmit *g) {
  return device_number(g, offsetof(GpuEmulator, block_x), "llvm.nvvm.read.ptx.sreg.ctaid.x");
}
LLVMValueRef gpu_block_y(GpuEmit *g) {
  return device_number(g, offsetof(GpuEmulator, block_y), "llvm.nvvm.read.ptx.sreg.ctaid.y");
}

void gpu_barrier(GpuEmit *g) {
  LLVMValueRef arg[2] = {NULL, i32_of(g, g->sites++)};
  if (gpu_is_emulated(g))
    gpu_call_device(g, offsetof(GpuEmulator, barrier), g->e.none, 2, arg);
  else
    call_intrinsic(g, "llvm.nvvm.barrier0", 0, NULL);
}

static LLVMValueRef shuffle_word(GpuEmit *g, GpuShuffle kind, LLVMValueRef x, int lane) {
  static const char *const name[] = {[GPU_SHUFFLE_XOR] = "llvm.nvvm.shfl.sync.bfly.i32",
                                     [GPU_SHUFFLE_DOWN] = "llvm.nvvm.shfl.sync.down.i32",
                                     [GPU_SHUFFLE_INDEX] = "llvm.nvvm.shfl.sync.idx.i32"};
  if (gpu_is_emulated(g)) {
    LLVMValueRef arg[5] = {NULL, i32_of(g, kind), x, i32_of(g, lane), i32_of(g, g->sites++)};
    return gpu_call_device(g, offsetof(GpuEmulator, shuffle), g->e.i32, 5, arg);
  }
  // all threads of the warp; the last number says that the warp is not divided
  LLVMValueRef arg[4] = {i32_of(g, -1), x, i32_of(g, lane), i32_of(g, GPU_WARP - 1)};
  return call_intrinsic(g, name[kind], 4, arg);
}

void gpu_warp_barrier(GpuEmit *g) {
  LLVMValueRef all = i32_of(g, -1), arg[2] = {NULL, i32_of(g, g->sites++)};
  if (gpu_is_emulated(g))
    gpu_call_device(g, offsetof(GpuEmulator, warp_barrier), g->e.none, 2, arg);
  else
    call_intrinsic(g, "llvm.nvvm.bar.warp.sync", 1, &all);
}

void gpu_fence(GpuEmit *g) {
  if (gpu_is_emulated(g))
    LLVMBuildFence(g->e.b, LLVMAtomicOrderingSequentiallyConsistent, false, "");
  else
    call_intrinsic(g, "llvm.nvvm.membar.gl", 0, NULL);
}

LLVMValueRef gpu_shuffle(GpuEmit *g, GpuShuffle kind, LLVMValueRef x, int lane) {
  Emit *e = &g->e;
  LLVMTypeRef t = LLVMTypeOf(x);
  if (t == e->i1) {
    LLVMValueRef word = shuffle_word(g, kind, int_zext(e, x, e->i32), lane);
    return not_zero(e, word);
  }
  if (t == e->i32) return shuffle_word(g, kind, x, lane);
  if (t == e->f32) return bit_cast(e, shuffle_word(g, kind, bit_cast(e, x, e->i32), lane), t);
  LLVMValueRef bits = bit_cast(e, x, e->i64);
  LLVMValueRef low = shuffle_word(g, kind, int_trunc(e, bits, e->i32), lane);
  LLVMValueRef high = shuffle_word(g, kind, int_trunc(e, right_by(e, bits, 32), e->i32), lane);
  high = left_by(e, int_zext(e, high, e->i64), 32);
  return bit_cast(e, bit_or(e, int_zext(e, low, e->i64), high), t);
}

// -- memory -------------------------------------------------------------------------------------

LLVMValueRef gpu_shared(GpuEmit *g) {
  Emit *e = &g->e;
  LLVMValueRef arg[1];
  if (gpu_is_emulated(g)) return gpu_call_device(g, offsetof(GpuEmulator, shared), e->ptr, 1, arg);
  LLVMValueRef at = LLVMGetNamedGlobal(e->module, "meshc_shared");
  if (at) return at;
  at = LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(e->i8, 0), "meshc_shared",
                                   SPACE_SHARED);
  LLVMSetAlignment(at, 16);
  return at;
}

static void tell(GpuEmit *g, LLVMValueRef at, int bytes, GpuAccess how, GpuSpace space) {
  if (!gpu_is_emulated(g)) return;
  LLVMValueRef arg[5] = {NULL, at, i32_of(g, bytes), i32_of(g, how), i32_of(g, space)};
  gpu_call_device(g, offsetof(GpuEmulator, access), g->e.none, 5, arg);
}

LLVMValueRef gpu_read(GpuEmit *g, Dtype t, LLVMValueRef at, GpuSpace space) {
  tell(g, at, (int)dtype_bytes(t), GPU_READ, space);
  LLVMValueRef raw = emit_read(&g->e, mem_type(&g->e, t), at);
  LLVMSetAlignment(raw, (unsigned)dtype_bytes(t));
  return from_memory(&g->e, t, raw);
}

void gpu_write(GpuEmit *g, Dtype t, LLVMValueRef at, LLVMValueRef x, GpuSpace space) {
  LLVMValueRef raw = to_memory(&g->e, t, x);
  tell(g, at, (int)dtype_bytes(t), GPU_WRITE, space);
  LLVMSetAlignment(LLVMBuildStore(g->e.b, raw, at), (unsigned)dtype_bytes(t));
}

int gpu_wide_bytes(Dtype t, int n) {
  int bytes = n * (int)dtype_bytes(t);
  return bytes < 16 ? bytes : 16;
}

void gpu_read_wide(GpuEmit *g, Dtype t, LLVMValueRef at, GpuSpace space, int n, LLVMValueRef *out) {
  Emit *e = &g->e;
  int bytes = gpu_wide_bytes(t, n), each = bytes / (int)dtype_bytes(t);
  LLVMTypeRef element = mem_type(e, t);
  for (int i = 0; i < n; i += each) {
    LLVMValueRef from = i ? emit_at(e, element, at, i64_of(e, i)) : at;
    tell(g, from, bytes, GPU_READ, space);
    LLVMValueRef all = emit_read(e, LLVMVectorType(element, (unsigned)each), from);
    LLVMSetAlignment(all, (unsigned)bytes);
    for (int j = 0; j < each; j++) out[i + j] = from_memory(e, t, lane_of(e, all, i64_of(e, j)));
  }
}

void gpu_write_wide(GpuEmit *g, Dtype t, LLVMValueRef at, GpuSpace space, int n,
                    const LLVMValueRef *x) {
  Emit *e = &g->e;
  int bytes = gpu_wide_bytes(t, n), each = bytes / (int)dtype_bytes(t);
  LLVMTypeRef element = mem_type(e, t);
  for (int i = 0; i < n; i += each) {
    LLVMValueRef to = i ? emit_at(e, element, at, i64_of(e, i)) : at;
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(element, (unsigned)each));
    for (int j = 0; j < each; j++)
      all = LLVMBuildInsertElement(e->b, all, to_memory(e, t, x[i + j]), i64_of(e, j), "");
    tell(g, to, bytes, GPU_WRITE, space);
    LLVMSetAlignment(LLVMBuildStore(e->b, all, to), (unsigned)bytes);
  }
}

void gpu_tell_atomic(GpuEmit *g, LLVMValueRef at) { tell(g, at, 4, GPU_ATOMIC, GPU_GLOBAL); }

LLVMValueRef gpu_address(GpuEmit *g, LLVMValueRef i64) {
  return LLVMBuildIntToPtr(g->e.b, i64, g->global, "");
}

LLVMValueRef gpu_constant(GpuEmit *g, LLVMTypeRef t, LLVMValueRef base, int64_t at) {
  Emit *e = &g->e;
  LLVMValueRef x = emit_read(e, t, emit_at(e, e->i8, base, i64_of(e, at)));
  LLVMSetMetadata(x, LLVMGetMDKindIDInContext(e->ctx, "invariant.load", 14),
                  LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, NULL, 0)));
  return x;
}

// -- functions ----------------------------------------------------------------------------------

static void add_attribute(GpuEmit *g, const char *key, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(g->e.ctx, key, (unsigned)strlen(key), value,
                                                 (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(g->e.fn, LLVMAttributeFunctionIndex, a);
}

// Tells the assembler a fact about launches of the function: how many threads a block has, so that
// the registers suffice for them, and how many blocks a multiprocessor must hold at least. Without
// the second it spills registers where it hopes that more blocks would fit.
static void annotate(GpuEmit *g, const char *key, int value) {
  Emit *e = &g->e;
  LLVMMetadataRef of[3] = {LLVMValueAsMetadata(e->fn),
                           LLVMMDStringInContext2(e->ctx, key, strlen(key)),
                           LLVMValueAsMetadata(i32_of(g, value))};
  LLVMValueRef node = LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, of, 3));
  LLVMAddNamedMetadataOperand(e->module, "nvvm.annotations", node);
}

void gpu_function_begin(GpuEmit *g, const char *name, int threads) {
  Emit *e = &g->e;
  bool emulated = gpu_is_emulated(g);
  g->global = LLVMPointerTypeInContext(e->ctx, emulated ? 0 : SPACE_GLOBAL);
  LLVMTypeRef params[5] = {g->global, g->global, e->i32, e->i32, e->ptr};
  LLVMTypeRef type = LLVMFunctionType(e->none, params, emulated ? 5 : 4, false);
  e->fn = LLVMAddFunction(e->module, name, type);
  add_attribute(g, "no-builtins", "true");
  if (emulated) {
    g->device = LLVMGetParam(e->fn, 4);
  } else {
    LLVMSetFunctionCallConv(e->fn, LLVMPTXKernelCallConv);
    annotate(g, "maxntidx", threads);
    annotate(g, "minctasm", 1);
  }
  g->sites = 0;
  g->threads = threads;
  e->allocas = emit_block(e);
  LLVMPositionBuilderAtEnd(e->b, emit_block(e));
  emit_mask_off(e);
  g->thread = gpu_thread(g);
}

void gpu_function_end(GpuEmit *g) {
  Emit *e = &g->e;
  LLVMBuildRetVoid(e->b);
  LLVMPositionBuilderAtEnd(e->b, e->allocas);
  LLVMBuildBr(e->b, LLVMGetNextBasicBlock(e->allocas));
}
#endif
