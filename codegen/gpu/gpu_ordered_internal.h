// What the files of ordered operations on a GPU share: gpu_rows.c finds the elements of a row,
// gpu_scan.c and gpu_sort.c write the functions, gpu_ordered.c lists them.
#ifndef CODEGEN_GPU_ORDERED_H
#define CODEGEN_GPU_ORDERED_H

#include "codegen/gpu/gpu_internal.h"
#include "ir/program/gpu_ordered.h"

#ifdef MESHC_HAVE_LLVM
// Emits an i64 or another variable of type t with the value x. Returns its address.
static inline LLVMValueRef variable(GpuEmit *g, LLVMTypeRef t, LLVMValueRef x) {
  LLVMValueRef at = emit_alloca(&g->e, t);
  LLVMBuildStore(g->e.b, x, at);
  return at;
}
// Emits the value of an i64 variable.
static inline LLVMValueRef get(GpuEmit *g, LLVMValueRef variable) {
  return emit_read(&g->e, g->e.i64, variable);
}

// -- gpu_rows.c
// A row: the addresses of its first element and of its first result, and the distances of
// neighbours, in elements.
typedef struct GpuRow {
  LLVMValueRef src, dst, src_step, dst_step;
} GpuRow;
// Emits the value of a slot of the record: an ORDERED_ constant says which.
LLVMValueRef gpu_ordered_slot(GpuEmit *g, int i);
// Emits the addresses of row number `row`. type, out: the types of elements and of results.
GpuRow gpu_row_begin(GpuEmit *g, LLVMValueRef row, Dtype type, Dtype out);
// Emit a load of element i, or a store of x to result i. t: the type of elements, or of results.
LLVMValueRef gpu_row_load(GpuEmit *g, const GpuRow *r, Dtype t, LLVMValueRef i);
void gpu_row_store(GpuEmit *g, const GpuRow *r, Dtype t, LLVMValueRef i, LLVMValueRef x);

// -- gpu_scan.c, gpu_sort.c
// Emit the body of a function for elements of a type. kind: a running sum or maximum.
void gpu_scan_emit(GpuEmit *g, OrderedKind kind, Dtype type);
void gpu_sort_emit(GpuEmit *g, Dtype type);
#endif

#endif
