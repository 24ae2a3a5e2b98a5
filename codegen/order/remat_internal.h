// What the files of rematerialisation share: remat.c makes clones, remat_marks.c chooses what to
// clone, remat_loops.c maps backward loops to forward loops. Private to the room.
#ifndef CODEGEN_REMAT_H
#define CODEGEN_REMAT_H

#include "codegen/codegen.h"

// Links between forward and backward loops. In a backward loop, gradients go through the iterations
// of a forward loop. The backward loop reads a value of the forward loop as at(collect(...)). If
// the value is rematerialised, the backward loop has a clone of its node instead.
typedef struct RematLoops {
  const NodeId *scan; // by region: the SCAN of the loop
  RegionId *through;  // by region of a backward loop: its forward loop; else 0
  bool *backed;       // by region: the loop has a backward loop
  // By node: for an AT in a backward loop, the value of the forward loop that it reads, directly or
  // through renames; for other nodes 0.
  NodeId *mirror;
} RematLoops;
RematLoops remat_loops(Arena *a, const Graph *g);
// Returns whether n belongs to the forward pass, or is in a loop that has a backward loop. Such a
// loop may also have nodes that are made for gradients.
static inline bool remat_forward(const Graph *g, const RematLoops *l, NodeId n) {
  const Node *x = graph_node(g, n);
  return !x->origin.backward || (x->region && l->backed[x->region]);
}
// Returns the region of the node by which nodes of region r read a value of region `of`. It is `of`
// if that encloses r. Otherwise it is the innermost backward loop of `of` that is r or around r. If
// there is none, sets *seen to false and returns 0.
RegionId remat_seen_in(const Graph *g, const RematLoops *l, RegionId of, RegionId r, bool *seen);

// remat_unhoist.c. Returns a copy of g in which loops compute contractions and sums over all
// iterations step by step. Returns g itself if it has no loops.
const Graph *remat_unhoist(Arena *a, const Graph *g);

// What a level of rematerialisation chooses; remat_marks.c lists the levels.
typedef struct RematLevel {
  int cheap;         // which kinds of cheap values: the level, at most REMAT_BASE_LEVELS
  uint32_t segments; // number of segments of the forward pass, from the first on; UINT32_MAX: all
  bool steps;        // contractions over all iterations are moved into their loops (remat_unhoist)
  bool collectives;  // collectives of the segments are repeated too
} RematLevel;
RematLevel remat_level(Arena *a, const Graph *g, int level);
// Sets marked[n] for the values to rematerialise. Returns false if there are none.
bool remat_mark(Arena *a, const Graph *g, const RematLoops *l, const RematLevel *level,
                bool *marked);

#endif
