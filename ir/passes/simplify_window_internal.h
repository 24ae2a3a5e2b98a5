// Helpers of the rules for windows. simplify_window.c simplifies relation and source;
// simplify_through.c moves windows into other ops. The relation is the affine map from positions of
// the result to positions of the source.
#ifndef IR_SIMPLIFY_WINDOW_H
#define IR_SIMPLIFY_WINDOW_H

#include "ir/passes/simplify_internal.h"

// A window that is about to be added. It reads x along dim `from`. The relation f gives the
// position in x from the positions along to[0] and to[1].
typedef struct Window {
  Graph *g;
  NodeId x;
  NodeId start; // the value that is added to the offset (WINDOW_AT), or 0
  DimId from, to[2];
  int nto;
  Affine f;
  double fill;
} Window;

// Sets *w to the window of x with the attributes t and the start node `start`, or 0. Returns false
// if one of the window's dims is a block (one processor's part of a dim).
bool window_read(Graph *g, const Attr *t, NodeId x, NodeId start, Window *w);
NodeId window_add(const Window *w);
// Returns to[1], the dim of the taps (the positions read for one element), or 0 if the window has
// no taps.
static inline DimId window_tap(const Window *w) { return w->nto > 1 ? w->to[1] : 0; }
// Composes the relations of a window `out` that reads a window `in`: s = (a (a' o + b' k + c') / d'
// + b k + c) / d, where a, b, c, d belong to `in` and a', b', c', d' to `out`. Returns false if the
// numbers become too large.
bool window_compose(const Affine *in, const Affine *out, Affine *f);
// Returns true if node p compares the positions along d with a number; *c gets the number. *first
// is true for index[d] < c, and false for c < index[d].
bool window_compares_index(const Graph *g, NodeId p, DimId d, bool *first, double *c);

// Move the window into the operation whose result it reads: a product, a sum or a choice. Return 0
// if the rule does not apply. `once`: no other node reads that result.
NodeId window_into_product(const Window *w, bool once);
NodeId window_into_sum(const Window *w, bool once);
NodeId window_into_choice(const Window *w, bool once);

static inline int64_t size_of(const Graph *g, DimId d) { return dim_get(g->dims, d)->size; }
static inline const Dims *dims_at(const Graph *g, NodeId x) { return graph_node(g, x)->dims; }

#endif
