// Simplification: copies a graph node by node. When the rules for a class of ops look at a node,
// its arguments are already simplified.
//
//   %3 = mul(%1, broadcast(1)); %4 = pow(%3, 2); %5 = rename(rename(%4))   =>   %2 = mul(%1, %1);
//   %3 = rename(%2)
//
// A rule never adds or removes NaN or infinity. It changes other values at most by the rounding
// error that the op may have.
#include "ir/passes/simplify_internal.h"

NodeId simple_stripped(const Graph *g, NodeId x) {
  const Node *n = graph_node(g, x);
  return n->op == OP_BROADCAST ? n->args[0] : x;
}

bool simple_const(const Graph *g, NodeId x, double *out) {
  const Node *n = graph_node(g, simple_stripped(g, x));
  if (n->op != OP_CONST) return false;
  *out = n->attr->num[0];
  return true;
}

static NodeId keep(Simplify *s) {
  (void)s;
  return 0;
}

static SimplifyRule *const simplify_class[] = {
    [SOURCE] = keep,
    [POINTWISE] = simplify_point,
    [REDUCE] = simplify_reduce,
    [CONTRACT] = simplify_contract,
    [MOVE] = simplify_move,
    [GATHER] = keep,
    [WINDOW] = simplify_window,
    [ORDERED] = keep,
    [MATRIX] = keep,
    [REGION] = simplify_region,
    [COLLECTIVE] = keep,
};

NodeId simple_add(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr) {
  NodeId raw = graph_add(g, op, nargs, args, attr);
  Node n = *graph_node(g, raw);
  Simplify s = {.g = g, .n = &n};
  for (int i = 0; i < nargs; i++) s.x[i] = args[i];
  NodeId y = simplify_class[op_row(op)->cls](&s);
  return y ? graph_broadcast(g, y, n.dims) : raw;
}

static NodeId simplify_node(Graph *to, const Graph *from, NodeId id, const NodeId *map,
                            const uint32_t *uses) {
  const Node *n = graph_node(from, id);
  Simplify s = {.g = to, .n = n, .once = n->nargs > 0 && uses[n->args[0]] == 1};
  for (int i = 0; i < n->nargs && i < (int)countof(s.x); i++) s.x[i] = map[n->args[i]];
  to->origin = *n->origin;
  bug_context("simplify", id);
  NodeId y = n->instance ? 0 : simplify_class[op_row((Op)n->op)->cls](&s);
  if (!y) return graph_copy(to, from, id, map);
  y = graph_broadcast(to, y, n->dims);
  if (graph_node(to, y)->type != n->type) BUG("%s became another type", op_row((Op)n->op)->text);
  graph_name_as(to, y, n->origin); // the name that the model gave to node n
  return y;
}

Graph *graph_simplify(Arena *a, const Graph *g) {
  Graph *to = graph_like(a, g, g->stage);
  NodeId *map = arena_array(a, NodeId, graph_count(g) + 1);
  const uint32_t *uses = graph_uses(a, g);
  for (NodeId id = 1; id <= graph_count(g); id++) map[id] = simplify_node(to, g, id, map, uses);
  graph_copy_outputs(to, g, map);
  return graph_prune_in_place(a, to, g->stage);
}
