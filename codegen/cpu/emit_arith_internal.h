// Private to the elementary functions (emit_math.c, emit_gates.c, emit_trig.c): shorthand for
// vector IR of f32 and f64.
#ifndef CODEGEN_EMIT_ARITH_H
#define CODEGEN_EMIT_ARITH_H

#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM
static inline bool is_f32(Emit *e, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return (LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t) == e->f32;
}
static inline LLVMValueRef num(LLVMValueRef like, double x) {
  return const_real(LLVMTypeOf(like), x);
}
static inline LLVMValueRef add(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFAdd(e->b, a, b, "");
}
static inline LLVMValueRef sub(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFSub(e->b, a, b, "");
}
static inline LLVMValueRef mul(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFMul(e->b, a, b, "");
}
static inline LLVMValueRef quot(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFDiv(e->b, a, b, "");
}
static inline LLVMValueRef scale(Emit *e, LLVMValueRef a, double k) { return mul(e, a, num(a, k)); }
static inline LLVMValueRef offset(Emit *e, LLVMValueRef a, double k) {
  return add(e, a, num(a, k));
}
static inline LLVMValueRef absolute(Emit *e, LLVMValueRef x) {
  return emit_unary(e, "llvm.fabs", x);
}
static inline LLVMValueRef negate(Emit *e, LLVMValueRef x) { return LLVMBuildFNeg(e->b, x, ""); }
static inline LLVMValueRef pick(Emit *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(e->b, c, a, b, "");
}
static inline LLVMValueRef cmp(Emit *e, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFCmp(e->b, p, a, b, "");
}
static inline LLVMValueRef less(Emit *e, LLVMValueRef a, double k) {
  return cmp(e, LLVMRealOLT, a, num(a, k));
}
static inline LLVMValueRef equal(Emit *e, LLVMValueRef a, double k) {
  return cmp(e, LLVMRealOEQ, a, num(a, k));
}
static inline LLVMValueRef both(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAnd(e->b, a, b, "");
}
static inline LLVMValueRef sign_of(Emit *e, LLVMValueRef magnitude, LLVMValueRef sign) {
  LLVMTypeRef t = LLVMTypeOf(magnitude);
  LLVMValueRef args[2] = {magnitude, sign};
  return emit_intrinsic(e, "llvm.copysign", 1, &t, 2, args);
}
// NaN stays NaN.
static inline LLVMValueRef at_most(Emit *e, LLVMValueRef x, double high) {
  return pick(e, cmp(e, LLVMRealOGT, x, num(x, high)), num(x, high), x);
}
static inline LLVMValueRef at_least(Emit *e, LLVMValueRef x, double low) {
  return pick(e, less(e, x, low), num(x, low), x);
}
static inline LLVMValueRef clamp(Emit *e, LLVMValueRef x, double low, double high) {
  return at_most(e, at_least(e, x, low), high);
}
static inline LLVMValueRef widen(Emit *e, LLVMValueRef x) {
  return LLVMBuildFPExt(e->b, x, type_like(e, e->f64, x), "");
}
static inline LLVMValueRef narrow(Emit *e, LLVMValueRef x) {
  return LLVMBuildFPTrunc(e->b, x, type_like(e, e->f32, x), "");
}
// Whether any lane of a bool is true.
static inline LLVMValueRef any_lane(Emit *e, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return is_vector(x) ? emit_intrinsic(e, "llvm.vector.reduce.or", 1, &t, 1, &x) : x;
}

// a b - p, where p is a b rounded: exact unless it underflows (Dekker, "A floating-point technique
// for extending the available precision", 1971, where the processor has no fused multiply-add).
// |a|, |b| < 2^995 in f64.
LLVMValueRef math_product_error(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef p);

// a b + c, exact where that is a number of the type and a b is near -c.
LLVMValueRef math_near(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

// The integer n nearest to a b, and s = 2^(n + k), which must be a normal number; magic: splat of
// math_magic(type, k).
typedef struct Nearest {
  LLVMValueRef n, s;
} Nearest;
double math_magic(bool f32, int k);
Nearest math_nearest(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef magic);

// e^x 2^k as (1 + q) s.
typedef struct Power {
  LLVMValueRef q, s;
} Power;
Power math_power(Emit *e, LLVMValueRef x, LLVMValueRef magic);
LLVMValueRef math_small_exp2m1(Emit *e, LLVMValueRef f); // q of 2^f, |f| <= 1/2
LLVMValueRef math_power_value(Emit *e, const Power *y);
#define POLY(e, x, table) math_poly(e, x, (int)countof(table), table)
#endif

#endif
