// Which collectives become one call: those of one kind, monoid, type, axes and phase that do not
// wait for one another.
//
//   dw = all_reduce(%20) {axes=[rows]}, dv = all_reduce(%14) {axes=[rows]}     one call of two parts
//
// A call is made when all its parts are ready, so it waits for everything that any of them waits
// for. Joining must not close a circle: each bucket knows all buckets that it waits for, itself
// through others. Gathers of what depends on no input stay apart unless they are of one scope, or
// without scope of one line, or small: packing the parameters of all layers would hold them all at
// once. So would packing all gradients before they are scattered: a reduce_scatter that takes five
// times its latency takes no more. Nor does an all_reduce on a machine that works while it is under
// way: that of the last layers leaves while the backward pass of the first is computed; on others
// one call is cheapest. What is done again for the backward pass stays apart.
#include <string.h>

#include "collectives/collectives.h"

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

typedef struct Open {
  NodeId first;
  Bits waits;    // buckets before this one
  int64_t bytes; // of its operands
  VEC(NodeId) node;
} Open;

typedef struct Pack {
  const Graph *g;
  const Machine *machine;
  Arena *scratch;
  uint32_t ncolls;
  Bits *waits;     // of every node: buckets that must be done before it
  bool *data;      // of every node: depends on an input
  int64_t largest; // bytes that a gather of what depends on none makes
  VEC(Open) open;
} Pack;

// Whether "layer.0.attention.wq" and "layer.0.attention.wk" are of one scope, or w and v of one
// line.
static bool near(const Origin *x, const Origin *y) {
  if (!x->value || !y->value) return false;
  const char *a = strrchr(x->value, '.'), *b = strrchr(y->value, '.');
  if (!a && !b) return x->pos.line && x->pos.line == y->pos.line;
  return a && b && a - x->value == b - y->value &&
         !strncmp(x->value, y->value, (size_t)(a - x->value));
}

static Axes cut_of(const Graph *g, DimId d) { return dim_get(g->dims, d)->axes; }

// A scale or bias beside matrices, which takes hardly longer to gather than nothing would.
static bool is_small(const Pack *p, NodeId n) {
  if (node_bytes(p->g, n) > p->largest / 16) return false;
  Axes axes = graph_node(p->g, n)->attr.axes;
  double latency = coll_latency(p->machine, p->g->mesh, COLL_ALL_GATHER, axes);
  return coll_seconds(p->machine, p->g->mesh, COLL_ALL_GATHER, axes, node_bytes(p->g, n)) <
         1.25 * latency;
}

static bool compatible(const Pack *p, NodeId a, NodeId b) {
  const Node *x = graph_node(p->g, a), *y = graph_node(p->g, b);
  if (x->region != y->region || x->op != y->op || x->type != y->type ||
      x->attr.monoid != y->attr.monoid || x->origin.backward != y->origin.backward ||
      !axes_equal(x->attr.axes, y->attr.axes))
    return false;
  if (x->instance || y->instance) // done again for the backward pass
    return x->instance == y->instance && x->op == OP_ALL_GATHER && !p->data[a] && !p->data[b] &&
           near(&x->origin, &y->origin);
  if (x->op == OP_ALL_REDUCE || x->op == OP_REDUCE_SCATTER) return true;
  if (x->op == OP_HALO)
    return axes_equal(cut_of(p->g, x->attr.dims[0]), cut_of(p->g, y->attr.dims[0])) &&
           axes_equal(cut_of(p->g, x->attr.to[0]), cut_of(p->g, y->attr.to[0]));
  if (x->op != OP_ALL_GATHER) return false;
  return x->origin.backward || (p->data[a] && p->data[b]) || near(&x->origin, &y->origin) ||
         (is_small(p, a) && is_small(p, b));
}

static bool depends_on_input(const Pack *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  for (int i = 0; i < node->nargs; i++)
    if (p->data[node->args[i]]) return true;
  return node->op == OP_INPUT;
}

// All of a loop is done before what it hands out is there.
static void loop_waits(const Pack *p, NodeId scan, const uint32_t *of, Bits waits) {
  RegionId r = graph_node(p->g, scan)->attr.region;
  for (NodeId n = 1; n < scan; n++) {
    if (!region_encloses(p->g, r, graph_node(p->g, n)->region)) continue;
    bits_join(waits, p->waits[n]);
    if (!of[n]) continue;
    bit_set(waits, of[n] - 1);
    bits_join(waits, p->open.at[of[n] - 1].waits);
  }
}

static Bits node_waits(Pack *p, NodeId n, const uint32_t *of) {
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

// Waits of nodes were taken before buckets behind them grew; close them again.
static void close_waits(const Pack *p, Bits waits) {
  for (uint32_t b = 0; b < p->open.n; b++)
    if (bit(waits, b)) bits_join(waits, p->open.at[b].waits);
}

static void join_bucket(Pack *p, uint32_t b, NodeId n, Bits waits) {
  Open *open = &p->open.at[b];
  vec_push(p->scratch, open->node) = n;
  open->bytes += node_bytes(p->g, graph_node(p->g, n)->args[0]);
  bits_join(open->waits, waits);
  for (uint32_t other = 0; other < p->open.n; other++)
    if (bit(p->open.at[other].waits, b)) bits_join(p->open.at[other].waits, open->waits);
}

static bool is_full(const Pack *p, const Open *open) {
  const Node *x = graph_node(p->g, open->first);
  CollKind kind;
  if (x->op != OP_REDUCE_SCATTER && !(x->op == OP_ALL_REDUCE && p->machine->overlap > 0))
    return false;
  return coll_of((Op)x->op, &kind) &&
         coll_seconds(p->machine, p->g->mesh, kind, x->attr.axes, open->bytes) >
             5 * coll_latency(p->machine, p->g->mesh, kind, x->attr.axes);
}

static uint32_t find_bucket(Pack *p, NodeId n, Bits waits) {
  for (uint32_t b = 0; b < p->open.n; b++)
    if (!bit(waits, b) && !is_full(p, &p->open.at[b]) && compatible(p, p->open.at[b].first, n))
      return b;
  vec_push(p->scratch, p->open) = (Open){.first = n, .waits = bits_new(p->scratch, p->ncolls)};
  return p->open.n - 1;
}

// Buckets in an order that can be run: the first that waits for no later one.
static Buckets *finish(Arena *a, const Pack *p, uint32_t *of) {
  Buckets *out = arena_new_of(a, Buckets);
  uint32_t n = p->open.n;
  out->of = of;
  out->bucket = arena_array(a, Bucket, n + 1);
  Bits left = bits_new(p->scratch, n);
  for (uint32_t b = 0; b < n; b++) bit_set(left, b);
  for (uint32_t b = 0; b < n; b++) {
    const Open *open = &p->open.at[b];
    if (!bit(left, b) || waits_for(open->waits, left)) continue;
    left.word[b / 64] &= ~(UINT64_C(1) << (b % 64));
    NodeId *node = arena_copy(a, open->node.at, open->node.n * sizeof(NodeId));
    for (uint32_t i = 0; i < open->node.n; i++) of[node[i]] = out->n + 1;
    out->bucket[out->n++] = (Bucket){.n = open->node.n, .node = node};
    b = UINT32_MAX; // an earlier one may be free now
  }
  if (out->n != n) BUG("buckets wait for one another");
  return out;
}

Buckets *collectives_pack(Arena *a, const Graph *g, const Machine *machine) {
  CollKind kind;
  Pack p = {.g = g, .machine = machine, .scratch = arena_new()};
  uint32_t n = graph_count(g), *of = arena_array(a, uint32_t, n + 1);
  for (NodeId u = 1; u <= n; u++) p.ncolls += coll_of((Op)graph_node(g, u)->op, &kind);
  p.waits = arena_array(p.scratch, Bits, n + 1);
  p.data = arena_array(p.scratch, bool, n + 1);
  for (NodeId u = 1; u <= n; u++) {
    p.data[u] = depends_on_input(&p, u);
    if (graph_node(g, u)->op == OP_ALL_GATHER && !p.data[u] && node_bytes(g, u) > p.largest)
      p.largest = node_bytes(g, u);
  }
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
