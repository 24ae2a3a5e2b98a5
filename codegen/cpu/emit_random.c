// Random draws: Philox4x32-10 on vectors of positions (ir/base/philox.h has the layout). A position
// is the number of an element in the tensor; each gives four words of 32 bits. A uniform f32 takes
// one word, a normal one two (Box-Muller); f64 takes twice as many.
//
// A word is stored in an i64, so that the products of two words are plain multiplications.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
#include "ir/base/philox.h"

static LLVMValueRef low_half(Emit *e, LLVMValueRef x) { return keep_bits(e, x, UINT32_MAX); }
static LLVMValueRef high_half(Emit *e, LLVMValueRef x) { return right_by(e, x, 32); }

// Emits one half of the 64-bit key of random statement s. These are the lower 32 bits if `half` is
// 0, the upper ones if it is 1. The half is a numeric argument of the kernel, xor the same half of
// the call's seed.
static LLVMValueRef key_half(Emit *e, const KStmt *s, int half) {
  LLVMValueRef key = LLVMBuildFPToUI(e->b, number_value(e, s->index + half), e->i64, "");
  LLVMValueRef seed = run_number(e, RUN_SEED);
  return bit_xor(e, key, half ? high_half(e, seed) : low_half(e, seed));
}

// Emits one round of Philox on the words w. It multiplies w[0] and w[2] by constants, and combines
// the halves of the products with w[1], w[3] and the key by xor.
static void philox_round(Emit *e, LLVMValueRef w[4], LLVMValueRef k0, LLVMValueRef k1) {
  LLVMValueRef p = int_mul(e, w[0], int_like(w[0], PHILOX_M0)),
               q = int_mul(e, w[2], int_like(w[0], PHILOX_M1));
  LLVMValueRef x0 = bit_xor(e, bit_xor(e, high_half(e, q), w[1]), k0);
  LLVMValueRef x2 = bit_xor(e, bit_xor(e, high_half(e, p), w[3]), k1);
  w[1] = low_half(e, q);
  w[3] = low_half(e, p);
  w[0] = x0;
  w[2] = x2;
}

static LLVMValueRef key_next(Emit *e, LLVMValueRef k, uint32_t w) {
  return low_half(e, int_add(e, k, i64_of(e, w)));
}

static void philox(Emit *e, const KStmt *s, LLVMValueRef x, LLVMValueRef w[4]) {
  LLVMValueRef k0 = key_half(e, s, 0), k1 = key_half(e, s, 1);
  w[0] = low_half(e, x);
  w[1] = high_half(e, x);
  w[2] = splat_like(e, low_half(e, run_number(e, RUN_STEP)), x);
  w[3] = splat_like(e, low_half(e, run_number(e, RUN_REPEAT)), x);
  for (int i = 0; i < PHILOX_ROUNDS; i++) {
    philox_round(e, w, splat_like(e, k0, x), splat_like(e, k1, x));
    k0 = key_next(e, k0, PHILOX_W0);
    k1 = key_next(e, k1, PHILOX_W1);
  }
}

// Emits a number between 0 and 1 from word i, 0 or 1: (n + more) 2^-24, where n is the upper 24
// bits of w[i]. In f64 it is (n + more) 2^-53, where n is 53 bits of w[i] and w[i + 2]. more is 0,
// or 1 for a number that must not be 0.
static LLVMValueRef fraction(Emit *e, LLVMValueRef w[4], int i, int64_t more, bool f64) {
  LLVMValueRef n = right_by(e, w[i], 8);
  if (f64) {
    LLVMValueRef rest = right_by(e, w[i + 2], 11);
    n = bit_or(e, left_by(e, w[i], 21), rest);
  } else {
    n = int_trunc(e, n, type_like(e, e->i32, n));
  }
  n = int_add(e, n, int_like(n, more));
  LLVMValueRef f = LLVMBuildSIToFP(e->b, n, type_like(e, f64 ? e->f64 : e->f32, n), "");
  return scale(e, f, f64 ? 0x1p-53 : 0x1p-24);
}

// Emits cos(2 pi u), the cosine of u turns. First the nearest number of half turns is subtracted
// from u, which is exact. If that number is odd, the cosine changes its sign.
static LLVMValueRef cosine_of_turn(Emit *e, LLVMValueRef u) {
  LLVMValueRef halves = emit_unary(e, "llvm.roundeven", scale(e, u, 2));
  LLVMValueRef rest = sub(e, u, scale(e, halves, 0.5));
  LLVMValueRef c = math_cos(e, scale(e, rest, 6.283185307179586476925));
  LLVMValueRef odd = equal(e, halves, 1);
  return pick(e, odd, negate(e, c), c);
}

LLVMValueRef emit_draw(Emit *e, const KStmt *s, LLVMValueRef x) {
  LLVMValueRef w[4];
  bool f64 = s->type == TYPE_F64;
  philox(e, s, x, w);
  if (s->op == OP_RANDOM_UNIFORM) return fraction(e, w, 0, 0, f64);
  LLVMValueRef log = math_log(e, fraction(e, w, 0, 1, f64));
  LLVMValueRef radius = emit_unary(e, "llvm.sqrt", scale(e, log, -2));
  return mul(e, radius, cosine_of_turn(e, fraction(e, w, 1, 0, f64)));
}
#endif
