// Replaces guarded loops by loops that always run, for devices that cannot skip a loop.
//
// In: a graph with guarded regions. Out: a graph with equal values, where a step of the loop
// selects its results by the guard.
//
//   g = carry(c); h = carry(h0); y = f(h); s = scan(g, y); collect(s, y)     guarded
//   =>  s = scan(g, where(g, y, h)); collect(s, where(g, y, 0))
#include "ir/graph/graph.h"

// The carries of the guarded loop that `scan` ends, in the new graph, by number.
static NodeId *carries_of(Arena *a, const Graph *g, NodeId scan, const NodeId *map) {
  const Node *s = graph_node(g, scan);
  NodeId *carry = arena_array(a, NodeId, s->nargs + 1);
  for (NodeId n = 1; n < scan; n++) {
    const Node *c = graph_node(g, n);
    if (c->op == OP_CARRY && c->region == s->attr->region && c->attr->carry < s->nargs)
      carry[c->attr->carry] = map[n];
  }
  return carry;
}

static NodeId scan_selected(Arena *a, Graph *to, const Graph *g, NodeId scan, const NodeId *map,
                            NodeId *guard) {
  const Node *s = graph_node(g, scan);
  NodeId next[MAX_ARGS], *carry = carries_of(a, g, scan, map);
  guard[s->attr->region] = carry[0];
  for (int k = 0; k < s->nargs; k++) {
    next[k] = map[s->args[k]];
    if (carry[k] && next[k] != carry[k]) next[k] = graph_where(to, carry[0], next[k], carry[k]);
  }
  to->origin = *s->origin;
  return graph_add(to, OP_SCAN, s->nargs, next, s->attr);
}

static NodeId collect_selected(Graph *to, const Node *c, const NodeId *map, NodeId guard) {
  NodeId x = map[c->args[1]];
  const Node *n = graph_node(to, x);
  NodeId zero = graph_zeros(to, (Dtype)n->type, n->dims);
  NodeId args[2] = {map[c->args[0]], graph_where(to, guard, x, zero)};
  to->origin = *c->origin;
  return graph_add(to, OP_COLLECT, 2, args, c->attr);
}

static bool has_guarded(const Graph *g) {
  for (uint32_t r = 0; r < g->region.n; r++)
    if (g->region.at[r].guarded) return true;
  return false;
}

const Graph *graph_unguard(Arena *a, const Graph *g) {
  if (!has_guarded(g)) return g;
  Graph *to = graph_like(a, g, g->stage);
  NodeId *map = arena_array(a, NodeId, graph_count(g) + 1),
         *guard = arena_array(a, NodeId, g->region.n + 1), *order = graph_schedule(a, g);
  for (uint32_t r = 0; r < to->region.n; r++) to->region.at[r].guarded = false;
  for (uint32_t i = 0; i < graph_count(g); i++) {
    NodeId n = order[i];
    const Node *x = graph_node(g, n);
    RegionId of = x->op == OP_SCAN      ? x->attr->region
                  : x->op == OP_COLLECT ? graph_node(g, x->args[0])->attr->region
                                        : 0;
    to->origin = *x->origin;
    if (!of || !region_get(g, of)->guarded)
      map[n] = graph_copy(to, g, n, map);
    else if (x->op == OP_SCAN)
      map[n] = scan_selected(a, to, g, n, map, guard);
    else
      map[n] = collect_selected(to, x, map, guard[of]);
  }
  graph_copy_outputs(to, g, map);
  return to;
}
