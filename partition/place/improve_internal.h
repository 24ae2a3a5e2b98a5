// The local search over groups of nodes: its moves (place_improve.c), and the estimated bytes of a
// value (improve_cost.c). A move changes the shardings of several nodes. A trial makes a move and
// then keeps or undoes it.
#ifndef PARTITION_IMPROVE_H
#define PARTITION_IMPROVE_H

#include "partition/sharding/sharding_internal.h"

// The most nodes that a move changes. A move of the activations that layers hand on changes some
// nodes of every layer.
enum { MAX_CHANGED = 1 << 14 };

typedef struct Change {
  NodeId n;
  State state; // shardings before the change; while the trial is undone, those after it
} Change;

// Estimated bytes that one value sends before and after a trial (a move that the search then keeps
// or undoes).
typedef struct Counted {
  NodeId n;
  double before, after;
  bool changed; // the trial has changed the shardings of n
} Counted;

typedef struct Improve {
  Placer *p;
  const Graph *g;
  double weight[MAX_AXES]; // [axis] weight of a byte sent over the axis: higher on slow links
  int room;    // nodes that a move may change: MAX_CHANGED, or all nodes of a smaller graph
  Change *old; // [2 * room] what the current move has changed
  int nold;
  NodeId *pending; // [room] nodes that the current move has yet to change
  int npending;
  uint8_t *partial;      // [node] bits of axes over which the node could be partial if no sum were
                         // reduced before it
  uint32_t *seen, round; // [node] `round` if find_counted has listed it in this trial
  uint32_t *changed;     // [node] `round` if this trial has changed it
  double total;          // weighted bytes that all values send before the first move
  double *sent;          // [node] weighted bytes that its value sends after the moves kept so far
  double call;           // bytes that a link transfers during the latency of one call
  double least;          // weighted bytes that a move must save to be kept
  double spare;          // flops that moves may still add
  Counted *counted;      // [4 * room] what find_counted lists
  uint32_t trials, most; // number of trials made, and its limit
  uint64_t nodes, limit; // number of nodes that all trials have changed, and its limit
  bool kept;             // a move was kept
} Improve;

// How users read a value over one axis: replicated, or split along dims (bits of `splits`).
// `shown`: an output of the model returns the value in its settled sharding.
typedef struct Needs {
  bool any, replicated, shown;
  uint32_t splits;
} Needs;

typedef struct Reads {
  Needs axis[MAX_AXES];
  double halo[MAX_RANK]; // elements that windows read beyond the block, as a share of it
} Reads;

// Fills *r with the ways in which the users and outputs of n read it.
void improve_needs(const Improve *m, NodeId n, Reads *r);
// Returns whether n is partial over the axis, or is an addition of partial values and so may become
// partial (place_reduce.c).
bool improve_is_partial(const Improve *m, NodeId n, int axis);
// Fills m->partial, the axes over which each node could be partial, from the current placement.
void improve_partial(Improve *m);
// Returns the weighted bytes that one processor sends for value n; bytes on slow links weigh more.
// In a loop each conversion adds m->call bytes in every step, for the latency of its call.
double improve_cost(const Improve *m, NodeId n);
// Returns the part of improve_cost that is due to halos: elements beyond the own block that windows
// read.
double improve_halo(const Improve *m, NodeId n);

#endif
