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
static uint32_t *number; // of each case: that of its kernel in the program

static bool has_long_rows(const Case *c) { return strstr(c->name, "long rows") != NULL; }

// Returns whether a case with long rows is divided among blocks of threads, as it should be.
static bool is_divided(Arena *a, const Case *c) {
  GpuPlan plan = gpu_plan_make(a, &c->k, &(GpuCodeOptions){.target = GPU_EMULATED});
  if (!has_long_rows(c) || plan.row_parts > 1) return true;
  printf("FAIL %s: %s\n", c->name, gpu_plan_print(a, &c->k, &plan));
  return false;
}

static bool wanted(const Case *c, int i, const char *only) {
  if (!only) return i % SAMPLE == 0 || has_long_rows(c);
  return !strcmp(only, "all") || strstr(c->name, only);
}

int main(int argc, char **argv) {
  Case *cases;
  kernel_cases_add(150);
  window_cases_add();
  row_cases_add();
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
  p->nkernels = 0;
  number = arena_array(a, uint32_t, n);
  for (int i = 0; i < n; i++) {
    number[i] = p->nkernels;
    if (wanted(&cases[i], i, argc > 1 ? argv[1] : NULL)) kernels[p->nkernels++] = kernels[i];
  }
  GpuRunner *r = gpu_runner_new(p, kernels, d);
  if (!r) {
    diag_print(d, stdout, false);
    return 1;
  }
  gpu_runner_header(r)->step = INTERP_STEP;
  gpu_runner_header(r)->seed = philox_seed(INTERP_SEED);
  for (int i = 0; i < n; i++) {
    if (!wanted(&cases[i], i, argc > 1 ? argv[1] : NULL)) continue;
    bool ok = is_divided(a, &cases[i]) && gpu_case_check(i, r, number[i]);
    if (!ok) printf("FAIL %s\n%s", cases[i].name, kernel_print(a, &cases[i].k));
    *(ok ? &passed : &failed) += 1;
  }
  gpu_runner_free(r);
  arena_free(a);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
