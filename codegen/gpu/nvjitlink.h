// nvJitLink, NVIDIA's linker and assembler: own declarations of what meshc uses of it. Functions
// and values are rows of nvjitlink.def, which has the name of each in nvJitLink.h.
#ifndef CODEGEN_GPU_NVJITLINK_H
#define CODEGEN_GPU_NVJITLINK_H

#include <stddef.h>
#include <stdint.h>

typedef struct nvJitLink *NvJitLinkHandle;

typedef enum NvJitLinkResult {
#define NVJITLINK_RESULT(own, value, theirs) own = value,
#include "codegen/gpu/nvjitlink.def"
} NvJitLinkResult;
typedef enum NvJitLinkInput { // nvJitLinkInputType
#define NVJITLINK_INPUT(own, value, theirs) own = value,
#include "codegen/gpu/nvjitlink.def"
} NvJitLinkInput;

typedef struct NvJitLinkApi {
#define NVJITLINK_FUNCTION(member, symbol, parameters) NvJitLinkResult(*member) parameters;
#include "codegen/gpu/nvjitlink.def"
} NvJitLinkApi;

#endif
