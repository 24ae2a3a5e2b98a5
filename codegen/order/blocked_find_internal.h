// What the files that recognise attention share: blocked_roles.c gives nodes their roles,
// blocked_find.c plans loops over blocks of rows for CPUs, attention.c chooses what kernels for a
// GPU recompute. Private to the room.
#ifndef CODEGEN_BLOCKED_FIND_H
#define CODEGEN_BLOCKED_FIND_H

#include "codegen/order/blocked_internal.h"
#include "codegen/values/live_internal.h"

// Facts about one attention.
typedef struct Attention {
  bool softmax, gathers, used; // has a softmax; has a contraction over the keys; is not empty
  const char *why;             // why it is left as it is, or NULL
  Dims batch;                  // dims that all its contractions to scores share
  Dims apart;                  // dims that are summed between scores: no loop runs over them
  int64_t bytes;               // bytes of the largest result of a contraction to scores
  RegionId around;             // the loop of the model that contains it, 0: none
  VEC(NodeId) seed;            // the contractions that make its scores
} Attention;

typedef struct Finder {
  Arena *a;
  const Graph *g;
  const CodegenOptions *opt;
  Rows row_dims;
  BlockedPlan *p;
  Live *masks; // NULL: the graph has no mask over indices
  uint32_t count;
  // the pair that is tried, and tables by node for it
  DimId rows;
  Dims keys, space;
  uint8_t *role;
  uint32_t *level; // as BlockedLoop.level
  uint32_t *up;    // the parent in the forest of nodes that belong together
  Attention *part; // by root of that forest
} Finder;

// -- blocked_roles.c
typedef struct DimPair {
  DimId rows;
  Dims keys;
} DimPair;
typedef VEC(DimPair) DimPairs;
// Returns the pairs of rows and keys of a graph with a softmax over the keys.
DimPairs attention_pairs(Finder *f);
// Finds for the pair f->rows and f->keys the roles and levels of nodes, which nodes belong
// together, and facts about each attention.
void attention_roles(Finder *f);
// Returns the root of node n in the forest of nodes that belong together.
uint32_t attention_root(Finder *f, NodeId n);
// Returns whether x is pointwise: it is computed from elements at its own positions.
bool attention_is_plain(const Finder *f, const Node *x);
static inline const Dims *dims_of(const Finder *f, NodeId n) { return graph_node(f->g, n)->dims; }
static inline bool is_inside(const Finder *f, NodeId n) { return f->role[n] >= BLOCK_SCORE; }

#endif
