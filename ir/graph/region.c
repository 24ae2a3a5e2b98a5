// Facts about loops of a graph: their scans, their carries, and how often a node runs.
#include "ir/graph/graph.h"
#include "ir/program/sums.h"

int64_t region_times(const Graph *g, RegionId r) {
  int64_t times = 1;
  for (; r; r = region_get(g, r)->parent)
    if (!size_mul(times, dim_get(g->dims, region_get(g, r)->t)->size, &times)) return INT64_MAX;
  return times;
}

Dtype region_sum_type(const Graph *g, RegionId r, Dtype t) {
  bool rounds = dtype_is_float(t) && dim_get(g->dims, region_get(g, r)->t)->size > SUM_LEAF_SHORT;
  return rounds ? TYPE_F64 : t;
}

NodeId *region_scans(Arena *a, const Graph *g) {
  NodeId *scan = arena_array(a, NodeId, g->region.n + 1);
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (graph_node(g, n)->op == OP_SCAN) scan[graph_node(g, n)->attr->region] = n;
  return scan;
}

NodeId carry_next(const Graph *g, const NodeId *scan, NodeId carry) {
  const Node *c = graph_node(g, carry);
  NodeId of = scan[c->region];
  return of && c->attr->carry < graph_node(g, of)->nargs ? graph_node(g, of)->args[c->attr->carry]
                                                         : 0;
}

bool carry_is_constant(const Graph *g, const NodeId *scan, NodeId n) {
  const Node *c = graph_node(g, n);
  return c->op == OP_CARRY && region_get(g, c->region)->guarded && carry_next(g, scan, n) == n;
}

bool region_encloses(const Graph *g, RegionId a, RegionId b) {
  while (b && b != a) b = region_get(g, b)->parent;
  return a == b;
}
