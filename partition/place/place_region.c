// Loops: the state of a carry is that of its start, and of its next value, and of each of its
// steps.
//
// A first choice of all states has seen carries from their starts only. Then each carry is chosen
// again with its next value as a second argument, whose conversion costs in every step, and what
// follows from it is chosen again, until no carry changes. Every state is right, since a next value
// is converted to its carry's; after some rounds it stays as it is.
//
//   scan t (h[b, k] = 0) { h = tanh(x[b, k/cols] + ...) }     the carry starts whole and settles at k/cols
#include "partition/sharding/sharding_internal.h"

enum { ROUNDS = 4 };

// Chooses n again; whether its state has changed.
static bool choose_again(Placer *p, NodeId n) {
  Sharding at = p->result.computed[n], settled = p->result.settled[n];
  int ndims = graph_node(p->result.graph, n)->dims.n;
  p->result.computed[n] = p->result.settled[n] = (Sharding){0};
  place_choose(p, n);
  return !sharding_equal(&at, &p->result.computed[n], ndims) ||
         !sharding_equal(&settled, &p->result.settled[n], ndims);
}

static bool settle_round(Placer *p, bool *changed) {
  const Graph *g = p->result.graph;
  bool any = false;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    changed[n] = p->graph->next[n] && choose_again(p, n);
    any |= changed[n];
  }
  for (NodeId n = 1; any && n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    bool again = false;
    for (int i = 0; i < node->nargs && node->op != OP_CARRY; i++) again |= changed[node->args[i]];
    if (again) changed[n] = choose_again(p, n);
  }
  return any;
}

void place_settle_carries(Placer *p) {
  if (!p->result.graph->region.n) return;
  bool *changed = arena_array(p->arena, bool, graph_count(p->result.graph) + 1);
  p->settling = true;
  for (int round = 0; round < ROUNDS && settle_round(p, changed); round++) {
  }
}
