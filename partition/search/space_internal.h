// The space of the search. A layout assigns to each mesh axis a set of dims that the axis splits.
// The space is: the dims that a user can name, the sets of dims that one axis can split, and, for
// each kind of axis and each set, the cost of that assignment on a mesh of this axis only.
#ifndef PARTITION_SPACE_H
#define PARTITION_SPACE_H

#include "partition/search/bounds_internal.h"

enum { MAX_DIMS = 30, MAX_SETS = 4096 };

typedef uint32_t DimSet; // bit d is set for Space.dim[d]

// A mesh and an order of its axes. The order matters when several axes split one dim: the first
// one splits it into the outermost blocks.
typedef struct View {
  const Mesh *mesh;
  uint8_t order[MAX_AXES]; // axis k of the view is axis order[k] of the mesh
  uint32_t kind[MAX_AXES]; // index into Space.kind of axis k of the view
  bool first; // the order is that of the mesh; of other orders only layouts that depend on the
              // order are searched
} View;

typedef struct Space {
  const SearchTask *task;
  Arena *a;
  uint32_t ndims, nsets;
  const Dim *dim[MAX_DIMS];
  DimSet clash[MAX_DIMS]; // [dim] dims that clash with it: both occur in some tensor, so one axis
                          // cannot split both
  DimSet *set;            // sets in which no two dims clash, the empty set first
  bool complete;          // there are at most MAX_SETS sets; else some were dropped
  VEC(AxisKind *) kind;   // kinds of the axes of all meshes
  VEC(View) view;         // of all meshes
} Space;

// Fills only s->dim and s->ndims, the dims that layout rules can split.
void space_dims(Space *s, Arena *a, const SearchTask *t);
// Fills s->clash and s->set, after space_dims.
void space_sets(Space *s);
// Fills all of s, the layouts to search, and estimates the cost of every set of dims on every kind
// of axis (size and link).
void space_fill(Space *s, Arena *a, const SearchTask *t, const PartTable *parts);
// Returns the number of layouts that space_fill estimates, after space_sets: on each kind of axis
// all sets, also in company of a second axis.
double space_estimates(const Space *s);
// The six permutations of three axes, the identity first.
extern const uint8_t space_orders[6][3];
// Makes the layout in which axis k of the view (a mesh with an order of its axes) splits the dims
// of set[k]. Returns false if a dim has fewer elements than the axes that split the dim have
// processors together.
bool space_layout(const Space *s, Arena *a, const View *v, const DimSet *set, Layout *out);

#endif
