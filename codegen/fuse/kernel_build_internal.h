// From groups to kernels and instructions: what the parts of program_build share. Private to the
// room.
#ifndef CODEGEN_BUILD_RULES_H
#define CODEGEN_BUILD_RULES_H

#include "codegen/fuse/products_internal.h"

// A kernel and what it is called with in this place of the graph.
typedef struct Built {
  Kernel *kernel;
  NodeId *ptr; // whose memory each pointer is
  Slot *slot;  // values of the kernel's slots
  double *num;
  NodeId *check;     // of each numeric argument: the bound_index whose status code it is, else 0
  Dims outer, inner; // dims of the loops in order, before they were joined: what `position` counts
} Built;

// kernels.c. any_size: a kernel over one joined loop gets no size of its own, so that tensors of
// all sizes share it. What it needs meanwhile lies in `scratch`, which is then as before.
Built *kernel_build(Arena *a, Arena *scratch, const Fusion *f, const Rows *rows, const Group *g,
                    bool any_size);

// kernel_loops.c: the loops of a group in order, then (finish) joined where all pointers allow.
typedef struct LoopPlan {
  Dims outer, inner;
  bool vector_outer;
  DimId rows; // 0: none
} LoopPlan;
LoopPlan loops_choose(const Fusion *f, const Group *g);

// A growing kernel.
typedef struct KernelMaker {
  Arena *a;
  Arena *lasting; // of what the kernel keeps
  const Fusion *f;
  const Rows *rows;
  const Group *g;
  LoopPlan plan;
  VEC(KStmt) stmt;
  VEC(DimId) stmt_dim; // of an INDEX statement, else 0
  VEC(KPtr) ptr;
  VEC(NodeId) ptr_node;
  VEC(bool) ptr_address; // the base of a lookup or a target of sums: used by that statement alone
  VEC(KPtr) walk;
  VEC(Slot) slot;
  VEC(double) num;
  VEC(NodeId) check;
} KernelMaker;
void loops_finish(KernelMaker *m, Kernel *k, bool any_size);
// Whether pointer `store` may be the memory of pointer `load`: each element is read before it is
// written, by the unit that writes it.
bool pointers_overlay(const Kernel *k, int load, int store);

#endif
