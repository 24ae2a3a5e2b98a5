// What the files of rematerialisation share: remat.c makes clones, remat_marks.c chooses what to
// clone, remat_loops.c maps backward loops to forward loops. Private to the room.
#ifndef CODEGEN_REMAT_H
#define CODEGEN_REMAT_H

#include "codegen/codegen.h"

// Links between forward and backward loops. Gradients go backward through the iterations of a
// forward loop in its backward loop. The backward loop reads a value of the forward loop as
// at(collect(...)). If the value is rematerialised, the backward loop has a clone of its node
// instead.
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
  return !x->origin->backward || (x->region && l->backed[x->region]);
}
// Returns the region of the node by which nodes of region r read a value of region `of`. It is `of`
// if region `of` encloses r. Otherwise it is the innermost backward loop of `of` that is r or
// encloses r. If there is no such loop, sets *seen to false and returns 0.
RegionId remat_seen_in(const Graph *g, const RematLoops *l, RegionId of, RegionId r, bool *seen);

// remat_unhoist.c. Returns a copy of g in which each loop computes, one iteration at a time,
// contractions and sums that g computes for all iterations together. Returns g itself if it has no
// loops.
const Graph *remat_unhoist(Arena *a, const Graph *g);

// Which values a level of rematerialisation recomputes in the backward pass; remat_marks.c lists
// the levels.
typedef struct RematLevel {
  int cheap;         // which kinds of cheap values: the level, at most REMAT_BASE_LEVELS
  uint32_t segments; // number of segments of the forward pass, from the first on; UINT32_MAX: all
  bool steps;        // contractions over all iterations are moved into their loops (remat_unhoist)
  bool collectives;  // collectives of the segments are repeated too
  // The forward pass of each micro-batch computes marked values again that depend on no input, such
  // as gathered parameters: else the first one's are kept for all of them.
  bool each;
} RematLevel;
RematLevel remat_level(Arena *a, const Graph *g, int level);
// Sets marked[n] for each node n whose value is rematerialised. Returns false if there are no such
// nodes.
bool remat_mark(Arena *a, const Graph *g, const RematLoops *l, const RematLevel *level,
                bool *marked);

// remat_ties.c. Changes marked[], so that the gradients of max and min read the bits from which
// their results were chosen.
void remat_ties(Arena *a, const Graph *g, const RematLoops *l, bool *marked);

#endif
