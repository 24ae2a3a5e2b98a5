// Partitioning: from a layout to the graph of one processor.
//   layout_check  the user's rules against dims, tensors and mesh
//   place         a state for every value on every mesh axis, and where partial sums are reduced
//   lower         the graph over block dims, conversions as collective nodes
#ifndef PARTITION_PARTITION_H
#define PARTITION_PARTITION_H

#include "collectives/collectives.h"
#include "ir/graph/graph.h"
#include "ir/program/machine.h"

// How a value lies on the mesh. Each axis splits one dim, is partial, or (not mentioned)
// replicates.
typedef struct Sharding {
  Axes split[MAX_RANK];    // axes that split dims.at[i] of the node, slowest first
  Axes partial;            // each processor along these holds a partial sum
  Monoid monoid;           // how partial sums combine
  uint16_t rule[MAX_AXES]; // of an axis in use: 1 + index of the layout rule behind it, 0: none
} Sharding;

typedef struct Placement {
  const Graph *graph;
  Sharding *computed; // in which node n is computed
  Sharding *settled;  // in which users read it that need full sums; never partial
  const Layout *layout;
} Placement;

// Errors: rules that name no dim, axis or tensor; a dim with two general rules; two dims of a
// tensor (input, parameter, state, named value, result of a reduction or contraction) on one axis.
// Warnings: axes that no rule uses. True without errors.
MUST_USE bool layout_check(const Graph *g, const Layout *layout, Diag *d);
// Whether a `layout(x, dim -> axis)` of the model names this axis of g->mesh.
bool axis_is_pinned(const Graph *g, int axis);

// Chooses states (design: partitioning). Deterministic. Needs layout_check to have passed.
Placement *place(Arena *a, const Graph *g, const Layout *layout, const Machine *machine);
// The same without moves that pay for several nodes together (place_improve.c): they send less, and
// some hold more.
Placement *place_plain(Arena *a, const Graph *g, const Layout *layout, const Machine *machine);
// For many layouts of one graph: what their placements share. Of a graph that is `g` but for its
// mesh and the blocks in its dims.
typedef struct PlaceGraph PlaceGraph;
const PlaceGraph *place_graph(Arena *a, const Graph *g);
// As place_plain; what lower makes of it has no reasons.
Placement *place_silent(Arena *a, const PlaceGraph *of, const Graph *g, const Layout *layout,
                        const Machine *machine);
// What decided the state of node n, e.g. "h -> cols (layout, model.mesh:21)".
const char *placement_why(const Placement *placement, NodeId n);
// The layout rule that makes `axis` split dim d of node n: index into placement->layout->rule, or
// -1 when no rule does, e.g. after `layout(...)` in the model. d is a dim of n, a dim that n sums,
// or (if n is a window) a dim of its source. The split may be that of the computed or the settled
// sharding or of a user's read.
int placement_rule(const Placement *placement, NodeId n, DimId d, int axis);
// The layout rule that makes n partial over `axis`, or -1.
int placement_partial_rule(const Placement *placement, NodeId n, int axis);
// The "@ state" text of node n, for graph_print.
const char *placement_note(const void *placement, NodeId n);

// The one-processor graph (STAGE_LOWER) with a conversion wherever a use wants another state than
// its argument has; equal conversions are shared. Outputs: OUT_UPDATE in the state of their target,
// OUT_VALUE in the state that they have, partial ones reduced.
Graph *lower(Arena *a, const Placement *p);

// Sizes and work of one processor, for `check`.
typedef struct PartitionFacts {
  int64_t flops, flops_whole;      // products and convolutions, multiply and add are two
  int64_t flops_rematerialised;    // those of `flops` that are computed again for the backward pass
  double redundant_flops, padding; // (flops - flops_rematerialised)*processors/flops_whole - 1;
                                   // share of padded elements in blocks of decls
  int64_t parameter_bytes, optimizer_bytes;
} PartitionFacts;
PartitionFacts partition_facts(const Graph *whole, const Graph *lowered);
// The same program with nodes that are computed again.
void partition_facts_rematerialised(PartitionFacts *f, const Graph *kept);

#endif
