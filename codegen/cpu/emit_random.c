// Draws in generated code: Philox4x32-10 on vectors of positions (ir/base/philox.h has the layout),
// one word for uniform numbers, two and Box-Muller for normal ones.
//
// Words are kept as i64 lanes with 32 bits in use, so that a round's two products are plain
// multiplications.
#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>

#include "ir/base/philox.h"
#include "ir/program/program.h"

static LLVMValueRef low_half(Emit *e, LLVMValueRef x) {
  return LLVMBuildAnd(e->b, x, const_int(LLVMTypeOf(x), UINT32_MAX), "");
}
static LLVMValueRef high_half(Emit *e, LLVMValueRef x) {
  return LLVMBuildLShr(e->b, x, const_int(LLVMTypeOf(x), 32), "");
}

static LLVMValueRef call_number(Emit *e, int64_t offset) {
  LLVMValueRef at = i64_of(e, offset);
  return LLVMBuildLoad2(e->b, e->i64, LLVMBuildGEP2(e->b, e->i8, e->call, &at, 1, ""), "");
}

// Half of the key of statement s, from its numeric argument and the call's seed.
static LLVMValueRef key_half(Emit *e, const KStmt *s, int half) {
  LLVMValueRef n = i64_of(e, s->index + half), at = LLVMBuildGEP2(e->b, e->f64, e->nums, &n, 1, "");
  LLVMValueRef key = LLVMBuildFPToUI(e->b, LLVMBuildLoad2(e->b, e->f64, at, ""), e->i64, "");
  LLVMValueRef seed = call_number(e, (int64_t)offsetof(KernelCall, seed));
  return LLVMBuildXor(e->b, key, half ? high_half(e, seed) : low_half(e, seed), "");
}

static LLVMValueRef like(Emit *e, LLVMValueRef x, LLVMValueRef shape) {
  return is_vector(shape) ? emit_splat(e, x) : x;
}

// One round: the halves of two products, mixed with the other words and the key.
static void philox_round(Emit *e, LLVMValueRef w[4], LLVMValueRef k0, LLVMValueRef k1) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef t = LLVMTypeOf(w[0]);
  LLVMValueRef p = LLVMBuildMul(b, w[0], const_int(t, PHILOX_M0), ""),
               q = LLVMBuildMul(b, w[2], const_int(t, PHILOX_M1), "");
  LLVMValueRef x0 = LLVMBuildXor(b, LLVMBuildXor(b, high_half(e, q), w[1], ""), k0, "");
  LLVMValueRef x2 = LLVMBuildXor(b, LLVMBuildXor(b, high_half(e, p), w[3], ""), k1, "");
  w[1] = low_half(e, q);
  w[3] = low_half(e, p);
  w[0] = x0;
  w[2] = x2;
}

static LLVMValueRef key_next(Emit *e, LLVMValueRef k, uint32_t w) {
  return low_half(e, LLVMBuildAdd(e->b, k, i64_of(e, w), ""));
}

static void philox(Emit *e, const KStmt *s, LLVMValueRef x, LLVMValueRef w[4]) {
  LLVMValueRef k0 = key_half(e, s, 0), k1 = key_half(e, s, 1);
  w[0] = low_half(e, x);
  w[1] = high_half(e, x);
  w[2] = like(e, low_half(e, call_number(e, (int64_t)offsetof(KernelCall, step))), x);
  w[3] = like(e, low_half(e, call_number(e, (int64_t)offsetof(KernelCall, repeat))), x);
  for (int i = 0; i < PHILOX_ROUNDS; i++) {
    philox_round(e, w, like(e, k0, x), like(e, k1, x));
    k0 = key_next(e, k0, PHILOX_W0);
    k1 = key_next(e, k1, PHILOX_W1);
  }
}

// Word i, 0 or 1, plus `more` units, as a fraction: the upper 24 bits, or in f64 53 bits of it and
// word i + 2.
static LLVMValueRef fraction(Emit *e, LLVMValueRef w[4], int i, int64_t more, bool f64) {
  LLVMTypeRef wide = LLVMTypeOf(w[i]);
  LLVMValueRef n = LLVMBuildLShr(e->b, w[i], const_int(wide, 8), "");
  if (f64) {
    LLVMValueRef rest = LLVMBuildLShr(e->b, w[i + 2], const_int(wide, 11), "");
    n = LLVMBuildOr(e->b, LLVMBuildShl(e->b, w[i], const_int(wide, 21), ""), rest, "");
  } else {
    n = LLVMBuildTrunc(e->b, n, type_like(e, e->i32, n), "");
  }
  n = LLVMBuildAdd(e->b, n, const_int(LLVMTypeOf(n), more), "");
  LLVMValueRef f = LLVMBuildSIToFP(e->b, n, type_like(e, f64 ? e->f64 : e->f32, n), "");
  return LLVMBuildFMul(e->b, f, const_real(LLVMTypeOf(f), f64 ? 0x1p-53 : 0x1p-24), "");
}

// cos(2 pi u): a turn less its nearest half is exact, and the cosine of half a turn more is the
// negative.
static LLVMValueRef cosine_of_turn(Emit *e, LLVMValueRef u) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef t = LLVMTypeOf(u);
  LLVMValueRef halves = emit_unary(e, "llvm.roundeven", LLVMBuildFMul(b, u, const_real(t, 2), ""));
  LLVMValueRef rest = LLVMBuildFSub(b, u, LLVMBuildFMul(b, halves, const_real(t, 0.5), ""), "");
  LLVMValueRef c = math_cos(e, LLVMBuildFMul(b, rest, const_real(t, 6.283185307179586476925), ""));
  LLVMValueRef odd = LLVMBuildFCmp(b, LLVMRealOEQ, halves, const_real(t, 1), "");
  return LLVMBuildSelect(b, odd, LLVMBuildFNeg(b, c, ""), c, "");
}

LLVMValueRef emit_draw(Emit *e, const KStmt *s, LLVMValueRef x) {
  LLVMValueRef w[4];
  bool f64 = s->type == TYPE_F64;
  philox(e, s, x, w);
  if (s->op == OP_RANDOM_UNIFORM) return fraction(e, w, 0, 0, f64);
  LLVMValueRef log = math_log(e, fraction(e, w, 0, 1, f64));
  LLVMValueRef radius =
      emit_unary(e, "llvm.sqrt", LLVMBuildFMul(e->b, log, const_real(LLVMTypeOf(log), -2), ""));
  return LLVMBuildFMul(e->b, radius, cosine_of_turn(e, fraction(e, w, 1, 0, f64)), "");
}
#endif
