// Element types and type promotion.
#ifndef IR_DTYPE_H
#define IR_DTYPE_H

#include "ir/base/base.h"

typedef enum Dtype {
#define DTYPE(id, text, bytes, cls) TYPE_##id,
#include "ir/base/dtype.def"
#undef DTYPE
  TYPE_COUNT
} Dtype;

typedef enum TypeClass { CLASS_BOOL, CLASS_INT, CLASS_FLOAT } TypeClass;

const char *dtype_text(Dtype t);
int64_t dtype_bytes(Dtype t);
TypeClass dtype_class(Dtype t);
static inline bool dtype_is_float(Dtype t) { return dtype_class(t) == CLASS_FLOAT; }
// Finds the type with that name. Returns false if there is none.
MUST_USE bool dtype_parse(const char *text, Dtype *out);
// Returns the type in which an operation on both types computes. bool with bool: i32 in arithmetic
// (the caller decides that). u8 with i32: i32. Integer with float: that float. bf16 with f16: f32.
Dtype dtype_join(Dtype a, Dtype b);
// Returns true if every value of a is a value of b, so that a conversion loses nothing.
bool dtype_widens(Dtype a, Dtype b);
// Returns the type of sums of t: f32 for bf16 and f16, i32 for bool and u8, otherwise t.
Dtype dtype_accumulator(Dtype t);
// Returns a double rounded to type t as a cast does: ties to even; integers truncate toward zero
// and saturate, NaN becomes 0; bool is x != 0.
double dtype_round(Dtype t, double x);

// A floating point format: number of binary digits of the significand, exponent of the least normal
// number, largest finite number. For integers digits is 0 and largest infinite.
typedef struct FloatFormat {
  int digits, emin;
  double largest;
} FloatFormat;
FloatFormat dtype_format(Dtype t);

// Load and store one element of type t at p. A stored value must be a value of t. p needs no
// alignment.
double dtype_load(Dtype t, const void *p);
void dtype_store(Dtype t, void *p, double x);

#endif
