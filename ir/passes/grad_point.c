// Derivative rules of pointwise ops. y is the node, dy its gradient, x its argument.
#include <math.h>

#include "ir/passes/grad_internal.h"

static NodeId x_of(const Grad *c) { return c->n.args[0]; }
static NodeId mul(Grad *c, NodeId a, NodeId b) { return graph_binary(c->g, OP_MUL, a, b); }
static NodeId sub(Grad *c, NodeId a, NodeId b) { return graph_binary(c->g, OP_SUB, a, b); }
static NodeId one(Grad *c) { return grad_const(c, 1); }
static NodeId zero(Grad *c) { return grad_const(c, 0); }
// Gives argument i the gradient dy where `mask` is true, 0 elsewhere.
static void masked_to(Grad *c, int i, NodeId mask, NodeId dy) {
  if (grad_wanted(c, i)) grad_to(c, i, graph_where(c->g, mask, dy, zero(c)));
}

void grad_neg(Grad *c) { grad_to(c, 0, graph_unary(c->g, OP_NEG, c->dy)); }
void grad_exp(Grad *c) { grad_product_to(c, 0, c->dy, c->id); }
void grad_log(Grad *c) { grad_to(c, 0, graph_binary(c->g, OP_DIV, c->dy, x_of(c))); }
void grad_log1p(Grad *c) {
  NodeId below = graph_binary(c->g, OP_ADD, x_of(c), one(c));
  grad_to(c, 0, graph_binary(c->g, OP_DIV, c->dy, below));
}
void grad_expm1(Grad *c) { // exp(x); y + 1 would lose small values
  grad_product_to(c, 0, c->dy, graph_unary(c->g, OP_EXP, x_of(c)));
}
void grad_sqrt(Grad *c) { // 1 / (2 y)
  grad_to(c, 0, graph_binary(c->g, OP_DIV, grad_scaled(c, c->dy, 0.5), c->id));
}
void grad_rsqrt(Grad *c) { // -y^3 / 2
  NodeId cube = mul(c, mul(c, grad_scaled(c, c->id, -0.5), c->id), c->id);
  grad_product_to(c, 0, c->dy, cube);
}
void grad_abs(Grad *c) { grad_product_to(c, 0, c->dy, graph_unary(c->g, OP_SIGN, x_of(c))); }
void grad_sin(Grad *c) { grad_product_to(c, 0, c->dy, graph_unary(c->g, OP_COS, x_of(c))); }
void grad_cos(Grad *c) {
  NodeId slope = graph_unary(c->g, OP_NEG, graph_unary(c->g, OP_SIN, x_of(c)));
  grad_product_to(c, 0, c->dy, slope);
}
void grad_tanh(Grad *c) { grad_product_to(c, 0, c->dy, sub(c, one(c), mul(c, c->id, c->id))); }
void grad_sigmoid(Grad *c) { grad_product_to(c, 0, c->dy, mul(c, c->id, sub(c, one(c), c->id))); }
void grad_relu(Grad *c) { masked_to(c, 0, graph_binary(c->g, OP_LT, zero(c), x_of(c)), c->dy); }
void grad_erf(Grad *c) { // 2 / sqrt(pi) exp(-x^2)
  NodeId bell = graph_unary(c->g, OP_EXP, graph_unary(c->g, OP_NEG, mul(c, x_of(c), x_of(c))));
  grad_product_to(c, 0, c->dy, grad_scaled(c, bell, M_2_SQRTPI));
}
void grad_softplus(Grad *c) {
  grad_product_to(c, 0, c->dy, graph_unary(c->g, OP_SIGMOID, x_of(c)));
}
// -- gates: where e^-z is 0 its factors must be finite, so x is clamped to +-limit ----------------

static NodeId add(Grad *c, NodeId a, NodeId b) { return graph_binary(c->g, OP_ADD, a, b); }
static NodeId shifted(Grad *c, NodeId a, double by) { return add(c, a, grad_const(c, by)); }
static NodeId within(Grad *c, double limit) {
  NodeId ends[3] = {x_of(c), grad_const(c, -limit), grad_const(c, limit)};
  return graph_add(c->g, OP_CLIP, 3, ends, NULL);
}
static bool is_double(Grad *c) { return graph_node(c->g, x_of(c))->type == TYPE_F64; }

// sigmoid(z), sigmoid(-z), and the second minus the first
typedef struct Gates {
  NodeId s, t, tilt;
} Gates;
static Gates gates_of(Grad *c, NodeId z) {
  Gates g = {.s = graph_unary(c->g, OP_SIGMOID, z),
             .t = graph_unary(c->g, OP_SIGMOID, graph_unary(c->g, OP_NEG, z))};
  g.tilt = sub(c, g.t, g.s);
  return g;
}

void grad_silu(Grad *c) { grad_product_to(c, 0, c->dy, graph_unary(c->g, OP_SILU_SLOPE, x_of(c))); }
void grad_silu_slope(Grad *c) { // s t (2 + x (t - s))
  NodeId x = within(c, is_double(c) ? 800 : 120);
  Gates g = gates_of(c, x);
  grad_product_to(c, 0, c->dy, mul(c, mul(c, g.s, g.t), shifted(c, mul(c, x, g.tilt), 2)));
}

void grad_gelu(Grad *c) { grad_product_to(c, 0, c->dy, graph_unary(c->g, OP_GELU_SLOPE, x_of(c))); }
void grad_gelu_slope(Grad *c) { // e^(-x^2/2) (2 - x^2) / sqrt(2 pi)
  NodeId x = within(c, is_double(c) ? 40 : 15), square = mul(c, x, x);
  NodeId bell = graph_unary(c->g, OP_EXP, grad_scaled(c, square, -0.5));
  NodeId factor = grad_scaled(c, sub(c, grad_const(c, 2), square), 0.5 * M_2_SQRTPI * M_SQRT1_2);
  grad_product_to(c, 0, c->dy, mul(c, bell, factor));
}

void grad_gelu_tanh(Grad *c) {
  grad_product_to(c, 0, c->dy, graph_unary(c->g, OP_GELU_TANH_SLOPE, x_of(c)));
}
// With y = x s(z), z = k x + c x^3: s t (2 z' + x z'' + x z' z' (t - s)).
void grad_gelu_tanh_slope(Grad *c) {
  const double k = 1.5957691216057308, cube = 0.044715 * k;
  NodeId x = within(c, is_double(c) ? 24 : 12), square = mul(c, x, x);
  Gates g = gates_of(c, mul(c, x, shifted(c, grad_scaled(c, square, cube), k)));
  NodeId slope = shifted(c, grad_scaled(c, square, 3 * cube), k),
         bend = grad_scaled(c, square, 6 * cube);
  NodeId rest = mul(c, mul(c, mul(c, x, slope), slope), g.tilt);
  NodeId sum = add(c, add(c, grad_scaled(c, slope, 2), bend), rest);
  grad_product_to(c, 0, c->dy, mul(c, mul(c, g.s, g.t), sum));
}

void grad_reciprocal(Grad *c) {
  grad_product_to(c, 0, graph_unary(c->g, OP_NEG, c->dy), mul(c, c->id, c->id));
}

// cast: if a narrow product is widened directly, the product has a wide result instead (decision 6:
// weight gradients of narrow products have type f32).
void grad_cast(Grad *c) {
  Dtype to = (Dtype)graph_node(c->g, x_of(c))->type;
  Node dy = *graph_node(c->g, c->dy);
  bool widens = dtype_bytes(to) > dtype_bytes((Dtype)dy.type);
  if (dy.op == OP_CONTRACT && widens) {
    Attr attr = dy.attr;
    attr.type = to;
    grad_to(c, 0, graph_add(c->g, OP_CONTRACT, 2, (NodeId[]){dy.args[0], dy.args[1]}, &attr));
  } else {
    grad_to(c, 0, graph_cast(c->g, c->dy, to));
  }
}

// -- two arguments ------------------------------------------------------------------------------

void grad_add(Grad *c) {
  grad_to(c, 0, c->dy);
  grad_to(c, 1, c->dy);
}

void grad_sub(Grad *c) {
  grad_to(c, 0, c->dy);
  if (grad_wanted(c, 1)) grad_to(c, 1, graph_unary(c->g, OP_NEG, c->dy));
}

void grad_mul(Grad *c) {
  grad_product_to(c, 0, c->dy, c->n.args[1]);
  grad_product_to(c, 1, c->dy, c->n.args[0]);
}

void grad_div(Grad *c) { // 1/b, -y/b
  NodeId part = graph_binary(c->g, OP_DIV, c->dy, c->n.args[1]);
  grad_to(c, 0, part);
  if (grad_wanted(c, 1)) grad_product_to(c, 1, graph_unary(c->g, OP_NEG, part), c->id);
}

void grad_mod(Grad *c) { // a - floor(a / b) b
  grad_to(c, 0, c->dy);
  if (!grad_wanted(c, 1)) return;
  NodeId floor = graph_binary(c->g, OP_FLOOR_DIV, c->n.args[0], c->n.args[1]);
  grad_product_to(c, 1, graph_unary(c->g, OP_NEG, c->dy), floor);
}

// The derivative of pow by a: b a^(b-1); 0 where b is 0, for any a.
static NodeId pow_slope(Grad *c, NodeId a, NodeId b) {
  const Node *exponent = graph_node(c->g, b);
  if (exponent->op == OP_CONST) {
    double e = exponent->attr.num[0];
    if (e == 1) return one(c);
    if (e == 2) return grad_scaled(c, a, 2);
    return grad_scaled(c, graph_binary(c->g, OP_POW, a, grad_const(c, e - 1)), e);
  }
  // b - 1 rounds for a small b: there the slope is b y / a, with a finite and positive
  NodeId small = graph_binary(c->g, OP_LT, graph_unary(c->g, OP_ABS, b), grad_const(c, 0.5));
  small = graph_binary(c->g, OP_AND, small, graph_binary(c->g, OP_LT, zero(c), a));
  small = graph_binary(c->g, OP_AND, small,
                       graph_binary(c->g, OP_LT, a, grad_const(c, (double)INFINITY)));
  NodeId quotient = graph_binary(c->g, OP_DIV, c->id, graph_where(c->g, small, a, one(c)));
  NodeId power = graph_binary(c->g, OP_POW, a, sub(c, b, one(c)));
  NodeId slope = mul(c, b, graph_where(c->g, small, quotient, power));
  return graph_where(c->g, graph_binary(c->g, OP_EQ, b, zero(c)), zero(c), slope);
}

void grad_pow(Grad *c) {
  NodeId a = c->n.args[0], b = c->n.args[1];
  const Node *exponent = graph_node(c->g, b);
  bool constant = exponent->op == OP_CONST && exponent->attr.num[0] == 0;
  if (grad_wanted(c, 0) && !constant) grad_product_to(c, 0, c->dy, pow_slope(c, a, b));
  if (!grad_wanted(c, 1)) return;
  // y log(a), and 0 where a is 0
  NodeId at_zero = graph_binary(c->g, OP_EQ, a, zero(c));
  NodeId log = graph_unary(c->g, OP_LOG, graph_where(c->g, at_zero, one(c), a));
  grad_product_to(c, 1, c->dy, mul(c, c->id, log));
}

// maximum, minimum: the gradient goes to the argument that is the result, half to each if both are
// equal.
static void grad_extreme(Grad *c, NodeId first_loses, NodeId second_loses) {
  NodeId equal = graph_binary(c->g, OP_EQ, c->n.args[0], c->n.args[1]);
  NodeId half = graph_where(c->g, equal, grad_scaled(c, c->dy, 0.5), zero(c));
  if (grad_wanted(c, 0)) grad_to(c, 0, graph_where(c->g, second_loses, c->dy, half));
  if (grad_wanted(c, 1)) grad_to(c, 1, graph_where(c->g, first_loses, c->dy, half));
}

void grad_maximum(Grad *c) {
  NodeId a = c->n.args[0], b = c->n.args[1];
  grad_extreme(c, graph_binary(c->g, OP_LT, a, b), graph_binary(c->g, OP_LT, b, a));
}

void grad_minimum(Grad *c) {
  NodeId a = c->n.args[0], b = c->n.args[1];
  grad_extreme(c, graph_binary(c->g, OP_LT, b, a), graph_binary(c->g, OP_LT, a, b));
}

void grad_where(Grad *c) {
  masked_to(c, 1, c->n.args[0], c->dy);
  if (grad_wanted(c, 2)) grad_to(c, 2, graph_where(c->g, c->n.args[0], zero(c), c->dy));
}

// clip(x, lo, hi) = min(max(x, lo), hi): the gradient goes to the argument that is the result, to
// none at the kinks.
void grad_clip(Grad *c) {
  NodeId x = c->n.args[0], lo = c->n.args[1], hi = c->n.args[2];
  Graph *g = c->g;
  NodeId above = graph_binary(g, OP_LT, lo, x), below = graph_binary(g, OP_LT, x, hi);
  masked_to(c, 0, graph_binary(g, OP_AND, above, below), c->dy);
  if (grad_wanted(c, 1)) {
    NodeId under = graph_binary(g, OP_LT, x, lo), room = graph_binary(g, OP_LT, lo, hi);
    masked_to(c, 1, graph_binary(g, OP_AND, under, room), c->dy);
  }
  if (grad_wanted(c, 2)) {
    NodeId most = graph_binary(g, OP_MAXIMUM, x, lo);
    masked_to(c, 2, graph_binary(g, OP_LT, hi, most), c->dy);
  }
}
