// What the parts of a layered drawing share: boxes and bends of long edges as nodes of layers.
#ifndef FRONTEND_LAYERED_INTERNAL_H
#define FRONTEND_LAYERED_INTERNAL_H

#include "frontend/report/layered.h"

// `up` and `down` are nodes of the layer above and of the layer below.
typedef struct LayerNode {
  uint32_t layer, place; // place: from the left
  bool bend;
  double width, x; // x: of its middle
  uint32_t nup, ndown;
  uint32_t *up, *down;
} LayerNode;

typedef struct Layers {
  Arena *a;
  uint32_t n, nlayers;
  LayerNode *node; // boxes first, by their numbers
  uint32_t *size;  // of each layer
  uint32_t **at;   // nodes of each layer, from the left
} Layers;

// layered_order.c: an order of each layer with few crossings.
void layers_order(Layers *l);
// layered_place.c: x of every node; nodes of a layer keep their order and a gap.
void layers_place(Layers *l);

#endif
