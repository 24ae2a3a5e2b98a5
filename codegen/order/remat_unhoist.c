// Moves work that was hoisted out of loops back into them, when memory is too short for a value of
// all iterations.
//
// A contraction over all iterations that a loop reads one iteration at a time is moved into the
// loop. A gradient that a loop collects, and that is then summed over the iterations, becomes a
// carry that adds it up. A gradient that is collected and then contracted becomes a contraction in
// each iteration. So no value of all iterations is held. Sums over iterations change their order
// and are equal up to rounding.
//
//   y = contract(w, x); loop: f(at(y))             =>  loop: f(contract(w, at(x)))
//   loop: d = ...; collect(d)                      =>  loop: s = carry(0); d = ...;
//   contract(h, collect) over t                              next = s + contract(at(h), d)
//                                                      final(s)
#include "codegen/order/remat_internal.h"

typedef VEC(NodeId) Nodes;
typedef struct Unhoist {
  Arena *a;
  const Graph *from;
  Graph *to;
  const NodeId *scan; // by region: the SCAN of the loop
  uint32_t *user_at;  // the users of node n of `from` are user[user_at[n] .. user_at[n + 1])
  NodeId *user;
  bool *handed;    // by node of `from`: it is an output of the graph
  NodeId *map;     // by node of `from`: its copy in `to`, 0: none yet
  RegionId *sinks; // by node of `from`: the loop into which it moves, 0: none
  NodeId *inside;  // by node that moves: its carry in `to`, or its value in one iteration
  Nodes *of;       // by region: the nodes that move into it, ascending
  uint32_t *sums;  // by region: upper bound on the carries that the moved nodes add to the loop
} Unhoist;

static const Node *node_of(const Unhoist *s, NodeId n) { return graph_node(s->from, n); }

static void find_users(Unhoist *s) {
  uint32_t count = graph_count(s->from), edges = 0;
  s->user_at = arena_array(s->a, uint32_t, count + 3);
  for (NodeId n = 1; n <= count; n++)
    for (int i = 0; i < node_of(s, n)->nargs; i++, edges++)
      s->user_at[node_of(s, n)->args[i] + 2]++;
  for (NodeId n = 1; n <= count + 2; n++) s->user_at[n] += s->user_at[n - 1];
  s->user = arena_array(s->a, NodeId, edges + 1);
  for (NodeId n = 1; n <= count; n++)
    for (int i = 0; i < node_of(s, n)->nargs; i++)
      s->user[s->user_at[node_of(s, n)->args[i] + 1]++] = n;
  s->handed = arena_array(s->a, bool, count + 1);
  for (uint32_t i = 0; i < s->from->output.n; i++) s->handed[s->from->output.at[i].value] = true;
}

// -- values that loops read one iteration at a time -----------------------------------------------

// Returns whether n is a contraction that computes values for all iterations along t and moves into
// the loops over t that read it. The loops must read single iterations of n only. The arguments of
// n along t must be no larger than its result. Gradients keep the arguments anyway, so that the
// result need not be held.
static bool is_lifted(const Unhoist *s, NodeId n, DimId t) {
  const Node *x = node_of(s, n);
  if (x->op != OP_CONTRACT || s->handed[n] || dim_in(t, x->attr->ndims, x->attr->dims))
    return false;
  int64_t bytes = 0;
  for (int i = 0; i < x->nargs; i++)
    if (dims_has(node_of(s, x->args[i])->dims, t)) bytes += node_bytes(s->from, x->args[i]);
  bool only = bytes <= node_bytes(s->from, n);
  for (uint32_t i = s->user_at[n]; i < s->user_at[n + 1] && only; i++) {
    const Node *user = node_of(s, s->user[i]);
    only = user->op == OP_AT && user->attr->dims[0] == t;
  }
  return only;
}

static void copy_at(Unhoist *s, NodeId n) {
  const Node *x = node_of(s, n), *y = node_of(s, x->args[0]);
  if (!is_lifted(s, x->args[0], x->attr->dims[0])) {
    s->map[n] = graph_copy(s->to, s->from, n, s->map);
    return;
  }
  NodeId args[MAX_ARGS];
  for (int i = 0; i < y->nargs; i++) {
    bool steps = dims_has(node_of(s, y->args[i])->dims, x->attr->dims[0]);
    args[i] = steps ? graph_at(s->to, x->region, s->map[y->args[i]]) : s->map[y->args[i]];
  }
  s->to->origin = *y->origin;
  s->to->origin.backward = x->origin->backward;
  s->map[n] = graph_add(s->to, OP_CONTRACT, y->nargs, args, y->attr);
}

// -- values that loops collect for readers outside ---------------------------------------------

static bool is_view_but(const Node *n, DimId t) {
  if (n->op == OP_CAST) return true;
  return n->op == OP_RENAME && !attr_names(n->attr, t);
}

// Follows n to its argument as long as n is a cast, or a rename of other dims than t. Returns the
// first node that is neither.
static NodeId under_views(const Unhoist *s, NodeId n, DimId t) {
  while (is_view_but(node_of(s, n), t)) n = node_of(s, n)->args[0];
  return n;
}

// Returns whether the loop that ends in `scan` can read node n. It can if n comes before the loop.
// It also can if n is a view (cast or rename) of a COLLECT that can be moved before the loop.
static bool is_there(const Unhoist *s, NodeId n, NodeId scan, DimId t) {
  if (n < scan) return true;
  const Node *x = node_of(s, n = under_views(s, n, t));
  return n < scan || (x->op == OP_COLLECT && x->args[0] <= scan && x->args[1] < scan);
}

// Returns whether node n can be computed inside loop `scan`, one iteration at a time. n reads a
// value that the loop collects along t. It must be a sum over t or a contraction.
static bool may_sink(const Unhoist *s, NodeId n, NodeId scan, DimId t) {
  const Node *x = node_of(s, n);
  if (x->region != node_of(s, scan)->region || s->handed[n]) return false;
  if (x->op == OP_SUM)
    return dim_in(t, x->attr->ndims, x->attr->dims) && dtype_is_float((Dtype)x->type);
  bool good = x->op == OP_CONTRACT;
  for (int i = 0; i < x->nargs && good; i++) good = is_there(s, x->args[i], scan, t);
  return good;
}

// Appends to *out the nodes that read the collected values `collect`, directly or through casts and
// renames. Returns false if one of these nodes cannot be computed inside the loop, one iteration at
// a time.
static bool find_sinks(const Unhoist *s, NodeId collect, Nodes *out) {
  NodeId scan = node_of(s, collect)->args[0];
  DimId t = node_of(s, collect)->attr->dims[0];
  Nodes todo = {0};
  vec_push(s->a, todo) = collect;
  while (todo.n) {
    NodeId n = todo.at[--todo.n];
    if (s->handed[n]) return false;
    for (uint32_t i = s->user_at[n]; i < s->user_at[n + 1]; i++) {
      NodeId user = s->user[i];
      if (is_view_but(node_of(s, user), t))
        vec_push(s->a, todo) = user;
      else if (may_sink(s, user, scan, t))
        vec_push(s->a, *out) = user;
      else
        return false;
    }
  }
  return true;
}

static void plan_sinks(Unhoist *s) {
  for (NodeId n = 1; n <= graph_count(s->from); n++) {
    const Node *c = node_of(s, n);
    if (c->op != OP_COLLECT || !c->origin->backward || !node_of(s, c->args[0])->origin->backward)
      continue;
    RegionId loop = node_of(s, c->args[0])->attr->region;
    Nodes sinks = {0};
    if (node_of(s, c->args[1])->region != loop || !find_sinks(s, n, &sinks)) continue;
    if (node_of(s, c->args[0])->nargs + (s->sums[loop] += sinks.n) > MAX_ARGS) continue;
    for (uint32_t i = 0; i < sinks.n; i++) s->sinks[sinks.at[i]] = loop;
  }
}

// Marks an ADD to move into a loop if both its arguments move into that loop and have the dim of
// its iterations. Only the sum is then collected. Then fills s->of, the list of the nodes that move
// into each loop.
static void plan_adds(Unhoist *s) {
  for (NodeId n = 1; n <= graph_count(s->from); n++) {
    const Node *x = node_of(s, n);
    RegionId loop = x->op == OP_ADD ? s->sinks[x->args[0]] : 0;
    DimId t = loop ? region_get(s->from, loop)->t : 0;
    if (loop && s->sinks[x->args[1]] == loop && dims_has(node_of(s, x->args[0])->dims, t) &&
        dims_has(node_of(s, x->args[1])->dims, t))
      s->sinks[n] = loop;
  }
  for (NodeId n = 1; n <= graph_count(s->from); n++)
    if (s->sinks[n]) vec_push(s->a, s->of[s->sinks[n]]) = n;
}

// Returns the copy of node n in s->to. If no copy exists yet, n is a COLLECT (the values of all
// iterations of a loop) or a view of a COLLECT. It is then copied now, before nodes with smaller
// numbers, because a loop needs it.
static NodeId early(Unhoist *s, NodeId n) {
  if (s->map[n]) return s->map[n];
  const Node *x = node_of(s, n);
  if (x->op != OP_COLLECT) early(s, x->args[0]);
  return s->map[n] = graph_copy(s->to, s->from, n, s->map);
}

// Returns a node that has the value of n in one iteration of loop `loop`. n is an argument of a
// node that moves into the loop.
static NodeId step_of(Unhoist *s, NodeId n, RegionId loop) {
  DimId t = region_get(s->to, loop)->t;
  const Node *x = node_of(s, n);
  if (s->sinks[n] == loop) return s->inside[n];
  if (!dims_has(x->dims, t)) return early(s, n);
  NodeId root = under_views(s, n, t);
  if (node_of(s, root)->op != OP_COLLECT || node_of(s, root)->args[0] != s->scan[loop])
    return graph_at(s->to, loop, early(s, n));
  if (n == root) return s->map[x->args[1]];
  NodeId arg = step_of(s, x->args[0], loop);
  return graph_add(s->to, (Op)x->op, 1, &arg, x->attr);
}

// Returns a node that computes, in one iteration of the loop, the part of n for that iteration. n
// is a node that moves into the loop. If `sums`, n sums over the iterations and perhaps over other
// dims. The returned node then sums over the other dims only.
static NodeId part_of(Unhoist *s, NodeId n, RegionId loop, bool sums) {
  const Node *x = node_of(s, n);
  DimId t = region_get(s->to, loop)->t, rest[MAX_RANK * 2];
  NodeId args[2];
  Attr attr = *x->attr;
  if (sums) attr.dims = rest, attr.ndims = 0, attr.type = dtype_accumulator((Dtype)x->type);
  for (int i = 0; i < x->attr->ndims && sums; i++)
    if (x->attr->dims[i] != t) rest[attr.ndims++] = x->attr->dims[i];
  for (int i = 0; i < x->nargs; i++) args[i] = step_of(s, x->args[i], loop);
  s->to->origin = *x->origin;
  if (x->op == OP_SUM) {
    Dims over = {.n = attr.ndims};
    for (int i = 0; i < attr.ndims; i++) over.at[i] = rest[i];
    return graph_reduce(s->to, OP_SUM, graph_cast(s->to, args[0], attr.type), &over);
  }
  if (x->op == OP_ADD) return graph_binary(s->to, OP_ADD, args[0], args[1]);
  if (attr.ndims) return graph_add(s->to, OP_CONTRACT, x->nargs, args, &attr);
  return graph_binary(s->to, OP_MUL, graph_cast(s->to, args[0], attr.type),
                      graph_cast(s->to, args[1], attr.type));
}

static void copy_scan(Unhoist *s, NodeId n) {
  const Node *x = node_of(s, n);
  RegionId loop = x->attr->region;
  DimId t = region_get(s->to, loop)->t;
  NodeId next[MAX_ARGS];
  int count = x->nargs;
  for (int i = 0; i < count; i++) next[i] = s->map[x->args[i]];
  for (uint32_t i = 0; i < s->of[loop].n; i++) {
    NodeId sink = s->of[loop].at[i];
    bool sums = !dims_has(node_of(s, sink)->dims, t);
    NodeId part = s->inside[sink] = part_of(s, sink, loop, sums);
    if (!sums) continue;
    Dtype type = region_sum_type(s->to, loop, (Dtype)graph_node(s->to, part)->type);
    NodeId zero = graph_zeros(s->to, type, graph_node(s->to, part)->dims);
    NodeId carry = graph_add(s->to, OP_CARRY, 1, &zero, &(Attr){.region = loop, .carry = count});
    s->inside[sink] = carry;
    next[count++] = graph_binary(s->to, OP_ADD, carry, graph_cast(s->to, part, type));
  }
  s->to->origin = *x->origin;
  s->map[n] = graph_add(s->to, OP_SCAN, count, next, x->attr);
}

static void copy_sunk(Unhoist *s, NodeId n) {
  RegionId loop = s->sinks[n];
  DimId t = region_get(s->to, loop)->t;
  NodeId ends[] = {s->map[s->scan[loop]], s->inside[n]};
  const Node *x = node_of(s, n);
  s->to->origin = *x->origin;
  if (dims_has(x->dims, t))
    s->map[n] = graph_collect(s->to, ends[0], ends[1]);
  else
    s->map[n] = graph_cast(s->to, graph_add(s->to, OP_FINAL, 2, ends, NULL), (Dtype)x->type);
}

static void copy_node(Unhoist *s, NodeId n) {
  Op op = (Op)node_of(s, n)->op;
  if (s->map[n]) return;
  if (s->sinks[n])
    copy_sunk(s, n);
  else if (op == OP_AT)
    copy_at(s, n);
  else if (op == OP_SCAN)
    copy_scan(s, n);
  else
    s->map[n] = graph_copy(s->to, s->from, n, s->map);
}

const Graph *remat_unhoist(Arena *a, const Graph *g) {
  uint32_t count = graph_count(g);
  if (!g->region.n) return g;
  Unhoist s = {.a = a, .from = g, .to = graph_like(a, g, g->stage), .scan = region_scans(a, g)};
  s.map = arena_array(a, NodeId, count + 1);
  s.sinks = arena_array(a, RegionId, count + 1);
  s.inside = arena_array(a, NodeId, count + 1);
  s.of = arena_array(a, Nodes, g->region.n + 1);
  s.sums = arena_array(a, uint32_t, g->region.n + 1);
  find_users(&s);
  plan_sinks(&s);
  plan_adds(&s);
  for (NodeId n = 1; n <= count; n++) {
    bug_context("remat", n);
    copy_node(&s, n);
  }
  graph_copy_outputs(s.to, g, s.map);
  return graph_prune_in_place(a, s.to, g->stage);
}
