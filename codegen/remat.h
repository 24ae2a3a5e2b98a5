// What remat.c (clones) and remat_marks.c (of what) share. Private to the room.
#ifndef CODEGEN_REMAT_H
#define CODEGEN_REMAT_H

#include "codegen/codegen.h"

// again[n]: gradients read a clone of n. Levels as remat_more has them. False: of nothing.
bool remat_mark(Arena *a, const Graph *g, int level, bool *again);

#endif
