// Private: what select.c and select_eval.c share.
#ifndef FRONTEND_SELECT_H
#define FRONTEND_SELECT_H

#include "frontend/frontend.h"

// The part of the model that n roots need, in a graph of its own that can grow; `training` is
// folded to a constant. map: old node -> new node, 0 for those dropped.
Graph *select_copy(const Model *m, bool training, uint32_t n, const NodeId *roots, NodeId **map);
// Adds an OUT_VALUE of node v whose axes stand as the name states them, else in ascending order.
void select_output(Graph *g, const char *as, NodeId v, const Name *name);

#endif
