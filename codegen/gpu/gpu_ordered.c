// The functions of ordered operations on a GPU: which a program needs, and their frame. In: a kind
// and an element type. Out: a function with the parameters of ir/program/gpu.h whose slots and
// order of additions ir/program/gpu_ordered.h describes. Results are those of
// runtime/exec/ordered.c, but for the rounding of sums (gpu_scan.c).
#include "codegen/gpu/gpu_ordered_internal.h"

#include <string.h>

#ifdef MESHC_HAVE_LLVM
void gpu_ordered_emit(LLVMModuleRef module, const GpuOrdered *o, const GpuCodeOptions *opt,
                      const EmitTarget *t) {
  Arena *a = arena_new();
  GpuEmit g = {.e = {.arena = a, .target = t, .module = module}, .opt = opt};
  g.e.ctx = LLVMGetModuleContext(module);
  g.e.b = LLVMCreateBuilderInContext(g.e.ctx);
  emit_types(&g.e);
  LLVMBasicBlockRef done = gpu_run_begin(&g, gpu_ordered_name(o->kind, o->type), ORDERED_THREADS,
                                         gpu_record_bytes(ORDERED_POINTERS, ORDERED_SLOTS, 0));
  if (o->kind == ORDERED_ARGSORT || o->kind == ORDERED_TOP_K)
    gpu_sort_emit(&g, o->type);
  else
    gpu_scan_emit(&g, o->kind, o->type);
  gpu_run_end(&g, done);
  LLVMDisposeBuilder(g.e.b);
  arena_free(a);
}
#endif

uint32_t gpu_ordered_list(Arena *a, const Program *p, GpuOrdered **out) {
  uint32_t n = 0;
  GpuOrdered *list = arena_array(a, GpuOrdered, p->ninstrs + 1);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    if (p->instr[i].kind != INSTR_ORDERED) continue;
    const Ordered *w = &p->instr[i].u.ordered;
    const char *name = gpu_ordered_name(w->kind, w->type);
    uint32_t k = 0;
    while (k < n && strcmp(gpu_ordered_name(list[k].kind, list[k].type), name) != 0) k++;
    if (k == n) list[n++] = (GpuOrdered){w->kind, w->type};
  }
  *out = list;
  return n;
}
