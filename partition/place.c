// Chooses the state of every value: cuts first, then where partial sums are reduced.
//
//   1. forward   rules of the layout, what arguments bring, one role table (place_rules.c)
//                products see what other users have gathered (place_share.c), in a second round all of them
//                carries of loops see their next values too, until nothing changes (place_region.c)
//   2. backward  a value that all users want cut is computed cut (the gradient that meets a cut slot
//                of the optimiser: its reduction becomes a reduce-scatter; what windows read in blocks)
//                the norm of the gradients does not mind and sums its squares block by block
//   3. gather    what nothing but its arguments cuts is gathered once (place_gather.c)
//   4. reduce    per axis the minimum cut of the linear regions (reduce.c)
//   5. settle    a value that is wanted in one state only goes there without a stop at home
#include "partition/state.h"

#include <string.h>

static void find_uses(Plan *p) {
  const Graph *g = p->door.graph;
  uint32_t n = graph_count(g), total = 0;
  p->use_start = arena_array(p->arena, NodeId, n + 2);
  for (NodeId u = 1; u <= n; u++)
    for (int i = 0; i < graph_node(g, u)->nargs; i++) p->use_start[graph_node(g, u)->args[i]]++, total++;
  p->use = arena_array(p->arena, NodeId, total + 1);
  for (uint32_t i = 0, sum = 0; i <= n + 1; i++) {
    uint32_t here = p->use_start[i];
    p->use_start[i] = sum;
    sum += here;
  }
  uint32_t *fill = arena_array(p->arena, uint32_t, n + 1);
  for (NodeId u = 1; u <= n; u++)
    for (int i = 0; i < graph_node(g, u)->nargs; i++) {
      NodeId arg = graph_node(g, u)->args[i];
      p->use[p->use_start[arg] + fill[arg]++] = u;
    }
}

// The one state in which everybody reads n; false when there are two or none.
static bool common_need(const Plan *p, NodeId n, State *out) {
  const Graph *g = p->door.graph;
  int ndims = graph_node(g, n)->dims.n;
  bool any = false;
  for (uint32_t k = p->use_start[n]; k < p->use_start[n + 1]; k++) {
    const Node *user = graph_node(g, p->use[k]);
    for (int i = 0; i < user->nargs; i++) {
      if (user->args[i] != n) continue;
      State need = plan_need(p, p->use[k], i);
      if (any && !state_equal(&need, out, ndims)) return false;
      *out = need;
      any = true;
    }
  }
  return any;
}

// Outputs that hand out n, and whether updates agree with `need`.
static bool outputs_agree(const Plan *p, NodeId n, const State *need, const uint32_t *first,
                          const uint32_t *next, bool *shown) {
  *shown = false;
  for (uint32_t o = first[n]; o; o = next[o]) {
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

typedef struct OutputIndex {
  uint32_t *first, *next; // outputs of a node, numbered from 1
} OutputIndex;

static OutputIndex index_outputs(const Plan *p) {
  const Graph *g = p->door.graph;
  OutputIndex x = {arena_array(p->arena, uint32_t, graph_count(g) + 1),
                   arena_array(p->arena, uint32_t, g->output.n + 1)};
  for (uint32_t o = g->output.n; o > 0; o--) {
    NodeId n = g->output.at[o - 1].value;
    x.next[o] = x.first[n];
    x.first[n] = o;
  }
  return x;
}

static const Output *only_update(const Plan *p, NodeId n, OutputIndex x) {
  for (uint32_t o = x.first[n]; o; o = x.next[o])
    if (p->door.graph->output.at[o - 1].kind == OUT_UPDATE) return &p->door.graph->output.at[o - 1];
  return NULL;
}

// The state that uses and updates of n agree on.
static bool wanted_state(const Plan *p, NodeId n, OutputIndex x, State *out, bool *shown) {
  const Output *update = only_update(p, n, x);
  bool used = p->use_start[n] < p->use_start[n + 1];
  if (used && !common_need(p, n, out)) return false;
  if (!used && !update) return false;
  if (!used) *out = plan_output_need(p, update);
  return outputs_agree(p, n, out, x.first, x.next, shown);
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
  for (uint32_t k = p->use_start[n]; k < p->use_start[n + 1]; k++) {
    const Node *user = graph_node(g, p->use[k]);
    for (int i = 0; i < user->nargs; i++) {
      if (user->args[i] != n) continue;
      State need = plan_need(p, p->use[k], i);
      for (int j = 0; j < ndims; j++) {
        Role r = role_of(g, p->use[k], i, j);
        if (!r.reach || need.cut[j].n || p->wish[n].whole[j]) continue;
        Axes cut = p->door.at[p->use[k]].cut[r.at];
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

static void pull_back(Plan *p, NodeId n, OutputIndex x) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  State want;
  bool shown;
  if (node->op == OP_CARRY || node->attr.decl || node->op == OP_PIN || !node->dims.n) return;
  bool one = wanted_state(p, n, x, &want, &shown) && !state_equal(&want, &p->door.reduced[n], node->dims.n);
  if (!one && !(p->given[n] && !x.first[n] && wanted_by_windows(p, n, &want))) return;
  State *at = &p->door.at[n], *home = &p->door.reduced[n];
  if (state_equal(&want, home, node->dims.n) || !extends(&want, home, &p->wish[n], node->dims.n)) return;
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
static bool flexible(const Plan *p, NodeId u, DimId d, OutputIndex x, int depth) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, u);
  OpClass cls = op_row((Op)node->op)->cls;
  if (cls == REDUCE)
    for (int i = 0; i < node->attr.ndims; i++)
      if (node->attr.dims[i] == d) return true;
  int k = dims_index(&node->dims, d);
  if (cls != POINTWISE || k < 0 || !depth || x.first[u] || p->wish[u].whole[k]) return false;
  for (uint32_t i = p->use_start[u]; i < p->use_start[u + 1]; i++)
    if (!flexible(p, p->use[i], d, x, depth - 1)) return false;
  return p->use_start[u] < p->use_start[u + 1];
}

// The one state with more cuts that some users of n ask for while the others read it at home.
static bool wanted_by_some(const Plan *p, NodeId n, OutputIndex x, State *out) {
  const Graph *g = p->door.graph;
  const State *home = &p->door.reduced[n];
  int ndims = graph_node(g, n)->dims.n;
  bool any = false;
  for (uint32_t i = p->use_start[n]; i < p->use_start[n + 1]; i++)
    for (int j = 0; j < graph_node(g, p->use[i])->nargs; j++) {
      if (graph_node(g, p->use[i])->args[j] != n) continue;
      State need = plan_need(p, p->use[i], j);
      if (state_equal(&need, home, ndims)) continue;
      if (any && !state_equal(&need, out, ndims)) return false;
      *out = need;
      any = true;
    }
  if (!any || x.first[n] || !extends(out, home, &p->wish[n], ndims)) return false;
  return true;
}

static bool others_flexible(const Plan *p, NodeId n, OutputIndex x, const State *want) {
  const Graph *g = p->door.graph;
  const Node *node = graph_node(g, n);
  const State *home = &p->door.reduced[n];
  for (uint32_t i = p->use_start[n]; i < p->use_start[n + 1]; i++)
    for (int j = 0; j < graph_node(g, p->use[i])->nargs; j++) {
      if (graph_node(g, p->use[i])->args[j] != n) continue;
      State need = plan_need(p, p->use[i], j);
      if (state_equal(&need, want, node->dims.n)) continue;
      for (int k = 0; k < node->dims.n; k++)
        if (want->cut[k].n > home->cut[k].n && !flexible(p, p->use[i], node->dims.at[k], x, FLEXIBLE_DEPTH))
          return false;
    }
  return true;
}

// Chooses again behind values whose home has changed, as far as that changes anything.
static void push_forward(Plan *p, bool *changed) {
  const Graph *g = p->door.graph;
  for (NodeId u = 1; u <= graph_count(g); u++) {
    const Node *node = graph_node(g, u);
    bool again = false;
    for (int i = 0; i < node->nargs; i++) again |= changed[node->args[i]];
    if (!again || changed[u] || node->op == OP_CARRY) continue;
    State at = p->door.at[u], home = p->door.reduced[u];
    Axes *inner = p->inner[u];
    p->door.at[u] = p->door.reduced[u] = (State){0};
    plan_choose(p, u);
    for (int k = 0; k < node->dims.n; k++) // what users asked for stays
      if (axes_starts(home.cut[k], p->door.reduced[u].cut[k]) && home.cut[k].n > p->door.reduced[u].cut[k].n) {
        p->door.at[u] = at;
        p->door.reduced[u] = home;
        p->inner[u] = inner;
        break;
      }
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

static void follow_some(Plan *p, OutputIndex x) {
  const Graph *g = p->door.graph;
  bool *changed = arena_array(p->arena, bool, graph_count(g) + 1), any = false;
  const bool *term = find_terms(p);
  for (NodeId n = graph_count(g); n > 0; n--) {
    State want;
    if (!term[n] || !wanted_by_some(p, n, x, &want) || !others_flexible(p, n, x, &want)) continue;
    p->door.reduced[n] = want;
    changed[n] = any = true;
  }
  if (any) push_forward(p, changed);
}

static void settle(Plan *p, NodeId n, OutputIndex x) {
  State want;
  bool shown = false;
  const Node *node = graph_node(p->door.graph, n);
  if (node->attr.decl || node->op == OP_PIN || !wanted_state(p, n, x, &want, &shown) || shown) return;
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
  const Wish *w = &p->wish[n];
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

static Plan *plan_new(Arena *a, const Graph *g, const Layout *layout, const Machine *machine) {
  uint32_t n = graph_count(g) + 1;
  Plan *p = arena_new_of(a, Plan);
  p->arena = a;
  p->machine = machine;
  p->door = (Placement){.graph = g, .layout = layout};
  p->door.at = arena_array(a, State, n);
  p->door.reduced = arena_array(a, State, n);
  p->wish = arena_array(a, Wish, n);
  p->inner = arena_array(a, Axes *, n);
  p->given = arena_array(a, bool, n);
  p->fed = arena_array(a, bool, n);
  p->linear = arena_array(a, uint8_t, (size_t)n * MAX_AXES);
  p->subject = subjects_of_nodes(a, g);
  find_uses(p);
  plan_find_carries(p);
  return p;
}

// Masks and positions are cut only where that is free; a soft rule would have them gathered again.
static void find_given(Plan *p, NodeId n) {
  const Node *node = graph_node(p->door.graph, n);
  p->given[n] = node->attr.decl != 0 || node->op == OP_CARRY;
  p->fed[n] = node->op == OP_INPUT || node->op == OP_CARRY;
  for (int i = 0; i < node->nargs; i++) {
    p->given[n] |= p->given[node->args[i]];
    p->fed[n] |= p->fed[node->args[i]];
  }
  if (p->given[n]) return;
  memset(p->wish[n].soft, 0, sizeof p->wish[n].soft);
}

Placement *place(Arena *a, const Graph *g, const Layout *layout, const Machine *machine) {
  Plan *p = plan_new(a, g, layout, machine);
  uint32_t n = graph_count(g);
  OutputIndex x = index_outputs(p);
  for (NodeId u = 1; u <= n; u++) {
    bug_context("place", u);
    wish_resolve(g, layout, &p->subject[u], &p->wish[u]);
    find_given(p, u);
    p->chosen = u - 1;
    plan_choose(p, u);
  }
  p->chosen = n;
  choose_shared(p);
  plan_settle_carries(p);
  for (NodeId u = n; u > 0; u--) pull_back(p, u, x);
  follow_some(p, x);
  for (int axis = 0; axis < g->mesh->naxes; axis++)
    if (g->mesh->axis[axis].size > 1) plan_gather_points(p, axis);
  for (int axis = 0; axis < g->mesh->naxes; axis++)
    if (g->mesh->axis[axis].size > 1) plan_reduce_points(p, axis);
  for (NodeId u = n; u > 0; u--) settle(p, u, x);
  return &p->door;
}

const char *placement_note(const void *placement, NodeId n) {
  const Plan *p = plan_of(placement);
  return state_text(p->arena, p->door.graph, &graph_node(p->door.graph, n)->dims, &p->door.at[n]);
}
