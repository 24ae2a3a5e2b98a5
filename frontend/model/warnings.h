// Warnings about models that compile but are almost certainly not what the user meant.
#ifndef FRONTEND_WARNINGS_H
#define FRONTEND_WARNINGS_H

#include "frontend/model/build_internal.h"

// Warns, after the whole model is built, about unused dims, parameters and inputs, and about
// parameters without an initial value, which are zero, that are factors of contractions.
void warnings_of_model(Build *b);
// Checks the sum, over the dims `over`, of the product of n factors. Warns at pos if only a
// parameter has one of these dims and another factor depends on an input.
void warn_param_alone(Build *b, Pos pos, uint32_t n, const Value *factor, const Dims *over);
// Finds the factors of node `product`, of which the sum or mean over the dims `over` is taken, and
// warns as warn_param_alone does.
void warn_param_alone_in(Build *b, Pos pos, NodeId product, const Dims *over);
// Warns if the body of a scan never binds `target`, one of its carries. Call it after building the
// body.
void warn_carry_kept(Build *b, const Ast *target);
// Warns about gradient(loss, name) if the loss depends only on an earlier value of that name.
void warn_gradient_of_old(Build *b, NodeId loss, const Ast *name);

#endif
