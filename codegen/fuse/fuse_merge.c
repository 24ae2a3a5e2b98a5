// Merges nodes into clusters that become kernels. At first every node is a cluster of its own; the
// collectives of a bucket are one cluster. Then pairs of clusters are merged greedily, those that
// save most bytes first. Pairs of which one reads a value of the other come first, then pairs that
// read one value, then clusters of scalars.
//
// Fuser.sequence is a topological order of the clusters. A merge of two is legal when no cluster
// between them depends on the first and is read by the second.
#include "codegen/fuse/fuse_internal.h"
#include "ir/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { CLUSTER_NODES = 128, CLUSTER_SPAN = 1024, ROUNDS = 3, SIBLINGS = 12 };

static Cluster *cluster_of(const Fuser *f, NodeId n) { return f->cluster.at[f->of[n]]; }

static void cluster_new(Fuser *f, uint32_t n, const NodeId *node) {
  Cluster *c = arena_new_of(f->a, Cluster);
  c->n = n;
  c->node = arena_copy(f->a, node, n * sizeof *node);
  c->rank = f->sequence.n;
  c->kernel = f->role[node[0]] == ROLE_KERNEL;
  c->update = f->update[node[0]];
  for (uint32_t i = 0; i < n; i++) {
    c->tiles |= op_tiles(f->g, node[i]);
    c->clone |= graph_node(f->g, node[i])->instance != 0;
    c->forward |=
        !graph_node(f->g, node[i])->origin->backward && !graph_node(f->g, node[i])->instance;
  }
  c->part = f->part ? f->part[node[0]] : 0;
  c->region = graph_node(f->g, node[0])->region;
  c->loop = graph_node(f->g, node[0])->op == OP_SCAN ? graph_node(f->g, node[0])->attr->region : 0;
  for (uint32_t i = 0; i < n; i++) f->of[node[i]] = f->cluster.n;
  vec_push(f->a, f->sequence) = f->cluster.n;
  vec_push(f->a, f->cluster) = c;
}

static void mark_nodes(Fuser *f, uint32_t n, const NodeId *node) {
  f->stamp += 2;
  for (uint32_t i = 0; i < n; i++) f->mark[node[i]] = f->stamp;
}

static void form_single(Fuser *f, Cluster *c) {
  ApartReason why;
  mark_nodes(f, c->n, c->node);
  if (!form_find(f, c->n, c->node, &c->form, &why))
    BUG("node %u fits no kernel: %s", c->node[0], apart_text(why));
}

// Returns whether every node of loop r that needs a cluster has one. `scan` is the SCAN of the
// loop, which follows these nodes in the order of node numbers.
static bool loop_has_clusters(const Fuser *f, RegionId r, NodeId scan) {
  for (NodeId n = f->begin[r]; n < scan; n++)
    if (region_encloses(f->g, r, graph_node(f->g, n)->region) && !f->of[n] &&
        f->role[n] != ROLE_SOURCE && (!f->recomputed[n] || f->memory[n]))
      return false;
  return true;
}

static bool args_have_clusters(const Fuser *f, NodeId n) {
  if (graph_node(f->g, n)->op == OP_SCAN &&
      !loop_has_clusters(f, graph_node(f->g, n)->attr->region, n))
    return false;
  for (uint32_t i = f->arg_at[n]; i < f->arg_at[n + 1]; i++)
    if (!f->of[f->arg[i]] && f->role[f->arg[i]] != ROLE_SOURCE) return false;
  return true;
}

// Makes the cluster of a product and the nodes that it computes after its sums, once all of their
// arguments have clusters. Returns whether node n, one of them, has a cluster now.
static bool cluster_product(Fuser *f, NodeId n) {
  const GemmTail *t = f->tail[n];
  NodeId node[GEMM_TAIL_NODES + 1] = {t->head};
  if (n != t->head || !args_have_clusters(f, n)) return f->of[n];
  for (int i = 0; i < t->n; i++) {
    node[i + 1] = t->node[i];
    if (!args_have_clusters(f, t->node[i])) return false;
  }
  cluster_new(f, 1 + (uint32_t)t->n, node);
  return true;
}

// Makes the cluster of node n if all arguments of n have clusters. For a collective in a bucket,
// the cluster has all collectives of the bucket, and the arguments of all of them must have
// clusters. Returns whether n has a cluster now.
static bool cluster_node(Fuser *f, NodeId n) {
  uint32_t bucket = f->buckets ? f->buckets->of[n] : 0;
  if (f->tail[n]) return cluster_product(f, n);
  if (!bucket) {
    if (args_have_clusters(f, n)) cluster_new(f, 1, &n);
    return f->of[n];
  }
  const Bucket *b = &f->buckets->bucket[bucket - 1];
  for (uint32_t i = 0; i < b->n; i++)
    if (!args_have_clusters(f, b->node[i])) return false;
  cluster_new(f, b->n, b->node);
  return true;
}

// Makes the first clusters in order of node numbers. Only the cluster of a bucket (collectives that
// leave in one call) is made later: after the arguments of all its collectives have clusters.
static void sequence_make(Fuser *f) {
  VEC(NodeId) left = {0};
  for (NodeId n = 1; n <= f->count; n++)
    if (f->role[n] != ROLE_SOURCE && (!f->recomputed[n] || f->memory[n])) vec_push(f->a, left) = n;
  while (left.n) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < left.n; i++)
      if (!f->of[left.at[i]] && !cluster_node(f, left.at[i])) left.at[kept++] = left.at[i];
    if (kept == left.n) BUG("node %u is in a cycle of buckets", left.at[0]);
    left.n = kept;
  }
}

void clusters_make(Fuser *f) {
  f->cluster.n = f->sequence.n = f->stamp = 0;
  f->of = arena_array(f->a, uint32_t, f->count + 1);
  f->mark = arena_array(f->a, uint32_t, f->count + 1);
  f->kept = arena_array(f->a, uint32_t, CLUSTER_SPAN + 1);
  f->after = arena_array(f->a, bool, CLUSTER_SPAN + 1);
  f->refused_n = 0;
  f->refused_cap = 256;
  while (f->refused_cap < f->count) f->refused_cap *= 2;
  f->refused = arena_array(f->a, RefusedPair, f->refused_cap);
  vec_push(f->a, f->cluster) = NULL;
  vec_push(f->a, f->sequence) = 0;
  sequence_make(f);
  for (uint32_t i = 1; i < f->cluster.n; i++)
    if (f->cluster.at[i]->kernel) form_single(f, f->cluster.at[i]);
}

// -- merging two clusters ----------------------------------------------------------------------

// Marks the cluster of node n as a dependent of cluster a and appends it to *todo. Does nothing if
// n is 0 (no node), the cluster is marked, or its rank is not between those of a and b. after[r -
// a->rank] is the mark of the cluster of rank r. Returns false if the cluster of n is b, else true.
static bool dependent_add(const Fuser *f, const Cluster *a, const Cluster *b, NodeId n, bool *after,
                          uint32_t **todo) {
  const Cluster *c = cluster_of(f, n);
  if (!c || c->rank < a->rank || c->rank > b->rank || after[c->rank - a->rank]) return true;
  if (c == b) return false;
  after[c->rank - a->rank] = true;
  *(*todo)++ = f->of[n];
  return true;
}

// Marks the clusters from a to b in Fuser.sequence that depend on a: sets after[r - a->rank] for
// the cluster of rank r. A SCAN depends on all clusters of its loop. Returns false if b reads a
// marked cluster other than a: then a and b cannot merge.
static bool dependents_find(Fuser *f, const Cluster *a, const Cluster *b, bool *after) {
  uint32_t *todo = f->kept;
  memset(after, 0, b->rank - a->rank + 1);
  after[0] = true;
  *todo++ = f->of[a->node[0]];
  while (todo > f->kept) {
    const Cluster *c = f->cluster.at[*--todo];
    for (RegionId r = c->region; r; r = region_get(f->g, r)->parent)
      dependent_add(f, a, b, f->scan[r], after, &todo);
    for (uint32_t i = 0; i < c->n; i++)
      for (uint32_t j = f->user_at[c->node[i]]; j < f->user_at[c->node[i] + 1]; j++)
        if (!(c == a && cluster_of(f, f->user[j]) == b) &&
            !dependent_add(f, a, b, f->user[j], after, &todo))
          return false;
  }
  return true;
}

static void sequence_merge(Fuser *f, Cluster *a, Cluster *b, const bool *after) {
  uint32_t first = a->rank, last = b->rank, n = 0, id = f->of[a->node[0]];
  uint32_t *kept = f->kept;
  for (uint32_t r = first + 1; r < last; r++)
    if (f->sequence.at[r] && !after[r - first]) kept[n++] = f->sequence.at[r];
  kept[n++] = id;
  for (uint32_t r = first + 1; r < last; r++)
    if (f->sequence.at[r] && after[r - first]) kept[n++] = f->sequence.at[r];
  for (uint32_t r = first; r <= last; r++) {
    uint32_t at = r - first;
    f->sequence.at[r] = at < n ? kept[at] : 0;
    if (at < n) f->cluster.at[kept[at]]->rank = r;
  }
}

// Returns whether a rule forbids that clusters a and b merge, whatever their loops are. *why then
// is the reason.
static bool merge_forbidden(const Cluster *a, const Cluster *b, ApartReason *why) {
  *why = APART_COMMIT;
  if (a->update != b->update) return true;
  *why = APART_LOOPS;
  if (a->region != b->region) return true;
  *why = APART_MICRO_BATCH;
  if (a->part && b->part && a->part != b->part) return true;
  *why = APART_REMATERIALISED;
  if ((a->clone && b->forward) || (a->forward && b->clone)) return true;
  *why = APART_OPERATIONS;
  return a->n + b->n > CLUSTER_NODES;
}

static bool may_merge(const Cluster *a, const Cluster *b) {
  ApartReason why;
  return a && b && a != b && a->kernel && b->kernel && !merge_forbidden(a, b, &why);
}

static uint64_t pair_of(const Fuser *f, const Cluster *a, const Cluster *b) {
  uint64_t x = f->of[a->node[0]], y = f->of[b->node[0]];
  return x < y ? x << 32 | y : y << 32 | x;
}

// Returns the entry of the hash table Fuser.refused for `pair`, the indices of two clusters in one
// number (RefusedPair.pair). If the table lacks the pair, returns the free entry to use for it.
static RefusedPair *refused_entry(const Fuser *f, uint64_t pair) {
  uint32_t i = (uint32_t)hash_word(0, pair) & (f->refused_cap - 1);
  while (f->refused[i].pair && f->refused[i].pair != pair) i = (i + 1) & (f->refused_cap - 1);
  return &f->refused[i];
}

// Writes the nodes of clusters a and b to `out`, in ascending order.
static void join_nodes(const Cluster *a, const Cluster *b, NodeId *out) {
  for (uint32_t i = 0, j = 0; i < a->n || j < b->n;)
    *out++ = j == b->n || (i < a->n && a->node[i] < b->node[j]) ? a->node[i++] : b->node[j++];
}

static bool is_refused(const Fuser *f, const Cluster *a, const Cluster *b) {
  return refused_entry(f, pair_of(f, a, b))->nodes == a->n + b->n;
}

// Finds loops for `node`, the nodes of clusters a and b, in one kernel. Returns true if these loops
// cost less than two kernels; *saved is the difference. Otherwise enters the pair in Fuser.refused,
// so that it is not tried again until one of the clusters gets more nodes.
static bool form_pair(Fuser *f, const Cluster *a, const Cluster *b, const NodeId *node,
                      LoopForm *out, double *saved) {
  uint32_t n = a->n + b->n;
  ApartReason why;
  uint64_t pair = pair_of(f, a, b);
  RefusedPair *r = refused_entry(f, pair);
  mark_nodes(f, n, node);
  bool fits = form_find(f, n, node, out, &why);
  if (fits) *saved = a->form.cost + b->form.cost - out->cost;
  if (fits && *saved > 0) return true;
  if (!r->pair && f->refused_n == f->refused_cap / 2)
    return false; // the table is half full: the pair is not entered and may be tried again
  f->refused_n += !r->pair;
  *r = (RefusedPair){pair, n, fits ? APART_NO_CHEAPER : why};
  return false;
}

static bool merge(Fuser *f, Cluster *a, Cluster *b) {
  if (!may_merge(a, b) || (a->tiles && b->tiles)) return false;
  if (a->rank > b->rank) {
    Cluster *swap = a;
    a = b;
    b = swap;
  }
  if (b->rank - a->rank >= CLUSTER_SPAN || is_refused(f, a, b)) return false;
  // What depends on them is found faster than loops.
  if (!dependents_find(f, a, b, f->after)) return false;
  NodeId node[CLUSTER_NODES];
  uint32_t n = a->n + b->n;
  LoopForm form;
  double saved;
  join_nodes(a, b, node);
  if (!form_pair(f, a, b, node, &form, &saved)) return false;
  sequence_merge(f, a, b, f->after);
  uint32_t id = f->of[a->node[0]], gone = f->of[b->node[0]];
  a->saved += b->saved + saved;
  a->n = n;
  a->tiles |= b->tiles;
  a->part = a->part ? a->part : b->part;
  a->clone |= b->clone;
  a->forward |= b->forward;
  a->node = arena_copy(f->a, node, n * sizeof *node);
  a->form = form;
  for (uint32_t i = 0; i < n; i++) f->of[node[i]] = id;
  f->cluster.at[gone] = NULL;
  return true;
}

// Returns why no kernel with loops of its own computes clusters a and b, between which there is a
// third one: their loops, if these do not fit, otherwise the third cluster.
static ApartReason between(Fuser *f, const Cluster *a, const Cluster *b) {
  NodeId node[CLUSTER_NODES];
  LoopForm form;
  double saved;
  join_nodes(a, b, node);
  (void)form_pair(f, a, b, node, &form, &saved);
  return is_refused(f, a, b) ? refused_entry(f, pair_of(f, a, b))->why : APART_BETWEEN;
}

// Returns the first reason found why kernels a and b were not merged. It is a rule, a reason
// recorded in Fuser.refused, or a third cluster that depends on a and is read by b.
static ApartReason kernels_apart(Fuser *f, const Cluster *a, const Cluster *b, bool address) {
  ApartReason why;
  if (!f->opt->fuse) return APART_FUSION_OFF;
  if (merge_forbidden(a, b, &why)) return why;
  if (address) return APART_WHOLE;
  if (a->tiles && b->tiles) return APART_TILES;
  const RefusedPair *r = refused_entry(f, pair_of(f, a, b));
  if (r->nodes == a->n + b->n) return r->why;
  if (a->rank > b->rank || b->rank - a->rank >= CLUSTER_SPAN) return APART_UNTRIED;
  return dependents_find(f, a, b, f->after) ? APART_UNTRIED : between(f, a, b);
}

ApartReason merge_refusal(Fuser *f, const Cluster *a, const Cluster *b, bool address) {
  switch ((NodeRole)f->role[b->node[0]]) {
  case ROLE_GEMM: return APART_FACTOR;
  case ROLE_COLLECTIVE: return APART_SENT;
  case ROLE_ORDERED: return APART_ORDERED;
  case ROLE_ALIAS: return APART_RENAMED;
  case ROLE_LOOP: return APART_CARRIED;
  default: break;
  }
  switch ((NodeRole)f->role[a->node[0]]) {
  case ROLE_GEMM: return (ApartReason)f->no_tail[a->node[0]];
  case ROLE_COLLECTIVE: return APART_RECEIVED;
  case ROLE_ORDERED: return APART_SORTED;
  case ROLE_ALIAS: return APART_RENAMED;
  case ROLE_LOOP: return APART_AFTER_LOOP;
  default: return kernels_apart(f, a, b, address);
  }
}

// -- which clusters are merged, in which order -------------------------------------------------

typedef struct MergeEdge {
  int64_t bytes;
  NodeId from, to;
} MergeEdge;

static int by_bytes(const void *x, const void *y) {
  const MergeEdge *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  if (a->to != b->to) return a->to < b->to ? -1 : 1;
  return a->from < b->from ? -1 : a->from > b->from;
}

// Returns the bytes of memory traffic that are saved if the clusters of value `from` and of its
// user `to` are merged. They are the load of the value and, if no other cluster reads the value,
// its store.
static int64_t edge_bytes(const Fuser *f, NodeId from, NodeId to) {
  bool alone = !f->memory[from];
  for (uint32_t i = f->user_at[from]; i < f->user_at[from + 1] && alone; i++)
    alone = f->of[f->user[i]] == f->of[to];
  return f->bytes[from] * (alone ? 2 : 1);
}

static MergeEdge *edges_sorted(const Fuser *f, uint32_t *count) {
  uint32_t n = 0, all = f->arg_at[f->count + 1];
  MergeEdge *edge = arena_array(f->a, MergeEdge, all + 1);
  for (NodeId to = 1; to <= f->count; to++)
    for (uint32_t i = f->arg_at[to]; i < f->arg_at[to + 1]; i++)
      if (may_merge(cluster_of(f, f->arg[i]), cluster_of(f, to)) && !f->arg_address[i])
        edge[n++] = (MergeEdge){edge_bytes(f, f->arg[i], to), f->arg[i], to};
  qsort(edge, n, sizeof *edge, by_bytes);
  *count = n;
  return edge;
}

static bool merge_chains(Fuser *f) {
  uint32_t n;
  bool any = false;
  MergeEdge *edge = edges_sorted(f, &n);
  for (uint32_t i = 0; i < n; i++)
    any |= merge(f, cluster_of(f, edge[i].from), cluster_of(f, edge[i].to));
  return any;
}

// Merges pairs of clusters that read the same value, beginning with the largest values. Returns
// whether any clusters were merged.
static bool merge_siblings(Fuser *f) {
  uint32_t n = 0;
  bool any = false;
  MergeEdge *value = arena_array(f->a, MergeEdge, f->count + 1);
  for (NodeId v = 1; v <= f->count; v++)
    if (f->user_at[v + 1] - f->user_at[v] > 1 && graph_node(f->g, v)->dims->n)
      value[n++] = (MergeEdge){f->bytes[v], v, v};
  qsort(value, n, sizeof *value, by_bytes);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t first = f->user_at[value[i].from], last = f->user_at[value[i].from + 1];
    if (last > first + SIBLINGS) last = first + SIBLINGS;
    for (uint32_t x = first; x < last; x++)
      for (uint32_t y = x + 1; y < last; y++)
        any |= merge(f, cluster_of(f, f->user[x]), cluster_of(f, f->user[y]));
  }
  return any;
}

// Merges each kernel without loops with the next kernel without loops in Fuser.sequence, so that
// one launch computes several scalars. Returns whether any kernels were merged.
static bool merge_scalars(Fuser *f) {
  bool any = false;
  Cluster *last = NULL;
  for (uint32_t r = 1; r < f->sequence.n; r++) {
    Cluster *c = f->sequence.at[r] ? f->cluster.at[f->sequence.at[r]] : NULL;
    if (!c || !c->kernel || c->form.outer.n || c->form.inner.n) continue;
    // the merge has changed ranks: continue after the merged cluster
    if (last && merge(f, last, c)) {
      any = true;
      r = last->rank;
    } else {
      last = c;
    }
  }
  return any;
}

void clusters_resident(Fuser *f) {
  f->resident = arena_array(f->a, bool, f->count + 1);
  for (uint32_t i = 1; i < f->cluster.n; i++) {
    const Cluster *c = f->cluster.at[i];
    if (!c) continue;
    mark_nodes(f, c->n, c->node);
    for (uint32_t j = 0; j < c->n; j++)
      f->resident[c->node[j]] = !c->kernel || value_stored(f, c->node[j]);
  }
}

void clusters_merge(Fuser *f) {
  for (int round = 0; round < ROUNDS; round++) {
    bool any = merge_chains(f);
    any |= merge_siblings(f);
    any |= merge_scalars(f);
    if (!any) break;
  }
}
