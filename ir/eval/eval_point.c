// Pointwise operations in the evaluator: a function of cells for each operation, mapped over the
// elements. A cell is a value with its bound and its taint.
//
// The bound of a smooth function is the larger of two numbers: its derivative times the bound of
// the argument, and its change at the ends of the argument's interval, which covers steep places. A
// result is tainted if the function jumps within the argument's interval.
#include "ir/eval/eval_rules.h"

#include <math.h>

// The arguments of a rule: the node, and one cell (value, error bound, taint) of each argument.
typedef struct PointCall {
  const Graph *g;
  const Node *n;
  Dtype type; // type of the result
  Dtype arg;  // type of argument 0
  const Cell *x;
} PointCall;

typedef Cell PointRule(const PointCall *p);

// Allowed error of a function such as exp, in multiples of the unit roundoff u. It is 4 units in
// the last place of the result, and each of them is 2u.
static const double ULPS = 8;

static Cell plain(double v) { return (Cell){v, 0, false}; }
// wrapped returns x wrapped to the integer type of the result. The function after it returns the
// integer value of a cell (value with error bound) as 64 bits.
static Cell wrapped(const PointCall *p, uint64_t x) { return plain(int_wrap(p->type, (int64_t)x)); }
static uint64_t bits(Cell x) { return (uint64_t)(int64_t)x.v; }
static bool is_int(Dtype t) { return !dtype_is_float(t); }
// Returns |x| b, where b is an error bound. The result is 0 if one factor is 0 and the other
// infinite.
static double times(double x, double b) { return b == 0 || x == 0 ? 0 : fabs(x) * b; }

// Returns the allowed error of a result y that a program computes by a polynomial in the
// accumulator type of t, and then stores as t.
static double approximation(Dtype t, double y) {
  Dtype acc = dtype_accumulator(t);
  double once = acc == t ? 0 : unit_roundoff(t) * fabs(y) + least_subnormal(t);
  return once + ULPS * unit_roundoff(acc) * fabs(y) + least_normal(acc);
}

// Returns the cell (value with error bound) of y = f(x). `low` and `high` are the values of f at
// the ends of x's interval; `slope` is |f'(x)|.
static Cell smooth(const PointCall *p, double y, double low, double high, double slope) {
  Cell x = p->x[0];
  double b = 0;
  bool t = false;
  if (x.b > 0) {
    t = isnan(low) != isnan(y) || isnan(high) != isnan(y);
    if (isinf(y))
      b = low == y && high == y ? 0 : INF;
    else
      b = fmax(times(slope, x.b), fmax(fabs(low - y), fabs(high - y)));
  }
  return (Cell){y, isnan(y) || isinf(y) ? b : b + approximation(p->type, y), t};
}

// Defines the evaluation rule of y = f(x). `crossing`: f crosses zero between -4 and 4. In this
// interval f is a difference of nearly equal terms, so its error is relative to these terms.
#define SMOOTH(name, f, slope, crossing)                                                           \
  static Cell point_##name(const PointCall *p) {                                                   \
    double x = p->x[0].v, b = p->x[0].b, y = f(x);                                                 \
    Cell c = smooth(p, y, b > 0 ? f(x - b) : y, b > 0 ? f(x + b) : y, fabs(slope));                \
    c.b += crossing && fabs(x) < 4 ? approximation(p->type, 0.25) : 0;                             \
    return c;                                                                                      \
  }

static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_reciprocal(double x) { return 1 / x; }
static double f_sigmoid(double x) {
  double e = exp(-fabs(x));
  return x >= 0 ? 1 / (1 + e) : isnan(x) ? x : e / (1 + e);
}
// Returns log(1 + e^x). fmax(NaN, 0) is 0, so NaN is returned separately.
static double f_softplus(double x) { return isnan(x) ? x : fmax(x, 0) + log1p(exp(-fabs(x))); }

static double f_silu(double x) { return x < -800 ? -0.0 : x * f_sigmoid(x); }
static double f_silu_slope(double x) {
  double z = fmin(fmax(x, -800), 800);
  return isnan(x) ? x : f_sigmoid(x) * (1 + z * f_sigmoid(-x));
}
static double f_silu_bend(double x) {
  return f_sigmoid(x) * f_sigmoid(-x) * (2 + fmin(fabs(x), 800));
}

static double f_bell(double x) { return 0.5 * M_2_SQRTPI * M_SQRT1_2 * exp(-0.5 * x * x); }
static double f_gelu(double x) { return x < -40 ? -0.0 : 0.5 * x * erfc(-M_SQRT1_2 * x); }
static double f_gelu_slope(double x) {
  double z = fmin(fmax(x, -40), 40);
  return isnan(x) ? x : 0.5 * erfc(-M_SQRT1_2 * x) + z * f_bell(z);
}
static double f_gelu_bend(double x) {
  return fmin(fabs(x), 40) * fmin(fabs(x), 40) * f_bell(x) + 2 * f_bell(x);
}

static const double TANH_SCALE = 1.5957691216057308,
                    TANH_CUBE = 0.044715; // sqrt(8/pi), see GELU_TANH
static double f_inner(double x) { return TANH_SCALE * x * (1 + TANH_CUBE * x * x); }
static double f_gelu_tanh(double x) { return x < -24 ? -0.0 : x * f_sigmoid(f_inner(x)); }
static double f_gelu_tanh_slope(double x) {
  double c = fmin(fmax(x, -24), 24), z = f_inner(c),
         w = TANH_SCALE * c * (1 + 3 * TANH_CUBE * c * c);
  return isnan(x) ? x : f_sigmoid(z) * (1 + w * f_sigmoid(-z));
}
static double f_gelu_tanh_bend(double x) {
  double c = fmin(fabs(x), 24), z = f_inner(c), slope = TANH_SCALE * (1 + 3 * TANH_CUBE * c * c);
  return f_sigmoid(z) * f_sigmoid(-z) *
         (2 * slope + 6 * TANH_SCALE * TANH_CUBE * c * c + c * slope * slope);
}

// clang-format off
SMOOTH(exp, exp, y, false)
SMOOTH(log, log, 1 / x, false)
SMOOTH(log1p, log1p, 1 / (1 + x), false)
SMOOTH(expm1, expm1, y + 1, false)
SMOOTH(tanh, tanh, 1 - y * y, false)
SMOOTH(sigmoid, f_sigmoid, y * (1 - y), false)
SMOOTH(erf, erf, M_2_SQRTPI * exp(-x * x), false)
SMOOTH(softplus, f_softplus, f_sigmoid(x), false)
SMOOTH(silu, f_silu, f_silu_slope(x), false)
SMOOTH(silu_slope, f_silu_slope, f_silu_bend(x), true)
SMOOTH(gelu, f_gelu, f_gelu_slope(x), false)
SMOOTH(gelu_slope, f_gelu_slope, f_gelu_bend(x), true)
SMOOTH(gelu_tanh, f_gelu_tanh, f_gelu_tanh_slope(x), false)
SMOOTH(gelu_tanh_slope, f_gelu_tanh_slope, f_gelu_tanh_bend(x), true)
SMOOTH(rsqrt, f_rsqrt, 0.5 * y / x, false)
// clang-format on

Cell cell_sqrt(Dtype t, Cell x) {
  double y = sqrt(x.v), low = sqrt(fmax(x.v - x.b, 0));
  if (x.b == 0) return cell_rounded(t, y, 0, fma(y, y, -x.v) == 0);
  if (x.v - x.b < 0) return (Cell){y, 0, x.v + x.b >= 0};
  return cell_rounded(t, y, fmax(y - low, sqrt(x.v + x.b) - y), false);
}
static Cell point_sqrt(const PointCall *p) { return cell_sqrt(p->type, p->x[0]); }

// Returns the largest error of 1/x for an error bound b of x. This is b / (x (x - b)), the error at
// the end of x's interval that is nearer to 0.
static double pole(double x, double b) {
  if (b == 0) return 0;
  return fabs(x) > b ? b / (fabs(x) * (fabs(x) - b)) : INF;
}

static Cell point_reciprocal(const PointCall *p) {
  Cell x = p->x[0];
  double y = f_reciprocal(x.v);
  return cell_rounded(p->type, y, pole(x.v, x.b), fma(y, x.v, -1) == 0 || x.v == 0);
}

// Returns the cell (value with error bound) of y, the sine or cosine of the argument. A program
// subtracts multiples of pi/2 from the argument, which adds an error relative to the argument.
static Cell wave(const PointCall *p, double y, double slope) {
  Cell x = p->x[0];
  double u = unit_roundoff(dtype_accumulator(p->type));
  return (Cell){
      y, times(slope, x.b) + x.b * x.b / 2 + approximation(p->type, y) + ULPS * u * u * fabs(x.v),
      false};
}
static Cell point_sin(const PointCall *p) { return wave(p, sin(p->x[0].v), cos(p->x[0].v)); }
static Cell point_cos(const PointCall *p) { return wave(p, cos(p->x[0].v), sin(p->x[0].v)); }

// -- operations without rounding ----------------------------------------------------------------

static Cell point_neg(const PointCall *p) {
  Cell x = p->x[0];
  if (is_int(p->type)) return wrapped(p, 0 - bits(x));
  return (Cell){-x.v, x.b, false};
}

static Cell point_abs(const PointCall *p) {
  Cell x = p->x[0];
  if (is_int(p->type) && x.v < 0) return point_neg(p);
  return (Cell){fabs(x.v), x.b, false};
}

static Cell point_relu(const PointCall *p) {
  Cell x = p->x[0];
  return (Cell){x.v < 0 ? 0 : x.v, x.b, false};
}

static Cell point_copy(const PointCall *p) { return p->x[0]; }

// Returns y, a value of a step function, as a cell. `low` and `high` are the values of the function
// at the ends of the argument's interval. If they differ, y is tainted (uncertain).
static Cell step_at(double y, double low, double high) {
  return (Cell){y, 0, !(low == high) && !isnan(y)};
}

static double f_sign(double x) { return isnan(x) ? x : (double)(x > 0) - (double)(x < 0); }

#define STEP(name, f)                                                                              \
  static Cell point_##name(const PointCall *p) {                                                   \
    Cell x = p->x[0];                                                                              \
    return step_at(f(x.v), f(x.v - x.b), f(x.v + x.b));                                            \
  }
STEP(sign, f_sign)
STEP(floor, floor)
STEP(ceil, ceil)
STEP(trunc, trunc)
STEP(round, nearbyint) // rounds to the nearest integer, ties to even

static Cell point_not(const PointCall *p) { return plain(p->x[0].v == 0); }

// Rounds an exact number to the type of the result. An inexact number keeps its value, because a
// program may round its own value up or down; the error bound covers both.
static Cell point_cast(const PointCall *p) {
  Cell x = p->x[0];
  double y = dtype_round(p->type, x.v);
  if (is_int(p->type))
    return step_at(y, dtype_round(p->type, x.v - x.b), dtype_round(p->type, x.v + x.b));
  return x.b == 0 ? plain(y) : cell_rounded(p->type, x.v, x.b, false);
}

static Cell point_bound(const PointCall *p) {
  double last = (double)dim_get(p->g->dims, p->n->attr->dims[0])->size - 1;
  double x = p->x[0].v;
  return plain(x < 0 ? 0 : x > last ? last : x);
}

// -- two arguments ------------------------------------------------------------------------------

static Cell point_add(const PointCall *p) {
  Cell a = p->x[0], b = p->x[1];
  if (is_int(p->type)) return wrapped(p, bits(a) + bits(b));
  double y = a.v + b.v, part = y - a.v; // y is exact if the error that two-sum (Knuth) gives is 0
  bool exact = (a.v - (y - part)) + (b.v - part) == 0;
  return cell_rounded(p->type, y, a.b + b.b, exact);
}

static Cell point_sub(const PointCall *p) {
  Cell negated[2] = {p->x[0], p->x[1]};
  if (is_int(p->type)) return wrapped(p, bits(p->x[0]) - bits(p->x[1]));
  negated[1].v = -negated[1].v;
  PointCall q = *p;
  q.x = negated;
  return point_add(&q);
}

static Cell point_mul(const PointCall *p) {
  Cell a = p->x[0], b = p->x[1];
  if (is_int(p->type)) return wrapped(p, bits(a) * bits(b));
  double y = a.v * b.v;
  if (isinf(y) && fabs(a.v) > a.b && fabs(b.v) > b.b) return plain(y);
  return cell_rounded(p->type, y, times(a.v, b.b) + times(b.v, a.b) + a.b * b.b,
                      fma(a.v, b.v, -y) == 0);
}

static double div_bound(Cell a, Cell b) {
  return a.b / fmax(fabs(b.v) - b.b, 0) + times(a.v, pole(b.v, b.b));
}

static Cell point_div(const PointCall *p) {
  Cell a = p->x[0], b = p->x[1];
  double y = a.v / b.v, e = a.b == 0 && b.b == 0 ? 0 : isinf(b.v) ? 0 : div_bound(a, b);
  if (b.b > 0 && fabs(b.v) <= b.b) e = INF;
  Cell c = cell_rounded(p->type, y, e, fma(y, b.v, -a.v) == 0);
  c.t = isnan(y) && !(e == 0);
  return c;
}

static int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Returns floor(a / b) of floats in type t. The result is tainted (uncertain) unless all quotients
// within the error bounds have the same floor.
static Cell quotient_floor(Dtype t, Cell a, Cell b) {
  double q = a.v / b.v, e = a.b == 0 && b.b == 0 ? 0 : div_bound(a, b);
  Cell r = cell_rounded(t, q, e, fma(q, b.v, -a.v) == 0);
  return step_at(floor(q), floor(q - r.b), floor(q + r.b));
}

// Computes a floor division. An integer divided by zero gives a tainted (uncertain) result, because
// programs may differ.
static Cell point_floor_div(const PointCall *p) {
  Cell a = p->x[0], b = p->x[1];
  if (!is_int(p->type)) {
    Cell q = quotient_floor(dtype_accumulator(p->type), a, b),
         y = cell_rounded(p->type, q.v, 0, true);
    return (Cell){y.v, y.b, q.t};
  }
  if (b.v == 0) return (Cell){0, 0, true};
  return wrapped(p, (uint64_t)floor_quotient((int64_t)a.v, (int64_t)b.v));
}

// Returns a - floor(a / b) b, computed in the accumulator type and stored in the type of the node.
static Cell float_mod(const PointCall *p) {
  Cell a = p->x[0], b = p->x[1];
  Dtype acc = dtype_accumulator(p->type);
  double u = unit_roundoff(acc);
  Cell q = quotient_floor(acc, a, b);
  double whole = q.v * b.v, y = a.v - whole;
  bool exact = a.b == 0 && b.b == 0 && fma(q.v, b.v, -whole) == 0 &&
               dtype_round(acc, whole) == whole && a.v - y == whole && dtype_round(acc, y) == y;
  double e = a.b + times(q.v, b.b) + 2 * u * (fabs(a.v) + fabs(whole)) + 2 * least_subnormal(acc);
  Cell stored = acc == p->type ? (Cell){y, exact ? 0 : e, false}
                               : cell_rounded(p->type, y, exact ? 0 : e, exact);
  stored.t = q.t || isinf(b.v) || fabs(q.v) > 1 / u;
  return stored;
}

static Cell point_mod(const PointCall *p) {
  if (!is_int(p->type)) return float_mod(p);
  int64_t a = (int64_t)p->x[0].v, b = (int64_t)p->x[1].v;
  if (b == 0) return (Cell){0, 0, true};
  return wrapped(p, (uint64_t)a - (uint64_t)floor_quotient(a, b) * (uint64_t)b);
}

static Cell int_pow(const PointCall *p, int64_t base, int64_t exponent) {
  if (exponent < 0)
    return (Cell){base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0, 0, base == 0};
  uint64_t y = 1, x = (uint64_t)base;
  for (; exponent > 0; exponent >>= 1, x *= x)
    if (exponent & 1) y *= x;
  return wrapped(p, y);
}

static Cell point_pow(const PointCall *p) {
  Cell a = p->x[0], b = p->x[1];
  if (is_int(p->type)) return int_pow(p, (int64_t)a.v, (int64_t)b.v);
  double y = pow(a.v, b.v), e = 0;
  bool t = false;
  for (int corner = 0; corner < 4 && (a.b > 0 || b.b > 0); corner++) {
    double z = pow(a.v + (corner & 1 ? a.b : -a.b), b.v + (corner & 2 ? b.b : -b.b));
    t = t || isnan(z) != isnan(y);
    if (!(isinf(y) && z == y)) e = fmax(e, fabs(z - y));
  }
  if (a.b > 0 && fabs(a.v) <= a.b) t = t || b.v < 0;
  if (!isfinite(y)) return (Cell){y, e, t};
  double log_y = y > 0 ? fabs(log(y)) : 0;
  double slopes = times(a.v == 0 ? 0 : b.v * y / a.v, a.b) + times(log_y, b.b) * y;
  Dtype acc = dtype_accumulator(p->type);
  return (Cell){
      y, fmax(e, slopes) + approximation(p->type, y) + log_y * unit_roundoff(acc) * fabs(y), t};
}

Cell cell_extreme(Dtype t, bool max, Cell x, Cell y) {
  if (t == TYPE_U64) {
    // x and y are keys of argmax, which contain a value and an index. The larger key is not
    // certain, and the result tainted, if the two values are equal within their bounds.
    bool second = key_bits(y.v) > key_bits(x.v);
    Cell best = second ? y : x, other = second ? x : y;
    double gap = key_value(best.v, true) - key_value(other.v, true);
    bool known = (best.b == 0 && other.b == 0) || isnan(gap) || gap > best.b + other.b;
    return (Cell){best.v, best.b, x.t || y.t || !known};
  }
  bool first = isnan(x.v) || (!isnan(y.v) && (max ? x.v >= y.v : x.v <= y.v));
  Cell best = first ? x : y, other = first ? y : x;
  // how far the lesser cell, `other`, can be beyond `best` within its bound
  double reach = max ? other.v + other.b - best.v : best.v - (other.v - other.b);
  return (Cell){best.v, fmax(best.b, isnan(reach) ? 0 : reach), x.t || y.t};
}

static Cell point_maximum(const PointCall *p) {
  return cell_extreme(p->type, true, p->x[0], p->x[1]);
}
static Cell point_minimum(const PointCall *p) {
  return cell_extreme(p->type, false, p->x[0], p->x[1]);
}

static Cell point_clip(const PointCall *p) {
  return cell_extreme(p->type, false, cell_extreme(p->type, true, p->x[0], p->x[1]), p->x[2]);
}

// -- comparisons --------------------------------------------------------------------------------

static Cell compared(const PointCall *p, bool y) {
  double reach = p->x[0].b + p->x[1].b;
  return (Cell){y, 0, reach > 0 && fabs(p->x[0].v - p->x[1].v) <= reach};
}
static Cell point_eq(const PointCall *p) { return compared(p, p->x[0].v == p->x[1].v); }
static Cell point_ne(const PointCall *p) { return compared(p, p->x[0].v != p->x[1].v); }
static Cell point_lt(const PointCall *p) { return compared(p, p->x[0].v < p->x[1].v); }
static Cell point_le(const PointCall *p) { return compared(p, p->x[0].v <= p->x[1].v); }

// Computes `and`. If one operand is certainly false, the result is certain, even if the other
// operand is tainted (uncertain).
static Cell point_and(const PointCall *p) {
  Cell a = p->x[0], b = p->x[1];
  bool sure = (!a.t && a.v == 0) || (!b.t && b.v == 0);
  return (Cell){a.v != 0 && b.v != 0, 0, (a.t || b.t) && !sure};
}
static Cell point_or(const PointCall *p) {
  Cell a = p->x[0], b = p->x[1];
  bool sure = (!a.t && a.v != 0) || (!b.t && b.v != 0);
  return (Cell){a.v != 0 || b.v != 0, 0, (a.t || b.t) && !sure};
}

static Cell point_bit_and(const PointCall *p) { return wrapped(p, bits(p->x[0]) & bits(p->x[1])); }
static Cell point_bit_or(const PointCall *p) { return wrapped(p, bits(p->x[0]) | bits(p->x[1])); }
static Cell point_bit_xor(const PointCall *p) { return wrapped(p, bits(p->x[0]) ^ bits(p->x[1])); }
static Cell point_shift_left(const PointCall *p) {
  return bits(p->x[1]) > 31 ? plain(0) : wrapped(p, bits(p->x[0]) << bits(p->x[1]));
}
static Cell point_shift_right(const PointCall *p) {
  double step = bits(p->x[1]) > 31 ? 0x1p32 : ldexp(1, (int)bits(p->x[1]));
  return plain(floor(p->x[0].v / step));
}

static Cell point_where(const PointCall *p) {
  Cell c = p->x[0], a = p->x[1], b = p->x[2], y = c.v != 0 ? a : b;
  if (!c.t) return y;
  double gap = a.v == b.v ? 0 : fabs(a.v - b.v);
  bool agree = !a.t && !b.t && (gap <= a.b + b.b || (isnan(a.v) && isnan(b.v)));
  return (Cell){y.v, agree ? (isnan(gap) ? 0 : gap + fmax(a.b, b.b)) : y.b, !agree};
}

// Makes a key of argmax, a u64 that holds a value and its index. The cell has the error bound of
// that value, so that the maximum of keys (cell_extreme) can tell whether its result is certain.
static Cell point_arg_key(const PointCall *p) {
  return (Cell){key_double(key_make(p->arg, p->x[0].v, (int32_t)p->x[1].v)), p->x[0].b, false};
}
static Cell point_key_index(const PointCall *p) { return plain(key_index(p->x[0].v)); }

// -- mapping ------------------------------------------------------------------------------------

static PointRule *const point_rule[OP_COUNT] = {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  [OP_##id] = BY_CLASS(cls, point_##eval, NULL),
#include "ir/graph/ops.def"
};

Cell eval_scalar(const Graph *g, const Node *n, const Dtype *arg_type, const Cell *x) {
  PointCall p = {g, n, (Dtype)n->type, arg_type[0], x};
  Cell y = point_rule[n->op](&p);
  // the rules of where, and, or decide themselves which taints of arguments matter
  if (n->op != OP_WHERE && n->op != OP_AND && n->op != OP_OR)
    for (int i = 0; i < n->nargs; i++) y.t = y.t || x[i].t;
  return n->type == TYPE_U64 ? y : cell_finish((Dtype)n->type, y);
}

static void note_range(const EvalNode *c, const StrideWalk *w) {
  double id = c->arg[0]->value[w->at[1]];
  if (c->run->e->out_of_range || id == c->out->value[w->at[0]]) return;
  c->run->e->out_of_range = true;
  c->run->e->out_of_range_node = c->id;
}

void eval_point(const EvalNode *c) {
  StrideWalk w = walk_over(c->out, c->out, NULL);
  Dtype type[3] = {0};
  for (int k = 0; k < c->n->nargs; k++) {
    walk_operand(&w, c->arg[k]);
    type[k] = c->arg[k]->type;
  }
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    Cell x[3];
    for (int k = 0; k < c->n->nargs; k++) x[k] = tensor_cell(c->arg[k], w.at[k + 1]);
    tensor_put(c->out, w.at[0], eval_scalar(c->g, c->n, type, x));
    if (c->n->op == OP_BOUND) note_range(c, &w);
  }
}
