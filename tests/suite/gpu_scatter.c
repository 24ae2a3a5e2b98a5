// Compares scatters by owners of rows on a GPU (codegen/gpu/gpu_scatter.c) with a plain interpreter
// of kernels, on the emulator of GPU threads: the kernels of scatter_cases.c. The emulator finds
// races: two blocks that add to one element, or threads that read the bits of a run too early.
//
//   suite_gpu_scatter [TEXT]    only cases whose name contains TEXT
#include <stdio.h>
#include <string.h>

#include "codegen/gpu/gpu_internal.h"
#include "tests/suite/common/gpu_case.h"

static bool is_owned(Arena *a, const Case *c) {
  GpuPlan plan = gpu_plan_make(a, &c->k, &(GpuCodeOptions){.target = GPU_EMULATED});
  if (plan.team == TEAM_OWNERS) return true;
  printf("FAIL %s: %s\n", c->name, gpu_plan_print(a, &c->k, &plan));
  return false;
}

static bool wanted(const Case *c, int i, const char *only) {
  (void)i;
  return !only || strstr(c->name, only);
}

int main(int argc, char **argv) {
  scatter_cases_add();
  return gpu_cases_run(&(GpuSuite){wanted, is_owned}, argc > 1 ? argv[1] : NULL);
}
