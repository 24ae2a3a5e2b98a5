// The cost of an operation for given physical orders of its arguments and its result. Only the part
// of the cost counts that depends on the orders. The figures are those of one core in ns. They need
// not be exact: the search compares orders whose costs differ several times.
#include "codegen/order/order_class_internal.h"
#include "codegen/values/gemm_form_internal.h"

#include <math.h>

// Multiplications per ns: of a library product, and of kernels whose vectors are contiguous in an
// argument and the result, in both arguments, or in neither.
static const double LIBRARY_RATE = 75, KERNEL_RATE = 35, SUM_RATE = 20, STRIDED_RATE = 5;
static const double BYTE_RATE = 10;    // bytes per ns of contiguous accesses
static const double STRIDED = 6;       // time of a strided access, relative to a contiguous one
static const double OTHER_ORDER = 1.1; // the same for runs of contiguous elements in other order
static const double CALL = 300;        // ns of a library call
// What small products lose: a product of m by k and k by n takes the time of mnk + HALF (mn + nk +
// km) multiplications.
static const double HALF = 12;
static const double TRANSPOSED = 1.02; // time of a product with a transposed argument
static const double DOWN =
    1.7;             // time to read a large matrix down its columns, relative to along them
enum { LANES = 16 }; // f32 elements of a vector
static const double JOIN = 5;    // ns to join the lanes of a vector to one result
static const double APART = 0.5; // ns to load an element of a row shorter than a vector

// Returns whether the common dims of a and b have the same sequence in both. Dims of one element
// may be anywhere.
static bool same_sequence(const Graph *g, const DimList *a, const DimList *b) {
  int at = -1;
  for (int i = 0; i < a->n; i++) {
    if (dim_get(g->dims, a->at[i])->size == 1) continue;
    int k = dims_index(b, a->at[i]);
    if (k >= 0 && k < at) return false;
    if (k >= 0) at = k;
  }
  return true;
}

// Returns the time of `bytes` bytes of an operand with order `order`, which a kernel accesses in
// loops that have the order `loops`. The last loop is vectorised.
static double stream(const Graph *g, const DimList *order, const DimList *loops, double bytes) {
  if (!order || !order->n || !loops->n) return 0;
  DimId v = order_last(g, loops);
  double ns = bytes / BYTE_RATE;
  if (dims_has(order, v) && order_last(g, order) != v) return ns * STRIDED;
  if (!same_sequence(g, order, loops)) ns *= OTHER_ORDER;
  // a short vectorised loop leaves lanes empty
  double size = (double)dim_get(g->dims, v)->size;
  bool joined = list_elements(g->dims, order) == list_elements(g->dims, loops) &&
                same_sequence(g, order, loops);
  return joined || size >= LANES ? ns : ns * (size < 4 ? 4 : LANES / size);
}

double order_copy_cost(const Graph *g, const DimList *from, const DimList *to, double bytes) {
  if (dims_equal(from, to)) return 0;
  return CALL + bytes / BYTE_RATE + stream(g, from, to, bytes);
}

// Returns whether node n is a window that reads elements several times, such as the patches of a
// convolution. No library product reads it.
static bool is_patches(const Graph *g, NodeId n) {
  while (op_row((Op)graph_node(g, n)->op)->cls == WINDOW) {
    if (graph_node(g, n)->attr->nto > 1) return true;
    n = graph_node(g, n)->args[0];
  }
  return false;
}

static double library_cost(const Graph *g, const OrderFacts *facts, const GemmForm *f) {
  double m = (double)list_elements(g->dims, &f->m), n = (double)list_elements(g->dims, &f->n),
         k = (double)list_elements(g->dims, &f->k),
         calls = (double)list_elements(g->dims, &f->batch);
  if (facts->vectors) n = ceil(n / LANES) * LANES; // the last vector of a row is computed whole
  double work = m * n * k + HALF * (m * n + n * k + k * m);
  return calls * (CALL + work / LIBRARY_RATE * (f->ta || f->tb ? TRANSPOSED : 1));
}

static double multiplications(const Graph *g, const Node *x) {
  DimList all = list_union(graph_node(g, x->args[0])->dims, graph_node(g, x->args[1])->dims);
  return (double)list_elements(g->dims, &all);
}

// Returns the multiplications per ns of a kernel that computes a contraction. Its vectors run along
// the last dim of the result if an argument is contiguous there, else along a summed dim.
static double kernel_rate(const Graph *g, const DimList *a, const DimList *b,
                          const DimList *result) {
  DimId c = order_last(g, result), x = order_last(g, a), y = order_last(g, b);
  if (!c || (c != x && c != y)) return x == y ? SUM_RATE : STRIDED_RATE;
  // along a dim of both arguments no loaded element serves several products
  if (dims_has(a, c) && dims_has(b, c)) return c == x && c == y ? STRIDED_RATE : STRIDED_RATE / 2;
  double size = (double)dim_get(g->dims, c)->size;
  return size >= LANES ? KERNEL_RATE : KERNEL_RATE * size / LANES;
}

// Returns the least time of a kernel that reads argument n of a contraction from memory.
static double reading_cost(const Graph *g, NodeId n) {
  double elements = (double)list_elements(g->dims, graph_node(g, n)->dims);
  return elements < THIN_ELEMENTS ? 0 : (double)node_bytes(g, n) / BYTE_RATE * DOWN;
}

// Returns the time in which a kernel joins the lanes of a vector to each element of `result`.
static double joining_cost(const Graph *g, const OrderFacts *facts, const DimList *result) {
  return facts->vectors ? JOIN * (double)list_elements(g->dims, result) : 0;
}

// Returns whether a kernel that computes contraction x joins lanes: its vectors run along a summed
// dim (vector_of_contraction in codegen/fuse/kernel_loops.c). Those of windows are not counted
// unless both arguments are contiguous there: positions decide what these kernels take.
static bool joins_lanes(const Graph *g, const Node *x, const DimList *const arg[2],
                        const DimList *result) {
  DimId a = order_last(g, arg[0]), b = order_last(g, arg[1]), c = order_last(g, result);
  if (a == b || a == c || b == c) return a == b && a != c;
  bool summed = !dims_has(result, a) || !dims_has(result, b);
  return summed && !is_patches(g, x->args[0]) && !is_patches(g, x->args[1]) &&
         !contract_sums_are_short(g, x, c);
}

// Returns the time of a kernel that computes a contraction.
static double kernel_cost(const Graph *g, const OrderFacts *facts, const Node *x,
                          const DimList *const arg[2], const DimList *result) {
  double reading = fmax(reading_cost(g, x->args[0]), reading_cost(g, x->args[1]));
  return fmax(multiplications(g, x) / kernel_rate(g, arg[0], arg[1], result), reading) +
         (joins_lanes(g, x, arg, result) ? joining_cost(g, facts, result) : 0);
}

// Returns the elements of the rows that are summed along memory: the product of the sizes of the
// last dims of `order` that `result` does not have.
static double row_elements(const Graph *g, const DimList *order, const DimList *result) {
  double row = 1;
  for (int i = order->n - 1; i >= 0 && !dims_has(result, order->at[i]); i--)
    row *= (double)dim_get(g->dims, order->at[i])->size;
  return row;
}

// Returns the time of a reduction of a value with order `from`, as far as it depends on orders.
// Rows that are shorter than a vector count: each of their elements is loaded alone, and lanes are
// joined for each result. Beside longer rows, which come from memory, that is small.
static double reduction_cost(const Graph *g, const OrderFacts *facts, NodeId n, const DimList *from,
                             const DimList *result) {
  double row = row_elements(g, from, result);
  bool is_short = facts->vectors && row > 1 && row < LANES;
  return stream(g, result, from, (double)node_bytes(g, n)) +
         (is_short ? (JOIN + APART * row) * (double)list_elements(g->dims, result) : 0);
}

static double contract_cost(const Graph *g, const OrderFacts *facts, NodeId n,
                            const DimList *const arg[2], const DimList *result) {
  const Node *x = graph_node(g, n);
  for (int i = 0; i < 2; i++) // one argument has all dims: a reduction, bound by memory
    if (list_has_all(arg[i], arg[1 - i]))
      return stream(g, arg[1 - i], arg[i], (double)node_bytes(g, x->args[1 - i])) +
             reduction_cost(g, facts, n, arg[i], result);
  GemmForm form;
  const char *why;
  if (!is_patches(g, x->args[0]) && !is_patches(g, x->args[1]) &&
      gemm_form_in(g, facts->rows, 0, x, arg, result, &form, &why))
    return library_cost(g, facts, &form);
  return kernel_cost(g, facts, x, arg, result);
}

static double window_cost(const Graph *g, NodeId n, const DimList *arg, const DimList *result) {
  return stream(g, arg, result, (double)node_bytes(g, n));
}

// Returns the time of a take or of a sum into rows of a table. If vectors run along a dim that the
// table does not have, each of their elements is in another row.
static double gather_cost(const Graph *g, const OrderFacts *facts, NodeId n,
                          const DimList *const arg[3], const DimList *result) {
  const Node *x = graph_node(g, n);
  bool takes = x->op == OP_TAKE;
  const DimList *table = takes ? arg[0] : result, *loops = takes ? result : arg[0];
  double bytes = (double)node_bytes(g, takes ? n : x->args[0]);
  DimId v = order_last(g, loops);
  if (facts->vectors && v && !dims_has(table, v)) return bytes / BYTE_RATE * STRIDED;
  return stream(g, table, loops, bytes);
}

static double point_cost(const Graph *g, NodeId n, const DimList *const arg[3],
                         const DimList *result) {
  const Node *x = graph_node(g, n);
  double ns = 0;
  for (int i = 0; i < x->nargs && i < 3; i++)
    if (arg[i] && !dims_equal(arg[i], result))
      ns += stream(g, arg[i], result, (double)node_bytes(g, x->args[i]));
  return ns;
}

static double merge_cost(const Graph *g, NodeId n, const DimList *arg) {
  DimList list = *arg;
  const Node *x = graph_node(g, n);
  if (x->op == OP_MERGE) order_adjacent(x, &list);
  if (x->op == OP_AT) {
    dims_remove(&list, x->attr->dims[0]);
    list_insert(&list, 0, x->attr->dims[0]);
  }
  return order_copy_cost(g, arg, &list, (double)node_bytes(g, x->args[0]));
}

double order_cost(const Graph *g, const OrderFacts *facts, NodeId n, const DimList *const arg[3],
                  const DimList *result) {
  const Node *x = graph_node(g, n);
  switch (op_row((Op)x->op)->cls) {
  case CONTRACT: return arg[0] && arg[1] ? contract_cost(g, facts, n, arg, result) : 0;
  case POINTWISE: return point_cost(g, n, arg, result);
  case REDUCE: return arg[0] ? reduction_cost(g, facts, n, arg[0], result) : 0;
  case GATHER: return arg[0] ? gather_cost(g, facts, n, arg, result) : 0;
  case WINDOW: return arg[0] && !x->attr->nto ? window_cost(g, n, arg[0], result) : 0;
  case MOVE:
  case REGION: return arg[0] ? merge_cost(g, n, arg[0]) : 0;
  case SOURCE:
  case ORDERED:
  case MATRIX:
  case COLLECTIVE: break;
  }
  return 0;
}

double order_graph_cost(const Chooser *c, const OrderFacts *facts) {
  const Graph *g = c->to;
  double ns = 0;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    const DimList *arg[3] = {0};
    if (c->again.at[n]) continue;
    for (int i = 0; i < x->nargs && i < 3; i++) {
      const Node *y = graph_node(g, x->args[i]);
      bool spread = y->op == OP_BROADCAST && y->attr->ndims;
      if (!op_is_number((Op)y->op) && !spread && y->dims->n) arg[i] = &c->at.at[x->args[i]];
    }
    double each = x->op == OP_BROADCAST && !x->attr->ndims && arg[0]
                      ? order_copy_cost(g, arg[0], &c->at.at[n], (double)node_bytes(g, n))
                      : order_cost(g, facts, n, arg, &c->at.at[n]);
    ns += each * (double)region_times(g, x->region);
  }
  return ns;
}
