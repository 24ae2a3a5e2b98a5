// Private: the decoding form of a causal model (decode.c), and the analysis that it needs
// (causal.c).
//
// A *time dim* runs over the positions of the ids: their own dim t, and dims that renames and
// windows make from it, such as s of `rename[t -> s](keys)`. A *merged* one runs over other dims,
// too, such as n of `merge[b, t -> n](x)`.
#ifndef FRONTEND_DECODE_H
#define FRONTEND_DECODE_H

#include "frontend/step/decode.h"

enum { MOST_TIMES = 62 };
typedef uint64_t TimeSet; // bit k: time dim number k
#define TIME_SLOT (UINT64_C(1) << 62)
#define TIME_LATER (UINT64_C(1) << 63)

// The slots of a value: an element depends on ids up to the position that has its slot, or on none
// (causal_slots.c).
typedef struct Slots {
  NodeId hot, place, guard; // the factors that are not 0 in the slot of a position; guard may be 0
  int time;                 // number of the time dim of the positions
  int n;                    // the other dims of these factors, and what renames have made of them
  DimId dim[MAX_RANK], now[MAX_RANK];
} Slots;

// What the values of a graph depend on. The graph computes one output from the ids.
typedef struct Causal {
  Arena *a;
  const Graph *g;
  NodeId ids; // the source node of the ids
  int ntimes;
  DimId time[MOST_TIMES];   // [0]: the dim of the ids
  NodeId merge[MOST_TIMES]; // of a merged time dim: a merge that makes it; else 0
  const int *number;        // by DimId: 1 + its number in `time`; 0: it is no time dim
  const bool *reads;        // by node: it depends on the ids
  // By node: an element at positions p, q, ... of these time dims depends on ids up to the largest
  // of p, q, ... With TIME_LATER it depends on later ids, too, with TIME_SLOT on those of `slots`.
  const TimeSet *of;
  const Slots *const *slots; // by node; NULL: it has none
} Causal;

// Analyses g. Returns false after an error in d: the output depends on later ids.
MUST_USE bool causal_find(Arena *a, const Graph *g, NodeId ids, DimId t, Diag *d, Causal *out);
// Returns the number of time dim d, or -1 if it is none.
static inline int causal_time(const Causal *c, DimId d) { return c->number[d] - 1; }
// Returns the place of the only time dim among the dims of the merge n, or -1.
int causal_merged(const Causal *c, const Node *n);
// causal_slots.c
// Returns whether n, a sum over dim t, adds at most one position to each element. Sets *out to its
// slots.
bool slots_filled(const Causal *c, const Node *n, DimId t, Slots *out);
// Returns whether the sum n would be one of slots if the type of their places, such as bf16, were
// exact.
bool slots_inexact(const Causal *c, const Node *n);
bool slots_equal(const Slots *x, const Slots *y);
// Returns whether x is 0 but in the slot of each position itself.
bool slots_are_own(const Causal *c, NodeId x, const Slots *slots);
// Sets *out to the slots of the rename n of a value with the slots `from`.
void slots_rename(const Node *n, const Slots *from, Slots *out);

// Returns the loop that a node of class REGION begins, ends, or takes values out of.
static inline RegionId causal_region(const Graph *g, const Node *n) {
  bool out = n->op == OP_COLLECT || n->op == OP_FINAL;
  return out ? graph_node(g, n->args[0])->attr->region : n->attr->region;
}
// Returns whether the loop of region r runs over a time dim.
static inline bool causal_loop(const Causal *c, RegionId r) {
  return r && causal_time(c, region_get(c->g, r)->t) >= 0;
}
// Returns the name of the value that node n belongs to, for messages.
const char *causal_name(const Graph *g, NodeId n);

#endif
