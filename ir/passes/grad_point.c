// Derivative rules of pointwise ops. In the formulas y is the value of the node, dy its gradient,
// and x its argument.
#include <math.h>

#include "ir/passes/grad_internal.h"

static NodeId x_of(const Grad *c) { return c->n.args[0]; }
static NodeId unary(Grad *c, Op op, NodeId a) { return graph_unary(c->g, op, a); }
static NodeId binary(Grad *c, Op op, NodeId a, NodeId b) { return graph_binary(c->g, op, a, b); }
static NodeId mul(Grad *c, NodeId a, NodeId b) { return binary(c, OP_MUL, a, b); }
static NodeId add(Grad *c, NodeId a, NodeId b) { return binary(c, OP_ADD, a, b); }
static NodeId sub(Grad *c, NodeId a, NodeId b) { return binary(c, OP_SUB, a, b); }
static NodeId less(Grad *c, NodeId a, NodeId b) { return binary(c, OP_LT, a, b); }
static NodeId one(Grad *c) { return grad_const(c, 1); }
static NodeId zero(Grad *c) { return grad_const(c, 0); }
// slope_to adds dy * slope to the gradient by argument 0. slope_of takes an operation instead of
// the slope, and uses op(x) as the slope, where x is argument 0.
static void slope_to(Grad *c, NodeId slope) { grad_product_to(c, 0, c->dy, slope); }
static void slope_of(Grad *c, Op op) { slope_to(c, unary(c, op, x_of(c))); }
// Adds dy where `mask` is true, and 0 elsewhere, to the gradient by argument i.
static void masked_to(Grad *c, int i, NodeId mask, NodeId dy) {
  if (grad_wanted(c, i)) grad_to(c, i, graph_where(c->g, mask, dy, zero(c)));
}

void grad_neg(Grad *c) { grad_to(c, 0, unary(c, OP_NEG, c->dy)); }
void grad_exp(Grad *c) { slope_to(c, c->id); }
void grad_log(Grad *c) { grad_to(c, 0, binary(c, OP_DIV, c->dy, x_of(c))); }
void grad_log1p(Grad *c) { grad_to(c, 0, binary(c, OP_DIV, c->dy, add(c, x_of(c), one(c)))); }
// The rule of y = expm1(x) uses exp(x) as the derivative. y + 1 is equal, but loses the low digits
// of small values of y.
void grad_expm1(Grad *c) { slope_of(c, OP_EXP); }
void grad_sqrt(Grad *c) { // derivative: 1 / (2 y)
  grad_to(c, 0, binary(c, OP_DIV, grad_scaled(c, c->dy, 0.5), c->id));
}
void grad_rsqrt(Grad *c) { // derivative: -y^3 / 2
  NodeId cube = mul(c, mul(c, grad_scaled(c, c->id, -0.5), c->id), c->id);
  slope_to(c, cube);
}
void grad_abs(Grad *c) { slope_of(c, OP_SIGN); }
void grad_sin(Grad *c) { slope_of(c, OP_COS); }
void grad_cos(Grad *c) { slope_to(c, unary(c, OP_NEG, unary(c, OP_SIN, x_of(c)))); }
void grad_tanh(Grad *c) { slope_to(c, sub(c, one(c), mul(c, c->id, c->id))); }
void grad_sigmoid(Grad *c) { slope_to(c, mul(c, c->id, sub(c, one(c), c->id))); }
void grad_relu(Grad *c) { masked_to(c, 0, less(c, zero(c), x_of(c)), c->dy); }
void grad_erf(Grad *c) { // derivative: 2 / sqrt(pi) exp(-x^2)
  NodeId bell = unary(c, OP_EXP, unary(c, OP_NEG, mul(c, x_of(c), x_of(c))));
  slope_to(c, grad_scaled(c, bell, M_2_SQRTPI));
}
void grad_softplus(Grad *c) { slope_of(c, OP_SIGMOID); }
// -- silu and gelu ------------------------------------------------------------------------------
// The second derivatives of silu and gelu are products of e^-z and powers of x. Where e^-z
// underflows to 0, a power of x must not overflow, because 0 * inf is NaN. So `within` limits x to
// an interval outside which the derivative is 0.

static NodeId shifted(Grad *c, NodeId a, double by) { return add(c, a, grad_const(c, by)); }
static NodeId within(Grad *c, double limit) {
  NodeId ends[3] = {x_of(c), grad_const(c, -limit), grad_const(c, limit)};
  return graph_add(c->g, OP_CLIP, 3, ends, NULL);
}
static bool is_double(Grad *c) { return graph_node(c->g, x_of(c))->type == TYPE_F64; }

// The nodes from which derivatives of silu and gelu are built. For an argument z: s = sigmoid(z), t
// = sigmoid(-z), and tilt = t - s.
typedef struct Gates {
  NodeId s, t, tilt;
} Gates;
static Gates gates_of(Grad *c, NodeId z) {
  Gates g = {.s = unary(c, OP_SIGMOID, z), .t = unary(c, OP_SIGMOID, unary(c, OP_NEG, z))};
  g.tilt = sub(c, g.t, g.s);
  return g;
}

void grad_silu(Grad *c) { slope_of(c, OP_SILU_SLOPE); }
void grad_silu_slope(Grad *c) { // derivative: s t (2 + x (t - s)), see Gates for z = x
  NodeId x = within(c, is_double(c) ? 800 : 120);
  Gates g = gates_of(c, x);
  slope_to(c, mul(c, mul(c, g.s, g.t), shifted(c, mul(c, x, g.tilt), 2)));
}

void grad_gelu(Grad *c) { slope_of(c, OP_GELU_SLOPE); }
void grad_gelu_slope(Grad *c) { // derivative: e^(-x^2/2) (2 - x^2) / sqrt(2 pi)
  NodeId x = within(c, is_double(c) ? 40 : 15), square = mul(c, x, x);
  NodeId bell = unary(c, OP_EXP, grad_scaled(c, square, -0.5));
  NodeId factor = grad_scaled(c, sub(c, grad_const(c, 2), square), 0.5 * M_2_SQRTPI * M_SQRT1_2);
  slope_to(c, mul(c, bell, factor));
}

void grad_gelu_tanh(Grad *c) { slope_of(c, OP_GELU_TANH_SLOPE); }
// The second derivative of y = x sigmoid(z) with z = k x + cube x^3. It is s t (2 z' + x z'' + x z'
// z' (t - s)), where s and t are as in Gates. In the code `slope` is z' and `bend` is x z''.
void grad_gelu_tanh_slope(Grad *c) {
  const double k = 1.5957691216057308, cube = 0.044715 * k;
  NodeId x = within(c, is_double(c) ? 24 : 12), square = mul(c, x, x);
  Gates g = gates_of(c, mul(c, x, shifted(c, grad_scaled(c, square, cube), k)));
  NodeId slope = shifted(c, grad_scaled(c, square, 3 * cube), k),
         bend = grad_scaled(c, square, 6 * cube);
  NodeId rest = mul(c, mul(c, mul(c, x, slope), slope), g.tilt);
  NodeId sum = add(c, add(c, grad_scaled(c, slope, 2), bend), rest);
  slope_to(c, mul(c, mul(c, g.s, g.t), sum));
}

void grad_reciprocal(Grad *c) {
  grad_product_to(c, 0, unary(c, OP_NEG, c->dy), mul(c, c->id, c->id));
}

// Derivative of cast: casts the gradient back. If the gradient is a narrow contraction that would
// be cast to a wider type, the contraction itself gets the wider result type. Gradients of f32
// parameters are then not rounded to bf16.
void grad_cast(Grad *c) {
  Dtype to = (Dtype)graph_node(c->g, x_of(c))->type;
  Node dy = *graph_node(c->g, c->dy);
  bool widens = dtype_bytes(to) > dtype_bytes((Dtype)dy.type);
  if (dy.op == OP_CONTRACT && widens) {
    Attr attr = *dy.attr;
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
  if (grad_wanted(c, 1)) grad_to(c, 1, unary(c, OP_NEG, c->dy));
}

void grad_mul(Grad *c) {
  slope_to(c, c->n.args[1]);
  grad_product_to(c, 1, c->dy, c->n.args[0]);
}

void grad_div(Grad *c) { // y = a / b: derivative 1/b by a, -y/b by b
  NodeId part = binary(c, OP_DIV, c->dy, c->n.args[1]);
  grad_to(c, 0, part);
  if (grad_wanted(c, 1)) grad_product_to(c, 1, unary(c, OP_NEG, part), c->id);
}

void grad_mod(Grad *c) { // y = a - floor(a / b) b: derivative 1 by a, -floor(a / b) by b
  grad_to(c, 0, c->dy);
  if (!grad_wanted(c, 1)) return;
  NodeId floor = binary(c, OP_FLOOR_DIV, c->n.args[0], c->n.args[1]);
  grad_product_to(c, 1, unary(c, OP_NEG, c->dy), floor);
}

// Returns the derivative of a^b by a: b a^(b-1). Where b is 0 it is 0 for any a.
static NodeId pow_slope(Grad *c, NodeId a, NodeId b) {
  const Node *exponent = graph_node(c->g, b);
  if (exponent->op == OP_CONST) {
    double e = exponent->attr->num[0];
    if (e == 1) return one(c);
    if (e == 2) return grad_scaled(c, a, 2);
    return grad_scaled(c, binary(c, OP_POW, a, grad_const(c, e - 1)), e);
  }
  // For a small b, b - 1 has a rounding error that is large relative to b. Where a is positive and
  // finite, the equal form b y / a is used instead.
  NodeId small = less(c, unary(c, OP_ABS, b), grad_const(c, 0.5));
  small = binary(c, OP_AND, small, less(c, zero(c), a));
  small = binary(c, OP_AND, small, less(c, a, grad_const(c, (double)INFINITY)));
  NodeId quotient = binary(c, OP_DIV, c->id, graph_where(c->g, small, a, one(c)));
  NodeId power = binary(c, OP_POW, a, sub(c, b, one(c)));
  NodeId slope = mul(c, b, graph_where(c->g, small, quotient, power));
  return graph_where(c->g, binary(c, OP_EQ, b, zero(c)), zero(c), slope);
}

void grad_pow(Grad *c) {
  NodeId a = c->n.args[0], b = c->n.args[1];
  const Node *exponent = graph_node(c->g, b);
  bool constant = exponent->op == OP_CONST && exponent->attr->num[0] == 0;
  if (grad_wanted(c, 0) && !constant) slope_to(c, pow_slope(c, a, b));
  if (!grad_wanted(c, 1)) return;
  // The derivative by b is y log(a), and 0 where a is 0.
  NodeId at_zero = binary(c, OP_EQ, a, zero(c));
  NodeId log = unary(c, OP_LOG, graph_where(c->g, at_zero, one(c), a));
  grad_product_to(c, 1, c->dy, mul(c, c->id, log));
}

// Derivative of maximum and minimum: dy goes to the argument that is the result. Equal arguments
// get one half of dy each.
static void grad_extreme(Grad *c, NodeId first_loses, NodeId second_loses) {
  NodeId equal = binary(c, OP_EQ, c->n.args[0], c->n.args[1]);
  NodeId half = graph_where(c->g, equal, grad_scaled(c, c->dy, 0.5), zero(c));
  if (grad_wanted(c, 0)) grad_to(c, 0, graph_where(c->g, second_loses, c->dy, half));
  if (grad_wanted(c, 1)) grad_to(c, 1, graph_where(c->g, first_loses, c->dy, half));
}

void grad_maximum(Grad *c) {
  NodeId a = c->n.args[0], b = c->n.args[1];
  grad_extreme(c, less(c, a, b), less(c, b, a));
}

void grad_minimum(Grad *c) {
  NodeId a = c->n.args[0], b = c->n.args[1];
  grad_extreme(c, less(c, b, a), less(c, a, b));
}

void grad_where(Grad *c) {
  masked_to(c, 1, c->n.args[0], c->dy);
  if (grad_wanted(c, 2)) grad_to(c, 2, graph_where(c->g, c->n.args[0], zero(c), c->dy));
}

// Derivative of clip(x, lo, hi) = min(max(x, lo), hi): dy goes to the argument that is the result.
// Where x equals lo or hi, no argument gets a gradient.
void grad_clip(Grad *c) {
  NodeId x = c->n.args[0], lo = c->n.args[1], hi = c->n.args[2];
  NodeId above = less(c, lo, x), below = less(c, x, hi);
  masked_to(c, 0, binary(c, OP_AND, above, below), c->dy);
  if (grad_wanted(c, 1)) {
    NodeId under = less(c, x, lo), room = less(c, lo, hi);
    masked_to(c, 1, binary(c, OP_AND, under, room), c->dy);
  }
  if (grad_wanted(c, 2)) {
    NodeId most = binary(c, OP_MAXIMUM, x, lo);
    masked_to(c, 2, less(c, hi, most), c->dy);
  }
}
