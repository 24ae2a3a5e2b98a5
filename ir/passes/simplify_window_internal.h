// What the rules about windows share (simplify_window.c: the relation; simplify_through.c: what
// stands around it).
#ifndef IR_SIMPLIFY_WINDOW_H
#define IR_SIMPLIFY_WINDOW_H

#include "ir/passes/simplify_internal.h"

// A window about to be added: x read along `from` at the places of to[0] and to[1].
typedef struct Window {
  Graph *g;
  NodeId x, start; // start 0: known
  DimId from, to[2];
  int nto;
  Affine f;
  double fill;
} Window;

// A window of x with the attributes t; false when one of its dims is a block.
bool window_read(Graph *g, const Attr *t, NodeId x, NodeId start, Window *w);
NodeId window_add(const Window *w);
// The dim to[1], or 0.
static inline DimId window_tap(const Window *w) { return w->nto > 1 ? w->to[1] : 0; }
// s = (a (a' o' + b' k + c') / d' + b k + c) / d as one relation; false when its numbers are too
// large.
bool window_compose(const Affine *in, const Affine *out, Affine *f);
// Whether node p compares positions along d with a number *c; *first: index[d] < c, else c <
// index[d].
bool window_compares_index(const Graph *g, NodeId p, DimId d, bool *first, double *c);

// The window with what it reads moved out of it; 0: no rule applies. `once`: nobody else uses x.
NodeId window_into_product(const Window *w, bool once);
NodeId window_into_sum(const Window *w, bool once);
NodeId window_into_choice(const Window *w, bool once);

static inline int64_t size_of(const Graph *g, DimId d) { return dim_get(g->dims, d)->size; }
static inline const Dims *dims_at(const Graph *g, NodeId x) { return &graph_node(g, x)->dims; }

#endif
