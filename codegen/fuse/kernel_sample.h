// Computes samples of the results of a kernel for --verify, by the rules of the evaluator
// (ir/eval/eval_rules.h). They are computed from the operands before the compiled kernel runs, and
// compared with its results after it has run.
#ifndef CODEGEN_KERNEL_SAMPLE_H
#define CODEGEN_KERNEL_SAMPLE_H

#include "codegen/fuse/kernel.h"
#include "ir/program/program.h"

// A sampled element that statement `stmt` writes. A value is right if it differs from `want` by at
// most `bound`.
typedef struct KernelElement {
  int stmt;
  const char *at; // its address in memory
  Dtype type;
  double want, bound;
  int64_t counter[MAX_LOOPS];
} KernelElement;

typedef struct KernelSample {
  const Kernel *kernel;
  uint32_t n; // number of entries of `element`
  KernelElement *element;
  uint32_t left_out; // number of results without samples: too much work or no definite value
} KernelSample;

// Computes samples, expected values of a few elements, for every result of kernel k. Must be called
// before the kernel runs, with the same `call`. Takes at most about 20 ms. Any thread may call it.
KernelSample *kernel_sample(Arena *a, const Kernel *k, const KernelCall *call);
// Checks the samples after the kernel has run. Returns the first sample whose value in memory is
// beyond its bound, or NULL if all are right; *got is the value in memory. Raises *used to the
// largest quotient |got - want| / bound of the samples.
const KernelElement *kernel_sample_wrong(const KernelSample *s, double *got, double *used);

#endif
