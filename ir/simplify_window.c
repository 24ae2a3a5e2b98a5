// Simplification of windows: they move towards what is read, so that no value ever holds patches.
//
//   window(window(%1))                 => one window, where the relations compose
//   window(contract(%1, %2))           => contract(window(%1), %2)      the factor that has the dim read
//   window(where(index < 3, %1, %2))   => window(%1), where only positions below 3 are read
//   cast(window(%1))                   => window(cast(%1)), where the window repeats elements
//   window(where(eq(%p, %m), %d, 0))   => where(eq(%x, window(%m)), window(%d), 0)
//                                         with %p a window of %x and the outer one its transpose
//
// So the gradient of a convolution to its image is a contraction of windows of the result's gradient, and
// that of a maximum over windows compares the image itself. A window that turns into zeros where it reaches
// outside is moved into a product: there an infinite other factor gives NaN, as in any convolution with padding.
//
// All of it is about whole dims; windows over blocks are left alone.
#include <math.h>

#include "ir/eval_rules.h"
#include "ir/simplify.h"

typedef struct Window {
  Graph *g;
  NodeId x, start; // start 0: known
  DimId from, to[2];
  int nto;
  Affine f;
  double fill;
} Window;

enum { MAX_FACTOR = 1 << 30, MAX_DEPTH = 6 };

static int64_t size_of(const Graph *g, DimId d) { return dim_get(g->dims, d)->size; }
static const Dims *dims_at(const Graph *g, NodeId x) { return &graph_node(g, x)->dims; }

static bool window_read(Graph *g, const Attr *t, NodeId x, NodeId start, Window *w) {
  *w = (Window){.g = g, .x = x, .start = start, .from = t->dims[0], .nto = t->nto, .f = t->affine, .fill = t->num[0]};
  bool whole = dim_get(g->dims, w->from)->whole == w->from;
  for (int i = 0; i < w->nto; i++) {
    w->to[i] = t->to[i];
    whole = whole && dim_get(g->dims, w->to[i])->whole == w->to[i];
  }
  return whole;
}

static DimId tap_of(const Window *w) { return w->nto > 1 ? w->to[1] : 0; }

static NodeId window_add(const Window *w) {
  Attr attr = {.ndims = 1, .dims = &w->from, .nto = (uint8_t)w->nto, .to = w->to, .affine = w->f};
  attr.num[0] = w->fill;
  NodeId args[2] = {w->x, w->start};
  return simple_add(w->g, w->start ? OP_WINDOW_AT : OP_WINDOW, w->start ? 2 : 1, args, &attr);
}

// -- what is read ---------------------------------------------------------------------------------

typedef struct Interval {
  int64_t lo, hi;
} Interval;

static Interval plus_times(Interval i, int64_t factor, int64_t n) {
  int64_t end = factor * (n - 1);
  return end < 0 ? (Interval){i.lo + end, i.hi} : (Interval){i.lo, i.hi + end};
}

// Of out*o + tap*k + offset over all o and k.
static Interval numerators(const Window *w) {
  Interval i = {w->f.offset, w->f.offset};
  if (w->nto > 0) i = plus_times(i, w->f.out, size_of(w->g, w->to[0]));
  return w->nto > 1 ? plus_times(i, w->f.tap, size_of(w->g, w->to[1])) : i;
}

static bool inside(const Window *w) {
  Interval i = numerators(w);
  return !w->start && i.lo >= 0 && i.hi < w->f.divisor * size_of(w->g, w->from);
}

// Whether some element of the result may be the fill.
static bool misses(const Window *w) { return w->f.divisor > 1 || !inside(w); }

// The positions of the source that are read; lo > hi: none.
static Interval positions(const Window *w) {
  int64_t n = size_of(w->g, w->from);
  if (w->start) return (Interval){0, n - 1};
  Interval i = numerators(w);
  i.lo = i.lo <= 0 ? 0 : ceil_div(i.lo, w->f.divisor);
  i.hi = i.hi < 0 ? -1 : i.hi / w->f.divisor;
  if (i.hi > n - 1) i.hi = n - 1;
  return i;
}

// -- the relation itself --------------------------------------------------------------------------

static int64_t gcd(int64_t a, int64_t b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// A tap dim that moves nothing is one of the source's own, or a broadcast.
static bool drop_tap(Window *w) {
  if (w->nto < 2 || (w->f.tap && size_of(w->g, w->to[1]) > 1)) return false;
  w->nto = 1;
  w->f.tap = 0;
  return true;
}

static bool known_start(Window *w) {
  double v;
  if (!w->start || !simple_const(w->g, w->start, &v)) return false;
  w->f.offset += (int64_t)v;
  w->start = 0;
  return true;
}

static bool reduce_fraction(Window *w) {
  int64_t d = gcd(gcd(w->f.out, w->f.tap), w->f.divisor);
  if (w->start || d <= 1 || w->f.offset % d) return false;
  w->f = (Affine){w->f.out / d, w->f.tap / d, w->f.offset / d, w->f.divisor / d};
  return true;
}

// -- what x is ------------------------------------------------------------------------------------

// A dim that only the broadcast gives comes back with the result.
static bool through_broadcast(Window *w) {
  const Node *x = graph_node(w->g, w->x);
  if (x->op != OP_BROADCAST || !dims_has(dims_at(w->g, x->args[0]), w->from)) return false;
  w->x = x->args[0];
  return true;
}

// Whether `index op c` (or `c op index`) is the same for all positions i, and which.
static bool decided(Op op, bool index_first, double c, Interval i, bool *out) {
  double lo = (double)i.lo, hi = (double)i.hi;
  bool never = false, always = false;
  switch ((int)op) {
  case OP_LT:
    always = index_first ? hi < c : c < lo;
    never = index_first ? lo >= c : c >= hi;
    break;
  case OP_LE:
    always = index_first ? hi <= c : c <= lo;
    never = index_first ? lo > c : c > hi;
    break;
  case OP_EQ:
  case OP_NE:
    always = lo == c && hi == c;
    never = c < lo || c > hi;
    if (op == OP_NE) {
      bool equal = always;
      always = never;
      never = equal;
    }
    break;
  default: return false;
  }
  *out = always;
  return always || never;
}

// Whether p compares positions along d with a number: index[d] < 3.
static bool compares_index(const Graph *g, NodeId p, DimId d, bool *first, double *c) {
  const Node *n = graph_node(g, p);
  for (int i = 0; i < 2 && n->nargs == 2; i++) {
    const Node *index = graph_node(g, n->args[i]);
    if (index->op != OP_INDEX || index->attr.dims[0] != d || !simple_const(g, n->args[1 - i], c)) continue;
    *first = i == 0;
    return true;
  }
  return false;
}

// A choice by position of which the window sees one side only.
static bool decide_where(Window *w) {
  Node x = *graph_node(w->g, w->x);
  bool first, side;
  double c;
  if (x.op != OP_WHERE || !compares_index(w->g, x.args[0], w->from, &first, &c)) return false;
  if (!decided((Op)graph_node(w->g, x.args[0])->op, first, c, positions(w), &side)) return false;
  NodeId taken = simple_stripped(w->g, x.args[side ? 1 : 2]);
  Dims with = *dims_at(w->g, taken);
  if (!dims_add(w->g->dims, &with, w->from)) return false;
  w->x = graph_broadcast(w->g, taken, &with);
  return true;
}

// -- windows of windows ---------------------------------------------------------------------------

static bool small(int64_t v) { return v >= -MAX_FACTOR && v <= MAX_FACTOR; }

// s = (a (a' o' + b' k + c') / d' + b k + c) / d as one relation; false when its numbers are too large.
static bool compose_factors(const Affine *in, const Affine *out, Affine *f) {
  if (!small(in->offset) || !small(out->offset)) return false;
  *f = (Affine){in->out * out->out, in->out * out->tap + in->tap * out->divisor,
                in->out * out->offset + in->offset * out->divisor, in->divisor * out->divisor};
  int64_t d = gcd(gcd(f->out, f->tap), gcd(f->offset, f->divisor));
  *f = (Affine){f->out / d, f->tap / d, f->offset / d, f->divisor / d};
  return small(f->out) && small(f->tap) && small(f->offset) && small(f->divisor);
}

// Whether places of `in` that w reads before 0 or from its end on would read outside its source.
static bool outside_stays_outside(const Window *w, const Window *in) {
  const Affine *f = &in->f;
  Interval read = numerators(w), taps = {f->offset, f->offset};
  int64_t n = size_of(w->g, in->to[0]), end = f->divisor * size_of(w->g, in->from), last = f->out * n;
  if (in->nto > 1) taps = plus_times(taps, f->tap, size_of(w->g, in->to[1]));
  bool up = f->out > 0, good = true;
  if (read.lo < 0) good = up ? taps.hi - f->out < 0 : taps.lo - f->out >= end;
  if (read.hi >= w->f.divisor * n) good = good && (up ? taps.lo + last >= end : taps.hi + last < 0);
  return good;
}

static bool compose_places(Window *w, const Window *in) {
  DimId tap = tap_of(w), own = tap_of(in);
  if ((tap && own && tap != own) || (tap && tap == in->from)) return false;
  // a place is fixed: the taps are what is left to run over, unless the source runs with them
  if (!w->nto && own && (!in->f.tap || dims_has(dims_at(w->g, in->x), own))) return false;
  if (w->f.divisor > 1 && gcd(in->f.out, w->f.divisor) > 1) return false;
  if (!inside(w) && !outside_stays_outside(w, in)) return false;
  if (misses(w) && misses(in) && !(w->fill == in->fill)) return false;
  Window y = {.g = w->g, .x = in->x, .from = in->from, .nto = w->nto, .fill = misses(w) ? w->fill : in->fill};
  if (misses(in)) y.fill = in->fill;
  if (!compose_factors(&in->f, &w->f, &y.f)) return false;
  y.to[0] = w->to[0];
  if (!tap) tap = own;
  if (!w->nto && tap) {
    y.f.out = y.f.tap;
    y.f.tap = 0;
    y.to[0] = tap;
    y.nto = 1;
  } else if (tap) {
    y.to[1] = tap;
    y.nto = 2;
  }
  *w = y;
  return true;
}

// Some taps of a window whose source does not run with them.
static bool compose_taps(Window *w, const Window *in) {
  if (dims_has(dims_at(w->g, in->x), w->from) || misses(w) || w->nto > 1) return false;
  if (w->nto && w->to[0] == in->from) return false;
  if (!small(w->f.offset) || !small(in->f.offset)) return false;
  Window y = *in;
  y.f.offset += in->f.tap * w->f.offset;
  y.f.tap = w->nto ? in->f.tap * w->f.out : 0;
  y.to[1] = w->to[0];
  y.nto = w->nto ? 2 : 1;
  if (!small(y.f.offset) || !small(y.f.tap)) return false;
  *w = y;
  return true;
}

static bool compose(Window *w) {
  const Node *x = graph_node(w->g, w->x);
  Window in;
  if (w->start || x->op != OP_WINDOW || !window_read(w->g, &x->attr, x->args[0], 0, &in)) return false;
  if (in.nto && in.to[0] == w->from) return compose_places(w, &in);
  return in.nto > 1 && in.to[1] == w->from && compose_taps(w, &in);
}

// -- ends -----------------------------------------------------------------------------------------

// x itself, perhaps under another name; a number; nothing but the fill.
static NodeId vanish(const Window *w) {
  const Affine *f = &w->f;
  Dtype type = (Dtype)graph_node(w->g, w->x)->type;
  NodeId inner = simple_stripped(w->g, w->x);
  double v;
  if (!w->start && positions(w).lo > positions(w).hi) return graph_const(w->g, type, w->fill);
  if (!dims_has(dims_at(w->g, inner), w->from) && !misses(w)) return inner;
  if (simple_const(w->g, inner, &v) && v == w->fill) return inner;
  bool same = !w->start && w->nto == 1 && f->out == 1 && f->offset == 0 && f->divisor == 1;
  if (!same || size_of(w->g, w->from) != size_of(w->g, w->to[0])) return 0;
  if (w->from == w->to[0]) return w->x;
  Attr attr = {.ndims = 1, .dims = &w->from, .nto = 1, .to = w->to};
  return simple_add(w->g, OP_RENAME, 1, &w->x, &attr);
}

// -- into products --------------------------------------------------------------------------------

static bool sums(const Node *n, DimId d) {
  for (int i = 0; i < n->attr.ndims; i++)
    if (n->attr.dims[i] == d) return true;
  return false;
}

static bool has_tap(const Window *w) { return w->nto > 1 && dims_has(dims_at(w->g, w->x), w->to[1]); }

// Whether the product does no more work behind the window than before it.
static bool product_takes(const Window *w, const Node *x) {
  bool contracts = x->op == OP_CONTRACT;
  if (!(contracts || x->op == OP_MUL) || !(w->fill == 0)) return false;
  for (int i = 0; i < w->nto; i++)
    if (contracts && sums(x, w->to[i])) return false;
  if (w->nto > 1) return has_tap(w);
  return contracts && (w->nto == 0 || size_of(w->g, w->to[0]) <= size_of(w->g, w->from));
}

static NodeId into_product(Simplify *s, const Window *w) {
  Node x = *graph_node(w->g, w->x);
  if (!s->once || !product_takes(w, &x)) return 0;
  int at = dims_has(dims_at(w->g, x.args[0]), w->from) ? 0 : 1;
  if (dims_has(dims_at(w->g, x.args[1 - at]), w->from)) return 0;
  Window part = *w;
  part.x = x.args[at];
  NodeId args[2] = {x.args[0], x.args[1]};
  args[at] = window_add(&part);
  return simple_add(w->g, (Op)x.op, 2, args, &x.attr);
}

// -- into sums ----------------------------------------------------------------------------------

// Less is summed where fewer places are read.
static NodeId into_sum(Simplify *s, const Window *w) {
  Node x = *graph_node(w->g, w->x);
  bool fewer = w->nto == 0 || (w->nto == 1 && size_of(w->g, w->to[0]) < size_of(w->g, w->from));
  if (x.op != OP_SUM || !s->once || !fewer || !(w->fill == 0)) return 0;
  if (w->nto && sums(&x, w->to[0])) return 0;
  Window part = *w;
  part.x = x.args[0];
  NodeId y = window_add(&part);
  return simple_add(w->g, OP_SUM, 1, &y, &x.attr);
}

// -- into choices ---------------------------------------------------------------------------------

// A value that is x at w's places wherever w reads its source; anything elsewhere.
static NodeId loosely(const Window *w, NodeId x, int depth) {
  Node n = *graph_node(w->g, x);
  if (!dims_has(&n.dims, w->from)) return x;
  Window in, y = *w;
  Affine f;
  bool window = n.op == OP_WINDOW && window_read(w->g, &n.attr, n.args[0], 0, &in);
  bool inverse = window && in.nto == 2 && in.to[0] == w->from && in.to[1] == tap_of(w) && in.from == w->to[0];
  if (inverse && compose_factors(&in.f, &w->f, &f) && f.out == f.divisor && !f.tap && !f.offset) return in.x;
  bool point = op_row((Op)n.op)->cls == POINTWISE && !(op_row((Op)n.op)->flags & CHECKS) && n.op != OP_CHECKPOINT;
  if (!point || depth == 0 || !dims_has(&n.dims, tap_of(w))) {
    y.x = x;
    return window_add(&y);
  }
  NodeId args[3];
  for (int i = 0; i < n.nargs; i++) args[i] = loosely(w, n.args[i], depth - 1);
  return simple_add(w->g, (Op)n.op, n.nargs, args, &n.attr);
}

// where(c, %d, 0): outside stands zero whatever c is there.
static NodeId choice_moved(const Window *w, const Node *x) {
  double zero;
  int at = simple_const(w->g, x->args[2], &zero) && zero == 0 ? 1 : 2;
  if (at == 2 && !(simple_const(w->g, x->args[1], &zero) && zero == 0)) return 0;
  Node own = *x;
  Window part = *w;
  Dims with = *dims_at(w->g, own.args[at]);
  if (!dims_add(w->g->dims, &with, w->from)) return 0;
  part.x = graph_broadcast(w->g, own.args[at], &with);
  NodeId args[3] = {loosely(w, own.args[0], MAX_DEPTH), own.args[1], own.args[2]};
  args[at] = window_add(&part);
  args[3 - at] = simple_stripped(w->g, own.args[3 - at]);
  return simple_add(w->g, OP_WHERE, 3, args, NULL);
}

// A choice along the taps, or the sum of one.
static NodeId into_choice(Simplify *s, const Window *w) {
  Node x = *graph_node(w->g, w->x);
  if (!s->once || w->start || !(w->fill == 0) || !has_tap(w)) return 0;
  if (x.op == OP_WHERE) return choice_moved(w, &x);
  if (x.op != OP_SUM || sums(&x, w->to[0]) || sums(&x, w->to[1])) return 0;
  Node choice = *graph_node(w->g, x.args[0]);
  if (choice.op != OP_WHERE || choice.type != x.type) return 0;
  NodeId moved = choice_moved(w, &choice);
  return moved ? simple_add(w->g, OP_SUM, 1, &moved, &x.attr) : 0;
}

// -- rules ----------------------------------------------------------------------------------------

NodeId simplify_window(Simplify *s) {
  Window w;
  if (!window_read(s->g, &s->n->attr, s->x[0], s->n->nargs > 1 ? s->x[1] : 0, &w)) return 0;
  bool changed = false;
  while (known_start(&w) || drop_tap(&w) || reduce_fraction(&w) || through_broadcast(&w) || decide_where(&w) ||
         compose(&w))
    changed = true;
  NodeId y = vanish(&w);
  if (!y) y = into_product(s, &w);
  if (!y) y = into_sum(s, &w);
  if (!y) y = into_choice(s, &w);
  return y ? y : changed ? window_add(&w) : 0;
}

static bool constant_but(const Simplify *s, int at) {
  double v;
  for (int i = 0; i < s->n->nargs; i++)
    if (i != at && !simple_const(s->g, s->x[i], &v)) return false;
  return true;
}

// What stands outside behind the op; false when that is no number for sure.
static bool fill_after(const Simplify *s, int at, double fill, double *out) {
  Cell x[3];
  Dtype type[3];
  for (int i = 0; i < s->n->nargs; i++) {
    type[i] = (Dtype)simple_arg(s, i)->type;
    x[i] = (Cell){fill, 0, false};
    if (i != at && !simple_const(s->g, s->x[i], &x[i].v)) return false;
  }
  Cell y = eval_scalar(s->g, s->n, type, x);
  *out = dtype_round((Dtype)s->n->type, y.v);
  return !y.t && !isnan(y.v);
}

NodeId simplify_over_window(Simplify *s) {
  int at = 0;
  while (at < s->n->nargs && simple_arg(s, at)->op != OP_WINDOW) at++;
  bool marks = op_row((Op)s->n->op)->flags & CHECKS || s->n->op == OP_CHECKPOINT || s->n->op == OP_STOP;
  if (at == s->n->nargs || s->n->nargs > 2 || marks || !constant_but(s, at)) return 0;
  Window w;
  const Node *x = simple_arg(s, at);
  if (!window_read(s->g, &x->attr, x->args[0], 0, &w)) return 0;
  if (node_elements(s->g, s->x[at]) <= node_elements(s->g, w.x)) return 0;
  if (!fill_after(s, at, w.fill, &w.fill)) return 0;
  NodeId args[2] = {s->x[0], s->x[1]};
  args[at] = w.x;
  w.x = simple_add(s->g, (Op)s->n->op, s->n->nargs, args, &s->n->attr);
  return window_add(&w);
}

// The one position of d that `x` = where(index[d] == i, 0, where(index[d] == j, 0, %rest)) leaves, and %rest; 0: none
// or several. Dims longer than the set's word are not looked at.
static NodeId only_left(const Graph *g, NodeId x, DimId d, double *out) {
  int64_t n = size_of(g, d);
  uint64_t left = n < 64 ? ((uint64_t)1 << n) - 1 : 0;
  double zero, i;
  bool first;
  for (const Node *y = graph_node(g, x); left & (left - 1) && y->op == OP_WHERE; y = graph_node(g, x)) {
    if (graph_node(g, y->args[0])->op != OP_EQ || !compares_index(g, y->args[0], d, &first, &i)) return 0;
    if (!simple_const(g, y->args[1], &zero) || zero != 0 || i < 0 || i >= (double)n) return 0;
    left &= ~((uint64_t)1 << (int64_t)i);
    x = y->args[2];
  }
  if (!left || left & (left - 1)) return 0;
  *out = (double)__builtin_ctzll(left);
  return x;
}

// Where a choice along one dim is x, and x; else 0.
typedef struct Choice {
  DimId d;
  NodeId x, place;
} Choice;

static bool choice_read(const Simplify *s, Choice *c) {
  const Graph *g = s->g;
  const Node *x = simple_arg(s, 0);
  if (x->op != OP_WHERE || x->type != s->n->type || graph_node(g, x->args[0])->op != OP_EQ) return false;
  const Node *p = graph_node(g, x->args[0]);
  int at = graph_node(g, p->args[0])->op == OP_INDEX ? 0 : 1;
  const Node *index = graph_node(g, p->args[at]);
  if (index->op != OP_INDEX || dims_at(g, p->args[1 - at])->n) return false;
  *c = (Choice){index->attr.dims[0], simple_stripped(g, x->args[1]), p->args[1 - at]};
  double zero, i;
  if (!sums(s->n, c->d) || dim_get(g->dims, c->d)->whole != c->d) return false;
  if (simple_const(g, x->args[2], &zero) && zero == 0) return true;
  NodeId rest = only_left(g, s->x[0], c->d, &i);
  if (!rest) return false;
  c->x = simple_stripped(g, rest);
  c->place = graph_const(s->g, TYPE_I32, i);
  return true;
}

// sum[n](where(index[n] == i, x, 0)): the element at i.
NodeId simplify_sum_of_choice(Simplify *s) {
  Choice c;
  double i;
  if (!choice_read(s, &c)) return 0;
  Dims left = {0};
  for (int k = 0; k < s->n->attr.ndims; k++) {
    if (s->n->attr.dims[k] == c.d) continue;
    left.at[left.n++] = s->n->attr.dims[k];
    if (!dims_has(dims_at(s->g, c.x), s->n->attr.dims[k])) return 0;
  }
  if (dims_has(dims_at(s->g, c.x), c.d)) {
    Window w = {.g = s->g, .x = c.x, .start = c.place, .from = c.d, .f = {.divisor = 1}};
    c.x = window_add(&w);
  } else if (!simple_const(s->g, c.place, &i) || i < 0 || i >= (double)size_of(s->g, c.d)) {
    return 0;
  }
  if (!left.n) return c.x;
  Attr attr = {.ndims = left.n, .dims = left.at};
  return simple_add(s->g, OP_SUM, 1, &c.x, &attr);
}
