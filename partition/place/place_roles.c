// The table of roles: what becomes of a split of an argument's dim over axis a, by class of
// operation. "stays": the dim of the result is split too. "full": the node needs all of the dim.
// "partial": the result is a partial sum over a.
//
//   class      dim of the argument               its split over axis a
//   pointwise  any                               stays; arguments that are not split are sliced
//   reduce     reduced | other                   partial | stays
//   contract   summed | other                    partial | stays
//   move       renamed or kept                   stays
//              slow dim of a split or a merge    stays as far as blocks of both sides coincide
//              fast dims of a merge              full
//   gather     looked up | other                 partial | stays
//   window     read along                        becomes a split of the new dim, with a halo
//              one place of it, or computed ones partial: the owner has the elements, others 0
//              other                             stays
//   ordered    sorted                            full
//              of a top_k                        each processor finds candidates, which are merged
//              of a running operation, other     stays
//   matrix     rows and columns                  full
//              other                             stays
//   region     the dim that the loop runs over   full
//              other                             stays
#include "partition/sharding/sharding_internal.h"

static int listed(const DimId *list, int n, DimId d) {
  for (int i = 0; i < n; i++)
    if (list[i] == d) return i;
  return -1;
}

static DimRole keep(const Node *n, DimId d) {
  return (DimRole){.kind = ROLE_KEEP, .at = (int8_t)dims_index(n->dims, d)};
}

static DimRole inner_or_keep(const Node *n, DimId d) {
  int s = listed(n->attr->dims, n->attr->ndims, d);
  return s < 0 ? keep(n, d) : (DimRole){.kind = ROLE_INNER, .at = (int8_t)s};
}

static DimRole move_role(const Node *n, DimId d) {
  int s = listed(n->attr->dims, n->attr->ndims, d);
  if (s < 0 || n->op == OP_BROADCAST || n->op == OP_PIN) return keep(n, d);
  if (n->op == OP_RENAME) return keep(n, n->attr->to[s]);
  if (s > 0) return (DimRole){.kind = ROLE_FULL};
  return keep(n, n->attr->to[0]);
}

// Returns what becomes of a split of dim d of argument i of lookup n. In a split table the owner
// finds the row and other processors take zeros; the sum over the processors is the row. Types of
// one byte are not summed, so a processor needs their full table.
static DimRole gather_role(const Graph *g, const Node *n, int i, DimId d) {
  DimRole r = n->op == OP_TAKE && i > 0 ? keep(n, d) : inner_or_keep(n, d);
  Dtype type = (Dtype)graph_node(g, n->args[0])->type;
  if (r.kind == ROLE_INNER && dtype_bytes(type) == 1) r.kind = ROLE_FULL;
  return r;
}

// Returns whether window n can be computed as partial sums. The owner of an element takes the
// element, other processors take the fill value, which must be zero.
static bool window_sums(const Node *n) {
  return (!n->attr->nto || n->op == OP_WINDOW_AT) && n->attr->num[0] == 0 &&
         dtype_bytes((Dtype)n->type) > 1;
}

static DimRole window_role(const Node *n, DimId d) {
  if (d != n->attr->dims[0]) return keep(n, d);
  if (window_sums(n)) return (DimRole){.kind = ROLE_INNER};
  if (!n->attr->nto || n->op == OP_WINDOW_AT) return (DimRole){.kind = ROLE_FULL};
  DimRole r = keep(n, n->attr->to[0]);
  r.halo = true;
  return r;
}

static DimRole ordered_role(const Graph *g, const Node *n, DimId d) {
  if (d != n->attr->dims[0] || op_row((Op)n->op)->monoid) return keep(n, d);
  bool keys = dtype_bytes((Dtype)graph_node(g, n->args[0])->type) <=
              4; // a key of 8 bytes: 4 for the value, 4 for its index
  return (DimRole){.kind = n->op == OP_TOP_K && keys ? ROLE_INNER : ROLE_FULL};
}

static DimRole matrix_role(const Node *n, DimId d) {
  return attr_names(n->attr, d) ? (DimRole){.kind = ROLE_FULL} : keep(n, d);
}

// Returns what becomes of a split of dim d in node n, an operation of a loop. Values that enter or
// leave the loop keep their dims, but each step needs all of the dim that the loop runs over.
static DimRole region_role(const Node *n, DimId d) {
  if (n->op == OP_SCAN || (n->op == OP_AT && d == n->attr->dims[0]))
    return (DimRole){.kind = ROLE_FULL};
  return keep(n, d);
}

DimRole dim_role_of(const Graph *g, NodeId id, int i, int j) {
  const Node *n = graph_node(g, id);
  DimId d = graph_node(g, n->args[i])->dims->at[j];
  switch (op_row((Op)n->op)->cls) {
  case SOURCE: break;
  case POINTWISE: return keep(n, d);
  case REDUCE:
  case CONTRACT: return inner_or_keep(n, d);
  case MOVE: return move_role(n, d);
  case GATHER: return gather_role(g, n, i, d);
  case WINDOW: return window_role(n, d);
  case ORDERED: return ordered_role(g, n, d);
  case MATRIX: return matrix_role(n, d);
  case REGION: return region_role(n, d);
  case COLLECTIVE: break;
  }
  BUG("%s has no arguments to place", op_row((Op)n->op)->text);
}

int node_inner(const Node *n) {
  OpClass cls = op_row((Op)n->op)->cls;
  bool inner = cls == REDUCE || cls == CONTRACT || cls == GATHER || n->op == OP_TOP_K;
  return inner || (cls == WINDOW && window_sums(n)) ? n->attr->ndims : 0;
}

Monoid node_monoid(const Node *n) {
  if (n->op == OP_SCATTER_ADD && n->attr->monoid) return n->attr->monoid;
  return node_inner(n) ? op_row((Op)n->op)->monoid : MONOID_NONE;
}

// Returns the longest leading part of the list `axes` that splits the slow dim and the merged dim
// alike. A block of the slow dim, times the size of the fast dims, is then a block of the merged
// dim.
static Axes aligned(const Graph *g, DimId slow, DimId merged, Axes axes) {
  int64_t n = dim_get(g->dims, slow)->size, m = dim_get(g->dims, merged)->size, fast = m / n;
  for (int i = 0; i < axes.n; i++) {
    int64_t p = g->mesh->axis[axes.at[i]].size;
    n = ceil_div(n, p), m = ceil_div(m, p);
    if (n * fast != m) return axes_head(axes, i);
  }
  return axes;
}

Axes split_allowed(const Graph *g, NodeId id, int k, Axes axes) {
  const Node *n = graph_node(g, id);
  DimId d = n->dims->at[k];
  if (op_row((Op)n->op)->cls == MATRIX && attr_names(n->attr, d)) return (Axes){0};
  if (n->op == OP_VALUES || (n->op == OP_COLLECT && d == n->attr->dims[0])) return (Axes){0};
  if ((n->op == OP_ARGSORT || n->op == OP_CUM_INDEX) && d == n->attr->dims[0]) return (Axes){0};
  if (n->op == OP_TOP_K && d == n->attr->to[0]) return (Axes){0};
  if (n->op == OP_MERGE && d == n->attr->to[0]) return aligned(g, n->attr->dims[0], d, axes);
  if (n->op != OP_SPLIT) return axes;
  int t = listed(n->attr->to, n->attr->nto, d);
  return t < 0 ? axes : t > 0 ? (Axes){0} : aligned(g, d, n->attr->dims[0], axes);
}
