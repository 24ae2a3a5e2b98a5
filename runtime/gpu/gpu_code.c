// Loads the images of a program's kernels into the GPU and finds their functions.
#include "runtime/gpu/gpu_internal.h"

#include <stdlib.h>
#include <string.h>

enum { LOG = 2048, SHARED_ALWAYS = 48 << 10 }; // bytes of shared memory that need no permission

static bool load_image(GpuProgram *p, const GpuImage *image, Diag *d) {
  char log[LOG] = "";
  CudaJitOption option[] = {CUDA_JIT_ERRORS, CUDA_JIT_ERRORS_BYTES};
  void *value[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  CudaResult r = cuda.ModuleLoadDataEx(&p->module[p->nmodules], image->at, 2, option, value);
  if (cuda_good(r, "cuModuleLoadDataEx of the kernels", d)) {
    p->nmodules++;
    return true;
  }
  if (*log) diag_note(d, (Pos){0}, "%s", log);
  return false;
}

CudaFunction gpu_function(const GpuProgram *p, const char *name, int shared, Diag *d) {
  CudaFunction f = NULL;
  CudaResult r = CUDA_NOT_FOUND;
  for (uint32_t i = 0; i < p->nmodules && r == CUDA_NOT_FOUND; i++)
    r = cuda.ModuleGetFunction(&f, p->module[i], name);
  if (!cuda_good(r, "cuModuleGetFunction", d)) {
    diag_note(d, (Pos){0}, "the function is %s", name);
    return NULL;
  }
  if (shared > SHARED_ALWAYS &&
      !cuda_good(cuda.FuncSetAttribute(f, CUDA_KERNEL_DYNAMIC_SHARED_BYTES, shared),
                 "cuFuncSetAttribute of shared memory", d))
    return NULL;
  return f;
}

static bool find_functions(GpuProgram *p, Diag *d) {
  for (uint32_t k = 0; k < p->program->nkernels; k++) {
    const GpuEntry *entry = &p->entry[k];
    p->kernel[k].run = gpu_function(p, entry->run, entry->shared, d);
    if (!p->kernel[k].run) return false;
    if (!entry->combine) continue;
    p->kernel[k].combine = gpu_function(p, entry->combine, entry->combine_shared, d);
    if (!p->kernel[k].combine) return false;
  }
  if (!p->nmodules) return true; // a program without code, which only keeps tensors
  GpuEntry judge = gpu_judge_entry(), move = gpu_move_entry();
  p->judge = gpu_function(p, judge.run, judge.shared, d);
  p->move = p->judge ? gpu_function(p, move.run, move.shared, d) : NULL;
  return p->move != NULL;
}

static bool load(GpuProgram *p, const GpuParts *parts, Diag *d) {
  if (!gpu_use(p->gpu, d)) return false;
  for (uint32_t i = 0; i < parts->nimages; i++)
    if (!load_image(p, &parts->image[i], d)) return false;
  return find_functions(p, d);
}

GpuProgram *gpu_program_new(Gpu *g, const Program *program, const GpuParts *parts, Diag *d) {
  GpuProgram *p = mem_zeroed(1, sizeof *p);
  p->device = (ExecDevice){.ranks = parts->messages != NULL,
                           .begin = gpu_begin,
                           .end = gpu_end,
                           .ahead = gpu_ahead,
                           .start = gpu_start,
                           .finish = gpu_finish,
                           .writes = gpu_writes,
                           .wrote = gpu_wrote,
                           .fetch = gpu_fetch,
                           .fetch_bytes = gpu_fetch_bytes,
                           .wait = gpu_wait,
                           .why = gpu_why};
  p->gpu = g;
  p->program = program;
  p->entry = parts->entry;
  p->transfers = parts->transfers;
  p->messages = parts->messages;
  p->join = parts->join;
  p->kernel = mem_zeroed(program->nkernels + 1u, sizeof *p->kernel);
  p->module = mem_zeroed(parts->nimages + 1u, sizeof *p->module);
  if (load(p, parts, d)) return p;
  gpu_program_free(p);
  return NULL;
}

void gpu_program_free(GpuProgram *p) {
  if (!p) return;
  (void)cuda.CtxSetCurrent(p->gpu->context);
  for (uint32_t i = 0; i < p->nmodules; i++) (void)cuda.ModuleUnload(p->module[i]);
  free(p->kernel);
  free(p->module);
  free(p);
}

const ExecDevice *gpu_program_device(const GpuProgram *p) { return p ? &p->device : NULL; }
