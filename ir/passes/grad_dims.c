// Derivative rules of reductions, contractions, moves, windows and lookups. Each rule is called by
// grad.c with the node in c->n and its gradient in c->dy.
#include "ir/passes/grad_internal.h"

static NodeId x_of(const Grad *c) { return c->n.args[0]; }

static Dims reduced(const Grad *c) { return dims_make(c->n.attr->ndims, c->n.attr->dims); }

// -- reductions ---------------------------------------------------------------------------------

void grad_sum(Grad *c) { grad_to(c, 0, c->dy); }

void grad_mean(Grad *c) {
  grad_to(c, 0,
          grad_scaled(c, c->dy, 1 / dims_product(c->g->dims, c->n.attr->ndims, c->n.attr->dims)));
}

// Derivative of max and min: all elements that are equal to the result get the same share of the
// gradient.
void grad_max(Grad *c) {
  Dims over = reduced(c);
  NodeId best = graph_binary(c->g, OP_EQ, x_of(c), c->id);
  NodeId count = graph_reduce(c->g, OP_SUM, graph_cast(c->g, best, (Dtype)c->n.type), &over);
  NodeId share = graph_binary(c->g, OP_DIV, c->dy, count);
  grad_to(c, 0, graph_where(c->g, best, share, grad_const(c, 0)));
}

// Derivative of prod: for each element x, the product of all other elements. Let p be the product
// of the elements that are not 0, and s the sum of the elements that are 0.
//
//   no zero      p / x
//   one zero     p for the zero, s p / x for the others
//   two zeros    (s - x) p for both zeros
//
// s is 0, but its derivative is not, so the terms with s are needed for the second derivative.
void grad_prod(Grad *c) {
  Graph *g = c->g;
  Dims over = reduced(c);
  Dtype t = (Dtype)c->n.type;
  NodeId x = x_of(c), zero = grad_const(c, 0), one = grad_const(c, 1), two = grad_const(c, 2);
  NodeId is_zero = graph_binary(g, OP_EQ, x, zero);
  NodeId rest = graph_where(g, is_zero, one, x);
  NodeId p = graph_reduce(g, OP_PROD, rest, &over);
  NodeId s = graph_reduce(g, OP_SUM, graph_where(g, is_zero, x, zero), &over);
  NodeId zeros = graph_reduce(g, OP_SUM, graph_cast(g, is_zero, t), &over);
  NodeId none = graph_binary(g, OP_EQ, zeros, zero), single = graph_binary(g, OP_EQ, zeros, one);
  NodeId other = graph_binary(g, OP_MUL, graph_binary(g, OP_SUB, s, x), p);
  NodeId of_two = graph_where(g, graph_binary(g, OP_EQ, zeros, two), other, zero);
  NodeId at_zero = graph_where(g, single, p, of_two);
  NodeId without = graph_binary(g, OP_DIV, p, rest);
  NodeId of_one = graph_where(g, single, graph_binary(g, OP_MUL, s, without), zero);
  NodeId elsewhere = graph_where(g, none, without, of_one);
  grad_product_to(c, 0, c->dy, graph_where(g, is_zero, at_zero, elsewhere));
}

// Derivative of y = logsumexp(x): exp(x - shift) / sum, with shift and sum as in LogSum
// (ir/graph/graph.h). exp(x - y) is mathematically equal but less accurate: y has a rounding error
// that grows with the size of the elements.
void grad_logsumexp(Grad *c) {
  Graph *g = c->g;
  Dims over = reduced(c);
  Dtype wide = dtype_accumulator((Dtype)c->n.type);
  LogSum s = graph_log_sum(g, graph_cast(g, x_of(c), wide), &over, true);
  NodeId share = graph_binary(g, OP_DIV, graph_cast(g, c->dy, wide), s.sum);
  grad_to(c, 0, graph_binary(g, OP_MUL, share, s.e));
}

// Derivative of l2_norm: x / norm, and 0 where the norm is 0.
void grad_l2_norm(Grad *c) {
  Graph *g = c->g;
  NodeId zero = grad_const(c, 0), none = graph_binary(g, OP_EQ, c->id, zero);
  NodeId norm = graph_where(g, none, grad_const(c, 1), c->id);
  NodeId share = graph_where(g, none, zero, graph_binary(g, OP_DIV, c->dy, norm));
  grad_to(c, 0, graph_binary(g, OP_MUL, share, x_of(c)));
}

// -- contraction --------------------------------------------------------------------------------

void grad_contract(Grad *c) {
  for (int i = 0; i < 2; i++) {
    if (!grad_wanted(c, i)) continue;
    NodeId other = c->n.args[1 - i];
    NodeId dy = graph_cast(c->g, c->dy, (Dtype)graph_node(c->g, other)->type);
    grad_product_to(c, i, dy, other);
  }
}

// -- moves --------------------------------------------------------------------------------------

void grad_broadcast(Grad *c) { grad_to(c, 0, c->dy); }

static void move_back(Grad *c, Op op) {
  Attr back = {.ndims = c->n.attr->nto,
               .dims = c->n.attr->to,
               .nto = c->n.attr->ndims,
               .to = c->n.attr->dims};
  grad_to(c, 0, graph_add(c->g, op, 1, &c->dy, &back));
}
void grad_rename(Grad *c) { move_back(c, OP_RENAME); }
void grad_split(Grad *c) { move_back(c, OP_MERGE); }
void grad_merge(Grad *c) { move_back(c, OP_SPLIT); }

void grad_checkpoint(Grad *c) { grad_to(c, 0, c->dy); }

// Derivative of pin: the gradient gets the same pin.
void grad_pin(Grad *c) { grad_to(c, 0, graph_add(c->g, OP_PIN, 1, &c->dy, c->n.attr)); }

// -- windows ------------------------------------------------------------------------------------

static NodeId start_of(const Grad *c) { return c->n.nargs > 1 ? c->n.args[1] : 0; }

// Derivative of a window without new dims, which reads one element of its source. The gradient of
// the source is dy at the position of this element and zero elsewhere.
static void grad_select(Grad *c) {
  Graph *g = c->g;
  NodeId place = graph_const(g, TYPE_I32, (double)c->n.attr->affine.offset);
  if (start_of(c)) place = graph_binary(g, OP_ADD, place, start_of(c));
  NodeId here = graph_binary(g, OP_EQ, graph_index(g, c->n.attr->dims[0]), place);
  grad_to(c, 0, graph_where(g, here, c->dy, grad_const(c, 0)));
}

// Derivative of window: a window of dy with the inverse relation of positions. For position o of
// its result the window reads one position s of the source for each tap k: s = (out o + tap k +
// offset) / divisor. The inverse is o = (divisor s - tap k - offset) / out. If the argument lacks
// the dim of the taps, the result is summed over this dim.
void grad_window(Grad *c) {
  if (!grad_wanted(c, 0)) return;
  const Attr *t = c->n.attr;
  if (!t->nto) {
    grad_select(c);
    return;
  }
  Affine f = t->affine, back = {f.divisor, -f.tap, -f.offset, f.out};
  bool mirrored = f.out < 0;
  if (mirrored) back = (Affine){-back.out, -back.tap, -back.offset, -back.divisor};
  DimId to[2] = {t->dims[0], t->nto > 1 ? t->to[1] : 0};
  Attr attr = {.ndims = 1, .dims = t->to, .nto = t->nto, .to = to, .affine = back};
  NodeId args[2] = {c->dy, start_of(c)};
  if (args[1] && !mirrored) args[1] = graph_unary(c->g, OP_NEG, args[1]);
  grad_to(c, 0, graph_add(c->g, args[1] ? OP_WINDOW_AT : OP_WINDOW, args[1] ? 2 : 1, args, &attr));
}

// -- lookups ------------------------------------------------------------------------------------

// Derivative of take: scatter_add adds the gradient of each row that was looked up to the gradient
// of that row of the table. It sums over the dims of the ids that the table does not have. It also
// sums over the dim that is looked up if the ids have that dim.
void grad_take(Grad *c) {
  if (!grad_wanted(c, 0)) return;
  const Node *table = graph_node(c->g, c->n.args[0]), *ids = graph_node(c->g, c->n.args[1]);
  DimId row = c->n.attr->dims[0];
  Dims sum = {0};
  for (int i = 0; i < ids->dims->n; i++)
    if (!dims_has(table->dims, ids->dims->at[i]) || ids->dims->at[i] == row)
      sum.at[sum.n++] = ids->dims->at[i];
  Attr attr = {.ndims = sum.n, .dims = sum.at, .nto = 1, .to = &row};
  grad_to(c, 0, graph_add(c->g, OP_SCATTER_ADD, 2, (NodeId[]){c->dy, c->n.args[1]}, &attr));
}

void grad_scatter(Grad *c) {
  if (!grad_wanted(c, 0)) return;
  Attr attr = {.ndims = 1, .dims = c->n.attr->to};
  grad_to(c, 0, graph_add(c->g, OP_TAKE, 2, (NodeId[]){c->dy, c->n.args[1]}, &attr));
}
