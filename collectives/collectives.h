// Collectives of the compiler: passes over collective nodes, their costs, and the facts that
// `check` prints. Communicators, which run them, have their own door (collectives/local/comm.h):
// the runtime links that one without the compiler.
#ifndef COLLECTIVES_COLLECTIVES_H
#define COLLECTIVES_COLLECTIVES_H

#include "ir/graph/graph.h"
#include "ir/program/machine.h"
#include "ir/program/program.h"

// The kind of a collective node; false for slice_own and to_partial, which move nothing.
MUST_USE bool coll_of(Op op, CollKind *out);

// The bytes that count as size of one call for n nodes of a kind (decision 28): operand bytes,
// padding included; of all_gather the result's, of permute and halo what the processor sends that
// sends most.
int64_t coll_call_bytes(const Graph *g, const NodeId *node, uint32_t n);
// Predicted seconds on `machine` over `axes`. Axes of unequal figures are gone through one after
// the other: a reduction is scattered over the fastest first, so that the slowest moves least, and
// gathered back in turn (the hierarchical form); of an all_to_all each block goes at the rate of
// the slowest axis on which its two ends differ.
double coll_seconds(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes);
// The part of it that does not depend on the bytes.
double coll_latency(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes);
// coll_wire_bytes, those over an axis counted as many times as its bandwidth is less than the
// machine's.
double coll_weight(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes);

// Removes inverse pairs (slice_own of all_gather, all_gather of slice_own, all_to_all and back),
// shares equal conversions, joins all_reduces over several axes of one value into one.
Graph *collectives_share(Arena *a, const Graph *g);

// Which collectives are one call: reductions of one kind, monoid, type, set of axes and phase that
// do not depend on one another, in order of readiness. A table beside the graph.
typedef struct Bucket {
  uint32_t n;
  NodeId *node; // collective nodes of one kind
} Bucket;
typedef struct Buckets {
  uint32_t n;
  Bucket *bucket;
  uint32_t *of; // of[node]: 1 + index of its bucket, 0 for other nodes
} Buckets;
Buckets *collectives_pack(Arena *a, const Graph *g, const Machine *machine);

// One entry of the ledger.
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
  int64_t wire_bytes; // total a step
} CollFacts;
CollFacts *collectives_facts(Arena *a, const Graph *g, const Buckets *b, const Machine *machine);

#endif
