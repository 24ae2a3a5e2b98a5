// Builds the kernel of a group: its loops (kernel_loops.c), statements (kernel_build.c), windows
// and slices (kernel_views.c). Private to the room.
#ifndef CODEGEN_FUSE_KERNEL_BUILD_H
#define CODEGEN_FUSE_KERNEL_BUILD_H

#include "codegen/fuse/gemm_form_internal.h"

// A kernel and the arguments of its call for one group.
typedef struct BuiltKernel {
  Kernel *kernel;
  NodeId *ptr; // of each pointer: the node whose memory it addresses
  Slot *slot;  // values of the kernel's slots
  double *num;
  NodeId *check; // of each numeric argument: the bound_index whose status code it is, else 0
  DimList outer,
      inner; // dims of the loops in order, before they were joined: what `position` counts
} BuiltKernel;

// Builds the kernel of group g. With any_size, a kernel with one loop takes the size of the loop as
// a run-time argument, so that tensors of all sizes have equal kernels. The result is allocated in
// `a`; `scratch` is reset to its state before the call.
BuiltKernel *kernel_build(Arena *a, Arena *scratch, const Fusion *f, const Group *g, bool any_size);

// The dims of the loops of a kernel, slowest loop first.
typedef struct LoopPlan {
  Dims outer, inner;
  bool vector_outer; // the vectorised loop is the last outer one, else the last inner one
  DimId rows;        // loop of a register tile's rows, 0: none
} LoopPlan;
// Returns the dim of loop i, outer loops first.
static inline DimId plan_dim(const LoopPlan *plan, int i) {
  return i < plan->outer.n ? plan->outer.at[i] : plan->inner.at[i - plan->outer.n];
}
LoopPlan loops_choose(const Fusion *f, const Group *g);

// A node of the group: where its value is computed, and the statement that holds it.
typedef struct KernelValue {
  uint8_t level, phase;
  uint8_t ready; // first phase in which others can use it; for a reduction `phase` + 1
  bool direct;   // used at the loop counters; other values are used through windows only
  bool stored, reduces, accumulates;
  bool needed;     // the inner loops of the phase that is being emitted compute it
  int32_t stmt;    // index of the statement with its value, NO_STMT before it is emitted
  int inner_phase; // phase of that statement if level is INNER, else -1
} KernelValue;

// A load that was emitted: statement `stmt` loads the value of `node` in phase `phase`.
typedef struct KernelLoad {
  NodeId node;
  KLevel level;
  int phase;
  int32_t stmt;
} KernelLoad;

// A kernel under construction.
typedef struct KernelBuilder {
  Arena *a;       // scratch
  Arena *lasting; // for everything that the finished kernel refers to
  const Fusion *f;
  const Graph *g;
  const Group *group;
  uint32_t n; // nodes of the group
  const NodeId *node;
  KernelValue *value; // of node[i]
  LoopPlan plan;
  VEC(KernelLoad) load;
  VEC(KStmt) stmt;
  VEC(DimId) stmt_dim; // by statement: the dim of an INDEX, else 0
  VEC(KPtr) ptr;
  VEC(NodeId) ptr_node;
  VEC(bool) ptr_address; // by pointer: the table of a lookup or target of a scatter, not shared
  VEC(KPtr) walk;
  VEC(Slot) slot;
  VEC(double) num;
  VEC(NodeId) check;
} KernelBuilder;

// -- kernel_builder.c: parts of a kernel. Pointers and slots that are equal are entered once.
int group_index(const Group *g, NodeId n); // index of n in g->node, -1: outside
KStmt stmt_new(KKind kind, Op op, Dtype type, KLevel level, int phase, NodeId n);
// Orders the arguments of a commutative op. Equal layers then have equal kernels, though their
// nodes are numbered differently.
void stmt_order_args(KStmt *s);
int32_t kernel_add(KernelBuilder *k, KStmt s); // returns the number of the statement
int32_t kernel_add_num(KernelBuilder *k, double x, NodeId check);
int32_t kernel_add_pointer(KernelBuilder *k, NodeId node, const KPtr *ptr, bool address);
int16_t kernel_add_slot(KernelBuilder *k, Slot s);
// Returns the level of a value that varies along these dims: INNER if one is an inner loop, else
// OUTER if one is an outer loop, else PROLOGUE.
KLevel loops_level(const KernelBuilder *k, const DimList *dims);

// -- kernel_views.c
// Emits the value of n, a window, a SLICE_OWN (the processor's own block of a value) or a draw, at
// the loop counters. Returns the index of its statement.
int32_t view_emit(KernelBuilder *k, NodeId n, int phase);

// -- kernel_loops.c
// Writes the loops into `kernel`. Adjacent loops are joined where all pointers allow. Sets the
// strides of pointers and walks for the joined loops.
void loops_finish(KernelBuilder *k, Kernel *kernel, bool any_size);
// Returns true if pointer `store` may address the memory of pointer `load`: the same unit accesses
// an element through both, and loads it before it stores it.
bool pointers_overlay(const Kernel *k, int load, int store);

#endif
