// Compares code for a GPU with a plain interpreter of kernels, on the emulator of GPU threads
// (tests/standin/emulator.h): the hand-made kernels of suite_kernels and suite_kernels_windows, and
// those with few rows of many elements (common/row_cases.c), which several blocks of threads must
// divide, and those with few columns (common/column_cases.c), which blocks must compute side by
// side. Each runs as one launch of two operand sets, with partial results and several blocks of
// threads where it has them; the emulator finds races, accesses out of bounds, and threads that do
// not meet.
//
//   suite_gpu_kernels [TEXT | all]   every SAMPLE-th case and those with long rows or columns;
//                                    those whose name contains TEXT; all
#include <stdio.h>
#include <string.h>

#include "codegen/gpu/gpu_internal.h"
#include "tests/suite/common/gpu_case.h"

enum { SAMPLE = 3 };

static bool has_long_rows(const Case *c) { return strstr(c->name, "long rows") != NULL; }
static bool has_long_columns(const Case *c) { return strstr(c->name, "long columns") != NULL; }

static bool wanted(const Case *c, int i, const char *only) {
  if (!only) return i % SAMPLE == 0 || has_long_rows(c) || has_long_columns(c);
  return !strcmp(only, "all") || strstr(c->name, only);
}

// Returns whether the rows are divided among blocks of threads, and the columns among the threads
// of a block, where they are long, and whether any GPU has the shared memory for that.
static bool is_divided(Arena *a, const Case *c) {
  GpuPlan plan = gpu_plan_make(a, &c->k, &(GpuCodeOptions){.target = GPU_EMULATED});
  bool rows = !has_long_rows(c) || plan.row_parts > 1,
       columns = !has_long_columns(c) || (plan.blocked && plan.team == TEAM_BLOCK);
  enum { OF_ANY_GPU = 48 << 10 };
  bool fits = gpu_plan_entry(a, &c->k, &plan, "run").shared <= OF_ANY_GPU;
  if (rows && columns && fits) return true;
  printf("FAIL %s: %s\n", c->name, gpu_plan_print(a, &c->k, &plan));
  return false;
}

int main(int argc, char **argv) {
  kernel_cases_add(150);
  window_cases_add();
  row_cases_add();
  column_cases_add();
  return gpu_cases_run(&(GpuSuite){wanted, is_divided}, argc > 1 ? argv[1] : NULL);
}
