// What the two halves of place_improve share: what values send (improve_cost.c), and moves that
// make it less (place_improve.c). Private to the room.
#ifndef PARTITION_IMPROVE_H
#define PARTITION_IMPROVE_H

#include "partition/sharding/sharding_internal.h"

enum { MAX_CHANGED = 96, MAX_COUNTED = 4 * MAX_CHANGED };

typedef struct Change {
  NodeId n;
  Sharding at, settled;
  Axes *inner;
} Change;

// What a value sends before and after a trial.
typedef struct Counted {
  NodeId n;
  double before, after;
} Counted;

typedef struct Improve {
  Placer *p;
  const Graph *g;
  double weight[MAX_AXES]; // bytes over a slow axis count more
  Change old[2 * MAX_CHANGED];
  int nold;
  NodeId pending[MAX_CHANGED];
  int npending;
  uint8_t *partial; // axes (bits) over which a node is a term, or a sum of terms, to begin with
  uint32_t *seen, round; // values that the present trial counts
  double total,
      *sent;    // bytes of all values, and of each, as things stand, sums where they are cheapest
  double call;  // bytes that take as long as another call; those of loops are never joined
  double least; // bytes that a move has to save
  double spare; // work that may still be done several times
  Counted counted[MAX_COUNTED];
  uint32_t trials, most; // so many are made
  bool kept;
} Improve;

// Who reads it how over one axis: whole, cut along dims (bits), or as terms.
typedef struct Needs {
  bool any, replicated, shown;
  uint32_t splits;
} Needs;

typedef struct Reads {
  Needs axis[MAX_AXES];
  double halo[MAX_RANK]; // elements beside the own block that windows read along a dim, as a share
                         // of it
} Reads;

// Who reads n how, axis by axis.
void improve_needs(const Improve *m, NodeId n, Reads *r);
// A term over the axis, or a sum of terms, which is one too once it is known where sums are
// reduced.
bool improve_is_partial(const Improve *m, NodeId n, int axis);
// Fills m->terms.
void improve_partial(Improve *m);
// Bytes that one processor sends of n, those over slow axes weighing more, and in loops a call's
// worth for each.
double improve_cost(const Improve *m, NodeId n);
// Of that, what windows read beside their own block.
double improve_halo(const Improve *m, NodeId n);
// Multiplications and additions of one processor for n.
double improve_work(const Improve *m, NodeId n);

#endif
