// Factoring of sums in gradients. Moves factors that do not depend on the summed dims out of a sum.
// Drops factors and terms of the form x - mean(x), whose sum is zero. Sums that differed only by
// such factors or terms then become one node.
//
//   off = x - mean[b](x), y = off * r, z = y * scale; dz is the gradient by z. The gradients have
//     sum[b](dz * (off * r))                =>  r * sum[b](dz * off)
//     sum[b](dz * scale * off)              =>  scale * sum[b](dz * off), with the first sum
//     sum[b](dz * scale * r + off * u)      =>  scale * r * sum[b](dz): off * u is 0, u has no b
//
// The backward pass of batch normalisation then has two sums, which depend only on dz. The chain
// rule gives four, and one of them depends on another. The forward pass is not changed. The pass
// runs after all gradients were taken, because the gradient by a mean needs the dropped terms.
#include "ir/base/dim_list.h"
#include "ir/graph/graph.h"

enum { MAX_DEPTH = 16 };

static NodeId stripped(const Graph *g, NodeId x, const Dims *sum) {
  const Node *node = graph_node(g, x);
  return node->op == OP_BROADCAST && !dims_overlap(graph_node(g, node->args[0])->dims, sum)
             ? node->args[0]
             : x;
}

// Returns true if m is the mean of x over dims of `allowed`.
static bool is_mean_of(const Graph *g, NodeId m, NodeId x, const Dims *allowed) {
  const Node *mul = graph_node(g, m);
  if (mul->op == OP_BROADCAST) mul = graph_node(g, mul->args[0]);
  if (mul->op != OP_MUL) return false;
  for (int i = 0; i < 2; i++) {
    const Node *sum = graph_node(g, mul->args[i]), *factor = graph_node(g, mul->args[1 - i]);
    if (sum->op != OP_SUM || sum->args[0] != x || factor->op != OP_CONST) continue;
    for (int k = 0; k < sum->attr->ndims; k++)
      if (!dims_has(allowed, sum->attr->dims[k])) return false;
    double n = dims_product(g->dims, sum->attr->ndims, sum->attr->dims);
    return dtype_round((Dtype)factor->type, 1 / n) == factor->attr->num[0];
  }
  return false;
}

// Returns true if the sum of x over the dims `over` is zero in exact arithmetic. x must have all of
// these dims.
static bool vanishes(const Graph *g, NodeId x, const Dims *over, int depth) {
  const Node *n = graph_node(g, x);
  if (!over->n || !depth || !dtype_is_float((Dtype)n->type)) return false;
  if (n->op == OP_NEG) return vanishes(g, n->args[0], over, depth - 1);
  if (n->op == OP_SUB && is_mean_of(g, n->args[1], n->args[0], over)) return true;
  if (n->op == OP_MUL)
    for (int i = 0; i < 2; i++) {
      Dims left = list_minus(over, graph_node(g, n->args[1 - i])->dims);
      if (vanishes(g, n->args[i], &left, depth - 1)) return true;
    }
  if (n->op != OP_ADD && n->op != OP_SUB) return false;
  return vanishes(g, n->args[0], over, depth - 1) && vanishes(g, n->args[1], over, depth - 1);
}

// A value x that is summed, written as a product: x = (negative ? -1 : 1) * factor[0] * ... *
// factor[n-1] * rest, plus dropped terms whose sum is zero.
typedef struct Factored {
  NodeId rest, factor[MAX_DEPTH];
  int n;
  bool negative;
  bool found; // the last step found a factor that has dims, or a term whose sum is zero
} Factored;

// Moves one factor or sign from f->rest to the factors of f. With `drops` it may instead drop a
// term of f->rest whose sum over the dims `sum` is zero. Returns false if f->rest has no such
// factor, sign or term.
static bool factor_step(const Graph *g, const Dims *sum, bool drops, Factored *f) {
  const Node *n = graph_node(g, f->rest);
  if (n->op == OP_NEG) {
    f->negative = !f->negative;
    f->rest = n->args[0];
    return true;
  }
  for (int i = 0; i < 2 && n->op == OP_MUL; i++) {
    NodeId u = stripped(g, n->args[i], sum);
    const Node *factor = graph_node(g, u);
    if (dims_overlap(factor->dims, sum)) continue;
    f->factor[f->n++] = u;
    f->rest = n->args[1 - i];
    f->found |= factor->dims->n > 0;
    return true;
  }
  for (int i = 0; i < 2 && drops && (n->op == OP_ADD || n->op == OP_SUB); i++) {
    if (!dims_equal(graph_node(g, n->args[1 - i])->dims, n->dims) ||
        !vanishes(g, n->args[i], sum, MAX_DEPTH))
      continue;
    f->rest = n->args[1 - i];
    f->negative ^= n->op == OP_SUB && i == 0;
    f->found = true;
    return true;
  }
  return false;
}

// Returns x as a product whose factors can leave the sum over the dims `sum`. Scalar factors found
// after the last factor with dims stay in the sum, so that equal sums remain equal nodes.
static Factored factor_sum(const Graph *g, NodeId x, const Dims *sum, bool drops) {
  Factored f = {.rest = x}, best = f;
  for (int i = 0; i < MAX_DEPTH && factor_step(g, sum, drops, &f); i++) {
    if (f.found) best = f;
    f.found = false;
  }
  best.found = best.rest != x;
  return best;
}

static NodeId multiplied(Graph *g, NodeId y, const Factored *f) {
  Dtype type = (Dtype)graph_node(g, y)->type;
  for (int i = f->n; i-- > 0;) y = graph_binary(g, OP_MUL, y, graph_cast(g, f->factor[i], type));
  return f->negative ? graph_unary(g, OP_NEG, y) : y;
}

static NodeId factored_sum(Graph *g, NodeId x, const Attr *attr) {
  Dims over = dims_make(attr->ndims, attr->dims);
  if (vanishes(g, x, &over, MAX_DEPTH)) return graph_const(g, (Dtype)graph_node(g, x)->type, 0);
  Factored f = factor_sum(g, x, &over, true);
  if (!f.found) return 0;
  return multiplied(g, graph_add(g, OP_SUM, 1, &f.rest, attr), &f);
}

// Returns true if argument x of contraction n has all dims of n. The contraction is then a sum of
// elementwise products.
static bool sums_elements(const Graph *g, const Node *n, NodeId x) {
  return list_has_all(graph_node(g, x)->dims, n->dims);
}

static NodeId factored_product(Graph *g, const Node *n, const NodeId *map) {
  Dims over = dims_make(n->attr->ndims, n->attr->dims);
  NodeId args[2];
  Factored f[2];
  bool any = false;
  for (int i = 0; i < 2; i++) {
    args[i] = map[n->args[i]];
    f[i] = (Factored){.rest = args[i]};
    if (sums_elements(g, n, args[i])) f[i] = factor_sum(g, args[i], &over, false);
    any |= f[i].found;
    args[i] = f[i].rest;
  }
  if (!any || !n->attr->ndims) return 0;
  Dims both = list_union(graph_node(g, args[0])->dims, graph_node(g, args[1])->dims);
  if (!list_has_all(&both, &over)) return 0;
  return multiplied(g, multiplied(g, graph_add(g, OP_CONTRACT, 2, args, n->attr), &f[1]), &f[0]);
}

static NodeId factored(Graph *to, const Node *n, const NodeId *map) {
  if (!n->origin->backward || n->instance || !dtype_is_float((Dtype)n->type)) return 0;
  if (n->op == OP_SUM && n->type == graph_node(to, map[n->args[0]])->type)
    return factored_sum(to, map[n->args[0]], n->attr);
  return n->op == OP_CONTRACT ? factored_product(to, n, map) : 0;
}

const Graph *graph_factor(Arena *a, const Graph *g) {
  Graph *to = graph_like(a, g, g->stage);
  bool any = false;
  NodeId *map = arena_array(a, NodeId, graph_count(g) + 1);
  for (NodeId id = 1; id <= graph_count(g); id++) {
    const Node *n = graph_node(g, id);
    bug_context("factor", id);
    to->origin = *n->origin;
    NodeId y = factored(to, n, map);
    any |= y != 0;
    map[id] = y ? graph_broadcast(to, y, n->dims) : graph_copy(to, g, id, map);
  }
  if (!any) {
    graph_release(to);
    return g;
  }
  graph_copy_outputs(to, g, map);
  Graph *whole = graph_prune_in_place(a, to, g->stage);
  const Graph *out = graph_simplify(a, whole); // removes sums that became zero
  graph_release(whole);
  return out;
}
