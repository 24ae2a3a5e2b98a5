// Simplification of windows: moves them into the products, sums and choices (where) that they read.
// Otherwise a program would store the patches: for each position of the result, all elements that
// the window reads.
//
//   window(contract(%1, %2))              => contract(window(%1), %2)
//     into the factor that has the dim that is read
//   cast(window(%1))                      => window(cast(%1))
//     where the window repeats elements
//   window(where(eq(%p, %m), %d, 0))      => where(eq(%x, window(%m)), window(%d), 0)
//     where %p is a window of %x, and the outer window is the derivative of that window
//   sum[n](where(index[n] == i, %1, 0))   => window(%1)
//     the window reads the element at position i
//
// The gradient of a convolution by its image thus becomes a contraction of windows of dy. The
// gradient of a maximum over windows compares the image itself. A window that gives zeros outside
// its source is moved into a product, although an infinite other factor then gives NaN there, as in
// any convolution with padding.
#include "ir/eval/eval_rules.h"
#include "ir/passes/simplify_window_internal.h"

enum { MAX_DEPTH = 6 };

// -- into products ------------------------------------------------------------------------------

static bool sums(const Node *n, DimId d) { return dim_in(d, n->attr->ndims, n->attr->dims); }

static bool has_tap(const Window *w) {
  return w->nto > 1 && dims_has(dims_at(w->g, w->x), w->to[1]);
}

// Returns true if window w of product x can become a product with a window of one factor, without
// more multiplications.
static bool product_takes(const Window *w, const Node *x) {
  bool contracts = x->op == OP_CONTRACT;
  if (!(contracts || x->op == OP_MUL) || !(w->fill == 0)) return false;
  for (int i = 0; i < w->nto; i++)
    if (contracts && sums(x, w->to[i])) return false;
  if (w->nto > 1) return has_tap(w);
  return contracts && (w->nto == 0 || size_of(w->g, w->to[0]) <= size_of(w->g, w->from));
}

NodeId window_into_product(const Window *w, bool once) {
  Node x = *graph_node(w->g, w->x);
  if (!once || !product_takes(w, &x)) return 0;
  int at = dims_has(dims_at(w->g, x.args[0]), w->from) ? 0 : 1;
  if (dims_has(dims_at(w->g, x.args[1 - at]), w->from)) return 0;
  Window part = *w;
  part.x = x.args[at];
  NodeId args[2] = {x.args[0], x.args[1]};
  args[at] = window_add(&part);
  return simple_add(w->g, (Op)x.op, 2, args, x.attr);
}

// -- into sums ----------------------------------------------------------------------------------

// Replaces window(sum(x)) by sum(window(x)) if the window reads fewer positions than its source
// has, so that fewer elements are summed. `once`: no other node reads the sum.
NodeId window_into_sum(const Window *w, bool once) {
  Node x = *graph_node(w->g, w->x);
  bool fewer = w->nto == 0 || (w->nto == 1 && size_of(w->g, w->to[0]) < size_of(w->g, w->from));
  if (x.op != OP_SUM || !once || !fewer || !(w->fill == 0)) return 0;
  if (w->nto && sums(&x, w->to[0])) return 0;
  Window part = *w;
  part.x = x.args[0];
  NodeId y = window_add(&part);
  return simple_add(w->g, OP_SUM, 1, &y, x.attr);
}

// -- into choices -------------------------------------------------------------------------------

// Returns a value equal to the window w of x, except at elements whose position is outside the
// source of w. These elements may have any value.
static NodeId loosely(const Window *w, NodeId x, int depth) {
  Node n = *graph_node(w->g, x);
  if (!dims_has(n.dims, w->from)) return x;
  Window in, y = *w;
  Affine f;
  bool window = n.op == OP_WINDOW && window_read(w->g, n.attr, n.args[0], 0, &in);
  bool inverse = window && in.nto == 2 && in.to[0] == w->from && in.to[1] == window_tap(w) &&
                 in.from == w->to[0];
  if (inverse && window_compose(&in.f, &w->f, &f) && f.out == f.divisor && !f.tap && !f.offset)
    return in.x;
  bool point = op_row((Op)n.op)->cls == POINTWISE && !(op_row((Op)n.op)->flags & CHECKS) &&
               n.op != OP_CHECKPOINT;
  if (!point || depth == 0 || !dims_has(n.dims, window_tap(w))) {
    y.x = x;
    return window_add(&y);
  }
  NodeId args[3];
  for (int i = 0; i < n.nargs; i++) args[i] = loosely(w, n.args[i], depth - 1);
  return simple_add(w->g, (Op)n.op, n.nargs, args, n.attr);
}

// Replaces a window of where(c, d, 0) by where(c', window(d), 0). Outside the source the result is
// zero for any c'. So `loosely`, whose values outside the source are arbitrary, computes c'.
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

// Replaces a window of where(c, d, 0), or of a sum of such a choice, by a choice that reads a
// window of d. Applies only to windows with taps (two dims of the result read one dim) whose source
// also has the dim of the taps.
NodeId window_into_choice(const Window *w, bool once) {
  Node x = *graph_node(w->g, w->x);
  if (!once || w->start || !(w->fill == 0) || !has_tap(w)) return 0;
  if (x.op == OP_WHERE) return choice_moved(w, &x);
  if (x.op != OP_SUM || sums(&x, w->to[0]) || sums(&x, w->to[1])) return 0;
  Node choice = *graph_node(w->g, x.args[0]);
  if (choice.op != OP_WHERE || choice.type != x.type) return 0;
  NodeId moved = choice_moved(w, &choice);
  return moved ? simple_add(w->g, OP_SUM, 1, &moved, x.attr) : 0;
}

// -- around windows -----------------------------------------------------------------------------

static bool constant_but(const Simplify *s, int at) {
  double v;
  for (int i = 0; i < s->n->nargs; i++)
    if (i != at && !simple_const(s->g, s->x[i], &v)) return false;
  return true;
}

// Sets *out to the result of the operation of s if operand `at` has the value `fill`, which a
// window has outside its source. Returns false if the result can be NaN, or if another operand is
// not constant.
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
  bool marks =
      op_row((Op)s->n->op)->flags & CHECKS || s->n->op == OP_CHECKPOINT || s->n->op == OP_STOP;
  if (at == s->n->nargs || s->n->nargs > 2 || marks || !constant_but(s, at)) return 0;
  Window w;
  const Node *x = simple_arg(s, at);
  if (!window_read(s->g, x->attr, x->args[0], 0, &w)) return 0;
  if (node_elements(s->g, s->x[at]) <= node_elements(s->g, w.x)) return 0;
  if (!fill_after(s, at, w.fill, &w.fill)) return 0;
  NodeId args[2] = {s->x[0], s->x[1]};
  args[at] = w.x;
  w.x = simple_add(s->g, (Op)s->n->op, s->n->nargs, args, s->n->attr);
  return window_add(&w);
}

// Handles a chain x = where(index[d] == i, 0, where(index[d] == j, 0, ... rest)). If only one
// position of d gets the value `rest`, sets *out to this position and returns `rest`. Otherwise, or
// if d has 64 or more elements, returns 0.
static NodeId only_left(const Graph *g, NodeId x, DimId d, double *out) {
  int64_t n = size_of(g, d);
  uint64_t left = n < 64 ? ((uint64_t)1 << n) - 1 : 0;
  double zero, i;
  bool first;
  for (const Node *y = graph_node(g, x); left & (left - 1) && y->op == OP_WHERE;
       y = graph_node(g, x)) {
    if (graph_node(g, y->args[0])->op != OP_EQ ||
        !window_compares_index(g, y->args[0], d, &first, &i))
      return 0;
    if (!simple_const(g, y->args[1], &zero) || zero != 0 || i < 0 || i >= (double)n) return 0;
    left &= ~((uint64_t)1 << (int64_t)i);
    x = y->args[2];
  }
  if (!left || left & (left - 1)) return 0;
  *out = (double)__builtin_ctzll(left);
  return x;
}

// A value that is x at position `place` of dim d, and zero at all other positions of d.
typedef struct Choice {
  DimId d;
  NodeId x, place;
} Choice;

static bool choice_read(const Simplify *s, Choice *c) {
  const Graph *g = s->g;
  const Node *x = simple_arg(s, 0);
  if (x->op != OP_WHERE || x->type != s->n->type || graph_node(g, x->args[0])->op != OP_EQ)
    return false;
  const Node *p = graph_node(g, x->args[0]);
  int at = graph_node(g, p->args[0])->op == OP_INDEX ? 0 : 1;
  const Node *index = graph_node(g, p->args[at]);
  if (index->op != OP_INDEX || dims_at(g, p->args[1 - at])->n) return false;
  *c = (Choice){index->attr->dims[0], simple_stripped(g, x->args[1]), p->args[1 - at]};
  double zero, i;
  if (!sums(s->n, c->d) || dim_get(g->dims, c->d)->whole != c->d) return false;
  if (simple_const(g, x->args[2], &zero) && zero == 0) return true;
  NodeId rest = only_left(g, s->x[0], c->d, &i);
  if (!rest) return false;
  c->x = simple_stripped(g, rest);
  c->place = graph_const(s->g, TYPE_I32, i);
  return true;
}

// Replaces sum[n](where(index[n] == i, x, 0)) by the element of x at position i.
NodeId simplify_sum_of_choice(Simplify *s) {
  Choice c;
  double i;
  if (!choice_read(s, &c)) return 0;
  Dims left = {0};
  for (int k = 0; k < s->n->attr->ndims; k++) {
    if (s->n->attr->dims[k] == c.d) continue;
    left.at[left.n++] = s->n->attr->dims[k];
    if (!dims_has(dims_at(s->g, c.x), s->n->attr->dims[k])) return 0;
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
