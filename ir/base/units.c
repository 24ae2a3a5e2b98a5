// Amounts with a unit, as all commands print them.
#include "ir/base/units.h"

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

const char *seconds_text(Arena *a, double seconds) {
  return arena_printf(a, seconds < 1e-4 ? "%.3g us" : "%.3f ms",
                      seconds * (seconds < 1e-4 ? 1e6 : 1e3));
}
