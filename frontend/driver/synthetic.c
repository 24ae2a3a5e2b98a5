// Fills the inputs of a program with generated values, for commands that measure only its speed
// (bench).
#include "frontend/driver/session.h"

#include "ir/base/philox.h"

#include <math.h>
#include <stdlib.h>

// Returns the smallest size of a dim that the program indexes by computed values (Program.check),
// but at most 1000. Integer inputs below this size are valid indices everywhere in the program.
static int64_t smallest_range(const Program *p) {
  int64_t range = 1000;
  for (uint32_t i = 0; i < p->nchecks; i++)
    if (p->check[i].size > 0 && p->check[i].size < range) range = p->check[i].size;
  return range;
}

// Returns the generated value of element i: a point of a sine wave for floating-point types, else
// a random integer from 0 to range - 1. A model would learn labels that follow a pattern, until its
// gradients are denormal numbers, which CPUs multiply slowly.
static double number(const ProgTensor *t, int64_t i, int64_t range) {
  return dtype_is_float(t->type) ? sin(0.37 * (double)i)
                                 : (double)(philox_mix((uint64_t)i) % (uint64_t)range);
}

static void feed_one(Exec *e, const ProgTensor *t, int64_t range) {
  int64_t n = 1, each = dtype_bytes(t->type);
  for (int d = 0; d < t->rank; d++) n *= t->dim[d].whole;
  char *data = mem_alloc((size_t)(n * each) + 1);
  for (int64_t k = 0; k < n; k++)
    dtype_store(t->type, data + k * each, dtype_round(t->type, number(t, k, range)));
  exec_write(e, TENSOR_INPUT, t->name, t->type, data);
  free(data);
}

void synthetic_feed(Exec *e, const Program *p) {
  int64_t range = smallest_range(p);
  for (uint32_t i = 0; i < p->ntensors; i++)
    if (p->tensor[i].kind == TENSOR_INPUT) feed_one(e, &p->tensor[i], range);
}
