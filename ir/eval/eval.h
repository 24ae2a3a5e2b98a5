// The plain evaluator, the oracle of every test (decision 29): computes a graph in double, and for
// each element an absolute bound on what a correct implementation in the node's type may differ by.
// It also runs the lowered graph of all processors in lockstep, collectives included.
//
// Bounds are carried by first derivatives: a result y = f(x...) rounded to a type of unit roundoff
// u has bound(y) = sum |df/dx| bound(x) + k u |y|, a sum of n terms adds (min(n, blocks of
// ir/program/sums.h) + 4) u sum |terms| (Higham, Accuracy and Stability of Numerical Algorithms,
// 2nd ed., section 4.2). An element within its bound of a jump (comparison, floor, sort order, kink
// of a gradient) is tainted: it may be anything.
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/graph/graph.h"

// A tensor of one processor: dims in the node's canonical order, row-major, valid extents only.
typedef struct Tensor {
  Dtype type;
  Dims dims;
  int64_t extent[MAX_RANK];
  int64_t elements;
  double *value;
  double *bound;    // same length
  uint8_t *tainted; // same length
} Tensor;

// A whole tensor given from outside: n numbers in declared order of the decl.
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

// Evaluates every node. Inputs and parameters come from feeds (each decl that has a node must be
// fed, BUG otherwise); step is the value of the step counter. In a lowered graph the mesh of g
// gives the processors, and feeds are cut into blocks. Memory from `a`.
Eval *eval_run(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds, int64_t step);

static inline const Tensor *eval_at(const Eval *e, NodeId n, int64_t r) {
  return &e->at[(int64_t)n * e->processors + r];
}

// The same with errors put in (Monte Carlo arithmetic: Parker, "Monte Carlo arithmetic", 1997):
// what each node computes from its arguments is off by half to all of the bound of its own
// rounding, up or down at random, and that is passed on. Bounds are 0. How runs of different seeds
// differ says how far rounding moves a result, where the first derivatives of a deep graph add up
// to bounds that say nothing.
Eval *eval_run_perturbed(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds,
                         int64_t step, uint64_t seed);

// Node n put together from the blocks of all processors, dims in the given order of whole dims
// (rank 0: canonical). Replicas must agree within their bounds, else *replicas_agree is false.
Tensor *eval_full(Arena *a, const Eval *e, NodeId n, int rank, const DimId *order,
                  bool *replicas_agree);

#endif
