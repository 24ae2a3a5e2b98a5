// Memory that equal nodes share. graph.c calls it to add nodes.
#ifndef IR_KEEP_H
#define IR_KEEP_H

#include "ir/graph/graph.h"

// Dims and attributes that were kept last, each at a place that its hash gives, and the origin that
// was kept last. All zero at first. A new entry replaces an older one at its place, so equal memory
// may exist twice: nodes that are equal may differ in these pointers.
enum { KEPT = 256 };
typedef struct Kept {
  const Dims *dims[KEPT];
  const Attr *attr[KEPT];
  const Origin *origin;
} Kept;

extern const Node node_none; // the node with the id 0

// Replaces what *n points to, its arguments excepted, by equal memory in `a`, and enters it in *k.
void keep(Arena *a, Kept *k, Node *n);
// Enters in *k the attributes and the origin of *n, which are in the arena of the graph.
void keep_seen(Kept *k, const Node *n);
// Returns an origin in `a` that equals *o.
const Origin *keep_origin(Arena *a, Kept *k, const Origin *o);

#endif
