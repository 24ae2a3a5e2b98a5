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

int main(int argc, char **argv) {
  Case *cases;
  scatter_cases_add();
  int n = cases_all(&cases), passed = 0, failed = 0;
  if (n < 0) return 1;
  if (!code_available()) {
    printf("0 passed, 0 failed, %d skipped\n", n);
    return 0;
  }
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  Kernel **kernels;
  Program *p = cases_program(a, &kernels);
  GpuRunner *r = gpu_runner_new(p, kernels, d);
  if (!r) {
    diag_print(d, stdout, false);
    return 1;
  }
  for (int i = 0; i < n; i++) {
    if (argc > 1 && !strstr(cases[i].name, argv[1])) continue;
    bool ok = is_owned(a, &cases[i]) && gpu_case_check(i, r, (uint32_t)i);
    if (!ok) printf("FAIL %s\n%s", cases[i].name, kernel_print(a, &cases[i].k));
    *(ok ? &passed : &failed) += 1;
  }
  gpu_runner_free(r);
  arena_free(a);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
