// Gives the gradients of max and min, and other comparisons with a max or min, the bits that the
// result was chosen from.
//
// Such a gradient goes to the elements that are equal to the result. A contraction or a sum that is
// rematerialised may differ from the first one by rounding, because another kernel computes it:
// then no element may be equal, and the gradient is lost. So the result is rematerialised, too,
// from the same clone; where that cannot be, the elements are kept.
//
//   x = contract(a, b) (rematerialised); y = max(x); dx = where(y == x', dy / n, 0)
//   =>  y' = max(x'); dx = where(y' == x', dy / n, 0)
#include "codegen/order/remat_internal.h"
#include "codegen/values/values_internal.h"

static bool picks(const Node *n) { return n->op == OP_MAX || n->op == OP_MIN; }

// Returns the max or min whose result n is, or passes on through views and collectives; 0: none.
// *again gets whether clones compute all that lies between, too.
static NodeId extreme_of(const Graph *g, const RematLoops *l, const bool *marked, NodeId n,
                         bool *again) {
  for (*again = true;;) {
    const Node *x = graph_node(g, n);
    if (l->mirror[n]) {
      n = l->mirror[n];
      continue;
    }
    *again &= marked[n];
    if (picks(x)) return n;
    if (!x->nargs || !(op_is_view((Op)x->op) || op_row((Op)x->op)->cls == COLLECTIVE)) return 0;
    n = x->args[0];
  }
}

static bool adds_up(const Node *n) {
  OpClass cls = op_row((Op)n->op)->cls;
  return (cls == REDUCE && !picks(n)) || cls == CONTRACT || cls == ORDERED || cls == MATRIX;
}

// Returns for each node whether a clone of it may differ from it by rounding. Of max and min it may
// although they are kept: remat_ties may mark them.
static bool *find_inexact(Arena *a, const Graph *g, const bool *marked) {
  bool *inexact = arena_array(a, bool, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    inexact[n] = adds_up(x);
    for (int i = 0; i < x->nargs; i++) inexact[n] |= inexact[x->args[i]];
    inexact[n] &= marked[n] || picks(x);
  }
  return inexact;
}

static bool compares(const Node *n) {
  return n->op == OP_EQ || n->op == OP_NE || n->op == OP_LT || n->op == OP_LE;
}

void remat_ties(Arena *a, const Graph *g, const RematLoops *l, bool *marked) {
  bool *inexact = find_inexact(a, g, marked);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (!compares(node) || (remat_forward(g, l, n) && !marked[n])) continue;
    for (int i = 0; i < node->nargs; i++) {
      bool again;
      NodeId y = extreme_of(g, l, marked, node->args[i], &again);
      NodeId x = y ? graph_node(g, y)->args[0] : 0;
      if (!y || again || !inexact[x]) continue;
      if (y == node->args[i] && !graph_node(g, y)->region && remat_forward(g, l, y))
        marked[y] = true;
      else
        marked[x] = false;
    }
  }
}
