// Elementwise functions in long double: the references with which the suite `elementwise` compares
// compiled functions.
#ifndef TESTS_SUITE_COMMON_ELEMENTARY_H
#define TESTS_SUITE_COMMON_ELEMENTARY_H

#include <stdint.h>

#include "ir/base/dtype.h"

typedef long double Wide;
typedef Wide Function(Wide x, Wide z);

// Allowed error of a result: `ulp` units in the last place of the larger of itself and `scale`,
// plus the effect of changing each argument by `arg` units in its last place.
typedef struct Bound {
  double ulp, scale, arg;
} Bound;

// One function of x, or of x and z, as an expression of the language. A derivative that does not
// exist is NULL.
typedef struct Elementary {
  const char *name; // of a built-in function or an operation
  const char *text;
  bool two;   // a function of x and z
  bool kinks; // at a kink the derivative is that of one branch; it is not checked at NaN
  bool truth; // the result is a bool
  Function *f, *dx, *dz;
  Bound value[2], slope[2]; // in f32 and f64; bf16 and f16 round the f32 result
} Elementary;

extern const Elementary elementary[];
extern const int elementary_count;

// Returns x rounded to a float type.
Wide wide_round(Dtype t, Wide x);
// Returns true if x, rounded to t, is 0 or a normal number.
bool wide_normal(Dtype t, Wide x);
// Returns the error of `got` in units of the last place of `want` in type t, or of `scale` if that
// is larger. Returns HUGE_VAL where only one of them is NaN or infinite. Returns 1 where one is the
// largest finite number and the other the infinity of the same sign.
double wide_ulps(Dtype t, double got, Wide want, double scale);
// Returns |got - want| as a part of the bound b: at most 1 if it is within.
double elementary_error(Function *f, const Bound *b, Dtype t, Wide x, Wide z, double got);

#endif
