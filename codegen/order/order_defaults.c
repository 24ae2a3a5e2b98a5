// Orders that values have without a request, which go from arguments to results (order.c, 2): the
// precedence of dims, and the order of a result by class of operation.
#include "codegen/order/order_internal.h"

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
    for (int i = 0; i < (window && n->attr->nto ? 1 : n->attr->nto); i++) {
      DimId from = dim_get(c->from->dims, n->attr->dims[n->op == OP_RENAME ? i : 0])->whole;
      DimId to = dim_get(c->from->dims, n->attr->to[i])->whole;
      if (!c->rank[to]) c->rank[to] = c->rank[from];
      if (!c->rank[from]) c->rank[from] = c->rank[to];
    }
  }
}

void rank_dims(Chooser *c) {
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
  DimId wx = dim_get(c->from->dims, x)->whole, wy = dim_get(c->from->dims, y)->whole;
  if (c->rank[wx] != c->rank[wy]) return c->rank[wx] < c->rank[wy];
  return wx != wy ? wx < wy : x < y;
}

void insert_ranked(const Chooser *c, DimList *list, DimId d) {
  int at = list->n;
  while (at > 0 && before(c, d, list->at[at - 1])) at--;
  list_insert(list, at, d);
}

// -- orders, from arguments to results ----------------------------------------------------------

// Adds to `list` the dims of `other` that `list` lacks. Such a dim is inserted before the dim that
// follows it in `other` and is also in `list`. If no such dim follows, it is inserted by precedence
// (rank_dims). So the gates of a cell, joined by index(gate) == 0 and so on, get the order that
// their weights have.
static void list_join(const Chooser *c, DimList *list, const DimList *other) {
  for (int i = other->n - 1; i >= 0; i--) {
    if (dims_has(list, other->at[i])) continue;
    int at = -1;
    for (int j = i + 1; j < other->n && at < 0; j++)
      if (dims_has(list, other->at[j])) at = dims_index(list, other->at[j]);
    if (at < 0)
      insert_ranked(c, list, other->at[i]);
    else
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
  for (int i = 0; i < n->nargs; i++) list_join(c, &list, &c->at.at[n->args[i]]);
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
    for (int j = 0; j < n->attr->ndims; j++) dims_remove(list, n->attr->dims[j]);
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
  for (int i = 0; i < n->dims->n; i++) insert_ranked(c, &list, n->dims->at[i]);
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
      if (dims_has(n->dims, from->at[i]) && !dims_has(&list, from->at[i]))
        list_insert(&list, list.n, from->at[i]);
  }
  for (int i = 0; i < n->dims->n; i++)
    if (!dims_has(&list, n->dims->at[i])) list_insert(&list, 0, n->dims->at[i]);
  return list;
}

static DimList order_moved(const Node *n, DimList list) {
  const Attr *at = n->attr;
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
static DimList order_window(const Node *n, DimList list) {
  const Attr *t = n->attr;
  int at = dims_index(&list, t->dims[0]);
  dims_remove(&list, t->dims[0]);
  if (t->nto) list_insert(&list, at, t->to[0]);
  if (t->nto > 1 && !dims_has(&list, t->to[1])) list_insert(&list, at, t->to[1]);
  return list;
}

static DimList order_source(const Chooser *c, const Node *n) {
  if (op_is_decl(n->op)) return stored_order(c, n->attr->decl, n->dims);
  DimList list = {0};
  if (n->op == OP_VALUES)
    for (int i = 0; i < n->attr->ndims; i++) list_insert(&list, i, n->attr->dims[i]);
  return n->op == OP_VALUES ? list : *n->dims;
}

DimList order_derived(const Node *n, const DimList *arg) {
  DimList list = *arg;
  if (op_row((Op)n->op)->cls == WINDOW) return order_window(n, list);
  if (op_row((Op)n->op)->cls != REGION) return order_moved(n, list);
  if (n->op == OP_AT) dims_remove(&list, n->attr->dims[0]);
  if (n->op == OP_COLLECT) list_insert(&list, 0, n->attr->dims[0]);
  return list;
}

static DimList order_region(const Chooser *c, const Node *n) {
  if (n->op == OP_SCAN) return (DimList){0};
  return order_derived(n, &c->at.at[n->args[n->op == OP_FINAL || n->op == OP_COLLECT]]);
}

// The batch dims in the order of the arguments, then the dims of the matrices.
static DimList order_matrix(const Chooser *c, const Node *n) {
  DimList list = {0};
  for (int i = 0; i < n->nargs; i++)
    for (int k = 0; k < c->at.at[n->args[i]].n; k++) {
      DimId d = c->at.at[n->args[i]].at[k];
      if (dims_has(n->dims, d) && !dims_has(&list, d) && !attr_names(n->attr, d))
        list_insert(&list, list.n, d);
    }
  DimList rest = list_minus(n->dims, &list);
  for (int i = 0; i < rest.n; i++) list_insert(&list, list.n, rest.at[i]);
  return list;
}

DimList order_default(const Chooser *c, const Node *n) {
  switch (op_row(n->op)->cls) {
  case SOURCE: return order_source(c, n);
  case POINTWISE: return order_joined(c, n);
  case REDUCE: {
    DimList list = c->at.at[n->args[0]];
    for (int i = 0; i < n->attr->ndims; i++) dims_remove(&list, n->attr->dims[i]);
    return list;
  }
  case CONTRACT: return order_contract(c, n);
  case GATHER: return order_gather(c, n);
  case REGION: return order_region(c, n);
  case WINDOW: return order_derived(n, &c->at.at[n->args[0]]);
  case ORDERED: return order_derived(n, &c->at.at[n->args[0]]);
  case MATRIX: return order_matrix(c, n);
  case MOVE:
    if (n->op != OP_BROADCAST) return order_derived(n, &c->at.at[n->args[0]]);
    break;
  case COLLECTIVE: return order_derived(n, &c->at.at[n->args[0]]);
  }
  DimList rest = list_minus(n->dims, &c->at.at[n->args[0]]);
  return list_union(&rest, &c->at.at[n->args[0]]);
}
