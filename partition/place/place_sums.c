// Finds the sums of gradients over micro-batches (`accumulate`). They and what they add get the
// request of the gradient: the sharding that layout rules ask for.
//
// Where no rule splits the gradient, each processor adds partial sums, whole gradients, and their
// total is reduced once a step. Where a rule does, the gradient of each micro-batch is reduced
// before it is added, so that a processor has only its shard of the sum (place_reduce.c):
//
//   s2 = c1 + c2;  s3 = s2 + c3;  grad(w) = s3 / 3      c1, c2, c3: partial, b is split over rows
//   optimizer: all -> rows    s2 = c1 + c2;  s3 = s2 + c3;  grad(w) = reduce_scatter(s3) / 3
//   gradients: all -> rows    s2 = reduce_scatter(c1) + reduce_scatter(c2);  ...
#include "partition/sharding/sharding_internal.h"

typedef struct Sums {
  PlaceGraph *p;
  const Graph *g;
  const uint32_t *part; // by node: its micro-batch (graph_micro_batches)
  bool *seen;           // by node: it was visited
  VEC(NodeId) todo;     // nodes that are still to be visited
} Sums;

// Returns a bit for each argument of n whose multiple, or whose sum with others, n is.
static unsigned addends(const Sums *s, const Node *n) {
  switch (n->op) {
  case OP_ADD:
  case OP_SUB: return 3;
  case OP_CAST:
  case OP_NEG:
  case OP_DIV: return 1;
  case OP_MUL: return s->part[n->args[0]] ? 1 : 2;
  default: return 0;
  }
}

// Returns whether n adds values of two micro-batches.
static bool adds_parts(const Sums *s, const Node *n) {
  uint32_t x = n->nargs == 2 ? s->part[n->args[0]] : 0, y = n->nargs == 2 ? s->part[n->args[1]] : 0;
  return (n->op == OP_ADD || n->op == OP_SUB) && x && y && x != y;
}

// Makes node n a sum over micro-batches of gradient `of`.
static void set_sum(Sums *s, NodeId n, NodeId of) {
  const Node *node = graph_node(s->g, n);
  Subject *subject = s->p->subject;
  s->p->sums[n] = true;
  for (int i = -1; i < node->nargs; i++) {
    NodeId x = i < 0 ? n : node->args[i];
    if (i >= 0 && (subject[x].name || graph_node(s->g, x)->region)) continue;
    Dims dims = subject[x].dims;
    subject[x] = subject[of];
    subject[x].dims = dims;
  }
}

// Finds the additions over micro-batches whose last result is gradient `of`.
static void find_sums_of(Sums *s, Arena *a, NodeId of) {
  s->todo.n = 0;
  vec_push(a, s->todo) = of;
  while (s->todo.n) {
    NodeId n = s->todo.at[--s->todo.n];
    const Node *node = graph_node(s->g, n);
    if (s->seen[n] || !s->part[n] || node->region) continue;
    s->seen[n] = true;
    if (adds_parts(s, node)) set_sum(s, n, of);
    unsigned args = addends(s, node);
    for (int i = 0; i < node->nargs; i++)
      if (args >> i & 1) vec_push(a, s->todo) = node->args[i];
  }
}

void place_find_sums(PlaceGraph *p, Arena *a, const Graph *g) {
  Arena *scratch = arena_new();
  Sums s = {.p = p, .g = g, .part = graph_micro_batches(scratch, g)};
  p->sums = arena_array(a, bool, graph_count(g) + 1);
  s.seen = arena_array(scratch, bool, graph_count(g) + 1);
  for (NodeId n = graph_count(g); n >= 1 && s.part; n--)
    if (p->subject[n].scope == LAYOUT_GRADIENTS && !p->sums[n]) find_sums_of(&s, scratch, n);
  arena_free(scratch);
}
