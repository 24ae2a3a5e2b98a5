// Estimates the seconds that one processor takes to compute a node, from its shardings and the
// figures of the machine. The local search (place_improve.c) weighs with them redundant
// work against the bytes that it saves.
#include "partition/sharding/sharding_internal.h"

// Returns the elements of the arguments of n, each in the sharding in which n reads it.
static double elements_read(const Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  double sum = 0;
  for (int i = 0; i < node->nargs; i++) {
    Sharding need = read_sharding(p, n, i);
    sum += (double)sharding_elements(p->g, graph_node(p->g, node->args[i])->dims, &need);
  }
  return sum;
}

// A contraction takes its flops, and those that small products lose, at the rate of the type of its
// factors. The result of a node is written and read again; that of a pointwise node or a move is
// counted once, because a kernel computes several of them. A reduction or a scatter also reads its
// arguments.
double place_seconds(const Placer *p, NodeId n) {
  const Node *node = graph_node(p->g, n);
  const Machine *m = p->machine;
  OpClass cls = op_row((Op)node->op)->cls;
  double times = (double)region_times(p->g, node->region),
         result = (double)sharding_elements(p->g, node->dims, p->result.computed[n]);
  if (cls == CONTRACT)
    return (place_work(p, n) + 2 * m->half * (result + elements_read(p, n)) * times) /
           machine_flops(m, (Dtype)graph_node(p->g, node->args[0])->type);
  double moved = cls == POINTWISE || cls == MOVE ? result : 2 * result;
  if (cls == REDUCE || node->op == OP_SCATTER_ADD) moved += elements_read(p, n);
  return moved * dtype_bytes((Dtype)node->type) * times / m->memory_rate;
}
