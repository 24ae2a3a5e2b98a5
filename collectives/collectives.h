// Collectives in the compiler: passes over collective nodes, their costs, and the list of calls
// that `check` prints. Communicators, which execute them, have an interface of their own
// (collectives/local/comm.h), so that the runtime need not link the compiler.
#ifndef COLLECTIVES_COLLECTIVES_H
#define COLLECTIVES_COLLECTIVES_H

#include "ir/graph/graph.h"
#include "ir/program/machine.h"
#include "ir/program/program.h"

// Returns true if the operation is a collective, and writes its kind, such as all_reduce, to *out.
// Returns false for other operations, and for slice_own and to_partial, which send nothing.
MUST_USE bool coll_of(Op op, CollKind *out);

// What the calls of a graph send: results for some nodes are kept for others that are alike. Made
// by coll_sizes_new, in arena a. The graph may grow, but its nodes may not change. One thread at a
// time.
typedef struct CollSizes CollSizes;
CollSizes *coll_sizes_new(Arena *a, const Graph *g);
// Returns the size in bytes of one collective call that carries out the n collective nodes `node`,
// all of one kind. Padding counts. The size is the bytes of one processor's operands. For
// all_gather it is the bytes of its results; for permute and halo the bytes that a processor sends,
// the maximum over processors.
int64_t coll_call_bytes(CollSizes *sizes, const NodeId *node, uint32_t n);
// Returns the predicted seconds of a call of `bytes` (coll_call_bytes) over `axes` of the mesh:
// latency plus bytes divided by bandwidth. Axes of equal latency and bandwidth form a level. A
// reduction is scattered level by level, fastest first, and gathered in the reverse order (the
// hierarchical algorithm), so that the slowest level sends least. Each block that an all_to_all
// sends moves at the rate of the slowest axis on which its sender and receiver differ.
double coll_seconds(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes);
// Returns the latency part of coll_seconds: the predicted seconds that a call takes whatever its
// size.
double coll_latency(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes);
// Returns the bytes that one processor sends if the collective runs as a ring (coll_wire_bytes),
// weighted by the speed of the axes: a byte over an axis whose bandwidth is 1/k of
// Machine.bandwidth counts k times.
double coll_weight(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes);

// Returns a copy of g, allocated in `a`, without pairs of conversions that undo each other, such as
// slice_own of all_gather. A conversion changes how a value is split. An all_reduce over one axis
// and an all_reduce of its result over another axis become one all_reduce over both axes.
Graph *collectives_share(Arena *a, const Graph *g);

// Why a bucket ends: why a later collective is no part of its call (passes/bucket_ends.def).
typedef enum BucketEnd {
#define BUCKET_END(reason, text) BUCKET_END_##reason,
#include "collectives/passes/bucket_ends.def"
#undef BUCKET_END
} BucketEnd;
const char *bucket_end_text(BucketEnd end); // in words: "the next one is over other axes"
const char *bucket_end_name(BucketEnd end); // its name in bucket_ends.def: "AXES"

// A bucket: the collective nodes that one call carries out. They have the same kind, monoid (the
// operation that combines elements, such as sum), type and axes. All are in the forward pass or all
// in the backward pass, and none of them depends on another.
typedef struct Bucket {
  uint32_t n;
  NodeId *node;
  BucketEnd end;
  NodeId next; // the collective that is no part of it for this reason; 0: none
} Bucket;
// All buckets of a graph, in an order in which they can run. A bucket is the collectives that one
// call carries out.
typedef struct Buckets {
  uint32_t n;
  Bucket *bucket;
  uint32_t *of; // by node: 1 + the index of its bucket; 0 if the node is not a collective
} Buckets;
Buckets *collectives_bucket(Arena *a, const Graph *g, const Machine *machine);

// What the command `check` lists for one bucket, that is for the collectives that one call carries
// out.
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
  BucketEnd end;        // why the call has no more parts
  const char *end_next; // name of the value of the collective that is no part of it; NULL: none
  double seconds;
} CollFact;
typedef struct CollFacts {
  uint32_t n;
  CollFact *fact;
  int64_t wire_bytes; // bytes that one processor sends in all calls of a step
} CollFacts;
// Returns the node of the value that collective n moves. From n the function goes back through
// operands, to the first node that has a name or is not a collective.
const Node *coll_moved_value(const Graph *g, const Node *n);
// Returns the name of the value that collective n moves or, if the value has none, the text of the
// operation that computes the value.
const char *coll_value_name(const Graph *g, const Node *n);
// Returns true if `list`, a comma-separated list such as CollFact.value, contains `name`.
bool names_mention(const char *list, const char *name);
CollFacts *collectives_facts(Arena *a, const Graph *g, const Buckets *b, const Machine *machine);

#endif
