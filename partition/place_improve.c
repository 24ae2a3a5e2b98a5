// Moves that pay for several nodes together: each is tried on the whole neighbourhood, and kept if that sends less.
//
// Nodes choose their states one by one, from what their arguments are. A move changes one choice, lets what follows
// from it choose again, and counts what all values concerned send before and after. A state that one user has
// paid for is free for the others, so that moves see what no node sees alone:
//
//   home    a sum is scattered because some of its users want it so: the others, a norm of gradients or the mean of a
//           row, go on in blocks
//   slot    a product, a lookup is cut along another dim, over which its arguments are exchanged (all_to_all), or
//           which others have them in already
//   gather  all users of a value choose as if it were there whole: three projections of one activation
//
//   q, k, v = contract(n[t/cols], w_i[heads/cols])   cut by t each would gather w_i and exchange its result;
//                                                    n is gathered once, all three are cut by heads
#include "partition/state.h"

#include <math.h>
#include <string.h>

enum { MAX_CHANGED = 96, MAX_COUNTED = 4 * MAX_CHANGED, MIN_TRIALS = 64 };
static const double SMALL = 1.0 / 256; // of all bytes, and of all work

typedef struct Change {
  NodeId n;
  State at, home;
  Axes *inner;
} Change;

// What a value sends before and after a trial.
typedef struct Counted {
  NodeId n;
  double before, after;
} Counted;

// The states of all nodes, as they stand in a plan.
typedef struct States {
  State *at, *home;
  Axes **inner;
  uint8_t *linear;
} States;

typedef struct Improve {
  Plan *p;
  const Graph *g;
  double weight[MAX_AXES]; // bytes over a slow axis count more
  Change old[2 * MAX_CHANGED];
  int nold;
  NodeId pending[MAX_CHANGED];
  int npending;
  uint8_t *terms;        // axes (bits) over which a node is a term, or a sum of terms, to begin with
  uint32_t *seen, round; // values that the present trial counts
  double total, *sent;   // bytes of all values, and of each, as things stand, sums where they are cheapest
  double call;           // bytes that take as long as another call; those of loops are never joined
  double least;          // bytes that a move has to save
  double spare;          // work that may still be done several times
  Counted counted[MAX_COUNTED];
  uint32_t trials, most; // so many are made
  bool kept;
} Improve;

// -- what a value sends ----------------------------------------------------------------------------------

// Who reads it how over one axis: whole, cut along dims (bits), or as terms.
typedef struct Needs {
  bool any, whole, shown;
  uint32_t cuts;
} Needs;

typedef struct Reads {
  Needs axis[MAX_AXES];
  double halo[MAX_RANK]; // elements beside the own block that windows read along a dim, as a share of it
} Reads;

static void add_need(Needs *x, const State *need, int ndims, int axis) {
  if (axes_has(need->partial, axis)) return;
  int k = state_cut_by(need, ndims, axis);
  x->any = true;
  if (k < 0) x->whole = true;
  else x->cuts |= 1u << k;
}

// What window u reads beside its own block of dim j of its argument, as a share of that.
static double halo_share(const Improve *m, NodeId u, int j, Axes cut) {
  const Node *node = graph_node(m->g, u);
  int64_t whole = dim_get(m->g->dims, graph_node(m->g, node->args[0])->dims.at[j])->size, own = block_length(m->g->mesh, whole, cut);
  Reach x = {.of_size = dim_get(m->g->dims, node->attr.to[0])->size, .tap_size = 1, .affine = node->attr.affine};
  x.of_axes = m->p->door.at[u].cut[dims_index(&node->dims, node->attr.to[0])];
  if (node->attr.nto > 1) x.tap_size = dim_get(m->g->dims, node->attr.to[1])->size;
  int64_t most = 0;
  for (int64_t k = 0; k < axes_size(m->g->mesh, x.of_axes); k++) {
    int64_t first, length;
    reach_interval(m->g->mesh, &x, whole, axes_peer(m->g->mesh, x.of_axes, 0, k), &first, &length);
    if (length > most) most = length;
  }
  return most > own ? (double)(most - own) / (double)own : 0;
}

// Conversions of what windows make of n go below them (lower_window.c): they are of n.
static void add_needs_behind(const Improve *m, NodeId n, NodeId window, Reads *r, int depth) {
  const Plan *p = m->p;
  const Node *node = graph_node(m->g, window);
  const Dims *dims = &graph_node(m->g, n)->dims;
  for (uint32_t i = p->graph->use_start[window]; i < p->graph->use_start[window + 1]; i++)
    for (int j = 0; j < graph_node(m->g, p->graph->use[i])->nargs; j++) {
      if (graph_node(m->g, p->graph->use[i])->args[j] != window) continue;
      State need = plan_need(p, p->graph->use[i], j);
      if (depth && graph_node(m->g, p->graph->use[i])->op == OP_WINDOW) add_needs_behind(m, n, p->graph->use[i], r, depth - 1);
      for (int a = 0; a < m->g->mesh->naxes; a++) {
        int have = state_cut_by(&p->door.reduced[window], node->dims.n, a), k = state_cut_by(&need, node->dims.n, a);
        if (have < 0 || k == have || dims_index(dims, node->dims.at[have]) < 0 || !plan_window_passes(node, node->dims.at[have])) continue;
        int at = k < 0 ? -1 : dims_index(dims, node->dims.at[k]);
        r->axis[a].any = true;
        if (at < 0) r->axis[a].whole = true;
        else r->axis[a].cuts |= 1u << at;
      }
    }
}

enum { MAX_WINDOWS = 4 }; // one behind the other

static void add_reader(const Improve *m, NodeId n, NodeId u, int i, Reads *r) {
  int ndims = graph_node(m->g, n)->dims.n;
  State need = plan_need(m->p, u, i);
  for (int a = 0; a < m->g->mesh->naxes; a++) add_need(&r->axis[a], &need, ndims, a);
  if (op_row((Op)graph_node(m->g, u)->op)->cls != WINDOW) return;
  for (int j = 0; j < ndims; j++) {
    if (!need.cut[j].n || !plan_role(m->p, u, i, j).reach) continue;
    double share = halo_share(m, u, j, need.cut[j]);
    if (share > r->halo[j]) r->halo[j] = share;
  }
  if (graph_node(m->g, u)->op == OP_WINDOW) add_needs_behind(m, n, u, r, MAX_WINDOWS);
}

static void find_needs(const Improve *m, NodeId n, Reads *r) {
  const Plan *p = m->p;
  int naxes = m->g->mesh->naxes, ndims = graph_node(m->g, n)->dims.n;
  memset(r, 0, sizeof *r);
  for (uint32_t i = p->graph->use_start[n]; i < p->graph->use_start[n + 1]; i++) {
    const Node *user = graph_node(m->g, p->graph->use[i]);
    if (i > p->graph->use_start[n] && p->graph->use[i] == p->graph->use[i - 1]) continue; // read twice by one
    for (int j = 0; j < user->nargs; j++)
      if (user->args[j] == n) add_reader(m, n, p->graph->use[i], j, r);
  }
  for (uint32_t o = m->p->graph->output[n]; o; o = m->p->graph->next_output[o]) {
    const Output *out = &m->g->output.at[o - 1];
    State need = plan_output_need(p, out);
    for (int a = 0; a < naxes; a++) {
      add_need(&r->axis[a], &need, ndims, a);
      r->axis[a].shown |= out->kind == OUT_VALUE;
    }
  }
}

static int count_bits(uint32_t x) {
  int n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}

// Shares of the bytes without the axis that it costs to read a value, cut along `from` (-1: whole), so.
static double spread_share(int from, bool whole, uint32_t cuts, double p) {
  if (from < 0) return 0;
  if (whole) return (p - 1) / p;
  return (p - 1) / p / p * count_bits(cuts & ~(1u << from));
}

// The same of terms.
static double sum_share(bool whole, uint32_t cuts, double p) {
  if (whole) return 2 * (p - 1) / p;
  return cuts ? (p - 1) / p * (1 + (count_bits(cuts) - 1) / p) : 0;
}

static bool adds_terms(const Improve *m, NodeId n, int axis) {
  const Node *node = graph_node(m->g, n);
  return axes_has(m->p->door.at[n].partial, axis) || (m->terms[n] >> axis & 1 && (node->op == OP_ADD || node->op == OP_SUB));
}

// A term, or a sum of terms, which is one too once it is known where sums are reduced.
static bool is_term(const Improve *m, NodeId n, int axis) {
  const Node *node = graph_node(m->g, n);
  if (axes_has(m->p->door.at[n].partial, axis)) return true;
  return adds_terms(m, n, axis) && adds_terms(m, node->args[0], axis) && adds_terms(m, node->args[1], axis);
}

// Only read by a sum of terms, which is reduced in its place.
static bool is_added(const Improve *m, NodeId n, int axis) {
  const Plan *p = m->p;
  if (p->graph->use_start[n + 1] != p->graph->use_start[n] + 1 || m->p->graph->output[n] || !is_term(m, n, axis)) return false;
  NodeId u = p->graph->use[p->graph->use_start[n]];
  return !axes_has(p->door.at[u].partial, axis) && is_term(m, u, axis);
}

static void find_terms(Improve *m) {
  for (NodeId n = 1; n <= graph_count(m->g); n++) {
    const Node *node = graph_node(m->g, n);
    for (int i = 0; i < m->p->door.at[n].partial.n; i++) m->terms[n] |= (uint8_t)(1u << m->p->door.at[n].partial.at[i]);
    if (node->op == OP_ADD || node->op == OP_SUB) m->terms[n] |= m->terms[node->args[0]] & m->terms[node->args[1]];
  }
}

static double axis_share(const Improve *m, NodeId n, int axis, const Needs *x) {
  const State *at = &m->p->door.at[n], *home = &m->p->door.reduced[n];
  int ndims = graph_node(m->g, n)->dims.n;
  double p = (double)m->g->mesh->axis[axis].size;
  int from = state_cut_by(at, ndims, axis), stop = state_cut_by(home, ndims, axis);
  bool terms = is_term(m, n, axis), one = x->whole ? !x->cuts : count_bits(x->cuts) == 1;
  if (!x->any || (terms && is_added(m, n, axis))) return 0;
  if (one && !x->shown) return terms ? sum_share(x->whole, x->cuts, p) : spread_share(from, x->whole, x->cuts, p);
  if (stop < 0) return terms ? 2 * (p - 1) / p : from < 0 ? 0 : (p - 1) / p;
  double first = terms ? (p - 1) / p : from >= 0 && from != stop ? (p - 1) / p / p : 0;
  return first + spread_share(stop, x->whole, x->cuts, p);
}

// Bytes of n over the axis, as if that did not cut it.
static double bytes_without(const Improve *m, NodeId n, int axis) {
  State s = m->p->door.at[n];
  state_remove(&s, graph_node(m->g, n)->dims.n, axis);
  return (double)state_bytes(m->g, n, &s) * (double)region_times(m->g, graph_node(m->g, n)->region);
}

// What windows hand on is converted below them.
static bool counts_below(const Improve *m, NodeId n, int axis) {
  const Node *node = graph_node(m->g, n);
  if (node->op != OP_WINDOW) return false;
  int k = state_cut_by(&m->p->door.reduced[n], node->dims.n, axis);
  return k >= 0 && !axes_has(m->p->door.at[n].partial, axis) && plan_window_passes(node, node->dims.at[k]);
}

static double halo_bytes(const Improve *m, NodeId n, const Reads *r) {
  double share = 0;
  for (int j = 0; j < graph_node(m->g, n)->dims.n; j++) share += r->halo[j];
  if (share <= 0) return 0;
  return share * (double)state_bytes(m->g, n, &m->p->door.reduced[n]) * (double)region_times(m->g, graph_node(m->g, n)->region);
}

// Sums over several axes that end together are one call.
static double joint_sums(const Improve *m, NodeId n, const Reads *r) {
  const Mesh *mesh = m->g->mesh;
  const State *at = &m->p->door.at[n];
  double group = 1, weight = 0, apart = 0;
  for (int i = 0; i < at->partial.n; i++) {
    int a = at->partial.at[i];
    double p = (double)mesh->axis[a].size;
    if (!r->axis[a].any || state_cut_by(&m->p->door.reduced[n], graph_node(m->g, n)->dims.n, a) >= 0 || !r->axis[a].whole) continue;
    group *= p, apart += 2 * (p - 1) / p;
    if (m->weight[a] > weight) weight = m->weight[a];
  }
  return weight * (2 * (group - 1) / group - apart) * bytes_without(m, n, at->partial.at[0]);
}

static double value_cost(const Improve *m, NodeId n) {
  Reads r;
  double cost = 0;
  int sums = 0;
  const Mesh *mesh = m->g->mesh;
  find_needs(m, n, &r);
  for (int a = 0; a < mesh->naxes; a++) {
    if (mesh->axis[a].size < 2 || counts_below(m, n, a)) continue;
    double share = axis_share(m, n, a, &r.axis[a]);
    if (share <= 0) continue;
    cost += m->weight[a] * share * bytes_without(m, n, a);
    if (graph_node(m->g, n)->region) cost += m->call * (double)region_times(m->g, graph_node(m->g, n)->region);
    sums += axes_has(m->p->door.at[n].partial, a);
  }
  if (sums > 1) cost += joint_sums(m, n, &r);
  return cost + halo_bytes(m, n, &r);
}

// Multiplications and additions of one processor for n.
static double work_of(const Improve *m, NodeId n) {
  const Node *node = graph_node(m->g, n);
  if (node->op != OP_CONTRACT) return 0;
  double flops = 2 * (double)state_elements(m->g, &node->dims, &m->p->door.at[n]) * (double)region_times(m->g, node->region);
  for (int i = 0; i < node->attr.ndims; i++)
    flops *= (double)block_length(m->g->mesh, dim_get(m->g->dims, node->attr.dims[i])->size, m->p->inner[n][i]);
  return flops;
}

// -- trials ----------------------------------------------------------------------------------------------

static bool save(Improve *m, NodeId n) {
  if (m->nold == 2 * MAX_CHANGED) return false;
  m->old[m->nold++] = (Change){n, m->p->door.at[n], m->p->door.reduced[n], m->p->inner[n]};
  return true;
}

static bool wait_for(Improve *m, NodeId u) {
  int i = 0;
  while (i < m->npending && m->pending[i] > u) i++; // descending: the next one is last
  if (i < m->npending && m->pending[i] == u) return true;
  if (m->npending == MAX_CHANGED) return false;
  memmove(&m->pending[i + 1], &m->pending[i], (size_t)(m->npending - i) * sizeof *m->pending);
  m->pending[i] = u;
  m->npending++;
  return true;
}

static bool wait_users(Improve *m, NodeId n) {
  for (uint32_t i = m->p->graph->use_start[n]; i < m->p->graph->use_start[n + 1]; i++)
    if (!wait_for(m, m->p->graph->use[i])) return false;
  return true;
}

static bool is_free(const Improve *m, NodeId u) {
  const Node *node = graph_node(m->g, u);
  return node->op != OP_CARRY && node->op != OP_PIN && node->op != OP_SCAN && op_row((Op)node->op)->cls != SOURCE;
}

// Handed out: it stays where it is.
static bool is_shown(const Improve *m, NodeId n) {
  for (uint32_t o = m->p->graph->output[n]; o; o = m->p->graph->next_output[o])
    if (m->g->output.at[o - 1].kind == OUT_VALUE) return true;
  return false;
}

// Chooses u again; its users too if that changes it. False when that is too much.
static bool choose_node(Improve *m, NodeId u) {
  Plan *p = m->p;
  if (!is_free(m, u)) return true;
  State at = p->door.at[u], home = p->door.reduced[u];
  Axes *inner = p->inner[u];
  int ndims = graph_node(m->g, u)->dims.n;
  plan_choose_again(p, u);
  bool moved = !state_equal(&home, &p->door.reduced[u], ndims);
  bool same = !moved && state_equal(&at, &p->door.at[u], ndims);
  State new_at = p->door.at[u], new_home = p->door.reduced[u];
  Axes *new_inner = p->inner[u];
  p->door.at[u] = at, p->door.reduced[u] = home, p->inner[u] = inner;
  if (same) return true;
  if ((moved && is_shown(m, u)) || !save(m, u)) return false;
  p->door.at[u] = new_at, p->door.reduced[u] = new_home, p->inner[u] = new_inner;
  return !moved || wait_users(m, u);
}

// What all users want cut is computed so, as far back as that goes.
static bool pull_back(Improve *m, NodeId n) {
  Plan *p = m->p;
  if (!is_free(m, n) || is_shown(m, n)) return true;
  Change before = {n, p->door.at[n], p->door.reduced[n], p->inner[n]};
  int ndims = graph_node(m->g, n)->dims.n;
  plan_pull_back(p, n);
  if (state_equal(&before.home, &p->door.reduced[n], ndims) && state_equal(&before.at, &p->door.at[n], ndims)) return true;
  if (m->nold == 2 * MAX_CHANGED) {
    p->door.at[n] = before.at, p->door.reduced[n] = before.home;
    return false;
  }
  m->old[m->nold++] = before;
  return true;
}

// All that waits chooses again, in order.
static bool spread(Improve *m) {
  while (m->npending > 0)
    if (!choose_node(m, m->pending[--m->npending])) return false;
  return true;
}

static bool follow(Improve *m) {
  if (!spread(m)) return false;
  for (int i = m->nold - 1; i >= 0; i--)
    if (!pull_back(m, m->old[i].n)) return false;
  for (int i = 0; i < m->nold; i++)
    for (int a = 0; a < graph_node(m->g, m->old[i].n)->nargs; a++)
      if (!pull_back(m, graph_node(m->g, m->old[i].n)->args[a])) return false;
  return true;
}

// What the trial concerns: what it changed, and the arguments of that.
static int find_counted(Improve *m, Counted *list) {
  int n = 0;
  m->round++;
  for (int i = 0; i < m->nold; i++) {
    const Node *node = graph_node(m->g, m->old[i].n);
    for (int a = -1; a < node->nargs; a++) {
      NodeId v = a < 0 ? m->old[i].n : node->args[a];
      if (m->seen[v] == m->round) continue;
      if (n == MAX_COUNTED) return -1;
      m->seen[v] = m->round;
      list[n++].n = v;
    }
  }
  return n;
}

static double work_of_changed(Improve *m) {
  double sum = 0;
  m->round++;
  for (int i = 0; i < m->nold; i++) {
    if (m->seen[m->old[i].n] == m->round) continue;
    m->seen[m->old[i].n] = m->round;
    sum += work_of(m, m->old[i].n);
  }
  return sum;
}

// Exchanges the states of now and before. A node may stand there twice.
static void swap_states(Improve *m, bool back) {
  for (int k = 0; k < m->nold; k++) {
    Change *c = &m->old[back ? m->nold - 1 - k : k];
    Change now = {c->n, m->p->door.at[c->n], m->p->door.reduced[c->n], m->p->inner[c->n]};
    m->p->door.at[c->n] = c->at, m->p->door.reduced[c->n] = c->home, m->p->inner[c->n] = c->inner;
    *c = now;
  }
}

static bool is_changed(const Improve *m, NodeId n) {
  for (int i = 0; i < m->nold; i++)
    if (m->old[i].n == n) return true;
  return false;
}

// Bytes that a trial saves. A sum that went on as terms cost nothing here, and what it was summed as did: what a
// value has sent is what it sends at its best.
static double saved_bytes(const Improve *m, const Counted *list, int n) {
  double saved = 0;
  for (int i = 0; i < n; i++)
    if (list[i].before != list[i].after || is_changed(m, list[i].n)) saved += m->sent[list[i].n] - list[i].after;
  return saved;
}

static void keep(Improve *m, const Counted *list, int n) {
  swap_states(m, false);
  for (int i = 0; i < n; i++)
    if (list[i].before != list[i].after || is_changed(m, list[i].n)) m->sent[list[i].n] = list[i].after;
  m->kept = true;
}

// Ends a trial: keeps what it changed if that costs less.
static bool decide(Improve *m, bool good) {
  Counted *list = m->counted;
  bool kept = false;
  int n = 0;
  good = good && follow(m) && (n = find_counted(m, list)) > 0;
  if (good) {
    double work = work_of_changed(m);
    for (int i = 0; i < n; i++) list[i].after = value_cost(m, list[i].n);
    swap_states(m, true);
    for (int i = 0; i < n; i++) list[i].before = value_cost(m, list[i].n);
    work -= work_of_changed(m);
    kept = saved_bytes(m, list, n) > m->least && work <= m->spare;
    if (kept) m->spare -= work, keep(m, list, n);
  } else if (m->nold > 0) {
    swap_states(m, true);
  }
  m->nold = m->npending = 0;
  m->trials++;
  return kept;
}

// -- moves -----------------------------------------------------------------------------------------------

static bool has_room(const Improve *m) { return m->trials < m->most; }

// Cuts dim k of n at home over the axis; what is no sum is computed so.
static bool move_home(Improve *m, NodeId n, int axis, int k) {
  Plan *p = m->p;
  State *at = &p->door.at[n], *home = &p->door.reduced[n];
  Axes cut = home->cut[k];
  axes_append(&cut, axis);
  if (!axes_has(at->partial, axis) && !axes_equal(cut_allowed(m->g, n, k, cut), cut)) return false;
  if (!save(m, n)) return false;
  home->cut[k] = cut;
  if (!axes_has(at->partial, axis) && axes_starts(cut, at->cut[k])) at->cut[k] = cut;
  return decide(m, wait_users(m, n));
}

// Dims of n (bits) that a user wants cut, or, behind pointwise work, one of its users.
static uint32_t wanted_cuts(const Improve *m, NodeId n, int axis, bool *whole) {
  const Plan *p = m->p;
  const Dims *dims = &graph_node(m->g, n)->dims;
  Reads r;
  find_needs(m, n, &r);
  uint32_t cuts = r.axis[axis].cuts;
  *whole = r.axis[axis].whole;
  for (uint32_t i = p->graph->use_start[n]; i < p->graph->use_start[n + 1]; i++) {
    const Node *user = graph_node(m->g, p->graph->use[i]);
    if (op_row((Op)user->op)->cls != POINTWISE) continue;
    find_needs(m, p->graph->use[i], &r);
    for (int k = 0; k < user->dims.n; k++) {
      int at = dims_index(dims, user->dims.at[k]);
      if (at >= 0 && r.axis[axis].cuts >> k & 1) cuts |= 1u << at;
    }
  }
  return cuts;
}

// As any of its users wants it.
static void try_homes(Improve *m, NodeId n, int axis) {
  const Plan *p = m->p;
  const Node *node = graph_node(m->g, n);
  bool whole;
  if (node->attr.decl || !is_free(m, n) || is_shown(m, n) || state_cut_by(&p->door.reduced[n], node->dims.n, axis) >= 0) return;
  uint32_t cuts = wanted_cuts(m, n, axis, &whole);
  for (int k = 0; k < node->dims.n && whole && has_room(m); k++)
    if (cuts >> k & 1 && !p->wish[n]->whole[k] && move_home(m, n, axis, k)) return;
}

static bool has_slots(const Improve *m, NodeId u) {
  OpClass cls = op_row((Op)graph_node(m->g, u)->op)->cls;
  return cls == CONTRACT || cls == GATHER;
}

static int slot_now(const Improve *m, NodeId u, int axis) {
  const Node *node = graph_node(m->g, u);
  for (int i = 0; i < node_inner(node); i++)
    if (axes_has(m->p->inner[u][i], axis)) return node->dims.n + i;
  return state_cut_by(&m->p->door.at[u], node->dims.n, axis);
}

static bool can_cut(const Improve *m, NodeId u, int axis, int slot) {
  const Node *node = graph_node(m->g, u);
  Axes one = {.n = 1, .at = {(uint8_t)axis}};
  if (slot < 0) return true;
  int64_t parts = m->g->mesh->axis[axis].size;
  if (slot >= node->dims.n) return dim_get(m->g->dims, node->attr.dims[slot - node->dims.n])->size >= parts;
  return !m->p->wish[u]->whole[slot] && cut_allowed(m->g, u, slot, one).n && dim_get(m->g->dims, node->dims.at[slot])->size >= parts;
}

static bool move_slot(Improve *m, NodeId u, int axis, int slot) {
  uint8_t *forced = &m->p->forced[u * MAX_AXES + (uint32_t)axis], before = *forced;
  *forced = (uint8_t)(slot + 2);
  bool kept = decide(m, choose_node(m, u));
  if (!kept) *forced = before;
  return kept;
}

static void try_slots(Improve *m, NodeId u, int axis) {
  const Node *node = graph_node(m->g, u);
  int now = slot_now(m, u, axis);
  for (int s = -1; s < node->dims.n + node_inner(node) && has_room(m); s++)
    if (s != now && can_cut(m, u, axis, s) && move_slot(m, u, axis, s)) return;
}

// All users of n choose as if n were whole.
static void try_gather(Improve *m, NodeId n, int axis) {
  Plan *p = m->p;
  p->as_gathered = n, p->gathered_axis = axis;
  bool good = wait_users(m, n) && spread(m);
  p->as_gathered = 0;
  if (!decide(m, good)) return;
  for (uint32_t i = p->graph->use_start[n]; i < p->graph->use_start[n + 1]; i++)
    if (has_slots(m, p->graph->use[i])) p->forced[p->graph->use[i] * MAX_AXES + (uint32_t)axis] = (uint8_t)(slot_now(m, p->graph->use[i], axis) + 2);
}

// What u and its arguments send is worth trials.
static bool is_hot(const Improve *m, NodeId u) {
  const Node *node = graph_node(m->g, u);
  double sum = value_cost(m, u);
  for (int i = 0; i < node->nargs && sum <= m->least; i++) sum += value_cost(m, node->args[i]);
  return sum > m->least;
}

static void improve_axis(Improve *m, int axis) {
  const Graph *g = m->g;
  const Plan *p = m->p;
  double least = fmax(SMALL * m->total, m->call);
  m->least = 0; // no call more
  for (NodeId n = graph_count(g); n > 0 && has_room(m); n--) {
    if (!is_term(m, n, axis)) continue;
    try_homes(m, n, axis);
    for (uint32_t i = p->graph->use_start[n]; i < p->graph->use_start[n + 1] && has_room(m); i++)
      if (op_row((Op)graph_node(g, p->graph->use[i])->op)->cls == POINTWISE) try_homes(m, p->graph->use[i], axis);
  }
  m->least = least;
  for (NodeId n = 1; n <= graph_count(g) && has_room(m); n++)
    if (p->graph->use_start[n + 1] > p->graph->use_start[n] + 1 && state_cut_by(&p->door.reduced[n], graph_node(g, n)->dims.n, axis) >= 0 &&
        value_cost(m, n) > m->least) try_gather(m, n, axis);
  for (NodeId n = 1; n <= graph_count(g) && has_room(m); n++)
    if (has_slots(m, n) && is_hot(m, n)) try_slots(m, n, axis);
}

// Room for other states of all nodes, which begin as those of p.
static States copy_states(const Plan *p) {
  uint32_t n = graph_count(p->door.graph) + 1;
  States s = {arena_copy(p->arena, p->door.at, n * sizeof *s.at), arena_copy(p->arena, p->door.reduced, n * sizeof *s.home),
              arena_array(p->arena, Axes *, n), arena_array(p->arena, uint8_t, (size_t)n * MAX_AXES)};
  for (NodeId u = 1; u < n; u++) {
    int inner = node_inner(graph_node(p->door.graph, u));
    if (p->inner[u]) s.inner[u] = arena_copy(p->arena, p->inner[u], (size_t)inner * sizeof(Axes));
  }
  return s;
}

static void exchange_states(Plan *p, States *s) {
  States now = {p->door.at, p->door.reduced, p->inner, p->linear};
  p->door.at = s->at, p->door.reduced = s->home, p->inner = s->inner, p->linear = s->linear;
  *s = now;
}

static double all_costs(Improve *m, double *sent) {
  double sum = 0;
  for (NodeId n = 1; n <= graph_count(m->g); n++) sum += sent[n] = value_cost(m, n);
  return sum;
}

// Weighted bytes of all collectives of the program that p leads to.
static double lowered_bytes(Plan *p) {
  Arena *scratch = arena_new();
  const Graph *lowered = collectives_share(scratch, lower(scratch, &p->door));
  double sum = 0;
  CollKind kind;
  for (NodeId n = 1; n <= graph_count(lowered); n++) {
    const Node *node = graph_node(lowered, n);
    if (coll_of((Op)node->op, &kind))
      sum += coll_weight(p->machine, lowered->mesh, kind, node->attr.axes, coll_call_bytes(lowered, &n, 1)) * (double)region_times(lowered, node->region);
  }
  arena_free(scratch);
  return sum;
}

void plan_improve(Plan *p) {
  const Graph *g = p->door.graph;
  uint32_t n = graph_count(g) + 1;
  States start = copy_states(p);
  plan_finish(p);
  Arena *scratch = arena_new();
  Improve *m = arena_new_of(scratch, Improve);
  *m = (Improve){.p = p, .g = g, .seen = arena_array(scratch, uint32_t, n), .terms = arena_array(scratch, uint8_t, n), .sent = arena_array(scratch, double, n)};
  m->call = p->machine->latency * p->machine->bandwidth;
  for (int a = 0; a < g->mesh->naxes; a++) m->weight[a] = p->machine->bandwidth / machine_link(p->machine, g->mesh->axis[a].name).bandwidth;
  m->total = all_costs(m, m->sent);
  m->most = MIN_TRIALS + n / 2;
  if (m->total > 0) {
    exchange_states(p, &start);
    find_terms(m);
    for (NodeId u = 1; u < n; u++) m->spare += SMALL * work_of(m, u);
    for (int a = 0; a < g->mesh->naxes; a++)
      if (g->mesh->axis[a].size > 1) improve_axis(m, a);
    if (m->kept) plan_finish(p);
    double bytes = m->kept ? lowered_bytes(p) : 0;
    exchange_states(p, &start);
    if (m->kept && bytes < lowered_bytes(p)) exchange_states(p, &start);
  }
  arena_free(scratch);
}
