// Minimum cut of a small network; decides where partial sums are reduced.
#ifndef PARTITION_MIN_CUT_H
#define PARTITION_MIN_CUT_H

#include "ir/base/arena.h"

typedef struct MinCut MinCut;
enum { MIN_CUT_SOURCE = 0, MIN_CUT_SINK = 1 };
#define EDGE_UNLIMITED (INT64_C(1) << 60)

// Returns a network of `vertices` vertices, source and sink included.
MinCut *min_cut_new(Arena *a, uint32_t vertices);
void min_cut_edge(MinCut *c, uint32_t from, uint32_t to, int64_t capacity);
// Computes the minimum cut of c. If there are several, takes the one with the fewest vertices on
// the side of the source. Every path from source to sink must have a finite edge.
void min_cut_run(MinCut *c);
bool min_cut_on_source_side(const MinCut *c, uint32_t v);

#endif
