// Interface of the files of elementary functions: emit_math.c, emit_gates.c, emit_pow.c,
// emit_trig.c.
//
// Arguments are f32 or f64, scalars or vectors. Each product and each sum is rounded (LLVM must not
// contract them to fused multiply-adds), except in math_fma. So every kernel gives the same bits.
#ifndef CODEGEN_EMIT_MATH_H
#define CODEGEN_EMIT_MATH_H

#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
// Returns a b + c, with one rounding where the processor has fused multiply-add, else with two.
LLVMValueRef math_fma(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
// Returns the polynomial in x with the n coefficients c, highest power first, by Horner's rule.
LLVMValueRef math_poly(Emit *e, LLVMValueRef x, int n, const double *c);
#define POLY(e, x, table) math_poly(e, x, (int)countof(table), table)

// Returns a b - p, where p is the product a b rounded. The result is exact unless it underflows.
// Without fused multiply-add it is computed by splitting a and b (Dekker, "A floating-point
// technique for extending the available precision", 1971); then |a| and |b| must be below 2^995 in
// f64.
LLVMValueRef math_product_error(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef p);
// Returns a b + c for a b near -c, where most digits cancel. With fused multiply-add it is rounded
// once. Without it, it is exact if a b + c is a number of the type and a b is between -c/2 and -2c.
LLVMValueRef math_near(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

// The integer n nearest to the product a b, and the power s = 2^(n + k). The argument `magic` of
// math_nearest is math_magic(type, k); the caller chooses k so that s is a normal number.
typedef struct Nearest {
  LLVMValueRef n, s;
} Nearest;
double math_magic(bool f32, int k);
Nearest math_nearest(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef magic);

// The number 2^k e^x as the product (1 + q) s. The argument `magic` of math_power is
// math_magic(type, k); the caller chooses k so that s is a normal number.
typedef struct Power {
  LLVMValueRef q, s;
} Power;
Power math_power(Emit *e, LLVMValueRef x, LLVMValueRef magic);
LLVMValueRef math_power_value(Emit *e, const Power *y); // returns (1 + q) s
// math_shift returns k of functions that compute 2^k e^x and multiply by 2^-k last. math_lowest
// returns the lowest x for which they compute e^x; lower arguments are replaced by it. At that x,
// 2^k e^x is still a normal number, but e^x is far below the smallest number, so that the last
// product is 0. Products near the smallest number would be slow on many processors.
int math_shift(bool f32);
double math_lowest(bool f32);
LLVMValueRef math_small_exp2m1(Emit *e, LLVMValueRef f); // returns 2^f - 1, |f| <= 1/2

// The positive number x as 2^k (1 + f), where 1 + f is in [sqrt(1/2), sqrt(2)). k is an integer,
// held as a float.
typedef struct LogArgument {
  LLVMValueRef k, f;
} LogArgument;
LogArgument math_log_argument(Emit *e, LLVMValueRef x);
// Returns y, the logarithm of x, if x is positive and finite. Otherwise returns -inf for 0, inf for
// inf, NaN for negative x and for NaN.
LLVMValueRef math_log_special(Emit *e, LLVMValueRef x, LLVMValueRef y);
// ln 2 as the sum of two numbers. The first has so few digits that its product with k is exact.
#define LN2_HI 6.93147180369123816490e-01
#define LN2_LO 1.90821492927058770002e-10
#endif

#endif
