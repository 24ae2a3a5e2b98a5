// What remat.c (clones), remat_marks.c (of what) and remat_loops.c (across loops) share. Private to
// the room.
#ifndef CODEGEN_REMAT_H
#define CODEGEN_REMAT_H

#include "codegen/codegen.h"

// Loops that gradients go back through. A value of a forward loop reaches a step of the loop that
// goes back through it as at(collect(...)); computed again it is a clone inside that loop.
typedef struct RematLoops {
  const NodeId *scan; // of each region
  RegionId *through;  // by region: the forward loop whose steps it goes back through, 0: none
  bool *backed;       // by region: some loop goes back through it
  NodeId *mirror; // by AT of such a loop: the value of the forward loop that it is at that step,
                  // renames aside; 0: none
} RematLoops;
RematLoops remat_loops(Arena *a, const Graph *g);
// Of the forward pass, or of a loop of it: what is brought there into the shape that gradients
// want, too.
static inline bool remat_forward(const Graph *g, const RematLoops *l, NodeId n) {
  const Node *x = graph_node(g, n);
  return !x->origin.backward || (x->region && l->backed[x->region]);
}
// The loop, r or one around it, from which values of region `of` are seen; `of` itself when it
// encloses r; 0 with *seen false: none.
RegionId remat_seen_in(const Graph *g, const RematLoops *l, RegionId of, RegionId r, bool *seen);

// remat_unhoist.c: products and sums that hoisting made of all steps at once are made step by step;
// g itself: there are no loops.
const Graph *remat_unhoist(Arena *a, const Graph *g);

// What a level means for a graph.
typedef struct RematLevel {
  int cheap;         // of the levels up to REMAT_BASE_LEVELS
  uint32_t segments; // UINT32_MAX: all
  bool steps, collectives;
} RematLevel;
RematLevel remat_level(Arena *a, const Graph *g, int level);
// again[n]: gradients read a clone of n. False: of nothing.
bool remat_mark(Arena *a, const Graph *g, const RematLoops *l, const RematLevel *level,
                bool *marked);

#endif
