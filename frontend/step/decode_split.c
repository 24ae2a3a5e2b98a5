// Products with a kept value, without a copy of it. In a run of one position the past of a value is
//
//   where(index[s] == position, the new row, state)
//
// No product of matrices reads that, so it would be written to memory for each position. The sum of
// a product is therefore split into the part of the state and that of the new row:
//
//   sum[k](q * past)    where(index[s] == position, sum[k](q * new), sum[k](q * state))
//   sum[s](p * past)    sum[s](where(index[s] == position, 0, p) * state) + p at position * new
#include "frontend/step/decode_build_internal.h"

void decode_note_past(Decode *d, NodeId node, PastParts parts) {
  while (d->parts.n <= node) vec_push(d->a, d->parts) = (PastParts){0};
  d->parts.at[node] = parts;
}

static PastParts parts_of(const Decode *d, NodeId node) {
  return node < d->parts.n ? d->parts.at[node] : (PastParts){0};
}

// A rename, or a cast, of the past is that of both parts.
static void note_same(Decode *d, const Node *n, const Attr *attr, PastParts old, NodeId made) {
  DimId dims[MAX_RANK], to[MAX_RANK];
  PastParts new = old;
  Attr row = *attr; // of the new row, which has no dim of positions
  row.dims = dims, row.to = to, row.ndims = row.nto = 0;
  for (int i = 0; i < attr->nto && n->op == OP_RENAME; i++) {
    if (attr->dims[i] == old.over)
      new.over = attr->to[i];
    else
      dims[row.ndims++] = attr->dims[i], to[row.nto++] = attr->to[i];
  }
  new.state = graph_add(d->g, (Op)n->op, 1, &old.state, attr);
  if (n->op == OP_CAST || row.ndims) new.row = graph_add(d->g, (Op)n->op, 1, &old.row, &row);
  decode_note_past(d, made, new);
}

static NodeId contract(Graph *g, NodeId x, NodeId y, const Attr *attr, DimId without, Dtype type) {
  DimId dims[MAX_RANK];
  Attr a = *attr;
  a.dims = dims;
  a.ndims = 0;
  for (int i = 0; i < attr->ndims; i++)
    if (attr->dims[i] != without) dims[a.ndims++] = attr->dims[i];
  return a.ndims ? graph_add(g, OP_CONTRACT, 2, (NodeId[]){x, y}, &a)
                 : graph_binary(g, OP_MUL, graph_cast(g, x, type), graph_cast(g, y, type));
}

// Returns the contraction of x with a past, or 0 if it is not split.
static NodeId contracted(Decode *d, const Node *n, const Attr *attr, NodeId x, PastParts p) {
  Graph *g = d->g;
  Dtype type = (Dtype)n->type;
  NodeId is = decode_is_new(d, p.over);
  if (!dim_in(p.over, attr->ndims, attr->dims))
    return graph_where(g, is, contract(g, x, p.row, attr, 0, type),
                       contract(g, x, p.state, attr, 0, type));
  if (!dims_has(graph_node(g, x)->dims, p.over)) return 0;
  const Dims over = {.n = 1, .at = {p.over}};
  NodeId zero = graph_const(g, (Dtype)graph_node(g, x)->type, 0);
  NodeId old = contract(g, graph_where(g, is, zero, x), p.state, attr, 0, type);
  NodeId now = graph_reduce(g, OP_SUM, graph_where(g, is, x, zero), &over);
  return graph_binary(g, OP_ADD, old, contract(g, now, p.row, attr, p.over, type));
}

NodeId decode_split(Decode *d, const Node *n, const NodeId *args, const Attr *attr, NodeId made) {
  PastParts x = parts_of(d, args[0]);
  if ((n->op == OP_RENAME || n->op == OP_CAST) && x.state) note_same(d, n, attr, x, made);
  if (n->op != OP_CONTRACT || n->region) return made;
  PastParts y = parts_of(d, args[1]);
  if (!x.state == !y.state) return made;
  NodeId split = contracted(d, n, attr, args[x.state ? 1 : 0], x.state ? x : y);
  return split ? split : made;
}
