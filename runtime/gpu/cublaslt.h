// cuBLASLt, NVIDIA's library of matrix products: own declarations of what meshc uses of it. It is
// opened at run time, as the driver is (cuda.h).
//
// The functions are called through the struct `cublaslt`. They, and the values of the enums, are
// rows of cublaslt.def, which has the name of each in cublasLt.h. What they do is in NVIDIA's
// manual "cuBLAS", section "Using the cuBLASLt API", under these names.
#ifndef RUNTIME_GPU_CUBLASLT_H
#define RUNTIME_GPU_CUBLASLT_H

#include "runtime/gpu/cuda.h"

typedef struct cublasLtContext *CublasLtHandle;
// Descriptions of a product, of a matrix in memory, and of what an algorithm may use.
typedef struct CublasLtProductBody *CublasLtProduct;       // cublasLtMatmulDesc_t
typedef struct CublasLtLayoutBody *CublasLtLayout;         // cublasLtMatrixLayout_t
typedef struct CublasLtPreferenceBody *CublasLtPreference; // cublasLtMatmulPreference_t

#define CUBLASLT_VALUE(own, value, theirs) own = value,
typedef enum CublasStatus {
#define CUBLASLT_STATUS CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
} CublasStatus;
typedef enum CublasCompute { // cublasComputeType_t
#define CUBLASLT_COMPUTE CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
} CublasCompute;
typedef enum CublasType { // cudaDataType_t
#define CUBLASLT_TYPE CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
} CublasType;
typedef enum CublasLtProductAttribute { // cublasLtMatmulDescAttributes_t
#define CUBLASLT_PRODUCT CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
} CublasLtProductAttribute;
typedef enum CublasLtLayoutAttribute { // cublasLtMatrixLayoutAttribute_t
#define CUBLASLT_LAYOUT CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
} CublasLtLayoutAttribute;
typedef enum CublasLtPreferenceAttribute { // cublasLtMatmulPreferenceAttributes_t
#define CUBLASLT_PREFERENCE CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
} CublasLtPreferenceAttribute;
enum {
#define CUBLASLT_OPERATION CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
#define CUBLASLT_SCHEME CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
};
typedef enum CublasLtEpilogue { // cublasLtEpilogue_t
#define CUBLASLT_EPILOGUE CUBLASLT_VALUE
#include "runtime/gpu/cublaslt.def"
} CublasLtEpilogue;
#undef CUBLASLT_VALUE

typedef struct CublasLtAlgorithm { // cublasLtMatmulAlgo_t
  uint64_t data[8];
} CublasLtAlgorithm;
// An algorithm that computes a product, as the library proposes it.
typedef struct CublasLtChoice { // cublasLtMatmulHeuristicResult_t
  CublasLtAlgorithm algorithm;
  size_t workspace; // bytes that it needs
  CublasStatus state;
  float waves;
  int reserved[4];
} CublasLtChoice;

typedef struct CublasLtApi {
#define CUBLASLT_FUNCTION(member, symbol, result, parameters) result(*member) parameters;
#include "runtime/gpu/cublaslt.def"
} CublasLtApi;
extern CublasLtApi cublaslt;

// Opens the library and fills `cublaslt`. Returns what was found; library is NULL, and `why` a
// sentence, if it is missing. Calls after the first return the same. Thread rule: any thread;
// nobody may use `cublaslt` before.
const LibraryFound *cublaslt_open(void);

#endif
