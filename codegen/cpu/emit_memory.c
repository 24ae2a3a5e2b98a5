// Loads and stores of one instance: scalar, contiguous, or one element at a time through an index.
//
// Masks are prefixes (Emit.active lanes are in use), and lanes out of use read as 0.
#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM

static unsigned align_of(Dtype t) { return (unsigned)dtype_bytes(t); }

static LLVMValueRef align_const(Emit *e, Dtype t) {
  return LLVMConstInt(e->i32, align_of(t), false);
}

static LLVMValueRef all_lanes(Emit *e) {
  return e->mask ? e->mask : const_int(type_vector(e, e->i1), 1);
}

static LLVMValueRef load_masked(Emit *e, Dtype t, LLVMValueRef at) {
  LLVMTypeRef vec = type_vector(e, mem_type(e, t)), types[2] = {vec, e->ptr};
  LLVMValueRef args[4] = {at, align_const(e, t), e->mask, LLVMConstNull(vec)};
  return emit_intrinsic(e, "llvm.masked.load", 2, types, 4, args);
}

LLVMValueRef load_raw(Emit *e, Dtype t, LLVMValueRef at, bool vector) {
  if (vector && e->mask) return from_memory(e, t, load_masked(e, t, at));
  LLVMTypeRef type = vector ? type_vector(e, mem_type(e, t)) : mem_type(e, t);
  LLVMValueRef raw = LLVMBuildLoad2(e->b, type, at, "");
  LLVMSetAlignment(raw, align_of(t));
  return from_memory(e, t, raw);
}

void store_raw(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef v) {
  LLVMValueRef raw = to_memory(e, t, v);
  if (is_vector(raw) && e->mask) {
    LLVMTypeRef types[2] = {LLVMTypeOf(raw), e->ptr};
    LLVMValueRef args[4] = {raw, at, align_const(e, t), e->mask};
    emit_intrinsic(e, "llvm.masked.store", 2, types, 4, args);
    return;
  }
  LLVMSetAlignment(LLVMBuildStore(e->b, raw, at), align_of(t));
}

// Pointers base + (index + lane * stride) elements; a scalar base with a small vector index is what
// the processor's gathers take.
static LLVMValueRef lane_pointers(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index,
                                  int64_t stride) {
  LLVMTypeRef type = mem_type(e, t);
  bool small = stride * e->plan.lanes <= INT32_MAX && stride * e->plan.lanes >= INT32_MIN;
  if (!index)
    index = const_lanes(e, small ? e->i32 : e->i64, stride);
  else if (stride != 0)
    index = LLVMBuildAdd(e->b, index, const_lanes(e, e->i64, stride), "");
  return LLVMBuildGEP2(e->b, type, at, &index, 1, "");
}

static LLVMValueRef gather(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index, int64_t stride) {
  LLVMTypeRef vec = type_vector(e, mem_type(e, t));
  LLVMValueRef from = lane_pointers(e, t, at, index, stride);
  LLVMTypeRef types[2] = {vec, LLVMTypeOf(from)};
  LLVMValueRef args[4] = {from, align_const(e, t), all_lanes(e), LLVMConstNull(vec)};
  return from_memory(e, t, emit_intrinsic(e, "llvm.masked.gather", 2, types, 4, args));
}

void scatter_raw(Emit *e, Dtype t, LLVMValueRef at, int64_t stride, LLVMValueRef v) {
  LLVMValueRef raw = to_memory(e, t, v), to = lane_pointers(e, t, at, NULL, stride);
  LLVMTypeRef types[2] = {LLVMTypeOf(raw), LLVMTypeOf(to)};
  LLVMValueRef args[4] = {raw, to, align_const(e, t), all_lanes(e)};
  emit_intrinsic(e, "llvm.masked.scatter", 2, types, 4, args);
}

static int64_t vector_stride(const Emit *e, const KPtr *p) {
  return e->in_vector ? p->stride[e->k->vector] : 0;
}

// Address of instance (r, v), lane 0.
static LLVMValueRef instance_address(Emit *e, int pointer, int r, int v) {
  const KPtr *p = &e->k->ptr[pointer];
  if (*row_address(e, pointer, r)) return *row_address(e, pointer, r);
  int64_t at = (int64_t)v * e->plan.lanes * vector_stride(e, p);
  if (e->k->rows >= 0) at += r * p->stride[e->k->rows];
  LLVMValueRef off = i64_of(e, at);
  return at ? LLVMBuildGEP2(e->b, mem_type(e, p->type), e->addr[pointer], &off, 1, "")
            : e->addr[pointer];
}

// arg `which` of s times its step, as i64; NULL when s has none.
static LLVMValueRef instance_index(Emit *e, const KStmt *s, int which, int r, int v) {
  if (s->kind != K_LOAD_AT && s->kind != K_SCATTER) return NULL;
  LLVMValueRef i = value_at(e, s->arg[which], r, v);
  i = emit_coerce(e, i, e->k->stmt[s->arg[which]].type, TYPE_I64);
  return LLVMBuildMul(e->b, i, const_int(LLVMTypeOf(i), s->step), "");
}

static LLVMValueRef advance(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index) {
  return LLVMBuildGEP2(e->b, mem_type(e, t), at, &index, 1, "");
}

static LLVMValueRef load_lanes(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index,
                               int64_t stride) {
  if (!index && stride == 1) return load_raw(e, t, at, true);
  return gather(e, t, at, index, stride);
}

// Where a guard is false lanes are out of use: they read 0 and touch nothing.
static LLVMValueRef load_lanes_if(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index,
                                  int64_t stride, LLVMValueRef guard) {
  LLVMValueRef mask = e->mask;
  guard = emit_splat(e, guard);
  e->mask = mask ? LLVMBuildAnd(e->b, mask, guard, "") : guard;
  LLVMValueRef x = load_lanes(e, t, at, index, stride);
  e->mask = mask;
  return x;
}

// One element; a place that is not there is replaced by the tensor's first.
static LLVMValueRef load_one_if(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef start,
                                LLVMValueRef guard) {
  at = LLVMBuildSelect(e->b, guard, at, start, "");
  LLVMValueRef x = load_raw(e, t, at, false);
  return LLVMBuildSelect(e->b, guard, x, LLVMConstNull(LLVMTypeOf(x)), "");
}

static LLVMValueRef load_guard(Emit *e, const KStmt *s, int r, int v) {
  if (s->arg[1] == NO_STMT || *row_address(e, s->index, r)) return NULL;
  LLVMValueRef guard = value_at(e, s->arg[1], r, v);
  return e->guards_hold_here && !is_vector(guard) ? NULL : guard;
}

LLVMValueRef emit_load(Emit *e, const KStmt *s, int r, int v) {
  const KPtr *p = &e->k->ptr[s->index];
  LLVMValueRef at = instance_address(e, s->index, r, v), index = instance_index(e, s, 0, r, v), x;
  LLVMValueRef guard = load_guard(e, s, r, v);
  int64_t stride = vector_stride(e, p);
  bool lanes = (index && is_vector(index)) || stride != 0 || (guard && is_vector(guard));
  if (index && !is_vector(index)) at = advance(e, p->type, at, index), index = NULL;
  if (lanes && guard)
    x = load_lanes_if(e, p->type, at, index, stride, guard);
  else if (lanes)
    x = load_lanes(e, p->type, at, index, stride);
  else if (guard)
    x = load_one_if(e, p->type, at, e->start[s->index], guard);
  else
    x = load_raw(e, p->type, at, false);
  return emit_coerce(e, x, p->type, s->type);
}

void emit_store(Emit *e, const KStmt *s, int r, int v) {
  const KPtr *p = &e->k->ptr[s->index];
  int64_t stride = vector_stride(e, p);
  LLVMValueRef at = instance_address(e, s->index, r, v);
  LLVMValueRef x =
      emit_coerce(e, value_at(e, s->arg[0], r, v), e->k->stmt[s->arg[0]].type, p->type);
  if (stride != 0)
    x = emit_splat(e, x);
  else if (is_vector(x))
    BUG("kernel %s: a vector of values is stored in one place", e->k->name);
  if (stride > 1 || stride < 0)
    scatter_raw(e, p->type, at, stride, x);
  else
    store_raw(e, p->type, at, x);
}

static void add_in_place(Emit *e, const KStmt *s, LLVMValueRef at, LLVMValueRef x) {
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef old = load_raw(e, t, at, is_vector(x));
  store_raw(e, t, at, emit_join(e, OP_SUM, t, old, x));
}

// Equal indices in one vector must add up, so lanes go one after the other.
void emit_scatter(Emit *e, const KStmt *s, int r, int v) {
  const KPtr *p = &e->k->ptr[s->index];
  int64_t stride = vector_stride(e, p);
  LLVMValueRef at = instance_address(e, s->index, r, v), index = instance_index(e, s, 1, r, v);
  LLVMValueRef x =
      emit_coerce(e, value_at(e, s->arg[0], r, v), e->k->stmt[s->arg[0]].type, p->type);
  if (!is_vector(index) && (!e->in_vector || stride == 1)) {
    add_in_place(e, s, advance(e, p->type, at, index), stride == 1 ? emit_splat(e, x) : x);
    return;
  }
  index = LLVMBuildAdd(e->b, emit_splat(e, index), const_lanes(e, e->i64, stride), "");
  x = emit_splat(e, x);
  EmitLoop l =
      loop_begin(e, i64_of(e, 0), e->active ? e->active : i64_of(e, e->plan.lanes), i64_of(e, 1));
  LLVMValueRef to = advance(e, p->type, at, LLVMBuildExtractElement(e->b, index, l.var, ""));
  add_in_place(e, s, to, LLVMBuildExtractElement(e->b, x, l.var, ""));
  loop_end(e, &l);
}
#endif
