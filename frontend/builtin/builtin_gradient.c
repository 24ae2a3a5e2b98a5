// Builds gradient(loss, w): adds the nodes of the gradient of the loss by w to the graph so far.
// The result is an ordinary value.
#include "frontend/model/warnings.h"

static bool differentiable(Build *b, const Value *v, Pos pos, const char *what) {
  if (v->kind == VALUE_TENSOR && dtype_is_float((Dtype)graph_node(b->g, v->node)->type))
    return true;
  return diag_error(b->d, DIAG_BAD_TYPE, pos, "%s of a gradient must be a float tensor", what);
}

static bool is_zero(const Build *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  if (x->op == OP_BROADCAST) x = graph_node(b->g, x->args[0]);
  return x->op == OP_CONST && x->attr->num[0] == 0;
}

// Returns the gradient by a weak value, one without a type of its own. It has two nodes: out[0] is
// the gradient by the node of the default type, out[1] that by the node in f64 (node_widened). The
// result is their sum, or one of them if the other is the constant 0.
static NodeId both(Build *b, const NodeId *out) {
  if (is_zero(b, out[1])) return out[0];
  if (is_zero(b, out[0])) return out[1];
  return graph_binary(b->g, OP_ADD, graph_cast(b->g, out[0], TYPE_F64), out[1]);
}

Value builtin_gradient(Build *b, const Call *c) {
  const Value *loss = &c->arg[0], *w = &c->arg[1];
  if (!differentiable(b, loss, c->raw[0]->pos, "the loss") ||
      !differentiable(b, w, c->raw[1]->pos, "the value"))
    return value_poison;
  // An expression makes a new node, on which the loss does not depend. The gradient would be zero.
  if (c->raw[1]->kind != AST_NAME) {
    diag_error(b->d, DIAG_BAD_ARGUMENTS, c->raw[1]->pos,
               "a gradient is taken with respect to a named value, not to an expression");
    diag_hint(b->d, "bind it first, and use the name in the loss");
    return value_poison;
  }
  if (build_dims(b, loss)->n) {
    diag_error(b->d, DIAG_NOT_SCALAR, c->raw[0]->pos,
               "the loss of a gradient must be a scalar, but this is over %s",
               dims_listed(b, build_dims(b, loss)));
    return value_poison;
  }
  warn_gradient_of_old(b, loss->node, c->raw[1]);
  Origin before = b->g->origin;
  NodeId by[2] = {w->node, node_wide(b, w->node)}, out[2];
  graph_gradients(b->g, loss->node, by[1] ? 2 : 1, by, out);
  NodeId y = by[1] ? both(b, out) : out[0];
  b->g->origin = before;
  return value_tensor(y);
}
