// Chooses the physical order of every value's dims (docs/decisions.md, 17), and inserts copies of
// memory where a value is needed in two orders. "Old" nodes are those of the graph that comes in,
// "new" ones those of the graph that is made.
//
// 1. Requests go from users to arguments. An update requests the order of its target, a merge
//    requests adjacent dims. Moves, collectives and pointwise work pass requests on.
// 2. Orders go from arguments to results. Declared tensors have their declared order. A value takes
//    the order of its largest operand. A contraction, which can write any order, takes the
//    requested order, else that of the common precedence of dims (rank_dims).
// 3. Renames, splits and merges move nothing if the merged dims are adjacent. If they are not, a
//    copy (BROADCAST without dims) is inserted before the use.
// 4. A search looks for orders of less cost (order_search.c). It may also store parameters, states
//    and slots in another order than the declared one. If it saves enough, steps 2 and 3 run again
//    with its orders.
//
//   %5 = contract(q, k) : f32[b, t, heads, k]      requested by the merge: b, t, heads, k
//   %6 = merge(%5) {dims=[heads, k], to=[d]}       the same memory
//
// Nodes that recompute a value have the order of the first node with it (order_again.c).
//
// The dim of a loop is the outermost dim of what the loop reads or collects, so that one iteration
// accesses one piece of memory. A carry, its initial value and its next value have the same order.
#include "codegen/order/order_class_internal.h"

#include <stdio.h>
#include <string.h>

// The orders of the search are taken if they save MUCH ns of a core, and cost at most this share of
// those by requests alone. (With 20 us, the search makes copies of the weights of the small LSTM of
// the tests that do not pay for their memory.)
static const double MUCH = 22000, WORTH = 0.995;
// Small models take them for less, where the estimates differ clearly and no copies are added. Not
// for a GPU: it takes longer to begin a kernel.
static const double LITTLE = 1000, CLEARLY = 0.8;

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
      [CONTRACT] = ALWAYS, [POINTWISE] = FORCED, [REDUCE] = FORCED, [GATHER] = FORCED,
      [WINDOW] = FORCED,   [ORDERED] = FORCED,   [MATRIX] = FORCED, [COLLECTIVE] = NEVER,
      [REGION] = NEVER,    [MOVE] = NEVER,       [SOURCE] = NEVER,
  };
  Op op = (Op)graph_node(c->from, old)->op;
  if (!c->requested[old].n) return false;
  if (op == OP_SCATTER_ADD || op == OP_BROADCAST || op == OP_INDEX || op_is_draw(op)) return true;
  return by_class[op_row(op)->cls] == ALWAYS ||
         (by_class[op_row(op)->cls] == FORCED && c->forced[old]);
}

// -- random draws ------------------------------------------------------------------------------
//
// A random draw can have any order, and so can values made of draws only. They take the order of
// the value with which they are combined.

static bool made_of_draws(const Chooser *c, const Node *n) {
  bool any = op_is_draw((Op)n->op);
  for (int i = 0; i < n->nargs && op_row((Op)n->op)->cls == POINTWISE; i++) {
    if (!c->loose.at[n->args[i]] && graph_node(c->to, n->args[i])->dims->n) return false;
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
    if (list && list->n == x->dims->n && list_has_all(list, x->dims)) c->at.at[at] = *list;
    for (int i = 0; i < x->nargs; i++) vec_push(c->a, stack) = x->args[i];
  }
}

static void settle_arguments(Chooser *c, NodeId n) {
  const Node *x = graph_node(c->to, n);
  c->loose.at[n] = made_of_draws(c, x);
  for (int i = 0; i < x->nargs && !c->loose.at[n]; i++)
    settle_loose(c, x->args[i], op_row((Op)x->op)->cls == POINTWISE ? &c->at.at[n] : NULL);
}

// -- the graph with orders ----------------------------------------------------------------------

static void copy_scan(Chooser *c, NodeId old) {
  const Node *n = graph_node(c->from, old);
  NodeId args[MAX_ARGS];
  for (int i = 0; i < n->nargs; i++) {
    NodeId carry = carry_of(c, old, i);
    args[i] = next_argument(c, carry ? c->map[carry] : 0, c->map[n->args[i]]);
  }
  c->to->origin = *n->origin;
  c->map[old] = c->like ? c->like->map[old] : graph_add(c->to, OP_SCAN, n->nargs, args, n->attr);
  set_order(c, c->map[old], (DimList){0});
}

// Makes a broadcast instead of node `old` if it is a COLLECT of a value that does not depend on the
// iteration. A COLLECT gathers the values of all iterations. Returns false in all other cases.
static bool spread_invariant(Chooser *c, NodeId old) {
  const Node *n = graph_node(c->from, old);
  if (n->op != OP_COLLECT) return false;
  NodeId arg = c->map[n->args[1]], scan = c->map[n->args[0]];
  if (graph_node(c->to, arg)->region == graph_node(c->to, scan)->attr->region) return false;
  const Attr attr = {.ndims = 1, .dims = n->attr->dims};
  c->to->origin = *n->origin;
  c->map[old] = c->like ? c->like->map[old] : graph_add(c->to, OP_BROADCAST, 1, &arg, &attr);
  DimList list = c->at.at[arg];
  list_insert(&list, 0, n->attr->dims[0]);
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

static void copy_node(Chooser *c, NodeId old) {
  const Node *n = graph_node(c->from, old);
  if (n->op == OP_SCAN) {
    copy_scan(c, old);
    return;
  }
  if (spread_invariant(c, old)) return;
  if (op_is_mark((Op)n->op)) {
    c->map[old] = c->map[n->args[0]];
    return;
  }
  NodeId was[2] = {0}, arg[2] = {0};
  int copied = n->nargs < 2 ? n->nargs : 2; // no other argument is replaced by a copy
  for (int i = 0; i < copied; i++) was[i] = arg[i] = c->map[n->args[i]];
  argument_copies(c, n, arg);
  if (copied) arg[0] = region_argument(c, n, old, arg[0]);
  for (int i = copied - 1; i >= 0; i--) c->map[n->args[i]] = arg[i];
  if (n->op == OP_CONTRACT) contract_copies(c, n, was);
  if (c->differs) return; // without the copy, an order may be impossible
  NodeId id = c->like ? c->like->map[old] : graph_copy(c->to, c->from, old, c->map);
  for (int i = 0; i < copied; i++) c->map[n->args[i]] = was[i];
  c->map[old] = id;
  if (op_is_decl(n->op)) c->to->decl.at[n->attr->decl - 1].node = id;
  DimList list =
      follows_request(c, old) ? c->requested[old] : order_default(c, graph_node(c->to, id));
  to_front(c, old, &list);
  if (id < c->at.n) return;
  set_order(c, id, list);
  settle_arguments(c, id);
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
    if (!c->like) vec_push(c->to->arena, c->to->output) = o;
  }
  for (uint32_t i = 0; i < c->to->output.n; i++) {
    Output *o = &c->to->output.at[i];
    if (o->kind == OUT_UPDATE) o->value = update_value(c, o->value, o->target, taken);
  }
}

// Gives all nodes their orders, from the requests in c, in a new graph or in that of c->like.
static void make_orders(Chooser *c) {
  c->to = c->like ? c->like->to : graph_like(c->a, c->from, STAGE_ORDER);
  c->at.n = c->loose.n = c->again.n = 0;
  vec_push(c->a, c->at) = (DimList){0};
  vec_push(c->a, c->loose) = false;
  vec_push(c->a, c->again) = false;
  for (NodeId id = 1; id <= graph_count(c->from) && !c->differs; id++) {
    bug_context("order", id);
    c->repeats = first_of(c, id) != id;
    copy_node(c, id);
  }
  c->repeats = false;
  if (!c->differs) copy_outputs(c);
}

// Makes the graph with orders. Where neither c nor `like` (NULL: none) needs copies, their graphs
// are equal: c takes that of `like`, and only the orders are its own.
static void make_graph(Chooser *c, const Chooser *like) {
  c->map = arena_array(c->a, NodeId, graph_count(c->from) + 1);
  c->at.cap = graph_count(c->from) + graph_count(c->from) / 4 + 16;
  c->at.at = arena_alloc_raw(c->a, c->at.cap * sizeof *c->at.at);
  c->like = like && !like->copy.n ? like : NULL;
  make_orders(c);
  if (!c->differs) return;
  c->like = NULL;
  c->differs = false;
  memset(c->map, 0, (graph_count(c->from) + 1) * sizeof *c->map);
  make_orders(c);
}

static Chooser chooser_new(Arena *a, const Graph *g, const NodeId *first) {
  uint32_t n = graph_count(g) + 1;
  Chooser c = {.a = a, .from = g, .first = first, .carries = region_ends(a, g, OP_CARRY)};
  c.requested = arena_array(a, DimList, n);
  c.forced = arena_array(a, bool, n);
  c.front = arena_array(a, DimId, n);
  c.stored = arena_array(a, DimList, g->decl.n + 1);
  for (DeclId d = 1; d <= g->decl.n; d++)
    for (int i = 0; i < g->decl.at[d - 1].rank; i++)
      list_insert(&c.stored[d], i, g->decl.at[d - 1].dims[i]);
  rank_dims(&c);
  return c;
}

// Stores the tensors of `c` as program `like` does, with which they share memory.
static void store_like(Chooser *c, const Program *like) {
  for (DeclId d = 1; d <= c->from->decl.n; d++) {
    const Decl *decl = &c->from->decl.at[d - 1];
    if (decl->kind == DECL_INPUT) continue;
    int32_t i = program_tensor(like, tensor_kind(decl->kind), decl->name);
    const ProgTensor *t = i < 0 ? NULL : &like->tensor[i];
    for (int k = 0; t && t->rank == decl->rank && k < t->rank; k++)
      c->stored[d].at[t->declared[k]] = decl->dims[k];
  }
}

static bool updates_tensors(const Graph *g) {
  for (uint32_t i = 0; i < g->output.n; i++)
    if (g->output.at[i].kind == OUT_UPDATE) return true;
  return false;
}

// Stores declared tensor d with the dims of `order`, which are those of a processor's block.
static void store_as(Chooser *c, DeclId d, const DimList *order) {
  for (int i = 0; i < order->n; i++)
    c->stored[d].at[i] = dim_get(c->from->dims, order->at[i])->whole;
}

// Returns the orders by least estimated cost. `plain` has the orders by requests alone, from which
// the search starts. What only the search needs is in `scratch`.
static Chooser by_cost(Arena *a, Arena *scratch, const Chooser *plain, const OrderFacts *facts) {
  OrderClasses *s = order_classes(scratch, plain, facts);
  order_search(s, plain);
  Chooser c = chooser_new(a, plain->from, plain->first);
  c.classes = s;
  memcpy(c.stored, plain->stored, sizeof *c.stored * (c.from->decl.n + 1));
  for (NodeId n = 1; n <= graph_count(c.from); n++) {
    const OrderClass *x = &s->cls.at[s->of[n]];
    if (!class_is_free(x) || op_is_mark((Op)graph_node(c.from, n)->op)) continue;
    if (x->kind == CLASS_STORED) store_as(&c, graph_node(c.from, n)->attr->decl, &x->order);
    c.requested[n] = x->order;
    c.forced[n] = true;
  }
  make_graph(&c, plain);
  return c;
}

// Returns whether the orders of the search, which cost `is` ns, are taken instead of those by
// requests alone, which cost `was` ns.
static bool takes_searched(const Chooser *plain, double was, const Chooser *best, double is,
                           const OrderFacts *facts) {
  double saved = facts->times * (was - is);
  if (saved >= MUCH) return is <= WORTH * was;
  bool copies = best->copy.n > plain->copy.n;
  return facts->vectors && !copies && saved >= LITTLE && is <= CLEARLY * was;
}

// Gives back the large memory of a chooser whose orders are not taken, but for the graph of
// `taken`.
static void chooser_release(const Chooser *c, const Chooser *taken) {
  if (c->to != taken->to) graph_release(c->to);
  arena_release(c->a, c->at.at);
  arena_release(c->a, c->requested);
}

Order *order_choose(Arena *a, const Graph *g, const StoreOptions *store, bool gpu) {
  bug_context("order", 0);
  Rows rows = rows_find(a, g, NULL);
  OrderFacts facts = {.rows = &rows, .vectors = !gpu, .times = store->times > 1 ? store->times : 1};
  Arena *scratch = arena_new();
  Chooser plain = chooser_new(a, g, order_first(scratch, g));
  if (store->like) store_like(&plain, store->like);
  plain.free = store->freely && !store->like && updates_tensors(g);
  request_all(&plain);
  make_graph(&plain, NULL);
  Chooser best = by_cost(a, scratch, &plain, &facts);
  double was = order_graph_cost(&plain, &facts), is = order_graph_cost(&best, &facts);
  bool taken = takes_searched(&plain, was, &best, is, &facts);
  chooser_release(taken ? &plain : &best, taken ? &best : &plain);
  if (!taken) best = plain;
  arena_release(a, best.requested);
  arena_free(scratch);
  Order *order = arena_new_of(a, Order);
  order->graph = best.to;
  order->at = best.at.at;
  order = order_loop_panels(a, order);
  order->asked = was / 1e9;
  order->searched = is / 1e9;
  order->taken = taken;
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
