// Warnings about models that compile but are almost certainly not what the user meant.
#ifndef FRONTEND_WARNINGS_H
#define FRONTEND_WARNINGS_H

#include "frontend/model/build_internal.h"

// Warns, after the whole model is built, about unused dims, parameters and inputs, and about zero
// parameters that are factors of contractions.
void warnings_of_model(Build *b);
// Checks the sum, over the dims `over`, of the product of n factors. Warns at pos if only a
// parameter has one of these dims and another factor depends on an input.
void warn_param_alone(Build *b, Pos pos, uint32_t n, const Value *factor, const Dims *over);
// As warn_param_alone, for a sum or mean of node `product`; finds the factors in the graph.
void warn_param_alone_in(Build *b, Pos pos, NodeId product, const Dims *over);
// Warns if the body of a scan, which has just been built, never binds `target`, one of its carries.
void warn_carry_kept(Build *b, const Ast *target);
// Warns about gradient(loss, name) if the loss depends only on an earlier value of that name.
void warn_gradient_of_old(Build *b, NodeId loss, const Ast *name);

#endif
