// A reference interpreter of Programs: kernels, products and collectives of all processors, in
// double, one element at a time, without LLVM and without the executor. Memory that nobody wrote
// holds NaN.
#ifndef TESTS_SUITE_COMMON_PROGRAM_INTERP_H
#define TESTS_SUITE_COMMON_PROGRAM_INTERP_H

#include "codegen/codegen.h"

typedef struct Interp Interp;
Interp *interp_new(Arena *a, const Compiled *c);
// Hands a tensor, whole and in declared order, to all blocks; reads one back. False: no such
// tensor.
MUST_USE bool interp_write(Interp *in, TensorKind kind, const char *name, const double *whole);
MUST_USE bool interp_read(Interp *in, TensorKind kind, const char *name, double *whole);
// Runs the program once; rows of the dim `over` as exec_rows. A broken rule of the Program as one
// sentence, else NULL.
const char *interp_run(Interp *in, int64_t step, int64_t rows);
// Whether a check wrote the status word.
bool interp_status(const Interp *in, Status *out);
void interp_free(Interp *in);

#endif
