// Finds conversions that users of a value share: only the first such user pays for it.
//
// A node pays nothing for a gathered argument if another user reads that argument replicated.
// Readers of a window of the argument count too, since lowering converts the source of a window
// (lower_window.c).
//
//   dw = contract(window(a), dy[o/cols]) reads dy replicated;   da = contract(w, window(dy))
//   da then reads the gathered dy and is split as w is, which avoids partial sums
#include "partition/sharding/sharding_internal.h"

enum { MAX_THROUGH = 16 }; // number of values examined: the argument and its windows

bool window_passes_dim(const Node *n, DimId d) {
  if (n->op != OP_WINDOW || n->attr->dims[0] == d) return false;
  for (int i = 0; i < n->attr->nto; i++)
    if (n->attr->to[i] == d) return false;
  return true;
}

bool place_is_gathered(const Placer *p, NodeId arg, DimId d, int axis, NodeId but) {
  NodeId value[MAX_THROUGH];
  int n = 1;
  while (window_passes_dim(graph_node(p->g, arg), d)) arg = graph_node(p->g, arg)->args[0];
  if (arg == p->as_gathered && axis == p->gathered_axis) return true;
  value[0] = arg;
  for (int v = 0; v < n; v++) {
    if (crowd_of(p, value[v])) {
      if (crowd_gathers(p, value[v], axis, but)) return true;
      continue;
    }
    for (const Read *r = reads_of(p, value[v]); r->node; r++) {
      if (r->node == but || r->node > p->chosen) continue;
      if (window_passes_dim(graph_node(p->g, r->node), d)) {
        if (n < MAX_THROUGH) value[n++] = r->node;
        continue;
      }
      Sharding need = read_sharding(p, r->node, r->arg);
      if (needs_whole(&need, axis)) return true;
    }
  }
  return false;
}
