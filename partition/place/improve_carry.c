// Moves of the local search (place_improve.c) that change carries of loops. A carry has one
// sharding in all steps, and place_region.c chooses it from the values around it alone.
//
//   carry   a carry is split along another dim, or along none
//   loop    a carry is split along no dim, nor is what the loop computes from it: what each step
//           would gather or sum is gathered once, before the loop
//
//   scan t (s[b, h] = 0) { s = tanh(x + sum[j](rename[h -> j](s) * w[j/cols, h])) }
//   sums s in every step; if w is gathered once, the loop sends nothing
#include "partition/place/improve_internal.h"

// Returns whether carry n may be split over the axis along dim k (-1: along none).
static bool may_split(const Improve *m, NodeId n, int axis, int k) {
  const Request *w = m->p->request[n];
  for (int i = 0; i < graph_node(m->g, n)->dims->n; i++)
    if (axes_has(w->hard[i], axis)) return false; // a rule decides
  return k < 0 || split_possible(m->p, n, k, axis);
}

static void split_carry(Improve *m, NodeId n, int axis, int k) {
  Sharding at = *m->p->result.computed[n];
  trial_save(m, n);
  sharding_unsplit(&at, axis);
  if (k >= 0) axes_append(&at.split[k], axis);
  place_compute(m->p, n, &at);
  place_settle(m->p, n, &at);
  crowds_note(m->p, n);
  trial_wait_users(m, n);
}

static bool move_carry(Improve *m, NodeId n, int axis, int k) {
  if (!trial_begin(m, (Move){MOVE_CARRY, n, axis, k})) return false;
  split_carry(m, n, axis, k);
  return trial_end(m, true);
}

// Forces all nodes of the loop that the trial has changed (m->undo.at[first] on) to stay unsplit
// over the axis.
static void force_unsplit(Improve *m, uint32_t first, RegionId loop, int axis) {
  for (uint32_t i = first; i < m->undo.n; i++) {
    NodeId n = m->undo.at[i].n;
    uint32_t at = n * MAX_AXES + (uint32_t)axis;
    if (graph_node(m->g, n)->region != loop || m->p->forced[at]) continue;
    vec_push(m->scratch, m->unforce) = (Force){at, 0};
    m->p->forced[at] = FORCED_NONE;
  }
}

static bool move_loop(Improve *m, NodeId n, int axis) {
  RegionId loop = graph_node(m->g, n)->region;
  if (!trial_begin(m, (Move){MOVE_LOOP, n, axis, -1})) return false;
  uint32_t first = m->undo.n;
  m->p->repeated_loop = loop, m->p->repeated_axis = axis;
  split_carry(m, n, axis, -1);
  bool good = trial_spread(m);
  m->p->repeated_loop = 0;
  if (!trial_end(m, good)) return false;
  force_unsplit(m, first, loop, axis);
  return true;
}

void improve_carries(Improve *m, int axis) {
  for (NodeId n = 1; n <= graph_count(m->g) && trial_has_room(m); n++) {
    const Node *node = graph_node(m->g, n);
    if (node->op != OP_CARRY || !m->p->graph->next[n] || !may_split(m, n, axis, -1)) continue;
    bool kept = move_loop(m, n, axis);
    int now = computed_dim(m->p, n, axis);
    for (int k = -1; k < node->dims->n && !kept && trial_has_room(m); k++)
      kept = k != now && may_split(m, n, axis, k) && move_carry(m, n, axis, k);
    improve_judge(m);
  }
}
