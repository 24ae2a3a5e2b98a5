// Simplification of ops on dims: reductions of broadcasts and of reductions, contractions of
// broadcasts and constants, moves of moves.
//
//   sum[b](broadcast(%1) {dims=[b]})  =>  mul(%1, size of b)
//   contract(%1[b, d], const(2)) {dims=[d]}  =>  mul(sum[d](%1), 2)
//
// A broadcast over block dims stays: processors may have different numbers of elements.
#include <math.h>

#include "ir/base/dim_list.h"
#include "ir/passes/simplify_internal.h"

// Sets *out to the number of elements over the dims `lost`. Returns false if a dim is a block (one
// processor's part), because its length differs between processors. Also returns false if the
// number is not exact in type t.
static bool count_of(const Graph *g, const Dims *lost, Dtype t, double *out) {
  for (int i = 0; i < lost->n; i++)
    if (dim_get(g->dims, lost->at[i])->whole != lost->at[i]) return false;
  *out = dims_product(g->dims, lost->n, lost->at);
  return dtype_round(t, *out) == *out;
}

static NodeId times_count(Graph *g, NodeId x, double n) {
  return n == 1 ? x : graph_binary(g, OP_MUL, x, graph_const(g, (Dtype)graph_node(g, x)->type, n));
}

// -- reductions ---------------------------------------------------------------------------------

static NodeId reduce_broadcast(Simplify *s, const Dims *over) {
  Op op = (Op)s->n->op;
  NodeId inner = simple_stripped(s->g, s->x[0]);
  if (inner == s->x[0] || !(op == OP_SUM || monoid_idempotent(op_row(op)->monoid))) return 0;
  const Node *x = graph_node(s->g, inner);
  if (op == OP_SUM && x->type != s->n->type) return 0; // a sum of bool or u8 has a wider type
  Dims lost = list_minus(over, x->dims), left = list_minus(over, &lost);
  double n;
  if (!count_of(s->g, &lost, (Dtype)s->n->type, &n)) return 0;
  NodeId y = graph_reduce(s->g, op, inner, &left);
  return op == OP_SUM ? times_count(s->g, y, n) : y;
}

static NodeId reduce_reduced(Simplify *s, const Dims *over) {
  const Node *x = simple_arg(s, 0);
  if (x->op != s->n->op || !op_row((Op)x->op)->monoid) return 0;
  Dims all = *over;
  for (int i = 0; i < x->attr->ndims; i++)
    if (dims_has(&all, x->attr->dims[i]) || !dims_add(s->g->dims, &all, x->attr->dims[i])) return 0;
  return graph_reduce(s->g, (Op)s->n->op, x->args[0], &all);
}

// Replaces a sum of a product by a contraction. Each factor must have a dim that the other lacks,
// or one factor must be a window, as in a convolution that does not mix channels.
static NodeId sum_of_product(Simplify *s, const Dims *over) {
  const Node *x = simple_arg(s, 0);
  if (s->n->op != OP_SUM || x->op != OP_MUL || x->type != s->n->type) return 0;
  const Node *a = graph_node(s->g, x->args[0]), *b = graph_node(s->g, x->args[1]);
  bool apart = list_minus(a->dims, b->dims).n > 0 && list_minus(b->dims, a->dims).n > 0;
  if (!apart && a->op != OP_WINDOW && b->op != OP_WINDOW) return 0;
  NodeId factor[2] = {x->args[0], x->args[1]};
  Attr attr = {.type = (Dtype)s->n->type, .ndims = over->n, .dims = over->at};
  return graph_add(s->g, OP_CONTRACT, 2, factor, &attr);
}

// Replaces a sum of a contraction by one contraction over more dims. Both factors must have all
// dims of the sum.
static NodeId sum_of_contraction(Simplify *s, const Dims *over) {
  Node x = *simple_arg(s, 0);
  if (s->n->op != OP_SUM || x.op != OP_CONTRACT || x.type != s->n->type || !s->once) return 0;
  Dims all = *over;
  for (int i = 0; i < over->n; i++)
    for (int k = 0; k < 2; k++)
      if (!dims_has(graph_node(s->g, x.args[k])->dims, over->at[i])) return 0;
  for (int i = 0; i < x.attr->ndims; i++)
    if (dims_has(&all, x.attr->dims[i]) || !dims_add(s->g->dims, &all, x.attr->dims[i])) return 0;
  Attr attr = {.type = x.attr->type, .ndims = all.n, .dims = all.at};
  return simple_add(s->g, OP_CONTRACT, 2, x.args, &attr);
}

// Returns y if x is index[d] == y or y == index[d], where the value y does not have dim d.
// Otherwise returns 0.
static NodeId matched_index(const Graph *g, NodeId x, DimId d) {
  const Node *n = graph_node(g, x);
  for (int i = 0; i < 2 && n->op == OP_EQ; i++) {
    const Node *index = graph_node(g, simple_stripped(g, n->args[i]));
    NodeId y = simple_stripped(g, n->args[1 - i]);
    if (index->op == OP_INDEX && index->attr->dims[0] == d && graph_node(g, y)->type == TYPE_I32 &&
        !dims_has(graph_node(g, y)->dims, d))
      return y;
  }
  return 0;
}

// Replaces a sum over d of one_hot[d](y) * 3 by 3 where y is an index of d, and by 0 elsewhere. At
// most one term of such a sum is not 0.
static NodeId sum_of_one_hot(Simplify *s, const Dims *over) {
  Graph *g = s->g;
  Dtype type = (Dtype)s->n->type;
  double times = 1;
  if (s->n->op != OP_SUM || over->n != 1 || simple_arg(s, 0)->type != type) return 0;
  NodeId x = s->x[0];
  const Node *product = graph_node(g, x);
  if (product->op == OP_MUL && simple_const(g, product->args[1], &times))
    x = product->args[0];
  else if (product->op == OP_MUL && simple_const(g, product->args[0], &times))
    x = product->args[1];
  if (graph_node(g, x)->op != OP_CAST || !isfinite(times)) return 0;
  const Dim *d = dim_get(g->dims, over->at[0]);
  NodeId y = matched_index(g, graph_node(g, x)->args[0], over->at[0]);
  if (!y || d->whole != over->at[0]) return 0;
  NodeId low = graph_binary(g, OP_LE, graph_const(g, TYPE_I32, 0), y);
  NodeId high = graph_binary(g, OP_LT, y, graph_const(g, TYPE_I32, (double)d->size));
  return graph_where(g, graph_binary(g, OP_AND, low, high), graph_const(g, type, times),
                     graph_const(g, type, 0));
}

NodeId simplify_reduce(Simplify *s) {
  Dims over = dims_make(s->n->attr->ndims, s->n->attr->dims);
  NodeId y = reduce_broadcast(s, &over);
  if (!y) y = reduce_reduced(s, &over);
  if (!y) y = sum_of_one_hot(s, &over);
  if (!y) y = sum_of_product(s, &over);
  if (!y) y = sum_of_contraction(s, &over);
  return y || s->n->op != OP_SUM ? y : simplify_sum_of_choice(s);
}

// -- contractions -------------------------------------------------------------------------------

// Returns sum(a) * b, computed in an accumulator type, f32 or wider, and cast to the type of the
// result.
static NodeId presummed(Simplify *s, NodeId a, NodeId b, const Dims *over) {
  Dtype wide = dtype_accumulator(dtype_join((Dtype)graph_node(s->g, a)->type, (Dtype)s->n->type));
  NodeId sum = graph_reduce(s->g, OP_SUM, graph_cast(s->g, a, wide), over);
  NodeId y = graph_binary(s->g, OP_MUL, sum, graph_cast(s->g, b, wide));
  return graph_cast(s->g, y, (Dtype)s->n->type);
}

NodeId simplify_contract(Simplify *s) {
  NodeId x[2] = {simple_stripped(s->g, s->x[0]), simple_stripped(s->g, s->x[1])};
  Dims da = *graph_node(s->g, x[0])->dims, db = *graph_node(s->g, x[1])->dims;
  Dims over = dims_make(s->n->attr->ndims, s->n->attr->dims);
  Dims both = list_union(&da, &db), lost = list_minus(&over, &both),
       left = list_minus(&over, &lost);
  double n;
  if (!count_of(s->g, &lost, (Dtype)s->n->type, &n)) return 0;
  Dtype type = (Dtype)s->n->type;
  bool one_type = graph_node(s->g, x[0])->type == type;
  if (left.n == 0 && one_type) return times_count(s->g, graph_binary(s->g, OP_MUL, x[0], x[1]), n);
  for (int i = 0; i < 2 && left.n > 0; i++) {
    // An infinite c stays inside the sum: c times terms of both signs is NaN, but c times their sum
    // is not.
    double c;
    if (simple_const(s->g, x[1 - i], &c) && isfinite(c) && c != 0)
      return times_count(s->g, presummed(s, x[i], x[1 - i], &left), n);
  }
  if (x[0] == s->x[0] && x[1] == s->x[1]) return 0;
  Attr attr = {.type = type, .ndims = left.n, .dims = left.at};
  return times_count(s->g, graph_add(s->g, OP_CONTRACT, 2, x, &attr), n);
}

// -- moves --------------------------------------------------------------------------------------

static NodeId rename_to(Simplify *s, NodeId x, int n, const DimId *from, const DimId *to) {
  DimId dims[MAX_RANK], into[MAX_RANK];
  int moved = 0;
  for (int i = 0; i < n; i++) {
    if (from[i] == to[i]) continue;
    dims[moved] = from[i];
    into[moved++] = to[i];
  }
  if (moved == 0) return x;
  Attr attr = {.ndims = (uint8_t)moved, .dims = dims, .nto = (uint8_t)moved, .to = into};
  return graph_add(s->g, OP_RENAME, 1, &x, &attr);
}

// Replaces rename(rename(x)) by one rename of x.
static NodeId simplify_rename(Simplify *s) {
  const Attr *t = s->n->attr;
  const Node *x = simple_arg(s, 0);
  if (x->op != OP_RENAME) {
    NodeId y = rename_to(s, s->x[0], t->ndims, t->dims, t->to);
    return y == s->x[0] ? y : 0;
  }
  Dims from = *graph_node(s->g, x->args[0])->dims;
  DimId to[MAX_RANK];
  for (int i = 0; i < from.n; i++) {
    to[i] = from.at[i];
    for (int k = 0; k < x->attr->ndims; k++)
      if (x->attr->dims[k] == from.at[i]) to[i] = x->attr->to[k];
    for (int k = 0, now = (int)to[i]; k < t->ndims; k++)
      if (t->dims[k] == (DimId)now) to[i] = t->to[k];
  }
  return rename_to(s, x->args[0], from.n, from.at, to);
}

static bool same_list(int n, const DimId *a, int m, const DimId *b) {
  for (int i = 0; i < n && n == m; i++)
    if (a[i] != b[i]) return false;
  return n == m;
}

// Replaces a split of a merge, or a merge of a split, of the same dims by the original value.
// Replaces a split or merge with only one part by a rename.
static NodeId simplify_regroup(Simplify *s) {
  const Attr *t = s->n->attr;
  Op inverse = s->n->op == OP_SPLIT ? OP_MERGE : OP_SPLIT;
  const Node *x = simple_arg(s, 0);
  if (t->ndims == 1 && t->nto == 1) return rename_to(s, s->x[0], 1, t->dims, t->to);
  if (x->op != inverse || !same_list(t->ndims, t->dims, x->attr->nto, x->attr->to)) return 0;
  return same_list(t->nto, t->to, x->attr->ndims, x->attr->dims) ? x->args[0] : 0;
}

// Drops a broadcast of a broadcast. A broadcast without new dims is a copy to another physical
// order of dims. It is dropped only before the pass that chooses these orders.
static NodeId simplify_broadcast(Simplify *s) {
  if (s->n->attr->ndims == 0) return s->g->stage < STAGE_ORDER ? s->x[0] : 0;
  NodeId inner = simple_stripped(s->g, s->x[0]);
  return inner == s->x[0] ? 0 : inner;
}

NodeId simplify_move(Simplify *s) {
  switch ((int)s->n->op) {
  case OP_RENAME: return simplify_rename(s);
  case OP_SPLIT:
  case OP_MERGE: return simplify_regroup(s);
  case OP_BROADCAST: return simplify_broadcast(s);
  case OP_PIN: return 0;
  }
  BUG("%s is no move", op_row((Op)s->n->op)->text);
}
