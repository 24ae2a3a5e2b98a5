// Layered drawings of directed graphs: boxes in layers, each below all that lead to it, and edges
// that cross no box.
//
// The method is that of Sugiyama, Tagawa and Toda (1981) in the form of Gansner, Koutsofios, North
// and Vo (1993): ranks, a bend in every layer that a long edge passes, an order with few crossings
// in each layer, then coordinates.
#ifndef FRONTEND_LAYERED_H
#define FRONTEND_LAYERED_H

#include "ir/base/arena.h"

typedef struct DrawnPoint {
  double x, y;
} DrawnPoint;

typedef struct DrawnBox {
  double width, height; // given, in pixels
  double x, y;          // found: the upper left corner
  uint32_t layer;       // found
} DrawnBox;

// `point` leads from the lower side of the upper box to the upper side of the lower one: a vertical
// line within a layer, a piece between two layers (draw it straight, or as a curve that is
// vertical at both ends), a vertical line, and so on, npoints / 2 vertical lines in all.
typedef struct DrawnEdge {
  uint32_t from, to; // given: boxes
  bool against;      // found: it leads up, `to` is the upper box
  uint32_t npoints;  // found; 0: the edge leads from a box to itself and is not drawn
  uint32_t shared;   // found: points at the beginning that another edge of the box has, too, with
                     // fewer or none shared
  DrawnPoint *point;
} DrawnEdge;

typedef struct Drawn {
  uint32_t nboxes, nedges;
  DrawnBox *box;
  DrawnEdge *edge;
  double
      most_width; // given: a layer of several boxes that are wider together is divided into several
  double width, height; // found
} Drawn;

// Finds the places of all boxes and edges of d. Points last as long as `a`. The same graph gives
// the same drawing. False, with nothing found, when the drawing has more than LAYERED_MOST boxes
// and bends.
enum { LAYERED_MOST = 100000 };
MUST_USE bool layered_draw(Arena *a, Drawn *d);

#endif
