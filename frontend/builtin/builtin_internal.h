// What the rules of built-ins that move elements share (builtin_window.c, builtin_slice.c,
// builtin_concat.c, builtin_lookup.c).
#ifndef FRONTEND_BUILTIN_RULES_H
#define FRONTEND_BUILTIN_RULES_H

#include "frontend/model/build_internal.h"

// Strides, dilations and paddings are below this, so that positions never overflow.
enum { MAX_STEP = 1 << 30 };

// False with an error when v lacks the dim that stands at i between the brackets.
MUST_USE bool call_has(Build *b, const Call *c, uint32_t i, const Value *v);
// False with an error when the dim at i is one of those that v keeps; the one at `gone` goes.
MUST_USE bool call_new(Build *b, const Call *c, uint32_t i, const Value *v, uint32_t gone);
// False with an error unless the brackets hold nfrom dims, an arrow, nto dims; `form` shows it.
MUST_USE bool call_map(Build *b, const Call *c, uint32_t nfrom, uint32_t nto, const char *form);
// Argument i as an integer known at compile time, least <= *out <= MAX_STEP; false after an error.
MUST_USE bool call_integer(Build *b, const Call *c, int i, int64_t least, int64_t *out);
// Argument i as a number known at compile time; false after an error.
MUST_USE bool call_number(Build *b, const Call *c, int i, double *out);
// Argument i as a computed i32 scalar; false after an error.
MUST_USE bool call_scalar(Build *b, const Call *c, int i, NodeId *out);
// ids, checked when they are read to be places of dim d. Messages name them by `named`, from which
// they are made, where it has a name of its own, else by the text of the argument `as` (or NULL),
// else by what they are computed from.
NodeId bound_emit(Build *b, Pos pos, NodeId ids, DimId d, NodeId named, const Ast *as);
// Where argument i is given, else of the call.
Pos call_pos(const Call *c, int i);
static inline int64_t call_size(const Build *b, const Call *c, uint32_t i) {
  return dim_get(b->g->dims, c->dim[i])->size;
}

// x read along `from` at the places that f says (start: 0 or an i32 scalar that is added), `fill`
// elsewhere. Its type is x's unless fill does not fit that: then an integer becomes f32, u8 and
// bool i32.
NodeId window_emit(Build *b, Pos pos, NodeId x, NodeId start, DimId from, int nto, const DimId *to,
                   Affine f, double fill);

#endif
