// Finds the micro-batch of each value of a step with `accumulate`.
//
// The micro-batches follow one another in the graph (frontend/step/select_train.c). Each reads its
// rows of an input, or of a random draw, by a window at its position along the dim of
// micro-batches. A value belongs to the last micro-batch on whose rows it depends: gradients of the
// third one, and the sum of the gradients of three, to the third.
//
//   %3 = window(%1) {dims = [b.micro], offset = 2}     micro-batch 3 (counted from 1)
//   %9 = contract(%3, %8)                              3; a parameter has no micro-batch: 0
//   %12 = add(%11, %9)                                 3: the sum so far
#include "ir/graph/graph.h"

// Returns the dim along which micro-batches lie, or 0 if a step has a single one.
static DimId micro_dim(const Graph *g, Arena *a) {
  DimId over = g->spec.data[DATA_TRAIN].over;
  if (!g->spec.ntrain || g->spec.train[0].accumulate < 2 || !over) return 0;
  return dim_find(g->dims, arena_printf(a, "%s.micro", dim_get(g->dims, over)->name));
}

static bool selects(const Node *n, DimId micro) {
  return n->op == OP_WINDOW && n->attr->ndims == 1 && n->attr->nto == 0 &&
         n->attr->dims[0] == micro;
}

// Sets of[n] of each node n from its arguments, and loop[r] to the largest number of the nodes of
// loop r and of the loops in it. A node of a loop has at least the number loop[] of the call
// before.
static void pass_on(const Graph *g, DimId micro, uint32_t *of, uint32_t *loop) {
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    uint32_t part = loop[x->region];
    for (int i = 0; i < x->nargs; i++)
      if (of[x->args[i]] > part) part = of[x->args[i]];
    if (selects(x, micro) && x->attr->affine.offset + 1 > part)
      part = (uint32_t)x->attr->affine.offset + 1;
    of[n] = part;
    for (RegionId r = x->region; r; r = region_get(g, r)->parent)
      if (loop[r] < part) loop[r] = part;
  }
}

const uint32_t *graph_micro_batches(Arena *a, const Graph *g) {
  DimId micro = micro_dim(g, a);
  if (!micro) return NULL;
  uint32_t *of = arena_array(a, uint32_t, graph_count(g) + 1),
           *loop = arena_array(a, uint32_t, g->region.n + 1);
  pass_on(g, micro, of, loop);
  if (g->region.n) pass_on(g, micro, of, loop);
  return of;
}
