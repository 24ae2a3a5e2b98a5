// Lower bounds of the cost of layouts, for branch and bound.
//
// The cost of a layout is a sum over parts (work of a contraction, a value written or read) and
// over values that move between processors. The cost of each part and value is known, for every
// axis and every set of dims, from a mesh that has only this axis, or has a second axis with the
// same set if that is cheaper. Further axes reduce this cost: a part that axes of p and q
// processors split costs 1/(pq) of its amount. So a layout costs at least
//
//   sum over parts         of  amount * product over axes of the share that remains
//   sum over moved values  of  seconds over each axis * product over the other axes of the share
//
// For axes that are not assigned yet, each part and each value takes its best share over all sets.
// Blocks of uneven splits are rounded up: ceil(n / (p * q)) of n elements over axes of p and q.
#ifndef PARTITION_LEAST_H
#define PARTITION_LEAST_H

#include "partition/search/layout_cost_internal.h"

// A kind of mesh axis: the axes of one size and one link (network rates), and the sets of dims that
// such an axis can split.
typedef struct AxisKind {
  const MeshAxis *axis; // the first one of the kind
  int64_t size;
  Link link;
  const char *pinned; // name of the only axis of this kind if layout(...) names it, else NULL
  uint32_t n;
  uint32_t *set;    // [i] dims as bits (DimSet)
  PartCosts *alone; // cost of set[i] on a mesh of one such axis; its split, flow and change also
                    // have what this axis splits and moves only in company (space.c)
} AxisKind;

typedef struct Bounds Bounds;

// Makes tables for axes of the given kinds (size and link), in arena a. `most` is the number of
// processors of the whole mesh. A dim whose size is a multiple of `most` always has blocks of equal
// length. Thread rule: one search at a time.
Bounds *bounds_new(Arena *a, const SearchTask *t, const PartTable *parts, uint32_t nkinds,
                   AxisKind *const *kind, int64_t most);
// Starts to bound a mesh of `naxes` axes of these kinds (size and link), none of which splits a dim
// yet. Then the caller calls for each axis k in order: bounds_enter(k), any number of times
// bounds_with(k, ...), bounds_assign(k, set).
void bounds_begin(Bounds *l, int naxes, const uint32_t kind[]);
void bounds_enter(Bounds *l, int k);
// Returns a lower bound of the cost, in seconds, of all layouts in which axis k splits set i of
// dims (AxisKind.set). The axes before k split the sets that bounds_assign gave them. A result of
// `limit` or more may be lower than the full bound, which is not needed then. INFINITY: none of
// these layouts fits the memory.
double bounds_with(Bounds *l, int k, uint32_t i, double limit);
// Lets axis k split set i of dims (AxisKind.set), for the bounds of the axes after k.
void bounds_assign(Bounds *l, int k, uint32_t i);

// The exact cost of two axes with the sets of dims that they split. Used instead of the lower bound
// of these axes, which combines costs of single axes and ignores how they interact.
typedef struct PairBound PairBound;
// Returns the exact cost of two axes, split into classes (parts and values that all layouts change
// alike). `together` is the cost of a layout on a mesh of only these two axes. The result lives in
// the arena of l.
const PairBound *bounds_pair(Bounds *l, const PartTable *parts, const PartCosts *together);
// Starts like bounds_begin, then lets axes 0 and 1 split the dims that the bounds of `pair` were
// made for. For these two axes the bound uses the exact cost `pair`. The caller continues with axis
// 2.
void bounds_begin_pair(Bounds *l, int naxes, const uint32_t kind[], const PairBound *pair,
                       const uint32_t set[2]);

#endif
