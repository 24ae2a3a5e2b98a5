// Shared by the files of rematerialisation: remat.c makes clones, remat_marks.c chooses what to
// clone, remat_loops.c maps backward loops to forward loops. Private to the room.
#ifndef CODEGEN_REMAT_H
#define CODEGEN_REMAT_H

#include "codegen/codegen.h"

// Links between loops. In a backward loop, gradients go through the iterations of a forward loop.
// It reads a value of the forward loop as at(collect(...)). If the value is rematerialised, the
// backward loop has a clone of its node instead.
typedef struct RematLoops {
  const NodeId *scan; // by region: its SCAN
  RegionId *through;  // by region: the forward loop whose backward loop it is, 0: none
  bool *backed;       // by region: it has a backward loop
  NodeId *mirror;     // by node: of an AT in a backward loop the value of the forward loop that it
                      // reads, if need be through renames; of other nodes 0
} RematLoops;
RematLoops remat_loops(Arena *a, const Graph *g);
// Returns whether n belongs to the forward pass or to a loop of it. Nodes for gradients may be in
// such a loop.
static inline bool remat_forward(const Graph *g, const RematLoops *l, NodeId n) {
  const Node *x = graph_node(g, n);
  return !x->origin.backward || (x->region && l->backed[x->region]);
}
// Returns the region in which a node must be so that nodes of region r can read a value of region
// `of`: `of` itself if it encloses r, else r or a region around it that is a backward loop of `of`.
// If there is none, sets *seen to false and returns 0.
RegionId remat_seen_in(const Graph *g, const RematLoops *l, RegionId of, RegionId r, bool *seen);

// remat_unhoist.c. Moves contractions and sums over all iterations into the loops. Returns g itself
// if it has no loops.
const Graph *remat_unhoist(Arena *a, const Graph *g);

// What a level rematerialises (the levels are listed in remat_marks.c).
typedef struct RematLevel {
  int cheap;         // the kinds of values that are cheap: the level, at most REMAT_BASE_LEVELS
  uint32_t segments; // number of segments of the forward pass; UINT32_MAX: all
  bool steps;        // contractions over all iterations are moved into their loops (remat_unhoist)
  bool collectives;  // collectives of the segments are repeated too
} RematLevel;
RematLevel remat_level(Arena *a, const Graph *g, int level);
// Sets marked[n] for the values to rematerialise. Returns false if there are none.
bool remat_mark(Arena *a, const Graph *g, const RematLoops *l, const RematLevel *level,
                bool *marked);

#endif
