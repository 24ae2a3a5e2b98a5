// Decides which collectives become one call (a bucket): those of equal kind, monoid, type and axes,
// all in the forward or all in the backward pass, that do not wait for one another. Input: the
// graph of one processor. Output: Buckets (collectives/collectives.h).
//
//   dw = all_reduce(%20) {axes=[rows]}, dv = all_reduce(%14) {axes=[rows]}     one call of two parts
//
// A call is made when all its parts are ready, so it waits for everything that any of them waits
// for. Two buckets must not wait for one another, so each bucket has the set of all buckets that it
// waits for, directly or through others. A machine with `overlap` computes while collectives move
// data. The limit of a bucket depends on the kind of collective:
//
//   all_gather of parameters   Parameters are ready from the start, so a bucket takes them in order
//                              of first use. Its results may have twice the bytes of the largest
//                              matrix. If parameters are rematerialised, they may have once these
//                              bytes. A higher limit would keep many layers in memory. Scales and
//                              biases are small and do not count. With overlap, a bucket has the
//                              parameters of one layer of the model (find_blocks), which are
//                              gathered while the previous layer computes.
//   reduce_scatter             A bucket is full when its call takes five times its latency. A
//                              single bucket would hold all gradients until the last is ready.
//   all_reduce                 With overlap, the limit of reduce_scatter, so that the gradients of
//                              the last layers leave first. Without overlap, there is no limit,
//                              because one call is the cheapest.
//   others                     There is no limit.
//
// Names of values and their places in the model text have no influence.
#include <string.h>

#include "collectives/collectives.h"

// A set of buckets (groups of collectives that become one call): one bit for each, by index of the
// bucket in Bucketing.open.
typedef struct Bits {
  uint64_t *word;
  uint32_t words;
} Bits;

static bool bit(Bits b, uint32_t i) { return b.word[i / 64] >> (i % 64) & 1; }
static void bit_set(Bits b, uint32_t i) { b.word[i / 64] |= UINT64_C(1) << (i % 64); }
static void bits_join(Bits a, Bits b) {
  for (uint32_t i = 0; i < a.words; i++) a.word[i] |= b.word[i];
}
static bool waits_for(Bits waits, Bits left) {
  for (uint32_t i = 0; i < left.words; i++)
    if (waits.word[i] & left.word[i]) return true;
  return false;
}
static Bits bits_new(Arena *a, uint32_t n) {
  return (Bits){arena_array(a, uint64_t, n / 64 + 1), n / 64 + 1};
}

// A bucket (the collectives that will be one call) that further collectives may join until it is
// closed.
typedef struct OpenBucket {
  NodeId first;
  Bits waits;          // the buckets that it waits for
  int64_t bytes, made; // bytes of its operands; bytes of its results without small parameters
  bool closed;         // true: no further collective may join
  VEC(NodeId) node;
} OpenBucket;

typedef struct Bucketing {
  const Graph *g;
  const Machine *machine;
  Arena *scratch;
  uint32_t ncolls;
  Bits *waits; // by node: the set of buckets that the node waits for
  bool *data;  // by node: whether the node depends on an input
  // by node: the number of the layer of the model (find_blocks) in which it is used first; NULL on
  // a machine without overlap
  uint32_t *block;
  int64_t largest; // bytes of the largest gathered parameter
  int64_t matrix;  // bytes of the largest gathered parameter that is not the table of a lookup
  VEC(OpenBucket) open;
} Bucketing;

static Axes axes_of(const Graph *g, DimId d) { return dim_get(g->dims, d)->axes; }

// Returns true if node n is an all_gather of a parameter, or of another value that depends on no
// input. The node must be in the forward pass or recomputed in the backward pass.
static bool gathers_params(const Bucketing *p, NodeId n) {
  const Node *x = graph_node(p->g, n);
  return x->op == OP_ALL_GATHER && !p->data[n] && (!x->origin.backward || x->instance);
}

// Returns true if n gathers a parameter that is much smaller than the largest one, such as a scale
// or bias. The gather must also take less than 1.25 times its latency.
static bool is_small(const Bucketing *p, NodeId n) {
  if (node_bytes(p->g, n) > p->largest / 16) return false;
  Axes axes = graph_node(p->g, n)->attr.axes;
  double latency = coll_latency(p->machine, p->g->mesh, COLL_ALL_GATHER, axes);
  return coll_seconds(p->machine, p->g->mesh, COLL_ALL_GATHER, axes, node_bytes(p->g, n)) <
         1.25 * latency;
}

// Returns true if collectives a and b may be parts of one call, whatever its size.
static bool compatible(const Bucketing *p, NodeId a, NodeId b) {
  const Node *x = graph_node(p->g, a), *y = graph_node(p->g, b);
  if (x->region != y->region || x->op != y->op || x->type != y->type ||
      x->instance != y->instance || x->attr.monoid != y->attr.monoid ||
      x->origin.backward != y->origin.backward || !axes_equal(x->attr.axes, y->attr.axes))
    return false;
  if (gathers_params(p, a) || gathers_params(p, b))
    return gathers_params(p, a) && gathers_params(p, b) &&
           (!p->block || x->instance || p->block[a] == p->block[b]);
  if (x->instance) return false;
  if (x->op == OP_HALO)
    return axes_equal(axes_of(p->g, x->attr.dims[0]), axes_of(p->g, y->attr.dims[0])) &&
           axes_equal(axes_of(p->g, x->attr.to[0]), axes_of(p->g, y->attr.to[0]));
  return x->op == OP_ALL_REDUCE || x->op == OP_REDUCE_SCATTER || x->op == OP_ALL_GATHER;
}

static bool depends_on_input(const Bucketing *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  for (int i = 0; i < node->nargs; i++)
    if (p->data[node->args[i]]) return true;
  return node->op == OP_INPUT;
}

// Adds to the set `waits` the buckets of all collectives inside the loop of node `scan`. The
// results of the loop exist only when these collectives are done. `of[n]` is 1 + the index of the
// bucket of node n, or 0 if n has none.
static void loop_waits(const Bucketing *p, NodeId scan, const uint32_t *of, Bits waits) {
  RegionId r = graph_node(p->g, scan)->attr.region;
  for (NodeId n = 1; n < scan; n++) {
    if (!region_encloses(p->g, r, graph_node(p->g, n)->region)) continue;
    bits_join(waits, p->waits[n]);
    if (!of[n]) continue;
    bit_set(waits, of[n] - 1);
    bits_join(waits, p->open.at[of[n] - 1].waits);
  }
}

static Bits node_waits(Bucketing *p, NodeId n, const uint32_t *of) {
  Bits waits = bits_new(p->scratch, p->ncolls);
  const Node *node = graph_node(p->g, n);
  if (node->op == OP_SCAN) loop_waits(p, n, of, waits);
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    if (p->waits[arg].word) bits_join(waits, p->waits[arg]);
    if (of[arg]) {
      bit_set(waits, of[arg] - 1);
      bits_join(waits, p->open.at[of[arg] - 1].waits);
    }
  }
  return waits;
}

// Adds to the set `waits` all buckets for which its buckets wait. The set may lack some of them,
// because one of its buckets may have taken further collectives since and wait for more.
static void close_waits(const Bucketing *p, Bits waits) {
  for (uint32_t b = 0; b < p->open.n; b++)
    if (bit(waits, b)) bits_join(waits, p->open.at[b].waits);
}

static void join_bucket(Bucketing *p, uint32_t b, NodeId n, Bits waits) {
  OpenBucket *open = &p->open.at[b];
  vec_push(p->scratch, open->node) = n;
  open->bytes += node_bytes(p->g, graph_node(p->g, n)->args[0]);
  if (!gathers_params(p, n) || !is_small(p, n)) open->made += node_bytes(p->g, n);
  bits_join(open->waits, waits);
  for (uint32_t other = 0; other < p->open.n; other++)
    if (bit(p->open.at[other].waits, b)) bits_join(p->open.at[other].waits, open->waits);
}

// Returns true if the bucket `open` has reached the limit of its kind (bytes or seconds; the head
// of this file lists the limits). Then collective n must not join it.
static bool is_full(const Bucketing *p, const OpenBucket *open, NodeId n) {
  const Node *x = graph_node(p->g, n);
  CollKind kind;
  if (gathers_params(p, n))
    return !is_small(p, n) && (!p->block || x->instance) &&
           open->made + node_bytes(p->g, n) > (x->instance ? 1 : 2) * p->matrix;
  if (x->op != OP_REDUCE_SCATTER && !(x->op == OP_ALL_REDUCE && p->machine->overlap > 0))
    return false;
  return coll_of((Op)x->op, &kind) &&
         coll_seconds(p->machine, p->g->mesh, kind, x->attr.axes, open->bytes) >
             5 * coll_latency(p->machine, p->g->mesh, kind, x->attr.axes);
}

// Returns the index of the bucket (collectives of one call) that collective n joins. It is the
// first bucket that is not full and for which n does not wait, or a new one. A full bucket of
// parameters is closed for good, because later parameters are used later.
static uint32_t find_bucket(Bucketing *p, NodeId n, Bits waits) {
  for (uint32_t b = 0; b < p->open.n; b++) {
    OpenBucket *open = &p->open.at[b];
    if (bit(waits, b) || open->closed || !compatible(p, open->first, n)) continue;
    if (!is_full(p, open, n)) return b;
    open->closed = gathers_params(p, n);
  }
  vec_push(p->scratch, p->open) =
      (OpenBucket){.first = n, .waits = bits_new(p->scratch, p->ncolls)};
  return p->open.n - 1;
}

// Returns the buckets (the collectives of one call each) in an order in which they can run. Next is
// always the first remaining bucket that does not wait for another remaining one.
static Buckets *finish(Arena *a, const Bucketing *p, uint32_t *of) {
  Buckets *out = arena_new_of(a, Buckets);
  uint32_t n = p->open.n;
  out->of = of;
  out->bucket = arena_array(a, Bucket, n + 1);
  Bits left = bits_new(p->scratch, n);
  for (uint32_t b = 0; b < n; b++) bit_set(left, b);
  for (uint32_t b = 0; b < n; b++) {
    const OpenBucket *open = &p->open.at[b];
    if (!bit(left, b) || waits_for(open->waits, left)) continue;
    left.word[b / 64] &= ~(UINT64_C(1) << (b % 64));
    NodeId *node = arena_copy(a, open->node.at, open->node.n * sizeof(NodeId));
    for (uint32_t i = 0; i < open->node.n; i++) of[node[i]] = out->n + 1;
    out->bucket[out->n++] = (Bucket){.n = open->node.n, .node = node};
    b = UINT32_MAX; // start again from bucket 0, which may have waited for this bucket only
  }
  if (out->n != n) BUG("buckets wait for one another");
  return out;
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
// between two layers. `reach` is the last node that reads any value so far. A node that depends on
// no input, such as a parameter, belongs to the block of its first use.
static void find_blocks(Bucketing *p) {
  uint32_t n = graph_count(p->g), block = 1;
  NodeId *last = arena_array(p->scratch, NodeId, n + 1), reach = 0; // by node: its last forward use
  p->block = arena_array(p->scratch, uint32_t, n + 1);
  for (NodeId u = 1; u <= n; u++)
    for (int i = 0; !graph_node(p->g, u)->origin.backward && i < graph_node(p->g, u)->nargs; i++)
      last[graph_node(p->g, u)->args[i]] = u;
  for (NodeId u = 1; u <= n; u++) {
    const Node *x = graph_node(p->g, u);
    if (!p->data[u] || x->op == OP_INPUT || x->origin.backward) continue;
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
  Bucketing p = {.g = g, .machine = machine, .scratch = arena_new()};
  uint32_t n = graph_count(g), *of = arena_array(a, uint32_t, n + 1);
  for (NodeId u = 1; u <= n; u++) p.ncolls += coll_of((Op)graph_node(g, u)->op, &kind);
  p.waits = arena_array(p.scratch, Bits, n + 1);
  p.data = arena_array(p.scratch, bool, n + 1);
  for (NodeId u = 1; u <= n; u++) p.data[u] = depends_on_input(&p, u);
  measure_params(&p);
  if (machine->overlap > 0) find_blocks(&p);
  for (NodeId u = 1; u <= n; u++) {
    p.waits[u] = node_waits(&p, u, of);
    if (!coll_of((Op)graph_node(g, u)->op, &kind)) continue;
    close_waits(&p, p.waits[u]);
    uint32_t b = find_bucket(&p, u, p.waits[u]);
    join_bucket(&p, b, u, p.waits[u]);
    of[u] = b + 1;
  }
  Buckets *out = finish(a, &p, of);
  arena_free(p.scratch);
  return out;
}
