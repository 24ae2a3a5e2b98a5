// Short names for the LLVM instructions that the emitter builds. Operands are scalars or vectors.
//
//   int_*, bit_*, shift_*    instructions on integers and bools
//   add, sub, mul, quot ...  instructions on floats
#ifndef CODEGEN_EMIT_ARITH_H
#define CODEGEN_EMIT_ARITH_H

#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM
#define BINARY(name, build)                                                                        \
  static inline LLVMValueRef name(Emit *e, LLVMValueRef a, LLVMValueRef b) {                       \
    return build(e->b, a, b, "");                                                                  \
  }
BINARY(int_add, LLVMBuildAdd)
BINARY(int_sub, LLVMBuildSub)
BINARY(int_mul, LLVMBuildMul)
BINARY(bit_and, LLVMBuildAnd)
BINARY(bit_or, LLVMBuildOr)
BINARY(bit_xor, LLVMBuildXor)
BINARY(shift_left, LLVMBuildShl)
BINARY(shift_right, LLVMBuildLShr) // the upper bits become 0
BINARY(add, LLVMBuildFAdd)
BINARY(sub, LLVMBuildFSub)
BINARY(mul, LLVMBuildFMul)
BINARY(quot, LLVMBuildFDiv)
BINARY(lane_of, LLVMBuildExtractElement) // element b of vector a
#undef BINARY

#define CONVERSION(name, build)                                                                    \
  static inline LLVMValueRef name(Emit *e, LLVMValueRef x, LLVMTypeRef to) {                       \
    return build(e->b, x, to, "");                                                                 \
  }
CONVERSION(bit_cast, LLVMBuildBitCast)
CONVERSION(int_trunc, LLVMBuildTrunc)
CONVERSION(int_zext, LLVMBuildZExt)
CONVERSION(int_sext, LLVMBuildSExt)
CONVERSION(fp_widen, LLVMBuildFPExt)
CONVERSION(fp_narrow, LLVMBuildFPTrunc)
#undef CONVERSION

static inline LLVMValueRef pick(Emit *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(e->b, c, a, b, "");
}
static inline LLVMValueRef int_cmp(Emit *e, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(e->b, p, a, b, "");
}
// Emits a < b of signed integers.
static inline LLVMValueRef int_less(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return int_cmp(e, LLVMIntSLT, a, b);
}
static inline LLVMValueRef int_equal(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return int_cmp(e, LLVMIntEQ, a, b);
}
// Emits the smaller of two signed integers.
static inline LLVMValueRef int_min(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return pick(e, int_less(e, a, b), a, b);
}
// Returns x or, if `shape` is a vector and x is not, a vector of as many lanes that all hold x.
static inline LLVMValueRef splat_like(Emit *e, LLVMValueRef x, LLVMValueRef shape) {
  return is_vector(shape) ? emit_splat(e, x) : x;
}
static inline LLVMValueRef bit_not(Emit *e, LLVMValueRef x) { return LLVMBuildNot(e->b, x, ""); }

// Returns the constant x in the type of `like`.
static inline LLVMValueRef int_like(LLVMValueRef like, int64_t x) {
  return const_int(LLVMTypeOf(like), x);
}
static inline LLVMValueRef left_by(Emit *e, LLVMValueRef x, int bits) {
  return shift_left(e, x, int_like(x, bits));
}
static inline LLVMValueRef right_by(Emit *e, LLVMValueRef x, int bits) {
  return shift_right(e, x, int_like(x, bits));
}
static inline LLVMValueRef keep_bits(Emit *e, LLVMValueRef x, int64_t bits) {
  return bit_and(e, x, int_like(x, bits));
}
static inline LLVMValueRef not_zero(Emit *e, LLVMValueRef x) {
  return int_cmp(e, LLVMIntNE, x, int_like(x, 0));
}

// Emits a load of type t from `at`, with the alignment of t.
static inline LLVMValueRef emit_read(Emit *e, LLVMTypeRef t, LLVMValueRef at) {
  return LLVMBuildLoad2(e->b, t, at, "");
}
// Emits the address of element `index` of an array of type t at `base`.
static inline LLVMValueRef emit_at(Emit *e, LLVMTypeRef t, LLVMValueRef base, LLVMValueRef index) {
  return LLVMBuildGEP2(e->b, t, base, &index, 1, "");
}

// -- floats -------------------------------------------------------------------------------------

static inline bool is_f32(Emit *e, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return (LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t) == e->f32;
}
// Returns the constant x in the type of `like`.
static inline LLVMValueRef num(LLVMValueRef like, double x) {
  return const_real(LLVMTypeOf(like), x);
}
static inline LLVMValueRef scale(Emit *e, LLVMValueRef a, double k) { return mul(e, a, num(a, k)); }
static inline LLVMValueRef offset(Emit *e, LLVMValueRef a, double k) {
  return add(e, a, num(a, k));
}
static inline LLVMValueRef absolute(Emit *e, LLVMValueRef x) {
  return emit_unary(e, "llvm.fabs", x);
}
static inline LLVMValueRef negate(Emit *e, LLVMValueRef x) { return LLVMBuildFNeg(e->b, x, ""); }
static inline LLVMValueRef cmp(Emit *e, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFCmp(e->b, p, a, b, "");
}
static inline LLVMValueRef less(Emit *e, LLVMValueRef a, double k) {
  return cmp(e, LLVMRealOLT, a, num(a, k));
}
static inline LLVMValueRef greater(Emit *e, LLVMValueRef a, double k) {
  return cmp(e, LLVMRealOGT, a, num(a, k));
}
static inline LLVMValueRef equal(Emit *e, LLVMValueRef a, double k) {
  return cmp(e, LLVMRealOEQ, a, num(a, k));
}
static inline LLVMValueRef is_nan(Emit *e, LLVMValueRef x) { return cmp(e, LLVMRealUNO, x, x); }
static inline LLVMValueRef sign_of(Emit *e, LLVMValueRef magnitude, LLVMValueRef sign) {
  LLVMValueRef args[2] = {magnitude, sign};
  return emit_call(e, "llvm.copysign", 2, args);
}
// Emit x limited to `high` and above, to `low` and below, or to both: at_most, at_least, clamp. If
// x is NaN, the result is NaN.
static inline LLVMValueRef at_most(Emit *e, LLVMValueRef x, double high) {
  return pick(e, greater(e, x, high), num(x, high), x);
}
static inline LLVMValueRef at_least(Emit *e, LLVMValueRef x, double low) {
  return pick(e, less(e, x, low), num(x, low), x);
}
static inline LLVMValueRef clamp(Emit *e, LLVMValueRef x, double low, double high) {
  return at_most(e, at_least(e, x, low), high);
}
// Convert f32 to f64 (widen), and f64 to f32 (narrow).
static inline LLVMValueRef widen(Emit *e, LLVMValueRef x) {
  return fp_widen(e, x, type_like(e, e->f64, x));
}
static inline LLVMValueRef narrow(Emit *e, LLVMValueRef x) {
  return fp_narrow(e, x, type_like(e, e->f32, x));
}
// Emits bool x, which is false in lanes without an element (Emit.mask).
static inline LLVMValueRef used_lanes(Emit *e, LLVMValueRef x) {
  return is_vector(x) && e->mask ? bit_and(e, x, e->mask) : x;
}
// Emits an i1: whether any lane of bool x is true.
static inline LLVMValueRef any_lane(Emit *e, LLVMValueRef x) {
  return is_vector(x) ? emit_unary(e, "llvm.vector.reduce.or", x) : x;
}
#endif

#endif
