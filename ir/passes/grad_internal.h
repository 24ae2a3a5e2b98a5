// State shared by the derivative rules (grad_point.c, grad_dims.c, grad_ordered.c), loops
// (grad_region.c) and their caller, grad.c.
#ifndef IR_GRAD_RULES_H
#define IR_GRAD_RULES_H

#include "ir/graph/graph.h"

// A term of the gradient of node `to`, which is outside the loop that is being differentiated. If
// `each` is true, `to` is the argument of an AT, and the term is the gradient of its element at the
// current step. Otherwise the gradient of `to` is the sum of the term over all steps.
typedef struct GradTerm {
  NodeId to, term;
  bool each;
} GradTerm;

// A level of nested loops at which gradients are computed. The outermost level is outside all
// loops; every other level is the backward loop of one loop.
typedef struct GradLevel {
  struct GradLevel *outer;
  RegionId of, back; // the loop and its backward loop; both are 0 at the outermost level
  NodeId scan;       // the scan of loop `of`
  bool recompute;    // values of `of` are recomputed in `back`
  VEC(GradTerm) term;
  uint32_t ncarries;    // number of carries of `back` so far
  VEC(NodeId) constant; // the constant carries of `back`, if it is guarded
} GradLevel;

typedef struct Grad {
  Graph *g;
  NodeId id; // value, at the current level, of the node whose rule runs
  Node n;    // a copy of this node; its arguments are replaced by their values at the current level
  const NodeId *key; // ids of the node's arguments in the forward pass
  NodeId dy;         // gradient of the loss by this node; has the type and dims of the node
  bool *needed;      // [NodeId] of those in `order`: it depends on a node of `by`, through floats
  bool *active;      // [NodeId] whether the node is needed and the loss depends on it
  NodeId *adjoint;
  Arena *scratch;
  uint32_t count, regions; // numbers of nodes and regions before gradients were added
  // The nodes that are visited, each after those that it depends on. With loops: all nodes.
  // Without: those on which the loss depends.
  const NodeId *order;
  uint32_t norder;
  // The following fields are for loops (grad_region.c).
  RegionId open; // region of the loss; this loop and those around it are not differentiated
  RegionNodes nodes;
  const NodeId *scan; // [RegionId] the SCAN node of the region
  bool *nests;        // [RegionId] whether loops are inside the loop
  // The results of a loop, FINAL and COLLECT, in the order of `order`: result[RegionId] is the
  // first one, later[NodeId] the next one, 0: none.
  NodeId *result, *later;
  GradLevel *level;
  // [NodeId] For a node in a loop: its value at the same step of the backward loop.
  NodeId *mirror;
  // [NodeId] For a node in a loop that is recomputed: its copy in the backward loop.
  NodeId *clone;
  // [NodeId] Of a carry: the gradient of its final value.
  NodeId *final;
  // [NodeId] For a node copied by recompute_wide: its copy in the backward loop.
  NodeId *wide;
  RegionId *clone_region;
} Grad;

typedef void GradRule(Grad *c);
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  GradRule grad_##grad;
#include "ir/graph/ops.def"

// Returns true if argument i of the node whose rule is running needs a gradient.
bool grad_wanted(const Grad *c, int i);
// Adds `term` to the gradient by argument i of the node whose rule is running. The term is summed
// over dims that the argument lacks, broadcast to dims that the term lacks, and cast to the
// argument's type. Does nothing if the argument needs no gradient.
void grad_to(Grad *c, int i, NodeId term);
// Adds the term a * b to the gradient by argument i as grad_to does. If dims are summed, the
// product and the sum become one contraction.
void grad_product_to(Grad *c, int i, NodeId a, NodeId b);
// Returns a constant with the type of the node whose rule is running.
NodeId grad_const(Grad *c, double value);
// Adds `term` to the gradient by node `to`. The term must have the type and dims of that node.
void grad_accumulate(Grad *c, NodeId to, NodeId term);
// Runs the derivative rule of node n if n has a gradient and one of its arguments needs one.
void grad_node(Grad *c, NodeId n);
// Builds the backward loop of the loop that node `scan` ends. The gradients of the loop's results
// must be complete.
void grad_loop(Grad *c, NodeId scan);
Origin grad_origin(Grad *c, NodeId n);
// Returns true if n is FINAL or COLLECT, a result of a loop. Its gradient is used when that loop is
// differentiated, so no rule runs for n.
bool grad_ends_loop(const Grad *c, NodeId n);
// Returns the value of node n for use in the backward loop that is being built. It is n itself if n
// is outside the differentiated loop, else the value of n at the same step.
NodeId grad_value(Grad *c, NodeId n);
// Returns the innermost loop around n. Returns 0 if n is in no loop, or if the loss is in this loop
// too.
RegionId grad_region(const Grad *c, NodeId n);
// Returns x * factor. For a narrow float the product is computed in f32 if the factor is not exact
// in the type of x.
NodeId grad_scaled(Grad *c, NodeId x, double factor);

#endif
