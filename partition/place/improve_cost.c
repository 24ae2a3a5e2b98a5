// Estimates the bytes that one value sends, from its shardings and those of its users alone. After
// a change the local search (place_improve.c) therefore estimates only the changed nodes and their
// arguments. The estimate assumes that partial sums are reduced where that is cheapest, and that a
// conversion that several users need is sent once.
#include "partition/place/improve_internal.h"

#include <string.h>

// Records in *x that users read a value with its dim k split over one axis, or replicated over the
// axis if k is -1.
static void add_dim(Needs *x, int k) {
  x->any = true;
  if (k < 0)
    x->replicated = true;
  else
    x->splits |= 1u << k;
}

// Returns the elements that window u reads beyond a block of dim j of its argument, as a share of
// the block. `split`: the axes that split dim j. The processor that reads most counts.
static double halo_share(const Improve *m, NodeId u, int j, Axes split) {
  const Node *node = graph_node(m->g, u);
  int64_t whole = dim_get(m->g->dims, graph_node(m->g, node->args[0])->dims->at[j])->size,
          own = block_length(m->g->mesh, whole, split);
  Footprint x = window_footprint(m->p, u);
  x.tap_axes = (Axes){0}; // the estimate ignores splits of the positions within a window (taps)
  int64_t most = 0;
  for (int64_t k = 0; k < axes_size(m->g->mesh, x.out_axes); k++) {
    int64_t first, length;
    footprint_interval(m->g->mesh, &x, whole, axes_peer(m->g->mesh, x.out_axes, 0, k), &first,
                       &length);
    if (length > most) most = length;
  }
  return most > own ? (double)(most - own) / (double)own : 0;
}

// Adds to *r the ways in which users read the result of `window`, a window over n. Lowering
// converts n instead of that result (lower_window.c). `depth`: how many further windows to follow.
static void add_needs_behind(const Improve *m, NodeId n, NodeId window, Reads *r, int depth) {
  const Placer *p = m->p;
  const Node *node = graph_node(m->g, window);
  const Dims *dims = graph_node(m->g, n)->dims;
  for (const Read *u = reads_of(p, window); u->node; u++) {
    Sharding need = need_of(p, u);
    if (depth && graph_node(m->g, u->node)->op == OP_WINDOW)
      add_needs_behind(m, n, u->node, r, depth - 1);
    for (int a = 0; a < m->g->mesh->naxes; a++) {
      int have = settled_dim(p, window, a), k = sharding_dim_of(&need, a);
      if (have < 0 || k == have || dims_index(dims, node->dims->at[have]) < 0 ||
          !window_passes_dim(node, node->dims->at[have]))
        continue;
      add_dim(&r->axis[a], k < 0 ? -1 : dims_index(dims, node->dims->at[k]));
    }
  }
}

enum { MAX_WINDOWS = 4 }; // depth to which windows of windows are followed

static void add_window(const Improve *m, NodeId n, const Read *u, const Sharding *need, Reads *r) {
  for (int j = 0; j < graph_node(m->g, n)->dims->n; j++) {
    if (!need->split[j].n || !placed_role(m->p, u->node, u->arg, j).halo) continue;
    double share = halo_share(m, u->node, j, need->split[j]);
    if (share > r->halo[j]) r->halo[j] = share;
  }
  if (graph_node(m->g, u->node)->op == OP_WINDOW) add_needs_behind(m, n, u->node, r, MAX_WINDOWS);
}

static void add_need(const Improve *m, const Sharding *need, Reads *r) {
  for (int a = 0; a < m->g->mesh->naxes; a++)
    if (!axes_has(need->partial, a)) add_dim(&r->axis[a], sharding_dim_of(need, a));
}

// Adds the way in which node u reads its argument i. This is what need_of says, without a sharding
// being made: most readers are neither windows nor in a graph with loops.
static void add_reader(const Improve *m, NodeId u, int i, Reads *r) {
  const Placer *p = m->p;
  const Sharding *at = p->result.computed[u];
  int8_t dim[MAX_AXES];
  memset(dim, -1, sizeof dim);
  for (int j = 0; j < placed_rank(p, u, i); j++) {
    DimRole x = placed_role(p, u, i, j);
    if (x.kind == ROLE_FULL) continue;
    const Axes *split = x.kind == ROLE_KEEP ? &at->split[x.at] : &p->inner[u][x.at];
    for (int k = 0; k < split->n; k++)
      if (dim[split->at[k]] < 0) dim[split->at[k]] = (int8_t)j;
  }
  for (int a = 0; a < m->g->mesh->naxes; a++)
    if (!(p->linear[u * MAX_AXES + (uint32_t)a] >> i & 1)) add_dim(&r->axis[a], dim[a]);
}

// Returns whether add_reader knows how the node or the output reads a value.
static bool is_plain(const Improve *m, const Read *u) {
  return u->node && !m->g->region.n && op_row((Op)graph_node(m->g, u->node)->op)->cls != WINDOW;
}

void improve_needs(const Improve *m, NodeId n, Reads *r) {
  const Crowd *crowd = crowd_of(m->p, n);
  memset(r, 0, sizeof *r);
  for (uint32_t i = 0; crowd && i < crowd->asked.n; i++)
    if (crowd->asked.at[i].n) add_need(m, &crowd->asked.at[i].need, r);
  for (const Read *u = reads_of(m->p, n) + (crowd ? crowd->n : 0); u->node || u->output; u++) {
    if (is_plain(m, u)) {
      add_reader(m, u->node, u->arg, r);
      continue;
    }
    Sharding need = need_of(m->p, u);
    add_need(m, &need, r);
    for (int a = 0; a < m->g->mesh->naxes && u->output; a++)
      r->axis[a].shown |= m->g->output.at[u->output - 1].kind == OUT_VALUE;
    if (u->node && op_row((Op)graph_node(m->g, u->node)->op)->cls == WINDOW)
      add_window(m, n, u, &need, r);
  }
}

// Returns the bytes that one of p processors sends for users that read a value replicated
// (`replicated`) or split along dims (bits of `splits`). The axis splits dim `from` of the value
// (-1: none). Unit: the bytes of a block that is not split over the axis.
static double spread_share(int from, bool replicated, uint32_t splits, double p) {
  if (from < 0) return 0;
  if (replicated) return coll_sent_share(COLL_ALL_GATHER, p);
  return coll_sent_share(COLL_ALL_TO_ALL, p) / p * count_bits(splits & ~(1u << from));
}

// Returns the bytes that one of p processors sends to sum a value that is partial over an axis.
// Users read the sum replicated, or split along dims (bits of `splits`). Unit: the bytes of a block
// that is not split over the axis.
static double sum_share(bool replicated, uint32_t splits, double p) {
  if (replicated) return coll_sent_share(COLL_ALL_REDUCE, p);
  return splits ? coll_sent_share(COLL_REDUCE_SCATTER, p) * (1 + (count_bits(splits) - 1) / p) : 0;
}

static bool adds_partial(const Improve *m, NodeId n, int axis) {
  const Node *node = graph_node(m->g, n);
  return axes_has(m->p->result.computed[n]->partial, axis) ||
         (m->partial[n] >> axis & 1 && (node->op == OP_ADD || node->op == OP_SUB));
}

bool improve_is_partial(const Improve *m, NodeId n, int axis) {
  const Node *node = graph_node(m->g, n);
  if (axes_has(m->p->result.computed[n]->partial, axis)) return true;
  return adds_partial(m, n, axis) && adds_partial(m, node->args[0], axis) &&
         adds_partial(m, node->args[1], axis);
}

// Returns whether n is partial over the axis and its only reader is an addition that may stay
// partial. The result of the addition is then reduced instead of n.
static bool is_added(const Improve *m, NodeId n, int axis) {
  const Read *r = reads_of(m->p, n);
  return r->node && !r[1].node && !r[1].output && improve_is_partial(m, n, axis) &&
         !axes_has(m->p->result.computed[r->node]->partial, axis) &&
         improve_is_partial(m, r->node, axis);
}

void improve_partial(Improve *m) {
  for (NodeId n = 1; n <= graph_count(m->g); n++) {
    const Node *node = graph_node(m->g, n);
    for (int i = 0; i < m->p->result.computed[n]->partial.n; i++)
      m->partial[n] |= (uint8_t)(1u << m->p->result.computed[n]->partial.at[i]);
    if (node->op == OP_ADD || node->op == OP_SUB)
      m->partial[n] |= m->partial[node->args[0]] & m->partial[node->args[1]];
  }
}

static double axis_share(const Improve *m, NodeId n, int axis, const Needs *x) {
  double p = (double)m->g->mesh->axis[axis].size;
  int from = computed_dim(m->p, n, axis), stop = settled_dim(m->p, n, axis);
  bool partial = improve_is_partial(m, n, axis),
       one = x->replicated ? !x->splits : count_bits(x->splits) == 1;
  if (!x->any || (partial && is_added(m, n, axis))) return 0;
  if (!partial && from < 0) return 0; // readers slice what every processor has
  if (one && !x->shown)
    return partial ? sum_share(x->replicated, x->splits, p)
                   : spread_share(from, x->replicated, x->splits, p);
  if (stop < 0) return partial ? sum_share(true, 0, p) : spread_share(from, true, 0, p);
  double first = partial                     ? sum_share(false, 1, p)
                 : from >= 0 && from != stop ? coll_sent_share(COLL_ALL_TO_ALL, p) / p
                                             : 0;
  return first + spread_share(stop, x->replicated, x->splits, p);
}

// Returns the bytes that a block of n would have without the split over the axis, times the steps
// of the loop that contains n.
static double bytes_without(const Improve *m, NodeId n, int axis) {
  Sharding s = *m->p->result.computed[n];
  sharding_remove(&s, axis);
  return (double)sharding_bytes(m->g, n, &s) *
         (double)region_times(m->g, graph_node(m->g, n)->region);
}

// Returns whether the estimate for window n leaves out conversions over the axis. Lowering converts
// the source of the window instead, and the estimate for the source counts these conversions.
static bool counts_below(const Improve *m, NodeId n, int axis) {
  const Node *node = graph_node(m->g, n);
  if (node->op != OP_WINDOW) return false;
  int k = settled_dim(m->p, n, axis);
  return k >= 0 && !axes_has(m->p->result.computed[n]->partial, axis) &&
         window_passes_dim(node, node->dims->at[k]);
}

static double halo_bytes(const Improve *m, NodeId n, const Reads *r) {
  double share = 0;
  for (int j = 0; j < graph_node(m->g, n)->dims->n; j++) share += r->halo[j];
  if (share <= 0) return 0;
  return share * (double)sharding_bytes(m->g, n, m->p->result.settled[n]) *
         (double)region_times(m->g, graph_node(m->g, n)->region);
}

// Returns a correction in weighted bytes, a negative number, for a value that is partial over
// several axes. One all_reduce over all these axes sends less than one all_reduce for each axis.
static double joint_sums(const Improve *m, NodeId n, const Reads *r) {
  const Mesh *mesh = m->g->mesh;
  const Sharding *at = m->p->result.computed[n];
  double group = 1, weight = 0, apart = 0;
  for (int i = 0; i < at->partial.n; i++) {
    int a = at->partial.at[i];
    double p = (double)mesh->axis[a].size;
    if (!r->axis[a].any || settled_dim(m->p, n, a) >= 0 || !r->axis[a].replicated) continue;
    group *= p, apart += coll_sent_share(COLL_ALL_REDUCE, p);
    if (m->weight[a] > weight) weight = m->weight[a];
  }
  return weight * (coll_sent_share(COLL_ALL_REDUCE, group) - apart) *
         bytes_without(m, n, at->partial.at[0]);
}

// Returns whether each processor computes all of n and all users read all of it, so that nothing is
// sent. Constants with many users are found here, without a look at each user.
static bool sends_nothing(const Improve *m, NodeId n) {
  const Mesh *mesh = m->g->mesh;
  for (int a = 0; a < mesh->naxes; a++)
    if (mesh->axis[a].size > 1 && (computed_dim(m->p, n, a) >= 0 || settled_dim(m->p, n, a) >= 0 ||
                                   improve_is_partial(m, n, a)))
      return false;
  return true;
}

Sent improve_cost(const Improve *m, NodeId n) {
  Reads r;
  Sent out = {0};
  int sums = 0;
  const Mesh *mesh = m->g->mesh;
  if (sends_nothing(m, n)) return out;
  bool loop = graph_node(m->g, n)->region != 0;
  improve_needs(m, n, &r);
  for (int a = 0; a < mesh->naxes; a++) {
    if (mesh->axis[a].size < 2 || counts_below(m, n, a)) continue;
    double share = axis_share(m, n, a, &r.axis[a]);
    if (share <= 0) continue;
    out.bytes += m->weight[a] * share * bytes_without(m, n, a);
    if (loop)
      out.bytes += m->call * (double)region_times(m->g, graph_node(m->g, n)->region);
    else
      out.latency += m->p->machine->latency;
    sums += axes_has(m->p->result.computed[n]->partial, a);
  }
  if (sums > 1) out.bytes += joint_sums(m, n, &r);
  double halo = halo_bytes(m, n, &r);
  out.bytes += halo;
  if (!loop && halo > 0) out.latency += m->p->machine->latency;
  return out;
}

// Returns whether a window reads n: only windows read halos.
static bool has_window(const Improve *m, NodeId n) {
  for (const Read *u = reads_of(m->p, n); u->node; u++)
    if (op_row((Op)graph_node(m->g, u->node)->op)->cls == WINDOW) return true;
  return false;
}

double improve_halo(const Improve *m, NodeId n) {
  Reads r;
  if (sends_nothing(m, n) || !has_window(m, n)) return 0;
  improve_needs(m, n, &r);
  return halo_bytes(m, n, &r);
}
