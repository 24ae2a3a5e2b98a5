// Simplification of pointwise ops: constant folding, neutral operands, double negations, casts of
// casts, small powers. Removes broadcasts of operands, because pointwise ops match operands by the
// names of dims.
#include <math.h>

#include "ir/eval/eval_rules.h"
#include "ir/passes/simplify_internal.h"

static bool is_num(const Simplify *s, int i, double want) {
  double v;
  return simple_const(s->g, s->x[i], &v) && v == want;
}

// Returns argument 0 of x if x is a node of `op`, else 0.
static NodeId made_by(const Simplify *s, NodeId x, Op op) {
  const Node *n = graph_node(s->g, x);
  return n->op == op ? n->args[0] : 0;
}

static Dtype type_of(const Simplify *s, NodeId x) { return (Dtype)graph_node(s->g, x)->type; }
static NodeId again(Simplify *s, Op op, NodeId a, NodeId b) { return graph_binary(s->g, op, a, b); }

// Returns true if v is a power of two from 2^-12 to 2^10. Products of a t by v or 1 / v are exact,
// except near the limits of the range of t.
static bool is_power_of_two(Dtype t, double v) {
  int e;
  return dtype_is_float(t) && isfinite(v) && fabs(frexp(v, &e)) == 0.5 && e > -12 && e < 12;
}

// -- constants ----------------------------------------------------------------------------------

static bool foldable(const Simplify *s) {
  if (s->n->type == TYPE_U64 || s->n->type == TYPE_I64) return false;
  for (int i = 0; i < s->n->nargs; i++)
    if (simple_arg(s, i)->op != OP_CONST || simple_arg(s, i)->type == TYPE_U64) return false;
  return true;
}

static NodeId fold(Simplify *s) {
  if (!foldable(s)) return 0;
  Cell x[4];
  Dtype type[4] = {0};
  for (int i = 0; i < s->n->nargs; i++) {
    type[i] = (Dtype)simple_arg(s, i)->type;
    x[i] = (Cell){simple_arg(s, i)->attr->num[0], 0, false};
  }
  Cell y = eval_scalar(s->g, s->n, type, x);
  // A program reports an index out of range when it runs, so the op stays.
  bool outside = s->n->op == OP_BOUND && y.v != x[0].v;
  return y.t || isnan(y.v) || outside ? 0 : graph_const(s->g, (Dtype)s->n->type, y.v);
}

// -- one argument -------------------------------------------------------------------------------

// Replaces f(f(x)) by x for an operation f that is its own inverse.
static NodeId involution(Simplify *s) { return made_by(s, s->x[0], (Op)s->n->op); }

static NodeId same_again(Simplify *s) { return simple_arg(s, 0)->op == s->n->op ? s->x[0] : 0; }

static NodeId simplify_abs(Simplify *s) {
  NodeId inner = made_by(s, s->x[0], OP_NEG);
  if (inner && dtype_is_float(type_of(s, inner))) return graph_unary(s->g, OP_ABS, inner);
  Op op = (Op)simple_arg(s, 0)->op;
  return (op == OP_ABS && dtype_is_float((Dtype)s->n->type)) || op == OP_EXP || op == OP_SIGMOID
             ? s->x[0]
             : 0;
}

static NodeId simplify_cast(Simplify *s) {
  Dtype to = s->n->attr->type;
  if (type_of(s, s->x[0]) == to) return s->x[0];
  NodeId inner = made_by(s, s->x[0], OP_CAST);
  if (!inner || !dtype_widens(type_of(s, inner), type_of(s, s->x[0]))) return 0;
  return graph_cast(s->g, inner, to);
}

// Removes a bound_index whose argument is the index of a dim that is at most as long as the bound.
static NodeId simplify_bound(Simplify *s) {
  const Node *x = simple_arg(s, 0);
  if (x->op != OP_INDEX && x->op != OP_BOUND) return 0;
  int64_t have = dim_get(s->g->dims, dim_get(s->g->dims, x->attr->dims[0])->whole)->size;
  return have <= dim_get(s->g->dims, s->n->attr->dims[0])->size ? s->x[0] : 0;
}

// -- two arguments ------------------------------------------------------------------------------

static NodeId simplify_add(Simplify *s) {
  for (int i = 0; i < 2; i++) {
    NodeId other = s->x[1 - i], negated = made_by(s, s->x[i], OP_NEG);
    if (is_num(s, i, 0)) return other;
    if (negated) return again(s, OP_SUB, other, negated);
  }
  return 0;
}

static NodeId simplify_sub(Simplify *s) {
  NodeId negated = made_by(s, s->x[1], OP_NEG);
  if (is_num(s, 1, 0)) return s->x[0];
  return negated ? again(s, OP_ADD, s->x[0], negated) : 0;
}

// Replaces (x * c1) * c2 by x * (c1 * c2), if c2 is a power of two and |c1| <= 1. Then x * c1
// cannot overflow, and the result has the same bits.
static NodeId scaled_twice(Simplify *s, NodeId scaled, double by) {
  const Node *n = graph_node(s->g, scaled);
  Dtype type = (Dtype)s->n->type;
  if (n->op != OP_MUL || !is_power_of_two(type, by) || dtype_accumulator(type) != type) return 0;
  for (int i = 0; i < 2; i++) {
    double c;
    NodeId x = n->args[1 - i];
    if (!simple_const(s->g, n->args[i], &c) || !(fabs(c) <= 1 && fabs(c) > 1e-9)) continue;
    return again(s, OP_MUL, x, graph_const(s->g, type, c * by));
  }
  return 0;
}

static NodeId simplify_mul(Simplify *s) {
  NodeId minus[2] = {made_by(s, s->x[0], OP_NEG), made_by(s, s->x[1], OP_NEG)};
  bool is_float = dtype_is_float((Dtype)s->n->type);
  for (int i = 0; i < 2; i++) {
    double v;
    NodeId other = s->x[1 - i];
    if (!simple_const(s->g, s->x[i], &v)) continue;
    if (v == 1) return other;
    if (v == -1) return graph_unary(s->g, OP_NEG, other);
    if (minus[1 - i] && is_float)
      return again(s, OP_MUL, minus[1 - i], graph_const(s->g, (Dtype)s->n->type, -v));
    return scaled_twice(s, other, v);
  }
  return minus[0] && minus[1] ? again(s, OP_MUL, minus[0], minus[1]) : 0;
}

static NodeId simplify_div(Simplify *s) {
  double v;
  if (!simple_const(s->g, s->x[1], &v)) return 0;
  if (v == 1) return s->x[0];
  if (!is_power_of_two((Dtype)s->n->type, v)) return 0;
  return again(s, OP_MUL, s->x[0], graph_const(s->g, (Dtype)s->n->type, 1 / v));
}

static NodeId simplify_floor_div(Simplify *s) {
  return is_num(s, 1, 1) && !dtype_is_float((Dtype)s->n->type) ? s->x[0] : 0;
}

// Returns true if x is certainly neither negative nor -0. Looks at `depth` levels of arguments.
static bool never_negative(const Graph *g, NodeId x, int depth) {
  const Node *n = graph_node(g, x);
  switch ((int)n->op) {
  case OP_ABS:
  case OP_EXP:
  case OP_SIGMOID: return true;
  case OP_CONST: return n->attr->num[0] > 0;
  case OP_MUL:
    if (n->args[0] == n->args[1]) return true;
    break;
  case OP_ADD:
  case OP_SUM:
  case OP_MAX:
  case OP_MEAN:
  case OP_BROADCAST:
  case OP_RENAME:
  case OP_CAST: break;
  case OP_CONTRACT: return n->args[0] == n->args[1];
  default: return false;
  }
  for (int i = 0; i < n->nargs; i++)
    if (depth == 0 || !never_negative(g, n->args[i], depth - 1)) return false;
  return true;
}

// Returns pow(x, 0.5) as sqrt(x), or pow(x, -0.5) as rsqrt(x); `op` is the root. The two forms
// differ for two values of x, which are replaced before the root. For -inf the powers are inf and
// 0, and the roots NaN. For -0 the powers are 0 and inf, and the roots -0 and -inf.
static NodeId root(Simplify *s, Op op) {
  Graph *g = s->g;
  NodeId x = s->x[0];
  if (never_negative(g, x, 4)) return graph_unary(g, op, x);
  Dtype t = (Dtype)s->n->type;
  NodeId infinite = graph_binary(g, OP_EQ, x, graph_const(g, t, -(double)INFINITY)),
         zero = graph_const(g, t, 0);
  NodeId y = graph_where(g, infinite, graph_const(g, t, (double)INFINITY), x);
  return graph_unary(g, op, graph_where(g, graph_binary(g, OP_EQ, x, zero), zero, y));
}

static NodeId simplify_pow(Simplify *s) {
  double e;
  NodeId x = s->x[0];
  if (!simple_const(s->g, s->x[1], &e)) return 0;
  if (e == 0) return graph_const(s->g, (Dtype)s->n->type, 1);
  if (e == 1) return x;
  // Two products in a narrow type would round twice.
  bool wide = dtype_accumulator((Dtype)s->n->type) == (Dtype)s->n->type;
  NodeId square = e == 2 || (wide && (e == 3 || e == 4)) ? again(s, OP_MUL, x, x) : 0;
  if (square) return e == 2 ? square : again(s, OP_MUL, square, e == 3 ? x : square);
  if (!dtype_is_float((Dtype)s->n->type)) return 0;
  if (e == -1) return graph_unary(s->g, OP_RECIPROCAL, x);
  if (e == 0.5) return root(s, OP_SQRT);
  return e == -0.5 ? root(s, OP_RSQRT) : 0;
}

static NodeId equal_args(Simplify *s) { return s->x[0] == s->x[1] ? s->x[0] : 0; }

// Simplifies `and` and `or` with a constant, which either determines the result or has no effect.
static NodeId simplify_logic(Simplify *s) {
  for (int i = 0; i < 2; i++) {
    double v;
    if (!simple_const(s->g, s->x[i], &v)) continue;
    return (v != 0) == (s->n->op == OP_AND) ? s->x[1 - i] : s->x[i];
  }
  return equal_args(s);
}

static NodeId simplify_where(Simplify *s) {
  double v;
  if (simple_const(s->g, s->x[0], &v)) return v != 0 ? s->x[1] : s->x[2];
  if (s->x[1] == s->x[2]) return s->x[1];
  NodeId inner = made_by(s, s->x[0], OP_NOT);
  return inner ? graph_where(s->g, inner, s->x[2], s->x[1]) : 0;
}

static SimplifyRule *const point_rule[OP_COUNT] = {
    [OP_NEG] = involution,       [OP_NOT] = involution,
    [OP_RELU] = same_again,      [OP_FLOOR] = same_again,
    [OP_CEIL] = same_again,      [OP_ROUND] = same_again,
    [OP_SIGN] = same_again,      [OP_STOP] = same_again,
    [OP_ABS] = simplify_abs,     [OP_CAST] = simplify_cast,
    [OP_BOUND] = simplify_bound, [OP_ADD] = simplify_add,
    [OP_SUB] = simplify_sub,     [OP_MUL] = simplify_mul,
    [OP_DIV] = simplify_div,     [OP_FLOOR_DIV] = simplify_floor_div,
    [OP_POW] = simplify_pow,     [OP_MAXIMUM] = equal_args,
    [OP_MINIMUM] = equal_args,   [OP_AND] = simplify_logic,
    [OP_OR] = simplify_logic,    [OP_WHERE] = simplify_where,
};

// Simplifies a pointwise op. Its operands are used without their broadcasts, because pointwise ops
// match operands by the names of dims. At most the result needs a broadcast.
NodeId simplify_point(Simplify *s) {
  bool stripped = false;
  for (int i = 0; i < s->n->nargs; i++) {
    NodeId x = simple_stripped(s->g, s->x[i]);
    stripped = stripped || x != s->x[i];
    s->x[i] = x;
  }
  NodeId y = fold(s);
  if (!y && point_rule[s->n->op]) y = point_rule[s->n->op](s);
  if (!y) y = simplify_over_window(s);
  if (!y && stripped) y = graph_add(s->g, (Op)s->n->op, s->n->nargs, s->x, s->n->attr);
  return y;
}
