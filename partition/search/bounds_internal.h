// What all layouts that begin alike cost at least. Private to the search.
//
// An axis is priced alone with each set of dims that it may cut. Other axes shrink what it finds: a
// part that all of them cut costs its amount divided by all of them, one that none cuts costs all
// of it. So a layout costs
//
//   sum over parts       of amount * product over axes of the share that stays
//   sum over moved values of seconds over each axis * product over the other axes of the share
//
// at least; of axes without a set yet, each part and each value sees the best share that any set
// gives it. Uneven blocks are rounded up: ceil(n / (p * q)) of n elements over axes of p and q.
#ifndef PARTITION_LEAST_H
#define PARTITION_LEAST_H

#include "partition/search/layout_cost_internal.h"

// Axes of one size and speed, and the sets of dims that one may have.
typedef struct AxisKind {
  int64_t size;
  Link link;
  const char *pinned; // the axis's name where pins of the model name it: no other axis is of this
                      // kind; else NULL
  uint32_t n;
  uint32_t *set; // bits: indices of dims
  Alone *alone;
} AxisKind;

typedef struct Least Least;

// For meshes over axes of those kinds. `most`: processors of a mesh.
Least *least_new(Arena *a, const SearchTask *t, const PartTable *parts, uint32_t nkinds,
                 AxisKind *const *kind, int64_t most);
// Layouts on a mesh of these kinds from here on.
void least_begin(Least *l, int naxes, const uint32_t kind[]);
// The axes before k have their sets: axis k is next.
void least_enter(Least *l, int k);
// Seconds that a layout costs at least when axis k has set i; something not below `limit` if that
// is so or if all of them hold more than the task's memory.
double least_with(Least *l, int k, uint32_t i, double limit);
// Gives axis k the set i.
void least_take(Least *l, int k, uint32_t i);

// What the first two axes do together, where each decides otherwise than alone.
typedef struct LeastPair LeastPair;
// Of a layout priced on the mesh of two axes. In the arena of l.
const LeastPair *least_pair(Least *l, const PartTable *parts, const Alone *together);
// least_begin, and the first two axes have these sets: axis 2 is next.
void least_begin_pair(Least *l, int naxes, const uint32_t kind[], const LeastPair *pair,
                      const uint32_t set[2]);

#endif
