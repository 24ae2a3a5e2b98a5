// Hoisting: moves nodes out of their loop that are not on a path from a carry to its next value.
//
// In: a graph with loops. Out: a new graph with equal values. A node that depends on no carry moves
// before the loop: the same op computes all steps at once, on arguments that also have the dim of
// the loop (at(x) becomes x). A node on which no carry depends moves after the loop, and is
// computed from the values of its arguments in all steps. Only contractions, reductions, lookups,
// windows and ordered ops move for their own sake. Pointwise ops and moves follow if they lie
// between such nodes. Otherwise they stay, because a loop does not need memory for the values of
// all steps.
//
//   y = contract(at(x), w); z = y + contract(h, u); h' = tanh(z); o = contract(h', v); collect(s, o)
//   =>  xw = contract(x, w);  z = at(xw) + contract(h, u); ...;  contract(collect(s, h'), v)
//
// What such a sum or contraction reads is collected. It is computed after the loop instead if it is
// pointwise, each element is read once, and it follows from values that are collected anyway.
//
// A carry to which each step adds a value that is known before the loop becomes a sum over all
// steps.
//
// A loop that reads a large value of all steps, which follows from small ones by pointwise nodes,
// recomputes it: the value need not be stored.
//
//   a = exp(x[t, b, d] * w[d, n]); loop: at(a) * c   =>   loop: exp(at(x) * w) * c
//
// Loops with the mark `recompute` have other rules, because they exist to save memory. A node that
// reads a value collected by another loop stays in the loop. A sum over all steps of a collected
// value, such as the gradient of a parameter, becomes a carry. It takes the memory of two values:
// the carry and its next value. If the summed value is a contraction, and collecting its argument
// takes less memory than that, the contraction moves after the loop instead.
//
// Nothing leaves a guarded loop, which computes only what it needs if it runs.
//
// Inner loops are visited first, because a node that leaves one loop may then leave the next.
#include "ir/graph/graph.h"

// A loop recomputes values of all steps that have at least AGAIN_BYTES, if what they follow
// from has at most one AGAIN_SHARE of their bytes, and a step takes AGAIN_COST an element at most.
enum { AGAIN_BYTES = 1 << 18, AGAIN_SHARE = 4, AGAIN_COST = 16 };

typedef struct Hoist {
  Arena *a;
  Graph *to;
  const Graph *from;
  const RegionNodes *nodes;
  const NodeId *scan, *order;
  int depth;
  // Tables by NodeId of `from`:
  bool *feeds;  // [NodeId of `from`] whether a next value of a carry, or an inner loop, depends on
                // the node
  NodeId *in;   // [NodeId of `from`] the node in the new graph; for a node in a loop, its copy in
                // that loop
  NodeId *over; // [NodeId of `from`] for a node in a loop of depth `depth`: its values in all
                // steps, or 0
  bool *late;   // [NodeId of `from`] whether over[n] is computed after the loop
  bool *kept; // [NodeId of `from`] whether the values of the node in all steps are collected in any
              // case
  const uint32_t *uses; // [NodeId of `from`] how often the node is an argument or an output
  // The sums of what a loop collects, in the order of `order`: sum[RegionId] is the first one,
  // later[NodeId] the next one, 0: none.
  NodeId *sum, *later;
  // [NodeId of `from`] For choose_products: bytes of the carries and their next values that
  // collecting the node saves.
  int64_t *carried;
} Hoist;

static const Node *old_node(const Hoist *h, NodeId n) { return graph_node(h->from, n); }

static bool at_depth(const Hoist *h, NodeId n) {
  RegionId r = old_node(h, n)->region;
  return r && region_depth(h->from, r) == h->depth;
}

static bool is_guarded(const Hoist *h, RegionId r) { return region_get(h->from, r)->guarded; }

static bool is_heavy(const Node *n) {
  OpClass cls = op_row((Op)n->op)->cls;
  return cls == REDUCE || cls == CONTRACT || cls == GATHER || cls == WINDOW || cls == ORDERED ||
         cls == MATRIX;
}

static bool names(const Node *n, DimId t) { return dims_has(n->dims, t) || attr_names(n->attr, t); }

// Returns true if node n can be computed for all steps at once, with the dim of its loop as one
// more dim. Returns false if n, or an argument from outside the loop, has that dim already.
static bool may_move(const Hoist *h, const Node *n) {
  DimId t = region_get(h->from, n->region)->t;
  if (op_row((Op)n->op)->cls == REGION || names(n, t)) return false;
  for (int i = 0; i < n->nargs; i++) {
    const Node *arg = old_node(h, n->args[i]);
    if (arg->region != n->region && dims_has(arg->dims, t)) return false;
  }
  // The start of a window must be one number, not one for each step.
  return n->op != OP_WINDOW_AT || old_node(h, n->args[1])->region != n->region;
}

// Adds a copy of node n of the old graph, with the given arguments in the new graph. Returns 0 if
// the infer rule of the operation refuses the arguments.
static NodeId put_node(Hoist *h, NodeId n, const NodeId *args) {
  const Node *node = old_node(h, n);
  char why[200];
  h->to->origin = *node->origin;
  return graph_try(h->to, (Op)node->op, node->nargs, args, node->attr, node->instance, why);
}

// Sets h->feeds[n] for each node n of a loop if the next value of a carry, or an inner loop,
// depends on n.
static void mark_feeds(Hoist *h) {
  for (NodeId n = 1; n <= graph_count(h->from); n++) {
    const Node *node = old_node(h, n);
    bool loop = node->op == OP_SCAN || node->region;
    for (int i = 0; loop && i < node->nargs; i++) {
      RegionId in = old_node(h, node->args[i])->region;
      bool inner = node->op == OP_SCAN ? in == node->attr->region : in != node->region;
      if (inner && node->op != OP_COLLECT && node->op != OP_FINAL) h->feeds[node->args[i]] = true;
    }
  }
  for (uint32_t i = graph_count(h->from); i > 0; i--) {
    const Node *node = old_node(h, h->order[i - 1]);
    if (!h->feeds[h->order[i - 1]] || !node->region) continue;
    for (int k = 0; k < node->nargs; k++)
      if (old_node(h, node->args[k])->region == node->region) h->feeds[node->args[k]] = true;
  }
}

// -- before the loop ----------------------------------------------------------------------------

// Returns true if n is an AT (the value at the current step) of a value that another loop
// collected. The loop of n must also have the mark `recompute`.
static bool is_saved(const Hoist *h, const Node *n) {
  return region_get(h->from, n->region)->recompute && n->op == OP_AT &&
         old_node(h, n->args[0])->op == OP_COLLECT;
}

// Returns the values of node n in all steps, computed before the loop. Returns 0 if n must stay in
// the loop, or if an argument is not known before the loop.
static NodeId lift(Hoist *h, NodeId n) {
  const Node *node = old_node(h, n);
  NodeId args[MAX_ARGS];
  if (is_guarded(h, node->region) || is_saved(h, node)) return 0;
  if (node->op == OP_AT) return h->in[node->args[0]];
  if (!may_move(h, node)) return 0;
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    args[i] = old_node(h, arg)->region == node->region ? h->over[arg] : h->in[arg];
    if (!args[i]) return 0;
  }
  return put_node(h, n, args);
}

// Returns whether value n of the new graph is computed, element by element, from values of all
// steps of a loop over t.
static bool is_pointwise_over(const Hoist *h, NodeId n, DimId t) {
  const Node *x = graph_node(h->to, n);
  return op_row((Op)x->op)->cls == POINTWISE && dims_has(x->dims, t);
}

// Follows pointwise node n, and those of its arguments that are as large. Adds their cost to *cost
// and the bytes of the smaller values that they read to *bytes.
static void add_sources(const Hoist *h, NodeId n, DimId t, int64_t large, int *cost,
                        int64_t *bytes) {
  const Node *x = graph_node(h->to, n);
  *cost += op_row((Op)x->op)->cost;
  for (int i = 0; i < x->nargs && *cost <= AGAIN_COST; i++) {
    int64_t size = node_bytes(h->to, x->args[i]);
    if (size >= large && is_pointwise_over(h, x->args[i], t))
      add_sources(h, x->args[i], t, large, cost, bytes);
    else
      *bytes += size;
  }
}

// Returns whether the loop over t computes value n of all steps again instead of reading it: n is
// large, but follows from small values at little cost.
static bool is_again(const Hoist *h, NodeId n, DimId t) {
  int cost = 0;
  int64_t bytes = 0, size = node_bytes(h->to, n);
  if (size < AGAIN_BYTES || !is_pointwise_over(h, n, t)) return false;
  add_sources(h, n, t, size, &cost, &bytes);
  return cost <= AGAIN_COST && bytes <= size / AGAIN_SHARE;
}

// Returns the value of n in the step that `at` reads, recomputed from values of fewer than
// `large` bytes. `at` is a node of the old graph.
static NodeId again(Hoist *h, const Node *at, NodeId n, int64_t large) {
  DimId t = region_get(h->from, at->region)->t;
  const Node x = *graph_node(h->to, n);
  bool whole = node_bytes(h->to, n) >= large && is_pointwise_over(h, n, t);
  NodeId args[MAX_ARGS];
  if (!dims_has(x.dims, t)) return n;
  h->to->origin = *at->origin;
  if (!whole) return graph_add(h->to, OP_AT, 1, &n, at->attr);
  for (int i = 0; i < x.nargs; i++) args[i] = again(h, at, x.args[i], large);
  h->to->origin = *x.origin;
  h->to->origin.backward = at->origin->backward;
  return graph_add(h->to, (Op)x.op, x.nargs, args, x.attr);
}

static void copy_inside(Hoist *h, NodeId n) {
  const Node *node = old_node(h, n);
  bool at = node->op == OP_AT && !is_guarded(h, node->region);
  NodeId all = at ? h->in[node->args[0]] : 0;
  h->over[n] = lift(h, n);
  if (h->over[n] && is_heavy(node))
    h->in[n] = graph_at(h->to, node->region, h->over[n]);
  else if (all && is_again(h, all, region_get(h->from, node->region)->t))
    h->in[n] = again(h, node, all, node_bytes(h->to, all));
  else
    h->in[n] = graph_copy(h->to, h->from, n, h->in);
}

// -- after the loop -----------------------------------------------------------------------------

static void sink_one(Hoist *h, NodeId scan, RegionId r, NodeId n);

// Returns true if node n reads each element of its argument `arg` once. A kernel can then compute
// the argument where it reads it.
static bool reads_once(const Hoist *h, const Node *n, NodeId arg) {
  const Dims *dims = old_node(h, arg)->dims;
  if (n->op != OP_CONTRACT) return op_row((Op)n->op)->cls == REDUCE;
  for (int i = 0; i < n->nargs; i++)
    for (int k = 0; k < old_node(h, n->args[i])->dims->n; k++)
      if (!dims_has(dims, old_node(h, n->args[i])->dims->at[k])) return false;
  return true;
}

// Returns true if node n of loop r is pointwise, and its values in all steps follow from values
// that are known before the loop or are collected in any case.
static bool follows_kept(const Hoist *h, NodeId n, RegionId r) {
  const Node *node = old_node(h, n);
  if (op_row((Op)node->op)->cls != POINTWISE || h->feeds[n] || !may_move(h, node)) return false;
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    bool known = old_node(h, arg)->region != r || h->over[arg] || h->kept[arg];
    if (!known && (h->uses[arg] > 1 || !follows_kept(h, arg, r))) return false;
  }
  return true;
}

// Returns the values of node n in all steps, for use after the loop. Adds a COLLECT of n if its
// values were not computed for all steps at once. once: the user reads each value once, so that
// they need not be collected if they follow from others.
static NodeId values_of(Hoist *h, NodeId scan, NodeId n, RegionId r, bool once) {
  if (old_node(h, n)->region != r) return h->in[n];
  if (once && !h->over[n] && !h->kept[n] && follows_kept(h, n, r)) sink_one(h, scan, r, n);
  return h->over[n] ? h->over[n] : graph_collect(h->to, scan, h->in[n]);
}

static bool leaves(const Hoist *h, const Node *node, NodeId n) {
  if (h->feeds[n] || h->over[n] || !may_move(h, node)) return false;
  bool follows = is_heavy(node);
  for (int i = 0; i < node->nargs; i++) follows |= h->late[node->args[i]];
  return follows;
}

// Moves node n of loop r behind the loop: the new graph computes n for all steps at once.
static void sink_one(Hoist *h, NodeId scan, RegionId r, NodeId n) {
  const Node *node = old_node(h, n);
  NodeId args[MAX_ARGS];
  bool pointwise = op_row((Op)node->op)->cls == POINTWISE;
  for (int k = 0; k < node->nargs; k++) {
    bool once = pointwise || reads_once(h, node, node->args[k]);
    args[k] = values_of(h, scan, node->args[k], r, once);
  }
  h->over[n] = put_node(h, n, args);
  h->late[n] = h->over[n] != 0;
}

// Sets h->kept for the values that the graph collects. In a loop with the mark `recompute` this is
// not certain: sums over all steps may become carries (add_up).
static void mark_collected(Hoist *h) {
  for (NodeId n = 1; n <= graph_count(h->from); n++) {
    if (old_node(h, n)->op != OP_COLLECT) continue;
    NodeId value = old_node(h, n)->args[1];
    RegionId r = old_node(h, value)->region;
    h->kept[value] = r && !region_get(h->from, r)->recompute;
  }
}

// Sets h->kept for other nodes of loop r that are collected in any case: arguments of nodes that
// leave if they must stay in the loop or are read more than once.
static void mark_kept(Hoist *h, RegionId r) {
  for (uint32_t k = h->nodes->first[r]; k < h->nodes->first[r + 1]; k++) {
    NodeId n = h->nodes->node[k];
    const Node *node = old_node(h, n);
    if (!is_heavy(node) || !leaves(h, node, n)) continue;
    for (int i = 0; i < node->nargs; i++)
      if (h->feeds[node->args[i]] || !reads_once(h, node, node->args[i]))
        h->kept[node->args[i]] = true;
  }
}

static void sink(Hoist *h, NodeId scan, RegionId r) {
  mark_kept(h, r);
  for (uint32_t i = h->nodes->first[r]; i < h->nodes->first[r + 1]; i++) {
    NodeId n = h->nodes->node[i];
    if (leaves(h, old_node(h, n), n)) sink_one(h, scan, r, n);
  }
}

// -- sums over all steps, in loops that are recomputed --------------------------------------

// Sets h->sum and h->later.
static void list_sums(Hoist *h) {
  for (uint32_t i = graph_count(h->from); i > 0; i--) {
    NodeId n = h->order[i - 1];
    if (old_node(h, n)->op != OP_SUM) continue;
    const Node *all = old_node(h, old_node(h, n)->args[0]);
    if (all->op != OP_COLLECT) continue;
    NodeId *first = &h->sum[old_node(h, all->args[0])->attr->region];
    h->later[n] = *first;
    *first = n;
  }
}

// Returns true if node n sums a value that a loop with the mark `recompute` collects, over the dim
// of that loop. *value gets the collected value.
static bool is_step_sum(const Hoist *h, NodeId n, NodeId *value) {
  const Node *sum = old_node(h, n);
  if (sum->op != OP_SUM || !dtype_is_float((Dtype)sum->type)) return false;
  const Node *all = old_node(h, sum->args[0]);
  if (all->op != OP_COLLECT || !dims_has(all->dims, all->attr->dims[0])) return false;
  RegionId r = old_node(h, all->args[0])->attr->region;
  const Region *region = region_get(h->from, r);
  *value = all->args[1];
  return dim_in(region->t, sum->attr->ndims, sum->attr->dims) && region->recompute &&
         !region->guarded && region_depth(h->from, r) == h->depth &&
         old_node(h, *value)->region == r && !h->over[*value];
}

static bool is_there(const Hoist *h, NodeId n, RegionId r) {
  while (old_node(h, n)->op == OP_RENAME) n = old_node(h, n)->args[0];
  return old_node(h, n)->region != r || old_node(h, n)->op == OP_AT;
}

// Finds the argument of contraction n in loop r whose values would have to be collected if n moved
// after the loop. Returns this argument if the values of the other one in all steps are in memory
// already. Returns 0 if both arguments are in memory already, or neither.
static NodeId handed_out(const Hoist *h, NodeId n, RegionId r) {
  const Node *x = old_node(h, n);
  if (x->op != OP_CONTRACT || h->feeds[n] || !may_move(h, x)) return 0;
  bool first = is_there(h, x->args[0], r), second = is_there(h, x->args[1], r);
  return first == second ? 0 : x->args[first ? 1 : 0];
}

// Sets h->late for the contractions that move after the loop. Their sum over all steps, as a carry
// and its next value, would take more memory than the collected values of their argument.
static void choose_products(Hoist *h, RegionId r) {
  int64_t steps = dim_get(h->from->dims, region_get(h->from, r)->t)->size;
  for (int pass = 0; pass < 2; pass++)
    for (NodeId n = h->sum[r]; n; n = h->later[n]) {
      NodeId value, d;
      if (!is_step_sum(h, n, &value) || !(d = handed_out(h, value, r))) continue;
      Dtype type = (Dtype)old_node(h, value)->type, wide = region_sum_type(h->from, r, type);
      if (!pass)
        h->carried[d] += 2 * node_bytes(h->from, value) / dtype_bytes(type) * dtype_bytes(wide);
      else
        h->late[value] = h->carried[d] > node_bytes(h->from, d) * steps;
    }
}

static void sink_products(Hoist *h, NodeId scan, RegionId r) {
  for (uint32_t i = h->nodes->first[r]; i < h->nodes->first[r + 1]; i++)
    if (h->late[h->nodes->node[i]]) sink_one(h, scan, r, h->nodes->node[i]);
}

typedef VEC(NodeId) Nodes;

// Appends a carry to the loop for each sum over all steps (is_step_sum). Leaves out sums of values
// that are computed after the loop (h->late).
static void add_up(Hoist *h, RegionId r, Nodes *next) {
  DimId t = region_get(h->from, r)->t;
  for (NodeId n = h->sum[r]; n; n = h->later[n]) {
    NodeId value;
    if (!is_step_sum(h, n, &value) || h->late[value]) continue;
    const Node *sum = old_node(h, n);
    Dims rest = dims_make(sum->attr->ndims, sum->attr->dims);
    dims_remove(&rest, t);
    h->to->origin = *sum->origin;
    Dtype type = dtype_accumulator((Dtype)sum->type), wide = region_sum_type(h->from, r, type);
    NodeId step = graph_cast(
        h->to, graph_reduce(h->to, OP_SUM, graph_cast(h->to, h->in[value], type), &rest), wide);
    NodeId zero = graph_zeros(h->to, wide, graph_node(h->to, step)->dims);
    NodeId carry = graph_add(h->to, OP_CARRY, 1, &zero, &(Attr){.region = r, .carry = next->n});
    vec_push(h->a, *next) = graph_binary(h->to, OP_ADD, carry, step);
    h->over[n] = carry; // node n is outside this loop: over[n] is the carry that adds up its sum
  }
}

static void copy_sum(Hoist *h, NodeId n, NodeId scan) {
  NodeId carry = h->over[n];
  h->to->origin = *old_node(h, n)->origin;
  NodeId sum = graph_add(h->to, OP_FINAL, 2, (NodeId[]){h->in[scan], carry}, NULL);
  h->in[n] = graph_cast(h->to, sum, (Dtype)old_node(h, n)->type);
  h->over[n] = 0;
}

// -- carries that only add up -------------------------------------------------------------------

// Returns the value that each step adds to carry c. Returns 0 if the steps change c in another way,
// or if anything but this addition and FINAL reads c. Also returns 0 for narrow types, because such
// carries round in every step.
static NodeId added_in_steps(const Hoist *h, NodeId c) {
  const Node *carry = old_node(h, c);
  const Region *region = region_get(h->from, carry->region);
  if (region->recompute || region->guarded || dtype_bytes((Dtype)carry->type) < 4) return 0;
  NodeId next = carry_next(h->from, h->scan, c);
  const Node *sum = next ? old_node(h, next) : NULL;
  if (!sum || sum->op != OP_ADD || h->uses[next] != 1 || h->uses[c] != 2)
    // The two uses of c are the addition and FINAL.
    return 0;
  NodeId u = sum->args[0] == c ? sum->args[1] : sum->args[1] == c ? sum->args[0] : 0;
  return u && u != c && old_node(h, u)->region == carry->region ? u : 0;
}

static void copy_final(Hoist *h, NodeId n) {
  const Node *node = old_node(h, n), *carry = old_node(h, node->args[1]);
  NodeId u = at_depth(h, node->args[1]) ? added_in_steps(h, node->args[1]) : 0,
         all = u ? h->over[u] : 0;
  DimId t = u ? region_get(h->from, carry->region)->t : 0;
  if (!all || h->late[u] || !dims_has(graph_node(h->to, all)->dims, t)) {
    h->in[n] = graph_copy(h->to, h->from, n, h->in);
    return;
  }
  h->to->origin = *old_node(h, u)->origin;
  Dims over = {.n = 1, .at = {t}};
  NodeId sum = graph_broadcast(h->to, graph_reduce(h->to, OP_SUM, all, &over), carry->dims);
  h->in[n] = graph_binary(h->to, OP_ADD, h->in[carry->args[0]], sum);
}

// -- the walk -----------------------------------------------------------------------------------

static void copy_scan(Hoist *h, NodeId n) {
  const Node *node = old_node(h, n);
  RegionId r = node->attr->region;
  Nodes next = {0};
  for (int i = 0; i < node->nargs; i++) vec_push(h->a, next) = h->in[node->args[i]];
  if (region_depth(h->from, r) != h->depth) {
    h->in[n] = graph_copy(h->to, h->from, n, h->in);
    return;
  }
  bool guarded = is_guarded(h, r), again = region_get(h->from, r)->recompute && !guarded;
  if (again) choose_products(h, r);
  if (again) add_up(h, r, &next);
  h->to->origin = *node->origin;
  h->in[n] = graph_add(h->to, OP_SCAN, (int)next.n, next.at, node->attr);
  if (again)
    sink_products(h, h->in[n], r);
  else if (!guarded)
    sink(h, h->in[n], r);
}

// Returns `over`, the values of all steps that loop value `collect` has collected. They get its
// name unless they have one.
static NodeId named_as(Hoist *h, NodeId over, NodeId collect) {
  graph_name_as(h->to, over, old_node(h, collect)->origin);
  return over;
}

static void copy_node(Hoist *h, NodeId n) {
  const Node *node = old_node(h, n);
  NodeId value, collected;
  if (node->op == OP_SCAN)
    copy_scan(h, n);
  else if (node->op == OP_FINAL)
    copy_final(h, n);
  else if (at_depth(h, n))
    copy_inside(h, n);
  else if (node->op == OP_COLLECT && at_depth(h, node->args[1]) && h->over[node->args[1]])
    h->in[n] = named_as(h, h->over[node->args[1]], n);
  else if (is_step_sum(h, n, &value) && h->over[n]) {
    collected = node->args[0];
    copy_sum(h, n, old_node(h, collected)->args[0]);
  } else
    h->in[n] = graph_copy(h->to, h->from, n, h->in);
}

static Graph *hoist_depth(Arena *a, const Graph *g, int depth) {
  RegionNodes nodes = region_nodes(a, g);
  Hoist h = {.a = a,
             .to = graph_like(a, g, g->stage),
             .from = g,
             .nodes = &nodes,
             .scan = region_scans(a, g),
             .order = graph_schedule(a, g),
             .uses = graph_uses(a, g),
             .depth = depth};
  uint32_t count = graph_count(g);
  h.feeds = arena_array(a, bool, count + 1);
  h.late = arena_array(a, bool, count + 1);
  h.kept = arena_array(a, bool, count + 1);
  h.in = arena_array(a, NodeId, count + 1);
  h.over = arena_array(a, NodeId, count + 1);
  h.sum = arena_array(a, NodeId, g->region.n + 1);
  h.later = arena_array(a, NodeId, count + 1);
  h.carried = arena_array(a, int64_t, count + 1);
  mark_feeds(&h);
  mark_collected(&h);
  list_sums(&h);
  for (uint32_t i = 0; i < count; i++) {
    bug_context("hoist", h.order[i]);
    copy_node(&h, h.order[i]);
  }
  graph_copy_outputs(h.to, g, h.in);
  return graph_prune_in_place(a, h.to, g->stage);
}

const Graph *graph_hoist(Arena *a, const Graph *g) {
  int depth = 0;
  for (uint32_t r = 1; r <= g->region.n; r++)
    if (region_depth(g, r) > depth) depth = region_depth(g, r);
  if (!depth) return g;
  const Graph *out = graph_prune(a, g, g->stage, NULL);
  for (; depth > 0; depth--) out = hoist_depth(a, out, depth);
  return out;
}
