// Gradients: reverse-mode differentiation. Adds the gradients of a loss by given nodes as new nodes
// of the same graph.
//
// Nodes between the nodes `by` and the loss are visited from the loss backward. The adjoint of a
// node is the sum of the terms that the rules of its users give. The rule of the node then gives a
// term to each argument. Rules use only ops that have derivative rules themselves, so that
// gradients of gradients work.
//
//   y = contract(x, w) {dims=[d]}  =>  d x = contract(dy, w) {dims=[h]}
//                                      d w = contract(dy, x) {dims=[b]}
#include "ir/passes/grad_internal.h"

#include <stdlib.h>

#include "ir/base/dim_list.h"

static GradRule *const grad_rule[OP_COUNT] = {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  [OP_##id] = grad_##grad,
#include "ir/graph/ops.def"
};

void grad_none(Grad *c) { BUG("%%%u, %s, has no gradient", c->id, op_row((Op)c->n.op)->text); }
void grad_zero(Grad *c) { (void)c; }

bool grad_wanted(const Grad *c, int i) { return c->needed[c->key[i]]; }

// Returns a term of the gradient of a node, converted to the node's `dims` and `type`: summed over
// other dims, cast, and broadcast to missing dims.
static NodeId fit(Graph *g, NodeId term, const Dims *dims, Dtype type) {
  Dims sum = list_minus(graph_node(g, term)->dims, dims);
  term = graph_cast(g, graph_reduce(g, OP_SUM, term, &sum), type);
  return graph_broadcast(g, term, dims);
}

void grad_to(Grad *c, int i, NodeId term) {
  if (!grad_wanted(c, i)) return;
  Node arg = *graph_node(c->g, c->key[i]);
  grad_accumulate(c, c->key[i], fit(c->g, term, arg.dims, (Dtype)arg.type));
}

void grad_product_to(Grad *c, int i, NodeId a, NodeId b) {
  if (!grad_wanted(c, i)) return;
  Graph *g = c->g;
  Dims all = *graph_node(g, a)->dims;
  const Node *arg = graph_node(g, c->key[i]), *other = graph_node(g, b);
  for (int k = 0; k < other->dims->n; k++)
    if (!dims_add(g->dims, &all, other->dims->at[k])) BUG("more than %d dims", MAX_RANK);
  Dims sum = list_minus(&all, arg->dims);
  Attr attr = {.type = (Dtype)arg->type, .ndims = sum.n, .dims = sum.at};
  NodeId product = sum.n || arg->type != other->type
                       ? graph_add(g, OP_CONTRACT, 2, (NodeId[]){a, b}, &attr)
                       : graph_binary(g, OP_MUL, a, b);
  grad_to(c, i, product);
}

NodeId grad_const(Grad *c, double value) { return graph_const(c->g, (Dtype)c->n.type, value); }

NodeId grad_scaled(Grad *c, NodeId x, double factor) {
  Dtype type = (Dtype)graph_node(c->g, x)->type, wide = dtype_accumulator(type);
  if (dtype_round(type, factor) == factor) wide = type;
  NodeId y = graph_binary(c->g, OP_MUL, graph_cast(c->g, x, wide), graph_const(c->g, wide, factor));
  return graph_cast(c->g, y, type);
}

// -- the walk -----------------------------------------------------------------------------------

// Returns true if n must get a gradient: n is a float, and an argument of n needs one. For a carry
// n, it is enough that the next value of n needs one.
static bool becomes_needed(const Grad *c, NodeId n) {
  const Node *node = graph_node(c->g, n);
  bool any = false;
  for (int k = 0; k < node->nargs; k++) any |= c->needed[node->args[k]];
  NodeId next = node->op == OP_CARRY ? carry_next(c->g, c->scan, n) : 0;
  return (any || (next && c->needed[next])) && dtype_is_float((Dtype)node->type);
}

// Sets needed[n] for each node in `order` that depends on a node of `by` through floats. A later
// node may make a carry needed, so the loop over all nodes is repeated until nothing changes.
static void mark_needed(Grad *c, int n, const NodeId *by) {
  for (int i = 0; i < n; i++)
    c->needed[by[i]] = dtype_is_float((Dtype)graph_node(c->g, by[i])->type);
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < c->norder; i++) {
      NodeId id = c->order[i];
      if (c->needed[id] || !becomes_needed(c, id)) continue;
      c->needed[id] = true;
      changed |= c->g->region.n > 0;
    }
  }
}

// Sets active[n] if n is needed and the loss depends on it.
static void mark_active(Grad *c, NodeId loss) {
  VEC(NodeId) todo = {0};
  bool *seen = arena_array(c->scratch, bool, c->count + 1);
  vec_push(c->scratch, todo) = loss;
  while (todo.n) {
    NodeId id = todo.at[--todo.n];
    const Node *n = graph_node(c->g, id);
    if (seen[id]) continue;
    seen[id] = true;
    c->active[id] = c->needed[id];
    for (int k = 0; k < n->nargs && n->op != OP_SCAN; k++) vec_push(c->scratch, todo) = n->args[k];
    if (n->op != OP_CARRY) continue;
    NodeId next = carry_next(c->g, c->scan, id);
    if (next) vec_push(c->scratch, todo) = next;
    if (next) vec_push(c->scratch, todo) = c->scan[n->region];
  }
  // A scan without carries is not an argument of any node that the loop above visits. A scan is
  // active if a value that it collects leads to the loss.
  for (uint32_t i = 0; i < c->norder; i++)
    if (graph_node(c->g, c->order[i])->op == OP_SCAN) c->active[c->order[i]] = seen[c->order[i]];
}

static const char *node_name(Arena *a, const Graph *g, NodeId id) {
  const char *name = graph_node(g, id)->origin->value;
  return name ? name : arena_printf(a, "%%%u", id);
}

Origin grad_origin(Grad *c, NodeId n) {
  Origin o = *graph_node(c->g, n)->origin;
  o.why = arena_printf(c->g->arena, "grad of %s through %s", node_name(c->g->arena, c->g, n),
                       op_row((Op)graph_node(c->g, n)->op)->text);
  o.gradient_of = NULL;
  o.backward = true;
  return o;
}

static bool any_wanted(const Grad *c) {
  for (int i = 0; i < c->n.nargs; i++)
    if (grad_wanted(c, i)) return true;
  return false;
}

void grad_node(Grad *c, NodeId n) {
  NodeId args[MAX_ARGS];
  if (!c->adjoint[n] || !c->active[n]) return;
  c->n = *graph_node(c->g, n); // a copy: adding nodes moves the nodes in memory
  c->key = c->n.args;
  c->dy = c->adjoint[n];
  if (grad_ends_loop(c, n)) return;
  if (!any_wanted(c)) return;
  bug_context("grad", n);
  c->g->origin = grad_origin(c, n);
  for (int i = 0; i < c->n.nargs; i++) args[i] = grad_value(c, c->key[i]);
  c->n.args = args;
  c->id = grad_value(c, n);
  grad_rule[c->n.op](c);
}

static void find_results(Grad *c) {
  c->result = arena_array(c->scratch, NodeId, c->regions + 1);
  c->later = arena_array(c->scratch, NodeId, c->count + 1);
  for (uint32_t i = c->norder; i > 0; i--) {
    NodeId n = c->order[i - 1];
    const Node *x = graph_node(c->g, n);
    if (x->op != OP_FINAL && x->op != OP_COLLECT) continue;
    NodeId *first = &c->result[graph_node(c->g, x->args[0])->attr->region];
    c->later[n] = *first;
    *first = n;
  }
}

static int by_id(const void *x, const void *y) {
  NodeId a = *(const NodeId *)x, b = *(const NodeId *)y;
  return (a > b) - (a < b);
}

// Sets c->order to the nodes on which the loss depends. Each of many micro-batches is a small part
// of the graph.
static void find_order(Grad *c, NodeId loss) {
  VEC(NodeId) found = {0};
  bool *seen = arena_array(c->scratch, bool, c->count + 1);
  seen[loss] = true;
  vec_push(c->scratch, found) = loss;
  for (uint32_t i = 0; i < found.n; i++) {
    const Node *n = graph_node(c->g, found.at[i]);
    for (int k = 0; k < n->nargs; k++) {
      if (!seen[n->args[k]]) vec_push(c->scratch, found) = n->args[k];
      seen[n->args[k]] = true;
    }
  }
  qsort(found.at, found.n, sizeof *found.at, by_id);
  c->order = found.at;
  c->norder = found.n;
}

// Makes what is for loops. The tables of a graph without loops have one entry.
static void begin_loops(Grad *c) {
  uint32_t count = c->regions ? c->count : 0;
  c->mirror = arena_array(c->scratch, NodeId, count + 1);
  c->clone = arena_array(c->scratch, NodeId, count + 1);
  c->final = arena_array(c->scratch, NodeId, count + 1);
  c->wide = arena_array(c->scratch, NodeId, count + 1);
  c->clone_region = arena_array(c->scratch, RegionId, c->regions + 1);
  c->nests = arena_array(c->scratch, bool, c->regions + 1);
  if (!c->regions) return;
  c->order = graph_schedule(c->scratch, c->g);
  c->norder = c->count;
  c->nodes = region_nodes(c->scratch, c->g);
  c->scan = region_scans(c->scratch, c->g);
  find_results(c);
  for (RegionId r = 1; r <= c->regions; r++) c->nests[region_get(c->g, r)->parent] = true;
}

static void begin(Grad *c, Graph *g, NodeId loss, int n, const NodeId *by) {
  uint32_t count = graph_count(g);
  *c = (Grad){.g = g,
              .scratch = arena_new(),
              .count = count,
              .regions = g->region.n,
              .open = graph_node(g, loss)->region};
  c->needed = arena_array(c->scratch, bool, count + 1);
  c->active = arena_array(c->scratch, bool, count + 1);
  c->adjoint = arena_array(c->scratch, NodeId, count + 1);
  if (!c->regions) find_order(c, loss);
  begin_loops(c);
  mark_needed(c, n, by);
  mark_active(c, loss);
}

void graph_gradients(Graph *g, NodeId loss, int n, const NodeId *by, NodeId *out) {
  Origin before = g->origin;
  Grad c;
  begin(&c, g, loss, n, by);
  GradLevel outside = {.back = c.open};
  c.level = &outside;
  g->origin = grad_origin(&c, loss);
  c.adjoint[loss] = graph_const(g, (Dtype)graph_node(g, loss)->type, 1);
  for (uint32_t i = c.norder; i > 0; i--) {
    NodeId id = c.order[i - 1];
    if (grad_region(&c, id)) continue;
    if (graph_node(g, id)->op == OP_SCAN)
      grad_loop(&c, id);
    else
      grad_node(&c, id);
  }
  for (int i = 0; i < n; i++) {
    Node node = *graph_node(g, by[i]);
    g->origin = grad_origin(&c, by[i]);
    out[i] = grad_region(&c, by[i]) ? 0 : c.adjoint[by[i]];
    if (!out[i]) out[i] = graph_zeros(g, (Dtype)node.type, node.dims);
  }
  arena_free(c.scratch);
  g->origin = before;
}
