// Recomputation: what stands between checkpoints, and what a budget of memory has no room for
// (remat_marks.c), is computed again for the backward pass.
//
// A forward value that is marked is not kept: gradients read a clone of it, made of clones back to
// the checkpoint, parameter, input or collective result before, which are kept. Draws are drawn
// again, by the same key: they are equal. Clones bear an instance number, so that they never merge
// with what they are clones of; they stand before the first gradient that reads one of them, and
// the schedule computes them no earlier than it must.
//
//   c = checkpoint(x); y = f(c); z = g(y); d = checkpoint(z); ... dy = dz * y
//   =>  y' = f(c); dy = dz * y'
//
// What a loop saves of its steps is computed again step by step, in the loop that goes back through
// it (remat_loops.c), from carries and whatever else is saved of the same step.
//
//   loop 1: h = carry(h0); y = f(h, at(x)); collect(y)     loop 2: dz * at(collect(y))
//   =>  loop 1: h = carry(h0); y = f(h, at(x)); collect(h)     loop 2: y' = f(at(collect(h)), at(x)); dz * y'
//
// Loops themselves and what they hand out are kept (scan t (..., checkpoint = true) is a matter of
// gradients).
#include "codegen/order/remat_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct CloneSite { // of a node, in a loop
  NodeId of;
  RegionId in;
} CloneSite;
typedef VEC(CloneSite) CloneSites;
typedef struct Remat {
  Arena *a;
  const Graph *from;
  Graph *to;
  const RematLoops *loops;
  bool *marked;   // by node: gradients read a clone
  NodeId *map;    // by node
  NodeId **clone; // by region that clones stand in, then by node
} Remat;

static RegionId region_of(const Remat *r, NodeId n) { return graph_node(r->from, n)->region; }
static RegionId around(const Remat *r, RegionId in) { return region_get(r->from, in)->parent; }

static int by_id(const void *x, const void *y) {
  const CloneSite *a = x, *b = y;
  if (a->of != b->of) return a->of < b->of ? -1 : 1;
  return a->in < b->in ? -1 : a->in > b->in;
}

// -- a forward value as it is seen from region `from` -------------------------------------------

static RegionId seen_in(const Remat *r, NodeId n, RegionId from) {
  bool seen;
  RegionId in = remat_seen_in(r->from, r->loops, region_of(r, n), from, &seen);
  if (!seen) BUG("%%%u is not seen from loop %u", n, from);
  return in;
}

static NodeId at(Remat *r, RegionId in, NodeId x) {
  DimId t = region_get(r->to, in)->t;
  return graph_add(r->to, OP_AT, 1, &x, &(Attr){.ndims = 1, .dims = &t, .region = in});
}

// Value x of the new graph, of a forward loop, at the step of the loop that goes back through it.
// As deep as loops are.
static NodeId collected(Remat *r, NodeId x, RegionId in) {
  RegionId loop = graph_node(r->to, x)->region, outside = region_get(r->to, loop)->parent,
           next = around(r, in);
  DimId t = region_get(r->to, loop)->t;
  NodeId all = graph_add(r->to, OP_COLLECT, 2, (NodeId[]){r->map[r->loops->scan[loop]], x},
                         &(Attr){.ndims = 1, .dims = &t});
  return at(r, in, region_encloses(r->to, outside, next) ? all : collected(r, all, next));
}

static NodeId value(Remat *r, NodeId n, RegionId from) {
  RegionId in = seen_in(r, n, from);
  const Node *node = graph_node(r->from, n);
  if (r->marked[n]) return r->clone[in][n];
  if (in == node->region) return r->map[n];
  return node->op == OP_AT ? at(r, in, value(r, node->args[0], around(r, in)))
                           : collected(r, r->map[n], in);
}

// -- clones -------------------------------------------------------------------------------------

static void clone_one(Remat *r, CloneSite c) {
  const Node *node = graph_node(r->from, c.of);
  NodeId args[MAX_ARGS];
  char why[200];
  for (int i = 0; i < node->nargs; i++) args[i] = value(r, node->args[i], c.in);
  r->to->origin = node->origin;
  r->to->origin.backward = true;
  bool moves = op_row((Op)node->op)->cls == COLLECTIVE && node->origin.why;
  r->to->origin.why =
      moves
          ? arena_printf(r->a,
                         "%s; rematerialised for the backward pass: memory is too short to keep it",
                         node->origin.why)
          : "remat: rematerialised";
  NodeId made = graph_try(r->to, (Op)node->op, node->nargs, args, &node->attr,
                          (uint16_t)(node->instance + 1), why);
  if (!made) BUG("clone of %%%u: %s", c.of, why);
  r->clone[c.in][c.of] = made;
}

// Notes the clone that `from` sees of n, or of what n is a step of.
static void need(Remat *r, NodeId n, RegionId from, CloneSites *todo) {
  for (;; n = graph_node(r->from, n)->args[0]) {
    RegionId in = seen_in(r, n, from);
    if (!r->marked[n]) {
      if (in == region_of(r, n) || graph_node(r->from, n)->op != OP_AT) return;
      from = around(r, in);
      continue;
    }
    if (!r->clone[in]) r->clone[in] = arena_array(r->a, NodeId, graph_count(r->from) + 1);
    if (!r->clone[in][n]) vec_push(r->a, *todo) = (CloneSite){n, in};
    return;
  }
}

// The clone of n and of all it takes, oldest first.
static void clone_cone(Remat *r, NodeId root, RegionId from) {
  CloneSites todo = {0}, cone = {0};
  need(r, root, from, &todo);
  while (todo.n) {
    CloneSite c = todo.at[--todo.n];
    const Node *node = graph_node(r->from, c.of);
    if (r->clone[c.in][c.of]) continue;
    r->clone[c.in][c.of] = c.of; // it is in the cone
    vec_push(r->a, cone) = c;
    for (int i = 0; i < node->nargs; i++) need(r, node->args[i], c.in, &todo);
  }
  if (cone.n) qsort(cone.at, cone.n, sizeof *cone.at, by_id);
  for (uint32_t i = 0; i < cone.n; i++) clone_one(r, cone.at[i]);
}

// -- the backward pass --------------------------------------------------------------------------

// What step n of a value of a forward loop is, when that is computed again: its clone under the
// same names.
static NodeId rematerialise_step(Remat *r, NodeId n) {
  const Node *node = graph_node(r->from, n), *x;
  VEC(const Node *) renamed = {0};
  for (NodeId k = node->args[0]; (x = graph_node(r->from, k))->op == OP_RENAME; k = x->args[0])
    vec_push(r->a, renamed) = x;
  clone_cone(r, r->loops->mirror[n], node->region);
  NodeId marked = value(r, r->loops->mirror[n], node->region);
  while (renamed.n) {
    const Node *rename = renamed.at[--renamed.n];
    r->to->origin = rename->origin;
    marked = graph_add(r->to, OP_RENAME, 1, &marked, &rename->attr);
  }
  return marked;
}

static void copy_backward(Remat *r, NodeId n) {
  const Node *node = graph_node(r->from, n);
  NodeId was[MAX_ARGS];
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    was[i] = r->map[arg];
    if (node->op != OP_COLLECT && r->marked[arg]) clone_cone(r, arg, node->region);
  }
  for (int i = 0; i < node->nargs; i++)
    if (node->op != OP_COLLECT && r->marked[node->args[i]])
      r->map[node->args[i]] = value(r, node->args[i], node->region);
  r->map[n] = graph_copy(r->to, r->from, n, r->map);
  for (int i = node->nargs; i-- > 0;) r->map[node->args[i]] = was[i];
}

static void copy_node(Remat *r, NodeId n) {
  if (remat_forward(r->from, r->loops, n))
    r->map[n] = graph_copy(r->to, r->from, n, r->map);
  else if (r->loops->mirror[n] && r->marked[r->loops->mirror[n]])
    r->map[n] = rematerialise_step(r, n);
  else
    copy_backward(r, n);
}

const Graph *remat(Arena *a, const Graph *whole, int level) {
  RematLevel what = remat_level(a, whole, level);
  const Graph *g = what.steps ? remat_unhoist(a, whole) : whole;
  uint32_t count = graph_count(g);
  RematLoops loops = remat_loops(a, g);
  Remat r = {.a = a, .from = g, .loops = &loops, .marked = arena_array(a, bool, count + 1)};
  if (!remat_mark(a, g, &loops, &what, r.marked)) return g;
  r.to = graph_like(a, g, g->stage);
  r.map = arena_array(a, NodeId, count + 1);
  r.clone = arena_array(a, NodeId *, g->region.n + 1);
  for (NodeId n = 1; n <= count; n++) {
    bug_context("remat", n);
    copy_node(&r, n);
  }
  for (uint32_t i = 0; i < g->output.n; i++) {
    Output o = g->output.at[i];
    o.value = r.map[o.value];
    vec_push(a, r.to->output) = o;
  }
  return graph_prune_in_place(a, r.to, g->stage);
}
