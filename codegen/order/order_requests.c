// Requests of orders, which go from users to arguments (order.c, 1): the order in which a user
// reads a value best.
#include "codegen/order/order_internal.h"

static void request(Chooser *c, NodeId of, const DimList *list, bool forced) {
  NodeId n = first_of(c, of);
  const Node *node = graph_node(c->from, n);
  DimList own = {0};
  for (int i = 0; i < list->n; i++)
    if (dims_has(node->dims, list->at[i])) list_insert(&own, own.n, list->at[i]);
  if (own.n != node->dims->n || (c->requested[n].n && (c->forced[n] || !forced))) return;
  c->requested[n] = own;
  c->forced[n] = forced;
}

DimList blocks_in_order(const Graph *g, const Dims *dims, int rank, const DimId *whole) {
  DimList list = {0};
  for (int i = 0; i < rank; i++)
    for (int j = 0; j < dims->n; j++)
      if (dim_get(g->dims, dims->at[j])->whole == whole[i] && !dims_has(&list, dims->at[j]))
        list_insert(&list, list.n, dims->at[j]);
  return list;
}

DimList stored_order(const Chooser *c, DeclId d, const Dims *dims) {
  return blocks_in_order(c->from, dims, c->stored[d].n, c->stored[d].at);
}

static void request_outputs(Chooser *c) {
  const Graph *g = c->from;
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    const Dims *dims = graph_node(g, o->value)->dims;
    bool update = o->kind == OUT_UPDATE;
    DimList list =
        update ? stored_order(c, o->target, dims) : blocks_in_order(g, dims, o->rank, o->dims);
    if (list.n == dims->n) request(c, o->value, &list, update);
  }
}

static void request_through_move(Chooser *c, const Node *n, DimList requested, bool forced) {
  const Attr *at = n->attr;
  if (n->op == OP_MERGE) {
    if (!requested.n && n->dims->n) requested = *n->dims;
    if (list_replace(&requested, at->nto, at->to, at->ndims, at->dims))
      request(c, n->args[0], &requested, true);
  } else if (n->op == OP_SPLIT) {
    if (requested.n && list_replace(&requested, at->nto, at->to, at->ndims, at->dims))
      request(c, n->args[0], &requested, forced);
  } else if (requested.n) {
    for (int i = 0; i < requested.n; i++)
      for (int j = 0; j < at->nto && j < at->ndims; j++)
        if (requested.at[i] == at->to[j]) {
          requested.at[i] = at->dims[j];
          break;
        }
    request(c, n->args[0], &requested, forced && n->op == OP_RENAME);
  }
}

// Requests an order for each carry, a value that a loop passes from one iteration to the next. It
// is the order by precedence of dims (rank_dims), because most contractions that compute the next
// value have that order.
static void request_carries(Chooser *c) {
  for (NodeId id = graph_count(c->from); id; id--) {
    const Node *n = graph_node(c->from, id);
    if (n->op != OP_CARRY) continue;
    DimList list = {0};
    for (int i = 0; i < n->dims->n; i++) insert_ranked(c, &list, n->dims->at[i]);
    if (list.n) request(c, id, &list, true);
  }
}

NodeId carry_of(const Chooser *c, NodeId scan, int i) {
  RegionId loop = graph_node(c->from, scan)->attr->region;
  for (uint32_t k = c->carries.first[loop]; k < c->carries.first[loop + 1]; k++)
    if (graph_node(c->from, c->carries.node[k])->attr->carry == (uint32_t)i)
      return c->carries.node[k];
  return 0;
}

static void request_through_region(Chooser *c, NodeId id) {
  const Node *n = graph_node(c->from, id);
  DimList requested = c->requested[id];
  if (n->op == OP_CARRY && requested.n) request(c, n->args[0], &requested, false);
  for (int i = 0; n->op == OP_SCAN && i < n->nargs; i++) {
    NodeId carry = carry_of(c, id, i);
    if (carry && c->requested[carry].n) request(c, n->args[i], &c->requested[carry], true);
  }
  if (n->op == OP_COLLECT && requested.n) {
    dims_remove(&requested, n->attr->dims[0]);
    request(c, n->args[1], &requested, false);
  }
  if (n->op != OP_AT) return;
  NodeId all = first_of(c, n->args[0]);
  c->front[all] = n->attr->dims[0];
  Op of = (Op)graph_node(c->from, all)->op;
  bool pieces = of == OP_MERGE || of == OP_SPLIT || of == OP_AT; // no request: by precedence
  for (int i = 0; i < n->dims->n && pieces && requested.n < n->dims->n; i++)
    insert_ranked(c, &requested, n->dims->at[i]);
  if (!requested.n) return;
  list_insert(&requested, 0, n->attr->dims[0]);
  request(c, n->args[0], &requested, false);
}

// Passes the dim that should be outermost (c->front) from node `id` to the arguments of the node.
// Does so for a pointwise node, a collective or a move of dims only.
static void pass_front(Chooser *c, NodeId id) {
  const Node *n = graph_node(c->from, id);
  OpClass cls = op_row(n->op)->cls;
  if (!c->front[id] || (cls != POINTWISE && cls != COLLECTIVE && cls != MOVE)) return;
  for (int i = 0; i < n->nargs; i++) {
    NodeId arg = first_of(c, n->args[i]);
    if (!c->front[arg] && dims_has(graph_node(c->from, arg)->dims, c->front[id]))
      c->front[arg] = c->front[id];
  }
}

// Gives nodes that recompute a value the requests of the first node with this value.
static void request_again(Chooser *c) {
  for (NodeId n = 1; n <= graph_count(c->from) && c->first; n++) {
    NodeId first = first_of(c, n);
    c->requested[n] = c->requested[first];
    c->forced[n] = c->forced[first];
    c->front[n] = c->front[first];
  }
}

void request_all(Chooser *c) {
  request_carries(c);
  request_outputs(c);
  for (NodeId id = graph_count(c->from); id; id--) {
    const Node *n = graph_node(c->from, id);
    OpClass cls = op_row(n->op)->cls;
    if (first_of(c, id) != id) continue;
    if (cls == REGION) request_through_region(c, id);
    pass_front(c, id);
    if (cls == COLLECTIVE || (cls == MOVE && n->op != OP_BROADCAST))
      request_through_move(c, n, c->requested[id], c->forced[id]);
    else if (c->requested[id].n && (cls == POINTWISE || n->op == OP_BROADCAST))
      for (int i = 0; i < n->nargs; i++) request(c, n->args[i], &c->requested[id], false);
  }
  request_again(c);
}
