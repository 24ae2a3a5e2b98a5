// The cost of a layout in parts: what each contraction and each value of the model contributes, and
// the share of it that remains under a layout. Lower bounds are computed from these.
#ifndef PARTITION_LAYOUT_COST_H
#define PARTITION_LAYOUT_COST_H

#include "partition/search/search.h"
#include "partition/sharding/sharding_internal.h"

enum { MAX_PART_DIMS = 2 * MAX_RANK };

// An amount that is proportional to the blocks of some dims: the work of a contraction, a value
// that is written or read, or one that is kept in memory.
typedef struct Part {
  double amount; // without a layout: seconds, or bytes if held; times the weight of the sample
  bool held;
  int64_t size[MAX_PART_DIMS];
} Part;

// The edges of the blocks of a value along dim d, which windows read from other processors.
typedef struct Edge {
  NodeId source;
  DimId d;
} Edge;
typedef VEC(Edge) Edges;

// The parts and values of all samples of a task, numbered in sequence. The values of a sample are
// its nodes (by id, from 0), then its edges.
typedef struct PartTable {
  uint32_t nvalues;
  double *weight; // [value] weight of its sample
  VEC(Part) part;
  Edges *edge; // [sample]
} PartTable;

// How a value moves between processors. Seconds, without latency.
typedef enum Flow {
  FLOW_JOIN,        // sums and gathers: all_reduce, reduce_scatter, all_gather
  FLOW_JOIN_MEMORY, // their memory traffic, and that of reading their result
  FLOW_SEND,        // other collectives, which move blocks
  FLOW_SEND_MEMORY,
  FLOW_HALO, // edges of blocks
  FLOWS
} Flow;

// What a layout does to a value: its computed, settled or read sharding is split; it moves.
enum { CHANGE_SPLIT = 1, CHANGE_MOVED };

// The cost of one layout, and what each part and each value contributes to it.
typedef struct PartCosts {
  LayoutCost cost;
  uint8_t *split;      // [part] 1 + index into Part.size of the first dim that is split, 0: none
  double *share;       // [part] the share that one processor has
  double *flow[FLOWS]; // [value] seconds
  uint8_t *change;     // [value] what axis 0 of the mesh does to it, CHANGE_*; 0: neither
} PartCosts;

PartTable *parts_new(Arena *a, const SearchTask *t);
// Estimates the cost of a layout on a mesh, usually of one or two axes. Lives in `a`. Not
// thread-safe.
PartCosts cost_in_parts(Arena *a, const SearchTask *t, const PartTable *parts, const Mesh *mesh,
                        const Layout *layout);

#endif
