// Decides where partial sums over one axis are reduced: a minimum cut of the linear regions.
//
// A sum over a split dim is a partial sum on each processor. Linear operations may work on partial
// sums, others need the full sum. Each value that can be partial has two vertices, `in` and `out`:
//   in on the source side    it is computed as a partial sum
//   out on the source side   no user needs its full sum
// The edge in -> out crosses the minimum cut where a partial sum is reduced; its capacity is the
// bytes sent.
//
//   dq, dk, dv = contractions over h/cols;  dx = (dq + dk) + dv;  relu'(..) * dx
//   a reduction after the second add costs one all_reduce instead of three
//
// A sum of gradients over micro-batches is no member where a layout rule splits it (place_sums.c).
//
// In a loop a reduction costs in every step. A carry may be partial if its next value is, and then
// its final value is too: a gradient summed over micro-batches is reduced once, after the loop.
//
// Axes are taken one by one, in the order of the mesh. An axis can only be removed from a dim after
// those that split the dim behind it. So with Placer.late an axis waits until these are decided:
//
//   grads of w[d, h], soft h -> rows+cols, b -> rows+cols, summed over micro-batches: whole sums
//   stay partial over cols, then over rows; one reduce_scatter over both follows
#include "partition/place/min_cut_internal.h"
#include "partition/sharding/sharding_internal.h"

typedef struct LinearRegions {
  Placer *p;
  const Graph *g;
  int axis;
  Axes left;     // axes that are not decided yet
  bool waits;    // some node cannot be partial before one of `left` is decided
  bool *may;     // [node] it can be computed as a partial sum
  bool *starts;  // [node] it sums a dim that the axis splits
  uint8_t *args; // [node] bits of arguments that it reads partial if it is partial
  bool *stays;   // [node] it is a carry that cannot be partial, because its next value cannot
} LinearRegions;

// Returns whether sums of type t may stay partial: types of at least 4 bytes. Partial sums of
// narrower types would lose precision in each operation.
static bool wide(Dtype t) { return dtype_bytes(t) >= 4; }

static bool settled_split(const LinearRegions *r, NodeId n) {
  return settled_dim(r->p, n, r->axis) >= 0;
}

static int64_t reduce_bytes(const LinearRegions *r, NodeId n) {
  Sharding partial = *r->p->result.computed[n];
  sharding_remove(&partial, r->axis);
  int64_t bytes = sharding_bytes(r->g, n, &partial);
  CollKind kind = settled_split(r, n) ? COLL_REDUCE_SCATTER : COLL_ALL_REDUCE;
  int64_t times = region_times(r->g, graph_node(r->g, n)->region), all;
  if (!size_mul(coll_wire_bytes(kind, r->g->mesh->axis[r->axis].size, bytes), times, &all) ||
      all >= EDGE_UNLIMITED / 4)
    return EDGE_UNLIMITED / 4;
  // `times` breaks ties: of two ways that send equal bytes, the one with fewer calls wins.
  return all + times - 1;
}

static bool starts_here(const LinearRegions *r, NodeId n) {
  if (!r->p->inner[n]) return false;
  for (int i = 0; i < node_inner(graph_node(r->g, n)); i++)
    if (axes_has(r->p->inner[n][i], r->axis)) return true;
  return false;
}

// Returns a bit for each argument of n from argument `lo` on. Returns 0 if some argument is split
// and cannot be partial, or if none can be partial. A replicated argument becomes partial: the
// processor at coordinate 0 of the axis takes its value, the others take zero.
static uint8_t args_all(const LinearRegions *r, const Node *n, int lo) {
  uint8_t out = 0, partial = 0;
  for (int i = lo; i < n->nargs; i++) {
    if (r->may[n->args[i]])
      partial = 1;
    else if (settled_split(r, n->args[i]))
      return 0;
    out |= (uint8_t)(1u << i);
  }
  return partial ? out : 0;
}

static bool replicated_but(const LinearRegions *r, const Node *n, int linear) {
  for (int i = 0; i < n->nargs; i++)
    if (i != linear && (settled_split(r, n->args[i]) || n->args[i] == n->args[linear]))
      return false;
  return true;
}

// Returns the bit of the one factor of product n that may stay partial, or 0 if none may. Of two
// such factors this is the one whose reduction would send more bytes. Both cannot stay partial,
// since a product of two partial sums is not linear.
static uint8_t args_one(const LinearRegions *r, const Node *n) {
  int best = -1;
  for (int i = 0; i < n->nargs; i++)
    if (r->may[n->args[i]] &&
        (best < 0 || reduce_bytes(r, n->args[i]) > reduce_bytes(r, n->args[best])))
      best = i;
  return best >= 0 && replicated_but(r, n, best) ? (uint8_t)(1u << best) : 0;
}

// Returns the bits of arguments that a carry of a loop reads partial: 1, its start value, if the
// carry can be partial; else 0.
static uint8_t carry_args(const LinearRegions *r, NodeId id, const Node *n) {
  bool split = settled_split(r, id) || computed_dim(r->p, id, r->axis) >= 0;
  bool start = r->may[n->args[0]] || !settled_split(r, n->args[0]);
  return !r->stays[id] && !split && start ? 1 : 0;
}

static uint8_t linear_args(const LinearRegions *r, NodeId id) {
  const Node *n = graph_node(r->g, id);
  if (!wide((Dtype)n->type)) return 0;
  if (n->op == OP_CARRY) return carry_args(r, id, n);
  if (n->op == OP_FINAL || n->op == OP_COLLECT) return r->may[n->args[1]] ? 2 : 0;
  if (op_row((Op)n->op)->cls == WINDOW && n->attr->num[0] != 0) return 0;
  switch (op_row((Op)n->op)->linear) {
  case LINEAR_NO: return 0;
  case LINEAR_ALL:
    if (n->op == OP_CAST) { // a cast that rounds is not linear
      Dtype from = (Dtype)graph_node(r->g, n->args[0])->type;
      if (!dtype_is_float(from) || !dtype_is_float((Dtype)n->type) ||
          dtype_bytes(from) > dtype_bytes((Dtype)n->type))
        return 0;
    }
    return args_all(r, n, 0);
  case LINEAR_FIRST:
    if (n->op == OP_DIV && !dtype_is_float((Dtype)graph_node(r->g, n->args[0])->type)) return 0;
    return r->may[n->args[0]] && replicated_but(r, n, 0) ? 1 : 0;
  case LINEAR_ONE: return args_one(r, n);
  case LINEAR_BRANCH: return settled_split(r, n->args[0]) ? 0 : args_all(r, n, 1);
  }
  BUG("%s has no linear rule", op_row((Op)n->op)->text);
}

// Returns the last of the axes that split the dim of n that r->axis splits; r->axis if it splits
// none. Removing an earlier axis would change the blocks of the later axes.
static int last_axis(const LinearRegions *r, NodeId n) {
  const Sharding *at = r->p->result.computed[n];
  int k = computed_dim(r->p, n, r->axis);
  return k < 0 ? r->axis : at->split[k].at[at->split[k].n - 1];
}

// Returns whether n is a sum of gradients over micro-batches that a layout rule splits over the
// axis: of such a sum each processor has a shard from the first micro-batch on.
static bool is_sharded_sum(const LinearRegions *r, NodeId n) {
  const Request *w = r->p->request[n];
  bool split = false;
  for (int k = 0; k < MAX_RANK && r->p->graph->sums[n]; k++) split |= axes_has(w->hard[k], r->axis);
  return split;
}

static void find_members(LinearRegions *r) {
  r->waits = false;
  for (NodeId n = 1; n <= graph_count(r->g); n++) {
    const Node *node = graph_node(r->g, n);
    r->starts[n] = starts_here(r, n);
    if (r->starts[n]) {
      r->may[n] = node_monoid(node) == MONOID_SUM && wide((Dtype)node->type);
      if (r->may[n] && node->op == OP_SUM && r->may[node->args[0]]) r->args[n] = 1;
    } else {
      int last = last_axis(r, n);
      bool later = last != r->axis && axes_has(r->left, last);
      bool asks = (last == r->axis || later) && !is_sharded_sum(r, n);
      uint8_t args = asks ? linear_args(r, n) : 0;
      r->waits |= later && args;
      r->args[n] = last == r->axis ? args : 0;
      r->may[n] = r->args[n] != 0;
    }
  }
}

// Finds the nodes that can be partial when loops are considered. Assumes first that all carries can
// be partial. Then excludes each carry whose next value cannot be, and repeats this until nothing
// changes.
static void find_loop_members(LinearRegions *r) {
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

static void connect_both(MinCut *c, uint32_t a, uint32_t b) {
  min_cut_edge(c, a, b, EDGE_UNLIMITED);
  min_cut_edge(c, b, a, EDGE_UNLIMITED);
}

// Adds edges to network c so that a carry, its next value and its final value are all partial sums
// or all full sums.
static void connect_loop(const LinearRegions *r, MinCut *c, NodeId u) {
  const Node *node = graph_node(r->g, u);
  if (node->op == OP_FINAL) {
    if (r->may[u]) connect_both(c, in_of(node->args[1]), in_of(u));
    return;
  }
  for (int i = 0; i < node->nargs; i++) {
    NodeId n = node->args[i], carry = r->p->graph->carry[u][i];
    if (!r->may[n]) continue;
    if (!carry || !r->may[carry]) {
      min_cut_edge(c, out_of(n), MIN_CUT_SINK, EDGE_UNLIMITED);
      continue;
    }
    connect_both(c, out_of(n), in_of(carry));
    min_cut_edge(c, in_of(carry), in_of(n), EDGE_UNLIMITED);
  }
}

static void connect_uses(const LinearRegions *r, MinCut *c, NodeId u) {
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
      min_cut_edge(c, out_of(n), MIN_CUT_SINK, EDGE_UNLIMITED);
    else if (!r->starts[u]) {
      min_cut_edge(c, out_of(n), in_of(u), EDGE_UNLIMITED);
      if (settled_split(r, n)) min_cut_edge(c, in_of(u), in_of(n), EDGE_UNLIMITED);
    }
  }
}

// Makes the network of the minimum cut. Vertex 2n is on the source side if node n is computed as a
// partial sum. Vertex 2n + 1 is on the source side if no user needs the full sum of n. Node ids
// begin at 1, so source and sink are vertices 0 and 1.
static MinCut *network(const LinearRegions *r, Arena *scratch) {
  MinCut *c = min_cut_new(scratch, 2 * (graph_count(r->g) + 1));
  for (NodeId n = 1; n <= graph_count(r->g); n++) {
    connect_uses(r, c, n);
    if (!r->may[n]) continue;
    if (r->starts[n]) min_cut_edge(c, MIN_CUT_SOURCE, in_of(n), EDGE_UNLIMITED);
    min_cut_edge(c, in_of(n), out_of(n), reduce_bytes(r, n));
  }
  for (uint32_t o = 0; o < r->g->output.n; o++)
    if (r->may[r->g->output.at[o].value])
      min_cut_edge(c, out_of(r->g->output.at[o].value), MIN_CUT_SINK, EDGE_UNLIMITED);
  return c;
}

static void make_partial(Placer *p, NodeId n, int axis, uint8_t args) {
  Sharding at = *p->result.computed[n];
  sharding_remove(&at, axis);
  axes_append(&at.partial, axis);
  at.partial = axes_sorted(at.partial);
  at.monoid = MONOID_SUM;
  place_compute(p, n, &at);
  p->linear[n * MAX_AXES + (uint32_t)axis] = args;
}

// Applies the minimum cut to n, which sums a dim that the axis splits. If the argument of n stays
// partial over the axis, n reads partial sums, and the axis no longer splits the summed dims.
static void sum_partial(const LinearRegions *r, const MinCut *c, NodeId n) {
  const Node *node = graph_node(r->g, n);
  if (!r->args[n] || !min_cut_on_source_side(c, in_of(node->args[0]))) return;
  for (int i = 0; i < node_inner(node); i++) axes_remove(&r->p->inner[n][i], r->axis);
  r->p->linear[n * MAX_AXES + (uint32_t)r->axis] = 1;
}

// Finds the minimum cut and makes the nodes on its source side partial.
static void apply(const LinearRegions *r, Arena *scratch) {
  MinCut *c = network(r, scratch);
  min_cut_run(c);
  for (NodeId u = 1; u <= graph_count(r->g); u++) {
    if (!r->may[u] || !min_cut_on_source_side(c, in_of(u))) continue;
    if (r->starts[u])
      sum_partial(r, c, u);
    else
      make_partial(r->p, u, r->axis, r->args[u]);
  }
}

// Decides for one axis. Returns false, and does nothing, if one of `left` is to be decided before.
static bool reduce_over(Placer *p, int axis, Axes left) {
  uint32_t n = graph_count(p->g) + 1;
  Arena *scratch = arena_new();
  LinearRegions r = {.p = p, .g = p->g, .axis = axis, .left = left};
  r.may = arena_array(scratch, bool, n);
  r.starts = arena_array(scratch, bool, n);
  r.args = arena_array(scratch, uint8_t, n);
  r.stays = arena_array(scratch, bool, n);
  find_loop_members(&r);
  p->waits |= r.waits;
  bool waits = r.waits && p->late;
  if (!waits) apply(&r, scratch);
  arena_free(scratch);
  return !waits;
}

void place_reductions(Placer *p) {
  const Mesh *mesh = p->g->mesh;
  Axes left = {0};
  for (int axis = 0; axis < mesh->naxes; axis++)
    if (mesh->axis[axis].size > 1) axes_append(&left, axis);
  while (left.n) {
    int i = 0;
    while (i < left.n && !reduce_over(p, left.at[i], left)) i++;
    if (i == left.n) reduce_over(p, left.at[i = 0], (Axes){0}); // each waits for another
    axes_remove(&left, left.at[i]);
  }
}
