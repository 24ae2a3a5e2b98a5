// Cases of the kernel suites as code for a GPU, on the emulator of GPU threads.
#ifndef TESTS_SUITE_COMMON_GPU_CASE_H
#define TESTS_SUITE_COMMON_GPU_CASE_H

#include "tests/suite/common/gpu_launch.h"
#include "tests/suite/common/kernel_case.h"

// Runs case i, whose kernel has number `kernel` in the program of the runner, twice in one launch,
// and by the interpreter, and compares the results. Prints what differs.
bool gpu_case_check(int i, GpuRunner *r, uint32_t kernel);

#endif
