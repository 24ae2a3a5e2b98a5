// Parts of lower.c: operations over block dims that need more than one node.
#ifndef PARTITION_LOWER_H
#define PARTITION_LOWER_H

#include "partition/sharding/sharding_internal.h"

// The first global index of the own block of d as an i32 scalar.
NodeId block_start(Graph *g, DimId d);
// A window over block dims: attr names the dims of args[0] and of the result. Brings in what the
// own block of to[0] reads beyond the own block of dims[0], as a node of origin `halo`.
NodeId lower_window(Graph *g, int nargs, NodeId *args, Attr *attr, const Origin *halo);
// op with attr over x (a conversion that gives every element to whoever lacks it), put below the
// windows that x is made of where these pass its dims through, so that patches are never moved.
NodeId lower_below(Graph *g, Op op, NodeId x, const Attr *attr);
// cumsum, cummax and top_k along a dim that axes cut.
NodeId lower_cumulated(Graph *g, Op op, NodeId x, const Attr *attr);
NodeId lower_top_k(Graph *g, NodeId x, const Attr *attr);

#endif
