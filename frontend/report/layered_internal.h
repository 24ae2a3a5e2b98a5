// Private: the data of a layered drawing under construction. Boxes and bends of long edges are
// nodes of layers.
#ifndef FRONTEND_LAYERED_INTERNAL_H
#define FRONTEND_LAYERED_INTERNAL_H

#include "frontend/report/layered.h"

// A box or a bend. `up` and `down` are the nodes that a link joins to it, in the layers above and
// below. A link is the part of an edge between two adjacent layers.
typedef struct LayerNode {
  uint32_t layer, place; // place: index in the layer, from the left
  bool bend;
  double width, x; // in pixels; x is the middle of the node
  uint32_t nup, ndown;
  uint32_t *up, *down;
} LayerNode;

typedef struct Layers {
  Arena *a;
  uint32_t n, nlayers;
  LayerNode *node; // node i is box i; the bends follow the boxes
  uint32_t *size;  // number of nodes in each layer
  uint32_t **at;   // indices into `node` of the nodes of each layer, from the left
} Layers;

// layered_order.c: orders the nodes of each layer so that few links cross.
void layers_order(Layers *l);
// layered_place.c: sets x of every node. Keeps the order of each layer, and gaps between its nodes.
void layers_place(Layers *l);

#endif
