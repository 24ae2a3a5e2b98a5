// A price in parts: what each value of the model contributes, and how a layout's cuts shrink it.
// Private to the search.
#ifndef PARTITION_LAYOUT_COST_H
#define PARTITION_LAYOUT_COST_H

#include "partition/search/search.h"
#include "partition/sharding/sharding_internal.h"

enum { MAX_PART_DIMS = 2 * MAX_RANK };

// An amount that falls as blocks of its dims do: work of a contraction, a value written or read, or
// held.
typedef struct Part {
  double amount; // of the whole model: seconds, or bytes that are held
  bool held;
  uint8_t ndims;
  int64_t size[MAX_PART_DIMS];
} Part;

// The edges of blocks along dim d of a value: windows read them along that dim.
typedef struct Edge {
  NodeId source;
  DimId d;
} Edge;
typedef VEC(Edge) Edges;

// The models of a task, ready to be taken apart; parts and values of all of them are numbered
// through.
typedef struct PartTable {
  uint32_t nsamples;
  const Graph **graph; // of term: its nodes remember their numbers in the lowered graph
  uint32_t nvalues; // of each term its nodes, then the edges that windows read of other processors
  double *weight;   // of value: that of its term
  VEC(Part) part;
  Edges *edge; // of term
} PartTable;

// What happens to a value between processors, without latency.
typedef enum Flow {
  FLOW_JOIN, // on the wire to make of blocks or terms what processors hold together: sums, gathers
  FLOW_JOIN_MEMORY, // memory traffic of that, and of reading what it makes
  FLOW_SEND,        // on the wire for blocks that go elsewhere
  FLOW_SEND_MEMORY,
  FLOW_HALO, // on the wire for the edges of blocks
  FLOWS
} Flow;

enum { CHANGE_SPLIT = 1, CHANGE_MOVED }; // in some state it is cut; it flows

// What one layout makes of the parts, on a mesh of few axes.
typedef struct Alone {
  LayoutCost cost;
  uint8_t *split;      // of part: 1 + the first dim that is cut, 0: none
  double *share;       // of part: the share of it that stays
  double *flow[FLOWS]; // of value: seconds
  uint8_t *change;     // of value: CHANGE_SPLIT ... by the first axis
} Alone;

PartTable *parts_new(Arena *a, const SearchTask *t);
// The price of a layout, in parts. Not thread-safe.
Alone cost_alone(Arena *a, const SearchTask *t, const PartTable *parts, const Mesh *mesh,
                 const Layout *layout);

#endif
