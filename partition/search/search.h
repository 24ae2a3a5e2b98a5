// The search for a layout: finds the cheapest ways to split the dims that a user can name over the
// axes of a mesh, and proves that no other way costs less.
//
// The estimated cost of a layout is measured, not modelled: the graph is placed and lowered under
// it, and the flops, memory traffic and bytes sent of one processor are counted. Rounds of a `for`
// cost the same, so the cost of a model with many rounds is extrapolated from models with one and
// two rounds (SearchSample).
#ifndef PARTITION_SEARCH_H
#define PARTITION_SEARCH_H

#include "partition/partition.h"

// The work of one processor in a step, and its time on a machine.
typedef struct LayoutCost {
  double flops;    // of contractions
  double traffic;  // bytes of memory that contractions, reductions, lookups, collectives and
                   // updates read and write
  double wire;     // bytes sent
  double transfer; // seconds of all collectives, with latency
  double latency;  // the part of transfer that does not depend on bytes
  double memory;   // bytes of parameters, states, slots, inputs and values kept for gradients
  double seconds;  // of flops, traffic and transfer, without overlap
} LayoutCost;

// One graph of those from which the cost of the model is computed: cost of the model = sum over
// samples of weight * cost of the graph.
typedef struct SearchSample {
  const Graph *graph;      // simplified, not lowered
  const PlaceGraph *known; // tables of `graph`, made by place_graph
  double weight;           // may be negative
} SearchSample;

typedef struct SearchTask {
  const Graph *model; // as built; two dims of one of its tensors cannot be split over one axis
  uint32_t nsamples;
  const SearchSample *sample;
  const Machine *machine;
  double memory;   // bytes that a processor may hold
  bool named_axes; // axes of equal size are not interchangeable, because the machine file has
                   // figures for one of them or layout(...) of the model names one
  uint32_t nmeshes;
  const Mesh *mesh;                             // the meshes to search, of equal size
  uint32_t keep;                                // number of layouts to return
  void (*estimated)(void *watcher, uint64_t n); // NULL, or called after the n-th estimate
  void *watcher;
} SearchTask;

typedef struct SearchChoice {
  const Mesh *mesh;
  Layout layout;
  LayoutCost cost;
} SearchChoice;

typedef struct SearchResult {
  uint32_t n;
  SearchChoice *at;     // that fit the memory, cheapest first
  double candidates;    // number of layouts in the space
  uint64_t estimated;   // number of those whose cost was estimated; lower bounds exclude the others
  uint64_t over_memory; // of those estimated
  bool proven;          // no layout of the space is cheaper than at[0]; false: too many candidates
  bool ranked;          // proven, and no layout outside the list is cheaper than its last entry
  double bound;         // lower bound of the seconds of all layouts; 0: not known
  SearchChoice smallest; // only if no layout fits the memory (n is 0): one that needs little
  double closest;        // smallest ratio of estimated cost to lower bound, for tests
} SearchResult;

// Puts graph g, which is not lowered, under another mesh and layout. The result shares the nodes of
// g and has a dim table of its own, for the blocks of the new mesh. layout(...) requests in the
// graph are renumbered to the axes of `mesh`, by name. `mesh` must outlive the result.
Graph layout_apply(Arena *a, const Graph *g, const Mesh *mesh, const Layout *layout);
// Returns the estimated cost of the model under one layout. Not thread-safe: interns names.
LayoutCost search_cost(const SearchTask *t, const Mesh *mesh, const Layout *layout);
// Finds the cheapest task.keep layouts over all meshes of the task (search.c). Deterministic. The
// result lives in `a`.
SearchResult *search_layouts(Arena *a, const SearchTask *t);
// Choice `from` with one more rule of a kind that search_layouts does not try: `optimizer`,
// `gradients` or `parameters: all -> axes` (ZeRO, Rajbhandari et al. 2020), `soft dim -> axes`
// (sequence parallelism). Returns all of them with their costs, also those that gain nothing.
typedef struct SearchRules {
  VEC(SearchChoice) rule;
} SearchRules;
SearchRules search_rules(Arena *a, const SearchTask *t, const SearchChoice *from);

typedef enum SearchAim {
  SEARCH_FASTER,   // less time, within the memory
  SEARCH_SMALLER,  // less memory, at most 5 % more time
  SEARCH_SMALLEST, // less memory at any time
} SearchAim;
// Adds greedily the rule of search_rules that gains most, until none gains. *rules is
// search_rules(from) or empty; afterwards it belongs to the returned choice.
SearchChoice search_refine(Arena *a, const SearchTask *t, const SearchChoice *from,
                           SearchRules *rules, SearchAim aim);

// Returns whether a is better than b: by seconds, then memory, then number of rules.
bool search_cheaper(const SearchChoice *a, const SearchChoice *b);

// Lists all meshes of `processors` with at most three axes of size 2 or more, named by `names`.
// Sizes fall from axis to axis; with `unlike` (SearchTask.named_axes) all orders of sizes are
// listed.
uint32_t search_meshes(Arena *a, int64_t processors, const char *const names[3], bool unlike,
                       const Mesh **out);

#endif
