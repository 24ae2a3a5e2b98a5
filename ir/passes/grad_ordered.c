// Derivative rules of running sums and maxima. sort and top_k need no rule here: their values are a
// TAKE, and the order itself has no derivative.
#include "ir/passes/grad_internal.h"

// Derivative of cumsum. An element is a term of the sums at its own and all later positions. Its
// gradient is therefore the sum of dy over these positions: a cumsum in the opposite direction.
void grad_cumsum(Grad *c) {
  Attr back = c->n.attr;
  back.flags ^= ORDER_REVERSE;
  grad_to(c, 0, graph_add(c->g, OP_CUMSUM, 1, &c->dy, &back));
}

// Derivative of cummax: each position adds its gradient to the position where its maximum was
// reached first.
void grad_cummax(Grad *c) {
  if (!grad_wanted(c, 0)) return;
  NodeId where = graph_add(c->g, OP_CUM_INDEX, 1, &c->n.args[0], &c->n.attr);
  Attr back = {.ndims = 1, .dims = c->n.attr.dims, .nto = 1, .to = c->n.attr.dims};
  grad_to(c, 0, graph_add(c->g, OP_SCATTER_ADD, 2, (NodeId[]){c->dy, where}, &back));
}
