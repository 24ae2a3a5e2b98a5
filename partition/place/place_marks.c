// Sets the marks of `checkpoint` aside while values are placed. A mark only says that a value is
// kept for the backward pass, so a placement must be the same with it and without it: else sums
// would round otherwise in a model that recomputes values.
//
// The placed graph has the nodes of the whole one, with the same ids. The users of a mark read the
// value that it marks, and nothing reads the mark. Lowering marks that value again where its
// readers find it (place_is_kept).
//
//   %4 = tanh(%3)   %5 = checkpoint(%4)   %6 = sin(%5)     is placed as
//   %4 = tanh(%3)                         %6 = sin(%4)     and lowered as
//   %4 = tanh(%3)   %5 = checkpoint(%4)   %6 = sin(%5)
#include "partition/sharding/sharding_internal.h"

#include <string.h>

// Returns whether a mark and the value x have the same names: layout rules, which may name either,
// then ask the same of both.
static bool same_names(const Origin *mark, const Origin *x) {
  if (mark->backward != x->backward) return false;
  return !mark->value || (x->value && !strcmp(mark->value, x->value));
}

void place_find_marks(PlaceGraph *p, Arena *a, const Graph *g) {
  p->marked = arena_array(a, NodeId, graph_count(g) + 1);
  p->mark = arena_array(a, NodeId, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op != OP_CHECKPOINT) continue;
    NodeId x = p->marked[node->args[0]] ? p->marked[node->args[0]] : node->args[0];
    Op op = (Op)graph_node(g, x)->op;
    if (op == OP_CARRY || !same_names(node->origin, graph_node(g, x)->origin)) continue;
    p->marked[n] = x;
    p->nmarks++;
    bool source = op_row(op)->cls == SOURCE && !op_is_draw(op); // there without any work
    if (!source && !p->mark[x]) p->mark[x] = n;
  }
}

// Makes node n read marked values in place of their marks. A mark itself reads nothing.
static void read_marked(const PlaceGraph *p, Arena *a, NodeId n, Node *node) {
  bool any = false;
  for (int i = 0; i < node->nargs; i++) any |= p->marked[node->args[i]] != 0;
  if (p->marked[n]) {
    node->nargs = 0;
    Origin *origin = arena_copy(a, node->origin, sizeof *origin);
    origin->value = NULL;
    node->origin = origin;
  } else if (any) {
    NodeId *args = arena_copy(a, node->args, node->nargs * sizeof *args);
    for (int i = 0; i < node->nargs; i++)
      if (p->marked[args[i]]) args[i] = p->marked[args[i]];
    node->args = args;
  }
}

const Graph *place_without_marks(Arena *a, const PlaceGraph *p, const Graph *g) {
  if (!p->nmarks) return g;
  Graph *out = arena_copy(a, g, sizeof *g);
  out->node.at = arena_copy(a, g->node.at, g->node.n * sizeof *g->node.at);
  out->node.cap = g->node.n;
  for (NodeId n = 1; n <= graph_count(g); n++) read_marked(p, a, n, &out->node.at[n]);
  out->output.at = arena_copy(a, g->output.at, g->output.n * sizeof *g->output.at);
  out->output.cap = g->output.n;
  for (uint32_t o = 0; o < g->output.n; o++) {
    NodeId *value = &out->output.at[o].value;
    if (p->marked[*value]) *value = p->marked[*value];
  }
  return out;
}

// Returns whether some reader of n reads its full sum.
static bool is_read_in_full(const Placer *p, NodeId n) {
  for (const Read *r = reads_of(p, n); r->node; r++)
    if (!need_of(p, r).partial.n) return true;
  return outputs_of(p, n)->output != 0;
}

// Returns the sharding in which value n is kept.
static const Sharding *kept_sharding(const Placer *p, NodeId n) {
  return is_read_in_full(p, n) ? p->result.settled[n] : p->result.computed[n];
}

bool place_is_kept(const Placer *p, NodeId n, const Sharding *s) {
  return p->graph->mark[n] && sharding_equal(s, kept_sharding(p, n));
}

void place_marks(Placer *p) {
  for (NodeId n = 1; n <= graph_count(p->g) && p->graph->nmarks; n++) {
    NodeId x = p->graph->marked[n];
    if (!x) continue;
    p->result.computed[n] = kept_sharding(p, x);
    p->result.settled[n] = p->result.settled[x];
  }
}
