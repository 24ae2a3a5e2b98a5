// State shared by the derivative rules (grad_point.c, grad_dims.c, grad_ordered.c), loops
// (grad_region.c) and their caller, grad.c.
#ifndef IR_GRAD_RULES_H
#define IR_GRAD_RULES_H

#include "ir/graph/graph.h"

// A term of the gradient by a node outside the loop under differentiation. `each`: the term is for
// the current step of an argument of AT; otherwise the gradient is the sum over all steps.
typedef struct GradTerm {
  NodeId to, term;
  bool each;
} GradTerm;

// The place where gradients are computed: outside all loops, or in the backward loop of one.
typedef struct GradLevel {
  struct GradLevel *outer;
  RegionId of, back; // the loop under differentiation and its backward loop; 0: outside
  NodeId scan;       // the scan of loop `of`
  bool recompute;    // values of `of` are recomputed in `back`
  VEC(GradTerm) term;
} GradLevel;

typedef struct Grad {
  Graph *g;
  NodeId id;         // the node whose rule runs, as a value that is visible here
  Node n;            // a copy of the node; its arguments are values that are visible here
  const NodeId *key; // the original arguments
  NodeId dy;         // gradient of the loss by the node, with its type and dims
  bool *needed;      // by node: some `by` reaches it through floats
  bool *active;      // and it reaches the loss: see grad.c
  NodeId *adjoint;
  // for loops (grad_region.c)
  Arena *scratch;
  uint32_t count, regions; // number of nodes and regions before gradients were added
  const NodeId *order;     // all these nodes, each after those that it depends on
  RegionId open;           // region of the loss
  RegionNodes nodes;
  const NodeId *scan; // scan of each region
  GradLevel *level;
  NodeId *mirror; // of a node in a loop: its value at the same step of the backward loop
  NodeId *clone;  // of a node in a loop that is recomputed: its copy in the backward loop
  NodeId *wide;   // as clone, for single inner loops that are recomputed (recompute_wide)
  RegionId *clone_region;
} Grad;

typedef void GradRule(Grad *c);
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  GradRule grad_##grad;
#include "ir/graph/ops.def"

// Returns true if the gradient by argument i is needed.
bool grad_wanted(const Grad *c, int i);
// Adds `term` to the gradient by argument i. The term is summed over dims that the argument does
// not have, broadcast to dims that it does not have itself, and cast to the argument's type. Does
// nothing if the gradient is not needed.
void grad_to(Grad *c, int i, NodeId term);
// As grad_to with the term a * b; a contraction where dims are summed.
void grad_product_to(Grad *c, int i, NodeId a, NodeId b);
// Returns a constant of the node's type.
NodeId grad_const(Grad *c, double value);
// Adds a term to the gradient by node `to`; it has the type and dims of that node.
void grad_accumulate(Grad *c, NodeId to, NodeId term);
// Runs the rule of node n if n has a gradient and one of its arguments needs one.
void grad_node(Grad *c, NodeId n);
// Differentiates the loop of scan `scan`, after the gradients of its results are complete.
void grad_loop(Grad *c, NodeId scan);
Origin grad_origin(Grad *c, NodeId n);
// Returns true if n is a result of a loop (FINAL, COLLECT): its gradient is used when the loop is
// differentiated.
bool grad_ends_loop(const Grad *c, NodeId n);
// Returns the value of node n in the region where gradients are being computed.
NodeId grad_value(Grad *c, NodeId n);
// Returns the loop around n that is not around the loss; 0: none.
RegionId grad_region(const Grad *c, NodeId n);
// Returns x * factor. A narrow float is multiplied in f32 if the factor is not exact in its type.
NodeId grad_scaled(Grad *c, NodeId x, double factor);

#endif
