// Compiles kernels by LLVM for a GPU (PTX), or for the emulator (an object for this processor).
#include "codegen/gpu/gpu_internal.h"

#include <stdio.h>

#ifdef MESHC_HAVE_LLVM

static void add_functions(LLVMModuleRef m, const EmitTarget *t, void *context) {
  const GpuModule *g = context;
  for (uint32_t i = 0; i < g->n; i++) gpu_emit(m, g->kernel[i], g->symbol[i], g->opt, t);
  for (uint32_t i = 0; i < g->nordered; i++) gpu_ordered_emit(m, &g->ordered[i], g->opt, t);
  if (g->judges) gpu_judge_emit(m, g->opt, t);
}

// The last GPU that LLVM 19 knows. Later ones take its PTX: the assembler translates it for them.
enum { LAST_CAPABILITY = 90 };

bool gpu_compile(const GpuModule *m, LlvmForm form, Bytes *out, char *why) {
  const GpuCodeOptions *opt = m->opt;
  int capability = opt->capability < LAST_CAPABILITY ? opt->capability : LAST_CAPABILITY;
  GpuModule module = *m;
  char cpu[16];
  snprintf(cpu, sizeof cpu, "sm_%d", capability);
  // PTX 8.0 is the first that knows sm_90 well; drivers from 525 on take it
  LlvmTarget nvptx = {"NVPTX", "nvptx64-nvidia-cuda", cpu, "+ptx80"};
  // Only tests run code for the emulator: to compile it well would take longer than to run it.
  CodeOptions options = {.opt = opt->target == GPU_EMULATED ? 0 : opt->opt};
  return llvm_build(&options, opt->target == GPU_PTX ? &nvptx : NULL, "function(mem2reg,early-cse)",
                    add_functions, &module, form, out, why);
}

#else

bool gpu_compile(const GpuModule *m, LlvmForm form, Bytes *out, char *why) {
  (void)m, (void)form, (void)out;
  snprintf(why, LLVM_WHY, "this build has no LLVM");
  return false;
}
#endif
