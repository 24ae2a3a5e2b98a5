// Minimum cut of a small network; decides where partial sums are reduced.
#ifndef PARTITION_CUT_H
#define PARTITION_CUT_H

#include "ir/base/arena.h"

typedef struct Cut Cut;
enum { CUT_SOURCE = 0, CUT_SINK = 1 };
#define CUT_INFINITE (INT64_C(1) << 60)

// A network of that many vertices, source and sink included.
Cut *cut_new(Arena *a, uint32_t vertices);
void cut_edge(Cut *c, uint32_t from, uint32_t to, int64_t capacity);
// Afterwards the source side is the smallest of all minimum cuts. Every path from source to sink
// must have a finite edge.
void cut_run(Cut *c);
bool cut_on_source_side(const Cut *c, uint32_t v);

#endif
