// The stand-ins for NVIDIA's libraries (tests/standin), for suites that call the GPU code of the
// runtime in their own process.
#ifndef TESTS_SUITE_COMMON_STANDIN_H
#define TESTS_SUITE_COMMON_STANDIN_H

#include <stdbool.h>

// Loads the stand-ins that lie in the folder standin beside this program: what opens libcuda.so.1
// or libcublasLt.so.13 later gets them. Call it before anything else opens these libraries. Returns
// false, and prints why, if they cannot be loaded.
bool standin_load(void);

#endif
