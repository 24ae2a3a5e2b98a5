// The instructions of tensor cores, on both targets (gpu_tensor.c). All 32 threads of a warp run
// gpu_mma and gpu_load_matrices.
#ifndef CODEGEN_GPU_TENSOR_H
#define CODEGEN_GPU_TENSOR_H

#include "codegen/gpu/gpu_tile.h"

enum { GPU_COPY_BYTES = 16 }; // of one copy to shared memory

#ifdef MESHC_HAVE_LLVM
// Returns whether the GPU has these instructions: compute capability 8.0. The functions for copies
// work on any GPU; without cp.async they copy at once.
bool gpu_has_tensor(const GpuEmit *g);
// Emits mma.m16n8k16: sum += a * b, with 4, 2 and 4 registers a thread. factor: bf16 or f16, two of
// which are an i32; the sums are f32.
void gpu_mma(GpuEmit *g, Dtype factor, const LLVMValueRef *a, const LLVMValueRef *b,
             LLVMValueRef *sum);
// Emits ldmatrix of four matrices of 8 x 8 elements of 2 bytes. Thread 8 m + r names row r of
// matrix m by its address in shared memory, a multiple of 16. Thread t gets in out[m], an i32, two
// neighbours of row t / 4 of matrix m, from column 2 (t % 4) on; transposed: of its transpose.
void gpu_load_matrices(GpuEmit *g, LLVMValueRef row, bool transposed, LLVMValueRef *out);
// Emits the start of a copy of GPU_COPY_BYTES bytes to shared memory. Both addresses are multiples
// of that. Only the first `valid` bytes, an i32, are read, the others become 0. It is done when the
// thread has waited for its group (gpu_copies_commit, gpu_copies_wait).
void gpu_copy_begin(GpuEmit *g, LLVMValueRef to, LLVMValueRef from, LLVMValueRef valid);
// Emits two f32, rounded to `factor` (bf16 or f16), as an i32 with `low` in the lower half.
LLVMValueRef gpu_pack(GpuEmit *g, Dtype factor, LLVMValueRef low, LLVMValueRef high);
#endif

#endif
