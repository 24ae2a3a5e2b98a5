// Places of windows as integers, and whether they are inside what is read.
#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM

// The walk at the counters of instance (r, v).
static LLVMValueRef walk_at(Emit *e, int walk, int r, int v) {
  const KPtr *w = &e->k->walk[walk];
  LLVMValueRef at = e->walk[walk];
  for (int l = 0; l < e->k->nouter + e->k->ninner; l++) {
    if (w->stride[l] == 0) continue;
    LLVMValueRef i = e->counter[l];
    if (l == e->k->rows) i = LLVMBuildAdd(e->b, i, i64_of(e, r), "");
    if (l == e->k->vector) i = LLVMBuildAdd(e->b, i, i64_of(e, (int64_t)v * e->plan.lanes), "");
    at = LLVMBuildAdd(e->b, at, LLVMBuildMul(e->b, i, i64_of(e, w->stride[l]), ""), "");
  }
  int64_t lane = e->k->vector >= 0 ? w->stride[e->k->vector] : 0;
  return lane ? LLVMBuildAdd(e->b, emit_splat(e, at), const_lanes(e, e->i64, lane), "") : at;
}

static LLVMValueRef integer(Emit *e, const KStmt *s, int which, int r, int v) {
  return emit_coerce(e, value_at(e, s->arg[which], r, v), e->k->stmt[s->arg[which]].type, TYPE_I64);
}

static LLVMValueRef sum_of(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  if (is_vector(a) || is_vector(b))
    return LLVMBuildAdd(e->b, emit_splat(e, a), emit_splat(e, b), "");
  return LLVMBuildAdd(e->b, a, b, "");
}

LLVMValueRef emit_position(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef at = walk_at(e, s->index, r, v);
  if (s->arg[0] != NO_STMT) {
    LLVMValueRef x = integer(e, s, 0, r, v);
    at = sum_of(e, at, LLVMBuildMul(e->b, x, const_int(LLVMTypeOf(x), s->step), ""));
  }
  return s->arg[1] != NO_STMT ? sum_of(e, at, integer(e, s, 1, r, v)) : at;
}

LLVMValueRef emit_quotient(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef x = integer(e, s, 0, r, v);
  return LLVMBuildSDiv(e->b, x, const_int(LLVMTypeOf(x), s->step), "");
}

LLVMValueRef emit_inside(Emit *e, const KStmt *s, int r, int v) {
  LLVMValueRef x = integer(e, s, 0, r, v), limit = i64_of(e, s->step);
  if (s->slot >= 0) {
    LLVMValueRef n = i64_of(e, s->slot), at = LLVMBuildGEP2(e->b, e->i64, e->slots, &n, 1, "");
    limit = LLVMBuildLoad2(e->b, e->i64, at, "");
  }
  if (is_vector(x)) limit = emit_splat(e, limit);
  // negative places are large ones without their sign
  LLVMValueRef in = LLVMBuildICmp(e->b, LLVMIntULT, x, limit, "");
  if (s->arg[1] == NO_STMT) return in;
  LLVMValueRef more = value_at(e, s->arg[1], r, v);
  if (is_vector(in) || is_vector(more))
    return LLVMBuildAnd(e->b, emit_splat(e, in), emit_splat(e, more), "");
  return LLVMBuildAnd(e->b, in, more, "");
}
#endif
