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

// A set of types: bit t is set if type t is in it.
typedef uint32_t DtypeSet;
_Static_assert(TYPE_COUNT <= 32, "a DtypeSet has a bit for each type");
enum { ALL_TYPES = (1U << TYPE_COUNT) - 1 };
static inline DtypeSet dtype_bit(Dtype t) { return (DtypeSet)1 << t; }

typedef enum TypeClass { CLASS_BOOL, CLASS_INT, CLASS_FLOAT } TypeClass;

const char *dtype_text(Dtype t);
int64_t dtype_bytes(Dtype t);
TypeClass dtype_class(Dtype t);
static inline bool dtype_is_float(Dtype t) { return dtype_class(t) == CLASS_FLOAT; }
// Finds the type with that name. Returns false if there is none.
MUST_USE bool dtype_parse(const char *text, Dtype *out);
// Returns the type in which an operation on types a and b computes. u8 with i32 gives i32, an
// integer with a float that float, bf16 with f16 gives f32. bool with bool gives bool; for
// arithmetic the caller uses i32 instead.
Dtype dtype_join(Dtype a, Dtype b);
// Returns true if every value of a is a value of b, so that a conversion loses nothing.
bool dtype_widens(Dtype a, Dtype b);
// Returns the type in which values of t are summed: f32 for bf16 and f16, i32 for bool and u8,
// otherwise t.
Dtype dtype_accumulator(Dtype t);
// Returns x rounded to type t as a cast does it. Floats round to nearest, ties to even. Integers
// truncate toward zero and saturate, and NaN becomes 0. bool is x != 0.
double dtype_round(Dtype t, double x);

// A floating point format: the number of binary digits of the significand, the exponent of the
// least normal number, and the largest finite number. For an integer type `digits` is 0 and
// `largest` infinite.
typedef struct FloatFormat {
  int digits, emin;
  double largest;
} FloatFormat;
FloatFormat dtype_format(Dtype t);

// Load and store one element of type t at p, which needs no alignment. A stored value must be exact
// in t.
double dtype_load(Dtype t, const void *p);
void dtype_store(Dtype t, void *p, double x);

#endif
