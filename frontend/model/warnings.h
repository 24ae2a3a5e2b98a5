// Warnings about models that compile but are almost certainly not what the user meant.
#ifndef FRONTEND_WARNINGS_H
#define FRONTEND_WARNINGS_H

#include "frontend/model/build_internal.h"

// Warns, after the whole model is built, about unused dims, parameters and inputs, and about
// parameters without an initial value, which are zero, that are factors of contractions.
void warnings_of_model(Build *b);
// Checks a sum of the product of n factors; the sum is over the dims `over`. Warns at pos if only a
// parameter has one of the dims `over`, and another factor depends on an input.
void warn_param_alone(Build *b, Pos pos, uint32_t n, const Value *factor, const Dims *over);
// Calls warn_param_alone for the factors of node `product`, whose sum or mean over the dims `over`
// the model takes.
void warn_param_alone_in(Build *b, Pos pos, NodeId product, const Dims *over);
// Warns if the body of a scan never binds the carry `target`. Call it after the body is built.
void warn_carry_kept(Build *b, const Ast *target);
// Warns about names that the body of scan s over t binds from their own value of before the scan,
// although the scan does not carry them: h = h + x. Call it before the body is built.
void warn_carry_missing(Build *b, const Ast *s, DimId t);
// Warns about gradient(loss, name) if the loss depends only on an earlier value of that name.
void warn_gradient_of_old(Build *b, NodeId loss, const Ast *name);

#endif
