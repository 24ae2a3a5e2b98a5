// Reductions and contractions in the evaluator.
//
// A sum accumulates values, magnitudes and bounds for each element of the result. Maxima and minima
// combine two cells at a time (cell_extreme). The bound of a product of many factors is the product
// of |x| + bound(x) minus the product of |x|.
#include "ir/eval/eval_rules.h"
#include "ir/program/sums.h"

#include <math.h>

// Allowed error of exp and log, in multiples of the unit roundoff u. It is 4 units in the last
// place, and each of them is 2u.
enum { ULPS_OF_EXP = 8 };

// -- sums ---------------------------------------------------------------------------------------

void sum_store(const EvalNode *c, const Sum *s, int granule) {
  Dtype t = c->out->type, acc = dtype_accumulator(t);
  for (int64_t i = 0; i < c->out->elements; i++)
    tensor_put(c->out, i, sum_cell(acc, t, &s[i], granule, SUM_ROUNDINGS));
}

static Sum *sum_all(const EvalNode *c) {
  Sum *s = arena_array(c->arena, Sum, c->out->elements + 1);
  StrideWalk w = walk_over(c->arg[0], c->out, c->arg[0]);
  for (bool on = walk_first(&w); on; on = walk_next(&w))
    sum_add(&s[w.at[0]], tensor_cell(c->arg[0], w.at[1]), c->out->type);
  return s;
}

void eval_sum(const EvalNode *c) { sum_store(c, sum_all(c), tensor_granule(c->arg[0])); }

void eval_mean(const EvalNode *c) {
  Sum *s = sum_all(c);
  Dtype t = c->out->type, acc = dtype_accumulator(t);
  int granule = tensor_granule(c->arg[0]);
  for (int64_t i = 0; i < c->out->elements; i++) {
    Cell total = sum_cell(acc, acc, &s[i], granule, SUM_ROUNDINGS);
    double n = (double)s[i].n, y = total.v / n;
    bool exact = total.b == 0 && frexp(n, &(int){0}) == 0.5; // division by a power of two
    Cell scaled = cell_rounded(
        acc, y, total.b / n + (exact || isinf(y) ? 0 : unit_roundoff(acc) * fabs(y)), exact);
    Cell stored = acc == t ? scaled : cell_rounded(t, scaled.v, scaled.b, true);
    stored.t = total.t;
    tensor_put(c->out, i, cell_finish(t, stored));
  }
}

// -- extremes -----------------------------------------------------------------------------------

static void extremes(const EvalNode *c, bool max) {
  Dtype t = c->out->type;
  double start = monoid_identity(max ? MONOID_MAX : MONOID_MIN, t);
  uint8_t *begun = arena_array(c->arena, uint8_t, c->out->elements + 1);
  for (int64_t i = 0; i < c->out->elements; i++) tensor_put(c->out, i, (Cell){start, 0, false});
  StrideWalk w = walk_over(c->arg[0], c->out, c->arg[0]);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t at = w.at[0];
    Cell x = tensor_cell(c->arg[0], w.at[1]);
    tensor_put(c->out, at, begun[at] ? cell_extreme(t, max, tensor_cell(c->out, at), x) : x);
    begun[at] = 1;
  }
}

// Computes the maximum of keys of argmax (a value and its index in one u64). The result is tainted
// (uncertain) if another key has an equal value within the error bounds. The largest key must be
// known first, so a second loop compares it with all others.
static void largest_keys(const EvalNode *c) {
  StrideWalk w = walk_over(c->arg[0], c->out, c->arg[0]);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t at = w.at[0];
    Cell x = tensor_cell(c->arg[0], w.at[1]);
    if (key_bits(x.v) > key_bits(c->out->value[at])) tensor_put(c->out, at, x);
  }
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t at = w.at[0];
    Cell best = tensor_cell(c->out, at), x = tensor_cell(c->arg[0], w.at[1]);
    if (key_bits(x.v) != key_bits(best.v) || x.t)
      tensor_put(c->out, at, cell_extreme(TYPE_U64, true, best, x));
  }
}

void eval_max(const EvalNode *c) {
  if (c->out->type == TYPE_U64)
    largest_keys(c);
  else
    extremes(c, true);
}
void eval_min(const EvalNode *c) { extremes(c, false); }

// Computes `any` (`decisive` is true) or `all` (`decisive` is false). An element equal to
// `decisive` determines the result if it is not tainted (uncertain).
static void decide(const EvalNode *c, bool decisive) {
  uint8_t *sure = arena_array(c->arena, uint8_t, c->out->elements + 1);
  for (int64_t i = 0; i < c->out->elements; i++) tensor_put(c->out, i, (Cell){!decisive, 0, false});
  StrideWalk w = walk_over(c->arg[0], c->out, c->arg[0]);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t at = w.at[0];
    Cell x = tensor_cell(c->arg[0], w.at[1]), y = tensor_cell(c->out, at);
    bool decides = (x.v != 0) == decisive;
    sure[at] = sure[at] || (decides && !x.t);
    tensor_put(c->out, at, (Cell){decides ? decisive : y.v, 0, !sure[at] && (x.t || y.t)});
  }
}

void eval_any(const EvalNode *c) { decide(c, true); }
void eval_all(const EvalNode *c) { decide(c, false); }

// The elements that one result of argmax compares, in the order of the list attr.dims, whose first
// dim is the slowest. at[k] is the offset of element k; the position of element k along the dim
// that the result names is k / inner % size.
typedef struct ArgRow {
  int64_t n, *at, inner, size;
} ArgRow;

static ArgRow arg_row(const EvalNode *c) {
  const Attr *t = c->n->attr;
  const Tensor *x = c->arg[0];
  ArgRow row = {.n = 1, .inner = 1};
  for (int i = t->ndims - 1; i >= 0; i--) {
    int64_t extent = x->extent[dims_index(&x->dims, t->dims[i])];
    if (!t->nto || t->dims[i] == t->to[0]) row.inner = row.n, row.size = extent;
    row.n *= extent;
  }
  row.at = arena_array(c->arena, int64_t, row.n + 1);
  for (int64_t k = 0; k < row.n; k++) {
    int64_t left = k;
    for (int i = t->ndims - 1; i >= 0; i--) {
      int64_t extent = x->extent[dims_index(&x->dims, t->dims[i])];
      row.at[k] += left % extent * tensor_stride(x, t->dims[i]);
      left /= extent;
    }
  }
  return row;
}

// Computes the first position of the largest element, or of the smallest if `max` is false. If an
// element is NaN, its position is the result. The result is tainted (uncertain) if another element
// equals the found one within the error bounds.
static void arg_extreme(const EvalNode *c, bool max) {
  ArgRow row = arg_row(c);
  StrideWalk w = walk_over(c->out, c->out, c->arg[0]);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t from = w.at[1], best = 0;
    bool t = false;
    for (int64_t k = 1; k < row.n; k++) {
      double x = c->arg[0]->value[from + row.at[k]], y = c->arg[0]->value[from + row.at[best]];
      if (!isnan(y) && (isnan(x) || (max ? x > y : x < y))) best = k;
    }
    Cell y = tensor_cell(c->arg[0], from + row.at[best]);
    for (int64_t k = 0; k < row.n; k++) {
      Cell x = tensor_cell(c->arg[0], from + row.at[k]);
      bool near = k != best && x.b + y.b > 0 && fabs(x.v - y.v) <= x.b + y.b;
      t = t || x.t || near;
    }
    tensor_put(c->out, w.at[0], (Cell){(double)(best / row.inner % row.size), 0, t});
  }
}

void eval_argmax(const EvalNode *c) { arg_extreme(c, true); }
void eval_argmin(const EvalNode *c) { arg_extreme(c, false); }

// -- product, logsumexp -------------------------------------------------------------------------

static bool product_unknown(const RunningProduct *p, Dtype acc) {
  double slack = 1 + 2 * (double)p->n * unit_roundoff(acc), y = p->y.v;
  bool over = p->above * slack > largest_finite(acc), under = p->below < least_normal(acc) * slack;
  if (isnan(y)) return false;
  if (p->zero) return over;
  if (p->infinite) return under;
  return (over && fabs(y) <= largest_finite(acc)) || (under && fabs(y) >= least_normal(acc)) ||
         (over && under);
}

void product_factor(RunningProduct *p, Cell x, Dtype t) {
  Dtype acc = dtype_accumulator(t);
  Cell y = p->y;
  double v = dtype_is_float(t)
                 ? y.v * x.v
                 : int_wrap(t, (int64_t)((uint64_t)(int64_t)y.v * (uint64_t)(int64_t)x.v));
  bool exact = fma(y.v, x.v, -v) == 0 && dtype_round(acc, v) == v;
  double high = fabs(x.v) + x.b, low = fmax(fabs(x.v) - x.b, 0);
  p->y = (Cell){v, y.b + least_subnormal(acc) * !exact, y.t || x.t};
  p->wide *= high;
  p->rounded += !exact;
  p->n++;
  p->zero = p->zero || (x.v == 0 && x.b == 0);
  p->infinite = p->infinite || isinf(x.v);
  if ((x.v == 0 && x.b == 0) || isinf(x.v)) return;
  if (high > 1) p->above *= high;
  if (low < 1) p->below *= low;
}

Cell product_cell(const RunningProduct *p, Dtype t) {
  if (!dtype_is_float(t)) return p->y;
  // A program accumulates in f64: each multiplication adds a relative error of the roundoff of f64.
  double wide = p->wide * exp(2 * unit_roundoff(TYPE_F64) * (double)p->rounded);
  Cell y = p->y;
  double b = isfinite(y.v) ? fmax(wide - fabs(y.v), 0) + y.b : wide < INF ? 0 : y.b;
  Cell stored = t == TYPE_F64 ? (Cell){y.v, b, false} : cell_rounded(t, y.v, b, true);
  stored.t = y.t || product_unknown(p, dtype_accumulator(t));
  return cell_finish(t, stored);
}

void eval_prod(const EvalNode *c) {
  int64_t n = c->out->elements;
  RunningProduct *p = arena_array(c->arena, RunningProduct, n + 1);
  for (int64_t i = 0; i < n; i++) p[i] = product_one;
  StrideWalk w = walk_over(c->arg[0], c->out, c->arg[0]);
  for (bool on = walk_first(&w); on; on = walk_next(&w))
    product_factor(&p[w.at[0]], tensor_cell(c->arg[0], w.at[1]), c->out->type);
  for (int64_t i = 0; i < n; i++) tensor_put(c->out, i, product_cell(&p[i], c->out->type));
}

// Computes y = log(sum(exp(x - m))) + m, where m is the maximum. The derivative by x is exp(x - y).
// An error of m does not change y, because m is first subtracted and then added.
void eval_logsumexp(const EvalNode *c) {
  Dtype t = c->out->type, acc = dtype_accumulator(t);
  double u = unit_roundoff(acc);
  int64_t n = c->out->elements;
  double *sum = arena_array(c->arena, double, n + 1), *bound = arena_array(c->arena, double, n + 1);
  extremes(c, true);
  StrideWalk w = walk_over(c->arg[0], c->out, c->arg[0]);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t at = w.at[0];
    Cell x = tensor_cell(c->arg[0], w.at[1]);
    double m = c->out->value[at], shifted = isinf(m) ? x.v : x.v - m, e = exp(shifted);
    sum[at] += e;
    if (e > 0) bound[at] += e * (x.b + u * fabs(shifted) + ULPS_OF_EXP * u);
  }
  double roundings = sum_roundings(acc, n == 0 ? 0 : c->arg[0]->elements / n, SUM_ROUNDINGS);
  for (int64_t i = 0; i < n; i++) {
    double m = isinf(c->out->value[i]) ? 0 : c->out->value[i], l = log(sum[i]), y = l + m;
    double b = isfinite(y) ? bound[i] / sum[i] + roundings * u +
                                 ULPS_OF_EXP * u * (fabs(l) + fabs(m)) + least_normal(acc)
                           : 0;
    Cell stored = acc == t ? (Cell){y, isfinite(y) ? b + u * fabs(y) : 0, false}
                           : cell_rounded(t, y, b, false);
    stored.t = c->out->tainted[i];
    tensor_put(c->out, i, cell_finish(t, stored));
  }
}

// Computes the root of the sum of squares. If the elements are multiples of 2^granule, their
// squares are multiples of 2^(2 granule).
void eval_l2_norm(const EvalNode *c) {
  Dtype t = c->out->type, acc = dtype_accumulator(t);
  Sum *s = arena_array(c->arena, Sum, c->out->elements + 1);
  int granule = tensor_granule(c->arg[0]);
  if (granule > NO_GRANULE) granule *= 2;
  StrideWalk w = walk_over(c->arg[0], c->out, c->arg[0]);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    Cell x = tensor_cell(c->arg[0], w.at[1]);
    Cell square = {x.v * x.v, x.b == 0 ? 0 : x.b * (2 * fabs(x.v) + x.b), x.t};
    sum_add(&s[w.at[0]], square, t);
  }
  for (int64_t i = 0; i < c->out->elements; i++) {
    Cell sum = sum_cell(acc, acc, &s[i], granule, SUM_ROUNDINGS), y = cell_sqrt(acc, sum);
    Cell stored = acc == t ? y : cell_rounded(t, y.v, y.b, y.b == 0);
    stored.t = sum.t || y.t;
    tensor_put(c->out, i, cell_finish(t, stored));
  }
}

// -- contraction --------------------------------------------------------------------------------

// The n positions of the dims that a contraction sums. a[i] is the offset of position i in argument
// 0, in elements from position 0; b[i] is the offset in argument 1.
typedef struct Inner {
  int64_t n, *a, *b;
} Inner;

static Inner inner_offsets(const EvalNode *c) {
  StrideWalk w = walk_over(NULL, NULL, NULL);
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < c->arg[k]->dims.n; i++)
      if (!dims_has(&c->out->dims, c->arg[k]->dims.at[i]))
        walk_dim(&w, c->arg[k]->dims.at[i], c->arg[k]->extent[i]);
  walk_operand(&w, c->arg[0]);
  walk_operand(&w, c->arg[1]);
  int64_t n = 1;
  for (int i = 0; i < w.rank; i++) n *= w.extent[i];
  Inner in = {0, arena_array(c->arena, int64_t, n + 1), arena_array(c->arena, int64_t, n + 1)};
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    in.a[in.n] = w.at[0];
    in.b[in.n++] = w.at[1];
  }
  return in;
}

static bool any_uncertain(const Tensor *t) {
  for (int64_t i = 0; i < t->elements; i++)
    if (t->bound[i] != 0 || t->tainted[i]) return true;
  return false;
}

static Sum inner_product(const EvalNode *c, const Inner *in, int64_t a, int64_t b, bool uncertain) {
  const Tensor *x = c->arg[0], *y = c->arg[1];
  Sum s = {.n = in->n};
  for (int64_t k = 0; k < in->n; k++) {
    double p = x->value[a + in->a[k]] * y->value[b + in->b[k]];
    s.v += p;
    s.abs += fabs(p);
  }
  for (int64_t k = 0; k < in->n && uncertain; k++) {
    Cell p = tensor_cell(x, a + in->a[k]), q = tensor_cell(y, b + in->b[k]);
    s.b += (p.b == 0 ? 0 : p.b * (fabs(q.v) + q.b)) + (q.b == 0 ? 0 : fabs(p.v) * q.b);
    s.t = s.t || p.t || q.t;
  }
  return s;
}

static Sum inner_product_int(const EvalNode *c, const Inner *in, int64_t a, int64_t b) {
  uint64_t sum = 0;
  bool t = false;
  for (int64_t k = 0; k < in->n; k++) {
    Cell p = tensor_cell(c->arg[0], a + in->a[k]), q = tensor_cell(c->arg[1], b + in->b[k]);
    sum += (uint64_t)(int64_t)p.v * (uint64_t)(int64_t)q.v;
    t = t || p.t || q.t;
  }
  return (Sum){.v = int_wrap(c->out->type, (int64_t)sum), .t = t};
}

void eval_contract(const EvalNode *c) {
  Dtype t = c->out->type, acc = dtype_accumulator(t);
  int ga = tensor_granule(c->arg[0]), gb = tensor_granule(c->arg[1]);
  int granule = ga > NO_GRANULE && gb > NO_GRANULE ? ga + gb : NO_GRANULE;
  bool uncertain = any_uncertain(c->arg[0]) || any_uncertain(c->arg[1]);
  Inner in = inner_offsets(c);
  StrideWalk w = walk_over(c->out, c->out, c->arg[0]);
  walk_operand(&w, c->arg[1]);
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t a = w.at[1], b = w.at[2];
    Sum s = dtype_is_float(t) ? inner_product(c, &in, a, b, uncertain)
                              : inner_product_int(c, &in, a, b);
    tensor_put(c->out, w.at[0], sum_cell(acc, t, &s, granule, SUM_ROUNDINGS_CONTRACT));
  }
}
