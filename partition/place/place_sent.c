// Counts what the collectives of a placement send and how many calls make them, without lowering.
//
// The conversions are those of place_versions.c. Bucketing (collectives/passes/bucket.c) makes one
// call of equal collectives that do not wait for each other. Here these are the collectives of one
// kind, monoid, type and axes that have the same height: the number of collectives that must
// follow.
//
//   h = relu(all_reduce(a)), y = all_reduce(b * h)     heights 1 and 0: two calls
//   dw = all_reduce(c), dv = all_reduce(d)             height 0: one call of two parts
#include <stdlib.h>
#include <string.h>

#include "collectives/collectives.h"
#include "partition/sharding/sharding_internal.h"

// The collectives that are equal in these members are one call.
typedef struct Call {
  double latency; // seconds of the call, in all steps of its loop
  uint32_t height;
  RegionId region;
  uint8_t op, monoid, type, backward, naxes, axes[MAX_AXES];
} Call;

// An edge says that version `to` is computed or converted from version `from` < `to`. Versions are
// numbered from 1 in the order in which they are made.
typedef struct Edge {
  NodeId from, to;
  uint32_t call; // 1 + index of the collective that converts `from`; 0: none
} Edge;

typedef struct Count {
  Versions versions; // must be first: count_step casts a pointer to it to Count
  NodeId last;       // number of the newest version
  VEC(Edge) edge;
  VEC(Call) call;
} Count;

static void add_edge(Count *c, NodeId from, NodeId to, uint32_t call) {
  vec_push(c->versions.scratch, c->edge) = (Edge){from, to, call};
}

static NodeId count_step(Versions *v, NodeId n, const Version *from, const ConvertStep *step,
                         const Read *user) {
  (void)user;
  Count *c = (Count *)v;
  const Node *node = graph_node(v->p->g, n);
  CollKind kind;
  uint32_t call = 0;
  if (coll_of(step->op, &kind)) {
    Call *x = &vec_push(v->scratch, c->call);
    memset(x, 0, sizeof *x); // equal calls are found by memcmp
    x->latency = coll_latency(v->p->machine, v->p->g->mesh, kind, step->axes) *
                 (double)region_times(v->p->g, node->region);
    x->region = node->region, x->backward = node->origin->backward;
    x->op = (uint8_t)step->op, x->type = (uint8_t)node->type;
    x->monoid = from->s->partial.n ? (uint8_t)from->s->monoid : 0;
    x->naxes = (uint8_t)step->axes.n;
    memcpy(x->axes, step->axes.at, x->naxes);
    call = c->call.n;
  }
  add_edge(c, from->node, ++c->last, call);
  return c->last;
}

static void count_node(Count *c, NodeId n) {
  const Node *node = graph_node(c->versions.p->g, n);
  NodeId args[MAX_ARGS];
  versions_read(&c->versions, n, args);
  c->last++;
  for (int i = 0; i < node->nargs; i++) add_edge(c, args[i], c->last, 0);
  version_add(&c->versions, n, c->versions.p->result.computed[n], c->last);
}

// Sets the height of each collective. Edges from a version come after the edge that makes it.
static void find_heights(Count *c) {
  uint32_t *height = arena_array(c->versions.scratch, uint32_t, c->last + 1);
  for (uint32_t i = c->edge.n; i > 0; i--) {
    const Edge *e = &c->edge.at[i - 1];
    uint32_t h = height[e->to] + (e->call != 0);
    if (e->call) c->call.at[e->call - 1].height = height[e->to];
    if (h > height[e->from]) height[e->from] = h;
  }
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(Call)); }

static double call_seconds(Count *c) {
  double sum = 0;
  find_heights(c);
  if (c->call.n) qsort(c->call.at, c->call.n, sizeof(Call), by_bytes);
  for (uint32_t i = 0; i < c->call.n; i++)
    if (!i || by_bytes(&c->call.at[i - 1], &c->call.at[i])) sum += c->call.at[i].latency;
  return sum;
}

Sent place_sent(const Placer *p) {
  Arena *scratch = arena_new();
  Count c = {.versions = versions_new(scratch, p)};
  c.versions.convert = count_step;
  c.versions.counts = true;
  for (NodeId n = 1; n <= graph_count(p->g); n++) count_node(&c, n);
  for (uint32_t o = 0; o < p->g->output.n; o++)
    version_for(&c.versions, p->g->output.at[o].value, &(Read){.output = o + 1});
  Sent out = {c.versions.bytes, call_seconds(&c)};
  arena_free(scratch);
  return out;
}
