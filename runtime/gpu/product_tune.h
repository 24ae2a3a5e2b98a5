// The algorithms of products: which of those that cuBLASLt proposes is the fastest on this GPU.
#ifndef RUNTIME_GPU_PRODUCT_TUNE_H
#define RUNTIME_GPU_PRODUCT_TUNE_H

#include "runtime/gpu/gpu_comm.h"
#include "runtime/gpu/product_kind.h"
#include "runtime/runtime.h"

// What choosing needs.
typedef struct ProductTuner {
  CublasLtHandle library;
  CudaStream stream;
  CudaAddress workspace;
  size_t workspace_bytes;
  const GpuKeeper *keeper; // NULL: nothing is kept, and nothing is measured
  const char *gpu;         // its name
  GpuComms *comms;         // NULL: this process has all processors
} ProductTuner;

// Chooses the algorithms of all kinds in the list `kinds` that are not settled, and settles them:
// takes those that were kept, and measures and keeps the others. It runs products on memory of its
// own, where the GPU has some, and waits for the GPU. With ranks all call it together, and take the
// choices of the first rank. No stream may be captured meanwhile. Returns false after an error in
// d, or if the run has failed.
MUST_USE bool product_tune(const ProductTuner *t, ProductKind *kinds, Diag *d);

#endif
