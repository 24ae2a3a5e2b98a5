// Products of matrices on a GPU, by cuBLASLt. In: a bound product (BoundGemm) with the addresses of
// its operands on the GPU. Out: calls of the library, ready to be put into a stream.
//
// All that a call needs is found before the first step: descriptions of the product and of its
// matrices, and the algorithm, which is chosen once for each kind of product (product_tune.h). A
// step makes nothing. Results have the same bits in every run on the same GPU with the same version
// of the library and the same algorithms: each stream has a workspace of its own, sums of parts are
// added in the type of the sums, and factors of f32 are rounded only if the Gemm says so.
//
//   a product -> its pieces, or all of it -> for each, the batches that one call can do -> calls
#ifndef RUNTIME_GPU_PRODUCT_H
#define RUNTIME_GPU_PRODUCT_H

#include "runtime/exec/exec_internal.h"
#include "runtime/gpu/product_kind.h"
#include "runtime/gpu/product_tune.h"

enum { GPU_WORKSPACE_BYTES = 32 << 20 }; // memory of the GPU that the products of a stream share

// What all products of one stream share: the library, a workspace, and a plan for each kind of
// product. Thread rule: one thread.
typedef struct GpuProducts GpuProducts;
// Opens the library for the GPU of the current context, and allocates the workspace. The products
// run in `stream`. Returns NULL after an error in d. The caller frees it with gpu_products_free, in
// the same context, after its stream has ended.
MUST_USE GpuProducts *gpu_products_new(CudaStream stream, Diag *d);
void gpu_products_free(GpuProducts *all); // `all` may be NULL
// Returns the rows of gemm_library.def that the library has on the GPU of the current context, a
// bit for each. They differ between versions and GPUs. It keeps no memory of the GPU.
uint32_t gpu_products_epilogues(void);

// Chooses the algorithms of the kinds of products that were made since the last call
// (product_tune.h). No step may be under way. Returns false after an error in d.
MUST_USE bool gpu_products_tune(GpuProducts *all, const GpuKeeper *keeper, const char *gpu,
                                GpuComms *comms, Diag *d);
// Settles the kinds that were made since that call with the first proposals of the library: steps
// may be under way, so that nothing can be measured. `all` may be NULL.
void gpu_products_settle(GpuProducts *all);

// A call of the library, or rows that are to be 0.
typedef struct GpuProductCall GpuProductCall;
// A product: the calls that compute it in one round of the loops around it.
typedef struct GpuProduct {
  int64_t ncalls; // 0: there is nothing to compute
  GpuProductCall *call;
} GpuProduct;
// Makes the product b in the round `steps` of the loops around it. `at`: its operands in round 0 of
// all loops. Only sizes are read from b. The calls are in `arena`, and live no longer than `all`.
// No stream may be captured meanwhile: cuBLASLt of CUDA 13.3 then chooses no algorithm. Returns
// false after an error in d: the library has no algorithm for it.
MUST_USE bool gpu_product_make(GpuProducts *all, Arena *arena, const BoundGemm *b, GpuOperands at,
                               const LoopSteps *steps, GpuProduct *out, Diag *d);
// Puts the calls into the stream. It may be captured; then nothing may change until the graph has
// gone. Returns false after an error in d.
MUST_USE bool gpu_product_run(const GpuProducts *all, const GpuProduct *p, Diag *d);

#endif
