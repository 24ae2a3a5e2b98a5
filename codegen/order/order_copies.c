// Copies of memory where a value is needed in two orders (order.c, 3), and the arguments of
// operations that need one.
#include "codegen/order/order_class_internal.h"

void set_order(Chooser *c, NodeId n, DimList list) {
  if (n < c->at.n) return;
  while (c->at.n <= n) {
    vec_push(c->a, c->at) = (DimList){0};
    vec_push(c->a, c->loose) = false;
    vec_push(c->a, c->again) = c->repeats;
  }
  c->at.at[n] = list;
}

NodeId copy_in_order(Chooser *c, NodeId n, DimList list, const char *why) {
  if (c->like) return c->differs = true, n;
  for (uint32_t i = 0; i < c->copy.n; i++)
    if (c->copy.at[i].of == n && dims_equal(&c->at.at[c->copy.at[i].copy], &list))
      return c->copy.at[i].copy;
  char refusal[200];
  c->to->origin = *graph_node(c->to, n)->origin;
  c->to->origin.why = why;
  NodeId copy = graph_try(c->to, OP_BROADCAST, 1, &n, &(Attr){0}, c->copy.n + 1, refusal);
  if (!copy) BUG("copy refused: %s", refusal);
  set_order(c, copy, list);
  vec_push(c->a, c->copy) = (OrderCopy){n, copy};
  return copy;
}

NodeId in_memory(Chooser *c, NodeId n, const char *why) {
  return op_is_number((Op)graph_node(c->to, n)->op) ? copy_in_order(c, n, c->at.at[n], why) : n;
}

static bool inner_uneven(const Graph *g, int n, const DimId *dims) {
  for (int i = 1; i < n; i++)
    if (dim_uneven(g->dims, g->mesh, dims[i])) return true;
  return false;
}

void order_adjacent(const Node *n, DimList *list) {
  const Attr *at = n->attr;
  DimList trial = *list;
  if (list_replace(&trial, at->ndims, at->dims, at->nto, at->to)) return;
  int last = dims_index(list, at->dims[at->ndims - 1]);
  DimId before = last + 1 < list->n ? list->at[last + 1] : 0;
  for (int i = 0; i < at->ndims; i++) dims_remove(list, at->dims[i]);
  int place = before && dims_has(list, before) ? dims_index(list, before) : list->n;
  for (int i = 0; i < at->ndims; i++) list_insert(list, place + i, at->dims[i]);
}

static NodeId merge_argument(Chooser *c, const Node *n, NodeId arg) {
  const Attr *at = n->attr;
  if (inner_uneven(c->from, at->ndims, at->dims))
    BUG("merge of a dim that is split unevenly inside");
  DimList list = c->at.at[arg];
  order_adjacent(n, &list);
  if (dims_equal(&list, &c->at.at[arg])) return arg;
  return copy_in_order(c, arg, list, "order: merged dims must be adjacent");
}

// Returns `arg`, an argument of contraction n, or a copy of `arg` whose last dim is a dim of the
// result. `other` is the other argument. The copy is made for the gradient of the image of a
// convolution, which sums over the last dim of the weights `arg`. It avoids sums across vector
// lanes, and is made only when it is small beside the work.
static NodeId kernel_argument(Chooser *c, const Node *n, NodeId arg, NodeId other) {
  enum { WORK_AN_ELEMENT = 256, SHORTEST = 8 };
  const Dims *image = graph_node(c->to, other)->dims;
  DimList list = c->at.at[arg];
  const Node *reader = graph_node(c->to, other);
  bool windows = op_row((Op)reader->op)->cls == WINDOW && reader->attr->nto > 1;
  if (!windows || !list.n || dims_has(n->dims, list.at[list.n - 1])) return arg;
  if (dims_has(n->dims, c->at.at[other].at[image->n - 1])) return arg;
  for (int i = list.n - 1; i >= 0; i--) {
    DimId d = list.at[i];
    if (!dims_has(n->dims, d) || dims_has(image, d) || dim_get(c->to->dims, d)->size < SHORTEST)
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

// Returns `arg`, an argument of contraction n, or a copy of `arg` in which the summed dims are
// adjacent. The copy is made if `arg` is collected by a loop, whose dim is outermost in it: a
// library product needs adjacent dims. The search has counted the cost of a kernel without a copy.
static NodeId collected_argument(Chooser *c, const Node *n, NodeId arg) {
  DimList list = c->at.at[arg], ranked = {0};
  NodeId root = arg;
  while (op_is_alias((Op)graph_node(c->to, root)->op)) root = view_of(c->to, root);
  if (c->classes || graph_node(c->to, root)->op != OP_COLLECT || n->attr->ndims < 2) return arg;
  int first = list.n, last = -1;
  for (int i = 0; i < list.n; i++) {
    insert_ranked(c, &ranked, list.at[i]);
    if (!dim_in(list.at[i], n->attr->ndims, n->attr->dims)) continue;
    if (first == list.n) first = i;
    last = i;
  }
  if (last - first + 1 == n->attr->ndims) return arg;
  return copy_in_order(c, arg, ranked, "order: the summed dims of a product must be adjacent");
}

void contract_copies(Chooser *c, const Node *n, const NodeId was[2]) {
  for (int i = 0; i < 2; i++) {
    DimList read = c->classes ? order_read(c->classes, n->args[i], n->args[1 - i]) : (DimList){0};
    c->map[n->args[i]] = read.n && !dims_equal(&read, &c->at.at[was[i]])
                             ? copy_in_order(c, was[i], read, "order: as products read it")
                             : collected_argument(c, n, kernel_argument(c, n, was[i], was[1 - i]));
  }
}

void argument_copies(Chooser *c, const Node *n, NodeId arg[2]) {
  OpClass cls = op_row(n->op)->cls;
  if (op_is_alias(n->op) || (cls == COLLECTIVE && n->op != OP_TO_PARTIAL) || n->op == OP_TAKE ||
      cls == ORDERED)
    arg[0] = in_memory(c, arg[0], "order: a number that is needed in memory");
  for (int i = 0; i < n->nargs && cls == MATRIX; i++)
    arg[i] = in_memory(c, arg[i], "order: a number that is needed in memory");
  if (n->op == OP_MERGE) arg[0] = merge_argument(c, n, arg[0]);
}

// -- arguments of loops ------------------------------------------------------------------------

NodeId region_argument(Chooser *c, const Node *n, NodeId old, NodeId arg) {
  if (n->op != OP_AT && n->op != OP_CARRY) return arg;
  arg = in_memory(c, arg, "order: a number that is needed in memory");
  DimList list = c->at.at[arg];
  if (n->op == OP_AT) {
    dims_remove(&list, n->attr->dims[0]);
    list_insert(&list, 0, n->attr->dims[0]);
  } else if (c->requested[old].n) {
    list = c->requested[old];
  }
  const char *why =
      n->op == OP_AT ? "order: a step of the loop is one piece" : "order: as the carry";
  return dims_equal(&list, &c->at.at[arg]) ? arg : copy_in_order(c, arg, list, why);
}

NodeId next_argument(Chooser *c, NodeId carry, NodeId arg) {
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

// -- outputs and updates -----------------------------------------------------------------------

bool persistent_root(const Graph *g, NodeId n) {
  Op op = graph_node(g, memory_root(g, n))->op;
  return op == OP_PARAM || op == OP_STATE || op == OP_VALUES;
}

NodeId update_value(Chooser *c, NodeId n, DeclId d, bool *taken) {
  const Graph *g = c->to;
  DimList list = stored_order(c, d, graph_node(g, n)->dims);
  NodeId root = memory_root(g, n);
  if (!dims_equal(&list, &c->at.at[n]))
    return copy_in_order(c, n, list, "order: as the tensor that it updates");
  if (n == g->decl.at[d - 1].node) return n; // the tensor stays as it is
  if (op_row(graph_node(g, root)->op)->cls == SOURCE || taken[root])
    return copy_in_order(c, n, list, "order: a new value of its own");
  taken[root] = true;
  return n;
}
