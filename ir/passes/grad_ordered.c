// Derivative rules of running sums, products and maxima. sort and top_k need no rule here: their
// values are a TAKE, and the order itself has no derivative.
#include "ir/passes/grad_internal.h"

// Derivative of cumsum. An element is a term of the sums at its own and all later positions. Its
// gradient is therefore the sum of dy over these positions: a cumsum in the opposite direction.
void grad_cumsum(Grad *c) {
  Attr back = *c->n.attr;
  back.flags ^= ORDER_REVERSE;
  grad_to(c, 0, graph_add(c->g, OP_CUMSUM, 1, &c->dy, &back));
}

// Derivative of cumprod. Let y be the products. An element before the first zero of its row, in the
// direction of the product, is a factor of some of them: its gradient is the sum of dy y over
// these, divided by the element. For the first zero, `others` are the products with 1 in its place:
// its gradient is the sum of dy others. Elements after it have gradient 0: all products that have
// them are 0, whatever they are.
//
//   x = [2, 3, 0, 5]: y = [2, 6, 0, 0], others = [2, 6, 6, 30], and with dy = 1
//   dx = [(2 + 6) / 2, 6 / 3, 6 + 30, 0]
void grad_cumprod(Grad *c) {
  if (!grad_wanted(c, 0)) return;
  Graph *g = c->g;
  NodeId x = c->n.args[0];
  Dtype type = (Dtype)c->n.type;
  Attr on = *c->n.attr, back = on, count = on;
  back.flags ^= ORDER_REVERSE;
  count.flags &= ~(unsigned)ORDER_EXCLUSIVE;
  NodeId zero = graph_const(g, type, 0), one = graph_const(g, type, 1);
  NodeId none = graph_const(g, TYPE_I32, 0), is_zero = graph_binary(g, OP_EQ, x, zero);
  NodeId counted = graph_cast(g, is_zero, TYPE_I32);
  NodeId zeros = graph_add(g, OP_CUMSUM, 1, &counted, &count);
  NodeId first =
      graph_binary(g, OP_AND, is_zero, graph_binary(g, OP_EQ, zeros, graph_const(g, TYPE_I32, 1)));
  NodeId filled = graph_where(g, first, one, x);
  NodeId others = graph_add(g, OP_CUMPROD, 1, &filled, &on);
  NodeId terms = graph_binary(g, OP_MUL, c->dy, c->id),
         at_zero = graph_binary(g, OP_MUL, c->dy, others);
  terms = graph_add(g, OP_CUMSUM, 1, &terms, &back);
  at_zero = graph_add(g, OP_CUMSUM, 1, &at_zero, &back);
  NodeId before = graph_binary(g, OP_DIV, terms, graph_where(g, is_zero, one, x));
  NodeId dx = graph_where(g, first, at_zero,
                          graph_where(g, graph_binary(g, OP_EQ, zeros, none), before, zero));
  grad_to(c, 0, dx);
}

// Derivative of cummax: each position adds its gradient to the position where its maximum was
// reached first.
void grad_cummax(Grad *c) {
  if (!grad_wanted(c, 0)) return;
  NodeId where = graph_add(c->g, OP_CUM_INDEX, 1, &c->n.args[0], c->n.attr);
  Attr back = {.ndims = 1, .dims = c->n.attr->dims, .nto = 1, .to = c->n.attr->dims};
  grad_to(c, 0, graph_add(c->g, OP_SCATTER_ADD, 2, (NodeId[]){c->dy, where}, &back));
}
