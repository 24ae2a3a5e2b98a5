// Packs the weights of products in loops, once, before the loop. In: a graph with orders. Out: the
// same graph in which such a product reads panels.
//
// A loop runs its products many times, each with few rows, and with the same weights. A library
// packs the weights in every round. A panel is what one register tile reads: for each summed
// element the weights of PANEL_BYTES of neighbouring columns. The panels are contiguous, so that a
// kernel streams them (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication",
// 2008).
//
//   z = contract(h, u) {dims=[j]}           h [b, j] in the loop, u [j, gate, k] outside, k = 256
//   =>  s = split(u) {dims=[k], to=[k/64, k/panel4]}; p = s in the order gate k/64 j k/panel4
//       y = contract(h, p) {dims=[j]};  z = merge(y)                            the same memory
//
// Only whole panels are made: the columns are the last dims of the result, and the last dim that
// takes part is split.
#include "codegen/order/order_internal.h"

#include <stdio.h>

enum {
  PANEL_BYTES = 128, // of a summed element: two vectors of 512 bits
  FEWEST_ROUNDS = 4, // of the loop, to make up for the packing
  FEWEST_ROWS = 4,   // less rows are bound by memory
  MOST_ROWS = 256,   // of more rows a library makes up for its own packing
  FEWEST_TERMS = 16, // of a sum
  FEWEST_COLUMNS = 64
};

typedef struct Packing {
  Arena *a;
  const Order *from;
  Graph *to;
  NodeId *map;
  VEC(DimList) at;     // by new node: the order of its dims
  VEC(OrderCopy) copy; // the panels made so far
} Packing;

// A product in a loop: x in the loop, the weights w outside of it. The dims of the result are
// those of x, then those of w in the order `columns`.
typedef struct LoopProduct {
  int weights; // which argument is w
  DimList terms, columns;
  DimId split;   // the slowest dim of a panel's columns
  int64_t inner; // how many positions of `split` are in a panel
} LoopProduct;

static void note_order(Packing *p, NodeId n, const DimList *list) {
  while (p->at.n <= n) vec_push(p->a, p->at) = (DimList){0};
  if (!p->at.at[n].n) p->at.at[n] = *list;
}

// Returns how often the loops of node n run a round, those that enclose node w not counted.
static int64_t rounds_between(const Graph *g, NodeId n, NodeId w) {
  RegionId outer = graph_node(g, w)->region;
  return region_times(g, graph_node(g, n)->region) / region_times(g, outer);
}

// Finds the roles of the dims of contraction n. Returns false if n is not a product in a loop with
// weights from outside, or has batch dims.
static bool find_product(const Graph *g, const Order *order, NodeId n, LoopProduct *out) {
  const Node *node = graph_node(g, n);
  RegionId r = node->region;
  if (node->op != OP_CONTRACT || !r || (node->type != TYPE_F32 && node->type != TYPE_F64))
    return false;
  out->weights = graph_node(g, node->args[0])->region == r;
  NodeId w = node->args[out->weights], x = node->args[!out->weights];
  const Node *wn = graph_node(g, w), *xn = graph_node(g, x);
  if (wn->region == r || xn->region != r || wn->type != node->type || xn->type != node->type)
    return false;
  for (int i = 0; i < wn->dims->n; i++)
    if (dims_has(node->dims, wn->dims->at[i]) && dims_has(xn->dims, wn->dims->at[i])) return false;
  for (int i = 0; i < order->at[x].n; i++) {
    DimId d = order->at[x].at[i];
    if (dims_has(node->dims, d)) continue;
    if (!dims_has(wn->dims, d) || dim_get(g->dims, d)->live) return false;
    list_insert(&out->terms, out->terms.n, d);
  }
  for (int i = 0; i < order->at[n].n; i++)
    if (dims_has(wn->dims, order->at[n].at[i]))
      list_insert(&out->columns, out->columns.n, order->at[n].at[i]);
  return out->terms.n + out->columns.n == wn->dims->n && rounds_between(g, n, w) >= FEWEST_ROUNDS;
}

// Returns whether a parameter or a state has dim d. Such a dim is no batch dim, which may be short
// in the last batch.
static bool is_weight_dim(const Graph *g, DimId d) {
  DimId whole = dim_get(g->dims, d)->whole;
  for (uint32_t i = 0; i < g->decl.n; i++)
    if (g->decl.at[i].kind != DECL_INPUT && dim_in(whole, g->decl.at[i].rank, g->decl.at[i].dims))
      return true;
  return false;
}

// Finds the dim of the columns that is split, so that a panel has PANEL_BYTES of columns. Blocks
// that differ between processors are not split.
static bool find_panel(const Graph *g, const Order *order, NodeId n, LoopProduct *p) {
  const DimList *result = &order->at[n];
  int64_t want = PANEL_BYTES / dtype_bytes((Dtype)graph_node(g, n)->type);
  for (int i = result->n - 1; i >= 0; i--) {
    DimId d = result->at[i];
    const Dim *dim = dim_get(g->dims, d);
    if (!dims_has(&p->columns, d) || !is_weight_dim(g, d) || dim->out ||
        dim_uneven(g->dims, g->mesh, d))
      return false;
    if (dim->size >= want) {
      p->split = d;
      p->inner = want;
      return dim->size % want == 0;
    }
    if (want % dim->size) return false;
    want /= dim->size;
  }
  return false;
}

static bool is_worth(const Graph *g, NodeId n, const LoopProduct *p) {
  DimList rows = list_minus(graph_node(g, n)->dims, &p->columns);
  int64_t m = list_elements(g->dims, &rows);
  return m >= FEWEST_ROWS && m <= MOST_ROWS && graph_node(g, n)->dims->n < MAX_RANK &&
         graph_node(g, graph_node(g, n)->args[p->weights])->dims->n < MAX_RANK &&
         list_elements(g->dims, &p->terms) >= FEWEST_TERMS &&
         list_elements(g->dims, &p->columns) >= FEWEST_COLUMNS;
}

// Makes the dims into which p->split is split: slow, its panels, and fast, the positions of one.
// A split dim of the mesh passes its axes on to the slow dim.
static void split_dims(Graph *g, const LoopProduct *p, DimId to[2]) {
  const Dim *d = dim_get(g->dims, p->split), *whole = dim_get(g->dims, d->whole);
  int64_t size[2] = {whole->size / p->inner, p->inner};
  for (int i = 0; i < 2; i++) {
    const char *name = arena_printf(g->arena, "%s/%s%lld", whole->name, i ? "panel" : "panels",
                                    (long long)size[i]);
    to[i] = dim_local(g->dims, name, size[i]);
  }
  to[0] = dim_block(g->dims, g->mesh, to[0], d->axes);
}

// Returns the weights of p in panels, packed now or for an earlier product.
static NodeId panels_of(Packing *p, const LoopProduct *x, NodeId w, const Attr *split,
                        const DimList *result) {
  char why[200];
  NodeId parts = graph_try(p->to, OP_SPLIT, 1, &w, split, 0, why);
  if (!parts) return 0;
  DimList order = p->at.at[w], list = {0};
  if (!list_replace(&order, split->ndims, split->dims, split->nto, split->to)) return 0;
  note_order(p, parts, &order);
  for (int i = 0; i < result->n; i++)
    if (dims_has(&order, result->at[i])) list_insert(&list, list.n, result->at[i]);
  int at = dims_index(&list, split->to[1]);
  for (int i = 0; i < x->terms.n; i++) list_insert(&list, at + i, x->terms.at[i]);
  for (uint32_t i = 0; i < p->copy.n; i++)
    if (p->copy.at[i].of == parts && dims_equal(&p->at.at[p->copy.at[i].copy], &list))
      return p->copy.at[i].copy;
  p->to->origin.why = "order: weights in panels, once for all rounds of the loop";
  NodeId copy = graph_try(p->to, OP_BROADCAST, 1, &parts, &(Attr){0}, p->copy.n + 1, why);
  if (!copy) return 0;
  note_order(p, copy, &list);
  vec_push(p->a, p->copy) = (OrderCopy){parts, copy};
  return copy;
}

// Adds the product of node n over panels. Returns 0 if it cannot be made.
static NodeId pack(Packing *p, NodeId n, const LoopProduct *x) {
  const Node *node = graph_node(p->from->graph, n);
  DimId to[2], from = x->split;
  char why[200];
  p->to->origin = *node->origin;
  split_dims(p->to, x, to);
  Attr split = {.ndims = 1, .dims = &from, .nto = 2, .to = to};
  DimList result = p->from->at[n];
  if (!list_replace(&result, 1, &from, 2, to)) return 0;
  NodeId args[2] = {p->map[node->args[0]], p->map[node->args[1]]};
  args[x->weights] = panels_of(p, x, args[x->weights], &split, &result);
  if (!args[x->weights]) return 0;
  p->to->origin = *node->origin;
  NodeId product = graph_try(p->to, OP_CONTRACT, 2, args, node->attr, node->instance, why);
  if (!product) return 0;
  note_order(p, product, &result);
  return graph_add(p->to, OP_MERGE, 1, &product,
                   &(Attr){.ndims = 2, .dims = to, .nto = 1, .to = &from});
}

static void copy_node(Packing *p, NodeId n) {
  const Graph *g = p->from->graph;
  LoopProduct x = {0};
  NodeId packed = 0;
  if (find_product(g, p->from, n, &x) && is_worth(g, n, &x) && find_panel(g, p->from, n, &x))
    packed = pack(p, n, &x);
  p->map[n] = packed ? packed : graph_copy(p->to, g, n, p->map);
  const Node *node = graph_node(g, n);
  if (op_is_decl((Op)node->op)) p->to->decl.at[node->attr->decl - 1].node = p->map[n];
  note_order(p, p->map[n], &p->from->at[n]);
}

Order *order_loop_panels(Arena *a, Order *order) {
  const Graph *g = order->graph;
  if (!g->region.n) return order;
  bug_context("panels", 0);
  Packing p = {.a = a, .from = order, .to = graph_like(a, g, g->stage)};
  p.map = arena_array(a, NodeId, graph_count(g) + 1);
  vec_push(a, p.at) = (DimList){0};
  for (NodeId n = 1; n <= graph_count(g); n++) {
    bug_context("panels", n);
    copy_node(&p, n);
  }
  graph_copy_outputs(p.to, g, p.map);
  Order *out = arena_new_of(a, Order);
  out->graph = p.to;
  out->at = p.at.at;
  return out;
}
