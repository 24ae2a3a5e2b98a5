// Chooses the state of every value: cuts first, then where partial sums are reduced.
//
//   1. forward   rules of the layout, what arguments bring, one role table (place_rules.c)
//                products see what other users have gathered (place_share.c), in a second round all of them
//                carries of loops see their next values too, until nothing changes (place_region.c)
//   2. backward  a value that all users want cut is computed cut (the gradient that meets a cut slot
//                of the optimiser: its reduction becomes a reduce-scatter; what windows read in blocks)
//                the norm of the gradients does not mind and sums its squares block by block
//                moves that pay for several nodes together (place_improve.c), with 3. to 5. for what they lead to
//   3. gather    what nothing but its arguments cuts is gathered once (place_gather.c)
//   4. reduce    per axis the minimum cut of the linear regions (reduce.c)
//   5. settle    a value that is wanted in one state only goes there without a stop at home
#include "partition/state.h"

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

// The state in which everybody can read n when windows read it in blocks of their own, with a halo: cut as they are.
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
  bool one = wanted_state(p, n, &want, &shown) && !state_equal(&want, &p->door.reduced[n], node->dims.n);
  if (!one && !(p->graph->given[n] && !p->graph->output[n] && wanted_by_windows(p, n, &want))) return;
  State *at = &p->door.at[n], *home = &p->door.reduced[n];
  if (state_equal(&want, home, node->dims.n) || !extends(&want, home, p->wish[n], node->dims.n)) return;
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

// -- values that some users want cut and the others do not mind -----------------------------------------
//
// The norm of all gradients reads each gradient whole only because nothing cuts it; its squares may as
// well be summed block by block. So the gradient follows the slot that it updates.

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
  if (cls != POINTWISE || k < 0 || !depth || p->graph->output[u] || p->wish[u]->whole[k]) return false;
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
        if (want->cut[k].n > home->cut[k].n && !flexible(p, p->graph->use[i], node->dims.at[k], FLEXIBLE_DEPTH))
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
    if (axes_starts(home.cut[k], p->door.reduced[n].cut[k]) && home.cut[k].n > p->door.reduced[n].cut[k].n) {
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

// Products again, which now see what all users of their arguments have gathered, and what follows from them.
static void choose_shared(Plan *p) {
  const Graph *g = p->door.graph;
  bool *changed = arena_array(p->arena, bool, graph_count(g) + 1), any = false;
  for (NodeId u = 1; u <= graph_count(g); u++) {
    const Node *node = graph_node(g, u);
    if (node->op != OP_CONTRACT) continue;
    State at = p->door.at[u], home = p->door.reduced[u];
    p->door.at[u] = p->door.reduced[u] = (State){0};
    plan_choose(p, u);
    changed[u] = !state_equal(&at, &p->door.at[u], node->dims.n) || !state_equal(&home, &p->door.reduced[u], node->dims.n);
    any |= changed[u];
  }
  if (any) push_forward(p, changed);
}

// A sum of terms is a term once it is known where sums are reduced: the gradient of a table that is used twice.
static bool *find_terms(const Plan *p) {
  const Graph *g = p->door.graph;
  bool *term = arena_array(p->arena, bool, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    term[n] = p->door.at[n].partial.n || (node->op == OP_ADD && term[node->args[0]] && term[node->args[1]]);
  }
  return term;
}

static void follow_some(Plan *p) {
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

static const char *rule_text(const Plan *p, const LayoutRule *r, DimId d) {
  const char *dim = r->dim ? dim_get(p->door.graph->dims, d)->name : "all";
  const char *axes = r->none ? "none" : axes_text(p->arena, p->door.graph->mesh, r->axes);
  const char *soft = r->soft ? "soft " : "";
  if (!r->pos.line) return arena_printf(p->arena, "%s%s -> %s (layout)", soft, dim, axes);
  return arena_printf(p->arena, "%s%s -> %s (layout, line %u)", soft, dim, axes, r->pos.line);
}

static const char *said_by(const Plan *p, NodeId n, int k, int axis) {
  const Wish *w = p->wish[n];
  const Node *node = graph_node(p->door.graph, n);
  if (node->op == OP_PIN)
    return arena_printf(p->arena, "%s -> %s (layout(...), line %u)", dim_get(p->door.graph->dims, node->dims.at[k])->name,
                        p->door.graph->mesh->axis[axis].name, node->origin.pos.line);
  if (axes_has(w->hard[k], axis)) return rule_text(p, w->rule[k], node->dims.at[k]);
  if (axes_has(w->soft[k], axis)) return rule_text(p, w->soft_rule[k], node->dims.at[k]);
  return arena_printf(p->arena, "%s over %s (as its %s)", dim_get(p->door.graph->dims, node->dims.at[k])->name,
                      p->door.graph->mesh->axis[axis].name, node->nargs ? "arguments or users" : "users");
}

const char *placement_why(const Placement *placement, NodeId n) {
  const Plan *p = plan_of(placement);
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  const State *at = &p->door.at[n], *home = &p->door.reduced[n];
  const char *text = "";
  for (int k = 0; k < node->dims.n; k++)
    for (int i = 0; i < home->cut[k].n; i++)
      text = arena_printf(p->arena, "%s%s%s", text, *text ? "; " : "", said_by(p, n, k, home->cut[k].at[i]));
  for (int i = 0; i < node_inner(node); i++)
    if (p->inner[n] && p->inner[n][i].n)
      text = arena_printf(p->arena, "%s%s%s is %s over %s", text, *text ? "; " : "",
                          dim_get(g->dims, node->attr.dims[i])->name, node->op == OP_TOP_K ? "searched" : "summed",
                          axes_text(p->arena, g->mesh, p->inner[n][i]));
  if (at->partial.n && !*text) text = "takes terms and gives terms";
  return *text ? text : "no rule names its dims";
}

static Plan *plan_new(Arena *a, const PlaceGraph *of, const Graph *g, const Layout *layout, const Machine *machine) {
  uint32_t n = graph_count(g) + 1;
  Plan *p = arena_new_of(a, Plan);
  p->arena = a;
  p->machine = machine;
  p->graph = of;
  p->door = (Placement){.graph = g, .layout = layout};
  p->door.at = arena_array(a, State, n);
  p->door.reduced = arena_array(a, State, n);
  p->wish = arena_array(a, const Wish *, n);
  p->inner = arena_array(a, Axes *, n);
  p->linear = arena_array(a, uint8_t, (size_t)n * MAX_AXES);
  p->forced = arena_array(a, uint8_t, (size_t)n * MAX_AXES);
  return p;
}

static void resolve_wishes(Plan *p) {
  const PlaceGraph *of = p->graph;
  Wish *wish = arena_array(p->arena, Wish, of->nwishers);
  for (uint32_t i = 0; i < of->nwishers; i++) {
    wish_resolve(p->door.graph, p->door.layout, &of->wisher[i].subject, &wish[i]);
    if (!of->wisher[i].given) memset(wish[i].soft, 0, sizeof wish[i].soft);
  }
  for (NodeId n = 1; n <= graph_count(p->door.graph); n++) p->wish[n] = &wish[of->wisher_of[n]];
}

void plan_finish(Plan *p) {
  const Mesh *mesh = p->door.graph->mesh;
  for (int axis = 0; axis < mesh->naxes; axis++)
    if (mesh->axis[axis].size > 1) plan_gather_points(p, axis);
  for (int axis = 0; axis < mesh->naxes; axis++)
    if (mesh->axis[axis].size > 1) plan_reduce_points(p, axis);
  for (NodeId u = graph_count(p->door.graph); u > 0; u--) settle(p, u);
}

static void place_all(Plan *p) {
  uint32_t n = graph_count(p->door.graph);
  resolve_wishes(p);
  for (NodeId u = 1; u <= n; u++) {
    bug_context("place", u);
    p->chosen = u - 1;
    plan_choose(p, u);
  }
  p->chosen = n;
  choose_shared(p);
  plan_settle_carries(p);
  for (NodeId u = n; u > 0; u--) plan_pull_back(p, u);
  follow_some(p);
}

Placement *place(Arena *a, const Graph *g, const Layout *layout, const Machine *machine) {
  Plan *p = plan_new(a, place_graph(a, g), g, layout, machine);
  place_all(p);
  plan_improve(p);
  return &p->door;
}

Placement *place_plain(Arena *a, const Graph *g, const Layout *layout, const Machine *machine) {
  Plan *p = plan_new(a, place_graph(a, g), g, layout, machine);
  place_all(p);
  plan_finish(p);
  return &p->door;
}

Placement *place_silent(Arena *a, const PlaceGraph *of, const Graph *g, const Layout *layout, const Machine *machine) {
  Plan *p = plan_new(a, of, g, layout, machine);
  p->silent = true;
  place_all(p);
  plan_finish(p);
  return &p->door;
}

const char *placement_note(const void *placement, NodeId n) {
  const Plan *p = plan_of(placement);
  return state_text(p->arena, p->door.graph, &graph_node(p->door.graph, n)->dims, &p->door.at[n]);
}
