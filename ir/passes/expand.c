// Expansion: replaces operations with the flag EXPANDS (ops.def) by primitive ones. Input: a graph
// to which gradients were added; they come first because the derivative of a whole logsumexp is
// more accurate than that of its parts. Output: a new graph of primitive operations. New nodes have
// the origin of the node that they replace.
//
//   %3 = logsumexp(%2) {dims=[c]}   =>   m = max(%2); s = sum(exp(%2 - m)); %3 = log(s) + m
//
// The mean of narrow floats (bf16, f16) and integers is computed in f32, the type of their sums.
// The pass also replaces a scatter_add of a narrow float, although it is primitive, by one of f32
// between casts: it adds many terms one after the other.
#include <math.h>

#include "ir/graph/graph.h"

typedef struct Expand {
  Graph *g;
  Node n;    // the node of the old graph that is replaced
  NodeId x;  // the argument of that node, in the new graph
  Dims over; // attr.dims of that node, as a set
} Expand;

static Dtype x_type(const Expand *c) { return (Dtype)graph_node(c->g, c->x)->type; }

static Dtype wide_type(Dtype t) { return dtype_is_float(t) ? dtype_accumulator(t) : TYPE_F32; }

static NodeId expand_mean(Expand *c) {
  Graph *g = c->g;
  Dtype wide = wide_type(x_type(c));
  double n = dims_product(g->dims, c->over.n, c->over.at);
  NodeId sum = graph_reduce(g, OP_SUM, graph_cast(g, c->x, wide), &c->over);
  return graph_cast(g, graph_binary(g, OP_MUL, sum, graph_const(g, wide, 1 / n)), (Dtype)c->n.type);
}

static NodeId expand_logsumexp(Expand *c) {
  Graph *g = c->g;
  LogSum s = graph_log_sum(g, graph_cast(g, c->x, wide_type(x_type(c))), &c->over, false);
  NodeId y = graph_binary(g, OP_ADD, graph_unary(g, OP_LOG, s.sum), s.shift);
  return graph_cast(g, y, (Dtype)c->n.type);
}

static NodeId expand_l2_norm(Expand *c) {
  Graph *g = c->g;
  NodeId x = graph_cast(g, c->x, wide_type(x_type(c)));
  NodeId sum = graph_reduce(g, OP_SUM, graph_binary(g, OP_MUL, x, x), &c->over);
  return graph_cast(g, graph_unary(g, OP_SQRT, sum), (Dtype)c->n.type);
}

// Returns the position of an element along the dims of argmax, as one number: the first dim changes
// slowest.
static NodeId flat_position(Expand *c) {
  Graph *g = c->g;
  const Attr *t = c->n.attr;
  NodeId at = graph_index(g, t->dims[0]);
  for (int i = 1; i < t->ndims; i++) {
    NodeId size = graph_const(g, TYPE_I32, (double)dim_get(g->dims, t->dims[i])->size);
    at = graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, at, size), graph_index(g, t->dims[i]));
  }
  return at;
}

// Returns the part of a flat position that is along the dim attr.to[0].
static NodeId position_along(Expand *c, NodeId at) {
  Graph *g = c->g;
  const Attr *t = c->n.attr;
  int i = t->ndims - 1;
  for (; t->nto && t->dims[i] != t->to[0]; i--)
    at = graph_binary(g, OP_FLOOR_DIV, at,
                      graph_const(g, TYPE_I32, (double)dim_get(g->dims, t->dims[i])->size));
  if (i == 0 || !t->nto) return at;
  NodeId size = graph_const(g, TYPE_I32, (double)dim_get(g->dims, t->dims[i])->size);
  return graph_binary(g, OP_MOD, at, size);
}

// Expands argmax or argmin of f64. Its values do not fit in a key, the u64 that holds value and
// index of a narrower type. Finds the best value, then the least index of an element equal to this
// value. If the best value is NaN, finds the least index of a NaN, which is recognised because a
// NaN is not equal to itself.
static NodeId first_equal(Expand *c, Op best_of) {
  Graph *g = c->g;
  NodeId best = graph_reduce(g, best_of, c->x, &c->over);
  NodeId best_nan = graph_binary(g, OP_NE, best, best), x_nan = graph_binary(g, OP_NE, c->x, c->x);
  NodeId hit = graph_where(g, best_nan, x_nan, graph_binary(g, OP_EQ, c->x, best));
  NodeId index = graph_where(g, hit, flat_position(c), graph_const(g, TYPE_I32, INT32_MAX));
  return position_along(c, graph_reduce(g, OP_MIN, index, &c->over));
}

// Returns the index that the largest key holds. A key is a u64 with the value of an element of x in
// its upper half. Its lower half is the inverted index of the element.
static NodeId largest_key(Expand *c, NodeId x) {
  Graph *g = c->g;
  NodeId key = graph_reduce(g, OP_MAX, graph_binary(g, OP_ARG_KEY, x, flat_position(c)), &c->over);
  return position_along(c, graph_unary(g, OP_KEY_INDEX, key));
}

// Returns argument 0 of the node, cast to a type that keys (a value and its index in one u64) can
// contain: f32 or i32. The cast is exact.
static NodeId key_operand(Expand *c) {
  return graph_cast(c->g, c->x, dtype_is_float(x_type(c)) ? TYPE_F32 : TYPE_I32);
}

static NodeId expand_argmax(Expand *c) {
  return x_type(c) == TYPE_F64 ? first_equal(c, OP_MAX) : largest_key(c, key_operand(c));
}

// Expands argmin as the argmax of -x. For integers, where -x could overflow, argmin becomes the
// argmax of -1 - x. NaN ranks first in argmin too, because -NaN is NaN.
static NodeId expand_argmin(Expand *c) {
  if (x_type(c) == TYPE_F64) return first_equal(c, OP_MIN);
  NodeId x = key_operand(c);
  if (dtype_is_float(x_type(c))) return largest_key(c, graph_unary(c->g, OP_NEG, x));
  return largest_key(c, graph_binary(c->g, OP_SUB, graph_const(c->g, TYPE_I32, -1), x));
}

static NodeId expand_stop(Expand *c) { return c->x; }

static bool is_narrow_sum(const Node *n) {
  return n->op == OP_SCATTER_ADD && dtype_accumulator((Dtype)n->type) != (Dtype)n->type &&
         dtype_is_float((Dtype)n->type);
}

static NodeId widen_scatter(Graph *to, const Node *n, const NodeId *map, Dtype wide) {
  to->origin = *n->origin;
  NodeId args[2] = {graph_cast(to, map[n->args[0]], wide), map[n->args[1]]};
  return graph_cast(to, graph_add(to, OP_SCATTER_ADD, 2, args, n->attr), (Dtype)n->type);
}

typedef NodeId ExpandRule(Expand *c);
static ExpandRule *const expand_rule[OP_COUNT] = {
    [OP_MEAN] = expand_mean,     [OP_LOGSUMEXP] = expand_logsumexp, [OP_ARGMAX] = expand_argmax,
    [OP_ARGMIN] = expand_argmin, [OP_STOP] = expand_stop,           [OP_L2_NORM] = expand_l2_norm,
};

static NodeId expand_node(Graph *to, const Graph *from, NodeId id, const NodeId *map) {
  const Node *n = graph_node(from, id);
  if (is_narrow_sum(n)) return widen_scatter(to, n, map, wide_type((Dtype)n->type));
  if (!(op_row((Op)n->op)->flags & EXPANDS)) return graph_copy(to, from, id, map);
  if (!expand_rule[n->op]) BUG("%s has no expansion", op_row((Op)n->op)->text);
  Expand c = {
      .g = to, .n = *n, .x = map[n->args[0]], .over = dims_make(n->attr->ndims, n->attr->dims)};
  to->origin = *n->origin;
  return expand_rule[n->op](&c);
}

Graph *graph_expand(Arena *a, const Graph *g) {
  Graph *to = graph_like(a, g, STAGE_SIMPLIFY);
  NodeId *map = arena_array(a, NodeId, graph_count(g) + 1);
  for (NodeId id = 1; id <= graph_count(g); id++) map[id] = expand_node(to, g, id, map);
  graph_copy_outputs(to, g, map);
  return graph_prune_in_place(a, to, STAGE_SIMPLIFY);
}
