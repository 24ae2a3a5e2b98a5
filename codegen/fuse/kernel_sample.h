// Elements of a kernel's results by the evaluator's rules (ir/eval/eval_rules.h), for --verify:
// what the compiled kernel must write, from the operands that it is about to get.
#ifndef CODEGEN_KERNEL_SAMPLE_H
#define CODEGEN_KERNEL_SAMPLE_H

#include "codegen/fuse/kernel.h"
#include "ir/program/program.h"

// One element that statement `stmt` writes; it may be off by `bound`.
typedef struct KernelElement {
  int stmt;
  const char *at; // in memory
  Dtype type;
  double want, bound;
  int64_t counter[MAX_LOOPS];
} KernelElement;

typedef struct KernelSample {
  const Kernel *kernel;
  uint32_t n, left_out; // left_out: results whose elements take too long, or may be anything
  KernelElement *element;
} KernelSample;

// Some elements of every result of k, before the kernel runs; `call` as it will be called. Takes
// about 20 ms at most. Any thread.
KernelSample *kernel_sample(Arena *a, const Kernel *k, const KernelCall *call);
// After it has run: the first element beyond its bound, NULL: none. *got gets what is in memory;
// *used the largest part of a bound that was used up.
const KernelElement *kernel_sample_wrong(const KernelSample *s, double *got, double *used);

#endif
