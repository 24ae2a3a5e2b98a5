// The state in which a node reads an argument, and in which an output reads its value.
#include "partition/sharding/sharding_internal.h"

// Whether the blocks of to[0] all read the whole of dims[0]: then it is gathered.
static bool reads_all(const Plan *p, NodeId n) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  const State *at = &p->door.at[n];
  int64_t whole = dim_get(g->dims, node->attr.dims[0])->size, first, length;
  Reach x = {.of_size = dim_get(g->dims, node->attr.to[0])->size,
             .tap_size = 1,
             .affine = node->attr.affine};
  x.of_axes = at->cut[dims_index(&node->dims, node->attr.to[0])];
  if (node->attr.nto > 1) {
    x.tap_size = dim_get(g->dims, node->attr.to[1])->size;
    x.tap_axes = at->cut[dims_index(&node->dims, node->attr.to[1])];
  }
  Axes all = x.of_axes;
  axes_join(&all, x.tap_axes);
  for (int64_t k = 0; all.n && k < axes_size(g->mesh, all); k++) {
    reach_interval(g->mesh, &x, whole, axes_peer(g->mesh, all, 0, k), &first, &length);
    if (length < whole) return false;
  }
  return true;
}

// Dim j of the source of window n stays cut as it is, as far as axes are free: halos go between any
// cuts. If an axis of the new dim cuts another dim of the source, that moves to dim j first.
static void need_reach(const Plan *p, NodeId n, int j, State *need) {
  const Node *node = graph_node(p->door.graph, n);
  if (reads_all(p, n)) return;
  int ndims = graph_node(p->door.graph, node->args[0])->dims.n;
  const State *home = &p->door.reduced[node->args[0]];
  Axes cut = home->cut[j], to = p->door.at[n].cut[dims_index(&node->dims, node->attr.to[0])];
  for (int i = 0; i < to.n && !cut.n; i++)
    if (state_cut_by(home, ndims, to.at[i]) >= 0) cut = to;
  int free = 0;
  while (free < cut.n && state_cut_by(need, ndims, cut.at[free]) < 0 &&
         !axes_has(need->partial, cut.at[free]))
    free++;
  need->cut[j] = axes_head(cut, free);
}

// The state in which a scan or final reads its argument i.
static State need_in_loop(const Plan *p, NodeId n, int i) {
  const Node *node = graph_node(p->door.graph, n);
  if (node->op == OP_FINAL) return i ? p->door.at[node->args[1]] : (State){0};
  NodeId carry = p->graph->carry[n][i];
  return carry ? p->door.at[carry] : p->door.reduced[node->args[i]];
}

State plan_need(const Plan *p, NodeId n, int i) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  const State *at = &p->door.at[n];
  if (node->op == OP_SCAN || node->op == OP_FINAL) return need_in_loop(p, n, i);
  State need = {0};
  int reach = -1;
  for (int j = 0; j < graph_node(g, node->args[i])->dims.n; j++) {
    Role r = plan_role(p, n, i, j);
    if (r.reach)
      reach = j;
    else if (r.kind == ROLE_KEEP)
      need.cut[j] = at->cut[r.at];
    if (r.kind == ROLE_INNER) need.cut[j] = p->inner[n][r.at];
  }
  for (int a = 0; a < g->mesh->naxes; a++)
    if (p->linear[n * MAX_AXES + (uint32_t)a] >> i & 1) axes_append(&need.partial, a);
  if (need.partial.n) need.monoid = MONOID_SUM;
  if (reach >= 0) need_reach(p, n, reach, &need);
  return need;
}

State plan_output_need(const Plan *p, const Output *o) {
  if (o->kind == OUT_VALUE) return p->door.reduced[o->value];
  const Graph *g = p->door.graph;
  DeclId target = o->target;
  NodeId source = g->decl.at[target - 1].node;
  if (source) return p->door.reduced[source];
  Subject s = subject_of_decl(g, target);
  Wish w;
  wish_resolve(g, p->door.layout, &s, &w);
  State need = {0};
  for (int k = 0; k < s.dims.n; k++) need.cut[k] = w.hard[k];
  for (int k = 0; k < s.dims.n; k++)
    for (int i = 0; i < w.soft[k].n; i++)
      if (state_cut_by(&need, s.dims.n, w.soft[k].at[i]) < 0)
        axes_append(&need.cut[k], w.soft[k].at[i]);
  return need;
}
