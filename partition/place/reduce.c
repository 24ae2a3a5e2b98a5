// Where partial sums over one axis are reduced: a minimum cut of the linear regions.
//
// A sum over a dim that the axis cuts gives a term on each processor. Linear operations may go on
// with terms, others need the sum. Each value that can be a term has two vertices, `in` and `out`:
//   in on the source side    it is computed as a term
//   out on the source side   nobody reads its sum
// so the edge in -> out is cut when a term is summed, and costs the wire bytes of that.
//
//   dq, dk, dv = products over h/cols;  dx = (dq + dk) + dv;  relu'(..) * dx
//   cutting behind the second add costs one all_reduce instead of three
//
// In a loop a sum costs in every step. A carry may be a term while its next value is one too, and
// then so is what it is in the end: a gradient that adds up over micro-batches is summed once,
// behind the loop.
#include "partition/place/min_cut_internal.h"
#include "partition/sharding/sharding_internal.h"

typedef struct Stretch {
  Plan *p;
  const Graph *g;
  int axis;
  bool *may;     // node can be computed as a term
  bool *starts;  // it is one by its own sum
  uint8_t *args; // arguments that are read as terms then
  bool *stays;   // carry that cannot be a term, since its next value cannot
} Stretch;

// Partial sums are f32 or wider (decision 11).
static bool wide(Dtype t) { return dtype_bytes(t) >= 4; }

static bool home_cut(const Stretch *r, NodeId n) {
  return state_cut_by(&r->p->door.reduced[n], graph_node(r->g, n)->dims.n, r->axis) >= 0;
}

static int64_t reduce_bytes(const Stretch *r, NodeId n) {
  State term = r->p->door.at[n];
  state_remove(&term, graph_node(r->g, n)->dims.n, r->axis);
  int64_t bytes = state_bytes(r->g, n, &term);
  CollKind kind = home_cut(r, n) ? COLL_REDUCE_SCATTER : COLL_ALL_REDUCE;
  int64_t times = region_times(r->g, graph_node(r->g, n)->region), all;
  if (!size_mul(coll_wire_bytes(kind, r->g->mesh->axis[r->axis].size, bytes), times, &all) ||
      all >= CUT_INFINITE / 4)
    return CUT_INFINITE / 4;
  return all + times - 1; // of equal bytes rather fewer calls
}

static bool starts_here(const Stretch *r, NodeId n) {
  const Node *node = graph_node(r->g, n);
  for (int i = 0; i < node_inner(node); i++)
    if (axes_has(r->p->inner[n][i], r->axis)) return true;
  return false;
}

// Arguments lo..hi-1 are all terms, or whole ones that become the term of coordinate 0.
static uint8_t args_all(const Stretch *r, const Node *n, int lo) {
  uint8_t out = 0, terms = 0;
  for (int i = lo; i < n->nargs; i++) {
    if (r->may[n->args[i]])
      terms = 1;
    else if (home_cut(r, n->args[i]))
      return 0;
    out |= (uint8_t)(1u << i);
  }
  return terms ? out : 0;
}

static bool whole_but(const Stretch *r, const Node *n, int linear) {
  for (int i = 0; i < n->nargs; i++)
    if (i != linear && (home_cut(r, n->args[i]) || n->args[i] == n->args[linear])) return false;
  return true;
}

// Of a product of two terms the larger stays one.
static uint8_t args_one(const Stretch *r, const Node *n) {
  int best = -1;
  for (int i = 0; i < n->nargs; i++)
    if (r->may[n->args[i]] &&
        (best < 0 || reduce_bytes(r, n->args[i]) > reduce_bytes(r, n->args[best])))
      best = i;
  return best >= 0 && whole_but(r, n, best) ? (uint8_t)(1u << best) : 0;
}

// A carry starts with its own term of anything.
static uint8_t carry_args(const Stretch *r, NodeId id, const Node *n) {
  bool cut = home_cut(r, id) || state_cut_by(&r->p->door.at[id], n->dims.n, r->axis) >= 0;
  bool start = r->may[n->args[0]] || !home_cut(r, n->args[0]);
  return !r->stays[id] && !cut && start ? 1 : 0;
}

static uint8_t linear_args(const Stretch *r, NodeId id) {
  const Node *n = graph_node(r->g, id);
  if (!wide((Dtype)n->type)) return 0;
  if (n->op == OP_CARRY) return carry_args(r, id, n);
  if (n->op == OP_FINAL || n->op == OP_COLLECT) return r->may[n->args[1]] ? 2 : 0;
  if (op_row((Op)n->op)->cls == WINDOW && n->attr.num[0] != 0) return 0;
  switch (op_row((Op)n->op)->linear) {
  case LINEAR_NO: return 0;
  case LINEAR_ALL:
    if (n->op == OP_CAST) { // widening floats only: others round each term
      Dtype from = (Dtype)graph_node(r->g, n->args[0])->type;
      if (!dtype_is_float(from) || !dtype_is_float((Dtype)n->type) ||
          dtype_bytes(from) > dtype_bytes((Dtype)n->type))
        return 0;
    }
    return args_all(r, n, 0);
  case LINEAR_FIRST:
    if (n->op == OP_DIV && !dtype_is_float((Dtype)graph_node(r->g, n->args[0])->type)) return 0;
    return r->may[n->args[0]] && whole_but(r, n, 0) ? 1 : 0;
  case LINEAR_ONE: return args_one(r, n);
  case LINEAR_BRANCH: return home_cut(r, n->args[0]) ? 0 : args_all(r, n, 1);
  }
  BUG("%s has no linear rule", op_row((Op)n->op)->text);
}

// Dropping the axis from the middle of a nested cut would change all blocks within.
static bool axis_is_last(const Stretch *r, NodeId n) {
  const State *at = &r->p->door.at[n];
  int k = state_cut_by(at, graph_node(r->g, n)->dims.n, r->axis);
  return k < 0 || at->cut[k].at[at->cut[k].n - 1] == r->axis;
}

static void find_members(Stretch *r) {
  for (NodeId n = 1; n <= graph_count(r->g); n++) {
    const Node *node = graph_node(r->g, n);
    r->starts[n] = starts_here(r, n);
    if (r->starts[n]) {
      r->may[n] = node_monoid(node) == MONOID_SUM && wide((Dtype)node->type);
      if (r->may[n] && node->op == OP_SUM && r->may[node->args[0]]) r->args[n] = 1;
    } else {
      r->args[n] = axis_is_last(r, n) ? linear_args(r, n) : 0;
      r->may[n] = r->args[n] != 0;
    }
  }
}

// Members as if all carries could be terms; then without those whose next value is none, until all
// are right.
static void find_loop_members(Stretch *r) {
  for (bool again = true; again;) {
    again = false;
    find_members(r);
    for (NodeId n = 1; n <= graph_count(r->g); n++) {
      if (graph_node(r->g, n)->op != OP_CARRY || !r->may[n]) continue;
      NodeId next = r->p->graph->next[n];
      if (next && r->may[next]) continue;
      r->stays[n] = again = true;
    }
  }
}

static uint32_t in_of(NodeId n) { return 2 * n; }
static uint32_t out_of(NodeId n) { return 2 * n + 1; }

static void connect_both(Cut *c, uint32_t a, uint32_t b) {
  cut_edge(c, a, b, CUT_INFINITE);
  cut_edge(c, b, a, CUT_INFINITE);
}

// A carry and its next value are terms together, and what a carry is in the end is what it was.
static void connect_loop(const Stretch *r, Cut *c, NodeId u) {
  const Node *node = graph_node(r->g, u);
  if (node->op == OP_FINAL) {
    if (r->may[u]) connect_both(c, in_of(node->args[1]), in_of(u));
    return;
  }
  for (int i = 0; i < node->nargs; i++) {
    NodeId n = node->args[i], carry = r->p->graph->carry[u][i];
    if (!r->may[n]) continue;
    if (!carry || !r->may[carry]) {
      cut_edge(c, out_of(n), CUT_SINK, CUT_INFINITE);
      continue;
    }
    connect_both(c, out_of(n), in_of(carry));
    cut_edge(c, in_of(carry), in_of(n), CUT_INFINITE);
  }
}

static void connect_uses(const Stretch *r, Cut *c, NodeId u) {
  const Node *node = graph_node(r->g, u);
  if (node->op == OP_SCAN || node->op == OP_FINAL) {
    connect_loop(r, c, u);
    return;
  }
  for (int i = 0; i < node->nargs; i++) {
    NodeId n = node->args[i];
    if (!r->may[n]) continue;
    bool linear = r->may[u] && (r->args[u] >> i & 1);
    if (!linear)
      cut_edge(c, out_of(n), CUT_SINK, CUT_INFINITE);
    else if (!r->starts[u]) {
      cut_edge(c, out_of(n), in_of(u), CUT_INFINITE);
      if (home_cut(r, n)) cut_edge(c, in_of(u), in_of(n), CUT_INFINITE);
    }
  }
}

// Node 0 is none, so its vertices 0 and 1 serve as source and sink.
static Cut *network(const Stretch *r, Arena *scratch) {
  Cut *c = cut_new(scratch, 2 * (graph_count(r->g) + 1));
  for (NodeId n = 1; n <= graph_count(r->g); n++) {
    connect_uses(r, c, n);
    if (!r->may[n]) continue;
    if (r->starts[n]) cut_edge(c, CUT_SOURCE, in_of(n), CUT_INFINITE);
    cut_edge(c, in_of(n), out_of(n), reduce_bytes(r, n));
  }
  for (uint32_t o = 0; o < r->g->output.n; o++)
    if (r->may[r->g->output.at[o].value])
      cut_edge(c, out_of(r->g->output.at[o].value), CUT_SINK, CUT_INFINITE);
  return c;
}

static void make_term(Plan *p, NodeId n, int axis, uint8_t args) {
  State *at = &p->door.at[n];
  state_remove(at, graph_node(p->door.graph, n)->dims.n, axis);
  axes_append(&at->partial, axis);
  at->partial = axes_sorted(at->partial);
  at->monoid = MONOID_SUM;
  p->linear[n * MAX_AXES + (uint32_t)axis] = args;
}

// A sum of terms needs no cut of its own.
static void sum_terms(const Stretch *r, const Cut *c, NodeId n) {
  const Node *node = graph_node(r->g, n);
  if (!r->args[n] || !cut_on_source_side(c, in_of(node->args[0]))) return;
  for (int i = 0; i < node_inner(node); i++) axes_remove(&r->p->inner[n][i], r->axis);
  r->p->linear[n * MAX_AXES + (uint32_t)r->axis] = 1;
}

void plan_reduce_points(Plan *p, int axis) {
  const Graph *g = p->door.graph;
  uint32_t n = graph_count(g) + 1;
  Arena *scratch = arena_new();
  Stretch r = {.p = p, .g = g, .axis = axis};
  r.may = arena_array(scratch, bool, n);
  r.starts = arena_array(scratch, bool, n);
  r.args = arena_array(scratch, uint8_t, n);
  r.stays = arena_array(scratch, bool, n);
  find_loop_members(&r);
  Cut *c = network(&r, scratch);
  cut_run(c);
  for (NodeId u = 1; u < n; u++) {
    if (!r.may[u] || !cut_on_source_side(c, in_of(u))) continue;
    if (r.starts[u])
      sum_terms(&r, c, u);
    else
      make_term(p, u, axis, r.args[u]);
  }
  arena_free(scratch);
}
