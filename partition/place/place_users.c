// What the users of a value want: a value that they all read in one state is computed in it.
#include "partition/sharding/sharding_internal.h"

#include <string.h>

// The one state in which everybody reads n; false when there are two or none.
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

// Outputs that hand out n, and whether updates agree with `need`.
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

// The state that uses and updates of n agree on.
static bool wanted_sharding(const Placer *p, NodeId n, Sharding *out, bool *shown) {
  const Output *update = only_update(p, n);
  bool used = p->graph->use_start[n] < p->graph->use_start[n + 1];
  if (used && !common_need(p, n, out)) return false;
  if (!used && !update) return false;
  if (!used) *out = output_sharding(p, update);
  return outputs_agree(p, n, out, shown);
}

// `more` cuts everything as `s` does, and then some.
static bool extends(const Sharding *more, const Sharding *s, const Request *w, int ndims) {
  for (int k = 0; k < ndims; k++) {
    if (!axes_starts(more->split[k], s->split[k])) return false;
    if (w->replicated[k] && more->split[k].n) return false;
  }
  return true;
}

// The state in which everybody can read n when windows read it in blocks of their own, with a halo:
// cut as they are.
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

// Settles a value as its users read it. Axes that it had before keep their rules.
static void settle_as(Sharding *settled, const Sharding *want, int ndims) {
  Sharding before = *settled;
  *settled = *want;
  settled->partial = (Axes){0};
  for (int axis = 0; axis < MAX_AXES; axis++)
    if (before.rule[axis] && sharding_dim_of(&before, ndims, axis) >= 0)
      settled->rule[axis] = before.rule[axis];
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

// -- values that some users want cut and the others do not mind ---------------------------------
//
// The norm of all gradients reads each gradient whole only because nothing cuts it; its squares may
// as well be summed block by block. So the gradient follows the slot that it updates.

enum { FLEXIBLE_DEPTH = 8 };

// Whether a cut of dim d ends in a reduction on all ways from node u, within few pointwise steps.
static bool flexible(const Placer *p, NodeId u, DimId d, int depth) {
  const Graph *g = p->result.graph;
  const Node *node = graph_node(g, u);
  OpClass cls = op_row((Op)node->op)->cls;
  if (cls == REDUCE)
    for (int i = 0; i < node->attr.ndims; i++)
      if (node->attr.dims[i] == d) return true;
  int k = dims_index(&node->dims, d);
  if (cls != POINTWISE || k < 0 || !depth || p->graph->output[u] || p->request[u]->replicated[k])
    return false;
  for (uint32_t i = p->graph->use_start[u]; i < p->graph->use_start[u + 1]; i++)
    if (!flexible(p, p->graph->use[i], d, depth - 1)) return false;
  return p->graph->use_start[u] < p->graph->use_start[u + 1];
}

// The one state with more cuts that some users of n ask for while the others read it at home.
static bool wanted_by_some(const Placer *p, NodeId n, Sharding *out) {
  const Graph *g = p->result.graph;
  const Sharding *settled = &p->result.settled[n];
  int ndims = graph_node(g, n)->dims.n;
  bool any = false;
  for (uint32_t i = p->graph->use_start[n]; i < p->graph->use_start[n + 1]; i++)
    for (int j = 0; j < graph_node(g, p->graph->use[i])->nargs; j++) {
      if (graph_node(g, p->graph->use[i])->args[j] != n) continue;
      Sharding need = read_sharding(p, p->graph->use[i], j);
      if (sharding_equal(&need, settled, ndims)) continue;
      if (any && !sharding_equal(&need, out, ndims)) return false;
      *out = need;
      any = true;
    }
  if (!any || p->graph->output[n] || !extends(out, settled, p->request[n], ndims)) return false;
  return true;
}

static bool others_flexible(const Placer *p, NodeId n, const Sharding *want) {
  const Graph *g = p->result.graph;
  const Node *node = graph_node(g, n);
  const Sharding *settled = &p->result.settled[n];
  for (uint32_t i = p->graph->use_start[n]; i < p->graph->use_start[n + 1]; i++)
    for (int j = 0; j < graph_node(g, p->graph->use[i])->nargs; j++) {
      if (graph_node(g, p->graph->use[i])->args[j] != n) continue;
      Sharding need = read_sharding(p, p->graph->use[i], j);
      if (sharding_equal(&need, want, node->dims.n)) continue;
      for (int k = 0; k < node->dims.n; k++)
        if (want->split[k].n > settled->split[k].n &&
            !flexible(p, p->graph->use[i], node->dims.at[k], FLEXIBLE_DEPTH))
          return false;
    }
  return true;
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

// Chooses again behind values whose home has changed, as far as that changes anything.
static void push_forward(Placer *p, bool *changed) {
  const Graph *g = p->result.graph;
  for (NodeId u = 1; u <= graph_count(g); u++) {
    const Node *node = graph_node(g, u);
    bool again = false;
    for (int i = 0; i < node->nargs; i++) again |= changed[node->args[i]];
    if (!again || changed[u] || node->op == OP_CARRY) continue;
    Sharding settled = p->result.settled[u];
    place_choose_again(p, u);
    changed[u] = !sharding_equal(&settled, &p->result.settled[u], node->dims.n);
  }
}

// Products again, which now see what all users of their arguments have gathered, and what follows
// from them.
void place_choose_shared(Placer *p) {
  const Graph *g = p->result.graph;
  bool *changed = arena_array(p->arena, bool, graph_count(g) + 1), any = false;
  for (NodeId u = 1; u <= graph_count(g); u++) {
    const Node *node = graph_node(g, u);
    if (node->op != OP_CONTRACT) continue;
    Sharding at = p->result.computed[u], settled = p->result.settled[u];
    p->result.computed[u] = p->result.settled[u] = (Sharding){0};
    place_choose(p, u);
    changed[u] = !sharding_equal(&at, &p->result.computed[u], node->dims.n) ||
                 !sharding_equal(&settled, &p->result.settled[u], node->dims.n);
    any |= changed[u];
  }
  if (any) push_forward(p, changed);
}

// A sum of terms is a term once it is known where sums are reduced: the gradient of a table that is
// used twice.
static bool *find_partial(const Placer *p) {
  const Graph *g = p->result.graph;
  bool *partial = arena_array(p->arena, bool, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    partial[n] = p->result.computed[n].partial.n ||
                 (node->op == OP_ADD && partial[node->args[0]] && partial[node->args[1]]);
  }
  return partial;
}

void place_follow_some(Placer *p) {
  const Graph *g = p->result.graph;
  bool *changed = arena_array(p->arena, bool, graph_count(g) + 1), any = false;
  const bool *partial = find_partial(p);
  for (NodeId n = graph_count(g); n > 0; n--) {
    Sharding want;
    if (!partial[n] || !wanted_by_some(p, n, &want) || !others_flexible(p, n, &want)) continue;
    settle_as(&p->result.settled[n], &want, graph_node(g, n)->dims.n);
    changed[n] = any = true;
  }
  if (any) push_forward(p, changed);
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
