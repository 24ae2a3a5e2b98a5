// What emit_winograd.c and emit_winograd_grad.c share: the memory of a chunk, transforms of
// patches.
//
// A plane is one of the 16 matrices of transformed data. Planes are PLANE_GAP elements longer than
// their contents, so that equal elements of all planes are not in the same set of a cache.
#ifndef CODEGEN_EMIT_WINOGRAD_INTERNAL_H
#define CODEGEN_EMIT_WINOGRAD_INTERNAL_H

#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
enum { PATCH = 4, PLANES = PATCH * PATCH, TAPS = 3, RESULTS = 2, PLANE_GAP = 32 };

// The memory of a chunk, and the sizes of its parts in elements.
typedef struct Winograd {
  const WinogradPlan *plan;
  const WinogradForm *f;
  LLVMTypeRef vec;
  // Planes [channel][column] of weights or of their gradient, [tile][channel] of patches,
  // [tile][column] of products or of the slope.
  LLVMValueRef weights, patches, products;
  LLVMValueRef zeros, unused; // read and written in place of what is outside of a tensor
  int64_t tiles;              // tiles of a run, with those that fill up the last register tile
  int64_t columns, group;     // columns; those of a register tile
  int64_t weights_plane, patches_plane, products_plane;
  LLVMValueRef image;  // address of position 0, 0 of the first patch of the run
  LLVMValueRef first;  // the first row of results of the run
  LLVMValueRef height; // rows of tiles in the run
} Winograd;

static inline LLVMValueRef element(Emit *e, LLVMValueRef base, LLVMValueRef at) {
  return emit_at(e, e->f32, base, at);
}
static inline LLVMValueRef element_at(Emit *e, LLVMValueRef base, int64_t at) {
  return at ? element(e, base, i64_of(e, at)) : base;
}
static inline LLVMValueRef times(Emit *e, LLVMValueRef x, int64_t n) {
  return int_mul(e, x, i64_of(e, n));
}
static inline LLVMValueRef vector_read(Emit *e, const Winograd *w, LLVMValueRef at) {
  LLVMValueRef x = emit_read(e, w->vec, at);
  LLVMSetAlignment(x, 4);
  return x;
}
static inline void vector_write(Emit *e, LLVMValueRef at, LLVMValueRef x) {
  LLVMSetAlignment(LLVMBuildStore(e->b, x, at), 4);
}
static inline LLVMValueRef multiply_add(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  return contracting(add(e, contracting(mul(e, a, b)), c));
}

// Emits allocations of the memory of a chunk. Only zeros and unused are for all uses.
Winograd winograd_make(Emit *e);
// Emits stores of zeros to n elements at `at`; n is a multiple of the lanes of a vector.
void zeros_write(Emit *e, const Winograd *w, LLVMValueRef at, int64_t n);

// A transform of one row or column: x[0], x[step], ... become out[0], out[out_step], ...
typedef void Transform(Emit *e, const LLVMValueRef *x, int step, LLVMValueRef *out, int out_step);
// Applies t to the columns and then to the rows of the n x n matrix x. The result has m x m
// elements.
void transform_both(Emit *e, Transform *t, const LLVMValueRef *x, int n, int m, LLVMValueRef *out);
// Emits the transforms of the patches of the run, to Winograd.patches.
void patches_make(Emit *e, const Winograd *w);
#endif

#endif
