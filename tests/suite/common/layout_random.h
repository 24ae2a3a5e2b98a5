// What the files of random graphs share (layout_random.c, layout_random_more.c,
// layout_random_functions.c). A function that
// adds an operation takes two nodes of f32 that it may read; it returns a node of f32, or 0 if it
// has none for them.
#ifndef TESTS_SUITE_COMMON_LAYOUT_RANDOM_H
#define TESTS_SUITE_COMMON_LAYOUT_RANDOM_H

#include "tests/suite/common/layout_maker.h"

typedef NodeId Grow(Maker *m, NodeId x, NodeId y);

// Adds a random operation, or a loop with several.
Grow random_node;
// Adds an operation of another type than f32, an operation on matrices, a guarded region, a loop
// that ends early, or a function of layout_random_functions.c.
Grow random_more;
// Adds a Fourier transform of x, or of its real and imaginary parts along the dim `two`.
Grow random_transform;
// Returns x if it has the dim d and not e; otherwise x with d in place of e, or plus quarters of
// positions along d. Returns 0 if x has both, is too large, or is
// in a loop over such a dim.
NodeId random_rows(Maker *m, NodeId x);
// Adds a factor of a matrix that is made from x: of its QR decomposition or singular value
// decomposition, or its eigenvectors or eigenvalues.
Grow random_factors;

// Returns a random one of the dims s, of which there is at least one.
DimId random_dim(Maker *m, const Dims *s);
// Returns whether a result over the dims of both nodes is small enough for a random graph.
bool random_fits(Maker *m, NodeId x, NodeId y);
// Returns true if a loop over t can be in region r: no loop around it runs over t.
bool random_loop_fits(Maker *m, RegionId r, DimId t);
// Returns a start for a carry over `dims`: zeros, ones, y, or a mean of x along t.
NodeId random_start(Maker *m, const Dims *dims, NodeId x, NodeId y, DimId t);
// Returns a next value for a carry over `dims`, from any value of the loop: half of the carry plus
// the mean of the value.
NodeId random_next(Maker *m, NodeId carry, NodeId z);
// Returns a quarter of x, so that values do not grow along a graph.
NodeId random_scaled(Maker *m, NodeId x);

#endif
