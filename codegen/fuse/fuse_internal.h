// What the files of fusion share. Private to the room. A role says what a node becomes. A cluster
// is a set of nodes that becomes a group. A loop form is the outer and inner loops of a kernel. A
// use of a value "needs an address" where the value must be in memory: a GEMM or collective reads
// it, or a kernel reads its elements at other positions than those of its loops. A value is
// recomputed if each kernel that uses it computes it.
#ifndef CODEGEN_FUSE_INTERNAL_H
#define CODEGEN_FUSE_INTERNAL_H

#include "codegen/order/blocked_internal.h"
#include "codegen/values/live_internal.h"

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

// The outer and inner loops of a kernel, and the estimated cost of the kernel.
typedef struct LoopForm {
  Dims outer, inner;
  double cost; // bytes moved, plus the bytes that could be moved in the time of the computation
  int64_t load_bytes, store_bytes;
} LoopForm;

// A set of nodes that becomes one group: a kernel, a GEMM, a collective or an alias.
typedef struct Cluster {
  uint32_t n;
  NodeId *node;  // its nodes, ascending
  uint32_t rank; // position in Fuser.sequence
  bool kernel, update;
  bool tiles;      // has a contraction in register tiles (op_tiles)
  bool forward;    // has nodes of the forward pass
  bool clone;      // has nodes that are rematerialised for the backward pass
  uint32_t part;   // the micro-batch of its nodes, 0: none
  RegionId region; // the loop that contains its nodes, 0: none
  RegionId loop;   // if its node is the SCAN of a loop: the region of that loop, else 0
  LoopForm form;   // the loops of a kernel, unused in other clusters
  double saved;    // cost that the merges into it saved, in the unit of LoopForm.cost
} Cluster;

// Two clusters (sets of nodes) that were not merged because one kernel cannot compute both or would
// cost as much as two kernels. The entry holds until one of the clusters gets more nodes.
typedef struct RefusedPair {
  uint64_t pair;  // indices of both clusters, the smaller one in the upper 32 bits; 0: a free entry
  uint32_t nodes; // number of nodes of both when refused; if they have more now, one has grown
  ApartReason why;
} RefusedPair;

typedef struct Fuser {
  Arena *a;
  const Graph *g;
  const Order *order;
  const Buckets *buckets;
  const CodegenOptions *opt;
  const Rows *rows;
  const NodeId *scan;   // by region: the SCAN of the loop
  const NodeId *begin;  // by region: the first node of the loop or of a loop in it
  const uint32_t *part; // by node: its micro-batch (graph_micro_batches), or NULL
  uint32_t count; // number of nodes of the graph; the arrays gemm to update are indexed by node
  int64_t *bytes; // of the value of the node
  const GemmForm **gemm;   // the form of a contraction that a library can compute, else NULL
  const char **no_gemm;    // why a library cannot compute the contraction, else NULL
  RecomputedScores scores; // for a GPU: the scores that kernels recompute; else empty
  uint8_t *role;           // the NodeRole of the node
  const GemmTail **tail;   // the product that computes the node (fuse_epilogue.c), else NULL
  uint8_t *no_tail;        // of a product: the ApartReason why it computes no more than it does
  bool *recomputed; // each kernel that uses the value computes it, and does not read it in memory
  bool *inlined;    // pointwise and not stored: computed at the positions that windows read
  bool *resident;   // the value was stored after clusters were merged once; NULL before that
  bool *memory;     // the value must be stored: some use needs an address
  bool *update;
  // The arguments and the users of each node that is stored or not recomputed. A recomputed node is
  // left out: its users count as users of its arguments. The arguments of node n are arg[arg_at[n]
  // .. arg_at[n + 1]), its users are user[user_at[n] .. user_at[n + 1]).
  uint32_t *arg_at, *user_at;
  NodeId *arg, *user;
  bool *arg_address;     // by entry of `arg`: the use needs an address, so another kernel stores it
  uint32_t *of;          // by node: index of its cluster in `cluster`, 0: none
  uint32_t *mark, stamp; // mark[node] == stamp: the node is marked, one of those tried as a kernel
  VEC(Cluster *) cluster; // entry 0 unused
  VEC(uint32_t) sequence; // by rank: index of a cluster, in topological order; 0: none
  uint32_t *kept;         // scratch memory of one merge: indices of clusters
  bool *after; // scratch memory of one merge: the result of dependents_find (fuse_merge.c)
  // Hash table with open addressing. It has refused_cap entries, of which refused_n are used.
  RefusedPair *refused;
  uint32_t refused_n, refused_cap;
} Fuser;

// fuse_roles.c. Decides what each node becomes. Sets these fields of f: role, recomputed, inlined,
// memory, update, and the arguments and users of nodes (arg_at to arg_address).
void roles_find(Fuser *f);
// Returns true if node n reads its argument i from memory, false if it can read the argument from a
// register of the kernel.
bool uses_address(const Fuser *f, NodeId n, int i);
// Returns whether kernels recompute score n where they read it (attention_recomputed).
static inline bool score_recomputed(const Fuser *f, NodeId n) {
  return f->scores.recomputed && f->scores.recomputed[n];
}
// Returns the dims over which node n computes: for a reduction the dims of its arguments, for other
// nodes the dims of the result.
Dims node_space(const Graph *g, NodeId n);
static inline bool op_reduces(Op op) {
  return op_row(op)->cls == REDUCE || op == OP_CONTRACT || op == OP_SCATTER_ADD;
}

// Returns true if n is a contraction in which each element of an argument is a factor of several
// results. Its kernel computes a block of results in registers (a register tile), so that one load
// of an element serves several results.
static inline bool op_tiles(const Graph *g, NodeId n) {
  return graph_node(g, n)->op == OP_CONTRACT && !contract_is_dot(g, n);
}

// fuse_form.c. Finds the cheapest loops with which one kernel computes the marked nodes
// (Fuser.mark), which are node[0..n), ascending. Returns false if no loops are legal; *why then is
// the reason.
MUST_USE bool form_find(Fuser *f, uint32_t n, const NodeId *node, LoopForm *out, ApartReason *why);
// Returns true if the kernel of the marked nodes (Fuser.mark) must store the value of node n. It
// must if n is an output, or if a node outside the kernel uses n.
bool value_stored(const Fuser *f, NodeId n);
// Returns true if one of the marked nodes (Fuser.mark) uses the value of node n.
bool value_used(const Fuser *f, NodeId n);
// Returns true if reduction n becomes an accumulator (K_ACCUM) in a kernel with these loops. The
// result of an accumulator is combined over all iterations of the outer loops.
bool reduce_accumulates(const Graph *g, NodeId n, const Dims *outer, const Dims *inner);

// fuse_merge.c. Makes the first clusters, the sets of nodes that become groups. Each node that is
// not recomputed is a cluster of its own. The collectives of a bucket, which leave in one call, are
// one cluster. Then finds the loops of each kernel.
void clusters_make(Fuser *f);
// Merges clusters that become kernels, pair by pair, until no merge saves anything. The pairs whose
// merges save most bytes of memory traffic come first.
void clusters_merge(Fuser *f);
// Returns why cluster b, which reads a value of cluster a, was not merged with cluster a. address:
// b reads the value of a from memory.
ApartReason merge_refusal(Fuser *f, const Cluster *a, const Cluster *b, bool address);
// Sets f->resident: the nodes whose values are stored with the clusters as they are now.
void clusters_resident(Fuser *f);

// fuse_epilogue.c. Finds the nodes that products compute after their sums. Sets f->tail, and the
// tails of the forms in f->gemm, which are allocated in `a`. Call it after clusters_resident.
void tails_find(Arena *a, Fuser *f);

// loop_rows.c. Sets f->loop_rows: the loops whose groups can run for parts of the rows. Call
// loop_rows_find before kernels are built. loop_rows_check then takes the rows from loops with a
// kernel that cannot run for a part of them.
void loop_rows_find(Arena *a, Fusion *f);
void loop_rows_check(Arena *a, Fusion *f);

// fuse_launch.c. Builds the kernels of all groups in arena a; sets f->deps and f->after_commit.
// With opt->fuse, kernels that update tensors get one launch number if they are equal and
// independent, so that one launch runs them all.
void kernels_make(Arena *a, Fusion *f, const CodegenOptions *opt);

#endif
