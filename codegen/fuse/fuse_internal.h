// What the parts of fusion share: roles of nodes, clusters, loop forms. Private to the room.
#ifndef CODEGEN_FUSE_RULES_H
#define CODEGEN_FUSE_RULES_H

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

// A set of nodes that becomes a group.
typedef struct Cluster {
  uint32_t n;
  NodeId *node;  // ascending
  uint32_t rank; // place in the order of clusters
  bool kernel, update;
  bool forward, clone; // has nodes of the forward pass; has some that are computed again for the
                       // backward pass
  RegionId region;     // that its nodes are in
  RegionId loop;       // of a scan: the loop that it ends, else 0
  Dims outer, inner;
  int64_t load_bytes, store_bytes;
  double cost;  // bytes moved, and work as bytes
  double saved; // by the merges that made it
} Cluster;

// Two clusters that no loop form holds together or that save nothing so, as long as both stay as
// they are.
typedef struct RefusedPair {
  uint64_t pair;  // of their numbers, 0: free
  uint32_t nodes; // of both together
  const char *why;
} RefusedPair;

typedef struct Fuser {
  Arena *a;
  const Graph *g;
  const Order *order;
  const Buckets *buckets;
  const CodegenOptions *opt;
  const Rows *rows;
  uint32_t count;        // nodes
  const GemmForm **gemm; // of contractions that a library can run, else NULL
  const char **no_gemm;  // of other contractions: why not
  uint8_t *role;         // a NodeRole
  bool *recomputed;      // computed again in every kernel that uses it
  bool *inlined;         // pointwise work that windows over it compute where they read
  bool *resident;        // stored by a first round of clusters: there to be read again
  bool *memory;          // some use needs an address
  bool *update;
  // Arguments and users between nodes that compute or lie in memory, looking through `again`.
  uint32_t *arg_at, *user_at; // count + 2
  NodeId *arg, *user;
  bool *arg_address; // the use needs an address: never from inside the same kernel
  uint32_t *of;      // cluster of a node, 0: none
  uint32_t *mark, stamp;
  VEC(Cluster *) cluster; // entry 0 unused
  VEC(uint32_t) sequence; // cluster at each rank, 0: hole
  uint32_t *kept;         // scratch of a merge
  bool *after;
  RefusedPair *refused; // open hash by pair
  uint32_t refused_n, refused_cap;
} Fuser;

typedef struct LoopForm {
  Dims outer, inner;
  double cost;
  int64_t load_bytes, store_bytes;
} LoopForm;

// fuse_roles.c: role, again, memory, update, arguments and users.
void roles_find(Fuser *f);
// Argument i of n is used as an address.
bool uses_address(const Fuser *f, NodeId n, int i);
// The dims that a node's arguments run over: of reductions and the like more than its result's.
Dims node_space(const Graph *g, NodeId n);
static inline bool op_reduces(Op op) {
  return op_row(op)->cls == REDUCE || op == OP_CONTRACT || op == OP_SCATTER_ADD;
}

// A contraction that reuses its operands: worth register tiles.
static inline bool op_tiles(const Graph *g, NodeId n) {
  return graph_node(g, n)->op == OP_CONTRACT && !contract_is_dot(g, n);
}

// fuse_form.c: the loops of the nodes marked with f->stamp, `node` ascending; false with a reason
// when no kernel can hold them together.
MUST_USE bool form_find(Fuser *f, uint32_t n, const NodeId *node, LoopForm *out, const char **why);
// Whether the value leaves the marked nodes, and whether one of them uses it.
bool value_stored(const Fuser *f, NodeId n);
bool value_used(const Fuser *f, NodeId n);
// Reductions that become accumulators under such loops (K_ACCUM), by dims alone.
bool reduce_accumulates(const Graph *g, NodeId n, const Dims *outer, const Dims *inner);

// fuse_merge.c: clusters of single nodes (and buckets), then merges, greedy by bytes saved.
void clusters_make(Fuser *f);
void clusters_merge(Fuser *f);
// Why a kernel b that reads a value of a is not one with it, NULL: not known; `address`: it needs
// the value in memory.
const char *merge_refusal(Fuser *f, const Cluster *a, const Cluster *b, bool address);
void clusters_resident(Fuser *f); // notes which values the clusters store

// fuse_launch.c: the kernels of all groups. With `share`, update kernels that are equal and
// independent get one launch number. Allocates in `a`.
void kernels_make(Arena *a, Fusion *f, bool share);

#endif
