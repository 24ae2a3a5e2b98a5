// Lowering of operations that need more than one node over block dims: windows (lower_window.c),
// cumsum, cummax and top_k (lower_ordered.c).
#ifndef PARTITION_LOWER_H
#define PARTITION_LOWER_H

#include "partition/sharding/sharding_internal.h"

// Adds a scalar node, i32: the first global index of the block of d that the processor has.
NodeId block_start(Graph *g, DimId d);
// Adds a window over block dims: attr names the dims of args[0] and of the result. If the block of
// to[0] reads beyond the block of dims[0], adds a halo node with origin `halo`.
NodeId lower_window(Graph *g, int nargs, NodeId *args, Attr *attr, const Origin *halo);
// Adds the conversion `op` with `attr` to x. If x is a window that does not change the converted
// dims, the source of the window is converted instead: it is smaller, because a window repeats
// elements.
NodeId lower_below(Graph *g, Op op, NodeId x, const Attr *attr);
// Adds `op`, cumsum or cummax, along a dim of x that is split.
NodeId lower_cumulated(Graph *g, Op op, NodeId x, const Attr *attr);
// Adds top_k along a dim of x that is split.
NodeId lower_top_k(Graph *g, NodeId x, const Attr *attr);

#endif
