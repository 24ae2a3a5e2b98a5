// Chooses for each carry of a loop one sharding for all steps, from its start value and its next
// value.
//
// The first choice for a carry (place_choose.c) considers its start value only. Here each carry
// chooses again with its next value as a second argument, whose conversion costs in every step;
// then the nodes that depend on it choose again, until no carry changes, at most ROUNDS times. Any
// result is correct, since the next value is converted to the sharding of its carry.
//
//   scan t (h[b, k] = 0) { h = tanh(x[b, k/cols] + ...) }     starts replicated, settles at k/cols
#include "partition/sharding/sharding_internal.h"

enum { ROUNDS = 4 };

bool place_choose_fresh(Placer *p, NodeId n) {
  State before = state_of(p, n);
  place_whole(p, n);
  place_choose(p, n);
  crowds_note(p, n);
  return !sharding_equal(before.computed, p->result.computed[n]) ||
         !sharding_equal(before.settled, p->result.settled[n]);
}

static bool settle_round(Placer *p, bool *changed) {
  bool any = false;
  for (NodeId n = 1; n <= graph_count(p->g); n++) {
    changed[n] = p->graph->next[n] && place_choose_fresh(p, n);
    any |= changed[n];
  }
  for (NodeId n = 1; any && n <= graph_count(p->g); n++) {
    const Node *node = graph_node(p->g, n);
    bool again = false;
    for (int i = 0; i < node->nargs && node->op != OP_CARRY; i++) again |= changed[node->args[i]];
    if (again) changed[n] = place_choose_fresh(p, n);
  }
  return any;
}

void place_settle_carries(Placer *p) {
  if (!p->g->region.n) return;
  bool *changed = arena_array(p->arena, bool, graph_count(p->g) + 1);
  p->settling = true;
  for (int round = 0; round < ROUNDS && settle_round(p, changed); round++) {
  }
}
