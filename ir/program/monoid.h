// Monoids: operations that combine many values into one, in any order. A reduction combines the
// elements along a dim with one, a collective the partial results of processors.
#ifndef IR_MONOID_H
#define IR_MONOID_H

#include "ir/base/dtype.h"

typedef enum Monoid {
  MONOID_NONE,
  MONOID_SUM,
  MONOID_MAX, // of bool: true if any value is
  MONOID_MIN, // of bool: true if all values are
  MONOID_PROD,
} Monoid;
enum { MONOID_COUNT = MONOID_PROD + 1 };
#define MONOID_NAMES "none", "sum", "max", "min", "prod"

const char *monoid_text(Monoid m); // "sum"; "none" for MONOID_NONE
// Returns the identity of monoid m for type t: the value that changes no value with which it is
// combined. It is 0 for a sum and the lowest value for a maximum. MONOID_NONE is a BUG.
double monoid_identity(Monoid m, Dtype t);
// Returns the identity of the monoid for an integer or bool type, exactly. For u64 it returns the
// bits of the number.
int64_t monoid_identity_int(Monoid m, Dtype t);
// Returns true if combining any value with itself gives the value itself, as for a maximum.
static inline bool monoid_idempotent(Monoid m) { return m == MONOID_MAX || m == MONOID_MIN; }

#endif
