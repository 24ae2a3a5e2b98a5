// Shardings that users ask for: a value that all users read in one sharding is computed in it.
#include "partition/sharding/sharding_internal.h"

#include <string.h>

// The sharding in which all users read n. False if there are none or two.
static bool common_need(const Placer *p, NodeId n, Sharding *out) {
  const Graph *g = p->result.graph;
  int ndims = graph_node(g, n)->dims.n;
  bool any = false;
  for (uint32_t k = p->graph->use_start[n]; k < p->graph->use_start[n + 1]; k++) {
    const Node *user = graph_node(g, p->graph->use[k]);
    for (int i = 0; i < user->nargs; i++) {
      if (user->args[i] != n) continue;
      Sharding need = read_sharding(p, p->graph->use[k], i);
      if (any && !sharding_equal(&need, out, ndims)) return false;
      *out = need;
      any = true;
    }
  }
  return any;
}

// Whether all updates with n read it in `need`; *shown: whether n is an OUT_VALUE output.
static bool outputs_agree(const Placer *p, NodeId n, const Sharding *need, bool *shown) {
  *shown = false;
  for (uint32_t o = p->graph->output[n]; o; o = p->graph->next_output[o]) {
    const Output *out = &p->result.graph->output.at[o - 1];
    if (out->kind == OUT_VALUE) {
      *shown = true;
      continue;
    }
    Sharding want = output_sharding(p, out);
    if (!sharding_equal(&want, need, graph_node(p->result.graph, n)->dims.n)) return false;
  }
  return true;
}

static const Output *only_update(const Placer *p, NodeId n) {
  for (uint32_t o = p->graph->output[n]; o; o = p->graph->next_output[o])
    if (p->result.graph->output.at[o - 1].kind == OUT_UPDATE)
      return &p->result.graph->output.at[o - 1];
  return NULL;
}

// The sharding in which all users and updates read n; *shown as in outputs_agree.
static bool wanted_sharding(const Placer *p, NodeId n, Sharding *out, bool *shown) {
  const Output *update = only_update(p, n);
  bool used = p->graph->use_start[n] < p->graph->use_start[n + 1];
  if (used && !common_need(p, n, out)) return false;
  if (!used && !update) return false;
  if (!used) *out = output_sharding(p, update);
  return outputs_agree(p, n, out, shown);
}

// Whether `more` has all splits of s, and keeps replicated what the request wants so.
static bool extends(const Sharding *more, const Sharding *s, const Request *w, int ndims) {
  for (int k = 0; k < ndims; k++) {
    if (!axes_starts(more->split[k], s->split[k])) return false;
    if (w->replicated[k] && more->split[k].n) return false;
  }
  return true;
}

// The sharding in which all users can read n if windows read blocks with a halo: split along the
// window's dim as the result of the window is.
static bool wanted_by_windows(const Placer *p, NodeId n, Sharding *out) {
  const Graph *g = p->result.graph;
  int ndims = graph_node(g, n)->dims.n;
  bool any = false, window = false;
  for (uint32_t k = p->graph->use_start[n]; k < p->graph->use_start[n + 1]; k++) {
    const Node *user = graph_node(g, p->graph->use[k]);
    for (int i = 0; i < user->nargs; i++) {
      if (user->args[i] != n) continue;
      Sharding need = read_sharding(p, p->graph->use[k], i);
      for (int j = 0; j < ndims; j++) {
        DimRole r = placed_role(p, p->graph->use[k], i, j);
        if (!r.halo || need.split[j].n || p->request[n]->replicated[j]) continue;
        Axes split = p->result.computed[p->graph->use[k]].split[r.at];
        int free = 0;
        while (free < split.n && sharding_dim_of(&need, ndims, split.at[free]) < 0) free++;
        need.split[j] = axes_head(split, free);
        window |= need.split[j].n > 0;
      }
      if (any && !sharding_equal(&need, out, ndims)) return false;
      *out = need;
      any = true;
    }
  }
  return window;
}

// Settles a value as its users read it. Axes that still split the same dim keep their rules.
static void settle_as(Sharding *settled, const Sharding *want, int ndims) {
  Sharding before = *settled;
  *settled = *want;
  settled->partial = (Axes){0};
  for (int axis = 0; axis < MAX_AXES; axis++) {
    int k = sharding_dim_of(&before, ndims, axis);
    if (k >= 0 && before.rule[axis] && k == sharding_dim_of(want, ndims, axis))
      settled->rule[axis] = before.rule[axis];
  }
}

void place_pull_back(Placer *p, NodeId n) {
  const Graph *g = p->result.graph;
  const Node *node = graph_node(g, n);
  Sharding want;
  bool shown;
  if (node->op == OP_CARRY || node->attr.decl || node->op == OP_PIN || !node->dims.n) return;
  bool one = wanted_sharding(p, n, &want, &shown) &&
             !sharding_equal(&want, &p->result.settled[n], node->dims.n);
  if (!one && !(p->graph->given[n] && !p->graph->output[n] && wanted_by_windows(p, n, &want)))
    return;
  Sharding *at = &p->result.computed[n], *settled = &p->result.settled[n];
  if (sharding_equal(&want, settled, node->dims.n) ||
      !extends(&want, settled, p->request[n], node->dims.n))
    return;
  settle_as(settled, &want, node->dims.n);
  for (int k = 0; k < node->dims.n && node->op != OP_FINAL; k++) {
    if (!axes_starts(want.split[k], at->split[k])) continue;
    Axes free = at->split[k];
    for (int i = at->split[k].n; i < want.split[k].n; i++) {
      int axis = want.split[k].at[i];
      if (axes_has(at->partial, axis) || sharding_dim_of(at, node->dims.n, axis) >= 0) break;
      axes_append(&free, axis);
      at->rule[axis] = want.rule[axis];
    }
    at->split[k] = split_allowed(g, n, k, free);
  }
}

void place_choose_again(Placer *p, NodeId n) {
  Sharding at = p->result.computed[n], settled = p->result.settled[n];
  Axes *inner = p->inner[n];
  p->result.computed[n] = p->result.settled[n] = (Sharding){0};
  place_choose(p, n);
  for (int k = 0; k < graph_node(p->result.graph, n)->dims.n; k++) // what users asked for stays
    if (axes_starts(settled.split[k], p->result.settled[n].split[k]) &&
        settled.split[k].n > p->result.settled[n].split[k].n) {
      p->result.computed[n] = at;
      p->result.settled[n] = settled;
      p->inner[n] = inner;
      return;
    }
}

static void settle(Placer *p, NodeId n) {
  Sharding want;
  bool shown = false;
  const Node *node = graph_node(p->result.graph, n);
  if (node->attr.decl || node->op == OP_PIN || !wanted_sharding(p, n, &want, &shown) || shown)
    return;
  if (!want.partial.n) settle_as(&p->result.settled[n], &want, node->dims.n);
}

void place_finish(Placer *p) {
  const Mesh *mesh = p->result.graph->mesh;
  for (int axis = 0; axis < mesh->naxes; axis++)
    if (mesh->axis[axis].size > 1) place_gathers(p, axis);
  for (int axis = 0; axis < mesh->naxes; axis++)
    if (mesh->axis[axis].size > 1) place_reductions(p, axis);
  for (NodeId u = graph_count(p->result.graph); u > 0; u--) settle(p, u);
}
