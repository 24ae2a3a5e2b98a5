// Records why a bucket, the collectives of one call, ends, while buckets are found: a reason of
// bucket_ends.def and the collective that is no part of it. A collective of the same class that
// must not join counts first; else the next one of the same operation, whose class differs.
#include <string.h>

#include "collectives/passes/bucket_internal.h"

// Returns whether the reason is that the next collective is of another class.
static bool of_class(BucketEnd end) { return end >= BUCKET_END_LOOP; }

void end_refused(OpenBucket *b, BucketEnd why, NodeId n) {
  if (b->end != BUCKET_END_LAST && !of_class(b->end)) return;
  b->end = why;
  b->next = n;
}

// Returns the first field in which two classes of one operation differ, or BUCKET_END_LAST.
static BucketEnd difference(const ClassKey *a, const ClassKey *b) {
  if (a->region != b->region) return BUCKET_END_LOOP;
  if (a->part != b->part) return BUCKET_END_MICRO_BATCH;
  if (a->backward != b->backward) return BUCKET_END_PHASE;
  if (a->instance != b->instance) return BUCKET_END_REMATERIALISED;
  if (memcmp(&a->axes, &b->axes, sizeof a->axes)) return BUCKET_END_AXES;
  if (a->type != b->type) return BUCKET_END_TYPE;
  if (a->monoid != b->monoid) return BUCKET_END_MONOID;
  if (a->params != b->params) return BUCKET_END_PARAMETERS;
  if (a->block != b->block) return BUCKET_END_LAYER;
  return memcmp(a->halo, b->halo, sizeof a->halo) ? BUCKET_END_EDGES : BUCKET_END_LAST;
}

void end_joined(Bucketing *p, uint32_t b, const ClassKey *key, NodeId n) {
  OpenBucket *own = &p->bucket.at[b];
  LastOf *last = &p->last[graph_node(p->g, n)->op];
  if (!key) {
    own->end = BUCKET_END_ALONE;
    return;
  }
  if (of_class(own->end)) own->end = BUCKET_END_LAST, own->next = 0;
  OpenBucket *before = last->bucket ? &p->bucket.at[last->bucket - 1] : own;
  BucketEnd why = difference(&last->key, key);
  if (before != own && before->end == BUCKET_END_LAST && why != BUCKET_END_LAST) {
    before->end = why;
    before->next = n;
  }
  last->bucket = b + 1;
  memcpy(&last->key, key, sizeof *key);
}
