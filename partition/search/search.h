// The search for a layout: of all ways to cut the dims that a user can name over the axes of a
// mesh, those that cost least, and the proof that no other costs less.
//
// A layout is priced by what the partitioner makes of it: it is placed and lowered, and the
// products, the memory traffic and the bytes on the wire of one processor are counted. Rounds of a
// `for` cost alike, so a model of many rounds is priced on models of one and of two, in the manner
// of a straight line (SearchSample); a price of the whole model costs as much as one of a few
// layers.
#ifndef PARTITION_SEARCH_H
#define PARTITION_SEARCH_H

#include "partition/partition.h"

// What one processor does in a step, and seconds for it by a machine's figures.
typedef struct LayoutCost {
  double flops;    // of products
  double traffic;  // bytes of memory that products, reductions, lookups, collectives and updates
                   // read and write
  double wire;     // bytes that it sends
  double transfer; // seconds of all collectives, latency included
  double latency;  // of that what does not depend on the bytes
  double memory;   // bytes: parameters, states and slots, inputs, what the backward pass keeps
  double seconds;  // flops and traffic, then transfer
} LayoutCost;

typedef struct SearchSample {
  const Graph *graph;      // simplified, not lowered
  const PlaceGraph *known; // place_graph of it
  double weight;
} SearchSample;

typedef struct SearchTask {
  const Graph *model; // as built: the tensors that two dims on one axis must not meet in
  uint32_t nsamples;
  const SearchSample *sample; // the price of the model is the weighted sum of their prices
  const Machine *machine;
  double memory;   // bytes that a processor may hold
  bool named_axes; // axes of equal size differ by name: the machine has figures of an axis, or a
                   // pin names one
  uint32_t nmeshes;
  const Mesh *mesh;
  uint32_t keep;                                // so many of the cheapest are returned
  void (*estimated)(void *watcher, uint64_t n); // told how many layouts were priced so far; or NULL
  void *watcher;
} SearchTask;

typedef struct SearchChoice {
  const Mesh *mesh;
  Layout layout;
  LayoutCost cost;
} SearchChoice;

typedef struct SearchResult {
  uint32_t n;
  SearchChoice *at;     // cheapest first
  double candidates;    // layouts in all
  uint64_t estimated;   // of them, the others cost more by their bound
  uint64_t over_memory; // of those priced
  bool proven; // no layout over dims that have names is cheaper than the first one (false: too many
               // to price)
  bool ranked; // nor, but for those kept before, than any that is kept
  double bound;          // seconds that each of them costs at least; 0: not known
  SearchChoice smallest; // when none fits the memory: one that holds little
  double closest;        // of those priced: the least price as a share of its bound
} SearchResult;

// Graph g of whole dims under another mesh and layout. It shares the nodes of g; dims that are made
// later (blocks) go into a table of its own. `mesh` must outlive it.
Graph layout_apply(Arena *a, const Graph *g, const Mesh *mesh, const Layout *layout);
// Of one layout. Not thread-safe (names are interned).
LayoutCost search_cost(const SearchTask *t, const Mesh *mesh, const Layout *layout);
// Deterministic. `a` holds the result.
SearchResult *search_layouts(Arena *a, const SearchTask *t);
// Of a choice, with one rule more: optimizer, gradients or parameters: all -> axes (ZeRO), soft dim
// -> axes (sequence parallelism). All of them, whether they gain or not.
typedef struct SearchRules {
  VEC(SearchChoice) rule;
} SearchRules;
SearchRules search_rules(Arena *a, const SearchTask *t, const SearchChoice *from);

typedef enum SearchAim {
  SEARCH_FASTER,   // within the memory
  SEARCH_SMALLER,  // less memory at no more than 5 % more time
  SEARCH_SMALLEST, // less memory
} SearchAim;
// Adds such rules one at a time, the best one first, as long as one gains. `rules`: those of
// `from`, or none yet; then those of the choice that is returned.
SearchChoice search_refine(Arena *a, const SearchTask *t, const SearchChoice *from,
                           SearchRules *rules, SearchAim aim);

// By seconds, then memory, then number of rules.
bool search_cheaper(const SearchChoice *a, const SearchChoice *b);

// A layout drawn from the space of a search: its price, and what all layouts cost at least that
// give the first k + 1 axes the same dims (INFINITY: none of them fits the memory).
typedef struct SearchProbe {
  SearchChoice choice;
  double bound[MAX_AXES];
} SearchProbe;
// Draws n layouts; returns how many were found. For tests of the bounds.
uint32_t search_probe(Arena *a, const SearchTask *t, uint32_t n, uint64_t seed, SearchProbe *out);

// All ways to write `processors` as a mesh of at most three axes of at least two, the longest
// first; axes are named as `names` says. `unlike`: axes differ by name (SearchTask.named_axes), so
// that all orders count.
uint32_t search_meshes(Arena *a, int64_t processors, const char *const names[3], bool unlike,
                       const Mesh **out);

#endif
