// Monoids: how a reduction combines the elements of a dim, and how a collective combines the
// partial results of several processors.
#ifndef IR_MONOID_H
#define IR_MONOID_H

#include "ir/base/dtype.h"

typedef enum Monoid {
  MONOID_NONE,
  MONOID_SUM,
  MONOID_MAX, // for bool: true if any is
  MONOID_MIN, // for bool: true if all are
  MONOID_PROD,
} Monoid;
enum { MONOID_COUNT = MONOID_PROD + 1 };
#define MONOID_NAMES "none", "sum", "max", "min", "prod"

const char *monoid_text(Monoid m); // "sum"; "none" for MONOID_NONE
// Returns the value that changes nothing: 0 for a sum, the lowest value for a maximum. BUG for
// MONOID_NONE.
double monoid_identity(Monoid m, Dtype t);
// Returns this value for an integer or bool type, exactly; for u64 the bits of the number.
int64_t monoid_identity_int(Monoid m, Dtype t);
// Returns true if combining a value with itself gives that value.
static inline bool monoid_idempotent(Monoid m) { return m == MONOID_MAX || m == MONOID_MIN; }

#endif
