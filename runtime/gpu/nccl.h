// NCCL, NVIDIA's library of collectives between GPUs: own declarations of what meshc uses of it. It
// is opened at run time, as the driver is (cuda.h).
//
// The functions are called through the struct `nccl`. Functions, enums and their values are rows of
// nccl.def, which has the name of each in nccl.h. What a function does is in NVIDIA's manual of
// NCCL, under that name.
#ifndef RUNTIME_GPU_NCCL_H
#define RUNTIME_GPU_NCCL_H

#include "ir/base/library_table.h"
#include "runtime/gpu/cuda.h"

#define NCCL_VALUE(own, value, theirs) own = value,
typedef enum NcclResult {
#define NCCL_RESULT NCCL_VALUE
#include "runtime/gpu/nccl.def"
} NcclResult;
typedef enum NcclType {
#define NCCL_TYPE NCCL_VALUE
#include "runtime/gpu/nccl.def"
} NcclType;
typedef enum NcclReduction {
#define NCCL_REDUCTION NCCL_VALUE
#include "runtime/gpu/nccl.def"
} NcclReduction;
enum {
#define NCCL_FACT NCCL_VALUE
#include "runtime/gpu/nccl.def"
};
#undef NCCL_VALUE

typedef struct ncclComm *NcclComm; // one rank's end of a communicator; the tag is that of nccl.h
// What the ranks of a communicator have to know in order to meet. One of them makes it.
typedef struct NcclId {
  char bytes[NCCL_ID_BYTES];
} NcclId;
// Options of a communicator. NCCL_USUAL, or NULL, leaves an option to the library.
typedef struct NcclConfig {
#define NCCL_CONFIG(member, type, theirs) type member;
#include "runtime/gpu/nccl.def"
} NcclConfig;
// What NcclConfig.magic and version have to be; versions count as 2.18.0 = 21800.
static const unsigned NCCL_CONFIG_MAGIC = 0xcafebeef, NCCL_CONFIG_VERSION = 21800;

typedef struct NcclApi {
#define NCCL_FUNCTION(member, symbol, result, parameters) result(*member) parameters;
#include "runtime/gpu/nccl.def"
} NcclApi;
extern NcclApi nccl;

// Opens the library and fills `nccl`, as cublaslt_open does (cublaslt.h).
const LibraryFound *nccl_open(void);

#endif
