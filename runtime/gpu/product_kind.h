// Kinds of products of matrices: what cuBLASLt has to know of a product before the first step. All
// products that differ in their addresses only are of one kind.
#ifndef RUNTIME_GPU_PRODUCT_KIND_H
#define RUNTIME_GPU_PRODUCT_KIND_H

#include "ir/program/program.h"
#include "runtime/gpu/cublaslt.h"

// C[m, n] = sum over k of A[m, k] B[k, n], for each of `batches` batches; fields as in Gemm. The
// alignments are the largest powers of 2, up to 256 bytes, that divide the addresses. All fields
// are of one type, so that kinds are compared as bytes.
typedef struct ProductSizes {
  int64_t factors, type; // Dtypes
  int64_t tf32, ta, tb;
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  int64_t batches, a_stride, b_stride, c_stride; // in elements
  int64_t a_align, b_align, c_align;
  int64_t epilogue;                 // CublasLtEpilogue
  int64_t extra_align[GEMM_EXTRAS]; // alignments of its operands; 0: there is none
} ProductSizes;
// Addresses on the GPU of the operands of a product; 0: there is none.
typedef struct GpuOperands {
  CudaAddress a, b, c, extra[GEMM_EXTRAS];
} GpuOperands;

typedef struct ProductKind ProductKind;
struct ProductKind {
  ProductSizes sizes;
  CublasLtProduct product;
  CublasLtLayout a, b, c; // of our A, B and C
  CublasLtChoice choice;
  bool settled; // `choice` does not change any more (product_tune.h)
  ProductKind *next;
};
enum { PRODUCT_PROPOSALS = 8 }; // the most algorithms that the library is asked for

// Makes the descriptions of a kind, and lets the library choose an algorithm that needs at most
// `workspace` bytes. `at` has the operands of one product of the kind. Returns NULL after an error
// in d. The caller frees it with product_kind_free.
ProductKind *product_kind_new(CublasLtHandle library, const ProductSizes *sizes,
                              const GpuOperands *at, size_t workspace, Diag *d);
// Asks the library for algorithms that need at most `workspace` bytes. Returns how many it
// proposes, the most promising one first.
int product_kind_proposals(CublasLtHandle library, const ProductKind *kind, size_t workspace,
                           CublasLtChoice out[PRODUCT_PROPOSALS]);
// Gives a kind an algorithm that was chosen earlier, or by another rank. Returns false, and leaves
// the kind as it is, if the library does not accept it, or it needs more than `workspace` bytes.
bool product_kind_accept(CublasLtHandle library, ProductKind *kind,
                         const CublasLtAlgorithm *algorithm, size_t workspace);
void product_kind_free(ProductKind *kind); // may be NULL
// Returns the value of the library for row `row` of gemm_library.def.
CublasLtEpilogue product_epilogue(int row);
// Returns whether the library has an algorithm for row `row`: it is asked for a product of 128 x
// 128 by 128 x 128.
bool product_epilogue_exists(CublasLtHandle library, int row, size_t workspace);
// Puts a product of this kind into a stream.
CublasStatus product_kind_run(CublasLtHandle library, const ProductKind *kind,
                              const GpuOperands *at, CudaAddress workspace, size_t workspace_bytes,
                              CudaStream stream);

// Returns whether a call of the library has succeeded. Otherwise reports an error that names the
// call and, if `sizes` is not NULL, the product.
MUST_USE bool cublaslt_good(CublasStatus status, const char *call, const ProductSizes *sizes,
                            Diag *d);

#endif
