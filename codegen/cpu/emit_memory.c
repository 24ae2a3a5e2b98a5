// Loads and stores of one instance, a statement for one row and one vector of a tile. A tile is a
// number of rounds of an outer loop, the rows, by a number of vectors of the vector loop. An access
// is a scalar, a vector of neighbours, or lanes at separate addresses. Such lanes have a stride
// that is not 1, or an index that another statement computes. A guard is a bool argument of a load:
// where it is false, nothing is read.
//
// Under a mask only the lanes in use access memory; the other lanes of a load are 0.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM

static unsigned align_of(Dtype t) { return (unsigned)dtype_bytes(t); }

static LLVMValueRef align_const(Emit *e, Dtype t) {
  return LLVMConstInt(e->i32, align_of(t), false);
}

static LLVMValueRef all_lanes(Emit *e) {
  return e->mask ? e->mask : const_int(type_vector(e, e->i1), 1);
}

// Emits a call of the LLVM intrinsic `name`, a masked load or a gather, which reads the lanes in
// use. `at` is the address of the first lane or, for a gather, a vector of addresses.
static LLVMValueRef read_lanes(Emit *e, const char *name, Dtype t, LLVMValueRef at) {
  LLVMTypeRef vec = type_vector(e, mem_type(e, t)), types[2] = {vec, LLVMTypeOf(at)};
  LLVMValueRef args[4] = {at, align_const(e, t), all_lanes(e), LLVMConstNull(vec)};
  return from_memory(e, t, emit_intrinsic(e, name, 2, types, 4, args));
}

// Emits a call of the LLVM intrinsic `name`, a masked store or a scatter, which writes the lanes in
// use of vector `raw`. `at` is the address of the first lane or, for a scatter, a vector of
// addresses.
static void write_lanes(Emit *e, const char *name, Dtype t, LLVMValueRef at, LLVMValueRef raw) {
  LLVMTypeRef types[2] = {LLVMTypeOf(raw), LLVMTypeOf(at)};
  LLVMValueRef args[4] = {raw, at, align_const(e, t), all_lanes(e)};
  emit_intrinsic(e, name, 2, types, 4, args);
}

LLVMValueRef load_raw(Emit *e, Dtype t, LLVMValueRef at, bool vector) {
  if (vector && e->mask) return read_lanes(e, "llvm.masked.load", t, at);
  LLVMTypeRef type = vector ? type_vector(e, mem_type(e, t)) : mem_type(e, t);
  LLVMValueRef raw = emit_read(e, type, at);
  LLVMSetAlignment(raw, align_of(t));
  return from_memory(e, t, raw);
}

void store_raw(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef v) {
  LLVMValueRef raw = to_memory(e, t, v);
  if (is_vector(raw) && e->mask)
    write_lanes(e, "llvm.masked.store", t, at, raw);
  else
    LLVMSetAlignment(LLVMBuildStore(e->b, raw, at), align_of(t));
}

// Emits the addresses at + (index + lane * stride) of all lanes, counted in elements of t; index
// NULL is 0. Gather instructions take a scalar base and a vector of i32. So offsets that are
// constants are i32 if they fit.
static LLVMValueRef lane_pointers(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index,
                                  int64_t stride) {
  LLVMTypeRef type = mem_type(e, t);
  bool small = stride * e->plan.lanes <= INT32_MAX && stride * e->plan.lanes >= INT32_MIN;
  if (!index)
    index = const_lanes(e, small ? e->i32 : e->i64, stride);
  else if (stride != 0)
    index = int_add(e, index, const_lanes(e, e->i64, stride));
  return emit_at(e, type, at, index);
}

void scatter_raw(Emit *e, Dtype t, LLVMValueRef at, int64_t stride, LLVMValueRef v) {
  LLVMValueRef raw = to_memory(e, t, v), to = lane_pointers(e, t, at, NULL, stride);
  write_lanes(e, "llvm.masked.scatter", t, to, raw);
}

static LLVMValueRef advance(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index) {
  return emit_at(e, mem_type(e, t), at, index);
}

static int64_t vector_stride(const Emit *e, const KPtr *p) {
  return e->in_vector ? p->stride[e->k->vector] : 0;
}

// Emits the address that a pointer has at row r and lane 0 of vector v of a tile.
static LLVMValueRef instance_address(Emit *e, int pointer, int r, int v) {
  const KPtr *p = &e->k->ptr[pointer];
  if (*row_address(e, pointer, r)) return *row_address(e, pointer, r);
  int64_t at = (int64_t)v * e->plan.lanes * vector_stride(e, p);
  if (e->k->rows >= 0) at += r * p->stride[e->k->rows];
  return at ? advance(e, p->type, e->addr[pointer], i64_of(e, at)) : e->addr[pointer];
}

// Emits the index, in elements, of a load or scatter whose index another statement computes:
// argument number `which` of s. Returns NULL for a K_LOAD, which has no index.
static LLVMValueRef instance_index(Emit *e, const KStmt *s, int which, int r, int v) {
  return s->kind == K_LOAD ? NULL : scaled_operand(e, s, which, r, v);
}

static LLVMValueRef load_lanes(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index,
                               int64_t stride) {
  if (!index && stride == 1) return load_raw(e, t, at, true);
  return read_lanes(e, "llvm.masked.gather", t, lane_pointers(e, t, at, index, stride));
}

// Emits a load of a vector under a guard, a bool for each lane. Lanes whose guard is false are 0,
// and access no memory.
static LLVMValueRef load_lanes_if(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef index,
                                  int64_t stride, LLVMValueRef guard) {
  LLVMValueRef mask = e->mask;
  guard = emit_splat(e, guard);
  e->mask = mask ? bit_and(e, mask, guard) : guard;
  LLVMValueRef x = load_lanes(e, t, at, index, stride);
  e->mask = mask;
  return x;
}

// Emits a load of one element under a guard, a bool. If the guard is false, the load reads address
// `start`, which is always readable, and the result is 0.
static LLVMValueRef load_one_if(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef start,
                                LLVMValueRef guard) {
  at = pick(e, guard, at, start);
  LLVMValueRef x = load_raw(e, t, at, false);
  return pick(e, guard, x, LLVMConstNull(LLVMTypeOf(x)));
}

static LLVMValueRef load_guard(Emit *e, const KStmt *s, int r, int v) {
  if (s->arg[1] == NO_STMT || *row_address(e, s->index, r)) return NULL;
  LLVMValueRef guard = value_at(e, s->arg[1], r, v);
  return e->guards_hold_here && !is_vector(guard) ? NULL : guard;
}

// Emits a prefetch of the cache line that is `ahead` bytes behind `at`, the address of vector v of
// a tile. Of vectors that share a line, the first one prefetches it.
static void prefetch(Emit *e, Dtype t, LLVMValueRef at, int v, int32_t ahead) {
  if (ahead == 0 || !e->in_vector || e->mask) return;
  if (v * e->plan.lanes * dtype_bytes(t) % CACHE_LINE != 0) return;
  at = emit_at(e, e->i8, at, i64_of(e, ahead));
  LLVMTypeRef type = LLVMTypeOf(at);
  // of a read, into all caches, of data
  LLVMValueRef args[4] = {at, LLVMConstInt(e->i32, 0, false), LLVMConstInt(e->i32, 3, false),
                          LLVMConstInt(e->i32, 1, false)};
  emit_intrinsic(e, "llvm.prefetch", 1, &type, 4, args);
}

LLVMValueRef emit_load(Emit *e, const KStmt *s, int r, int v) {
  const KPtr *p = &e->k->ptr[s->index];
  LLVMValueRef at = instance_address(e, s->index, r, v), index = instance_index(e, s, 0, r, v), x;
  prefetch(e, p->type, at, v, e->plan.ahead[s - e->k->stmt]);
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

// Emits a store of vector x past the caches. Its address is a multiple of its size (KPtr.streamed).
static void store_streamed(Emit *e, Dtype t, LLVMValueRef at, LLVMValueRef x) {
  LLVMValueRef raw = to_memory(e, t, x), store = LLVMBuildStore(e->b, raw, at);
  LLVMSetAlignment(store, align_of(t) * LLVMGetVectorSize(LLVMTypeOf(raw)));
  LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false));
  LLVMValueRef node = LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, &one, 1));
  LLVMSetMetadata(store, LLVMGetMDKindIDInContext(e->ctx, "nontemporal", 11), node);
}

void emit_store(Emit *e, const KStmt *s, int r, int v) {
  const KPtr *p = &e->k->ptr[s->index];
  int64_t stride = vector_stride(e, p);
  LLVMValueRef at = instance_address(e, s->index, r, v);
  LLVMValueRef x = operand_at(e, s, 0, p->type, r, v);
  if (stride != 0)
    x = emit_splat(e, x);
  else if (is_vector(x))
    BUG("kernel %s: a vector of values is stored in one place", e->k->name);
  if (stride > 1 || stride < 0)
    scatter_raw(e, p->type, at, stride, x);
  else if (p->streamed && stride == 1 && !e->mask)
    store_streamed(e, p->type, at, x);
  else
    store_raw(e, p->type, at, x);
}

static void join_in_place(Emit *e, const KStmt *s, LLVMValueRef at, LLVMValueRef x) {
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef old = load_raw(e, t, at, is_vector(x));
  store_raw(e, t, at, emit_join(e, s->op, t, old, x));
}

// Emits x[index] += value, or the maximum instead of the sum. If the index is a vector, its lanes
// are combined one after the other, because two lanes may have the same index.
void emit_scatter(Emit *e, const KStmt *s, int r, int v) {
  const KPtr *p = &e->k->ptr[s->index];
  int64_t stride = vector_stride(e, p);
  LLVMValueRef at = instance_address(e, s->index, r, v), index = instance_index(e, s, 1, r, v);
  LLVMValueRef x = operand_at(e, s, 0, p->type, r, v);
  if (!is_vector(index) && (!e->in_vector || stride == 1)) {
    join_in_place(e, s, advance(e, p->type, at, index), stride == 1 ? emit_splat(e, x) : x);
    return;
  }
  index = int_add(e, emit_splat(e, index), const_lanes(e, e->i64, stride));
  x = emit_splat(e, x);
  EmitLoop l =
      loop_begin(e, i64_of(e, 0), e->active ? e->active : i64_of(e, e->plan.lanes), i64_of(e, 1));
  LLVMValueRef to = advance(e, p->type, at, lane_of(e, index, l.var));
  join_in_place(e, s, to, lane_of(e, x, l.var));
  loop_end(e, &l);
}
#endif
