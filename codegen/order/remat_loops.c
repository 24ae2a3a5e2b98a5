// Finds the backward loop of each forward loop, and the forward values that it reads.
//
// Gradients collect values of a forward loop, and a second loop reads them in the opposite order.
// No field of the graph links the two loops: the link is found from what the second loop reads. If
// the second loop reads values of several loops over one dim, any of these can be its forward loop,
// because its iterations compute a forward value from other values collected in the same iteration.
//
//   region 1: %6 = mul(...); %8 = collect(%7, %6)      region 2: %9 = at(%8)
//   =>  through[2] = 1, mirror[%9] = %6
#include "codegen/order/remat_internal.h"

// Returns the COLLECT (values of all iterations) of a forward loop that node `at` reads, directly
// or through renames. Returns 0 if it reads none. `at` is an AT, which takes the value of one
// iteration.
static NodeId collect_seen(const Graph *g, const RematLoops *l, NodeId at) {
  const Node *n = graph_node(g, at);
  NodeId x = n->args[0];
  while (graph_node(g, x)->op == OP_RENAME && !attr_names(graph_node(g, x)->attr, n->attr->dims[0]))
    x = graph_node(g, x)->args[0];
  if (l->mirror[x] && x == n->args[0]) x = l->mirror[x];
  const Node *c = graph_node(g, x);
  if (c->op != OP_COLLECT || c->attr->dims[0] != n->attr->dims[0]) return 0;
  const Node *scan = graph_node(g, c->args[0]);
  return !scan->origin->backward && graph_node(g, c->args[1])->region == scan->attr->region ? x : 0;
}

static RegionId loop_of(const Graph *g, NodeId collect) {
  return graph_node(g, graph_node(g, collect)->args[0])->attr->region;
}

// Returns whether the loops around `from` and `back` allow that loop `back` is the backward loop of
// loop `from`. They do if the loop around `from` also encloses `back`, or if its backward loop is
// the loop around `back`.
static bool goes_along(const Graph *g, const RematLoops *l, RegionId from, RegionId back) {
  RegionId outside = region_get(g, from)->parent, here = region_get(g, back)->parent;
  return region_encloses(g, outside, back) || (here && l->through[here] == outside);
}

// Sets through[back], the forward loop of loop `back`, if `back` reads values of forward loops.
// Prefers the loops in which a gradient collected a value that `back` reads, and takes the last of
// them. If there are none, takes the last of all forward loops that `back` reads.
static void find_through(const Graph *g, RematLoops *l, const RegionNodes *nodes, RegionId back) {
  bool best_own = false;
  for (uint32_t i = nodes->first[back]; i < nodes->first[back + 1]; i++) {
    NodeId n = nodes->node[i];
    const Node *at = graph_node(g, n);
    if (at->op != OP_AT || !at->origin->backward) continue;
    NodeId c = collect_seen(g, l, n);
    if (!c || !goes_along(g, l, loop_of(g, c), back)) continue;
    bool own = graph_node(g, c)->origin->backward;
    if (l->through[back] &&
        (own < best_own || (own == best_own && loop_of(g, c) < l->through[back])))
      continue;
    l->through[back] = loop_of(g, c);
    best_own = own;
  }
}

static void find_mirrors(const Graph *g, RematLoops *l, const RegionNodes *nodes, RegionId back) {
  for (uint32_t i = nodes->first[back]; i < nodes->first[back + 1]; i++) {
    NodeId n = nodes->node[i];
    const Node *at = graph_node(g, n);
    if (at->op != OP_AT || !at->origin->backward) continue;
    NodeId c = collect_seen(g, l, n);
    if (c && loop_of(g, c) == l->through[back]) l->mirror[n] = graph_node(g, c)->args[1];
  }
}

// Links each backward loop to its forward loop. Handles loops in order of region numbers, outer
// loops first, because goes_along needs the links of outer loops.
RematLoops remat_loops(Arena *a, const Graph *g) {
  RematLoops l = {.scan = region_scans(a, g),
                  .through = arena_array(a, RegionId, g->region.n + 1),
                  .backed = arena_array(a, bool, g->region.n + 1),
                  .mirror = arena_array(a, NodeId, graph_count(g) + 1)};
  RegionNodes nodes = region_nodes(a, g);
  for (RegionId r = 1; r <= g->region.n; r++) {
    if (!l.scan[r] || !graph_node(g, l.scan[r])->origin->backward) continue;
    find_through(g, &l, &nodes, r);
    l.backed[l.through[r]] = true;
    if (l.through[r]) find_mirrors(g, &l, &nodes, r);
  }
  l.backed[0] = true;
  return l;
}

RegionId remat_seen_in(const Graph *g, const RematLoops *l, RegionId of, RegionId r, bool *seen) {
  *seen = true;
  if (region_encloses(g, of, r)) return of;
  for (; r; r = region_get(g, r)->parent)
    if (l->through[r] == of) return r;
  *seen = false;
  return 0;
}
