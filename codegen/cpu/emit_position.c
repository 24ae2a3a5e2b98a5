// Places of windows as integers (K_POSITION, K_QUOTIENT), and whether they lie inside the tensor
// that is read (K_INSIDE).
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM

// The value of a walk at the counters of instance (r, v); a vector if it moves along lanes.
static LLVMValueRef walk_at(Emit *e, int walk, int r, int v) {
  const KPtr *w = &e->k->walk[walk];
  LLVMValueRef at = e->walk[walk];
  for (int l = 0; l < e->k->nouter + e->k->ninner; l++)
    if (w->stride[l] != 0)
      at = int_add(e, at, int_mul(e, counter_at(e, l, r, v), i64_of(e, w->stride[l])));
  int64_t lane = e->k->vector >= 0 ? w->stride[e->k->vector] : 0;
  return lane ? int_add(e, emit_splat(e, at), const_lanes(e, e->i64, lane)) : at;
}

// Makes both of them vectors if one is.
static void same_shape(Emit *e, LLVMValueRef *a, LLVMValueRef *b) {
  if (!is_vector(*a) && !is_vector(*b)) return;
  *b = emit_splat(e, *b);
  *a = emit_splat(e, *a);
}

static LLVMValueRef sum_of(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  same_shape(e, &a, &b);
  return int_add(e, a, b);
}

LLVMValueRef emit_position(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef at = walk_at(e, s->index, r, v);
  if (s->arg[0] != NO_STMT) {
    LLVMValueRef x = operand_at(e, s, 0, TYPE_I64, r, v);
    at = sum_of(e, at, int_mul(e, x, int_like(x, s->step)));
  }
  return s->arg[1] != NO_STMT ? sum_of(e, at, operand_at(e, s, 1, TYPE_I64, r, v)) : at;
}

LLVMValueRef emit_quotient(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef x = operand_at(e, s, 0, TYPE_I64, r, v);
  return LLVMBuildSDiv(e->b, x, int_like(x, s->step), "");
}

LLVMValueRef emit_inside(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef x = operand_at(e, s, 0, TYPE_I64, r, v);
  LLVMValueRef limit = s->slot >= 0 ? slot_value(e, s->slot) : i64_of(e, s->step);
  if (is_vector(x)) limit = emit_splat(e, limit);
  // compared as unsigned numbers, negative places are large
  LLVMValueRef in = int_cmp(e, LLVMIntULT, x, limit);
  if (s->arg[1] == NO_STMT) return in;
  LLVMValueRef more = value_at(e, s->arg[1], r, v);
  same_shape(e, &in, &more);
  return bit_and(e, in, more);
}
#endif
