// The evaluator computes the elements of each value in double. For each element it also computes a
// bound: a correct program, which computes in the type of the node, may differ from the value by
// this much. Tests and --verify compare programs with the evaluator. It also runs the lowered graph
// of all processors in lockstep, with collectives.
//
// Bounds propagate by first derivatives. Let y = f(x...) be rounded k times to a type of unit
// roundoff u; then bound(y) = sum |df/dx| bound(x) + k u |y|. A sum of n terms adds (min(n, m) + 4)
// u sum |terms|, where m is the number of additions that a term passes through in a sum by blocks
// (ir/program/sums.h); see Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section
// 4.2. An element is *tainted* if its value within the bound can cross a discontinuity (of a
// comparison, floor, sort order, or gradient): a correct program may give any value. An element is
// *exact* if its bound is 0: every correct program computes this value to the last bit.
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/graph/graph.h"

// The block of a tensor that one processor has, row-major, with dims in the node's canonical order.
// Extents count the valid elements: the last block of a dim may be shorter than the others.
typedef struct Tensor {
  Dtype type;
  Dims dims;
  int64_t extent[MAX_RANK];
  int64_t elements;
  double *value;
  double *bound;    // the bound of each element (see the head of this file)
  uint8_t *tainted; // whether each element is tainted
} Tensor;

// The value of an input, parameter or state: n numbers, row-major in the declared order of dims.
typedef struct EvalFeed {
  DeclId decl;
  const double *value;
  int64_t n;
} EvalFeed;

typedef struct Eval Eval;
struct Eval {
  const Graph *graph;
  int64_t processors;       // number of processors of the mesh; 1 for a graph before lowering
  Tensor *at;               // tensor of node n on processor r: at[n * processors + r]
  bool out_of_range;        // an id was outside the range of its bound_index
  NodeId out_of_range_node; // that bound_index, if out_of_range
};

// Evaluates every node of g. Each declaration that has a source node in g needs a feed; BUG
// otherwise. `step` is the value of the step counter. A lowered graph is evaluated on all
// processors of its mesh, each with its blocks of the feeds. The result is in `a`.
Eval *eval_run(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds, int64_t step);

static inline const Tensor *eval_at(const Eval *e, NodeId n, int64_t r) {
  return &e->at[(int64_t)n * e->processors + r];
}

// Evaluates a graph as eval_run does, with random rounding errors (Monte Carlo arithmetic: Parker,
// "Monte Carlo arithmetic", 1997). Each result of a node is moved up or down by half to all of the
// bound of the node's own rounding. The bounds of the result are 0. The spread of runs with
// different seeds shows how far rounding moves a result. It is useful for deep graphs, whose bounds
// are too wide.
//
// If it rounds, each result of f32, bf16 and f16 is rounded, as programs do, and moved only by what
// the bound is beyond that. Where such a value lies next to a step (floor, a comparison), or is
// equal to another by rounding, programs see what this run sees, which random errors may miss. But
// the rounding errors of such runs are nearly the same ones, so that they do not show how large
// others can be.
Eval *eval_run_perturbed(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds,
                         int64_t step, uint64_t seed, bool rounds);

// Returns the whole tensor of node n, assembled from the blocks of all processors. Its axes are the
// `rank` whole dims `order`, or the dims of n in canonical order if rank is 0. If replicas_agree is
// not NULL, *replicas_agree is false if processors have copies of an element that differ by more
// than their bounds.
Tensor *eval_full(Arena *a, const Eval *e, NodeId n, int rank, const DimId *order,
                  bool *replicas_agree);

#endif
