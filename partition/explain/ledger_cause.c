// Why a value moves: which rules of the layout stand behind the state that it is in and the one
// that is wanted.
//
// A cut is traced to the rule that made it: the value's own, that of the argument whose dim it is,
// or that of a user that asked for it. Terms are traced to where a cut dim was summed, and from
// there so.
#include "partition/explain/ledger_internal.h"

// The rule that says it of the node itself.
static int own_rule(const Placer *p, NodeId n, int k, int axis) {
  const Request *w = p->request[n];
  if (axes_has(w->hard[k], axis)) return w->rule[k] - 1;
  if (axes_has(w->soft[k], axis)) return w->soft_rule[axis] - 1;
  return -1;
}

// A dim of a node.
typedef struct At {
  NodeId n;
  int k;
} At;

// Where to look for a rule: nearest first, each place once, no farther than there is room.
enum { ROOM = 256 };
typedef struct Trail {
  int n;
  At at[ROOM];
} Trail;

static void look_at(Trail *t, NodeId n, int k) {
  for (int i = 0; i < t->n; i++)
    if (t->at[i].n == n && t->at[i].k == k) return;
  if (t->n < ROOM) t->at[t->n++] = (At){n, k};
}

// Dims of arguments that become dim k of n and are cut so: they bring the cut.
static void look_up(const Placer *p, Trail *t, At at, int axis) {
  const Graph *g = p->result.graph;
  const Node *node = graph_node(g, at.n);
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    for (int j = 0; j < graph_node(g, arg)->dims.n; j++) {
      if (!axes_has(p->result.settled[arg].split[j], axis)) continue;
      DimRole r = dim_role_of(g, at.n, i, j);
      if (r.kind == ROLE_KEEP && r.at == at.k) look_at(t, arg, j);
    }
  }
}

// Dims of users that dim k of n becomes and that are cut so: they may have asked for it.
static void look_down(const Placer *p, Trail *t, At at, int axis) {
  const Graph *g = p->result.graph;
  for (uint32_t u = p->graph->use_start[at.n]; u < p->graph->use_start[at.n + 1]; u++) {
    const Node *user = graph_node(g, p->graph->use[u]);
    for (int i = 0; i < user->nargs; i++) {
      if (user->args[i] != at.n) continue;
      DimRole r = dim_role_of(g, p->graph->use[u], i, at.k);
      if (r.kind == ROLE_KEEP && r.at >= 0 &&
          axes_has(p->result.settled[p->graph->use[u]].split[r.at], axis))
        look_at(t, p->graph->use[u], r.at);
    }
  }
}

// A rule that gives the axis to a dim of that name.
static int rule_of_name(const Placer *p, const char *dim, int axis) {
  const Layout *layout = p->result.layout;
  for (uint32_t r = 0; layout && r < layout->n; r++)
    if (layout->rule[r].dim && axes_has(layout->rule[r].axes, axis) &&
        rule_names_dim(&layout->rule[r], NULL, dim))
      return (int)r;
  return -1;
}

// Where an argument brings the axis in another dim: the elements changed places, for an operation
// that takes that dim whole (the t of a scan, what is sorted) and is split all the same.
static int rule_of_displaced(const Placer *p, NodeId n, int k, int axis) {
  const Graph *g = p->result.graph;
  Trail t = {.n = 1, .at = {{n, k}}};
  for (int i = 0; i < t.n; i++) {
    int rule = own_rule(p, t.at[i].n, t.at[i].k, axis);
    if (rule >= 0) return rule;
    const Node *node = graph_node(g, t.at[i].n);
    for (int j = 0; j < node->nargs; j++) {
      int split = sharding_dim_of(&p->result.settled[node->args[j]],
                                  graph_node(g, node->args[j])->dims.n, axis);
      if (split >= 0) look_at(&t, node->args[j], split);
    }
  }
  return -1;
}

int rule_behind(const Placer *p, NodeId n, int k, int axis) {
  Trail t = {.n = 1, .at = {{n, k}}};
  for (int i = 0; i < t.n; i++) {
    int rule = own_rule(p, t.at[i].n, t.at[i].k, axis);
    if (rule >= 0) return rule;
    if (graph_node(p->result.graph, t.at[i].n)->op == OP_PIN) return -1; // layout(...) decides
    look_up(p, &t, t.at[i], axis);
    look_down(p, &t, t.at[i], axis);
  }
  int rule = rule_of_name(
      p, dim_get(p->result.graph->dims, graph_node(p->result.graph, n)->dims.at[k])->name, axis);
  return rule >= 0 ? rule : rule_of_displaced(p, n, k, axis);
}

// Behind the cut of dim `inner` that node n sums away.
static int rule_of_inner(const Placer *p, NodeId n, int inner, int axis) {
  const Graph *g = p->result.graph;
  const Node *node = graph_node(g, n);
  for (int i = 0; i < node->nargs; i++)
    for (int j = 0; j < graph_node(g, node->args[i])->dims.n; j++) {
      DimRole r = dim_role_of(g, n, i, j);
      if (r.kind != ROLE_INNER || r.at != inner) continue;
      int rule = rule_behind(p, node->args[i], j, axis);
      if (rule >= 0) return rule;
    }
  return rule_of_name(p, dim_get(g->dims, node->attr.dims[inner])->name, axis);
}

static int rule_of_partial(const Placer *p, NodeId n, int axis) {
  int inner;
  NodeId begin = partial_sum_begin(p, n, axis, &inner);
  return begin ? rule_of_inner(p, begin, inner, axis) : -1;
}

// -- who reads ----------------------------------------------------------------------------------

static const Output *output_of(const Graph *g, NodeId n) {
  for (uint32_t o = 0; o < g->output.n; o++)
    if (g->output.at[o].value == n) return &g->output.at[o];
  return NULL;
}

const char *reader_text(Arena *a, const Placer *p, NodeId of, NodeId reader) {
  const Graph *g = p->result.graph;
  const Output *out = reader ? NULL : output_of(g, of);
  if (!reader)
    return out ? arena_printf(a, "%s %s", out->kind == OUT_UPDATE ? "the update of" : "the output",
                              out->name)
               : "an output";
  const Node *node = graph_node(g, reader);
  if (!node->origin.pos.line) return op_row((Op)node->op)->text;
  return arena_printf(a, "%s at line %u", op_row((Op)node->op)->text, node->origin.pos.line);
}

// What else takes `axis` in the reader: a dim of its result, or one that it sums.
static bool taken_in(Arena *a, const Placer *p, NodeId reader, int axis, LedgerSide *out) {
  const Graph *g = p->result.graph;
  const Node *node = graph_node(g, reader);
  const char *name = g->mesh->axis[axis].name;
  int k = sharding_dim_of(&p->result.computed[reader], node->dims.n, axis);
  if (k >= 0) {
    out->rule = rule_behind(p, reader, k, axis);
    out->why =
        arena_printf(a, "%s splits %s there", name, dim_get(g->dims, node->dims.at[k])->name);
    return true;
  }
  for (int i = 0; i < node_inner(node); i++) {
    if (!p->inner[reader] || !axes_has(p->inner[reader][i], axis)) continue;
    out->rule = rule_of_inner(p, reader, i, axis);
    out->why =
        arena_printf(a, "%s splits %s there", name, dim_get(g->dims, node->attr.dims[i])->name);
    return true;
  }
  return false;
}

// Why the reader wants a sum complete: it cannot work on terms. Of those that could, where terms
// are summed is a matter of bytes.
static void why_complete(Arena *a, const Placer *p, NodeId reader, LedgerSide *out) {
  const OpRow *row = reader ? op_row((Op)graph_node(p->result.graph, reader)->op) : NULL;
  if (row && row->linear == LINEAR_NO) out->why = arena_printf(a, "%s is not linear", row->text);
}

static void why_whole(Arena *a, const Placer *p, NodeId of, NodeId reader, int k, int axis,
                      LedgerSide *out) {
  if (!reader || reader == of || taken_in(a, p, reader, axis, out) || k < 0) return;
  const Node *node = graph_node(p->result.graph, reader);
  for (int i = 0; i < node->nargs; i++)
    if (node->args[i] == of && dim_role_of(p->result.graph, reader, i, k).kind == ROLE_FULL)
      out->why = arena_printf(
          a, "%s takes %s in full", op_row((Op)node->op)->text,
          dim_get(p->result.graph->dims, graph_node(p->result.graph, of)->dims.at[k])->name);
}

// -- both sides ---------------------------------------------------------------------------------

static Axes split_of(const Graph *g, const Dims *dims, DimId whole) {
  for (int i = 0; i < dims->n; i++)
    if (dim_get(g->dims, dims->at[i])->whole == whole) return dim_get(g->dims, dims->at[i])->axes;
  return (Axes){0};
}

// Index of the whole dim in placed node n, or -1: conversions below a window move other dims.
static int index_in(const Placer *p, NodeId n, DimId whole) {
  return dims_index(&graph_node(p->result.graph, n)->dims, whole);
}

static DimId whole_at(const Graph *g, const Dims *dims, int i) {
  return dim_get(g->dims, dims->at[i])->whole;
}

// What is cut before and not after, and the other way round.
static void compare_cuts(Arena *a, const Placer *p, const Graph *low, LedgerPart *part) {
  for (int i = 0; i < part->has.dims.n; i++) {
    DimId whole = whole_at(low, &part->has.dims, i);
    Axes before = dim_get(low->dims, part->has.dims.at[i])->axes,
         after = split_of(low, &part->wants.dims, whole);
    int k = index_in(p, part->node, whole);
    for (int x = 0; x < before.n; x++) {
      if (axes_has(after, before.at[x])) continue;
      if (part->has.rule < 0)
        part->has.rule = k < 0 ? rule_of_name(p, dim_get(low->dims, whole)->name, before.at[x])
                               : rule_behind(p, part->node, k, before.at[x]);
      if (part->wants.rule < 0 && !part->wants.why)
        why_whole(a, p, part->node, part->reader, k, before.at[x], &part->wants);
    }
  }
  for (int i = 0; i < part->wants.dims.n; i++) {
    DimId whole = whole_at(low, &part->wants.dims, i);
    Axes after = dim_get(low->dims, part->wants.dims.at[i])->axes,
         before = split_of(low, &part->has.dims, whole);
    int k = index_in(p, part->node, whole);
    for (int x = 0; x < after.n; x++) {
      if (axes_has(before, after.at[x]) || k < 0) continue;
      int rule = rule_behind(p, part->node, k, after.at[x]);
      if (rule >= 0) part->wants.rule = rule, part->wants.why = NULL;
    }
  }
}

// What an ordered operation moves itself: behind the cut of the dim that it goes along.
static int rule_of_ordered(const Placer *p, NodeId n, int axis) {
  const Node *node = graph_node(p->result.graph, n);
  if (op_row((Op)node->op)->cls != ORDERED) return -1;
  int k = index_in(p, node->args[0], node->attr.dims[0]);
  return k < 0 ? -1 : rule_behind(p, node->args[0], k, axis);
}

// The intervals that a window reads depend on the axes that cut the dim.
static void halo_sides(const Placer *p, const Graph *low, const Node *halo, LedgerPart *out) {
  const Dim *have = dim_get(low->dims, halo->attr.dims[0]);
  int k = index_in(p, out->node, have->whole);
  if (have->axes.n)
    out->has.rule = k < 0 ? rule_of_name(p, dim_get(low->dims, have->whole)->name, have->axes.at[0])
                          : rule_behind(p, out->node, k, have->axes.at[0]);
  out->wants.why = "a window reads beyond its own block";
}

void sides_find(Arena *a, const Placer *p, const Graph *low, NodeId moved, LedgerPart *out) {
  const Node *node = graph_node(low, moved);
  bool reduces = node->op == OP_ALL_REDUCE || node->op == OP_REDUCE_SCATTER;
  out->has = (LedgerSide){.dims = graph_node(low, node->args[0])->dims, .rule = -1};
  out->wants = (LedgerSide){.dims = node->dims, .rule = -1};
  if (reduces) out->has.partial = node->attr.axes, out->has.monoid = node->attr.monoid;
  if (!out->node) return;
  if (reduces) {
    out->has.rule = rule_of_partial(p, out->node, node->attr.axes.at[0]);
    why_complete(a, p, out->reader, &out->wants);
  }
  compare_cuts(a, p, low, out);
  if (node->op == OP_HALO) halo_sides(p, low, node, out);
  if (out->has.rule < 0 && out->node == out->reader)
    out->has.rule = rule_of_ordered(p, out->node, node->attr.axes.at[0]);
}
