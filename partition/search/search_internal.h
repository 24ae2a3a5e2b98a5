// What the files of branch and bound share (search.c has the idea).
//
//   search.c              the steps, and the layouts that are kept
//   search_candidates.c   collects candidates by their lower bounds
//   search_pairs.c        raises lower bounds by the exact costs of pairs of axes
#ifndef PARTITION_SEARCH_INTERNAL_H
#define PARTITION_SEARCH_INTERNAL_H

#include "partition/search/space_internal.h"

typedef struct Candidate {
  double bound; // lower bound, in seconds, of the layout
  uint32_t view;
  uint16_t set[MAX_AXES]; // [k] set of axis k: index into AxisKind.set
  uint16_t pairs;         // number of pairs of axes whose exact cost has raised the bound
} Candidate;

// The key of the table of exact costs: two axes, by kind (size and link), and the sets of dims that
// they split.
typedef struct PairKey {
  uint32_t kind[2], set[2];
} PairKey;
typedef struct PairEntry {
  PairKey key;
  const PairBound *pair;
} PairEntry;

typedef struct Search {
  Space space;
  Bounds *bounds;
  const SearchTask *task;
  Arena *a;
  VEC(Candidate) candidate;
  VEC(Candidate) estimated;
  VEC(Candidate) first_of_views; // candidates that step 1 has collected
  const PartTable *parts;
  PairEntry *pair; // hash table, open addressing (pairs_new)
  SearchResult *result;
  double unexplored; // lowest bound of the branches that were not explored, INFINITY: none
  // The fields below are set for the view whose candidates are collected.
  const View *view;
  double limit;         // branches whose bound reaches this are skipped
  uint32_t bounds_left; // budget: bounds that may still be computed
  bool first;           // true in step 1: only some candidates of lowest bound are kept
  Candidate now;        // the axes assigned so far
} Search;

// -- search_candidates.c
// Empties s->candidate, and starts to collect candidates whose lower bound is below `limit`
// seconds. first: of each view only some of lowest bound are kept.
void candidates_begin(Search *s, bool first, double limit);
// Adds the candidates of view number `view`, a mesh with an order of its axes.
void candidates_of_view(Search *s, uint32_t view);
// Starts with a view: none of its axes has a set of dims yet.
void candidates_view(Search *s, uint32_t view);
// Returns the kind of axis k of the current view.
const AxisKind *candidates_kind(const Search *s, int k);
// Returns whether axis k can split the dims of `set`. Each dim needs at least one element for each
// processor along the axes 0..k that split the dim.
bool candidates_fit(const Search *s, int k, uint32_t set);
// Makes s->candidate a heap, which has the lowest bound first.
void candidates_sort(Search *s);
// Restores the heap after the bound of its first candidate has risen.
void candidates_sink(Search *s);
void candidates_drop_first(Search *s);

// -- search_pairs.c
void pairs_new(Search *s);
// Raises the lower bound of candidate c by the exact cost of a pair of its axes, of the first one
// that has not raised it yet. Returns false, and does nothing, if there is none. Sets *estimated to
// whether the pair had to be estimated: its cost was not known, and the table of pairs had room.
bool pairs_tighten(Search *s, Candidate *c, bool *estimated);

#endif
