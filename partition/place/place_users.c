// What the users of a value want: a value that they all read in one state is computed in it.
#include "partition/sharding/sharding_internal.h"

#include <string.h>

// The one state in which everybody reads n; false when there are two or none.
static bool common_need(const Plan *p, NodeId n, State *out) {
  const Graph *g = p->door.graph;
  int ndims = graph_node(g, n)->dims.n;
  bool any = false;
  for (uint32_t k = p->graph->use_start[n]; k < p->graph->use_start[n + 1]; k++) {
    const Node *user = graph_node(g, p->graph->use[k]);
    for (int i = 0; i < user->nargs; i++) {
      if (user->args[i] != n) continue;
      State need = plan_need(p, p->graph->use[k], i);
      if (any && !state_equal(&need, out, ndims)) return false;
      *out = need;
      any = true;
    }
  }
  return any;
}

// Outputs that hand out n, and whether updates agree with `need`.
static bool outputs_agree(const Plan *p, NodeId n, const State *need, bool *shown) {
  *shown = false;
  for (uint32_t o = p->graph->output[n]; o; o = p->graph->next_output[o]) {
    const Output *out = &p->door.graph->output.at[o - 1];
    if (out->kind == OUT_VALUE) {
      *shown = true;
      continue;
    }
    State want = plan_output_need(p, out);
    if (!state_equal(&want, need, graph_node(p->door.graph, n)->dims.n)) return false;
  }
  return true;
}

static const Output *only_update(const Plan *p, NodeId n) {
  for (uint32_t o = p->graph->output[n]; o; o = p->graph->next_output[o])
    if (p->door.graph->output.at[o - 1].kind == OUT_UPDATE) return &p->door.graph->output.at[o - 1];
  return NULL;
}

// The state that uses and updates of n agree on.
static bool wanted_state(const Plan *p, NodeId n, State *out, bool *shown) {
  const Output *update = only_update(p, n);
  bool used = p->graph->use_start[n] < p->graph->use_start[n + 1];
  if (used && !common_need(p, n, out)) return false;
  if (!used && !update) return false;
  if (!used) *out = plan_output_need(p, update);
  return outputs_agree(p, n, out, shown);
}

// `more` cuts everything as `s` does, and then some.
static bool extends(const State *more, const State *s, const Wish *w, int ndims) {
  for (int k = 0; k < ndims; k++) {
    if (!axes_starts(more->cut[k], s->cut[k])) return false;
    if (w->whole[k] && more->cut[k].n) return false;
  }
  return true;
}

// The state in which everybody can read n when windows read it in blocks of their own, with a halo:
// cut as they are.
static bool wanted_by_windows(const Plan *p, NodeId n, State *out) {
  const Graph *g = p->door.graph;
  int ndims = graph_node(g, n)->dims.n;
  bool any = false, window = false;
  for (uint32_t k = p->graph->use_start[n]; k < p->graph->use_start[n + 1]; k++) {
    const Node *user = graph_node(g, p->graph->use[k]);
    for (int i = 0; i < user->nargs; i++) {
      if (user->args[i] != n) continue;
      State need = plan_need(p, p->graph->use[k], i);
      for (int j = 0; j < ndims; j++) {
        Role r = plan_role(p, p->graph->use[k], i, j);
        if (!r.reach || need.cut[j].n || p->wish[n]->whole[j]) continue;
        Axes cut = p->door.at[p->graph->use[k]].cut[r.at];
        int free = 0;
        while (free < cut.n && state_cut_by(&need, ndims, cut.at[free]) < 0) free++;
        need.cut[j] = axes_head(cut, free);
        window |= need.cut[j].n > 0;
      }
      if (any && !state_equal(&need, out, ndims)) return false;
      *out = need;
      any = true;
    }
  }
  return window;
}

void plan_pull_back(Plan *p, NodeId n) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  State want;
  bool shown;
  if (node->op == OP_CARRY || node->attr.decl || node->op == OP_PIN || !node->dims.n) return;
  bool one =
      wanted_state(p, n, &want, &shown) && !state_equal(&want, &p->door.reduced[n], node->dims.n);
  if (!one && !(p->graph->given[n] && !p->graph->output[n] && wanted_by_windows(p, n, &want)))
    return;
  State *at = &p->door.at[n], *home = &p->door.reduced[n];
  if (state_equal(&want, home, node->dims.n) || !extends(&want, home, p->wish[n], node->dims.n))
    return;
  *home = want;
  home->partial = (Axes){0};
  for (int k = 0; k < node->dims.n && node->op != OP_FINAL; k++) {
    if (!axes_starts(want.cut[k], at->cut[k])) continue;
    Axes free = at->cut[k];
    for (int i = at->cut[k].n; i < want.cut[k].n; i++) {
      int axis = want.cut[k].at[i];
      if (axes_has(at->partial, axis) || state_cut_by(at, node->dims.n, axis) >= 0) break;
      axes_append(&free, axis);
    }
    at->cut[k] = cut_allowed(g, n, k, free);
  }
}

// -- values that some users want cut and the others do not mind ---------------------------------
//
// The norm of all gradients reads each gradient whole only because nothing cuts it; its squares may
// as well be summed block by block. So the gradient follows the slot that it updates.

enum { FLEXIBLE_DEPTH = 8 };

// Whether a cut of dim d ends in a reduction on all ways from node u, within few pointwise steps.
static bool flexible(const Plan *p, NodeId u, DimId d, int depth) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, u);
  OpClass cls = op_row((Op)node->op)->cls;
  if (cls == REDUCE)
    for (int i = 0; i < node->attr.ndims; i++)
      if (node->attr.dims[i] == d) return true;
  int k = dims_index(&node->dims, d);
  if (cls != POINTWISE || k < 0 || !depth || p->graph->output[u] || p->wish[u]->whole[k])
    return false;
  for (uint32_t i = p->graph->use_start[u]; i < p->graph->use_start[u + 1]; i++)
    if (!flexible(p, p->graph->use[i], d, depth - 1)) return false;
  return p->graph->use_start[u] < p->graph->use_start[u + 1];
}

// The one state with more cuts that some users of n ask for while the others read it at home.
static bool wanted_by_some(const Plan *p, NodeId n, State *out) {
  const Graph *g = p->door.graph;
  const State *home = &p->door.reduced[n];
  int ndims = graph_node(g, n)->dims.n;
  bool any = false;
  for (uint32_t i = p->graph->use_start[n]; i < p->graph->use_start[n + 1]; i++)
    for (int j = 0; j < graph_node(g, p->graph->use[i])->nargs; j++) {
      if (graph_node(g, p->graph->use[i])->args[j] != n) continue;
      State need = plan_need(p, p->graph->use[i], j);
      if (state_equal(&need, home, ndims)) continue;
      if (any && !state_equal(&need, out, ndims)) return false;
      *out = need;
      any = true;
    }
  if (!any || p->graph->output[n] || !extends(out, home, p->wish[n], ndims)) return false;
  return true;
}

static bool others_flexible(const Plan *p, NodeId n, const State *want) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  const State *home = &p->door.reduced[n];
  for (uint32_t i = p->graph->use_start[n]; i < p->graph->use_start[n + 1]; i++)
    for (int j = 0; j < graph_node(g, p->graph->use[i])->nargs; j++) {
      if (graph_node(g, p->graph->use[i])->args[j] != n) continue;
      State need = plan_need(p, p->graph->use[i], j);
      if (state_equal(&need, want, node->dims.n)) continue;
      for (int k = 0; k < node->dims.n; k++)
        if (want->cut[k].n > home->cut[k].n &&
            !flexible(p, p->graph->use[i], node->dims.at[k], FLEXIBLE_DEPTH))
          return false;
    }
  return true;
}

void plan_choose_again(Plan *p, NodeId n) {
  State at = p->door.at[n], home = p->door.reduced[n];
  Axes *inner = p->inner[n];
  p->door.at[n] = p->door.reduced[n] = (State){0};
  plan_choose(p, n);
  for (int k = 0; k < graph_node(p->door.graph, n)->dims.n; k++) // what users asked for stays
    if (axes_starts(home.cut[k], p->door.reduced[n].cut[k]) &&
        home.cut[k].n > p->door.reduced[n].cut[k].n) {
      p->door.at[n] = at;
      p->door.reduced[n] = home;
      p->inner[n] = inner;
      return;
    }
}

// Chooses again behind values whose home has changed, as far as that changes anything.
static void push_forward(Plan *p, bool *changed) {
  const Graph *g = p->door.graph;
  for (NodeId u = 1; u <= graph_count(g); u++) {
    const Node *node = graph_node(g, u);
    bool again = false;
    for (int i = 0; i < node->nargs; i++) again |= changed[node->args[i]];
    if (!again || changed[u] || node->op == OP_CARRY) continue;
    State home = p->door.reduced[u];
    plan_choose_again(p, u);
    changed[u] = !state_equal(&home, &p->door.reduced[u], node->dims.n);
  }
}

// Products again, which now see what all users of their arguments have gathered, and what follows
// from them.
void plan_choose_shared(Plan *p) {
  const Graph *g = p->door.graph;
  bool *changed = arena_array(p->arena, bool, graph_count(g) + 1), any = false;
  for (NodeId u = 1; u <= graph_count(g); u++) {
    const Node *node = graph_node(g, u);
    if (node->op != OP_CONTRACT) continue;
    State at = p->door.at[u], home = p->door.reduced[u];
    p->door.at[u] = p->door.reduced[u] = (State){0};
    plan_choose(p, u);
    changed[u] = !state_equal(&at, &p->door.at[u], node->dims.n) ||
                 !state_equal(&home, &p->door.reduced[u], node->dims.n);
    any |= changed[u];
  }
  if (any) push_forward(p, changed);
}

// A sum of terms is a term once it is known where sums are reduced: the gradient of a table that is
// used twice.
static bool *find_terms(const Plan *p) {
  const Graph *g = p->door.graph;
  bool *term = arena_array(p->arena, bool, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    term[n] = p->door.at[n].partial.n ||
              (node->op == OP_ADD && term[node->args[0]] && term[node->args[1]]);
  }
  return term;
}

void plan_follow_some(Plan *p) {
  const Graph *g = p->door.graph;
  bool *changed = arena_array(p->arena, bool, graph_count(g) + 1), any = false;
  const bool *term = find_terms(p);
  for (NodeId n = graph_count(g); n > 0; n--) {
    State want;
    if (!term[n] || !wanted_by_some(p, n, &want) || !others_flexible(p, n, &want)) continue;
    p->door.reduced[n] = want;
    changed[n] = any = true;
  }
  if (any) push_forward(p, changed);
}

static void settle(Plan *p, NodeId n) {
  State want;
  bool shown = false;
  const Node *node = graph_node(p->door.graph, n);
  if (node->attr.decl || node->op == OP_PIN || !wanted_state(p, n, &want, &shown) || shown) return;
  if (!want.partial.n) p->door.reduced[n] = want;
}

void plan_finish(Plan *p) {
  const Mesh *mesh = p->door.graph->mesh;
  for (int axis = 0; axis < mesh->naxes; axis++)
    if (mesh->axis[axis].size > 1) plan_gather_points(p, axis);
  for (int axis = 0; axis < mesh->naxes; axis++)
    if (mesh->axis[axis].size > 1) plan_reduce_points(p, axis);
  for (NodeId u = graph_count(p->door.graph); u > 0; u--) settle(p, u);
}
