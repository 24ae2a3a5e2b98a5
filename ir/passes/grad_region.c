// Gradients of loops: builds a backward loop for each loop between the nodes `by` and the loss.
//
// The carries of the backward loop are the gradients of the loop's carries. Their initial values
// are the gradients of the FINAL results; their final values are the gradients of the initial
// values of the loop's carries. Derivative rules read values of the loop's body. Most values are
// collected by the loop and read at the same step of the backward loop. Two kinds are recomputed in
// the backward loop instead. In a loop with the mark `recompute` these are all values, from its
// collected carries. In other loops these are values that lead to a `checkpoint` in the body, from
// collected carries and earlier checkpoints. A value from outside the loop gets the sum of its
// gradients over all steps.
//
//   h = carry(h0); y = f(h, at(x), w); s = scan(y); c = collect(s, y)
//   =>  dh = carry(0); dy = dh + at(dc); s' = scan(dy * f_h)  [reversed];  dh0 = final(s', dh);
//       dx = collect(s', dy * f_x);  dw = sum[t](collect(s', dy * f_w))
//
// f_h, f_x and f_w are the derivatives of f by its arguments.
#include "ir/passes/grad_internal.h"

RegionId grad_region(const Grad *c, NodeId n) {
  RegionId r = graph_node(c->g, n)->region;
  return region_encloses(c->g, r, c->open) ? 0 : r;
}

bool grad_ends_loop(const Grad *c, NodeId n) {
  const Node *node = graph_node(c->g, n);
  if (node->op != OP_FINAL && node->op != OP_COLLECT) return false;
  return grad_region(c, node->args[1]) == graph_node(c->g, node->args[0])->attr->region;
}

void grad_accumulate(Grad *c, NodeId to, NodeId term) {
  if (grad_region(c, to) != c->level->of) {
    vec_push(c->scratch, c->level->term) = (GradTerm){to, term, false};
    return;
  }
  NodeId *sum = &c->adjoint[to];
  *sum = *sum ? graph_binary(c->g, OP_ADD, *sum, term) : term;
}

// -- values of the body -------------------------------------------------------------------------

// Returns the copy of node n in the backward loop, which recomputes the loop of n. This is clone[n]
// for the nodes that existed when the copies were made. For a COLLECT that gradients added later,
// adds a COLLECT of the copy.
static NodeId clone_of(Grad *c, const NodeId *clone, NodeId n) {
  if (n <= c->count) return clone[n];
  const NodeId *args = graph_node(c->g, n)->args;
  NodeId scan = args[0], value = args[1];
  return graph_collect(c->g, clone_of(c, clone, scan), clone_of(c, clone, value));
}

// Returns the values of n in all steps of the loop that `scan` ends. The result is a node of the
// backward loop of level l, or outside all loops if l is the outermost level.
static NodeId collected(Grad *c, const GradLevel *l, NodeId scan, NodeId n) {
  if (!l->of) return graph_collect(c->g, scan, n);
  if (scan <= c->count && c->wide[scan])
    return graph_collect(c->g, c->wide[scan], clone_of(c, c->wide, n));
  if (l->recompute)
    return graph_collect(c->g, clone_of(c, c->clone, scan), clone_of(c, c->clone, n));
  return graph_at(c->g, l->back, collected(c, l->outer, l->scan, graph_collect(c->g, scan, n)));
}

// Adds a carry to the backward loop of level l.
static NodeId add_carry(Grad *c, GradLevel *l, NodeId start) {
  return graph_add(c->g, OP_CARRY, 1, &start, &(Attr){.region = l->back, .carry = l->ncarries++});
}

// Brings the value that constant carry n of a guarded loop brings into it also into the backward
// loop of level l, instead of collecting it.
static NodeId brought_again(Grad *c, GradLevel *l, NodeId n) {
  NodeId carry = add_carry(c, l, grad_value(c, graph_node(c->g, n)->args[0]));
  vec_push(c->scratch, l->constant) = carry;
  return carry;
}

static NodeId seen_again(Grad *c, GradLevel *l, NodeId n) {
  if (n <= c->count && carry_is_constant(c->g, c->scan, n)) return brought_again(c, l, n);
  Node node = *graph_node(c->g, n);
  if (node.op == OP_AT) return graph_at(c->g, l->back, grad_value(c, node.args[0]));
  return graph_at(c->g, l->back, collected(c, l->outer, l->scan, n));
}

NodeId grad_value(Grad *c, NodeId n) {
  RegionId r = grad_region(c, n);
  if (!r) return n;
  GradLevel *l = c->level;
  while (l->of && l->of != r) l = l->outer;
  if (!l->of) BUG("%%%u is in a loop that is not gone through", n);
  if (!c->mirror[n]) c->mirror[n] = seen_again(c, l, n);
  return c->mirror[n];
}

// -- bodies that are recomputed -------------------------------------------------------------

static RegionId clone_region(Grad *c, const GradLevel *l, RegionId r) {
  return r == l->of ? l->back : c->clone_region[r];
}

// Adds the backward loops of the loops inside the loop that level l differentiates.
static void clone_regions(Grad *c, const GradLevel *l) {
  uint32_t n = c->nests[l->of] ? c->g->region.n : 0;
  for (uint32_t r = l->of + 1u; r <= n && r <= c->regions; r++) { // inner loops have larger numbers
    if (!region_encloses(c->g, l->of, r)) continue;
    Region copy = *region_get(c->g, r);
    copy.parent = clone_region(c, l, copy.parent);
    c->clone_region[r] = graph_region(c->g, &copy);
  }
}

// Returns the nodes of the loop that level l differentiates in their order. `inner`: returns all
// nodes, because those of the loops inside it are between them. Sets *count to their number.
static const NodeId *nodes_of_level(const Grad *c, const GradLevel *l, bool inner,
                                    uint32_t *count) {
  const uint32_t *first = &c->nodes.first[l->of];
  *count = inner ? c->count : first[1] - first[0];
  return inner ? c->order : c->nodes.node + first[0];
}

static NodeId clone_node(Grad *c, const GradLevel *l, const NodeId *clone, NodeId n) {
  Node node = *graph_node(c->g, n);
  NodeId args[MAX_ARGS];
  for (int i = 0; i < node.nargs; i++) {
    RegionId in = graph_node(c->g, node.args[i])->region;
    bool inner = in != l->of && region_encloses(c->g, l->of, in);
    args[i] = inner ? clone[node.args[i]] : grad_value(c, node.args[i]);
  }
  Attr attr = *node.attr;
  if (attr.region) attr.region = c->clone_region[attr.region];
  c->g->origin = *node.origin;
  c->g->origin.backward = true;
  return graph_add(c->g, (Op)node.op, node.nargs, args, &attr);
}

// Copies all nodes of the loop that level l differentiates, and of the loops inside it, into the
// backward loop of l. Unused copies are removed later.
static void recompute(Grad *c, GradLevel *l) {
  uint32_t count;
  const NodeId *order = nodes_of_level(c, l, c->nests[l->of], &count);
  clone_regions(c, l);
  for (uint32_t i = 0; i < count; i++) {
    NodeId n = order[i];
    RegionId r = graph_node(c->g, n)->region;
    if (!r || !region_encloses(c->g, l->of, r)) continue;
    Op op = (Op)graph_node(c->g, n)->op;
    bool given = r == l->of && (op == OP_CARRY || op == OP_AT);
    c->clone[n] = given ? seen_again(c, l, n) : clone_node(c, l, c->clone, n);
    if (r == l->of) c->mirror[n] = c->clone[n];
  }
}

// Returns the loop that is region r or contains it, and is directly inside the loop that level l
// differentiates. Returns 0 if r is not inside that loop.
static RegionId inner_loop(const Grad *c, const GradLevel *l, RegionId r) {
  while (r && region_get(c->g, r)->parent != l->of) r = region_get(c->g, r)->parent;
  return r;
}

// Returns a table by RegionId. It tells which regions are loops directly inside the loop that level
// l differentiates, and have a result with the dim of this outer loop. Returns NULL if there is no
// such region.
static bool *wide_loops(Grad *c, const GradLevel *l) {
  DimId t = region_get(c->g, l->of)->t;
  bool *wide = arena_array(c->scratch, bool, c->g->region.n + 1), any = false;
  for (uint32_t i = c->nodes.first[l->of]; i < c->nodes.first[l->of + 1]; i++) {
    const Node *n = graph_node(c->g, c->nodes.node[i]);
    if ((n->op != OP_FINAL && n->op != OP_COLLECT) || !dims_has(n->dims, t)) continue;
    wide[graph_node(c->g, n->args[0])->attr->region] = any = true;
  }
  return any ? wide : NULL;
}

// Copies values of the loop that level l differentiates into the backward loop, if they have the
// dim of the differentiated loop. Such a value occurs where the body contains a gradient. It cannot
// be collected, because the collected tensor would have the dim twice. If the value is the result
// of an inner loop, the whole inner loop is copied.
static void recompute_wide(Grad *c, const GradLevel *l) {
  DimId t = region_get(c->g, l->of)->t;
  const bool *wide = wide_loops(c, l);
  if (wide) clone_regions(c, l);
  uint32_t count; // without such inner loops only nodes of the loop itself are copied
  const NodeId *order = nodes_of_level(c, l, wide != NULL, &count);
  for (uint32_t i = 0; i < count; i++) {
    NodeId n = order[i];
    const Node *node = graph_node(c->g, n);
    RegionId inner = node->region == l->of ? 0 : inner_loop(c, l, node->region);
    bool ends = wide && node->op == OP_SCAN && wide[node->attr->region];
    bool again =
        node->region == l->of ? ends || dims_has(node->dims, t) : inner && wide && wide[inner];
    if (!again) continue;
    NodeId copy = clone_node(c, l, c->wide, n);
    if (node->region == l->of) c->mirror[n] = copy;
    if (node->region != l->of || ends) c->wide[n] = copy;
  }
}

// Returns true if node n, which leads to a checkpoint, may be recomputed in the backward loop.
// Returns false for carries, results of loops, sources and checkpoints, which are collected
// instead.
static bool may_repeat(const Node *n) {
  OpClass cls = op_row((Op)n->op)->cls;
  return n->op != OP_CHECKPOINT && cls != REGION && cls != SOURCE;
}

// Returns a table by NodeId: whether a node of loop r leads to a checkpoint in the loop. Returns
// NULL if the loop has no checkpoint.
static bool *before_checkpoints(Grad *c, RegionId r) {
  bool *before = NULL;
  for (uint32_t i = c->nodes.first[r + 1]; i > c->nodes.first[r]; i--) {
    NodeId n = c->nodes.node[i - 1];
    const Node *node = graph_node(c->g, n);
    bool marks = node->op == OP_CHECKPOINT;
    if (marks && !before) before = arena_array(c->scratch, bool, c->count + 1);
    for (int k = 0; k < node->nargs && before && (before[n] || marks); k++)
      before[node->args[k]] = true;
  }
  return before;
}

static void recompute_between(Grad *c, const GradLevel *l, const bool *before) {
  for (uint32_t i = c->nodes.first[l->of]; i < c->nodes.first[l->of + 1]; i++) {
    NodeId n = c->nodes.node[i];
    if (before[n] && may_repeat(graph_node(c->g, n))) c->mirror[n] = clone_node(c, l, c->wide, n);
  }
}

// -- one loop -----------------------------------------------------------------------------------

typedef struct Backward {
  NodeId scan;
  GradLevel level;
  const bool *before; // [NodeId]: the node leads to a checkpoint in the loop; NULL: none does
  VEC(NodeId) carry;  // the carries of the loop that need gradients
  VEC(NodeId) grad;   // grad[k]: gradient of carry[k], a carry of the backward loop
} Backward;

static NodeId zeros_like(Graph *g, NodeId n) {
  return graph_zeros(g, (Dtype)graph_node(g, n)->type, graph_node(g, n)->dims);
}

// Makes the guard of the loop that b differentiates the guard of the backward loop.
static void bring_guard(Grad *c, Backward *b) {
  RegionId r = b->level.of;
  for (uint32_t i = c->nodes.first[r]; i < c->nodes.first[r + 1]; i++) {
    NodeId n = c->nodes.node[i];
    if (graph_node(c->g, n)->op != OP_CARRY || graph_node(c->g, n)->attr->carry != 0) continue;
    c->mirror[n] = brought_again(c, &b->level, n);
    return;
  }
  BUG("a guarded loop without a guard");
}

// Finds the gradients of the results of the loop that b differentiates, and makes the carries of
// the backward loop. Returns false if no result has a gradient.
static bool begin_carries(Grad *c, Backward *b) {
  const Node *scan = graph_node(c->g, b->scan);
  RegionId r = scan->attr->region;
  bool any = false;
  for (NodeId n = c->result[r]; n; n = c->later[n]) {
    const Node *end = graph_node(c->g, n);
    if (!c->adjoint[n]) continue;
    any = true;
    if (end->op == OP_FINAL) c->final[end->args[1]] = c->adjoint[n];
  }
  if (!any) return false;
  Region back = *region_get(c->g, r);
  b->level = (GradLevel){.outer = c->level, .of = r, .scan = b->scan, .recompute = back.recompute};
  b->before = back.recompute ? NULL : before_checkpoints(c, r);
  back.parent = c->level->back;
  back.reverse = !back.reverse;
  back.recompute |= b->before != NULL; // hoisting must not move recomputed values out of the loop
  b->level.back = graph_region(c->g, &back);
  if (back.guarded) bring_guard(c, b);
  for (uint32_t i = c->nodes.first[r]; i < c->nodes.first[r + 1]; i++) {
    NodeId n = c->nodes.node[i];
    if (graph_node(c->g, n)->op != OP_CARRY || !c->active[n]) continue;
    NodeId start = c->final[n] ? c->final[n] : zeros_like(c->g, n);
    vec_push(c->scratch, b->carry) = n;
    vec_push(c->scratch, b->grad) = add_carry(c, &b->level, start);
  }
  return true;
}

// Adds the gradients that are known at the start of a step of the backward loop: those of the next
// values of carries, and those of collected values.
static void begin_step(Grad *c, Backward *b) {
  for (uint32_t k = 0; k < b->carry.n; k++) {
    NodeId next = carry_next(c->g, c->scan, b->carry.at[k]);
    if (next && c->active[next]) grad_accumulate(c, next, b->grad.at[k]);
  }
  for (NodeId n = c->result[b->level.of]; n; n = c->later[n]) {
    Node end = *graph_node(c->g, n);
    if (end.op != OP_COLLECT || !c->adjoint[n]) continue;
    if (!c->active[end.args[1]] || !grad_ends_loop(c, n)) continue;
    grad_accumulate(c, end.args[1], graph_at(c->g, b->level.back, c->adjoint[n]));
  }
}

static void go_through(Grad *c, const Backward *b) {
  RegionId r = b->level.of;
  for (uint32_t i = c->nodes.first[r + 1]; i > c->nodes.first[r]; i--) {
    NodeId n = c->nodes.node[i - 1];
    Node node = *graph_node(c->g, n);
    if (node.op == OP_SCAN) {
      grad_loop(c, n);
    } else if (node.op == OP_AT) {
      if (c->adjoint[n] && c->active[node.args[0]])
        vec_push(c->scratch, c->level->term) = (GradTerm){node.args[0], c->adjoint[n], true};
    } else if (node.op != OP_CARRY) {
      grad_node(c, n);
    }
  }
}

// Returns true if the term (a part of a gradient) has the dim of the loop and is summed over all
// steps. Such a term cannot be collected, because it would have the dim twice. So a carry of the
// backward loop adds it up.
static bool adds_up(const Grad *c, const Backward *b, const GradTerm *term) {
  return !term->each &&
         dims_has(graph_node(c->g, term->term)->dims, region_get(c->g, b->level.of)->t);
}

static uint32_t number_of(const Grad *c, NodeId carry) {
  return graph_node(c->g, carry)->attr->carry;
}

static NodeId end_scan(Grad *c, Backward *b) {
  GradLevel *l = &b->level;
  NodeId *next = arena_array(c->scratch, NodeId, l->ncarries + l->term.n + 1);
  for (uint32_t k = 0; k < b->carry.n; k++) {
    NodeId d = c->adjoint[b->carry.at[k]];
    next[number_of(c, b->grad.at[k])] = d ? d : zeros_like(c->g, b->carry.at[k]);
  }
  for (uint32_t i = 0; i < b->level.term.n; i++) {
    GradTerm *term = &b->level.term.at[i];
    if (!adds_up(c, b, term)) continue;
    Dtype type = region_sum_type(c->g, b->level.back, (Dtype)graph_node(c->g, term->term)->type);
    NodeId wide = graph_cast(c->g, term->term, type), zero = zeros_like(c->g, wide);
    NodeId sum = add_carry(c, l, zero);
    next[number_of(c, sum)] = graph_binary(c->g, OP_ADD, sum, wide);
    term->term = sum;
  }
  for (uint32_t i = 0; i < l->constant.n; i++)
    next[number_of(c, l->constant.at[i])] = l->constant.at[i];
  return graph_add(c->g, OP_SCAN, (int)l->ncarries, next, &(Attr){.region = l->back});
}

static NodeId sum_of_steps(Grad *c, const Backward *b, NodeId scan, const GradTerm *term) {
  if (graph_node(c->g, term->term)->op == OP_CARRY && adds_up(c, b, term)) {
    NodeId sum = graph_add(c->g, OP_FINAL, 2, (NodeId[]){scan, term->term}, NULL);
    return graph_cast(c->g, sum, (Dtype)graph_node(c->g, term->to)->type);
  }
  NodeId steps = graph_collect(c->g, scan, term->term);
  if (term->each) return steps;
  return graph_reduce(c->g, OP_SUM, steps,
                      &(Dims){.n = 1, .at = {region_get(c->g, b->level.of)->t}});
}

static void hand_out(Grad *c, const Backward *b, NodeId scan) {
  for (uint32_t k = 0; k < b->carry.n; k++) {
    NodeId start = graph_node(c->g, b->carry.at[k])->args[0];
    if (!c->active[start]) continue;
    NodeId d = graph_add(c->g, OP_FINAL, 2, (NodeId[]){scan, b->grad.at[k]}, NULL);
    grad_accumulate(c, start, d);
  }
  for (uint32_t i = 0; i < b->level.term.n; i++) {
    const GradTerm *term = &b->level.term.at[i];
    grad_accumulate(c, term->to, sum_of_steps(c, b, scan, term));
  }
}

// Adds the backward loop of the loop that `scan` ends. Calls itself for loops inside this loop.
void grad_loop(Grad *c, NodeId scan) {
  Backward b = {.scan = scan};
  Origin origin = grad_origin(c, scan);
  c->g->origin = origin;
  if (!c->active[scan] || !begin_carries(c, &b)) return;
  c->level = &b.level;
  if (b.level.recompute)
    recompute(c, &b.level);
  else
    recompute_wide(c, &b.level);
  if (b.before) recompute_between(c, &b.level, b.before);
  c->g->origin = origin;
  begin_step(c, &b);
  go_through(c, &b);
  c->g->origin = origin;
  NodeId back = end_scan(c, &b);
  c->level = b.level.outer;
  hand_out(c, &b, back);
}

// Derivative of collect(s, x) for a loop that does not depend on the nodes `by`. x is then a value
// from outside the loop, and its gradient is the sum of dy over all steps.
void grad_collect(Grad *c) { grad_to(c, 1, c->dy); }

// Derivative of at(x) where the loss is in the same loop. The gradient of x is dy at the position
// of the current step, and zero at the other positions.
void grad_at(Grad *c) {
  Graph *g = c->g;
  NodeId index = graph_index(g, c->n.attr->dims[0]);
  NodeId here = graph_binary(g, OP_EQ, index, graph_at(g, c->n.attr->region, index));
  grad_to(c, 0, graph_where(g, here, c->dy, grad_const(c, 0)));
}
