// Private: the data of a layered drawing under construction. Boxes and bends of long edges are
// nodes of layers.
#ifndef FRONTEND_LAYERED_INTERNAL_H
#define FRONTEND_LAYERED_INTERNAL_H

#include "frontend/report/layered.h"

// A node of a layer: a box, or a bend where an edge passes the layer. A link is the part of an edge
// between two adjacent layers. `up` and `down` are the nodes of the layers above and below that
// links join to this node.
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

// Orders the nodes (boxes and bends) of each layer so that few links between adjacent layers cross.
// In layered_order.c.
void layers_order(Layers *l);
// Sets x, the horizontal middle, of every node (box or bend). Keeps the order of the nodes in each
// layer, and gaps between them. In layered_place.c.
void layers_place(Layers *l);

#endif
