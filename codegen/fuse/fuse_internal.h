// Shared by the files of fusion. Private to the room. A role says what a node becomes. A cluster is
// a set of nodes that becomes a group. A loop form is the outer and inner loops of a kernel. A
// value "needs an address" where it must be in memory: a GEMM or collective reads it, or a kernel
// reads its elements at other positions than those of its loops.
#ifndef CODEGEN_FUSE_INTERNAL_H
#define CODEGEN_FUSE_INTERNAL_H

#include "codegen/fuse/gemm_form_internal.h"

typedef enum NodeRole {
  ROLE_SOURCE,
  ROLE_NUMBER,
  ROLE_KERNEL,
  ROLE_GEMM,
  ROLE_COLLECTIVE,
  ROLE_ORDERED,
  ROLE_ALIAS,
  ROLE_LOOP,
} NodeRole;

// The loops of a kernel, and its estimated cost.
typedef struct LoopForm {
  Dims outer, inner;
  double cost; // bytes moved, plus computation in units of bytes
  int64_t load_bytes, store_bytes;
} LoopForm;

// A set of nodes that becomes a group.
typedef struct Cluster {
  uint32_t n;
  NodeId *node;  // ascending
  uint32_t rank; // position in Fuser.sequence
  bool kernel, update;
  bool tiles;      // has a contraction in register tiles
  bool forward;    // has nodes of the forward pass
  bool clone;      // has nodes that are rematerialised for the backward pass
  RegionId region; // the loop that all its nodes are in, 0: none
  RegionId loop;   // if its only node is a SCAN: the region of the scan's loop, else 0
  LoopForm form;   // if it is a kernel
  double saved;    // what the merges into it saved, in units of LoopForm.cost
} Cluster;

// Two clusters that cannot merge, or would gain nothing. This holds until one of them grows.
typedef struct RefusedPair {
  uint64_t pair;  // indices of both clusters, the smaller one in the upper 32 bits; 0: a free entry
  uint32_t nodes; // number of nodes of both together: another number shows that one has grown
  const char *why;
} RefusedPair;

typedef struct Fuser {
  Arena *a;
  const Graph *g;
  const Order *order;
  const Buckets *buckets;
  const CodegenOptions *opt;
  const Rows *rows;
  const NodeId *scan;    // by region: its SCAN
  uint32_t count;        // nodes of the graph; arrays below are indexed by node
  const GemmForm **gemm; // of a contraction that a library can run, else NULL
  const char **no_gemm;  // of other contractions: the reason
  uint8_t *role;         // a NodeRole
  bool *recomputed;      // computed in every kernel that uses it, never stored for kernels
  bool *inlined;         // pointwise, and computed where windows that read it need an element
  bool *resident;        // stored after the first merging of clusters; NULL before
  bool *memory;          // must be stored: some use needs an address
  bool *update;
  // Arguments and users of each node that is stored or not recomputed. A recomputed node is left
  // out: its users count as users of its arguments.
  uint32_t *arg_at, *user_at; // of n: arg[arg_at[n] .. arg_at[n + 1]), and user with user_at
  NodeId *arg, *user;
  bool *arg_address;      // by entry of `arg`: the use needs an address, so both are in two kernels
  uint32_t *of;           // by node: index of its cluster, 0: none
  uint32_t *mark, stamp;  // the nodes of the cluster under test have mark[node] == stamp
  VEC(Cluster *) cluster; // entry 0 unused
  VEC(uint32_t) sequence; // cluster at each rank, in topological order, 0: none
  uint32_t *kept;         // scratch memory of one merge: clusters to reorder
  bool *after;            // scratch memory of one merge: see dependents_find in fuse_merge.c
  RefusedPair *refused;   // hash table with open addressing of refused_cap entries, refused_n used
  uint32_t refused_n, refused_cap;
} Fuser;

// fuse_roles.c. Sets the fields role, recomputed, inlined, memory, update, and arg to arg_address.
void roles_find(Fuser *f);
// Returns true if n needs its argument i in memory, not in a register of the kernel.
bool uses_address(const Fuser *f, NodeId n, int i);
// Returns the dims over which n computes: the dims of its arguments for a reduction, otherwise of
// its result.
Dims node_space(const Graph *g, NodeId n);
static inline bool op_reduces(Op op) {
  return op_row(op)->cls == REDUCE || op == OP_CONTRACT || op == OP_SCATTER_ADD;
}

// Returns true if n is a contraction in which each element of an argument is a factor of several
// results. Its kernel computes blocks of results in registers (register tiles), to load it once.
static inline bool op_tiles(const Graph *g, NodeId n) {
  return graph_node(g, n)->op == OP_CONTRACT && !contract_is_dot(g, n);
}

// fuse_form.c. Finds the cheapest loops that compute the marked nodes in one kernel. node[0..n):
// the marked nodes, ascending. Returns false if there are none; *why then is the reason.
MUST_USE bool form_find(Fuser *f, uint32_t n, const NodeId *node, LoopForm *out, const char **why);
// Returns true if the kernel of the marked nodes must store n: another node or an output uses it.
bool value_stored(const Fuser *f, NodeId n);
// Returns true if a marked node uses n.
bool value_used(const Fuser *f, NodeId n);
// Returns true if reduction n becomes an accumulator (K_ACCUM) under these loops.
bool reduce_accumulates(const Graph *g, NodeId n, const Dims *outer, const Dims *inner);

// fuse_merge.c. Makes a cluster of each node (one of each bucket), then merges clusters greedily.
void clusters_make(Fuser *f);
void clusters_merge(Fuser *f);
// Returns a constant text: why kernel b, which reads a value of kernel a, was not merged with it.
// NULL: the merge was not tried. `address`: b needs that value in memory.
const char *merge_refusal(Fuser *f, const Cluster *a, const Cluster *b, bool address);
// Sets f->resident: the nodes whose values the present clusters store.
void clusters_resident(Fuser *f);

// fuse_launch.c. Builds the kernels of all groups in arena a. With `share`, update kernels that are
// equal and independent get one launch number.
void kernels_make(Arena *a, Fusion *f, bool share);

#endif
