// What the files of random graphs share (layout_random.c, layout_random_more.c). A function that
// adds an operation takes two nodes of f32 that it may read; it returns a node of f32, or 0 if it
// has none for them.
#ifndef TESTS_SUITE_COMMON_LAYOUT_RANDOM_H
#define TESTS_SUITE_COMMON_LAYOUT_RANDOM_H

#include "tests/suite/common/layout_maker.h"

typedef NodeId Grow(Maker *m, NodeId x, NodeId y);

// Adds a random operation, or a loop with several.
Grow random_node;
// Adds an operation of another type than f32, an operation on matrices or a guarded region.
Grow random_more;

// Returns a random one of the dims s, of which there is at least one.
DimId random_dim(Maker *m, const Dims *s);
// Returns whether a result over the dims of both nodes is small enough for a random graph.
bool random_fits(Maker *m, NodeId x, NodeId y);
// Returns a quarter of x, so that values do not grow along a graph.
NodeId random_scaled(Maker *m, NodeId x);

#endif
