// The emulated GPUs, their context, and the names of results.
#include <stdio.h>

#include "tests/standin/cuda/stream.h"

enum { VERSION = 13000 }; // CUDA 13.0

// By this symbol meshc knows that the driver runs code for the emulator.
extern EXPORTED const int meshc_emulator;
const int meshc_emulator = 1;

struct CUctx_st {
  Handle handle;
};

CudaResult cuDriverGetVersion(int *version) {
  *version = VERSION;
  return CUDA_OK;
}

static const struct {
  CudaResult result;
  const char *name;
} results[] = {
#define CUDA_RESULT(own, value, theirs) {own, #theirs},
#include "runtime/gpu/cuda.def"
};

CudaResult cuGetErrorName(CudaResult error, const char **text) {
  *text = NULL;
  for (size_t i = 0; i < countof(results); i++)
    if (results[i].result == error) *text = results[i].name;
  return *text ? CUDA_OK : CUDA_BAD_VALUE;
}

CudaResult cuGetErrorString(CudaResult error, const char **text) {
  return cuGetErrorName(error, text);
}

// -- devices ------------------------------------------------------------------------------------

static bool is_device(CudaDevice device) { return device >= 0 && device < state.devices; }

CudaResult cuDeviceGetCount(int *count) {
  BEGIN("cuDeviceGetCount");
  *count = (int)state.devices;
  END(CUDA_OK);
}

CudaResult cuDeviceGet(CudaDevice *device, int index) {
  BEGIN("cuDeviceGet");
  if (!is_device(index)) END(CUDA_BAD_DEVICE);
  *device = index;
  END(CUDA_OK);
}

CudaResult cuDeviceGetName(char *name, int bytes, CudaDevice device) {
  BEGIN("cuDeviceGetName");
  if (!is_device(device)) END(CUDA_BAD_DEVICE);
  snprintf(name, (size_t)bytes, "emulated GPU");
  END(CUDA_OK);
}

CudaResult cuDeviceGetUuid_v2(CudaUuid *uuid, CudaDevice device) {
  BEGIN("cuDeviceGetUuid");
  if (!is_device(device)) END(CUDA_BAD_DEVICE);
  *uuid = (CudaUuid){.bytes = {(char)(device + 1)}};
  END(CUDA_OK);
}

CudaResult cuDeviceTotalMem_v2(size_t *bytes, CudaDevice device) {
  BEGIN("cuDeviceTotalMem");
  if (!is_device(device)) END(CUDA_BAD_DEVICE);
  *bytes = memory_size(state.memory);
  END(CUDA_OK);
}

int state_shared_bytes(void) {
  return state.capability >= 90 ? 227 << 10 : state.capability == 80 ? 163 << 10 : 99 << 10;
}

CudaResult cuDeviceGetAttribute(int *value, CudaDeviceAttribute attribute, CudaDevice device) {
  BEGIN("cuDeviceGetAttribute");
  if (!is_device(device)) END(CUDA_BAD_DEVICE);
  switch (attribute) {
  case CUDA_DEVICE_BLOCK_THREADS: *value = EMULATOR_THREADS; break;
  case CUDA_DEVICE_GRID_X: *value = INT32_MAX; break;
  case CUDA_DEVICE_GRID_Y: *value = UINT16_MAX; break;
  case CUDA_DEVICE_WARP: *value = GPU_WARP; break;
  case CUDA_DEVICE_MULTIPROCESSORS: *value = 4; break;
  case CUDA_DEVICE_CACHE_BYTES: *value = 4 << 20; break;
  case CUDA_DEVICE_CAPABILITY_MAJOR: *value = (int)state.capability / 10; break;
  case CUDA_DEVICE_CAPABILITY_MINOR: *value = (int)state.capability % 10; break;
  case CUDA_DEVICE_SHARED_BYTES: *value = state_shared_bytes(); break;
  default: standin_fail("cuDeviceGetAttribute: the stand-in lacks attribute %d", (int)attribute);
  }
  END(CUDA_OK);
}

// -- the context --------------------------------------------------------------------------------

CudaResult cuDevicePrimaryCtxRetain(CudaContext *context, CudaDevice device) {
  BEGIN("cuDevicePrimaryCtxRetain");
  if (!is_device(device)) END(CUDA_BAD_DEVICE);
  if (!state.context) state.context = handle_new(HANDLE_CONTEXT, sizeof *state.context, NULL);
  state.users++;
  *context = state.context;
  END(CUDA_OK);
}

CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice device) {
  BEGIN("cuDevicePrimaryCtxRelease");
  if (!is_device(device)) END(CUDA_BAD_DEVICE);
  if (state.users == 0) standin_fail("the context is released more often than it was retained");
  state.users--;
  END(CUDA_OK);
}

CudaResult cuCtxSetCurrent(CudaContext context) {
  BEGIN("cuCtxSetCurrent");
  if (context) handle_check(context, HANDLE_CONTEXT, state_call());
  if (context && state.users == 0) standin_fail("cuCtxSetCurrent gets a released context");
  state_use_signal_stack();
  current_context = context;
  END(CUDA_OK);
}

CudaResult cuCtxSynchronize(void) {
  BEGIN("cuCtxSynchronize");
  CudaResult r = current_context ? capture_disturbed() : CUDA_BAD_CONTEXT;
  END(r == CUDA_OK ? state_wait(NULL) : r);
}
