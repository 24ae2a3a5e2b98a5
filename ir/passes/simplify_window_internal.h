// Helpers of the rules for windows. simplify_window.c: relation and source; simplify_through.c:
// moving windows into other ops.
#ifndef IR_SIMPLIFY_WINDOW_H
#define IR_SIMPLIFY_WINDOW_H

#include "ir/passes/simplify_internal.h"

// A window that is about to be added: x read along `from` at the positions that to[0] and to[1]
// give.
typedef struct Window {
  Graph *g;
  NodeId x;
  NodeId start; // the value that is added to the offset (WINDOW_AT), or 0
  DimId from, to[2];
  int nto;
  Affine f;
  double fill;
} Window;

// Reads a window of x with the attributes t into *w. Returns false if one of its dims is a block.
bool window_read(Graph *g, const Attr *t, NodeId x, NodeId start, Window *w);
NodeId window_add(const Window *w);
// Returns the tap dim to[1], or 0.
static inline DimId window_tap(const Window *w) { return w->nto > 1 ? w->to[1] : 0; }
// Composes two relations: s = (a (a' o' + b' k + c') / d' + b k + c) / d. Returns false if the
// numbers become too large.
bool window_compose(const Affine *in, const Affine *out, Affine *f);
// Returns true if node p compares positions along d with a number *c. *first: index[d] < c, else c
// < index[d].
bool window_compares_index(const Graph *g, NodeId p, DimId d, bool *first, double *c);

// Moves the window into the op that it reads. Returns 0 if no rule applies. `once`: no other node
// uses x.
NodeId window_into_product(const Window *w, bool once);
NodeId window_into_sum(const Window *w, bool once);
NodeId window_into_choice(const Window *w, bool once);

static inline int64_t size_of(const Graph *g, DimId d) { return dim_get(g->dims, d)->size; }
static inline const Dims *dims_at(const Graph *g, NodeId x) { return &graph_node(g, x)->dims; }

#endif
