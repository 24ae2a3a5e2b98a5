// NCCL, NVIDIA's library of collectives between GPUs: own declarations of what meshc uses of it. It
// is opened at run time, as the driver is (cuda.h). So far meshc only tells its version.
//
// The functions are called through the struct `nccl`. They are rows of nccl.def, which has the name
// of each in nccl.h.
#ifndef RUNTIME_GPU_NCCL_H
#define RUNTIME_GPU_NCCL_H

#include "ir/base/library_table.h"

typedef enum NcclResult {
#define NCCL_RESULT(own, value, theirs) own = value,
#include "runtime/gpu/nccl.def"
} NcclResult;

typedef struct NcclApi {
#define NCCL_FUNCTION(member, symbol, result, parameters) result(*member) parameters;
#include "runtime/gpu/nccl.def"
} NcclApi;
extern NcclApi nccl;

// Opens the library and fills `nccl`, as cublaslt_open does (cublaslt.h).
const LibraryFound *nccl_open(void);

#endif
