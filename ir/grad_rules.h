// What the derivative rules of ops share (grad.c; rules in grad_point.c and grad_dims.c).
#ifndef IR_GRAD_RULES_H
#define IR_GRAD_RULES_H

#include "ir/graph.h"

typedef struct Grad {
  Graph *g;
  NodeId id;    // the node whose rule runs
  Node n;       // a copy of it
  NodeId dy;    // derivative of the loss by it, of its type and dims
  bool *needed; // by node
  NodeId *adjoint;
} Grad;

typedef void GradRule(Grad *c);
#define OP(id, text, args, cls, flags, linear, infer, eval, grad, emit) GradRule grad_##grad;
#include "ir/ops.def"
#undef OP

// Whether the gradient by argument i is asked for.
bool grad_wanted(const Grad *c, int i);
// Adds `term` to the gradient by argument i: summed over dims that the argument lacks, broadcast to
// those that only it has, cast to its type. Nothing when it is not wanted.
void grad_to(Grad *c, int i, NodeId term);
// The same for the term a * b, as a contraction where dims are summed.
void grad_product_to(Grad *c, int i, NodeId a, NodeId b);
// A scalar of the node's type.
NodeId grad_const(Grad *c, double value);
// x * factor; of narrow floats in f32 when the factor is none of theirs.
NodeId grad_scaled(Grad *c, NodeId x, double factor);

#endif
