// Checks numbers of a model file against their allowed ranges. One table covers optimizers,
// schedules, train blocks, draws and built-ins.
//
//   adam(beta1 = 1.5)    argument 'beta1' of adam is 1.5, it must be at least 0 and below 1 [E0305]
#include <math.h>
#include <string.h>

#include "frontend/model/build_internal.h"

static const double infinite = (double)INFINITY;

// A row allows low <= x <= high; open_low and open_high exclude the bound itself. The first row
// that matches is used, so rows for one call come before rows for all calls.
static const struct Range {
  const char *of; // the name of the call or "train"; NULL: any call
  const char *argument;
  double low, high;
  bool open_low, open_high;
} ranges[] = {
    {"batch_norm", "momentum", 0, 1, false, false},
    {"sgd", "momentum", 0, 1, false, true},
    {"rmsprop", "momentum", 0, 1, false, true},
    {"muon", "momentum", 0, 1, false, true},
    {"lamb", "eps", 0, infinite, true, true},
    {"adadelta", "eps", 0, infinite, true, true},
    {"nadam", "eps", 0, infinite, true, true},
    {"radam", "eps", 0, infinite, true, true},
    {"nadam", "momentum_decay", 0, infinite, false, true},
    {"adam", "eps", 0, infinite, true, true},
    {"adamw", "eps", 0, infinite, true, true},
    {"adagrad", "eps", 0, infinite, true, true},
    {"rmsprop", "eps", 0, infinite, true, true},
    {"layer_norm", "eps", 0, infinite, false, true},
    {"rms_norm", "eps", 0, infinite, false, true},
    {"l2_normalize", "eps", 0, infinite, false, true},
    {"batch_norm", "eps", 0, infinite, false, true},
    {"exponential", "rate", 0, infinite, true, true},
    {"dropout", "rate", 0, 1, false, false},
    {"step", "factor", 0, infinite, false, true},
    {"one_cycle", "start", 0, 1, false, false},
    {"one_cycle", "rise", 0, 1, false, true},
    {"cosine_restarts", "grow", 1, infinite, false, true},
    {"wsd", "decay", 0, infinite, true, true},
    {"plateau", "factor", 0, 1, true, true},
    {"plateau", "patience", 0, 1e9, false, false},
    {"plateau", "threshold", 0, 1, false, true},
    {"piecewise", "step", 0, infinite, false, true},
    {"piecewise", "factor", 0, infinite, false, true},
    {"inverse_sqrt", "scale", 0, infinite, true, true},
    {"cross_entropy", "label_smoothing", 0, 1, false, false},
    {"cross_entropy", "z_loss", 0, infinite, false, true},
    {"normal", "std", 0, infinite, false, true},
    {"truncated_normal", "std", 0, infinite, false, true},
    {"random_normal", "std", 0, infinite, false, true},
    {"bernoulli", "p", 0, 1, false, false},
    {"images", "resize", 1, 65536, false, false},
    {"images", "pad", 0, 65536, false, false},
    {"images", "flip", 0, 1, false, false},
    {"images", "flip_vertical", 0, 1, false, false},
    {"images", "brightness", 0, 1000, false, false},
    {"images", "contrast", 0, 1000, false, false},
    {"images", "saturation", 0, 1000, false, false},
    {"images", "cutout", 0, 65536, false, false},
    {"images", "draws", 0, 1e9, false, false},
    {"random", "area", 0, 1, false, false},
    {"train", "average", 0, 1, true, true},
    {"train", "clip_norm", 0, infinite, true, true},
    {"train", "clip_value", 0, infinite, true, true},
    {"train", "patience", 1, 1e9, false, false},
    {NULL, "lr", 0, infinite, false, true},
    {NULL, "beta1", 0, 1, false, true},
    {NULL, "beta2", 0, 1, false, true},
    {NULL, "rho", 0, 1, false, true},
    {NULL, "decay", 0, infinite, false, true},
    {NULL, "weight_decay", 0, infinite, false, true},
    {NULL, "warmup", 0, infinite, false, true},
    {NULL, "total", 0, infinite, true, true},
    {NULL, "every", 0, infinite, true, true},
    {NULL, "final", 0, infinite, false, true},
};

static const struct Range *find(const char *of, const char *argument) {
  for (size_t i = 0; i < countof(ranges); i++)
    if (!strcmp(ranges[i].argument, argument) && (!ranges[i].of || !strcmp(ranges[i].of, of)))
      return &ranges[i];
  return NULL;
}

static bool inside(const struct Range *r, double x) {
  if (isnan(x) || (isinf(x) && r->open_high)) return false;
  return (r->open_low ? x > r->low : x >= r->low) && (r->open_high ? x < r->high : x <= r->high);
}

bool range_ok(Build *b, Pos pos, const char *of, const char *argument, double x) {
  const struct Range *r = find(of, argument);
  if (!r || inside(r, x)) return true;
  const char *low = arena_printf(b->a, "%s %g", r->open_low ? "above" : "at least", r->low),
             *high = arena_printf(b->a, " and %s %g", r->open_high ? "below" : "at most", r->high);
  bool block = !strcmp(of, "train");
  return diag_error(b->d, block ? DIAG_BAD_BLOCK : DIAG_BAD_ARGUMENTS, pos,
                    "'%s'%s%s is %g, it must be %s%s", argument, block ? "" : " of ",
                    block ? "" : of, x, low,
                    isinf(r->high) ? isinf(x) && x > 0 ? " and finite" : "" : high);
}
