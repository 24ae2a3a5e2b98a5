// Finds nodes that recompute a value: copies of rematerialisation (remat.c), and those of the
// body of a loop in its backward loop (ir/passes/grad_region.c).
//
// Sums in another order round differently, and a model must give the same results whatever is
// recomputed. So orders are chosen as if each value was computed once: a node that recomputes it
// requests nothing, costs nothing, and has the order of the first node with this value.
//
//   %5 = exp(%4)   %9 = exp(%4) {instance = 1}                          %9 recomputes %5
//   in the backward loop:  at(collect(h)) has the value of h
#include "codegen/order/order_internal.h"
#include "ir/base/hash.h"

#include <string.h>

typedef struct Values {
  const Graph *g;
  NodeId *of;   // by node: the first node with the same value
  NodeId *slot; // hash table of first nodes
  uint32_t cap; // a power of two
} Values;

// Returns the first node with the value of argument i of node n. The arguments of an op that
// commutes count in the order of these nodes: a copy may have them the other way round.
static NodeId argument_value(const Values *v, const Node *n, int i) {
  bool turned =
      op_row((Op)n->op)->flags & COMMUTES && n->nargs == 2 && v->of[n->args[0]] > v->of[n->args[1]];
  return v->of[n->args[turned ? 1 - i : i]];
}

// Nodes that differ in their attributes alone, such as the micro-batches of one input, have
// different hashes. Of an AT the loop does not count.
static uint64_t value_hash(const Values *v, const Node *n) {
  uint64_t h = hash_word(FNV_START, n->op);
  h = hash_word(h, n->op == OP_AT ? n->attr->dims[0] : n->attr_hash);
  for (int i = 0; i < n->nargs; i++) h = hash_word(h, argument_value(v, n, i));
  return hash_bytes(h, n->dims->at, (size_t)n->dims->n * sizeof *n->dims->at);
}

static bool value_equal(const Values *v, const Node *x, const Node *y) {
  bool same = x->op == y->op && x->type == y->type && x->nargs == y->nargs;
  for (int i = 0; i < x->nargs && same; i++)
    same = argument_value(v, x, i) == argument_value(v, y, i);
  if (!same || x->op != OP_AT) return same && attr_equal(x->attr, y->attr);
  return x->attr->dims[0] == y->attr->dims[0]; // the loops may differ
}

// Returns the first node with the op, the attributes and the arguments of node n.
static NodeId value_find(Values *v, NodeId n) {
  const Node *x = graph_node(v->g, n);
  uint32_t i = (uint32_t)value_hash(v, x) & (v->cap - 1);
  while (v->slot[i] && !value_equal(v, graph_node(v->g, v->slot[i]), x)) i = (i + 1) & (v->cap - 1);
  if (!v->slot[i]) v->slot[i] = n;
  return v->slot[i];
}

static NodeId value_of(Values *v, NodeId n) {
  const Node *x = graph_node(v->g, n);
  if (op_is_mark((Op)x->op)) return v->of[x->args[0]];
  const Node *all = x->op == OP_AT ? graph_node(v->g, v->of[x->args[0]]) : NULL;
  if (all && all->op == OP_COLLECT && all->attr->dims[0] == x->attr->dims[0])
    return v->of[all->args[1]];
  return value_find(v, n);
}

static bool is_copy(const Graph *g, const Node *x) {
  if (op_row((Op)x->op)->cls == REGION || op_is_mark((Op)x->op)) return false;
  return x->instance || (x->origin->backward && x->region && region_get(g, x->region)->recompute);
}

static bool has_copies(const Graph *g) {
  bool any = false;
  for (NodeId n = 1; n <= graph_count(g) && !any; n++)
    any = is_copy(g, graph_node(g, n)) || op_is_mark((Op)graph_node(g, n)->op);
  return any;
}

const NodeId *order_first(Arena *a, const Graph *g) {
  uint32_t count = graph_count(g);
  if (!has_copies(g)) return NULL;
  Values v = {.g = g, .of = arena_array(a, NodeId, count + 1), .cap = 256};
  while (v.cap < 2 * count) v.cap *= 2;
  v.slot = arena_array(a, NodeId, v.cap);
  for (NodeId n = 1; n <= count; n++) v.of[n] = value_of(&v, n);
  for (NodeId n = 1; n <= count; n++) {
    const Node *x = graph_node(g, n);
    if (op_is_mark((Op)x->op))
      v.of[n] = v.of[x->args[0]];
    else if (!is_copy(g, x))
      v.of[n] = n;
  }
  return v.of;
}
