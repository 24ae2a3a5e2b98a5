// What the files that build the kernel of a group share: loops (kernel_loops.c), statements
// (kernel_build.c), windows and slices (kernel_views.c). Private to the room.
#ifndef CODEGEN_FUSE_KERNEL_BUILD_H
#define CODEGEN_FUSE_KERNEL_BUILD_H

#include "codegen/values/gemm_form_internal.h"

// The kernel of one group, and the arguments of its call.
typedef struct BuiltKernel {
  Kernel *kernel;
  NodeId *ptr; // by pointer: the node whose memory it addresses
  Slot *slot;  // by slot: the value that it has in the call
  double *num;
  NodeId *check; // by numeric argument: the bound_index whose status code it is, else 0
  // Dims of the loops in order, before loops were joined. The position that a failed check reports
  // (BOUND in kernel.h) counts along them.
  DimList outer, inner;
} BuiltKernel;

// Builds the kernel of group g. With any_size, a kernel with one loop takes the size of the loop at
// run time, so that tensors of all sizes have equal kernels. The result is allocated in `a`. Memory
// taken from `scratch` is given back before the return. images: whether Kernel.images may be set.
BuiltKernel *kernel_build(Arena *a, Arena *scratch, const Fusion *f, const Group *g, bool any_size,
                          bool images);

// The dims that the loops of a kernel run over, slowest loop first.
typedef struct LoopPlan {
  Dims outer, inner;
  bool vector_outer; // the vectorised loop is the last outer one, else the last inner one
  DimId rows;        // dim of the loop over the rows of a register tile, 0: none
  Dims dots;         // dims that K_DOT statements sum over; an outer loop may run over one, too
} LoopPlan;
// Returns the dim of loop i of a planned kernel: the outer loops come first, then the inner ones,
// then the dot loops.
static inline DimId plan_dim(const LoopPlan *plan, int i) {
  int inner = i - plan->outer.n, dot = inner - plan->inner.n;
  return inner < 0 ? plan->outer.at[i] : dot < 0 ? plan->inner.at[inner] : plan->dots.at[dot];
}
static inline int plan_loops(const LoopPlan *plan) {
  return plan->outer.n + plan->inner.n + plan->dots.n;
}
LoopPlan loops_choose(const Fusion *f, const Group *g);

// What the building of a kernel knows of the value of one node: where in the loops it is computed,
// and which statement holds it.
typedef struct KernelValue {
  uint8_t level, phase;
  uint8_t ready; // first phase that can use it: `phase` + 1 for a reduction, else `phase`
  bool direct;   // computed at the loop counters; other values are read through windows only
  bool stored, reduces, accumulates;
  bool needed;     // the inner loops of the phase that is being emitted must compute it
  int32_t stmt;    // index of the statement with its value, NO_STMT before it is emitted
  int inner_phase; // phase of that statement if its level is INNER, else -1
} KernelValue;

// A load that was emitted: statement `stmt` loads the value of `node` in phase `phase`, a pass over
// the inner loops.
typedef struct KernelLoad {
  NodeId node;
  KLevel level;
  int phase;
  int32_t stmt;
} KernelLoad;

// A kernel under construction.
typedef struct KernelBuilder {
  Arena *a;       // scratch memory
  Arena *lasting; // memory for everything that the finished kernel refers to
  const Fusion *f;
  const Graph *g;
  const Group *group;
  uint32_t n; // number of nodes of the group
  const NodeId *node;
  KernelValue *value; // by index in `node`
  LoopPlan plan;
  VEC(KernelLoad) load;
  VEC(KStmt) stmt;
  VEC(DimId) stmt_dim; // by statement: the dim along which an INDEX counts, else 0
  VEC(KPtr) ptr;
  VEC(NodeId) ptr_node;
  VEC(bool) ptr_address; // by pointer: for a lookup, scatter or accumulator, not for loads, stores
  VEC(KPtr) walk;
  VEC(Slot) slot;
  VEC(double) num;
  VEC(NodeId) check;
} KernelBuilder;

// -- kernel_builder.c: parts of a kernel. Pointers and slots that are equal are entered once.
int group_index(const Group *g, NodeId n); // index of n in g->node; -1: n is outside the group
KStmt stmt_new(KKind kind, Op op, Dtype type, KLevel level, int phase, NodeId n);
// Sorts the arguments of statement s by index if its op is commutative. Layers of equal structure
// then have equal kernels, though their nodes are numbered differently.
void stmt_order_args(KStmt *s);
int32_t kernel_add(KernelBuilder *k, KStmt s); // appends a statement, returns its index
int32_t kernel_add_num(KernelBuilder *k, double x, NodeId check);
int32_t kernel_add_pointer(KernelBuilder *k, NodeId node, const KPtr *ptr, bool address);
int16_t kernel_add_slot(KernelBuilder *k, Slot s);
// Returns the level of a value with dims `dims`. It is INNER if an inner loop runs over one of the
// dims, else OUTER if an outer loop does, else PROLOGUE.
KLevel loops_level(const KernelBuilder *k, const DimList *dims);

// -- kernel_views.c
// Emits the value of n at the loop counters. n is a window, a SLICE_OWN (the own block of the
// processor in a value) or a random draw. Returns the index of its statement.
int32_t view_emit(KernelBuilder *k, NodeId n, int phase);

// -- kernel_dot.c: contractions that every kernel which reads them computes (K_DOT)
// Returns whether node n is such a contraction.
bool is_dot(const Fusion *f, NodeId n);
// Returns the dims that the dots of group g sum over, in the order of their memory.
Dims dots_of(const Fusion *f, const Group *g);
// Emits dot n. Returns the index of its statement.
int32_t dot_emit(KernelBuilder *k, NodeId n, int phase);

// -- kernel_loops.c
// Writes the loops into `kernel`. Joins adjacent loops where all pointers allow it. Sets the
// strides of pointers and walks (addresses without memory, kernel.h) for the joined loops. With
// any_size, a single loop takes its size at run time.
void loops_finish(KernelBuilder *k, Kernel *kernel, bool any_size);
// Returns true if pointers `store` and `load` may address the same memory. Then one iteration of
// the outer loops accesses an element through both, and loads it before it stores it.
bool pointers_overlay(const Kernel *k, int load, int store);

// -- loop_rows.c
// Returns the outer loop of kernel k of group g that runs over the rows of the loop around g
// (Fusion.loop_rows). The units of the kernel are then, for each round of the loops before it, the
// rows times the units of the loops after it. Returns -1 if there is no such loop, or if the kernel
// must run as a whole.
int loop_of_rows(const Fusion *f, const Group *g, const Kernel *k);

// -- kernel_images.c
// Rewrites k so that its units are images (Kernel.images), if it is the gradient of the weights of
// a 3x3 convolution with enough channels and images.
void kernel_by_images(Kernel *k);

#endif
