// Monoids: how the elements of a removed dim, or the parts of a result on several processors,
// become one value.
#ifndef IR_MONOID_H
#define IR_MONOID_H

#include "ir/base/dtype.h"

typedef enum Monoid {
  MONOID_NONE,
  MONOID_SUM,
  MONOID_MAX, // of bool: any
  MONOID_MIN, // of bool: all
  MONOID_PROD,
} Monoid;
enum { MONOID_COUNT = MONOID_PROD + 1 };
#define MONOID_NAMES "none", "sum", "max", "min", "prod"

const char *monoid_text(Monoid m); // "sum"; "none"
// The value that changes nothing: 0 of a sum, the lowest value of a maximum. BUG for MONOID_NONE.
double monoid_identity(Monoid m, Dtype t);
// The same of an integer or bool type, exact. Of u64 the bits of the number.
int64_t monoid_identity_int(Monoid m, Dtype t);
// Whether combining a value with itself gives that value.
static inline bool monoid_idempotent(Monoid m) { return m == MONOID_MAX || m == MONOID_MIN; }

#endif
