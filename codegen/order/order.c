// Chooses the physical order of every value's dims (docs/decisions.md, 17), and inserts copies of
// memory where a value is needed in two orders. "Old" nodes are those of the graph that comes in,
// "new" ones those of the graph that is made.
//
// 1. Requests go from users to arguments. An update requests the order of its target, a merge
//    requests adjacent dims. Moves, collectives and pointwise work pass requests on.
// 2. Orders go from arguments to results. Declared tensors keep their declared order. A value takes
//    the order of its largest operand. A contraction, which can write any order, takes the
//    requested order, else that of the common precedence of dims (rank_dims).
// 3. Renames, splits and merges move nothing if the merged dims are adjacent. If they are not, a
//    copy (BROADCAST without dims) is inserted before the use.
//
//   %5 = contract(q, k) : f32[b, t, heads, k]      requested by the merge: b, t, heads, k
//   %6 = merge(%5) {dims=[heads, k], to=[d]}       the same memory
//
// The dim of a loop is the outermost dim of what the loop reads or collects, so that one iteration
// accesses one piece of memory. A carry, its initial value and its next value have the same order.
#include "codegen/values/values_internal.h"

#include <string.h>

// A copy in another physical order of the value of node `of`. The copy and `of` are nodes of the
// new graph.
typedef struct OrderCopy {
  NodeId of, copy;
} OrderCopy;

typedef struct Chooser {
  Arena *a;
  const Graph *from;
  Graph *to;
  DimList *requested; // by old node: the order that a user requested; no dims: no request
  bool *forced;       // by old node: if the request is not met, the user needs a copy
  DimId *front;       // by old node: the dim that should be outermost; 0: no preference
  NodeId *map;
  uint32_t *rank;  // by dim that is no block: its precedence, 1 is slowest
  VEC(DimList) at; // by new node: the order of its dims; entry 0 is unused
  VEC(bool) loose; // by new node: made of random draws only, so that its order may still change
  VEC(OrderCopy) copy;
} Chooser;

// -- requests, from users to arguments ------------------------------------------------------------

static void request(Chooser *c, NodeId n, const DimList *list, bool forced) {
  const Node *node = graph_node(c->from, n);
  DimList own = {0};
  for (int i = 0; i < list->n; i++)
    if (dims_has(&node->dims, list->at[i])) list_insert(&own, own.n, list->at[i]);
  if (own.n != node->dims.n || (c->requested[n].n && (c->forced[n] || !forced))) return;
  c->requested[n] = own;
  c->forced[n] = forced;
}

// Returns the dims of a node, sorted. Each of `dims` is a processor's block of one of the dims
// whole[0..rank) of the full tensor. They are sorted in the order of `whole`.
static DimList blocks_in_order(const Graph *g, const Dims *dims, int rank, const DimId *whole) {
  DimList list = {0};
  for (int i = 0; i < rank; i++)
    for (int j = 0; j < dims->n; j++)
      if (dim_get(g->dims, dims->at[j])->whole == whole[i] && !dims_has(&list, dims->at[j]))
        list_insert(&list, list.n, dims->at[j]);
  return list;
}

static void request_outputs(Chooser *c) {
  const Graph *g = c->from;
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    const Dims *dims = &graph_node(g, o->value)->dims;
    bool update = o->kind == OUT_UPDATE;
    const Decl *d = update ? &g->decl.at[o->target - 1] : NULL;
    DimList list = update ? blocks_in_order(g, dims, d->rank, d->dims)
                          : blocks_in_order(g, dims, o->rank, o->dims);
    if (list.n == dims->n) request(c, o->value, &list, update);
  }
}

static void request_through_move(Chooser *c, const Node *n, DimList requested) {
  const Attr *at = &n->attr;
  if (n->op == OP_MERGE) {
    if (!requested.n && n->dims.n) requested = n->dims;
    if (list_replace(&requested, at->nto, at->to, at->ndims, at->dims))
      request(c, n->args[0], &requested, true);
  } else if (n->op == OP_SPLIT) {
    if (requested.n && list_replace(&requested, at->nto, at->to, at->ndims, at->dims))
      request(c, n->args[0], &requested, false);
  } else if (requested.n) {
    for (int i = 0; i < requested.n; i++)
      for (int j = 0; j < at->nto && j < at->ndims; j++)
        if (requested.at[i] == at->to[j]) {
          requested.at[i] = at->dims[j];
          break;
        }
    request(c, n->args[0], &requested, false);
  }
}

static void insert_ranked(const Chooser *c, DimList *list, DimId d);

// Requests an order for each carry, a value that a loop passes from one iteration to the next. It
// is the order by precedence of dims (rank_dims), because most contractions that compute the next
// value have that order.
static void request_carries(Chooser *c) {
  for (NodeId id = graph_count(c->from); id; id--) {
    const Node *n = graph_node(c->from, id);
    if (n->op != OP_CARRY) continue;
    DimList list = {0};
    for (int i = 0; i < n->dims.n; i++) insert_ranked(c, &list, n->dims.at[i]);
    if (list.n) request(c, id, &list, true);
  }
}

static NodeId carry_of(const Graph *g, NodeId scan, int i) {
  for (NodeId id = 1; id < scan; id++) {
    const Node *n = graph_node(g, id);
    if (n->op == OP_CARRY && n->region == graph_node(g, scan)->attr.region &&
        n->attr.carry == (uint32_t)i)
      return id;
  }
  return 0;
}

static void request_through_region(Chooser *c, NodeId id) {
  const Node *n = graph_node(c->from, id);
  DimList requested = c->requested[id];
  if (n->op == OP_CARRY && requested.n) request(c, n->args[0], &requested, false);
  for (int i = 0; n->op == OP_SCAN && i < n->nargs; i++) {
    NodeId carry = carry_of(c->from, id, i);
    if (carry && c->requested[carry].n) request(c, n->args[i], &c->requested[carry], true);
  }
  if (n->op == OP_COLLECT && requested.n) {
    dims_remove(&requested, n->attr.dims[0]);
    request(c, n->args[1], &requested, false);
  }
  if (n->op != OP_AT) return;
  c->front[n->args[0]] = n->attr.dims[0];
  if (!requested.n) return;
  list_insert(&requested, 0, n->attr.dims[0]);
  request(c, n->args[0], &requested, false);
}

// Passes the dim that should be outermost (c->front) from node `id` to the arguments of the node.
// Does so for a pointwise node, a collective or a move of dims only.
static void pass_front(Chooser *c, NodeId id) {
  const Node *n = graph_node(c->from, id);
  OpClass cls = op_row(n->op)->cls;
  if (!c->front[id] || (cls != POINTWISE && cls != COLLECTIVE && cls != MOVE)) return;
  for (int i = 0; i < n->nargs; i++)
    if (!c->front[n->args[i]] && dims_has(&graph_node(c->from, n->args[i])->dims, c->front[id]))
      c->front[n->args[i]] = c->front[id];
}

static void request_all(Chooser *c) {
  request_carries(c);
  request_outputs(c);
  for (NodeId id = graph_count(c->from); id; id--) {
    const Node *n = graph_node(c->from, id);
    OpClass cls = op_row(n->op)->cls;
    if (cls == REGION) request_through_region(c, id);
    pass_front(c, id);
    if (cls == COLLECTIVE || (cls == MOVE && n->op != OP_BROADCAST))
      request_through_move(c, n, c->requested[id]);
    else if (c->requested[id].n && (cls == POINTWISE || n->op == OP_BROADCAST))
      for (int i = 0; i < n->nargs; i++) request(c, n->args[i], &c->requested[id], false);
  }
}

// -- precedence of dims ------------------------------------------------------------------------

// Gives dim d the next rank if it has none. rank_dims ranks dims in the order in which declared
// tensors mention them, inputs first: [b, t, d, heads, k]. A dim that a rename, split, merge or
// window makes from another dim gets the rank of that other dim. So both operands of an attention
// get the same order.
static void rank_dim(Chooser *c, DimId d, uint32_t *next) {
  DimId whole = dim_get(c->from->dims, d)->whole;
  if (!c->rank[whole]) c->rank[whole] = ++*next;
}

static void rank_moves(Chooser *c) {
  for (NodeId id = 1; id <= graph_count(c->from); id++) {
    const Node *n = graph_node(c->from, id);
    bool window = op_row((Op)n->op)->cls == WINDOW;
    if (!op_is_alias((Op)n->op) && !window) continue;
    for (int i = 0; i < (window && n->attr.nto ? 1 : n->attr.nto); i++) {
      DimId from = dim_get(c->from->dims, n->attr.dims[n->op == OP_RENAME ? i : 0])->whole;
      DimId to = dim_get(c->from->dims, n->attr.to[i])->whole;
      if (!c->rank[to]) c->rank[to] = c->rank[from];
      if (!c->rank[from]) c->rank[from] = c->rank[to];
    }
  }
}

static void rank_dims(Chooser *c) {
  const Graph *g = c->from;
  uint32_t next = 0;
  c->rank = arena_array(c->a, uint32_t, dim_count(g->dims) + 1);
  for (int inputs = 1; inputs >= 0; inputs--)
    for (uint32_t i = 0; i < g->decl.n; i++)
      for (int k = 0; k < g->decl.at[i].rank && (g->decl.at[i].kind == DECL_INPUT) == inputs; k++)
        rank_dim(c, g->decl.at[i].dims[k], &next);
  rank_moves(c);
  for (DimId d = 1; d <= dim_count(g->dims); d++) rank_dim(c, d, &next);
}

static bool before(const Chooser *c, DimId x, DimId y) {
  DimId wx = dim_get(c->to->dims, x)->whole, wy = dim_get(c->to->dims, y)->whole;
  if (c->rank[wx] != c->rank[wy]) return c->rank[wx] < c->rank[wy];
  return wx != wy ? wx < wy : x < y;
}

// Inserts d into `list`, whose dims are sorted by precedence (rank_dims), and keeps the list
// sorted.
static void insert_ranked(const Chooser *c, DimList *list, DimId d) {
  int at = list->n;
  while (at > 0 && before(c, d, list->at[at - 1])) at--;
  list_insert(list, at, d);
}

// -- orders, from arguments to results ----------------------------------------------------------

// Adds to `list` the dims of `other` that `list` lacks. Such a dim is inserted before the dim that
// follows it in `other` and is also in `list`. It is appended if no such dim follows.
static void list_join(DimList *list, const DimList *other) {
  for (int i = other->n - 1; i >= 0; i--) {
    if (dims_has(list, other->at[i])) continue;
    int at = list->n;
    for (int j = i + 1; j < other->n && at == list->n; j++)
      if (dims_has(list, other->at[j])) at = dims_index(list, other->at[j]);
    list_insert(list, at, other->at[i]);
  }
}

static DimList order_joined(const Chooser *c, const Node *n) {
  int64_t best = -1;
  int first = 0;
  for (int i = 0; i < n->nargs; i++) {
    int64_t size = c->loose.at[n->args[i]] ? 0 : list_elements(c->to->dims, &c->at.at[n->args[i]]);
    if (size > best) {
      best = size;
      first = i;
    }
  }
  DimList list = c->at.at[n->args[first]];
  for (int i = 0; i < n->nargs; i++) list_join(&list, &c->at.at[n->args[i]]);
  return list;
}

// Sets *list to the order of contraction n if one argument has all dims of the other argument.
// *list is then the order of the larger argument, without the summed dims. Returns false if neither
// argument has all dims of the other.
static bool order_dot(const Chooser *c, const Node *n, DimList *list) {
  for (int i = 0; i < 2; i++) {
    const DimList *all = &c->at.at[n->args[i]];
    if (!list_has_all(all, &c->at.at[n->args[1 - i]])) continue;
    *list = *all;
    for (int j = 0; j < n->attr.ndims; j++) dims_remove(list, n->attr.dims[j]);
    return true;
  }
  return false;
}

// Returns the order of the result of contraction n: dims by precedence, except the last dim. A GEMM
// writes rows along the last dim, which must be a dim of one argument only. If several dims
// qualify, one along which its argument is contiguous is taken.
static DimList order_contract(const Chooser *c, const Node *n) {
  const DimList *a = &c->at.at[n->args[0]], *b = &c->at.at[n->args[1]];
  DimList list = {0};
  if (order_dot(c, n, &list)) return list;
  for (int i = 0; i < n->dims.n; i++) insert_ranked(c, &list, n->dims.at[i]);
  DimId row = 0;
  bool contiguous = false;
  for (int i = list.n - 1; i >= 0 && !contiguous; i--) {
    DimId d = list.at[i];
    if (dims_has(a, d) && dims_has(b, d)) continue;
    contiguous = (a->n && a->at[a->n - 1] == d) || (b->n && b->at[b->n - 1] == d);
    if (!row || contiguous) row = d;
  }
  if (!row) return list;
  dims_remove(&list, row);
  list_insert(&list, list.n, row);
  return list;
}

static DimList order_gather(const Chooser *c, const Node *n) {
  const DimList *x = &c->at.at[n->args[0]], *ids = &c->at.at[n->args[1]];
  DimList list = {0};
  for (int k = 0; k < 2; k++) {
    const DimList *from = (n->op == OP_TAKE) == (k == 0) ? ids : x;
    for (int i = 0; i < from->n; i++)
      if (dims_has(&n->dims, from->at[i]) && !dims_has(&list, from->at[i]))
        list_insert(&list, list.n, from->at[i]);
  }
  for (int i = 0; i < n->dims.n; i++)
    if (!dims_has(&list, n->dims.at[i])) list_insert(&list, 0, n->dims.at[i]);
  return list;
}

static DimList order_moved(const Chooser *c, const Node *n) {
  DimList list = c->at.at[n->args[0]];
  const Attr *at = &n->attr;
  if (n->op == OP_SPLIT || n->op == OP_MERGE) {
    if (!list_replace(&list, at->ndims, at->dims, at->nto, at->to))
      BUG("dims of a merge are apart");
    return list;
  }
  DimList from = list;
  for (int j = 0; j < at->nto && j < at->ndims; j++) {
    int i = dims_index(&from, at->dims[j]);
    if (i >= 0) list.at[i] = at->to[j];
  }
  return list;
}

// Returns the order of window n. It is the order of its argument, where the dim of offsets and the
// dim of positions replace the dim that is read. The dim of positions is to[0], the dim of offsets
// to[1]. The offsets come just before the positions, so that values along the positions stay
// contiguous.
static DimList order_window(const Chooser *c, const Node *n) {
  DimList list = c->at.at[n->args[0]];
  const Attr *t = &n->attr;
  int at = dims_index(&list, t->dims[0]);
  dims_remove(&list, t->dims[0]);
  if (t->nto) list_insert(&list, at, t->to[0]);
  if (t->nto > 1 && !dims_has(&list, t->to[1])) list_insert(&list, at, t->to[1]);
  return list;
}

static DimList order_source(const Chooser *c, const Node *n) {
  if (op_is_decl(n->op)) {
    const Decl *d = &c->to->decl.at[n->attr.decl - 1];
    return blocks_in_order(c->to, &n->dims, d->rank, d->dims);
  }
  DimList list = {0};
  if (n->op == OP_VALUES)
    for (int i = 0; i < n->attr.ndims; i++) list_insert(&list, i, n->attr.dims[i]);
  return n->op == OP_VALUES ? list : n->dims;
}

static DimList order_region(const Chooser *c, const Node *n) {
  if (n->op == OP_SCAN) return (DimList){0};
  DimList list = c->at.at[n->args[n->op == OP_FINAL || n->op == OP_COLLECT]];
  if (n->op == OP_AT) dims_remove(&list, n->attr.dims[0]);
  if (n->op == OP_COLLECT) list_insert(&list, 0, n->attr.dims[0]);
  return list;
}

static DimList order_default(const Chooser *c, const Node *n) {
  switch (op_row(n->op)->cls) {
  case SOURCE: return order_source(c, n);
  case POINTWISE: return order_joined(c, n);
  case REDUCE: {
    DimList list = c->at.at[n->args[0]];
    for (int i = 0; i < n->attr.ndims; i++) dims_remove(&list, n->attr.dims[i]);
    return list;
  }
  case CONTRACT: return order_contract(c, n);
  case GATHER: return order_gather(c, n);
  case REGION: return order_region(c, n);
  case WINDOW: return order_window(c, n);
  case ORDERED: return order_moved(c, n);
  case MOVE:
    if (n->op != OP_BROADCAST) return order_moved(c, n);
    break;
  case COLLECTIVE: return order_moved(c, n);
  }
  DimList rest = list_minus(&n->dims, &c->at.at[n->args[0]]);
  return list_union(&rest, &c->at.at[n->args[0]]);
}

// Returns whether the value of node `old` of the old graph takes the requested order. A value that
// a kernel or a GEMM writes can have any order. An alias or the result of a collective has the
// order of its argument. Classes of ops marked FORCED follow a request only if the user of the
// value needs a copy otherwise.
static bool follows_request(const Chooser *c, NodeId old) {
  static const enum {
    NEVER,
    FORCED,
    ALWAYS
  } by_class[] = {
      [CONTRACT] = ALWAYS, [POINTWISE] = FORCED, [REDUCE] = FORCED,    [GATHER] = FORCED,
      [WINDOW] = FORCED,   [ORDERED] = FORCED,   [COLLECTIVE] = NEVER, [REGION] = NEVER,
      [MOVE] = NEVER,      [SOURCE] = NEVER,
  };
  Op op = (Op)graph_node(c->from, old)->op;
  if (!c->requested[old].n) return false;
  if (op == OP_SCATTER_ADD || op == OP_BROADCAST || op == OP_INDEX || op_is_draw(op)) return true;
  return by_class[op_row(op)->cls] == ALWAYS ||
         (by_class[op_row(op)->cls] == FORCED && c->forced[old]);
}

static void set_order(Chooser *c, NodeId n, DimList list) {
  if (n < c->at.n) return;
  while (c->at.n <= n) {
    vec_push(c->a, c->at) = (DimList){0};
    vec_push(c->a, c->loose) = false;
  }
  c->at.at[n] = list;
}

// -- random draws ------------------------------------------------------------------------------
//
// A random draw can have any order, and so can values made of draws only. They take the order of
// the value with which they are combined.

static bool made_of_draws(const Chooser *c, const Node *n) {
  bool any = op_is_draw((Op)n->op);
  for (int i = 0; i < n->nargs && op_row((Op)n->op)->cls == POINTWISE; i++) {
    if (!c->loose.at[n->args[i]] && graph_node(c->to, n->args[i])->dims.n) return false;
    any |= c->loose.at[n->args[i]];
  }
  return any;
}

// Fixes the orders of node n of the new graph and of the draws from which n is made. Each of them
// gets the order `list` if it has the dims of `list`. With list NULL each keeps the order that it
// has.
static void settle_loose(Chooser *c, NodeId n, const DimList *list) {
  VEC(NodeId) stack = {0};
  vec_push(c->a, stack) = n;
  while (stack.n) {
    NodeId at = stack.at[--stack.n];
    const Node *x = graph_node(c->to, at);
    if (!c->loose.at[at]) continue;
    c->loose.at[at] = false;
    if (list && list->n == x->dims.n && list_has_all(list, &x->dims)) c->at.at[at] = *list;
    for (int i = 0; i < x->nargs; i++) vec_push(c->a, stack) = x->args[i];
  }
}

static void settle_arguments(Chooser *c, NodeId n) {
  const Node *x = graph_node(c->to, n);
  c->loose.at[n] = made_of_draws(c, x);
  for (int i = 0; i < x->nargs && !c->loose.at[n]; i++)
    settle_loose(c, x->args[i], op_row((Op)x->op)->cls == POINTWISE ? &c->at.at[n] : NULL);
}

// -- copies in another order -------------------------------------------------------------------

static NodeId copy_in_order(Chooser *c, NodeId n, DimList list, const char *why) {
  for (uint32_t i = 0; i < c->copy.n; i++)
    if (c->copy.at[i].of == n && dims_equal(&c->at.at[c->copy.at[i].copy], &list))
      return c->copy.at[i].copy;
  char refusal[200];
  c->to->origin = graph_node(c->to, n)->origin;
  c->to->origin.why = why;
  NodeId copy =
      graph_try(c->to, OP_BROADCAST, 1, &n, &(Attr){0}, (uint16_t)(c->copy.n + 1), refusal);
  if (!copy) BUG("copy refused: %s", refusal);
  set_order(c, copy, list);
  vec_push(c->a, c->copy) = (OrderCopy){n, copy};
  return copy;
}

// Returns a node whose value is in memory: n itself, or a copy of n if n is a number. Numbers
// (constants, indices) are not in memory, because kernels compute them where they use them.
static NodeId in_memory(Chooser *c, NodeId n, const char *why) {
  return op_is_number((Op)graph_node(c->to, n)->op) ? copy_in_order(c, n, c->at.at[n], why) : n;
}

static bool inner_uneven(const Graph *g, int n, const DimId *dims) {
  for (int i = 1; i < n; i++)
    if (dim_uneven(g->dims, g->mesh, dims[i])) return true;
  return false;
}

static NodeId merge_argument(Chooser *c, const Node *n, NodeId arg) {
  const Attr *at = &n->attr;
  if (inner_uneven(c->from, at->ndims, at->dims))
    BUG("merge of a dim that is split unevenly inside");
  DimList list = c->at.at[arg], trial = list;
  if (list_replace(&trial, at->ndims, at->dims, at->nto, at->to)) return arg;
  int last = dims_index(&list, at->dims[at->ndims - 1]);
  DimId before = last + 1 < list.n ? list.at[last + 1] : 0;
  for (int i = 0; i < at->ndims; i++) dims_remove(&list, at->dims[i]);
  int place = before && dims_has(&list, before) ? dims_index(&list, before) : list.n;
  for (int i = 0; i < at->ndims; i++) list_insert(&list, place + i, at->dims[i]);
  return copy_in_order(c, arg, list, "order: merged dims must be adjacent");
}

// Returns `arg`, an argument of contraction n, or a copy of `arg` whose last dim is a dim of the
// result. `other` is the other argument. The copy is made for the gradient of the image of a
// convolution, which sums over the last dim of the weights `arg`. It avoids sums across vector
// lanes, and is made only when it is small beside the work.
static NodeId kernel_argument(Chooser *c, const Node *n, NodeId arg, NodeId other) {
  enum { WORK_AN_ELEMENT = 256, SHORTEST = 8 };
  const Dims *image = &graph_node(c->to, other)->dims;
  DimList list = c->at.at[arg];
  bool windows = op_row((Op)graph_node(c->to, other)->op)->cls == WINDOW;
  if (!windows || !list.n || dims_has(&n->dims, list.at[list.n - 1])) return arg;
  if (dims_has(&n->dims, c->at.at[other].at[image->n - 1])) return arg;
  for (int i = list.n - 1; i >= 0; i--) {
    DimId d = list.at[i];
    if (!dims_has(&n->dims, d) || dims_has(image, d) || dim_get(c->to->dims, d)->size < SHORTEST)
      continue;
    if (list_elements(c->to->dims, image) / dim_get(c->to->dims, list.at[list.n - 1])->size <
        WORK_AN_ELEMENT)
      return arg;
    dims_remove(&list, d);
    list_insert(&list, list.n, d);
    return copy_in_order(c, arg, list, "order: the kernel of a convolution, along the result");
  }
  return arg;
}

// Enters in c->map copies of the arguments of contraction n, where kernel_argument makes copies.
// The caller gets the earlier entry of argument i in was[i], to restore it.
static void contract_copies(Chooser *c, const Node *n, NodeId was[2]) {
  for (int i = 0; i < 2; i++) was[i] = c->map[n->args[i]];
  for (int i = 0; i < 2; i++) c->map[n->args[i]] = kernel_argument(c, n, was[i], was[1 - i]);
}

static void argument_copies(Chooser *c, const Node *n, NodeId *arg) {
  OpClass cls = op_row(n->op)->cls;
  if (op_is_alias(n->op) || (cls == COLLECTIVE && n->op != OP_TO_PARTIAL) || n->op == OP_TAKE ||
      cls == ORDERED)
    arg[0] = in_memory(c, arg[0], "order: a number that is needed in memory");
  if (n->op == OP_MERGE) arg[0] = merge_argument(c, n, arg[0]);
}

// -- arguments of loops ------------------------------------------------------------------------

// Returns the node that is to be the argument of the copy of node n, whose number in the old graph
// is `old`. It is `arg` or, for an AT or CARRY, a copy of `arg` if the order of `arg` does not fit
// the loop.
static NodeId region_argument(Chooser *c, const Node *n, NodeId old, NodeId arg) {
  if (n->op != OP_AT && n->op != OP_CARRY) return arg;
  arg = in_memory(c, arg, "order: a number that is needed in memory");
  DimList list = c->at.at[arg];
  if (n->op == OP_AT) {
    dims_remove(&list, n->attr.dims[0]);
    list_insert(&list, 0, n->attr.dims[0]);
  } else if (c->requested[old].n) {
    list = c->requested[old];
  }
  const char *why =
      n->op == OP_AT ? "order: a step of the loop is one piece" : "order: as the carry";
  return dims_equal(&list, &c->at.at[arg]) ? arg : copy_in_order(c, arg, list, why);
}

// Returns the node with the next value of `carry`: `arg` or a copy of it. A carry passes a value
// from one iteration of a loop to the next. A copy is made if `arg` has another order than the
// carry. It is also made if `arg` is the memory of another carry of the loop: that memory may be
// overwritten before this carry is set.
static NodeId next_argument(Chooser *c, NodeId carry, NodeId arg) {
  arg = in_memory(c, arg, "order: a number that is needed in memory");
  if (!carry) return arg;
  const DimList *list = &c->at.at[carry];
  if (!dims_equal(list, &c->at.at[arg])) return copy_in_order(c, arg, *list, "order: as the carry");
  NodeId root = memory_root(c->to, arg);
  bool other = root != carry && graph_node(c->to, root)->op == OP_CARRY &&
               graph_node(c->to, root)->region == graph_node(c->to, carry)->region;
  return other ? copy_in_order(c, arg, *list, "order: a carry as it was before the step's end")
               : arg;
}

static void copy_scan(Chooser *c, NodeId old) {
  const Node *n = graph_node(c->from, old);
  NodeId args[MAX_ARGS];
  for (int i = 0; i < n->nargs; i++) {
    NodeId carry = carry_of(c->from, old, i);
    args[i] = next_argument(c, carry ? c->map[carry] : 0, c->map[n->args[i]]);
  }
  c->to->origin = n->origin;
  c->map[old] = graph_add(c->to, OP_SCAN, n->nargs, args, &n->attr);
  set_order(c, c->map[old], (DimList){0});
}

// Makes a broadcast instead of node `old` if it is a COLLECT of a value that does not depend on the
// iteration. A COLLECT gathers the values of all iterations. Returns false in all other cases.
static bool spread_invariant(Chooser *c, NodeId old) {
  const Node *n = graph_node(c->from, old);
  if (n->op != OP_COLLECT) return false;
  NodeId arg = c->map[n->args[1]], scan = c->map[n->args[0]];
  if (graph_node(c->to, arg)->region == graph_node(c->to, scan)->attr.region) return false;
  c->to->origin = n->origin;
  c->map[old] = graph_add(c->to, OP_BROADCAST, 1, &arg, &(Attr){.ndims = 1, .dims = n->attr.dims});
  DimList list = c->at.at[arg];
  list_insert(&list, 0, n->attr.dims[0]);
  set_order(c, c->map[old], list);
  return true;
}

// Moves the dim that should be outermost (c->front) to the front of *list, the order of node `old`.
// Does nothing if the value must have the order of its argument or a requested order.
static void to_front(const Chooser *c, NodeId old, DimList *list) {
  const Node *n = graph_node(c->from, old);
  OpClass cls = op_row(n->op)->cls;
  bool bound =
      cls == COLLECTIVE || cls == REGION || cls == SOURCE || op_is_alias(n->op) || c->forced[old];
  if (!c->front[old] || bound || !dims_has(list, c->front[old])) return;
  dims_remove(list, c->front[old]);
  list_insert(list, 0, c->front[old]);
}

// Returns whether op only informs earlier passes. The graph with chosen orders has no nodes with
// such an op.
static bool op_is_mark(Op op) { return op == OP_CHECKPOINT || op == OP_PIN; }

static void copy_node(Chooser *c, NodeId old) {
  const Node *n = graph_node(c->from, old);
  if (n->op == OP_SCAN) {
    copy_scan(c, old);
    return;
  }
  if (spread_invariant(c, old)) return;
  NodeId first = n->nargs ? c->map[n->args[0]] : 0;
  if (op_is_mark((Op)n->op)) {
    c->map[old] = first;
    return;
  }
  if (n->nargs) {
    NodeId arg = first;
    argument_copies(c, n, &arg);
    arg = region_argument(c, n, old, arg);
    c->map[n->args[0]] = arg;
  }
  NodeId was[2] = {0};
  if (n->op == OP_CONTRACT) contract_copies(c, n, was);
  NodeId id = graph_copy(c->to, c->from, old, c->map);
  if (n->nargs) c->map[n->args[0]] = first;
  if (n->op == OP_CONTRACT) c->map[n->args[1]] = was[1];
  c->map[old] = id;
  if (op_is_decl(n->op)) c->to->decl.at[n->attr.decl - 1].node = id;
  DimList list =
      follows_request(c, old) ? c->requested[old] : order_default(c, graph_node(c->to, id));
  to_front(c, old, &list);
  if (id < c->at.n) return;
  set_order(c, id, list);
  settle_arguments(c, id);
}

// -- outputs and updates -----------------------------------------------------------------------

static bool persistent_root(const Graph *g, NodeId n) {
  Op op = graph_node(g, memory_root(g, n))->op;
  return op == OP_PARAM || op == OP_STATE || op == OP_VALUES;
}

// Returns the value that the update of tensor d writes: n or a copy of n. A copy is made if n has
// another order than the tensor, is not computed, or has the memory of an earlier output. The
// function sets taken[n], which tells that an output has the memory of node n.
static NodeId update_value(Chooser *c, NodeId n, const Decl *d, bool *taken) {
  const Graph *g = c->to;
  DimList list = blocks_in_order(g, &graph_node(g, n)->dims, d->rank, d->dims);
  NodeId root = memory_root(g, n);
  if (!dims_equal(&list, &c->at.at[n]))
    return copy_in_order(c, n, list, "order: as the tensor that it updates");
  if (op_row(graph_node(g, root)->op)->cls == SOURCE || taken[root])
    return copy_in_order(c, n, list, "order: a new value of its own");
  taken[root] = true;
  return n;
}

static void copy_outputs(Chooser *c) {
  uint32_t nodes = graph_count(c->to) + c->from->output.n + 2;
  bool *taken = arena_array(c->a, bool, nodes);
  for (uint32_t i = 0; i < c->from->output.n; i++) {
    Output o = c->from->output.at[i];
    o.value = c->map[o.value];
    if (o.kind == OUT_VALUE) {
      o.value = in_memory(c, o.value, "order: an output that is a number");
      if (persistent_root(c->to, o.value))
        o.value = copy_in_order(c, o.value, c->at.at[o.value],
                                "order: an output keeps the value of this step");
      taken[memory_root(c->to, o.value)] = true;
    }
    vec_push(c->to->arena, c->to->output) = o;
  }
  for (uint32_t i = 0; i < c->to->output.n; i++) {
    Output *o = &c->to->output.at[i];
    if (o->kind == OUT_UPDATE)
      o->value = update_value(c, o->value, &c->to->decl.at[o->target - 1], taken);
  }
}

Order *order_choose(Arena *a, const Graph *g) {
  bug_context("order", 0);
  uint32_t n = graph_count(g) + 1;
  Chooser c = {.a = a, .from = g, .to = graph_like(a, g, STAGE_ORDER)};
  c.requested = arena_array(a, DimList, n);
  c.forced = arena_array(a, bool, n);
  c.front = arena_array(a, DimId, n);
  c.map = arena_array(a, NodeId, n);
  vec_push(a, c.at) = (DimList){0};
  vec_push(a, c.loose) = false;
  rank_dims(&c);
  request_all(&c);
  for (NodeId id = 1; id < n; id++) {
    bug_context("order", id);
    copy_node(&c, id);
  }
  copy_outputs(&c);
  Order *order = arena_new_of(a, Order);
  order->graph = c.to;
  order->at = c.at.at;
  return order;
}

const char *order_note(const void *order, NodeId n) {
  const Order *o = order;
  static _Thread_local char text[512];
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; i < o->at[n].n; i++) {
    int k = snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "",
                     dim_get(o->graph->dims, o->at[n].at[i])->name);
    if (k < 0 || (at += (size_t)k) >= sizeof text) break;
  }
  return o->at[n].n > 1 ? text : NULL;
}
