// Partitioning: from a graph and a layout to the graph of one processor.
//   layout_check  checks the rules of a layout against dims, tensors and mesh
//   place         chooses a sharding for every value, and where partial sums are reduced
//   lower         makes the graph over block dims, with conversions as collective nodes
#ifndef PARTITION_PARTITION_H
#define PARTITION_PARTITION_H

#include "collectives/collectives.h"
#include "ir/graph/graph.h"
#include "ir/program/machine.h"

// How a value is placed on the mesh. An axis in `split` splits one dim, an axis in `partial` holds
// partial sums, and over any other axis the value is replicated.
typedef struct Sharding {
  Axes split[MAX_RANK];    // [i] axes that split dim i of the value, outermost blocks first; empty
                           // beyond the value's rank
  Axes partial;            // axes over which the value is partial: each processor has a partial sum
  uint8_t monoid;          // a Monoid: how partial sums combine
  uint16_t rule[MAX_AXES]; // [axis] 1 + index of the layout rule because of which the axis splits
                           // or sums, 0: none
} Sharding;

typedef struct Placement {
  const Graph *graph;
  const Sharding **computed; // [node] sharding in which the node is computed
  const Sharding **settled;  // [node] sharding in which users of full sums read the value; never
                             // partial
  const Layout *layout;
  // The placement without moves that may add redundant work to send less (place_improve.c), or in
  // which sums are reduced earlier (place_reduce.c). These are judged by estimates: only the
  // programs of both tell which is faster. NULL: there is none.
  const struct Placement *modest;
  const struct Placement *full; // the placement whose `modest` this one is, or NULL
  bool late;                    // `modest` is this one with sums that are reduced earlier
  // Seconds that a step saves, by estimate, where sums are reduced late and not early; below 0 if
  // early is better, 0 if there is no difference. Those of a long model follow from short ones.
  double late_saves;
} Placement;

// Of the axes that split one dim, which one sums are reduced over first (place_reduce.c).
typedef enum SumOrder {
  SUMS_BEST, // the order that costs less by estimate or, where there is no `modest` otherwise, both
  SUMS_EARLY, // in the order of the mesh
  SUMS_LATE   // the last one first: sums stay partial for longer
} SumOrder;

// Reports errors in d: rules that name no dim, axis or tensor; a dim with two general rules; two
// dims of one tensor (input, parameter, state, named value, result of a reduction or contraction)
// on one axis. Warns of axes that no rule uses. Returns true if there were no errors.
MUST_USE bool layout_check(const Graph *g, const Layout *layout, Diag *d);
// Returns whether a pin, `layout(x, dim -> axis)` in the model, names this axis of g->mesh.
bool axis_is_pinned(const Graph *g, int axis);

// Chooses a sharding for every value of g. Equal arguments give equal results. layout_check must
// have passed. `a` owns the result, which refers to g and layout.
Placement *place(Arena *a, const Graph *g, const Layout *layout, const Machine *machine);
// Does what `place` does, with sums reduced in this order.
Placement *place_ordered(Arena *a, const Graph *g, const Layout *layout, const Machine *machine,
                         SumOrder order);
// Does what `place` does, without the local search over groups of nodes (place_improve.c), which
// lowers communication but may raise peak memory.
Placement *place_plain(Arena *a, const Graph *g, const Layout *layout, const Machine *machine);
// Returns the placement, and its `modest` or `full`, for a graph with a copy of its dims
// (dim_table_copy), to which `lower` may add others.
Placement *placement_with_dims(Arena *a, const Placement *of, DimTable *dims);
// Tables of a graph that do not depend on mesh and layout, so that all its placements share them.
typedef struct PlaceGraph PlaceGraph;
const PlaceGraph *place_graph(Arena *a, const Graph *g);
// Does what place_plain does, with tables `of` that place_graph made for a graph with the same
// nodes as g. The collectives that `lower` makes from the result have no reason text.
Placement *place_silent(Arena *a, const PlaceGraph *of, const Graph *g, const Layout *layout,
                        const Machine *machine);
// Returns a hash of what a layout asks of the values of g, which has the nodes of the graph of
// `of`. On one mesh layouts with equal hashes have equal placements, but for reason texts.
uint64_t place_asked(const PlaceGraph *of, const Graph *g, const Layout *layout);
// Returns a text that says what decided the sharding of node n, such as "h -> cols (layout, line
// 21)", or "h -> cols (--layout)" for a rule of a command line. `diag` knows which of its sources
// are such; NULL: none.
const char *placement_why(const Placement *placement, const Diag *diag, NodeId n);
// Returns the layout rule that makes `axis` split dim d of node n: index into
// placement->layout->rule, or -1 when no rule does, e.g. after a pin (`layout(...)` in the model).
// d is a dim of n, a dim that n sums, or (if n is a window) a dim of its source. The splits are
// those of n as computed, as settled, and as users read n.
int placement_rule(const Placement *placement, NodeId n, DimId d, int axis);
// Returns the layout rule that makes n partial over `axis`, or -1.
int placement_partial_rule(const Placement *placement, NodeId n, int axis);
// Returns the sharding of node n as text. This is a callback for graph_print: `placement` points to
// a Placement.
const char *placement_note(const void *placement, NodeId n);

// Makes the graph of one processor (STAGE_LOWER). A value that a user reads in another sharding
// gets a conversion; equal conversions are made once. OUT_UPDATE outputs have the sharding of their
// target, OUT_VALUE outputs the settled sharding of their value.
Graph *lower(Arena *a, const Placement *p);

// Sizes and work of one processor, for `check`.
typedef struct PartitionFacts {
  int64_t flops, flops_whole;   // of contractions, multiply and add count as two: of one processor;
                                // of the unsplit graph
  int64_t flops_rematerialised; // part of `flops` that rematerialises forward values
  double redundant_flops;       // (flops - flops_rematerialised) * processors / flops_whole - 1,
                                // with the scores that row sums of attention lose on a GPU
  double idle_flops;            // the part of redundant_flops that is no work: for elements beyond
                                // the end of a dim, in blocks that are not full or are empty
  double padding;               // share of padded elements in the blocks of declared tensors
  int64_t parameter_bytes, optimizer_bytes;
} PartitionFacts;
PartitionFacts partition_facts(const Graph *whole, const Graph *lowered);
// Sets the flops of *f to those of `g`, and notes which of them rematerialise forward values: those
// that `once`, the graph before rematerialisation, lacks.
void partition_facts_rematerialised(PartitionFacts *f, const Graph *once, const Graph *g);

#endif
