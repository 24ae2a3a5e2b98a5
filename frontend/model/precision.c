// Applies `precision = bf16` or f16 to the graph of a model by inserting casts. This is the last
// step of model_build, before gradients are taken, so the backward pass gets the same types.
//
// Input: a graph whose values are f32 as written. Output: a graph in which these values are
// *narrow*, that is bf16 or f16:
// - the operands of products (contractions);
// - activations. An activation is computed from parameters, inputs, products, results of composites
//   and other activations, and a later product depends on it.
// Everything else stays f32:
// - the inside of composites (norm, softmax, losses, gelu), exp and log, and sums;
// - values that no product depends on, such as the end of a loss;
// - values that depend on no input or parameter, and values pinned by cast(x, f32).
//
//   h = relu(sum[d](x * w) + c)   =>   relu(contract(bf16 x, bf16 w) : bf16 + bf16 c)
//   y = sum[k](h * v); loss = mean(square(y - z))   =>   contract(h, bf16 v) : f32, the loss in f32
#include <string.h>

#include "frontend/frontend.h"

typedef struct Precision {
  const Graph *from;
  Graph *to;
  Dtype narrow_type;
  // tables; index: NodeId of a node of `from`
  bool *depends; // the node depends on an input or a parameter
  bool *fits;    // users may read the node in the narrow type
  bool *able;    // the node can be computed in the narrow type, and all its arguments fit
  bool *leads;   // a product depends on the node
  NodeId *map;   // the node of `to` that replaces it
} Precision;

// Returns true if the operation of n only moves elements, or if it can compute in the type of its
// arguments with an error of one rounding. Returns false for a lookup: a cast of its argument would
// convert the whole table, so its result is cast instead.
static bool follows(const Node *n) {
  const OpRow *row = op_row((Op)n->op);
  return n->origin->composite == 0 &&
         (row->flags & NARROW || row->cls == MOVE || row->cls == WINDOW);
}

// Returns true if n is a contraction that counts as a product of the model. Excluded are sums of
// squares, which are norms or losses, and contractions inside a composite.
static bool is_product(const Node *n) {
  return n->op == OP_CONTRACT && n->type == TYPE_F32 && n->origin->composite == 0 &&
         n->args[0] != n->args[1];
}

static bool is_number(const Graph *g, NodeId id) {
  const Node *n = graph_node(g, id);
  while (n->op == OP_BROADCAST) n = graph_node(g, n->args[0]);
  return n->op == OP_CONST;
}

// -- what may be narrow -------------------------------------------------------------------------

static bool is_float_argument(const Precision *p, const Node *n, int k) {
  return graph_node(p->from, n->args[k])->type == TYPE_F32;
}

static bool follows_narrow(const Precision *p, const Node *n) {
  bool any = false;
  if (n->type != TYPE_F32 || !follows(n)) return false;
  for (int k = 0; k < n->nargs; k++) {
    if (!is_float_argument(p, n, k)) continue;
    if (!p->fits[n->args[k]] && !is_number(p->from, n->args[k])) return false;
    any |= p->fits[n->args[k]];
  }
  return any;
}

static bool fits(const Precision *p, NodeId id) {
  const Node *n = graph_node(p->from, id);
  if (n->type != TYPE_F32 || !p->depends[id]) return false;
  if (n->op == OP_INPUT || n->op == OP_PARAM || n->op == OP_TAKE || is_product(n)) return true;
  if (n->op == OP_CAST) return graph_node(p->from, n->args[0])->type != TYPE_F32;
  return p->able[id] || n->origin->composite != 0;
}

static void look_forward(Precision *p) {
  for (NodeId id = 1; id <= graph_count(p->from); id++) {
    const Node *n = graph_node(p->from, id);
    p->depends[id] = n->op == OP_INPUT || n->op == OP_PARAM;
    for (int k = 0; k < n->nargs; k++) p->depends[id] |= p->depends[n->args[k]];
    p->able[id] = follows_narrow(p, n);
    p->fits[id] = fits(p, id);
  }
}

static void look_backward(Precision *p) {
  for (NodeId id = graph_count(p->from); id > 0; id--) {
    const Node *n = graph_node(p->from, id);
    bool passes = p->leads[id] || (is_product(n) && p->depends[id]);
    for (int k = 0; k < n->nargs && passes; k++) p->leads[n->args[k]] = true;
  }
}

// -- the new graph ------------------------------------------------------------------------------

// Returns the type in which the f32 node `id`, which is not a product, is computed.
static Dtype computed_in(const Precision *p, NodeId id) {
  return p->able[id] && p->leads[id] ? p->narrow_type : TYPE_F32;
}

static NodeId argument(const Precision *p, const Node *n, int k, Dtype type) {
  NodeId x = p->map[n->args[k]];
  return is_float_argument(p, n, k) ? graph_cast(p->to, x, type) : x;
}

static NodeId copy(const Precision *p, NodeId id) {
  const Node *n = graph_node(p->from, id);
  NodeId args[MAX_ARGS];
  Attr attr = *n->attr;
  bool product = is_product(n) && p->depends[id];
  Dtype type = product ? p->narrow_type : computed_in(p, id);
  p->to->origin = *n->origin;
  for (int k = 0; k < n->nargs; k++) args[k] = argument(p, n, k, type);
  if (product) attr.type = p->leads[id] ? p->narrow_type : TYPE_F32;
  if (n->op == OP_CAST && attr.type == TYPE_F32 && graph_node(p->to, args[0])->type == TYPE_F32)
    return args[0]; // cast(x, f32) has kept x in f32: the cast itself is dropped
  return graph_add(p->to, (Op)n->op, n->nargs, args, &attr);
}

static void keep_names(const Precision *p, Model *m) {
  for (uint32_t i = 0; i < p->from->name.n; i++) {
    Name name = p->from->name.at[i];
    name.value = p->map[name.value];
    vec_push(p->to->arena, p->to->name) = name;
  }
  for (uint32_t i = 0; i < p->from->output.n; i++) {
    Output o = p->from->output.at[i];
    o.value = graph_cast(p->to, p->map[o.value], (Dtype)graph_node(p->from, o.value)->type);
    vec_push(p->to->arena, p->to->output) = o;
  }
  m->loss_node = p->map[m->loss_node];
}

void precision_apply(Model *m) {
  if (m->precision == TYPE_F32) return;
  uint32_t n = graph_count(m->graph) + 1;
  Precision p = {.from = m->graph,
                 .to = graph_like(m->arena, m->graph, STAGE_GRAPH),
                 .narrow_type = m->precision,
                 .depends = arena_array(m->arena, bool, n),
                 .fits = arena_array(m->arena, bool, n),
                 .able = arena_array(m->arena, bool, n),
                 .leads = arena_array(m->arena, bool, n),
                 .map = arena_array(m->arena, NodeId, n)};
  look_forward(&p);
  look_backward(&p);
  for (NodeId id = 1; id < n; id++) p.map[id] = copy(&p, id);
  keep_names(&p, m);
  m->graph = p.to;
  m->graph->origin = (Origin){0};
}
