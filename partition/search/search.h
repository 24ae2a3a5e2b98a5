// The search for a layout: finds the cheapest layouts on given meshes. There are two searches:
//
//   search_best     over dims, soft rules and the stages of ZeRO, by price (SearchPrice): the
//                   predicted time of the compiled program. Its result is what users see. It is
//                   proven only where the whole space is so small that all of it is priced.
//   search_layouts  over dims alone, by estimated cost (LayoutCost), with a proof by lower bounds.
//                   search_best takes some choices to start from it.
//
// The estimate takes much less time than the price: the graph is placed and lowered under the
// layout, and the flops, memory traffic and bytes sent of one processor are counted.
//
// Rounds (iterations) of a `for` cost alike, so both are extrapolated from models with few rounds
// (SearchSample): estimates from one and two rounds, prices from three and four. So do
// micro-batches: estimates are extrapolated from one and two, prices from two and three.
#ifndef PARTITION_SEARCH_H
#define PARTITION_SEARCH_H

#include "partition/partition.h"

// The work of one processor in a step under one layout, and the seconds that this work takes on a
// machine.
typedef struct LayoutCost {
  double flops;    // number of operations of contractions
  double work;     // seconds of these, by the rates of their types
  double traffic;  // bytes of memory that contractions, reductions, lookups, collectives and
                   // updates read and write
  double wire;     // bytes sent
  double transfer; // seconds of all collectives, with latency
  double latency;  // the part of transfer that does not depend on bytes
  double memory;  // bytes of parameters, inputs, states of model and optimizer, and values kept for
                  // gradients
  double seconds; // seconds of work, traffic and transfer, one after the other
} LayoutCost;

// What a step under one layout is predicted to take: the simulated time of its compiled program,
// and the peak memory of a processor. If the memory of the task is less than a program without
// recomputation needs, and figures of a model with long loops are therefore interpolated, `again`
// is the share of the forward pass that is recomputed, 0 to 1.
typedef struct SearchPrice {
  double seconds;                     // products + kernels + transfer
  double products, kernels, transfer; // its parts; transfer: of collectives that nothing hides
  double sent;                        // bytes that a processor sends
  double peak;                        // bytes
  double again;
  // Seconds and peak of the program without recomputation, whatever it needs; 0: not known.
  double unlimited, unlimited_peak;
  double kept; // of the peak, what programs keep between steps: parameters, states; 0: not known
  const char *again_text; // of the program of the whole model: what is recomputed, "": nothing
  bool whole;             // from the program of the whole model; false: from those of short models
  bool open;              // it does not fit, but might if more were recomputed than was tried
  bool final;             // no other program of it is to be compiled
  // The number of programs that were compiled for the price, one for all samples. 0: the layout was
  // placed, and its program had been priced before, of another layout.
  int programs;
  // The price of an earlier layout was taken, whose rules come to the same requests for all values
  // (place_asked). Nothing was placed or compiled for this one.
  bool asked;
} SearchPrice;

// What the search knows of a layout before it has a price.
typedef struct SearchHint {
  // A layout that needs more than the memory, and takes more than so many seconds already without
  // recomputation, need not be priced with recomputation. 0: it must be.
  double enough;
  bool over;  // it is likely to need more than the memory without recomputation
  bool as_is; // only its price without recomputation is asked for
  bool brief; // if it does not fit with all segments recomputed, no other way is tried
} SearchHint;

// A price that is going to be asked for.
typedef struct SearchAsk {
  const Mesh *mesh;
  const Layout *layout;
  SearchHint hint;
} SearchAsk;

// One of the graphs from which the cost of the model is computed. The cost of the model is the sum
// over samples of weight * cost of the graph. Memory has weights of its own, because what all
// micro-batches of a step take one after the other, one of them needs in memory.
typedef struct SearchSample {
  const Graph *graph;      // simplified, not lowered
  const PlaceGraph *known; // tables of `graph`, made by place_graph
  double weight, memory;   // may be negative; memory may be 0
} SearchSample;

// Prices that differ by less than this share are alike: then fewer rules are better.
static const double SEARCH_ALIKE = 1e-3;

typedef struct SearchChoice SearchChoice;

typedef struct SearchTask {
  const Graph *model; // graph before gradients; one axis cannot split two dims of one tensor in it
  uint32_t nsamples;
  const SearchSample *sample; // for estimates
  uint32_t npriced;
  const SearchSample *priced; // for prices, with more rounds of loops
  const Machine *machine;
  double memory;   // bytes that one processor may need
  bool named_axes; // axes of equal size differ, because the machine file has figures for one of
                   // them or layout(...) of the model names one
  bool sparing;    // search_best gives up early where no layout of experts fits the memory, unless
                   // the whole search takes little time
  bool lean;       // search_best prices those layouts of experts first that need little memory and
                   // time, in a brief way (SearchHint) while none fits; it gives up where none does
  int threads;     // that compute estimates and prices
  uint32_t nmeshes;
  const Mesh *mesh;   // meshes to search, of equal numbers of processors
  uint32_t keep;      // number of layouts to return
  uint32_t estimates; // layouts that search_layouts estimates at most; 0: 2000
  // Called after the n-th estimate of search_layouts, or NULL.
  void (*estimated)(void *watcher, uint64_t n);
  // Called after the n-th price of search_best, or NULL. best: the best choice so far; NULL: none
  // of those priced so far fits the memory.
  void (*progress)(void *watcher, uint64_t n, const SearchChoice *best);
  void *watcher;
  // Sets *out to the price of a layout that layout_check accepts; returns false if it cannot be
  // compiled. Not thread-safe.
  bool (*price)(void *pricer, const Mesh *mesh, const Layout *layout, SearchHint hint,
                SearchPrice *out);
  // Computes n prices on several threads that `price` is asked for next, or NULL. `price` returns
  // the same without it. First forgets what was computed before and not asked for, which is all
  // that it does if n is 0; the layouts of `ask` must live until then.
  void (*ahead)(void *pricer, uint32_t n, const SearchAsk *ask);
  void *pricer;
  const SearchChoice *own; // a layout (mesh and layout) that search_best prices, too, or NULL
} SearchTask;

struct SearchChoice {
  const Mesh *mesh;
  Layout layout;
  int64_t accumulate; // micro-batches of a step, if not those of the model; 0: those of the model
  LayoutCost cost;
  SearchPrice price; // set by search_best
};

// What a search found. "Cost" is the price in the result of search_best, and the estimated cost in
// that of search_layouts.
typedef struct SearchResult {
  uint32_t n;
  SearchChoice *at;           // layouts that fit the memory, the lowest cost first
  double candidates;          // number of layouts in the space; infinite: too many to count
  uint32_t npriced;           // number of layouts that search_best priced
  const SearchChoice *priced; // all of them, also those that do not fit the memory
  uint64_t estimated;         // number of layouts whose cost was estimated
  uint64_t over_memory;       // of the estimated (search_best: priced) layouts, those that do not
                              // fit the memory
  uint32_t ndivided;          // number of prices with other micro-batches than the model has
  bool all;                   // search_best priced all layouts of the space
  bool spared;                // search_best gave up early (SearchTask.sparing, .lean)
  bool proven;                // no layout of the space that fits has a lower cost than at[0]
  SearchChoice smallest; // if no layout fits the memory (n is 0): a layout that needs little memory

  // Of search_layouts only.
  bool ranked;    // proven, and no layout outside the list is cheaper than its last entry
  double bound;   // lower bound of the seconds of all layouts; 0: not known
  double closest; // smallest ratio of estimated cost to lower bound, for tests
} SearchResult;

// Returns graph g, which is not lowered, with another mesh and layout. The result shares the nodes
// of g and has a dim table of its own, for the blocks of the new mesh. layout(...) requests in the
// graph are renumbered to the axes of `mesh`, by name. `mesh` must outlive the result.
Graph layout_apply(Arena *a, const Graph *g, const Mesh *mesh, const Layout *layout);
// Returns the estimated cost of the model under one layout. Thread rule: any thread.
LayoutCost search_cost(const SearchTask *t, const Mesh *mesh, const Layout *layout);
// Finds the cheapest task.keep layouts over all meshes of the task (search.c). Deterministic. The
// result lives in `a`.
SearchResult *search_layouts(Arena *a, const SearchTask *t);
// Finds the task.keep layouts of lowest price, with dims, soft rules and the stages of ZeRO chosen
// together (joint.c). `proven`: no other layout of that space has a lower price within the memory.
// If none fits, n is 0 and `smallest` needs least memory of those priced. Deterministic. The result
// lives in `a`.
SearchResult *search_best(Arena *a, const SearchTask *t);
// Returns a hash of the mesh and of what the layout asks of all values of n samples. Layouts for
// which it is equal have equal placements.
uint64_t search_asked(uint32_t n, const SearchSample *sample, const Mesh *mesh,
                      const Layout *layout);
// Returns the work of a price, in compiled programs.
double search_work(const SearchPrice *p);
// Returns the seconds of a price without recomputation, or about that where they are not known.
double search_unlimited(const SearchPrice *p);
// Returns whether the estimate of choice a is better than that of b: it takes fewer seconds, at
// equal seconds less memory, at equal memory fewer rules.
bool search_cheaper(const SearchChoice *a, const SearchChoice *b);

// Lists all meshes of `processors` with at most three axes of size 2 or more, named by `names`.
// The sizes of a mesh do not rise from axis to axis. With `unlike` (SearchTask.named_axes) all
// orders of sizes are listed. Returns the number of meshes.
uint32_t search_meshes(Arena *a, int64_t processors, const char *const names[3], bool unlike,
                       const Mesh **out);

#endif
