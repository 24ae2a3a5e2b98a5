// Prints arrays for people: small ones in full, of large ones both ends of each axis.
#include "runtime/runtime.h"

#include <math.h>

// WHOLE: the most elements that an array may have to be printed in full. EDGE: the number of
// elements at either end of each axis that a larger array shows.
enum { WHOLE = ARRAY_WHOLE, EDGE = 3 };

static void print_number(FILE *out, const Array *x, const ClassNames *names, int64_t i) {
  double value = dtype_load(x->type, (const char *)x->data + i * dtype_bytes(x->type));
  const char *name = class_name(names, value);
  if (name)
    fprintf(out, "%s", name);
  else if (x->type == TYPE_BOOL)
    fprintf(out, "%s", value != 0 ? "true" : "false");
  else if (isnan(value))
    fprintf(out, "nan"); // not by %g, which may print "-nan"
  else if (dtype_is_float(x->type))
    fprintf(out, "%.6g", value);
  else
    fprintf(out, "%.0f", value);
}

static void print_axis(FILE *out, const Array *x, const ClassNames *names, int axis, int64_t at,
                       int64_t stride) {
  if (axis == x->rank) {
    print_number(out, x, names, at);
    return;
  }
  int64_t n = x->size[axis], step = stride / n;
  bool shortened = x->elements > WHOLE && n > 2 * EDGE, last = axis == x->rank - 1;
  fprintf(out, "[");
  for (int64_t i = 0; i < n; i++) {
    if (i && last)
      fprintf(out, ", ");
    else if (i)
      fprintf(out, "\n%*s", axis + 3, "");
    if (shortened && i == EDGE) {
      fprintf(out, "...");
      i = n - EDGE - 1;
      continue;
    }
    print_axis(out, x, names, axis + 1, at + i * step, step);
  }
  fprintf(out, "]");
}

// Prints the names of the positions along an axis, if it has a few of them.
static void print_positions(FILE *out, const ClassNames *c) {
  enum { FEW = 12 };
  if (!c->n || c->n > FEW) return;
  for (uint32_t i = 0; i < c->n; i++) fprintf(out, "%s%s", i ? ", " : ": ", c->name[i]);
}

void array_print_named(FILE *out, const char *name, const char *const *dim, const Array *x,
                       const ClassNames *element, const ClassNames *axis) {
  fprintf(out, "%s", name);
  for (int i = 0; i < x->rank; i++) {
    fprintf(out, "%s%s %lld", i ? ", " : " [", dim[i], (long long)x->size[i]);
    if (axis) print_positions(out, &axis[i]);
  }
  fprintf(out, "%s %s%s", x->rank ? "]" : "", dtype_text(x->type), x->rank ? "\n  " : " = ");
  print_axis(out, x, element, 0, 0, x->elements);
  fprintf(out, "\n");
}
