// Collectives in the compiler: passes over collective nodes, their costs, and the list of calls
// that `check` prints. Communicators, which execute them, have an interface of their own
// (collectives/local/comm.h), so that the runtime need not link the compiler.
#ifndef COLLECTIVES_COLLECTIVES_H
#define COLLECTIVES_COLLECTIVES_H

#include "ir/graph/graph.h"
#include "ir/program/machine.h"
#include "ir/program/program.h"

// *out gets the kind of a collective node. Returns false for slice_own and to_partial, which move
// nothing.
MUST_USE bool coll_of(Op op, CollKind *out);

// Returns the size in bytes of one call for n nodes of a kind, padding included. The size is that
// of one processor's operands; for all_gather that of its results; for permute and halo the bytes
// that the processor sends that sends most.
int64_t coll_call_bytes(const Graph *g, const NodeId *node, uint32_t n);
// Returns the predicted seconds of a call of `bytes` over `axes`: latency plus bytes over
// bandwidth. Axes with unequal figures form levels. A reduction is scattered level by level,
// fastest first, and gathered in the reverse order (the hierarchical algorithm), so that the
// slowest level moves least. A block of an all_to_all moves at the rate of the slowest axis on
// which its sender and receiver differ.
double coll_seconds(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes);
// Returns the part of coll_seconds that does not depend on the bytes.
double coll_latency(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes);
// Returns the bytes that one processor sends in a ring (coll_wire_bytes). A byte over an axis whose
// bandwidth is 1/k of Machine.bandwidth counts k times.
double coll_weight(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes);

// Returns the graph without pairs of conversions that undo each other (slice_own of all_gather,
// ...), with equal conversions shared and all_reduces of one value over several axes merged. In
// `a`.
Graph *collectives_share(Arena *a, const Graph *g);

// The collectives that leave in one call. They have the same kind, monoid, type and axes, are all
// of the forward or all of the backward pass, and do not depend on one another.
typedef struct Bucket {
  uint32_t n;
  NodeId *node;
} Bucket;
// All buckets of a graph, in an order in which they can be run.
typedef struct Buckets {
  uint32_t n;
  Bucket *bucket;
  uint32_t *of; // of[node]: 1 + index of its bucket, 0 for other nodes
} Buckets;
Buckets *collectives_bucket(Arena *a, const Graph *g, const Machine *machine);

// One call, as `check` lists it.
typedef struct CollFact {
  CollKind kind;
  Axes axes;
  int64_t group;
  Dtype type;
  int64_t elements, bytes, wire_bytes, times;
  bool backward;
  const char *value; // names of the values, comma-separated
  Pos pos;
  const char *why;
  double seconds;
} CollFact;
typedef struct CollFacts {
  uint32_t n;
  CollFact *fact;
  int64_t wire_bytes; // of all calls of a step
} CollFacts;
// Returns the node of the value that collective n moves.
const Node *coll_moved_value(const Graph *g, const Node *n);
// Returns the name of the value that n moves or, if it has none, the text of the operation that
// made it.
const char *coll_value_name(const Graph *g, const Node *n);
// Returns true if a list such as CollFact.value has the name.
bool names_mention(const char *list, const char *name);
CollFacts *collectives_facts(Arena *a, const Graph *g, const Buckets *b, const Machine *machine);

#endif
