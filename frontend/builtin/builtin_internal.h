// Helpers for the rules of built-in functions: checks of brackets and arguments, and the nodes that
// several rules build. The checks report an error and return false if they fail. In a call such as
// window[y -> oy, ky](x, pad = same), "dim i" is the dim number i in the brackets, from 0, and
// "argument i" is the argument for formal i of the function. Dims before and after the arrow are
// numbered together.
#ifndef FRONTEND_BUILTIN_RULES_H
#define FRONTEND_BUILTIN_RULES_H

#include "frontend/model/build_internal.h"

// The largest stride, dilation and padding: with it, computing positions cannot overflow.
enum { MAX_STEP = 1 << 30 };

// Checks that operand v has dim i of the brackets.
MUST_USE bool call_has(Build *b, const Call *c, uint32_t i, const Value *v);
// Checks that operand v does not have dim i of the brackets, which the call adds. The call removes
// the dim at index `gone` of the brackets; if dim i is the same dim, v may have it.
MUST_USE bool call_new(Build *b, const Call *c, uint32_t i, const Value *v, uint32_t gone);
// Adds dim i of the brackets to `set`. It is an error if the set has the dim already.
MUST_USE bool call_add(Build *b, const Call *c, uint32_t i, Dims *set);
// Checks that the brackets have nfrom dims, an arrow, and nto dims.
MUST_USE bool call_map(Build *b, const Call *c, uint32_t nfrom, uint32_t nto);
// Reports that the call is not written as its form in builtin.def. Returns false.
bool call_misuse(Build *b, const Call *c);
// Sets *out to argument i, an integer known at compile time. Checks least <= *out <= MAX_STEP.
MUST_USE bool call_integer(Build *b, const Call *c, int i, int64_t least, int64_t *out);
// Sets *out to argument i, a number known at compile time.
MUST_USE bool call_number(Build *b, const Call *c, int i, double *out);
// Sets *out to an i32 node for argument i, a tensor, which must have an integer type.
MUST_USE bool call_positions(Build *b, const Call *c, int i, NodeId *out);
// Returns a node with the values of `ids`, which at run time gives an error if one is not a
// position of dim d. Returns 0 after an error. The message at run time calls the ids by the first
// of these that exists:
// - the name of node `named`, if another statement than the current one binds it;
// - the text of the argument `as`, unless `as` is NULL;
// - "a value computed from X", where X is the name of a value from which `named` is computed.
// `named` is the node from which the ids are computed.
NodeId bound_emit(Build *b, Pos pos, NodeId ids, DimId d, NodeId named, const Ast *as);
// Returns x at the positions `at`, i32 within dim 0 of the brackets, which x has. Dims that x and
// `at` share are matched. Returns 0 after an error.
NodeId take_emit(Build *b, const Call *c, NodeId x, NodeId at);
// Returns the position of argument i in the text or, if it is not given, that of the call.
Pos call_pos(const Call *c, int i);
// Returns the size of dim i of the brackets.
static inline int64_t call_size(const Build *b, const Call *c, uint32_t i) {
  return dim_get(b->g->dims, c->dim[i])->size;
}

// Adds a WINDOW node: x read along dim `from` at the positions that the affine map f gives for the
// nto dims `to`, of which there are 0 to 2. Positions outside x give `fill`. `start` is an i32
// scalar node that is added to the positions, or 0. The type is that of x, or a wider one if x's
// type cannot hold `fill`: i32 for u8 and bool, else the default float. Returns 0 after an error.
NodeId window_emit(Build *b, Pos pos, NodeId x, NodeId start, DimId from, int nto, const DimId *to,
                   Affine f, double fill);

#endif
