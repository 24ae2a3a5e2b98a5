// A reference interpreter of Programs: kernels, GEMMs and collectives of all processors, in double,
// one element at a time, without LLVM and without the executor. Memory that was never written
// contains NaN.
#ifndef TESTS_SUITE_COMMON_PROGRAM_INTERP_H
#define TESTS_SUITE_COMMON_PROGRAM_INTERP_H

#include "tests/suite/common/gpu_launch.h"

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

// Runs kernel number k for n sets.
typedef void InterpLaunch(void *context, uint32_t k, int64_t grain, uint32_t n, GpuSet *set);
// Lets `launch` run kernels from now on, instead of the interpreter.
void interp_launch_by(Interp *in, InterpLaunch *launch, void *context);
// Returns the address of the work arena of processor r or, for t >= 0, of its block of tensor t;
// NULL if that has no memory of its own. *bytes gets its size.
void *interp_memory(const Interp *in, int64_t r, int32_t t, int64_t *bytes);

#endif
