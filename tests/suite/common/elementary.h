// Elementwise functions in long double: what the suite elementwise holds compiled functions
// against.
#ifndef TESTS_SUITE_COMMON_ELEMENTARY_H
#define TESTS_SUITE_COMMON_ELEMENTARY_H

#include <stdint.h>

#include "ir/base/dtype.h"

typedef long double Wide;
typedef Wide Function(Wide x, Wide z);

// What a result may be off by: `ulp` units in the last place of the larger of itself and `scale`,
// and what changing each argument by `arg` units in its last place does.
typedef struct Bound {
  double ulp, scale, arg;
} Bound;

// One function of x, or of x and z, as an expression of the language. Derivatives by x and z: NULL:
// none.
typedef struct Elementary {
  const char *name; // of a built-in function or an operation
  const char *text;
  bool two;   // of x and z
  bool kinks; // the derivative is that of a branch: nothing is asked of it at NaN
  bool truth; // the result is a bool
  Function *f, *dx, *dz;
  Bound value[2], slope[2]; // in f32 and f64; bf16 and f16 are f32 rounded once more
} Elementary;

extern const Elementary elementary[];
extern const int elementary_count;

// x rounded to a float type.
Wide wide_round(Dtype t, Wide x);
// Whether x, rounded to t, is 0 or a normal number.
bool wide_normal(Dtype t, Wide x);
// The error of got in units of the last place that `want` (but at least `scale`) has in t; HUGE_VAL
// where only one of them is NaN or infinite, 1 where the largest finite number is met for an
// infinity or the other way.
double wide_ulps(Dtype t, double got, Wide want, double scale);
// |got - want| is within b: the part of the bound that is used up.
double elementary_error(Function *f, const Bound *b, Dtype t, Wide x, Wide z, double got);

#endif
