// Gradients: reverse mode over the prefix of a graph, as new nodes of the same graph.
//
// From the loss backward, each node that lies between it and `by` receives the sum of what its
// users hand down, in descending order of users, and its rule hands parts of it to its arguments.
// Rules are written in ops that have gradients themselves, so gradients of gradients need nothing
// more.
//
//   y = contract(x, w) {dims=[d]}  =>  d x = contract(dy, w) {dims=[h]},  d w = contract(dy, x)
//   {dims=[b]}
#include "ir/grad_rules.h"

static GradRule *const grad_rule[OP_COUNT] = {
#define OP(id, text, args, cls, flags, linear, infer, eval, grad, emit) [OP_##id] = grad_##grad,
#include "ir/ops.def"
#undef OP
};

void grad_none(Grad *c) { BUG("%%%u, %s, has no gradient", c->id, op_row((Op)c->n.op)->text); }
void grad_zero(Grad *c) { (void)c; }

bool grad_wanted(const Grad *c, int i) { return c->needed[c->n.args[i]]; }

static Dims missing(const Dims *from, const Dims *in) {
  Dims d = {0};
  for (int i = 0; i < from->n; i++)
    if (!dims_has(in, from->at[i])) d.at[d.n++] = from->at[i];
  return d;
}

// Brings a term to the dims and type of the node whose gradient it is.
static NodeId fit(Graph *g, NodeId term, const Dims *dims, Dtype type) {
  Dims sum = missing(&graph_node(g, term)->dims, dims);
  term = graph_cast(g, graph_reduce(g, OP_SUM, term, &sum), type);
  return graph_broadcast(g, term, dims);
}

static void accumulate(Grad *c, NodeId to, NodeId term) {
  NodeId *sum = &c->adjoint[to];
  *sum = *sum ? graph_binary(c->g, OP_ADD, *sum, term) : term;
}

void grad_to(Grad *c, int i, NodeId term) {
  if (!grad_wanted(c, i)) return;
  Node arg = *graph_node(c->g, c->n.args[i]);
  accumulate(c, c->n.args[i], fit(c->g, term, &arg.dims, (Dtype)arg.type));
}

void grad_product_to(Grad *c, int i, NodeId a, NodeId b) {
  if (!grad_wanted(c, i)) return;
  Graph *g = c->g;
  Dims all = graph_node(g, a)->dims;
  const Node *arg = graph_node(g, c->n.args[i]), *other = graph_node(g, b);
  for (int k = 0; k < other->dims.n; k++)
    if (!dims_add(g->dims, &all, other->dims.at[k])) BUG("more than %d dims", MAX_RANK);
  Dims sum = missing(&all, &arg->dims);
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

// -- the walk ------------------------------------------------------------------------------------

// needed[n]: some `by` reaches n through floats, so n's gradient is worth having.
static bool *mark_needed(Arena *a, const Graph *g, NodeId loss, int n, const NodeId *by) {
  bool *needed = arena_array(a, bool, loss + 1);
  for (int i = 0; i < n; i++)
    if (by[i] <= loss) needed[by[i]] = true;
  for (NodeId id = 1; id <= loss; id++) {
    const Node *node = graph_node(g, id);
    bool any = false;
    for (int k = 0; k < node->nargs; k++) any = any || needed[node->args[k]];
    needed[id] = (needed[id] || any) && dtype_is_float((Dtype)node->type);
  }
  return needed;
}

static const char *node_name(Arena *a, const Graph *g, NodeId id) {
  const char *name = graph_node(g, id)->origin.value;
  return name ? name : arena_printf(a, "%%%u", id);
}

static Origin origin_of(Graph *g, const Node *n, NodeId id) {
  Origin o = n->origin;
  o.why = arena_printf(g->arena, "grad of %s through %s", node_name(g->arena, g, id),
                       op_row((Op)n->op)->text);
  o.backward = true;
  return o;
}

static bool any_wanted(const Grad *c) {
  for (int i = 0; i < c->n.nargs; i++)
    if (grad_wanted(c, i)) return true;
  return false;
}

void graph_gradients(Graph *g, NodeId loss, int n, const NodeId *by, NodeId *out) {
  Origin before = g->origin;
  Arena *scratch = arena_new();
  Grad c = {.g = g,
            .needed = mark_needed(scratch, g, loss, n, by),
            .adjoint = arena_array(scratch, NodeId, loss + 1)};
  g->origin = origin_of(
      g, &(Node){.op = graph_node(g, loss)->op, .origin = graph_node(g, loss)->origin}, loss);
  c.adjoint[loss] = graph_const(g, (Dtype)graph_node(g, loss)->type, 1);
  for (NodeId id = loss; id >= 1; id--) {
    if (!c.adjoint[id] || !c.needed[id]) continue;
    c.id = id;
    c.n = *graph_node(g, id); // adding nodes moves them
    c.dy = c.adjoint[id];
    if (!any_wanted(&c)) continue;
    bug_context("grad", id);
    g->origin = origin_of(g, &c.n, id);
    grad_rule[c.n.op](&c);
  }
  for (int i = 0; i < n; i++) {
    Node node = *graph_node(g, by[i]);
    g->origin = origin_of(g, &node, by[i]);
    out[i] = by[i] <= loss ? c.adjoint[by[i]] : 0;
    if (!out[i]) out[i] = graph_broadcast(g, graph_const(g, (Dtype)node.type, 0), &node.dims);
  }
  arena_free(scratch);
  g->origin = before;
}
