// The CUDA driver: own declarations of what meshc uses of libcuda.so.1, which is opened at run
// time. Neither a header nor a library of CUDA is needed to build meshc.
//
// The functions are called through the struct `cuda`, as in cuda.MemAlloc(&at, bytes). Functions,
// enums and their values are rows of cuda.def, which has the name of each in NVIDIA's cuda.h. What
// a function does is in NVIDIA's manual "CUDA Driver API", under that name.
#ifndef RUNTIME_GPU_CUDA_H
#define RUNTIME_GPU_CUDA_H

#include "ir/base/diag.h"
#include "ir/base/library_table.h"

typedef uint64_t CudaAddress; // an address in the memory of a GPU
typedef int CudaDevice;       // a GPU
// What tells GPUs apart.
typedef struct CudaUuid {
  char bytes[16];
} CudaUuid;
// Handles of the driver. The tags are those of cuda.h.
typedef struct CUctx_st *CudaContext;
typedef struct CUstream_st *CudaStream; // NULL: the default stream
typedef struct CUevent_st *CudaEvent;
typedef struct CUgraph_st *CudaGraph; // operations that a stream has captured
typedef struct CUgraphNode_st *CudaGraphNode;
typedef struct CUgraphExec_st *CudaGraphExec; // a graph that can be launched
typedef struct CUmod_st *CudaModule;          // loaded code
typedef struct CUfunc_st *CudaFunction;       // a kernel of a module

#define CUDA_VALUE(own, value, theirs) own = value,
typedef enum CudaResult {
#define CUDA_RESULT CUDA_VALUE
#include "runtime/gpu/cuda.def"
} CudaResult;
typedef enum CudaDeviceAttribute {
#define CUDA_DEVICE CUDA_VALUE
#include "runtime/gpu/cuda.def"
} CudaDeviceAttribute;
typedef enum CudaKernelAttribute {
#define CUDA_KERNEL CUDA_VALUE
#include "runtime/gpu/cuda.def"
} CudaKernelAttribute;
typedef enum CudaJitOption {
#define CUDA_JIT CUDA_VALUE
#include "runtime/gpu/cuda.def"
} CudaJitOption;
// What other threads may not do during a capture.
typedef enum CudaCapture {
#define CUDA_CAPTURE CUDA_VALUE
#include "runtime/gpu/cuda.def"
} CudaCapture;
// Whether a stream is captured.
typedef enum CudaCapturing {
#define CUDA_CAPTURING CUDA_VALUE
#include "runtime/gpu/cuda.def"
} CudaCapturing;
enum {
#define CUDA_FLAG CUDA_VALUE
#include "runtime/gpu/cuda.def"
};
#undef CUDA_VALUE

typedef struct CudaApi {
#define CUDA_FUNCTION(member, symbol, parameters) CudaResult(*member) parameters;
#include "runtime/gpu/cuda.def"
} CudaApi;
extern CudaApi cuda;

// Opens the driver, fills `cuda` and initialises the driver. Returns what was found; library is
// NULL, and `why` a sentence, if there is no driver or it does not start. Calls after the first
// return the same. Thread rule: any thread; nobody may use `cuda` before.
const LibraryFound *cuda_open(void);

// Returns whether a call of the driver has succeeded. Otherwise reports an error: the name of the
// call, such as "cuMemAlloc of 3.1 GB", the name of the result, and what to do. The driver must be
// open.
MUST_USE bool cuda_good(CudaResult r, const char *call, Diag *d);

#endif
