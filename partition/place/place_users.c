// Computes or settles a value in the sharding in which all its users read it.
#include "partition/sharding/sharding_internal.h"

#include <string.h>

// Sets *out to the one sharding in which all users and updates read n. Sets *shown to whether an
// OUT_VALUE output returns n. Returns false if these shardings differ, or if n has no user and no
// update.
static bool wanted_sharding(const Placer *p, NodeId n, Sharding *out, bool *shown) {
  const Crowd *crowd = crowd_of(p, n);
  bool any = crowd != NULL;
  *shown = false;
  if (crowd && !crowd_agrees(crowd)) return false;
  if (crowd) *out = *crowd_ask(crowd, crowd->n - 1);
  for (const Read *r = reads_of(p, n) + (crowd ? crowd->n : 0); r->node || r->output; r++) {
    if (r->output && p->g->output.at[r->output - 1].kind == OUT_VALUE) {
      *shown = true;
      continue;
    }
    Sharding need = need_of(p, r);
    if (any && !sharding_equal(&need, out)) return false;
    if (r->node || !any) *out = need;
    any = true;
  }
  return any;
}

// Returns whether `more` has all splits of s, and splits no dim for which request w says `dim ->
// none`.
static bool extends(const Sharding *more, const Sharding *s, const Request *w) {
  for (int k = 0; k < MAX_RANK; k++) {
    if (!axes_starts(more->split[k], s->split[k])) return false;
    if (w->replicated[k] && more->split[k].n) return false;
  }
  return true;
}

// Sets *out to the sharding in which all users can read n if windows among them read blocks with a
// halo. A dim along which such a window moves is split like the result of the window. Returns false
// if users need different shardings, or if no window reads n with a halo.
static bool wanted_by_windows(const Placer *p, NodeId n, Sharding *out) {
  bool any = false, window = false;
  if (!p->graph->haloed[n]) return false;
  for (const Read *r = reads_of(p, n); r->node; r++) {
    Sharding need = need_of(p, r);
    for (int j = 0; j < graph_node(p->g, n)->dims->n; j++) {
      DimRole role = placed_role(p, r->node, r->arg, j);
      if (!role.halo || need.split[j].n || p->request[n]->replicated[j]) continue;
      Axes split = p->result.computed[r->node]->split[role.at];
      int free = 0;
      while (free < split.n && sharding_dim_of(&need, split.at[free]) < 0) free++;
      need.split[j] = axes_head(split, free);
      window |= need.split[j].n > 0;
    }
    if (any && !sharding_equal(&need, out)) return false;
    *out = need;
    any = true;
  }
  return window;
}

// Settles n in `want`, the sharding in which users read the value. An axis that splits the same dim
// in both shardings keeps its layout rule.
static void settle_as(Placer *p, NodeId n, const Sharding *want) {
  const Sharding *before = p->result.settled[n];
  Sharding settled = *want;
  settled.partial = (Axes){0};
  for (int axis = 0; axis < MAX_AXES; axis++) {
    if (!before->rule[axis]) continue;
    int k = settled_dim(p, n, axis);
    if (k >= 0 && k == sharding_dim_of(want, axis)) settled.rule[axis] = before->rule[axis];
  }
  place_settle(p, n, &settled);
}

void place_pull_back(Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  Sharding want;
  bool shown;
  if (node->op == OP_CARRY || node->attr->decl || node->op == OP_PIN || !node->dims->n) return;
  bool one = wanted_sharding(p, n, &want, &shown) && !sharding_equal(&want, p->result.settled[n]);
  if (!one && !(p->graph->given[n] && !outputs_of(p, n)->output && wanted_by_windows(p, n, &want)))
    return;
  const Sharding *settled = p->result.settled[n];
  if (sharding_equal(&want, settled) || !extends(&want, settled, p->request[n])) return;
  settle_as(p, n, &want);
  Sharding at = *p->result.computed[n];
  for (int k = 0; k < node->dims->n && node->op != OP_FINAL; k++) {
    if (!axes_starts(want.split[k], at.split[k])) continue;
    Axes free = at.split[k];
    for (int i = at.split[k].n; i < want.split[k].n; i++) {
      int axis = want.split[k].at[i];
      if (axes_has(at.partial, axis) || sharding_dim_of(&at, axis) >= 0) break;
      axes_append(&free, axis);
      at.rule[axis] = want.rule[axis];
    }
    at.split[k] = split_allowed(p->g, n, k, free);
  }
  place_compute(p, n, &at);
}

enum { MAX_DEPTH = 4 }; // how many levels of arguments is_at_hand looks at

// Returns whether every processor has n without the split over the axis, or can compute it so by
// cheap operations that send nothing.
static bool is_at_hand(const Placer *p, NodeId n, int axis, int depth) {
  const Node *node = graph_node(p->g, n);
  OpClass cls = op_row((Op)node->op)->cls;
  const Sharding *at = p->result.computed[n];
  if (axes_has(at->partial, axis)) return false;
  int k = computed_dim(p, n, axis);
  if (k < 0) return true;
  bool last = at->split[k].at[at->split[k].n - 1] == axis,
       cheap = cls == POINTWISE || cls == MOVE || cls == WINDOW || node->op == OP_INDEX;
  if (!last || !cheap || !depth || node->attr->decl || node->op == OP_PIN) return false;
  for (int i = 0; i < node->nargs; i++)
    if (!is_at_hand(p, node->args[i], axis, depth - 1)) return false;
  return true;
}

// Sets *replicated to whether some reader needs n replicated over the axis, and *split to whether
// some reader needs n otherwise or an output returns n.
static void find_readers(const Placer *p, NodeId n, int axis, bool *replicated, bool *split) {
  const Crowd *crowd = crowd_of(p, n);
  *replicated = *split = false;
  for (uint32_t i = 0; crowd && i < crowd->asked.n; i++) {
    if (crowd->asked.at[i].n)
      *(needs_whole(&crowd->asked.at[i].need, axis) ? replicated : split) = true;
  }
  for (const Read *r = reads_of(p, n) + (crowd ? crowd->n : 0); r->node || r->output; r++) {
    Sharding need = need_of(p, r);
    bool whole = needs_whole(&need, axis);
    *replicated |= whole;
    *split |= !whole || (r->output && p->g->output.at[r->output - 1].kind == OUT_VALUE);
  }
}

// Returns whether every processor can compute all of n along the axis, which splits n, and some
// reader needs n so. Sets *split as find_readers does.
static bool is_repeated(const Placer *p, NodeId n, int axis, bool *split) {
  bool replicated;
  if (computed_dim(p, n, axis) < 0 || !is_at_hand(p, n, axis, MAX_DEPTH)) return false;
  find_readers(p, n, axis, &replicated, split);
  return replicated;
}

bool place_can_repeat(const Placer *p, NodeId n) {
  bool split;
  for (int axis = 0; axis < p->g->mesh->naxes; axis++)
    if (is_repeated(p, n, axis, &split)) return true;
  return false;
}

void place_repeat(Placer *p, NodeId n) {
  for (int axis = 0; axis < p->g->mesh->naxes; axis++) {
    bool split;
    if (!is_repeated(p, n, axis, &split)) continue;
    Sharding at = *p->result.computed[n], settled = *p->result.settled[n];
    sharding_unsplit(&at, axis);
    place_compute(p, n, &at);
    int k = sharding_dim_of(&settled, axis);
    if (split || k < 0 || settled.split[k].at[settled.split[k].n - 1] != axis) continue;
    sharding_unsplit(&settled, axis);
    place_settle(p, n, &settled);
  }
}

void place_choose_again(Placer *p, NodeId n) {
  State before = state_of(p, n);
  place_choose_fresh(p, n);
  if (p->repeats || graph_node(p->g, n)->op == OP_FINAL) return; // a final has its carry's blocks
  for (int k = 0; k < MAX_RANK; k++) { // the old shardings stay if they split more
    Axes had = before.settled->split[k], has = p->result.settled[n]->split[k];
    if (axes_starts(had, has) && had.n > has.n) {
      state_set(p, n, before);
      return;
    }
  }
}

static void settle(Placer *p, NodeId n) {
  Sharding want;
  bool shown = false;
  const Node *node = graph_node(p->g, n);
  if (node->attr->decl || node->op == OP_PIN || !wanted_sharding(p, n, &want, &shown) || shown)
    return;
  if (!want.partial.n) settle_as(p, n, &want);
}

void place_finish(Placer *p) {
  const Mesh *mesh = p->g->mesh;
  p->crowds = NULL;
  for (int axis = 0; axis < mesh->naxes; axis++)
    if (mesh->axis[axis].size > 1) place_gathers(p, axis);
  place_reductions(p);
  for (NodeId u = graph_count(p->g); u > 0; u--) settle(p, u);
}
