// Where the partial sums of a value begin.
#include "partition/sharding/sharding_internal.h"

// The argument, or the next value of a carry, from which n has its terms.
static NodeId terms_from(const Plan *p, NodeId n, int axis) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  NodeId carried = 0;
  if (node->op == OP_CARRY) return p->graph->next[n];
  for (int i = 0; i < node->nargs; i++) {
    if (!axes_has(p->door.at[node->args[i]].partial, axis)) continue;
    if (graph_node(g, node->args[i])->op != OP_CARRY) return node->args[i];
    carried = node->args[i];
  }
  return carried;
}

NodeId plan_terms_begin(const Plan *p, NodeId n, int axis, int *inner) {
  enum { FAR = 10000 }; // carries lead in circles
  for (int far = 0; n && far < FAR; far++) {
    const Node *node = graph_node(p->door.graph, n);
    for (*inner = 0; *inner < node_inner(node); ++*inner)
      if (p->inner[n] && axes_has(p->inner[n][*inner], axis)) return n;
    n = terms_from(p, n, axis);
  }
  return 0;
}
