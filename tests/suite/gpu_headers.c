// Compares meshc's own declarations of NVIDIA's libraries (cuda.def, cublaslt.def, nccl.def in
// runtime/gpu, nvjitlink.def in codegen/gpu) with NVIDIA's headers: every value of an enum, the
// size and the offsets of every struct, the type of every function. Then opens the libraries and
// looks for every function. cuBLASLt is asked for a product: without a GPU, all but the last of its
// calls succeed. Where a header or a library is missing, it counts as skipped.
//
// The type of a function is compared inside a C function in which the own names of types are
// declared again, as NVIDIA's types: a row of a .def then has NVIDIA's prototype, or it is wrong.
//
// Ends in `N passed, N failed, N skipped`.
#include <stdio.h>
#include <string.h>

#ifdef MESHC_CUDA_HEADERS
#include <dlfcn.h>

#include <cuda.h>
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif
#if __has_include(<nvJitLink.h>)
#include <nvJitLink.h>
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif
#endif

#include "codegen/gpu/assemble.h"
#include "codegen/gpu/nvjitlink.h"
#include "runtime/gpu/nccl.h"
#include "runtime/gpu/product_kind.h"

static int passed, failed, skipped;

static void skip(const char *what) {
  printf("skipped: %s\n", what);
  skipped++;
}

#ifdef MESHC_CUDA_HEADERS
static void check(bool good, const char *what) {
  if (good)
    passed++;
  else
    failed++;
  if (!good) printf("FAIL %s\n", what);
}

#define VALUE(own, value, theirs)                                                                  \
  check((long long)(own) == (long long)(theirs), #own " is not " #theirs);
#define SIZE(own, theirs)                                                                          \
  check(sizeof(own) == sizeof(theirs) && _Alignof(own) == _Alignof(theirs),                        \
        "size of " #own ", " #theirs);
#define PLACE(own, member, theirs, their_member)                                                   \
  check(offsetof(own, member) == offsetof(theirs, their_member) &&                                 \
            sizeof(((own *)0)->member) == sizeof(((theirs *)0)->their_member),                     \
        #own "." #member ", " #theirs "." #their_member);
#define PROTOTYPE(symbol, result, parameters)                                                      \
  check(__builtin_types_compatible_p(__typeof__(symbol), result parameters),                       \
        "parameters of " #symbol);

// Own types, and those of the headers that they stand for. Opaque handles have the headers' tags,
// or are pointers that only the library reads.
#define CUDA_TYPES(TYPE)                                                                           \
  TYPE(CudaResult, CUresult)                                                                       \
  TYPE(CudaAddress, CUdeviceptr)                                                                   \
  TYPE(CudaDevice, CUdevice)                                                                       \
  TYPE(CudaUuid, CUuuid)                                                                           \
  TYPE(CudaContext, CUcontext)                                                                     \
  TYPE(CudaStream, CUstream)                                                                       \
  TYPE(CudaEvent, CUevent)                                                                         \
  TYPE(CudaGraph, CUgraph)                                                                         \
  TYPE(CudaGraphNode, CUgraphNode)                                                                 \
  TYPE(CudaGraphExec, CUgraphExec)                                                                 \
  TYPE(CudaModule, CUmodule)                                                                       \
  TYPE(CudaFunction, CUfunction)                                                                   \
  TYPE(CudaDeviceAttribute, CUdevice_attribute)                                                    \
  TYPE(CudaKernelAttribute, CUfunction_attribute)                                                  \
  TYPE(CudaJitOption, CUjit_option)                                                                \
  TYPE(CudaCapture, CUstreamCaptureMode)                                                           \
  TYPE(CudaCapturing, CUstreamCaptureStatus)
#define CUBLASLT_TYPES(TYPE)                                                                       \
  TYPE(CublasStatus, cublasStatus_t)                                                               \
  TYPE(CublasCompute, cublasComputeType_t)                                                         \
  TYPE(CublasType, cudaDataType_t)                                                                 \
  TYPE(CublasLtHandle, cublasLtHandle_t)                                                           \
  TYPE(CublasLtProduct, cublasLtMatmulDesc_t)                                                      \
  TYPE(CublasLtLayout, cublasLtMatrixLayout_t)                                                     \
  TYPE(CublasLtPreference, cublasLtMatmulPreference_t)                                             \
  TYPE(CublasLtProductAttribute, cublasLtMatmulDescAttributes_t)                                   \
  TYPE(CublasLtLayoutAttribute, cublasLtMatrixLayoutAttribute_t)                                   \
  TYPE(CublasLtPreferenceAttribute, cublasLtMatmulPreferenceAttributes_t)                          \
  TYPE(CublasLtAlgorithm, cublasLtMatmulAlgo_t)                                                    \
  TYPE(CublasLtChoice, cublasLtMatmulHeuristicResult_t)                                            \
  TYPE(CudaStream, cudaStream_t)
#define NVJITLINK_TYPES(TYPE)                                                                      \
  TYPE(NvJitLinkHandle, nvJitLinkHandle)                                                           \
  TYPE(NvJitLinkResult, nvJitLinkResult)                                                           \
  TYPE(NvJitLinkInput, nvJitLinkInputType)
#define NCCL_TYPES(TYPE)                                                                           \
  TYPE(NcclResult, ncclResult_t)                                                                   \
  TYPE(NcclType, ncclDataType_t)                                                                   \
  TYPE(NcclReduction, ncclRedOp_t)                                                                 \
  TYPE(NcclComm, ncclComm_t)                                                                       \
  TYPE(NcclId, ncclUniqueId)                                                                       \
  TYPE(CudaStream, cudaStream_t)

#define STANDS_FOR(own, theirs) typedef theirs own;
#pragma GCC diagnostic ignored "-Wshadow"

// -- the driver -----------------------------------------------------------------------------------

static void compare_cuda(void) {
  CUDA_TYPES(SIZE)
#define CUDA_RESULT VALUE
#define CUDA_DEVICE VALUE
#define CUDA_KERNEL VALUE
#define CUDA_JIT VALUE
#define CUDA_CAPTURE VALUE
#define CUDA_CAPTURING VALUE
#define CUDA_FLAG VALUE
#include "runtime/gpu/cuda.def"
}

static void compare_cuda_functions(void) {
  CUDA_TYPES(STANDS_FOR)
#define CUDA_FUNCTION(member, symbol, parameters) PROTOTYPE(symbol, CudaResult, parameters)
#include "runtime/gpu/cuda.def"
}

// The toolkit has a library with the names of the driver's functions, to be linked with.
static void find_cuda_functions(void) {
  void *stub = dlopen(MESHC_CUDA_STUB, RTLD_LAZY | RTLD_LOCAL);
  if (!stub) skip("functions of the driver: " MESHC_CUDA_STUB " is missing");
  if (!stub) return;
#define CUDA_FUNCTION(member, symbol, parameters) check(dlsym(stub, #symbol) != NULL, #symbol);
#include "runtime/gpu/cuda.def"
}

// -- libraries ------------------------------------------------------------------------------------

static void find_functions(const LibraryFound *found) {
  if (found->library)
    check(true, "");
  else
    skip(found->why);
}

#if __has_include(<cublasLt.h>)
static void compare_cublaslt(void) {
  CUBLASLT_TYPES(SIZE)
  PLACE(CublasLtChoice, algorithm, cublasLtMatmulHeuristicResult_t, algo)
  PLACE(CublasLtChoice, workspace, cublasLtMatmulHeuristicResult_t, workspaceSize)
  PLACE(CublasLtChoice, state, cublasLtMatmulHeuristicResult_t, state)
  PLACE(CublasLtChoice, waves, cublasLtMatmulHeuristicResult_t, wavesCount)
  PLACE(CublasLtChoice, reserved, cublasLtMatmulHeuristicResult_t, reserved)
#define CUBLASLT_STATUS VALUE
#define CUBLASLT_COMPUTE VALUE
#define CUBLASLT_TYPE VALUE
#define CUBLASLT_PRODUCT VALUE
#define CUBLASLT_LAYOUT VALUE
#define CUBLASLT_PREFERENCE VALUE
#define CUBLASLT_OPERATION VALUE
#define CUBLASLT_SCHEME VALUE
#define CUBLASLT_EPILOGUE VALUE
#include "runtime/gpu/cublaslt.def"
}

static void compare_cublaslt_functions(void) {
  CUBLASLT_TYPES(STANDS_FOR)
#define CUBLASLT_FUNCTION(member, symbol, result, parameters) PROTOTYPE(symbol, result, parameters)
#include "runtime/gpu/cublaslt.def"
}
#else
static void compare_cublaslt(void) { skip("cublasLt.h"); }
static void compare_cublaslt_functions(void) {}
#endif

#if __has_include(<nvJitLink.h>)
static void compare_nvjitlink(void) {
  NVJITLINK_TYPES(SIZE)
#define NVJITLINK_RESULT VALUE
#define NVJITLINK_INPUT VALUE
#include "codegen/gpu/nvjitlink.def"
}

static void compare_nvjitlink_functions(void) {
  NVJITLINK_TYPES(STANDS_FOR)
#define NVJITLINK_FUNCTION(member, symbol, parameters)                                             \
  PROTOTYPE(symbol, NvJitLinkResult, parameters)
#include "codegen/gpu/nvjitlink.def"
}
#else
static void compare_nvjitlink(void) { skip("nvJitLink.h"); }
static void compare_nvjitlink_functions(void) {}
#endif

#if __has_include(<nccl.h>)
static void compare_nccl(void) {
  NCCL_TYPES(SIZE)
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  check(sizeof(NcclConfig) <= sizeof config, "size of NcclConfig");
  check(config.magic == NCCL_CONFIG_MAGIC && config.version >= NCCL_CONFIG_VERSION,
        "magic and version of NcclConfig");
#define NCCL_RESULT VALUE
#define NCCL_TYPE VALUE
#define NCCL_REDUCTION VALUE
#define NCCL_FACT VALUE
#define NCCL_CONFIG(member, type, theirs) PLACE(NcclConfig, member, ncclConfig_t, theirs)
#include "runtime/gpu/nccl.def"
}

static void compare_nccl_functions(void) {
  NCCL_TYPES(STANDS_FOR)
  STANDS_FOR(NcclConfig, ncclConfig_t)
#define NCCL_FUNCTION(member, symbol, result, parameters) PROTOTYPE(symbol, result, parameters)
#include "runtime/gpu/nccl.def"
}
#else
static void compare_nccl(void) { skip("nccl.h"); }
static void compare_nccl_functions(void) {}
#endif

// Describes a product to the library of the toolkit. Without a GPU the library only refuses to
// choose an algorithm.
static void describe_product(const ProductSizes *sizes, const GpuOperands *at) {
  CublasLtHandle handle = NULL;
  char text[2000] = "";
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  bool gpu = cublaslt.Create(&handle) == CUBLAS_OK;
  ProductKind *kind = product_kind_new(handle, sizes, at, 32 << 20, d);
  FILE *f = fmemopen(text, sizeof text - 1, "w");
  diag_print(d, f, false);
  fclose(f);
  check(gpu ? kind != NULL : strstr(text, "cublasLtMatmulAlgoGetHeuristic gives") != NULL,
        "the description of a product");
  product_kind_free(kind);
  if (gpu) (void)cublaslt.Destroy(handle);
  arena_free(a);
}

// Describes products with every attribute that meshc sets.
static void describe_products(void) {
  ProductSizes sizes = {.factors = TYPE_BF16,
                        .type = TYPE_F32,
                        .ta = 1,
                        .m = 64,
                        .n = 48,
                        .k = 32,
                        .lda = 64,
                        .ldb = 48,
                        .ldc = 48,
                        .batches = 3,
                        .a_stride = 2048,
                        .b_stride = 1536,
                        .c_stride = 3072,
                        .a_align = 256,
                        .b_align = 256,
                        .c_align = 256,
                        .epilogue = CUBLASLT_DEFAULT};
  if (!cublaslt_open()->library) return;
  describe_product(&sizes, &(GpuOperands){.a = 0});
  sizes.type = TYPE_BF16;
  sizes.batches = 1;
  sizes.epilogue = CUBLASLT_GELU_AUX_BIAS;
  sizes.extra_align[GEMM_BIAS] = sizes.extra_align[GEMM_AUX] = 256;
  describe_product(&sizes, &(GpuOperands){.extra = {0, 1 << 20, 2 << 20}});
}

static void compare_all(void) {
  compare_cuda();
  compare_cuda_functions();
  find_cuda_functions();
  compare_cublaslt();
  compare_cublaslt_functions();
  find_functions(cublaslt_open());
  describe_products();
  compare_nvjitlink();
  compare_nvjitlink_functions();
  find_functions(assembler_open(NULL));
  compare_nccl();
  compare_nccl_functions();
  find_functions(nccl_open());
}
#else
static void compare_all(void) { skip("cuda.h of the CUDA toolkit was not found by the build"); }
#endif

int main(void) {
  compare_all();
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}
