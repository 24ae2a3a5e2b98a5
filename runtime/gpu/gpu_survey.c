// Finds out what a machine has for programs on GPUs (gpu_survey.h).
#include "runtime/gpu/gpu_survey.h"

#include <stdio.h>
#include <string.h>

#include "runtime/gpu/cublaslt.h"
#include "runtime/gpu/nccl.h"

void library_facts(const LibraryFound *found, const char *version, LibraryFacts *out) {
  memset(out, 0, sizeof *out);
  memcpy(out->path, found->path, sizeof out->path);
  memcpy(out->why, found->why, sizeof out->why);
  if (found->library) snprintf(out->version, sizeof out->version, "%s", version);
}

bool gpu_available(const char **why) {
  const LibraryFound *driver = cuda_open();
  int n = 0;
  *why = driver->library ? "the CUDA driver sees no GPU: look at nvidia-smi and at "
                           "CUDA_VISIBLE_DEVICES; programs run on the CPU without one"
                         : driver->why;
  return driver->library && cuda.DeviceGetCount(&n) == CUDA_OK && n > 0;
}

// -- the driver and its GPUs ----------------------------------------------------------------------

// Describes GPU number i. Returns false if the driver does not tell.
static bool describe(int i, SurveyedGpu *out) {
  CudaDevice device;
  int major = 0, minor = 0;
  size_t memory = 0;
  memset(out, 0, sizeof *out);
  if (cuda.DeviceGet(&device, i) != CUDA_OK ||
      cuda.DeviceGetName(out->name, (int)sizeof out->name - 1, device) != CUDA_OK ||
      cuda.DeviceTotalMem(&memory, device) != CUDA_OK ||
      cuda.DeviceGetAttribute(&out->multiprocessors, CUDA_DEVICE_MULTIPROCESSORS, device) !=
          CUDA_OK ||
      cuda.DeviceGetAttribute(&major, CUDA_DEVICE_CAPABILITY_MAJOR, device) != CUDA_OK ||
      cuda.DeviceGetAttribute(&minor, CUDA_DEVICE_CAPABILITY_MINOR, device) != CUDA_OK)
    return false;
  out->capability = 10 * major + minor;
  out->memory = (int64_t)memory;
  return true;
}

void gpu_survey(GpuSurvey *out) {
  const char *why;
  char text[32];
  int version = 0, n = 0;
  memset(out, 0, sizeof *out);
  bool available = gpu_available(&why);
  const LibraryFound *driver = cuda_open();
  if (driver->library && cuda.DriverGetVersion(&version) != CUDA_OK) version = 0;
  snprintf(text, sizeof text, "%d.%d", version / 1000, version / 10 % 100);
  library_facts(driver, text, &out->driver);
  if (!available) snprintf(out->driver.why, sizeof out->driver.why, "%s", why);
  if (!available || cuda.DeviceGetCount(&n) != CUDA_OK) return;
  for (int i = 0; i < n && out->ngpus < SURVEYED_GPUS; i++)
    if (describe(i, &out->gpu[out->ngpus])) out->ngpus++;
}

// -- libraries ------------------------------------------------------------------------------------

// Writes a version that the library gives as 10000 * major + 100 * minor + patch.
static void version_text(size_t version, char *out, size_t bytes) {
  snprintf(out, bytes, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

void cublaslt_survey(LibraryFacts *out) {
  const LibraryFound *found = cublaslt_open();
  char text[32] = "";
  if (found->library) version_text(cublaslt.GetVersion(), text, sizeof text);
  library_facts(found, text, out);
}

void nccl_survey(LibraryFacts *out) {
  const LibraryFound *found = nccl_open();
  char text[32] = "";
  int version = 0;
  if (found->library && nccl.GetVersion(&version) == NCCL_OK)
    version_text((size_t)version, text, sizeof text);
  library_facts(found, text, out);
}
