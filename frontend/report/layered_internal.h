// Private: the data of a layered drawing under construction. Boxes and bends of long edges are
// nodes of layers.
#ifndef FRONTEND_LAYERED_INTERNAL_H
#define FRONTEND_LAYERED_INTERNAL_H

#include "frontend/report/layered.h"

// A box or a bend. `up` and `down` are its neighbours in the layers above and below.
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
  LayerNode *node; // boxes first, by their numbers, then bends
  uint32_t *size;  // number of nodes in each layer
  uint32_t **at;   // nodes of each layer, from the left
} Layers;

// layered_order.c: orders the nodes of each layer so that few links cross.
void layers_order(Layers *l);
// layered_place.c: finds x of every node. The nodes of a layer keep their order and a gap.
void layers_place(Layers *l);

#endif
