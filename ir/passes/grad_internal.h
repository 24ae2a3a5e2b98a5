// What the derivative rules of ops share (grad.c; rules in grad_point.c and grad_dims.c).
#ifndef IR_GRAD_RULES_H
#define IR_GRAD_RULES_H

#include "ir/graph/graph.h"

// A term of the gradient by a node outside the loop that is gone through backwards; `each`: it
// belongs to the current step of an argument of AT, else all steps add up.
typedef struct GradTerm {
  NodeId to, term;
  bool each;
} GradTerm;

// Where gradients are being computed: outside all loops, or in the backward loop of one.
typedef struct GradLevel {
  struct GradLevel *outer;
  RegionId of, back; // the loop that is gone through, and the one that does it; 0: outside
  NodeId scan;       // of `of`
  bool recompute;    // values of `of` are computed again in `back`
  VEC(GradTerm) term;
} GradLevel;

typedef struct Grad {
  Graph *g;
  NodeId id;         // the node whose rule runs, as a value that may be used here
  Node n;            // a copy of it; its arguments are values that may be used here
  const NodeId *key; // the arguments themselves
  NodeId dy;         // derivative of the loss by it, of its type and dims
  bool *needed;      // by node: some `by` reaches it through floats
  bool *active;      // and it reaches the loss
  NodeId *adjoint;
  // of loops (grad_region.c)
  Arena *scratch;
  uint32_t count, regions; // nodes and regions before the first that was added
  const NodeId *order;     // all of them, each after what it waits for
  RegionId open;           // that of the loss
  RegionNodes nodes;
  const NodeId *scan; // of each region
  GradLevel *level;
  NodeId *mirror; // by node of a loop: its value at the same step of the backward loop
  NodeId *clone;  // by node inside a loop that is computed again: its copy there
  NodeId
      *wide; // the same where only what an inner loop hands out is, with that loop (recompute_wide)
  RegionId *clone_region;
} Grad;

typedef void GradRule(Grad *c);
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  GradRule grad_##grad;
#include "ir/graph/ops.def"

// Whether the gradient by argument i is asked for.
bool grad_wanted(const Grad *c, int i);
// Adds `term` to the gradient by argument i: summed over dims that the argument lacks, broadcast to
// those that only it has, cast to its type. Nothing when it is not wanted.
void grad_to(Grad *c, int i, NodeId term);
// The same for the term a * b, as a contraction where dims are summed.
void grad_product_to(Grad *c, int i, NodeId a, NodeId b);
// A scalar of the node's type.
NodeId grad_const(Grad *c, double value);
// Adds a term of its type and dims to the gradient by node `to`.
void grad_accumulate(Grad *c, NodeId to, NodeId term);
// Runs the rule of node n when its gradient and one of its arguments' are asked for.
void grad_node(Grad *c, NodeId n);
// The scan with id `scan`, whose ends have their gradients: goes through the loop backwards.
void grad_loop(Grad *c, NodeId scan);
Origin grad_origin(Grad *c, NodeId n);
// Whether n hands out what a loop computes: then the gradient waits for the loop.
bool grad_ends_loop(const Grad *c, NodeId n);
// The value of node n where gradients are being computed.
NodeId grad_value(Grad *c, NodeId n);
// The loop that n is in and the loss is not: 0 for what is outside all such.
RegionId grad_region(const Grad *c, NodeId n);
// x * factor; of narrow floats in f32 when the factor is none of theirs.
NodeId grad_scaled(Grad *c, NodeId x, double factor);

#endif
