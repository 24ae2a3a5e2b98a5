// Shared by the files of fusion: roles of nodes, clusters, loop forms. Private to the room.
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
  bool forward, clone; // has nodes of the forward pass; has rematerialised nodes
  RegionId region;     // of its nodes
  RegionId loop;       // of a scan: the region of its loop, else 0
  LoopForm form;       // of a kernel
  double saved;        // cost that the merges into it saved
} Cluster;

// Two clusters that cannot merge, or gain nothing by it, while neither of them grows.
typedef struct RefusedPair {
  uint64_t pair;  // numbers of both clusters, 0: a free entry
  uint32_t nodes; // number of nodes of both
  const char *why;
} RefusedPair;

typedef struct Fuser {
  Arena *a;
  const Graph *g;
  const Order *order;
  const Buckets *buckets;
  const CodegenOptions *opt;
  const Rows *rows;
  uint32_t count;        // nodes of the graph; arrays below are indexed by node
  const GemmForm **gemm; // of a contraction that a library can run, else NULL
  const char **no_gemm;  // of other contractions: the reason
  uint8_t *role;         // a NodeRole
  bool *recomputed;      // computed in every kernel that uses it, never stored for kernels
  bool *inlined;         // pointwise work that is recomputed under the windows that read it
  bool *resident;        // stored by the first round of clusters, NULL in that round
  bool *memory;          // must be stored: some use needs an address
  bool *update;
  // Edges between nodes that are computed once or stored. Recomputed nodes are looked through:
  // their users read their arguments.
  uint32_t *arg_at,
      *user_at; // count + 2 entries: arg[arg_at[n] .. arg_at[n + 1]) are the arguments of n
  NodeId *arg, *user;
  bool *arg_address; // of each arg: the use needs an address, so it cannot be in the same kernel
  uint32_t *of;      // cluster of a node, 0: none
  uint32_t *mark, stamp;  // a node is in the current set when mark[node] == stamp
  VEC(Cluster *) cluster; // entry 0 unused
  VEC(uint32_t) sequence; // cluster at each rank, in topological order, 0: none
  uint32_t *kept;         // scratch of a merge, as `after`
  bool *after;
  RefusedPair *refused; // open hash table
  uint32_t refused_n, refused_cap;
} Fuser;

// fuse_roles.c. Finds role, recomputed, inlined, memory, update, arguments and users.
void roles_find(Fuser *f);
// Returns true if n needs its argument i in memory.
bool uses_address(const Fuser *f, NodeId n, int i);
// Returns the dims over which n computes: the dims of its arguments for a reduction, otherwise of
// its result.
Dims node_space(const Graph *g, NodeId n);
static inline bool op_reduces(Op op) {
  return op_row(op)->cls == REDUCE || op == OP_CONTRACT || op == OP_SCATTER_ADD;
}

// Returns true if n is a contraction that reuses its operands, so that register tiles are
// worthwhile.
static inline bool op_tiles(const Graph *g, NodeId n) {
  return graph_node(g, n)->op == OP_CONTRACT && !contract_is_dot(g, n);
}

// fuse_form.c. Finds the cheapest loops that compute the marked nodes in one kernel. node[0..n):
// the marked nodes, ascending. Returns false if there are none; *why then is the reason.
MUST_USE bool form_find(Fuser *f, uint32_t n, const NodeId *node, LoopForm *out, const char **why);
// Return true if a node outside the marked set uses the value, or if a marked node uses it.
bool value_stored(const Fuser *f, NodeId n);
bool value_used(const Fuser *f, NodeId n);
// Returns true if reduction n becomes an accumulator (K_ACCUM) under these loops.
bool reduce_accumulates(const Graph *g, NodeId n, const Dims *outer, const Dims *inner);

// fuse_merge.c. Makes a cluster of each node (one of each bucket), then merges clusters greedily.
void clusters_make(Fuser *f);
void clusters_merge(Fuser *f);
// Returns why kernel b, which reads a value of kernel a, was not merged with it; NULL: unknown.
// `address`: b needs that value in memory.
const char *merge_refusal(Fuser *f, const Cluster *a, const Cluster *b, bool address);
void clusters_resident(Fuser *f); // sets f->resident

// fuse_launch.c. Builds the kernels of all groups in arena a. With `share`, update kernels that are
// equal and independent get one launch number.
void kernels_make(Arena *a, Fusion *f, bool share);

#endif
