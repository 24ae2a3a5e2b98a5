// The space that a search goes through: dims that a user can name, the sets of them that one axis may cut, and what each
// set makes of an axis alone. Private to the search.
#ifndef PARTITION_SPACE_H
#define PARTITION_SPACE_H

#include "partition/least.h"

enum { MAX_DIMS = 30, MAX_SETS = 4096 };

typedef uint32_t DimSet; // bits: indices into Space.dim

typedef struct Space {
  const SearchTask *task;
  Arena *a;
  uint32_t ndims, nsets;
  const Dim *dim[MAX_DIMS];
  DimSet clash[MAX_DIMS]; // dims that meet this one in some tensor
  DimSet *set;
  bool whole;             // all sets are there
  VEC(AxisKind *) kind;   // of the axes of all meshes
  uint32_t (*of)[MAX_AXES]; // kind of axis k of a mesh: of[mesh][k]
} Space;

// Dims only, for rules beyond them.
void space_dims(Space *s, Arena *a, const SearchTask *t);
// All of it; prices every set on every kind of axis.
void space_fill(Space *s, Arena *a, const SearchTask *t, const PartTable *parts);
// The rules that put set[a] on axis a of the mesh; false when a dim is too small for its axes.
bool space_layout(const Space *s, Arena *a, const Mesh *mesh, const DimSet *set, Layout *out);

#endif
