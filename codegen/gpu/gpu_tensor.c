// What tensor cores and copies beside the computation need of the two targets: mma, ldmatrix,
// cp.async. PTX has intrinsics of LLVM for them, the emulator has functions (emulator.h).
#include "codegen/gpu/gpu_tensor.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>

enum { TENSOR_CAPABILITY = 80, A_REGISTERS = 4, B_REGISTERS = 2, SUMS = 4, MATRICES = 4 };

static LLVMValueRef i32_of(GpuEmit *g, int x) { return LLVMConstInt(g->e.i32, (unsigned)x, true); }

bool gpu_has_tensor(const GpuEmit *g) {
  return gpu_is_emulated(g) || g->opt->capability >= TENSOR_CAPABILITY;
}

// -- arrays of a thread, by which the emulator takes and gives registers --------------------------

static LLVMValueRef array_make(GpuEmit *g, LLVMTypeRef t, int n) {
  return emit_alloca(&g->e, LLVMArrayType2(t, (uint64_t)n));
}

static LLVMValueRef array_of(GpuEmit *g, LLVMTypeRef t, int n, const LLVMValueRef *x) {
  LLVMValueRef at = array_make(g, t, n);
  for (int i = 0; i < n; i++) LLVMBuildStore(g->e.b, x[i], emit_at(&g->e, t, at, i64_of(&g->e, i)));
  return at;
}

static void array_read(GpuEmit *g, LLVMTypeRef t, int n, LLVMValueRef at, LLVMValueRef *out) {
  for (int i = 0; i < n; i++) out[i] = emit_read(&g->e, t, emit_at(&g->e, t, at, i64_of(&g->e, i)));
}

static void fields_of(GpuEmit *g, LLVMValueRef x, int n, LLVMValueRef *out) {
  for (int i = 0; i < n; i++) out[i] = LLVMBuildExtractValue(g->e.b, x, (unsigned)i, "");
}

// -- products -----------------------------------------------------------------------------------

static void multiply_emulated(GpuEmit *g, Dtype factor, const LLVMValueRef *a,
                              const LLVMValueRef *b, LLVMValueRef *sum) {
  Emit *e = &g->e;
  LLVMValueRef d = array_of(g, e->f32, SUMS, sum);
  LLVMValueRef arg[7] = {NULL,
                         i32_of(g, factor == TYPE_BF16 ? GPU_BF16 : GPU_F16),
                         d,
                         array_of(g, e->i32, A_REGISTERS, a),
                         array_of(g, e->i32, B_REGISTERS, b),
                         d,
                         i32_of(g, g->sites++)};
  gpu_call_device(g, offsetof(GpuEmulator, multiply), e->none, 7, arg);
  array_read(g, e->f32, SUMS, d, sum);
}

void gpu_mma(GpuEmit *g, Dtype factor, const LLVMValueRef *a, const LLVMValueRef *b,
             LLVMValueRef *sum) {
  Emit *e = &g->e;
  if (gpu_is_emulated(g)) {
    multiply_emulated(g, factor, a, b, sum);
    return;
  }
  LLVMTypeRef pair = LLVMVectorType(e->f16, 2);
  LLVMValueRef arg[A_REGISTERS + B_REGISTERS + SUMS];
  for (int i = 0; i < A_REGISTERS + B_REGISTERS; i++) {
    LLVMValueRef x = i < A_REGISTERS ? a[i] : b[i - A_REGISTERS];
    arg[i] = factor == TYPE_F16 ? bit_cast(e, x, pair) : x;
  }
  for (int i = 0; i < SUMS; i++) arg[A_REGISTERS + B_REGISTERS + i] = sum[i];
  const char *name = factor == TYPE_F16 ? "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
                                        : "llvm.nvvm.mma.m16n8k16.row.col.bf16";
  fields_of(g, emit_intrinsic(e, name, 0, NULL, countof(arg), arg), SUMS, sum);
}

// -- loads of matrices --------------------------------------------------------------------------

void gpu_load_matrices(GpuEmit *g, LLVMValueRef row, bool transposed, LLVMValueRef *out) {
  Emit *e = &g->e;
  if (gpu_is_emulated(g)) {
    LLVMValueRef to = array_make(g, e->i32, MATRICES);
    LLVMValueRef arg[6] = {
        NULL, to, row, i32_of(g, MATRICES), i32_of(g, transposed), i32_of(g, g->sites++)};
    gpu_call_device(g, offsetof(GpuEmulator, load_matrix), e->none, 6, arg);
    array_read(g, e->i32, MATRICES, to, out);
    return;
  }
  const char *name = transposed ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                                : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16";
  LLVMTypeRef t = LLVMTypeOf(row);
  fields_of(g, emit_intrinsic(e, name, 1, &t, 1, &row), MATRICES, out);
}

// -- copies -------------------------------------------------------------------------------------

// Emits the copy as a load and a store, for GPUs that have no cp.async.
static void copy_now(GpuEmit *g, LLVMValueRef to, LLVMValueRef from, LLVMValueRef valid) {
  Emit *e = &g->e;
  for (int i = 0; i < GPU_COPY_BYTES; i += 2) {
    LLVMValueRef cell = emit_alloca(e, e->i16), at = i64_of(e, i);
    LLVMBuildStore(e->b, LLVMConstNull(e->i16), cell);
    LLVMBasicBlockRef done = if_begin(e, int_less(e, i32_of(g, i), valid));
    LLVMBuildStore(e->b, emit_read(e, e->i16, emit_at(e, e->i8, from, at)), cell);
    if_end(e, done);
    LLVMBuildStore(e->b, emit_read(e, e->i16, cell), emit_at(e, e->i8, to, at));
  }
}

void gpu_copy_begin(GpuEmit *g, LLVMValueRef to, LLVMValueRef from, LLVMValueRef valid) {
  Emit *e = &g->e;
  if (gpu_is_emulated(g)) {
    LLVMValueRef arg[5] = {NULL, to, from, i32_of(g, GPU_COPY_BYTES), valid};
    gpu_call_device(g, offsetof(GpuEmulator, copy_begin), e->none, 5, arg);
  } else if (gpu_has_tensor(g)) {
    LLVMValueRef arg[3] = {to, from, valid};
    emit_intrinsic(e, "llvm.nvvm.cp.async.cg.shared.global.16.s", 0, NULL, 3, arg);
  } else {
    copy_now(g, to, from, valid);
  }
}

void gpu_copies_commit(GpuEmit *g) {
  LLVMValueRef arg[1];
  if (gpu_is_emulated(g))
    gpu_call_device(g, offsetof(GpuEmulator, copy_commit), g->e.none, 1, arg);
  else if (gpu_has_tensor(g))
    emit_intrinsic(&g->e, "llvm.nvvm.cp.async.commit.group", 0, NULL, 0, NULL);
}

void gpu_copies_wait(GpuEmit *g, int most) {
  LLVMValueRef arg[2] = {NULL, i32_of(g, most)};
  if (gpu_is_emulated(g))
    gpu_call_device(g, offsetof(GpuEmulator, copy_wait), g->e.none, 2, arg);
  else if (gpu_has_tensor(g))
    emit_intrinsic(&g->e, "llvm.nvvm.cp.async.wait.group", 0, NULL, 1, arg + 1);
}

// -- narrow floats ------------------------------------------------------------------------------

LLVMValueRef gpu_pack(GpuEmit *g, Dtype factor, LLVMValueRef low, LLVMValueRef high) {
  Emit *e = &g->e;
  if (!gpu_is_emulated(g) && gpu_has_tensor(g)) {
    LLVMValueRef arg[2] = {high, low};
    const char *name = factor == TYPE_F16 ? "llvm.nvvm.ff2f16x2.rn" : "llvm.nvvm.ff2bf16x2.rn";
    return bit_cast(e, emit_intrinsic(e, name, 0, NULL, 2, arg), e->i32);
  }
  low = int_zext(e, bit_cast(e, to_memory(e, factor, low), e->i16), e->i32);
  high = int_zext(e, bit_cast(e, to_memory(e, factor, high), e->i16), e->i32);
  return bit_or(e, low, left_by(e, high, 16));
}
#endif
