// Opens the CUDA driver, and words its errors (cuda.h).
#include "runtime/gpu/cuda.h"

#include <stdio.h>

#include "ir/base/guard.h"

// Address space, in bytes, that loading the driver needs.
enum { DRIVER_BYTES = 128 << 20 };

CudaApi cuda;
static LibraryFound found;
static GuardOnce once;

static const LibraryFunction functions[] = {
#define CUDA_FUNCTION(member, symbol, parameters) {#symbol, offsetof(CudaApi, member)},
#include "runtime/gpu/cuda.def"
};
static const char *const files[] = {"libcuda.so.1", NULL};
static const LibrarySpec driver = {
    .what = "the CUDA driver",
    .file = files,
    .brings = "install NVIDIA's driver for CUDA 12 or later (Debian: libcuda1)",
    .without = "programs run on the CPU without it",
    .room = DRIVER_BYTES,
    .function = functions,
    .nfunctions = countof(functions),
};

// Returns the name of a result in cuda.h: as the driver tells it or, of a driver that does not
// work, from cuda.def.
static const char *name_of(CudaResult r) {
  static const struct {
    CudaResult result;
    const char *name;
  } names[] = {
#define CUDA_RESULT(own, value, theirs) {own, #theirs},
#include "runtime/gpu/cuda.def"
  };
  const char *name = NULL;
  if (cuda.GetErrorName(r, &name) == CUDA_OK && name) return name;
  for (size_t i = 0; i < countof(names); i++)
    if (names[i].result == r) return names[i].name;
  return "an unknown error";
}

// -- errors ---------------------------------------------------------------------------------------

// What to do about a result of a call.
static const struct {
  CudaResult result;
  const char *advice;
} advices[] = {
    {CUDA_NO_MEMORY, "use a smaller batch, or end other programs that use the GPU (nvidia-smi "
                     "lists them)"},
    {CUDA_NO_DEVICE, "no GPU is visible: look at nvidia-smi and at CUDA_VISIBLE_DEVICES"},
    {CUDA_DEVICE_UNAVAILABLE, "another process has the GPU for itself: end it, or change the "
                              "compute mode (nvidia-smi -c 0)"},
    {CUDA_IS_A_STUB, "the toolkit's stub of libcuda.so.1 was opened: take its folder out of "
                     "LD_LIBRARY_PATH"},
    {CUDA_NOT_PERMITTED, "this user may not use the GPU: see the rights of /dev/nvidia*"},
    {CUDA_DRIVER_MISMATCH, "libcuda.so.1 and the kernel module are of different versions: restart "
                           "the machine after an update of the driver"},
    {CUDA_PTX_TOO_NEW, "update NVIDIA's driver"},
    {CUDA_NO_JIT, "install the driver's compiler of PTX (Debian: libnvidia-ptxjitcompiler1), or "
                  "nvJitLink of the CUDA toolkit"},
    {CUDA_MEMORY_BROKEN, "the memory of the GPU is damaged: see nvidia-smi -q -d ECC"},
    {CUDA_LAUNCH_TIMEOUT, "a GPU with a display ends long kernels: use a GPU without one"},
};

static const char *advice_for(CudaResult r) {
  for (size_t i = 0; i < countof(advices); i++)
    if (advices[i].result == r) return advices[i].advice;
  return "run again; if it happens again, report it with the model and the options, or use "
         "--device cpu";
}

bool cuda_good(CudaResult r, const char *call, Diag *d) {
  if (r == CUDA_OK) return true;
  diag_error(d, r == CUDA_NO_MEMORY ? DIAG_NO_MEMORY : DIAG_FAILURE, (Pos){0}, "GPU: %s gives %s",
             call, name_of(r));
  diag_hint(d, "%s", advice_for(r));
  return false;
}

// -- opening --------------------------------------------------------------------------------------

static void open_driver(void *unused) {
  (void)unused;
  library_fill(&driver, &cuda, &found);
  CudaResult r = found.library ? cuda.Init(0) : CUDA_OK;
  if (r == CUDA_OK) return;
  found.library = NULL;
  snprintf(found.why, sizeof found.why, "the CUDA driver does not start (%s): %s; %s", name_of(r),
           advice_for(r), driver.without);
}

const LibraryFound *cuda_open(void) {
  guard_once(&once, open_driver, NULL);
  return &found;
}
