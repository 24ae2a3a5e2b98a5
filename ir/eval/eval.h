// The evaluator: computes a graph in double, and for each element a bound on the error of a correct
// program that computes in the node's type. Tests and `meshc verify` compare programs with it
// (decision 29). It also runs the lowered graph of all processors in lockstep, with collectives.
//
// Bounds propagate by first derivatives. A result y = f(x...) rounded to a type of unit roundoff u
// has bound(y) = sum |df/dx| bound(x) + k u |y|. A sum of n terms adds
// (min(n, blocks of ir/program/sums.h) + 4) u sum |terms| (Higham, Accuracy and Stability of
// Numerical Algorithms, 2nd ed., section 4.2). An element whose bound includes a discontinuity (of
// a comparison, floor, sort order, or gradient) is *tainted*: a correct program may give any value.
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/graph/graph.h"

// A tensor of one processor, row-major, dims in the node's canonical order. Extents are the valid
// ones: the last block of a dim may be shorter than the others.
typedef struct Tensor {
  Dtype type;
  Dims dims;
  int64_t extent[MAX_RANK];
  int64_t elements;
  double *value;
  double *bound;    // same length
  uint8_t *tainted; // same length
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
  int64_t processors; // 1 for a whole graph
  Tensor *at;         // at[node * processors + r]
  bool out_of_range;  // a bound_index saw an id outside
  NodeId out_of_range_node;
};

// Evaluates every node of g. Each declaration that has a source node in g needs a feed; BUG
// otherwise. `step` is the value of the step counter. A lowered graph is evaluated on all
// processors of its mesh, each with its blocks of the feeds. The result is in `a`.
Eval *eval_run(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds, int64_t step);

static inline const Tensor *eval_at(const Eval *e, NodeId n, int64_t r) {
  return &e->at[(int64_t)n * e->processors + r];
}

// As eval_run, but with random rounding errors (Monte Carlo arithmetic: Parker, "Monte Carlo
// arithmetic", 1997). Each result of a node is moved up or down by half to all of the bound of the
// node's own rounding; the bounds of the result are 0. The spread of runs with different seeds
// shows how far rounding moves a result, where the bounds of a deep graph are too wide to be
// useful.
Eval *eval_run_perturbed(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds,
                         int64_t step, uint64_t seed);

// The full tensor of node n, assembled from the blocks of all processors. `order`: its dims, full
// ones, in the wanted order (rank 0: canonical). *replicas_agree, if not NULL, is set to whether
// elements that several processors hold are equal within their bounds.
Tensor *eval_full(Arena *a, const Eval *e, NodeId n, int rank, const DimId *order,
                  bool *replicas_agree);

#endif
