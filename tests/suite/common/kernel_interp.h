// A plain interpreter of one kernel. It follows kernel.h literally, one element at a time, with
// floats in double.
#ifndef TESTS_KERNEL_INTERP_H
#define TESTS_KERNEL_INTERP_H

#include "codegen/fuse/kernel.h"

enum { MAX_INTERP_STMTS = 48, MAX_FOUND = 4096, INTERP_STEP = 17, INTERP_SEED = 5 };

typedef struct Value {
  double f;  // floats
  int64_t i; // other types; u64 by its bits
} Value;

typedef struct KernelRun {
  const Kernel *k;
  const int64_t *slot;
  const double *num;
  char *const *mem;      // [pointer]
  int64_t at[MAX_LOOPS]; // counters
  Value value[MAX_INTERP_STMTS];
  Value *accum[MAX_INTERP_STMTS]; // values of ACCUM statements, by position in the partial row
  int nfound;
  int64_t found[MAX_FOUND][2]; // values, and their positions, that a check refuses
} KernelRun;

Value value_read(Dtype t, const char *p);
void value_write(Dtype t, char *p, Value v);
// Runs all units and stores the results of ACCUM statements. The caller sets k, slot, num and mem;
// all other fields are zero.
void kernel_interpret(KernelRun *r);

#endif
