// How one processor computes a scatter_add of a lowered graph.
//
// A sum of many terms has a wide type. scatter_add adds one term at a time, and many such additions
// in f32 would lose accuracy. Casts around it keep the types of its argument and result, so that
// collectives send the narrow type.
//
// A result with many more rows than there are ids is zero in most rows, such as the gradient of an
// embedding table. Only the rows that ids select are stored, in a compact table. An id has its sum
// in the row of the last position with this id. Row 0 of the table stays zero:
//
//   last[v]  = 1 + the last position with id v, 0 if there is none     (a scatter of maxima)
//   sums     = scatter_add(x, last[ids])
//   result   = sums[last]
//
// Kernels that read the result compute its last line where they need it. Terms are added in the
// same order as without the table, so the bits of the result are the same.
#include "ir/graph/graph.h"
#include "ir/program/sums.h"

typedef struct Scatter {
  Graph *g;
  const Attr *attr;
  NodeId x, ids;
} Scatter;

// A table pays if it has less than a part 1 / SPARSE of the elements of the result.
enum { SPARSE = 2 };

static NodeId number(Graph *g, double x) { return graph_const(g, TYPE_I32, x); }

static const Dim *whole_dim(const Graph *g, DimId d) {
  return dim_get(g->dims, dim_get(g->dims, d)->whole);
}

// Returns the number of positions of the ids: the product of the whole sizes of the summed dims.
static double positions(const Scatter *s) {
  double n = 1;
  for (int i = 0; i < s->attr->ndims; i++) n *= (double)whole_dim(s->g, s->attr->dims[i])->size;
  return n;
}

// Returns 1 + the number of every position, counted in the whole dims.
static NodeId position(const Scatter *s) {
  Graph *g = s->g;
  NodeId at = number(g, 0);
  for (int i = 0; i < s->attr->ndims; i++) {
    DimId d = s->attr->dims[i];
    NodeId size = number(g, (double)whole_dim(g, d)->size), index = graph_index(g, d);
    at = i ? graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, at, size), index) : index;
  }
  return graph_binary(g, OP_ADD, at, number(g, 1));
}

// Returns true if the ids have exactly the summed dims, so that all rows of the result are selected
// by the same ids, and if the table and `last` are much smaller than the result.
static bool is_sparse(const Scatter *s, const Node *result) {
  const Dims *ids = graph_node(s->g, s->ids)->dims;
  DimId row = s->attr->to[0];
  if (ids->n != s->attr->ndims || dims_has(ids, row)) return false;
  for (int i = 0; i < s->attr->ndims; i++)
    if (!dims_has(ids, s->attr->dims[i]) || dim_get(s->g->dims, s->attr->dims[i])->out)
      return false;
  double rows = dims_product(s->g->dims, 1, &row), n = positions(s);
  double elements = dims_product(s->g->dims, result->dims->n, result->dims->at);
  return n < INT32_MAX && elements > SPARSE * (rows + n * elements / rows);
}

static NodeId scatter(const Scatter *s, NodeId x, NodeId ids, DimId to, Monoid monoid) {
  Attr attr = {
      .ndims = s->attr->ndims, .dims = s->attr->dims, .nto = 1, .to = &to, .monoid = monoid};
  return graph_add(s->g, OP_SCATTER_ADD, 2, (NodeId[]){x, ids}, &attr);
}

static NodeId take(const Scatter *s, NodeId table, NodeId ids, DimId row) {
  Attr attr = {.ndims = 1, .dims = &row};
  return graph_add(s->g, OP_TAKE, 2, (NodeId[]){table, ids}, &attr);
}

static NodeId sparse(const Scatter *s, Dtype type) {
  DimId row = s->attr->to[0];
  DimId used = dim_local(s->g->dims, "position", (int64_t)positions(s) + 1);
  NodeId last = scatter(s, position(s), s->ids, row, MONOID_MAX);
  NodeId sums = scatter(s, s->x, take(s, last, s->ids, row), used, MONOID_NONE);
  return take(s, graph_cast(s->g, sums, type), last, used);
}

static NodeId plan_scatter(Graph *to, const Node *n, const NodeId *map) {
  Dtype type = (Dtype)n->type;
  bool wide =
      type == TYPE_F32 && dims_product(to->dims, n->attr->ndims, n->attr->dims) > SUM_LEAF_SHORT;
  to->origin = *n->origin;
  Scatter s = {.g = to,
               .attr = n->attr,
               .x = graph_cast(to, map[n->args[0]], wide ? TYPE_F64 : type),
               .ids = map[n->args[1]]};
  if (is_sparse(&s, n)) return sparse(&s, type);
  return graph_cast(to, scatter(&s, s.x, s.ids, n->attr->to[0], MONOID_NONE), type);
}

Graph *graph_plan_scatters(Arena *a, const Graph *g) {
  Graph *to = graph_like(a, g, g->stage);
  NodeId *map = arena_array(a, NodeId, graph_count(g) + 1);
  for (NodeId id = 1; id <= graph_count(g); id++) {
    const Node *n = graph_node(g, id);
    bool sums = n->op == OP_SCATTER_ADD && n->attr->monoid == MONOID_NONE;
    map[id] = sums ? plan_scatter(to, n, map) : graph_copy(to, g, id, map);
  }
  graph_copy_outputs(to, g, map);
  return graph_prune_in_place(a, to, g->stage);
}
