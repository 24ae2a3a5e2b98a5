// Conversions that users of a value share: the second user gets it free.
//
// A node pays nothing for a gathered argument if another user reads that argument replicated.
// Windows are looked through, since conversions go below them (lower_window.c).
//
//   dw = contract(window(a), dy[o/cols]) reads dy replicated;   da = contract(w, window(dy))
//   da then uses the gathered dy and is split as w is, which avoids partial sums
#include "partition/sharding/sharding_internal.h"

enum { MAX_THROUGH = 16 }; // windows of one value

bool window_passes_dim(const Node *n, DimId d) {
  if (n->op != OP_WINDOW || n->attr.dims[0] == d) return false;
  for (int i = 0; i < n->attr.nto; i++)
    if (n->attr.to[i] == d) return false;
  return true;
}

// Whether node u, which has its sharding, reads argument i replicated over the axis.
static bool reads_replicated(const Placer *p, NodeId u, int i, int axis) {
  Sharding need = read_sharding(p, u, i);
  return !axes_has(need.partial, axis) &&
         sharding_dim_of(
             &need, graph_node(p->result.graph, graph_node(p->result.graph, u)->args[i])->dims.n,
             axis) < 0;
}

bool place_is_gathered(const Placer *p, NodeId arg, DimId d, int axis, NodeId but) {
  const Graph *g = p->result.graph;
  NodeId value[MAX_THROUGH];
  int n = 1;
  while (window_passes_dim(graph_node(g, arg), d)) arg = graph_node(g, arg)->args[0];
  if (arg == p->as_gathered && axis == p->gathered_axis) return true;
  value[0] = arg;
  for (int v = 0; v < n; v++)
    for (uint32_t k = p->graph->use_start[value[v]]; k < p->graph->use_start[value[v] + 1]; k++) {
      NodeId u = p->graph->use[k];
      const Node *user = graph_node(g, u);
      if (u == but || u > p->chosen) continue;
      if (window_passes_dim(user, d) && n < MAX_THROUGH) value[n++] = u;
      for (int i = 0; i < user->nargs && !window_passes_dim(user, d); i++)
        if (user->args[i] == value[v] && reads_replicated(p, u, i, axis)) return true;
    }
  return false;
}
