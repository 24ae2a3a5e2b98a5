// A reference interpreter of Programs: kernels, GEMMs and collectives of all processors, in double,
// one element at a time, without LLVM and without the executor. Memory that was never written
// contains NaN.
#ifndef TESTS_SUITE_COMMON_PROGRAM_INTERP_H
#define TESTS_SUITE_COMMON_PROGRAM_INTERP_H

#include "codegen/codegen.h"

typedef struct Interp Interp;
Interp *interp_new(Arena *a, const Compiled *c);
// interp_write copies a whole tensor, in declared order, to the blocks of all processors;
// interp_read reads one back. Both return false if there is no such tensor.
MUST_USE bool interp_write(Interp *in, TensorKind kind, const char *name, const double *whole);
MUST_USE bool interp_read(Interp *in, TensorKind kind, const char *name, double *whole);
// Runs the program once; `rows` is the extent of the dim `over`, as for exec_rows. Returns NULL, or
// the rule that the Program breaks as one sentence.
const char *interp_run(Interp *in, int64_t step, int64_t rows);
// Returns true if a check wrote the status word; *out gets it.
bool interp_status(const Interp *in, Status *out);
void interp_free(Interp *in);

#endif
