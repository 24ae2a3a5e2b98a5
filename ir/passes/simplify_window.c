// Simplification of windows by their relation (the affine map from positions of the result to
// positions of the source) and by the value that they read: windows of windows, choices by
// position, constants, identities. simplify_through.c moves windows into the ops that they read.
//
//   window(window(%1))                  => one window, where the relations compose
//   window(where(index < 3, %1, %2))    => window(%1), where only positions below 3 are read
//   window(%1) {affine = [1, 0, 0, 1]}  => %1
//
// Only windows over whole dims are simplified, not those over blocks.
#include "ir/passes/simplify_window_internal.h"

enum { MAX_FACTOR = 1 << 30 };

bool window_read(Graph *g, const Attr *t, NodeId x, NodeId start, Window *w) {
  *w = (Window){.g = g,
                .x = x,
                .start = start,
                .from = t->dims[0],
                .nto = t->nto,
                .f = t->affine,
                .fill = t->num[0]};
  bool whole = dim_get(g->dims, w->from)->whole == w->from;
  for (int i = 0; i < w->nto; i++) {
    w->to[i] = t->to[i];
    whole = whole && dim_get(g->dims, w->to[i])->whole == w->to[i];
  }
  return whole;
}

NodeId window_add(const Window *w) {
  Attr attr = {.ndims = 1, .dims = &w->from, .nto = (uint8_t)w->nto, .to = w->to, .affine = w->f};
  attr.num[0] = w->fill;
  NodeId args[2] = {w->x, w->start};
  return simple_add(w->g, w->start ? OP_WINDOW_AT : OP_WINDOW, w->start ? 2 : 1, args, &attr);
}

// -- positions that are read --------------------------------------------------------------------

typedef struct Interval {
  int64_t lo, hi;
} Interval;

static Interval plus_times(Interval i, int64_t factor, int64_t n) {
  int64_t end = factor * (n - 1);
  return end < 0 ? (Interval){i.lo + end, i.hi} : (Interval){i.lo, i.hi + end};
}

// Returns the range of out*o + tap*k + offset, where o runs over all positions of the result. k
// runs over the taps, the positions read for one o.
static Interval numerators(const Window *w) {
  Interval i = {w->f.offset, w->f.offset};
  if (w->nto > 0) i = plus_times(i, w->f.out, size_of(w->g, w->to[0]));
  return w->nto > 1 ? plus_times(i, w->f.tap, size_of(w->g, w->to[1])) : i;
}

static bool inside(const Window *w) {
  Interval i = numerators(w);
  return !w->start && i.lo >= 0 && i.hi < w->f.divisor * size_of(w->g, w->from);
}

// Returns true if an element of the result can get the value Window.fill. It gets this value if its
// position in the source is outside or not an integer.
static bool misses(const Window *w) { return w->f.divisor > 1 || !inside(w); }

// Returns the interval of positions of the source that the window reads. In an empty interval lo >
// hi.
static Interval positions(const Window *w) {
  int64_t n = size_of(w->g, w->from);
  if (w->start) return (Interval){0, n - 1};
  Interval i = numerators(w);
  i.lo = i.lo <= 0 ? 0 : ceil_div(i.lo, w->f.divisor);
  i.hi = i.hi < 0 ? -1 : i.hi / w->f.divisor;
  if (i.hi > n - 1) i.hi = n - 1;
  return i;
}

// -- the relation itself ------------------------------------------------------------------------

// Removes the second dim of the window, that of the taps, if it does not change the position that
// is read. The source has this dim, or the result gets it by a broadcast.
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
  int64_t d = gcd64(gcd64(w->f.out, w->f.tap), w->f.divisor);
  if (w->start || d <= 1 || w->f.offset % d) return false;
  w->f = (Affine){w->f.out / d, w->f.tap / d, w->f.offset / d, w->f.divisor / d};
  return true;
}

// -- the source ---------------------------------------------------------------------------------

// If the source of the window is a broadcast, replaces the source by the argument of the broadcast.
// The result gets the dims that the broadcast had added by a broadcast of its own.
static bool through_broadcast(Window *w) {
  const Node *x = graph_node(w->g, w->x);
  if (x->op != OP_BROADCAST || !dims_has(dims_at(w->g, x->args[0]), w->from)) return false;
  w->x = x->args[0];
  return true;
}

static bool holds(Op op, double a, double b) {
  return op == OP_LT ? a < b : op == OP_LE ? a <= b : (a == b) == (op == OP_EQ);
}

// Returns true if the comparison `index op c` (or `c op index`) has one value for all positions in
// i, and sets *out to it. LT and LE change at most once along the positions, so comparing both ends
// is enough. EQ and NE differ only at a position equal to c.
static bool decided(Op op, bool index_first, double c, Interval i, bool *out) {
  double lo = (double)i.lo, hi = (double)i.hi;
  if (op != OP_LT && op != OP_LE && op != OP_EQ && op != OP_NE) return false;
  *out = index_first ? holds(op, lo, c) : holds(op, c, lo);
  bool last = index_first ? holds(op, hi, c) : holds(op, c, hi);
  bool equality = op == OP_EQ || op == OP_NE;
  return *out == last && (!equality || lo == hi || c < lo || c > hi);
}

// Returns true if p compares the positions along d with a number, as index[d] < 3 does; *c gets the
// number. *first is true if index[d] is the first operand.
bool window_compares_index(const Graph *g, NodeId p, DimId d, bool *first, double *c) {
  const Node *n = graph_node(g, p);
  for (int i = 0; i < 2 && n->nargs == 2; i++) {
    const Node *index = graph_node(g, n->args[i]);
    if (index->op != OP_INDEX || index->attr->dims[0] != d || !simple_const(g, n->args[1 - i], c))
      continue;
    *first = i == 0;
    return true;
  }
  return false;
}

// Handles a window whose source is a choice by position, such as where(index[d] < 3, a, b).
// Replaces the source by a or b if the window reads only positions with that value.
static bool decide_where(Window *w) {
  Node x = *graph_node(w->g, w->x);
  bool first, side;
  double c;
  if (x.op != OP_WHERE || !window_compares_index(w->g, x.args[0], w->from, &first, &c))
    return false;
  if (!decided((Op)graph_node(w->g, x.args[0])->op, first, c, positions(w), &side)) return false;
  NodeId taken = simple_stripped(w->g, x.args[side ? 1 : 2]);
  Dims with = *dims_at(w->g, taken);
  if (!dims_add(w->g->dims, &with, w->from)) return false;
  w->x = graph_broadcast(w->g, taken, &with);
  return true;
}

// -- windows of windows -------------------------------------------------------------------------

static bool small(int64_t v) { return v >= -MAX_FACTOR && v <= MAX_FACTOR; }

bool window_compose(const Affine *in, const Affine *out, Affine *f) {
  if (!small(in->offset) || !small(out->offset)) return false;
  *f = (Affine){in->out * out->out, in->out * out->tap + in->tap * out->divisor,
                in->out * out->offset + in->offset * out->divisor, in->divisor * out->divisor};
  int64_t d = gcd64(gcd64(f->out, f->tap), gcd64(f->offset, f->divisor));
  *f = (Affine){f->out / d, f->tap / d, f->offset / d, f->divisor / d};
  return small(f->out) && small(f->tap) && small(f->offset) && small(f->divisor);
}

// Decides whether one window can replace w and the window `in` whose result w reads. Returns true
// if each position outside that result that w reads would also be outside the source of `in`. Then
// both ways give the same fill.
static bool outside_stays_outside(const Window *w, const Window *in) {
  const Affine *f = &in->f;
  Interval read = numerators(w), taps = {f->offset, f->offset};
  int64_t n = size_of(w->g, in->to[0]), end = f->divisor * size_of(w->g, in->from),
          last = f->out * n;
  if (in->nto > 1) taps = plus_times(taps, f->tap, size_of(w->g, in->to[1]));
  bool up = f->out > 0, good = true;
  if (read.lo < 0) good = up ? taps.hi - f->out < 0 : taps.lo - f->out >= end;
  if (read.hi >= w->f.divisor * n) good = good && (up ? taps.lo + last >= end : taps.hi + last < 0);
  return good;
}

static bool compose_places(Window *w, const Window *in) {
  DimId tap = window_tap(w), own = window_tap(in);
  if ((tap && own && tap != own) || (tap && tap == in->from)) return false;
  // w reads one fixed position, so the result has only the tap dim of `in`. This is not possible if
  // the source of `in` also has that dim.
  if (!w->nto && own && (!in->f.tap || dims_has(dims_at(w->g, in->x), own))) return false;
  if (w->f.divisor > 1 && gcd64(in->f.out, w->f.divisor) > 1) return false;
  if (!inside(w) && !outside_stays_outside(w, in)) return false;
  if (misses(w) && misses(in) && !(w->fill == in->fill)) return false;
  Window y = {.g = w->g,
              .x = in->x,
              .from = in->from,
              .nto = w->nto,
              .fill = misses(w) ? w->fill : in->fill};
  if (misses(in)) y.fill = in->fill;
  if (!window_compose(&in->f, &w->f, &y.f)) return false;
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

// Composes w with the window `in` whose result it reads, where w reads along the tap dim (the
// second dim) of `in`. Returns false if this is not possible, for example because the source of
// `in` has that dim, too.
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
  if (w->start || x->op != OP_WINDOW || !window_read(w->g, x->attr, x->args[0], 0, &in))
    return false;
  if (in.nto && in.to[0] == w->from) return compose_places(w, &in);
  return in.nto > 1 && in.to[1] == w->from && compose_taps(w, &in);
}

// -- windows that disappear ---------------------------------------------------------------------

// Returns a value equal to w that needs no window: the source of w, possibly renamed, or a
// constant. Returns 0 if there is no such value.
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

// -- rules --------------------------------------------------------------------------------------

NodeId simplify_window(Simplify *s) {
  Window w;
  if (!window_read(s->g, s->n->attr, s->x[0], s->n->nargs > 1 ? s->x[1] : 0, &w)) return 0;
  bool changed = false;
  while (known_start(&w) || drop_tap(&w) || reduce_fraction(&w) || through_broadcast(&w) ||
         decide_where(&w) || compose(&w))
    changed = true;
  NodeId y = vanish(&w);
  if (!y) y = window_into_product(&w, s->once);
  if (!y) y = window_into_sum(&w, s->once);
  if (!y) y = window_into_choice(&w, s->once);
  return y ? y : changed ? window_add(&w) : 0;
}
