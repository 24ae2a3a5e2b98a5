// The layouts that differ from a given one in one or two rules: what-ifs that `explain` tries.
// Input: a model, a mesh and a layout of it. Output: a list of moves. Nothing is estimated here.
#ifndef FRONTEND_MOVES_H
#define FRONTEND_MOVES_H

#include "partition/partition.h"

typedef enum MoveKind {
  MOVE_ADD,      // one more rule
  MOVE_REPLACE,  // a rule with other axes, or for another dim
  MOVE_EXCHANGE, // two rules with their axes exchanged
  MOVE_BOTH,     // two moves of the kind MOVE_ADD together
} MoveKind;
extern const char *const move_kinds[]; // "add", "replace" ...

// A change of a layout, and the layout that it makes.
typedef struct Move {
  MoveKind kind;
  const char *text; // "+ heads -> cols", "b -> cols in place of b -> rows"
  Layout layout;    // the layout after the move
} Move;
typedef struct Moves {
  VEC(Move) move;
} Moves;

// Returns all moves from layout `from` of the graph g on its mesh, in arena `a`. Of moves that may
// have one effect the plainest comes first: before a soft rule one that is not soft. g is the graph
// of a model before selection, and decides which layouts are valid (layout_check) and which dims
// there are. Thread rule: it interns names in the table of g.
Moves moves_list(Arena *a, const Graph *g, const Layout *from);
// Sets *out to both moves together, x and y, which are of the kind MOVE_ADD and have been made from
// layout `from`. Returns false if the resulting layout is not valid.
bool moves_join(Arena *a, const Graph *g, const Layout *from, const Move *x, const Move *y,
                Move *out);

#endif
