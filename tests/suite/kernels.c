// Compares machine code of hand-made kernels (common/kernel_cases.c) with a plain interpreter of
// kernels (common/kernel_interp.c), at every vector width.
//
//   suite_kernels [WIDTH [SEED]]   only that width; with other random kernels, and more
#include <stdlib.h>

#include "tests/suite/common/kernel_case.h"

int main(int argc, char **argv) {
  if (argc > 2) case_seed = strtoull(argv[2], NULL, 0);
  kernel_cases_add(argc > 2 ? 1000 : 150);
  return cases_run(argc, argv);
}
