// A plain interpreter of one kernel: kernel.h to the letter, one element at a time, floats in
// double.
#ifndef TESTS_KERNEL_INTERP_H
#define TESTS_KERNEL_INTERP_H

#include "codegen/fuse/kernel.h"

enum { MAX_INTERP_STMTS = 48, MAX_FOUND = 4096, INTERP_STEP = 17, INTERP_SEED = 5 };

typedef struct Value {
  double f;  // floats
  int64_t i; // others; u64 by its bits
} Value;

typedef struct KernelRun {
  const Kernel *k;
  const int64_t *slot;
  const double *num;
  char *const *mem;      // [pointer]
  int64_t at[MAX_LOOPS]; // counters
  Value value[MAX_INTERP_STMTS];
  Value *accum[MAX_INTERP_STMTS]; // of ACCUM statements, by place in the partial row
  int nfound;
  int64_t found[MAX_FOUND][2]; // values and positions that a check refuses
} KernelRun;

Value value_read(Dtype t, const char *p);
void value_write(Dtype t, char *p, Value v);
// Runs all units and puts the results of ACCUM statements in place. k, slot, num and mem are set,
// the rest is zero.
void kernel_interpret(KernelRun *r);

#endif
