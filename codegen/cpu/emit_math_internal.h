// What the files of elementary functions share: emit_math.c, emit_gates.c, emit_pow.c, emit_trig.c.
//
// Arguments are f32 or f64, scalars or vectors. Products and sums are rounded one by one (no
// contraction) except where math_fma says so, so that every kernel gives the same bits.
#ifndef CODEGEN_EMIT_MATH_H
#define CODEGEN_EMIT_MATH_H

#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
// Returns a b + c, with one rounding where the processor has fused multiply-add, else with two.
LLVMValueRef math_fma(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
// Returns the polynomial in x with the n coefficients c, highest power first, by Horner's rule.
LLVMValueRef math_poly(Emit *e, LLVMValueRef x, int n, const double *c);
#define POLY(e, x, table) math_poly(e, x, (int)countof(table), table)

// Returns a b - p, where p is the product a b rounded. Exact unless it underflows (Dekker, "A
// floating-point technique for extending the available precision", 1971, where the processor has no
// fused multiply-add). |a|, |b| < 2^995 in f64.
LLVMValueRef math_product_error(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef p);
// Returns a b + c. Without fused multiply-add it is exact if a b + c is a number of the type and
// the sum of the rounded product and c is exact, as it is for a b between -c/2 and -2c.
LLVMValueRef math_near(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

// n is the integer nearest to the product a b, and s = 2^(n + k). The caller chooses k so that s is
// a normal number. `magic` is math_magic(type, k) in the shape of a.
typedef struct Nearest {
  LLVMValueRef n, s;
} Nearest;
double math_magic(bool f32, int k);
Nearest math_nearest(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef magic);

// e^x 2^k as (1 + q) s. k is chosen by the argument `magic` of math_power, as for math_nearest.
typedef struct Power {
  LLVMValueRef q, s;
} Power;
Power math_power(Emit *e, LLVMValueRef x, LLVMValueRef magic);
LLVMValueRef math_power_value(Emit *e, const Power *y); // (1 + q) s
// The k of functions that multiply a power by 2^-k last. 2^k e^x is a normal number down to
// x = math_lowest, the argument used for all that are lower: 2^-k times it is so far below the
// smallest number that processors return 0 at once. Products nearer to that number are slow.
int math_shift(bool f32);
double math_lowest(bool f32);
LLVMValueRef math_small_exp2m1(Emit *e, LLVMValueRef f); // 2^f - 1, |f| <= 1/2

// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), x positive. k is a float.
typedef struct LogArgument {
  LLVMValueRef k, f;
} LogArgument;
LogArgument math_log_argument(Emit *e, LLVMValueRef x);
// Returns y where x is positive and finite, else log x: -inf at 0, inf at inf, NaN below 0.
LLVMValueRef math_log_special(Emit *e, LLVMValueRef x, LLVMValueRef y);
// ln 2 in two parts; the first has few enough digits that its product with k is exact.
#define LN2_HI 6.93147180369123816490e-01
#define LN2_LO 1.90821492927058770002e-10
#endif

#endif
