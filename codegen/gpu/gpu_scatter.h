// Kernels that only scatter, such as the gradient of an embedding, computed by many blocks of
// threads. gpu_scatter_plan.c says which kernels these are.
#ifndef CODEGEN_GPU_SCATTER_H
#define CODEGEN_GPU_SCATTER_H

#include "codegen/gpu/gpu_internal.h"

// -- gpu_scatter_plan.c
// Returns whether the blocks of k own rows, and how in *o. dep: GpuPlan.dep. The arena is for
// scratch.
bool gpu_scatter_plan(Arena *a, const Kernel *k, const LoopSet *dep, GpuOwners *o);
// Returns the bytes of shared memory of a block.
int gpu_scatter_shared(const GpuOwners *o);
char *gpu_scatter_print(Arena *a, const GpuOwners *o);
// Marks scatter s and all statements that it needs, in needed[0..nstmts).
void gpu_scatter_needs(const Kernel *k, int s, bool *needed);

#ifdef MESHC_HAVE_LLVM
// -- gpu_scatter.c
// Emits the block's share of a kernel of TEAM_OWNERS.
void gpu_scatter_rows(GpuEmit *g);
#endif

#endif
