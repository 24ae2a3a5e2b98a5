// What collectives move and cost: wire bytes of the best ring, and seconds by latency and bandwidth
// (reference: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
// MPICH", 2005).
#include "collectives/collectives.h"

bool coll_of(Op op, CollKind *out) {
  static const struct { Op op; CollKind kind; } row[] = {
      {OP_ALL_REDUCE, COLL_ALL_REDUCE}, {OP_ALL_GATHER, COLL_ALL_GATHER},
      {OP_REDUCE_SCATTER, COLL_REDUCE_SCATTER}, {OP_ALL_TO_ALL, COLL_ALL_TO_ALL},
      {OP_PERMUTE, COLL_PERMUTE},       {OP_HALO, COLL_PERMUTE},
  };
  for (size_t i = 0; i < countof(row); i++)
    if (row[i].op == op) {
      *out = row[i].kind;
      return true;
    }
  return false;
}

// Share of the bytes that a ring of n sends: times (n-1)/n, or whole for permute.
static const struct { int rounds; bool whole; } ring[COLL_COUNT] = {
    [COLL_ALL_REDUCE] = {2, false},     [COLL_ALL_GATHER] = {1, false}, [COLL_REDUCE_SCATTER] = {1, false},
    [COLL_ALL_TO_ALL] = {1, false},     [COLL_PERMUTE] = {1, true},
};

int64_t coll_wire_bytes(CollKind k, int64_t group, int64_t bytes) {
  if (group <= 1) return 0;
  if (ring[k].whole) return bytes;
  int64_t each = bytes / group, rest = bytes % group; // bytes * (group-1) might not fit
  return ring[k].rounds * each * (group - 1) + ceil_div(ring[k].rounds * rest * (group - 1), group);
}

static int64_t common(int64_t a, int64_t na, int64_t b, int64_t nb) {
  int64_t lo = a > b ? a : b, hi = a + na < b + nb ? a + na : b + nb;
  return hi > lo ? hi - lo : 0;
}

// Elements along dims[0] that processor `from` sends to all others of its group: those that they read and it
// holds. Of replicas each serves those with its own coordinates on the axes that do not cut the source.
static int64_t halo_sent(const Graph *g, const Node *n, int64_t from) {
  DimId have = n->attr.dims[0], reach = n->attr.to[0];
  Axes cut = dim_get(g->dims, have)->axes, group = n->attr.axes;
  int64_t whole = dim_get(g->dims, dim_get(g->dims, have)->whole)->size, sent = 0;
  int64_t first = dim_offset(g->dims, g->mesh, have, from), valid = dim_valid(g->dims, g->mesh, have, from, whole);
  for (int64_t k = 0; k < axes_size(g->mesh, group); k++) {
    int64_t to = axes_peer(g->mesh, group, from, k);
    bool serves = to != from;
    for (int i = 0; i < group.n; i++)
      if (!axes_has(cut, group.at[i]))
        serves &= mesh_coord(g->mesh, to, group.at[i]) == mesh_coord(g->mesh, from, group.at[i]);
    if (serves)
      sent += common(first, valid, dim_offset(g->dims, g->mesh, reach, to), dim_valid(g->dims, g->mesh, reach, to, whole));
  }
  return sent;
}

static int64_t halo_bytes(const Graph *g, NodeId n) {
  const Node *node = graph_node(g, n);
  int64_t most = 0;
  for (int64_t k = 0; k < axes_size(g->mesh, node->attr.axes); k++) {
    int64_t sent = halo_sent(g, node, axes_peer(g->mesh, node->attr.axes, 0, k));
    if (sent > most) most = sent;
  }
  return node_bytes(g, n) / dim_get(g->dims, node->attr.to[0])->size * most;
}

int64_t coll_node_bytes(const Graph *g, NodeId n) {
  const Node *node = graph_node(g, n);
  if (node->op == OP_HALO) return halo_bytes(g, n);
  return node_bytes(g, node->op == OP_ALL_GATHER ? n : node->args[0]);
}

double coll_seconds(const Machine *machine, CollKind k, int64_t group, int64_t bytes) {
  if (group <= 1) return 0;
  double sent = (double)coll_wire_bytes(k, group, bytes);
  return machine->latency * ring[k].rounds + sent / machine->bandwidth;
}
