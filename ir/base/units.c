// Amounts with a unit, as all commands print them.
#include "ir/base/units.h"

#include <math.h>

#include "ir/base/base.h"

// Returns x as text with a unit: the largest of n units in which x is at least 1. Each unit is
// `step` times the previous one in unit[], and x is in units of unit[0].
static const char *scaled(Arena *a, double x, double step, int n, const char *const unit[]) {
  int k = 0;
  for (; x >= step && k < n - 1; k++) x /= step;
  return arena_printf(a, k ? "%.1f %s" : "%.0f %s", x, unit[k]);
}

const char *bytes_text(Arena *a, int64_t bytes) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled(a, (double)bytes, 1024, countof(unit), unit);
}

const char *flops_text(Arena *a, double flops) {
  static const char *const unit[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  return scaled(a, flops, 1000, countof(unit), unit);
}

// Below this a time is "0 us".
static const double SHOWN_SECONDS = 5e-10;

const char *seconds_text(Arena *a, double seconds) {
  static const char *const unit[] = {"us", "ms", "s"};
  double x = 1e6 * seconds;
  if (seconds < SHOWN_SECONDS) return "0 us";
  size_t k = 0;
  for (; x >= 999.5 && k + 1 < countof(unit); k++) x /= 1e3; // rounded, 999.5 is 1000
  int decimals = x >= 99.95 ? 0 : x >= 9.995 ? 1 : x >= 0.9995 ? 2 : 3;
  return arena_printf(a, "%.*f %s", decimals, x, unit[k]);
}

const char *seconds_change_text(Arena *a, double seconds) {
  bool less = seconds <= -SHOWN_SECONDS;
  return arena_printf(a, "%s%s", less ? "-" : "+", seconds_text(a, fabs(seconds)));
}

const char *percent_change_text(Arena *a, double now, double base) {
  double percent = 100 * (now / base - 1);
  return arena_printf(a, "%+.1f %%", fabs(percent) < 0.05 ? 0 : percent);
}
