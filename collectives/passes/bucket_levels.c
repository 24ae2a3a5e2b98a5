// Levels: which buckets, the collectives of one call each, wait for which.
//
// The level of a bucket is greater than those of all buckets that it waits for. The level of a node
// is the least one that a bucket may have which contains the node, or a collective that reads it.
// Nodes get their levels in the order of their ids, so all in one pass: after every pass the nodes
// of a loop have smaller ids than its scan (graph_prune).
//
// The level of a bucket may rise when a further collective joins it, as long as no other bucket
// waits for it (OpenBucket.fixed). So gradients of all layers can leave in one call, although each
// waits for other collectives of the backward pass. Nodes that read such a bucket, as updates do,
// must rise with it: they name the bucket (Bucketing.after) until its level is fixed.
#include <stdlib.h>

#include "collectives/passes/bucket_internal.h"

// Returns the least level of what waits for a bucket (1 + its index, or 0: for none).
static uint32_t level_after(const Bucketing *p, uint32_t bucket) {
  return bucket ? p->bucket.at[bucket - 1].level + 1 : 0;
}

// Makes node n wait for a bucket (1 + its index, or 0). `after` has room for one bucket whose level
// may rise: if n waits for a second one, that one is fixed.
static void wait_for(Bucketing *p, NodeId n, uint32_t bucket) {
  if (!bucket || p->after[n] == bucket) return;
  OpenBucket *b = &p->bucket.at[bucket - 1];
  b->fixed |= p->after[n] != 0;
  if (b->fixed)
    p->level[n] = max_of(p->level[n], level_after(p, bucket));
  else
    p->after[n] = bucket;
}

// Sets the level of node n, all of whose arguments have levels. The results of a loop exist only
// when all its collectives are done.
void level_find(Bucketing *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  if (node->op == OP_SCAN) p->level[n] = p->within[node->attr->region];
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    uint32_t bucket = p->of[arg] ? p->of[arg] : p->after[arg];
    if (!p->of[arg]) p->level[n] = max_of(p->level[n], p->level[arg]);
    wait_for(p, n, bucket);
  }
}

// Makes the level of node n final: the bucket for which it waits must not rise any more.
void level_fix(Bucketing *p, NodeId n) {
  if (!p->after[n]) return;
  p->bucket.at[p->after[n] - 1].fixed = true;
  p->level[n] = max_of(p->level[n], level_after(p, p->after[n]));
  p->after[n] = 0;
}

// Counts node n, whose level is known, for the loop around it (Bucketing.within). If n waits for a
// bucket of another loop, or of none, that bucket is fixed: `within` must not change later.
void level_end(Bucketing *p, NodeId n) {
  uint32_t region = graph_node(p->g, n)->region, *within = &p->within[region], after = p->after[n];
  if (after && graph_node(p->g, p->bucket.at[after - 1].node.at[0])->region != region)
    level_fix(p, n);
  *within = max_of(*within, p->of[n] ? level_after(p, p->of[n]) : p->level[n]);
}

// Returns whether collective n may become a part of the bucket. Then neither waits for the other:
// n waits only for buckets of lower levels, and what waits for the bucket has a higher one. A
// bucket for which no other waits may rise.
bool level_allows(const Bucketing *p, const OpenBucket *open, NodeId n) {
  return open->level >= p->level[n] || !open->fixed;
}

// Where a bucket comes in the order. last: the greatest index among the bucket and all buckets that
// it waits for, directly or through others.
typedef struct Place {
  uint32_t bucket, last, level;
} Place;

// Returns the nodes by rising level, those of one level by id.
static NodeId *nodes_by_level(Bucketing *p) {
  uint32_t n = graph_count(p->g), levels = 1;
  for (NodeId u = 1; u <= n; u++) level_fix(p, u);
  for (NodeId u = 1; u <= n; u++) levels = max_of(levels, p->level[u] + 1);
  uint32_t *end = arena_array(p->scratch, uint32_t, levels + 1);
  NodeId *out = arena_array(p->scratch, NodeId, n + 1);
  for (NodeId u = 1; u <= n; u++) end[p->level[u] + 1]++;
  for (uint32_t l = 1; l <= levels; l++) end[l] += end[l - 1];
  for (NodeId u = 1; u <= n; u++) out[end[p->level[u]]++] = u;
  return out;
}

// Fills place[b].last of all buckets. Nodes are visited by rising level: all nodes of a bucket come
// before those that read it, which have a higher level. last[u]: the greatest `last` of the buckets
// that node u waits for.
static void find_places(Bucketing *p, Place *place) {
  uint32_t n = graph_count(p->g);
  const NodeId *order = nodes_by_level(p);
  uint32_t *last = arena_array(p->scratch, uint32_t, n + 1),
           *within = arena_array(p->scratch, uint32_t, p->g->region.n + 2);
  for (uint32_t i = 0; i < n; i++) {
    NodeId u = order[i];
    const Node *node = graph_node(p->g, u);
    if (node->op == OP_SCAN) last[u] = within[node->attr->region];
    for (int k = 0; k < node->nargs; k++) {
      NodeId arg = node->args[k];
      if (p->of[arg] && p->bucket.at[p->of[arg] - 1].level >= p->level[u])
        BUG("a node leaves before a bucket that it waits for");
      last[u] = max_of(last[u], p->of[arg] ? place[p->of[arg] - 1].last : last[arg]);
    }
    uint32_t behind = last[u];
    if (p->of[u]) {
      Place *own = &place[p->of[u] - 1];
      behind = own->last = max_of(own->last, last[u]);
    }
    within[node->region] = max_of(within[node->region], behind);
  }
}

static int compare_places(const void *x, const void *y) {
  const Place *a = x, *b = y;
  if (a->last != b->last) return a->last < b->last ? -1 : 1;
  if (a->level != b->level) return a->level < b->level ? -1 : 1;
  return a->bucket < b->bucket ? -1 : 1;
}

// Returns the buckets (the collectives of one call each) in an order in which they can run: as they
// were opened, but a bucket that waits for later ones right behind the last of these.
Buckets *buckets_in_order(Arena *a, Bucketing *p) {
  Buckets *out = arena_new_of(a, Buckets);
  uint32_t n = p->bucket.n;
  Place *place = arena_array(p->scratch, Place, n + 1);
  *out = (Buckets){.n = n, .bucket = arena_array(a, Bucket, n + 1), .of = p->of};
  for (uint32_t b = 0; b < n; b++) place[b] = (Place){b, b, p->bucket.at[b].level};
  find_places(p, place);
  qsort(place, n, sizeof *place, compare_places);
  for (uint32_t i = 0; i < n; i++) {
    const OpenBucket *open = &p->bucket.at[place[i].bucket];
    NodeId *node = arena_copy(a, open->node.at, open->node.n * sizeof(NodeId));
    for (uint32_t k = 0; k < open->node.n; k++) p->of[node[k]] = i + 1;
    out->bucket[i] =
        (Bucket){.n = open->node.n, .node = node, .end = open->end, .next = open->next};
  }
  return out;
}
