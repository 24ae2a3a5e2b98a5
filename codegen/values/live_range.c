// Ranges of values at a block of positions (live_internal.h): interval arithmetic over constants,
// indices and pointwise operations (Moore, "Interval Analysis", 1966).
//
// A value that is computed from anything else is taken as finite: then -inf + x is -inf and 0 * x
// is 0. If it is not finite, the step has no useful result. With a limit, Live.reach, such values
// and what is computed from them alone lie within it: then -1e9 + x is low enough for exp to be 0.
#include "codegen/values/live_internal.h"

#include <math.h>

static const Range any = {-(double)INFINITY, (double)INFINITY};

static Range one(double x) { return isnan(x) ? any : (Range){x, x}; }
static Range of_bool(bool known, bool value) { return known ? one(value) : (Range){0, 1}; }

static Range hull(Range x, Range y) { return (Range){fmin(x.lo, y.lo), fmax(x.hi, y.hi)}; }

// -- arithmetic ----------------------------------------------------------------------------------

static bool is_infinite(Range r) { return range_is_single(r) && isinf(r.lo); }

static Range add(Range x, Range y) {
  if (is_infinite(x) && is_infinite(y) && x.lo != y.lo) return any;
  if (is_infinite(x)) return x;
  if (is_infinite(y)) return y;
  return (Range){x.lo + y.lo, x.hi + y.hi};
}

static Range negated(Range x) { return (Range){-x.hi, -x.lo}; }
static Range sub(Range x, Range y) { return add(x, negated(y)); }

static double times(double x, double y) { return x == 0 || y == 0 ? 0 : x * y; }

static Range mul(Range x, Range y) {
  if (is_infinite(x) && (y.lo <= 0 && y.hi >= 0)) return any;
  if (is_infinite(y) && (x.lo <= 0 && x.hi >= 0)) return any;
  double p[4] = {times(x.lo, y.lo), times(x.lo, y.hi), times(x.hi, y.lo), times(x.hi, y.hi)};
  Range r = one(p[0]);
  for (int i = 1; i < 4; i++) r = hull(r, one(p[i]));
  return r;
}

static Range quotient(Range x, Range y) {
  if (range_is(x, 0)) return x;
  bool safe = range_is_single(y) && y.lo != 0 && isfinite(y.lo);
  if (!safe) return any;
  Range r = {x.lo / y.lo, x.hi / y.lo}; // not x * (1 / y), which may be less than 1 for y / y
  return y.lo > 0 ? r : (Range){r.hi, r.lo};
}

static Range less(Range x, Range y) { return of_bool(x.hi < y.lo || x.lo >= y.hi, x.hi < y.lo); }
static Range at_most(Range x, Range y) {
  return of_bool(x.hi <= y.lo || x.lo > y.hi, x.hi <= y.lo);
}
static Range equal(Range x, Range y) {
  bool same = range_is_single(x) && range_is_single(y) && x.lo == y.lo;
  return of_bool(same || x.hi < y.lo || y.hi < x.lo, same);
}
static Range inverted(Range x) { return sub(one(1), x); }

static Range choice(Range c, Range x, Range y) {
  if (range_is(c, 1)) return x;
  return range_is(c, 0) ? y : hull(x, y);
}

// Returns the range of x as elements of type `to`.
static Range converted(Range x, Dtype to) {
  if (to == TYPE_BOOL) return of_bool(x.lo > 0 || x.hi < 0 || range_is(x, 0), !range_is(x, 0));
  return dtype_is_float(to) ? x : (Range){trunc(x.lo), trunc(x.hi)};
}

static Range pointwise(Op op, Dtype type, const Range *x) {
  switch ((int)op) {
  case OP_ADD: return add(x[0], x[1]);
  case OP_SUB: return sub(x[0], x[1]);
  case OP_MUL: return mul(x[0], x[1]);
  case OP_DIV: return converted(quotient(x[0], x[1]), type);
  case OP_NEG: return negated(x[0]);
  case OP_EXP: return (Range){exp(x[0].lo), exp(x[0].hi)};
  case OP_FLOOR: return (Range){floor(x[0].lo), floor(x[0].hi)};
  case OP_MAXIMUM: return (Range){fmax(x[0].lo, x[1].lo), fmax(x[0].hi, x[1].hi)};
  case OP_MINIMUM: return (Range){fmin(x[0].lo, x[1].lo), fmin(x[0].hi, x[1].hi)};
  case OP_LT: return less(x[0], x[1]);
  case OP_LE: return at_most(x[0], x[1]);
  case OP_EQ: return equal(x[0], x[1]);
  case OP_NE: return inverted(equal(x[0], x[1]));
  case OP_AND: return mul(x[0], x[1]);
  case OP_OR: return inverted(mul(inverted(x[0]), inverted(x[1])));
  case OP_NOT: return inverted(x[0]);
  case OP_WHERE: return choice(x[0], x[1], x[2]);
  case OP_CAST: return converted(x[0], type);
  }
  return any;
}

// Returns the range of results of type `type` if exact arithmetic gives x. Floats are rounded, but
// within a kernel perhaps later: the range has both numbers. Integers wrap or saturate outside of
// their type: any range is possible then.
static Range in_type(Range x, Dtype type) {
  static const double most = (double)(INT64_C(1) << 53); // exact integers in an f64
  double lo = -most, hi = most;
  if (dtype_is_float(type))
    return hull(x, (Range){dtype_round(type, x.lo), dtype_round(type, x.hi)});
  if (type == TYPE_I32) lo = INT32_MIN, hi = INT32_MAX;
  if (type == TYPE_U8) lo = 0, hi = UINT8_MAX;
  return dtype_class(type) == CLASS_INT && (x.lo < lo || x.hi > hi) ? any : x;
}

Range range_of_op(Op op, Dtype type, const Range *x) {
  Range r = in_type(pointwise(op, type, x), type);
  return isnan(r.lo) || isnan(r.hi) ? any : r;
}

// -- positions -----------------------------------------------------------------------------------

static Range span_of(const Live *l, const Span *s, DimId d) {
  for (; s; s = s->next)
    if (s->dim == d) return s->at;
  return (Range){0, (double)(dim_get(l->g->dims, d)->size - 1)};
}

// Returns the numbers that index[d] has at the positions, on any processor.
static Range index_range(const Live *l, const Span *s, DimId d) {
  const Dim *dim = dim_get(l->g->dims, d);
  Range at = span_of(l, s, d), offset = {0, 0};
  int64_t n = axes_size(l->g->mesh, dim->axes);
  for (int64_t k = 0; k < n && dim->whole != d; k++) {
    int64_t peer = axes_peer(l->g->mesh, dim->axes, 0, k);
    Range own = one((double)dim_offset(l->g->dims, l->g->mesh, d, peer));
    offset = k ? hull(offset, own) : own;
  }
  return add(at, offset);
}

// Returns the range of the argument of n, a rename or split, at the positions of n.
static Range through_view(Live *l, const Node *n, const Span *s, int depth) {
  Span under[MAX_RANK];
  const Attr *at = n->attr;
  for (int i = 0; i < at->ndims; i++) {
    Range r = span_of(l, s, at->to[i]);
    for (int k = 1; n->op == OP_SPLIT && k < at->nto; k++)
      r = add(mul(r, one((double)dim_get(l->g->dims, at->to[k])->size)), span_of(l, s, at->to[k]));
    under[i] = (Span){at->dims[i], r, i ? &under[i - 1] : s};
  }
  return live_range(l, n->args[0], &under[at->ndims - 1], depth);
}

static bool reaches(const Live *l, Range r) { return r.lo >= -l->reach && r.hi <= l->reach; }

// Returns range r of a result of n values x, within the reach if they are.
static Range within_reach(const Live *l, Range r, int n, const Range *x) {
  for (int i = 0; i < n; i++)
    if (!reaches(l, x[i])) return r;
  if (r.lo > l->reach || r.hi < -l->reach) return r;
  return (Range){fmax(r.lo, -l->reach), fmin(r.hi, l->reach)};
}

// Returns whether the range of n is that of its argument at the same positions, or at those under
// it.
static bool is_view(const Node *n) {
  return n->op == OP_BROADCAST || n->op == OP_AT || n->op == OP_RENAME || n->op == OP_SPLIT;
}

// Returns whether the range of n is computed from those of its arguments.
static bool is_followed(const Node *n) { return is_view(n) || op_row((Op)n->op)->cls == POINTWISE; }

static Range range_of(Live *l, NodeId id, const Span *s, int depth) {
  const Node *n = graph_node(l->g, id);
  Range x[MAX_ARGS] = {{0, 0}};
  if (n->op == OP_CONST) return one(n->attr->num[0]);
  if (n->op == OP_INDEX) return index_range(l, s, n->attr->dims[0]);
  if (n->op == OP_RENAME || n->op == OP_SPLIT) return through_view(l, n, s, depth);
  if (is_view(n)) return live_range(l, n->args[0], s, depth);
  if (!is_followed(n)) return (Range){-l->reach, l->reach};
  for (int i = 0; i < n->nargs; i++) x[i] = live_range(l, n->args[i], s, depth);
  return within_reach(l, range_of_op((Op)n->op, (Dtype)n->type, x), n->nargs, x);
}

// Finds which ranges depend on the positions, because indices are among what they are computed
// from. The others are found now, once.
static void find_fixed(Live *l) {
  l->varies = arena_array(l->a, bool, l->count + 1);
  for (NodeId n = 1; n <= l->count; n++) {
    const Node *x = graph_node(l->g, n);
    l->varies[n] = x->op == OP_INDEX;
    for (int i = 0; i < x->nargs && is_followed(x); i++) l->varies[n] |= l->varies[x->args[i]];
    if (!l->varies[n]) l->range[n] = range_of(l, n, NULL, 0);
  }
}

Range live_range(Live *l, NodeId n, const Span *spans, int depth) {
  if (!l->varies) find_fixed(l);
  if (!l->varies[n]) return l->range[n];
  bool keep = spans == l->spans;
  if (keep && n == l->masked) return one(0);
  if (depth == LIVE_DEPTH) return any;
  if (keep && l->ranged[n] == l->stamp) return l->range[n];
  Range r = range_of(l, n, spans, depth + 1);
  if (keep) l->range[n] = r;
  if (keep) l->ranged[n] = l->stamp;
  return r;
}
