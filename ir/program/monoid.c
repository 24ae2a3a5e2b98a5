// Names and identity elements of monoids.
#include "ir/program/monoid.h"

#include <math.h>

#include "ir/base/base.h"

const char *monoid_text(Monoid m) {
  static const char *const text[MONOID_COUNT] = {MONOID_NAMES};
  return text[m];
}

static int64_t lowest(Dtype t) { return t == TYPE_I32 ? INT32_MIN : t == TYPE_I64 ? INT64_MIN : 0; }

static int64_t highest(Dtype t) {
  switch (t) {
  case TYPE_I32: return INT32_MAX;
  case TYPE_I64: return INT64_MAX;
  case TYPE_U8: return UINT8_MAX;
  case TYPE_BOOL: return 1;
  default: return -1;
  }
}

int64_t monoid_identity_int(Monoid m, Dtype t) {
  switch (m) {
  case MONOID_SUM: return 0;
  case MONOID_PROD: return 1;
  case MONOID_MAX: return lowest(t);
  case MONOID_MIN: return highest(t);
  case MONOID_NONE: break;
  }
  BUG("no monoid");
}

double monoid_identity(Monoid m, Dtype t) {
  if (!dtype_is_float(t) || !monoid_idempotent(m)) return (double)monoid_identity_int(m, t);
  return m == MONOID_MAX ? -HUGE_VAL : HUGE_VAL;
}
