// The local search over groups of nodes: its moves (place_improve.c), and the estimated bytes of a
// value (improve_cost.c).
#ifndef PARTITION_IMPROVE_H
#define PARTITION_IMPROVE_H

#include "partition/sharding/sharding_internal.h"

enum { MAX_CHANGED = 96, MAX_COUNTED = 4 * MAX_CHANGED };

typedef struct Change {
  NodeId n;
  State state; // before the change; while the trial is undone, after it
} Change;

// Bytes that a value sends before and after a trial.
typedef struct Counted {
  NodeId n;
  double before, after;
  bool changed; // the trial has changed its choice
} Counted;

typedef struct Improve {
  Placer *p;
  const Graph *g;
  double weight[MAX_AXES]; // of a byte over an axis: slow axes count more
  Change old[2 * MAX_CHANGED];
  int nold;
  NodeId pending[MAX_CHANGED];
  int npending;
  uint8_t *partial; // bits of axes over which a node may be partial, if no sum is reduced early
  uint32_t *seen, round; // seen[n] == round: the present trial counts n
  double total,
      *sent;    // bytes of all values, and of each, with the moves so far
  double call;  // bytes that take as long as the latency of a call
  double least; // bytes that a move must save
  double spare; // flops that moves may still add
  Counted counted[MAX_COUNTED];
  uint32_t trials, most; // trials made, and their limit
  bool kept;
} Improve;

// How users read a value over one axis: replicated, split along dims (bits). `shown`: an OUT_VALUE.
typedef struct Needs {
  bool any, replicated, shown;
  uint32_t splits;
} Needs;

typedef struct Reads {
  Needs axis[MAX_AXES];
  double halo[MAX_RANK]; // elements that windows read beyond the block, as a share of it
} Reads;

// How the users of n read it.
void improve_needs(const Improve *m, NodeId n, Reads *r);
// Whether n is partial over the axis, or adds partial values and so may become partial
// (place_reduce.c).
bool improve_is_partial(const Improve *m, NodeId n, int axis);
// Fills m->partial.
void improve_partial(Improve *m);
// Weighted bytes that one processor sends of n. In a loop each conversion adds m->call a step.
double improve_cost(const Improve *m, NodeId n);
// Of these, the halos.
double improve_halo(const Improve *m, NodeId n);

#endif
