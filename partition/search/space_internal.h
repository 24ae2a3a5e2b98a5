// The space that a search goes through: dims that a user can name, the sets of them that one axis
// may cut, and what each set makes of an axis alone. Private to the search.
#ifndef PARTITION_SPACE_H
#define PARTITION_SPACE_H

#include "partition/search/bounds_internal.h"

enum { MAX_DIMS = 30, MAX_SETS = 4096 };

typedef uint32_t DimSet; // bits: indices into Space.dim

// A mesh, with its axes in the order in which they cut a dim that several cut: slow first.
typedef struct View {
  const Mesh *mesh;
  uint8_t order[MAX_AXES]; // axis k of the view is axis order[k] of the mesh
  uint32_t kind[MAX_AXES]; // of axis k
  bool first;              // the mesh's own order
} View;

typedef struct Space {
  const SearchTask *task;
  Arena *a;
  uint32_t ndims, nsets;
  const Dim *dim[MAX_DIMS];
  DimSet clash[MAX_DIMS]; // dims that meet this one in some tensor
  DimSet *set;
  bool whole;           // all sets are there
  VEC(AxisKind *) kind; // of the axes of all meshes
  VEC(View) view;       // of all meshes
} Space;

// Dims only, for rules beyond them.
void space_dims(Space *s, Arena *a, const SearchTask *t);
// All of it; prices every set on every kind of axis.
void space_fill(Space *s, Arena *a, const SearchTask *t, const PartTable *parts);
// Orders of three axes.
extern const uint8_t space_orders[6][3];
// The rules that put set[k] on axis k of the view; false when a dim is too small for its axes.
bool space_layout(const Space *s, Arena *a, const View *v, const DimSet *set, Layout *out);

#endif
