// Shared by the files of rematerialisation: remat.c makes clones, remat_marks.c chooses what to
// clone, remat_loops.c maps backward loops to forward loops. Private to the room.
#ifndef CODEGEN_REMAT_H
#define CODEGEN_REMAT_H

#include "codegen/codegen.h"

// Backward loops: loops in which gradients go through the iterations of a forward loop. They read a
// value of the forward loop as at(collect(...)); if it is rematerialised, as a clone inside them.
typedef struct RematLoops {
  const NodeId *scan; // by region: its SCAN
  RegionId *through;  // by region: the forward loop that it goes back through, 0: none
  bool *backed;       // by region: it has a backward loop
  NodeId *mirror; // by AT of a backward loop: the value of the forward loop that it reads, through
                  // renames; 0: none
} RematLoops;
RematLoops remat_loops(Arena *a, const Graph *g);
// Whether n belongs to the forward pass or to a loop of it. Some nodes there prepare values for
// gradients.
static inline bool remat_forward(const Graph *g, const RematLoops *l, NodeId n) {
  const Node *x = graph_node(g, n);
  return !x->origin.backward || (x->region && l->backed[x->region]);
}
// The region from which region r reads values of region `of`: `of` if it encloses r, else r or an
// enclosing backward loop of `of`. *seen false: there is none.
RegionId remat_seen_in(const Graph *g, const RematLoops *l, RegionId of, RegionId r, bool *seen);

// remat_unhoist.c. Moves contractions and sums over all iterations into the loops. Returns g itself
// if it has no loops.
const Graph *remat_unhoist(Arena *a, const Graph *g);

// What a level rematerialises.
typedef struct RematLevel {
  int cheap;         // the level, at most REMAT_BASE_LEVELS
  uint32_t segments; // number of segments; UINT32_MAX: all
  bool steps, collectives;
} RematLevel;
RematLevel remat_level(Arena *a, const Graph *g, int level);
// Sets marked[n] for the values to rematerialise. False if there are none.
bool remat_mark(Arena *a, const Graph *g, const RematLoops *l, const RematLevel *level,
                bool *marked);

#endif
