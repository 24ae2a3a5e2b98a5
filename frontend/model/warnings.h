// Warnings about models that compile and almost certainly do not mean what they say.
#ifndef FRONTEND_WARNINGS_H
#define FRONTEND_WARNINGS_H

#include "frontend/model/build_internal.h"

// Over the whole model, once it is built: unused dims, parameters and inputs; zero factors of
// contractions.
void warnings_of_model(Build *b);
// A sum at pos of the product of n tensors over `over`: warns where only a parameter has one of
// these dims, and another factor depends on an input.
void warn_param_alone(Build *b, Pos pos, uint32_t n, const Value *factor, const Dims *over);
// The same for the mean of a node that multiplies them.
void warn_param_alone_in(Build *b, Pos pos, NodeId product, const Dims *over);
// At the end of the body of a scan: `target` is one of its carries.
void warn_carry_kept(Build *b, const Ast *target);
// gradient(loss, name): warns where the loss depends on an earlier value of that name only.
void warn_gradient_of_old(Build *b, NodeId loss, const Ast *name);

#endif
