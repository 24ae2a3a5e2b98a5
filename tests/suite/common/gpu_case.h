// Cases of the kernel suites as code for a GPU, on the emulator of GPU threads.
#ifndef TESTS_SUITE_COMMON_GPU_CASE_H
#define TESTS_SUITE_COMMON_GPU_CASE_H

#include "tests/suite/common/gpu_launch.h"
#include "tests/suite/common/kernel_case.h"

// Runs case i, whose kernel has number `kernel` in the program of the runner, twice in one launch,
// and by the interpreter, and compares the results. Prints what differs.
bool gpu_case_check(int i, GpuRunner *r, uint32_t kernel);

// A suite that runs kernels on the emulator: those of the cases that were added (kernel_case.h).
typedef struct GpuSuite {
  // Returns whether case i of the list is run. only: the argument of the suite, or NULL.
  bool (*wanted)(const Case *c, int i, const char *only);
  // Returns whether the kernel is planned for a GPU as the suite expects, and prints the plan if it
  // is not. NULL: any plan is right.
  bool (*planned)(Arena *a, const Case *c);
} GpuSuite;
// Checks the cases, prints failures and the line of totals, and returns the exit code.
int gpu_cases_run(const GpuSuite *s, const char *only);

#endif
