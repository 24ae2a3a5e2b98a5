// Positions that windows read, as integers (K_POSITION, K_QUOTIENT), and whether they are inside
// the tensor (K_INSIDE). A walk is a sum of loop counters times strides that gives such a position.
// Code is emitted for one row (a round of an outer loop) and one vector of a tile.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM

// Emits the value of a walk, a sum of loop counters times strides, for row r and vector v of a
// tile. It is a vector if the walk has a stride along the vector loop.
static LLVMValueRef walk_at(Emit *e, int walk, int r, int v) {
  const KPtr *w = &e->k->walk[walk];
  LLVMValueRef at = e->walk[walk];
  for (int l = 0; l < e->k->nouter + e->k->ninner; l++)
    if (w->stride[l] != 0)
      at = int_add(e, at, int_mul(e, counter_at(e, l, r, v), i64_of(e, w->stride[l])));
  int64_t lane = has_lanes(e, e->k->vector) ? w->stride[e->k->vector] : 0;
  return lane ? int_add(e, emit_splat(e, at), const_lanes(e, e->i64, lane)) : at;
}

static LLVMValueRef sum_of(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  b = splat_like(e, b, a);
  return int_add(e, splat_like(e, a, b), b);
}

LLVMValueRef emit_position(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef at = walk_at(e, s->index, r, v);
  if (s->arg[0] != NO_STMT) at = sum_of(e, at, scaled_operand(e, s, 0, r, v));
  return s->arg[1] != NO_STMT ? sum_of(e, at, operand_at(e, s, 1, TYPE_I64, r, v)) : at;
}

LLVMValueRef emit_quotient(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef x = operand_at(e, s, 0, TYPE_I64, r, v);
  return LLVMBuildSDiv(e->b, x, int_like(x, s->step), "");
}

LLVMValueRef emit_inside(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef x = operand_at(e, s, 0, TYPE_I64, r, v);
  LLVMValueRef limit = s->slot >= 0 ? slot_value(e, s->slot) : i64_of(e, s->step);
  limit = splat_like(e, limit, x);
  // a negative position, read as an unsigned number, is larger than any limit
  LLVMValueRef in = int_cmp(e, LLVMIntULT, x, limit);
  if (s->arg[1] == NO_STMT) return in;
  LLVMValueRef more = value_at(e, s->arg[1], r, v);
  more = splat_like(e, more, in);
  return bit_and(e, splat_like(e, in, more), more);
}
#endif
