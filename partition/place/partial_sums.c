// Finds the node at which the partial sums of a value begin: a node that sums a dim which the axis
// splits.
#include "partition/sharding/sharding_internal.h"

// Returns the argument of n that is partial over the axis, preferably one that is not a carry; 0:
// none. If n itself is a carry of a loop, returns its value in the next step.
static NodeId partial_from(const Placer *p, NodeId n, int axis) {
  const Node *node = graph_node(p->g, n);
  NodeId carried = 0;
  if (node->op == OP_CARRY) return p->graph->next[n];
  for (int i = 0; i < node->nargs; i++) {
    if (!axes_has(p->result.computed[node->args[i]]->partial, axis)) continue;
    if (graph_node(p->g, node->args[i])->op != OP_CARRY) return node->args[i];
    carried = node->args[i];
  }
  return carried;
}

NodeId partial_sum_begin(const Placer *p, NodeId n, int axis, int *inner) {
  enum { MAX_HOPS = 10000 }; // carries can form a cycle
  for (int hops = 0; n && hops < MAX_HOPS; hops++) {
    const Node *node = graph_node(p->g, n);
    for (*inner = 0; *inner < node_inner(node); ++*inner)
      if (p->inner[n] && axes_has(p->inner[n][*inner], axis)) return n;
    n = partial_from(p, n, axis);
  }
  return 0;
}
