// Draws directed graphs in layers: each box is below all boxes that lead to it, and edges do not
// cross boxes.
//
// The method is that of Sugiyama, Tagawa and Toda (1981) in the form of Gansner, Koutsofios, North
// and Vo (1993). Its steps: ranks, a bend in every layer that a long edge passes, an order with few
// crossings in each layer, coordinates.
#ifndef FRONTEND_LAYERED_H
#define FRONTEND_LAYERED_H

#include "ir/base/arena.h"

typedef struct DrawnPoint {
  double x, y;
} DrawnPoint;

typedef struct DrawnBox {
  double width, height; // input, in pixels
  double x, y;          // result: the upper left corner
  uint32_t layer;       // result: from 0 at the top
} DrawnBox;

// The points lead from the lower side of the upper box to the upper side of the lower box. They
// alternate between a vertical line within a layer and a connection of two layers. Draw a
// connection as a straight line, or as a curve that is vertical at both ends. There are npoints / 2
// vertical lines.
typedef struct DrawnEdge {
  uint32_t from, to; // input: indices into Drawn.box
  bool against;      // result: true if the edge leads up, so that `to` is the upper box
  uint32_t npoints;  // result; 0: the edge leads from a box to itself and is not drawn
  uint32_t shared;   // result: the first `shared` points are also those of an earlier edge from
                     // this box; draw them once
  DrawnPoint *point;
} DrawnEdge;

typedef struct Drawn {
  uint32_t nboxes, nedges;
  DrawnBox *box;
  DrawnEdge *edge;
  double most_width;    // input, in pixels: a wider layer of several boxes is divided
  double width, height; // result, in pixels
} Drawn;

// LAYERED_MOST is the largest number of boxes and bends in a drawing. With more of them,
// layered_draw returns false without results. Otherwise it computes the results in all boxes and
// edges of d, with points allocated from `a`. The same graph always gives the same drawing.
enum { LAYERED_MOST = 100000 };
MUST_USE bool layered_draw(Arena *a, Drawn *d);

#endif
