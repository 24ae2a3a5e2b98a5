// Helpers for the rules of built-in functions: checks of brackets and arguments, and the nodes that
// several rules build. The checks report an error and return false if they fail. Index i of a dim
// is its position in the brackets; index i of an argument is its formal.
#ifndef FRONTEND_BUILTIN_RULES_H
#define FRONTEND_BUILTIN_RULES_H

#include "frontend/model/build_internal.h"

// Strides, dilations and paddings are at most this, so that computing positions cannot overflow.
enum { MAX_STEP = 1 << 30 };

// Checks that v has dim i.
MUST_USE bool call_has(Build *b, const Call *c, uint32_t i, const Value *v);
// Checks that v does not have dim i of the brackets, which the call adds, unless that is the dim at
// index `gone` of the brackets, which the call removes.
MUST_USE bool call_new(Build *b, const Call *c, uint32_t i, const Value *v, uint32_t gone);
// Adds dim i of the brackets to `set`; a dim that is there already is an error.
MUST_USE bool call_add(Build *b, const Call *c, uint32_t i, Dims *set);
// Checks that the brackets have nfrom dims, an arrow, and nto dims. The error shows `form`.
MUST_USE bool call_map(Build *b, const Call *c, uint32_t nfrom, uint32_t nto, const char *form);
// Reads argument i as an integer known at compile time; checks least <= *out <= MAX_STEP.
MUST_USE bool call_integer(Build *b, const Call *c, int i, int64_t least, int64_t *out);
// Reads argument i as a number known at compile time.
MUST_USE bool call_number(Build *b, const Call *c, int i, double *out);
// Reads argument i, a tensor, as an i32 scalar node.
MUST_USE bool call_scalar(Build *b, const Call *c, int i, NodeId *out);
// Returns a node with the values of `ids` that checks at run time that they are positions of dim d;
// 0 after an error. The ids are computed from node `named`. The run-time message calls them by the
// first of these that exists:
// - the name of `named`, if another statement than the current one binds it;
// - the text of the argument `as`, unless that is NULL;
// - "a value computed from X", where X is the name of a value that `named` is computed from.
NodeId bound_emit(Build *b, Pos pos, NodeId ids, DimId d, NodeId named, const Ast *as);
// Returns the position of argument i in the text or, if it is not given, that of the call.
Pos call_pos(const Call *c, int i);
// Returns the size of dim i.
static inline int64_t call_size(const Build *b, const Call *c, uint32_t i) {
  return dim_get(b->g->dims, c->dim[i])->size;
}

// Adds a WINDOW node: x read along dim `from` at the positions that the affine map f gives for the
// nto dims `to`, of which there are 0 to 2. Positions outside x give `fill`. `start` is an i32
// scalar node that is added to the positions, or 0. The type is that of x, or a wider one if x's
// type cannot hold `fill`: i32 for u8 and bool, else the default float. 0 after an error.
NodeId window_emit(Build *b, Pos pos, NodeId x, NodeId start, DimId from, int nto, const DimId *to,
                   Affine f, double fill);

#endif
