// Lowering of operations that need more than one node over block dims: windows (lower_window.c),
// cumsum, cummax and top_k (lower_ordered.c).
#ifndef PARTITION_LOWER_H
#define PARTITION_LOWER_H

#include "partition/sharding/sharding_internal.h"

// Adds and returns a scalar i32 node: the index, in the full dim, of the first element of the
// processor's block of d.
NodeId block_start(Graph *g, DimId d);
// Adds a window over block dims; attr names the dims of args[0] and of the result. If a block of
// result dim attr->to[0] reads beyond the block of source dim attr->dims[0], first adds a halo node
// with origin `halo`.
NodeId lower_window(Graph *g, int nargs, NodeId *args, Attr *attr, const Origin *halo);
// Adds and returns the conversion of x by `op` with `attr`. If x is a window that does not change
// the converted dims, the source of the window is converted instead. The source is smaller, because
// a window repeats elements.
NodeId lower_below(Graph *g, Op op, NodeId x, const Attr *attr);
// Adds and returns `op`, cumsum, cumprod or cummax, along a dim of x that is split over axes.
NodeId lower_cumulated(Graph *g, Op op, NodeId x, const Attr *attr);
// Adds and returns a top_k along a dim of x that is split over axes.
NodeId lower_top_k(Graph *g, NodeId x, const Attr *attr);

#endif
