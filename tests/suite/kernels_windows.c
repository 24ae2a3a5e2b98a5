// Compares machine code of kernels with computed positions (common/window_cases.c) with a plain
// interpreter of kernels, at every vector width.
#include "tests/suite/common/kernel_case.h"

int main(int argc, char **argv) {
  window_cases_add();
  return cases_run(argc, argv);
}
