// Recomputation: what stands between checkpoints, and what a budget of memory has no room for (remat_marks.c), is
// computed again for the backward pass.
//
// A forward value that is marked is not kept: gradients read a clone of it, made of clones back to the
// checkpoint, parameter, input or collective result before, which are kept. Draws are drawn again, by the same key:
// they are equal. Clones bear an instance number, so that they never merge with what they are clones of; they
// stand before the first gradient that reads one of them, and the schedule computes them no earlier than it must.
//
//   c = checkpoint(x); y = f(c); z = g(y); d = checkpoint(z); ... dy = dz * y
//   =>  y' = f(c); dy = dz * y'
//
// Loops and what they hand out are kept (scan t (..., checkpoint = true) is a matter of gradients).
#include "codegen/remat.h"

#include <stdlib.h>
#include <string.h>

typedef VEC(NodeId) Nodes;
typedef struct Remat {
  Arena *a;
  const Graph *from;
  Graph *to;
  bool *again;          // by node: gradients read a clone
  NodeId *map, *clone;  // by node
} Remat;

static int by_id(const void *x, const void *y) {
  NodeId a = *(const NodeId *)x, b = *(const NodeId *)y;
  return a < b ? -1 : a > b;
}

static void clone_one(Remat *r, NodeId n) {
  const Node *node = graph_node(r->from, n);
  NodeId args[MAX_ARGS];
  char why[200];
  for (int i = 0; i < node->nargs; i++) args[i] = r->again[node->args[i]] ? r->clone[node->args[i]] : r->map[node->args[i]];
  r->to->origin = node->origin;
  r->to->origin.backward = true;
  bool moves = op_row((Op)node->op)->cls == COLLECTIVE && node->origin.why;
  r->to->origin.why = moves ? arena_printf(r->a, "%s; again for the backward pass: memory is too short to keep it", node->origin.why)
                            : "remat: computed again";
  r->clone[n] = graph_try(r->to, (Op)node->op, node->nargs, args, &node->attr, (uint16_t)(node->instance + 1), why);
  if (!r->clone[n]) BUG("clone of %%%u: %s", n, why);
}

// The clone of n and of all it takes, oldest first.
static void clone_cone(Remat *r, NodeId root) {
  Nodes todo = {0}, cone = {0};
  vec_push(r->a, todo) = root;
  while (todo.n) {
    NodeId n = todo.at[--todo.n];
    const Node *node = graph_node(r->from, n);
    if (r->clone[n]) continue;
    r->clone[n] = n; // it is in the cone
    vec_push(r->a, cone) = n;
    for (int i = 0; i < node->nargs; i++)
      if (r->again[node->args[i]]) vec_push(r->a, todo) = node->args[i];
  }
  if (cone.n) qsort(cone.at, cone.n, sizeof *cone.at, by_id);
  for (uint32_t i = 0; i < cone.n; i++) clone_one(r, cone.at[i]);
}

static void copy_node(Remat *r, NodeId n) {
  const Node *node = graph_node(r->from, n);
  NodeId was[MAX_ARGS];
  if (!node->origin.backward) {
    r->map[n] = graph_copy(r->to, r->from, n, r->map);
    return;
  }
  for (int i = 0; i < node->nargs; i++) {
    NodeId arg = node->args[i];
    was[i] = r->map[arg];
    if (!r->again[arg]) continue;
    clone_cone(r, arg);
  }
  for (int i = 0; i < node->nargs; i++)
    if (r->again[node->args[i]]) r->map[node->args[i]] = r->clone[node->args[i]];
  r->map[n] = graph_copy(r->to, r->from, n, r->map);
  for (int i = node->nargs; i-- > 0;) r->map[node->args[i]] = was[i];
}

const Graph *remat(Arena *a, const Graph *g) { return remat_more(a, g, 0); }

const Graph *remat_more(Arena *a, const Graph *g, int level) {
  uint32_t count = graph_count(g);
  Remat r = {.a = a, .from = g, .again = arena_array(a, bool, count + 1)};
  if (!remat_mark(a, g, level, r.again)) return g;
  r.to = graph_like(a, g, g->stage);
  r.map = arena_array(a, NodeId, count + 1);
  r.clone = arena_array(a, NodeId, count + 1);
  for (NodeId n = 1; n <= count; n++) {
    bug_context("remat", n);
    copy_node(&r, n);
  }
  for (uint32_t i = 0; i < g->output.n; i++) {
    Output o = g->output.at[i];
    o.value = r.map[o.value];
    vec_push(a, r.to->output) = o;
  }
  return graph_trim(a, r.to, g->stage);
}
