// What the files of buckets share. A bucket is the collectives that one call carries out.
//
//   bucket.c         which collectives join which bucket
//   bucket_ends.c    why a bucket ends
//   bucket_levels.c  which buckets wait for which; the order of buckets
#ifndef COLLECTIVES_BUCKET_H
#define COLLECTIVES_BUCKET_H

#include "collectives/collectives.h"

// The most buckets of one class that further collectives may join. It bounds the time of the search
// for a bucket (bucket.c, find_bucket).
enum { MAX_OPEN = 64 };

// A bucket: the collectives that will be one call.
typedef struct OpenBucket {
  uint32_t level;      // greater than the levels of all buckets that it waits for
  int64_t bytes, made; // bytes of its operands; bytes of its results without small parameters
  bool fixed;          // its level must not rise any more, because another bucket waits for it
  bool full;           // its call takes as long as it may: nothing else joins it
  BucketEnd end;       // why a later collective is no part of it, as known so far
  NodeId next;         // that collective
  VEC(NodeId) node;
} OpenBucket;

// What the collectives of one call have in common. Fields that do not matter for a kind are 0, and
// so is padding: keys are hashed and compared by their bytes.
typedef struct ClassKey {
  uint32_t region, op, type, instance, monoid, block;
  uint32_t part;            // the micro-batch that waits for it; of parameters see `block`
  uint8_t backward, params; // in the backward pass; gathers parameters (gathers_params)
  Axes axes, halo[2];       // halo: the axes of the dim that is split, and of the dim of its edges
} ClassKey;

// The collectives with one key, and the buckets that further ones may join, in the order in which
// they were opened.
typedef struct Class {
  ClassKey key;
  uint32_t next; // 1 + the index of the next class with the same hash, or 0
  uint32_t n;
  uint32_t open[MAX_OPEN];   // indices of buckets
  uint32_t joined[MAX_OPEN]; // the node that joined the bucket last
} Class;

// The last collective of an operation so far: its bucket and its class.
typedef struct LastOf {
  uint32_t bucket; // 1 + its index; 0: there was none
  ClassKey key;
} LastOf;

typedef struct Bucketing {
  const Graph *g;
  const Machine *machine;
  Arena *scratch;
  uint32_t *of; // by node: 1 + the index of its bucket, or 0
  // By node. level: the least level of a bucket that it may join, because of all buckets for which
  // it waits but that of `after`. after: 1 + the index of a bucket for which it waits and whose
  // level may still rise, so that `level` does not count it yet; 0: there is none.
  uint32_t *level, *after;
  uint32_t *within;     // by region: the least level of what waits for all nodes of the loop so far
  const uint32_t *part; // by node: its micro-batch (graph_micro_batches), or NULL
  bool *data;           // by node: whether the node depends on an input
  bool *updates;        // by node: whether a parameter, state or slot becomes its value
  // by node: the number of the layer of the model (find_blocks) in which it is used first; NULL on
  // a machine without overlap
  uint32_t *block;
  int64_t largest; // bytes of the largest gathered parameter
  int64_t matrix;  // bytes of the largest gathered parameter that is not the table of a lookup
  VEC(OpenBucket) bucket;
  VEC(Class) class;
  LastOf *last;     // by Op
  uint32_t *hashed; // hash table of `slots` entries: 1 + the index of the first class, or 0
  uint32_t slots;
} Bucketing;

// -- bucket_ends.c
// Records that collective n, of the class of the bucket, must not join it.
void end_refused(OpenBucket *b, BucketEnd why, NodeId n);
// To be called when collective n has joined bucket b. key: the class of n; NULL: it has none.
// Records why the last bucket of the same operation ends, if n is of another class.
void end_joined(Bucketing *p, uint32_t b, const ClassKey *key, NodeId n);

// -- bucket_levels.c
// Sets the level of node n, all of whose arguments have levels.
void level_find(Bucketing *p, NodeId n);
// Makes the level of node n final: the bucket for which it waits must not rise any more.
void level_fix(Bucketing *p, NodeId n);
// To be called for each node when its level, and of a collective its bucket, are known.
void level_end(Bucketing *p, NodeId n);
// Returns whether collective n, whose level is final, may become a part of the bucket. Then neither
// waits for the other.
bool level_allows(const Bucketing *p, const OpenBucket *open, NodeId n);
// Returns the buckets in an order in which they can run, and sets p->of to their places.
Buckets *buckets_in_order(Arena *a, Bucketing *p);

static inline uint32_t max_of(uint32_t x, uint32_t y) { return x > y ? x : y; }

#endif
