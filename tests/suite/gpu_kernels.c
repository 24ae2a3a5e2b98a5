// Compares code for a GPU with a plain interpreter of kernels, on the emulator of GPU threads
// (tests/standin/emulator.h): the hand-made kernels of suite_kernels and suite_kernels_windows, and
// those with long rows.
// Each runs as one launch of two operand sets, with partial results and several blocks of threads
// where it has them; the emulator finds races, accesses out of bounds, and threads that do not
// meet.
//
//   suite_gpu_kernels [TEXT | all]   every SAMPLE-th case and those with long rows; those whose name contains TEXT; all
#include <stdio.h>
#include <string.h>

#include "codegen/gpu/gpu_internal.h"
#include "ir/base/philox.h"
#include "tests/suite/common/gpu_case.h"

enum { SAMPLE = 3 };

static bool wanted(const Case *c, int i, const char *only) {
  if (!only) return i % SAMPLE == 0;
  return !strcmp(only, "all") || strstr(c->name, only);
}

int main(int argc, char **argv) {
  kernel_cases_add(150);
  window_cases_add();
  return gpu_cases_run(&(GpuSuite){.wanted = wanted}, argc > 1 ? argv[1] : NULL);
}
