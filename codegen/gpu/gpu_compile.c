// Compiles kernels by LLVM for a GPU (PTX), or for the emulator (an object for this processor).
#include "codegen/gpu/gpu_internal.h"

#include <stdio.h>

#ifdef MESHC_HAVE_LLVM

// The kernels of a module.
typedef struct GpuModule {
  const Kernel *const *kernel;
  const char *const *symbol;
  uint32_t n;
  const GpuCodeOptions *opt;
} GpuModule;

static void add_kernels(LLVMModuleRef m, const EmitTarget *t, void *context) {
  const GpuModule *g = context;
  for (uint32_t i = 0; i < g->n; i++) gpu_emit(m, g->kernel[i], g->symbol[i], g->opt, t);
}

bool gpu_compile(const Kernel *const *k, const char *const *symbol, uint32_t n,
                 const GpuCodeOptions *opt, LlvmForm form, Bytes *out, char *why) {
  GpuModule module = {k, symbol, n, opt};
  char cpu[16];
  snprintf(cpu, sizeof cpu, "sm_%d", opt->capability);
  // PTX 8.0 is the first that knows sm_90 well; drivers from 525 on take it
  LlvmTarget nvptx = {"NVPTX", "nvptx64-nvidia-cuda", cpu, "+ptx80"};
  CodeOptions options = {.opt = opt->opt};
  return llvm_build(&options, opt->target == GPU_PTX ? &nvptx : NULL, "function(mem2reg,early-cse)",
                    add_kernels, &module, form, out, why);
}

#else

bool gpu_compile(const Kernel *const *k, const char *const *symbol, uint32_t n,
                 const GpuCodeOptions *opt, LlvmForm form, Bytes *out, char *why) {
  (void)k, (void)symbol, (void)n, (void)opt, (void)form, (void)out;
  snprintf(why, LLVM_WHY, "this build has no LLVM");
  return false;
}
#endif
