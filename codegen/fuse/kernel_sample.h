// Samples of a kernel's results by the rules of the evaluator (ir/eval/eval_rules.h), for --verify.
// They are computed from the operands before the compiled kernel runs.
#ifndef CODEGEN_KERNEL_SAMPLE_H
#define CODEGEN_KERNEL_SAMPLE_H

#include "codegen/fuse/kernel.h"
#include "ir/program/program.h"

// One element that statement `stmt` writes. The right value is within `bound` of `want`.
typedef struct KernelElement {
  int stmt;
  const char *at; // its address
  Dtype type;
  double want, bound;
  int64_t counter[MAX_LOOPS];
} KernelElement;

typedef struct KernelSample {
  const Kernel *kernel;
  uint32_t n; // entries of `element`
  KernelElement *element;
  uint32_t left_out; // results without samples: they take too long or have no definite value
} KernelSample;

// Computes samples of every result of k. Call it before the kernel runs, with the same `call`.
// Takes at most about 20 ms. Any thread may call it.
KernelSample *kernel_sample(Arena *a, const Kernel *k, const KernelCall *call);
// After the kernel has run: returns the first element beyond its bound, NULL: none. *got: the value
// in memory. *used is raised to the largest quotient |got - want| / bound of the samples.
const KernelElement *kernel_sample_wrong(const KernelSample *s, double *got, double *used);

#endif
