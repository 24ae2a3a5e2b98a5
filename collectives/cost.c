// What collectives move and cost: wire bytes of the best ring, and seconds by latency and bandwidth
// (reference: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
// MPICH", 2005).
#include "collectives/collectives.h"

bool coll_of(Op op, CollKind *out) {
  static const struct { Op op; CollKind kind; } row[] = {
      {OP_ALL_REDUCE, COLL_ALL_REDUCE}, {OP_ALL_GATHER, COLL_ALL_GATHER},
      {OP_REDUCE_SCATTER, COLL_REDUCE_SCATTER}, {OP_ALL_TO_ALL, COLL_ALL_TO_ALL},
      {OP_PERMUTE, COLL_PERMUTE},
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

int64_t coll_node_bytes(const Graph *g, NodeId n) {
  const Node *node = graph_node(g, n);
  return node_bytes(g, node->op == OP_ALL_GATHER ? n : node->args[0]);
}

double coll_seconds(const Machine *machine, CollKind k, int64_t group, int64_t bytes) {
  if (group <= 1) return 0;
  double sent = (double)coll_wire_bytes(k, group, bytes);
  return machine->latency * ring[k].rounds + sent / machine->bandwidth;
}
