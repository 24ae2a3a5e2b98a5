// The cost of a layout in parts: what each contraction and each value of the model costs on one
// processor without a layout, and the share of it that remains for a processor under a layout.
// Lower bounds are computed from these.
#ifndef PARTITION_LAYOUT_COST_H
#define PARTITION_LAYOUT_COST_H

#include "partition/search/search.h"
#include "partition/sharding/sharding_internal.h"

enum { MAX_PART_DIMS = 2 * MAX_RANK };

// A part of the cost of a model, proportional to the blocks of some dims: the work of a
// contraction, the traffic of a value, or the memory of a kept value.
typedef struct Part {
  double amount;               // unsplit: seconds, or bytes if `held`; times the sample's weight
  bool held;                   // the part is memory, not work
  int64_t size[MAX_PART_DIMS]; // elements of the dims that can split the part
} Part;

// The elements at the edges of the blocks of value `source` along dim d, which windows read from
// other processors.
typedef struct Edge {
  NodeId source;
  DimId d;
} Edge;
typedef VEC(Edge) Edges;

// All parts (amounts of work or memory) and values (tensors that collectives move) of the samples
// of a task, numbered in sequence. A sample is one of the graphs whose costs are added. The values
// of a sample are its nodes (by id, from 0), then its edges.
typedef struct PartTable {
  uint32_t nvalues;
  double *weight; // [value] weight of its sample
  VEC(Part) part;
  Edges *edge; // [sample]
} PartTable;

// The kinds of collectives and memory traffic by which a value moves between processors.
// PartCosts.flow has the seconds of each kind, without latency.
typedef enum Flow {
  FLOW_JOIN,        // sums and gathers: all_reduce, reduce_scatter, all_gather
  FLOW_JOIN_MEMORY, // memory traffic of these collectives, and of reading their results
  FLOW_SEND,        // other collectives, which move blocks
  FLOW_SEND_MEMORY, // memory traffic of these, and of reading their results
  FLOW_HALO,        // halos: edges of blocks
  FLOWS
} Flow;

// What a layout does to a value. CHANGE_SPLIT: the value is split where it is computed, where
// readers see it (settled) or where it is read. CHANGE_MOVED: collectives move the value.
enum { CHANGE_SPLIT = 1, CHANGE_MOVED };

// The cost of one layout, and what each part (amount of work or memory) and each value (tensor that
// collectives move) contributes.
typedef struct PartCosts {
  LayoutCost cost;
  uint8_t *split;      // [part] 1 + index into Part.size of the first dim that is split, 0: none
  double *share;       // [part] share of the amount that one processor has
  double *flow[FLOWS]; // [value] seconds that the value moves
  uint8_t *change;     // [value] what axis 0 of the mesh does to it, CHANGE_*; 0: neither
} PartCosts;

PartTable *parts_new(Arena *a, const SearchTask *t);
// Returns the estimated cost of a layout on a mesh, usually of one or two axes, with the
// contribution of each part and value. The result lives in `a`. Not thread-safe.
PartCosts cost_in_parts(Arena *a, const SearchTask *t, const PartTable *parts, const Mesh *mesh,
                        const Layout *layout);

#endif
