// Finds the dim of positions that a step of a decoding form may leave out in part: positions behind
// that of the step change nothing, because masks hide them. A run then computes as many positions
// of the dim as there are so far, as an evaluation computes the rows of its last batch.
//
//   score[s] = sum[k](q * keys)              any finite number behind the position
//   seen = where(index[s] <= position, score, -inf)         -inf there
//   e = exp(seen - max[s](seen))             the maximum leaves -inf out; e is 0 there
//   sum[s](e * v)                            the sum leaves zeros out
//
// For each node of the step's graph: what its elements are behind the position (Late). The dim may
// be left out in part if each reduction over it reads elements there that do not change its result.
// What is computed from inputs is taken to lie within AHEAD_REACH, as in
// codegen/values/live_ahead.c: a mask may be a finite number that is lower than all of it, with
// scores added or not.
#include "frontend/step/decode_build_internal.h"

#include <math.h>
#include <string.h>

#include "ir/eval/eval_rules.h"

// The elements of a node behind the position p of the step, along the dim: numbers of the interval
// p * times + lo..hi, numbers up to hi, which is lower than all that scores may be, numbers within
// AHEAD_REACH of which no more is known, or any.
typedef enum LateKind { LATE_ANY, LATE_FINITE, LATE_LOW, LATE_NUMBER } LateKind;
typedef struct Late {
  LateKind kind;
  int times;
  double lo, hi;
} Late;

typedef struct Growing {
  const Graph *g;
  DimId dim;
  NodeId position; // the input
  Late *late;      // by node
} Growing;

static Late number(double x) { return (Late){LATE_NUMBER, 0, x, x}; }
static bool is_single(Late x) { return x.kind == LATE_NUMBER && !x.times && x.lo == x.hi; }
static bool is_number(Late x, double v) { return is_single(x) && x.lo == v; }
static bool is_finite(Late x) {
  return x.kind == LATE_FINITE ||
         (x.kind == LATE_NUMBER && x.lo >= -AHEAD_REACH && x.hi <= AHEAD_REACH);
}
static Late any(void) { return (Late){LATE_ANY, 0, 0, 0}; }

static bool is_low(Late x) {
  return x.kind == LATE_LOW || (x.kind == LATE_NUMBER && !x.times && x.hi <= -AHEAD_HIDDEN);
}
static Late low(double hi) { return hi <= -AHEAD_HIDDEN ? (Late){LATE_LOW, 0, -INF, hi} : any(); }

// -- elementwise operations ----------------------------------------------------------------------

// Returns a number that no element of x is above, or of -x with sign -1.
static double most_of(Late x, int sign) {
  if (x.kind == LATE_FINITE) return AHEAD_REACH;
  if (x.kind == LATE_ANY || x.times) return INF;
  return sign > 0 ? x.hi : -x.lo;
}

static Late sum(Late x, Late y, int sign) {
  double hx = most_of(x, 1), hy = most_of(y, sign);
  if (fmin(hx, hy) <= -AHEAD_HIDDEN && low(hx + hy).kind == LATE_LOW) return low(hx + hy);
  if (!is_finite(x) || !is_finite(y)) return any();
  if (x.kind != LATE_NUMBER || y.kind != LATE_NUMBER) return (Late){LATE_FINITE, 0, 0, 0};
  return (Late){LATE_NUMBER, x.times + sign * y.times, x.lo + (sign > 0 ? y.lo : -y.hi),
                x.hi + (sign > 0 ? y.hi : -y.lo)};
}

// Returns a product or quotient, or LATE_ANY if its rule does not tell more than that of others.
static Late scaled(Op op, Late x, Late y) {
  bool zero =
      (is_number(x, 0) && is_finite(y)) || (op == OP_MUL && is_number(y, 0) && is_finite(x));
  if (zero) return number(0);
  if (op == OP_MUL && is_low(y)) return is_low(x) ? any() : scaled(op, y, x);
  if (is_low(x) && is_single(y) && y.lo > 0 && isfinite(y.lo))
    return low(op == OP_MUL ? x.hi * y.lo : x.hi / y.lo);
  return any();
}

// Returns 1 or 0 if all elements of x are, or none is, in the relation to those of y; else -1.
static int compared(Op op, Late x, Late y) {
  if (x.kind != LATE_NUMBER || y.kind != LATE_NUMBER || x.times != y.times) return -1;
  bool apart = x.hi < y.lo || y.hi < x.lo;
  if (op == OP_LT) return x.hi < y.lo ? 1 : x.lo >= y.hi ? 0 : -1;
  if (op == OP_LE) return x.hi <= y.lo ? 1 : x.lo > y.hi ? 0 : -1;
  if (op == OP_EQ) return apart ? 0 : -1;
  return op == OP_NE && apart ? 1 : -1;
}

// Returns the larger of both, sign 1, or the smaller one, sign -1, of numbers.
static Late extreme(Late x, Late y, int sign) {
  if (x.kind != LATE_NUMBER || y.kind != LATE_NUMBER || x.times != y.times) return any();
  bool more = sign > 0;
  return (Late){LATE_NUMBER, x.times, more ? fmax(x.lo, y.lo) : fmin(x.lo, y.lo),
                more ? fmax(x.hi, y.hi) : fmin(x.hi, y.hi)};
}

static Late chosen(Late c, Late x, Late y) {
  if (is_single(c)) return c.lo != 0 ? x : y;
  if (is_low(x) && is_low(y)) return low(fmax(x.hi, y.hi));
  if (is_finite(x) && is_finite(y)) return (Late){LATE_FINITE, 0, 0, 0};
  return any();
}

// Returns what an elementwise operation makes of single numbers.
static Late evaluated(const Growing *w, const Node *n, const Late *x) {
  Cell cell[MAX_ARGS];
  Dtype type[MAX_ARGS];
  for (int k = 0; k < n->nargs; k++) {
    cell[k] = (Cell){.v = x[k].lo};
    type[k] = (Dtype)graph_node(w->g, n->args[k])->type;
  }
  double y = eval_scalar(w->g, n, type, cell).v;
  return isnan(y) ? any() : number(y);
}

// Returns what the rule of the operation tells, or LATE_ANY.
static Late by_rule(const Node *n, const Late *x) {
  switch ((int)n->op) {
  case OP_ADD: return sum(x[0], x[1], 1);
  case OP_SUB: return sum(x[0], x[1], -1);
  case OP_MUL:
  case OP_DIV: return scaled((Op)n->op, x[0], x[1]);
  case OP_EXP:
    if (is_low(x[0])) return number(0);
    break;
  case OP_MAXIMUM: return extreme(x[0], x[1], 1);
  case OP_MINIMUM: return extreme(x[0], x[1], -1);
  case OP_WHERE: return chosen(x[0], x[1], x[2]);
  case OP_AND:
    if (is_number(x[0], 0) || is_number(x[1], 0)) return number(0);
    break;
  case OP_OR:
    if (is_number(x[0], 1) || is_number(x[1], 1)) return number(1);
    break;
  case OP_CAST:
    if (n->type != TYPE_BOOL && x[0].kind == LATE_NUMBER) return x[0];
    if (dtype_is_float((Dtype)n->type) && is_low(x[0])) return x[0];
    break;
  default: {
    int holds = n->nargs == 2 ? compared((Op)n->op, x[0], x[1]) : -1;
    if (holds >= 0) return number(holds);
  }
  }
  return any();
}

// Returns whether type t has all numbers of the interval as they are: whole numbers that it does
// not round. Others could become equal to those with which masks compare them.
static bool is_exact(const Growing *w, Dtype t, Late x) {
  double far = x.times * (double)(dim_get(w->g->dims, w->dim)->size - 1);
  double least = fmin(0, far) + x.lo, most = fmax(0, far) + x.hi;
  int digits = dtype_format(t).digits;
  if (floor(x.lo) != x.lo || floor(x.hi) != x.hi) return false;
  if (digits) return fmax(-least, most) <= ldexp(1, digits);
  return dtype_round(t, least) == least && dtype_round(t, most) == most;
}

static Late pointwise(const Growing *w, const Node *n, const Late *x) {
  bool single = true, finite = true;
  for (int k = 0; k < n->nargs; k++) {
    single = single && is_single(x[k]);
    finite = finite && is_finite(x[k]);
  }
  if (single) return evaluated(w, n, x);
  Late y = by_rule(n, x);
  if (y.kind == LATE_NUMBER && !is_single(y) && !is_exact(w, (Dtype)n->type, y)) y.kind = LATE_ANY;
  return y.kind == LATE_ANY && finite ? (Late){LATE_FINITE, 0, 0, 0} : y;
}

// -- other operations ----------------------------------------------------------------------------

// Returns whether elements x do not change the result of a reduction.
static bool is_neutral(Op op, Late x) {
  switch ((int)op) {
  case OP_SUM:
  case OP_ANY: return is_number(x, 0);
  case OP_MAX: return is_low(x);
  case OP_MIN: return is_number(x, INF);
  case OP_PROD:
  case OP_ALL: return is_number(x, 1);
  }
  return false;
}

static Late index_of(const Growing *w, DimId d) {
  double size = (double)dim_get(w->g->dims, d)->size;
  return d == w->dim ? (Late){LATE_NUMBER, 1, 1, size} : (Late){LATE_NUMBER, 0, 0, size - 1};
}

// Returns whether node n, which names the dim, leaves out what is behind the position.
static bool leaves_out(const Growing *w, const Node *n, const Late *x) {
  switch ((int)op_row((Op)n->op)->cls) {
  case SOURCE: return n->op == OP_INDEX || op_is_decl((Op)n->op);
  case REDUCE: return is_neutral((Op)n->op, x[0]);
  case CONTRACT: return is_number(scaled(OP_MUL, x[0], x[1]), 0);
  case MOVE: return n->op == OP_BROADCAST || n->op == OP_PIN;
  case WINDOW: // one element, that of the position
    return n->op == OP_WINDOW_AT && n->attr->dims[0] == w->dim && n->args[1] == w->position &&
           !n->attr->affine.offset && n->attr->affine.divisor == 1 &&
           (!n->attr->nto || (n->attr->nto == 1 && dim_get(w->g->dims, n->attr->to[0])->size == 1));
  }
  return false;
}

static Late late_of(const Growing *w, NodeId id, const Late *x) {
  const Node *n = graph_node(w->g, id);
  bool finite = true;
  for (int k = 0; k < n->nargs; k++) finite = finite && is_finite(x[k]);
  if (id == w->position) return (Late){LATE_NUMBER, 1, 0, 0};
  switch ((int)op_row((Op)n->op)->cls) {
  case SOURCE:
    if (n->op == OP_INDEX) return index_of(w, n->attr->dims[0]);
    if (n->op == OP_CONST) return number(n->attr->num[0]);
    break;
  case POINTWISE: return pointwise(w, n, x);
  case CONTRACT:
    if (is_number(scaled(OP_MUL, x[0], x[1]), 0)) return number(0);
    break;
  case MOVE: return x[0];
  }
  // values that do not have the dim are results, such as a maximum: finite as those of any model
  return finite || !dims_has(n->dims, w->dim) ? (Late){LATE_FINITE, 0, 0, 0} : any();
}

// Returns whether the node allows the dim to be left out in part, and sets its Late.
static bool visit(Growing *w, NodeId id) {
  const Node *n = graph_node(w->g, id);
  Late x[MAX_ARGS];
  bool named = attr_names(n->attr, w->dim);
  for (int k = 0; k < n->nargs; k++) {
    x[k] = w->late[n->args[k]];
    named = named || (n->region && dims_has(graph_node(w->g, n->args[k])->dims, w->dim));
  }
  if (named && (n->region || !leaves_out(w, n, x))) return false;
  w->late[id] = late_of(w, id, x);
  return true;
}

static bool may_grow(Arena *a, const Graph *g, DimId dim, DeclId position) {
  Growing w = {.g = g, .dim = dim, .position = g->decl.at[position - 1].node};
  w.late = arena_array(a, Late, graph_count(g) + 1);
  for (NodeId id = 1; id <= graph_count(g); id++)
    if (!visit(&w, id)) return false;
  for (uint32_t i = 0; i < g->output.n; i++)
    if (dim_in(dim, g->output.at[i].rank, g->output.at[i].dims)) return false;
  for (RegionId r = 1; r <= g->region.n; r++)
    if (region_get(g, r)->t == dim) return false;
  return true;
}

// Returns the dim of positions of a state.
static DimId dim_of(const Graph *g, const DecodeKept *k) {
  DeclId state = graph_find_decl(g, k->state);
  return state ? g->decl.at[state - 1].dims[k->axis] : 0;
}

const char *decode_growing(Arena *a, const Graph *g, uint32_t nkept, const DecodeKept *kept) {
  DimId dim = nkept ? dim_of(g, &kept[0]) : 0;
  DeclId position = graph_find_decl(g, DECODE_POSITION);
  // states over other dims of positions, too: models with several are rare
  for (uint32_t i = 1; i < nkept; i++)
    if (dim_of(g, &kept[i]) != dim) return NULL;
  return dim && position && may_grow(a, g, dim, position) ? dim_get(g->dims, dim)->name : NULL;
}
