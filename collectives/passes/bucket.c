// Decides which collectives become one call (a bucket): those of equal kind, monoid, type and axes,
// all in the forward or all in the backward pass of one micro-batch, that do not wait for one
// another. Input: the graph of one processor. Output: Buckets (collectives/collectives.h).
//
//   dw = all_reduce(%20) {axes=[rows]}, dv = all_reduce(%14) {axes=[rows]}     one call of two parts
//
// A call is made when all its parts are ready, so it waits for everything that any of them waits
// for. Two buckets must not wait for one another. Levels see to that: a bucket has a level above
// those of all buckets that it waits for. A collective may join a bucket of its own level or a
// higher one, or one for which no other bucket waits yet: that one rises to the level of the
// collective (bucket_levels.c). Here B waits for A, so A cannot rise:
//
//   %5 = all_reduce(%4)       level 0, bucket A
//   %9 = all_reduce(f(%5))    level 1, bucket B
//   %12 = all_reduce(%11)     level 0: may join A, and also B
//   %15 = all_reduce(f(%9))   level 2: waits for A and B, so it joins neither
//
// So the buckets of a graph are found in one pass over its nodes. A machine with `overlap` computes
// while collectives move data. The limit of a bucket depends on the kind of collective:
//
//   all_gather of parameters   Parameters are ready from the start, so a bucket takes them in order
//                              of first use. Its results may have twice the bytes of the largest
//                              matrix, in the backward pass once these bytes. A higher limit would
//                              keep many layers in memory. Scales and biases are small and do not
//                              count. With overlap, a bucket of the forward pass has the parameters
//                              of one layer of the model (find_blocks), which are gathered while the
//                              previous layer computes.
//   reduce_scatter             A bucket is full when its call takes five times its latency. A
//                              single bucket would hold all gradients until the last is ready.
//   all_reduce                 With overlap, the limit of reduce_scatter, so that the gradients of
//                              the last layers leave first. Without overlap, there is no limit,
//                              because one call is the cheapest.
//   all_gather of other values As all_reduce, because a single bucket would hold the results of all
//                              layers. New parameters are gathered at the end, without a limit.
//   others                     There is no limit.
//
// Names of values and their places in the model text have no influence.
#include <string.h>

#include "collectives/passes/bucket_internal.h"
#include "ir/base/hash.h"

static Axes axes_of(const Graph *g, DimId d) { return dim_get(g->dims, d)->axes; }

// Returns true if node n is an all_gather of a parameter, or of another value that depends on no
// input.
static bool gathers_params(const Bucketing *p, NodeId n) {
  return graph_node(p->g, n)->op == OP_ALL_GATHER && !p->data[n];
}

// Returns true if n gathers a parameter that is much smaller than the largest one, such as a scale
// or bias. The gather must also take less than 1.25 times its latency.
static bool is_small(const Bucketing *p, NodeId n) {
  if (node_bytes(p->g, n) > p->largest / 16) return false;
  Axes axes = graph_node(p->g, n)->attr->axes;
  double latency = coll_latency(p->machine, p->g->mesh, COLL_ALL_GATHER, axes);
  return coll_seconds(p->machine, p->g->mesh, COLL_ALL_GATHER, axes, node_bytes(p->g, n)) <
         1.25 * latency;
}

// Copies axes and leaves the unused entries of *to 0, so that keys can be compared by bytes.
static void copy_axes(Axes *to, Axes from) {
  to->n = from.n;
  memcpy(to->at, from.at, from.n);
}

// Sets *key to what collective n has in common with those that may be parts of its call. Returns
// false if it is a call of its own.
static bool class_key(const Bucketing *p, NodeId n, ClassKey *key) {
  const Node *x = graph_node(p->g, n);
  memset(key, 0, sizeof *key);
  key->region = x->region, key->op = x->op, key->type = x->type;
  key->instance = x->instance, key->monoid = x->attr->monoid;
  key->backward = x->origin->backward;
  key->params = gathers_params(p, n);
  copy_axes(&key->axes, x->attr->axes);
  if (key->params) {
    key->block = p->block && !x->origin->backward ? p->block[n] : 0;
    return true;
  }
  if (x->instance) return false;
  key->part = p->part ? p->part[n] : 0;
  if (x->op == OP_HALO) {
    copy_axes(&key->halo[0], axes_of(p->g, x->attr->dims[0]));
    copy_axes(&key->halo[1], axes_of(p->g, x->attr->to[0]));
    return true;
  }
  return x->op == OP_ALL_REDUCE || x->op == OP_REDUCE_SCATTER || x->op == OP_ALL_GATHER;
}

static bool depends_on_input(const Bucketing *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  for (int i = 0; i < node->nargs; i++)
    if (p->data[node->args[i]]) return true;
  return node->op == OP_INPUT;
}

// Adds collective n, whose level is final, to bucket b, which rises to this level if it is below.
static void join_bucket(Bucketing *p, uint32_t b, NodeId n) {
  OpenBucket *open = &p->bucket.at[b];
  vec_push(p->scratch, open->node) = n;
  open->bytes += node_bytes(p->g, graph_node(p->g, n)->args[0]);
  if (!gathers_params(p, n) || !is_small(p, n)) open->made += node_bytes(p->g, n);
  open->level = max_of(open->level, p->level[n]);
  p->of[n] = b + 1;
}

// Returns true if the bucket `open` has reached the limit of its kind (bytes or seconds; the head
// of this file lists the limits). Then collective n must not join it.
static bool is_full(const Bucketing *p, OpenBucket *open, NodeId n) {
  const Node *x = graph_node(p->g, n);
  CollKind kind;
  if (gathers_params(p, n))
    return !is_small(p, n) && (!p->block || x->origin->backward) &&
           open->made + node_bytes(p->g, n) > (x->origin->backward ? 1 : 2) * p->matrix;
  if (x->op != OP_REDUCE_SCATTER && (x->op == OP_HALO || p->updates[n] || p->machine->overlap <= 0))
    return false;
  if (!open->full)
    open->full = coll_of((Op)x->op, &kind) &&
                 coll_seconds(p->machine, p->g->mesh, kind, x->attr->axes,
                              kind == COLL_ALL_GATHER ? open->made : open->bytes) >
                     5 * coll_latency(p->machine, p->g->mesh, kind, x->attr->axes);
  return open->full;
}

// Returns the class of a key, a new one for a new key. The pointer holds until the next call.
static Class *class_of(Bucketing *p, const ClassKey *key) {
  uint32_t *head = &p->hashed[hash_bytes(FNV_START, key, sizeof *key) % p->slots];
  for (uint32_t c = *head; c; c = p->class.at[c - 1].next)
    if (!memcmp(&p->class.at[c - 1].key, key, sizeof *key)) return &p->class.at[c - 1];
  Class *c = &vec_push(p->scratch, p->class);
  *c = (Class){.next = *head};
  memcpy(&c->key, key, sizeof *key); // an assignment need not copy padding, which memcmp reads
  *head = p->class.n;
  return c;
}

// Removes c->open[i]: no further collective joins that bucket.
static void class_close(Class *c, uint32_t i) {
  c->n--;
  memmove(&c->open[i], &c->open[i + 1], (c->n - i) * sizeof *c->open);
  memmove(&c->joined[i], &c->joined[i + 1], (c->n - i) * sizeof *c->joined);
}

// Lets further collectives join a bucket that node n opens. If MAX_OPEN buckets of the class are
// open, closes the one that no collective has joined for the longest time.
static void class_open(Class *c, uint32_t bucket, NodeId n) {
  uint32_t oldest = 0;
  for (uint32_t i = 1; i < c->n; i++)
    if (c->joined[i] < c->joined[oldest]) oldest = i;
  if (c->n == MAX_OPEN) class_close(c, oldest);
  c->open[c->n] = bucket;
  c->joined[c->n++] = n;
}

// Returns the index of a new bucket, without collectives. fixed: OpenBucket.fixed.
static uint32_t bucket_new(Bucketing *p, bool fixed) {
  vec_push(p->scratch, p->bucket) = (OpenBucket){.fixed = fixed};
  return p->bucket.n - 1;
}

// Returns the index of the bucket (collectives of one call) that collective n joins. It is the
// first bucket of its class, which is that of `key`, that it may join and that is not full, or a
// new one. A full bucket of parameters is closed, because later parameters are used later.
static uint32_t find_bucket(Bucketing *p, NodeId n, const ClassKey *key) {
  Class *c = class_of(p, key);
  for (uint32_t i = 0; i < c->n; i++) {
    OpenBucket *open = &p->bucket.at[c->open[i]];
    if (!level_allows(p, open, n)) {
      end_refused(open, BUCKET_END_WAITS, n);
      continue;
    }
    if (!is_full(p, open, n)) {
      c->joined[i] = n;
      return c->open[i];
    }
    end_refused(open, key->params ? BUCKET_END_GATHERED : BUCKET_END_FULL, n);
    if (key->params) class_close(c, i--);
  }
  class_open(c, bucket_new(p, false), n);
  return p->bucket.n - 1;
}

// Adds collective n, whose level is final, to a bucket.
static void add_collective(Bucketing *p, NodeId n) {
  ClassKey key;
  bool has_class = class_key(p, n, &key);
  uint32_t b = has_class ? find_bucket(p, n, &key) : bucket_new(p, true);
  join_bucket(p, b, n);
  end_joined(p, b, has_class ? &key : NULL, n);
}

// Sets p->largest to the bytes of the largest gathered parameter. Sets p->matrix to the bytes of
// the largest one that is not the table of a lookup. The table of an embedding may be larger than
// the matrices of the layers.
static void measure_params(Bucketing *p) {
  uint32_t n = graph_count(p->g);
  bool *looked_up = arena_array(p->scratch, bool, n + 1);
  for (NodeId u = 1; u <= n; u++)
    if (graph_node(p->g, u)->op == OP_TAKE) looked_up[graph_node(p->g, u)->args[0]] = true;
  for (NodeId u = 1; u <= n; u++) {
    if (graph_node(p->g, u)->op != OP_ALL_GATHER || p->data[u]) continue;
    int64_t bytes = node_bytes(p->g, u);
    if (bytes > p->largest) p->largest = bytes;
    if (!looked_up[u] && bytes > p->matrix) p->matrix = bytes;
  }
}

// Divides the forward pass into layers, here called blocks, and writes the block number of each
// node to p->block. A block ends at a node u if no later node reads a value that was computed
// before u. Then all later work depends on u alone, as in a transformer on the residual value
// between two layers. `reach` is the last node that reads any value so far; what one micro-batch
// passes on to the next, such as a sum of losses, does not count. Nor do inputs and parts of them,
// such as the targets of a micro-batch: they are read at the end. A micro-batch begins a block. A
// node that depends on no input, such as a parameter, belongs to the block of its first use.
static void find_blocks(Bucketing *p) {
  uint32_t n = graph_count(p->g), block = 1, micro = 0;
  NodeId *last = arena_array(p->scratch, NodeId, n + 1), reach = 0; // by node: its last forward use
  bool *given = arena_array(p->scratch, bool, n + 1); // by node: an input or a part of one
  p->block = arena_array(p->scratch, uint32_t, n + 1);
  for (NodeId u = 1; u <= n; u++)
    for (int i = 0; !graph_node(p->g, u)->origin->backward && i < graph_node(p->g, u)->nargs; i++) {
      NodeId arg = graph_node(p->g, u)->args[i];
      if (!p->part || p->part[arg] == p->part[u]) last[arg] = u;
    }
  for (NodeId u = 1; u <= n; u++) {
    const Node *x = graph_node(p->g, u);
    bool part = x->op == OP_WINDOW || x->op == OP_RENAME;
    given[u] = x->op == OP_INPUT || (part && given[x->args[0]]);
    if (!p->data[u] || given[u] || x->origin->backward) continue;
    bool next = p->part && p->part[u] != micro;
    if (next) micro = p->part[u], reach = 0, block++;
    p->block[u] = block;
    if (reach <= u) block++;
    if (last[u] > reach) reach = last[u];
  }
  for (NodeId u = n; u; u--)
    for (int i = 0; p->block[u] && i < graph_node(p->g, u)->nargs; i++) {
      NodeId arg = graph_node(p->g, u)->args[i];
      if (!p->data[arg] && (!p->block[arg] || p->block[u] < p->block[arg]))
        p->block[arg] = p->block[u];
    }
}

Buckets *collectives_bucket(Arena *a, const Graph *g, const Machine *machine) {
  CollKind kind;
  uint32_t n = graph_count(g);
  Bucketing p = {.g = g, .machine = machine, .scratch = arena_new(), .slots = n / 8 + 1};
  p.of = arena_array(a, uint32_t, n + 1);
  p.level = arena_array(p.scratch, uint32_t, n + 1);
  p.after = arena_array(p.scratch, uint32_t, n + 1);
  p.within = arena_array(p.scratch, uint32_t, g->region.n + 2);
  p.last = arena_array(p.scratch, LastOf, OP_COUNT);
  p.hashed = arena_array(p.scratch, uint32_t, p.slots);
  p.data = arena_array(p.scratch, bool, n + 1);
  p.updates = arena_array(p.scratch, bool, n + 1);
  for (NodeId u = 1; u <= n; u++) p.data[u] = depends_on_input(&p, u);
  for (uint32_t i = 0; i < g->output.n; i++)
    p.updates[g->output.at[i].value] |= g->output.at[i].kind == OUT_UPDATE;
  p.part = graph_micro_batches(p.scratch, g);
  measure_params(&p);
  if (machine->overlap > 0) find_blocks(&p);
  for (NodeId u = 1; u <= n; u++) {
    level_find(&p, u);
    if (coll_of((Op)graph_node(g, u)->op, &kind)) {
      level_fix(&p, u);
      add_collective(&p, u);
    }
    level_end(&p, u);
  }
  Buckets *out = buckets_in_order(a, &p);
  arena_free(p.scratch);
  return out;
}
