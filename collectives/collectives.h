// Collectives in the compiler: passes over collective nodes, their costs, and the list of calls
// that `check` prints. Communicators, which execute them, have an interface of their own
// (collectives/local/comm.h), so that the runtime need not link the compiler.
#ifndef COLLECTIVES_COLLECTIVES_H
#define COLLECTIVES_COLLECTIVES_H

#include "ir/graph/graph.h"
#include "ir/program/machine.h"
#include "ir/program/program.h"

// Writes the kind of a collective operation to *out. Returns false for other operations, and for
// slice_own and to_partial, which send nothing.
MUST_USE bool coll_of(Op op, CollKind *out);

// Returns the size in bytes of one call that carries out n nodes of one kind, padding included. The
// size is the bytes of one processor's operands; for all_gather the bytes of its results; for
// permute and halo the bytes that a processor sends, the maximum over processors.
int64_t coll_call_bytes(const Graph *g, const NodeId *node, uint32_t n);
// Returns the predicted seconds of a call of `bytes` (coll_call_bytes) over `axes`: latency plus
// bytes divided by bandwidth. Axes of equal latency and bandwidth form a level. A reduction is
// scattered level by level, fastest first, and gathered in the reverse order (the hierarchical
// algorithm), so that the slowest level sends least. A block of an all_to_all moves at the rate of
// the slowest axis on which its sender and receiver differ.
double coll_seconds(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes);
// Returns the part of coll_seconds that does not depend on the bytes.
double coll_latency(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes);
// Returns the bytes that one processor sends if the collective runs as a ring (coll_wire_bytes),
// weighted by the speed of the axes: a byte over an axis whose bandwidth is 1/k of
// Machine.bandwidth counts k times.
double coll_weight(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes);

// Returns a graph, allocated in `a`, that equals g without pairs of conversions that undo each
// other, such as slice_own of all_gather. All_reduces of one value over several axes are merged.
Graph *collectives_share(Arena *a, const Graph *g);

// The collectives that leave in one call. They have the same kind, monoid, type and axes, are all
// of the forward or all of the backward pass, and do not depend on one another.
typedef struct Bucket {
  uint32_t n;
  NodeId *node;
} Bucket;
// All buckets of a graph, in an order in which they can run.
typedef struct Buckets {
  uint32_t n;
  Bucket *bucket;
  uint32_t *of; // by node: 1 + the index of its bucket; 0 if the node is not a collective
} Buckets;
Buckets *collectives_bucket(Arena *a, const Graph *g, const Machine *machine);

// One bucket, as `check` lists it.
typedef struct CollFact {
  CollKind kind;
  Axes axes;
  int64_t group;
  Dtype type;
  int64_t elements, bytes, wire_bytes, times;
  bool backward;
  const char *value; // comma-separated names of the values that the bucket moves
  Pos pos;
  const char *why;
  double seconds;
} CollFact;
typedef struct CollFacts {
  uint32_t n;
  CollFact *fact;
  int64_t wire_bytes; // bytes that one processor sends in all calls of a step
} CollFacts;
// Returns the node of the value that collective n moves.
const Node *coll_moved_value(const Graph *g, const Node *n);
// Returns the name of the value that collective n moves or, if the value has none, the text of the
// operation that computes it.
const char *coll_value_name(const Graph *g, const Node *n);
// Returns true if `list`, a comma-separated list such as CollFact.value, contains `name`.
bool names_mention(const char *list, const char *name);
CollFacts *collectives_facts(Arena *a, const Graph *g, const Buckets *b, const Machine *machine);

#endif
